"""Judged documents as something that is passed over block by block, wherever the features are.

What a scorer learns of its training set before training (moments, correlations) is a sum over blocks of rows. The
blocks are runs of whole queries that depend on the data only, and their sums are added in order. So a data set in
memory, one on disk and one that is spread over a cluster give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.types import FloatArray, IntArray

T = TypeVar("T")
BlockFunction = Callable[[NDArray[np.float32], FloatArray], T]
"""Features and labels of one block to whatever is wanted of it."""

BLOCK_BYTES = 4 << 20
"""Features of a block: small enough for the shared cache, large enough for what Python costs."""
_WAVE = 16
"""Blocks whose results are held at once."""


@runtime_checkable
class Blocks(Protocol):
    """A data set that can be passed over."""

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        ...

    @property
    def n_features(self) -> int:
        """Number of columns."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name a column."""
        ...

    @property
    def y(self) -> FloatArray:
        """Labels of all rows."""
        ...

    @property
    def offsets(self) -> IntArray:
        """Query boundaries of all rows."""
        ...

    @property
    def query_weight(self) -> FloatArray | None:
        """One weight a query, or None."""
        ...

    def map(self, function: BlockFunction[T], cuts: Sequence[Chunk]) -> Iterator[T]:
        """The function's results on these runs of queries, in their order."""
        ...


def cut_blocks(offsets: IntArray, n_features: int) -> list[Chunk]:
    """The blocks of a data set: runs of whole queries of about `BLOCK_BYTES`, at least 64 rows."""
    return chunk_queries(offsets, max(64, BLOCK_BYTES // (4 * max(n_features, 1))))


class InMemory:
    """Groups, passed over on threads; a memory map is read block by block."""

    def __init__(self, data: Groups) -> None:
        self._data = data
        self.n_rows, self.n_features, self.feature_names = data.n_rows, data.n_features, data.feature_names
        self.y, self.offsets, self.query_weight = data.y, data.offsets, data.query_weight

    def map(self, function: BlockFunction[T], cuts: Sequence[Chunk]) -> Iterator[T]:
        """The function's results on these runs of queries, in their order."""

        def on(_: int, cut: Chunk) -> T:
            rows = slice(self.offsets[cut[0]], self.offsets[cut[1]])
            return function(self._data.X[rows], self.y[rows])

        for first in range(0, len(cuts), _WAVE):
            yield from map_chunks(on, cuts[first : first + _WAVE])


def as_blocks(data: Groups | Blocks) -> Blocks:
    """Groups as blocks; blocks as they are."""
    return InMemory(data) if isinstance(data, Groups) else data
