r"""How the pairs of a query are summed under a smooth link: pair by pair, or by panels where a query is long.

Links of exponentials need one exponential a document. With $z = f_i - f_j - \epsilon$ and $x = e^{-sz}$ the loss of a
win is $\log(1 + c\,x + b\,x^2)$; that of a tie, with $z = f_i - f_j$, is the same plus $s z$ and a constant (`Form`).
Rao and Kupper with $\epsilon = \log\theta$ have wins with s = c = 1, b = 0 and ties with $c = \theta + 1/\theta$,
b = 1 ([Ties] (11)); Davidson has $s = 1/2$, $c = \nu$, b = 1 for both. A pair costs one division; the logarithm is
taken of the product of as many pairs as a number has room for.

Of any other link the value and derivatives over the range of all differences are laid down cell by cell as polynomials
through Chebyshev nodes (`pair_table`); a pair then costs a few products, and Python is called on the nodes only.

Long queries are cut into tasks (`plan`), each by panel sums (`luce.numerics.chebyshev`) or pair
by pair, whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from luce.losses.pairs import Here, Sums
from luce.numerics.chebyshev import MAX_PANELS, NODES, Tree, cross_sum, grow_tree, meetings, n_levels
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp
from luce.types import FloatArray, IntArray

LONG, SHORT = 512, 256
"""Documents from which a query may go by panels, and up to which a part of it does not: measured, see
benchmarks/bench_pairwise.py."""
_FAR = 140.0
"""Greatest logarithm of x: scores further apart have no common exponentials."""
_FULL = 600.0
"""Logarithm of what a product may grow to."""
_SMALL = 1e-5
"""A product this near to 1 has lost digits of its logarithm; two terms of the series have them."""
_TABLE_NODES = 7
_CELLS_A_PANEL = 32
"""A panel of 32 nodes resolves the link to 1e-9; seven nodes on a thirty-second of it do so to 1e-13."""
REACH = 200.0
"""Panels that a table reaches to either side: scores further apart are taken one by one."""

_AT = np.cos(np.pi * (np.arange(_TABLE_NODES) + 0.5) / _TABLE_NODES)
_TO_POWERS = np.linalg.inv(_AT[:, None] ** np.arange(_TABLE_NODES))
Costs = tuple[float, float, float]
"""Nanoseconds of a pair, of a document in panels, and of a panel."""
Terms = Callable[[FloatArray, bool], FloatArray]
"""Of differences, and whether they are ties: loss, its two derivatives, its derivative in the tie parameter."""
Pairs = Callable[[Here, Sums], None]
"""All pairs of one query, pair by pair: fills value and derivative in the tie parameter, adds to slopes and bends."""

_ENTRY = 100.0
"""Nanoseconds of an entry of a table."""
NO_TABLES = np.empty((0, 0, 0, 0, NODES, NODES))
"""In place of node tables where every pair is taken by itself."""


class Form(NamedTuple):
    """The numbers of a link of exponentials: of wins, and of ties where it has any."""

    scale: float = 1.0
    shift: float = 0.0
    """The half-width epsilon, of wins."""
    win: tuple[float, float] = (1.0, 0.0)
    """(c, b)."""
    tie: tuple[float, float] = (2.0, 1.0)
    tie_constant: float = 0.0
    by_t: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Derivative in the tie parameter: by the slope of wins, by x / (1 + c x + b x^2) of wins and of ties, of a tie."""

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """Loss of pairs at these differences, its two derivatives, and that in the tie parameter: (4, *d).

        1, c x and b x^2 are in proportion to the chances of 0, 1 and 2: the slope is their mean, the bend their
        variance, both without a difference of numbers that are nearly equal.
        """
        (c, b), z = (self.tie, d) if tied else (self.win, d - self.shift)
        once = math.log(c) - self.scale * z
        twice = math.log(b) - 2.0 * self.scale * z if b else np.full_like(z, -np.inf)
        log_sum = np.logaddexp(np.logaddexp(0.0, once), twice)
        none, one, two = np.exp(-log_sum), np.exp(once - log_sum), np.exp(twice - log_sum)
        bend = self.scale**2 * (none * one + 4.0 * none * two + one * two)
        if tied:
            value, slope = log_sum + self.scale * z + self.tie_constant, self.scale * (none - two)
            return np.stack([value, slope, bend, self.by_t[2] / c * one + self.by_t[3]])
        slope = -self.scale * (one + 2.0 * two)
        return np.stack([log_sum, slope, bend, self.by_t[1] / c * one + self.by_t[0] * slope])


@part(reorder=True)
def _row(curve, e, first, last, units, slopes, bends):  # type: ignore[no-untyped-def]
    """One document against a range: sums of -slope, bend, x / D and (where small) log D, and the product of all D.

    Places are unsigned numbers: others would be tested for being negative, and no vector instruction be used.
    """
    (c, b, a), (slope_unit, bend_unit) = curve, units
    slope, bend, share, small, product = 0.0, 0.0, 0.0, 0.0, 1.0
    curved = len(bends) > 0
    for j in range(np.uint64(first), np.uint64(last)):
        x = a * e[j]
        more = x * (c + b * x)
        one_over = 1.0 / (1.0 + more)
        product *= 1.0 + more
        small += more - 0.5 * more * more
        pull = x * (c + 2.0 * b * x) * one_over
        slope += pull
        slopes[j] += slope_unit * pull
        share += x * one_over
        if curved:
            bent = x * (c + b * x * (4.0 + c * x)) * one_over * one_over
            bend += bent
            bends[j] += bend_unit * bent
    return slope, bend, share, small, product


@part
def pairs_of_tiers(form, here, first, last, e, sums):  # type: ignore[no-untyped-def]
    """All pairs of a run of tiers: the value, and the derivative in the tie parameter; NaN where scores are too far.

    Adds to `slopes` and, unless it is empty, to `bends`; `e` is room for the exponentials.
    """
    (starts, _, f, win_weight, tie_weight), (_, _, slopes, bends) = here, sums
    begin, end, s = starts[first], starts[last], form.scale
    low, high = f[begin], f[begin]
    for i in range(begin, end):
        low, high = f[i] if f[i] < low else low, f[i] if f[i] > high else high
    if not s * (high - low + form.shift) <= _FAR:
        return np.nan, np.nan
    for i in range(begin, end):
        e[i] = fast_exp(s * (f[i] - low))
    factor, log_win = math.exp(s * form.shift), math.log(1.0 + form.win[0] + form.win[1])
    log_tie = math.log(1.0 + form.tie[0] + form.tie[1])
    value, by_t, product, small, full, last_weight = 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
    for tier in range(first, last):
        tier_begin, tier_end = starts[tier], starts[tier + 1]
        for i in range(tier_begin, tier_end):
            # The part s z of a tie, summed over its tier, is what every document has more after it than before it.
            after, uneven = (
                tie_weight[i] * (tier_end - 1 - i),
                tie_weight[i] * s * (tier_end - 1 - i - (i - tier_begin)),
            )
            slopes[i] += uneven
            value += uneven * f[i] + after * form.tie_constant
            by_t += after * form.by_t[3]
            for tied in range(2):
                (c, b), a, largest = form.win, factor / e[i], log_win
                j, stop, weight, by_slope, by_share = tier_end, end, win_weight[i], form.by_t[0], form.by_t[1]
                if tied:
                    (c, b), a, largest = form.tie, 1.0 / e[i], log_tie
                    j, stop, weight, by_slope, by_share = i + 1, tier_end, tie_weight[i], 0.0, form.by_t[2]
                if weight == 0.0:
                    continue
                largest += (s + s * b) * (high - f[i] + form.shift)  # log(1 + c x + b x^2) is at most this
                room = int(_FULL / largest)
                while j < stop:
                    n = room if room < stop - j else stop - j
                    if weight != last_weight or full + n * largest > _FULL:
                        value += last_weight * (small if product < 1.0 + _SMALL else math.log(product))
                        product, small, full, last_weight = 1.0, 0.0, 0.0, weight
                    slope, bend, share, more, factors = _row(
                        (c, b, a), e, j, j + n, (s * weight, s * s * weight), slopes, bends
                    )
                    j, full, product, small = j + n, full + n * largest, product * factors, small + more
                    slopes[i] -= s * weight * slope
                    if len(bends):
                        bends[i] += s * s * weight * bend
                    by_t += weight * (by_share * share - by_slope * s * slope)
    return value + last_weight * (small if product < 1.0 + _SMALL else math.log(product)), by_t


@kernel
def pairs_of_queries(form, here, longest, sums):  # type: ignore[no-untyped-def]
    """`pairs_of_tiers` of every query of at most `longest` documents."""
    e = np.empty(len(here.f))
    for q in range(len(sums.values)):
        first, last = here.queries[q], here.queries[q + 1]
        if here.starts[last] - here.starts[first] <= longest:
            sums.values[q], sums.by_t[q] = pairs_of_tiers(form, here, first, last, e, sums)


def pair_table(terms: Terms, span: float, width: float, ties: bool) -> FloatArray:
    """Coefficients (wins and ties, cell, power, quantity) of `terms` for differences from -span to span.

    A cell is the same to the last bit however far the table reaches.
    """
    cell = width / _CELLS_A_PANEL
    middles = cell * (np.arange(2 * int(span / cell) + 4) - int(span / cell) - 1.5)
    at = middles[:, None] + 0.5 * cell * _AT
    tables = np.zeros((1 + ties, len(middles), _TABLE_NODES, 4))
    for tied in range(1 + ties):
        found = np.moveaxis(terms(at, bool(tied)), 0, -1)  # cell, node, quantity
        for node in range(_TABLE_NODES):
            tables[tied] += _TO_POWERS[:, node, None] * found[:, node, None]
    return tables


@kernel
def pairs_by_table(table, width, here, longest, sums):  # type: ignore[no-untyped-def]
    """Value and derivative in the tie parameter of every query of at most `longest` documents; adds to the others.

    NaN where the scores of a query are further apart than any table reaches; the others must be within this one.
    """
    starts, queries, f, win_weight, tie_weight = here
    values, by_t, slopes, bends = sums
    middle, a_cell = table.shape[1] // 2, _CELLS_A_PANEL / width
    for q in range(len(values)):
        begin, end = starts[queries[q]], starts[queries[q + 1]]
        if end - begin > longest:
            continue
        low, high = f[begin], f[begin]
        for i in range(begin, end):
            low, high = f[i] if f[i] < low else low, f[i] if f[i] > high else high
        if not high - low <= REACH * width:
            values[q] = np.nan
            continue
        values[q], by_t[q] = 0.0, 0.0
        for tier in range(queries[q], queries[q + 1]):
            for i in range(starts[tier], starts[tier + 1]):
                for j in range(i + 1, end):
                    tied = 1 if j < starts[tier + 1] else 0
                    weight = tie_weight[i] if tied else win_weight[i]
                    if weight == 0.0:
                        continue
                    place = (f[i] - f[j]) * a_cell
                    cell = math.floor(place)
                    at = 2.0 * (place - cell) - 1.0
                    cell += middle
                    value, first, second, slope = 0.0, 0.0, 0.0, 0.0
                    for power in range(_TABLE_NODES - 1, -1, -1):
                        value = value * at + table[tied, cell, power, 0]
                        first = first * at + table[tied, cell, power, 1]
                        second = second * at + table[tied, cell, power, 2]
                        slope = slope * at + table[tied, cell, power, 3]
                    values[q] += weight * value
                    by_t[q] += weight * slope
                    slopes[i] += weight * first
                    slopes[j] -= weight * first
                    if len(bends):
                        bends[i] += weight * second
                        bends[j] += weight * second


def tables_for(terms: Terms, span: float, pairs: float, width: float, costs: Costs, kinds: int = 1) -> FloatArray:
    """Tables of a loss between the nodes of panels, (win and tie, level, offset + 3, quantity, NODES, NODES).

    `NO_TABLES` where there are not pairs enough to pay for them, or scores are too far apart for any panel.
    """
    entries = kinds * sum(gaps.size for _, _, gaps in meetings(span, width))
    if span >= MAX_PANELS * width or pairs * costs[0] < 2.0 * entries * _ENTRY:
        return NO_TABLES
    tables = np.zeros((kinds, n_levels(span, width), 7, 4, NODES, NODES))
    for level, offset, gaps in meetings(span, width):
        for tied in range(kinds):
            tables[tied, level, offset + 3] = terms(gaps, bool(tied))
    return tables


def plan(starts: IntArray, short: int = SHORT) -> list[tuple[IntArray, bool]]:
    """Cut the pairs of the tiers of one long group into tasks: edges of tiers, and whether ties inside them count.

    Tiers are halved by documents until a half has one tier or at most `short` documents: every pair of different tiers
    is then in exactly one task, as is every tied pair, and a document in O(log tiers) tasks.

    >>> [(edges.tolist(), ties) for edges, ties in plan(np.array([0, 2, 4, 9]), 4)]
    [([0, 2, 4], True), ([4, 9], True), ([0, 4, 9], False)]
    """
    if starts[-1] - starts[0] <= short or len(starts) == 2:
        return [(starts, True)]
    middle = 1 + int(np.argmin(np.abs(2 * starts[1:-1] - starts[0] - starts[-1])))
    halves = plan(starts[: middle + 1], short), plan(starts[middle:], short)
    return [*halves[0], *halves[1], (starts[[0, middle, -1]], False)]


def panel_sums(here: Here, terms: Terms, pairs: Pairs, width: float, costs: Costs, sums: Sums) -> None:
    """One long group, which is `here` all by itself, task by task."""
    tasks = plan(here.starts)
    span, ties = float(np.ptp(here.f)), bool(here.tie_weight.any())
    work = sum(_pairs_of_panels(here, *task, 1, costs) for task in tasks)
    tables = tables_for(terms, span, work, width, costs, 2 if ties else 1)
    if not len(tables):
        pairs(here, sums)
        return
    tree = grow_tree(here.f, width)
    sums.values[:], sums.by_t[:] = 0.0, 0.0
    for edges, tied in tasks:
        inside = slice(edges[0], edges[-1])
        found = Sums(np.zeros(1), np.zeros(1), sums.slopes[inside], sums.bends[inside])
        if _pairs_of_panels(here, edges, tied, len(tree.ids), costs):
            found.values[0], found.by_t[0] = _by_panels(tables, tree, edges, here, sums.slopes, sums.bends)
        elif len(edges) > 2 or here.tie_weight[edges[0]] > 0.0:
            pairs(here.part(edges, tied), found)
        sums.values[:] += found.values
        sums.by_t[:] += found.by_t


def _pairs_of_panels(here: Here, edges: IntArray, tied: bool, panels: int, costs: Costs) -> float:
    """How many pairs a task has, of one tier or between two; 0 where panels cannot do it, or cost more."""
    sizes, pairs = np.diff(edges).astype(np.float64), 0.0
    if len(sizes) == 1:
        pairs = 0.5 * sizes[0] ** 2 if here.tie_weight[edges[0]] > 0.0 else 0.0
    elif not tied:
        pairs = sizes[0] * sizes[1]
    return float(pairs) if costs[0] * pairs >= costs[1] * sizes.sum() + costs[2] * panels else 0.0


def _by_panels(
    tables: FloatArray, tree: Tree, edges: IntArray, here: Here, slopes: FloatArray, bends: FloatArray
) -> tuple[float, float]:
    rows = (edges[0], edges[1])
    if len(edges) > 2:
        return cross_sum(tables[0], tree, rows, (edges[1], edges[2]), here.win_weight, False, slopes, bends)
    value, by_t = cross_sum(tables[1], tree, rows, rows, here.tie_weight, True, slopes, bends)
    # Every pair came twice, and every document with itself, d = 0: the diagonal of the table of a panel with itself.
    alone, weight = tables[1, 0, 3, :, 0, 0], here.tie_weight[edges[0]]
    if len(bends):
        bends[edges[0] : edges[1]] -= weight * alone[2]
    n = weight * (edges[1] - edges[0])
    return 0.5 * (value - n * alone[0]), 0.5 * (by_t - n * alone[3])
