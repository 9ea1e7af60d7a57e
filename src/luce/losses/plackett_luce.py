"""The tied Plackett-Luce likelihood: an exponential race of which only the order of the tiers is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from luce.data.comparisons import Comparisons
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Outputs, Target, as_labels, check_scores
from luce.losses.chances import PairProbabilities, TopKChances, exact_pairs
from luce.losses.partition import StagedLikelihood
from luce.losses.races import (
    BRESLOW,
    EFRON,
    EXACT,
    Races,
    from_lists,
    one_race,
    race_room,
    race_to_top,
    run_races,
)
from luce.numerics.compiled import kernel
from luce.numerics.rows import accumulate_block, end_of_block, most_rows, score_rows, weigh_queries
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

_METHODS = {"efron": EFRON, "breslow": BRESLOW}


class PlackettLuce(StagedLikelihood):
    r"""Document i arrives at an exponential time of rate $\phi_i = e^{f_i}$; better tiers arrive first.

    Nothing is said of the order inside a tier, so that all orders that agree with the tiers $X_1 \succ \dots \succ X_K$
    are summed. The race has no memory, and the sum is a product over stages, with $R_k$ what comes after $X_k$,

    $$-\log p = -\sum_{k < K} \log \int_0^\infty e^{-t} \prod_{i \in X_k} (1 - e^{-r_i t})\, dt,
      \qquad r_i = \phi_i \Big/ \sum_{j \in R_k} \phi_j,$$

    which takes linear time and is right to about 1e-11 (`luce.numerics.races`). Survival analysis knows it as the
    exact treatment of ties in Cox's model (Kalbfleisch and Prentice, 1973; the integral is DeLong's, 1994).
    Without ties it is ListMLE; with everything else as the last tier it is the likelihood of a top-k list, of a
    shortlist, or of a race with dead heats. The tiers of given sizes have probabilities that sum to 1. The value is
    convex in the scores; curvature is the diagonal of its Hessian.

    Parameters
    ----------
    ties
        `"exact"` as above. `"efron"` and `"breslow"` are the well-known approximations of the same, cheaper and not
        probabilities. `"random"` breaks ties by one order, drawn by `seed` for a data set, and `"stable"` by the order
        of the input, which rewards whatever order a file has: both are there for comparison.
    tier_gain
        A base b > 1 weighs tier k by $b^{y_k} - b^{y_{k+1}}$, the difference of the gains of its grade and the next:
        a composite likelihood, for those who are judged by NDCG, without a `log_prob`. None weighs all alike.
    cut
        Cuts queries that are longer into random pieces of at most so many documents, each a race of its own. All
        documents are kept. None takes queries whole.
    seed
        Of the drawn order, and of the cuts.

    >>> loss = PlackettLuce()
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0, 0.0, 0.0], [1, 1, 0, 0]))), 12)  # one of the 6 pairs comes first
    0.166666666667
    """

    name = "plackett_luce"
    outcome = "order"
    takes_comparisons = True

    ties: Literal["exact", "efron", "breslow", "random", "stable"] = "exact"

    def _check(self) -> None:
        super()._check()
        self.permutation_invariant = self.cut is None and self.ties not in ("random", "stable")

    @property
    def _draws(self) -> bool:
        return self.cut is not None or self.ties == "random"

    @property
    def linear_pass(self) -> Any:
        """For races of any kind."""
        return partial(_races_pass, self.method)

    @property
    def method(self) -> int | None:
        """The number (None for exact) of the treatment of ties in `luce.losses.races`."""
        return _METHODS.get(self.ties, EXACT)

    def prepare(self, target: Target, offsets: IntArray) -> Races:
        """The races of every query: by grades, by lists, or by pieces of long queries."""
        if isinstance(target, Comparisons):
            return self._lists(target, offsets)
        labels = as_labels(self, target, offsets)
        keys = labels if self.ties not in ("random", "stable") else self._broken(labels, offsets)
        (order, starts, tiers), firsts, weights = self._pieces(keys, labels, offsets)
        return Races(order, starts, tiers, firsts, offsets, weights)

    def _lists(self, target: Comparisons, offsets: IntArray) -> Races:
        for option in ("tier_gain", "cut"):
            if getattr(self, option) is not None:
                raise SettingError(f"{self.name}({option}=...) is for grades; ordered lists have none, leave it out.")
        if self.ties in ("random", "stable"):
            raise SettingError(f"{self.name}(ties={self.ties!r}) is for grades; lists with tiers take ties='exact'.")
        return from_lists(self.name, target, offsets)

    def _broken(self, labels: FloatArray, offsets: IntArray) -> FloatArray:
        """Grades without ties, in an order that agrees with the labels."""
        tie_break = np.arange(len(labels))
        if self.ties == "random":
            tie_break = np.random.default_rng(self.seed).permutation(len(labels))
        broken = np.empty(len(labels))
        broken[np.lexsort((tie_break, -labels, query_index(offsets)))] = -np.arange(len(labels))
        return broken

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian."""
        run_races(self.method, prepared, scores, *out.arrays)

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the tiers of one query among all tiers of those sizes, however training treats ties."""
        self._refuse_weighed()
        f = check_scores(scores)
        value = np.empty(1)
        races = PlackettLuce().prepare(target, np.array([0, len(f)]))
        run_races(EXACT, races._replace(weights=np.empty(0)), f, 0, value, np.empty_like(f), NOT_WANTED)
        return -float(value[0])

    def sample(self, scores: ArrayLike, rng: np.random.Generator, sizes: Sequence[int] | None = None) -> FloatArray:
        """Draw an order, as labels, higher is better; with `sizes` of tiers, best first, its cut into those tiers.

        Sorting scores plus Gumbel noise draws from Plackett-Luce.

        >>> sorted(PlackettLuce().sample([0.3, 0.0, 2.0], np.random.default_rng(0), sizes=[2, 1]).tolist())
        [1.0, 2.0, 2.0]
        """
        noisy = check_scores(scores) + rng.gumbel(size=np.shape(scores))
        n = len(noisy)
        given = np.ones(n, dtype=np.int64) if sizes is None else np.asarray(sizes)
        if given.ndim != 1 or given.dtype.kind != "i" or np.any(given < 1) or given.sum() != n:
            raise SettingError(f"sizes is {sizes!r}; give whole numbers of at least 1 that sum to the {n} documents.")
        labels = np.empty(n)
        labels[np.argsort(-noisy)] = np.repeat(np.arange(len(given), 0.0, -1.0), given)
        return labels

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        r"""$P(i$ before $j) = e^{f_i} / (e^{f_i} + e^{f_j})$, without ties."""
        return exact_pairs(np.eye(len(scores)), expit(scores[:, None] - scores[None, :]))

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """Exact, by a race."""
        return race_to_top(scores, k)


@kernel
def _races_pass(method, races, X, weights, offsets, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    scores = np.empty(most_rows(offsets, first, last, block_rows))
    d_scores, no_curvature = np.empty(len(scores)), np.empty(0)
    room = race_room(races.starts, races.races, races.queries[first], races.queries[last])
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], end_of_block(offsets, q, last, block_rows)
        score_rows(X[start : offsets[end]], weights, scores)
        for j in range(offsets[end] - start):
            d_scores[j] = 0.0
        for i in range(q, end):
            here = 0.0
            for race in range(races.queries[i], races.queries[i + 1]):
                a, b = races.races[race], races.races[race + 1]
                own = races.weights[a:b] if len(races.weights) else races.weights
                cuts = races.starts[a : b + 1]
                here += one_race(method, scores, races.order, cuts, start, own, room, d_scores, no_curvature)
            value += query_weight[i] * here
        total = weigh_queries(offsets, query_weight, q, end, d_scores, total)
        accumulate_block(X[start : offsets[end]], d_scores, grad)
        q = end
    return value, total


class ListMLE(PlackettLuce):
    """`plackett_luce` by its name of old: the likelihood of an order, and of all orders that agree where labels tie.

    >>> round(float(np.exp(ListMLE().log_prob([0.0, 0.0, 0.0], [3, 1, 2]))), 12)
    0.166666666667
    """

    name = "listmle"
