"""A short LETOR text without compiled code: compiling the parser takes longer than reading some megabytes this way.

Lines as nearly all files have them are recognised by a regular expression, and their numbers read by NumPy. For a
block with any other line, right or wrong, the compiled parser is asked; the two agree to the last bit, because both
take the float32 that is nearest to the correctly rounded double.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.numerics.segments import Chunk
from luce.types import FloatArray, IntArray

_NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SPACE = rb"[^\S\n]"
_COMMENT = rb"#%b*(?:(?i:docid)%b*=%b*(\S+)[^\n]*|([^\n]*?)%b*)" % (_SPACE, _SPACE, _SPACE, _SPACE)
_LINE = rb"%b*(%b)%%b((?:%b+[0-9]{1,9}:%b)*)%b*(?:%b)?\n" % (_SPACE, _NUMBER, _SPACE, _NUMBER, _SPACE, _COMMENT)
_WITH_QUERY = re.compile(_LINE % (rb"%b+qid:([^\s#]+)" % _SPACE))
_WITHOUT_QUERY = re.compile(_LINE % b"()")
_BLANK = re.compile(rb"%b*(?:#[^\n]*)?\n" % _SPACE)
_APART = bytes.maketrans(b":", b" ")


class Parsed(NamedTuple):
    """What one block of lines gave besides its rows of X; `wrong` is (line, first byte) of the first wrong one."""

    y: FloatArray
    runs: IntArray
    documents: IntArray
    width: int
    wrong: tuple[int, int] | None = None


def parse_plain(
    batch: bytes, block: Chunk, X: NDArray[np.float32], absent: float, want_qid: bool, limit: int
) -> Parsed | None:
    """Parse the lines of a block into the rows of X; None where one of them is not plain."""
    labels: list[bytes] = []
    runs: list[tuple[int, int, int]] = []
    features, counts, documents = [], [], []
    pattern, query = _WITH_QUERY if want_qid else _WITHOUT_QUERY, b""
    at, end = block
    while at < end:
        line = pattern.match(batch, at, end)
        if line is None:
            blank = _BLANK.match(batch, at, end)
            if blank is None:
                return None
            at = blank.end()
            continue
        if want_qid and (line[2] != query or not runs):
            query = line[2]
            runs.append((len(labels), *line.span(2)))
        labels.append(line[1])
        features.append(line[3])
        counts.append(line[3].count(b":"))
        documents.append(line.span(4) if line[4] is not None else line.span(5) if line[5] is not None else (at, at))
        at = line.end()
    y = np.array([float(label) for label in labels])
    pairs = np.fromstring(b"".join(features).translate(_APART), sep=" ").reshape(-1, 2)
    width = _fill(X[: len(y)], np.repeat(np.arange(len(y)), counts), pairs[:, 0].astype(np.int64), pairs[:, 1], absent)
    if not (np.isfinite(y).all() and 0 <= width <= limit):
        return None
    return Parsed(y, np.array(runs, np.int64).reshape(-1, 3), np.array(documents, np.int64).reshape(-1, 2), width)


def _fill(X: NDArray[np.float32], rows: IntArray, index: IntArray, values: FloatArray, absent: float) -> int:
    """Write the values to their places; the largest index, or -1 where an index is 0 or twice in a row."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    width = int(index.max(initial=0))
    rising = (rows[1:] > rows[:-1]) | (index[1:] > index[:-1])
    twice = not rising.all() and len(np.unique(rows * (width + 1) + index)) < len(index)
    if twice or index.min(initial=1) < 1 or not np.isfinite(numbers).all():
        return -1
    X[:] = absent
    inside = index <= X.shape[1]
    X[rows[inside], index[inside] - 1] = numbers[inside]
    return width
