"""The kernels of a cumulative distribution network with bivariate sigmoids, query by query.

`graded` is the fully connected network over the edges that grades imply, which are never listed where that costs more
than nodes; `at_hubs` and `paired` run over listed edges: all with all of a query or at one document, and listed pairs.
"""

from __future__ import annotations

import numpy as np

from luce.losses.cdn.point_sums import AUTO, meet, pair_terms
from luce.numerics.chebyshev import NODES, grow_tree
from luce.numerics.compiled import kernel, part
from luce.numerics.differences import (
    gather_differences,
    node_positions,
    potentials_of_nodes,
    spread_differences,
)
from luce.types import FloatArray

NODES_ONLY = 3
"""A way beside those of `luce.losses.cdn.point_sums`: documents are always spread to nodes."""
PANEL = 6.0
"""Width of a panel of scores, times the greatest weight: 32 nodes then give eleven digits."""
_MOST_PANELS = 4096
_EDGE, _PAIR, _MATRIX, _OUTER = 280.0, 7.5, 45_000.0, 900.0
"""Nanoseconds of an edge on nodes, of a pair of edges, of one offset between panels, and of two panels of a tier."""
_WORTH = 3e7
"""Nanoseconds of a pass, from which on nodes are worth it."""


@part
def meet_all(r, m, weights, tables, how, slope, bend, d_weights):  # type: ignore[no-untyped-def]
    """Sum over the K functions of `meet`, with its derivative at every point and in the weights.

    `slope` is minus the derivative in r, per unit of m; `bend` the second derivative of a convex majoriser, since the
    Hessian of a log-sum-exp lies below the diagonal matrix of its softmax weights.
    """
    n = len(r)
    first, second = np.empty(n), np.empty(n)
    value = 0.0
    for i in range(n):
        slope[i], bend[i] = 0.0, 0.0
    for k in range(len(weights)):
        w1, w2 = weights[k, 0], weights[k, 1]
        value += meet(r, m, w1, w2, tables, how, first, second)
        for i in range(n):
            slope[i] += w1 * first[i] + w2 * second[i]
            bend[i] += w1 * w1 * first[i] + w2 * w2 * second[i]
            d_weights[k, 0] -= m[i] * r[i] * first[i]
            d_weights[k, 1] -= m[i] * r[i] * second[i]
    return value


def nodes_are_worth_it(n_edges: FloatArray, functions: int) -> bool:
    """Whether nodes save more in a pass over all queries than some of the seconds that it takes to compile them."""
    saved = functions * _EDGE * (n_edges - 2 * NODES) - _MATRIX
    return float(np.sum(np.maximum(saved, 0.0))) > _WORTH


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
def _by_nodes_costs_less(how, n_edges, n_tiers, panels, span, functions):  # type: ignore[no-untyped-def]
    if how == NODES_ONLY:
        return True
    if how != AUTO or span > _MOST_PANELS:
        return False
    listed = functions * min(_PAIR * n_edges, _EDGE) * n_edges
    points = (2.0 * span + 2.0) * NODES
    matrices = _MATRIX * min(2.0 * span + 1.0, panels * panels)
    nodes = functions * min(_PAIR * points, _EDGE) * points + matrices + 3.0 * _OUTER * panels * max(n_tiers, panels)
    return nodes < listed


@part
def _one_graded(f, starts, weights, tables, matrix, how, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """One query, its documents in tiers, best first; adds to `grad` and, unless it is empty, to `curvature`.

    Of a `matrix` that is None the compiler knows that there are no nodes, and passes them by.
    """
    n = len(f)
    n_edges = n * (n - 1) // 2
    for tier in range(len(starts) - 1):
        size = starts[tier + 1] - starts[tier]
        n_edges -= size * (size - 1) // 2
    if n_edges == 0:
        return 0.0
    if matrix is not None and (how == NODES_ONLY or _PAIR * n_edges * n_edges >= _MATRIX):
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
            if _by_nodes_costs_less(how, n_edges, len(starts) - 1, panels, tree.ids[panels - 1], len(weights)):
                return _on_nodes(tree, starts, width, weights, tables, matrix, grad, curvature, d_weights)
    ends = _edges_of_tiers(starts, n_edges)
    meet_how = AUTO if how == NODES_ONLY else how
    return _on_edges(f, ends[0], ends[1], np.ones(n_edges), weights, tables, meet_how, grad, curvature, d_weights)


@part
def _on_nodes(tree, starts, width, weights, tables, matrix, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    node_weights, used = spread_differences(tree, starts, matrix)
    at = node_positions(tree.ids[tree.starts[1] - 1], width)
    slope, bend = np.zeros(at.shape), np.zeros(at.shape)
    flat = at.size
    value = meet_all(
        at.reshape(flat),
        node_weights.reshape(flat),
        weights,
        tables,
        AUTO,
        slope.reshape(flat),
        bend.reshape(flat),
        d_weights,
    )
    gather_differences(tree, starts, potentials_of_nodes(slope, used, matrix), -1.0, 1.0, grad)
    if len(curvature):
        gather_differences(tree, starts, potentials_of_nodes(bend, used, matrix), 1.0, 1.0, curvature)
    return value


@part
def _on_edges(f, better, worse, m, weights, tables, how, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    n = len(better)
    r = np.empty(n)
    for e in range(n):
        r[e] = f[better[e]] - f[worse[e]]
    slope, bend = np.empty(n), np.empty(n)
    value = meet_all(r, m, weights, tables, how, slope, bend, d_weights)
    for e in range(n):
        grad[better[e]] -= m[e] * slope[e]
        grad[worse[e]] += m[e] * slope[e]
        if len(curvature):
            curvature[better[e]] += m[e] * bend[e]
            curvature[worse[e]] += m[e] * bend[e]
    return value


@kernel
def graded(tiers, scores, weights, tables, matrix, how, chunk, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """All queries of a chunk, fully connected; `d_weights` is (query of the chunk, function, 2)."""
    order, starts, queries = tiers
    for q in range(chunk[0], chunk[1]):
        cuts = starts[queries[q] : queries[q + 1] + 1]
        rows = order[cuts[0] : cuts[-1]]
        f = np.empty(len(rows))
        for i in range(len(rows)):
            f[i] = scores[rows[i]]
        own = np.empty(len(cuts), dtype=np.int64)
        for i in range(len(cuts)):
            own[i] = cuts[i] - cuts[0]
        g = np.zeros(len(rows))
        c = np.zeros(len(rows) if len(curvature) else 0)
        place = q - chunk[0]
        values[place] = _one_graded(f, own, weights, tables, matrix, how, g, c, d_weights[place])
        for i in range(len(rows)):
            grad[rows[i]] = g[i]
            if len(curvature):
                curvature[rows[i]] = c[i]


@kernel
def at_hubs(edges, hubs, scores, weights, tables, how, chunk, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """All queries of a chunk: at each of their hubs, every edge with every one."""
    better, worse, m, _ = edges
    members, starts, queries = hubs
    for q in range(chunk[0], chunk[1]):
        d_own = d_weights[q - chunk[0]]
        for hub in range(queries[q], queries[q + 1]):
            here = members[starts[hub] : starts[hub + 1]]
            if len(here):
                ends = better[here], worse[here], m[here]
                values[q - chunk[0]] += _on_edges(scores, *ends, weights, tables, how, grad, curvature, d_own)


@kernel
def paired(edges, pairs, scores, weights, chunk, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """All queries of a chunk, over listed pairs of edges."""
    better, worse, _, _ = edges
    one, other, weight, bounds = pairs
    for q in range(chunk[0], chunk[1]):
        value = 0.0
        d_own = d_weights[q - chunk[0]]
        for p in range(bounds[q], bounds[q + 1]):
            a, b = one[p], other[p]
            r1, r2 = scores[better[a]] - scores[worse[a]], scores[better[b]] - scores[worse[b]]
            for k in range(len(weights)):
                w1, w2 = weights[k, 0], weights[k, 1]
                term, first, second = pair_terms(r1, r2, w1, w2)
                value += weight[p] * term
                first *= weight[p]
                second *= weight[p]
                d_own[k, 0] -= r1 * first
                d_own[k, 1] -= r2 * second
                grad[better[a]] -= w1 * first
                grad[worse[a]] += w1 * first
                grad[better[b]] -= w2 * second
                grad[worse[b]] += w2 * second
                if len(curvature):
                    curvature[better[a]] += w1 * w1 * first
                    curvature[worse[a]] += w1 * w1 * first
                    curvature[better[b]] += w2 * w2 * second
                    curvature[worse[b]] += w2 * w2 * second
        values[q - chunk[0]] = value
