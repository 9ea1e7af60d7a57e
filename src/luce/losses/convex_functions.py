"""Convex functions of your own for `ndcg_mix`, and the conjugate of any combination of them, on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.losses.gains import NormalisedGains
from luce.numerics.segments import query_index
from luce.registry import Registry
from luce.types import FloatArray, IntArray

Function = Callable[[FloatArray], Any]
_QNORM = "qnorm"
_ROUNDS = 200
_REACH = 690.0
"""x is sought between e^-690 and e^690, or in absolute value below the latter."""


@dataclass(frozen=True)
class Psi:
    r"""A strictly convex function $\psi(x) = \sum_j p(x_j)$, with p and its first two derivatives as array functions.

    The slope $p'$ rises, so that $\nabla\psi$ keeps the order and the loss is consistent with NDCG; checked on a grid.

    Parameters
    ----------
    name
        How it is called in `dictionary` and in reports.
    value, slope, curvature
        $p$, $p'$ and $p''$, from arrays to arrays of the same shape.
    positive
        True where p is defined for x > 0 only, with a slope that falls to minus infinity towards 0; else p must be
        defined for all x.

    >>> import luce
    >>> fourth = Psi("fourth", lambda x: x**2 + x**4, lambda x: 2 * x + 4 * x**3, lambda x: 2 + 12 * x**2)
    >>> loss = luce.losses.get("ndcg_mix", alpha=(1, 1), dictionary=("square", fourth))
    >>> loss.value_and_grad([0.0, 0.0], [1, 0])[1].tolist()
    [-1.0, 0.0]
    """

    name: str
    value: Function
    slope: Function
    curvature: Function
    positive: bool = False
    unit: float = 1.0
    """Scores of interest are about this large, where the weight is 1."""

    def __post_init__(self) -> None:
        x = np.linspace(0.05, 2.0, 40)
        x = x if self.positive else np.concatenate([-x[::-1], x])
        slope = self.at("slope", x)
        if np.any(np.diff(slope) <= 0) or np.any(self.at("curvature", x) < 0):
            raise SettingError(f"psi {self.name!r} is not strictly convex: its slope must rise with x.")
        h = 1e-5
        for low, high in (("value", "slope"), ("slope", "curvature")):
            numeric = (self.at(low, x + h) - self.at(low, x - h)) / (2 * h)
            if not np.allclose(numeric, self.at(high, x), rtol=1e-4, atol=1e-6):
                raise SettingError(f"psi {self.name!r}: {high} is not the derivative of {low}.")

    def register(self) -> Self:
        """Make the function known by its name, in this process: a model file keeps the name only."""
        _KNOWN.keep(self)
        return self

    def at(self, which: str, x: FloatArray) -> FloatArray:
        """One of the three functions on an array; NaN, infinity and other shapes are refused."""
        with np.errstate(all="ignore"):
            result = np.asarray(getattr(self, which)(x), dtype=np.float64)
        if result.shape != x.shape:
            raise SettingError(f"psi {self.name!r}: {which} returned shape {result.shape} for {x.shape}.")
        bad = np.isnan(result)
        if bad.any():
            raise SettingError(f"psi {self.name!r}: {which} is not a number at x = {x[bad][0]:g}.")
        return result


_KNOWN = Registry(
    "psi",
    {
        "cross_entropy": "luce.losses.convex_functions:_entropy",
        "square": "luce.losses.convex_functions:_SQUARE",
        _QNORM: "luce.losses.convex_functions:_NORM",
    },
    "luce.convex_functions",
)


# Functions of this module and not of a function, so that a loss can go to other processes.
def _entropy_value(beta: float, x: FloatArray) -> FloatArray:
    return beta * (x * np.log(np.maximum(x, 1e-300)) - x)


def _entropy_slope(beta: float, x: FloatArray) -> FloatArray:
    return beta * np.log(np.maximum(x, 1e-300))


def _entropy_curvature(beta: float, x: FloatArray) -> FloatArray:
    return beta / np.maximum(x, 1e-300)


def _twice(x: FloatArray) -> FloatArray:
    return 2.0 * x


def _two(x: FloatArray) -> FloatArray:
    return np.full_like(x, 2.0)


def _entropy(beta: float) -> Psi:
    value, slope, curvature = (partial(f, beta) for f in (_entropy_value, _entropy_slope, _entropy_curvature))
    return Psi("cross_entropy", value, slope, curvature, positive=True, unit=beta)


_SQUARE = Psi("square", np.square, _twice, _two)
# Couples the coordinates of a query, so that its functions here, those of q = 2, are never called.
_NORM = Psi(_QNORM, _SQUARE.value, _SQUARE.slope, _SQUARE.curvature)


def by_names(given: Sequence[str | Psi], beta: float) -> tuple[Psi, ...]:
    """The functions of a dictionary."""
    found = []
    for entry in [given] if isinstance(given, str | Psi) else given:
        if isinstance(entry, Psi):
            found.append(entry)
            continue
        known = _KNOWN.get(str(entry))
        found.append(known if isinstance(known, Psi) else known(beta))
    names = [psi.name for psi in found]
    if not found or len(set(names)) != len(names):
        raise SettingError(f"The dictionary holds {names}; give at least one function, and each name once.")
    return tuple(found)


def conjugates(
    functions: Sequence[Psi],
    alpha: FloatArray,
    q: float,
    scores: FloatArray,
    prepared: NormalisedGains,
    first: int,
    values: FloatArray,
    grad: FloatArray,
    curvature: FloatArray,
) -> None:
    """Value, gradient and curvature of psi* - <r, s> for `len(values)` queries from `first` on."""
    cuts = prepared.offsets[first : first + len(values) + 1]
    rows, local = slice(cuts[0], cuts[-1]), cuts - cuts[0]
    s, target = scores[rows], prepared.target[rows]
    terms = [(a, psi) for a, psi in zip(alpha, functions, strict=True) if a > 0 and psi.name != _QNORM]
    weight = sum(2 * a for a, psi in zip(alpha, functions, strict=True) if psi.name == _QNORM)
    by_query = _Coupled(terms, float(weight), q, local)
    x, bend, total = by_query.solve(s)
    counted = np.repeat(prepared.counted[first : first + len(values)], np.diff(local))
    grad[rows] = np.where(counted, x - target, 0.0)
    if len(curvature):
        curvature[rows] = np.where(counted, bend, 0.0)
    values[:] = np.where(prepared.counted[first : first + len(values)], total - _sums(target * s, local), 0.0)


def _sums(array: FloatArray, offsets: IntArray) -> FloatArray:
    result: FloatArray = np.add.reduceat(array, offsets[:-1])
    return result


def _log(x: FloatArray) -> FloatArray:
    """Logarithm of |x|, for 0 the least power that is a number, so that it may be multiplied by 0."""
    return np.log(np.maximum(np.abs(x), 1e-300))


class _Coupled:
    """The equations of some queries: separable terms, and the q-norm with its weight (0: without)."""

    def __init__(self, terms: list[tuple[float, Psi]], weight: float, q: float, offsets: IntArray) -> None:
        self.terms, self.weight, self.offsets = terms, weight, offsets
        sizes = np.diff(offsets)
        self.query = query_index(offsets)
        by_query = np.log(sizes) + 2.0 if q == 0 else np.full(len(sizes), q)
        self.q: FloatArray = by_query[self.query]
        self.positive = any(psi.positive for _, psi in terms)
        self._last: FloatArray | None = None
        """Where the coordinates were for the last norm, which is near where they are for the next."""

    def solve(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """x, the diagonal of the Hessian of psi*, and psi* of every query."""
        log_norm = np.zeros(len(self.offsets) - 1)
        if not self.weight:
            x = self._coordinates(s, log_norm)
            return x, 1.0 / self._curvature(x, log_norm), _sums(x * s, self.offsets) - self._value(x, log_norm)
        low, high = np.full_like(log_norm, -_REACH), np.full_like(log_norm, _REACH)
        for _ in range(_ROUNDS):
            x = self._coordinates(s, log_norm)
            found = self._log_norm(x)
            low, high = np.where(found > log_norm, log_norm, low), np.where(found > log_norm, high, log_norm)
            share, slack = self._elastic(x, log_norm)
            following = log_norm + (found - log_norm) / slack
            close = np.abs(following - log_norm) <= 1e-12 * (1.0 + np.abs(log_norm))
            inside = (following > low) & (following < high)
            log_norm = np.where(close | inside, following, 0.5 * (low + high))
            if close.all():
                break
        bend = (1.0 + share / slack[self.query]) / self._curvature(x, log_norm)
        return x, bend, _sums(x * s, self.offsets) - self._value(x, log_norm)

    def _norm_slope(self, x: FloatArray, log_norm: FloatArray) -> FloatArray:
        """The term of the q-norm, C N^(2 - q) |x|^(q - 1)."""
        y, nu = _log(x), log_norm[self.query]
        return self.weight * np.exp(np.minimum(nu + (self.q - 1.0) * (y - nu), 700.0))

    def _slope(self, x: FloatArray, log_norm: FloatArray) -> FloatArray:
        total = sum((a * psi.at("slope", x) for a, psi in self.terms), np.zeros_like(x))
        return total + np.sign(x) * self._norm_slope(x, log_norm) if self.weight else total

    def _curvature(self, x: FloatArray, log_norm: FloatArray) -> FloatArray:
        """That of the equation of one coordinate, log_norm held."""
        total = sum((a * psi.at("curvature", x) for a, psi in self.terms), np.zeros_like(x))
        if self.weight:
            y = _log(x) - log_norm[self.query]
            total = total + self.weight * (self.q - 1.0) * np.exp(np.minimum((self.q - 2.0) * y, 700.0))
        return np.maximum(total, 1e-300)

    def _value(self, x: FloatArray, log_norm: FloatArray) -> FloatArray:
        total = sum((_sums(a * psi.at("value", x), self.offsets) for a, psi in self.terms), np.zeros(len(log_norm)))
        return total + (0.5 * self.weight * np.exp(2.0 * self._log_norm(x)) if self.weight else 0.0)

    def _log_norm(self, x: FloatArray) -> FloatArray:
        y = _log(x)
        top = np.maximum(np.maximum.reduceat(y, self.offsets[:-1]), -_REACH)
        return (
            top
            + np.log(np.maximum(_sums(np.exp(self.q * (y - top[self.query])), self.offsets), 1e-300))
            / (self.q[self.offsets[:-1]])
        )

    def _elastic(self, x: FloatArray, log_norm: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Share of each coordinate in the change of the norm with log_norm, and one minus their sum."""
        y_slope = self._curvature(x, log_norm) * np.abs(x)
        elasticity = np.divide(
            (self.q - 2.0) * self._norm_slope(x, log_norm), y_slope, out=np.zeros_like(x), where=y_slope > 0
        )
        share = elasticity * np.exp(self.q * (_log(x) - self._log_norm(x)[self.query]))
        return share, 1.0 - _sums(share, self.offsets)

    def _coordinates(self, s: FloatArray, log_norm: FloatArray) -> FloatArray:
        """Where the slope is s, by Newton's steps inside a bracket; in log x where x must be positive."""
        low, high = self._bracket(s, log_norm)
        z = 0.5 * (low + high) if self._last is None else np.clip(self._last, low, high)
        for _ in range(_ROUNDS):
            x = self._x(z)
            excess = self._slope(x, log_norm) - s
            low, high = np.where(excess < 0, z, low), np.where(excess < 0, high, z)
            steep = self._curvature(x, log_norm) * (x if self.positive else 1.0)
            with np.errstate(all="ignore"):
                following = z - excess / steep
            close = np.abs(following - z) <= 1e-13 * (1.0 + np.abs(z))
            following = np.where(close | ((following > low) & (following < high)), following, 0.5 * (low + high))
            z = following
            if close.all():
                break
        self._last = z
        return self._x(z)

    def _x(self, z: FloatArray) -> FloatArray:
        return np.exp(z) if self.positive else z

    def _bracket(self, s: FloatArray, log_norm: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.full_like(s, -1.0), np.full_like(s, 1.0)
        reach = _REACH if self.positive else np.exp(_REACH / 2)
        for bound, beyond in ((low, -1.0), (high, 1.0)):
            for _ in range(_ROUNDS * 4):
                short: NDArray[np.bool_] = beyond * (self._slope(self._x(bound), log_norm) - s) < 0
                short &= np.abs(bound) < reach
                if not short.any():
                    break
                bound[short] = np.clip(2.0 * bound[short], -reach, reach)
        return low, high
