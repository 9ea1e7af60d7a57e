"""Tables that name documents by query and document id, joined to the rows of a `Groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from luce.data.groups import Groups
from luce.data.readers.compressed import SUFFIXES, open_input
from luce.errors import DataError, ParseError
from luce.types import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

    from luce.data.trec import JudgedRun

__all__ = ["RowNames", "Source", "TextTable", "text_table"]

Source = str | Path | Mapping[str, Any] | Any
"""A CSV or Parquet file, a data frame of any library, or a mapping from column names to arrays."""

_JOINT = "\x1f"


class TextTable(NamedTuple):
    """Columns of text, and where they come from."""

    columns: dict[str, pa.Array]
    path: str | None
    is_text: bool

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def error(self, row: int, message: str) -> DataError:
        """An error about a row: a line of a text file, else a row counted from 0."""
        if self.path is None:
            return DataError(f"Row {row}: {message}")
        if not self.is_text:
            return ParseError(self.path, f"row {row}: {message}")
        return ParseError(self.path, message, row + 2)

    def numbers(self, column: str, what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A column as finite numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = self.columns[column]
        plain = pc.utf8_trim_whitespace(texts)
        lowered = pc.utf8_lower(plain)
        plain = pc.if_else(pc.equal(lowered, "true"), "1", pc.if_else(pc.equal(lowered, "false"), "0", plain))
        try:
            values = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)
            bad = ~np.isfinite(values)
        except pa.ArrowInvalid:
            bad = np.array([not _is_number(text) for text in plain.to_pylist()])
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise self.error(row, f"{column} is {texts[row].as_py()!r}; it must be {what}.")
        return values.astype(np.float64)


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and bool(np.isfinite(float(text)))
    except ValueError:
        return False


def text_table(source: Source, required: Sequence[Sequence[str]], optional: Sequence[str] = ()) -> TextTable:
    """The columns of one of the alternatives in `required`, and those of `optional` that are there, all as text."""
    path = str(source) if isinstance(source, str | Path) else None
    table, is_text = _arrow(source)
    for wanted in required:
        if set(wanted) <= set(table.column_names):
            chosen = [*wanted, *[name for name in optional if name in table.column_names]]
            columns = {name: _texts(table.column(name)) for name in chosen}
            result = TextTable(columns, path, is_text)
            for name, column in columns.items():
                if column.null_count:
                    row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                    raise result.error(row, f"{name} is empty; every row needs a value.")
            return result
    needed = " or ".join(", ".join(names) for names in required)
    where = "The table" if path is None else path
    raise DataError(f"{where} has the columns {', '.join(table.column_names)}; needed are {needed}.")


def _arrow(source: Source) -> tuple[Any, bool]:
    import pyarrow as pa

    if isinstance(source, str | Path):
        return _read(Path(source))
    if isinstance(source, Mapping):
        return pa.table({name: pa.array(np.asarray(values)) for name, values in source.items()}), False
    import narwhals as nw

    try:
        return nw.from_native(source, eager_only=True).to_arrow(), False
    except TypeError as error:
        raise DataError(f"A {type(source).__name__} is no table; give a file, a data frame or a mapping.") from error


def _read(path: Path) -> tuple[Any, bool]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    with open_input(path) as stream:
        head = stream.read(4)
    try:
        if head == b"PAR1":
            return parquet.read_table(path), False
        plain = Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix
        delimiter = "\t" if plain in (".tsv", ".tab") else ","
        with pa.input_stream(str(path), compression="detect") as stream:
            names = csv.open_csv(stream, parse_options=csv.ParseOptions(delimiter=delimiter)).schema.names
        with pa.input_stream(str(path), compression="detect") as stream:
            return csv.read_csv(
                stream,
                parse_options=csv.ParseOptions(delimiter=delimiter),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
                ),
            ), True
    except (pa.ArrowInvalid, OSError) as error:
        raise ParseError(path, f"not a CSV or Parquet table ({' '.join(str(error).split())})") from error


def _texts(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_floating(whole.type):
        # Ids that went through a float column (pandas with a gap): 12.0 is the id 12.
        rounded = pc.cast(whole, pa.int64(), safe=False)
        if pc.all(pc.equal(pc.cast(rounded, pa.float64()), whole)).as_py():
            whole = rounded
    return pc.cast(whole, pa.string())


class RowNames:
    """Finds the row of a document by the id of its query and its own."""

    def __init__(self, data: Groups | JudgedRun) -> None:
        import pyarrow as pa

        if data.document_ids is None:
            raise DataError("The data have no document ids, so documents cannot be named; read them with their ids.")
        queries = np.repeat(data.query_ids.astype(str), np.diff(data.offsets))
        self._queries = pa.array(data.query_ids.astype(str))
        self._names = _join(pa.array(queries), pa.array(data.document_ids.astype(str)))
        self.data = data
        if len(self._names.unique()) < len(self._names):
            seen: set[str] = set()
            twice = next(name for name in self._names.to_pylist() if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            query, document = twice.split(_JOINT)
            raise DataError(f"Document {document!r} stands twice in query {query!r}; ids must be unique in a query.")

    def __call__(self, row: int) -> str:
        """The document of a row, for messages."""
        assert self.data.document_ids is not None
        return str(self.data.document_ids[row])

    def rows(self, table: TextTable, query: str, document: str) -> IntArray:
        """Rows of the documents that two columns of a table name, -1 where the data do not have them."""
        import pyarrow.compute as pc

        names = _join(table.columns[query], table.columns[document])
        found = pc.fill_null(pc.index_in(names, value_set=self._names), -1)
        return found.to_numpy(zero_copy_only=False).astype(np.int64)

    def in_known_query(self, table: TextTable, query: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """True for the rows of a table whose query the data have."""
        import pyarrow.compute as pc

        found = pc.is_in(table.columns[query], value_set=self._queries)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)

    def unknown(self, table: TextTable, row: int, query: str, document: str) -> DataError:
        """The error for a row of a table that names a document that the data do not have."""
        import pyarrow.compute as pc

        in_query, wanted = table.columns[query][row], table.columns[document][row]
        what = f"query {in_query.as_py()!r} is not in the data"
        if pc.is_in(in_query, value_set=self._queries).as_py():
            what = f"document {wanted.as_py()!r} is not in query {in_query.as_py()!r} of the data"
        return table.error(row, f"{what}; mend the file, or leave such rows out in Python by missing='skip'.")


def _join(queries: Any, documents: Any) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(queries, documents, _JOINT)
