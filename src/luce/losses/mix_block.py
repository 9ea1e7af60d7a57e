r"""Many queries at once on their way to $\nabla\psi(x) = s$ (see `mix_kernel`): single precision, then one exact step.

Coordinates of a block of queries stand one after the other, so that loops are long enough for vector instructions
whatever the sizes of the queries. Newton's steps run in single precision, twice as many numbers an instruction and
shorter polynomials; one step in double precision then squares what is left. A query that has not arrived by then is
left to a slower way. What a query gets does not depend on the others of its block.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from luce.numerics.compiled import part
from luce.numerics.fast_exp import fast_exp, fast_exp_single, fast_log, fast_log_single

BLOCK = 2048
"""Rows of a block: what is known of them stays near the processor."""
_LANES = 32
"""Blocks are filled up to a multiple of this, so that no row is left to a loop without vector instructions."""
_CONTRACT, _HIGHEST = {"contract"}, {"nnan", "nsz"}
_NOTICED = 1e-15
"""Where signs are those of s, absolute values are taken to be at least this share of the largest."""
_F = np.float32
_ZERO, _LEAST, _SIXTH, _QUARTER, _HALF, _ONE = (_F(v) for v in (0.0, 1e-36, 1.0 / 6.0, 0.25, 0.5, 1.0))

Rows = namedtuple("Rows", ["s", "q1", "nu", "level", "y", "d_nu", "move", "lag", "share"])
"""Of every row: score, q - 1, log norm and norm of its query, log x; of the next step that of nu, that of y with nu
held, and how y follows nu; and (x / norm)^q."""
Queries = namedtuple("Queries", ["cuts", "q", "nu", "level", "total", "spread", "behind", "d_nu", "sweeps"])
"""Of every query of a block: its rows, q, log norm and norm; sums over its rows; step of nu; steps still to take."""


@part
def _padded(n):  # type: ignore[no-untyped-def]
    return (n + _LANES - 1) // _LANES * _LANES


@part
def empty_rows(n, one):  # type: ignore[no-untyped-def]
    """Room for n rows of the type of `one`."""
    m = _padded(n)
    # Vectors of their own: rows of a matrix are not known to be contiguous, and loops over them are slow.
    first = np.full(m, one), np.full(m, one + one), np.full(m, one - one)
    return Rows(
        *first, np.full(m, one), np.full(m, one), np.full(m, one), np.full(m, one), np.full(m, one), np.full(m, one)
    )


@part
def empty_queries(n):  # type: ignore[no-untyped-def]
    """Room for n queries. Rows are unsigned numbers: no loop has to think of places counted from the end."""
    first, later = (np.ones(n), np.ones(n), np.ones(n), np.ones(n)), (np.ones(n), np.ones(n), np.ones(n), np.ones(n))
    return Queries(np.zeros(n + 1, np.uint64), *first, *later)


@part
def _fill(values, cuts, n, out):  # type: ignore[no-untyped-def]
    """A number of every query to its rows: one vector at a time, as loops over several begin with many checks."""
    for i in range(n):
        value = out.dtype.type(values[i])
        for j in range(cuts[i], cuts[i + 1]):
            out[j] = value


@part
def load(scores, offsets, shift, weights, q, members, n, rows, queries):  # type: ignore[no-untyped-def]
    """The members of a block: scores to their places, and norms to begin with."""
    cuts = queries.cuts
    for i in range(n):
        m = np.uint64(offsets[members[i] + 1] - offsets[members[i]])
        if i > 0 and m == cuts[i] - cuts[i - 1]:
            queries.q[i] = queries.q[i - 1]
        else:
            queries.q[i] = np.log(m) + 2.0 if q == 0.0 else q
        cuts[i + 1] = cuts[i] + m
    _load_scores(scores, offsets, shift, weights[0] == 0.0, members, n, rows, queries)
    if weights[2] > 0.0:
        _first_norms(queries, n, weights[0], weights[1], weights[2])
    else:
        for i in range(n):
            queries.nu[i] = 0.0


@part(fastmath=_HIGHEST)
def _load_scores(scores, offsets, shift, absolute, members, n, rows, queries):  # type: ignore[no-untyped-def]
    """Scores, or their absolute values with a floor that only 0 needs; the highest of every query."""
    cuts, s = queries.cuts, rows.s
    for i in range(n):
        top, start = -np.inf, np.uint64(offsets[members[i]]) - cuts[i]
        for j in range(cuts[i], cuts[i + 1]):
            s[j] = abs(scores[start + j] + shift) if absolute else scores[start + j] + shift
            top = max(top, s[j])
        queries.total[i], queries.spread[i] = top, _NOTICED * top
    if absolute:
        _fill(queries.spread, cuts, n, rows.d_nu)
        for j in range(np.int64(cuts[n])):
            s[j] = max(s[j], rows.d_nu[j])


@part(forceinline=True)
def _lambert(L):  # type: ignore[no-untyped-def]
    """The log w with w + log w = L, to a tenth."""
    high, low = max(L, _HALF), min(L, _HALF)
    log_L = fast_log_single(high)
    by_e = _ONE - low * (_ONE - low * (_HALF - low * _SIXTH))  # about e^-L
    above = L > _HALF
    # Above: w is about L - log L. Below: it is about e^L / (1 + e^L).
    return (log_L if above else low) - (log_L if above else _ONE) / (high + _ONE if above else by_e + _HALF)


@part(fastmath=_CONTRACT)
def _first_norms(queries, n, A, B, C):  # type: ignore[no-untyped-def]
    """About log ||x||_q, from the highest score: the norm is between its x and m^(1/q) times that."""
    _, q, nu, _, top, above, ratio, _, _ = queries
    m = np.uint64(0)
    for i in range(n):
        if i > 0 and m == queries.cuts[i + 1] - queries.cuts[i]:
            above[i], ratio[i] = above[i - 1], ratio[i - 1]
        else:
            m = queries.cuts[i + 1] - queries.cuts[i]
            above[i] = 0.5 * np.log(m) / q[i]
            ratio[i] = np.log(B + C * np.exp((2.0 - q[i]) * above[i])) - (np.log(A) if A > 0.0 else 0.0)
    if A > 0.0:
        for i in range(n):
            nu[i] = above[i] - ratio[i] + _lambert(_F(ratio[i] + top[i] / A))
    else:
        for i in range(n):
            nu[i] = above[i] - ratio[i] + fast_log(top[i])


@part
def _start(rows, queries, n, filled, A, B, C):  # type: ignore[no-untyped-def]
    """First y, given nu: the lower of the roots without the q-norm and without the square, at most log 2 above y."""
    q, ratio = queries.q, queries.total
    log_A, log_B, log_C = np.log(A if A > 0.0 else 1.0), np.log(max(B, 1e-35)), np.log(max(C, 1e-35))
    last, log_q1 = 0.0, 0.0
    for i in range(n):
        if q[i] != last:
            last, log_q1 = q[i], np.log(q[i] - 1.0) if A > 0.0 else 0.0
        ratio[i] = log_C + log_q1 - log_A - (q[i] - 2.0) * queries.nu[i]
    _fill(ratio, queries.cuts, n, rows.share)
    if A > 0.0:
        _start_positive(rows, filled, _F(1.0 / A), _F(log_B - log_A))
    else:
        _start_absolute(rows, filled, _F(log_B))


@part(fastmath=_CONTRACT)
def _start_positive(rows, n, by_A, ratio_B):  # type: ignore[no-untyped-def]
    s, q1, ratio = rows.s, rows.q1, rows.share
    for j in range(n):
        without_norm = _lambert(ratio_B + s[j] * by_A) - ratio_B
        without_square = (_lambert(ratio[j] + s[j] * by_A * q1[j]) - ratio[j]) / q1[j]
        rows.y[j] = min(without_norm, without_square)


@part(fastmath=_CONTRACT)
def _start_absolute(rows, n, log_B):  # type: ignore[no-untyped-def]
    s, q1, ratio = rows.s, rows.q1, rows.share
    for j in range(n):
        log_s = fast_log_single(s[j])
        rows.y[j] = min(log_s - log_B, (log_s - ratio[j]) / q1[j])


@part(fastmath=_CONTRACT)
def _sweep_single(rows, n, A, B, C):  # type: ignore[no-untyped-def]
    """Take the step; of the next, that of every coordinate (Halley's, nu held), how it follows nu, and its share."""
    s, q1, nu, level, y, d_nu, move, lag, share = rows
    for j in range(n):
        nu[j] += d_nu[j]
        y[j] += lag[j] * d_nu[j] - move[j]
        below = y[j] - nu[j]
        t = fast_exp_single(below)
        power = fast_exp_single(q1[j] * below)
        e, f = B * level[j] * t, C * level[j] * power
        inverse = _ONE / (A + e + q1[j] * f + _LEAST)
        step = (A * y[j] + e + f - s[j]) * inverse
        move[j] = step / max(_ONE - _HALF * step * (e + q1[j] * q1[j] * f) * inverse, _QUARTER)
        lag[j] = (q1[j] - _ONE) * f * inverse
        share[j] = t * power


@part(fastmath=_CONTRACT)
def _sweep(rough, rows, n, A, B, C, x):  # type: ignore[no-untyped-def]
    """The same in double precision, of steps so small that Halley's quotient is a product; and x."""
    s, q1, nu, level, y, _, move, lag, share = rows
    for j in range(n):
        y[j] = _F(rough.y[j] + (rough.lag[j] * rough.d_nu[j] - rough.move[j]))
        below = y[j] - nu[j]
        t = fast_exp(below)
        power = fast_exp(q1[j] * below)
        x[j] = level[j] * t
        e, f = B * x[j], C * level[j] * power
        inverse = 1.0 / (A + e + q1[j] * f + 1e-300)
        step = (A * y[j] + e + f - s[j]) * inverse
        move[j] = step * (1.0 + 0.5 * step * (e + q1[j] * q1[j] * f) * inverse)
        lag[j] = (q1[j] - 1.0) * f * inverse
        share[j] = t * power


@part(reorder=True)
def _sums(rows, queries, n):  # type: ignore[no-untyped-def]
    """Over the rows of every query: shares in the norm, and with them averages of `lag` and `move`."""
    cuts, move, lag, share = queries.cuts, rows.move, rows.lag, rows.share
    zero = share.dtype.type(0)
    for i in range(n):
        total = spread = behind = zero
        for j in range(cuts[i], cuts[i + 1]):
            total += share[j]
            spread += share[j] * lag[j]
            behind += share[j] * move[j]
        queries.total[i], queries.spread[i], queries.behind[i] = total, spread, behind


@part(fastmath=_CONTRACT)
def _norm_steps(queries, n):  # type: ignore[no-untyped-def]
    """Newton's step of nu, the root of log ||x(nu)||_q - nu, given the steps of the coordinates."""
    _, q, nu, level, total, spread, behind, d_nu, sweeps = queries
    for i in range(n):
        step = (total[i] * fast_log(total[i]) / q[i] - behind[i]) / (total[i] - spread[i])
        d_nu[i] = step if sweeps[i] > 0.0 else 0.0
        nu[i] += d_nu[i]
        level[i] = fast_exp(nu[i])


@part
def _couple(rows, queries, n):  # type: ignore[no-untyped-def]
    """Steps of the norms, and to the rows."""
    _sums(rows, queries, n)
    _norm_steps(queries, n)
    _fill(queries.d_nu, queries.cuts, n, rows.d_nu)


@part
def _rest(rows, queries, n):  # type: ignore[no-untyped-def]
    """Queries that have taken their steps stay where they are; whether any goes on."""
    cuts, sweeps = queries.cuts, queries.sweeps
    least, most = np.inf, 0.0
    for i in range(n):
        least, most = min(least, sweeps[i]), max(most, sweeps[i])
    for i in range(n if least <= 0.0 else 0):
        if sweeps[i] <= 0.0:
            for j in range(cuts[i], cuts[i + 1]):
                rows.move[j] = _ZERO
                rows.lag[j] = _ZERO
    for i in range(n):
        sweeps[i] -= 1.0
    return most > 1.0


@part(fastmath=_CONTRACT)
def _finish(rows, n, enough, x):  # type: ignore[no-untyped-def]
    """The last step: x follows log x by three terms of the exponential; `share` is 1 where the step was too large."""
    _, _, _, _, y, d_nu, move, lag, share = rows
    for j in range(n):
        change = lag[j] * d_nu[j] - move[j]
        share[j] = 0.0 if abs(change) <= enough * (1.0 + abs(y[j])) else 1.0  # 1 for NaN too
        x[j] *= 1.0 + change * (1.0 + 0.5 * change)
        y[j] += change


@part(reorder=True)
def _late(rows, queries, n, enough):  # type: ignore[no-untyped-def]
    """`queries.sweeps` is 1 where the last step was too large, else 0."""
    share = rows.share
    for i in range(n):
        far = 0.0 if abs(queries.d_nu[i]) <= enough * (1.0 + abs(queries.nu[i])) else 1.0
        for j in range(queries.cuts[i], queries.cuts[i + 1]):
            far += share[j]
        queries.sweeps[i] = min(far, 1.0)


@part
def solve_block(rough, rows, queries, n, weights, enough, x):  # type: ignore[no-untyped-def]
    """Fill x, `rows.y` and norms of n queries; `queries.sweeps` is 1 where that needs more steps, else 0."""
    A, B, C, cuts = weights[0], weights[1], weights[2], queries.cuts
    filled, coupled = _padded(np.int64(cuts[n])), weights[2] > 0.0
    _prepare(rough, rows, queries, n, filled, coupled)
    _start(rough, queries, n, filled, A, B, C)
    _fill(queries.nu, cuts, n, rough.nu)
    going = True
    while going:
        _fill(queries.level, cuts, n, rough.level)
        _sweep_single(rough, filled, _F(A), _F(B), _F(C))
        if coupled:
            _couple(rough, queries, n)
        going = _rest(rough, queries, n)
    for i in range(n):
        queries.sweeps[i] = 1.0
    _fill(queries.nu, cuts, n, rows.nu)
    _fill(queries.level, cuts, n, rows.level)
    _sweep(rough, rows, filled, A, B, C, x)
    if coupled:
        _couple(rows, queries, n)
    _finish(rows, filled, enough, x)
    _late(rows, queries, n, enough)


@part(fastmath=_CONTRACT)
def _prepare(rough, rows, queries, n, filled, coupled):  # type: ignore[no-untyped-def]
    """What does not change on the way, and no step yet."""
    q1 = queries.spread
    for i in range(n):
        q1[i], queries.level[i] = queries.q[i] - 1.0, fast_exp(queries.nu[i])
        m = queries.cuts[i + 1] - queries.cuts[i]
        # With these, errors of the start are squared down to the resolution of single precision in nearly all queries.
        queries.sweeps[i] = (3.0 if m <= 8 else 4.0 if m <= 500 else 5.0) if coupled else 2.0
        queries.d_nu[i] = 0.0
    _fill(q1, queries.cuts, n, rough.q1)
    _fill(q1, queries.cuts, n, rows.q1)
    for j in range(filled):
        rough.s[j] = rows.s[j]
        rough.d_nu[j], rough.move[j], rough.lag[j], rows.d_nu[j] = 0.0, 0.0, 0.0, 0.0
