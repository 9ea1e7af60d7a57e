"""Everything ragged: queries as segments of flat arrays, and parallel work over them.

Kernels elsewhere are written for one query, serial and without the GIL; this module cuts the queries into fixed
chunks and runs the chunks on threads. Chunks depend on the data only and results are combined in chunk order,
so 1 and N threads give the same bits. Threads of our own rather than Numba's `parallel=True`: no OpenMP that dies
after a fork, no layer that aborts on concurrent calls, and kernels that compile in a third of the time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from luce.errors import DataError
from luce.numerics.threads import n_threads
from luce.types import BoolArray, FloatArray, IntArray

T = TypeVar("T")
Chunk = tuple[int, int]
"""First query and one past the last."""

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_inside = threading.local()


def _reset_after_fork() -> None:
    # The pool's threads do not survive a fork; a child that submitted to it would wait for ever.
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _executor(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size != size:
            # The old pool's threads end with their work; nobody else holds the pool itself.
            _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="luce"), size
        return _pool


def map_chunks(function: Callable[[int, Chunk], T], chunks: Sequence[Chunk]) -> list[T]:
    """`[function(i, chunk) ...]`, on threads; nested calls run serially."""
    threads = min(n_threads(), len(chunks))
    if threads <= 1 or getattr(_inside, "chunk", False):
        return [function(i, chunk) for i, chunk in enumerate(chunks)]
    results: list[Any] = [None] * len(chunks)
    following = iter(range(len(chunks)))

    def work() -> None:
        # Threads take the next chunk when they are free: a quarter of the cost of one future a chunk.
        _inside.chunk = True
        for i in following:
            results[i] = function(i, chunks[i])

    for future in [_executor(threads).submit(work) for _ in range(threads)]:
        future.result()
    return results


@contextmanager
def serial() -> Iterator[None]:
    """Within the block this thread works alone: for tasks of which a cluster runs several at once."""
    before = getattr(_inside, "chunk", False)
    _inside.chunk = True
    try:
        yield
    finally:
        _inside.chunk = before


def chunk_queries(offsets: IntArray, rows: int = 16_384) -> list[Chunk]:
    """Cut queries into runs of about `rows` rows each; a longer query is a chunk of its own.

    >>> chunk_queries(np.array([0, 3, 5, 6, 20, 21]), rows=6)
    [(0, 3), (3, 4), (4, 5)]
    """
    chunks, first, n = [], 0, len(offsets) - 1
    while first < n:
        last = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), n)
        chunks.append((first, last))
        first = last
    return chunks


def join_chunks(chunks: Sequence[Chunk], size: int) -> list[Chunk]:
    """Runs of `size` neighbouring chunks as one chunk each.

    >>> join_chunks([(0, 3), (3, 4), (4, 9)], 2)
    [(0, 4), (4, 9)]
    """
    return [(chunks[i][0], chunks[min(i + size, len(chunks)) - 1][1]) for i in range(0, len(chunks), size)]


def check_offsets(offsets: Any, n_rows: int) -> IntArray:
    """Query boundaries as int64: from 0 to `n_rows`, strictly increasing (no empty query)."""
    ends: IntArray = np.ascontiguousarray(offsets, dtype=np.int64)
    if ends.ndim != 1 or len(ends) < 1 or ends[0] != 0 or ends[-1] != n_rows:
        raise DataError(
            f"Query offsets must be a vector that starts at 0 and ends at the number of rows, {n_rows}; "
            f"got shape {ends.shape}" + (f" from {ends[0]} to {ends[-1]}." if ends.size else ".")
        )
    if np.any(np.diff(ends) <= 0):
        raise DataError("Query offsets must increase strictly: a query without documents was given.")
    return ends


def differing(values: FloatArray, offsets: IntArray) -> BoolArray:
    """For every query, whether its values differ.

    >>> differing(np.array([1.0, 2.0, 3.0, 3.0]), np.array([0, 2, 4])).tolist()
    [True, False]
    """
    return np.maximum.reduceat(values, offsets[:-1]) > np.minimum.reduceat(values, offsets[:-1])


def log_sums(values: FloatArray, firsts: IntArray, sizes: IntArray) -> FloatArray:
    """For every query, the log of the sum of the exponentials of its values, of which there is at least one.

    >>> np.exp(log_sums(np.log([1.0, 2.0, 3.0]), np.array([0, 2]), np.array([2, 1]))).round(12).tolist()
    [3.0, 3.0]
    """
    high = np.maximum.reduceat(values, firsts)
    total = np.add.reduceat(np.exp(values - np.repeat(high, sizes)), firsts)
    return high + np.log(total)


def shares(values: FloatArray, firsts: IntArray, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
    """For every query what `log_sums` gives, and for every value its share in the sum: a softmax a query.

    >>> shares(np.log([1.0, 3.0, 2.0]), np.array([0, 2]), np.array([2, 1]))[1].round(12).tolist()
    [0.25, 0.75, 1.0]
    """
    logs = log_sums(values, firsts, sizes)
    return logs, np.exp(values - np.repeat(logs, sizes))


def centred(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Values, or rows of them, less their mean over the query.

    >>> centred(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3])).tolist()
    [-1.0, 1.0, 0.0]
    """
    means = np.add.reduceat(values, offsets[:-1]).T / np.diff(offsets)
    return np.asarray(values - np.repeat(means.T, np.diff(offsets), axis=0))


def query_index(offsets: IntArray) -> IntArray:
    """The number of the query of every row.

    >>> query_index(np.array([0, 2, 5])).tolist()
    [0, 0, 1, 1, 1]
    """
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def runs(firsts: IntArray, sizes: IntArray) -> IntArray:
    """The places of runs that are laid end to end.

    >>> runs(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    return np.repeat(firsts - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)


class Tiers(NamedTuple):
    """Ordered partitions X_1 > X_2 > ... > X_K of every query, by label.

    `order` lists the rows of each query best first (rows of equal label in input order); tier t holds
    `order[starts[t]:starts[t + 1]]`; query q owns tiers `queries[q]` to `queries[q + 1]`.
    """

    order: IntArray
    starts: IntArray
    queries: IntArray


def tiers(labels: FloatArray, offsets: IntArray) -> Tiers:
    """Cut the items of every query into tiers of equal label, higher labels first: the partition [PMOP] (1).

    >>> t = tiers(np.array([0.0, 2, 0, 1, 1]), np.array([0, 3, 5]))
    >>> t.order.tolist(), t.starts.tolist(), t.queries.tolist()
    ([1, 0, 2, 3, 4], [0, 1, 3, 5], [0, 2, 3])
    """
    order = np.empty(len(labels), dtype=np.int64)
    new = np.empty(len(labels), dtype=bool)

    def cut(_: int, chunk: Chunk) -> None:
        # A chunk at a time: what sorting holds beside its result would be as large as the result.
        first, last = offsets[chunk[0]], offsets[chunk[1]]
        rows = slice(first, last)
        own = labels[rows]
        order[rows] = np.lexsort((-own, query_index(offsets[chunk[0] : chunk[1] + 1] - first))) + first
        ranked = labels[order[rows]]
        new[first + 1 : last] = ranked[1:] != ranked[:-1]

    map_chunks(cut, chunk_queries(offsets, 1 << 18))
    new[offsets[:-1]] = True
    firsts = np.flatnonzero(new).astype(np.int64)
    starts = np.append(firsts, np.int64(len(labels)))
    queries = np.searchsorted(firsts, offsets).astype(np.int64)
    return Tiers(order, starts, queries)
