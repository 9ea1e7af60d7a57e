"""Columns of Arrow as float32 features: numbers, categories by code, dates in days; and what their values give away."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.column import as_days, as_floats, as_text, is_number, is_text, plain
from luce.data.late import pa, pc
from luce.data.schema import FEATURE, LEFT_OUT, Column, Schema, named_as_id
from luce.data.text_files import FOREIGN, reason
from luce.errors import DataError
from luce.types import FloatArray

MOST_CATEGORIES = 1000
"""A text with more values than this is a category only where it is named as one."""
_ROUNDED = "different numbers that float32, which has 7 digits, makes equal; subtract their start"
_EXACT = 2.0**24
"""Whole numbers up to this are float32 numbers."""
FEW_ROWS = 10
"""In fewer rows than this a column may equal the label or the row number, or have new categories only, by chance."""
_NUMBER_TEXT = re.compile(r"[-+]?[€$£]?\s?\d[\d.,'\s]*\s?[%€$£]?")
DISGUISED = "numbers or dates written as text"
_DIFFERENT = "a whole number that is different in every row"
LIKE_ID = f"{_DIFFERENT}; an id?"
_LABEL = re.compile(r"(.*[_ .-])?(label|grade|relevance|relevancy|rel|judge?ment|target)s?", re.IGNORECASE)
LIKE_LABEL = "called as labels are; if it is one, name it by label=, --label, or leave it out by drop=, --drop"


def type_name(type_: pa.DataType) -> str:
    """The type of a column as a schema has it."""
    if pa.types.is_dictionary(type_):
        return "text" if type_name(type_.value_type) != "other" else "other"
    tests = {
        "boolean": pa.types.is_boolean(type_),
        "number": is_number(type_),
        "text": is_text(type_),
        "date": pa.types.is_date(type_) or pa.types.is_timestamp(type_),
        "duration": pa.types.is_duration(type_) or pa.types.is_time(type_),
        "empty": pa.types.is_null(type_),
    }
    return next((name for name, holds in tests.items() if holds), "other")


def frame_index(schema: pa.Schema) -> list[str]:
    """The columns that were the index of a pandas frame, by what pandas writes into a file."""
    try:
        found = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
        return [name for name in found if isinstance(name, str)]
    except (ValueError, AttributeError, TypeError):
        return []


def numbers(array: pa.Array, type_: str) -> NDArray[Any]:
    """Numbers, truth values, dates and durations as floats; null is NaN."""
    if type_ == "date" and pa.types.is_string(array.type):
        array = pc.cast(array, pa.timestamp("us"))
    if type_ in ("date", "duration"):
        return as_days(array)
    if pa.types.is_floating(array.type) and not array.null_count and array.type != pa.float16():
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return as_floats(plain(array))


class Encoder:
    """Fills rows of X from batches, and learns from them what a schema does not say before the values are seen.

    With `fixed` the schema is that of other data: categories keep their codes, and one that is new has a code of its
    own.
    """

    def __init__(self, schema: Schema, *, fixed: bool, allow_nan: bool, automatic: bool) -> None:
        self.schema = schema
        self.fixed = fixed
        self.rows = 0
        self._allow_nan = allow_nan
        self._automatic = automatic
        self._columns = [_Learner(column, fixed, automatic) for column in schema.cells]

    def fill(self, X: NDArray[np.float32], batch: pa.RecordBatch, labels: FloatArray | None) -> None:
        """Write the features of a batch into as many rows of X."""
        found = [learner.values(batch.column(learner.column.name)) for learner in self._columns]
        with np.errstate(over="ignore"):
            for j, values in enumerate(found):
                X[:, j] = values
                if self.fixed:
                    self._columns[j].compare(values, self.rows)
        # A sum is finite unless an entry is not (or it overflows, which the second look sorts out): one cheap pass.
        if not np.isfinite(X.sum(dtype=np.float64)):
            for j, values in enumerate(found):
                self._check(X[:, j], values, self._columns[j].column)
        if not self.fixed:
            for learner, values in zip(self._columns, found, strict=True):
                learner.look(values, labels, self.rows)
        self.rows += len(X)

    def _check(self, stored: NDArray[np.float32], values: NDArray[Any], column: Column) -> None:
        if column.type in ("category", "text"):
            return
        bad = np.isinf(stored) if self._allow_nan else ~np.isfinite(stored)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"The feature {column.name!r} of row {self.rows + row} is {values[row]}; features must be finite "
                "float32 numbers" + ("." if self._allow_nan else " (allow_nan=True admits NaN and nulls).")
            )

    def finish(self) -> tuple[Schema, list[NDArray[np.float32] | None], NDArray[np.intp]]:
        """The schema with what was learned, new codes for each column (None: as they are), and the columns to keep."""
        learned = [learner.finish(self.rows) for learner in self._columns]
        columns = [column for column, _ in learned]
        used = [column for column in columns if column.role == FEATURE]
        ids = [c for c in used if c.why == LIKE_ID]
        if self.schema.text is None:  # where nothing but ids would be features, none of them is
            numbered = any(c.why in (LIKE_ID, "the number of the row") for c in columns)
            ids = used if numbered and all(c.why == LIKE_ID or named_as_id(c.name) for c in used) else []
        if self._automatic:
            columns = [replace(c, role=LEFT_OUT, why=c.why or "called as an id") if c in ids else c for c in columns]
        kept = np.array([j for j, column in enumerate(columns) if column.role == FEATURE], dtype=np.intp)
        if not len(kept) and self.schema.text is None:
            schema = self.schema.with_columns(columns)
            left = "; ".join(f"{column.name}: {column.why}" for column in schema.left_out)
            texts = f" Not used as they are: {found}." if (found := schema.unused_texts()) else ""
            raise DataError(f"No column is left for features ({left}); name them by features=, --features.{texts}")
        return self.schema.with_columns(columns), [codes for _, codes in learned], kept

    def without_values(self) -> list[str]:
        """Columns that other data had values of, and these have none of."""
        few = not self.fixed or self.rows < FEW_ROWS
        return [] if few else [each.column.name for each in self._columns if not each.filled]

    def unknown(self) -> dict[str, tuple[int, int]]:
        """Of each category column, how many values other data did not have, and how many there are."""
        return {each.column.name: (each.strange, each.named) for each in self._columns if each.strange}


class _Learner:
    """What one column is, batch by batch."""

    def __init__(self, column: Column, fixed: bool, automatic: bool) -> None:
        self.column = column
        self.strange = self.named = 0
        self.filled = False
        self._is_text = column.type in ("text", "category")
        self._asked = column.type == "category" or not automatic
        self._automatic = automatic
        self._fixed = fixed
        self._codes: dict[str, int] = {name: i for i, name in enumerate(column.categories)}
        self._full = False
        self._last: tuple[pa.Array, NDArray[np.float32], NDArray[np.bool_]] | None = None
        self._like_label = self._like_order = self._constant = not fixed and not self._is_text
        self._first: float | None = None
        self._rounded = False
        self._start: float | None = None
        self._different: list[NDArray[Any]] | None = None if fixed or self._is_text else []

    def values(self, array: pa.Array) -> NDArray[Any]:
        if self._full:
            return np.zeros(len(array), dtype=np.float32)
        try:
            return self._encoded(array) if self._is_text else numbers(array, self.column.type)
        except FOREIGN as error:
            raise DataError(f"The values of {self.column.name!r} cannot be read: {reason(error)}.") from error

    def _encoded(self, array: pa.Array) -> NDArray[np.float32]:
        """Codes of categories: through the few values that a batch has, not row by row."""
        encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
        if self._last is None or not encoded.dictionary.equals(self._last[0]):
            self._last = (encoded.dictionary, *self._code(encoded.dictionary))
        _, codes, strange = self._last
        index = encoded.indices.fill_null(len(codes) - 1) if encoded.null_count else encoded.indices
        places = index.to_numpy(zero_copy_only=False)
        if self._fixed:
            self.strange += int(np.count_nonzero(strange[places]))
            self.named += int(np.count_nonzero(~np.isnan(codes[places])))
        elif len(self._codes) > 100 * MOST_CATEGORIES and not self._asked:
            self._full = True
        return np.asarray(codes[places])

    def _code(self, values: pa.Array) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The code of each value and at the end that of a gap; and which values are not among the known ones."""
        texts = as_text(values)
        texts.validate(full=True)
        known, new = self._codes, len(self._codes)
        codes = np.empty(len(texts) + 1, dtype=np.float32)
        codes[-1] = np.nan
        strange = np.zeros(len(texts) + 1, dtype=bool)
        for i, text in enumerate(texts.to_pylist()):
            if text is None:
                codes[i] = np.nan
            elif self._fixed:
                codes[i] = known.get(text, new)
                strange[i] = text not in known
            else:
                codes[i] = known.setdefault(text, len(known))
        return codes, strange

    def compare(self, values: NDArray[Any], first_row: int) -> None:
        """Hold the values against what the column was in other data."""
        self.filled = self.filled or not np.isnan(values).all()
        if self.column.type == "boolean":
            other = np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))
            if other.size:
                raise DataError(
                    f"The column {self.column.name!r} held true and false before, and is {values[other[0]]:g} in row "
                    f"{first_row + other[0]}; give 0 and 1, or true and false."
                )

    def look(self, values: NDArray[Any], labels: FloatArray | None, first_row: int) -> None:
        """Drop the suspicions that these values refute; most fall at the first batch."""
        if self._is_text or not len(values):
            return
        if self._constant:
            self._first = float(values[0]) if self._first is None else self._first
            self._constant = bool((values == self._first).all() or (np.isnan(self._first) and np.isnan(values).all()))
        exact = self._rounded or self.column.type != "number" or values.dtype == np.float32
        if not exact and max(np.fmax.reduce(values), -np.fmin.reduce(values)) > _EXACT:
            different = np.unique(values[~np.isnan(values)])
            self._rounded = len(np.unique(different.astype(np.float32))) < len(different)
        if self._like_label:
            self._like_label = labels is not None and bool(np.array_equal(values, labels))
        if self._like_order:
            self._start = float(values[0]) - first_row if self._start is None else self._start
            self._like_order = bool((values == self._start + first_row + np.arange(len(values))).all())
        if self._different is not None:
            whole = self.column.type == "number" and bool((values == np.floor(values)).all())
            if whole and len(np.unique(values)) == len(values):
                self._different.append(np.array(values))
            else:
                self._different = None

    def finish(self, rows: int) -> tuple[Column, NDArray[np.float32] | None]:
        if self._fixed:
            return self.column, None
        if not self._is_text:
            return self._odd(rows), None
        names = sorted(self._codes)
        why = ""
        if not names:
            why = "empty"
        elif not self._asked and len(names) == rows and rows > 1:
            why = self._disguised(names) or "a text that is different in every row"
        elif not self._asked and len(names) > MOST_CATEGORIES:
            why = f"a text with more than {MOST_CATEGORIES:,} values"
        if why and (self._automatic or not names):
            return replace(self.column, role=LEFT_OUT, type="text", why=why), None
        codes = np.full(len(names) + 1, np.nan, dtype=np.float32)  # the last one is that of a gap
        codes[[self._codes[name] for name in names]] = np.arange(len(names))
        note = "one value in all rows" if len(names) == 1 else self._disguised(names)
        several = sum(len(name.split(maxsplit=3)) > 2 for name in names)
        if not note and not self._asked and 2 * len(names) > rows >= FEW_ROWS and several > rows / 2:
            note = "mostly different texts of several words; text=, --text compares such with that of the query"
        return replace(self.column, type="category", categories=tuple(names), why=note or self._called), codes

    def _disguised(self, names: Sequence[str]) -> str:
        """What is odd about names that are all numbers with marks that no number of a table has."""
        if self.column.type == "category" or not all(map(_NUMBER_TEXT.fullmatch, names)):
            return ""
        marked = [name for name in names if not name.strip().isdigit()]
        return f"{DISGUISED}, such as {marked[0]!r}; convert them, or name the column in categorical" if marked else ""

    def _odd(self, rows: int) -> Column:
        column = self.column
        if self._constant and self._first is not None and np.isnan(self._first):
            return replace(column, role=LEFT_OUT if self._automatic else FEATURE, why="empty")
        many = rows >= FEW_ROWS
        if many and self._constant:
            return replace(column, why="one value in all rows")
        if many and self._like_label:
            return replace(column, role=LEFT_OUT if self._automatic else FEATURE, why="equal to the label")
        if many and self._like_order and self._automatic:
            return replace(column, role=LEFT_OUT, why="the number of the row")
        if self._automatic and (many or (rows > 1 and named_as_id(column.name))) and self._different:
            together = np.concatenate(self._different)
            if len(np.unique(together)) == rows:
                rising = bool((np.diff(together) > 0).all())
                return replace(column, why=LIKE_ID if rising or named_as_id(column.name) else _DIFFERENT)
        return replace(column, why=_ROUNDED if self._rounded else self._called)

    @property
    def _called(self) -> str:
        """What the name of a feature that nobody asked for gives away."""
        return LIKE_LABEL if self._automatic and _LABEL.fullmatch(self.column.name) else ""


def encode_rows(schema: Schema, rows: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
    """The features of rows given as dictionaries, such as JSON has them; what a row leaves out is NaN.

    >>> brand = Column("brand", "feature", "category", ("acme", "zeta"))
    >>> encode_rows(Schema((brand,)), [{"brand": "zeta"}, {"brand": "new"}, {}])[:, 0].tolist()
    [1.0, 2.0, nan]
    """
    X = np.empty((len(rows), len(schema.features)), dtype=np.float32)
    arrays = {}
    for column in schema.features:
        try:
            array = pa.array([row.get(column.name) for row in rows])
            arrays[column.name] = pa.nulls(len(rows), pa.string()) if pa.types.is_null(array.type) else array
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise DataError(f"The values of {column.name!r} cannot be read: {reason(error)}.") from error
    batch = pa.record_batch(arrays)
    Encoder(schema, fixed=True, allow_nan=True, automatic=False).fill(X, batch, None)
    return X
