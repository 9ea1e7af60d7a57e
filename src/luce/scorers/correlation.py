"""Correlation of the label with every product of two features, and the products that are kept.

Three matrices hold all of it, over the standardised features Z and the centred label c = y - mean(y):

    Z' diag(c) Z        n cov(z_i z_j, y)
    Z' Z                n E[z_i z_j]
    (Z*Z)' (Z*Z)        n E[(z_i z_j)^2]

They are summed over blocks of rows: float32 matrix products within a block, float64 across blocks. By Cauchy-Schwarz
the error of a correlation is that of float32 sums times sqrt(E[p^2] / var(p)), p = z_i z_j; where that factor is large
the product is nearly constant, and its moments are computed again in float64, row by row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.numerics.blas import one_blas_thread
from luce.numerics.products import BLOCK_ROWS, scale_rows, standardise_rows, upper_product
from luce.numerics.segments import Chunk, map_chunks
from luce.types import FloatArray, IntArray

__all__ = ["Correlations", "Selection", "product_correlations", "select_products"]

_PARTS = 16
_NEARLY_CONSTANT = 1e-2
_CONSTANT = 1e-12
"""Shares of E[p^2] that the variance may have: below the first it is computed again, below the second it is none."""


class Correlations(NamedTuple):
    """Of all products, features x features, on and above the diagonal and 0 below.

    `correlation` is that with the label and `deviation` the product's own standard deviation; both are 0 for a product
    without variance.
    """

    correlation: FloatArray
    deviation: FloatArray


class Selection(NamedTuple):
    """Kept products: pair k joins features left[k] <= right[k]; sorted by left, then right."""

    left: IntArray
    right: IntArray
    correlation: FloatArray
    deviation: FloatArray


def product_correlations(
    X: NDArray[np.float32], y: FloatArray, mean: FloatArray, inverse_sd: FloatArray
) -> Correlations:
    """Pearson correlations of y with all products of standardised features.

    Memory beside X: a few matrices of features x features, and sums for threads of at most a quarter of X.

    >>> X = np.array([[1, 5], [2, 5], [3, 5], [4, 5]], dtype=np.float32)
    >>> r = product_correlations(X, np.array([1.0, 0, 0, 1]), X.mean(axis=0), np.array([0.5, 0]))
    >>> r.correlation.round(6).tolist(), r.deviation.round(6).tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [[0.25, 0.0], [0.0, 0.0]])
    """
    rows, n = X.shape
    centred = y - y.mean()
    label_deviation = np.sqrt(centred @ centred / rows)
    chunks = _row_chunks(rows, n)
    cross, first, second = _moments(X, centred, mean, inverse_sd, chunks) / rows
    variance = second - first**2
    again = np.flatnonzero(np.triu(variance <= _NEARLY_CONSTANT * second) & (second > 0))
    if len(again):
        left, right = np.divmod(again, n)
        pairs = (left, right, first[left, right])
        cross[left, right], variance[left, right] = _exact(X, centred, mean, inverse_sd, chunks, pairs)
    varies = np.triu(variance > _CONSTANT * second)
    deviation = np.sqrt(np.where(varies, variance, 0.0))
    if label_deviation <= 1e-12 * np.abs(y).max():
        return Correlations(np.zeros((n, n)), deviation)
    correlation = np.zeros((n, n))
    np.divide(cross, deviation * label_deviation, out=correlation, where=varies)
    return Correlations(correlation, deviation)


def select_products(products: Correlations, *, threshold: float | None = None, count: int | None = None) -> Selection:
    """The products whose absolute correlation reaches `threshold`, or the `count` best of them.

    A product with correlation 0 is never kept, so there may be fewer than `count`. Equal correlations are taken in the
    order of the features.

    >>> found = Correlations(np.array([[0.5, -0.7], [0, 0.2]]), np.ones((2, 2)))
    >>> select_products(found, threshold=0.5).correlation.tolist()
    [0.5, -0.7]
    """
    left, right = np.triu_indices(len(products.correlation))
    values = products.correlation[left, right]
    strength = np.abs(values)
    kept = np.flatnonzero(strength > 0)
    if threshold is not None:
        kept = kept[strength[kept] >= threshold]
        if not len(kept):
            raise SettingError(
                f"The correlation threshold {threshold:g} keeps none of the {len(values):,} products; the largest "
                f"absolute correlation is {strength.max(initial=0.0):.4g}: give a lower threshold, or a count."
            )
    if count is not None:
        kept = np.sort(kept[np.argsort(-strength[kept], kind="stable")[:count]])
    left, right = left[kept].astype(np.int64), right[kept].astype(np.int64)
    return Selection(left, right, values[kept], products.deviation[left, right])


def _row_chunks(rows: int, columns: int) -> list[Chunk]:
    """At most 16 runs of rows, fewer where their sums (three matrices each) would outgrow a quarter of X."""
    parts = max(1, min(_PARTS, rows // (24 * max(columns, 1)), rows // BLOCK_ROWS))
    edges = np.linspace(0, rows, parts + 1).astype(int).tolist()
    return list(pairwise(edges))


def _moments(
    X: NDArray[np.float32], centred: FloatArray, mean: FloatArray, inverse_sd: FloatArray, chunks: list[Chunk]
) -> FloatArray:
    """Z' diag(c) Z, Z' Z and (Z*Z)' (Z*Z), on and above the diagonal."""
    n = X.shape[1]

    def sums(_: int, chunk: Chunk) -> FloatArray:
        total = np.zeros((3, n, n))
        Z, other = np.empty((2, BLOCK_ROWS, n), dtype=np.float32)
        block = np.zeros((n, n), dtype=np.float32)
        for start in range(*chunk, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, chunk[1]))
            standardise_rows(X[rows], mean, inverse_sd, Z)
            scale_rows(Z, centred[rows], other)
            upper_product(other, Z, block)
            total[0] += block
            upper_product(Z, Z, block)
            total[1] += block
            np.multiply(Z, Z, out=other)
            upper_product(other, other, block)
            total[2] += block
        return total

    with one_blas_thread():
        parts = map_chunks(sums, chunks)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _exact(
    X: NDArray[np.float32],
    centred: FloatArray,
    mean: FloatArray,
    inverse_sd: FloatArray,
    chunks: list[Chunk],
    pairs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Covariance and variance of a few products in float64, about their approximate means."""
    left, right, about = pairs

    def sums(_: int, chunk: Chunk) -> FloatArray:
        total = np.zeros((3, len(left)))
        rows = slice(*chunk)
        _pair_moments(X[rows], centred[rows], mean, inverse_sd, left, right, about, total)
        return total

    cross, first, second = np.sum(map_chunks(sums, chunks), axis=0) / len(X)
    return cross, second - first**2


@njit(nogil=True, cache=True)
def _pair_moments(X, centred, mean, inverse_sd, left, right, about, total):  # type: ignore[no-untyped-def]
    z = np.empty(X.shape[1])
    for r in range(X.shape[0]):
        for j in range(len(z)):
            z[j] = (X[r, j] - mean[j]) * inverse_sd[j]
        for k in range(len(left)):
            product = z[left[k]] * z[right[k]] - about[k]
            total[0, k] += centred[r] * product
            total[1, k] += product
            total[2, k] += product * product
