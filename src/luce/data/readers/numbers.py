"""Decimal text to binary numbers, in compiled code.

A decimal m * 10^e with m < 2^53 and |e| <= 22 is one correctly rounded operation on exact doubles. Anything longer is
computed to within 2^-52 relative and flagged, so that the caller either proves that the rounding to float32 cannot
differ or asks Python's `float` about this one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import part

__all__ = ["EXACT", "NEAR", "NO_NUMBER", "float32_is_certain", "parse_number"]

EXACT, NEAR, NO_NUMBER = 0, 1, 2

_RANGE = 400
_POWERS = np.array([float(f"1e{e}") for e in range(-_RANGE, _RANGE + 1)])
_EXACT_INTEGER = np.uint64(2**53)
_FULL = np.uint64(10**18)
"""A machine word holds the digits up to here; those that follow are cut off."""
_ZERO, _NINE, _TEN = np.uint64(48), np.uint64(9), np.uint64(10)
_MARGIN = 2.0**-50


@part
def parse_number(text: NDArray[np.uint8], i: int) -> Any:
    """(value, first byte after the number, EXACT or NEAR or NO_NUMBER) of the decimal that starts at byte i.

    The text must go on to a byte that cannot be part of a number, such as the newline that ends every block. Bytes are
    numbered without a sign, which spares the test for a negative number.
    """
    at = np.uint64(i)
    one = np.uint64(1)
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += one
    mantissa, exponent, digits, status = np.uint64(0), 0, 0, EXACT
    for after_point in range(2):
        if after_point == 1:
            if text[at] != 46:
                break
            at += one
        digit = np.uint64(text[at]) - _ZERO  # wraps round for bytes below '0'
        while digit <= _NINE:
            digits += 1
            if mantissa < _FULL:
                mantissa = mantissa * _TEN + digit
                exponent -= after_point
            else:
                exponent, status = exponent + 1 - after_point, NEAR
            at += one
            digit = np.uint64(text[at]) - _ZERO
    if digits == 0:
        return 0.0, i, NO_NUMBER
    if text[at] | 32 == 101:
        at += one
        down = text[at] == 45
        power: Any = 0
        if down or text[at] == 43:
            at += one
        digit = np.uint64(text[at]) - _ZERO
        if digit > _NINE:
            return 0.0, i, NO_NUMBER
        while digit <= _NINE:
            power = power * 10 + np.int64(digit) if power < 1_000_000 else power
            at += one
            digit = np.uint64(text[at]) - _ZERO
        exponent += -power if down else power
    value = np.float64(mantissa)
    if mantissa > _EXACT_INTEGER or exponent < -22 or exponent > 22:
        status = NEAR if mantissa > 0 else EXACT
        value *= _POWERS[_RANGE + (_RANGE if exponent > _RANGE else -_RANGE if exponent < -_RANGE else exponent)]
    elif exponent < 0:
        value /= _POWERS[_RANGE - exponent]
    else:
        value *= _POWERS[_RANGE + exponent]
    return (-value if negative else value), np.int64(at), status


@part
def float32_is_certain(value: float) -> Any:
    """Whether every double within the error of a NEAR value rounds to the same float32."""
    return np.float32(value * (1.0 - _MARGIN)) == np.float32(value * (1.0 + _MARGIN))
