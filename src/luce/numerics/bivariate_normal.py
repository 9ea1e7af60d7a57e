r"""The bivariate normal cdf far into its tails.

With $h \le k$, $s = \sqrt{1 - \rho^2}$ and $A = (k - \rho h)/s$,

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

from luce.numerics.compiled import kernel, part
from luce.numerics.normal import hazard, log_cdf

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_DROP = 76.0
"""Twice the logarithm by which the integrand has fallen where the interval ends."""


@part
def _lower(h, k, rho):  # type: ignore[no-untyped-def]
    s = math.sqrt(1.0 - rho * rho)
    a, b = (k - rho * h) / s, (h - rho * k) / s
    at_a, _ = hazard(a)
    at_b, _ = hazard(b)
    log_a = log_cdf(a)
    rate = -h - rho / s * at_a
    end = _DROP / (rate + math.sqrt(rate * rate + _DROP))
    total = 0.0
    for n in range(len(_NODES)):
        u = 0.5 * end * (1.0 + _NODES[n])
        total += _WEIGHTS[n] * math.exp(h * u - 0.5 * u * u + log_cdf(a + rho * u / s) - log_a)
    total *= 0.5 * end
    value = -0.5 * h * h - _LOG_SQRT_2PI + log_a + math.log(total)
    return value, 1.0 / total, at_a / (at_b * total), at_a / (s * total)


@part
def _upper(h, k, rho):  # type: ignore[no-untyped-def]
    s = math.sqrt(1.0 - rho * rho)
    miss_h, miss_k = 0.5 * math.erfc(h * _SQRT_HALF), 0.5 * math.erfc(k * _SQRT_HALF)
    half = 0.5 * math.asin(rho)
    dependence = 0.0
    for n in range(len(_NODES)):
        sine = math.sin(half * (1.0 + _NODES[n]))
        dependence += _WEIGHTS[n] * math.exp((h * k * sine - 0.5 * (h * h + k * k)) / (1.0 - sine * sine))
    value = math.log1p(half * dependence / (2.0 * math.pi) - miss_h - miss_k + miss_h * miss_k)
    density = math.exp(-0.5 * (h * h + (k - rho * h) ** 2 / (s * s)) - 2.0 * _LOG_SQRT_2PI - value) / s
    by_h = math.exp(-0.5 * h * h - _LOG_SQRT_2PI + log_cdf((k - rho * h) / s) - value)
    by_k = math.exp(-0.5 * k * k - _LOG_SQRT_2PI + log_cdf((h - rho * k) / s) - value)
    return value, by_h, by_k, density


@part
def log_bivariate_cdf(h, k, rho):  # type: ignore[no-untyped-def]
    r"""$\log \Phi_2(h, k; \rho)$ and its derivatives in h, k and $\rho$."""
    if h > k:
        value, by_k, by_h, by_rho = _lower(k, h, rho) if k <= 0.0 else _upper(k, h, rho)
        return value, by_h, by_k, by_rho
    return _lower(h, k, rho) if h <= 0.0 else _upper(h, k, rho)


@kernel
def log_bivariate_cdfs(h, k, rho, out):  # type: ignore[no-untyped-def]
    """The same for vectors; `out` is (4, length)."""
    for n in range(len(h)):
        out[0, n], out[1, n], out[2, n], out[3, n] = log_bivariate_cdf(h[n], k[n], rho)
