"""The exact likelihood: a sum over all matchings of sources and signals, by a program over subsets of the signals.

    Z = sum over matchings of  prod_clutter c_j  prod_received w_ij  prod_others u_i

`f[mask]` is the weight of all ways in which the signals of `mask` are explained by clutter and the sources seen so far:
clutter starts it with `f[mask] = prod_{j in mask} c_j`, and source i turns it into
`u_i f[mask] + sum_{j in mask} w_ij f[mask without j]`. After s sources `f[all]` is Z, in O(s 2^r r).

The linear domain is used with one scale a signal; where its sum comes near underflow (no clutter and no misses, a
position far off) the same program runs on logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.track.subsets import LANES, sum_matchings
from luce.track.tables import Step, Tables, fill_log_tables, fill_tables, new_tables
from luce.types import FloatArray, IntArray

_SAFE = 1e-250


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
                result[k] = _log_likelihood(step, distances, k)


@part(fastmath={"contract"})
def _log_likelihood(step: Step, distances: FloatArray, k: int) -> float:
    s, n = distances.shape[1], step.times.shape[0]
    w, u, c = np.empty((s, n)), np.empty(s), np.empty(n)
    fill_log_tables(step, distances[k], k if step.detection.shape[0] > 1 else 0, w, u, c)
    return _log_sum_matchings(w, u, c, np.empty(1 << n))  # type: ignore[no-any-return]


@part(fastmath={"contract"})
def _log_sum_matchings(w: FloatArray, u: FloatArray, c: FloatArray, f: FloatArray) -> float:
    s, n = w.shape
    f[0] = 0.0
    for j in range(n):
        for mask in range(1 << j):
            f[mask | (1 << j)] = f[mask] + c[j]
    for i in range(s):
        for mask in range((1 << n) - 1, -1, -1):
            value = u[i] + f[mask]
            for j in range(n):
                if mask & (1 << j):
                    value = np.logaddexp(value, w[i, j] + f[mask ^ (1 << j)])
            f[mask] = value
    result: float = f[(1 << n) - 1]
    return result


@kernel(fastmath={"contract"})
def exact_labels_kernel(step: Step, distances: FloatArray, weight: FloatArray, result: FloatArray) -> None:
    """Add `weight` times P(R_j = i | T, X) to `result[., j, i]`, clutter in the last column.

    `result` has one block a position, or a single block in which all positions are summed.

    Forward `f` as above; backward `b[mask]` is the weight of all ways in which the remaining sources and clutter
    explain what is outside `mask`. P(R_j = i) is the sum over masks without j of f_i[mask] w_ij b_{i+1}[mask + j] / Z.
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
            total = b[0, k - first]
            if not total > _SAFE:
                _log_label_shares(step, distances, k, alone)
            for j in range(n):
                for i in range(s + 1):
                    part = share[j, i, k - first] / total if total > _SAFE else alone[j, i]
                    result[k if apart else 0, j, i] += weight[k] * part


@part(fastmath={"contract"})
def _marginals(tables: Tables, f: FloatArray, b: FloatArray, share: FloatArray) -> None:
    """Unnormalised P(R_j = i), lane by lane; their common total is left in b[none]."""
    w, u, c, active = tables.w, tables.u, tables.c, tables.active
    s, n, lanes = w.shape
    full = (1 << n) - 1
    share[:] = 0.0
    f[0] = 0.0
    f[0, 0] = 1.0
    for i in range(s):
        for mask in range(full + 1):
            for a in range(lanes):
                f[i + 1, mask, a] = u[i, a] * f[i, mask, a]
            for j in range(n):
                if active[i, j] and mask & (1 << j):
                    for a in range(lanes):
                        f[i + 1, mask, a] += w[i, j, a] * f[i, mask ^ (1 << j), a]
    _clutter_products(c, b)
    for mask in range(full + 1):
        for j in range(n):
            if not mask & (1 << j):
                for a in range(lanes):
                    share[j, s, a] += f[s, mask, a] * b[mask, a]
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


@part(fastmath={"contract"})
def _clutter_products(c: FloatArray, b: FloatArray) -> None:
    """b[mask] := the product of c over the signals outside mask."""
    n, lanes = c.shape
    full = (1 << n) - 1
    for a in range(lanes):
        b[full, a] = 1.0
    for mask in range(full - 1, -1, -1):
        j = 0
        while mask & (1 << j):
            j += 1
        for a in range(lanes):
            b[mask, a] = b[mask | (1 << j), a] * c[j, a]


@part(fastmath={"contract"})
def _log_label_shares(step: Step, distances: FloatArray, k: int, share: FloatArray) -> None:
    s, n = distances.shape[1], step.times.shape[0]
    w, u, c = np.empty((s, n)), np.empty(s), np.empty(n)
    fill_log_tables(step, distances[k], k if step.detection.shape[0] > 1 else 0, w, u, c)
    _log_marginals(w, u, c, np.empty((s + 1, 1 << n)), np.empty(1 << n), share)


@part(fastmath={"contract"})
def _log_marginals(
    w: FloatArray, u: FloatArray, c: FloatArray, f: FloatArray, b: FloatArray, share: FloatArray
) -> float:
    """The same in logarithms; `share` is normalised."""
    s, n = w.shape
    full = (1 << n) - 1
    f[:] = -np.inf
    f[0, 0] = 0.0
    for i in range(s):
        for mask in range(full + 1):
            value = u[i] + f[i, mask]
            for j in range(n):
                if mask & (1 << j):
                    value = np.logaddexp(value, w[i, j] + f[i, mask ^ (1 << j)])
            f[i + 1, mask] = value
    b[full] = 0.0
    for mask in range(full - 1, -1, -1):
        for j in range(n):
            if not mask & (1 << j):
                b[mask] = b[mask | (1 << j)] + c[j]
                break
    share[:] = 0.0
    total = -np.inf
    for mask in range(full + 1):
        total = np.logaddexp(total, f[s, mask] + b[mask])
    if total == -np.inf:
        return total
    for mask in range(full + 1):
        for j in range(n):
            if not mask & (1 << j):
                share[j, s] += math.exp(f[s, mask] + b[mask] - total)
    for i in range(s - 1, -1, -1):
        for mask in range(full + 1):
            value = u[i] + b[mask]
            for j in range(n):
                if not mask & (1 << j):
                    term = w[i, j] + b[mask | (1 << j)]
                    value = np.logaddexp(value, term)
                    share[j, i] += math.exp(f[i, mask] + term - total)
            b[mask] = value
    return total


@kernel(fastmath={"contract"})
def best_matching(step: Step, distances: FloatArray, labels: IntArray, result: FloatArray) -> None:
    """The most probable labels of every position (max-product): a source's number, or -1 for clutter."""
    s, n = distances.shape[1], step.times.shape[0]
    full = (1 << n) - 1
    w, u, c = np.empty((s, n)), np.empty(s), np.empty(n)
    f = np.empty((s + 1, full + 1))
    by_range = step.detection.shape[0] > 1
    for k in range(distances.shape[0]):
        fill_log_tables(step, distances[k], k if by_range else 0, w, u, c)
        f[0, 0] = 0.0
        for j in range(n):
            for mask in range(1 << j):
                f[0, mask | (1 << j)] = f[0, mask] + c[j]
        for i in range(s):
            for mask in range(full + 1):
                value = u[i] + f[i, mask]
                for j in range(n):
                    if mask & (1 << j):
                        value = max(value, w[i, j] + f[i, mask ^ (1 << j)])
                f[i + 1, mask] = value
        result[k] = f[s, full]
        labels[k] = -1
        mask = full
        for i in range(s - 1, -1, -1):
            if f[i + 1, mask] == u[i] + f[i, mask]:
                continue
            for j in range(n):
                if mask & (1 << j) and f[i + 1, mask] == w[i, j] + f[i, mask ^ (1 << j)]:
                    labels[k, j] = i
                    mask ^= 1 << j
                    break
