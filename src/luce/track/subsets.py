"""The inner loops of the exact likelihood: subsets of the signals, eight at a time.

Subset `mask` of a block of positions is the row `f[mask * LANES : (mask + 1) * LANES]`. A source multiplies the whole
table by `u + sum_j w_j x_j` (x_j^2 = 0): with eight subsets of the three earliest signals in registers, every sum is
read and written once where a loop over pairs of subsets reads and writes it for every signal. The distance of two rows
must be a constant, else the compiler cannot tell that they do not overlap.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import part
from luce.track.tables import BoolArray, Tables
from luce.types import FloatArray

LANES = 64
"""Positions that are taken together."""
_L1, _L2, _L3, _L4, _L5, _L6, _L7 = (k * LANES for k in range(1, 8))


@part(fastmath={"contract"})
def sum_matchings(tables: Tables, f: FloatArray) -> None:
    """f[all] := Z, lane by lane, for at least three signals."""
    w, u, c, active = tables.w, tables.u, tables.c, tables.active
    s, n, _ = w.shape
    f[:LANES] = 1.0
    for i in range(s):
        if not np.any(active[i]):
            # What made none of the signals is a factor of every sum.
            for a in range(LANES):
                f[a] *= u[i, a]
    for j in range(n):
        for mask in range(1 << j):
            for a in range(LANES):
                f[(mask | (1 << j)) * LANES + a] = f[mask * LANES + a] * c[j, a]
    for i in range(s):
        if np.any(active[i]):
            _multiply(f, u[i], w[i].reshape(-1), active[i])


@part(fastmath={"contract"})
def _multiply(f: FloatArray, u: FloatArray, w: FloatArray, active: BoolArray) -> None:
    """Multiply f by u + sum_j w_j x_j, from the largest subset down: what it needs of the old table is still there."""
    n = active.shape[0]
    for mask in range((1 << n) - 8, -1, -8):
        block = f[mask * LANES : (mask + 8) * LANES]
        _multiply_eight(block, u, w)
        for j in range(3, n):
            if active[j] and mask & (1 << j):
                without = mask ^ (1 << j)
                _add_eight(block, w[j * LANES : (j + 1) * LANES], f[without * LANES : (without + 8) * LANES])


@part(fastmath={"contract"})
def _multiply_eight(f: FloatArray, u: FloatArray, w: FloatArray) -> None:
    """Multiply f by u + w_0 x_0 + w_1 x_1 + w_2 x_2 on the eight subsets of three signals."""
    for a in range(u.shape[0]):
        v, w0, w1, w2 = u[a], w[a], w[a + _L1], w[a + _L2]
        f0, f1, f2, f3 = f[a], f[a + _L1], f[a + _L2], f[a + _L3]
        f4, f5, f6, f7 = f[a + _L4], f[a + _L5], f[a + _L6], f[a + _L7]
        f[a] = v * f0
        f[a + _L1] = v * f1 + w0 * f0
        f[a + _L2] = v * f2 + w1 * f0
        f[a + _L3] = v * f3 + w0 * f2 + w1 * f1
        f[a + _L4] = v * f4 + w2 * f0
        f[a + _L5] = v * f5 + w0 * f4 + w2 * f1
        f[a + _L6] = v * f6 + w1 * f4 + w2 * f2
        f[a + _L7] = v * f7 + w0 * f6 + w1 * f5 + w2 * f3


@part(fastmath={"contract"})
def _add_eight(f: FloatArray, w: FloatArray, g: FloatArray) -> None:
    """Add w g to f, row by row of eight."""
    for a in range(w.shape[0]):
        v = w[a]
        f[a] += v * g[a]
        f[a + _L1] += v * g[a + _L1]
        f[a + _L2] += v * g[a + _L2]
        f[a + _L3] += v * g[a + _L3]
        f[a + _L4] += v * g[a + _L4]
        f[a + _L5] += v * g[a + _L5]
        f[a + _L6] += v * g[a + _L6]
        f[a + _L7] += v * g[a + _L7]
