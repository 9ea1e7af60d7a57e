r"""The normal distribution far into its tails: of one argument as scalar kernels, of two as arrays.

SciPy's `log_ndtr` and `erfcx` cannot be called from a compiled kernel that is cached on disk, and none of them gives
what curvatures need: the hazard minus its asymptote, without cancellation.

Of two arguments, with $h \le k$, $s = \sqrt{1 - \rho^2}$ and $A = (k - \rho h)/s$,

$$\Phi_2(h, k; \rho) = \varphi(h)\,\Phi(A)\,J, \qquad
  J = \int_0^\infty e^{hu - u^2/2}\, \frac{\Phi(A + \rho u / s)}{\Phi(A)}\, du.$$

For $h \le 0$ the integrand is log-concave and falls at a rate that is known at 0, so that Gauss and Legendre on the
right interval give all digits, and the derivatives of $\log \Phi_2$ are ratios without cancellation: $1/J$ in h,
$\lambda(A) / (\lambda(B) J)$ in k and $\lambda(A) / (s J)$ in $\rho$, with $B = (h - \rho k)/s$ and
$\lambda = \varphi/\Phi$. For $0 < h \le k$ the single integral of Drezner and Wesolowsky over the correlation is used.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from luce.numerics.compiled import part
from luce.types import FloatArray

_SQRT_HALF = math.sqrt(0.5)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_TAIL = -5.0
"""Below this the continued fraction of Mills' ratio is as exact as the error function, and it cancels nothing."""
_TERMS = 60

_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(12)
_MANY_NODES, _MANY_WEIGHTS = np.polynomial.legendre.leggauss(28)
_PLANE_NODES, _PLANE_WEIGHTS = np.polynomial.legendre.leggauss(48)
_DROP = 76.0
"""Twice the logarithm by which the integrand of two arguments has fallen where its interval ends."""
_AT_ONCE = 1 << 13


@part
def _excess(x):  # type: ignore[no-untyped-def]
    # phi(x) / (1 - Phi(x)) = x + 1/(x + 2/(x + 3/(x + ...))) (Laplace); this is what follows the first x.
    tail = x
    for k in range(_TERMS, 1, -1):
        tail = x + k / tail
    return 1.0 / tail


@part
def hazard(z):  # type: ignore[no-untyped-def]
    r"""$\lambda(z) = \varphi(z) / \Phi(z)$ and $\lambda(z) + z$, both to full relative precision in the lower tail."""
    if z < _TAIL:
        excess = _excess(-z)
        return excess - z, excess
    value = _SQRT_2_OVER_PI * math.exp(-0.5 * z * z) / math.erfc(-z * _SQRT_HALF)
    return value, value + z


@part
def log_cdf(z):  # type: ignore[no-untyped-def]
    r"""$\log \Phi(z)$ for any finite z."""
    if z > 0.0:
        return math.log1p(-0.5 * math.erfc(z * _SQRT_HALF))
    if z < _TAIL:
        return -0.5 * z * z - _LOG_SQRT_2PI - math.log(_excess(-z) - z)
    return math.log(0.5 * math.erfc(-z * _SQRT_HALF))


@part
def log_interval(u, width):  # type: ignore[no-untyped-def]
    r"""$\log P$, $P = \Phi(u + w) - \Phi(u - w)$, for u <= 0 < w, with its derivatives.

    Returns (log P, d/du, d2/du2, d/dw, d2/dw2, d2/du dw). With Z normal and cut to the interval, d/du is -E[Z] and
    d2/du2 is Var(Z) - 1, so the curvature of -log P is 1 - Var(Z).
    """
    if width <= 2.0 and -u * width <= 8.0:
        return _narrow(u, width)
    return _wide(u, width)


@part
def _narrow(u, width):  # type: ignore[no-untyped-def]
    # A difference of cdfs would cancel; the integral of phi(u + t) over |t| < w and its moments do not.
    few = width <= 1.0 and -u * width <= 1.0
    nodes = _FEW_NODES if few else _MANY_NODES
    weights = _FEW_WEIGHTS if few else _MANY_WEIGHTS
    mass, first, square = 0.0, 0.0, 0.0  # integrals over |t| < w of phi(u + t) / phi(u), of it times t, and times t^2
    for k in range(len(nodes)):
        t = width * nodes[k]
        density = weights[k] * math.exp(t * (-u - 0.5 * t))
        mass, first, square = mass + density, first + density * t, square + density * t * t
    mean = first / mass
    integral = width * mass
    upper = math.exp(-u * width - 0.5 * width * width) / integral
    lower = math.exp(u * width - 0.5 * width * width) / integral
    both = upper + lower
    slope_of_ends = -u * (upper - lower) - width * both
    value = -0.5 * u * u - _LOG_SQRT_2PI + math.log(integral)
    mixed = -(width * (upper - lower) - mean * both)
    # The variance is at most 1/3 width^2, and 1 is taken off: what cancels in it is no digit of the result.
    return value, -(u + mean), square / mass - mean * mean - 1.0, both, slope_of_ends - both * both, mixed


@part
def _wide(u, width):  # type: ignore[no-untyped-def]
    # P = Phi(b) (1 - r), r = Phi(a) / Phi(b); everything is that of log Phi(b) plus terms in odds = r / (1 - r).
    a, b = u - width, u + width
    at_a, _ = hazard(a)
    at_b, excess_b = hazard(b)
    if b > 0.0:
        missing = 0.5 * math.erfc(b * _SQRT_HALF) + 0.5 * math.erfc(-a * _SQRT_HALF)
        value = math.log1p(-missing)
        odds = 0.5 * math.erfc(-a * _SQRT_HALF) / (1.0 - missing)
    else:
        # Phi = phi / hazard, and phi(a) / phi(b) = exp(2 u w) without a difference of squares.
        ratio = math.exp(2.0 * u * width) * at_b / at_a
        value = log_cdf(b) + math.log1p(-ratio)
        odds = ratio / (1.0 - ratio)
    upper, lower = at_b * (1.0 + odds), at_a * odds
    gap = at_b - at_a
    first = at_b + odds * gap
    second = -at_b * excess_b + odds * (a * at_a - b * at_b - 2.0 * at_b * gap) - (odds * gap) ** 2
    both = upper + lower
    return value, first, second, both, second - 4.0 * lower * (first + lower), second - 2.0 * lower * (a + first)


def log_bivariate_cdf(h: FloatArray, k: FloatArray, rho: float) -> FloatArray:
    r"""$\log \Phi_2(h, k; \rho)$ of two vectors and its derivatives in h, k and $\rho$: (4, length)."""
    out = np.empty((4, len(h)))
    for first in range(0, len(h), _AT_ONCE):
        here = slice(first, first + _AT_ONCE)
        low, high = np.minimum(h[here], k[here]), np.maximum(h[here], k[here])
        found = np.empty((4, len(low)))
        for part_of, of in ((low <= 0.0, _lower), (low > 0.0, _upper)):
            found[:, part_of] = of(low[part_of], high[part_of], rho)
        out[:, here] = np.where(h[here] <= k[here], found, found[[0, 2, 1, 3]])
    return out


def _lower(h: FloatArray, k: FloatArray, rho: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    s = math.sqrt(1.0 - rho * rho)
    a, b = (k - rho * h) / s, (h - rho * k) / s
    at_a, at_b = (_SQRT_2_OVER_PI / special.erfcx(-z * _SQRT_HALF) for z in (a, b))
    log_a, rate = special.log_ndtr(a), -h - rho / s * at_a
    end = _DROP / (rate + np.sqrt(rate * rate + _DROP))
    u = 0.5 * end[:, None] * (1.0 + _PLANE_NODES)
    logs = h[:, None] * u - 0.5 * u * u + special.log_ndtr(a[:, None] + rho * u / s) - log_a[:, None]
    total = 0.5 * end * (np.exp(logs) @ _PLANE_WEIGHTS)
    value = -0.5 * h * h - _LOG_SQRT_2PI + log_a + np.log(total)
    return value, 1.0 / total, at_a / (at_b * total), at_a / (s * total)


def _upper(h: FloatArray, k: FloatArray, rho: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    s, half = math.sqrt(1.0 - rho * rho), 0.5 * math.asin(rho)
    miss_h, miss_k = special.ndtr(-h), special.ndtr(-k)
    sine = np.sin(half * (1.0 + _PLANE_NODES))
    squares = 0.5 * (h * h + k * k)
    dependence = np.exp(((h * k)[:, None] * sine - squares[:, None]) / (1.0 - sine * sine)) @ _PLANE_WEIGHTS
    value = np.log1p(half * dependence / (2.0 * math.pi) - miss_h - miss_k + miss_h * miss_k)
    density = np.exp(-0.5 * (h * h + (k - rho * h) ** 2 / (s * s)) - 2.0 * _LOG_SQRT_2PI - value) / s
    by_h, by_k = (
        np.exp(-0.5 * x * x - _LOG_SQRT_2PI + special.log_ndtr((y - rho * x) / s) - value) for x, y in ((h, k), (k, h))
    )
    return value, by_h, by_k, density
