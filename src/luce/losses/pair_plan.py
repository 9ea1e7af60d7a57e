"""What a pairwise loss makes of its target: weighted pairs, from grades or listed one by one, and a plan of work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from luce.data.comparisons import Comparisons
from luce.numerics.segments import Tiers, query_index
from luce.types import FloatArray, IntArray

__all__ = ["BLOCK", "CROSS", "SELF", "Graded", "Listed", "count_pairs", "listed_pairs", "pairs_of_documents", "plan"]

BLOCK, CROSS, SELF = range(3)
"""Kinds of work in a plan: a few documents pair by pair, better tiers against worse ones, one long tier with itself."""


class Graded(NamedTuple):
    """Grades as tiers, with the weight of every pair and the plan of work.

    A pair of different grades weighs `win_weight` of its better document, a tied pair `tie_weight` (the same for the
    whole tier), both by position in `order`. Query q owns the tasks `task_queries[q]` to `task_queries[q + 1]`.
    """

    order: IntArray
    starts: IntArray
    queries: IntArray
    win_weight: FloatArray
    tie_weight: FloatArray
    tasks: IntArray
    task_queries: IntArray


class Listed(NamedTuple):
    """Explicit pairs, sorted by query: the first wins or, where `tied`, neither."""

    first: IntArray
    second: IntArray
    tied: IntArray
    weight: FloatArray
    queries: IntArray
    offsets: IntArray


def listed_pairs(target: Comparisons, offsets: IntArray, ties: bool) -> Listed:
    """The wins, those that ordered lists imply, and the ties if they are wanted."""
    wins, win_weight = target.all_wins(offsets)
    n_ties = len(target.ties) if ties else 0
    pairs = np.concatenate([wins, target.ties[:n_ties]])
    tie_weight = np.ones(n_ties) if target.tie_weight is None else target.tie_weight[:n_ties]
    tied = np.repeat(np.array([0, 1]), [len(wins), n_ties])
    query = query_index(offsets)[pairs[:, 0]]
    by_query = np.argsort(query, kind="stable")
    bounds = np.searchsorted(query[by_query], np.arange(len(offsets))).astype(np.int64)
    first, second = np.ascontiguousarray(pairs[by_query].T)
    weight = np.concatenate([win_weight, tie_weight])[by_query]
    return Listed(first, second, tied[by_query], weight, bounds, offsets)


def count_pairs(tiers: Tiers, tied: FloatArray) -> FloatArray:
    """Pairs of every query: those of different grades, and those of the tiers where `tied` is not 0.

    >>> count_pairs(Tiers(np.arange(4), np.array([0, 1, 3, 4]), np.array([0, 3])), np.ones(3)).tolist()
    [6.0]
    """
    sizes = np.diff(tiers.starts).astype(np.float64)
    within = sizes * (sizes - 1) / 2
    rows = np.diff(tiers.starts[tiers.queries]).astype(np.float64)
    left_out = np.concatenate([[0.0], np.cumsum(within * (tied == 0))])[tiers.queries]
    pairs: FloatArray = rows * (rows - 1) / 2 - np.diff(left_out)
    return pairs


def pairs_of_documents(target: Graded | Listed) -> FloatArray:
    """The weight of all pairs that a document is in, one a row.

    >>> pairs = listed_pairs(Comparisons(wins=[(0, 1), (0, 2)], ties=[(1, 2)]), np.array([0, 3]), ties=True)
    >>> pairs_of_documents(pairs).tolist()
    [2.0, 2.0, 2.0]
    """
    if isinstance(target, Listed):
        ends = np.concatenate([target.first, target.second])
        weight = np.concatenate([target.weight, target.weight])
        return np.bincount(ends, weight, int(target.offsets[-1])).astype(np.float64)
    n = len(target.order)
    tier = query_index(target.starts)
    query = query_index(target.starts[target.queries])
    first, last = target.starts[tier], target.starts[tier + 1]
    end = target.starts[target.queries[query + 1]]
    total = np.concatenate([[0.0], np.cumsum(target.win_weight)])
    better = total[first] - total[target.starts[target.queries[query]]]
    counts = np.empty(n)
    counts[target.order] = better + target.win_weight * (end - last) + target.tie_weight * (last - first - 1)
    return counts


@njit(nogil=True, cache=True, error_model="numpy")
def plan(starts, queries, short):  # type: ignore[no-untyped-def]
    """Cut the pairs of every query into tasks (kind, first tier, middle tier, last tier + 1), halves before wholes.

    Tiers are halved by documents until a half has one tier or at most `short` documents: every pair of different grades
    is then in exactly one CROSS or BLOCK, every tied pair in one SELF or BLOCK, and a document in O(log tiers) tasks.
    """
    tasks = np.empty((2 * (len(starts) - 1), 4), dtype=np.int64)
    ends = np.zeros(len(queries), dtype=np.int64)
    stack = np.empty((3 * len(starts) + 3, 3), dtype=np.int64)
    n = 0
    for q in range(len(queries) - 1):
        depth = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = queries[q], queries[q + 1], -1
        while depth:
            depth -= 1
            first, last, middle = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            size = starts[last] - starts[first]
            if middle >= 0:
                tasks[n, 0], tasks[n, 1], tasks[n, 2], tasks[n, 3] = CROSS, first, middle, last
                n += 1
            elif last - first == 1 or size <= short:
                tasks[n, 0], tasks[n, 1], tasks[n, 2], tasks[n, 3] = BLOCK if size <= short else SELF, first, last, last
                n += 1
            else:
                half = _middle(starts, first, last)
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = first, last, half
                stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = half, last, -1
                stack[depth + 2, 0], stack[depth + 2, 1], stack[depth + 2, 2] = first, half, -1
                depth += 3
        ends[q + 1] = n
    return tasks[:n].copy(), ends


@njit(nogil=True, cache=True, error_model="numpy")
def _middle(starts, first, last):  # type: ignore[no-untyped-def]
    # The boundary between tiers, neither the first nor the last one, that is nearest to half of the documents.
    half = (starts[first] + starts[last]) // 2
    tier = min(first + 1 + np.searchsorted(starts[first + 1 : last], half), last - 1)
    if tier - 1 > first and half - starts[tier - 1] < starts[tier] - half:
        tier -= 1
    return tier
