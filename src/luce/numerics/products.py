"""Sums over selected products of features, with no column of products anywhere.

With z the standardised features of a row and W upper triangular, W_ij = w_ij for the selected pairs i <= j,

    sum of w_ij z_i z_j       =  rowsum((Z W) * Z)          (scores)
    d / d w_ij                =  (Z' diag(g) Z)_ij          (gradient, g = gradient in the scores)

There are two ways to either. Few pairs: a loop over the pairs, for a tile of rows at once that lie side by side (with
the rows one by one the same loop gathers single numbers and takes ten times as long). Many pairs: matrix products of
blocks of rows, on and above the diagonal only. `Products.dense` says which is faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.numerics.rows import accumulate_rows
from luce.numerics.threads import one_blas_thread
from luce.types import Features, FloatArray, IntArray

BLOCK_ROWS = 512
"""Rows of a matrix product: enough for BLAS to be at full speed, few enough for the second-level cache."""
_PANEL = 96
_TILE_ROWS = 64
_DENSE_ABOVE = 1 / 6
"""Share of F^2 above which matrix products are the faster way; measured from 46 to 519 features."""


@dataclass(frozen=True, eq=False)
class Products:
    """Selected products of standardised features: pair k is (left[k], right[k]), left <= right, in sorted order."""

    mean: FloatArray
    inverse_sd: FloatArray
    left: IntArray
    right: IntArray

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return len(self.mean)

    @cached_property
    def starts(self) -> IntArray:
        """The pairs with left feature i are those from `starts[i]` to `starts[i + 1]`."""
        return np.searchsorted(self.left, np.arange(self.n_features + 1)).astype(np.int64)

    @property
    def dense(self) -> bool:
        """True where matrix products are faster than a loop over the pairs."""
        return len(self.left) > _DENSE_ABOVE * self.n_features**2

    def scores(self, X: Features, linear: FloatArray, weights: FloatArray, *, precise: bool = False) -> FloatArray:
        """`linear . z + sum of weights[k] z_left[k] z_right[k]` for every row.

        The sums over j are float32, as training wants them. `precise` asks for float64 throughout, always by the loop:
        slower, but free of BLAS and its threads, and a row's score is the same to the bit in any company.
        """
        out, dtype, n = np.empty(len(X)), np.float64 if precise else np.float32, self.n_features
        if precise or not self.dense:
            Z = np.empty((n, _TILE_ROWS), dtype=dtype)
            typed = weights.astype(dtype)
            _score_pairs(X, self.mean, self.inverse_sd, linear, self.starts, self.right, typed, Z, out)
            return out
        W = np.zeros((n, n), dtype=np.float32)
        W[self.left, self.right] = weights
        # All products have the same shape, the last block filled up with zeros: BLAS treats rows at an edge otherwise.
        Z, ZW = np.empty((2, BLOCK_ROWS, n), dtype=np.float32)
        with one_blas_thread():
            for first in range(0, len(X), BLOCK_ROWS):
                standardise_rows(X[first : first + BLOCK_ROWS], self.mean, self.inverse_sd, Z)
                for a, b in upper_panels(n):
                    np.matmul(Z[:, :b], W[:b, a:b], out=ZW[:, a:b])
                _join(Z, ZW, linear, out[first : first + BLOCK_ROWS])
        return out

    def gradients(self, X: Features, d_scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradients in `linear` and `weights` of the scores of these rows."""
        d_linear, d_weights, n = np.zeros(self.n_features), np.zeros(len(self.left)), self.n_features
        if not self.dense:
            Z = np.empty((n, _TILE_ROWS), dtype=np.float32)
            _accumulate_pairs(X, self.mean, self.inverse_sd, d_scores, self.starts, self.right, Z, d_linear, d_weights)
            return d_linear, d_weights
        Z, scaled = np.empty((2, BLOCK_ROWS, n), dtype=np.float32)
        sums = np.empty((n, n), dtype=np.float32)
        with one_blas_thread():
            for first in range(0, len(X), BLOCK_ROWS):
                block, d = X[first : first + BLOCK_ROWS], d_scores[first : first + BLOCK_ROWS]
                standardise_rows(block, self.mean, self.inverse_sd, Z)
                accumulate_rows(Z[: len(d)], d, d_linear)
                scale_rows(Z, d, scaled)
                upper_product(scaled, Z, sums)
                d_weights += sums[self.left, self.right]
        return d_linear, d_weights


def upper_panels(n: int) -> list[tuple[int, int]]:
    """Cut n columns into panels for triangular products: narrow panels skip more, wide ones run faster.

    >>> upper_panels(300)
    [(0, 100), (100, 200), (200, 300)]
    """
    edges = np.linspace(0, n, max(1, round(n / _PANEL)) + 1).astype(int).tolist()
    return list(pairwise(edges))


def upper_product(A: Features, B: Features, out: Features) -> None:
    """`out = A' B` on and above the diagonal; what is below is left as it was or filled, by whole panels."""
    for a, b in upper_panels(A.shape[1]):
        np.matmul(A[:, a:b].T, B[:, a:], out=out[a:b, a:])


@kernel
def standardise_rows(X, mean, inverse_sd, out):  # type: ignore[no-untyped-def]
    """`out = (X - mean) * inverse_sd`, computed in float64; rows of `out` beyond those of X become 0."""
    rows, columns = X.shape
    for i in range(rows):
        for j in range(columns):
            out[i, j] = (X[i, j] - mean[j]) * inverse_sd[j]
    out[rows:] = 0


def scale_rows(Z: Features, factors: FloatArray, out: Features) -> None:
    """`out = diag(factors) Z`; rows beyond the factors become 0."""
    n = len(factors)
    np.multiply(Z[:n], factors.astype(np.float32)[:, None], out=out[:n])
    out[n:] = 0.0


@kernel(reorder=True)
def _join(Z, ZW, linear, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        total = 0.0
        for j in range(Z.shape[1]):
            total += Z[i, j] * (ZW[i, j] + linear[j])
        out[i] = total


@kernel(reorder=True)
def _score_pairs(X, mean, inverse_sd, linear, starts, right, weights, Z, out):  # type: ignore[no-untyped-def]
    columns, tile = Z.shape
    inner, total = np.empty(tile, dtype=Z.dtype), np.empty(tile)
    for first in range(0, len(X), tile):
        size = min(tile, len(X) - first)
        _standardise_tile(X[first : first + size], mean, inverse_sd, Z)
        total[:] = 0.0
        for i in range(columns):
            inner[:] = linear[i]
            k = starts[i]
            # Four pairs at a time: `inner` is read and written a quarter as often.
            while k + 4 <= starts[i + 1]:
                a, b, c, d = Z[right[k]], Z[right[k + 1]], Z[right[k + 2]], Z[right[k + 3]]
                wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                for r in range(tile):
                    inner[r] += (wa * a[r] + wb * b[r]) + (wc * c[r] + wd * d[r])
                k += 4
            while k < starts[i + 1]:
                weight, other = weights[k], Z[right[k]]
                for r in range(tile):
                    inner[r] += weight * other[r]
                k += 1
            for r in range(tile):
                total[r] += Z[i, r] * inner[r]
        out[first : first + size] = total[:size]


@kernel(reorder=True)
def _accumulate_pairs(X, mean, inverse_sd, d_scores, starts, right, Z, d_linear, d_weights):  # type: ignore[no-untyped-def]
    columns, tile = Z.shape
    factor, scaled = np.zeros(tile, dtype=Z.dtype), np.empty(tile, dtype=Z.dtype)
    for first in range(0, len(X), tile):
        size = min(tile, len(X) - first)
        _standardise_tile(X[first : first + size], mean, inverse_sd, Z)
        factor[:size] = d_scores[first : first + size]
        factor[size:] = 0
        for i in range(columns):
            total = Z.dtype.type(0)
            for r in range(tile):
                scaled[r] = factor[r] * Z[i, r]
                total += scaled[r]
            d_linear[i] += total
            for k in range(starts[i], starts[i + 1]):
                other, total = Z[right[k]], Z.dtype.type(0)
                for r in range(tile):
                    total += scaled[r] * other[r]
                d_weights[k] += total


@part
def _standardise_tile(X, mean, inverse_sd, Z):  # type: ignore[no-untyped-def]
    """A few rows, standardised, as columns: what is done to all of them at once is contiguous."""
    rows, columns = X.shape
    for r in range(rows):
        for j in range(columns):
            Z[j, r] = (X[r, j] - mean[j]) * inverse_sd[j]
    Z[:, rows:] = 0
