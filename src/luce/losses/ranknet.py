"""RankNet: the logistic loss over pairs of documents that one is better than the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luce.data.comparisons import Comparisons
from luce.losses.base import NOT_WANTED, Loss, Target, as_tiers
from luce.numerics.segments import Chunk, Tiers, query_index
from luce.types import FloatArray, IntArray

__all__ = ["RankNet"]


class _Pairs(NamedTuple):
    better: IntArray
    worse: IntArray
    weight: FloatArray
    queries: IntArray
    offsets: IntArray


class RankNet(Loss):
    r"""Sum over pairs $i$ better than $j$ of $\log(1 + e^{-(f_i - f_j)})$; tied pairs are left out.

    The target is grades, or `Comparisons` with explicit preferences.

    >>> value, grad = RankNet().value_and_grad([0.0, 0.0], [1, 0])
    >>> round(value, 6), grad.tolist()
    (0.693147, [-0.5, 0.5])
    """

    name = "ranknet"
    takes_comparisons = True

    def prepare(self, target: Target, offsets: IntArray) -> Tiers | _Pairs:
        """Tiers of equal label, or the explicit pairs sorted by query."""
        if not isinstance(target, Comparisons):
            return as_tiers(self, target, offsets)
        pairs, weight = target.all_wins(offsets)
        query = query_index(offsets)[pairs[:, 0]]
        by_query = np.argsort(query, kind="stable")
        bounds = np.searchsorted(query[by_query], np.arange(len(offsets))).astype(np.int64)
        better, worse = np.ascontiguousarray(pairs[by_query].T)
        return _Pairs(better, worse, weight[by_query], bounds, offsets)

    def evaluate(
        self,
        prepared: Tiers | _Pairs,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        """One value a query; curvature is the sum over pairs of p (1 - p)."""
        values = np.empty(chunk[1] - chunk[0])
        if isinstance(prepared, _Pairs):
            _pairs(scores, *prepared, chunk[0], values, grad, curvature)
        else:
            _tiers(scores, *prepared, chunk[0], values, grad, curvature)
        return values


@njit(nogil=True, cache=True, error_model="numpy")
def _pair(scores, i, j, weight, grad, curvature):  # type: ignore[no-untyped-def]
    d = scores[i] - scores[j]
    # exp of a negative number only: right for any difference.
    e = np.exp(-abs(d))
    wrong = e / (1.0 + e) if d > 0 else 1.0 / (1.0 + e)
    grad[i] -= weight * wrong
    grad[j] += weight * wrong
    if len(curvature):
        both = weight * e / (1.0 + e) ** 2
        curvature[i] += both
        curvature[j] += both
    return weight * (np.log1p(e) + max(-d, 0.0))


@njit(nogil=True, cache=True, error_model="numpy")
def _tiers(scores, order, starts, queries, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        q = first + i
        values[i] = 0.0
        begin, end = starts[queries[q]], starts[queries[q + 1]]
        _clear(order[begin:end], grad, curvature)
        for t in range(queries[q], queries[q + 1]):
            for a in range(starts[t], starts[t + 1]):
                for b in range(starts[t + 1], end):
                    values[i] += _pair(scores, order[a], order[b], 1.0, grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _pairs(scores, better, worse, weight, queries, offsets, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        q = first + i
        values[i] = 0.0
        _clear(np.arange(offsets[q], offsets[q + 1]), grad, curvature)
        for p in range(queries[q], queries[q + 1]):
            values[i] += _pair(scores, better[p], worse[p], weight[p], grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _clear(rows, grad, curvature):  # type: ignore[no-untyped-def]
    for row in rows:
        grad[row] = 0.0
        if len(curvature):
            curvature[row] = 0.0
