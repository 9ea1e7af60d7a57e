"""The first model of [Pareek] chapter 5, by j-th-minimum factors: an independent check of the bipartite ones.

Density of the j-th smallest arrival at T, [Pareek] (5.6): choose the source k that arrives at T, j - 1 sources before
it and the others after it,

    f_j(T) = sum_k p_k(T) [x^(j-1)] prod_{l != k} (b_l + a_l x),    a_l = P(t_l < T),  b_l = 1 - a_l.

(The text expands prod(x + c_i), whose coefficient of x^k is the symmetric polynomial of degree n - k, not k.) The
likelihood is the product of these densities, which is the joint density of T_1 <= ... <= T_r for r = 1 only. Clutter
([Pareek] section 5.4.1): signal j is clutter with probability P_C and density p_N, and a later signal then counts one
rank less; the sum over the 2^r patterns is a recursion on the number of genuine signals so far. A source that is
missed never arrives. Where the receiver was not full, the next rank must lie after the end of the window. Labels are
what the messages say, [Pareek] (5.14): source i made signal j with weight p_i(T_j) h_1(T_j), the ranks summed out.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.track.tables import Step
from luce.types import FloatArray

_NOBODY = -1


@part
def _rank_densities(
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
        log_density = _rank_densities(step, distance, q, step.times[j], _NOBODY, none, one)
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
        _rank_densities(step, distance, q, step.tau, _NOBODY, none, one)
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
            log_density = _rank_densities(step, distances[k], q, step.times[j], _NOBODY, none, one)
            top = max(log_density + step.log_gain[0, j], step.log_clutter[j])
            clutter, signal = math.exp(step.log_clutter[j] - top), math.exp(log_density + step.log_gain[0, j] - top)
            row[:] = 0.0
            for m in range(n + 1):
                row[s] += genuine[j, m] * clutter * later[m]
                earlier[m] = clutter * later[m] + (signal * one[m] * later[m + 1] if m < n else 0.0)
            for i in range(s):
                _rank_densities(step, distances[k], q, step.times[j], i, none, one)
                mean = step.offsets[i] + distances[k, i] * step.inverse_speed
                z = (step.times[j] - mean) * step.inverse_sigma[q, i]
                at = signal * math.exp(step.log_norm[q, i] - 0.5 * z * z - log_density) if signal > 0 else 0.0
                for m in range(n):
                    row[i] += genuine[j, m] * at * none[m] * later[m + 1]
            total = np.sum(row)
            if total > 0:
                result[k if apart else 0, j] += weight[k] * row / total
            later[:] = earlier
