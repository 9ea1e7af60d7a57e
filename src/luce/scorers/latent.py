r"""Latent structured ranking (Weston and Blitzer, 2012): documents beside each other count by a low-rank product.

A list $d_1, d_2, \dots$ is worth
$\sum_i \omega_i\, v \cdot d_i + \sum_{i,j} \omega_i \omega_j\, (A d_i) \cdot (A d_j)$ with position weights
$\omega_i = 1 / \log_2(1 + i)$ ([Pareek] (2.25), where the query enters by the features). The best list is not known in
closed form: documents are placed greedily, the one with the most to add at every position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.checks import is_whole
from luce.errors import ModelFormatError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

__all__ = ["FittedLatent", "position_weight"]


def position_weight(position: int) -> float:
    """The weight of a position, from 0."""
    return float(1.0 / np.log2(position + 2.0))


@dataclass(frozen=True, eq=False)
class FittedLatent:
    """`weights` v and `factors` A, (rank, features), on standardised features."""

    weights: FloatArray
    factors: NDArray[np.float64]
    mean: FloatArray
    inverse_sd: FloatArray
    depth: int

    name = "latent"
    needs_queries = True

    @property
    def n_features(self) -> int:
        """Features that a row must have."""
        return len(self.weights)

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """Minus the position of every document, 0 the first: the list of [Pareek] (2.26), greedily."""
        Z = (X - self.mean) * self.inverse_sd
        own, latent = Z @ self.weights, Z @ self.factors.T
        square = np.einsum("ij,ij->i", latent, latent)
        query, left = query_index(offsets), np.ones(len(X), dtype=bool)
        placed, scores = np.zeros((len(offsets) - 1, latent.shape[1])), np.zeros(len(X))
        utility = own
        for position in range(min(self.depth, int(np.diff(offsets).max()))):
            weight = position_weight(position)
            utility = own + 2 * np.einsum("ij,ij->i", latent, placed[query]) + weight * square
            value = np.where(left, utility, -np.inf)
            rows = np.flatnonzero(left & (value == np.maximum.reduceat(value, offsets[:-1])[query]))
            rows = rows[np.unique(query[rows], return_index=True)[1]]
            scores[rows], left[rows] = -position, False
            placed[query[rows]] += weight * latent[rows]
        rest = np.flatnonzero(left)
        last = rest[np.lexsort((-utility[rest], query[rest]))]
        starts = np.searchsorted(query[last], np.arange(len(offsets) - 1))
        scores[last] = -(self.depth + np.arange(len(last)) - starts[query[last]])
        return scores

    def importance(self) -> FloatArray:
        """Weight of each standardised feature by itself."""
        return self.weights

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        arrays = {"weights": self.weights, "factors": self.factors, "mean": self.mean, "inverse_sd": self.inverse_sd}
        return {"depth": self.depth}, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedLatent:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        found = []
        for name, dimensions in (("weights", 1), ("factors", 2), ("mean", 1), ("inverse_sd", 1)):
            array = arrays.get(name)
            if array is None or array.dtype != np.float64 or array.ndim != dimensions or not np.isfinite(array).all():
                raise ModelFormatError(f"Latent structured ranking needs finite numbers as {name!r}.")
            found.append(array)
        if len({array.shape[-1] for array in found}) != 1 or not found[0].size:
            raise ModelFormatError("The arrays of latent structured ranking have different numbers of features.")
        depth = settings.get("depth")
        if not is_whole(depth, 1, 2**31):
            raise ModelFormatError(f"Latent structured ranking needs a depth of at least 1; the file has {depth!r}.")
        return cls(found[0], found[1], found[2], found[3], depth)
