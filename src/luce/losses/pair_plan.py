"""What a pairwise loss makes of its target: weighted pairs, from grades or listed one by one, and a plan of work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.data.comparisons import Comparisons
from luce.numerics.segments import Chunk, Tiers, query_index
from luce.types import FloatArray, IntArray

BLOCK, CROSS, SELF = range(3)
"""Kinds of work in a plan: a few documents pair by pair, better tiers against worse ones, one long tier with itself."""


class Graded(NamedTuple):
    """Grades as tiers, with the weight of every pair and the plan of work.

    A pair of different grades weighs `win_weight` of its better document, a tied pair `tie_weight` (the same for the
    whole tier), both by position in `order`. Query q owns the tasks `task_queries[q]` to `task_queries[q + 1]`, none
    where it is short.
    """

    order: IntArray
    starts: IntArray
    queries: IntArray
    win_weight: FloatArray
    tie_weight: FloatArray
    tasks: IntArray
    task_queries: IntArray


class Here(NamedTuple):
    """A run of queries by position: where tiers start, which tiers a query starts with, scores, weights of pairs."""

    starts: IntArray
    queries: IntArray
    f: FloatArray
    win_weight: FloatArray
    tie_weight: FloatArray

    def part(self, edges: IntArray, ties: bool) -> Here:
        """Documents of one query between these edges as tiers, with their ties or without."""
        here = slice(edges[0], edges[-1])
        tie_weight = self.tie_weight[here] if ties else np.zeros(edges[-1] - edges[0])
        bounds = np.array([0, len(edges) - 1])
        return Here(edges - edges[0], bounds, self.f[here], self.win_weight[here], tie_weight)


class Sums(NamedTuple):
    """What a pass over the pairs of some queries fills: a value and a derivative in the tie parameter for each query,
    and what is added to the slope and, unless there is no room, to the bend of each document."""

    values: FloatArray
    by_t: FloatArray
    slopes: FloatArray
    bends: FloatArray


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


def plan(starts: IntArray, queries: IntArray, long: int, short: int) -> tuple[IntArray, IntArray]:
    """Cut the pairs of the queries of more than `long` documents into tasks (kind, first, middle, last tier + 1).

    Tiers are halved by documents until a half has one tier or at most `short` documents: every pair of different grades
    is then in exactly one CROSS or BLOCK, every tied pair in one SELF or BLOCK, and a document in O(log tiers) tasks.

    >>> tasks, _ = plan(np.array([0, 2, 4, 9]), np.array([0, 3]), 5, 4)
    >>> tasks.tolist()
    [[0, 0, 2, 2], [2, 2, 3, 3], [1, 0, 2, 3]]
    """
    tasks: list[tuple[int, int, int, int]] = []
    counts = np.zeros(len(queries), dtype=np.int64)
    for q in np.flatnonzero(np.diff(starts[queries]) > long):
        tasks += _tasks(starts, int(queries[q]), int(queries[q + 1]), short)
        counts[q + 1] = len(tasks)
    return np.array(tasks, dtype=np.int64).reshape(-1, 4), np.maximum.accumulate(counts)


def _tasks(starts: IntArray, first: int, last: int, short: int) -> list[tuple[int, int, int, int]]:
    size = starts[last] - starts[first]
    if size <= short or last - first == 1:
        return [(BLOCK if size <= short else SELF, first, last, last)]
    middle = _middle(starts, first, last)
    return [
        *_tasks(starts, first, middle, short),
        *_tasks(starts, middle, last, short),
        (CROSS, first, middle, last),
    ]


def _middle(starts: IntArray, first: int, last: int) -> int:
    # The boundary between tiers, neither the first nor the last one, that is nearest to half of the documents.
    half = (starts[first] + starts[last]) // 2
    tier = min(first + 1 + int(np.searchsorted(starts[first + 1 : last], half)), last - 1)
    if tier - 1 > first and half - starts[tier - 1] < starts[tier] - half:
        tier -= 1
    return tier


def positions(target: Graded, scores: FloatArray, chunk: Chunk) -> tuple[IntArray, Here]:
    """Rows of a run of queries, best tier first, and what kernels see of them."""
    first, last = target.queries[chunk[0]], target.queries[chunk[1]]
    begin, end = target.starts[first], target.starts[last]
    rows = target.order[begin:end]
    return rows, Here(
        target.starts[first : last + 1] - begin,
        target.queries[chunk[0] : chunk[1] + 1] - first,
        scores[rows],
        target.win_weight[begin:end],
        target.tie_weight[begin:end],
    )
