"""Columns of a table as text, from a file, a data frame or a mapping alike; errors name the line or row."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.readers.border import reason
from luce.data.tables import TableFile, check_names
from luce.data.text_files import number
from luce.errors import DataError, LuceWarning, ParseError
from luce.types import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

Source = str | Path | Mapping[str, Any] | Any
"""A file of a table (`luce.data.tables`), a data frame of any library, or a mapping from column names to arrays."""


class TextTable(NamedTuple):
    """Columns of text, null where a cell is empty, and where they come from."""

    columns: dict[str, pa.Array]
    file: TableFile | None
    unused: tuple[str, ...] = ()
    """Columns of the source that nobody asked for."""

    def say_unused(self, known: Sequence[str]) -> None:
        """Name the columns that are left aside: one of them may be a misspelt one of `known`."""
        if self.unused:
            where = "The table" if self.file is None else str(self.file.path)
            many = f"columns {', '.join(self.unused)} are" if len(self.unused) > 1 else f"column {self.unused[0]} is"
            message = f"{where}: the {many} not used; known are {', '.join(dict.fromkeys(known))}."
            warnings.warn(message, LuceWarning, stacklevel=3)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def error(self, row: int, message: str) -> DataError:
        """An error about a row: by its line in a file of text, else counted from 0."""
        if self.file is None:
            return DataError(f"Row {row}: {message}")
        line = self.file.line(row)
        return ParseError(self.file.path, message if line is not None else f"row {row}: {message}", line)

    def texts(self, column: str) -> list[str]:
        """A column as Python texts, without white space around them; an empty cell is an empty text."""
        return [(text or "").strip() for text in self.columns[column].to_pylist()]

    def numbers(self, column: str, what: str = "a finite number", default: float | None = None) -> FloatArray:
        """A column as finite numbers, true and false as 1 and 0; empty cells become `default`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = self.columns[column]
        plain = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
        plain = pc.if_else(pc.equal(plain, "true"), "1", pc.if_else(pc.equal(plain, "false"), "0", plain))
        try:
            values: NDArray[Any] = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # Python reads some more forms, such as +1; what neither reads is NaN
            values = np.array([np.nan if text is None else number(text) for text in plain.to_pylist()])
        empty = texts.is_null().to_numpy(zero_copy_only=False)
        bad = ~np.isfinite(values) & ~(empty if default is not None else False)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise self.error(row, f"{column} is {_shown(texts[row].as_py())}; it must be {what}.")
        return np.where(empty, default, values).astype(np.float64) if default is not None else values.astype(np.float64)


def _shown(text: str | None) -> str:
    return "empty" if text is None else repr(text if len(text) <= 40 else text[:40] + "...")


def text_table(
    source: Source, required: Sequence[Sequence[str]], optional: Sequence[str] = (), gaps: Sequence[str] = ()
) -> TextTable:
    """The columns of the first alternative in `required` that is there, and those of `optional` that are, as text.

    Cells may be empty in the columns of `gaps` only.

    >>> table = text_table({"item": ["x", "y"], "rank": [1, 2]}, [("item", "score"), ("item", "rank")])
    >>> table.texts("item"), table.numbers("rank").tolist()
    (['x', 'y'], [1.0, 2.0])
    """
    file = TableFile(source) if isinstance(source, str | Path) else None
    names = file.names if file is not None else None
    table = None if file is not None else _arrow(source)
    names = table.column_names if table is not None else names
    wanted = next((list(each) for each in required if set(each) <= set(names or ())), None)
    if wanted is None:
        needed = " or ".join(", ".join(each) for each in required)
        what = f"the columns are {', '.join(names or ())}; needed are {needed}."
        raise DataError(f"T{what[1:]}") if file is None else ParseError(file.path, what)
    wanted += [name for name in optional if name in (names or ()) and name not in wanted]
    if file is not None:
        with file.border():
            table = file.read(wanted, text=wanted)
            columns = {name: as_text(table.column(name)) for name in wanted}
    else:
        columns = {name: as_text(table.column(name)) for name in wanted}  # type: ignore[union-attr]
    result = TextTable(columns, file, tuple(name for name in names or () if name not in columns))
    for name, column in columns.items():
        if column.null_count and name not in gaps:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise result.error(row, f"{name} is empty; every row needs a value.")
    return result


def _arrow(source: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(source, Mapping):
        try:
            return pa.table({str(name): pa.array(np.asarray(values)) for name, values in source.items()})
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise DataError(f"These columns do not make a table: {reason(error)}.") from error
    import narwhals as nw

    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError as error:
        raise DataError(f"A {type(source).__name__} is no table; give a file, a data frame or a mapping.") from error
    check_names([str(name) for name in frame.columns])
    try:
        return frame.to_arrow()
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise DataError(f"A column of the table cannot be read: {reason(error)}.") from error


def as_text(column: Any) -> pa.Array:
    """A column as text, null where it is empty; 12.0, an id that went through a float column, is the id 12."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_floating(whole.type):
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(None, whole.type), whole)
        rounded = pc.cast(whole, pa.int64(), safe=False)
        if pc.all(pc.equal(pc.cast(rounded, pa.float64(), safe=False), whole)).as_py():
            whole = rounded
    texts = pc.cast(whole, pa.string())
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), ""), pa.scalar(None, pa.string()), texts)
