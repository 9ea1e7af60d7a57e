"""Ids of a click log as numbers: in order of appearance over all its pieces, or as 64 bits each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.column import Column
from luce.types import IntArray

_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Codes:
    """Numbers for texts, in order of first appearance."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, column: Column) -> IntArray:
        """The number of every entry of a column."""
        return column.numbered(self.number)

    @property
    def texts(self) -> NDArray[Any]:
        """The texts, by number."""
        return np.array(list(self.number), dtype=object)


def hashed(column: Column) -> NDArray[np.uint64]:
    """64 bits for every entry of a column; equal entries have equal bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.array.type
    if pa.types.is_integer(kind) and not column.array.null_count:
        plain = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
        result: NDArray[np.uint64] = pc.cast(column.array, plain).to_numpy().astype(np.uint64)
        return result
    texts = pc.cast(column.texts(gaps=False), pa.large_binary())
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
