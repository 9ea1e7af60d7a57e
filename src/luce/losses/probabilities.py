"""Questions to a likelihood about one query, and about many: how likely the outcomes were.

The chance of a tie between two documents sums over exponentially many sets that may remain before a stage, for which no
polynomial program is known. It is therefore estimated from exact independent draws, and its standard error comes
with it. Each loss answers by methods of its own; these functions ask any.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import fits_in_memory, whole
from luce.data.comparisons import Comparisons
from luce.data.statements import Statements, graded_rows
from luce.errors import SettingError
from luce.losses.base import Likelihood, Loss, as_labels, check_scores
from luce.losses.chances import PairProbabilities, TopKChances
from luce.losses.tier_sizes import SizeModel
from luce.numerics.segments import check_offsets
from luce.types import FloatArray, IntArray


def pair_probabilities(
    loss: Loss, scores: ArrayLike, rng: np.random.Generator, samples: int = 2000, sizes: SizeModel | None = None
) -> PairProbabilities:
    """Chances of ties and preferences between the documents of one query.

    A paired-comparison loss has them in closed form, and so have a `cdn` and Luce's model of a whole order
    ($P(i$ before $j) = e^{f_i} / (e^{f_i} + e^{f_j})$), without ties. `hom_oo` and `hom_og` beyond enumeration have
    them from weighted draws, and `samples` is then how many are effective. Any other likelihood is sampled, with
    `sizes`, a fitted model of the sizes of tiers, or None to leave them to the loss. Of a top-k model, documents below
    the top are tied.

    >>> import luce
    >>> p = pair_probabilities(luce.losses.get("pmop_exact"), [0.0, 0.0], np.random.default_rng(0), samples=20_000)
    >>> bool(abs(p.tie[0, 1] - 1 / 3) < 4 * p.tie_error[0, 1])
    True
    """
    if sizes is not None or not hasattr(loss, "pair_chances"):
        _likelihood(loss, sizes)
    f = check_scores(scores)
    fits_in_memory(32.0 * len(f) ** 2, f"Chances of the pairs of {len(f):,} documents", "ask for fewer documents")
    chances: PairProbabilities = loss.pair_chances(f, rng, samples, sizes)  # type: ignore[attr-defined]
    return chances


def topk_probability(loss: Loss, scores: ArrayLike, k: int, rng: np.random.Generator | int = 0) -> FloatArray:
    """P(in the top k) of every document of one query; they sum to k, or to n where the query has fewer.

    As `topk_chances` has them, without their errors; `rng` serves the models that are sampled.

    >>> import luce
    >>> topk_probability(luce.losses.get("listmle"), [np.log(2), 0.0, 0.0], 1).round(12).tolist()
    [0.5, 0.25, 0.25]
    """
    return topk_chances(loss, scores, k, rng).probability


def topk_chances(
    loss: Loss, scores: ArrayLike, k: int, rng: np.random.Generator | int = 0, draws: int = 4000
) -> TopKChances:
    r"""P(in the top k) of every document of one query, with standard errors.

    Exact for Luce's model (`listmle`, `topk_listmle`, and `davidson` by its `race_scale`). For a hierarchical ordering
    model it is the chance to be in T with $|T| = k$: for `hom_gg` $s_i + \frac{k-1}{n-1}(1 - s_i)$ with $s$ the
    softmax of the scores. `hom_oo` and `hom_og` enumerate the sets of k documents up to 100,000 of them;
    beyond, `draws` weighted sets are drawn.

    >>> import luce
    >>> chances = topk_chances(luce.losses.get("hom_og"), np.zeros(40), 10)
    >>> bool(np.all(abs(chances.probability - 0.25) <= 5 * chances.error)), chances.draws
    (True, 4000)
    """
    f, k = check_scores(scores), whole("k", k, 1)
    if not hasattr(loss, "top_chances"):
        raise SettingError(
            f"The loss {loss.name!r} has no top-k probabilities; 'plackett_luce', 'topk_listmle', 'davidson' and the "
            "'hom' losses have."
        )
    chances: TopKChances = loss.top_chances(f, k, np.random.default_rng(rng), draws)
    return chances


def of_length(loss: Loss, k: int) -> Loss:
    """The same loss with a top of k documents, for losses that have a top."""
    if not hasattr(loss, "of_length"):
        raise SettingError(f"k is the length of the top of a top-k loss, and {loss.name!r} is none; leave it out.")
    found: Loss = loss.of_length(k)
    return found


def sample_rankings(
    loss: Loss, scores: ArrayLike, rng: np.random.Generator, n: int, sizes: SizeModel | None = None
) -> FloatArray:
    """Draw n outcomes of one query: a row of labels each, higher is better, equal labels are ties."""
    likelihood = _likelihood(loss, sizes)
    if n < 1:
        raise SettingError(f"{n} draws were asked for; at least 1 is needed.")
    return likelihood.sample_many(scores, rng, n, sizes)


def log_likelihoods(
    loss: Loss, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike | None = None, sizes: SizeModel | None = None
) -> FloatArray:
    """Log-probability of the outcome of every query, constants included.

    >>> import luce
    >>> log_likelihoods(luce.losses.get("pmop"), [0.0, 0.0, 1.0, 1.0], [1, 0, 0, 0], [0, 2, 4]).round(6).tolist()
    [-1.098612, -1.098612]
    """
    likelihood = _likelihood(loss, sizes)
    given: dict[str, Any] = {} if sizes is None else {"sizes": sizes}
    f = check_scores(scores)
    bounds = check_offsets([0, len(f)] if offsets is None else offsets, len(f))
    y = as_labels(loss, labels, bounds)
    queries = [(f[a:b], y[a:b]) for a, b in itertools.pairwise(bounds)]
    return np.array([likelihood.log_prob(*query, **given) for query in queries])


def list_likelihoods(
    loss: Loss, scores: ArrayLike, lists: Comparisons, offsets: IntArray, sizes: SizeModel | None = None
) -> FloatArray:
    """Log-probability of every ordered list, those of the first query first, constants included; or of every pair.

    A loss that takes lists has their likelihood as they stand. To any other a list is grades: its tiers, and below them
    what a top list leaves out. A pair has that of `pair_probabilities`.

    >>> import luce
    >>> lists = Comparisons.from_orders([[0], [1, 0]], top=True)
    >>> loss = luce.losses.get("topk_listmle", k=None)
    >>> np.exp(list_likelihoods(loss, [0.0, 0.0, 0.0], lists, np.array([0, 3]))).round(6).tolist()
    [0.333333, 0.166667]
    """
    f = check_scores(scores)
    if lists.holds_pairs:
        return _pair_likelihoods(loss, f, lists, offsets, sizes)
    likelihood = _likelihood(loss, sizes)
    if not likelihood.takes_comparisons:
        judged = graded_rows(lists, offsets)
        return log_likelihoods(loss, f[judged.rows], judged.grades, judged.offsets, sizes)
    found = [likelihood.log_prob(f[offsets[q] : offsets[q + 1]], one) for q, one in lists.one_by_one(offsets)]
    return np.array(found)


def _pair_likelihoods(
    loss: Loss, f: FloatArray, pairs: Comparisons, offsets: IntArray, sizes: SizeModel | None
) -> FloatArray:
    """Of every win and tie, as `Statements` has them, by the chances of the pairs of its query."""
    if pairs.n_orders:
        raise SettingError("The comparisons hold pairs and lists; ask for the likelihoods of one kind at a time.")
    said = Statements.of_comparisons(pairs, offsets)
    first, second = said.rows.reshape(-1, 2).T
    tied, bounds = said.equal[said.chains[:-1]], said.by_query
    found, rng = np.empty(len(first)), np.random.default_rng(0)
    for q in np.flatnonzero(np.diff(bounds)).tolist():
        here, rows = slice(bounds[q], bounds[q + 1]), slice(offsets[q], offsets[q + 1])
        chances = pair_probabilities(loss, f[rows], rng, sizes=sizes)
        i, j = first[here] - rows.start, second[here] - rows.start
        found[here] = np.where(tied[here], chances.tie[i, j], chances.before[i, j])
    with np.errstate(divide="ignore"):  # a tie under a model without ties
        return np.log(found)


def _likelihood(loss: Loss, sizes: SizeModel | None) -> Likelihood:
    if not isinstance(loss, Likelihood):
        raise SettingError(f"The loss {loss.name!r} is not a likelihood of rankings; 'pmop' and 'plackett_luce' are.")
    if sizes is not None and not loss.knows_tiers:
        raise SettingError(f"The loss {loss.name!r} knows no tiers, so it cannot use fitted sizes; leave them out.")
    return loss
