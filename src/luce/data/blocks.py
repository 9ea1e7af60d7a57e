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

from luce.numerics.segments import Chunk, chunk_queries
from luce.types import FloatArray, IntArray

T = TypeVar("T")
BlockFunction = Callable[[NDArray[np.float32], FloatArray], T]
"""Features and labels of one block to whatever is wanted of it."""

BLOCK_BYTES = 4 << 20
"""Features of a block: small enough for the shared cache, large enough for what Python costs."""


@runtime_checkable
class Blocks(Protocol):
    """A data set that can be passed over: `Groups` in memory or on disk, and partitions of a cluster."""

    @property
    def n_rows(self) -> int:
        """Number of documents."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name a column."""

    @property
    def y(self) -> FloatArray:
        """Labels of all rows."""

    @property
    def offsets(self) -> IntArray:
        """Query boundaries of all rows."""

    @property
    def query_weight(self) -> FloatArray | None:
        """One weight a query, or None."""

    def map(self, function: BlockFunction[T], cuts: Sequence[Chunk]) -> Iterator[T]:
        """The function's results on these runs of queries, in their order."""


def cut_blocks(offsets: IntArray, n_features: int) -> list[Chunk]:
    """The blocks of a data set: runs of whole queries of about `BLOCK_BYTES`, at least 64 rows."""
    return chunk_queries(offsets, max(64, BLOCK_BYTES // (4 * max(n_features, 1))))
