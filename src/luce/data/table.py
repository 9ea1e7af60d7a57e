"""`Table`: the one door from a file, a data frame or a mapping to columns, whose errors name the row and the column.

Rows are named by their line in a file of text, else counted from 0.
"""

from __future__ import annotations

import copy
import functools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.column import Column
from luce.data.late import nw, pa
from luce.data.names import check_names, spelling
from luce.data.text_files import FOREIGN, reason
from luce.errors import DataError, LuceWarning, ParseError
from luce.types import IntArray

Source = str | Path | Mapping[str, Any] | Any
"""A file of a table (`luce.data.table_file`), a data frame of any library, or a mapping from column names to arrays."""


class Table:
    """Columns with names, which are known at once; their cells are read when asked for, whole or some rows at a time.

    This is a table in memory, a data frame or a mapping; `luce.data.table_file.TableFile` is one in a file. `beside`
    are further columns; with `index` the named levels of the index of a pandas frame are columns, too.

    >>> rows = Table.open({"item": ["x", "y"], "rank": [1, 2]}).choose([("item", "score"), ("item", "rank")])
    >>> rows["item"].text(), rows["rank"].number().tolist()
    (['x', 'y'], [1.0, 2.0])
    """

    kind = "frame"
    path: Path | None = None
    label = "The table"
    """How errors call it: its file or "The table"."""
    names: list[str]
    batch_rows = 16_384
    piece_rows = 1 << 19
    _keep: NDArray[np.bool_] | None = None

    def __init__(self, source: Any, beside: Mapping[str, Any] | None = None, *, index: bool = False) -> None:
        if isinstance(source, Mapping):
            source = _of_mapping(source)
        try:
            frame = nw.from_native(source)
        except TypeError as error:
            kind = type(source).__name__
            raise DataError(f"A {kind} is no table; give a file, a data frame or a mapping.") from error
        except nw.exceptions.DuplicateError as error:
            check_names([str(name) for name in getattr(source, "column_names", getattr(source, "columns", ()))])
            raise DataError(f"{reason(error)}; every column needs a name of its own.") from error
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        check_names([str(name) for name in frame.columns])
        self._backend, self._rows = frame.implementation, len(frame)
        self._columns = {str(name): frame.get_column(name) for name in frame.columns}
        levels: Any = nw.maybe_get_index(frame) if index else None
        self._index = [] if levels is None else [str(name) for name in levels.names if name is not None]
        for name in set(self._index) - set(self._columns):
            self._columns[name] = nw.from_native(levels.get_level_values(name).to_series(), series_only=True)
        self._arrays = dict(_arrays(beside or {}))
        self.names = [*self._columns, *self._arrays]

    @staticmethod
    def open(source: Source, encoding: str | None = None) -> Table:
        """The table of a path, a data frame of any library that narwhals knows, or a mapping of columns."""
        if isinstance(source, str | Path):
            from luce.data.table_file import TableFile

            return TableFile(source, encoding=encoding)
        return source if isinstance(source, Table) else Table(source)

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known before they are read."""
        return self._rows

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        about = json.dumps({"index_columns": self._index}).encode()
        return pa.schema([(name, self._array(name).type) for name in self.names], metadata={b"pandas": about})

    def _array(self, name: str) -> pa.ChunkedArray:
        if name not in self._arrays:
            column = self._columns[name]
            # Python strings in a pandas frame: its own hash table is thrice as fast as a conversion to Arrow strings.
            is_slow = column.dtype == nw.String and str(getattr(column.to_native(), "dtype", "")) == "object"
            try:
                found = column.cast(nw.Categorical).to_arrow() if is_slow else None
                found = column.to_arrow() if found is None or found.null_count == len(found) else found
            except FOREIGN as error:
                why = _mixture(column) or f"cannot be read: {reason(error)}"
                raise DataError(f"The column {name!r} of the table {why}.") from error
            self._arrays[name] = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
        return self._arrays[name]

    def arrow(self, columns: Sequence[str], text: Sequence[str]) -> pa.Table:
        """These columns in this order; those in `text` are kept as text, whatever they look like."""
        return pa.table({name: self._array(name) for name in columns})

    def batches(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """These columns by batches of about so many rows, all of one type.

        `types` are those that CSV is read as; texts in `coded` may come as codes of a dictionary, as Parquet has them.
        """
        yield from self.arrow(columns, ()).to_batches(rows or self.batch_rows)

    @property
    def build(self) -> Callable[[dict[str, Any]], Any]:
        """Makes a table of results, of the same kind as this one."""
        return functools.partial(_frame_of, self._backend)

    def line(self, row: int) -> int | None:
        """The line at which a row of a text begins, from 1."""
        return None

    def pieces(self, columns: Sequence[str]) -> Iterator[Rows]:
        """These columns, many rows at a time; a column may change its type from one piece to the next."""
        first = 0
        for batch in self._many(self.known(columns)):
            if len(batch):
                yield Rows(self, batch, first)
            first += len(batch)

    def _many(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return self.batches(columns, self.piece_rows)

    def read(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Rows:
        """All rows of these columns (None: of all); those in `text` are kept as text, whatever they look like."""
        wanted = self.known(self.names if columns is None else columns)
        self._tell_alike(wanted)
        rows = Rows(self, self.arrow(list(dict.fromkeys(wanted)), text))
        return rows if self._keep is None else rows.filter(self._keep)

    def choose(self, required: Sequence[Sequence[str]], optional: Sequence[str] = (), gaps: Sequence[str] = ()) -> Rows:
        """The columns of the first alternative in `required` that is there, and those of `optional` that are, as text.

        Cells may be empty in the columns of `gaps` only.
        """
        wanted = self.need(required)
        wanted += [name for name in optional if name in self.names and name not in wanted]
        rows = self.read(wanted, text=wanted)
        for name in wanted:
            if name not in gaps:
                rows[name].texts(gaps=False)
        return rows

    def need(self, required: Sequence[Sequence[str]]) -> list[str]:
        """The first alternative whose columns are all there."""
        found = next((list(each) for each in required if set(each) <= set(self.names)), None)
        if found is None:
            needed = " or ".join(", ".join(each) for each in required)
            raise self.wrong(f"the columns are {', '.join(self.names)}; needed are {needed}.")
        return found

    def column(self, name: str | None = None, *, role: str, usual: Sequence[str] = ()) -> Column:
        """One column: the one that is named, else the first that has a usual name of this role."""
        found = self.name(name, role=role, usual=usual)
        return self.read([found], [found])[found]

    def name(self, given: str | None = None, *, role: str, usual: Sequence[str] = (), advice: str = "") -> str:
        """The name of the column for a role: the one that is given, else the first usual one that is there."""
        wanted = usual if given is None else (given,)
        for name in wanted:
            if name in self.names:
                return name
        like = [each for each in self.names if spelling(each) in map(spelling, wanted)]
        hint = f" {like[0]!r} is another name." if like else ""
        what, have = " or ".join(map(repr, wanted)), ", ".join(self.names) or "none"
        raise DataError(f"{self.label} has no column {what} for the {role}; its columns are {have}{advice}.{hint}")

    def known(self, columns: Sequence[str]) -> list[str]:
        """The same names, which are those of columns."""
        for name in columns:
            if name not in self.names:
                raise self.wrong(f"there is no column {name!r}; the columns are {', '.join(self.names)}.")
        return list(columns)

    def keeping(self, keep: NDArray[np.bool_], label: str) -> Table:
        """The same table with some of its rows."""
        part = copy.copy(self)
        part._keep, part.label = keep, label
        return part

    def error(self, row: int, message: str) -> DataError:
        """An error about a row: by its line in a file of text, else counted from 0."""
        if self.path is None:
            return DataError(f"Row {row}: {message}")
        line = self.line(row)
        return ParseError(self.path, message if line is not None else f"row {row}: {message}", line)

    def wrong(self, message: str) -> DataError:
        """An error about the table as a whole."""
        if self.path is None:
            return DataError(f"{message[0].upper()}{message[1:]}")
        return ParseError(self.path, message)

    def say_unused(self, known: Sequence[str]) -> None:
        """Name the columns that are left aside: one of them may be a misspelt one of `known`."""
        unused = [name for name in self.names if name not in known]
        if unused:
            many = f"columns {', '.join(unused)} are" if len(unused) > 1 else f"column {unused[0]} is"
            message = f"{self.label}: the {many} not used; known are {', '.join(dict.fromkeys(known))}."
            warnings.warn(message, LuceWarning, stacklevel=3)

    def _tell_alike(self, used: Sequence[str]) -> None:
        """Say it where a column that is used looks like another one."""
        seen = {spelling(name): name for name in used}
        for name in self.names:
            if name not in used and (same := seen.get(spelling(name))) is not None:
                message = f"{self.label}: the column {same!a} is used and {name!a}, which looks the same, is not."
                warnings.warn(message, LuceWarning, stacklevel=4)
                return


def _frame_of(backend: Any, columns: dict[str, Any]) -> Any:
    return nw.from_dict(columns, backend=backend).to_native()


def _of_mapping(columns: Mapping[Any, Any]) -> pa.Table:
    check_names([str(name) for name in columns])
    arrays = dict(_arrays(columns))
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        short = min(sizes, key=lambda name: sizes[name])
        raise DataError(
            f"The column {short!r} has {sizes[short]} entries and others have {max(sizes.values())}; all need as many."
        )
    return pa.table(arrays)


def _arrays(columns: Mapping[Any, Any]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name, values in columns.items():
        try:
            found = pa.array(_values(values)) if not isinstance(values, pa.ChunkedArray) else values
            yield str(name), found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
        except FOREIGN as error:
            raise DataError(f"The column {str(name)!r} does not make a table: {reason(error)}.") from error


def _values(values: Any) -> Any:
    """A column as Arrow takes it: lists in it stay lists, None stays empty."""
    plain = isinstance(values, np.ndarray) and values.dtype != object
    if plain or any(hasattr(values, name) for name in ("__arrow_array__", "__arrow_c_array__", "__arrow_c_stream__")):
        return values
    found = list(values)
    odd = any(one is None or isinstance(one, list | tuple | dict | np.ndarray) for one in found)
    return found if odd else np.asarray(found)


def _mixture(column: Any) -> str:
    """Which rows of a column of Python objects have different types."""
    first: tuple[int, Any] | None = None
    for row, value in enumerate(column.to_list()):
        if value is None or value != value:
            continue
        if first is None:
            first = row, value
        elif type(value) is not type(first[1]):
            a, b = type(first[1]).__name__, type(value).__name__
            return f"mixes types: row {first[0]} is {a} and row {row} is {b}; make it all texts"
    return ""


class Rows:
    """Some rows of some columns of a table, in memory."""

    def __init__(self, table: Table, data: Any, first: int = 0, places: IntArray | None = None) -> None:
        self.table, self.data, self.first = table, data, first
        self.names: list[str] = list(data.schema.names)
        self._places = places
        """Which rows these are, counted from the first; None: all from there on."""

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Column:
        return Column(self, name, self.data.column(self.names.index(name)))

    def error(self, row: int, message: str) -> DataError:
        """An error about one of these rows."""
        return self.table.error(self.first + (row if self._places is None else int(self._places[row])), message)

    def filter(self, keep: NDArray[np.bool_]) -> Rows:
        """Some of these rows, by a mask."""
        places = np.arange(len(self)) if self._places is None else self._places
        return Rows(self.table, self.data.filter(keep), self.first, places[keep])

    def repeated(self, times: IntArray) -> Rows:
        """For columns that have several entries a row: the rows of the entries."""
        return Rows(self.table, self.data, self.first, np.repeat(np.arange(len(times)), times))


def frame_kind(X: Any) -> str | None:
    """One of "pandas", "polars" and "pyarrow"; None for what is no data frame."""
    known = nw.dependencies
    tests = {
        "pandas": known.is_pandas_dataframe,
        "polars": known.is_polars_dataframe,
        "pyarrow": known.is_pyarrow_table,
    }
    return next((kind for kind, test in tests.items() if test(X)), None)
