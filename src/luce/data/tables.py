"""Files of tables, through one door: battles, ballots, tracks, clicks, judgements, predictions, judged documents.

A file is CSV (with any usual delimiter), JSON lines, a JSON list, Parquet or Arrow, plain or packed by gzip, bzip2 or
zstd; what it is, its content says before its name. Its columns are known before they are read, whole or by batches.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.data.readers.border import border, reason
from luce.data.readers.compressed import check_expansion, open_bytes, open_text, plain_suffix
from luce.data.readers.loans import Loan
from luce.data.text_files import read_text
from luce.errors import DataError, ParseError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 16_384
_HEAD = 1 << 20
_DELIMITERS = ",\t;|"
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet", ".feather": "feather"}
_ENDINGS[".arrow"] = "feather"
_CSV = (".csv", ".tsv", ".tab")
TABLE_SUFFIXES = (*_CSV, *_ENDINGS)
"""Endings that say that a file is a table."""


def column_names(path: str | Path) -> list[str]:
    """The columns of a file, read from its first lines or footer."""
    return TableFile(path).names


def read_table(path: str | Path, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> pa.Table:
    """These columns of a file (None: all); those in `text` are kept as text, whatever they look like.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("item;rank\\n007;1\\n") and file.flush()
    ...     read_table(file.name, text=["item"]).to_pylist()
    [{'item': '007', 'rank': 1}]
    """
    return TableFile(path).read(columns, text)


def check_names(names: Sequence[str], path: str | Path | None = None) -> None:
    """Refuse a name that stands over two columns: which of them is meant, nobody can say."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"wo columns are named {twice[0]!r}; every column needs a name of its own."
        raise DataError(f"T{what}") if path is None else ParseError(path, f"t{what}")


def table_kind(path: str | Path) -> str:
    """One of csv, jsonl, json, parquet and feather: by the first bytes, and by the name where they say nothing."""
    with open_bytes(path) as stream:
        head = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        raise ParseError(path, "the file is empty; a table with the names of its columns was expected.")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "feather"
    by_name = _ENDINGS.get(plain_suffix(path))
    if by_name is None and plain_suffix(path) not in _CSV:
        by_name = "jsonl" if head.startswith(b"{") else "json" if head.startswith(b"[") else None
    return by_name or "csv"


class TableFile:
    """A file of columns: what it is and which they are is known at once, the rest is read when asked for."""

    def __init__(self, path: str | Path, kind: str | None = None) -> None:
        self.path = Path(path)
        self.kind = kind or table_kind(path)
        self.is_text = self.kind in ("csv", "jsonl")
        with self.border():
            self._raw_names = self._header()
            self.names = [name.strip() for name in self._raw_names]
        check_names(self.names, self.path)

    @contextmanager
    def border(self) -> Iterator[None]:
        """What goes wrong in here is said with the file, and with the line of a text where it can be found."""
        import pyarrow as pa

        try:
            with border(self.path, self.kind):
                yield
        except ParseError as error:
            if self.kind == "csv" and "Empty CSV file" in str(error):  # a header that no line break ends
                raise ParseError(self.path, "there are names of columns and no rows; at least one is needed.") from None
            if error.line is None and self.is_text and isinstance(error.__cause__, pa.ArrowException):
                with border(self.path, self.kind):
                    self._check_rows()
            raise

    def _header(self) -> list[str]:
        if self.kind == "csv":
            return next(self._csv_rows(self._head))[1]
        if self.kind == "jsonl":
            return list(dict.fromkeys(name for _, row in self._json_rows(self._head) for name in row))
        return list(self.schema.names)

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; those of CSV are guessed from its beginning."""
        with self.border():
            if self.kind == "csv":
                return self._csv_schema()
            if self.kind == "parquet":
                return self._parquet().schema_arrow
            return self._feather().schema if self.kind == "feather" else self._records.schema

    def _csv_schema(self) -> pa.Schema:
        import pyarrow as pa

        with self._csv("open_csv", {}, None) as batches:
            schema = batches.schema
        late = [name for name, type_ in zip(self.names, schema.types, strict=True) if pa.types.is_null(type_)]
        if late:  # empty at the beginning: the rest says whether to the end
            with self._csv("read_csv", {}, late) as table:
                for name, type_ in zip(late, table.schema.types, strict=True):
                    place = self.names.index(name)
                    schema = schema.set(place, pa.field(schema.field(place).name, type_))
        return schema

    @cached_property
    def rows(self) -> int | None:
        """How many rows there are, where the file says so."""
        with self.border():
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None

    def read(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> pa.Table:
        """Columns in this order, those in `text` as text."""
        import pyarrow as pa

        wanted = self._known(self.names if columns is None else columns)
        with self.border():
            if self.kind == "csv":
                with self._csv("read_csv", dict.fromkeys(text, pa.string()), wanted) as table:
                    return table.rename_columns(wanted)
            if self.kind == "jsonl":
                return self._json_lines(wanted)
            if self.kind == "json":
                return self._records.select(wanted)
            schema = pa.schema([self.schema.field(self._raw_names[self.names.index(name)]) for name in wanted])
            table = pa.Table.from_batches(self.batches(wanted, 1 << 20), schema).rename_columns(wanted)
            table.validate(full=True)  # a file may say UTF-8 and hold other bytes
            return table

    def batches(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """These columns by batches of about so many rows.

        `types` are those that CSV is read as; texts in `coded` may come as codes of a dictionary, as Parquet has them.
        """
        wanted, rows = self._known(columns), rows or _BATCH_ROWS
        raw = [self._raw_names[self.names.index(name)] for name in wanted]
        with self.border():
            if self.kind == "csv":
                with self._csv("open_csv", types or {}, wanted) as batches:
                    for batch in batches:
                        yield batch.rename_columns(wanted)
            elif self.kind == "parquet":
                codes = [self._raw_names[self.names.index(name)] for name in coded]
                for batch in self._parquet(codes).iter_batches(rows, columns=raw):
                    yield batch.select(raw)
            elif self.kind == "feather":
                file = self._feather()
                for i in range(file.num_record_batches):
                    batch = file.get_batch(i).select(raw)
                    batch.validate(full=True)  # offsets beyond the data would be followed
                    yield from (batch.slice(first, rows) for first in range(0, len(batch), rows))
            else:
                yield from self.read(wanted).to_batches(rows)

    def _known(self, columns: Sequence[str]) -> list[str]:
        unknown = [name for name in columns if name not in self.names]
        if unknown:
            raise ParseError(self.path, f"there is no column {unknown[0]!r}; the columns are {', '.join(self.names)}.")
        return list(columns)

    def line(self, row: int) -> int | None:
        """The line at which a row of a text begins, from 1."""
        if not self.is_text:
            return None
        rows = self._csv_rows(self._text) if self.kind == "csv" else self._json_rows(self._text)
        return next((line for i, (line, _) in enumerate(rows, -(self.kind == "csv")) if i == row), None)

    @cached_property
    def _head(self) -> str:
        """The first lines of a text."""
        with open_text(self.path) as stream:
            head = stream.read(_HEAD)
            while b"\n" not in head and b"\r" not in head and (more := stream.read(len(head))):
                head += more
            if stream.read(1):
                head = head[: max(head.rfind(b"\n"), head.rfind(b"\r"))]
        return _newlines(head.decode("utf-8-sig"))

    @cached_property
    def _text(self) -> str:
        return read_text(self.path)

    def _check_rows(self) -> None:
        """Raise the error of the first line that is no row, if there is one."""
        width = len(self._raw_names)
        for line, row in self._csv_rows(self._text) if self.kind == "csv" else self._json_rows(self._text):
            if self.kind == "csv" and len(row) != width:
                raise ParseError(self.path, f"{len(row)} cells, and the header has {width}.", line)

    @cached_property
    def delimiter(self) -> str:
        """What stands between the cells of CSV: the ending .tsv or .tab says it, else the first two lines."""
        if plain_suffix(self.path) in (".tsv", ".tab"):
            return "\t"
        lines = [line for line in self._head.split("\n", 50) if line.strip()][:2]
        return max(_DELIMITERS, key=lambda mark: _fit(mark, lines))

    def _csv_rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) in plain Python, for the header and to find the place of an error."""
        rows = csv.reader(io.StringIO(text, newline="\n"), delimiter=self.delimiter)
        line = 1
        for row in rows:
            if row:
                yield line, row
            line = rows.line_num + 1

    @contextmanager
    def _csv(self, how: str, types: Mapping[str, pa.DataType], columns: Sequence[str] | None) -> Iterator[Any]:
        """`pyarrow.csv.open_csv` or `read_csv`; an empty cell of text is an empty text."""
        from pyarrow import csv as arrow

        raw = {} if columns is None else dict(zip(self.names, self._raw_names, strict=True))
        with open_text(self.path) as stream, Loan(stream) as loan:
            yield (loan.open if how == "open_csv" else loan.read)(
                getattr(arrow, how),
                parse_options=arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    include_columns=None if columns is None else [raw[name] for name in columns],
                    column_types={raw.get(name, name): type_ for name, type_ in types.items()},
                    strings_can_be_null=False,
                ),
            )

    def _json_rows(self, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, one in enumerate(text.split("\n"), 1):
            if one.strip():
                found = self._json(one, line)
                if not isinstance(found, dict):
                    raise ParseError(self.path, "this is no JSON object; every line must be one.", line)
                yield line, found

    def _json(self, text: str, line: int | None = None) -> Any:
        try:
            return json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            raise ParseError(self.path, f"this is no JSON: {error.msg}.", line or error.lineno) from error
        except (ValueError, RecursionError) as error:
            raise ParseError(self.path, f"this JSON cannot be read: {reason(error)}.", line) from error

    def _json_lines(self, columns: Sequence[str]) -> pa.Table:
        # Arrow infers the types from what it reads; restricting it to the columns that are wanted needs a schema, which
        # the first row gives. Conversations and other nested fields are then never built.
        import pyarrow as pa
        from pyarrow import json as arrow

        first = next(self._json_rows(self._head))[1]
        kinds: dict[type, Callable[[], pa.DataType]] = {bool: pa.bool_, str: pa.string, int: pa.int64}
        kinds[float] = pa.float64
        if all(type(first.get(name)) in kinds for name in columns):
            schema = pa.schema([(name, kinds[type(first[name])]()) for name in columns])
            options = arrow.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            try:
                with open_text(self.path) as stream, Loan(stream) as loan:
                    table: pa.Table = loan.read(arrow.read_json, parse_options=options)
                    return table
            except pa.ArrowException:
                pass  # a damaged line or a column of mixed types: the slow road says which
        return self._columns([row for _, row in self._json_rows(self._text)], columns)

    @cached_property
    def _records(self) -> pa.Table:
        """The rows of JSON, a list of objects or one a line, with all columns."""
        rows = [row for _, row in self._json_rows(self._text)] if self.is_text else self._json(self._text)
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise ParseError(
                self.path, "a JSON file must hold a list of objects, one a row; use .jsonl for one object a line."
            )
        return self._columns(rows, list(dict.fromkeys(name for row in rows for name in row)))

    def _columns(self, rows: list[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
        # By column, not Table.from_pylist: one that mixes types can then be named.
        import pyarrow as pa

        table = {}
        for name in columns:
            try:
                table[name] = pa.array([row.get(name) for row in rows])
            except (pa.ArrowException, OverflowError, UnicodeError) as error:
                raise ParseError(self.path, f"the column {name!r} cannot be read: {reason(error)}.") from error
        return pa.table(table)

    def _binary(self) -> Any:
        import pyarrow as pa

        with open_bytes(self.path) as stream:
            return pa.BufferReader(stream.read_all()) if stream.encoding else pa.memory_map(str(self.path))

    def _parquet(self, coded: Sequence[str] = ()) -> Any:
        from pyarrow import parquet

        file = parquet.ParquetFile(self._binary(), read_dictionary=list(coded))
        facts = file.metadata
        check_expansion(self.path, self.path.stat().st_size, 4 * facts.num_rows * facts.num_columns)
        return file

    def _feather(self) -> Any:
        import pyarrow as pa

        return pa.ipc.open_file(self._binary())


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fit(mark: str, lines: Sequence[str]) -> tuple[bool, int]:
    """Whether header and first row have as many columns, and how many the header has."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=mark)]
    except csv.Error:
        return False, 0
    return widths[0] > 1 and len(set(widths[:2])) == 1, widths[0]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {name!r} stands twice in one object")
    return found
