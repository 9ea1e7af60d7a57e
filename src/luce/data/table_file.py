"""Files of tables: CSV with any usual delimiter, JSON lines, a JSON list, Parquet or Arrow, plain or packed.

What a file is, its content says before its name. Its columns are known before they are read, whole or by batches.
"""

from __future__ import annotations

import csv
import errno
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from luce.data.late import arrow_csv, arrow_json, pa, pq
from luce.data.names import check_names
from luce.data.table import Table
from luce.data.text_files import (
    TextStream,
    border,
    check_expansion,
    numbered_lines,
    open_bytes,
    open_text,
    plain_suffix,
    reason,
    table_kind,
    with_newlines,
)
from luce.errors import DataError, ParseError, SettingError

_HEAD = 1 << 20
_PIECE = 1 << 25
_BLOCK = 1 << 22
_DELIMITERS = ",\t;|"


def json_objects(path: str | Path, encoding: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of a file with one JSON object a line, whatever its size."""
    with open_text(path, encoding) as stream:
        yield from _objects(path, numbered(whole_lines(stream)))


def _objects(path: str | Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in lines:
        if text.strip():
            found = _parsed(path, text, line)
            if not isinstance(found, dict):
                raise ParseError(path, "this is no JSON object; every line must be one.", line)
            yield line, found


def _parsed(path: str | Path, text: str, line: int | None = None) -> Any:
    """JSON in which every name stands once in an object."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ParseError(path, f"this is no JSON: {error.msg}.", line or error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise ParseError(path, f"this JSON cannot be read: {reason(error)}.", line) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {name!r} stands twice in one object")
    return found


def whole_lines(stream: TextStream) -> Iterator[bytes]:
    """The content of a text in pieces that end with a line."""
    rest, first = b"", True
    while data := stream.read(_PIECE):
        data, first = data.removeprefix(b"\xef\xbb\xbf") if first else data, False
        lines, newline, tail = (rest + data).rpartition(b"\n")
        rest = tail
        if newline:
            yield lines + newline
    if rest:
        yield rest


def numbered(pieces: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """(line from 1, text with its newline) of every line, however lines end."""
    line = 0
    for piece in pieces:
        lines = with_newlines(piece.decode()).split("\n")
        for text in lines if lines[-1] else lines[:-1]:
            line += 1
            yield line, text + "\n"


class TableFile(Table):
    """A file of columns: what it is and which they are is known at once, the rest is read when asked for."""

    way_with_short_rows = "give the row as many cells"
    """What is to be done about a row of few cells; those who read the table may know more."""

    def __init__(self, path: str | Path, kind: str | None = None, encoding: str | None = None) -> None:
        self.path: Path = Path(path)
        self.label = str(self.path)
        self.kind = kind or table_kind(path)
        self.is_text = self.kind in ("csv", "jsonl")
        self._encoding = encoding
        with self.border():
            if self.kind == "csv":
                self._raw_names = next(self._csv_rows(numbered([self._head])))[1]
            elif self.kind == "jsonl":
                self._raw_names = list(dict.fromkeys(name for row in self._head_rows for name in row))
            else:
                self._raw_names = list(self.schema.names)
            self.names = [name.strip() for name in self._raw_names]
        check_names(self.names, self.path)

    @contextmanager
    def border(self) -> Iterator[None]:
        """What goes wrong in here is said with the file, and with the line of a text where it can be found."""
        try:
            with border(self.path, self.kind):
                yield
        except ParseError as error:
            if self.kind == "csv" and "Empty CSV file" in str(error):  # a header that no line break ends
                raise ParseError(self.path, "there are names of columns and no rows; at least one is needed.") from None
            if error.line is None and self.is_text and isinstance(error.__cause__, pa.ArrowException):
                with border(self.path, self.kind):
                    for line, row in self._plain_rows():  # the first line that is no row, if there is one
                        if self.kind == "csv" and len(row) != len(self._raw_names):
                            raise self._wide(row, line) from error
            raise

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; those of CSV are guessed from its beginning."""
        with self.border():
            if self.kind == "csv":
                schema = self._csv("open_csv", {}, None).schema
                late = [name for name, type_ in zip(self.names, schema.types, strict=True) if pa.types.is_null(type_)]
                if late:  # empty at the beginning: the rest says whether to the end
                    for name, type_ in zip(late, self._csv("read_csv", {}, late).schema.types, strict=True):
                        place = self.names.index(name)
                        schema = schema.set(place, pa.field(schema.field(place).name, type_))
                return schema
            if self.kind == "parquet":
                return self._parquet().schema_arrow
            if self.kind == "jsonl":
                return self._json_lines(self.names).schema
            return self._feather().schema if self.kind == "feather" else self._records.schema

    @cached_property
    def rows(self) -> int | None:
        """How many rows there are, where the file says so."""
        with self.border():
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None

    @property
    def build(self) -> Callable[[dict[str, Any]], Any]:
        """Makes an Arrow table."""
        return pa.table

    def arrow(self, columns: Sequence[str], text: Sequence[str]) -> pa.Table:
        """Columns in this order, those in `text` as text."""
        with self.border():
            if self.kind == "csv":
                return self._csv("read_csv", dict.fromkeys(text, pa.string()), columns).rename_columns(list(columns))
            if self.kind == "jsonl":
                return self._json_lines(columns)
            if self.kind == "json":
                return self._records.select([self._raw(name) for name in columns]).rename_columns(list(columns))
            schema = pa.schema([self.schema.field(self._raw(name)) for name in columns])
            table = pa.Table.from_batches(self.batches(columns, 1 << 20), schema).rename_columns(list(columns))
            table.validate(full=True)  # a file may say UTF-8 and hold other bytes
            return table

    def _raw(self, name: str) -> str:
        return self._raw_names[self.names.index(name)]

    def batches(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """These columns by batches of about so many rows."""
        wanted, rows = self.known(columns), rows or self.batch_rows
        raw = [self._raw(name) for name in wanted]
        with self.border():
            if self.kind == "csv":
                for batch in self._csv("open_csv", types or {}, wanted, rows):
                    yield batch.rename_columns(wanted)
            elif self.kind == "parquet":
                yield from self._row_groups(raw, rows, [self._raw(name) for name in coded])
            elif self.kind == "feather":
                file = self._feather()
                for i in range(file.num_record_batches):
                    batch = file.get_batch(i).select(raw)
                    batch.validate(full=True)  # offsets beyond the data would be followed
                    yield from (batch.slice(first, rows) for first in range(0, len(batch), rows))
            else:
                yield from self.arrow(wanted, ()).to_batches(rows)

    def _many(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if self.kind == "csv":  # all as text: with types guessed from the first block, a later one could not be read
            yield from self.batches(columns, self.piece_rows, dict.fromkeys(columns, pa.string()))
        elif self.kind == "jsonl":
            with self.border():
                for table in self._json_pieces(columns):
                    yield from table.to_batches(self.piece_rows)
        else:
            for batch in self.batches(columns, self.piece_rows):
                batch.validate(full=True)
                yield batch.rename_columns(columns)

    def _row_groups(self, raw: list[str], rows: int, coded: list[str]) -> Iterator[pa.RecordBatch]:
        """Some row groups at a time: one reader of all of them would keep memory of each that it passed."""
        file = self._parquet(coded)
        groups: list[int] = []
        waiting = 0
        for i in range(file.num_row_groups):
            groups.append(i)
            waiting += file.metadata.row_group(i).num_rows
            if waiting >= rows or i + 1 == file.num_row_groups:
                for batch in file.iter_batches(rows, row_groups=groups, columns=raw):
                    yield batch.select(raw)
                groups, waiting = [], 0

    def _plain_rows(self) -> Iterator[tuple[int, Any]]:
        """(line, cells or object) of the rows of a text in plain Python, to find the place of an error."""
        if self.kind == "jsonl":
            yield from json_objects(self.path, self._encoding)
            return
        with open_text(self.path, self._encoding) as stream:
            yield from itertools.islice(self._csv_rows(numbered(whole_lines(stream))), 1, None)

    def line(self, row: int) -> int | None:
        """The line at which a row of a text begins, from 1."""
        rows = self._plain_rows() if self.is_text else iter(())
        return next((line for line, _ in itertools.islice(rows, row, None)), None)

    @cached_property
    def _head(self) -> bytes:
        """The first lines of a text."""
        with open_text(self.path, self._encoding) as stream:
            head = stream.read(_HEAD)
            while b"\n" not in head and b"\r" not in head and (more := stream.read(len(head))):
                head += more
            if stream.read(1):
                head = head[: max(head.rfind(b"\n"), head.rfind(b"\r"))]
        return head.removeprefix(b"\xef\xbb\xbf")

    def _wide(self, row: list[str], line: int) -> ParseError:
        way = f"; {self.way_with_short_rows}" if len(row) < len(self._raw_names) else ""
        return ParseError(self.path, f"{len(row)} cells, and the header has {len(self._raw_names)}{way}.", line)

    def settle_short_rows(self, how: str) -> tuple[Table, tuple[str, ...]]:
        """The table without rows that have fewer cells than the header ("drop"), or with them filled up ("fill").

        All cells are texts then, and rows of the file are read one by one.
        """
        if self.kind != "csv":
            raise SettingError(f"short_rows is {how!r}, and {self.label} is no CSV; leave it out.")
        width, kept, short = len(self._raw_names), list[list[str]](), 0
        with self.border():
            for line, row in self._plain_rows():
                if len(row) > width:
                    raise self._wide(row, line)
                short += len(row) < width
                if len(row) == width or how == "fill":
                    kept.append(row + [""] * (width - len(row)))
        columns = zip(*kept, strict=True) if kept else [()] * width
        table = Table({name: list(cells) for name, cells in zip(self.names, columns, strict=True)})
        table.label = self.label
        done = "are left out" if how == "drop" else "have empty cells at their end"
        return table, ((f"{short:,} rows have fewer cells than the header; they {done}.",) if short else ())

    @cached_property
    def delimiter(self) -> str:
        """What stands between the cells of CSV: the ending .tsv or .tab says it, else the first two lines."""
        if plain_suffix(self.path) in (".tsv", ".tab"):
            return "\t"
        lines = [line for line in with_newlines(self._head.decode()).split("\n", 50) if line.strip()][:2]
        return max(_DELIMITERS, key=lambda mark: _fit(mark, lines))

    def _csv_rows(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) in plain Python, for the header and to find the place of an error."""
        rows = csv.reader((text for _, text in lines), delimiter=self.delimiter)
        line = 1
        for row in rows:
            if row:
                yield line, row
            line = rows.line_num + 1

    @cached_property
    def _unpacked(self) -> tuple[str, Any]:
        """A file with the same text, unpacked and in UTF-8, every byte checked; and a copy to be kept, if it is one.

        Arrow reads files from threads of its own. It is given a file, not a stream of Python: a thread that asks for
        the interpreter while that ends makes the process abort.
        """
        with open_text(self.path, self._encoding) as stream:
            pieces = iter(lambda: stream.read(_BLOCK), b"")
            if stream.is_plain:
                for _ in pieces:
                    pass
                return str(self.path), None
            copy = tempfile.NamedTemporaryFile(prefix="luce-")  # noqa: SIM115 (it goes with this table)
            try:
                copy.writelines(pieces)
                copy.flush()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                where = f"{tempfile.gettempdir()}, where no space is left; set TMPDIR to another folder"
                raise ParseError(self.path, f"is to be unpacked into {where}, or unpack it yourself.") from error
            return copy.name, copy

    def _csv(self, how: str, types: Mapping[str, pa.DataType], columns: Sequence[str] | None, rows: int = 0) -> Any:
        """`pyarrow.csv.open_csv` or `read_csv`; an empty cell of text is an empty text."""
        raw = {} if columns is None else dict(zip(self.names, self._raw_names, strict=True))
        return getattr(arrow_csv, how)(
            pa.OSFile(self._unpacked[0]),
            read_options=arrow_csv.ReadOptions(block_size=_PIECE if rows > self.batch_rows else _HEAD),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=None if columns is None else [raw[name] for name in columns],
                column_types={raw.get(name, name): type_ for name, type_ in types.items()},
                strings_can_be_null=False,
            ),
        )

    def _json_lines(self, columns: Sequence[str]) -> pa.Table:
        """All lines; where the types of a column do not go together, they are read one by one to say which."""
        try:
            return pa.concat_tables(self._json_pieces(columns), promote_options="permissive")
        except pa.ArrowException:
            return self._of_rows([row for _, row in self._plain_rows()], columns)

    def _json_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Many lines at a time, with the types that the first lines give: other fields are then never built."""
        types = [(self._raw(name), self._json_types.get(self._raw(name))) for name in columns]
        options = None
        if all(type_ is not None for _, type_ in types):
            options = arrow_json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
        line = 0
        with open_text(self.path, self._encoding) as stream:
            for piece in filter(bytes.strip, whole_lines(stream)):
                found = None
                try:
                    if options is not None:
                        blocks = arrow_json.ReadOptions(block_size=_BLOCK)
                        found = arrow_json.read_json(pa.BufferReader(piece), blocks, options)
                except pa.ArrowException:
                    pass  # a damaged line or a column of mixed types: the slow road says which
                if found is None:
                    lines = ((line + i, text) for i, text in numbered([piece]))
                    found = self._of_rows([row for _, row in _objects(self.path, lines)], columns)
                yield found.rename_columns(list(columns))
                line += piece.count(b"\n")

    @cached_property
    def _head_rows(self) -> list[dict[str, Any]]:
        """The objects of the first lines of JSON."""
        return [row for _, row in _objects(self.path, numbered([self._head]))]

    @cached_property
    def _json_types(self) -> dict[str, pa.DataType]:
        """The types of the columns whose values in the first lines go together: as they are written, texts as texts."""
        plain: dict[type, Callable[[], pa.DataType]] = {bool: pa.bool_, str: pa.string, int: pa.int64}
        plain[float] = pa.float64
        types = {}
        for name in self._raw_names:
            values = [value for row in self._head_rows if (value := row.get(name)) is not None and value != []]
            lists = {isinstance(value, list) for value in values}
            inside = [one for value in values for one in value] if lists == {True} else values
            found = {type(value) for value in inside if value is not None}
            found = {float} if found == {int, float} else found
            if len(found) == 1 and len(lists) == 1 and found <= set(plain):
                kind = plain[found.pop()]()
                types[name] = pa.list_(kind) if lists == {True} else kind
        return types

    @cached_property
    def _records(self) -> pa.Table:
        """The rows of a JSON list of objects, with all columns."""
        with open_text(self.path, self._encoding) as stream:
            rows = _parsed(self.path, stream.read_all().decode("utf-8-sig"))
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise ParseError(
                self.path, "a JSON file must hold a list of objects, one a row; use .jsonl for one object a line."
            )
        self._raw_names = list(dict.fromkeys(name for row in rows for name in row))
        return self._of_rows(rows, [name.strip() for name in self._raw_names])

    def _of_rows(self, rows: list[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
        # By column, not Table.from_pylist: one that mixes types can then be named.
        check_expansion(self.path, self.path.stat().st_size, 8 * len(rows) * len(columns))
        by_name = {raw.strip(): raw for raw in self._raw_names}
        arrays = []
        for name in columns:
            values = [row.get(by_name[name]) for row in rows]
            try:
                arrays.append(_array(values))
            except (pa.ArrowException, OverflowError, UnicodeError) as error:
                raise ParseError(self.path, f"the column {name!r} cannot be read: {reason(error)}.") from error
        return pa.table(arrays, names=[by_name[name] for name in columns])

    def _binary(self) -> Any:
        with open_bytes(self.path) as stream:
            return pa.BufferReader(stream.read_all()) if stream.encoding else pa.memory_map(str(self.path))

    def _parquet(self, coded: Sequence[str] = ()) -> Any:
        file = pq.ParquetFile(self._binary(), read_dictionary=list(coded))
        facts = file.metadata
        check_expansion(self.path, self.path.stat().st_size, 4 * facts.num_rows * facts.num_columns)
        return file

    def _feather(self) -> Any:
        return pa.ipc.open_file(self._binary())


def _array(values: list[Any]) -> pa.Array:
    """Values of JSON as a column; texts beside numbers make all of them texts, as in CSV."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        if not all(value is None or isinstance(value, str | int | float) for value in values):
            raise
        whole = (int(v) if isinstance(v, float) and v.is_integer() and abs(v) < 2**63 else v for v in values)
        return pa.array([value if isinstance(value, str | None) else json.dumps(value) for value in whole])


class WordFile(Table):
    """A file whose lines are words with blanks between them, one a column, such as those of TREC.

    `parse` finds the words of a line that is written in another way, None where it has none.
    """

    def __init__(
        self, path: str | Path, names: Sequence[str], parse: Callable[[str], Sequence[str] | None] = str.split
    ) -> None:
        rows, self._lines = [], []
        for line, text in numbered_lines(path):
            try:
                words = parse(text)
            except DataError as error:
                raise ParseError(path, str(error), line) from error
            if words is None:
                continue
            if len(words) != len(names):
                raise ParseError(path, f"{len(words)} columns; {len(names)} were expected: {' '.join(names)}.", line)
            rows.append(words)
            self._lines.append(line)
        super().__init__(dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)))
        self.path, self.label = Path(path), str(path)

    def line(self, row: int) -> int | None:
        """The line of a row, from 1."""
        return self._lines[row]


def _fit(mark: str, lines: Sequence[str]) -> tuple[bool, int]:
    """Whether header and first row have as many columns, and how many the header has."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=mark)]
    except csv.Error:
        return False, 0
    return widths[0] > 1 and len(set(widths[:2])) == 1, widths[0]
