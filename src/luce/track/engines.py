"""Kernels that sum over all matchings of signals and sources, exactly by subsets, or by belief propagation.

A kernel gets the step, the distances of some positions, and the weights of these; it fills `log_z`, one a position, and
adds `weight` times P(R_j = i | T, X) to `labels[., j, i]`, clutter in the last column. `labels` has a block a position,
a single block in which all positions are summed, or none where labels are not wanted.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.track.tables import BoolArray, Step, Tables, fill_tables, new_tables
from luce.types import FloatArray, IntArray

_LANES = 64
"""Positions that are taken together; fewer with labels, which need more room."""
_SAFE = 1e-250
"""Totals below have lost too much to underflow: such positions are computed again in logarithms."""
_LINEAR, _LOG, _BEST = 0, 1, 2
"""What is added and multiplied: numbers, their logarithms, or logarithms of which the larger one is kept."""


@part(forceinline=True)
def _times(x: float, y: float, ring: int) -> float:
    return x * y if ring == _LINEAR else x + y


@part(forceinline=True, fastmath={"contract"})
def _plus(x: float, y: float, ring: int) -> float:
    if ring == _LINEAR:
        return x + y
    return np.logaddexp(x, y) if ring == _LOG else max(x, y)


@part(forceinline=True, fastmath={"contract"})
def _forward(tables: Tables, f: FloatArray, ring: int) -> None:
    """f[i, mask]: the weight of all ways in which i sources and clutter make the signals of `mask`; f[-1, -1] is Z.

    Sources that made none of the signals are a factor of every sum, and counted in the first. A table of one row is
    multiplied in place, from the largest subset down: what is needed of the old one is still there.
    """
    w, u, c, active, rows = tables.w, tables.u, tables.c, tables.active, f.shape[0]
    s, n, lanes = w.shape
    f[0, 0] = 1.0 if ring == _LINEAR else 0.0
    for i in range(s):
        if not np.any(active[i]):
            for a in range(lanes):
                f[0, 0, a] = _times(f[0, 0, a], u[i, a], ring)
    for j in range(n):
        for mask in range(1 << j):
            for a in range(lanes):
                f[0, mask | (1 << j), a] = _times(f[0, mask, a], c[j, a], ring)
    for i in range(s):
        before, after = f[i % rows], f[(i + 1) % rows]
        if not np.any(active[i]):
            if rows > 1:
                after[:] = before
            continue
        if ring == _LINEAR and rows == 1 and n > 2:
            _multiply_by_eights(after, u[i], w[i], active[i])
            continue
        for mask in range((1 << n) - 1, -1, -1):
            for a in range(lanes):
                after[mask, a] = _times(before[mask, a], u[i, a], ring)
            for j in range(n):
                if active[i, j] and mask & (1 << j):
                    for a in range(lanes):
                        made = _times(w[i, j, a], before[mask ^ (1 << j), a], ring)
                        after[mask, a] = _plus(after[mask, a], made, ring)


@part(fastmath={"contract"})
def _multiply_by_eights(f: FloatArray, u: FloatArray, w: FloatArray, active: BoolArray) -> None:
    """Multiply f by u + sum_j w_j x_j, eight subsets at a time, which halves what is read and written."""
    n = active.shape[0]
    for mask in range((1 << n) - 8, -1, -8):
        g = f[mask : mask + 8]
        for a in range(_LANES):
            v, w0, w1, w2 = u[a], w[0, a], w[1, a], w[2, a]
            g0, g1, g2, g3, g4, g5, g6 = g[0, a], g[1, a], g[2, a], g[3, a], g[4, a], g[5, a], g[6, a]
            g[0, a] = v * g0
            g[1, a] = v * g1 + w0 * g0
            g[2, a] = v * g2 + w1 * g0
            g[3, a] = v * g3 + w0 * g2 + w1 * g1
            g[4, a] = v * g4 + w2 * g0
            g[5, a] = v * g5 + w0 * g4 + w2 * g1
            g[6, a] = v * g6 + w1 * g4 + w2 * g2
            g[7, a] = v * g[7, a] + w0 * g6 + w1 * g5 + w2 * g3
        for j in range(3, n):
            if active[j] and mask & (1 << j):
                without = f[mask ^ (1 << j) : (mask ^ (1 << j)) + 8]
                for row in range(8):
                    for a in range(_LANES):
                        g[row, a] += w[j, a] * without[row, a]


@part(forceinline=True, fastmath={"contract"})
def _backward(tables: Tables, f: FloatArray, b: FloatArray, share: FloatArray, ring: int) -> None:
    """share[j, i] := P(R_j = i) Z, from f of all sources.

    b[mask] is the weight of all ways in which the remaining sources explain what is outside of `mask`. P(R_j = i) Z is
    the sum over masks without j of f_i[mask] w_ij b_{i+1}[mask + j], and that of clutter the sum over masks with j of
    f_0[mask] b_0[mask].
    """
    w, u, active = tables.w, tables.u, tables.active
    s, n, lanes = w.shape
    share[:] = 0.0 if ring == _LINEAR else -np.inf
    b[:] = 0.0 if ring == _LINEAR else -np.inf
    b[-1] = 1.0 if ring == _LINEAR else 0.0
    for i in range(s - 1, -1, -1):
        if not np.any(active[i]):
            continue
        for mask in range(1 << n):
            for a in range(lanes):
                b[mask, a] = _times(b[mask, a], u[i, a], ring)
            for j in range(n):
                if active[i, j] and not mask & (1 << j):
                    for a in range(lanes):
                        made = _times(w[i, j, a], b[mask | (1 << j), a], ring)
                        b[mask, a] = _plus(b[mask, a], made, ring)
                        share[j, i, a] = _plus(share[j, i, a], _times(f[i, mask, a], made, ring), ring)
    for mask in range(1 << n):
        for j in range(n):
            if mask & (1 << j):
                for a in range(lanes):
                    share[j, s, a] = _plus(share[j, s, a], _times(f[0, mask, a], b[mask, a], ring), ring)


@kernel(fastmath={"contract"})
def exact_kernel(step: Step, distances: FloatArray, weight: FloatArray, log_z: FloatArray, labels: FloatArray) -> None:
    """Log Z of every position: the sum over matchings [Pareek] (5.21), with misses and clutter [Pareek] (5.26)."""
    s, n, wanted = distances.shape[1], step.times.shape[0], labels.shape[0] > 0
    lanes = (16 if n < 6 else 8) if wanted else _LANES
    rows = s + 1 if wanted else 1
    tables, f = new_tables(s, n, lanes), np.empty((rows, 1 << n, lanes))
    b, share = np.empty((1 << n, lanes)), np.empty((n, s + 1, lanes))
    alone, log_f = new_tables(s, n, 1), np.empty((rows, 1 << n, 1))
    log_b, log_share = np.empty((1 << n, 1)), np.empty((n, s + 1, 1))
    for first in range(0, distances.shape[0], lanes):
        fill_tables(step, distances, first, tables, False)
        _forward(tables, f, _LINEAR)
        if wanted:
            _backward(tables, f, b, share, _LINEAR)
        for k in range(first, min(first + lanes, distances.shape[0])):
            total = f[-1, -1, k - first]
            safe = total > _SAFE
            if not safe:
                fill_tables(step, distances, k, alone, True)
                _forward(alone, log_f, _LOG)
            log_z[k] = tables.scale[k - first] + math.log(total) if safe else log_f[-1, -1, 0]
            if not wanted or weight[k] == 0 or log_z[k] == -np.inf:
                continue
            if not safe:
                _backward(alone, log_f, log_b, log_share, _LOG)
            block = labels[min(k, labels.shape[0] - 1)]
            for j in range(n):
                for i in range(s + 1):
                    part = share[j, i, k - first] / total if safe else math.exp(log_share[j, i, 0] - log_z[k])
                    block[j, i] += weight[k] * part


@kernel(fastmath={"contract"})
def best_matching(step: Step, distances: FloatArray, labels: IntArray, result: FloatArray) -> None:
    """The most probable labels of every position (max-product): a source's number, or -1 for clutter."""
    s, n, lanes = distances.shape[1], step.times.shape[0], 16
    tables, f = new_tables(s, n, lanes), np.empty((s + 1, 1 << n, lanes))
    w, u = tables.w, tables.u
    labels[:] = -1
    for first in range(0, distances.shape[0], lanes):
        fill_tables(step, distances, first, tables, True)
        _forward(tables, f, _BEST)
        for k in range(first, min(first + lanes, distances.shape[0])):
            a, mask = k - first, (1 << n) - 1
            result[k] = f[s, mask, a]
            for i in range(s - 1, -1, -1):
                if f[i + 1, mask, a] == u[i, a] + f[i, mask, a] or not np.any(tables.active[i]):
                    continue
                for j in range(n):
                    if mask & (1 << j) and f[i + 1, mask, a] == w[i, j, a] + f[i, mask ^ (1 << j), a]:
                        labels[k, j] = i
                        mask ^= 1 << j
                        break


_TINY = 1e-100
"""Stands for weight zero (no clutter, no misses), where a message would be a division by zero."""
_TOLERANCE = 1e-9
_MAX_ITERATIONS = 1000


@part
def _propagate(w: FloatArray, u: FloatArray, c: FloatArray, mu: FloatArray, nu: FloatArray) -> None:
    """Run messages, [Pareek] (5.29) and [Pareek] (5.35), to their fixed point; u and c are at least tiny."""
    s, n = w.shape
    for i in range(s):
        u[i] = max(u[i], _TINY)
    for j in range(n):
        c[j] = max(c[j], _TINY)
    nu[:] = 1.0
    for _ in range(_MAX_ITERATIONS):
        for i in range(s):
            for j in range(n):
                others = u[i]
                for a in range(n):
                    if a != j:
                        others += w[i, a] * nu[i, a]
                mu[i, j] = w[i, j] / others
        change = 0.0
        for j in range(n):
            total = c[j]
            for i in range(s):
                total += mu[i, j]
            for i in range(s):
                others = total - mu[i, j]
                if others < 1e-8 * total:
                    others = c[j]
                    for a in range(s):
                        if a != i:
                            others += mu[a, j]
                message = 1 / others
                change = max(change, abs(message - nu[i, j]) / message)
                nu[i, j] = message
        if change < _TOLERANCE:
            break


@kernel
def bethe_kernel(step: Step, distances: FloatArray, weight: FloatArray, log_z: FloatArray, labels: FloatArray) -> None:
    """Log Z_B of every position, and the beliefs of the labels."""
    s, n, wanted = distances.shape[1], step.times.shape[0], labels.shape[0] > 0
    tables, mu, nu = new_tables(s, n, 1), np.empty((s, n)), np.empty((s, n))
    w, u, c = tables.w[:, :, 0], tables.u[:, 0], tables.c[:, 0]
    for k in range(distances.shape[0]):
        fill_tables(step, distances, k, tables, False)
        if wanted and weight[k] == 0:
            continue
        _propagate(w, u, c, mu, nu)
        value = tables.scale[0]
        for i in range(s):
            total = u[i]
            for j in range(n):
                total += w[i, j] * nu[i, j]
                value -= math.log1p(mu[i, j] * nu[i, j])
            value += math.log(total)
        for j in range(n):
            total = c[j]
            for i in range(s):
                total += mu[i, j]
            value += math.log(total)
            if wanted:
                block = labels[min(k, labels.shape[0] - 1)]
                for i in range(s):
                    block[j, i] += weight[k] * mu[i, j] / total
                block[j, s] += weight[k] * c[j] / total
        log_z[k] = value
