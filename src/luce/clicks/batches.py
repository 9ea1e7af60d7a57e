"""Tables of any size as batches of columns: Parquet, CSV, JSON lines, data frames and mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.readers.compressed import SUFFIXES, open_bytes
from luce.errors import DataError, ParseError

BATCH_ROWS = 1 << 19
_JSON_BYTES = 1 << 25


def column_names(source: Any) -> list[str]:
    """The columns of a table, without reading it all."""
    if not isinstance(source, str | Path):
        return list(_table(source).column_names)
    for batch in _file_batches(Path(source), None):
        return list(batch.schema.names)
    raise DataError(f"{source} is empty; a click log has at least one row.")


def batches(source: Any, columns: Sequence[str]) -> Iterator[Any]:
    """The wanted columns as Arrow record batches of at most about half a million rows each."""
    if isinstance(source, str | Path):
        yield from _file_batches(Path(source), list(columns))
    else:
        yield from _table(source).select(list(columns)).combine_chunks().to_batches(BATCH_ROWS)


def _table(source: Any) -> Any:
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    try:
        if isinstance(source, Mapping):
            return _of_mapping({str(name): _values(values) for name, values in source.items()})
        import narwhals as nw

        return nw.from_native(source, eager_only=True).to_arrow()
    except TypeError as error:
        raise DataError(f"A {type(source).__name__} is no table; give a file, a data frame or a mapping.") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        why = " ".join(map(str, error.args))
        raise DataError(f"The log is no table with one type a column ({why}); make its columns all texts.") from error


def _of_mapping(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    sizes = {name: len(values) for name, values in columns.items()}
    short = min(sizes, key=lambda name: sizes[name], default="")
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"The column {short!r} has {sizes[short]} entries and others have {max(sizes.values())}; all need as many."
        )
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _values(values: Any) -> Any:
    """A column as Arrow takes it: lists in it stay lists, None stays empty."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    found = list(values)
    return (
        found if any(one is None or isinstance(one, list | tuple | np.ndarray) for one in found) else np.asarray(values)
    )


def _file_batches(path: Path, columns: list[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    with open_bytes(path) as stream:
        head, packed = stream.read(64), stream.encoding
    plain = Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix
    try:
        if head.startswith(b"PAR1") and not packed:
            yield from _parquet_batches(path, columns)
        elif plain in (".jsonl", ".ndjson", ".json") or head.lstrip().startswith(b"{"):
            yield from _json_batches(path, columns)
        else:
            yield from _csv_batches(path, columns, "\t" if plain in (".tsv", ".tab") else ",")
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        raise ParseError(path, f"not a Parquet, CSV or JSON lines table ({' '.join(str(error).split())})") from error


def _parquet_batches(path: Path, columns: list[str] | None) -> Iterator[Any]:
    """Some row groups at a time: one reader of all of them would keep memory of each that it passed."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        groups: list[int] = []
        rows = 0
        for i in range(file.num_row_groups):
            groups.append(i)
            rows += file.metadata.row_group(i).num_rows
            if rows >= BATCH_ROWS or i + 1 == file.num_row_groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns)
                groups, rows = [], 0


def _csv_batches(path: Path, columns: list[str] | None, delimiter: str) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    how = csv.ParseOptions(delimiter=delimiter)
    # All as text: with types guessed from the first block, a later one could not be read.
    with open_bytes(path) as stream:
        packed = {"": None, "gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}[stream.encoding]
        first = stream.read(1 << 16)
        while b"\n" not in first and (more := stream.read(1 << 16)):
            first += more
    if not first.strip():
        raise DataError(f"{path} is empty; a click log has at least one row.")
    names = csv.read_csv(pa.BufferReader(first.split(b"\n")[0] + b"\n"), parse_options=how).column_names
    types = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=columns,
        strings_can_be_null=True,
        null_values=[""],
    )
    with pa.input_stream(str(path), compression=packed) as stream:
        yield from csv.open_csv(stream, csv.ReadOptions(block_size=1 << 25), how, types)


def _json_batches(path: Path, columns: list[str] | None) -> Iterator[Any]:
    """Whole lines at a time, whatever they are compressed with."""
    import pyarrow as pa
    from pyarrow import json

    def parsed(piece: bytes) -> Iterator[Any]:
        table = json.read_json(pa.BufferReader(piece), json.ReadOptions(block_size=max(len(piece) + 1, 1 << 20)))
        chosen = table if columns is None else table.select(columns)
        yield from chosen.combine_chunks().to_batches(BATCH_ROWS)

    rest = b""
    with open_bytes(path) as stream:
        while piece := stream.read(_JSON_BYTES):
            lines, newline, tail = (rest + piece).rpartition(b"\n")
            rest = tail
            if newline and lines.strip():
                yield from parsed(lines + newline)
    if rest.strip():
        yield from parsed(rest)
