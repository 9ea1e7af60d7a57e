"""`Groups`: judged documents, query by query, validated once and never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from luce.checks import truth
from luce.data.blocks import BlockFunction
from luce.data.comparisons import Comparisons
from luce.data.names import as_read, check_names
from luce.data.schema import Schema
from luce.errors import DataError
from luce.numerics.segments import Chunk, check_offsets, differing, map_chunks, query_index, runs
from luce.types import FloatArray, IntArray

T = TypeVar("T")
_WAVE = 16
"""Blocks whose results are held at once."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Features and labels of documents, the documents of a query side by side.

    Make one with `luce.read_letor`, `luce.read_parquet`, `luce.read_csv`, `luce.from_frame` or `luce.from_arrays`.

    Parameters
    ----------
    X
        Features, (rows, features), float32 in C order; may be a read-only memory map. Never copied after validation.
    y
        Labels, higher is better; all zero where the data carry none.
    offsets
        Query q owns the rows `offsets[q]:offsets[q + 1]`; no query is empty.
    query_ids, document_ids
        Names; `document_ids` is None where the data have none.
    query_weight
        One positive weight a query, or None for equal weights.
    feature_names
        One name a column.
    relations
        Named sparse matrices between rows (similarity, links); entries join documents of the same query only.
    row_order
        Row i of `X` was row `row_order[i]` of the input; None where the rows were not moved.
    subtopics
        What each document is about: a sparse 0/1 matrix, a row a document and a column a subtopic (columns may mean
        something else in every query); None where the data do not say.
    schema
        Of data from a table: its columns, their parts and types, the names of categories, and what was left out.
    frame
        Of data from a data frame: "pandas", "polars" or "pyarrow", which results are then given as.
    stated
        Lists and preferences between rows: learned from beside the labels, and judged by where no labels differ.
    """

    X: NDArray[np.float32]
    y: FloatArray
    offsets: IntArray
    query_ids: NDArray[Any]
    document_ids: NDArray[Any] | None = None
    query_weight: FloatArray | None = None
    feature_names: tuple[str, ...] = ()
    relations: Mapping[str, sparse.csr_array] = field(default_factory=dict)
    row_order: IntArray | None = None
    subtopics: sparse.csr_array | None = None
    schema: Schema | None = None
    frame: str | None = None
    stated: Comparisons | None = None

    def __post_init__(self) -> None:
        X = self.X
        if X.ndim != 2 or X.dtype != np.float32 or not X.flags.c_contiguous:
            raise DataError(f"Features must be a C-ordered float32 matrix; got {X.dtype} of shape {X.shape}.")
        rows = X.shape[0]
        if rows == 0:
            raise DataError("The data have no documents; at least one is needed.")
        put = object.__setattr__
        put(self, "offsets", check_offsets(self.offsets, rows))
        put(self, "y", _vector("labels", self.y, rows, np.float64))
        bad = np.flatnonzero(~np.isfinite(self.y))
        if bad.size:
            row = int(bad[0])
            raise DataError(f"The label of row {row} is {self.y[row]}; labels must be finite numbers.")
        queries = len(self.offsets) - 1
        put(self, "query_ids", _vector("query ids", self.query_ids, queries))
        if self.document_ids is not None:
            put(self, "document_ids", _vector("document ids", self.document_ids, rows))
        if self.row_order is not None:
            put(self, "row_order", _vector("row order", self.row_order, rows, np.int64))
        if self.query_weight is not None:
            weight = _vector("query weights", self.query_weight, queries, np.float64)
            if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
                raise DataError("Query weights must be finite, at least 0 and not all 0.")
            put(self, "query_weight", weight)
        names = tuple(map(str, self.feature_names)) or tuple(str(i + 1) for i in range(X.shape[1]))
        if len(names) != X.shape[1]:
            raise DataError(f"{X.shape[1]} features need as many names; got {len(names)}.")
        check_names(names, what="feature")
        put(self, "feature_names", names)
        if self.schema is not None and tuple(column.name for column in self.schema.features) != names:
            raise DataError("The schema has other features than the data; give the schema of these data.")
        put(self, "relations", {k: self._checked_relation(k, v) for k, v in self.relations.items()})
        if self.subtopics is not None:
            put(self, "subtopics", _checked_subtopics(self.subtopics, rows))
        if self.stated is not None:
            self.stated.check_rows(self.offsets)

    def _checked_relation(self, name: str, relation: Any) -> sparse.csr_array:
        matrix = sparse.csr_array(relation)
        if matrix.shape != (self.n_rows, self.n_rows):
            raise DataError(f"Relation {name!r} must be {self.n_rows} x {self.n_rows}; got {matrix.shape}.")
        query = query_index(self.offsets)
        pairs = matrix.tocoo()
        if np.any(query[pairs.row] != query[pairs.col]):
            raise DataError(
                f"Relation {name!r} joins documents of different queries; it may join only documents of one."
            )
        return matrix

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """Documents of each query."""
        return np.diff(self.offsets)

    @property
    def qid(self) -> NDArray[Any]:
        """The query id of every row."""
        return np.repeat(self.query_ids, self.sizes)

    @property
    def labelled(self) -> bool:
        """False for a table without a column of labels, whose `y` is all zero."""
        return self.schema is None or self.schema.named("label") is not None

    @property
    def judges(self) -> Comparisons | None:
        """What is stated of the rows, where no labels differ within a query, so that it judges in their place."""
        return None if self.stated is None or differing(self.y, self.offsets).any() else self.stated

    def __repr__(self) -> str:
        return f"Groups({self.n_queries} queries, {self.n_rows} documents, {self.n_features} features)"

    def _repr_html_(self) -> str:
        from html import escape

        from luce.result import facts, html_table

        grades, counts = np.unique(self.y, return_counts=True)
        labels = ", ".join(f"{g:g}: {n:,}" for g, n in zip(grades, counts, strict=True))
        rows: list[tuple[str, Any]] = [
            ("queries", self.n_queries),
            ("documents", self.n_rows),
            ("features", self.n_features),
            ("documents a query", f"{self.sizes.min()} to {self.sizes.max()}, mean {self.sizes.mean():.1f}"),
            ("labels", labels if len(grades) <= 10 else f"{grades[0]:g} to {grades[-1]:g}"),
        ]
        remark = "" if self.schema is None else f"<p>{escape(self.schema.remark())}</p>"
        return html_table(facts("Groups", rows)) + remark

    def take(self, queries: ArrayLike) -> Groups:
        """The queries at these positions (or where a mask is True), in this order, copied."""
        index = np.asarray(queries)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        if not index.size:
            raise DataError("No query was chosen; data have at least one.")
        starts, sizes = self.offsets[:-1][index], self.sizes[index]
        rows = runs(starts, sizes)
        return replace(
            self,
            X=np.ascontiguousarray(self.X[rows]),
            y=self.y[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            query_ids=self.query_ids[index],
            document_ids=None if self.document_ids is None else self.document_ids[rows],
            query_weight=None if self.query_weight is None else self.query_weight[index],
            relations={name: m[rows][:, rows] for name, m in self.relations.items()},
            row_order=None,
            subtopics=None if self.subtopics is None else self.subtopics[rows],
            stated=None if self.stated is None else self.stated.taken(rows, self.n_rows),
        )

    def map(self, function: BlockFunction[T], cuts: Sequence[Chunk]) -> Iterator[T]:
        """The function's results on these runs of queries, in their order, on threads."""

        def on(_: int, cut: Chunk) -> T:
            rows = slice(self.offsets[cut[0]], self.offsets[cut[1]])
            return function(self.X[rows], self.y[rows])

        for first in range(0, len(cuts), _WAVE):
            yield from map_chunks(on, cuts[first : first + _WAVE])

    def to_input_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """One value a row of `X`, put back into the row order of the file or array that was read."""
        if self.row_order is None:
            return values
        moved = np.empty_like(values)
        moved[self.row_order] = values
        return moved


def _checked_subtopics(subtopics: Any, rows: int) -> sparse.csr_array:
    matrix = sparse.csr_array(subtopics, dtype=np.float64, copy=True)
    if matrix.shape[0] != rows:
        raise DataError(f"Subtopics must have a row a document, {rows}; got shape {matrix.shape}.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not (matrix.data == 1.0).all():
        raise DataError("Subtopics must be 0 or 1: a document is about a subtopic or it is not.")
    return matrix


def _vector(what: str, values: Any, length: int, dtype: Any = None) -> NDArray[Any]:
    array = np.ascontiguousarray(values) if dtype is None else real_numbers(what, values, dtype)
    if array.shape != (length,):
        raise DataError(f"The {what} must be a vector of length {length}; got shape {array.shape}.")
    return array


def real_numbers(what: str, values: Any, dtype: Any) -> NDArray[Any]:
    """An array of numbers; text, dates and complex numbers are refused, where NumPy would convert some of them."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufOUS":  # digits as text are numbers, as in files
            with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
                return np.ascontiguousarray(array, dtype=dtype)
        raise TypeError(f"they are of type {array.dtype}")
    except (TypeError, ValueError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"The {what} must be numbers ({said}); convert them first.") from error


def query_sizes(group: ArrayLike, rows: int) -> IntArray:
    """Sizes of queries whose rows stand together, as LightGBM takes them, checked.

    >>> query_sizes([2, 1], 3).tolist()
    [2, 1]
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or (sizes != np.floor(sizes)).any() or (sizes < 1).any():
        raise DataError("group holds the sizes of the queries, whole numbers of at least 1; give ids of rows as qid.")
    if sizes.sum() != rows:
        hint = "; ids of rows are given as qid" if len(sizes) == rows else ""
        raise DataError(f"group holds sizes of queries that add up to {sizes.sum():g}, not to the {rows} rows{hint}.")
    return sizes.astype(np.int64)


def from_arrays(
    X: Any,
    y: ArrayLike | None = None,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    document_ids: ArrayLike | None = None,
    query_weight: ArrayLike | None = None,
    feature_names: Sequence[str] = (),
    relations: Mapping[str, Any] | None = None,
    subtopics: Any = None,
    allow_nan: bool = False,
) -> Groups:
    """Groups from NumPy arrays or SciPy sparse matrices.

    `qid` holds the query id of every row, in any order and of any type (rows of a query that are apart are
    regrouped); `group` instead holds the sizes of queries whose rows are contiguous, as LightGBM takes them. Without
    either, all rows are one query. `query_weight` has one entry a query, in the order in which queries appear first.
    `relations` are sparse matrices between rows, `subtopics` is a 0/1 matrix of rows by subtopics.

    >>> g = from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "b", "a"])
    >>> g.query_ids.tolist(), g.X[:, 0].tolist(), g.row_order.tolist()
    (['a', 'b'], [1.0, 3.0, 2.0], [0, 2, 1])
    """
    if isinstance(feature_names, str):
        raise DataError(f"feature_names is {feature_names!r}; give a list of names.")
    if hasattr(X, "columns") and not len(feature_names):  # a data frame of numbers
        feature_names = [str(name) for name in X.columns]
    matrix = real_numbers("features", X.toarray() if sparse.issparse(X) else X, np.float32)
    if matrix.ndim != 2:
        raise DataError(f"Features must be a matrix with a row a document; got shape {matrix.shape}.")
    rows = matrix.shape[0]
    if 0 in matrix.shape:
        what = "documents" if rows == 0 else "features"
        raise DataError(f"The data have no {what}; at least one is needed.")
    check_finite(matrix, truth("allow_nan", allow_nan))
    labels = np.zeros(rows) if y is None else _vector("labels", y, rows, np.float64)
    documents = None if document_ids is None else _vector("document ids", _whole_texts("document", document_ids), rows)
    order: IntArray | None = None
    if group is not None:
        if qid is not None:
            raise DataError("Both qid and group were given; give one of them.")
        offsets = np.concatenate([[0], np.cumsum(query_sizes(group, rows))])
        query_ids: NDArray[Any] = np.arange(len(offsets) - 1)
    elif qid is None:
        offsets, query_ids = np.array([0, rows]), np.zeros(1, dtype=np.int64)
    else:
        query_ids, offsets, order = regroup(_vector("query ids", _whole_texts("query", qid), rows))
    if order is not None:
        matrix, labels = matrix[order], labels[order]
        documents = None if documents is None else documents[order]
        relations = {k: sparse.csr_array(m)[order][:, order] for k, m in (relations or {}).items()}
        subtopics = None if subtopics is None else _checked_subtopics(subtopics, rows)[order]
    return as_read(
        Groups(
            X=matrix,
            y=labels,
            offsets=offsets,
            query_ids=query_ids,
            document_ids=documents,
            query_weight=None if query_weight is None else np.asarray(query_weight),
            feature_names=tuple(feature_names),
            relations=relations or {},
            row_order=order,
            subtopics=subtopics,
        )
    )


def _whole_texts(what: str, ids: Any) -> Any:
    """Refuse a gap, which is no id, and a NUL in a text: NumPy drops it at the end, and two ids would become one."""
    row = _first_gap(np.asarray(ids))
    if row is not None:
        raise DataError(f"The {what} id of row {row} is missing; every row needs one.")
    given = ids.tolist() if isinstance(ids, np.ndarray) and ids.dtype.kind == "O" else ids
    given = given if isinstance(given, list | tuple) else ()
    bad = next((text for text in given if isinstance(text, str) and "\0" in text), None)
    if bad is not None:
        raise DataError(f"The {what} id {bad!r} holds a NUL, which text does not have; rename it.")
    return ids


def _first_gap(ids: NDArray[Any]) -> int | None:
    """The first row without an id: None, NaN, and what pandas has for them."""
    if ids.ndim != 1 or ids.dtype.kind not in "fMO":
        return None
    if ids.dtype.kind == "O":
        absent = ("NoneType", "NAType", "NaTType")
        gaps = (type(one).__name__ in absent or (isinstance(one, float) and one != one) for one in ids.tolist())
        return next((row for row, gap in enumerate(gaps) if gap), None)
    rows = np.flatnonzero(np.isnan(ids) if ids.dtype.kind == "f" else np.isnat(ids))
    return int(rows[0]) if rows.size else None


def check_finite(X: NDArray[np.float32], allow_nan: bool, first_row: int = 0) -> None:
    """Refuse infinite features, and NaN unless it is allowed."""
    # A sum is finite unless an entry is not (or it overflows, which the second look sorts out): one cheap pass.
    if np.isfinite(X.sum(dtype=np.float64)):
        return
    bad = np.isinf(X) if allow_nan else ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"Feature {column + 1} of row {first_row + row} is {X[row, column]}; features must be finite"
            + ("." if allow_nan else " (NaN and infinity are refused; allow_nan=True admits NaN).")
        )


def regroup(qid: NDArray[Any]) -> tuple[NDArray[Any], IntArray, IntArray | None]:
    """Query ids in order of first appearance, offsets, and the row order that makes queries contiguous.

    >>> ids, offsets, order = regroup(np.array([7, 7, 3, 7]))
    >>> ids.tolist(), offsets.tolist(), order.tolist()
    ([7, 3], [0, 3, 4], [0, 1, 3, 2])
    """
    change = np.flatnonzero(qid[1:] != qid[:-1]) + 1
    firsts = np.concatenate([[0], change]).astype(np.int64)
    run_ids = qid[firsts]
    unique, first_run, run_query = np.unique(run_ids, return_index=True, return_inverse=True)
    if len(unique) == len(firsts):
        return run_ids, np.append(firsts, np.int64(len(qid))), None
    by_appearance = np.argsort(first_run)
    rank = np.empty(len(unique), dtype=np.int64)
    rank[by_appearance] = np.arange(len(unique))
    query = np.repeat(rank[run_query], np.diff(np.append(firsts, len(qid))))
    order = np.argsort(query, kind="stable").astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query))]).astype(np.int64)
    return unique[by_appearance], offsets, order


def document_names(data: Groups) -> NDArray[np.str_]:
    """Document ids as text; where the data have none, `d1`, `d2`, ... by the row of the input."""
    if data.document_ids is not None:
        return data.document_ids.astype(str)
    rows = np.arange(data.n_rows) if data.row_order is None else data.row_order
    return np.array([f"d{row + 1}" for row in rows.tolist()])
