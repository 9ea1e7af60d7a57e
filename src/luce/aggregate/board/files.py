"""Tables from files: CSV, JSON, JSON lines and Parquet, as Arrow tables with only the columns that are wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from luce.errors import ParseError

__all__ = ["column_names", "read_table"]

_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, pa.ArrowKeyError)


def column_names(path: str | Path) -> list[str]:
    """The columns of a file, read from its first line or footer."""
    return _peek(_checked(path))


def read_table(path: str | Path, columns: Sequence[str], text: Sequence[str] = ()) -> pa.Table:
    """These columns of a file; those in `text` are kept as text, whatever they look like."""
    path = _checked(path)
    kind = _kind(path)
    try:
        if kind == "parquet":
            return pyarrow.parquet.read_table(path, columns=list(columns))
        if kind == "json":
            return _records(path, _load_json(path), columns)
        if kind == "jsonl":
            return _json_lines(path, columns)
        return pyarrow.csv.read_csv(
            pa.input_stream(str(path)),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: pa.string() for name in text},
                strings_can_be_null=False,
            ),
        )
    except (*_ARROW_ERRORS, OSError) as error:
        raise ParseError(path, f"cannot be read as {kind.upper()}: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def _checked(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_file():
        raise ParseError(path, "this is a folder, not a file." if path.is_dir() else "no such file; check the name.")
    if path.stat().st_size == 0:
        raise ParseError(path, "the file is empty; at least a header and one row are needed.")
    return path


def _kind(path: Path) -> str:
    endings = [s.lower() for s in path.suffixes if s.lower() not in (".gz", ".bz2", ".zst", ".lz4")]
    ending = endings[-1] if endings else ".csv"
    kinds = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet"}
    if ending not in kinds:
        raise ParseError(path, f"the ending {ending!r} is not known; use {', '.join(kinds)}.")
    return kinds[ending]


def _peek(path: Path) -> list[str]:
    kind = _kind(path)
    try:
        if kind == "parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        if kind == "json":
            return list(dict.fromkeys(key for record in _load_json(path)[:100] for key in record))
        if kind == "jsonl":
            with pa.input_stream(str(path)) as stream:
                return list(_parse_line(path, 1, stream.read(1 << 24).split(b"\n", 1)[0]))
        return list(pyarrow.csv.open_csv(pa.input_stream(str(path))).schema.names)
    except (*_ARROW_ERRORS, OSError) as error:
        raise ParseError(path, f"cannot be read as {kind.upper()}: {_first_line(error)}.") from error


def _load_json(path: Path) -> list[dict[str, Any]]:
    try:
        with pa.input_stream(str(path)) as stream:
            records = json.loads(stream.read())
    except ValueError as error:
        raise ParseError(path, f"is not JSON: {_first_line(error)}.") from error
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise ParseError(path, "a JSON file must hold a list of objects, one a row; use .jsonl for one object a line.")
    return records


def _parse_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ParseError(path, f"is not JSON: {_first_line(error)}.", number) from error
    if not isinstance(record, dict):
        raise ParseError(path, "every line must be a JSON object.", number)
    return record


def _json_lines(path: Path, columns: Sequence[str]) -> pa.Table:
    # Arrow infers the types from what it reads; restricting it to the columns that are wanted needs a schema, which
    # the first line gives. Conversations and other nested fields are then never built.
    with pa.input_stream(str(path)) as stream:
        first = _parse_line(path, 1, stream.read(1 << 24).split(b"\n", 1)[0])
    if all(isinstance(first.get(name), str | bool | int | float) for name in columns):
        kinds: dict[type, Callable[[], pa.DataType]] = {bool: pa.bool_, str: pa.string, int: pa.int64}
        schema = pa.schema([(name, kinds.get(type(first[name]), pa.float64)()) for name in columns])
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            return pyarrow.json.read_json(pa.input_stream(str(path)), parse_options=options)
        except _ARROW_ERRORS:
            pass  # a damaged line or a column of mixed types: the slow road below says which
    with pa.input_stream(str(path)) as stream:
        lines = stream.read().splitlines()
    return _records(path, [_parse_line(path, i + 1, line) for i, line in enumerate(lines) if line.strip()], columns)


def _records(path: Path, records: list[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
    # By column, not Table.from_pylist: one that mixes types can then be named.
    table = {}
    for name in columns:
        try:
            table[name] = pa.array([record.get(name) for record in records])
        except _ARROW_ERRORS as error:
            raise ParseError(path, f"the column {name!r} mixes types: {_first_line(error)}.") from error
    return pa.table(table)
