"""`Table`: the one door from a file, a data frame or a mapping to columns, whose errors name the row and the column.

A column is read as what it is used for: `text`, `number`, `flags`, `codes`, `times` or `lists`. Whatever type it has in
its table, it becomes that, or an error of luce. Rows are named by their line in a file of text, else counted from 0.
"""

from __future__ import annotations

import copy
import functools
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from luce.data.names import spelling
from luce.data.readers.border import FOREIGN, reason
from luce.data.text_files import number
from luce.errors import DataError, LuceError, LuceWarning, ParseError
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
R = TypeVar("R")
Source = str | Path | Mapping[str, Any] | Any
"""A file of a table (`luce.data.table_file`), a data frame of any library, or a mapping from column names to arrays."""
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_CALENDAR = (-719_162.0, 2_932_897.0)
"""Days since 1970 of the years 1 to 9999."""
_YES_NO = {**dict.fromkeys(("true", "yes", "1"), True), **dict.fromkeys(("false", "no", "0"), False)}


def check_names(names: Sequence[str], path: str | Path | None = None) -> None:
    """Refuse a name that stands over two columns: which of them is meant, nobody can say."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"wo columns are named {twice[0]!r}; every column needs a name of its own."
        raise DataError(f"T{what}") if path is None else ParseError(path, f"t{what}")


class Table:
    """Columns with names, which are known at once; their cells are read when asked for, whole or some rows at a time.

    >>> rows = Table.open({"item": ["x", "y"], "rank": [1, 2]}).choose([("item", "score"), ("item", "rank")])
    >>> rows["item"].text(), rows["rank"].number().tolist()
    (['x', 'y'], [1.0, 2.0])
    """

    kind = "frame"
    path: Path | None = None
    label = "The table"
    """How errors call it: its file or "The table"."""
    names: list[str]
    schema: pa.Schema
    """Names and types of the columns."""
    rows: int | None
    """How many rows there are, where that is known before they are read."""
    batch_rows = 16_384
    piece_rows = 1 << 19
    _keep: NDArray[np.bool_] | None = None

    @staticmethod
    def open(source: Source, encoding: str | None = None) -> Table:
        """The table of a path, a data frame of any library that narwhals knows, or a mapping of columns."""
        if isinstance(source, Table):
            return source
        if isinstance(source, str | Path):
            from luce.data.table_file import TableFile

            return TableFile(source, encoding=encoding)
        return TableFrame(source)

    def arrow(self, columns: Sequence[str], text: Sequence[str]) -> pa.Table:
        """These columns in this order; those in `text` are kept as text, whatever they look like."""
        raise NotImplementedError

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
        raise NotImplementedError

    @property
    def build(self) -> Callable[[dict[str, Any]], Any]:
        """Makes a table of results, of the same kind as this one."""
        raise NotImplementedError

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
        found = given if given is not None else next((name for name in usual if name in self.names), None)
        if found is not None and found in self.names:
            return found
        wanted = f"column {given if given is not None else usual[0]!r}" if given or usual else "column"
        wanted = f"column {given!r}" if given is not None else wanted
        like = [each for each in self.names if found is not None and spelling(each) == spelling(found)]
        hint = f" {like[0]!r} is another name." if like else ""
        have = ", ".join(self.names) or "none"
        raise DataError(f"{self.label} has no {wanted} for the {role}; its columns are {have}{advice}.{hint}")

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


class TableFrame(Table):
    """A data frame or a mapping."""

    def __init__(self, source: Any) -> None:
        import narwhals as nw

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
        if isinstance(frame, nw.Series):
            raise DataError("A column is no table; give a file, a data frame or a mapping.")
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        check_names([str(name) for name in frame.columns])
        self._backend = frame.implementation
        self._columns = {str(name): frame.get_column(name) for name in frame.columns}
        self._arrays: dict[str, pa.ChunkedArray] = {}
        self._index: list[str] = []
        self.names = list(self._columns)
        self.rows = len(frame)

    def with_index(self) -> TableFrame:
        """The same with the named levels of the index of a pandas frame as columns, which the schema marks as such."""
        import narwhals as nw

        index: Any = nw.maybe_get_index(next(iter(self._columns.values()))) if self._columns else None
        for level in index.names if index is not None else ():
            if level is not None and str(level) not in self._columns:
                values = index.get_level_values(level).to_series()
                self._columns[str(level)] = nw.from_native(values, series_only=True)
                self._index.append(str(level))
        self.names = list(self._columns)
        return self

    def keep(self, names: Sequence[str]) -> TableFrame:
        """The same with no other columns."""
        self._columns = {name: column for name, column in self._columns.items() if name in names}
        self.names = list(self._columns)
        return self

    def beside(self, columns: Mapping[str, Any]) -> TableFrame:
        """The same with further columns."""
        import pyarrow as pa

        for name, values in columns.items():
            try:
                self._arrays[name] = pa.chunked_array([pa.array(values)])
            except FOREIGN as error:
                raise DataError(f"The column {name!r} {_cannot(error)}.") from error
            self.names.append(name)
        return self

    def _array(self, name: str) -> pa.ChunkedArray:
        if name not in self._arrays:
            self._arrays[name] = self._converted(name)
        return self._arrays[name]

    def _converted(self, name: str) -> pa.ChunkedArray:
        import narwhals as nw
        import pyarrow as pa

        column = self._columns[name]
        # Python strings in a pandas frame: its own hash table is three times faster than a conversion to Arrow strings.
        is_slow = column.dtype == nw.String and str(getattr(column.to_native(), "dtype", "")) == "object"
        is_slow = is_slow and column.null_count() < len(column)
        try:
            found = (column.cast(nw.Categorical) if is_slow else column).to_arrow()
        except FOREIGN as error:
            raise DataError(f"The column {name!r} of the table {_mixture(column) or _cannot(error)}.") from error
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        import pyarrow as pa

        about = json.dumps({"index_columns": self._index}).encode()
        return pa.schema([(name, self._array(name).type) for name in self.names], metadata={b"pandas": about})

    def arrow(self, columns: Sequence[str], text: Sequence[str]) -> pa.Table:
        """These columns in this order."""
        import pyarrow as pa

        return pa.table({name: self._array(name) for name in columns})

    def batches(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """These columns, some rows at a time."""
        yield from self.arrow(columns, ()).to_batches(rows or self.batch_rows)

    @property
    def build(self) -> Callable[[dict[str, Any]], Any]:
        """Makes a data frame of the same library."""
        return functools.partial(_frame_of, self._backend)


def _frame_of(backend: Any, columns: dict[str, Any]) -> Any:
    import narwhals as nw

    return nw.from_dict(columns, backend=backend).to_native()


def _of_mapping(columns: Mapping[Any, Any]) -> pa.Table:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[str(name)] = pa.array(_values(values))
        except FOREIGN as error:
            raise DataError(f"The column {str(name)!r} does not make a table: {reason(error)}.") from error
    check_names([str(name) for name in columns])
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        short = min(sizes, key=lambda name: sizes[name])
        raise DataError(
            f"The column {short!r} has {sizes[short]} entries and others have {max(sizes.values())}; all need as many."
        )
    return pa.table(arrays)


def _values(values: Any) -> Any:
    """A column as Arrow takes it: lists in it stay lists, None stays empty."""
    if hasattr(values, "__arrow_array__") or hasattr(values, "__arrow_c_array__") or _is_plain(values):
        return values
    found = list(values)
    odd = any(one is None or isinstance(one, list | tuple | dict | np.ndarray) for one in found)
    return found if odd else np.asarray(found)


def _is_plain(values: Any) -> bool:
    import pyarrow as pa

    plain = isinstance(values, np.ndarray) and values.dtype != object
    return plain or isinstance(values, pa.Array | pa.ChunkedArray)


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


def _cannot(error: BaseException) -> str:
    return f"cannot be read: {reason(error)}"


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


def _bordered(method: Callable[Concatenate[Column, P], R]) -> Callable[Concatenate[Column, P], R]:
    """What other libraries raise at a column becomes an error with its name."""

    @functools.wraps(method)
    def inner(self: Column, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except LuceError:
            raise
        except FOREIGN as error:
            raise self.rows.table.wrong(f"the column {self.name!r} {_cannot(error)}.") from error

    return inner  # type: ignore[return-value]  # a method


class Column:
    """A column, of whatever type, as what it is used for."""

    def __init__(self, rows: Rows, name: str, array: Any, shown: str | None = None) -> None:
        import pyarrow as pa

        self.rows, self.name = rows, name
        self.shown = shown or name
        """How errors call an entry."""
        self._array = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])

    def called(self, shown: str) -> Column:
        """The same, whose entries errors call so."""
        return Column(self.rows, self.name, self._array, shown)

    def __len__(self) -> int:
        return len(self._array)

    @cached_property
    def coded(self) -> pa.ChunkedArray:
        """The column in a plain type; texts may be coded by a dictionary."""
        import pyarrow as pa

        if pa.types.is_dictionary(self._array.type) and is_text(self._array.type.value_type):
            return self._array
        return plain(self._array)

    @cached_property
    def array(self) -> pa.ChunkedArray:
        """The column in a plain type, without codes."""
        return plain(self._array)

    @property
    def is_list(self) -> bool:
        """Whether the entries are lists."""
        import pyarrow as pa

        return bool(pa.types.is_large_list(self.array.type))

    @property
    def is_number(self) -> bool:
        """Whether the entries are numbers."""
        return is_number(self.array.type)

    @property
    def is_flag(self) -> bool:
        """Whether the entries are true and false, as such."""
        import pyarrow as pa

        return bool(pa.types.is_boolean(self.array.type))

    def error(self, row: int, message: str) -> DataError:
        """An error about one of its entries."""
        return self.rows.error(row, f"{self.shown} {message}")

    def refused(self, wanted: str) -> DataError:
        """The error of a column whose type nothing can be made of."""
        kind = " ".join(str(self._array.type).split())
        kind = kind if len(kind) <= 60 else kind[:60] + "..."
        return self.rows.table.wrong(f"the column {self.name!r} holds {kind}; it must hold {wanted}.")

    def _empty(self, row: int) -> DataError:
        entry = self.array[row].as_py() if is_number(self.array.type) else None
        said = "empty" if entry is None else f"{entry:g}"
        lists = ", an empty list where there is nothing" if self.is_list else ""
        return self.error(row, f"is {said}; every row needs a value{lists}.")

    @_bordered
    def texts(self, gaps: bool = True) -> pa.Array:
        """Arrow texts, null where a cell is empty; 12.0, an id that went through a column of floats, is the id 12."""
        import pyarrow as pa

        if pa.types.is_nested(self.array.type):
            raise self.refused("texts or numbers")
        self._check_calendar(self.array)
        found = as_text(self.array)
        if found.null_count and not gaps:
            raise self._empty(first_true(found.is_null()))
        return found

    def text(self) -> list[str]:
        """Python texts, without white space around them; an empty cell is an empty text."""
        return [(text or "").strip() for text in self.texts().to_pylist()]

    @_bordered
    def codes(self) -> tuple[IntArray, list[str]]:
        """Every entry as a number into the list of different texts; an empty cell is an error."""
        import pyarrow as pa

        array = self.coded
        if pa.types.is_nested(array.type):
            raise self.refused("texts or numbers")
        if array.null_count:
            raise self._empty(first_true(array.is_null()))
        if not len(array):
            return np.empty(0, dtype=np.int64), []
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        coded = coded.unify_dictionaries()
        values = coded.chunk(0).dictionary
        places = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in coded.chunks])
        if pa.types.is_dictionary(array.type):  # as they appear, and only those that do
            first = np.full(len(values), len(places))
            first[places[::-1]] = np.arange(len(places))[::-1]
            order = np.argsort(first, kind="stable")[: int(np.sum(first < len(places)))]
            values, place = values.take(order), np.zeros(len(first), dtype=np.int64)
            place[order] = np.arange(len(order))
            places = place[places]
        self._check_calendar(values)
        texts = as_text(values)
        texts.validate(full=True)
        empty = texts.is_null().to_numpy(zero_copy_only=False)
        if is_number(values.type):
            empty = empty | ~np.isfinite(as_floats(values))
        if np.any(empty):
            raise self._empty(int(np.flatnonzero(empty[places])[0]))
        names: dict[str, int] = {}
        code = np.array([names.setdefault(text, len(names)) for text in texts.to_pylist()], dtype=np.int64)
        return code[places], list(names)

    def _check_calendar(self, values: Any) -> None:
        """Refuse dates that no calendar writes: their texts would be none."""
        import pyarrow as pa

        if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
            days = as_days(values)
            beyond = (days < _CALENDAR[0]) | (days >= _CALENDAR[1])
            if beyond.any():
                raise self.rows.table.wrong(
                    f"the column {self.name!r} holds a date {days[beyond][0] / 365.2425:,.0f} years from 1970; dates "
                    "lie in the years 1 to 9999."
                )

    @_bordered
    def number(
        self, what: str = "a finite number", *, least: float | None = None, default: float | None = None
    ) -> FloatArray:
        """Finite numbers, true and false as 1 and 0, also where they are texts; empty cells become `default`.

        With `least` none is smaller.
        """
        import pyarrow as pa

        if is_text(self.array.type):
            values = _parsed(self.array)
            empty = np.asarray(as_text(self.array).is_null())
        elif self.is_number or self.is_flag or pa.types.is_null(self.array.type):
            values = as_floats(self.array)
            empty = np.isnan(values)
        else:
            raise self.refused(f"numbers: {what}" if what != "a finite number" else "numbers")
        if least is not None:
            what = f"{what} of at least {least:g}"
        bad = ~np.isfinite(values) | (False if least is None else values < least)
        if default is not None:
            bad &= ~empty
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise self.error(row, f"is {_shown(self.array[row].as_py())}; it must be {what}.")
        return values if default is None else np.where(empty, default, values)

    @_bordered
    def floats(self) -> FloatArray:
        """Numbers and truth values as they are, also what is not finite; NaN where a cell is empty."""
        return as_floats(self.array)

    @_bordered
    def flags(self, what: str = "true or false, or 1 or 0") -> NDArray[np.bool_]:
        """True and false: as such, as 1 and 0, or as words."""
        if self.is_number or self.is_flag:
            values = self.number(what)
            wrong = (values != 0) & (values != 1)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise self.error(row, f"is {values[row]:g}; it must be {what}.")
            found: NDArray[np.bool_] = values == 1
            return found
        if not is_text(self.array.type):
            raise self.refused(what)
        codes, texts = self.codes()
        known = [_YES_NO.get(value.strip().lower()) for value in texts]
        known = [bool(v) if (v := number(t)) in (0, 1) else k for k, t in zip(known, texts, strict=True)]
        if None in known:
            row = int(np.flatnonzero(np.array([value is None for value in known])[codes])[0])
            raise self.error(row, f"is {texts[codes[row]]!r}; it must be {what}.")
        words: NDArray[np.bool_] = np.array(known, dtype=bool)[codes]
        return words

    @_bordered
    def times(self, default: float | None = None) -> tuple[FloatArray, bool]:
        """Numbers as they are, or dates as days since 1970-01-01 UTC; and whether they are dates.

        A date without a time zone is one of UTC; a column holds dates or numbers, not both. Empty cells become
        `default`.
        """
        import pyarrow as pa

        kind = self.array.type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            days, empty = as_days(self.array), np.asarray(self.array.is_null())
            if empty.any() and default is None:
                raise self._empty(int(np.flatnonzero(empty)[0]))
            self._check_calendar(self.array)
            return np.where(empty, default, days) if default is not None else days, True
        if is_number(kind):
            numbers = self.number("a finite number, or a date such as 2024-05-31", default=default)
            self._check_digits(numbers)
            return numbers, False
        if not is_text(kind) and not pa.types.is_null(kind):
            raise self.refused("dates or numbers")
        coded = as_text(self.array).dictionary_encode()
        empty = np.asarray(coded.is_null())
        if empty.any() and default is None:
            raise self._empty(int(np.flatnonzero(empty)[0]))
        found = [parse_time(text) for text in coded.dictionary.to_pylist()]
        places = np.where(empty, len(found), np.asarray(coded.indices.fill_null(0)))
        kinds = np.array([*("none" if time is None else "date" if time[1] else "number" for time in found), "empty"])
        for wrong in ("none", "number") if "date" in kinds else ("none",):
            if wrong in kinds:
                row = int(np.flatnonzero(kinds[places] == wrong)[0])
                written = str(coded.dictionary[int(places[row])].as_py()).strip()
                if wrong == "number" or number(written) == number(written):
                    raise self.error(row, f"mixes dates and numbers: {written!r} is a number; write 2024-05-31.")
                raise self.error(
                    row,
                    f"is {_shown(written)}; it must be a date such as 2024-05-31, a moment such as "
                    "2024-05-31T18:30:00+02:00, or a number.",
                )
        gap = np.nan if default is None else default
        values = np.array([*(np.nan if time is None else time[0] for time in found), gap], dtype=np.float64)[places]
        if "date" not in kinds:
            self._check_digits(values)
        return values, "date" in kinds

    def _check_digits(self, values: FloatArray) -> None:
        """Refuse numbers such as 20240531: eight digits that make a date of 1800 to 2199."""
        year, month, day = values // 10_000, values // 100 % 100, values % 100
        alike = (year >= 1800) & (year < 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        if len(values) and alike.all():
            raise self.rows.table.wrong(
                f"the column {self.name!r} holds numbers such as {values[0]:.0f}, which look like dates; write "
                "2024-05-31 for a date."
            )

    @_bordered
    def lists(self) -> tuple[IntArray, Column]:
        """How many entries the list of each row has, and all of them end to end."""
        import pyarrow.compute as pc

        if not self.is_list:
            raise self.refused("lists")
        if self.array.null_count:
            raise self._empty(first_true(self.array.is_null()))
        sizes = pc.list_value_length(self.array).to_numpy().astype(np.int64)
        flat = pc.list_flatten(self.array)
        return sizes, Column(self.rows.repeated(sizes), self.name, flat, f"an entry of {self.shown}")


def first_true(flags: Any) -> int:
    """The first place that is true."""
    return int(np.flatnonzero(flags.to_numpy(zero_copy_only=False))[0])


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        return "empty"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is that of texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is that of numbers; true and false are none."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def plain(array: Any) -> Any:
    """An Arrow column without the dress of its type: codes, runs, views, extensions, and lists of a fixed size."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    for _ in range(8):
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = pc.cast(array, kind.storage_type)
        elif types.is_dictionary(kind):
            array = pc.cast(array, kind.value_type)
        elif types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif types.is_string_view(kind):
            array = pc.cast(array, pa.large_string())
        elif str(kind) == "binary_view":
            array = pc.cast(array, pa.large_binary())
        elif types.is_float16(kind):
            array = pc.cast(array, pa.float32())
        elif types.is_list(kind) or types.is_fixed_size_list(kind) or str(kind).split("<")[0].endswith("list_view"):
            array = pc.cast(array, pa.large_list(kind.value_type))
        else:
            break
    return array


def as_floats(array: Any) -> FloatArray:
    """Numbers and truth values as float64; null is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    found = pc.cast(array, pa.float64(), safe=False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)


def as_days(array: Any) -> FloatArray:
    """Dates and moments as days since 1970-01-01 UTC, durations and times of day as days; null is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array, scale = pc.cast(array, pa.int32()), 1 if pa.types.is_date32(kind) else _DAY[kind.unit]
    else:
        array, scale = pc.cast(array, pa.int64()), _DAY["ms"] if pa.types.is_date64(kind) else _DAY[kind.unit]
    return as_floats(array) / scale


def as_text(column: Any) -> pa.Array:
    """A column as text, null where it is empty; 12.0, an id that went through a float column, is the id 12."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    whole = plain(whole)
    kind = whole.type
    texts = pc.cast(whole, pa.string())
    if pa.types.is_floating(kind):
        values = as_floats(whole)
        integral = (np.abs(values) < 2.0**63) & (values == np.floor(values))
        integers = np.where(integral, values, 0.0).astype(np.int64)
        texts = pc.if_else(pa.array(integral), pc.cast(pa.array(integers), pa.string()), texts)
        texts = pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.string()), texts)
    elif pa.types.is_decimal(kind):
        texts = pc.replace_substring_regex(texts, pattern=r"^(-?[0-9]+)\.0+$", replacement=r"\1")
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), pa.scalar(None, texts.type), texts)


def _parsed(texts: Any) -> FloatArray:
    """The number that each text is, NaN where it is none; true and false are 1 and 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(texts):
        return np.empty(0)
    coded = texts.dictionary_encode().unify_dictionaries()  # few different ones: look at each once
    words = pc.utf8_lower(pc.utf8_trim_whitespace(coded.chunk(0).dictionary))
    words = pc.if_else(pc.equal(words, "true"), "1", pc.if_else(pc.equal(words, "false"), "0", words))
    try:
        values = as_floats(pc.cast(words, pa.float64()))
    except pa.ArrowInvalid:  # Python reads some more forms, such as +1; what neither reads is NaN
        values = np.array([number(word) for word in words.to_pylist()], dtype=np.float64)
    values = np.append(values, np.nan)
    indices = [chunk.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False) for chunk in coded.chunks]
    found: FloatArray = values[np.concatenate(indices)]
    return found


_MOMENT = re.compile(
    r"(\d{4}-\d\d(?:-\d\d)?(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?) ?(?:Z|UTC|([+-])(\d\d):?(\d\d)?)?", re.ASCII
)


def parse_time(value: Any) -> tuple[float, bool] | None:
    """A number as it is, or a date as days since 1970-01-01 UTC; and whether it was a date. None: neither.

    >>> parse_time("1970-01-02T01:00:00+01:00"), parse_time("3.5"), parse_time("now")
    ((1.0, True), (3.5, False), None)
    """
    if isinstance(value, int | float | np.number):
        return float(value), False
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        text = value.isoformat() if hasattr(value, "isoformat") else str(value).strip()
        found = number(text)
        if np.isfinite(found):
            return found, False
        try:
            moment = _MOMENT.fullmatch(text)
            if moment is not None:
                at = np.datetime64(moment[1].replace(" ", "T"), "us").astype(np.int64) / _DAY["us"]
                ahead = 0 if moment[2] is None else 60 * int(moment[3]) + int(moment[4] or 0)
                return float(at) - (ahead if moment[2] == "+" else -ahead) / 1440.0, True
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86400, True
