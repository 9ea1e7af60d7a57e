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

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from luce.checks import fits_in_memory
from luce.data.blocks import Blocks, cut_blocks
from luce.errors import SettingError
from luce.numerics.compiled import kernel
from luce.numerics.products import BLOCK_ROWS, scale_rows, standardise_rows, upper_product
from luce.numerics.segments import join_chunks
from luce.numerics.threads import one_blas_thread
from luce.types import Features, FloatArray, IntArray

_PARTS = 256
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


def product_correlations(data: Blocks, mean: FloatArray, inverse_sd: FloatArray) -> Correlations:
    """Pearson correlations of the label with all products of standardised features, over whole queries at a time.

    Memory beside the data: a few matrices of features x features, and sums for threads of at most a quarter of X.

    >>> import luce
    >>> data = luce.from_arrays([[1, 5], [2, 5], [3, 5], [4, 5]], [1, 0, 0, 1])
    >>> r = product_correlations(data, data.X.mean(axis=0), np.array([0.5, 0]))
    >>> r.correlation.round(6).tolist(), r.deviation.round(6).tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [[0.25, 0.0], [0.0, 0.0]])
    """
    y, rows, n = data.y, data.n_rows, data.n_features
    fits_in_memory(40.0 * n**2, f"Correlations of the products of {n:,} features", "take fewer features")
    about = float(y.mean())
    centred = y - about
    label_deviation = np.sqrt(centred @ centred / rows)
    del centred
    cuts = join_chunks(cut_blocks(data.offsets, n), blocks_a_part(data.offsets, n))
    moments = partial(_moments, about=about, mean=mean, inverse_sd=inverse_sd)
    with one_blas_thread():
        cross, first, second = _added(data.map(moments, cuts)) / rows
    variance = second - first**2
    again = np.flatnonzero(np.triu(variance <= _NEARLY_CONSTANT * second) & (second > 0))
    if len(again):
        left, right = np.divmod(again, n)
        pairs = (left, right, first[left, right])
        exact = partial(_exact, about=about, mean=mean, inverse_sd=inverse_sd, pairs=pairs)
        cross_again, first_again, second_again = _added(data.map(exact, cuts)) / rows
        cross[left, right], variance[left, right] = cross_again, second_again - first_again**2
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


def blocks_a_part(offsets: IntArray, columns: int) -> int:
    """Blocks that are summed as one part.

    The sums of a part are three matrices of features x features: they stay below a quarter of its features, and there
    are at most 256 parts.
    """
    blocks, rows = len(cut_blocks(offsets, columns)), int(offsets[-1])
    enough = -(-24 * columns * blocks // max(rows, 1))
    return max(1, enough, -(-blocks // _PARTS))


def _added(parts: Iterable[FloatArray]) -> FloatArray:
    """The sum in order; one part is held at a time."""
    following = iter(parts)
    total = next(following)
    for part in following:
        total += part
    return total


def _moments(X: Features, y: FloatArray, about: float, mean: FloatArray, inverse_sd: FloatArray) -> FloatArray:
    """Z' diag(c) Z, Z' Z and (Z*Z)' (Z*Z), on and above the diagonal."""
    n = X.shape[1]
    total = np.zeros((3, n, n))
    Z, other = np.empty((2, BLOCK_ROWS, n), dtype=np.float32)
    block = np.zeros((n, n), dtype=np.float32)
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, len(X)))
        standardise_rows(X[rows], mean, inverse_sd, Z)
        scale_rows(Z, y[rows] - about, other)
        upper_product(other, Z, block)
        total[0] += block
        upper_product(Z, Z, block)
        total[1] += block
        np.multiply(Z, Z, out=other)
        upper_product(other, other, block)
        total[2] += block
    return total


def _exact(
    X: Features,
    y: FloatArray,
    about: float,
    mean: FloatArray,
    inverse_sd: FloatArray,
    pairs: tuple[IntArray, IntArray, FloatArray],
) -> FloatArray:
    """Moments of a few products in float64, about their approximate means."""
    left, right, centre = pairs
    total = np.zeros((3, len(left)))
    _pair_moments(X, y - about, mean, inverse_sd, left, right, centre, total)
    return total


@kernel
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
