"""Exponentials and logarithms for compiled code: several at once by vector instructions, the library takes one."""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import part

_LOG2_E = 1.4426950408889634
_ROUNDING = 6755399441055744.0
"""1.5 * 2^52: what is added to it is rounded to a whole number, which stands in its lowest bits."""
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_HALF_ROOT = np.float64(np.sqrt(0.5)).view(np.int64)
_MANTISSA, _POWER_0 = np.int64((1 << 52) - 1), 4503599627370496.0 + 1023.0
_POWER_BITS = np.int64(0x433) << 52
"""2^52 as bits: a whole number in the lowest ones is added to it."""
_C = (
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
)
"""exp on [-ln 2 / 2, ln 2 / 2], interpolated in the 12 Chebyshev points: off by 2e-17 where Taylor's sum of the same
degree is off by 6e-15."""


@part(forceinline=True)
def _parts(x):  # type: ignore[no-untyped-def]
    """Of x = k ln 2 + r, cut to [-700, 700]: 2^k, the terms of exp(r) from the fourth power and from the second, and r.

    In pieces that do not wait for one another (Estrin): a quarter faster than one chain of eleven steps (Horner).
    """
    x = min(max(x, -700.0), 700.0)
    z = x * _LOG2_E + _ROUNDING
    k = z - _ROUNDING
    r = x - k * LN2_HIGH
    r = r - k * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    high = (_C[11] * r + _C[10]) * r2 + (_C[9] * r + _C[8])
    middle = (_C[7] * r + _C[6]) * r2 + (_C[5] * r + _C[4])
    power = np.int64((np.float64(z).view(np.int64) + 1023) << 52).view(np.float64)
    return power, (high * r4 + middle) * r4, (_C[3] * r + _C[2]) * r2, r


@part(forceinline=True)
def fast_exp(x):  # type: ignore[no-untyped-def]
    """`exp(x)` to 1e-15, for x cut to [-700, 700]: 2^k times a polynomial. Callers must not let sums be reordered.

    >>> bool(abs(fast_exp(1.0) / np.exp(1.0) - 1) < 1e-15), bool(fast_exp(-1e9) < 1e-300)
    (True, True)
    """
    power, high, low, r = _parts(x)
    return (high + (low + (_C[1] * r + _C[0]))) * power


@part(forceinline=True)
def fast_expm1(x):  # type: ignore[no-untyped-def]
    """`exp(x) - 1` to 1e-15 of itself, for x cut to [-700, 700]: near 0 the polynomial without its constant.

    >>> bool(abs(fast_expm1(1e-9) / np.expm1(1e-9) - 1) < 1e-15), bool(abs(fast_expm1(3.0) / np.expm1(3.0) - 1) < 1e-15)
    (True, True)
    """
    power, high, low, r = _parts(x)
    return (high + (low + r)) * power + (power - 1.0)


@part(forceinline=True)
def fast_log(x):  # type: ignore[no-untyped-def]
    """`log(x)` to 1e-15 of 1 + |log x|, for numbers from 1e-300 to 1e300 (others are taken for the nearest of these).

    x is 2^k times a number z near 1, and log z = 2 artanh((z - 1) / (z + 1)).

    >>> bool(abs(fast_log(10.0) - np.log(10.0)) < 1e-15), bool(fast_log(0.0) < -690)
    (True, True)
    """
    x = min(max(x, 1e-300), 1e300)
    # As if cut at the root of 1/2, so that z lies between it and the root of 2.
    bits = np.float64(x).view(np.int64) + (np.int64(1023 << 52) - _HALF_ROOT)
    k = np.int64((bits >> 52) | _POWER_BITS).view(np.float64) - _POWER_0
    z = np.int64((bits & _MANTISSA) + _HALF_ROOT).view(np.float64)
    r = (z - 1.0) / (z + 1.0)
    rr = r * r
    p = rr * (1.0 / 19.0) + 1.0 / 17.0
    p = p * rr + 1.0 / 15.0
    p = p * rr + 1.0 / 13.0
    p = p * rr + 1.0 / 11.0
    p = p * rr + 1.0 / 9.0
    p = p * rr + 1.0 / 7.0
    p = p * rr + 0.2
    p = p * rr + 1.0 / 3.0
    return k * LN2_HIGH + (k * LN2_LOW + (2.0 * r + 2.0 * r * rr * p))


_F = np.float32
_S_LOG2_E, _S_ROUNDING = _F(1.4426950408889634), _F(12582912.0)
_S_LN2_HIGH, _S_LN2_LOW = _F(0.693359375), _F(-2.12194440e-4)
_S_REACH = _F(40.0)
_S_0, _S_1, _S_2, _S_3, _S_4, _S_5, _S_6 = map(_F, (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720))
_I_23, _I_127 = np.int32(23), np.int32(127)


@part(forceinline=True)
def fast_exp_single(x):  # type: ignore[no-untyped-def]
    """`exp(x)` of single precision to 3e-7, for x cut to [-40, 40]: products of two such are still full numbers."""
    x = min(max(x, -_S_REACH), _S_REACH)
    z = x * _S_LOG2_E + _S_ROUNDING
    k = z - _S_ROUNDING
    r = x - k * _S_LN2_HIGH
    r = r - k * _S_LN2_LOW
    p = r * _S_6 + _S_5
    p = p * r + _S_4
    p = p * r + _S_3
    p = p * r + _S_2
    p = p * r + _S_1
    p = p * r + _S_0
    exponent = np.int32((np.float32(z).view(np.int32) + _I_127) << _I_23)
    return p * np.int32(exponent).view(np.float32)


@part
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(x)) for any x.

    >>> softplus(0.0) == math.log(2.0), softplus(1000.0), softplus(-1000.0)
    (True, 1000.0, 0.0)
    """
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@part(forceinline=True)
def log_add(a, b):  # type: ignore[no-untyped-def]
    """log(exp(a) + exp(b)), of which one or both may be minus infinity.

    >>> bool(log_add(0.0, 0.0) == np.log(2.0)), log_add(-np.inf, -np.inf)
    (True, -inf)
    """
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high)) if low > -np.inf else high


@part
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)) for any x."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)
