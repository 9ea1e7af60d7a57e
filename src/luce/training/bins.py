"""Features cut at thresholds: what a boosted step can ask, and what every document answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError
from luce.numerics.segments import map_chunks
from luce.types import FloatArray

MISSING = 255
"""The bin of NaN."""


class Bins(NamedTuple):
    """Thresholds of every feature, rising, and for every feature and row how many of them the value is above.

    Unless it is missing, the value of row i in feature k is above `thresholds[k][b]` exactly where `above[k, i] > b`.
    """

    thresholds: list[FloatArray]
    above: NDArray[np.uint8]


def cut(X: NDArray[np.float32], limit: int) -> Bins:
    """Cut every feature between its values: between all of them, or at about `limit` quantiles where there are more.

    >>> bins = cut(np.array([[1], [3], [3], [9]], dtype=np.float32), 254)
    >>> bins.thresholds[0].tolist(), bins.above[0].tolist()
    ([2.0, 6.0], [0, 1, 1, 2])
    """
    rows, columns = X.shape
    above = np.empty((columns, rows), dtype=np.uint8)

    def feature(k: int, _: object) -> FloatArray:
        column = np.ascontiguousarray(X[:, k], dtype=np.float64)
        if np.isinf(column).any():
            raise DataError(f"Feature {k + 1} has infinite values; training needs finite ones.")
        absent = np.isnan(column)
        found = _thresholds(column[~absent], limit)
        above[k] = np.searchsorted(found, column, side="left")
        above[k, absent] = MISSING
        return found

    return Bins(map_chunks(feature, [(k, k + 1) for k in range(columns)]), above)


def _thresholds(values: FloatArray, limit: int) -> FloatArray:
    distinct, counts = np.unique(values, return_counts=True)
    middles = (distinct[1:] + distinct[:-1]) / 2
    if len(middles) <= limit:
        return middles
    below = np.cumsum(counts)[:-1] / len(values)
    wanted = np.arange(1, limit + 1) / (limit + 1)
    result: FloatArray = middles[np.unique(np.minimum(np.searchsorted(below, wanted), len(middles) - 1))]
    return result
