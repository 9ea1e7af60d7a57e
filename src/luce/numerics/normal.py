"""The normal distribution far into its tails, as scalar kernels.

SciPy's `log_ndtr` and `erfcx` cannot be called from a compiled kernel that is cached on disk, and none of them gives
what curvatures need: the hazard minus its asymptote, without cancellation.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import part

_SQRT_HALF = math.sqrt(0.5)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_TAIL = -5.0
"""Below this the continued fraction of Mills' ratio is as exact as the error function, and it cancels nothing."""
_TERMS = 60

_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(12)
_MANY_NODES, _MANY_WEIGHTS = np.polynomial.legendre.leggauss(28)


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
