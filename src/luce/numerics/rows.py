"""Products of a float32 feature matrix with float64 vectors, and moments of its columns.

Features are read as they are and every sum is float64: half the memory of a float64 matrix at its precision. These
kernels are bound by memory, so the wider arithmetic is free; and they need no threads of BLAS to fight with ours.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import kernel, part

# Sums may be reordered for vector registers, nothing else is relaxed: NaN and infinity stay what they are.


@kernel(reorder=True)
def score_rows(X, weights, out):  # type: ignore[no-untyped-def]
    """`out = X @ weights`. One row at a time: four at once are faster in cache and slower from memory."""
    rows, columns = X.shape
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            total += X[i, j] * weights[j]
        out[i] = total


@kernel(reorder=True)
def accumulate_rows(X, factors, out):  # type: ignore[no-untyped-def]
    """`out += X.T @ factors`: eight rows are joined in float32, the sums of eight are added up in float64."""
    rows, columns = X.shape
    whole = rows - rows % 8
    for i in range(0, whole, 8):
        a, b, c, d = _four(factors, i)
        e, f, g, h = _four(factors, i + 4)
        for j in range(columns):
            out[j] += (
                (a * X[i, j] + b * X[i + 1, j])
                + (c * X[i + 2, j] + d * X[i + 3, j])
                + (e * X[i + 4, j] + f * X[i + 5, j])
                + (g * X[i + 6, j] + h * X[i + 7, j])
            )
    for i in range(whole, rows):
        for j in range(columns):
            out[j] += factors[i] * X[i, j]


@part(forceinline=True)
def _four(factors, i):  # type: ignore[no-untyped-def]
    return np.float32(factors[i]), np.float32(factors[i + 1]), np.float32(factors[i + 2]), np.float32(factors[i + 3])


@kernel(reorder=True)
def column_sums(X, shift, sums, squares):  # type: ignore[no-untyped-def]
    """Add the sums of `X - shift` and of its square to `sums` and `squares`, column by column."""
    rows, columns = X.shape
    for i in range(rows):
        for j in range(columns):
            value = X[i, j] - shift[j]
            sums[j] += value
            squares[j] += value * value
