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

__all__ = ["EXACT", "NEAR", "NO_NUMBER", "float32_is_certain", "parse_number"]

EXACT, NEAR, NO_NUMBER = 0, 1, 2

_RANGE = 400
_POWERS = np.array([float(f"1e{e}") for e in range(-_RANGE, _RANGE + 1)])
_EXACT_INTEGER = 2**53
_DIGITS = 19
_MARGIN = 2.0**-50


@njit(nogil=True, cache=True, error_model="numpy")
def parse_number(text: NDArray[np.uint8], i: int, end: int) -> Any:
    """(value, first byte after the number, EXACT or NEAR or NO_NUMBER) of the decimal that starts at byte i."""
    negative = False
    if i < end and (text[i] == 45 or text[i] == 43):
        negative = text[i] == 45
        i += 1
    mantissa = np.uint64(0)
    exponent, kept, any_digit, status = 0, 0, False, EXACT
    after_point = False
    while i < end:
        c = text[i]
        if c == 46:
            if after_point:
                break
            after_point = True
            i += 1
            continue
        digit = np.uint64(c) - np.uint64(48)  # wraps round for bytes below '0'
        if digit > np.uint64(9):
            break
        any_digit = True
        if kept < _DIGITS:
            mantissa = mantissa * np.uint64(10) + digit
            if mantissa != 0:
                kept += 1
            if after_point:
                exponent -= 1
        else:
            if digit != 0:
                status = NEAR
            if not after_point:
                exponent += 1
        i += 1
    if not any_digit:
        return 0.0, i, NO_NUMBER
    if i < end and (text[i] == 101 or text[i] == 69):
        i += 1
        down = False
        if i < end and (text[i] == 45 or text[i] == 43):
            down = text[i] == 45
            i += 1
        if i >= end or text[i] < 48 or text[i] > 57:
            return 0.0, i, NO_NUMBER
        power = 0
        while i < end and text[i] >= 48 and text[i] <= 57:
            power = min(power * 10 + np.int64(text[i]) - 48, 1_000_000_000)
            i += 1
        exponent += -power if down else power
    if mantissa == 0:
        return (-0.0 if negative else 0.0), i, EXACT
    value = np.float64(mantissa)
    if status == EXACT and mantissa <= np.uint64(_EXACT_INTEGER) and -22 <= exponent <= 22:
        if exponent < 0:
            value /= _POWERS[_RANGE - exponent]
        else:
            value *= _POWERS[_RANGE + exponent]
    else:
        status = NEAR
        value *= _POWERS[_RANGE + min(max(exponent, -_RANGE), _RANGE)]
    return (-value if negative else value), i, status


@njit(nogil=True, cache=True, error_model="numpy")
def float32_is_certain(value: float) -> bool:
    """Whether every double within the error of a NEAR value rounds to the same float32."""
    return np.float32(value * (1.0 - _MARGIN)) == np.float32(value * (1.0 + _MARGIN))
