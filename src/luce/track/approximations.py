"""Kernels that sum over matchings approximately: belief propagation, and least factors."""

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
    tables, mu, nu = new_tables(s, n, 1), np.empty((s, n)), np.empty((s, n))
    w, u, c = tables.w[:, :, 0], tables.u[:, 0], tables.c[:, 0]
    for k in range(distances.shape[0]):
        fill_tables(step, distances, k, tables)
        _propagate(w, u, c, mu, nu)
        result[k] = tables.scale[0] + _bethe(w, u, c, mu, nu)


@kernel
def bethe_labels_kernel(step: Step, distances: FloatArray, weight: FloatArray, result: FloatArray) -> None:
    """Add `weight` times the beliefs of the labels R_j to `result[., j, i]`, clutter in the last column."""
    s, n = distances.shape[1], step.times.shape[0]
    tables, mu, nu = new_tables(s, n, 1), np.empty((s, n)), np.empty((s, n))
    w, u, c = tables.w[:, :, 0], tables.u[:, 0], tables.c[:, 0]
    apart = result.shape[0] > 1
    for k in range(distances.shape[0]):
        fill_tables(step, distances, k, tables)
        if weight[k] == 0:
            continue
        _propagate(w, u, c, mu, nu)
        block = result[k if apart else 0]
        for j in range(n):
            total = c[j] + np.sum(mu[:, j])
            for i in range(s):
                block[j, i] += weight[k] * mu[i, j] / total
            block[j, s] += weight[k] * c[j] / total


NOBODY = -1


@part
def rank_densities(
    step: Step, distance: FloatArray, q: int, time: float, but: int, none: FloatArray, one: FloatArray
) -> float:
    """`none[m]`: P(m sources before `time`); `one[m]`: one at it, [Pareek] (5.6), up to the scale returned (log).

    Source `but` is left out of the two, as in a message to it, and counts for the scale.
    """
    s, top = distance.shape[0], none.shape[0]
    best = -np.inf
    for i in range(s):
        z = (time - step.offsets[i] - distance[i] * step.inverse_speed) * step.inverse_sigma[q, i]
        best = max(best, step.log_norm[q, i] - 0.5 * z * z)
    none[:] = 0.0
    one[:] = 0.0
    none[0] = 1.0
    if best == -np.inf:
        return best
    for i in range(s):
        if i == but:
            continue
        mean = step.offsets[i] + distance[i] * step.inverse_speed
        z = (time - mean) * step.inverse_sigma[q, i]
        lost = 0.0
        if step.early > -np.inf:
            lost = math.erfc((mean - step.early) * step.inverse_sigma[q, i] * math.sqrt(0.5))
        a = 0.5 * step.detection[q, i] * (math.erfc(-z * math.sqrt(0.5)) - lost)
        b = step.absent[q, i] + 0.5 * step.detection[q, i] * (math.erfc(z * math.sqrt(0.5)) + lost)
        p = math.exp(step.log_norm[q, i] - 0.5 * z * z - best)
        for m in range(top - 1, -1, -1):
            one[m] = one[m] * b + none[m] * p
            none[m] = none[m] * b
            if m > 0:
                one[m] += one[m - 1] * a
                none[m] += none[m - 1] * a
    return best


@part
def _forward(step: Step, distance: FloatArray, q: int, genuine: FloatArray, none: FloatArray, one: FloatArray) -> float:
    """`genuine[j, m]`: weight of the first j signals, m of them genuine, up to the scale returned (log)."""
    n = step.times.shape[0]
    genuine[:] = 0.0
    genuine[0, 0] = 1.0
    scale = 0.0
    for j in range(n):
        log_density = rank_densities(step, distance, q, step.times[j], NOBODY, none, one)
        top: float = max(log_density + step.log_gain[0, j], step.log_clutter[j])
        if top == -np.inf:
            return top
        scale += top
        clutter, signal = math.exp(step.log_clutter[j] - top), math.exp(log_density + step.log_gain[0, j] - top)
        for m in range(j + 2):
            genuine[j + 1, m] = genuine[j, m] * clutter
            if m > 0:
                genuine[j + 1, m] += genuine[j, m - 1] * signal * one[m - 1]
    return scale


@part
def _last(step: Step, distance: FloatArray, q: int, last: FloatArray, none: FloatArray, one: FloatArray) -> None:
    """`last[m]`: probability that no more than m sources came before the end of the window; 1 for a full receiver."""
    last[:] = 1.0
    if not step.full:
        rank_densities(step, distance, q, step.tau, NOBODY, none, one)
        before = 0.0
        for m in range(last.shape[0]):
            before += none[m]
            last[m] = before


@kernel
def min_factor_kernel(step: Step, distances: FloatArray, result: FloatArray) -> None:
    """Log of the product of rank densities, clutter summed out, [Pareek] (5.69), of every position."""
    n = step.times.shape[0]
    none, one, last = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
    genuine = np.empty((n + 1, n + 1))
    by_range = step.detection.shape[0] > 1
    for k in range(distances.shape[0]):
        q = k if by_range else 0
        scale = _forward(step, distances[k], q, genuine, none, one)
        _last(step, distances[k], q, last, none, one)
        total = 0.0
        for m in range(n + 1):
            total += genuine[n, m] * last[m]
        result[k] = scale + math.log(total) if total > 0 else -np.inf


@kernel
def min_factor_labels_kernel(step: Step, distances: FloatArray, weight: FloatArray, result: FloatArray) -> None:
    """Add `weight` times the beliefs of the labels R_j to `result[., j, i]`, clutter in the last column."""
    s, n = distances.shape[1], step.times.shape[0]
    none, one = np.empty(n + 1), np.empty(n + 1)
    genuine, later, earlier = np.empty((n + 1, n + 1)), np.empty(n + 1), np.empty(n + 1)
    row = np.empty(s + 1)
    by_range, apart = step.detection.shape[0] > 1, result.shape[0] > 1
    for k in range(distances.shape[0]):
        q = k if by_range else 0
        if weight[k] == 0 or _forward(step, distances[k], q, genuine, none, one) == -np.inf:
            continue
        _last(step, distances[k], q, later, none, one)
        for j in range(n - 1, -1, -1):
            log_density = rank_densities(step, distances[k], q, step.times[j], NOBODY, none, one)
            top = max(log_density + step.log_gain[0, j], step.log_clutter[j])
            clutter, signal = math.exp(step.log_clutter[j] - top), math.exp(log_density + step.log_gain[0, j] - top)
            row[:] = 0.0
            for m in range(n + 1):
                row[s] += genuine[j, m] * clutter * later[m]
                earlier[m] = clutter * later[m] + (signal * one[m] * later[m + 1] if m < n else 0.0)
            for i in range(s):
                rank_densities(step, distances[k], q, step.times[j], i, none, one)
                mean = step.offsets[i] + distances[k, i] * step.inverse_speed
                z = (step.times[j] - mean) * step.inverse_sigma[q, i]
                at = signal * math.exp(step.log_norm[q, i] - 0.5 * z * z - log_density) if signal > 0 else 0.0
                for m in range(n):
                    row[i] += genuine[j, m] * at * none[m] * later[m + 1]
            total = np.sum(row)
            if total > 0:
                result[k if apart else 0, j] += weight[k] * row / total
            later[:] = earlier
