"""Decimal text to float64, correctly rounded, in compiled code; the arithmetic is that of `luce.numerics.decimals`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import part
from luce.numerics.decimals import long_mantissa, nearest, power_at

__all__ = ["CERTAIN", "NO_NUMBER", "UNCERTAIN", "parse_number"]

CERTAIN, UNCERTAIN, NO_NUMBER = 0, 1, 2
_ZERO, _NINE, _TEN = np.uint64(48), np.uint64(9), np.uint64(10)


@part
def parse_number(text: NDArray[np.uint8], i: int) -> Any:
    """(value, first byte after the number, CERTAIN or UNCERTAIN or NO_NUMBER) of the decimal that starts at byte i.

    Uncertain are numbers of more than 19 digits whose further digits decide the rounding: Python's `float` knows. The
    text must go on to a byte that cannot be part of a number, such as the newline that ends every block. Bytes are
    numbered without a sign, which spares the test for a negative number.
    """
    at = np.uint64(i)
    one = np.uint64(1)
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += one
    start, mantissa, exponent, digits = at, np.uint64(0), np.int64(0), 0
    for after_point in range(2):
        if after_point == 1:
            if text[at] != 46:
                break
            at += one
        digit = np.uint64(text[at]) - _ZERO  # wraps round for bytes below '0'
        while digit <= _NINE:
            digits += 1
            mantissa = mantissa * _TEN + digit
            exponent -= after_point
            at += one
            digit = np.uint64(text[at]) - _ZERO
    if digits == 0:
        return 0.0, i, NO_NUMBER
    cut = False
    if digits > 19:
        mantissa, exponent, cut = long_mantissa(text, start)
    if text[at] | 32 == 101:
        at, power = power_at(text, at + one)
        if at == np.uint64(0):
            return 0.0, i, NO_NUMBER
        exponent += power
    value = nearest(mantissa, exponent)
    status = UNCERTAIN if cut and value != nearest(mantissa + one, exponent) else CERTAIN
    return (-value if negative else value), np.int64(at), status
