"""Kernels that sum over all matchings of signals and sources: exactly, by subsets."""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.track.tables import BoolArray, Step, Tables, fill_log_tables, fill_tables, new_tables
from luce.types import FloatArray, IntArray

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


_SAFE = 1e-250
"""Totals below have lost too much to underflow: such positions are computed again in logarithms."""


@kernel(fastmath={"contract"})
def exact_kernel(step: Step, distances: FloatArray, result: FloatArray) -> None:
    """Log Z of every position: the sum over matchings [Pareek] (5.21), with misses and clutter [Pareek] (5.26)."""
    s, n = distances.shape[1], step.times.shape[0]
    # Signals that are clutter for sure add a factor of 1: with them there are never fewer than three.
    tables = new_tables(s, max(n, 3), LANES)
    f = np.empty((1 << max(n, 3)) * LANES)
    total = f[-LANES:]
    for first in range(0, distances.shape[0], LANES):
        fill_tables(step, distances, first, tables)
        sum_matchings(tables, f)
        for k in range(first, min(first + LANES, distances.shape[0])):
            if total[k - first] > _SAFE:
                result[k] = tables.scale[k - first] + math.log(total[k - first])
            else:
                _, _, log_f = _log_forward(step, distances, k, False)
                result[k] = log_f[s, -1]


@part(fastmath={"contract"})
def _log_forward(step: Step, distances: FloatArray, k: int, best: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-weights w and u of one position, and f[i, mask]: that of all ways in which i sources and clutter make `mask`.

    Where `best`, that of the heaviest one instead.
    """
    s, n = distances.shape[1], step.times.shape[0]
    w, u, c, f = np.empty((s, n)), np.empty(s), np.empty(n), np.empty((s + 1, 1 << n))
    fill_log_tables(step, distances[k], k if step.detection.shape[0] > 1 else 0, w, u, c)
    f[0, 0] = 0.0
    for j in range(n):
        for mask in range(1 << j):
            f[0, mask | (1 << j)] = f[0, mask] + c[j]
    for i in range(s):
        for mask in range(1 << n):
            value = u[i] + f[i, mask]
            for j in range(n):
                if mask & (1 << j):
                    made = w[i, j] + f[i, mask ^ (1 << j)]
                    value = max(value, made) if best else np.logaddexp(value, made)
            f[i + 1, mask] = value
    return w, u, f


@kernel(fastmath={"contract"})
def exact_labels_kernel(step: Step, distances: FloatArray, weight: FloatArray, result: FloatArray) -> None:
    """Add `weight` times P(R_j = i | T, X) to `result[., j, i]`, clutter in the last column.

    `result` has one block a position, or a single block in which all positions are summed.

    Forward `f` as above, with the clutter first; backward `b[mask]` is the weight of all ways in which the remaining
    sources explain what is outside `mask`. P(R_j = i) is the sum over masks without j of f_i[mask] w_ij b_{i+1}[mask +
    j] / Z, and that of clutter the sum over masks with j of f_0[mask] b_0[mask] / Z.
    """
    s, n = distances.shape[1], step.times.shape[0]
    full, lanes = (1 << n) - 1, 16 if n < 6 else 8
    tables = new_tables(s, n, lanes)
    f, b, share = np.empty((s + 1, full + 1, lanes)), np.empty((full + 1, lanes)), np.empty((n, s + 1, lanes))
    alone = np.empty((n, s + 1))
    apart = result.shape[0] > 1
    for first in range(0, distances.shape[0], lanes):
        fill_tables(step, distances, first, tables)
        _marginals(tables, f, b, share)
        for k in range(first, min(first + lanes, distances.shape[0])):
            if weight[k] == 0:
                continue
            total = f[s, full, k - first]
            if not total > _SAFE:
                _log_marginals(step, distances, k, alone)
            for j in range(n):
                for i in range(s + 1):
                    part = share[j, i, k - first] / total if total > _SAFE else alone[j, i]
                    result[k if apart else 0, j, i] += weight[k] * part


@part(fastmath={"contract"})
def _marginals(tables: Tables, f: FloatArray, b: FloatArray, share: FloatArray) -> None:
    """Unnormalised P(R_j = i), lane by lane; their common total is left in f[all sources, all signals]."""
    w, u, c, active = tables.w, tables.u, tables.c, tables.active
    s, n, lanes = w.shape
    full = (1 << n) - 1
    share[:] = 0.0
    f[0, 0] = 1.0
    for j in range(n):
        for mask in range(1 << j):
            for a in range(lanes):
                f[0, mask | (1 << j), a] = f[0, mask, a] * c[j, a]
    for i in range(s):
        for mask in range(full + 1):
            for a in range(lanes):
                f[i + 1, mask, a] = u[i, a] * f[i, mask, a]
            for j in range(n):
                if active[i, j] and mask & (1 << j):
                    for a in range(lanes):
                        f[i + 1, mask, a] += w[i, j, a] * f[i, mask ^ (1 << j), a]
    b[:] = 0.0
    b[full] = 1.0
    for i in range(s - 1, -1, -1):
        for mask in range(full + 1):
            for a in range(lanes):
                b[mask, a] *= u[i, a]
            for j in range(n):
                if active[i, j] and not mask & (1 << j):
                    for a in range(lanes):
                        term = w[i, j, a] * b[mask | (1 << j), a]
                        b[mask, a] += term
                        share[j, i, a] += f[i, mask, a] * term
    for mask in range(full + 1):
        for j in range(n):
            if mask & (1 << j):
                for a in range(lanes):
                    share[j, s, a] += f[0, mask, a] * b[mask, a]


@part(fastmath={"contract"})
def _log_marginals(step: Step, distances: FloatArray, k: int, share: FloatArray) -> None:
    """P(R_j = i) of one position by logarithms; 0 where the arrivals are impossible there."""
    w, u, f = _log_forward(step, distances, k, False)
    s, n = w.shape
    full = (1 << n) - 1
    total = f[s, full]
    b = np.full(full + 1, -np.inf)
    b[full] = 0.0
    share[:] = 0.0
    if total == -np.inf:
        return
    for i in range(s - 1, -1, -1):
        for mask in range(full + 1):
            value = u[i] + b[mask]
            for j in range(n):
                if not mask & (1 << j):
                    term = w[i, j] + b[mask | (1 << j)]
                    value = np.logaddexp(value, term)
                    share[j, i] += math.exp(f[i, mask] + term - total)
            b[mask] = value
    for mask in range(full + 1):
        for j in range(n):
            if mask & (1 << j):
                share[j, s] += math.exp(f[0, mask] + b[mask] - total)


@kernel(fastmath={"contract"})
def best_matching(step: Step, distances: FloatArray, labels: IntArray, result: FloatArray) -> None:
    """The most probable labels of every position (max-product): a source's number, or -1 for clutter."""
    s, n = distances.shape[1], step.times.shape[0]
    for k in range(distances.shape[0]):
        w, u, f = _log_forward(step, distances, k, True)
        mask = (1 << n) - 1
        result[k] = f[s, mask]
        labels[k] = -1
        for i in range(s - 1, -1, -1):
            if f[i + 1, mask] == u[i] + f[i, mask]:
                continue
            for j in range(n):
                if mask & (1 << j) and f[i + 1, mask] == w[i, j] + f[i, mask ^ (1 << j)]:
                    labels[k, j] = i
                    mask ^= 1 << j
                    break
