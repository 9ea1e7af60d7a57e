"""Functions of two arguments that a cumulative distribution network multiplies, and their sums over pairs of edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from luce.errors import SettingError
from luce.numerics.normal import log_bivariate_cdf
from luce.registry import canonical, unknown_name
from luce.types import FloatArray, IntArray

MOST_CORRELATED = 0.95
INFINITE = 1e8
"""An argument that is put away by setting it to infinity."""
_BLOCK = 1 << 18


class Terms(NamedTuple):
    """log phi(a, b) and its derivatives in a, b and the function's own parameter, for arrays of one shape."""

    log: FloatArray
    by_first: FloatArray
    by_second: FloatArray
    by_parameter: FloatArray | None = None


@dataclass(frozen=True)
class Sigmoid:
    """The bivariate sigmoid, [StructRank] (9); `luce.losses.cdn.sigmoids` sums it over very many pairs.

    The Hessian of a log-sum-exp lies below the diagonal matrix of its softmax weights, which are the slopes.
    """

    width: ClassVar[float | None] = None

    def terms(self, a: FloatArray, b: FloatArray) -> Terms:
        """The softmax of (0, -a, -b)."""
        top = np.minimum(np.minimum(a, b), 0.0)
        first, second, total = np.exp(top - a), np.exp(top - b), np.exp(top)
        total += first
        total += second
        first /= total
        second /= total
        return Terms(top - np.log(total), first, second)

    def alone(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logistic cdf."""
        return -np.logaddexp(0.0, -a), special.expit(-a)

    def bend(self, slope: FloatArray) -> FloatArray:
        """The softmax weights."""
        return slope


@dataclass(frozen=True)
class Gaussian:
    r"""The normal cdf of two arguments with correlation $\rho$, $\phi(a, b) = \Phi_2(a, b; \rho)$.

    The Hessian of $-\log \Phi_2$ lies below $\Sigma^{-1}$, whose eigenvalues are at most $1 / (1 - |\rho|)$.

    >>> float(np.exp(Gaussian(0.5).terms(np.zeros(1), np.zeros(1)).log[0]).round(12))  # 1/4 + asin(rho) / (2 pi)
    0.333333333333
    """

    rho: float = 0.0

    def __post_init__(self) -> None:
        if not abs(self.rho) <= MOST_CORRELATED:
            raise SettingError(f"rho is {self.rho}; a correlation here lies between -{MOST_CORRELATED} and it.")

    @property
    def width(self) -> float:
        """Less where the correlation makes the cdf steep across the diagonal."""
        return 3.0 * float(np.sqrt(1.0 - self.rho**2))

    def terms(self, a: FloatArray, b: FloatArray) -> Terms:
        """By quadrature."""
        return Terms(*log_bivariate_cdf(a.ravel(), b.ravel(), self.rho).reshape(4, *a.shape))

    def alone(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The normal cdf."""
        log = special.log_ndtr(a)
        return log, np.exp(-0.5 * a * a - 0.5 * np.log(2 * np.pi) - log)

    def bend(self, slope: FloatArray) -> FloatArray:
        """The largest eigenvalue of the inverse covariance."""
        return np.full_like(slope, 1.0 / (1.0 - abs(self.rho)))


class OwnFunction:
    """A function of the user's own, from two arrays to log phi and its derivatives in both arguments, three arrays.

    Its attributes `width`, over which 32 Chebyshev nodes resolve log phi, and `bend`, a bound for the eigenvalues of
    the Hessian of -log phi, may be missing: every pair of edges is then taken, and boosted trees have no curvature.
    """

    def __init__(self, function: Callable[[FloatArray, FloatArray], Sequence[Any]]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.width: float | None = getattr(function, "width", None)
        if self.width is not None and not self.width > 0:
            raise SettingError(f"The function {self.name!r} has width {self.width}; it must be None or above 0.")
        at = np.linspace(-3.0, 3.0, 13)
        a, b = (grid.ravel() for grid in np.meshgrid(at, at))
        log, by_first, by_second, _ = self.terms(a, b)
        if np.any(log > 1e-12) or np.any(by_first < -1e-12) or np.any(by_second < -1e-12):
            raise SettingError(f"The function {self.name!r} is no cdf: log phi must be at most 0 and non-decreasing.")
        step = 1e-5
        for slope, da, db in ((by_first, step, 0.0), (by_second, 0.0, step)):
            numeric = (self.terms(a + da, b + db).log - self.terms(a - da, b - db).log) / (2 * step)
            if not np.allclose(slope, numeric, rtol=1e-4, atol=1e-6):
                raise SettingError(f"The function {self.name!r} returns derivatives that are not those of its log phi.")

    def terms(self, a: FloatArray, b: FloatArray) -> Terms:
        """What the user's function gives, checked for shape and finite values."""
        found = [np.asarray(part, dtype=np.float64) for part in self.function(a, b)]
        if len(found) != 3 or any(part.shape != a.shape or not np.isfinite(part).all() for part in found):
            raise SettingError(f"The function {self.name!r} must return log phi and two derivatives, finite arrays.")
        return Terms(found[0], found[1], found[2])

    def alone(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """With the other argument far away."""
        found = self.terms(a, np.full_like(a, INFINITE))
        return found.log, found.by_first

    def bend(self, slope: FloatArray) -> FloatArray:
        """The bound that the function has; an error where it has none."""
        bound = getattr(self.function, "bend", None)
        if bound is None:
            raise SettingError(f"The function {self.name!r} has no bend, so that no curvature is known; give it one.")
        return np.full_like(slope, float(bound))


EdgeFunction = Sigmoid | Gaussian | OwnFunction
"""A cdf of two arguments, between 0 and 1 and non-decreasing in both.

`terms` has its logarithm with the derivatives, `alone` the marginal of one argument, phi(a, infinity), and its slope,
and `bend` second derivatives, in the argument with these slopes, of a convex majoriser of -log phi. `width` is that
over which 32 Chebyshev nodes resolve log phi; None where every pair is taken by itself.
"""


def family_of(family: Any, rho: float | None) -> EdgeFunction:
    """The function of what a user gives: a name, or a function of two arrays."""
    if rho is not None and not isinstance(rho, int | float | np.number):
        raise SettingError(f"rho is {rho!r}; it must be a number, or None to be learned.")
    named = canonical(family) if isinstance(family, str) else ""
    if named == "gaussian":
        return Gaussian(0.0 if rho is None else float(rho))
    if rho is not None:
        raise SettingError("rho is the correlation of family='gaussian'; leave it out, or take that family.")
    if named == "sigmoid":
        return Sigmoid()
    if named:
        raise unknown_name("family", family, ("gaussian", "sigmoid"))
    if not callable(family):
        raise SettingError(f"family is {family!r}; it must be sigmoid, gaussian or a function of two arrays.")
    return OwnFunction(family)


class Felt(NamedTuple):
    """A row a query: its value, the derivatives in (w1, w2) of each function, that in rho; of every edge minus the
    derivative, and, unless there is no room, the second derivative of a convex majoriser."""

    by_query: FloatArray
    slope: FloatArray
    bend: FloatArray

    @classmethod
    def nothing(cls, queries: int, functions: int, edges: int, curved: bool) -> Felt:
        """Nothing felt yet."""
        return cls(np.zeros((queries, 2 + 2 * functions)), np.zeros(edges), np.zeros(edges if curved else 0))

    @property
    def values(self) -> FloatArray:
        """Of every query."""
        return self.by_query[:, 0]

    @property
    def d_weights(self) -> FloatArray:
        """(queries, functions, 2)."""
        return self.by_query[:, 1:-1].reshape(len(self.by_query), -1, 2)

    @property
    def d_rho(self) -> FloatArray:
        """Of every query."""
        return self.by_query[:, -1]


def all_pairs(function: EdgeFunction, weights: FloatArray, r: FloatArray, m: FloatArray, curved: bool) -> Felt:
    """Every edge with every one, itself included, of one query; slopes are per unit of m."""
    felt = Felt.nothing(1, len(weights), len(r), curved)
    rows = max(1, _BLOCK // max(len(r), 1))
    for k, (w1, w2) in enumerate(weights):
        first, second = np.zeros(len(r)), np.zeros(len(r))
        bends = np.zeros((2, len(r)))
        for start in range(0, len(r), rows):
            here = slice(start, start + rows)
            a, b = np.broadcast_arrays(w1 * r[here, None], w2 * r[None, :])
            log, by_first, by_second, by_parameter = function.terms(a, b)
            felt.values[0] -= m[here] @ log @ m
            first[here] = by_first @ m
            second += m[here] @ by_second
            if by_parameter is not None:
                felt.d_rho[0] -= m[here] @ by_parameter @ m
            if curved:
                bends[0, here] = function.bend(by_first) @ m
                bends[1] += m[here] @ function.bend(by_second)
        felt.slope[:] += w1 * first + w2 * second
        felt.d_weights[0, k] = -(m * r) @ first, -(m * r) @ second
        if curved:
            felt.bend[:] += w1**2 * bends[0] + w2**2 * bends[1]
    return felt


def listed_pairs(
    function: EdgeFunction,
    weights: FloatArray,
    r: FloatArray,
    pairs: tuple[IntArray, IntArray, FloatArray],
    query: IntArray,
    felt: Felt,
) -> None:
    """Add the listed pairs of edges, (one, other, weight), those of `query` each."""
    one, other, weight = pairs
    for k, (w1, w2) in enumerate(weights):
        log, by_first, by_second, by_parameter = function.terms(w1 * r[one], w2 * r[other])
        n = len(felt.values)
        felt.values[:] -= np.bincount(query, weight * log, n)
        for side, (w, at, slope) in enumerate(((w1, one, by_first), (w2, other, by_second))):
            felt.slope[:] += np.bincount(at, weight * w * slope, len(r))
            felt.d_weights[:, k, side] -= np.bincount(query, weight * slope * r[at], n)
            if len(felt.bend):
                felt.bend[:] += np.bincount(at, weight * w**2 * function.bend(slope), len(r))
        if by_parameter is not None:
            felt.d_rho[:] -= np.bincount(query, weight * by_parameter, n)


def each_alone(
    function: EdgeFunction, weights: FloatArray, r: FloatArray, m: FloatArray, query: IntArray, felt: Felt
) -> None:
    """Add every edge by itself, the second argument at infinity."""
    for k, (w1, _) in enumerate(weights):
        log, slope = function.alone(w1 * r)
        felt.values[:] -= np.bincount(query, m * log, len(felt.values))
        felt.slope[:] += m * w1 * slope
        felt.d_weights[:, k, 0] -= np.bincount(query, m * r * slope, len(felt.values))
        if len(felt.bend):
            felt.bend[:] += m * w1**2 * function.bend(slope)
