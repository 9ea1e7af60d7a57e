"""What a likelihood says about one query: probable orders and ties, and about many: how likely the outcomes were.

The chance of a tie between two documents sums over exponentially many sets that may remain before a stage, for which no
polynomial program is known. It is therefore estimated from exact independent draws, and its standard error comes
with it.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from luce.data.comparisons import Comparisons
from luce.data.order_files import graded_rows
from luce.errors import SettingError
from luce.losses.base import Likelihood, Loss, as_labels, check_scores
from luce.losses.cdn.loss import CDN
from luce.losses.cdn.order_probabilities import before_each_other
from luce.losses.pairwise import Davidson, LinkedLoss
from luce.losses.partition import PartitionLikelihood
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.tier_sizes import SizeModel
from luce.losses.top_sets import weighed_sets
from luce.losses.topk import HomOG, HomOO
from luce.numerics.compiled import kernel
from luce.numerics.segments import check_offsets
from luce.types import FloatArray, IntArray


class PairProbabilities(NamedTuple):
    """Probabilities for all pairs of documents of a query, from `samples` independent draws (0: exact).

    `tie[i, j]` is the chance that i and j are tied, `before[i, j]` that i is better than j;
    `tie + before + before.T` is 1 everywhere (the diagonal of `tie` is 1).
    """

    tie: FloatArray
    before: FloatArray
    samples: int

    @property
    def tie_error(self) -> FloatArray:
        """Standard errors of `tie`."""
        return _standard_error(self.tie, self.samples)

    @property
    def before_error(self) -> FloatArray:
        """Standard errors of `before`."""
        return _standard_error(self.before, self.samples)


def pair_probabilities(
    loss: Loss,
    scores: ArrayLike,
    rng: np.random.Generator,
    samples: int = 2000,
    sizes: SizeModel | None = None,
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
    if isinstance(loss, LinkedLoss):
        return _linked(loss, check_scores(scores))
    if isinstance(loss, CDN):
        before = before_each_other(loss, scores)
        return PairProbabilities(np.eye(len(before)), before, 0)
    if isinstance(loss, PlackettLuce):
        return _whole_order(check_scores(scores))
    if isinstance(loss, HomOO | HomOG) and sizes is None:
        f = check_scores(scores)
        k = loss.one_k(len(f))
        if k < len(f) and not loss.enumerable(len(f), k):
            sets = weighed_sets(loss.kind, f, k, rng, samples)
            return PairProbabilities(*sets.pairs(f), int(sets.effective))
    return pairs_of_draws(sample_rankings(loss, scores, rng, samples, sizes))


def pairs_of_draws(labels: FloatArray) -> PairProbabilities:
    """How often each pair of documents was tied, and in which order, in independent draws, a row of labels each.

    >>> pairs_of_draws(np.array([[2.0, 1.0], [1.0, 1.0]])).before.tolist()
    [[0.0, 0.5], [0.0, 0.0]]
    """
    samples, n = labels.shape
    tie, before = np.zeros((n, n)), np.zeros((n, n))
    _count_pairs(labels, tie, before)
    return PairProbabilities(tie / samples, before / samples, samples)


def _linked(loss: LinkedLoss, scores: FloatArray) -> PairProbabilities:
    if isinstance(loss, Davidson):
        tie, before, _ = loss.chances(scores[:, None], scores[None, :])
    else:
        difference = scores[:, None] - scores[None, :]
        tie, before = loss.tie_probability(difference), loss.pair_probability(difference)
    np.fill_diagonal(tie, 1.0)
    np.fill_diagonal(before, 0.0)
    return PairProbabilities(tie, before, 0)


def _whole_order(scores: FloatArray) -> PairProbabilities:
    before = expit(scores[:, None] - scores[None, :])
    np.fill_diagonal(before, 0.0)
    return PairProbabilities(np.eye(len(scores)), before, 0)


def sample_rankings(
    loss: Loss,
    scores: ArrayLike,
    rng: np.random.Generator,
    n: int,
    sizes: SizeModel | None = None,
) -> FloatArray:
    """Draw n outcomes of one query: a row of labels each, higher is better, equal labels are ties."""
    likelihood = _likelihood(loss, sizes)
    if n < 1:
        raise SettingError(f"{n} draws were asked for; at least 1 is needed.")
    if isinstance(likelihood, PartitionLikelihood):
        return likelihood.sample_many(scores, rng, n, sizes)
    return likelihood.sample_many(scores, rng, n)


def log_likelihoods(
    loss: Loss,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    sizes: SizeModel | None = None,
) -> FloatArray:
    """Log-probability of the outcome of every query, constants included.

    >>> import luce
    >>> log_likelihoods(luce.losses.get("pmop"), [0.0, 0.0, 1.0, 1.0], [1, 0, 0, 0], [0, 2, 4]).round(6).tolist()
    [-1.098612, -1.098612]
    """
    likelihood = _likelihood(loss, sizes)
    f = check_scores(scores)
    bounds = check_offsets([0, len(f)] if offsets is None else offsets, len(f))
    y = as_labels(loss, labels, bounds)
    queries = [(f[a:b], y[a:b]) for a, b in itertools.pairwise(bounds)]
    if isinstance(likelihood, PartitionLikelihood):
        return np.array([likelihood.log_prob(*query, sizes) for query in queries])
    return np.array([likelihood.log_prob(*query) for query in queries])


def list_likelihoods(
    loss: Loss, scores: ArrayLike, lists: Comparisons, offsets: IntArray, sizes: SizeModel | None = None
) -> FloatArray:
    """Log-probability of every ordered list, those of the first query first, constants included.

    A loss that takes lists has their likelihood as they stand. To any other a list is grades: its tiers, and below them
    what a top list leaves out.

    >>> import luce
    >>> lists = Comparisons.from_orders([[0], [1, 0]], top=True)
    >>> loss = luce.losses.get("topk_listmle", k=None)
    >>> np.exp(list_likelihoods(loss, [0.0, 0.0, 0.0], lists, np.array([0, 3]))).round(6).tolist()
    [0.333333, 0.166667]
    """
    likelihood = _likelihood(loss, sizes)
    f = check_scores(scores)
    if not likelihood.takes_comparisons:
        judged = graded_rows(lists, offsets)
        return log_likelihoods(loss, f[judged.rows], judged.grades, judged.offsets, sizes)
    found = [likelihood.log_prob(f[offsets[q] : offsets[q + 1]], one) for q, one in lists.one_by_one(offsets)]
    return np.array(found)


def _likelihood(loss: Loss, sizes: SizeModel | None) -> Likelihood:
    if not isinstance(loss, Likelihood):
        raise SettingError(f"The loss {loss.name!r} is not a likelihood of rankings; 'pmop' and 'plackett_luce' are.")
    if sizes is not None and not isinstance(loss, PartitionLikelihood):
        raise SettingError(f"The loss {loss.name!r} knows no tiers, so it cannot use fitted sizes; leave them out.")
    return loss


def _standard_error(p: FloatArray, n: int) -> FloatArray:
    if n == 0:
        return np.zeros_like(p)
    # Half a success and half a failure more: a chance that was never seen in n draws is not known without error.
    smoothed = (p * n + 0.5) / (n + 1)
    return np.sqrt(smoothed * (1 - smoothed) / n)


@kernel
def _count_pairs(labels, tie, before):  # type: ignore[no-untyped-def]
    n = labels.shape[1]
    for s in range(len(labels)):
        for i in range(n):
            for j in range(n):
                tie[i, j] += labels[s, i] == labels[s, j]
                before[i, j] += labels[s, i] > labels[s, j]
