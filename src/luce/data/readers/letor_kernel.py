"""The byte parser of LETOR text: one block of whole lines at a time, without the GIL.

    <label> qid:<text> <index>:<value> <index>:<value> ... # <comment>

The kernel never stops for Python: rows, runs of equal query ids, spans of document ids, numbers that need a second
look, and the first line that is wrong are written to arrays that the caller owns. What is wrong with that line is a
question for Python (`luce.data.readers.letor`): compiled, the answers would take longer to compile than
everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk
from luce.types import FloatArray, IntArray

# Places in the summary that the kernel fills.
_ROWS, _RUNS, _WIDTH, _FIXES, _BAD_LINE, _LINE, _START = range(7)  # the line that is wrong, and its first byte

_NEWLINE, _HASH, _COLON, _EQUALS = 10, 35, 58, 61
_MANY = 1_000_000_000_000
LARGEST = 3.4028235677973366e38
"""Numbers from here on round to infinity as float32."""

_ZERO, _NINE, _TEN = np.uint64(48), np.uint64(9), np.uint64(10)
_POWERS: FloatArray = np.array([float(10**k) for k in range(309)])
"""The powers of ten, which are float64 numbers up to the 22nd."""
_LESS, _MORE = 1.0 - 2.0**-49, 1.0 + 2.0**-49
"""What bounds a number that was rounded four times."""


class Parsed(NamedTuple):
    """What one block of lines gave besides its rows of X; `wrong` is (line, first byte) of the first wrong one."""

    y: FloatArray
    runs: IntArray
    documents: IntArray
    width: int
    wrong: tuple[int, int] | None = None


class Form(NamedTuple):
    """How lines are read; the words for a missing value stand end to end."""

    absent: float
    limit: int
    want_qid: bool
    missing: NDArray[np.uint8]
    missing_ends: IntArray


class _Room(NamedTuple):
    """Arrays that the kernel fills.

    `runs` gets (row, start, stop of the query id) where the id changes, `documents` the span of each document id, and
    `fixes` (row, feature or -1 for the label, start, stop) of numbers that need Python's `float`. Features beyond
    the columns of X only count for summary[_WIDTH], and fixes beyond the room for them are only counted: the caller
    makes room and parses again.
    """

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    runs: NDArray[np.int64]
    documents: NDArray[np.int64]
    fixes: NDArray[np.int64]
    last_seen: NDArray[np.int64]
    """The last row that had each feature."""


def parse_lines(batch: bytes, form: Form, rooms: Sequence[NDArray[np.float32]], i: int, block: Chunk) -> Parsed:
    """Parse the lines of block i into its room, which has a row a line."""
    text, X, lines = np.frombuffer(batch, dtype=np.uint8), rooms[i], len(rooms[i])
    y, documents = np.empty(lines), np.empty((lines, 2), np.int64)
    runs, fixes = np.empty((lines if form.want_qid else 0, 3), np.int64), np.empty((64, 4), np.int64)
    while True:
        summary, last_seen = np.zeros(8, np.int64), np.full(X.shape[1], -1, np.int64)
        _parse_block(text, *block, form, _Room(X, y, runs, documents, fixes, last_seen), summary)
        if summary[_FIXES] <= len(fixes):
            break
        fixes = np.empty((int(summary[_FIXES]), 4), np.int64)
    wrong = (int(summary[_LINE]), int(summary[_START])) if summary[_BAD_LINE] else None
    for row, column, start, stop in fixes[: summary[_FIXES]].tolist():
        number = float(batch[start:stop])
        if not abs(number) < (math.inf if column < 0 else LARGEST):
            wrong = batch.count(b"\n", block[0], start) + 1, batch.rfind(b"\n", 0, start) + 1
            break
        if column < 0:
            y[row] = number
        else:
            X[row, column] = number
    rows, runs = int(summary[_ROWS]), runs[: summary[_RUNS]]
    return Parsed(y[:rows], runs, documents[:rows], int(summary[_WIDTH]), wrong)


@part
def _parse_number(text: NDArray[np.uint8], i: int) -> Any:
    """(value, first byte after the number, whether the value is exact) of the decimal that starts at byte i.

    The value of a number with w < 2^53 and |q| <= 22, as w * 10^q, is one exact product or quotient (Clinger, How to
    read floating point numbers accurately, 1990); any other is right up to `_LESS` and `_MORE`. The text must go on to
    a byte that cannot be part of a number, such as the newline that ends every block. Bytes are numbered without a
    sign, which spares the test for a negative number.
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
        return 0.0, i, False
    cut = False
    if digits > 19:
        mantissa, exponent, cut = _long_mantissa(text, start)
    if text[at] | 32 == 101:
        at, power = _power_at(text, at + one)
        if at == np.uint64(0):
            return 0.0, i, False
        exponent += power
    value = _scaled(mantissa, exponent)
    exact = mantissa < np.uint64(2**53) and -22 <= exponent <= 22 and not cut
    return (-value if negative else value), np.int64(at), exact


@part
def _scaled(w: np.uint64, q: np.int64) -> float:
    """W * 10^q, rounded three times at most; 0 and infinity beyond the range."""
    if w == 0 or q < -308:  # less than float32 has, and labels as small are not exact
        return 0.0
    if q > 308:
        return math.inf
    value: float = float(w) / _POWERS[-q] if q <= 0 else float(w) * _POWERS[q]
    return value


@part
def _long_mantissa(text: NDArray[np.uint8], i: np.uint64) -> tuple[np.uint64, np.int64, bool]:
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
def _power_at(text: NDArray[np.uint8], i: np.uint64) -> tuple[np.uint64, np.int64]:
    """Just after the exponent at i, 0 where there is none, and its value, held to a size beyond every number."""
    down = text[i] == 45
    if down or text[i] == 43:
        i += np.uint64(1)
    start, power = i, np.int64(0)
    while 48 <= text[i] <= 57:
        power = min(10 * power + np.int64(text[i] - 48), np.int64(10**15))
        i += np.uint64(1)
    return (np.uint64(0) if i == start else i), (-power if down else power)


@part
def _is_space(c: int) -> bool:
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@part
def _end_of_token(text: NDArray[np.uint8], i: int) -> Any:
    at = np.uint64(i)
    while text[at] > 35 or not (text[at] == _NEWLINE or text[at] == _HASH or _is_space(text[at])):
        at += np.uint64(1)
    return np.int64(at)


@part
def _is_missing(text: NDArray[np.uint8], i: int, stop: int, words: NDArray[np.uint8], ends: NDArray[np.int64]) -> bool:
    """Whether a token is one of the words for a missing value, which stand end to end."""
    first = 0
    for last in ends:
        k = 0
        while k < stop - i and k < last - first and text[i + k] == words[first + k]:
            k += 1
        if k == stop - i and k == last - first:
            return True
        first = last
    return False


@part
def _comment_span(text: NDArray[np.uint8], i: int, end: int) -> Any:
    """(start, stop) of the document id in a comment: the word after `docid =`, else the stripped comment."""
    while i < end and _is_space(text[i]):
        i += 1
    while end > i and _is_space(text[end - 1]):
        end -= 1
    first = text[i] | 32 == 100 and text[i + 1] | 32 == 111 and text[i + 2] | 32 == 99 if end - i > 5 else False
    if first and text[i + 3] | 32 == 105 and text[i + 4] | 32 == 100:  # docid
        k = i + 5
        while k < end and _is_space(text[k]):
            k += 1
        if k < end and text[k] == _EQUALS:
            k += 1
            while k < end and _is_space(text[k]):
                k += 1
            stop = k
            while stop < end and not _is_space(text[stop]):
                stop += 1
            if stop > k:
                return k, stop
    return i, end


@part
def _new_query(text: NDArray[np.uint8], runs: NDArray[np.int64], n_runs: int, start: int, stop: int) -> bool:
    """Whether the query id `text[start:stop]` is another one than that of the last run."""
    if n_runs == 0 or runs[n_runs - 1, 2] - runs[n_runs - 1, 1] != stop - start:
        return True
    k = 0
    while k < stop - start and text[runs[n_runs - 1, 1] + k] == text[start + k]:
        k += 1
    return k < stop - start


@part
def _parse_row(text: NDArray[np.uint8], i: int, row: int, form: Form, room: _Room, n_fixes: int, widest: int) -> Any:
    """The label, query id and features of the line whose label is at i, up to its comment or end.

    Returns where that is (-1 for a line that is wrong), the span of the query id, and the two counts.
    """
    width, start = room.X.shape[1], i
    value, i, exact = _parse_number(text, i)
    certain = exact
    good = i > start and i == _end_of_token(text, i)
    room.y[row] = value
    for column in range(width):
        room.X[row, column] = form.absent
    column, qid_start, qid_stop = -1, -1, -1
    while good:
        if not certain:
            if n_fixes < len(room.fixes):
                fix = room.fixes[n_fixes]
                fix[0], fix[1], fix[2], fix[3] = row, column, start, i
            n_fixes += 1
        certain = True
        while _is_space(text[i]):
            i += 1
        c = text[i]
        if c == _NEWLINE or c == _HASH:  # noqa: SIM109 (a tuple is a search at run time)
            break
        if c == 113:  # qid:
            good = text[i + 1] | 32 == 105 and text[i + 2] | 32 == 100 and text[i + 3] == _COLON
            good = good and form.want_qid and qid_start < 0
            if good:
                qid_start = i + 4
                i = _end_of_token(text, qid_start)
                qid_stop = i
                good = qid_stop > qid_start
            continue
        index: Any = 0
        digit = np.int64(text[i]) - 48
        while 0 <= digit <= 9 and index < _MANY:
            index = index * 10 + digit
            i += 1
            digit = np.int64(text[i]) - 48
        good = text[i] == _COLON and 0 < index <= form.limit
        if not good:
            break
        start = i + 1
        value, i, exact = _parse_number(text, start)
        number = np.float32(value)
        stop = _end_of_token(text, i)
        if i == start or stop > i:
            i, number = stop, np.float32(np.nan)
            good = _is_missing(text, start, stop, form.missing, form.missing_ends)
        else:  # where both bounds round to one number, it is the right one
            certain = exact or np.float32(value * _LESS) == np.float32(value * _MORE)
            good = math.isfinite(number) or not certain
        widest = index if index > widest else widest
        column = index - 1
        if index > width:
            certain = True
        elif good:
            good = room.last_seen[column] != row
            room.last_seen[column] = row
            room.X[row, column] = number
    return (i if good and (qid_start >= 0 or not form.want_qid) else -1), qid_start, qid_stop, n_fixes, widest


@kernel
def _parse_block(
    text: NDArray[np.uint8], begin: int, end: int, form: Form, room: _Room, summary: NDArray[np.int64]
) -> None:
    """Parse the lines in `text[begin:end]`, the last byte a newline, into the room for them, and fill the summary."""
    row, line, i, n_fixes, n_runs, widest = 0, 0, begin, 0, 0, 0
    while i < end:
        line_start = i
        line += 1
        while _is_space(text[i]):
            i += 1
        if text[i] != _NEWLINE and text[i] != _HASH:
            i, qid_start, qid_stop, n_fixes, widest = _parse_row(text, i, row, form, room, n_fixes, widest)
            if i < 0:
                summary[_BAD_LINE], summary[_LINE], summary[_START] = 1, line, line_start
                break
            if form.want_qid and _new_query(text, room.runs, n_runs, qid_start, qid_stop):
                room.runs[n_runs, 0], room.runs[n_runs, 1], room.runs[n_runs, 2] = row, qid_start, qid_stop
                n_runs += 1
            start = i
            while text[i] != _NEWLINE:
                i += 1
            span = _comment_span(text, start + 1 if start < i else i, i)
            room.documents[row, 0], room.documents[row, 1] = span
            row += 1
        while text[i] != _NEWLINE:
            i += 1
        i += 1
    summary[_ROWS], summary[_RUNS], summary[_WIDTH], summary[_FIXES] = row, n_runs, widest, n_fixes
