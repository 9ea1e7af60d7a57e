"""Parquet, Arrow (Feather) and CSV files, batch by batch through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.data.outline import Outline
from luce.data.readers.compressed import open_input
from luce.data.readers.frames import Columns, choose_columns, fill_features, outline_of_frame
from luce.data.readers.matrix import check_memory, permute_rows
from luce.errors import DataError, ParseError

__all__ = ["TableFile", "read_csv", "read_parquet"]

_BATCH_ROWS = 16_384


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
    return TableFile(
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
    return TableFile(
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


class TableFile:
    """A file of columns with its options, passed over batch by batch."""

    def __init__(self, path: str | Path, format: str | None, allow_nan: bool = False, **names: Any) -> None:
        self.path = Path(path)
        self.allow_nan = allow_nan
        with open_input(self.path) as stream:
            head = stream.read(6)
        if not head:
            raise ParseError(self.path, "the file is empty; expected a table with a column for the query ids.")
        self.format = format or _format_of(self.path, head)
        with self._errors():
            self._dataset = self._open(names)
            self.columns = self._choose(names)

    def _open(self, names: dict[str, Any]) -> Any:
        from pyarrow import dataset

        if self.format != "csv":
            return dataset.dataset(self.path, format=self.format)
        # The type of a CSV column shows only at its end: 1, 2, 0.5. Every number is read as float64, every id as text.
        import pyarrow as pa

        inferred = dataset.dataset(self.path, format="csv").schema
        ids = {
            names.get("qid", "qid"),
            names.get("document_id") or "document_id",
            names.get("subtopics") or "subtopics",
        }
        types = {
            column.name: pa.string() if column.name in ids else pa.float64()
            for column in inferred
            if column.name in ids or _may_be_number(column.type)
        }
        from pyarrow import csv

        return dataset.dataset(
            self.path, format=dataset.CsvFileFormat(convert_options=csv.ConvertOptions(column_types=types))
        )

    def _choose(self, names: dict[str, Any]) -> Columns:
        import narwhals as nw

        schema = nw.from_native(self._dataset.schema.empty_table(), eager_only=True).schema
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

        with self._errors():
            table = self._dataset.to_table(columns=self.columns.besides_features)
            if table.num_rows == 0:
                raise ParseError(self.path, "the table has no rows; at least one document is needed.")
            return outline_of_frame(nw.from_native(table, eager_only=True), self.columns)

    def blocks(self, width: int) -> Iterator[NDArray[np.float32]]:
        """The features, batch by batch, in the order of the file."""
        import narwhals as nw
        import pyarrow as pa

        first = 0
        with self._errors():
            for batch in self._dataset.to_batches(
                columns=list(self.columns.features), batch_size=_BATCH_ROWS, batch_readahead=2
            ):
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

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except ParseError:
            raise
        except DataError as error:
            raise ParseError(self.path, str(error)) from error
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise ParseError(self.path, f"cannot be read as {self.format}: {reason[:300]}") from error


def _format_of(path: Path, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "feather"
    raise ParseError(path, "this is neither a Parquet nor an Arrow file; use luce.read to find the format by itself.")


def _may_be_number(type_: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_null(type_))
