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
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


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
        if self.row_order is not None:
            permute_rows(X, self.row_order)
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
        if used:
            _spread(self._flat, used, old, self.width, self._fill)

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """A view; it dies with the next `reserve`, `widen` or `finish`."""
        return self._flat[first * self.width : last * self.width].reshape(last - first, self.width)

    def finish(self, rows: int, width: int) -> NDArray[np.float32]:
        """The matrix of the first `rows` rows and `width` columns; this object is empty afterwards."""
        if width > self.width:
            self.widen(width, rows)
        if width < self.width:
            _gather(self._flat, rows, self.width, width)
        flat, self._flat = self._flat, np.empty(0, dtype=np.float32)
        flat.resize(rows * width, refcheck=False)
        return flat.reshape(rows, width)


@kernel
def _spread(flat: NDArray[np.float32], rows: int, old: int, new: int, fill: np.float32) -> None:
    for row in range(rows - 1, -1, -1):
        for column in range(new - 1, old - 1, -1):
            flat[row * new + column] = fill
        for column in range(old - 1, -1, -1):
            flat[row * new + column] = flat[row * old + column]


@kernel
def _gather(flat: NDArray[np.float32], rows: int, old: int, new: int) -> None:
    for row in range(rows):
        for column in range(new):
            flat[row * new + column] = flat[row * old + column]


@kernel
def permute_rows(X: NDArray[np.float32], order: IntArray) -> None:
    """`X[:] = X[order]` with room for one row, cycle by cycle."""
    done = np.zeros(len(order), np.bool_)
    spare = np.empty(X.shape[1], np.float32)
    for first in range(len(order)):
        if done[first]:
            continue
        spare[:] = X[first]
        row = first
        while order[row] != first:
            X[row] = X[order[row]]
            done[row] = True
            row = order[row]
        X[row] = spare
        done[row] = True
