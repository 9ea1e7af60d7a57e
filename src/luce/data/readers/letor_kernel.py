"""The byte parser of LETOR text: one block of whole lines at a time, without the GIL.

    <label> qid:<text> <index>:<value> <index>:<value> ... # <comment>

The kernel never stops for Python: rows, runs of equal query ids, spans of document ids, numbers that need a second
look, and the first line that is wrong are written to arrays that the caller owns. What is wrong with that line is a
question for Python (`luce.data.readers.letor_errors`): compiled, the answers would take longer to compile than
everything else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.readers.letor_plain import Parsed
from luce.data.readers.numbers import CERTAIN, NO_NUMBER, UNCERTAIN, parse_number
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk
from luce.types import IntArray

__all__ = ["parse_compiled"]

# Places in the summary that the kernel fills.
_ROWS, _RUNS, _WIDTH, _FIXES, _BAD_LINE, _LINE, _START = range(7)  # the line that is wrong, and its first byte

_NEWLINE, _HASH, _COLON, _EQUALS = 10, 35, 58, 61
_MANY = 1_000_000_000_000


def parse_compiled(
    batch: bytes,
    block: Chunk,
    X: NDArray[np.float32],
    absent: float,
    want_qid: bool,
    limit: int,
    missing: NDArray[np.uint8],
    missing_ends: IntArray,
) -> Parsed:
    """Parse the lines of a block into the rows of X; the words for a missing value stand end to end."""
    text, lines = np.frombuffer(batch, dtype=np.uint8), len(X)
    y, documents = np.empty(lines), np.empty((lines, 2), np.int64)
    runs = np.empty((lines if want_qid else 0, 3), np.int64)
    fixes = np.empty((64, 4), np.int64)
    while True:
        summary, last_seen = np.zeros(8, np.int64), np.full(X.shape[1], -1, np.int64)
        _parse_block(
            text, *block, X, y, runs, documents, fixes, absent, limit, want_qid, missing, missing_ends, last_seen,
            summary,
        )  # fmt: skip
        if summary[_FIXES] <= len(fixes):
            break
        fixes = np.empty((int(summary[_FIXES]), 4), np.int64)
    for row, column, start, stop in fixes[: summary[_FIXES]].tolist():
        number = float(batch[start:stop])
        if column < 0:
            y[row] = number
        else:
            X[row, column] = number
    rows, runs = int(summary[_ROWS]), runs[: summary[_RUNS]]
    wrong = (int(summary[_LINE]), int(summary[_START])) if summary[_BAD_LINE] else None
    return Parsed(y[:rows], runs, documents[:rows], int(summary[_WIDTH]), wrong)


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


@kernel
def _parse_block(
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
    missing: NDArray[np.uint8],
    missing_ends: NDArray[np.int64],
    last_seen: NDArray[np.int64],
    summary: NDArray[np.int64],
) -> None:
    """Parse the lines in `text[begin:end]`, the last byte a newline, into rows of X and y, and fill the summary.

    `runs` gets (row, start, stop of the query id) where the id changes, `documents` the span of each document id, and
    `fixes` (row, feature or -1 for the label, start, stop) of numbers that need Python's `float`. Features beyond
    the columns of X only count for summary[_WIDTH], and fixes beyond the room for them are only counted: the caller
    makes room and parses again.
    """
    width = X.shape[1]
    row, line, i, n_fixes, n_runs, widest = 0, 0, begin, 0, 0, 0
    while i < end:
        line_start = i
        line += 1
        while _is_space(text[i]):
            i += 1
        if text[i] != _NEWLINE and text[i] != _HASH:
            start = i
            value, i, status = parse_number(text, i)
            good = status != NO_NUMBER and i == _end_of_token(text, i) and math.isfinite(value)
            y[row] = value
            for column in range(width):
                X[row, column] = absent
            column, qid_start, qid_stop = -1, -1, -1
            while good:
                if status == UNCERTAIN:
                    if n_fixes < len(fixes):
                        fixes[n_fixes, 0], fixes[n_fixes, 1], fixes[n_fixes, 2], fixes[n_fixes, 3] = (
                            row,
                            column,
                            start,
                            i,
                        )
                    n_fixes += 1
                status = CERTAIN
                while _is_space(text[i]):
                    i += 1
                c = text[i]
                if c == _NEWLINE or c == _HASH:  # noqa: SIM109 (a tuple is a search at run time)
                    break
                if c == 113:  # qid:
                    good = text[i + 1] | 32 == 105 and text[i + 2] | 32 == 100 and text[i + 3] == _COLON
                    good = good and want_qid and qid_start < 0
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
                good = text[i] == _COLON and 0 < index <= limit
                if not good:
                    break
                start = i + 1
                value, i, status = parse_number(text, start)
                number = np.float32(value)
                stop = _end_of_token(text, i)
                if status == NO_NUMBER or stop > i:
                    i, status, number = stop, CERTAIN, np.float32(np.nan)
                    good = _is_missing(text, start, stop, missing, missing_ends)
                elif not math.isfinite(number):
                    good = False
                widest = index if index > widest else widest
                column = index - 1
                if index > width:
                    status = CERTAIN
                elif good:
                    good = last_seen[column] != row
                    last_seen[column] = row
                    X[row, column] = number
            if not good or (want_qid and qid_start < 0):
                summary[_BAD_LINE], summary[_LINE], summary[_START] = 1, line, line_start
                break
            if want_qid:
                same = n_runs > 0 and runs[n_runs - 1, 2] - runs[n_runs - 1, 1] == qid_stop - qid_start
                k = 0
                while same and k < qid_stop - qid_start:
                    same = text[runs[n_runs - 1, 1] + k] == text[qid_start + k]
                    k += 1
                if not same:
                    runs[n_runs, 0], runs[n_runs, 1], runs[n_runs, 2] = row, qid_start, qid_stop
                    n_runs += 1
            start = i
            while text[i] != _NEWLINE:
                i += 1
            documents[row, 0], documents[row, 1] = _comment_span(text, start + 1 if start < i else i, i)
            row += 1
        while text[i] != _NEWLINE:
            i += 1
        i += 1
    summary[_ROWS], summary[_RUNS], summary[_WIDTH], summary[_FIXES] = row, n_runs, widest, n_fixes
