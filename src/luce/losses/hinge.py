"""Ranking SVM: the hinge over pairs, exactly, by sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from luce.errors import SettingError
from luce.losses.logistic_pairs import room_for
from luce.losses.pair_kernels import HINGE, block, query_view
from luce.losses.pair_plan import BLOCK, CROSS, SELF, Graded
from luce.losses.pairwise import PairwiseLoss
from luce.numerics.radix import sort_with_order
from luce.numerics.segments import Chunk
from luce.types import FloatArray

__all__ = ["RankSVM"]


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
    code = HINGE
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
        self.ties = ties
        self.uses_ties = ties
        self.epsilon = float(epsilon)
        self.tie_grades = None if tie_grades is None else tuple(map(float, tie_grades))

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return ({"ties": True, "epsilon": self.epsilon} if self.ties else {}) | super().settings

    @property
    def tie_scale(self) -> float:
        """The half-width of the band in which ties cost nothing."""
        return self.epsilon

    def _run_graded(self, prepared: Graded, scores: FloatArray, chunk: Chunk, outputs: Any) -> None:
        values, by_t, grad, curvature = outputs
        by_t[:] = 0.0
        _queries(self.epsilon, prepared, scores, chunk[0], values, grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _queries(epsilon, target, scores, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    shape = epsilon, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    none = room_for(0)  # shared exponentials, which the hinge does not have
    for i in range(len(values)):
        q = first + i
        starts, rows, f = query_view(target, scores, q)
        f -= f.mean()  # sums of scores lose the fewest digits around their mean
        base = target.starts[target.queries[q]]
        weights = target.win_weight[base : base + len(f)], target.tie_weight[base : base + len(f)]
        g, c = np.zeros(len(rows)), np.zeros(len(rows) if len(curvature) else 0)
        # Of every finished run of tiers: its documents in ascending order of score, and the scores beside them.
        documents, ascending = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        spare = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        values[i] = 0.0
        for k in range(target.task_queries[q], target.task_queries[q + 1]):
            head, middle = target.tasks[k, 1] - target.queries[q], target.tasks[k, 2] - target.queries[q]
            last = target.tasks[k, 3] - target.queries[q]
            low, high = starts[head], starts[last]
            mine = documents[low:high], ascending[low:high]
            if target.tasks[k, 0] == CROSS:
                cut = starts[middle] - low
                better, worse = (mine[0][:cut], mine[1][:cut]), (mine[0][cut:], mine[1][cut:])
                values[i] += _hinge(better, worse, weights[0], g, c)
                if high - low < len(rows):
                    _merge(better, worse, spare)
                    mine[0][:], mine[1][:] = spare[0][: high - low], spare[1][: high - low]
                continue
            if target.tasks[k, 0] == BLOCK:
                values[i] += block(HINGE, shape, f, none, starts, head, last, weights, g, c)[0]
            tied = target.tasks[k, 0] == SELF and weights[1][low] > 0.0
            if tied or high - low < len(rows):  # a short query is one block, and needs no order
                sort_with_order(f[low:high], mine[0], mine[1])
                mine[0][:] += low
            if tied:
                values[i] += _band(mine, weights[1][low], epsilon, g, c)
        for k in range(len(rows)):
            grad[rows[k]] = g[k]
            if len(curvature):
                curvature[rows[k]] = c[k]


@njit(nogil=True, cache=True, error_model="numpy")
def _hinge(better, worse, weight, grad, curvature):  # type: ignore[no-untyped-def]
    # From the highest better document down, the worse ones within its margin only become more.
    total, near, sum_near = 0.0, len(worse[0]), 0.0
    for k in range(len(better[0]) - 1, -1, -1):
        score = better[1][k]
        while near > 0 and score - worse[1][near - 1] < 1.0:
            near -= 1
            sum_near += worse[1][near]
        i, count = better[0][k], len(worse[0]) - near
        total += weight[i] * (count * (1.0 - score) + sum_near)
        grad[i] -= weight[i] * count
        if len(curvature):
            curvature[i] += weight[i] * count
    near, sum_weight = 0, 0.0
    for k in range(len(worse[0])):
        while near < len(better[0]) and better[1][near] - worse[1][k] < 1.0:
            sum_weight += weight[better[0][near]]
            near += 1
        grad[worse[0][k]] += sum_weight
        if len(curvature):
            curvature[worse[0][k]] += sum_weight
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def _band(tier, weight, epsilon, grad, curvature):  # type: ignore[no-untyped-def]
    # Ties: from the lowest document up, those more than epsilon below it only become more; and the other way round.
    documents, scores = tier
    total, below, sum_below = 0.0, 0, 0.0
    for k in range(len(scores)):
        while scores[k] - scores[below] > epsilon:
            sum_below += scores[below]
            below += 1
        total += below * (scores[k] - epsilon) - sum_below
        grad[documents[k]] += weight * below
        if len(curvature):
            curvature[documents[k]] += weight * below
    above = len(scores)
    for k in range(len(scores) - 1, -1, -1):
        while scores[above - 1] - scores[k] > epsilon:
            above -= 1
        grad[documents[k]] -= weight * (len(scores) - above)
        if len(curvature):
            curvature[documents[k]] += weight * (len(scores) - above)
    return weight * total


@njit(nogil=True, cache=True, error_model="numpy")
def _merge(left, right, out):  # type: ignore[no-untyped-def]
    a, b = 0, 0
    for k in range(len(left[0]) + len(right[0])):
        if b == len(right[0]) or (a < len(left[0]) and left[1][a] <= right[1][b]):
            out[0][k], out[1][k] = left[0][a], left[1][a]
            a += 1
        else:
            out[0][k], out[1][k] = right[0][b], right[1][b]
            b += 1
