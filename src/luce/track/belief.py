"""The Bethe approximation of the likelihood: belief propagation between sources and signals.

With `w`, `u`, `c` as in `tables`, the messages [Pareek] (5.28) to [Pareek] (5.36) are one number a pair and direction:

    mu_ij = w_ij / (u_i + sum_{j' != j} w_ij' nu_ij'),      nu_ij = 1 / (c_j + sum_{i' != i} mu_i'j),

and log Z_B = sum_i log(u_i + sum_j w_ij nu_ij) + sum_j log(c_j + sum_i mu_ij) - sum_ij log(1 + mu_ij nu_ij).
The fixed point is unique and log Z_B never exceeds log Z. It is the engine for more signals than the exact program can
take: an iteration costs O(sr).
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.track.tables import Step, fill_tables, new_tables
from luce.types import FloatArray

_TINY = 1e-100
"""Stands for weight zero (no clutter, no misses), where a message would be a division by zero."""
_TOLERANCE = 1e-9
_MAX_ITERATIONS = 1000
_LANES = 8


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


@part
def _bethe(w: FloatArray, u: FloatArray, c: FloatArray, mu: FloatArray, nu: FloatArray) -> float:
    s, n = w.shape
    value = 0.0
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
    return value


@kernel
def bethe_kernel(step: Step, distances: FloatArray, result: FloatArray) -> None:
    """Log Z_B of every position."""
    s, n = distances.shape[1], step.times.shape[0]
    tables = new_tables(s, n, _LANES)
    w, u, c = tables.w, tables.u, tables.c
    w1, u1, c1, mu, nu = np.empty((s, n)), np.empty(s), np.empty(n), np.empty((s, n)), np.empty((s, n))
    for first in range(0, distances.shape[0], _LANES):
        fill_tables(step, distances, first, tables)
        for k in range(first, min(first + _LANES, distances.shape[0])):
            w1[:], u1[:], c1[:] = w[:, :, k - first], u[:, k - first], c[:, k - first]
            _propagate(w1, u1, c1, mu, nu)
            result[k] = tables.scale[k - first] + _bethe(w1, u1, c1, mu, nu)


@kernel
def bethe_labels_kernel(step: Step, distances: FloatArray, weight: FloatArray, result: FloatArray) -> None:
    """Add `weight` times the beliefs of the labels R_j to `result[., j, i]`, clutter in the last column."""
    s, n = distances.shape[1], step.times.shape[0]
    tables = new_tables(s, n, _LANES)
    w, u, c = tables.w, tables.u, tables.c
    w1, u1, c1, mu, nu = np.empty((s, n)), np.empty(s), np.empty(n), np.empty((s, n)), np.empty((s, n))
    apart = result.shape[0] > 1
    for first in range(0, distances.shape[0], _LANES):
        fill_tables(step, distances, first, tables)
        for k in range(first, min(first + _LANES, distances.shape[0])):
            if weight[k] == 0:
                continue
            w1[:], u1[:], c1[:] = w[:, :, k - first], u[:, k - first], c[:, k - first]
            _propagate(w1, u1, c1, mu, nu)
            block = result[k if apart else 0]
            for j in range(n):
                total = c1[j] + np.sum(mu[:, j])
                for i in range(s):
                    block[j, i] += weight[k] * mu[i, j] / total
                block[j, s] += weight[k] * c1[j] / total
