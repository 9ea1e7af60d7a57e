"""Ranking SVM: the hinge over pairs, exactly, by sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from luce.checks import heard
from luce.errors import SettingError
from luce.losses.pair_plan import Graded, Here, Sums
from luce.losses.pair_sums import PairwiseLoss
from luce.numerics.compiled import kernel, part
from luce.numerics.radix import sort_with_order
from luce.numerics.segments import Chunk
from luce.types import FloatArray

_SHORT = 64
"""Documents up to which every pair is taken by itself."""
_LONG = 1024
"""Documents of a tier beyond which it is sorted by digits, in linear time, and not by merging."""


class RankSVM(PairwiseLoss):
    r"""Sum over pairs $i$ better than $j$ of $\max(0, 1 - (f_i - f_j))$.

    Tied pairs are left out, or with `ties=True` add an epsilon-insensitive term, $\max(0, |f_i - f_j| - \epsilon)$:
    documents of equal grade may differ by `epsilon` without a loss. `tie_grades` takes ties from these grades only.

    Long queries are exact too, in O(N log N): tiers are merged two by two like runs of a merge sort, and two sorted
    runs give all their pairs in one sweep. The hinge has no second derivative; as curvature each pair with a
    loss counts 1, the second derivative of the quadratic that touches it half a unit off the kink.

    >>> value, grad = RankSVM().value_and_grad([0.5, 0.0, 3.0], [1, 0, 0])
    >>> value, grad.tolist()
    (4.0, [-2.0, 1.0, 1.0])
    """

    name = "ranksvm"
    smooth = False

    def __init__(
        self,
        *,
        ties: bool = False,
        epsilon: float = 0.5,
        tie_grades: Sequence[float] | None = None,
        weighting: str = "all",
        position_weight: str | Sequence[float] | None = None,
    ) -> None:
        super().__init__(weighting=weighting, position_weight=position_weight)
        if not (np.isfinite(epsilon) and epsilon >= 0):
            raise SettingError(f"ranksvm(epsilon={epsilon}): epsilon must be a finite number of at least 0.")
        if tie_grades is not None and not ties:
            raise SettingError("tie_grades was given with ties=False; leave one of them out.")
        heard(self.name, {"epsilon": (epsilon, 0.5)}, ties, "ties=True")
        self.ties = ties
        self.uses_ties = ties
        self.epsilon = float(epsilon)
        self.tie_grades = None if tie_grades is None else tuple(map(float, tie_grades))

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return ({"ties": True, "epsilon": self.epsilon} if self.ties else {}) | super().settings

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """The hinge, its slope, 1 for a pair with a loss."""
        if tied:
            over = np.maximum(np.abs(d) - self.epsilon, 0.0)
            return np.stack([over, np.sign(d) * (over > 0.0), 1.0 * (over > 0.0), np.zeros_like(d)])
        # `d < 1` and not `1 - d > 0`: the sorted form asks the same question, so both count the same pairs.
        inside = 1.0 * (d < 1.0)
        return np.stack([(1.0 - d) * inside, -inside, inside, np.zeros_like(d)])

    def run_pairs(self, prepared: Graded, here: Here, chunk: Chunk, sums: Sums) -> None:
        """Fill what a pass over the pairs of some queries fills."""
        _queries(self.epsilon, *here, sums.values, sums.slopes, sums.bends)


@kernel
def _queries(epsilon, starts, queries, f, win_weight, tie_weight, values, slopes, bends):  # type: ignore[no-untyped-def]
    documents, ascending = np.empty(len(f), dtype=np.int64), np.empty(len(f))
    spare, spare_scores = np.empty(len(f), dtype=np.int64), np.empty(len(f))
    for q in range(len(values)):
        first, last = queries[q], queries[q + 1]
        begin, end = starts[first], starts[last]
        if end - begin <= _SHORT:
            values[q] = _pair_by_pair(epsilon, starts, first, last, f, win_weight, tie_weight, slopes, bends)
            continue
        mean = 0.0  # sums of scores lose the fewest digits around their mean
        for i in range(begin, end):
            mean += f[i] / (end - begin)
        for i in range(begin, end):
            documents[i], ascending[i] = i, f[i] - mean
        for tier in range(first, last):
            _sort_tier(documents, ascending, starts[tier], starts[tier + 1], spare, spare_scores)
            weight = tie_weight[starts[tier]]
            if weight > 0.0 and starts[tier + 1] - starts[tier] > 1:
                values[q] += _band(documents, ascending, starts[tier], starts[tier + 1], weight, epsilon, slopes, bends)
        width = 1
        while width < last - first:
            for tier in range(first, last - width, 2 * width):
                low, middle, high = starts[tier], starts[tier + width], starts[min(tier + 2 * width, last)]
                values[q] += _hinge(documents, ascending, low, middle, high, win_weight, slopes, bends)
                _merge(documents, ascending, low, middle, high, spare, spare_scores)
            width *= 2


@part
def _pair_by_pair(epsilon, starts, first, last, f, win_weight, tie_weight, slopes, bends):  # type: ignore[no-untyped-def]
    total, end = 0.0, starts[last]
    for tier in range(first, last):
        for i in range(starts[tier], starts[tier + 1]):
            for j in range(i + 1, end):
                d = f[i] - f[j]
                weight, over, slope = win_weight[i], 1.0 - d, -win_weight[i]
                inside = d < 1.0
                if j < starts[tier + 1]:
                    weight, over = tie_weight[i], abs(d) - epsilon
                    inside = over > 0.0
                    slope = weight if d > 0.0 else -weight
                if inside and weight > 0.0:
                    total += weight * over
                    slopes[i] += slope
                    slopes[j] -= slope
                    if len(bends):
                        bends[i] += weight
                        bends[j] += weight
    return total


@part
def _hinge(documents, ascending, low, middle, high, weight, slopes, bends):  # type: ignore[no-untyped-def]
    """Better documents, places low to middle, against worse ones, middle to high, both ascending by score."""
    # From the highest better document down, the worse ones within its margin only become more.
    total, near, sum_near = 0.0, high, 0.0
    for k in range(middle - 1, low - 1, -1):
        while near > middle and ascending[k] - ascending[near - 1] < 1.0:
            near -= 1
            sum_near += ascending[near]
        i, count = documents[k], high - near
        total += weight[i] * (count * (1.0 - ascending[k]) + sum_near)
        slopes[i] -= weight[i] * count
        if len(bends):
            bends[i] += weight[i] * count
    near, sum_weight = low, 0.0
    for k in range(middle, high):
        while near < middle and ascending[near] - ascending[k] < 1.0:
            sum_weight += weight[documents[near]]
            near += 1
        slopes[documents[k]] += sum_weight
        if len(bends):
            bends[documents[k]] += sum_weight
    return total


@part
def _band(documents, ascending, low, high, weight, epsilon, slopes, bends):  # type: ignore[no-untyped-def]
    """Ties of one tier, places low to high, ascending by score."""
    # From the lowest document up, those more than epsilon below it only become more; and the other way round.
    total, below, sum_below = 0.0, low, 0.0
    for k in range(low, high):
        while ascending[k] - ascending[below] > epsilon:
            sum_below += ascending[below]
            below += 1
        total += (below - low) * (ascending[k] - epsilon) - sum_below
        slopes[documents[k]] += weight * (below - low)
        if len(bends):
            bends[documents[k]] += weight * (below - low)
    above = high
    for k in range(high - 1, low - 1, -1):
        while ascending[above - 1] - ascending[k] > epsilon:
            above -= 1
        slopes[documents[k]] -= weight * (high - above)
        if len(bends):
            bends[documents[k]] += weight * (high - above)
    return weight * total


@part
def _sort_tier(documents, ascending, begin, end, spare, spare_scores):  # type: ignore[no-untyped-def]
    if end - begin > _LONG:
        sort_with_order(ascending[begin:end], spare[begin:end], spare_scores[begin:end])
        for k in range(begin, end):
            documents[k], ascending[k] = begin + spare[k], spare_scores[k]
        return
    width = 1
    while width < end - begin:
        for low in range(begin, end - width, 2 * width):
            _merge(documents, ascending, low, low + width, min(low + 2 * width, end), spare, spare_scores)
        width *= 2


@part
def _merge(documents, ascending, low, middle, high, spare, spare_scores):  # type: ignore[no-untyped-def]
    """Two ascending runs become one."""
    a, b = low, middle
    for k in range(low, high):
        if b == high or (a < middle and ascending[a] <= ascending[b]):
            spare[k], spare_scores[k] = documents[a], ascending[a]
            a += 1
        else:
            spare[k], spare_scores[k] = documents[b], ascending[b]
            b += 1
    for k in range(low, high):
        documents[k], ascending[k] = spare[k], spare_scores[k]
