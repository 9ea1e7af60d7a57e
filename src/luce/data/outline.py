"""Everything about judged documents but their features: what is known before X is filled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.data.groups import Groups, regroup
from luce.data.names import as_read
from luce.data.schema import Schema
from luce.errors import DataError
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
        """With the features, in the final order of rows."""
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
