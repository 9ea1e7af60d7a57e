"""Functions of two arguments that a cumulative distribution network multiplies, beside the bivariate sigmoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy import special

from luce.errors import SettingError
from luce.numerics.bivariate_normal import log_bivariate_cdfs
from luce.registry import Registry
from luce.types import FloatArray

SIGMOID = "sigmoid"
"""The name of the family that has kernels of its own."""
MOST_CORRELATED = 0.95
INFINITE = 1e8
"""An argument that is put away by setting it to infinity."""


class Terms(NamedTuple):
    """log phi(a, b) and its derivatives in a, b and the function's own parameter, for arrays of one shape."""

    log: FloatArray
    by_first: FloatArray
    by_second: FloatArray
    by_parameter: FloatArray | None


class EdgeFunction(Protocol):
    """A cdf of two arguments: between 0 and 1, and non-decreasing in both."""

    @property
    def name(self) -> str:
        """For messages and model files."""
        ...

    @property
    def width(self) -> float | None:
        """Width over which log phi is resolved by 32 Chebyshev nodes; None where every pair is taken by itself."""
        ...

    @property
    def bend(self) -> float | None:
        """A bound for the eigenvalues of the Hessian of -log phi, for boosted trees; None where there is none."""
        ...

    def terms(self, a: FloatArray, b: FloatArray) -> Terms:
        """The logarithm of phi and its derivatives; the same shapes as a and b."""
        ...


@dataclass(frozen=True)
class Gaussian:
    r"""The normal cdf of two arguments with correlation $\rho$, $\phi(a, b) = \Phi_2(a, b; \rho)$.

    The Hessian of $-\log \Phi_2$ lies below $\Sigma^{-1}$, whose eigenvalues are at most $1 / (1 - |\rho|)$.

    >>> float(np.exp(Gaussian(0.5).terms(np.zeros(1), np.zeros(1)).log[0]).round(12))  # 1/4 + asin(rho) / (2 pi)
    0.333333333333
    """

    rho: float = 0.0
    name = "gaussian"

    def __post_init__(self) -> None:
        if not abs(self.rho) <= MOST_CORRELATED:
            raise SettingError(f"rho is {self.rho}; a correlation here lies between -{MOST_CORRELATED} and it.")

    @property
    def width(self) -> float:
        """Less where the correlation makes the cdf steep across the diagonal."""
        return 3.0 * float(np.sqrt(1.0 - self.rho**2))

    @property
    def bend(self) -> float:
        """The largest eigenvalue of the inverse covariance."""
        return 1.0 / (1.0 - abs(self.rho))

    def terms(self, a: FloatArray, b: FloatArray) -> Terms:
        """By quadrature."""
        out = np.empty((4, a.size))
        log_bivariate_cdfs(np.ascontiguousarray(a).ravel(), np.ascontiguousarray(b).ravel(), float(self.rho), out)
        return Terms(*out.reshape(4, *a.shape))


@dataclass(frozen=True)
class BivariateCdf:
    """A function of the user's own.

    Parameters
    ----------
    name
        For messages and model files.
    log_cdf
        From two arrays to log phi and its derivatives in the first and in the second argument, three arrays.
    width
        Width over which log phi is resolved by 32 Chebyshev nodes, for long queries; None takes every pair of edges.
    bend
        A bound for the eigenvalues of the Hessian of -log phi, which boosted trees need; None has none.

    >>> def product(a, b):
    ...     return -np.logaddexp(0, -a) - np.logaddexp(0, -b), 1 / (1 + np.exp(a)), 1 / (1 + np.exp(b))
    >>> BivariateCdf("independent", product, width=5.0, bend=0.25).name
    'independent'
    """

    name: str
    log_cdf: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
    width: float | None = None
    bend: float | None = None

    def __post_init__(self) -> None:
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
        found = [np.asarray(part, dtype=np.float64) for part in self.log_cdf(a, b)]
        if len(found) != 3 or any(part.shape != a.shape or not np.isfinite(part).all() for part in found):
            raise SettingError(f"The function {self.name!r} must return log phi and two derivatives, finite arrays.")
        return Terms(found[0], found[1], found[2], None)

    def register(self) -> Self:
        """Make the function known by its name, in this process: a model file keeps the name only."""
        _KNOWN.keep(self)
        return self


_KNOWN = Registry(
    "family",
    {SIGMOID: "luce.losses.cdn.edge_functions:SIGMOID", Gaussian.name: "luce.losses.cdn.edge_functions:Gaussian"},
    "luce.edge_functions",
)


def function_named(name: str) -> BivariateCdf:
    """A function that was registered, or an error that lists the names."""
    found: BivariateCdf = _KNOWN.get(name)
    return found


def single(function: EdgeFunction, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm of phi(a, infinity), the marginal of one argument, and its derivative."""
    if isinstance(function, Gaussian):
        log = special.log_ndtr(a)
        return log, np.exp(-0.5 * a * a - 0.5 * np.log(2 * np.pi) - log)
    found = function.terms(a, np.full_like(a, INFINITE))
    return found.log, found.by_first
