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


@part
def most_rows(offsets, first, last, block_rows):  # type: ignore[no-untyped-def]
    """Rows of the largest block: one query may be larger than blocks should be."""
    most = block_rows
    for q in range(first, last):
        most = max(most, offsets[q + 1] - offsets[q])
    return most


@part
def end_of_block(offsets, q, last, block_rows):  # type: ignore[no-untyped-def]
    """One past the last query of the block that begins with query q."""
    end = q + 1
    while end < last and offsets[end + 1] - offsets[q] <= block_rows:
        end += 1
    return end


@part
def weigh_queries(offsets, query_weight, first, last, d_scores, total):  # type: ignore[no-untyped-def]
    """Multiply the slopes of every query by its weight, and add them to `total`."""
    for q in range(first, last):
        for j in range(offsets[q] - offsets[first], offsets[q + 1] - offsets[first]):
            d_scores[j] *= query_weight[q]
            total += d_scores[j]
    return total


@part(reorder=True)
def accumulate_block(X, factors, out):  # type: ignore[no-untyped-def]
    """`out += X.T @ factors` of rows in the cache: eight are joined in float32, sums of eight added up in float64."""
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
