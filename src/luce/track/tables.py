"""What one step says about positions, as numbers: the factors of the bipartite model.

Every engine sees the same three tables (Eq. 5.66 and 5.67, missing and late merged): `w[i, j]`, source i made signal j;
`u[i]`, source i made none of them; `c[j]`, signal j is clutter. `Step` holds what is common to all positions;
`fill_tables` turns it and the distances of a block of positions (lanes, the last axis) into the tables, with one scale
a signal, and `fill_log_tables` does so for one position in logarithms.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luce.track.lanes import exp_lanes, log_upper_tail, upper_tail_lanes
from luce.types import FloatArray, IntArray

__all__ = ["BoolArray", "Step", "fill_log_tables", "fill_tables", "n_lanes"]


BoolArray: TypeAlias = NDArray[np.bool_]
_NEGLIGIBLE = 42.0


class Step(NamedTuple):
    """One step's signals and settings; arrays of shape (1 or positions, sources) may depend on the range.

    `log_gain[i, j]` is log((1 + lambda)(1 - P_C)), -inf where a label forbids the pair; `log_clutter[j]` is
    log((1 + lambda) P_C p_N(T_j)). `tau` is the late threshold, `early` the start of the window where earlier arrivals
    are lost (else -inf). Without `ranked` a source that was not heard counts `absent` only; `full` says that the
    receiver kept as many signals as it can.
    """

    inverse_speed: float
    offsets: FloatArray
    inverse_sigma: FloatArray
    log_norm: FloatArray
    detection: FloatArray
    absent: FloatArray
    log_absent: FloatArray
    times: FloatArray
    log_gain: FloatArray
    log_clutter: FloatArray
    tau: float
    early: float
    ranked: bool
    full: bool


@njit(nogil=True, cache=True)
def n_lanes(n: int) -> int:
    """Positions to take together: as many as keep the 2^n sums of each in the first-level cache."""
    return max(8, min(64, 2048 >> n))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def fill_tables(
    step: Step,
    distances: FloatArray,
    first: int,
    w: FloatArray,
    u: FloatArray,
    c: FloatArray,
    scale: FloatArray,
    active: BoolArray,
    work: FloatArray,
    bits: IntArray,
) -> None:
    """Tables of the positions from `first` on, columns scaled to a largest entry of 1 (`scale`: the log of all).

    Every entry is at most 1, so a sum of matchings well above the smallest double has lost nothing to underflow. Lanes
    beyond the last position repeat it. `work` is (4, lanes), and `bits` views its last row as integers.

    `active[i, j]` is False, and w zero, where in all lanes the pair weighs less than e^-42 of "j is clutter and i was
    not heard": every matching with the pair then has one without it that is heavier by more than a double can tell.
    """
    (inverse_speed, offsets, inverse_sigma, log_norm, detection, absent) = step[:6]
    (log_absent, times, log_gain, log_clutter) = step[6:10]
    tau, early, ranked, _ = step[10:]
    s, n, lanes = w.shape
    last = distances.shape[0] - 1
    by_range = detection.shape[0] > 1
    mean, z, tail, power = work[0], work[1], work[2], work[3]
    for j in range(n):
        for a in range(lanes):
            c[j, a] = log_clutter[j]
    for i in range(s):
        for a in range(lanes):
            mean[a] = offsets[i] + distances[min(first + a, last), i] * inverse_speed
            u[i, a] = absent[min(first + a, last) if by_range else 0, i]
        if ranked:
            for a in range(lanes):
                z[a] = (tau - mean[a]) * inverse_sigma[min(first + a, last) if by_range else 0, i]
            upper_tail_lanes(z, tail, scale, power, bits)
            for a in range(lanes):
                u[i, a] += detection[min(first + a, last) if by_range else 0, i] * tail[a]
            if early > -np.inf:
                for a in range(lanes):
                    z[a] = (mean[a] - early) * inverse_sigma[min(first + a, last) if by_range else 0, i]
                upper_tail_lanes(z, tail, scale, power, bits)
                for a in range(lanes):
                    u[i, a] += detection[min(first + a, last) if by_range else 0, i] * tail[a]
        for a in range(lanes):
            z[a] = inverse_sigma[min(first + a, last) if by_range else 0, i]
            tail[a] = log_norm[min(first + a, last) if by_range else 0, i]
        floor = log_absent[0, i]
        if by_range:
            for a in range(lanes):
                floor = min(floor, log_absent[min(first + a, last), i])
        for j in range(n):
            best = _log_weights(times[j], log_gain[i, j], mean, z, tail, w[i, j], c[j])
            active[i, j] = best > log_clutter[j] + floor - _NEGLIGIBLE
    _rescale(log_clutter, w, c, scale, active, power, bits)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nnan", "nsz"})
def _log_weights(
    time: float,
    gain: float,
    mean: FloatArray,
    inverse: FloatArray,
    norm: FloatArray,
    w: FloatArray,
    c: FloatArray,
) -> float:
    """Log-weights of one pair, lane by lane; raises the largest of the column and returns its own largest."""
    best = -np.inf
    for a in range(w.shape[0]):
        y = (time - mean[a]) * inverse[a]
        value = gain + norm[a] - 0.5 * y * y
        w[a] = value
        c[a] = value if value > c[a] else c[a]
        best = value if value > best else best
    return best


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _rescale(
    log_clutter: FloatArray,
    w: FloatArray,
    c: FloatArray,
    scale: FloatArray,
    active: BoolArray,
    power: FloatArray,
    bits: IntArray,
) -> None:
    """Logarithms to numbers, each signal's column divided by its largest entry."""
    s, n, lanes = w.shape
    for a in range(lanes):
        scale[a] = 0.0
    for j in range(n):
        for a in range(lanes):
            c[j, a] = c[j, a] if c[j, a] > -1e300 else -1e300
            scale[a] += c[j, a]
        for i in range(s):
            if active[i, j]:
                for a in range(lanes):
                    w[i, j, a] -= c[j, a]
                exp_lanes(w[i, j], power, bits)
            else:
                w[i, j] = 0.0
        for a in range(lanes):
            c[j, a] = log_clutter[j] - c[j, a]
        exp_lanes(c[j], power, bits)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def fill_log_tables(step: Step, distance: FloatArray, q: int, w: FloatArray, u: FloatArray, c: FloatArray) -> None:
    """The tables of one position as logarithms, for where the linear ones underflow; q is its row of settings."""
    s, n = w.shape
    for j in range(n):
        c[j] = step.log_clutter[j]
    for i in range(s):
        mean = step.offsets[i] + distance[i] * step.inverse_speed
        inverse, detection = step.inverse_sigma[q, i], step.detection[q, i]
        value = step.log_absent[q, i]
        if step.ranked and detection > 0:
            log_detection = math.log(detection)
            value = np.logaddexp(value, log_detection + log_upper_tail((step.tau - mean) * inverse))
            if step.early > -np.inf:
                value = np.logaddexp(value, log_detection + log_upper_tail((mean - step.early) * inverse))
        u[i] = min(value, 0.0)
        for j in range(n):
            z = (step.times[j] - mean) * inverse
            w[i, j] = step.log_gain[i, j] + step.log_norm[q, i] - 0.5 * z * z
