"""`luce.read`: any file of judged documents, by its content and its name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.checks import path_of
from luce.data.groups import Groups
from luce.data.readers.letor import LetorFile
from luce.data.schema import COLUMN_LISTS, Schema, TableWords
from luce.data.text_files import TABLE_SUFFIXES, first_bytes, open_input, plain_suffix, table_kind
from luce.errors import DataError, ModelFormatError, SettingError
from luce.settings import LetorOptions, LogReading
from luce.storage import container_kind

if TYPE_CHECKING:
    from luce.data.readers.tables import JudgedTable

_OPTIONS = {
    "lucedata": {"verify"},
    "letor": set(LetorOptions.__dataclass_fields__),
    "log": {*LogReading.__dataclass_fields__, "allow_nan"},
}
_TABLE_OPTIONS = set(TableWords.__annotations__)


def data_format(path: str | Path) -> str:
    """One of "lucedata", "parquet", "feather", "csv", "json", "jsonl", "log" and "letor"."""
    path = path_of("What is to be read", path)
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
        hint = f", such as {path / inside[0]}" if inside else ""
        raise DataError(f"{path} is a folder; give a file in it{hint}.")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a pipe or device, and luce reads a file more than once; save it to a file first.")
    with open_input(path) as stream:
        head = stream.read(9)
    plain = plain_suffix(path)
    # No container starts like that: its first byte, of the length of a padded header, is 8 below a multiple of 64.
    if head.lstrip()[:1] in (b"{", b"[") or plain in (".json", ".jsonl", ".ndjson"):
        return table_kind(path) if _is_json_table(path) else "log"
    if head[8:9] == b"{" or path.suffix == ".lucedata":
        kind = container_kind(path)
        if kind not in (None, "data"):
            raise ModelFormatError(f"{path} holds a {kind}, not data; give a file of judged documents.")
        return "lucedata"
    head = first_bytes(path, 6)
    if head.startswith((b"PAR1", b"ARROW1")) or plain in TABLE_SUFFIXES:
        return table_kind(path)
    return "letor"


def _is_json_table(path: str | Path) -> bool:
    """Whether JSON begins with a flat record, a row of a table; responses of search engines hold further records."""
    head = first_bytes(path, 1 << 16).decode(errors="replace").lstrip()
    if head.startswith("{") and table_kind(path) == "json":  # one record is no list of rows
        return False
    try:
        first, _ = json.JSONDecoder().raw_decode(head.removeprefix("[").lstrip())
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and bool(first) and not any(isinstance(each, dict | list) for each in first.values())


def read(path: str | Path, **options: Any) -> Groups:
    """Read judged documents from a file of any format that luce knows.

    LETOR text, Parquet, Arrow (Feather), JSON (rows of a table, or logs of search engines) and the binary form of
    `luce convert` are told apart by content, CSV by its name. Options go to the reader: `luce.read_letor`, `read_log`
    (`judgements` names the judgement list), `read_data`, or for tables the words of `luce.from_frame`:
    `luce.read("searches.parquet", qid="search", label="grade", doc="sku", drop=["session"])`.
    """
    opened = open_source(path, **options)
    return opened if isinstance(opened, Groups) else opened.read()


def read_like(path: str | Path, names: Sequence[str], schema: Schema | None, options: Mapping[str, Any]) -> Groups:
    """Read a file that goes with other data or a model: tables by their schema or by the names of the features."""
    format = data_format(path)
    if format == "log":
        return read(path, **options)
    if schema is not None and format not in _NUMBERED:
        return read(path, schema=schema, **options)
    return read(path, **options_like(format, names, options))


_NUMBERED = ("letor", "lucedata")
"""Formats whose features are not chosen by the names of columns."""


def options_like(format: str, names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a file of this format, a table by these names of features unless they are numbers alone."""
    by_name = format not in _NUMBERED and not all(map(str.isdigit, names))
    return {**({"features": list(names)} if by_name else {}), **options}


def beside(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a file that is read with the schema of another one, which knows the features.

    >>> beside({"qid": "search", "drop": ["price"]})
    {'qid': 'search'}
    """
    return {name: value for name, value in options.items() if name not in (*COLUMN_LISTS, "text")}


def open_source(path: str | Path, **options: Any) -> LetorFile | JudgedTable | Groups:
    """A file to pass over twice, for work out of core; the binary form and logs, which fit memory, as `Groups`."""
    format = data_format(path)
    known = _OPTIONS.get(format, _TABLE_OPTIONS)
    unknown = sorted(set(options) - known)
    if unknown:
        raise SettingError(
            f"{path} is read as {format}, which has no option {unknown[0]!r}; it has {', '.join(sorted(known))}."
        )
    if format == "lucedata":
        from luce.data.mapped import read_data

        return read_data(path, **options)
    if format == "letor":
        return LetorFile(path, LetorOptions(**options))
    if format == "log":
        from luce.data.readers.feature_log import read_log

        return read_log(path, **{name: value for name, value in options.items() if name != "allow_nan"})
    from luce.data.readers.tables import JudgedTable
    from luce.data.table_file import TableFile

    return JudgedTable(path, TableFile(path, format), options)
