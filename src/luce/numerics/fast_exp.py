"""An exponential that compiles into vector instructions: several at once, where the library's takes one at a time."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["fast_exp"]

_LOG2_E = 1.4426950408889634
_ROUNDING = 6755399441055744.0
"""1.5 * 2^52: what is added to it is rounded to a whole number, which stands in its lowest bits."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@njit(nogil=True, cache=True, inline="always")
def fast_exp(x):  # type: ignore[no-untyped-def]
    """`exp(x)` to 1e-14, for x cut to [-700, 700]: 2^k times a polynomial. Callers must not let sums be reordered.

    >>> bool(abs(fast_exp(1.0) / np.exp(1.0) - 1) < 1e-14), bool(fast_exp(-1e9) < 1e-300)
    (True, True)
    """
    x = min(max(x, -700.0), 700.0)
    z = x * _LOG2_E + _ROUNDING
    k = z - _ROUNDING
    r = x - k * _LN2_HIGH
    r = r - k * _LN2_LOW
    p = r * (1.0 / 39916800.0) + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = (np.float64(z).view(np.int64) + 1023) << 52
    return p * np.int64(exponent).view(np.float64)
