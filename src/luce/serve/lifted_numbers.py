"""Feature numbers taken out of a JSON text in one compiled pass.

A request of 1,000 documents is 100,000 numbers and a handful of names. A general parser makes a Python object of every
number, which takes longer than all the rest of an answer. Here the arrays that follow the key "features" go straight
into one float64 array and are replaced in the text by where they went, so that the parser sees the small rest only.
So do objects that name their features, as long as all of them list the names of the first one in its order.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import kernel, part
from luce.numerics.decimals import TENS, digits_of, long_mantissa, nearest, power_at, value_of
from luce.types import FloatArray, IntArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Place = np.uint64
"""A place in the text. Unsigned, as Numba then does not look for negative indices; 0 stands for a failure."""

_1, _4, _8 = np.uint64(1), np.uint64(4), np.uint64(8)
_KEY = np.uint64(int.from_bytes(b"features", "little"))
_NULL, _FOUR_BYTES = np.uint64(int.from_bytes(b"null", "little")), np.uint64(2**32 - 1)
_PADDING = bytes(8)


class Lifted(NamedTuple):
    """A JSON text without its feature arrays, and those arrays as rows of numbers; null is NaN."""

    text: bytes
    values: FloatArray
    ends: IntArray
    """Where each row ends in `values`."""
    names: list[bytes] | None = None
    """The names in the order of a row as they stand in the text; None where rows are arrays."""


def lift_numbers(text: bytes) -> Lifted | None:
    """Replace `"features": [1, 2]` by `"features": k`, and `"features": [[1], [2]]` by `"features": [k, rows]`.

    An object `"features": {"a": 1, "b": 2}` is replaced as an array is. k counts the rows from 0; numbers are correctly
    rounded. None where what follows such a key is anything but an array of numbers and null, an array of those, or such
    an object with the names of the first one: a general parser can then say what is wrong.

    >>> lift_numbers(b'{"id": "a", "features": [0.5, null, -2e3]}')[:3]
    (b'{"id": "a", "features":0}', array([ 5.e-01,     nan, -2.e+03]), array([3]))
    >>> lift_numbers(b'[{"features": {"b": 1, "a": 2}}, {"features": {"b": 3, "a": 4}}]').names
    [b'"b"', b'"a"']
    >>> lift_numbers(b'{"features": ["a"]}') is None
    True
    """
    # One word alone would be an array of another type, and the compiler would be at work during a request.
    if sys.byteorder != "little" or not text:
        return None
    # Zero bytes, which are no part of JSON, end the text: whatever looks at the next eight bytes stops there.
    given = np.frombuffer(text + _PADDING, dtype=np.uint8)
    words = np.ndarray((len(text) + 1,), np.uint64, given, strides=(1,))
    # Every number follows a bracket or a comma, or the name after a comma or a brace. Buffers that are too large cost
    # more than the parsing: their pages come zeroed from the system. NumPy counts ten times as fast as bytes.count.
    opened, commas = _count(given, b"[{"), _count(given, b",")
    values, names = np.empty(opened + commas), np.empty((opened + commas, 2), dtype=np.uint64)
    ends = np.empty(opened, dtype=np.int64)
    # What stands for an array takes at most 24 bytes more than it did; a key and its array have at least 12 bytes.
    rest = np.empty(len(text) + 24 * min(opened, len(text) // 12), dtype=np.uint8)
    length, count, rows, width = _lift(given, words, rest, values, ends, names)
    if length == 0:
        return None
    listed = [text[a:b] for a, b in names[:width].tolist()] or None
    return Lifted(rest[:length].tobytes(), values[:count], ends[:rows], listed)


def _count(text: Bytes, marks: bytes) -> int:
    """How many bytes are one of the marks; by blocks, as an array of all comparisons would be new pages each time."""
    total, equal = 0, np.empty(1 << 16, dtype=np.bool_)
    for start in range(0, len(text), len(equal)):
        block = text[start : start + len(equal)]
        for mark in marks:
            total += int(np.count_nonzero(np.equal(block, mark, out=equal[: len(block)])))
    return total


@kernel
def _lift(
    text: Bytes, words: Words, rest: Bytes, values: FloatArray, ends: IntArray, names: Words
) -> tuple[Place, np.uint64, np.uint64, np.uint64]:
    """Lengths of the rest, of the values, of the ends and of the names; 0 for the first where it is something else."""
    n, nothing = np.uint64(len(words)) - _1, np.uint64(0)
    i = length = count = rows = width = nothing
    while i < n:
        if text[i] != 34:
            rest[length] = text[i]
            length, i = length + _1, i + _1
            continue
        end = _string_end(text, i, n)
        if end == nothing:
            return nothing, count, rows, width
        rest[length : length + end - i] = text[i:end]
        length += end - i
        is_key = end - i == np.uint64(10) and words[i + _1] == _KEY
        i = end
        if not is_key:
            continue
        i = _blanks(text, i)
        if text[i] != 58:
            continue
        i = _blanks(text, i + _1)
        rest[length], length = 58, length + _1
        named = text[i] == 123
        # All rows have names, or none has.
        if not (named or text[i] == 91) or (rows > nothing and named != (width > nothing)):
            return nothing, count, rows, width
        first = rows
        inner = _blanks(text, i + _1)
        if text[inner] == 91 and not named:
            i, count, rows = _matrix(text, words, inner, values, ends, count, rows, names)
            rest[length], length = 91, length + _1
            length = _write(rest, length, first)
            rest[length], length = 44, length + _1
            length = _write(rest, length, rows - first)
            rest[length], length = 93, length + _1
        else:
            before = count
            i, count = _row(text, words, i, values, count, names, width)
            ends[rows], rows = count, rows + _1
            length = _write(rest, length, first)
            width = count - before if named else nothing
        if i == nothing or (named and width == nothing):
            return nothing, count, rows, width
    return length, count, rows, width


@part
def _string_end(text: Bytes, i: Place, n: Place) -> Place:
    """Just after the closing quote of the string that opens at i."""
    i += _1
    while i < n:
        if text[i] == 92:
            i += _1
        elif text[i] == 34:
            return i + _1
        i += _1
    return np.uint64(0)


@part
def _blanks(text: Bytes, i: Place) -> Place:
    while text[i] == 32 or text[i] == 10 or text[i] == 13 or text[i] == 9:
        i += _1
    return i


@part
def _write(rest: Bytes, length: Place, number: np.uint64) -> Place:
    """Write a whole number; returns the new length."""
    ten = np.uint64(10)
    size, power = _1, ten
    while number >= power:
        size, power = size + _1, power * ten
    for d in range(size):
        rest[length + size - _1 - d] = 48 + number % ten
        number //= ten
    return length + size


@part
def _matrix(
    text: Bytes,
    words: Words,
    i: Place,
    values: FloatArray,
    ends: IntArray,
    count: np.uint64,
    rows: np.uint64,
    names: Words,
) -> tuple[Place, np.uint64, np.uint64]:
    """The rows from the first inner bracket at i to just after the outer one."""
    while text[i] == 91:
        i, count = _row(text, words, i, values, count, names, np.uint64(0))
        if i == np.uint64(0):
            break
        ends[rows], rows = count, rows + _1
        i = _blanks(text, i)
        if text[i] == 93:
            return i + _1, count, rows
        if text[i] != 44:
            break
        i = _blanks(text, i + _1)
    return np.uint64(0), count, rows


@part
def _row(
    text: Bytes, words: Words, i: Place, values: FloatArray, count: np.uint64, names: Words, width: np.uint64
) -> tuple[Place, np.uint64]:
    """The numbers from the bracket or brace at i to just after its partner; `width` names are known, if any.

    One loop on purpose: a function of arrays that is called for every number doubles the time, as Numba counts the
    references to arrays.
    """
    failure, first = np.uint64(0), count
    named = text[i] == 123
    closing = 125 if named else 93
    i = _blanks(text, i + _1)
    if text[i] == closing:
        return i + _1, count
    while True:
        if named:
            i = _name(text, words, i, names, count - first, width)
            if i == failure:
                return failure, count
        negative = text[i] == 45
        if negative:
            i += _1
        start, mantissa, exponent = i, np.uint64(0), np.int64(0)
        while 48 <= text[i] <= 57:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[i] - 48)
            i += _1
        digits, point = i - start, i
        if text[i] == 46:
            i += _1
            found = _8
            while found == _8:
                word, found = digits_of(words[i])
                if found:
                    mantissa = mantissa * TENS[found] + value_of(word, found)
                    i += found
            exponent = np.int64(point) + 1 - np.int64(i)
        if digits == 0 or (digits > 1 and text[start] == 48) or i == point + _1:
            if negative or i != start or words[i] & _FOUR_BYTES != _NULL:
                return failure, count
            values[count] = np.nan
            i += _4
        else:
            cut = False
            if digits - np.uint64(exponent) > np.uint64(19):
                mantissa, exponent, cut = long_mantissa(text, start)
            if text[i] == 101 or text[i] == 69:
                i, power = power_at(text, i + _1)
                exponent += power
            value = nearest(mantissa, exponent)
            if i == failure or (cut and value != nearest(mantissa + _1, exponent)):
                return failure, count
            values[count] = -value if negative else value
        count += _1
        if text[i] != 44:
            i = _blanks(text, i)
            if text[i] == closing:
                return (failure if named and width and width != count - first else i + _1), count
            if text[i] != 44:
                return failure, count
        i += _1
        if text[i] <= 32:
            i = _blanks(text, i)


@part
def _name(text: Bytes, words: Words, i: Place, names: Words, k: np.uint64, width: np.uint64) -> Place:
    """To the number after the name at i, which is noted as the k-th, or is the k-th of those that are known."""
    nothing = np.uint64(0)
    if text[i] != 34:
        return nothing
    if width == nothing:
        names[k, 0] = i
        i = _string_end(text, i, np.uint64(len(words)) - _1)
        names[k, 1] = i
    else:
        if k >= width:
            return nothing
        known, end = names[k, 0], names[k, 1]
        # A name may hold zero bytes, which are not to be looked for beyond the end of the text.
        if end - known > np.uint64(len(words)) - _1 - i:
            return nothing
        while known < end:
            apart, left = words[i] ^ words[known], end - known
            if left < _8:
                apart <<= (_8 - left) * _8
            if apart != nothing:
                return nothing
            i, known = i + min(left, _8), known + _8
    if i == nothing:
        return nothing
    i = _blanks(text, i)
    return _blanks(text, i + _1) if text[i] == 58 else nothing
