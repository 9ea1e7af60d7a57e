r"""The gradient of a conjugate: x with $\nabla\psi(x) = s$ for $\psi = \sum_i \alpha_i \psi_i$, query by query.

The chapter's three functions are $\psi = \alpha_1 \beta \sum (x \log x - x) + \alpha_2 \|x\|^2 + \alpha_3 \|x\|_q^2$.
In $y = \log|x|$ and $\nu = \log\|x\|_q$, with $A = \alpha_1 \beta$, $B = 2 \alpha_2$, $C = 2 \alpha_3$, every
coordinate solves

$$A y_j + B e^{y_j} + C e^{\nu + (q - 1)(y_j - \nu)} = s_j,$$

convex and rising in $y_j$, and what couples the query is the one number $\nu$: the root of
$\log\|x(\nu)\|_q - \nu$, whose slope lies between -1 and -1/(q - 1). Without the entropy (A = 0) the signs of x are
those of s, and the equation holds for absolute values. At the root
$\psi^*(s) = \sum_j (A x_j + \alpha_2 x_j^2) + \alpha_3 \|x\|_q^2$, a sum of positive terms. Newton's method on all
coordinates and $\nu$ at once takes four to five sweeps (`newton`). Where it strays, and for functions of one's own,
`Brackets` have the safe way: all coordinates for one $\nu$ after the other, inside brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from luce.errors import SettingError
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp, fast_log
from luce.numerics.segments import query_index
from luce.registry import canonical, unknown_name
from luce.types import BoolArray, FloatArray, IntArray

Function = Callable[[FloatArray], Sequence[Any]]
"""From an array to p, p' and p'' of its entries."""
_QNORM = "qnorm"
_ROUNDS, _SWEEPS = 200, 12
_REACH = 690.0
"""x is sought between e^-690 and e^690, or in absolute value below the latter."""
_ENOUGH = 1e-6
"""The last step of a method of second order: what is left after it is below 1e-11."""
_NOTHING = -1e9
"""The logarithm of an x that is 0."""
_LEAP = 1e3
"""A joint step beyond this is going nowhere."""


@dataclass(frozen=True)
class Psi:
    r"""A strictly convex function $\psi(x) = \sum_j p(x_j)$, by its name; p with two derivatives as one array function.

    The slope $p'$ rises, so that $\nabla\psi$ keeps the order and the loss is consistent with NDCG; checked on a grid.
    `positive` says that p is defined for x > 0 only, with a slope that falls to minus infinity towards 0; scores of
    interest are about `unit` large, where the weight is 1.
    """

    name: str
    function: Function
    positive: bool = False
    unit: float = 1.0

    def __post_init__(self) -> None:
        x = np.linspace(0.05, 2.0, 40)
        x = x if self.positive else np.concatenate([-x[::-1], x])
        _, slope, curvature = self.at(x)
        if np.any(np.diff(slope) <= 0) or np.any(curvature < 0):
            raise SettingError(f"psi {self.name!r} is not strictly convex: its slope must rise with x.")
        h = 1e-5
        ahead, behind = self.at(x + h), self.at(x - h)
        for k, (low, high) in enumerate((("value", "slope"), ("slope", "curvature"))):
            if not np.allclose((ahead[k] - behind[k]) / (2 * h), self.at(x)[k + 1], rtol=1e-4, atol=1e-6):
                raise SettingError(f"psi {self.name!r}: {high} is not the derivative of {low}.")

    def at(self, x: FloatArray) -> list[FloatArray]:
        """Value, slope and curvature on an array; NaN and other shapes are refused."""
        with np.errstate(all="ignore"):
            found = [np.asarray(values, dtype=np.float64) for values in self.function(x)]
        if len(found) != 3 or any(values.shape != x.shape for values in found):
            shapes = [values.shape for values in found]
            raise SettingError(
                f"psi {self.name!r} returned shapes {shapes} for {x.shape}; it must give p, p' and p'' of every entry."
            )
        for which, values in zip(("value", "slope", "curvature"), found, strict=True):
            if np.isnan(values).any():
                raise SettingError(f"psi {self.name!r}: {which} is not a number at x = {x[np.isnan(values)][0]:g}.")
        return found


# Functions of this module and not of a function, so that a loss can go to other processes.
def _entropy(beta: float, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    safe = np.maximum(x, 1e-300)
    return beta * (x * np.log(safe) - x), beta * np.log(safe), beta / safe


def _square(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return x**2, 2.0 * x, np.full_like(x, 2.0)


def dictionary_of(given: Sequence[str | Function], beta: float) -> tuple[Psi, ...]:
    """The functions of a dictionary: names, and functions of one's own."""
    # The q-norm couples the coordinates of a query, so that its functions here, those of q = 2, are never called.
    known = {
        "cross_entropy": Psi("cross_entropy", partial(_entropy, beta), positive=True, unit=beta),
        "square": Psi("square", _square),
        _QNORM: Psi(_QNORM, _square),
    }
    found = []
    for entry in given:
        if callable(entry):
            name = getattr(entry, "name", getattr(entry, "__name__", type(entry).__name__))
            found.append(Psi(name, entry, getattr(entry, "positive", False), getattr(entry, "unit", 1.0)))
        elif canonical(str(entry)) in known:
            found.append(known[canonical(str(entry))])
        else:
            raise unknown_name("psi", str(entry), known)
    names = [psi.name for psi in found]
    if not found or len(set(names)) != len(names):
        raise SettingError(f"The dictionary holds {names}; give at least one function, and each name once.")
    return tuple(found)


def _log(x: FloatArray) -> FloatArray:
    """Logarithm of |x|, for 0 the least power that is a number, so that it may be multiplied by 0."""
    return np.log(np.maximum(np.abs(x), 1e-300))


class Brackets:
    """The equations of some queries: separable terms, and the q-norm with its weight (0: without); q = 0 is log(m) + 2.

    For any functions.
    """

    def __init__(self, functions: Sequence[Psi], alpha: FloatArray, q: float, offsets: IntArray) -> None:
        weighed = list(zip(alpha.tolist(), functions, strict=True))
        self.terms = [(a, psi) for a, psi in weighed if a > 0 and psi.name != _QNORM]
        self.weight = sum(2.0 * a for a, psi in weighed if psi.name == _QNORM)
        self.offsets, sizes = offsets, np.diff(offsets)
        self.query = query_index(offsets)
        by_query = np.log(sizes) + 2.0 if q == 0 else np.full(len(sizes), q)
        self.q: FloatArray = by_query[self.query]
        self.positive = any(psi.positive for _, psi in self.terms)
        self._last: FloatArray | None = None
        """Where the coordinates were for the last norm, which is near where they are for the next."""

    def solve(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """x, the diagonal of the Hessian of psi*, and psi* of every query."""
        log_norm = np.zeros(len(self.offsets) - 1)
        share, slack = np.zeros_like(s), np.ones_like(log_norm)
        low, high = np.full_like(log_norm, -_REACH), np.full_like(log_norm, _REACH)
        for _ in range(_ROUNDS):
            x = self._coordinates(s, log_norm)
            if not self.weight:
                break
            found = self._log_norm(x)
            low, high = np.where(found > log_norm, log_norm, low), np.where(found > log_norm, high, log_norm)
            share, slack = self._elastic(x, log_norm)
            following = log_norm + (found - log_norm) / slack
            close = np.abs(following - log_norm) <= 1e-12 * (1.0 + np.abs(log_norm))
            inside = (following > low) & (following < high)
            log_norm = np.where(close | inside, following, 0.5 * (low + high))
            if close.all():
                break
        value, _, curvature = self._at(x, log_norm)
        total = self._sums(x * s - value)
        if self.weight:
            total -= 0.5 * self.weight * np.exp(2.0 * self._log_norm(x))
        return x, (1.0 + share / slack[self.query]) / curvature, total

    def _sums(self, of_coordinates: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(of_coordinates, self.offsets[:-1]))

    def _at(self, x: FloatArray, log_norm: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of every coordinate the separable value, and slope and curvature of its equation, log_norm held."""
        value, slope, curvature = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for a, psi in self.terms:
            of_psi = psi.at(x)
            value, slope, curvature = value + a * of_psi[0], slope + a * of_psi[1], curvature + a * of_psi[2]
        if self.weight:
            y = _log(x) - log_norm[self.query]
            curved = self.weight * np.exp(np.minimum((self.q - 2.0) * y, 700.0))
            with np.errstate(over="ignore"):  # far from the root, where a bracket begins
                slope, curvature = slope + x * curved, curvature + (self.q - 1.0) * curved
        return value, slope, np.maximum(curvature, 1e-300)

    def _log_norm(self, x: FloatArray) -> FloatArray:
        y = _log(x)
        top = np.maximum(np.maximum.reduceat(y, self.offsets[:-1]), -_REACH)
        total = np.maximum(self._sums(np.exp(self.q * (y - top[self.query]))), 1e-300)
        return top + np.log(total) / self.q[self.offsets[:-1]]

    def _elastic(self, x: FloatArray, log_norm: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Share of each coordinate in the change of the norm with log_norm, and one minus their sum."""
        y = _log(x) - log_norm[self.query]
        curved = self.weight * np.exp(np.minimum((self.q - 2.0) * y, 700.0))
        elasticity = np.where(x == 0.0, 0.0, (self.q - 2.0) * curved / self._at(x, log_norm)[2])
        share = elasticity * np.exp(self.q * (_log(x) - self._log_norm(x)[self.query]))
        return share, 1.0 - self._sums(share)

    def _coordinates(self, s: FloatArray, log_norm: FloatArray) -> FloatArray:
        """Where the slope is s, by Newton's steps inside a bracket; in log x where x must be positive."""
        low, high = self._bracket(s, log_norm)
        z = 0.5 * (low + high) if self._last is None else np.clip(self._last, low, high)
        for _ in range(_ROUNDS):
            x = np.exp(z) if self.positive else z
            _, slope, steep = self._at(x, log_norm)
            excess = slope - s
            low, high = np.where(excess < 0, z, low), np.where(excess < 0, high, z)
            with np.errstate(all="ignore"):
                following = z - excess / (steep * (x if self.positive else 1.0))
            close = np.abs(following - z) <= 1e-13 * (1.0 + np.abs(z))
            z = np.where(close | ((following > low) & (following < high)), following, 0.5 * (low + high))
            if close.all():
                break
        self._last = z
        return np.exp(z) if self.positive else z

    def _bracket(self, s: FloatArray, log_norm: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.full_like(s, -1.0), np.full_like(s, 1.0)
        reach = _REACH if self.positive else np.exp(_REACH / 2)
        for bound, beyond in ((low, -1.0), (high, 1.0)):
            for _ in range(_ROUNDS * 4):
                short: BoolArray = beyond * (self._at(np.exp(bound) if self.positive else bound, log_norm)[1] - s) < 0
                short &= np.abs(bound) < reach
                if not short.any():
                    break
                bound[short] = np.clip(2.0 * bound[short], -reach, reach)
        return low, high


@kernel
def newton(s, offsets, counted, weights, q, out):  # type: ignore[no-untyped-def]
    """psi*, x and curvature of queries that count, one by one; `weights` are A, B and C, at least two of them above 0.

    A value is NaN where the method strays.
    """
    values, x, bends = out
    A, B, C, longest = weights[0], weights[1], weights[2], np.int64(0)
    for i in range(len(values)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    room = np.empty((5, longest))
    for i in range(len(values)):
        start, stop = offsets[i], offsets[i + 1]
        if not counted[i]:
            skip_query(i, start, stop, values, x, bends)
            continue
        m = stop - start
        size, y = room[0, :m], room[1, :m]
        here = s[start:stop]
        for j in range(m):
            size[j] = abs(here[j]) if A == 0.0 else here[j]
        own_q = np.log(m) + 2.0 if q == 0.0 else q
        nu, done = _solve(size, (A, B, C, own_q - 1.0), y, (room[2, :m], room[3, :m], room[4, :m]))
        values[i] = np.nan
        if not done:
            continue
        own = x[start:stop]
        for j in range(m):
            own[j] = fast_exp(y[j]) if y[j] > _NOTHING else 0.0
        values[i] = _output(here, weights, np.exp(nu), own)
        if len(bends):
            _curvatures(y, weights, own_q, nu, bends[start:stop])


@part
def skip_query(i, start, stop, values, x, bends):  # type: ignore[no-untyped-def]
    """A query that says nothing."""
    values[i] = 0.0
    for row in range(start, stop):
        x[row] = 0.0
        if len(bends):
            bends[row] = 0.0


@part(reorder=True)
def _output(s, weights, level, x):  # type: ignore[no-untyped-def]
    """psi* of one query, given the sizes of x and their norm; x gets its signs."""
    A, B, value = weights[0], weights[1], 0.5 * weights[2] * level * level
    for j in range(len(x)):
        value += (A + 0.5 * B * x[j]) * x[j]
        x[j] = x[j] if A > 0.0 or s[j] > 0.0 else -x[j]
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
def _solve(s, form, y, steps):  # type: ignore[no-untyped-def]
    """Fill y; nu (0 where C is 0), and whether the method arrived. y of an x that is 0 is `_NOTHING`."""
    if form[0] == 0.0 and _highest(s) == 0.0:
        for j in range(len(y)):
            y[j] = _NOTHING
        return 0.0, True
    return _together(s, form, _guess(s, form, y), y, steps)


@part(forceinline=True)
def _lambert(L):  # type: ignore[no-untyped-def]
    """The log w with w + log w = L, to a tenth: w is about L - log L where L is large, and else e^L / (1 + e^L)."""
    log_L, e = fast_log(max(L, 0.5)), fast_exp(min(L, 0.5))
    return log_L - log_L / (L + 1.0) if L > 0.5 else L - e / (1.0 + 0.5 * e)


@part(fastmath={"contract"})
def _guess(s, form, y):  # type: ignore[no-untyped-def]
    """First nu, from the highest score: the norm is between its x and m^(1/q) times that. And first y, given nu.

    These are the lower of the roots without the q-norm and without the square, at most log 2 above y.
    """
    A, B, C, q1 = form
    above, scale = 0.5 * np.log(float(len(s))) / (q1 + 1.0), 1.0 / A if A > 0.0 else 1.0
    ratio = np.log((B + C * np.exp((1.0 - q1) * above)) * scale)
    top = _highest(s)
    nu = above - ratio + (_lambert(ratio + top * scale) if A > 0.0 else np.log(top)) if C > 0.0 else 0.0
    ratio_b = np.log(max(B, 1e-35) * scale)
    ratio_c = np.log(max(C, 1e-35) * scale * (q1 if A > 0.0 else 1.0)) - (q1 - 1.0) * nu
    if A > 0.0:
        for j in range(len(s)):
            without_norm = _lambert(ratio_b + s[j] * scale) - ratio_b
            without_square = (_lambert(ratio_c + s[j] * scale * q1) - ratio_c) / q1
            y[j] = min(without_norm, without_square)
    else:
        for j in range(len(s)):
            log_s = fast_log(s[j])
            y[j] = min(log_s - ratio_b, (log_s - ratio_c) / q1) if s[j] > 0.0 else _NOTHING
    return nu


@part
def _together(s, form, nu, y, steps):  # type: ignore[no-untyped-def]
    """Newton on y and nu at once, two exponentials a coordinate and sweep; False where it has not arrived."""
    move, lag, share = steps
    for _ in range(_SWEEPS):
        _sweep(s, form, nu, y, steps)
        d_nu = 0.0
        if form[2] > 0.0:
            total, spread, behind = _coupling(move, lag, share)
            d_nu = (total * np.log(total) / (form[3] + 1.0) - behind) / (total - spread)
        if not abs(d_nu) <= _LEAP:
            return nu, False
        largest = max(abs(d_nu), _advance(d_nu, move, lag, y))
        nu += d_nu
        if largest <= _ENOUGH:
            return nu, True
        if not largest <= _LEAP:
            return nu, False
    return nu, False


@part(fastmath={"contract"})
def _sweep(s, form, nu, y, steps):  # type: ignore[no-untyped-def]
    """Step of every coordinate (Halley's, nu held), how it follows nu, and its share in the norm."""
    (A, B, C, q1), (move, lag, share) = form, steps
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
def _coupling(move, lag, share):  # type: ignore[no-untyped-def]
    total, spread, behind = 0.0, 0.0, 0.0
    for j in range(len(move)):
        total += share[j]
        spread += share[j] * lag[j]
        behind += share[j] * move[j]
    return total, spread, behind


@part(fastmath={"contract", "reassoc", "nnan", "nsz"})
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
def _highest(values):  # type: ignore[no-untyped-def]
    top = values[0]
    for value in values:
        top = max(top, value)
    return top
