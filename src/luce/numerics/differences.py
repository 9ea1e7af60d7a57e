r"""The differences of all pairs of items of different tiers, as weights on a few nodes.

A sum over all pairs i better than j of $h(f_i - f_j)$ sees the scores through the distribution of their differences
only. With the items of a query spread to Chebyshev nodes tier by tier, the better ones $u_{>t}$ and the tier $u_t$
itself, $V = \sum_t u_{>t} \otimes u_t$ holds the weight of every difference of two nodes, and spreading those to nodes
of their own leaves one weighted point for every node of the differences: $\sum_{ij} h(f_i - f_j) = \sum_n m_n h(r_n)$
for every smooth h. It costs O(N), and sums over *pairs of pairs* become small dense sums over the points.

The line is cut into panels (`luce.numerics.chebyshev`); panels P and Q have differences in the panels P - Q - 1 and
P - Q, on nodes that depend on P - Q alone. Everything is kept in moments (sums of Chebyshev polynomials), the change
of basis being part of one fixed matrix.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from luce.numerics.chebyshev import AT_NODES, NODES, TO_COEFFICIENTS, apply, apply_transposed, series
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray


@lru_cache(maxsize=1)
def moments_to_nodes() -> FloatArray:
    """(2, node, moment of better x moment of worse): from moments of two panels to nodes of the lower and upper panel.

    >>> moments_to_nodes()[:, :, 0].sum().round(12)  # one item in each panel has one difference
    np.float64(1.0)
    """
    gap = AT_NODES[:, None] - AT_NODES[None, :]
    upper = gap >= 0.0
    inside = np.where(upper, gap - 1.0, gap + 1.0)
    lagrange = np.cos(np.arccos(np.clip(inside, -1.0, 1.0))[..., None] * np.arange(NODES)) @ TO_COEFFICIENTS
    by_side = np.stack([np.where(upper[..., None], 0.0, lagrange), np.where(upper[..., None], lagrange, 0.0)])
    matrix = np.einsum("ka,lb,sabq->sqkl", TO_COEFFICIENTS, TO_COEFFICIENTS, by_side, optimize=True)
    matrix = np.ascontiguousarray(matrix.reshape(2, NODES, NODES * NODES))
    matrix.flags.writeable = False
    return matrix


@kernel
def node_positions(span, width):  # type: ignore[no-untyped-def]
    """Differences at the nodes of all panels of differences, for scores in panels 0 to `span`."""
    at = np.empty((2 * span + 2, NODES))
    for panel in range(2 * span + 2):
        for q in range(NODES):
            at[panel, q] = (panel - span - 1 + 0.5 * (1.0 + AT_NODES[q])) * width
    return at


@part
def _add(moments, out):  # type: ignore[no-untyped-def]
    for k in range(NODES):
        out[k] += moments[k]


@part
def _nothing_seen(panels):  # type: ignore[no-untyped-def]
    """The tier that last touched a panel: none."""
    seen = np.empty(panels, dtype=np.int64)
    for panel in range(panels):
        seen[panel] = -1
    return seen


@part
def _tier_moments(tree, starts, tier, moments, seen, touched):  # type: ignore[no-untyped-def]
    """Moments of one tier by panel; returns how many panels it touches, listed in `touched`."""
    n = 0
    for i in range(starts[tier], starts[tier + 1]):
        panel = tree.leaf[i]
        if seen[panel] != tier:
            seen[panel] = tier
            touched[n] = panel
            n += 1
            for k in range(NODES):
                moments[panel, k] = 0.0
        twice, now, after = 2.0 * tree.place[i], 1.0, tree.place[i]
        for k in range(NODES):
            moments[panel, k] += now
            now, after = after, twice * after - now
    return n


@kernel
def spread_differences(tree, starts, matrix):  # type: ignore[no-untyped-def]
    """Weights (panel of differences, node); the items are in tiers, best first, cut at `starts`."""
    panels = tree.starts[1]
    span = tree.ids[panels - 1]
    pair_moments = np.zeros((2 * span + 1, NODES * NODES))
    used = np.zeros(2 * span + 1, dtype=np.bool_)
    moments, better = np.zeros((panels, NODES)), np.zeros((panels, NODES))
    has, touched = np.zeros(panels, dtype=np.bool_), np.empty(panels, dtype=np.int64)
    seen = _nothing_seen(panels)
    for tier in range(len(starts) - 1):
        n = _tier_moments(tree, starts, tier, moments, seen, touched)
        for t in range(n):
            worse = touched[t]
            for panel in range(panels):
                if has[panel]:
                    offset = tree.ids[panel] - tree.ids[worse] + span
                    used[offset] = True
                    _outer(better[panel], moments[worse], pair_moments[offset])
        for t in range(n):
            has[touched[t]] = True
            _add(moments[touched[t]], better[touched[t]])
    weights = np.zeros((2 * span + 2, NODES))
    for offset in range(2 * span + 1):
        if used[offset]:
            for side in range(2):
                for q in range(NODES):
                    weights[offset + side, q] += _dot(matrix[side, q], pair_moments[offset])
    return weights, used


@part
def _potentials(at_nodes, used, matrix):  # type: ignore[no-untyped-def]
    """The transpose of the last step of `spread_differences`: from values at nodes to those of pairs of moments."""
    result = np.zeros((len(used), NODES * NODES))
    for offset in range(len(used)):
        if used[offset]:
            for side in range(2):
                for q in range(NODES):
                    _axpy(at_nodes[offset + side, q], matrix[side, q], result[offset])
    return result.reshape(len(used), NODES, NODES)


@kernel
def gather_differences(tree, starts, at_nodes, used, matrix, as_better, as_worse, out):  # type: ignore[no-untyped-def]
    """Add to every item the values at nodes of all its differences, times `as_better` or `as_worse` by its part."""
    tiers, potentials = len(starts) - 1, _potentials(at_nodes, used, matrix)
    _gather_side(tree, starts, potentials, as_worse, 0, tiers, 1, out)
    _gather_side(tree, starts, potentials, as_better, tiers - 1, -1, -1, out)


@part
def _gather_side(tree, starts, potentials, factor, first, stop, step, out):  # type: ignore[no-untyped-def]
    # Best to worst, an item meets the better ones before it; worst to best, the worse ones.
    panels = tree.starts[1]
    span = tree.ids[panels - 1]
    moments, met = np.zeros((panels, NODES)), np.zeros((panels, NODES))
    has, touched = np.zeros(panels, dtype=np.bool_), np.empty(panels, dtype=np.int64)
    seen = _nothing_seen(panels)
    felt = np.zeros((panels, NODES))
    for tier in range(first, stop, step):
        n = _tier_moments(tree, starts, tier, moments, seen, touched)
        for t in range(n):
            here = touched[t]
            for k in range(NODES):
                felt[here, k] = 0.0
            for panel in range(panels):
                if has[panel] and step == 1:
                    apply_transposed(potentials[tree.ids[panel] - tree.ids[here] + span], met[panel], felt[here])
                elif has[panel]:
                    apply(potentials[tree.ids[here] - tree.ids[panel] + span], met[panel], felt[here])
        for i in range(starts[tier], starts[tier + 1]):
            out[i] += factor * series(felt[tree.leaf[i]], tree.place[i])
        for t in range(n):
            has[touched[t]] = True
            _add(moments[touched[t]], met[touched[t]])


# Sums in any order: allows vector instructions, and is the same order in every run.
@part(reorder=True)
def _dot(left, right):  # type: ignore[no-untyped-def]
    total = 0.0
    for n in range(NODES * NODES):
        total += left[n] * right[n]
    return total


@part(reorder=True)
def _axpy(factor, values, out):  # type: ignore[no-untyped-def]
    for n in range(NODES * NODES):
        out[n] += factor * values[n]


@part(reorder=True)
def _outer(left, right, out):  # type: ignore[no-untyped-def]
    for m in range(NODES):
        for n in range(NODES):
            out[m * NODES + n] += left[m] * right[n]
