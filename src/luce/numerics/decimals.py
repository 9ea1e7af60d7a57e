"""Decimal numbers to float64, correctly rounded, in compiled code.

A number w * 10^q with w < 2^53 and |q| <= 22 is one
exact product or quotient (Clinger, How to read floating point numbers accurately, 1990); any other w < 2^64 is
multiplied by 128 bits of 10^q, which decide the rounding of every such number (Lemire, Number parsing at a gigabyte
per second, 2021; Mushtak and Lemire, Fast number parsing without fallback, 2023).

All whole numbers here are uint64: Numba makes floats of uint64 and int64, and looks for negative indices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import part
from luce.types import FloatArray

_EXACT: FloatArray = np.array([float(10**k) for k in range(23)])
"""The powers of ten that are float64 numbers."""
_LEAST, _MOST = -342, 308
"""Powers of ten below which every w < 2^64 is zero, and beyond which it is infinite."""


def _power(q: int) -> int:
    """The 128 leading bits of 10^q, which are those of 5^q.

    The rest is cut off, as Lemire's proof has it; where 5^-q divides a w < 2^64 (q >= -27), the bits are rounded up.
    """
    if q >= 0:
        power = 5**q
        result: int = power << 128 >> power.bit_length()
        return result
    power = 5**-q
    result = (1 << power.bit_length() + 127) // power + (q >= -27)
    return result


_POWERS: NDArray[np.uint64] = np.array(
    [[_power(q) >> 64, _power(q) & (2**64 - 1)] for q in range(_LEAST, _MOST + 1)], dtype=np.uint64
)


@part
def nearest(w: np.uint64, q: int | np.int64) -> float:
    """The float64 nearest to w * 10^q, to the even one of two; 0 and infinity beyond the range.

    >>> float(nearest(np.uint64(15), -1)), nearest(np.uint64(1), 309)
    (1.5, inf)
    """
    if w < np.uint64(2**53):
        if -22 <= q <= 0:
            result: float = float(w) / _EXACT[-q]
            return result
        if 0 < q <= 22:
            result = float(w) * _EXACT[q]
            return result
    return _rounded(w, q)  # type: ignore[no-any-return]


@part
def _rounded(w: np.uint64, q: int | np.int64) -> float:
    if w == 0 or q < _LEAST:
        return 0.0
    if q > _MOST:
        return math.inf
    zeros = _leading_zeros(w)
    w <<= zeros
    high, low = _product(w, _POWERS[q - _LEAST, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):  # the bits that are dropped may be carried over
        more, _ = _product(w, _POWERS[q - _LEAST, 1])
        low += more
        if more > low:
            high += np.uint64(1)
    # 54 bits: the last one decides the rounding.
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    # floor(q log2(10)), by a fraction that is right for all q in the range
    exponent = (217706 * q >> 16) + 63 + np.int64(top) - np.int64(zeros) + 1023
    if exponent <= 0:  # subnormal: fewer bits are left
        if exponent <= -63:
            return 0.0
        mantissa >>= np.uint64(1 - exponent)
        exponent = np.int64(1)
    elif (
        low <= np.uint64(1) and -4 <= q <= 23 and mantissa & np.uint64(3) == np.uint64(1) and mantissa << shift == high
    ):
        mantissa -= np.uint64(1)  # half-way: down to the even one
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    return math.ldexp(float(mantissa), int(exponent) - 1075) if exponent < 2047 else math.inf


@part
def _leading_zeros(w: np.uint64) -> np.uint64:
    """By the exponent of a float, which 53 bits give exactly."""
    high = w >> np.uint64(11)
    return np.uint64(53 - math.frexp(float(high))[1]) if high else np.uint64(64 - math.frexp(float(w))[1])


@part
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The high and the low 64 bits of a * b."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    a1, a0, b1, b0 = a >> half, a & mask, b >> half, b & mask
    middle = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (cross >> half), a * b


@part
def long_mantissa(text: NDArray[np.uint8], i: np.uint64) -> tuple[np.uint64, np.int64, bool]:
    """The first 19 digits of the number at i from its first that is not 0, the power of ten that its point and the
    other digits make, and whether there are others."""
    mantissa, digits, exponent, fraction = np.uint64(0), 0, np.int64(0), False
    while text[i] == 46 or 48 <= text[i] <= 57:
        if text[i] == 46:
            fraction = True
        elif digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[i] - 48)
            digits += 1 if mantissa else 0
            exponent -= 1 if fraction else 0
        else:
            digits += 1
            exponent += 0 if fraction else 1
        i += np.uint64(1)
    return mantissa, exponent, digits > 19


@part
def power_at(text: NDArray[np.uint8], i: np.uint64) -> tuple[np.uint64, np.int64]:
    """Just after the exponent at i, 0 where there is none, and its value, held to a size beyond every number."""
    down = text[i] == 45
    if down or text[i] == 43:
        i += np.uint64(1)
    start, power = i, np.int64(0)
    while 48 <= text[i] <= 57:
        power = min(10 * power + np.int64(text[i] - 48), np.int64(10**15))
        i += np.uint64(1)
    return (np.uint64(0) if i == start else i), (-power if down else power)
