"""Any data frame (pandas, polars, pyarrow) as judged documents, through narwhals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.outline import Outline, outline_of_rows
from luce.data.readers.matrix import check_memory, permute_rows
from luce.data.subtopics import subtopic_matrix
from luce.errors import DataError
from luce.types import FloatArray

__all__ = ["Columns", "choose_columns", "from_frame", "outline_of_frame"]


class Columns(NamedTuple):
    """Which column plays which part."""

    label: str | None
    qid: str
    document_id: str | None
    query_weight: str | None
    features: tuple[Any, ...]
    subtopics: str | None = None

    @property
    def besides_features(self) -> list[str]:
        """The columns that are no features."""
        roles = (self.label, self.qid, self.document_id, self.query_weight, self.subtopics)
        return [name for name in roles if name is not None]


def choose_columns(
    schema: Any,
    *,
    label: str = "label",
    qid: str = "qid",
    document_id: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    subtopics: str | None = None,
) -> Columns:
    """Check the names against a narwhals schema; by default every other numeric column is a feature."""
    names = list(schema.names())
    roles = {"qid": qid, "document_id": document_id, "query_weight": query_weight, "subtopics": subtopics}
    for role, name in roles.items():
        if name is not None and name not in names:
            raise DataError(
                f"No column {name!r} for {role}; the columns are {_listed(names)}; "
                f"rename one, or name it with {role}= in Python."
            )
    if isinstance(features, str):
        raise DataError(f"features is {features!r}; give a list of column names.")
    absent = [name for name in features or () if name not in names]
    if absent:
        raise DataError(f"No column {absent[0]!r} for a feature; the columns are {_listed(names)}.")
    if label not in names and label != "label":
        raise DataError(f"No column {label!r} for the label; the columns are {_listed(names)}: name it with label=.")
    taken = {label, *roles.values()}
    if features is None:
        features = [name for name in names if name not in taken and _is_number(schema[name])]
    if not features:
        raise DataError(f"No column is left for features; the columns are {_listed(names)}.")
    text = [name for name in features if not _is_number(schema[name])]
    if text:
        raise DataError(f"The feature {text[0]!r} has the type {schema[text[0]]}; features must be numbers.")
    return Columns(label if label in names else None, qid, document_id, query_weight, tuple(features), subtopics)


def _is_number(dtype: Any) -> bool:
    import narwhals as nw

    return bool(dtype.is_numeric()) or dtype == nw.Boolean or dtype == nw.Unknown


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")


def from_frame(
    frame: Any,
    *,
    label: str = "label",
    qid: str = "qid",
    document_id: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    subtopics: str | None = None,
    allow_nan: bool = False,
) -> Groups:
    """Judged documents from any data frame: a row a document, a column a feature.

    Parameters
    ----------
    label
        Column of labels; without a column `label` all labels are 0 (data to predict).
    qid
        Column of query ids, of any type and in any order.
    document_id, query_weight
        Columns, or None; the weight of a query is that of its first row.
    features
        Columns, in the order wanted; None takes every other column of numbers.
    subtopics
        Column with the subtopics of a document: a list, or a text with blanks between their names; may be empty.
    allow_nan
        Admit NaN and nulls among the features, as NaN.

    >>> import pyarrow as pa
    >>> frame = pa.table({"qid": ["a", "a"], "label": [1, 0], "bm25": [0.5, 0.25], "title": ["x", "y"]})
    >>> data = from_frame(frame)
    >>> data.feature_names, data.X.tolist()
    (('bm25',), [[0.5], [0.25]])
    """
    import narwhals as nw

    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        kind = type(frame).__name__
        raise DataError(f"Got {kind}, which is no data frame that narwhals knows; use luce.from_arrays.") from error
    columns = choose_columns(
        table.schema,
        label=label,
        qid=qid,
        document_id=document_id,
        query_weight=query_weight,
        features=features,
        subtopics=subtopics,
    )
    if len(table) == 0:
        raise DataError("The data have no documents; at least one is needed.")
    check_memory(len(table), len(columns.features))
    X = np.empty((len(table), len(columns.features)), dtype=np.float32)
    fill_features(X, table, columns.features, allow_nan, 0)
    outline = outline_of_frame(table, columns)
    if outline.row_order is not None:
        permute_rows(X, outline.row_order)
    return outline.groups(X)


def fill_features(X: NDArray[np.float32], table: Any, names: Sequence[Any], allow_nan: bool, first_row: int) -> None:
    """Copy the feature columns of a frame into X, a column at a time."""
    for column, name in enumerate(names):
        values = _floats(table.get_column(name), f"feature {name!r}")
        with np.errstate(over="ignore"):
            X[:, column] = values
        stored = X[:, column]
        bad = np.isinf(stored) if allow_nan else ~np.isfinite(stored)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"The feature {name!r} of row {first_row + row} is {values[row]}; features must be finite float32 "
                "numbers" + ("." if allow_nan else " (allow_nan=True, --allow-nan admits NaN and nulls).")
            )


def _floats(series: Any, what: str) -> FloatArray:
    import narwhals as nw

    try:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The {what} has the type {series.dtype}; numbers are needed.") from error


def outline_of_frame(table: Any, columns: Columns) -> Outline:
    """Labels, queries, document ids and weights of a frame."""
    rows = len(table)
    y = np.zeros(rows)
    if columns.label is not None:
        labels = table.get_column(columns.label)
        if not _is_number(labels.dtype):
            raise DataError(f"The label column {columns.label!r} has the type {labels.dtype}; numbers are needed.")
        y = _floats(labels, f"label column {columns.label!r}")
        bad = np.flatnonzero(~np.isfinite(y))
        if bad.size:
            raise DataError(f"The label of row {bad[0]} is null or not finite; labels must be finite numbers.")
    ids, query = np.unique(_identifiers(table.get_column(columns.qid), columns.qid), return_inverse=True)
    documents = None
    if columns.document_id is not None:
        documents = _identifiers(table.get_column(columns.document_id), columns.document_id)
    weight = None
    if columns.query_weight is not None:
        weight = _floats(table.get_column(columns.query_weight), f"query weight column {columns.query_weight!r}")
    about = None if columns.subtopics is None else subtopic_matrix(table.get_column(columns.subtopics).to_list())
    return outline_of_rows(y, query.astype(np.int64), ids, documents, tuple(map(str, columns.features)), weight, about)


def _identifiers(series: Any, name: str) -> NDArray[Any]:
    import narwhals as nw

    if series.is_null().any():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise DataError(f"The column {name!r} is null in row {row}; every row needs an id.")
    if series.dtype.is_integer() and series.dtype != nw.UInt64:
        return np.asarray(series.to_numpy(), dtype=np.int64)
    texts = [str(value) for value in series.to_list()]
    bad = next((i for i, text in enumerate(texts) if "\0" in text), None)
    if bad is not None:
        raise DataError(f"The column {name!r} holds a NUL in row {bad}, which text does not have; rename the id.")
    return np.array(texts)
