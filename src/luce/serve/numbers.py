"""Feature numbers taken out of a JSON text in one compiled pass.

A request of 1,000 documents is 100,000 numbers and a handful of names. A general parser makes a Python object of every
number, which takes longer than all the rest of an answer. Here the arrays that follow the key "features" go straight
into one float64 array and are replaced in the text by where they went, so that the parser sees the small rest only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luce.types import FloatArray, IntArray

__all__ = ["Lifted", "lift_numbers"]

_KEY = np.frombuffer(b"features", dtype=np.uint8)
_NULL = np.frombuffer(b"null", dtype=np.uint8)
_EXACT: FloatArray = np.power(10.0, np.arange(23), dtype=np.float64)


class Lifted(NamedTuple):
    """A JSON text without its feature arrays, and those arrays as rows of numbers; null is NaN."""

    text: bytes
    values: FloatArray
    ends: IntArray
    """Where each row ends in `values`."""


def lift_numbers(text: bytes) -> Lifted | None:
    """Replace `"features": [1, 2]` by `"features": k`, and `"features": [[1], [2]]` by `"features": [k, rows]`.

    k counts the rows from 0. None where what follows such a key is anything but an array of numbers and null, or an
    array of those: a general parser can then say what is wrong.

    >>> lift_numbers(b'{"id": "a", "features": [0.5, null, -2e3]}')
    Lifted(text=b'{"id": "a", "features":0}', values=array([ 5.e-01,     nan, -2.e+03]), ends=array([3]))
    >>> lift_numbers(b'{"features": ["a"]}') is None
    True
    """
    given = np.frombuffer(text + b"\0", dtype=np.uint8)
    # Every number follows a bracket or a comma. Buffers that are too large cost more than the parsing: their pages
    # come zeroed from the system.
    brackets = text.count(b"[")
    values = np.empty(brackets + text.count(b","))
    ends = np.empty(brackets, dtype=np.int64)
    rest = np.empty(len(text) + 24 * text.count(b'"features"'), dtype=np.uint8)
    length, count, rows = _lift(given, rest, values, ends, _KEY, _NULL, _EXACT)
    if length < 0:
        return None
    return Lifted(rest[:length].tobytes(), values[:count].copy(), ends[:rows].copy())


@njit(nogil=True, cache=True)
def _lift(
    text: NDArray[np.uint8],
    rest: NDArray[np.uint8],
    values: FloatArray,
    ends: IntArray,
    key: NDArray[np.uint8],
    null: NDArray[np.uint8],
    exact: FloatArray,
) -> tuple[int, int, int]:
    """Lengths of the rest, of the values and of the ends; a negative first one where something else was found.

    The text ends in a zero byte, which is no part of JSON: whatever looks at the next byte stops there.
    """
    n, i, length, count, rows = len(text) - 1, 0, 0, 0, 0
    while i < n:
        if text[i] != 34:
            rest[length] = text[i]
            length, i = length + 1, i + 1
            continue
        end = _string_end(text, i)
        if end < 0:
            return -1, 0, 0
        rest[length : length + end - i] = text[i:end]
        length += end - i
        is_key = end - i == len(key) + 2 and (text[i + 1 : end - 1] == key).all()
        i = end
        if not is_key:
            continue
        i = _blanks(text, i)
        if text[i] != 58:
            continue
        i = _blanks(text, i + 1)
        rest[length], length = 58, length + 1
        if text[i] != 91:
            return -1, 0, 0
        first = rows
        inner = _blanks(text, i + 1)
        if text[inner] == 91:
            i, count, rows = _matrix(text, inner, values, ends, count, rows, null, exact)
            if i < 0:
                return -1, 0, 0
            rest[length], length = 91, length + 1
            length = _write(rest, length, first)
            rest[length], length = 44, length + 1
            length = _write(rest, length, rows - first)
            rest[length], length = 93, length + 1
        else:
            i, count = _vector(text, i, values, count, null, exact)
            if i < 0:
                return -1, 0, 0
            ends[rows], rows = count, rows + 1
            length = _write(rest, length, first)
    return length, count, rows


@njit(nogil=True, cache=True)
def _string_end(text: NDArray[np.uint8], i: int) -> int:
    """Just after the closing quote of the string that opens at i, or -1."""
    i += 1
    while i < len(text) - 1:
        if text[i] == 92:
            i += 2
        elif text[i] == 34:
            return i + 1
        else:
            i += 1
    return -1


@njit(nogil=True, cache=True)
def _blanks(text: NDArray[np.uint8], i: int) -> int:
    while text[i] == 32 or text[i] == 10 or text[i] == 13 or text[i] == 9:
        i += 1
    return i


@njit(nogil=True, cache=True)
def _write(rest: NDArray[np.uint8], length: int, number: int) -> int:
    """Write a whole number; returns the new length."""
    digits = 1
    while number >= 10**digits:
        digits += 1
    for d in range(digits):
        rest[length + digits - 1 - d] = 48 + number % 10
        number //= 10
    return length + digits


@njit(nogil=True, cache=True)
def _matrix(
    text: NDArray[np.uint8],
    i: int,
    values: FloatArray,
    ends: IntArray,
    count: int,
    rows: int,
    null: NDArray[np.uint8],
    exact: FloatArray,
) -> tuple[int, int, int]:
    """The rows from the first inner bracket at i to just after the outer one."""
    while True:
        if text[i] != 91:
            return -1, 0, 0
        i, count = _vector(text, i, values, count, null, exact)
        if i < 0:
            return -1, 0, 0
        ends[rows], rows = count, rows + 1
        i = _blanks(text, i)
        if text[i] == 93:
            return i + 1, count, rows
        if text[i] != 44:
            return -1, 0, 0
        i = _blanks(text, i + 1)


@njit(nogil=True, cache=True)
def _vector(
    text: NDArray[np.uint8], i: int, values: FloatArray, count: int, null: NDArray[np.uint8], exact: FloatArray
) -> tuple[int, int]:
    """The numbers from the bracket at i to just after its partner."""
    i = _blanks(text, i + 1)
    if text[i] == 93:
        return i + 1, count
    while True:
        if text[i] == 110:
            if i + 4 > len(text) or not (text[i : i + 4] == null).all():
                return -1, 0
            values[count] = np.nan
            i += 4
        else:
            i, values[count] = _number(text, i, exact)
            if i < 0:
                return -1, 0
        count += 1
        i = _blanks(text, i)
        if text[i] == 93:
            return i + 1, count
        if text[i] != 44:
            return -1, 0
        i = _blanks(text, i + 1)


@njit(nogil=True, cache=True, error_model="numpy")
def _number(text: NDArray[np.uint8], i: int, exact: FloatArray) -> tuple[int, float]:
    """A number as JSON writes it; correctly rounded up to 15 digits (and 22 zeros), to 1e-15 beyond.

    The zero byte at the end of the text ends every run of digits.
    """
    negative = text[i] == 45
    if negative:
        i += 1
    start, mantissa = i, np.uint64(0)
    byte = text[i]
    while 48 <= byte <= 57:
        mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
        i += 1
        byte = text[i]
    digits = i - start
    if digits == 0 or (digits > 1 and text[start] == 48):
        return -1, 0.0
    exponent = 0
    if byte == 46:
        i += 1
        point = i
        byte = text[i]
        while 48 <= byte <= 57:
            mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
            i += 1
            byte = text[i]
        exponent = point - i
        if exponent == 0:
            return -1, 0.0
        digits -= exponent
    if digits > 19:
        mantissa, exponent = _long_mantissa(text, start)
    if byte == 101 or byte == 69:
        i, power = _power(text, i + 1)
        if i < 0:
            return -1, 0.0
        exponent += power
    value = float(mantissa)
    if -22 <= exponent < 0:
        value /= exact[-exponent]
    elif 0 < exponent <= 22:
        value *= exact[exponent]
    elif exponent != 0 and mantissa:
        bounded = max(min(exponent, 700), -700)
        half = bounded // 2
        value = value * 10.0**half * 10.0 ** (bounded - half)
    return i, -value if negative else value


@njit(nogil=True, cache=True)
def _long_mantissa(text: NDArray[np.uint8], i: int) -> tuple[np.uint64, int]:
    """The first 19 significant digits of the number at i, and the power of ten that its point and the others make."""
    mantissa, digits, exponent, fraction = np.uint64(0), 0, 0, False
    while text[i] == 46 or 48 <= text[i] <= 57:
        if text[i] == 46:
            fraction = True
        elif digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[i] - 48)
            digits += 1 if mantissa else 0
            exponent -= 1 if fraction else 0
        else:
            exponent += 0 if fraction else 1
        i += 1
    return mantissa, exponent


@njit(nogil=True, cache=True)
def _power(text: NDArray[np.uint8], i: int) -> tuple[int, int]:
    """The exponent at i, held to a size that is beyond every number; -1 where there is none."""
    down = text[i] == 45
    if down or text[i] == 43:
        i += 1
    start, power = i, 0
    while 48 <= text[i] <= 57:
        power = min(10 * power + (text[i] - 48), 100_000)
        i += 1
    return (-1 if i == start else i), (-power if down else power)
