"""How low the score of a form can get: what `offset="auto"` adds, so that engines never see a negative score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.export.form import Form, Linear, Network, Part, Trees
from luce.types import FloatArray

__all__ = ["auto_offset"]

_UNIT = 2.0**-24
"""The relative error of one float32 operation."""


def auto_offset(form: Form, X: NDArray[np.float32] | None) -> float:
    """A constant that brings every score to 0 or above, 0 where none is needed, rounding in float32 included.

    Trees: the sum of the smallest leaves bounds every score, whatever the document. Linear and second-order models
    have no bound of their own: X says the range of every feature (and product), 0 always in it since an engine takes 0
    for a feature that does not match; the bound holds for all documents whose features lie within these ranges.
    """
    low = size = 0.0
    terms = 1
    for part in form.parts:
        least, most, count = _range(part, X)
        low, size, terms = low + least, size + most, terms + count
    if low >= 0:
        return 0.0
    # Every partial sum is at most |low| + size; adding `terms` of them in float32 loses at most this much.
    slack = 4 * terms * _UNIT * (size - low)
    return float(np.nextafter(np.float32(slack - low), np.float32(np.inf)))


def _range(part: Part, X: NDArray[np.float32] | None) -> tuple[float, float, int]:
    """A lower bound of the scores, one of the sum of all absolute terms, and the number of terms."""
    if isinstance(part, Trees):
        forest = part.forest
        starts = forest.leaves[:-1]
        least, largest = np.minimum.reduceat(forest.value, starts), np.maximum.reduceat(np.abs(forest.value), starts)
        return float(least.sum()), float(largest.sum()), forest.n_trees
    if isinstance(part, Network):
        raise SettingError("How low a neural network can score is not known; give a number as offset.")
    if X is None:
        raise SettingError(
            f"How low {part.kind} can score depends on the features; give --check DATA (check=), whose feature ranges "
            "are then the bound, or a number as offset."
        )
    if isinstance(part, Linear):
        return _box([(part.weights, X)], part.intercept)
    weights, pairs, intercept = part.expanded()
    products = part.products
    return _box([(weights, X), (pairs, X[:, products.left] * X[:, products.right])], intercept)


def _box(blocks: Sequence[tuple[FloatArray, NDArray[np.float32]]], intercept: float) -> tuple[float, float, int]:
    low, size, terms = intercept, abs(intercept), 1
    for weights, columns in blocks:
        if not len(weights):
            continue
        least = np.minimum(np.nanmin(columns, axis=0), 0.0)
        most = np.maximum(np.nanmax(columns, axis=0), 0.0)
        ends = np.stack([weights * least, weights * most])
        low += float(ends.min(axis=0).sum())
        size += float(np.abs(ends).max(axis=0).sum())
        terms += len(weights)
    return low, size, terms
