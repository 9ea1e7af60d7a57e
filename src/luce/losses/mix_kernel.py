r"""The conjugate of $\psi = \alpha_1 \beta \sum (x \log x - x) + \alpha_2 \|x\|^2 + \alpha_3 \|x\|_q^2$.

$\nabla\psi^*(s)$ is the x with $\nabla\psi(x) = s$. In $y = \log|x|$ and $\nu = \log\|x\|_q$, with
$A = \alpha_1 \beta$, $B = 2 \alpha_2$, $C = 2 \alpha_3$, every coordinate solves

$$A y_j + B e^{y_j} + C e^{\nu + (q - 1)(y_j - \nu)} = s_j,$$

convex and rising in $y_j$, and what couples the query is the one number $\nu$: the root of
$\log\|x(\nu)\|_q - \nu$, whose slope lies between -1 and -1/(q - 1). Without the entropy (A = 0) the signs of x are
those of s, and the equation holds for absolute values. At the root
$\psi^*(s) = \sum_j (A x_j + \alpha_2 x_j^2) + \alpha_3 \|x\|_q^2$, a sum of positive terms.
"""

from __future__ import annotations

import numpy as np

from luce.losses.mix_block import BLOCK, empty_queries, empty_rows, load, solve_block
from luce.losses.ndcg import skip_query
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp

_ROUNDS, _SWEEPS = 60, 12
_QUADRATIC, _CUBIC = 1e-6, 1e-5
"""The last step of a method of second or third order: what is left after it is below 1e-11."""
_NOTHING = -1e9
"""The logarithm of an x that is 0."""
_CONTRACT = {"contract"}
_LEAP = 1e3
"""A joint step beyond this is going nowhere."""


@kernel
def mixtures(scores, target, offsets, counted, shift, weights, q, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """Kernel of psi*; `weights` are A, B and C, at least two of them above 0; q = 0 is log(m) + 2.

    Many queries at once. The value of one that did not arrive with its block is NaN: `one_by_one` has a slower way.
    """
    longest = BLOCK
    for i in range(len(values)):
        longest = max(longest, offsets[first + i + 1] - offsets[first + i])
    rough, rows, queries = empty_rows(longest, np.float32(1.0)), empty_rows(longest, 1.0), empty_queries(BLOCK)
    x, members = np.ones(len(rows.s)), np.empty(BLOCK, np.int64)
    done = 0
    while done < len(values):
        n, filled = 0, 0
        while done < len(values) and n < BLOCK:
            start, stop = offsets[first + done], offsets[first + done + 1]
            if filled and filled + stop - start > BLOCK:
                break
            if counted[first + done]:
                members[n] = first + done
                n, filled = n + 1, filled + stop - start
            else:
                skip_query(done, start, stop, values, grad, curvature)
            done += 1
        load(scores, offsets, shift, weights, q, members, n, rows, queries)
        solve_block(rough, rows, queries, n, weights, _QUADRATIC, x)
        for i in range(n):
            if queries.sweeps[i]:
                values[members[i] - first] = np.nan
                continue
            own = slice(offsets[members[i]], offsets[members[i] + 1])
            part = slice(queries.cuts[i], queries.cuts[i + 1])
            values[members[i] - first] = _output(
                scores[own], target[own], shift, weights, queries.level[i], x[part], grad[own]
            )
            if len(curvature):
                _curvatures(rows.y[part], weights, queries.q[i], queries.nu[i], curvature[own])


@kernel
def one_by_one(scores, target, offsets, counted, shift, weights, q, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """The same for the queries whose value is NaN, each by itself."""
    A, B, C = weights[0], weights[1], weights[2]
    for i in range(len(values)):
        start, stop = offsets[first + i], offsets[first + i + 1]
        if not np.isnan(values[i]):
            continue
        if not counted[first + i]:
            skip_query(i, start, stop, values, grad, curvature)
            continue
        m = stop - start
        s, y, x = np.empty(m), np.empty(m), np.empty(m)
        for j in range(m):
            score = scores[start + j] + shift
            s[j] = abs(score) if A == 0.0 else score
        own_q = np.log(m) + 2.0 if q == 0.0 else q
        nu = _solve(s, A, B, C, own_q - 1.0, y, np.empty(m), np.empty(m), np.empty(m))
        for j in range(m):
            x[j] = fast_exp(y[j]) if y[j] > _NOTHING else 0.0
        own = slice(start, stop)
        values[i] = _output(scores[own], target[own], shift, weights, np.exp(nu), x, grad[own])
        if len(curvature):
            _curvatures(y, weights, own_q, nu, curvature[own])


@part(reorder=True)
def _output(scores, target, shift, weights, level, x, grad):  # type: ignore[no-untyped-def]
    """Value and gradient of one query, given its x and the norm of that."""
    A, B, value = weights[0], weights[1], 0.5 * weights[2] * level * level
    for j in range(len(x)):
        s = scores[j] + shift
        value += (A + 0.5 * B * x[j]) * x[j] - target[j] * s
        sign = 1.0 if A > 0.0 or s > 0.0 else (-1.0 if s < 0.0 else 0.0)
        grad[j] = sign * x[j] - target[j]
    return value


@part
def _curvatures(y, weights, q, nu, out):  # type: ignore[no-untyped-def]
    """The diagonal of the inverse of a diagonal matrix minus one of rank one."""
    A, B, C, q1, coupled = weights[0], weights[1], weights[2], q - 1.0, 0.0
    if C > 0.0:
        for j in range(len(y)):
            coupled += _elasticity(y[j], A, B, C, q1, nu) * fast_exp(q * (y[j] - nu))
    for j in range(len(y)):
        per_x = C * fast_exp((q1 - 1.0) * (y[j] - nu)) if C > 0.0 else 0.0
        x = fast_exp(y[j])
        bend = 1.0 / (B + q1 * per_x) if A == 0.0 else x / (A + B * x + q1 * per_x * x)
        if C > 0.0:
            bend *= 1.0 + _elasticity(y[j], A, B, C, q1, nu) * fast_exp(q * (y[j] - nu)) / (1.0 - coupled)
        out[j] = bend


@part
def _elasticity(y, A, B, C, q1, nu):  # type: ignore[no-untyped-def]
    """How y follows nu; between 0 and (q - 2) / (q - 1)."""
    if y <= _NOTHING and A == 0.0:
        return 0.0
    f = C * fast_exp(nu + q1 * (y - nu))
    e = B * fast_exp(y) if B > 0.0 else 0.0  # without B, y may be beyond what exp takes on the way to the root
    return (q1 - 1.0) * f / (A + e + q1 * f)


@part
def _solve(s, A, B, C, q1, y, move, lag, share):  # type: ignore[no-untyped-def]
    """Fill y and return nu (0 where C is 0); y of an x that is 0 is `_NOTHING`."""
    highest = _highest(s)
    if A == 0.0 and highest == 0.0:
        for j in range(len(y)):
            y[j] = _NOTHING
        return 0.0
    _guess(s, A, B + C, y)
    m, q = float(len(s)), q1 + 1.0
    nu = _highest(y) + np.log(m) / (2.0 * q)
    found, done = _together(s, A, B, C, q1, nu if C > 0.0 else 0.0, y, move, lag, share)
    if done:
        return found
    if C == 0.0:
        for j in range(len(s)):
            bound = _bound(s[j], A, B)
            y[j] = _coordinate(s[j], bound, bound, A, B, 0.0, q1, 0.0)
        return 0.0
    # Coordinates above 1 are below those of the q-norm alone, whose norm is ||s||_p / C.
    nu = np.log(m ** (q1 / q) * max(highest, 0.0) / C + m ** (1.0 / q))
    return _inside_bracket(s, A, B, C, q1, nu, y)


@part
def _guess(s, A, D, y):  # type: ignore[no-untyped-def]
    """Near the root of A y + D e^y = s: log(A w / D) with w + log w = log(D / A) + s / A, Lambert's function."""
    if A == 0.0:
        for j in range(len(s)):
            y[j] = np.log(s[j] / D) if s[j] > 0.0 else _NOTHING
        return
    ratio = np.log(D / A)
    for j in range(len(s)):
        L = ratio + s[j] / A
        if L > 0.5:
            log_w = np.log(L)
            y[j] = log_w - log_w / (L + 1.0) - ratio  # w = L - log L, to first order
        else:
            e = fast_exp(L)
            y[j] = L - e / (1.0 + 0.5 * e) - ratio  # w is about e^L / (1 + e^L)


@part
def _together(s, A, B, C, q1, nu, y, move, lag, share):  # type: ignore[no-untyped-def]
    """Newton on y and nu at once, two exponentials a coordinate and sweep; False where it has not arrived."""
    for _ in range(_SWEEPS):
        _sweep(s, A, B, C, q1, nu, y, move, lag, share)
        d_nu = 0.0
        if C > 0.0:
            total, spread, behind = _sums(move, lag, share)
            d_nu = (total * np.log(total) / (q1 + 1.0) - behind) / (total - spread)
        if not abs(d_nu) <= _LEAP:
            return nu, False
        largest = max(abs(d_nu), _advance(d_nu, move, lag, y))
        nu += d_nu
        if largest <= _QUADRATIC:
            return nu, True
        if not largest <= _LEAP:
            return nu, False
    return nu, False


@part(fastmath=_CONTRACT)
def _sweep(s, A, B, C, q1, nu, y, move, lag, share):  # type: ignore[no-untyped-def]
    """Step of every coordinate (Halley's, nu held), how it follows nu, and its share in the norm."""
    level = fast_exp(nu)
    for j in range(len(s)):
        t = fast_exp(y[j] - nu)
        power = fast_exp(q1 * (y[j] - nu))
        e, f = B * level * t, C * level * power
        inverse = 1.0 / (A + e + q1 * f + 1e-300)
        step = (A * y[j] + e + f - s[j]) * inverse
        move[j] = step / max(1.0 - 0.5 * step * (e + q1 * q1 * f) * inverse, 0.25)
        lag[j] = (q1 - 1.0) * f * inverse
        share[j] = t * power


@part(reorder=True)
def _sums(move, lag, share):  # type: ignore[no-untyped-def]
    total, spread, behind = 0.0, 0.0, 0.0
    for j in range(len(move)):
        total += share[j]
        spread += share[j] * lag[j]
        behind += share[j] * move[j]
    return total, spread, behind


@part
def _advance(d_nu, move, lag, y):  # type: ignore[no-untyped-def]
    """Move the coordinates; the largest change, relative where y is large."""
    largest = 0.0
    for j in range(len(y)):
        if y[j] > _NOTHING:
            change = lag[j] * d_nu - move[j]
            largest = max(largest, abs(change) / (1.0 + abs(y[j])))
            y[j] += change
    return largest


@part
def _inside_bracket(s, A, B, C, q1, nu, y):  # type: ignore[no-untyped-def]
    """The safe way: all coordinates for one nu after the other, inside a bracket."""
    low, high = -np.inf, np.inf
    for _ in range(_ROUNDS):
        steep = 0.0
        for j in range(len(s)):
            bound = min(_bound(s[j], A, B), _alone(s[j], A, C, q1, nu))
            y[j] = _coordinate(s[j], bound, bound, A, B, C, q1, nu)
        found = _log_norm(y, q1 + 1.0)
        if found > nu:
            low = nu
        else:
            high = nu
        for j in range(len(s)):
            steep += _elasticity(y[j], A, B, C, q1, nu) * np.exp((q1 + 1.0) * (y[j] - found))
        following = nu + (found - nu) / (1.0 - steep)
        if low > -np.inf and high < np.inf and not low <= following <= high:
            following = 0.5 * (low + high)
        gap, nu = abs(following - nu), following
        if gap <= 1e-13 * (1.0 + abs(nu)):
            break
    return nu


@part
def _bound(s, A, B):  # type: ignore[no-untyped-def]
    """What y cannot exceed, whatever the q-norm does; infinite where nothing is known."""
    if A == 0.0:
        return np.log(s / B)
    bound = s / A
    if B > 0.0 and s > 0.0:
        bound = min(bound, max(0.0, np.log(s / B)))
    return bound


@part
def _highest(values):  # type: ignore[no-untyped-def]
    top = values[0]
    for value in values:
        top = max(top, value)
    return top


@part
def _log_norm(y, q):  # type: ignore[no-untyped-def]
    top = _highest(y)
    total = 0.0
    for j in range(len(y)):
        total += np.exp(q * (y[j] - top))
    return top + np.log(total) / q


@part
def _alone(s, A, C, q1, nu):  # type: ignore[no-untyped-def]
    """What y cannot exceed since the term of the q-norm alone is at most s, where the others are positive."""
    if A == 0.0:
        return nu + (np.log(s / C) - nu) / q1
    return max(0.0, nu + (np.log(s / C) - nu) / q1) if s > 0.0 else np.inf


@part
def _coordinate(s, y, bound, A, B, C, q1, nu):  # type: ignore[no-untyped-def]
    """The root of A y + B e^y + C e^(nu + q1 (y - nu)) = s by Halley's steps from an upper bound."""
    if s == 0.0 and A == 0.0:
        return _NOTHING
    for _ in range(_ROUNDS):
        e = B * np.exp(y) if B > 0.0 else 0.0
        f = C * np.exp(nu + q1 * (y - nu)) if C > 0.0 else 0.0
        slope = A + e + q1 * f
        step = (A * y + e + f - s) / slope
        step /= max(1.0 - 0.5 * step * (e + q1 * q1 * f) / slope, 0.25)
        y = min(y - step, bound)
        if abs(step) <= _CUBIC * (1.0 + abs(y)):
            break
    return y
