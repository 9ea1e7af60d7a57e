r"""Sums over all pairs of two sets of numbers, in linear time.

$\sum_{i \in A}\sum_{j \in B} w_i\, h(f_i - f_j)$ with h smooth is a one-dimensional kernel sum. The line is cut into
panels of equal width; on a pair of panels h is interpolated on $p \times p$ Chebyshev nodes, so that a panel is known
to the others by p numbers. Neighbouring panels meet directly; those further apart meet in panels of twice, four times,
... the width (the fast multipole method on a line), because h is the smoother the further away. An item is spread to
and evaluated from its panel in O(p), a panel meets at most six others in O(p^2): O(N p + panels p^2) for a range of any
width. Panels are on a grid, so a table of h for one pair of panels serves all pairs at that distance.

h, h' and h'' have tables of their own. The derivative of the interpolant of h was tried and rejected: it loses two
digits, and evaluating it costs more than a second table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray

NODES = 32
"""Chebyshev nodes a panel."""
VALUE, FIRST, SECOND, PARAMETER = range(4)
"""What a table holds: h, its two derivatives in the difference, its derivative in the tie parameter."""
MAX_PANELS = 2.0**40
"""Beyond this the position inside a panel has no digits left."""

_angle = np.pi * (np.arange(NODES) + 0.5) / NODES
AT_NODES = np.cos(_angle)
# Chebyshev coefficients of the polynomial through values at the nodes: coefficients = TO_COEFFICIENTS @ values.
TO_COEFFICIENTS = 2.0 / NODES * np.cos(np.outer(np.arange(NODES), _angle))
TO_COEFFICIENTS[0] /= 2.0
_TO_NODES = np.ascontiguousarray(TO_COEFFICIENTS.T)


def _values_in_child(side: float) -> FloatArray:
    # (child node, parent node): the Lagrange polynomials of a panel at the nodes of its lower or upper half.
    at = 0.5 * (AT_NODES + side)
    return np.ascontiguousarray(np.cos(np.outer(np.arccos(at), np.arange(NODES))) @ TO_COEFFICIENTS)


_DOWN = np.stack([_values_in_child(-1.0), _values_in_child(1.0)])
_UP = np.ascontiguousarray(_DOWN.transpose(0, 2, 1))


class Tree(NamedTuple):
    """Panels of one query that are not empty, and their unions.

    Panel n of level l covers `ids[n]` widths of that level from the least score; level l owns the panels `starts[l]` to
    `starts[l + 1]`, in ascending order; `leaf` and `place` give every item its panel of level 0 and its position
    inside it, from -1 to 1.
    """

    leaf: IntArray
    place: FloatArray
    ids: IntArray
    starts: IntArray
    parent: IntArray


def n_levels(span: float, width: float) -> int:
    """Levels of panels that a range of scores needs: on the last one there are at most four.

    >>> n_levels(20.0, 8.0), n_levels(2e4, 8.0)
    (1, 11)
    """
    levels, last = 1, int(span / width)
    while last > 3:
        levels, last = levels + 1, last >> 1
    return levels


def meetings(span: float, width: float) -> Iterator[tuple[int, int, FloatArray]]:
    """Every level and offset at which two panels of a range can meet, with the gaps between their nodes.

    >>> [(level, offset) for level, offset, gaps in meetings(20.0, 8.0)]
    [(0, -2), (0, -1), (0, 0), (0, 1), (0, 2)]
    """
    for level in range(n_levels(span, width)):
        size, last = width * 2.0**level, int(span / width) >> level
        for offset in range(-min(3, last), min(3, last) + 1):
            if level == 0 or abs(offset) > 1:
                yield level, offset, size * (offset + 0.5 * (AT_NODES[:, None] - AT_NODES[None, :]))


def interpolation_error(h: Callable[[FloatArray], FloatArray], width: float) -> float:
    """Largest error of h(x - y) interpolated between two panels, relative to the largest value there.

    >>> interpolation_error(lambda d: np.logaddexp(0.0, -d), 6.0) < 1e-11 < interpolation_error(np.abs, 6.0)
    True
    """
    at = np.cos(np.linspace(0.03, np.pi - 0.03, 60))
    basis = np.cos(np.outer(np.arccos(at), np.arange(NODES))) @ TO_COEFFICIENTS
    worst = 0.0
    for _, _, gaps in meetings(width, width):
        offset = gaps[0, 0]  # the same node of both panels
        exact = h(offset + 0.5 * width * (at[:, None] - at[None, :]))
        error = np.abs(basis @ h(gaps) @ basis.T - exact).max()
        worst = max(worst, float(error / max(np.abs(exact).max(), np.finfo(float).tiny)))
    return worst


@kernel
def grow_tree(f, width):  # type: ignore[no-untyped-def]
    """The tree of the scores of one query; without scores, a tree without panels."""
    if len(f) == 0:
        nothing = np.empty(0, dtype=np.int64)
        return Tree(nothing, np.empty(0), nothing, np.zeros(2, dtype=np.int64), nothing)
    low = f[0]
    for score in f:
        low = min(low, score)
    leaf = np.empty(len(f), dtype=np.int64)
    place = np.empty(len(f))
    for i in range(len(f)):
        at = (f[i] - low) / width
        leaf[i] = np.int64(at)
        place[i] = 2.0 * (at - leaf[i]) - 1.0
    base = _distinct(leaf)
    for i in range(len(f)):
        leaf[i] = _position(base, leaf[i])
    levels, last = 1, base[-1]
    while last > 3:
        levels, last = levels + 1, last >> 1
    ids = np.empty(levels * len(base), dtype=np.int64)
    parent = np.empty(levels * len(base), dtype=np.int64)
    starts = np.zeros(levels + 1, dtype=np.int64)
    starts[1] = len(base)
    for n in range(len(base)):
        ids[n] = base[n]
    for level in range(1, levels):
        end = starts[level]
        for n in range(starts[level - 1], starts[level]):
            above = ids[n] >> 1
            if end == starts[level] or ids[end - 1] != above:
                ids[end] = above
                end += 1
            parent[n] = end - 1
        starts[level + 1] = end
    for n in range(starts[levels - 1], starts[levels]):
        parent[n] = -1
    return Tree(leaf, place, ids[: starts[levels]], starts, parent[: starts[levels]])


@part
def _distinct(values):  # type: ignore[no-untyped-def]
    top = np.int64(0)
    for value in values:
        top = max(top, value)
    if top <= 4 * len(values):
        seen = np.zeros(top + 1, dtype=np.bool_)
        for value in values:
            seen[value] = True
        found = np.empty(len(values), dtype=np.int64)
        n_found = 0
        for value in range(top + 1):
            if seen[value]:
                found[n_found] = value
                n_found += 1
        return found[:n_found]
    found = _ascending(values)
    n_found = 1
    for i in range(1, len(values)):
        if found[i] != found[n_found - 1]:
            found[n_found] = found[i]
            n_found += 1
    return found[:n_found]


@part
def _ascending(values):  # type: ignore[no-untyped-def]
    """Sorted by Shell's method: it is seldom called, and compiles in a tenth of the time that others take."""
    found = np.empty(len(values), dtype=np.int64)
    for i in range(len(values)):
        found[i] = values[i]
    gap = 1
    while gap < len(values) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            value, j = found[i], i
            while j >= gap and found[j - gap] > value:
                found[j] = found[j - gap]
                j -= gap
            found[j] = value
        gap //= 3
    return found


@part
def _position(ascending, value):  # type: ignore[no-untyped-def]
    """Where a value stands that is among the ascending ones."""
    low, high = 0, len(ascending) - 1
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def cross_sum(tables, tree, a, b, weight, symmetric, grad, curvature):  # type: ignore[no-untyped-def]
    """Sum over i in `a`, j in `b` of weight[i] h(f_i - f_j); a and b are (first, end) of positions.

    Adds to `grad` and, unless it is empty, to `curvature`. `symmetric` says that a is b, that h is even and that all
    weights are equal: a pair then counts twice in the value, and once in the derivatives of each of its two items.
    Returns the value and the derivative in the tie parameter. `tables` is (levels, 7, 4, NODES, NODES), by offset + 3.
    """
    panels = len(tree.ids)
    wanted = 2 if len(curvature) else 1
    scale = weight[a[0]] if symmetric else 1.0
    if symmetric:
        weight = weight[:0]
    spread_a = np.zeros((panels, NODES))
    has_a = np.zeros(panels, dtype=np.bool_)
    _spread(tree, a, weight, spread_a, has_a)
    if symmetric:
        spread_b, has_b = spread_a, has_a
    else:
        spread_b, has_b = np.zeros((panels, NODES)), np.zeros(panels, dtype=np.bool_)
        _spread(tree, b, weight[:0], spread_b, has_b)
    felt_a = np.zeros((wanted, panels, NODES))
    felt_b = felt_a if symmetric else np.zeros((wanted, panels, NODES))
    value, by_parameter = _meet_all(tables, tree, spread_a, has_a, spread_b, has_b, not symmetric, True, felt_a, felt_b)
    _gather(tree, a, weight, scale, 1.0, has_a, felt_a, grad, curvature)
    if not symmetric:
        _gather(tree, b, weight[:0], 1.0, -1.0, has_b, felt_b, grad, curvature)
    return scale * value, scale * by_parameter


@part
def weighted_cross_sum(tables, tree, a, b, weight, felt):  # type: ignore[no-untyped-def]
    """Sum over i in `a`, j in `b` of weight[i] weight[j] h(f_i - f_j), and what every item feels of the other set.

    Adds to `felt` the sum over the other set of its weight times h'(f_i - f_j). `tables` as for `cross_sum`; only the
    first two entries of its third axis are used, so that it may have no others.
    """
    panels = len(tree.ids)
    spread_a, spread_b = np.zeros((panels, NODES)), np.zeros((panels, NODES))
    has_a, has_b = np.zeros(panels, dtype=np.bool_), np.zeros(panels, dtype=np.bool_)
    _spread(tree, a, weight, spread_a, has_a)
    _spread(tree, b, weight, spread_b, has_b)
    felt_a, felt_b = np.zeros((1, panels, NODES)), np.zeros((1, panels, NODES))
    value, _ = _meet_all(tables, tree, spread_a, has_a, spread_b, has_b, True, False, felt_a, felt_b)
    nothing = weight[:0]
    _gather(tree, a, nothing, 1.0, 1.0, has_a, felt_a, felt, nothing)
    _gather(tree, b, nothing, 1.0, 1.0, has_b, felt_b, felt, nothing)
    return value


@part
def _meet_all(tables, tree, spread_a, has_a, spread_b, has_b, both, parameter, felt_a, felt_b):  # type: ignore[no-untyped-def]
    """Every panel of a with every one of b: the value, the derivative in the tie parameter if there is a table of it,
    and what the panels of a, and of b if `both`, feel."""
    value, by_parameter = 0.0, 0.0
    for level in range(len(tree.starts) - 1):
        for n in range(tree.starts[level], tree.starts[level + 1]):
            if not has_a[n]:
                continue
            for m in range(max(n - 3, tree.starts[level]), min(n + 4, tree.starts[level + 1])):
                if not has_b[m] or not _meet(level, tree.ids[n], tree.ids[m]):
                    continue
                table = tables[level, tree.ids[n] - tree.ids[m] + 3]
                value += _bilinear(table[VALUE], spread_a[n], spread_b[m])
                if parameter:
                    by_parameter += _bilinear(table[PARAMETER], spread_a[n], spread_b[m])
                for k in range(len(felt_a)):
                    apply(table[FIRST + k], spread_b[m], felt_a[k, n])
                    if both:
                        apply_transposed(table[FIRST + k], spread_a[n], felt_b[k, m])
    return value, by_parameter


@part
def _meet(level, one, other):  # type: ignore[no-untyped-def]
    # Neighbours meet on level 0. Others meet where they are no neighbours but their parents are.
    gap = abs(one - other)
    if gap <= 1:
        return level == 0
    return gap <= 3 and abs((one >> 1) - (other >> 1)) <= 1


@part
def _spread(tree, items, weight, spread, has):  # type: ignore[no-untyped-def]
    moments = np.zeros((tree.starts[1], NODES))
    for i in range(items[0], items[1]):
        n = tree.leaf[i]
        has[n] = True
        now = weight[i] if len(weight) else 1.0
        twice = 2.0 * tree.place[i]
        after = now * tree.place[i]
        row = moments[n]
        for k in range(NODES):
            row[k] += now
            now, after = after, twice * after - now
    for n in range(tree.starts[1]):
        if has[n]:
            apply(_TO_NODES, moments[n], spread[n])
    for n in range(len(tree.ids)):
        if has[n] and tree.parent[n] >= 0:
            has[tree.parent[n]] = True
            apply(_UP[tree.ids[n] & 1], spread[n], spread[tree.parent[n]])


@part
def _gather(tree, items, weight, scale, sign, has, felt, grad, curvature):  # type: ignore[no-untyped-def]
    wanted = len(felt)
    for n in range(len(tree.ids) - 1, -1, -1):
        if has[n] and tree.parent[n] >= 0:
            for k in range(wanted):
                apply(_DOWN[tree.ids[n] & 1], felt[k, tree.parent[n]], felt[k, n])
    coefficients = np.zeros((wanted, tree.starts[1], NODES))
    for n in range(tree.starts[1]):
        if has[n]:
            for k in range(wanted):
                apply(TO_COEFFICIENTS, felt[k, n], coefficients[k, n])
    for i in range(items[0], items[1]):
        factor = scale * weight[i] if len(weight) else scale
        grad[i] += sign * factor * series(coefficients[0, tree.leaf[i]], tree.place[i])
        if wanted == 2:
            curvature[i] += factor * series(coefficients[1, tree.leaf[i]], tree.place[i])


@part
def series(coefficients, x):  # type: ignore[no-untyped-def]
    """The sum of Chebyshev polynomials with these coefficients at x, by Clenshaw's recurrence."""
    twice, later, latest = 2.0 * x, 0.0, 0.0
    for k in range(NODES - 1, 0, -1):
        later, latest = coefficients[k] + twice * later - latest, later
    return coefficients[0] + x * later - latest


# Sums of NODES products in any order: allows vector instructions, and is the same order in every run.
@part(reorder=True)
def _bilinear(table, left, right):  # type: ignore[no-untyped-def]
    total = 0.0
    for m in range(NODES):
        row = 0.0
        for n in range(NODES):
            row += table[m, n] * right[n]
        total += left[m] * row
    return total


@part(reorder=True)
def apply(table, values, out):  # type: ignore[no-untyped-def]
    """Add the table times the values."""
    for m in range(NODES):
        row = 0.0
        for n in range(NODES):
            row += table[m, n] * values[n]
        out[m] += row


@part(reorder=True)
def apply_transposed(table, values, out):  # type: ignore[no-untyped-def]
    """Add the values times the table."""
    for m in range(NODES):
        for n in range(NODES):
            out[n] += table[m, n] * values[m]
