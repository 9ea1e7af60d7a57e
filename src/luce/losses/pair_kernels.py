r"""Pairs under links of exponentials, pair by pair, from one exponential a document.

With $z = f_i - f_j - \epsilon$ and $x = e^{-sz}$ the loss of a win is $\log(1 + c\,x + b\,x^2)$; that of a tie, with
$z = f_i - f_j$, is the same plus $s z$ and a constant (`Form`). Rao and Kupper with $\epsilon = \log\theta$ have wins
with s = c = 1, b = 0 and ties with $c = \theta + 1/\theta$, b = 1 ([Ties] (11)); Davidson has $s = 1/2$, $c = \nu$,
b = 1 for both. A pair costs one division; the logarithm is taken of the product of as many pairs as a number has room
for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp
from luce.numerics.links import DAVIDSON, RAO_KUPPER, shape_of

_FAR = 140.0
"""Greatest logarithm of x: scores further apart have no common exponentials."""
_FULL = 600.0
"""Logarithm of what a product may grow to."""
_SMALL = 1e-5
"""A product this near to 1 has lost digits of its logarithm; two terms of the series have them."""


class Form(NamedTuple):
    """The numbers of a link: of wins, and of ties where it has any."""

    scale: float
    shift: float
    """The half-width epsilon, of wins."""
    win: tuple[float, float]
    """(c, b)."""
    tie: tuple[float, float]
    tie_constant: float
    by_t: tuple[float, float, float, float]
    """Derivative in the tie parameter: by the slope of wins, by x / (1 + c x + b x^2) of wins and of ties, of a tie."""


def form_of(code: int, t: float) -> Form:
    """The form of a link at the unconstrained tie parameter t."""
    if code == DAVIDSON:
        nu = math.exp(t)
        return Form(0.5, 0.0, (nu, 1.0), (nu, 1.0), -t, (0.0, nu, nu, -1.0))
    if code != RAO_KUPPER:
        return Form(1.0, 0.0, (1.0, 0.0), (2.0, 1.0), 0.0, (0.0, 0.0, 0.0, 0.0))
    _, width, slope, _, constant, constant_t, _ = shape_of(code, t)
    theta = math.exp(width)
    by_t = (-slope, 0.0, (theta - 1.0 / theta) * slope, -(constant_t + slope))
    return Form(1.0, width, (1.0, 0.0), (theta + 1.0 / theta, 1.0), -(constant + width), by_t)


@part(reorder=True)
def _row(c, b, a, e, first, last, slope_unit, bend_unit, slopes, bends):  # type: ignore[no-untyped-def]
    """One document against a range: sums of -slope, bend, x / D and (where small) log D, and the product of all D.

    Places are unsigned numbers: others would be tested for being negative, and no vector instruction be used.
    """
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
            curve = x * (c + b * x * (4.0 + c * x)) * one_over * one_over
            bend += curve
            bends[j] += bend_unit * curve
    return slope, bend, share, small, product


@part
def pairs_of_tiers(form, starts, first, last, f, e, win_weight, tie_weight, slopes, bends):  # type: ignore[no-untyped-def]
    """All pairs of a run of tiers: the value, and the derivative in the tie parameter; NaN where scores are too far.

    Adds to `slopes` and, unless it is empty, to `bends`; `e` is room for the exponentials.
    """
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
        here, tier_end = starts[tier], starts[tier + 1]
        for i in range(here, tier_end):
            # The part s z of a tie, summed over its tier, is what every document has more after it than before it.
            after, uneven = tie_weight[i] * (tier_end - 1 - i), tie_weight[i] * s * (tier_end - 1 - i - (i - here))
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
                        c, b, a, e, j, j + n, s * weight, s * s * weight, slopes, bends
                    )
                    j, full, product, small = j + n, full + n * largest, product * factors, small + more
                    slopes[i] -= s * weight * slope
                    if len(bends):
                        bends[i] += s * s * weight * bend
                    by_t += weight * (by_share * share - by_slope * s * slope)
    return value + last_weight * (small if product < 1.0 + _SMALL else math.log(product)), by_t


@kernel
def pairs_of_queries(form, starts, queries, f, win_weight, tie_weight, longest, values, by_t, slopes, bends):  # type: ignore[no-untyped-def]
    """`pairs_of_tiers` of every query of at most `longest` documents."""
    e = np.empty(len(f))
    for q in range(len(values)):
        if starts[queries[q + 1]] - starts[queries[q]] <= longest:
            values[q], by_t[q] = pairs_of_tiers(
                form, starts, queries[q], queries[q + 1], f, e, win_weight, tie_weight, slopes, bends
            )
