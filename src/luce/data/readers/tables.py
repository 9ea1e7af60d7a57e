"""Parquet, Arrow (Feather) and CSV files, batch by batch through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.outline import Outline
from luce.data.readers.border import as_parse_error
from luce.data.readers.frames import Columns, choose_columns, fill_features, outline_of_frame
from luce.data.readers.matrix import check_memory, permute_rows
from luce.data.tables import TableFile, table_kind
from luce.errors import ParseError

__all__ = ["JudgedTable", "read_csv", "read_parquet"]


def read_parquet(
    path: str | Path,
    *,
    label: str = "label",
    qid: str = "qid",
    document_id: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    subtopics: str | None = None,
    allow_nan: bool = False,
) -> Groups:
    """Read judged documents from a Parquet or Arrow (Feather, IPC) file; the options are those of `luce.from_frame`.

    A column `document_id` is taken for the document ids where none is named, as `luce.write_parquet` writes it, and so
    are the columns `query_weight` and `subtopics`.
    """
    return JudgedTable(
        path,
        None,
        allow_nan,
        label=label,
        qid=qid,
        document_id=document_id,
        query_weight=query_weight,
        features=features,
        subtopics=subtopics,
    ).read()


def read_csv(
    path: str | Path,
    *,
    label: str = "label",
    qid: str = "qid",
    document_id: str | None = None,
    query_weight: str | None = None,
    features: Sequence[str] | None = None,
    subtopics: str | None = None,
    allow_nan: bool = False,
) -> Groups:
    """Read judged documents from CSV with a header line (`.gz` too); the options are those of `luce.from_frame`.

    Query ids are read as text; an empty cell is a null.
    """
    return JudgedTable(
        path,
        "csv",
        allow_nan,
        label=label,
        qid=qid,
        document_id=document_id,
        query_weight=query_weight,
        features=features,
        subtopics=subtopics,
    ).read()


class JudgedTable:
    """A file of columns with its options, passed over batch by batch."""

    def __init__(self, path: str | Path, format: str | None, allow_nan: bool = False, **names: Any) -> None:
        self.path = Path(path)
        self.allow_nan = allow_nan
        self.format = format or _binary_kind(self.path)
        self._file = TableFile(self.path, self.format)
        with as_parse_error(self.path):
            self._types = self._csv_types(names) if self.format == "csv" else {}
            self.columns = self._choose(names)

    def _csv_types(self, names: dict[str, Any]) -> dict[str, Any]:
        """The type of a CSV column shows only at its end: 1, 2, 0.5. So numbers are float64, and ids text."""
        import pyarrow as pa

        ids = {
            names.get("qid", "qid"),
            names.get("document_id") or "document_id",
            names.get("subtopics") or "subtopics",
        }
        return {
            name: pa.string() if name in ids else pa.float64() if _may_be_number(type_) else type_
            for name, type_ in zip(self._file.names, self._file.schema.types, strict=True)
        }

    def _choose(self, names: dict[str, Any]) -> Columns:
        import narwhals as nw
        import pyarrow as pa

        found = dict(zip(self._file.names, self._file.schema.types, strict=True)) | self._types
        empty = pa.schema(list(found.items())).empty_table()
        schema = nw.from_native(empty, eager_only=True).schema
        if names.get("document_id") is None and "document_id" in schema.names():
            names = {**names, "document_id": "document_id"}
        if names.get("query_weight") is None and "query_weight" in schema.names():
            names = {**names, "query_weight": "query_weight"}
        if names.get("subtopics") is None and "subtopics" in schema.names():
            names = {**names, "subtopics": "subtopics"}
        return choose_columns(schema, **names)

    def outline(self) -> Outline:
        """Read everything but the features."""
        import narwhals as nw
        import pyarrow as pa

        with as_parse_error(self.path):
            batches = list(self._file.batches(self.columns.besides_features, types=self._types))
            if not any(map(len, batches)):
                raise ParseError(self.path, "the table has no rows; at least one document is needed.")
            table = pa.Table.from_batches(batches)
            return outline_of_frame(nw.from_native(table, eager_only=True), self.columns)

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        """The features, batch by batch, in the order of the file."""
        import narwhals as nw
        import pyarrow as pa

        first = 0
        with as_parse_error(self.path):
            for batch in self._file.batches(self.columns.features, types=self._types):
                table = nw.from_native(pa.Table.from_batches([batch]), eager_only=True)
                X = np.empty((len(table), width), dtype=np.float32)
                fill_features(X, table, self.columns.features, self.allow_nan, first)
                first += len(table)
                yield X

    def read(self) -> Groups:
        """Everything, into memory."""
        outline = self.outline()
        check_memory(outline.n_rows, outline.n_features)
        X = np.empty((outline.n_rows, outline.n_features), dtype=np.float32)
        first = 0
        for block in self.blocks(outline.n_features):
            X[first : first + len(block)] = block
            first += len(block)
        if outline.row_order is not None:
            permute_rows(X, outline.row_order)
        return outline.groups(X)


def _binary_kind(path: Path) -> str:
    kind = table_kind(path)
    if kind not in ("parquet", "feather"):
        raise ParseError(
            path, "this is neither a Parquet nor an Arrow file; use luce.read to find the format by itself."
        )
    return kind


def _may_be_number(type_: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_null(type_))
