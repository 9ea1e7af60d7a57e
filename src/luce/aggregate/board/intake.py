"""Columns of any data frame or file as coded arrays, with errors that name the row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from luce.data.tables import column_names, read_table
from luce.errors import DataError
from luce.types import FloatArray, IntArray

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
    except DuplicateError as error:
        raise DataError("Two columns of the table have one name; every column needs a name of its own.") from error
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
    values = [plain(value) for value in column.chunk(0).dictionary.to_pylist()]
    blank = [value != value or (isinstance(value, str) and not value.strip()) for value in values]
    if any(blank) and np.any(np.array(blank)[codes]):
        row = int(np.flatnonzero(np.array(blank)[codes])[0])
        raise DataError(f"{label}: row {row + 1} has nothing in the column {name!r}; every row needs a value there.")
    return codes.astype(np.int64), values


def plain(value: Any) -> Any:
    """83.0 as 83: a column of ids with gaps, or one that was joined, is read as numbers with a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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


_YES_NO = {**dict.fromkeys(("true", "yes", "1"), True), **dict.fromkeys(("false", "no", "0"), False)}


def flags(column: pa.ChunkedArray, name: str, label: str) -> NDArray[np.bool_]:
    """A column of true and false, as booleans, 1 and 0, or words."""
    codes, found = encode(column, name, label)
    known = [_YES_NO.get(str(value).strip().lower()) for value in found]
    if None in known:
        wrong = np.array([value is None for value in known])[codes]
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{label}: row {row + 1} has {found[codes[row]]!r} in the column {name!r}; it is true or false."
        )
    return np.array(known, dtype=bool)[codes]


_MOMENT = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d)?)?(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?) ?(?:Z|UTC|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)


def read_times(column: pa.ChunkedArray, name: str, label: str) -> FloatArray:
    """Dates and moments as years since 1970, numbers as they are; a moment without a time zone is one of UTC."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = numbers(column, name, label)
        if len(values) and np.all(_like_dates(values)):
            raise DataError(
                f"{label}: the column {name!r} holds numbers such as {values[0]:.0f}, which look like dates; write "
                "2024-05-31 for a date."
            )
        return values
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise DataError(f"{label}: row {row + 1} has no time in the column {name!r}; every row needs one.")
        seconds = column.to_numpy().astype("datetime64[s]").astype(np.float64)
    else:
        codes, found = encode(column, name, label)
        known = [_moment(str(value).strip()) for value in found]
        if None in known:
            row = int(np.flatnonzero(np.array([moment is None for moment in known])[codes])[0])
            raise DataError(
                f"{label}: row {row + 1} has {found[codes[row]]!r} in the column {name!r}; it must be a date such as "
                "2024-05-31, a moment such as 2024-05-31T18:30:00Z, or a number."
            )
        seconds = np.array(known, dtype=np.float64)[codes]
    years: FloatArray = seconds / (86_400.0 * YEAR)
    return years


def _like_dates(values: FloatArray) -> NDArray[np.bool_]:
    """20240531: eight digits that make a date of 1800 to 2199."""
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    return (year >= 1800) & (year < 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)


def _moment(text: str) -> float | None:
    """Seconds since 1970 of ISO 8601, and of nothing else: NumPy would take 20240531 for a year, and 'now' and ''."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    try:
        moment = np.datetime64(found[1].replace(" ", "T"), "s")
    except ValueError:
        return None
    ahead = 0 if found[2] is None else 60 * int(found[3]) + int(found[4] or 0)
    return float(moment.astype(np.int64)) - (60.0 * ahead if found[2] == "+" else -60.0 * ahead)


def add_up(index: IntArray, weight: FloatArray | None, length: int) -> FloatArray:
    """Sums of the weights (1 where None) by index, always as float64."""
    return np.bincount(index, weight, length).astype(np.float64, copy=False)
