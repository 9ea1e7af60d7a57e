"""A matrix that grows in rows and columns in place, so that reading needs X and not twice X."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError
from luce.numerics.compiled import kernel
from luce.types import IntArray


def check_memory(
    rows: int,
    columns: int,
    kinds: tuple[str, str] = ("documents", "features"),
    size: int = 4,
    advice: str = "number the features without gaps, or use `luce convert` to a .lucedata file",
) -> None:
    """Refuse a dense matrix that this machine cannot hold, before the system ends the process for it."""
    try:
        at_hand = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    needed = size * rows * columns
    if needed > at_hand:
        raise DataError(
            f"{rows} {kinds[0]} x {columns} {kinds[1]} need {needed / 2**30:.1f} GB of memory, and this machine has "
            f"{at_hand / 2**30:.1f} GB; {advice}."
        )


class GrowingMatrix:
    """Rows of float32 in one flat buffer.

    `ndarray.resize` is `realloc`, which moves pages and copies nothing on Linux; rows are spread in place when a
    wider one arrives. Rejected: a list of blocks joined at the end (twice the memory), and a first pass that only
    counts (twice the decompression).
    """

    def __init__(self, width: int, fill: float) -> None:
        self.width = width
        self._fill = np.float32(fill)
        self._flat = np.empty(0, dtype=np.float32)

    def reserve(self, rows: int, used: int) -> None:
        """Make room for `rows` rows, of which the first `used` hold values."""
        needed = rows * self.width
        if needed > len(self._flat):
            check_memory(rows, self.width)
            self._flat.resize(max(needed, used * self.width * 9 // 8), refcheck=False)

    def widen(self, width: int, used: int) -> None:
        """Make room for `width` columns; a little more than asked for, so that many small steps stay cheap."""
        old, self.width = self.width, width if self.width == 0 else max(width, self.width * 9 // 8)
        self.reserve(used, 0)
        if used:
            _spread(self._flat, used, old, self.width, self._fill)

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """A view; it dies with the next `reserve`, `widen` or `finish`."""
        return self._flat[first * self.width : last * self.width].reshape(last - first, self.width)

    def finish(self, rows: int, width: int) -> NDArray[np.float32]:
        """The matrix of the first `rows` rows and `width` columns; this object is empty afterwards."""
        if width > self.width:
            self.widen(width, rows)
        if width < self.width:
            _gather(self._flat, rows, self.width, width)
        flat, self._flat = self._flat, np.empty(0, dtype=np.float32)
        flat.resize(rows * width, refcheck=False)
        return flat.reshape(rows, width)


@kernel
def _spread(flat: NDArray[np.float32], rows: int, old: int, new: int, fill: np.float32) -> None:
    for row in range(rows - 1, -1, -1):
        for column in range(new - 1, old - 1, -1):
            flat[row * new + column] = fill
        for column in range(old - 1, -1, -1):
            flat[row * new + column] = flat[row * old + column]


@kernel
def _gather(flat: NDArray[np.float32], rows: int, old: int, new: int) -> None:
    for row in range(rows):
        for column in range(new):
            flat[row * new + column] = flat[row * old + column]


@kernel
def permute_rows(X: NDArray[np.float32], order: IntArray) -> None:
    """`X[:] = X[order]` with room for one row, cycle by cycle."""
    done = np.zeros(len(order), np.bool_)
    spare = np.empty(X.shape[1], np.float32)
    for first in range(len(order)):
        if done[first]:
            continue
        spare[:] = X[first]
        row = first
        while order[row] != first:
            X[row] = X[order[row]]
            done[row] = True
            row = order[row]
        X[row] = spare
        done[row] = True
