"""Rank regression: the square over pairs, exactly, by moments."""

from __future__ import annotations

from typing import Any

from numba import njit

from luce.losses.pair_kernels import SQUARE, query_view
from luce.losses.pair_plan import Graded
from luce.losses.pairwise import PairwiseLoss
from luce.numerics.segments import Chunk
from luce.types import FloatArray

__all__ = ["RankRegress"]


class RankRegress(PairwiseLoss):
    r"""Sum over pairs $i$ better than $j$ of $(1 - (f_i - f_j))^2$; tied pairs are left out.

    A square over pairs is moments: $\sum_i w_i (u_i + f_j)^2 = S_2 + 2 f_j S_1 + f_j^2 S_0$ with $u_i = 1 - f_i$ and
    $S_k = \sum_i w_i u_i^k$ over the better documents. Two sweeps over the tiers, O(N), exact.

    >>> value, grad = RankRegress().value_and_grad([0.5, 0.0, 0.0], [1, 0, 0])
    >>> value, grad.tolist()
    (0.5, [-2.0, 1.0, 1.0])
    """

    name = "rank_regress"
    code = SQUARE

    def _run_graded(self, prepared: Graded, scores: FloatArray, chunk: Chunk, outputs: Any) -> None:
        values, by_t, grad, curvature = outputs
        by_t[:] = 0.0
        _queries(prepared, scores, chunk[0], values, grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _queries(target, scores, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        q = first + i
        tiers, rows, f = query_view(target, scores, q)
        f -= f.mean()  # moments lose the fewest digits around the mean
        base = target.starts[target.queries[q]]
        values[i] = _one_query(f, rows, tiers, target.win_weight[base : base + len(f)], grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _one_query(f, rows, tiers, weight, grad, curvature):  # type: ignore[no-untyped-def]
    value, zeroth, first, second = 0.0, 0.0, 0.0, 0.0
    for k in range(len(tiers) - 1):
        for j in range(tiers[k], tiers[k + 1]):
            value += second + 2.0 * f[j] * first + f[j] * f[j] * zeroth
            grad[rows[j]] = 2.0 * (first + f[j] * zeroth)
            if len(curvature):
                curvature[rows[j]] = 2.0 * zeroth
        for i in range(tiers[k], tiers[k + 1]):
            u = 1.0 - f[i]
            zeroth += weight[i]
            first += weight[i] * u
            second += weight[i] * u * u
    below, sum_below = 0, 0.0
    for k in range(len(tiers) - 2, -1, -1):
        for i in range(tiers[k], tiers[k + 1]):
            grad[rows[i]] -= 2.0 * weight[i] * (below * (1.0 - f[i]) + sum_below)
            if len(curvature):
                curvature[rows[i]] += 2.0 * weight[i] * below
        for i in range(tiers[k], tiers[k + 1]):
            sum_below += f[i]
        below += tiers[k + 1] - tiers[k]
    return value
