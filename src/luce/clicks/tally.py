"""Adding up a log of any length: keys with their sums, and which sessions were met, in memory that stays bounded."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from luce.types import FloatArray, IntArray

_MERGE_ROWS = 1 << 20
"""Rows that wait at least before they are merged."""
_HELD_SESSIONS = 1 << 22
"""Sessions that are kept in memory; more of them go to a temporary file."""


class Tally:
    """Rows of keys with sums, added batch by batch; memory grows with the number of different keys alone.

    >>> tally = Tally(width=1)
    >>> for _ in range(2):
    ...     tally.add(np.array([[7], [3], [7]]), np.ones((3, 1)))
    >>> tally.table().tolist()
    [[3.0, 2.0], [7.0, 4.0]]
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._merged: FloatArray | None = None
        self._waiting: list[FloatArray] = []

    def add(self, keys: IntArray, sums: FloatArray) -> None:
        """Add rows; they are merged when more wait than were merged before, so that each is moved few times."""
        self._waiting.append(added_up(keys, sums))
        if sum(map(len, self._waiting)) > max(_MERGE_ROWS, 0 if self._merged is None else len(self._merged)):
            self.table()

    def table(self) -> FloatArray:
        """Every key once, in order, with its sums."""
        parts = ([] if self._merged is None else [self._merged]) + self._waiting
        if not parts:
            return np.empty((0, self.width + 1))
        if len(parts) > 1:
            joint = np.concatenate(parts)
            self._merged = added_up(joint[:, : self.width].astype(np.int64), joint[:, self.width :])
        else:
            self._merged = parts[0]
        self._waiting = []
        return self._merged


def added_up(keys: IntArray, sums: FloatArray) -> FloatArray:
    """Rows of keys, each once and in order, with the sums of what stood beside them."""
    if not len(keys):
        return np.empty((0, keys.shape[1] + sums.shape[1]))
    packed = _packed(keys)
    order = np.argsort(packed, kind="stable") if packed is not None else np.lexsort(keys.T[::-1])
    ordered = keys[order]
    firsts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    return np.column_stack([ordered[firsts], np.add.reduceat(sums[order], firsts)])


def _packed(keys: IntArray) -> NDArray[np.int64] | None:
    """One number a row, in the order of the rows; None where 62 bits do not hold it."""
    most = [int(column.max()) + 1 for column in keys.T]
    if np.prod([float(m) for m in most]) >= 2.0**62:
        return None
    packed = np.zeros(len(keys), dtype=np.int64)
    for column, m in zip(keys.T, most, strict=True):
        packed = packed * m + column
    return packed


class MetSessions:
    """Whether a session was met twice, by 64 bits a session; beyond some millions they wait in a temporary file.

    The file holds sorted blocks of one size. A part of the range of numbers is a slice of each block, so that all parts
    together are read once.
    """

    def __init__(self, held: int = _HELD_SESSIONS) -> None:
        self.held = held
        self._waiting: list[NDArray[np.uint64]] = []
        self._file: IO[bytes] | None = None

    def add(self, sessions: NDArray[np.uint64]) -> None:
        """Sessions that ended."""
        self._waiting.append(sessions)
        if sum(map(len, self._waiting)) >= self.held:
            everything = np.concatenate(self._waiting)
            whole = len(everything) // self.held * self.held
            self._waiting = [everything[whole:]]
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            for start in range(0, whole, self.held):
                np.sort(everything[start : start + self.held]).tofile(self._file)

    def met_again(self) -> bool:
        """Whether one of them was added more than once."""
        rest = np.sort(np.concatenate([*self._waiting, np.empty(0, np.uint64)]))
        if self._file is None:
            return _repeats(rest)
        self._file.flush()
        blocks: Any = np.memmap(self._file, dtype=np.uint64, mode="r").reshape(-1, self.held)
        edges = np.linspace(0, 2.0**64, len(blocks) + 2)[1:-1].astype(np.uint64)
        cuts = [np.concatenate([[0], np.searchsorted(b, edges), [len(b)]]) for b in (*blocks, rest)]
        return any(
            _repeats(np.sort(np.concatenate([b[c[i] : c[i + 1]] for b, c in zip((*blocks, rest), cuts, strict=True)])))
            for i in range(len(edges) + 1)
        )

    def close(self) -> None:
        """Delete the temporary file."""
        if self._file is not None:
            self._file.close()


def _repeats(ordered: NDArray[np.uint64]) -> bool:
    return bool(np.any(ordered[1:] == ordered[:-1]))
