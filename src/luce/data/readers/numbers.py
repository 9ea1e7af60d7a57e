"""Decimal text to binary numbers, in compiled code.

A decimal m * 10^e with m < 2^53 and |e| <= 22 is one correctly rounded operation on exact doubles. Anything longer is
computed to within 2^-52 relative and flagged, so that the caller either proves that the rounding to float32 cannot
differ or asks Python's `float` about this one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["EXACT", "NEAR", "NO_NUMBER", "at", "float32_is_certain", "parse_number"]

EXACT, NEAR, NO_NUMBER = 0, 1, 2

_RANGE = 400
_POWERS = np.array([float(f"1e{e}") for e in range(-_RANGE, _RANGE + 1)])
_EXACT_INTEGER = 2**53
_DIGITS = 19
_MARGIN = 2.0**-50


@njit(nogil=True, cache=True)
def at(text: NDArray[np.uint8], i: int) -> int:
    """`text[i]` for i >= 0; an unsigned index spares the test for a negative one."""
    result: int = text[np.uint64(i)]
    return result


@njit(nogil=True, cache=True)
def _digits(text: NDArray[np.uint8], i: int, number: np.uint64) -> Any:
    """Append the digits from byte i on to `number` (modulo 2^64); returns it and the byte after them."""
    digit = np.uint64(at(text, i)) - np.uint64(48)  # wraps round for bytes below '0'
    while digit <= np.uint64(9):
        number = number * np.uint64(10) + digit
        i += 1
        digit = np.uint64(at(text, i)) - np.uint64(48)
    return number, i


@njit(nogil=True, cache=True, error_model="numpy")
def parse_number(text: NDArray[np.uint8], i: int) -> Any:
    """(value, first byte after the number, EXACT or NEAR or NO_NUMBER) of the decimal that starts at byte i.

    The text must go on to a byte that cannot be part of a number, such as the newline that ends every block.
    """
    negative = at(text, i) == 45
    if negative or at(text, i) == 43:
        i += 1
    start = i
    mantissa, i = _digits(text, i, np.uint64(0))
    count, exponent = i - start, 0
    if at(text, i) == 46:
        mantissa, stop = _digits(text, i + 1, mantissa)
        exponent = i + 1 - stop
        count, i = count - exponent, stop
    if count == 0:
        return 0.0, i, NO_NUMBER
    if count > _DIGITS:
        mantissa, exponent = _long_mantissa(text, start, i)
    if at(text, i) | 32 == 101:
        power, i = _power(text, i + 1)
        if i < 0:
            return 0.0, start, NO_NUMBER
        exponent += power
    if mantissa == 0:
        return (-0.0 if negative else 0.0), i, EXACT
    value, status = np.float64(mantissa), EXACT
    if mantissa <= np.uint64(_EXACT_INTEGER) and -22 <= exponent <= 22:
        if exponent < 0:
            value /= _POWERS[_RANGE - exponent]
        else:
            value *= _POWERS[_RANGE + exponent]
    else:
        status = NEAR
        value *= _POWERS[_RANGE + min(max(exponent, -_RANGE), _RANGE)]
    return (-value if negative else value), i, status


@njit(nogil=True, cache=True)
def _long_mantissa(text: NDArray[np.uint8], i: int, stop: int) -> Any:
    """(mantissa, exponent) of more digits than a machine word holds: the leading ones, the rest cut off.

    What is cut off follows 19 digits, so that the mantissa is beyond 2^53 and the number is NEAR.
    """
    mantissa, exponent, kept = np.uint64(0), 0, 0
    after_point = False
    for k in range(i, stop):
        if text[k] == 46:
            after_point = True
            continue
        digit = np.uint64(text[k]) - np.uint64(48)
        if kept < _DIGITS:
            mantissa = mantissa * np.uint64(10) + digit
            kept += mantissa != 0
            exponent -= after_point
        else:
            exponent += not after_point
    return mantissa, exponent


@njit(nogil=True, cache=True)
def _power(text: NDArray[np.uint8], i: int) -> Any:
    """(exponent, byte after it), or a negative byte where no digit follows the `e`."""
    down = text[i] == 45
    if down or text[i] == 43:
        i += 1
    if text[i] < 48 or text[i] > 57:
        return 0, -1
    power: Any = 0
    while 48 <= text[i] <= 57:
        power = min(power * 10 + np.int64(text[i]) - 48, 1_000_000_000)
        i += 1
    return (-power if down else power), i


@njit(nogil=True, cache=True, error_model="numpy")
def float32_is_certain(value: float) -> bool:
    """Whether every double within the error of a NEAR value rounds to the same float32."""
    result: bool = np.float32(value * (1.0 - _MARGIN)) == np.float32(value * (1.0 + _MARGIN))
    return result
