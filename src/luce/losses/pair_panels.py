"""Pairs of long queries: every task of the plan by panel sums, or pair by pair where that costs less."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from luce.losses.pair_plan import BLOCK, CROSS, SELF, Graded, Here
from luce.numerics.chebyshev import MAX_PANELS, NODES, Tree, cross_sum, grow_tree, meetings, n_levels, n_meetings
from luce.types import FloatArray, IntArray

Costs = tuple[float, float, float]
"""Nanoseconds of a pair, of a document in panels, and of a panel."""
Terms = Callable[[FloatArray, bool], FloatArray]
"""Of differences, and whether they are ties: loss, its two derivatives, its derivative in the tie parameter."""
Pairs = Callable[[Here, FloatArray, FloatArray], tuple[float, float]]
"""All pairs of one query, one by one: value and derivative in the tie parameter; adds to slopes and bends."""

_ENTRY = 100.0
"""Nanoseconds of an entry of a table."""
NO_TABLES = np.empty((0, 0, 0, 0, NODES, NODES))
"""In place of node tables where every pair is taken by itself."""


def tables_for(terms: Terms, span: float, pairs: float, width: float, costs: Costs, kinds: int = 1) -> FloatArray:
    """Tables of a loss between the nodes of panels, (win and tie, level, offset + 3, quantity, NODES, NODES).

    `NO_TABLES` where there are not pairs enough to pay for them, or scores are too far apart for any panel.
    """
    entries = kinds * n_meetings(span, width) * NODES**2
    if span >= MAX_PANELS * width or pairs * costs[0] < 2.0 * entries * _ENTRY:
        return NO_TABLES
    tables = np.zeros((kinds, n_levels(span, width), 7, 4, NODES, NODES))
    for level, offset, gaps in meetings(span, width):
        for tied in range(kinds):
            tables[tied, level, offset + 3] = terms(gaps, bool(tied))
    return tables


def panel_sums(
    target: Graded,
    q: int,
    here: Here,
    terms: Terms,
    pairs: Pairs,
    width: float,
    costs: Costs,
    slopes: FloatArray,
    bends: FloatArray,
) -> tuple[float, float]:
    """Value and derivative in the tie parameter of the long query q, which is `here` all by itself."""
    tasks = target.tasks[target.task_queries[q] : target.task_queries[q + 1]] - [0, *[target.queries[q]] * 3]
    span, ties = float(np.ptp(here.f)), bool(here.tie_weight.any())
    work = sum(_pairs(task, here) for task in tasks if _by_panels(task, here, 1, costs))
    tables = tables_for(terms, span, work, width, costs, 2 if ties else 1)
    if not len(tables):
        return pairs(here, slopes, bends)
    tree, total = grow_tree(here.f, width), np.zeros(2)
    for task in tasks:
        kind, first, middle, last = task
        edges = here.starts[[first, middle, last]] if kind == CROSS else here.starts[first : last + 1]
        if _by_panels(task, here, len(tree.ids), costs):
            total += _task(tables, tree, edges, kind == SELF, here, slopes, bends)
        elif kind != SELF or here.tie_weight[edges[0]] > 0.0:
            inside = slice(edges[0], edges[-1])
            total += pairs(here.part(edges, kind != CROSS), slopes[inside], bends[inside])
    return float(total[0]), float(total[1])


def _pairs(task: IntArray, here: Here) -> float:
    kind, begin, middle, end = task[0], *here.starts[task[1:]]
    if kind == SELF:
        return 0.5 * float(end - begin) ** 2 if here.tie_weight[begin] > 0.0 else 0.0
    return float(middle - begin) * float(end - middle) if kind == CROSS else 0.0


def _by_panels(task: IntArray, here: Here, panels: int, costs: Costs) -> bool:
    n = here.starts[task[3]] - here.starts[task[1]]
    pairs = _pairs(task, here) if task[0] != BLOCK else 0.0
    return pairs > 0.0 and costs[0] * pairs >= costs[1] * n + costs[2] * panels


def _task(
    tables: FloatArray, tree: Tree, edges: IntArray, tied: bool, here: Here, slopes: FloatArray, bends: FloatArray
) -> tuple[float, float]:
    rows = (edges[0], edges[1])
    if not tied:
        return cross_sum(tables[0], tree, rows, (edges[1], edges[2]), here.win_weight, False, slopes, bends)  # type: ignore[no-any-return]
    value, by_t = cross_sum(tables[1], tree, rows, rows, here.tie_weight, True, slopes, bends)
    # Every pair came twice, and every document with itself, d = 0: the diagonal of the table of a panel with itself.
    alone, weight = tables[1, 0, 3, :, 0, 0], here.tie_weight[edges[0]]
    if len(bends):
        bends[edges[0] : edges[1]] -= weight * alone[2]
    n = weight * (edges[1] - edges[0])
    return 0.5 * (value - n * alone[0]), 0.5 * (by_t - n * alone[3])
