"""Judged documents while they are read: everything but the features, and a matrix that grows in place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.checks import fits_in_memory
from luce.data.groups import Groups, regroup
from luce.data.names import as_read
from luce.data.schema import Schema
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_COLUMNS, _ROWS = 16, 8192
"""How much of a matrix is moved at a time."""


class Outline(NamedTuple):
    """The fields of `Groups` without X, in the final order of rows."""

    y: FloatArray
    offsets: IntArray
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None
    query_weight: FloatArray | None
    feature_names: tuple[str, ...]
    row_order: IntArray | None
    subtopics: sparse.csr_array | None = None
    schema: Schema | None = None

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    def groups(self, X: NDArray[np.float32]) -> Groups:
        """With the features in the order of the input, which are put into the final one in place."""
        for first in range(0, 0 if self.row_order is None else X.shape[1], _COLUMNS):  # as much room as some columns
            X[:, first : first + _COLUMNS] = X[:, first : first + _COLUMNS][self.row_order]
        return as_read(Groups(X=X, **self._asdict()))


def outline_of_rows(
    y: FloatArray,
    query: IntArray,
    ids: NDArray[Any],
    document_ids: NDArray[Any] | None,
    feature_names: tuple[str, ...],
    row_weight: FloatArray | None = None,
    subtopics: sparse.csr_array | None = None,
) -> Outline:
    """From one entry a row in the order of the input; `ids[query[i]]` is the query id of row i.

    All rows of a query carry its weight.

    >>> o = outline_of_rows(np.array([1.0, 2, 3]), np.array([1, 0, 1]), np.array(["a", "b"]), None, ("f",))
    >>> o.query_ids.tolist(), o.y.tolist(), o.row_order.tolist()
    (['b', 'a'], [1.0, 3.0, 2.0], [0, 2, 1])
    """
    codes, offsets, order = regroup(query)
    if order is not None:
        y = y[order]
        document_ids = None if document_ids is None else document_ids[order]
        row_weight = None if row_weight is None else row_weight[order]
        subtopics = None if subtopics is None else subtopics[order]
    weight = None if row_weight is None else _query_weight(row_weight, offsets, ids[codes])
    return Outline(y, offsets, ids[codes], document_ids, weight, feature_names, order, subtopics)


def _query_weight(row_weight: FloatArray, offsets: IntArray, ids: NDArray[Any]) -> FloatArray:
    weight = row_weight[offsets[:-1]]
    other = np.flatnonzero(row_weight != np.repeat(weight, np.diff(offsets)))
    if other.size:
        query = int(np.searchsorted(offsets, other[0], side="right")) - 1
        raise DataError(
            f"Query {str(ids[query])!r} has rows of weight {weight[query]:g} and {row_weight[other[0]]:g}; a weight is "
            "that of a query, and the same in all of its rows."
        )
    return weight


def check_memory(
    rows: int,
    columns: int,
    kinds: tuple[str, str] = ("documents", "features"),
    size: int = 4,
    advice: str = "number the features without gaps, or use `luce convert` to a .lucedata file",
) -> None:
    """Refuse a dense matrix that this machine cannot hold, before the system ends the process for it."""
    fits_in_memory(size * rows * columns, f"A matrix of {rows:,} {kinds[0]} x {columns:,} {kinds[1]}", advice)


class GrowingMatrix:
    """Rows of float32 in one flat buffer.

    `ndarray.resize` is `realloc`, which moves pages and copies nothing on Linux; rows are spread in place when a
    wider one arrives. Rejected: a list of blocks joined at the end (twice the memory), and a first pass that only
    counts (twice the decompression).
    """

    def __init__(self, width: int, fill: float) -> None:
        self.width = width
        self._fill = np.float32(fill)
        self._flat = np.empty(0, dtype=np.float32)

    def reserve(self, rows: int, used: int) -> None:
        """Make room for `rows` rows, of which the first `used` hold values."""
        needed = rows * self.width
        if needed > len(self._flat):
            check_memory(rows, self.width)
            self._flat.resize(max(needed, used * self.width * 9 // 8), refcheck=False)

    def widen(self, width: int, used: int) -> None:
        """Make room for `width` columns; a little more than asked for, so that many small steps stay cheap."""
        old, self.width = self.width, width if self.width == 0 else max(width, self.width * 9 // 8)
        self.reserve(used, 0)
        self._move(used, old, self.width)

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """A view; it dies with the next `reserve`, `widen` or `finish`."""
        return self._flat[first * self.width : last * self.width].reshape(last - first, self.width)

    def finish(self, rows: int, width: int) -> NDArray[np.float32]:
        """The matrix of the first `rows` rows and `width` columns; this object is empty afterwards."""
        if width > self.width:
            self.widen(width, rows)
        self._move(rows, self.width, width)
        flat, self._flat = self._flat, np.empty(0, dtype=np.float32)
        flat.resize(rows * width, refcheck=False)
        return flat.reshape(rows, width)

    def _move(self, rows: int, old: int, new: int) -> None:
        """Make rows of `old` columns such of `new` ones in place: from the last one on where they grow."""
        blocks = range(0, rows if new != old else 0, _ROWS)
        for first in blocks if new < old else reversed(blocks):
            last = min(first + _ROWS, rows)
            values = self._flat[first * old : last * old].reshape(last - first, old)[:, :new].copy()
            room = self._flat[first * new : last * new].reshape(last - first, new)
            room[:, :old], room[:, old:] = values, self._fill
