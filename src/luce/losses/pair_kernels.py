"""The pairwise kernels: one pair, short queries pair by pair, long ones by panel sums.

A loss over pairs is a code. Codes of `luce.numerics.links` stand for -log P of a win or a tie; `HINGE` and `SQUARE` for
losses that are no likelihood. Everything here is compiled once for all codes, and cached on disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from luce.losses.logistic_pairs import exponentials, logistic_block, logistic_rectangle, room_for
from luce.losses.pair_plan import BLOCK, CROSS, SELF, Graded
from luce.numerics.chebyshev import MAX_PANELS, NODES, cross_sum, grow_tree, meetings, n_levels, n_meetings
from luce.numerics.links import shape_of, tie_of_shape, win_of_shape
from luce.numerics.segments import Chunk
from luce.types import FloatArray

__all__ = [
    "HINGE",
    "NO_TABLES",
    "SQUARE",
    "Costs",
    "block",
    "graded",
    "listed",
    "long_task",
    "long_work",
    "node_tables",
    "pair_terms",
    "query_view",
    "rectangle",
    "tables_for",
]

HINGE, SQUARE = 10, 11

Costs = tuple[float, float, float, float]
"""Of a pair, a document in panels, a panel, and a pair or table entry that takes exponentials of its own."""
_FAR = 300.0
"""Scores about so far apart have no common exponentials."""
NO_TABLES = np.empty((0, 0, 0, 0, NODES, NODES))
"""In place of node tables where every pair is taken by itself."""


@njit(nogil=True, cache=True, error_model="numpy")
def pair_terms(code, tied, d, shape):  # type: ignore[no-untyped-def]
    """Loss of one pair at d = f_i - f_j: value, first and second derivative in d, derivative in the tie parameter."""
    if code < HINGE:
        if tied:
            value, first, second, by_t, _, _ = tie_of_shape(code, d, shape)
        else:
            value, first, second, by_t, _, _ = win_of_shape(code, d, shape)
        return -value, -first, -second, -by_t
    if code == SQUARE:
        return (1.0 - d) ** 2, -2.0 * (1.0 - d), 2.0, 0.0
    if tied:
        over = abs(d) - shape[0]
        if over <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        return over, 1.0 if d > 0.0 else -1.0, 1.0, 0.0
    # `d < 1` and not `1 - d > 0`: the sorted form asks the same question, so both count the same pairs.
    return (1.0 - d, -1.0, 1.0, 0.0) if d < 1.0 else (0.0, 0.0, 0.0, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def rectangle(code, tied, shape, f, e, weight, rows, columns, grad, curvature):  # type: ignore[no-untyped-def]
    """All pairs of two ranges of positions, one by one; where they are tied, of one range with itself, each once.

    `e` are the `exponentials` of the link; without room for any, every pair takes its own.
    """
    if e.in_turn > 0:
        return logistic_rectangle(code, tied, shape, e, weight, rows, columns, grad, curvature)
    total, total_t = 0.0, 0.0
    for i in range(rows[0], rows[1]):
        sum_value, sum_first, sum_second, sum_t = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 1 if tied else columns[0], columns[1]):
            value, first, second, by_t = pair_terms(code, tied, f[i] - f[j], shape)
            sum_value += value
            sum_first += first
            sum_t += by_t
            grad[j] -= weight[i] * first
            if len(curvature):
                sum_second += second
                curvature[j] += weight[i] * second
        total += weight[i] * sum_value
        total_t += weight[i] * sum_t
        grad[i] += weight[i] * sum_first
        if len(curvature):
            curvature[i] += weight[i] * sum_second
    return total, total_t


@njit(nogil=True, cache=True, error_model="numpy")
def block(code, shape, f, e, starts, first, last, weights, grad, curvature):  # type: ignore[no-untyped-def]
    """All pairs of a run of tiers, one by one; `starts` are positions in f."""
    if e.in_turn > 0:
        return logistic_block(code, shape, e, starts, first, last, weights, grad, curvature)
    total, total_t = 0.0, 0.0
    end = starts[last]
    for tier in range(first, last):
        here = starts[tier], starts[tier + 1]
        if here[1] < end:
            value, by_t = rectangle(code, False, shape, f, e, weights[0], here, (here[1], end), grad, curvature)
            total, total_t = total + value, total_t + by_t
        if weights[1][here[0]] > 0.0:
            value, by_t = rectangle(code, True, shape, f, e, weights[1], here, here, grad, curvature)
            total, total_t = total + value, total_t + by_t
    return total, total_t


@njit(nogil=True, cache=True, error_model="numpy")
def long_task(code, shape, tables, costs, f, e, tree, rows, columns, weight, tied, grad, curvature):  # type: ignore[no-untyped-def]
    """All pairs of two ranges (of one with itself, where tied), pair by pair or by panels, whichever costs less."""
    n_rows, n_columns = rows[1] - rows[0], columns[1] - columns[0]
    pair_by_pair = (costs[0] if e.in_turn > 0 else costs[3]) * n_rows * n_columns * (0.5 if tied else 1.0)
    if len(tree.ids) == 0 or pair_by_pair < costs[1] * (n_rows + n_columns) + costs[2] * len(tree.ids):
        return rectangle(code, tied, shape, f, e, weight, rows, columns, grad, curvature)
    value, by_t = cross_sum(tables[1 if tied else 0], tree, rows, columns, weight, tied, grad, curvature)
    if not tied:
        return value, by_t
    # Every pair came twice, and every document with itself, d = 0: the diagonal of the table of a panel with itself.
    alone = tables[1, 0, 3, :, 0, 0]
    for i in range(rows[0], rows[1]):
        if len(curvature):
            curvature[i] -= weight[i] * alone[2]
    n = weight[rows[0]] * n_rows
    return 0.5 * (value - n * alone[0]), 0.5 * (by_t - n * alone[3])


@njit(nogil=True, cache=True, error_model="numpy")
def query_view(target, scores, q):  # type: ignore[no-untyped-def]
    """Of one query: where its tiers start, its rows, best tier first, and their scores."""
    first, last = target.queries[q], target.queries[q + 1]
    starts, f = np.empty(last - first + 1, dtype=np.int64), np.empty(target.starts[last] - target.starts[first])
    return starts, _look(target, scores, q, starts, f), f


@njit(nogil=True, cache=True, error_model="numpy")
def _look(target, scores, q, starts, f):  # type: ignore[no-untyped-def]
    """As `query_view`, into arrays that are there; returns the rows."""
    first = target.queries[q]
    base = target.starts[first]
    for k in range(len(starts)):
        starts[k] = target.starts[first + k] - base
    rows = target.order[base : base + len(f)]
    for k in range(len(rows)):
        f[k] = scores[rows[k]]
    return rows


@njit(nogil=True, cache=True, error_model="numpy")
def _most(target, first, last):  # type: ignore[no-untyped-def]
    """Documents of the longest, and tiers of the most divided, of some queries."""
    documents, tiers = 0, 0
    for q in range(first, last):
        documents = max(documents, target.starts[target.queries[q + 1]] - target.starts[target.queries[q]])
        tiers = max(tiers, target.queries[q + 1] - target.queries[q])
    return documents, tiers


@njit(nogil=True, cache=True, error_model="numpy")
def graded(code, t, target, tables, width, costs, scores, first, values, by_t, grad, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature of a run of queries whose target is grades.

    `tables` are those of `node_tables`, or empty where panels are not to be used; `costs` are those of
    `LinkedLoss`, by which a task is done pair by pair or by panels. Room for one query serves all.
    """
    shape, no_tree = shape_of(code, t), grow_tree(scores[:0], width)
    documents, tiers = _most(target, first, first + len(values))
    room, all_starts = room_for(documents), np.empty(tiers + 1, dtype=np.int64)
    all_f, all_g, all_c = np.empty(documents), np.empty(documents), np.empty(documents)
    for i in range(len(values)):
        q = first + i
        tiers = target.queries[q + 1] - target.queries[q]
        base = target.starts[target.queries[q]]
        n = target.starts[target.queries[q + 1]] - base
        starts, f, g, c = all_starts[: tiers + 1], all_f[:n], all_g[:n], all_c[: n if len(curvature) else 0]
        rows = _look(target, scores, q, starts, f)
        g[:], c[:] = 0.0, 0.0
        weights = target.win_weight[base : base + n], target.tie_weight[base : base + n]
        # The last task of a query is the one of all its tiers: a block only where there is nothing else.
        last_task = target.tasks[target.task_queries[q + 1] - 1, 0]
        by_panels = len(tables) > 0 and last_task != BLOCK and np.ptp(f) < MAX_PANELS * width
        e = exponentials(code, shape, f, room)
        if by_panels:
            tree = grow_tree(f, width)
            values[i], by_t[i] = _tasks(code, shape, target, tables, costs, q, starts, f, e, tree, weights, g, c)
        elif e.in_turn > 0 or last_task == BLOCK:
            values[i], by_t[i] = block(code, shape, f, e, starts, 0, tiers, weights, g, c)
        else:
            values[i], by_t[i] = _tasks(code, shape, target, tables, costs, q, starts, f, e, no_tree, weights, g, c)
        for k in range(n):
            grad[rows[k]] = g[k]
            if len(curvature):
                curvature[rows[k]] = max(c[k], 0.0)  # convex: below 0 is rounding


@njit(nogil=True, cache=True, error_model="numpy")
def _tasks(code, shape, target, tables, costs, q, starts, f, e, tree, weights, g, c):  # type: ignore[no-untyped-def]
    """The tasks of the plan of one query, one by one."""
    total, total_t = 0.0, 0.0
    for k in range(target.task_queries[q], target.task_queries[q + 1]):
        kind, head = target.tasks[k, 0], target.tasks[k, 1] - target.queries[q]
        middle, last = target.tasks[k, 2] - target.queries[q], target.tasks[k, 3] - target.queries[q]
        if kind == BLOCK:
            value, slope = block(code, shape, f, e, starts, head, last, weights, g, c)
        else:
            tied = kind == SELF
            here = starts[head], starts[middle]
            others = here if tied else (starts[middle], starts[last])
            weight = weights[1] if tied else weights[0]
            if tied and (weight[here[0]] <= 0.0 or here[1] - here[0] < 2):
                continue
            value, slope = long_task(code, shape, tables, costs, f, e, tree, here, others, weight, tied, g, c)
        total += value
        total_t += slope
    return total, total_t


@njit(nogil=True, cache=True, error_model="numpy")
def listed(code, t, target, scores, first, values, by_t, grad, curvature):  # type: ignore[no-untyped-def]
    """Value, gradient and curvature of a run of queries whose target is explicit pairs."""
    shape = shape_of(code, t)
    for i in range(len(values)):
        q = first + i
        grad[target.offsets[q] : target.offsets[q + 1]] = 0.0
        if len(curvature):
            curvature[target.offsets[q] : target.offsets[q + 1]] = 0.0
        values[i], by_t[i] = 0.0, 0.0
        for p in range(target.queries[q], target.queries[q + 1]):
            a, b, weight = target.first[p], target.second[p], target.weight[p]
            value, slope, bend, slope_t = pair_terms(code, target.tied[p] != 0, scores[a] - scores[b], shape)
            values[i] += weight * value
            by_t[i] += weight * slope_t
            grad[a] += weight * slope
            grad[b] -= weight * slope
            if len(curvature):
                curvature[a] += weight * bend
                curvature[b] += weight * bend


@njit(nogil=True, cache=True, error_model="numpy")
def long_work(target, costs, scores, first, last):  # type: ignore[no-untyped-def]
    """Of the queries with work that one panel does for less: the widest range of scores, and the pairs in that work."""
    widest, pairs = 0.0, 0.0
    for q in range(first, last):
        begin, end = target.starts[target.queries[q]], target.starts[target.queries[q + 1]]
        if target.tasks[target.task_queries[q + 1] - 1, 0] == BLOCK:
            continue
        low, high = np.inf, -np.inf
        for k in range(begin, end):
            score = scores[target.order[k]]
            low, high = min(low, score), max(high, score)
        pair, before = costs[0] if high - low < _FAR else costs[3], pairs
        for k in range(target.task_queries[q], target.task_queries[q + 1]):
            head, middle = target.starts[target.tasks[k, 1]], target.starts[target.tasks[k, 2]]
            others, here = target.starts[target.tasks[k, 3]] - middle, middle - head
            mine = 0.0
            if target.tasks[k, 0] == CROSS:
                mine = float(here) * others
            elif target.tasks[k, 0] == SELF and target.tie_weight[head] > 0.0:
                mine, others = 0.5 * float(here) * here, here
            if mine > 0.0 and pair * mine >= costs[1] * (here + others) + costs[2]:
                pairs += mine
        if pairs > before:
            widest = max(widest, high - low)
    return widest, pairs


def node_tables(
    code: int, t: float, target: Graded, scores: FloatArray, chunk: Chunk, width: float, costs: Costs
) -> FloatArray:
    """Tables of h between the nodes of panels, (win and tie, level, offset + 3, quantity, NODES, NODES)."""
    span, pairs = long_work(target, costs, scores, *chunk)
    if pairs == 0.0:
        return NO_TABLES
    return tables_for(code, t, span, pairs, width, costs, kinds=2 if target.tie_weight.any() else 1)


def tables_for(
    code: int, t: float, span: float, pairs: float, width: float, costs: Costs, kinds: int = 1
) -> FloatArray:
    """The tables for scores that span so much, or `NO_TABLES` where there are not pairs enough to pay for them."""
    entries = kinds * n_meetings(span, width) * NODES**2
    if span >= MAX_PANELS * width or pairs * costs[0] < 2.0 * entries * costs[3]:
        return NO_TABLES
    tables = np.zeros((kinds, n_levels(span, width), 7, 4, NODES, NODES))
    for level, offset, gaps in meetings(span, width):
        for tied in range(kinds):
            _fill(code, bool(tied), t, gaps, tables[tied, level, offset + 3])
    return tables


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(code, tied, t, gaps, out):  # type: ignore[no-untyped-def]
    shape = shape_of(code, t)
    for m in range(NODES):
        for n in range(NODES):
            out[0, m, n], out[1, m, n], out[2, m, n], out[3, m, n] = pair_terms(code, tied, gaps[m, n], shape)
