"""Columns of any data frame or file as coded arrays, with errors that name the row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from luce.data.tables import column_names, read_table
from luce.errors import DataError
from luce.types import FloatArray, IntArray

__all__ = ["YEAR", "Source", "add_up", "encode", "numbers", "open_source", "read_times"]

YEAR = 365.25
"""Days of a year: dates become years since 1970."""


@dataclass(frozen=True)
class Source:
    """A table that has not been read yet: its columns, and how to get some of them."""

    label: str
    """How errors call it: a file name or "The table"."""
    columns: tuple[str, ...]
    read: Callable[[Sequence[str], Sequence[str]], pa.Table]
    """(columns, those that are text) -> Arrow table."""
    build: Callable[[dict[str, Any]], Any]
    """Makes a result table of the same kind as the input."""

    def require(self, name: str, role: str) -> str:
        """`name`, if there is such a column."""
        if name not in self.columns:
            raise DataError(
                f"{self.label} has no column {name!r} for the {role}; its columns are {', '.join(self.columns)}."
            )
        return name


def open_source(data: Any) -> Source:
    """A data frame of any library that narwhals knows, a mapping of columns, or the path of a file."""
    if isinstance(data, str | Path):
        path = Path(data)
        return Source(str(path), tuple(column_names(path)), lambda c, t: read_table(path, c, t), pa.table)
    if isinstance(data, Mapping):
        data = _from_mapping(data)
    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"Battles come as a data frame, a mapping of columns or the path of a file; got {type(data).__name__}."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    namespace = frame.implementation

    def read(columns: Sequence[str], _: Sequence[str]) -> pa.Table:
        wanted = frame.select(list(columns))
        # Python strings in a pandas frame: its own hash table is three times faster than a conversion to Arrow strings.
        slow = [c for c in wanted.columns if str(getattr(wanted[c].to_native(), "dtype", "")) == "object"]
        slow = [c for c in slow if wanted.schema[c] == nw.String]
        try:
            return wanted.with_columns(nw.col(*slow).cast(nw.Categorical)).to_arrow() if slow else wanted.to_arrow()
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"A column of the table mixes types: {str(error).splitlines()[0]}.") from error

    def build(columns: dict[str, Any]) -> Any:
        return nw.from_dict(columns, backend=namespace).to_native()

    return Source("The table", tuple(map(str, frame.columns)), read, build)


def _from_mapping(columns: Mapping[Any, Any]) -> pa.Table:
    try:
        return pa.table(
            {str(name): pa.array(np.asarray(v) if isinstance(v, tuple) else v) for name, v in columns.items()}
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise DataError(f"These columns do not make a table: {str(error).splitlines()[0]}.") from error


def encode(column: pa.ChunkedArray, name: str, label: str) -> tuple[IntArray, list[Any]]:
    """Every value as a number into the list of distinct values; an empty cell is an error."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DataError(f"{label}: row {row + 1} has nothing in the column {name!r}; every row needs a value there.")
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return np.empty(0, dtype=np.int64), []
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks])
    values = column.chunk(0).dictionary.to_pylist()
    blank = next((i for i, value in enumerate(values) if isinstance(value, str) and not value.strip()), None)
    if blank is not None and np.any(codes == blank):
        row = int(np.flatnonzero(codes == blank)[0])
        raise DataError(f"{label}: row {row + 1} has nothing in the column {name!r}; every row needs a value there.")
    return codes.astype(np.int64), values


def numbers(column: pa.ChunkedArray, name: str, label: str, *, least: float | None = None) -> FloatArray:
    """A column of finite numbers; with `least`, none of them smaller."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise DataError(f"{label}: the column {name!r} must hold numbers; it holds {column.type}.")
    values: NDArray[Any] = column.cast(pa.float64()).to_numpy()
    bad = ~np.isfinite(values)
    if least is not None:
        bad |= values < least
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        must = "finite" if least is None else f"finite and at least {least:g}"
        raise DataError(f"{label}: row {row + 1} has {values[row]:g} in the column {name!r}; it must be {must}.")
    return np.ascontiguousarray(values)


def read_times(column: pa.ChunkedArray, name: str, label: str) -> FloatArray:
    """Dates and moments as years since 1970, numbers as they are."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return numbers(column, name, label)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DataError(f"{label}: row {row + 1} has no time in the column {name!r}; every row needs one.")
    try:
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            moments = column.to_numpy().astype("datetime64[s]")
        else:
            moments = np.array([str(value).strip() for value in column.to_pylist()], dtype="datetime64[s]")
    except ValueError as error:
        raise DataError(
            f"{label}: the column {name!r} must hold dates such as 2024-05-31, moments or numbers; {error}."
        ) from None
    years: FloatArray = moments.astype(np.float64) / (86_400.0 * YEAR)
    return years


def add_up(index: IntArray, weight: FloatArray | None, length: int) -> FloatArray:
    """Sums of the weights (1 where None) by index, always as float64."""
    return np.bincount(index, weight, length).astype(np.float64, copy=False)
