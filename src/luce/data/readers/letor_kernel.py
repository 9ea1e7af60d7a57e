"""The byte parser of LETOR text: one block of whole lines at a time, without the GIL.

    <label> qid:<text> <index>:<value> <index>:<value> ... # <comment>

The kernel never stops for Python: rows, runs of equal query ids, spans of document ids, numbers that need a second
look, and the first error are written to arrays that the caller owns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.readers.numbers import EXACT, NEAR, NO_NUMBER, at, float32_is_certain, parse_number
from luce.numerics.compiled import kernel, part

__all__ = [
    "BAD_INDEX",
    "BAD_LABEL",
    "BAD_QID",
    "BAD_TOKEN",
    "BAD_VALUE",
    "ERROR",
    "FIXES",
    "INFINITE_LABEL",
    "INFINITE_VALUE",
    "LINE",
    "NAN_VALUE",
    "NO_ERROR",
    "NO_QID",
    "REPEATED_INDEX",
    "ROWS",
    "RUNS",
    "SPAN",
    "TWO_QIDS",
    "UNEXPECTED_QID",
    "WIDTH",
    "ZERO_INDEX",
    "parse_block",
]

# Places in the summary that the kernel fills.
ROWS, RUNS, WIDTH, FIXES, ERROR, LINE, SPAN = 0, 1, 2, 3, 4, 5, 6  # SPAN and SPAN + 1: the bytes of the error

(
    NO_ERROR,
    BAD_LABEL,
    INFINITE_LABEL,
    NO_QID,
    BAD_QID,
    TWO_QIDS,
    UNEXPECTED_QID,
    BAD_TOKEN,
    ZERO_INDEX,
    BAD_INDEX,
    REPEATED_INDEX,
    BAD_VALUE,
    NAN_VALUE,
    INFINITE_VALUE,
) = range(14)

_NUMBER, _NAN, _INFINITE, _OTHER = 0, 1, 2, 3
_NEWLINE, _HASH, _COLON = 10, 35, 58


@part
def _is_space(c: int) -> bool:
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@part
def _ends_token(c: int) -> bool:
    return c in (_NEWLINE, _HASH) or _is_space(c)


@part
def _token_end(text: NDArray[np.uint8], i: int) -> int:
    while not _ends_token(at(text, i)):
        i += 1
    return i


@part
def _skip_space(text: NDArray[np.uint8], i: int) -> int:
    while _is_space(at(text, i)):
        i += 1
    return i


@part
def _is_word(text: NDArray[np.uint8], i: int, stop: int, word: Any) -> bool:
    if stop - i != len(word):
        return False
    for k in range(len(word)):  # noqa: SIM110 (no generator in compiled code)
        if text[i + k] | 32 != word[k]:
            return False
    return True


@part
def _kind_of_word(
    text: NDArray[np.uint8], i: int, stop: int, missing: NDArray[np.uint8], ends: NDArray[np.int64]
) -> int:
    """What a token is that is no finite decimal; `missing` holds the words for a missing value, end to end."""
    first = 0
    for last in ends:
        if stop - i == last - first:
            same = True
            for k in range(stop - i):
                same = same and text[i + k] == missing[first + k]
            if same:
                return _NUMBER
        first = last
    if i < stop and (text[i] == 43 or text[i] == 45):
        i += 1
    if _is_word(text, i, stop, b"nan"):
        return _NAN
    if _is_word(text, i, stop, b"inf") or _is_word(text, i, stop, b"infinity"):
        return _INFINITE
    return _OTHER


@part
def _comment_span(text: NDArray[np.uint8], i: int, end: int) -> Any:
    """(start, stop) of the document id in a comment: the word after `docid =`, else the stripped comment."""
    while i < end and _is_space(text[i]):
        i += 1
    while end > i and _is_space(text[end - 1]):
        end -= 1
    if end - i > 5 and _is_word(text, i, i + 5, b"docid"):
        k = i + 5
        while k < end and _is_space(text[k]):
            k += 1
        if k < end and text[k] == 61:
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
def _parse_label(text: NDArray[np.uint8], i: int) -> Any:
    """(value, next byte, status of the number, error)."""
    value, stop, status = parse_number(text, i)
    if status == NO_NUMBER or not _ends_token(at(text, stop)):
        stop = _token_end(text, i)
        empty = np.empty(0, np.int64)
        kind = _kind_of_word(text, i, stop, text[:0], empty)
        return 0.0, stop, status, INFINITE_LABEL if kind in (_NAN, _INFINITE) else BAD_LABEL
    return value, stop, status, NO_ERROR if np.isfinite(value) else INFINITE_LABEL


@part
def _parse_index(text: NDArray[np.uint8], i: int, limit: int) -> Any:
    """(index, byte after the colon, error) of `<index>:`."""
    index: Any = 0
    start = i
    digit = np.int64(at(text, i)) - 48
    while digit >= 0 and digit <= 9:
        index = min(index * 10 + digit, 1_000_000_000_000)
        i += 1
        digit = np.int64(at(text, i)) - 48
    if i == start or at(text, i) != _COLON:
        return index, i, BAD_TOKEN
    if index == 0:
        return index, i + 1, ZERO_INDEX
    return index, i + 1, BAD_INDEX if index > limit else NO_ERROR


@part
def _parse_value(
    text: NDArray[np.uint8],
    i: int,
    allow_nan: bool,
    missing: NDArray[np.uint8],
    missing_ends: NDArray[np.int64],
) -> Any:
    """(value, next byte, whether the float32 is certain, error)."""
    value, stop, status = parse_number(text, i)
    if status == NO_NUMBER or not _ends_token(at(text, stop)):
        stop = _token_end(text, i)
        kind = _kind_of_word(text, i, stop, missing, missing_ends)
        if kind == _NUMBER or (kind == _NAN and allow_nan):
            return np.float32(np.nan), stop, True, NO_ERROR
        if kind == _NAN:
            return np.float32(np.nan), stop, True, NAN_VALUE
        return np.float32(0), stop, True, INFINITE_VALUE if kind == _INFINITE else BAD_VALUE
    number = np.float32(value)
    if not np.isfinite(number):
        return number, stop, True, INFINITE_VALUE
    return number, stop, status == EXACT or float32_is_certain(value), NO_ERROR


@part
def _parse_features(
    text: NDArray[np.uint8],
    i: int,
    row: int,
    values: NDArray[np.float32],
    last_seen: NDArray[np.int64],
    fixes: NDArray[np.int64],
    summary: NDArray[np.int64],
    limit: int,
    want_qid: bool,
    allow_nan: bool,
    missing: NDArray[np.uint8],
    missing_ends: NDArray[np.int64],
) -> Any:
    """The rest of a row after its label: (next byte, start of the last token, error, start and stop of the qid)."""
    width, widest = len(values), summary[WIDTH]
    start, error, qid_start, qid_stop = i, NO_ERROR, -1, -1
    while error == NO_ERROR:
        i = _skip_space(text, i)
        c = at(text, i)
        if c in (_NEWLINE, _HASH):
            break
        start = i
        if c == 113 and _token_end(text, i) - i >= 4 and _is_word(text, i, i + 4, b"qid:"):
            qid_start, i = i + 4, _token_end(text, i)
            error = _qid_error(want_qid, qid_stop >= 0, i == qid_start)
            qid_stop = i
            continue
        index, i, error = _parse_index(text, i, limit)
        if error != NO_ERROR:
            break
        where = i
        value, i, certain, error = _parse_value(text, i, allow_nan, missing, missing_ends)
        widest = max(widest, index)
        if error == NO_ERROR and index <= width:
            column = np.uint64(index - 1)
            if last_seen[column] == row:
                error = REPEATED_INDEX
            last_seen[column] = row
            values[column] = value
            if not certain:
                _note(fixes, summary, row, index - 1, where, i)
    summary[WIDTH] = widest
    if error == NO_ERROR and want_qid and qid_start < 0:
        error = NO_QID
    return i, start, error, qid_start, qid_stop


@kernel
def parse_block(
    text: NDArray[np.uint8],
    begin: int,
    end: int,
    X: NDArray[np.float32],
    y: NDArray[np.float64],
    runs: NDArray[np.int64],
    documents: NDArray[np.int64],
    fixes: NDArray[np.int64],
    absent: float,
    limit: int,
    want_qid: bool,
    allow_nan: bool,
    missing: NDArray[np.uint8],
    missing_ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Parse the lines in `text[begin:end]`, the last byte a newline, into rows of X and y; returns the summary.

    `runs` gets (row, start, stop of the query id) where the id changes, `documents` the span of each document id, and
    `fixes` (row, feature or -1 for the label, start, stop) of numbers that need Python's `float`. Features beyond
    the columns of X are only noted in summary[WIDTH], and fixes beyond the room for them only counted: the caller makes
    room and parses again.
    """
    summary = np.zeros(8, np.int64)
    last_seen = np.full(X.shape[1], -1, np.int64)
    row, line, i = 0, 0, begin
    while i < end:
        line += 1
        i = _skip_space(text, i)
        if at(text, i) not in (_NEWLINE, _HASH):
            start = i
            y[row], i, status, error = _parse_label(text, i)
            X[row, :] = absent
            if error == NO_ERROR:
                if status == NEAR:
                    _note(fixes, summary, row, -1, start, i)
                i, start, error, qid_start, qid_stop = _parse_features(
                    text, i, row, X[row], last_seen, fixes, summary, limit, want_qid, allow_nan, missing, missing_ends
                )
            if error != NO_ERROR:
                summary[ERROR], summary[LINE] = error, line
                summary[SPAN], summary[SPAN + 1] = start, _token_end(text, start)
                break
            if want_qid:
                _note_run(runs, summary, text, row, qid_start, qid_stop)
            start = i
            while at(text, i) != _NEWLINE:
                i += 1
            documents[row, 0], documents[row, 1] = _comment_span(text, min(start + 1, i), i)
            row += 1
        while at(text, i) != _NEWLINE:
            i += 1
        i += 1
    summary[ROWS] = row
    return summary


@part
def _note_run(
    runs: NDArray[np.int64], summary: NDArray[np.int64], text: NDArray[np.uint8], row: int, start: int, stop: int
) -> None:
    n = summary[RUNS]
    if n == 0 or not _same_text(text, runs[n - 1, 1], runs[n - 1, 2], start, stop):
        runs[n, 0], runs[n, 1], runs[n, 2] = row, start, stop
        summary[RUNS] = n + 1


@part
def _qid_error(wanted: bool, second: bool, empty: bool) -> int:
    if empty:
        return BAD_QID
    if not wanted:
        return UNEXPECTED_QID
    return TWO_QIDS if second else NO_ERROR


@part
def _note(fixes: NDArray[np.int64], summary: NDArray[np.int64], row: int, column: int, start: int, stop: int) -> None:
    n = summary[FIXES]
    if n < len(fixes):
        fixes[n, 0], fixes[n, 1], fixes[n, 2], fixes[n, 3] = row, column, start, stop
    summary[FIXES] = n + 1


@part
def _same_text(text: NDArray[np.uint8], a: int, a_stop: int, b: int, b_stop: int) -> bool:
    if a_stop - a != b_stop - b:
        return False
    for k in range(a_stop - a):  # noqa: SIM110 (no generator in compiled code)
        if text[a + k] != text[b + k]:
            return False
    return True
