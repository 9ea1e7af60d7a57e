"""`Column`: a column of whatever type as texts, numbers, flags, codes, times or lists; its errors name the row."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from luce.data.late import pa, pc
from luce.data.text_files import FOREIGN, number, reason
from luce.errors import DataError, LuceError
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.table import Rows

P = ParamSpec("P")
R = TypeVar("R")
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_CALENDAR = (-719_162.0, 2_932_897.0)
"""Days since 1970 of the years 1 to 9999."""
_WORDS = {"true": "1", "false": "0"}


def _bordered(method: Callable[Concatenate[Column, P], R]) -> Callable[Concatenate[Column, P], R]:
    """What other libraries raise at a column becomes an error with its name."""

    @functools.wraps(method)
    def inner(self: Column, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except LuceError:
            raise
        except FOREIGN as error:
            raise self.rows.table.wrong(f"the column {self.name!r} cannot be read: {reason(error)}.") from error

    return inner  # type: ignore[return-value]  # a method


class Column:
    """A column, of whatever type, as what it is used for."""

    def __init__(self, rows: Rows, name: str, array: Any, shown: str | None = None) -> None:
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
        if pa.types.is_dictionary(self._array.type) and is_text(self._array.type.value_type):
            return self._array
        return self.array

    @cached_property
    @_bordered
    def array(self) -> pa.ChunkedArray:
        """The column in a plain type, without codes."""
        return plain(self._array)

    @property
    def is_list(self) -> bool:
        """Whether the entries are lists."""
        return bool(pa.types.is_large_list(self.array.type))

    @property
    def is_number(self) -> bool:
        """Whether the entries are numbers."""
        return is_number(self.array.type)

    @property
    def is_flag(self) -> bool:
        """Whether the entries are true and false, as such."""
        return bool(pa.types.is_boolean(self.array.type))

    def error(self, row: int, message: str) -> DataError:
        """An error about one of its entries."""
        return self.rows.error(row, f"{self.shown} {message}")

    def refused(self, wanted: str) -> DataError:
        """The error of a column whose type nothing can be made of."""
        kind = " ".join(str(self._array.type).split())
        kind = kind if len(kind) <= 60 else kind[:60] + "..."
        return self.rows.table.wrong(f"the column {self.name!r} holds {kind}; it must hold {wanted}.")

    def _empty(self, gaps: Any) -> DataError:
        """The error of the first entry that is empty."""
        row = int(np.flatnonzero(gaps)[0])
        entry = self.array[row].as_py() if is_number(self.array.type) else None
        said = "empty" if entry is None else f"{entry:g}"
        lists = ", an empty list where there is nothing" if self.is_list else ""
        return self.error(row, f"is {said}; every row needs a value{lists}.")

    @_bordered
    def texts(self, gaps: bool = True) -> pa.Array:
        """Arrow texts, null where a cell is empty; 12.0, an id that went through a column of floats, is the id 12."""
        if pa.types.is_nested(self.array.type):
            raise self.refused("texts or numbers")
        found = as_text(self.array)
        if found.null_count and not gaps:
            raise self._empty(found.is_null())
        return found

    def text(self) -> list[str]:
        """Python texts, without white space around them; an empty cell is an empty text."""
        return [(text or "").strip() for text in self.texts().to_pylist()]

    def codes(self) -> tuple[IntArray, list[str]]:
        """Every entry as a number into the list of different texts; an empty cell is an error."""
        names: dict[str, int] = {}
        return self.numbered(names), list(names)

    @_bordered
    def numbered(self, names: dict[str, int]) -> IntArray:
        """The number of every entry; those that have none yet get the next ones, as they appear."""
        values, places = self._encoded()
        texts = as_text(values)
        texts.validate(full=True)
        empty = texts.is_null().to_numpy(zero_copy_only=False)
        if is_number(values.type):
            empty = empty | ~np.isfinite(as_floats(values))
        if np.any(empty):
            raise self._empty(empty[places])
        code: IntArray = np.array([names.setdefault(text, len(names)) for text in texts.to_pylist()], dtype=np.int64)
        return code[places]

    @_bordered
    def ids(self) -> tuple[IntArray, NDArray[Any]]:
        """Every entry as a number into the different ones: whole numbers where all of them are, and else texts."""
        values, places = self._encoded()
        return places, self._names(values, places)

    @_bordered
    def names(self) -> NDArray[Any]:
        """Every entry, a whole number where all of them are, and else a text."""
        if pa.types.is_nested(self.array.type):
            raise self.refused("texts or numbers")
        return self._names(self.array, slice(None))

    def _names(self, values: Any, places: IntArray | slice) -> NDArray[Any]:
        """Whole numbers or texts of the entries at `places` of these values, none of them empty."""
        if pa.types.is_integer(values.type) and values.type != pa.uint64() and not values.null_count:
            return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)
        texts = as_text(values)
        texts.validate(full=True)
        if texts.null_count:
            raise self._empty(np.asarray(texts.is_null())[places])
        nul = pc.match_substring(texts, "\0")
        if pc.any(nul).as_py():
            row = int(np.argmax(np.asarray(nul)[places]))
            raise self.error(row, "holds a NUL, which text does not have; rename the id.")
        return np.array(texts.to_pylist())

    def _encoded(self) -> tuple[pa.Array, IntArray]:
        """The different entries, as they appear, and the place of each entry among them; none may be empty."""
        array = self.coded
        if pa.types.is_nested(array.type):
            raise self.refused("texts or numbers")
        if array.null_count:
            raise self._empty(array.is_null())
        if not len(array):
            return pa.nulls(0, array.type), np.empty(0, dtype=np.int64)
        if pa.types.is_dictionary(array.type):
            chunks = array.unify_dictionaries().chunks
        else:  # all at once: dictionaries of many chunks would be joined one by one
            whole = array.combine_chunks()
            chunks = [one.dictionary_encode() for one in (whole.chunks if hasattr(whole, "chunks") else [whole])]
            chunks = chunks if len(chunks) == 1 else pa.chunked_array(chunks).unify_dictionaries().chunks
        values = chunks[0].dictionary
        places = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])
        if pa.types.is_dictionary(array.type):  # as they appear, and only those that do
            order = np.asarray(pc.unique(pa.array(places)))
            place = np.zeros(len(values), dtype=np.int64)
            place[order] = np.arange(len(order))
            values, places = values.take(order), place[places]
        return values, places.astype(np.int64, copy=False)

    @_bordered
    def number(
        self,
        what: str = "a finite number",
        *,
        above: float | None = None,
        least: float | None = None,
        most: float | None = None,
        whole: bool = False,
        default: float | None = None,
        words: Mapping[str, str] = _WORDS,
    ) -> FloatArray:
        """Finite numbers, true and false as 1 and 0, also where they are texts; empty cells become `default`.

        Numbers beyond the bounds are errors, and fractions where they must be `whole`. `words` are texts that stand for
        numbers.
        """
        if is_text(self.array.type):
            values = _parsed(self.array, words)
            empty = np.asarray(as_text(self.array).is_null())
        elif self.is_number or self.is_flag or pa.types.is_null(self.array.type):
            values = as_floats(self.array)
            empty = np.isnan(values)
        else:
            raise self.refused("numbers" if what == "a finite number" else what)
        bad = ~np.isfinite(values) | (whole & (values != np.floor(values)))
        if above is not None:
            what, bad = f"{what} above {above:g}", bad | (values <= above)
        if least is not None:
            what, bad = f"{what} of at least {least:g}", bad | (values < least)
        if most is not None:
            also = " of" if above is None and least is None else " and"
            what, bad = f"{what}{also} at most {most:g}", bad | (values > most)
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

    def flags(self, what: str = "true or false, or 1 or 0") -> NDArray[np.bool_]:
        """True and false: as such, as 1 and 0, or as words."""
        values = self.number(what, words=_WORDS | {"yes": "1", "no": "0"})
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if len(wrong):
            raise self.error(int(wrong[0]), f"is {values[wrong[0]]:g}; it must be {what}.")
        return np.asarray(values, dtype=bool)

    @_bordered
    def times(self, default: float | None = None) -> tuple[FloatArray, bool]:
        """Numbers as they are, or dates as days since 1970-01-01 UTC; and whether they are dates.

        A date without a time zone is one of UTC; a column holds dates or numbers, not both. Empty cells become
        `default`.
        """
        kind = self.array.type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            days, empty = as_days(self.array), np.asarray(self.array.is_null())
            if empty.any() and default is None:
                raise self._empty(empty)
            check_calendar(days)
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
            raise self._empty(empty)
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
        with np.errstate(invalid="ignore"):
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
        if not self.is_list:
            raise self.refused("lists")
        if self.array.null_count:
            raise self._empty(self.array.is_null())
        sizes = pc.list_value_length(self.array).to_numpy().astype(np.int64)
        flat = pc.list_flatten(self.array)
        return sizes, Column(self.rows.repeated(sizes), self.name, flat, f"an entry of {self.shown}")


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        return "empty"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is that of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is that of numbers; true and false are none."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def plain(array: Any) -> Any:
    """An Arrow column without the dress of its type: codes, runs, views, extensions, and lists of a fixed size."""
    for _ in range(8):
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = pc.cast(array, kind.storage_type)
        elif pa.types.is_dictionary(kind):
            chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
            array = pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], kind.value_type)
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif pa.types.is_string_view(kind):
            array = pc.cast(array, pa.large_string())
        elif str(kind) == "binary_view":
            array = pc.cast(array, pa.large_binary())
        elif pa.types.is_float16(kind):
            array = pc.cast(array, pa.float32())
        elif (
            pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or str(kind).split("<")[0].endswith("list_view")
        ):
            array = pc.cast(array, pa.large_list(kind.value_type))
        else:
            break
    return array


def as_floats(array: Any) -> FloatArray:
    """Numbers and truth values as float64; null is NaN."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    found = pc.cast(array, pa.float64(), safe=False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.float64)


def as_days(array: Any) -> FloatArray:
    """Dates and moments as days since 1970-01-01 UTC, durations and times of day as days; null is NaN."""
    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array, scale = pc.cast(array, pa.int32()), 1 if pa.types.is_date32(kind) else _DAY[kind.unit]
    else:
        array, scale = pc.cast(array, pa.int64()), _DAY["ms"] if pa.types.is_date64(kind) else _DAY[kind.unit]
    return as_floats(array) / scale


def check_calendar(days: FloatArray) -> None:
    """Refuse dates that no calendar writes: their texts would be none, or worse."""
    beyond = (days < _CALENDAR[0]) | (days >= _CALENDAR[1])
    if beyond.any():
        years = days[beyond][0] / 365.2425
        raise ValueError(f"a date lies {years:,.0f} years from 1970; dates are those of the years 1 to 9999")


def as_text(column: Any) -> pa.Array:
    """A column as text, null where it is empty; 12.0, an id that went through a float column, is the id 12."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    whole = plain(whole)
    kind = whole.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        check_calendar(as_days(whole))
    texts = pc.cast(whole, pa.string())
    if pa.types.is_floating(kind):
        values = as_floats(whole)
        integral = (np.abs(values) < 2.0**63) & (values == np.floor(values))
        integers = np.where(integral, values, 0.0).astype(np.int64)
        texts = pc.if_else(pa.array(integral), pc.cast(pa.array(integers), pa.string()), texts)
        texts = pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.string()), texts)
    elif pa.types.is_decimal(kind):
        texts = pc.replace_substring_regex(texts, pattern=r"^(-?[0-9]+)\.0+$", replacement=r"\1")
    blank = pc.or_(pc.equal(texts, ""), pc.utf8_is_space(texts))
    return pc.if_else(blank, pa.scalar(None, texts.type), texts) if pc.any(blank).as_py() else texts


def _parsed(texts: Any, known: Mapping[str, str]) -> FloatArray:
    """The number that each text is or stands for, NaN where it is none."""
    if not len(texts):
        return np.empty(0)
    coded = texts.dictionary_encode().unify_dictionaries()  # few different ones: look at each once
    words = pc.utf8_lower(pc.utf8_trim_whitespace(coded.chunk(0).dictionary))
    for word, digits in known.items():
        words = pc.if_else(pc.equal(words, word), digits, words)
    try:
        values = as_floats(pc.cast(words, pa.float64()))
    except pa.ArrowInvalid:  # Python reads some more forms, such as +1; what neither reads is NaN
        values = np.array([number(word) for word in words.to_pylist()], dtype=np.float64)
    values = np.append(values, np.nan)
    indices = [chunk.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False) for chunk in coded.chunks]
    return np.asarray(values[np.concatenate(indices)])


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
