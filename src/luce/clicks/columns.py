"""Columns of a click log, whatever type they have: ids as texts and numbers, flags and positions as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError
from luce.types import FloatArray, IntArray

_PRIME = np.uint64(0x9E3779B97F4A7C15)


class BadEntry(Exception):
    """What is wrong with an entry, and its row; the reader knows where that row is."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row, self.message = row, message


def entries(batch: Any, name: str) -> Any:
    """The column of a batch, in a plain type; entries that are null, NaN or an empty text are refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(name)
    if pa.types.is_fixed_size_list(column.type):
        column = pc.cast(column, pa.list_(column.type.value_type))
    elif pa.types.is_string_view(column.type):
        column = pc.cast(column, pa.large_string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        lists = ", an empty list where there is nothing" if is_lists(column) else ""
        raise BadEntry(_first(column.is_null()), f"{name} is empty; every row needs a value{lists}.")
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        bad = _first(pc.invert(pc.is_finite(column)))
        raise BadEntry(bad, f"{name} is {column[bad].as_py():g}; every row needs a value.")
    texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if texts and pc.min(pc.binary_length(column)).as_py() == 0:
        raise BadEntry(_first(pc.equal(column, "")), f"{name} is empty; every row needs a value.")
    return column


def is_lists(column: Any) -> bool:
    """Whether the entries are lists."""
    import pyarrow as pa

    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def numbers(column: Any, what: str, allowed: str) -> FloatArray:
    """Numbers of a column of numbers, of texts of numbers, or of true and false."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encoded = pc.dictionary_encode(column)  # few different texts: look at each once
        values = np.array([_number(text.strip().lower()) for text in encoded.dictionary.to_pylist()])
        result: FloatArray = values[encoded.indices.to_numpy(zero_copy_only=False)]
        if np.isnan(result).any():
            bad = int(np.flatnonzero(np.isnan(result))[0])
            raise BadEntry(bad, f"{what} is {column[bad].as_py()!r}; it must be {allowed}.")
        return result
    try:
        result = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadEntry(0, f"{what} is {column[0].as_py()!r} ({column.type}); it must be {allowed}.") from None
    return result


def _number(text: str) -> float:
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        return np.nan


class Codes:
    """Numbers for texts, in order of first appearance."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, column: Any) -> IntArray:
        """The number of every entry of an Arrow array."""
        import pyarrow.compute as pc

        encoded = pc.dictionary_encode(column)
        known = self.number
        texts = _texts(encoded.dictionary).to_pylist()
        mapped = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int64)
        result: IntArray = mapped[encoded.indices.to_numpy(zero_copy_only=False)]
        return result

    @property
    def texts(self) -> NDArray[Any]:
        """The texts, by number."""
        return np.array(list(self.number), dtype=object)


def _texts(column: Any) -> Any:
    """Entries as texts; the number 12.0 is the id 12."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type) and pc.all(pc.less(pc.abs(column), 2.0**53)).as_py():
        whole = pc.cast(column, pa.int64(), safe=False)
        if pc.all(pc.equal(pc.cast(whole, pa.float64()), column)).as_py():
            column = whole
    try:
        return pc.cast(column, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"Ids of queries, documents and sessions are texts or numbers; the log has a column of {column.type}."
        ) from None


def hashed(column: Any) -> NDArray[np.uint64]:
    """64 bits for every entry of an Arrow array; equal entries have equal bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        plain = pa.uint64() if pa.types.is_unsigned_integer(column.type) else pa.int64()
        result: NDArray[np.uint64] = pc.cast(column, plain).to_numpy(zero_copy_only=False).astype(np.uint64)
        return result
    texts = pc.cast(_texts(column), pa.large_binary())
    _, ends, content = texts.buffers()
    bounds = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(content or b"", dtype=np.uint8)[bounds[0] : bounds[-1]].astype(np.uint64)
    bounds = bounds - bounds[0]
    sizes = np.diff(bounds)
    place = np.arange(len(letters)) - np.repeat(bounds[:-1], sizes)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(max(int(sizes.max(initial=0)), 1), _PRIME, dtype=np.uint64))
        weighted = np.append((letters + np.uint64(1)) * powers[place], np.uint64(0))
        sums = np.add.reduceat(weighted, np.minimum(bounds[:-1], len(letters)))
        return np.where(sizes > 0, sums, np.uint64(0)) * _PRIME


def _first(flags: Any) -> int:
    return int(np.flatnonzero(flags.to_numpy(zero_copy_only=False))[0])
