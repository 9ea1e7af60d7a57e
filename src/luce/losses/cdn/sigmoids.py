r"""Sums of the bivariate sigmoid over all ordered pairs of weighted points, compiled.

$$L = \sum_{ij} m_i m_j \log\left(1 + e^{-w_1 r_i} + e^{-w_2 r_j}\right)$$

Points are edges of an order graph, or nodes that stand for very many edges (`luce.numerics.differences`). A few points
meet one by one. For many, or of a wide range, $c_i = \log(1 + e^{-w_1 r_i})$ and $v_j = -w_2 r_j$ turn the logarithm
into $c_i + \log(1 + e^{v_j - c_i})$: a sum over differences on a line, which panels do in linear time for any range of
scores.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from luce.numerics.chebyshev import NODES, grow_tree, meetings, n_levels, weighted_cross_sum
from luce.numerics.compiled import kernel, part
from luce.numerics.differences import gather_differences, node_positions, spread_differences
from luce.numerics.fast_exp import sigmoid, softplus
from luce.types import FloatArray

WIDTH = 6.0
PANEL = 6.0
"""Width of a panel of scores, times the greatest weight: 32 nodes then give eleven digits."""
_FAST_RANGE = 300.0
"""Beyond this exponentials are not taken by themselves, since they might overflow."""
_MOST_PANELS = 4096
_EDGE, _PAIR, _MATRIX, _OUTER, _POINT, _TREE = 280.0, 7.5, 45_000.0, 900.0, 250.0, 25_000.0
"""Nanoseconds of an edge on nodes, of a pair of edges, of one offset between panels, of two panels of a tier; of a
point and of all else in panels: measured."""
Tables = FloatArray
"""(levels, 7, 2, NODES, NODES): log(1 + exp(-d)) and its derivative between two panels, by level and offset + 3."""


def tables_for(span: float) -> Tables:
    """Tables for points whose c and v lie within a range of `span`."""
    return _tables(n_levels(1.01 * span + 1.0, WIDTH))


@lru_cache(maxsize=8)
def _tables(levels: int) -> Tables:
    tables = np.zeros((levels, 7, 2, NODES, NODES))
    for level, offset, gaps in meetings(WIDTH * (2.0 ** (levels + 1) - 1.0), WIDTH):
        if level < levels:
            tables[level, offset + 3, 0] = np.logaddexp(0.0, -gaps)
            tables[level, offset + 3, 1] = -np.exp(-np.logaddexp(0.0, gaps))
    tables.flags.writeable = False
    return tables


@part
def meet(r, m, w, tables, first, second):  # type: ignore[no-untyped-def]
    """The sum [StructRank] (8) over ordered pairs; fills what each point feels in the first and the second argument.

    `first[i]` is the sum over j of m_j p1(r_i, r_j) and `second[j]` that over i of m_i p2(r_i, r_j), with p1 and p2 the
    softmax weights: the derivative of the sum in r_i is -m_i (w1 first[i] + w2 second[i]).
    """
    n, reach, (w1, w2) = len(r), 0.0, w
    for i in range(n):
        reach = max(reach, max(w1, w2) * abs(r[i]))
    if reach <= _FAST_RANGE and _PAIR * n * n < _POINT * n + _TREE:
        return _meet_one_by_one(r, m, w1, w2, first, second)
    return _meet_by_panels(r, m, w1, w2, tables, first, second)


@part
def _meet_one_by_one(r, m, w1, w2, first, second):  # type: ignore[no-untyped-def]
    n = len(r)
    y = np.empty(n)
    for j in range(n):
        y[j] = math.exp(-w2 * r[j])
        second[j] = 0.0
    value = 0.0
    for i in range(n):
        x = math.exp(-w1 * r[i])
        row, felt = 0.0, 0.0
        for j in range(n):
            total = 1.0 + x + y[j]
            part = 1.0 / total
            row += m[j] * math.log(total)
            felt += m[j] * part
            second[j] += m[i] * part
        value += m[i] * row
        first[i] = x * felt
    for j in range(n):
        second[j] *= y[j]
    return value


@part
def _meet_by_panels(r, m, w1, w2, tables, first, second):  # type: ignore[no-untyped-def]
    n = len(r)
    line, weight, felt = np.empty(2 * n), np.empty(2 * n), np.zeros(2 * n)
    total, value = 0.0, 0.0
    for i in range(n):
        line[i], line[n + i] = softplus(-w1 * r[i]), -w2 * r[i]
        weight[i] = weight[n + i] = m[i]
        total += m[i]
        value += m[i] * line[i]
    tree = grow_tree(line, WIDTH)
    value = total * value + weighted_cross_sum(tables, tree, (0, n), (n, 2 * n), weight, felt)
    for i in range(n):
        first[i] = sigmoid(-w1 * r[i]) * (total + felt[i])
        second[i] = -felt[n + i]
    return value


@part
def meet_all(r, m, law, slope, bend, d_weights):  # type: ignore[no-untyped-def]
    """Sum over the K functions of `meet`, with its derivative at every point and in the weights.

    `slope` is minus the derivative in r, per unit of m; `bend` the second derivative of a convex majoriser, since the
    Hessian of a log-sum-exp lies below the diagonal matrix of its softmax weights.
    """
    n, (weights, tables, _) = len(r), law
    first, second = np.empty(n), np.empty(n)
    value = 0.0
    for i in range(n):
        slope[i], bend[i] = 0.0, 0.0
    for k in range(len(weights)):
        w1, w2 = weights[k, 0], weights[k, 1]
        value += meet(r, m, (w1, w2), tables, first, second)
        for i in range(n):
            slope[i] += w1 * first[i] + w2 * second[i]
            bend[i] += w1 * w1 * first[i] + w2 * w2 * second[i]
            d_weights[k, 0] -= m[i] * r[i] * first[i]
            d_weights[k, 1] -= m[i] * r[i] * second[i]
    return value


@part
def _edges_of_tiers(starts, n_edges):  # type: ignore[no-untyped-def]
    ends = np.empty((2, n_edges), dtype=np.int64)
    n = 0
    for tier in range(len(starts) - 1):
        for j in range(starts[tier], starts[tier + 1]):
            for i in range(starts[tier]):
                ends[0, n], ends[1, n] = i, j
                n += 1
    return ends


@part
def _by_nodes_costs_less(n_edges, n_tiers, panels, span, functions):  # type: ignore[no-untyped-def]
    if span > _MOST_PANELS:
        return False
    listed = functions * min(_PAIR * n_edges, _EDGE) * n_edges
    points = (2.0 * span + 2.0) * NODES
    matrices = _MATRIX * min(2.0 * span + 1.0, panels * panels)
    nodes = functions * min(_PAIR * points, _EDGE) * points + matrices + 3.0 * _OUTER * panels * max(n_tiers, panels)
    return nodes < listed


@part
def _one_graded(f, starts, law, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """One query, its documents in tiers, best first; adds to `grad` and, unless it is empty, to `curvature`."""
    n, weights = len(f), law[0]
    n_edges = n * (n - 1) // 2
    for tier in range(len(starts) - 1):
        size = starts[tier + 1] - starts[tier]
        n_edges -= size * (size - 1) // 2
    if n_edges == 0:
        return 0.0
    if _PAIR * n_edges * n_edges >= _MATRIX:
        low, high, steepest = f[0], f[0], 0.0
        for score in f:
            low, high = min(low, score), max(high, score)
        for k in range(len(weights)):
            steepest = max(steepest, weights[k, 0], weights[k, 1])
        reach = high - low
        width = min(PANEL / steepest, reach * (1.0 + 1e-9)) if reach > 0.0 else 1.0
        if reach / width < 1e9:
            tree = grow_tree(f, width)
            panels = tree.starts[1]
            if _by_nodes_costs_less(n_edges, len(starts) - 1, panels, tree.ids[panels - 1], len(weights)):
                return _on_nodes(tree, starts, width, law, grad, curvature, d_weights)
    return _on_edges(f, starts, n_edges, law, grad, curvature, d_weights)


@part
def _on_nodes(tree, starts, width, law, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    matrix = law[2]
    node_weights, used = spread_differences(tree, starts, matrix)
    at = node_positions(tree.ids[tree.starts[1] - 1], width)
    slope, bend = np.zeros(at.shape), np.zeros(at.shape)
    flat = at.size
    points, slopes, bends = at.reshape(flat), slope.reshape(flat), bend.reshape(flat)
    value = meet_all(points, node_weights.reshape(flat), law, slopes, bends, d_weights)
    gather_differences(tree, starts, slope, used, matrix, -1.0, 1.0, grad)
    if len(curvature):
        gather_differences(tree, starts, bend, used, matrix, 1.0, 1.0, curvature)
    return value


@part
def _on_edges(f, starts, n_edges, law, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    ends = _edges_of_tiers(starts, n_edges)
    better, worse = ends[0], ends[1]
    r, m, slope, bend = np.empty(n_edges), np.ones(n_edges), np.empty(n_edges), np.empty(n_edges)
    for e in range(n_edges):
        r[e] = f[better[e]] - f[worse[e]]
    value = meet_all(r, m, law, slope, bend, d_weights)
    for e in range(n_edges):
        grad[better[e]] -= slope[e]
        grad[worse[e]] += slope[e]
        if len(curvature):
            curvature[better[e]] += bend[e]
            curvature[worse[e]] += bend[e]
    return value


@kernel
def tiered(f, tiers, law, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """Chains of tiers, each fully connected; adds to `grad` and `curvature`; `d_weights` is (chain, function, 2).

    `tiers` says where tiers and chains start; `law` are the weights of the functions, `Tables` and the matrix
    of `moments_to_nodes`.
    """
    starts, chains = tiers
    for c in range(len(values)):
        begin, end = starts[chains[c]], starts[chains[c + 1]]
        own = np.empty(chains[c + 1] - chains[c] + 1, dtype=np.int64)
        for i in range(len(own)):
            own[i] = starts[chains[c] + i] - begin
        bends = curvature[begin:end] if len(curvature) else curvature
        values[c] = _one_graded(f[begin:end], own, law, grad[begin:end], bends, d_weights[c])


@kernel
def meet_in_groups(r, m, starts, law, values, felt, d_weights):  # type: ignore[no-untyped-def]
    """`meet_all` of every group of points; group g is those from `starts[g]` to `starts[g + 1]`."""
    slope, bend = felt
    for g in range(len(values)):
        here = slice(starts[g], starts[g + 1])
        values[g] = meet_all(r[here], m[here], law, slope[here], bend[here], d_weights[g])
