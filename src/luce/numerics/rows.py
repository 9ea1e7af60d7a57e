"""Products of a float32 feature matrix with float64 vectors, and moments of its columns.

Features are read as they are and every sum is float64: half the memory of a float64 matrix at its precision. These
kernels are bound by memory, so the wider arithmetic is free; and they need no threads of BLAS to fight with ours.
"""

from __future__ import annotations

from luce.numerics.compiled import kernel

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
    """`out += X.T @ factors`. One row at a time, as above."""
    rows, columns = X.shape
    for i in range(rows):
        factor = factors[i]
        for j in range(columns):
            out[j] += factor * X[i, j]


@kernel(reorder=True)
def column_sums(X, shift, sums, squares):  # type: ignore[no-untyped-def]
    """Add the sums of `X - shift` and of its square to `sums` and `squares`, column by column."""
    rows, columns = X.shape
    for i in range(rows):
        for j in range(columns):
            value = X[i, j] - shift[j]
            sums[j] += value
            squares[j] += value * value
