"""The tied Plackett-Luce likelihood: an exponential race of which only the order of the tiers is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from luce.data.comparisons import Comparisons
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Filled, Outputs, Target, as_labels, check_scores, statements
from luce.losses.chances import PairProbabilities, TopKChances, exact_pairs, exact_top
from luce.losses.stages import Races, StageLoss
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp
from luce.numerics.races import chance_of_tier, chances_in_top, room_for_tiers
from luce.numerics.rows import accumulate_block, end_of_block, most_rows, score_rows, weigh_queries
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

EXACT, EFRON, BRESLOW = None, 1, 2
"""How a tier of several documents is treated: integrated over its orders, or by two well-known approximations.

Of None the compiler knows that no approximation is asked for, and passes it by.
"""


_METHODS = {"efron": EFRON, "breslow": BRESLOW}


class PlackettLuce(StageLoss):
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
        """The number (None for exact) of the treatment of ties in this file."""
        return _METHODS.get(self.ties, EXACT)

    def prepare(self, target: Target, offsets: IntArray) -> Races:
        """The races of every query: by grades, by lists, or by pieces of long queries."""
        if isinstance(target, Comparisons):
            return self._lists(target, offsets)
        keys = labels = as_labels(self, target, offsets)
        if self.ties in ("random", "stable"):  # grades without ties, in an order that agrees with the labels
            places = np.arange(len(labels))
            tie_break = places if self.ties == "stable" else np.random.default_rng(self.seed).permutation(len(labels))
            keys = np.empty(len(labels))
            keys[np.lexsort((tie_break, -labels, query_index(offsets)))] = -places
        return self._races(keys, labels, offsets)

    def _lists(self, target: Comparisons, offsets: IntArray) -> Races:
        for option in ("tier_gain", "cut"):
            if getattr(self, option) is not None:
                raise SettingError(f"{self.name}({option}=...) is for grades; ordered lists have none, leave it out.")
        if self.ties in ("random", "stable"):
            raise SettingError(f"{self.name}(ties={self.ties!r}) is for grades; lists with tiers take ties='exact'.")
        said = statements(self, target, offsets, pairs=False).closed()
        return Races(*said.as_tiers(), said.by_query, offsets, np.repeat(said.times, np.diff(said.chains)))

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian."""
        run_races(self.method, prepared, scores, out.arrays)

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the tiers of one query among all tiers of those sizes, however training treats ties."""
        self._refuse_weighed()
        f = check_scores(scores)
        value = np.empty(1)
        races = PlackettLuce().prepare(target, np.array([0, len(f)]))
        run_races(EXACT, races._replace(weights=np.empty(0)), f, Filled(0, value, np.empty_like(f), NOT_WANTED))
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


class ListMLE(PlackettLuce):
    """`plackett_luce` by its name of old: the likelihood of an order, and of all orders that agree where labels tie.

    >>> round(float(np.exp(ListMLE().log_prob([0.0, 0.0, 0.0], [3, 1, 2]))), 12)
    0.166666666667
    """

    name = "listmle"


def race_to_top(scores: FloatArray, k: int) -> TopKChances:
    """The chances to be among the first k under Luce's model: all of them where there are no more."""
    return exact_top(np.ones(len(scores)) if k >= len(scores) else chances_in_top(scores, k))


@kernel
def run_races(method, target, scores, out):  # type: ignore[no-untyped-def]
    """`one_race` for all races of the queries from `out.first` on, as many as there are values to fill."""
    first, values, grad, curvature = out
    last = first + len(values)
    begin, end = target.queries[first], target.queries[last]
    room = race_room(target.starts, target.races, begin, end)
    shift = np.int64(0)  # not the literal, for which all would be compiled once more
    for row in range(target.offsets[first], target.offsets[last]):
        grad[row] = 0.0
        if len(curvature):
            curvature[row] = 0.0
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(target.queries[first + i], target.queries[first + i + 1]):
            values[i] += _race_of(method, target, race, scores, shift, room, (grad, curvature))


@part
def _race_of(method, target, race, scores, shift, room, slopes):  # type: ignore[no-untyped-def]
    """`one_race` of the race of that number."""
    a, b = target.races[race], target.races[race + 1]
    weights = target.weights[a:b] if len(target.weights) else target.weights
    return one_race(method, scores, (target.order, target.starts[a : b + 1]), shift, weights, room, slopes)


@part
def race_room(starts, races, first, last):  # type: ignore[no-untyped-def]
    """Room for `one_race`, for the longest tier and the most stages of the races first to last."""
    most, longest = np.int64(1), np.int64(1)
    for race in range(first, last):
        most = max(most, races[race + 1] - races[race])
        for t in range(races[race], races[race + 1] - 1):
            longest = max(longest, starts[t + 1] - starts[t])
    return room_for_tiers(longest), np.empty((3, longest)), np.empty(most)


@part
def one_race(method, scores, tiers, shift, weights, room, slopes):  # type: ignore[no-untyped-def]
    """Value of the tiers `order[starts[k]:starts[k + 1]]`; adds to grad and, unless it is empty, to curvature.

    Row r of the data is entry `r - shift` of scores, grad and curvature, so that a caller may hold a block only.
    `weights` has one a tier, or none where all are 1.
    """
    (order, starts), (grad, curvature) = tiers, slopes
    stages, rooms, after = len(starts) - 1, room[0], room[2]
    running = -np.inf
    for k in range(stages - 1, 0, -1):
        running = _log_sum(running, scores, order, starts[k], starts[k + 1], shift)
        after[k - 1] = running
    # Over the stages so far, in units of what came after the last of them: what a share is multiplied by in the
    # gradient, and it and its square in the curvature, which is the diagonal of the Hessian.
    value, once, twice = 0.0, 0.0, 0.0
    for k in range(stages):
        if k > 0:
            for j in range(starts[k], starts[k + 1]):
                row = order[j] - shift
                share = fast_exp(scores[row] - after[k - 1])
                grad[row] += share * once
                if len(curvature):
                    curvature[row] += max(share * once - share * share * twice, 0.0)
        if k == stages - 1:
            break
        if k > 0:
            smaller = math.exp(after[k] - after[k - 1])
            once, twice = once * smaller, twice * smaller * smaller
        m = starts[k + 1] - starts[k]
        log_rates, pulls, bends = room[1][0, :m], room[1][1, :m], room[1][2, : m if len(curvature) else 0]
        for i in range(m):
            log_rates[i] = scores[order[starts[k] + i] - shift] - after[k]
        if method is None or m == 1:
            log_p, total, second = chance_of_tier(log_rates, pulls, bends, rooms)
        else:
            log_p, total, second = _approximate(log_rates, method == EFRON, pulls, bends)
        weight = weights[k] if len(weights) else 1.0
        value -= weight * log_p
        once, twice = once + weight * total, twice + weight * second
        for i in range(m):
            row = order[starts[k] + i] - shift
            grad[row] -= weight * pulls[i]
            if len(curvature):
                curvature[row] += weight * bends[i]
    return value


@part
def _log_sum(running, scores, order, first, last, shift):  # type: ignore[no-untyped-def]
    """Log of e^running plus the sum of e^f over a tier."""
    high, total = running, 0.0
    for j in range(first, last):
        high = max(high, scores[order[j] - shift])
    for j in range(first, last):
        total += fast_exp(scores[order[j] - shift] - high)
    return high + math.log(total + math.exp(running - high))


@part
def _approximate(log_rates, efron, slopes, bends):  # type: ignore[no-untyped-def]
    r"""What `chance_of_tier` gives, for $\prod_i r_i / \prod_l (1 + (1 - c_l) \sum_i r_i)$, $c_l = l/m$ or 0."""
    m, high, sums, total = len(log_rates), -np.inf, 0.0, 0.0
    for log_rate in log_rates:
        high = max(high, log_rate)
        sums += log_rate
    for log_rate in log_rates:
        total += math.exp(log_rate - high)
    log_rate = high + math.log(total)
    rate = math.exp(min(log_rate, 700.0))
    log_p, out, out_square, inside, inside_square = sums, 0.0, 0.0, 0.0, 0.0
    for stage in range(m):
        left = 1.0 - stage / m if efron else 1.0
        log_p -= math.log1p(left * rate) if log_rate < 700.0 else log_rate + math.log(left)
        p = 1.0 / (1.0 + left * rate)
        out, out_square = out + p, out_square + p * p
        inside, inside_square = inside + (1.0 - p), inside_square + (1.0 - p) ** 2
    for i in range(m):
        share = math.exp(log_rates[i] - log_rate)
        slopes[i] = 1.0 - share * inside
        if len(bends):
            bends[i] = max(share * inside - share * share * inside_square, 0.0)
    return log_p, out, out_square


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
                here += _race_of(method, races, race, scores, start, room, (d_scores, no_curvature))
            value += query_weight[i] * here
        total = weigh_queries(offsets, query_weight, q, end, d_scores, total)
        accumulate_block(X[start : offsets[end]], d_scores, grad)
        q = end
    return value, total
