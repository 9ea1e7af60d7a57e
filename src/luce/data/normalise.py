"""Normalisation of features within each query: a transform that prediction must repeat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.types import IntArray

KINDS = ("minmax", "zscore")


def normalise_within_queries(X: NDArray[np.float32], offsets: IntArray, kind: str) -> NDArray[np.float32]:
    """A copy of X with every feature on one scale in every query; a feature that is constant there becomes 0.

    `minmax` maps to [0, 1] as LETOR's QueryLevelNorm does, `zscore` to mean 0 and variance 1.

    >>> normalise_within_queries(np.array([[1], [3], [7]], dtype=np.float32), np.array([0, 2, 3]), "minmax").tolist()
    [[0.0], [1.0], [0.0]]
    """
    if kind not in KINDS:
        raise SettingError(f"query_norm is {kind!r}; it must be None, 'minmax' or 'zscore'.")
    starts, sizes = offsets[:-1], np.diff(offsets)
    result = np.empty_like(X)
    block = max(1, 8_000_000 // max(len(X), 1))
    for first in range(0, X.shape[1], block):
        columns = X[:, first : first + block].astype(np.float64)
        if kind == "minmax":
            centre = np.minimum.reduceat(columns, starts)
            spread = np.maximum.reduceat(columns, starts) - centre
        else:
            centre = np.add.reduceat(columns, starts) / sizes[:, None]
            squares = np.add.reduceat((columns - np.repeat(centre, sizes, axis=0)) ** 2, starts)
            spread = np.sqrt(squares / sizes[:, None])
        factor = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        columns -= np.repeat(centre, sizes, axis=0)
        result[:, first : first + block] = columns * np.repeat(factor, sizes, axis=0)
    return result
