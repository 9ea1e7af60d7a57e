r"""Pairs under links of exponentials, from one exponential a document.

Rao and Kupper: with $e_i = \exp(f_i - \max f)$, $x = \theta e_j / e_i$ and $y = \theta e_i / e_j$, the loss of a win is
$\log(1 + x)$ and that of a tie $\log(1 + x) + \log(1 + y) - \log(\theta^2 - 1)$ (Eq. 11 of the boosted-ties paper).
With $y$ and $\theta^2$ set to 0 the derivatives of a tie are those of a win. Davidson: with
$e_i = \exp((f_i - \max f)/2)$ and $q = e_j / e_i$, the loss of a win is $\log(1 + q^2 + \nu q)$ and that of a tie
$\log(1 + (q + 1/q)/\nu)$.

A pair costs one division instead of exponentials and logarithms, and four pairs are taken at once; one formula serves
the four of a row among which its ties end. Logarithms are taken of products: $s = \prod (1 + x) - 1$ is accumulated
beside $p = 1 + s$ as $s \leftarrow s + x p$, $p \leftarrow p + x p$, so that $\log(1 + s)$ has the relative precision
of a sum of $\log(1 + x)$, and is settled before it can overflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from luce.numerics.fours import WIDTH, exp, first_lanes, load, place, splat, store, total, whole_fours
from luce.numerics.links import DAVIDSON, LOGISTIC, RAO_KUPPER
from luce.types import FloatArray

__all__ = ["Shared", "exponentials", "logistic_block", "logistic_rectangle", "room_for"]

_ROOM = 340.0
"""Logarithm that factors may add to a product before somebody looks whether it is full."""
_FULL = 1e65
"""What a product may be then: with as much as it may grow, and times another one of this size, it is a number."""


class Shared(NamedTuple):
    """What the documents of a query give to all their pairs, and room for sums over them, all with whole fours."""

    e: FloatArray
    inverse: FloatArray
    slope: FloatArray
    bend: FloatArray
    products: FloatArray
    theta: float
    """Or nu."""
    in_turn: int
    """How many factors fit into a product; 0 where pairs take exponentials of their own."""


@njit(nogil=True, cache=True, error_model="numpy")
def room_for(n):  # type: ignore[no-untyped-def]
    """Room for queries of up to n documents."""
    size = whole_fours(n)
    return Shared(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(WIDTH), 1.0, 0)


@njit(nogil=True, cache=True, error_model="numpy")
def exponentials(code, shape, f, room):  # type: ignore[no-untyped-def]
    """Fill e_i and 1 / e_i into the room, unless the link is another one or scores are too far apart."""
    if (code != LOGISTIC and code != RAO_KUPPER and code != DAVIDSON) or len(f) == 0:
        return room
    low, top, all_of_them = f[0], f[0], 0.0
    for i in range(len(f)):
        low, top, all_of_them = min(low, f[i]), max(top, f[i]), all_of_them + f[i]
    log_theta, half = (shape[0], 0.5) if code == DAVIDSON else (shape[1], 1.0)
    greatest = top - low + 2.0 * abs(log_theta) + 1.4  # of log (1 + x) (1 + y)
    greatest += 0.0 * all_of_them  # NaN where a score is, which would stay in the room
    if not greatest <= _ROOM:
        return room
    for i in range(len(f)):
        room.e[i] = half * (f[i] - top)
    _exponentiate(place(room.e), place(room.inverse), len(f))
    in_turn = int(_ROOM // greatest)
    return Shared(room.e, room.inverse, room.slope, room.bend, room.products, np.exp(log_theta), in_turn)


@njit(nogil=True, cache=True, error_model="numpy")
def _exponentiate(e, inverse, n):  # type: ignore[no-untyped-def]
    for j in range(n, whole_fours(n)):
        e[j] = 0.0
    for j in range(0, n, WIDTH):
        of_four = exp(load(e, j))
        store(e, j, of_four)
        store(inverse, j, 1.0 / of_four)


@njit(nogil=True, cache=True, error_model="numpy")
def logistic_rectangle(code, tied, shape, shared, weight, rows, columns, grad, curvature):  # type: ignore[no-untyped-def]
    """Value and derivative in the tie parameter of all pairs of two ranges, of one with itself where tied."""
    if rows[0] == rows[1] or columns[0] == columns[1]:
        return 0.0, 0.0
    at = _places(shared, weight, grad, curvature)
    others = (rows[1], rows[1]) if tied else columns
    sums = _strips(code, tied, len(curvature) > 0, at, rows, others, (0.0, 0.0, weight[rows[0]], at.in_turn))
    _collect(shared, rows[0], columns[1], grad, curvature)
    return _finished(code, shape, at, sums, weight[rows[0]] * _pairs_within(rows) if tied else 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def logistic_block(code, shape, shared, starts, first, last, weights, grad, curvature):  # type: ignore[no-untyped-def]
    """Value and derivative in the tie parameter of all pairs of a run of tiers; `starts` are positions."""
    at, end, curved = _places(shared, weights[0], grad, curvature), starts[last], len(curvature) > 0
    sums, ties = (0.0, 0.0, at.weight[starts[first]], at.in_turn), 0.0
    for tier in range(first, last):
        here = starts[tier], starts[tier + 1]
        tie_weight = weights[1][here[0]]  # that of wins, or 0
        if here[1] < end or (tie_weight > 0.0 and here[1] - here[0] > 1):
            sums = _strips(code, tie_weight > 0.0, curved, at, here, (here[1], end), sums)
            ties += tie_weight * _pairs_within(here)
    _collect(shared, starts[first], end, grad, curvature)
    return _finished(code, shape, at, sums, ties)


@njit(nogil=True, cache=True, error_model="numpy")
def _pairs_within(rows):  # type: ignore[no-untyped-def]
    return 0.5 * (rows[1] - rows[0]) * (rows[1] - rows[0] - 1)


@njit(nogil=True, cache=True, error_model="numpy")
def _finished(code, shape, at, sums, ties):  # type: ignore[no-untyped-def]
    """Value and derivative in the tie parameter, from the sums of `_rows` and the weight of all tied pairs."""
    value, shares, weight, _ = sums
    value += weight * _settle(at.products)
    if code == DAVIDSON:
        return value, shares
    return value - ties * (shape[4] + 2.0 * shape[1]), shares * shape[2] - ties * (shape[5] + 2.0 * shape[2])


class _Places(NamedTuple):
    """The arrays of `Shared`, and the weights and results of documents, as `luce.numerics.fours.place` gives them."""

    e: Any
    inverse: Any
    slope: Any
    bend: Any
    products: Any
    weight: Any
    grad: Any
    curvature: Any
    theta: float
    in_turn: int


@njit(nogil=True, cache=True, error_model="numpy")
def _places(shared, weight, grad, curvature):  # type: ignore[no-untyped-def]
    return _Places(
        place(shared.e),
        place(shared.inverse),
        place(shared.slope),
        place(shared.bend),
        place(shared.products),
        place(weight),
        place(grad),
        place(curvature),
        shared.theta,
        shared.in_turn,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _collect(shared, first, last, grad, curvature):  # type: ignore[no-untyped-def]
    """Add the sums of a range, and set them to 0."""
    for k in range(first, last):
        grad[k] += shared.slope[k]
        shared.slope[k] = 0.0
        if len(curvature):
            curvature[k] += shared.bend[k]
            shared.bend[k] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _strips(code, tied, curved, at, rows, columns, sums):  # type: ignore[no-untyped-def]
    """Rows that are better than the columns and, where `tied`, tie among themselves and end where the columns start.

    Columns are taken in strips that one product has room for.
    """
    cut = columns[1] - columns[1] % WIDTH
    kept = load(at.e, cut)
    store(at.e, cut, kept * first_lanes(columns[1] - cut))  # where no column is, x = 0 adds nothing
    start, width = rows[0] + 1 if tied else columns[0], WIDTH * at.in_turn
    for first in range(start - start % WIDTH, columns[1], width):
        sums = _rows(code, tied, curved, at, rows, columns, (first, first + width), sums)
    store(at.e, cut, kept)
    return sums


@njit(nogil=True, cache=True, error_model="numpy")
def _rows(code, tied, curved, at, rows, columns, strip, sums):  # type: ignore[no-untyped-def]
    """The pairs of all rows with the columns of a strip, four at a time.

    What rows receive goes to `grad` and `curvature`, what columns receive to the room of `Shared`: numbers that were
    written one by one could not be read back as fours without waiting. For the same reason fours start at multiples
    of 4. The sums are those of the value without the products, and of what pairs give for the tie parameter; with them
    come the weight of the products, and how many factors may follow before one has to look at them.
    """
    value, all_shares, last_weight, left = sums
    theta = at.theta
    ties_end, end = min(columns[0], strip[1]), min(columns[1], strip[1])
    product = load(at.products, 0)
    grown = 1.0 + product
    for i in range(rows[0], min(rows[1], strip[1]) if tied else rows[1]):
        first = i + 1 if tied else columns[0]
        j = max(first - first % WIDTH, strip[0])
        weight, factors = at.weight[i], (end - j + WIDTH - 1) // WIDTH
        if weight != last_weight or left < factors:
            store(at.products, 0, product)
            value += last_weight * _relieve(at.products, weight != last_weight)
            product, left = load(at.products, 0), at.in_turn
            grown = 1.0 + product
        last_weight, left = weight, left - factors
        mine, inverse = at.e[i], at.inverse[i]
        slope, bend, shares = splat(0.0), splat(0.0), splat(0.0)
        while j < ties_end:
            before = first_lanes(first - j)
            tie = first_lanes(columns[0] - j) - before
            ratio, back = (1.0 - before) * (inverse * load(at.e, j)), tie * (mine * load(at.inverse, j))
            x, pull, share, curve = _tied(code, theta, ratio, back, tie)
            product, grown = product + x * grown, grown + x * grown
            store(at.slope, j, load(at.slope, j) - weight * pull)
            slope, shares = slope + pull, shares + share
            if curved:
                store(at.bend, j, load(at.bend, j) + weight * curve)
                bend = bend + curve
            j += WIDTH
        while j < end:
            x, pull, share, curve = _won(code, theta, inverse * load(at.e, j))
            product, grown = product + x * grown, grown + x * grown
            store(at.slope, j, load(at.slope, j) - weight * pull)
            slope, shares = slope + pull, shares + share
            if curved:
                store(at.bend, j, load(at.bend, j) + weight * curve)
                bend = bend + curve
            j += WIDTH
        at.grad[i] += weight * total(slope)
        if curved:
            at.curvature[i] += weight * total(bend)
        all_shares += weight * total(shares)
    store(at.products, 0, product)
    return value, all_shares, last_weight, left


@njit(nogil=True, cache=True, error_model="numpy")
def _won(code, theta, ratio):  # type: ignore[no-untyped-def]
    """Of four wins with e_j / e_i: e^loss - 1, slope in f_i - f_j, what they give for theta, curvature."""
    if code == DAVIDSON:
        x = ratio * (ratio + theta)
        part = 1.0 / (1.0 + x)
        lost = ratio * part
        pull = lost * (-0.5 * theta - ratio)
        return x, pull, theta * lost, lost * ((ratio + (0.25 * theta) * (1.0 + ratio * ratio)) * part)
    x = theta * ratio
    part = 1.0 / (1.0 + x)
    lost = x * part
    return x, 0.0 - lost, lost, lost * part


@njit(nogil=True, cache=True, error_model="numpy")
def _tied(code, theta, ratio, back, tie):  # type: ignore[no-untyped-def]
    """As `_won` for four of which some are ties: `tie` is 1 there and 0 elsewhere, `back` is e_i / e_j or 0."""
    if code == DAVIDSON:
        win, square = 1.0 - tie, ratio * ratio
        x = win * (ratio * (ratio + theta)) + tie * ((ratio + back) * (1.0 / theta))
        part = 1.0 / (1.0 + ratio * (ratio + theta))
        pull = part * (tie * (0.5 - 0.5 * square) - win * (ratio * (ratio + 0.5 * theta)))
        share = part * (win * (theta * ratio) - tie * (1.0 + square))
        return x, pull, share, (ratio * part) * ((ratio + (0.25 * theta) * (1.0 + square)) * part)
    x, y, square = theta * ratio, theta * back, (theta * theta) * tie
    both = x + y + square  # (1 + x) (1 + y) - 1
    part = 1.0 / (1.0 + both)
    won, lost = (1.0 + y) * part, (1.0 + x) * part
    return both, (y - x) * part, part * (both + square), x * won * won + y * lost * lost


@njit(nogil=True, cache=True, error_model="numpy")
def _relieve(products, all_of_them):  # type: ignore[no-untyped-def]
    """As `_settle`, but only where a product is full or all of them are asked for."""
    for k in range(WIDTH):
        if all_of_them or products[k] > _FULL:
            return _settle(products)
    return 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(products):  # type: ignore[no-untyped-def]
    """The sum of log(1 + product) over products, which are set to 0."""
    value, whole = 0.0, 0.0
    for k in range(WIDTH):
        if whole > _FULL:
            value += np.log1p(whole)
            whole = 0.0
        whole += products[k] * (1.0 + whole)
        products[k] = 0.0
    return value + np.log1p(whole)
