"""Smoothing: trajectories drawn backwards through the filter's particles (FFBS).

Given the state y of a trajectory at step t + 1, its state at t is particle k with probability proportional to
w_k f(y | x_k). Drawing an index by w and accepting it with probability f(y | x_k) / max f gives just that
distribution without a sum over all particles; a trajectory that is refused 16 times takes the sum. The expected cost a
step is a few evaluations a trajectory instead of one a particle.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from luce.numerics.segments import Chunk, map_chunks
from luce.track.dynamics import Transition
from luce.track.geometry import Geometry
from luce.types import FloatArray, IntArray

__all__ = ["draw_last", "step_back"]

TRIES = 16
_CHUNK = 128


def draw_last(log_weight: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """n indices in proportion to the weights, evenly spread (systematic)."""
    cumulative = np.cumsum(np.exp(log_weight - np.max(log_weight)))
    points = (rng.random() + np.arange(n)) / n * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, points, side="right"), len(log_weight) - 1).astype(np.int64)


def step_back(
    geometry: Geometry,
    move: Transition,
    x: FloatArray,
    v: FloatArray,
    log_weight: FloatArray,
    after: FloatArray,
    rng: np.random.Generator,
    tries: int = TRIES,
) -> IntArray:
    """Indices of the particles (x, v) at step t that lead to the states `after` (position, velocity) at t + 1."""
    n, d = len(after), x.shape[1]
    mean = np.ascontiguousarray(move.mean(geometry, x, v))
    scale, period = geometry.scale(x), geometry.period
    whiten = np.linalg.inv(move.L)
    weight = np.exp(log_weight - np.max(log_weight))
    cumulative = np.cumsum(weight)
    pick, accept, last = rng.random((n, tries)), rng.random((n, tries)), rng.random(n)
    result = np.empty(n, dtype=np.int64)

    def work(_: int, chunk: Chunk) -> None:
        rows = slice(*chunk)
        _back_kernel(
            x, scale, period, mean, whiten, weight, cumulative,
            after[rows], d, pick[rows], accept[rows], last[rows], result[rows],
        )  # fmt: skip

    map_chunks(work, [(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK)])
    return result


@njit(nogil=True, cache=True, error_model="numpy")
def _distance(
    x: FloatArray, scale: FloatArray, period: FloatArray, mean: FloatArray, whiten: FloatArray, y: FloatArray, d: int
) -> float:
    """Half the squared Mahalanobis length of (displacement x -> y, velocity) - mean."""
    m = mean.shape[0]
    total = 0.0
    for a in range(m):
        part = 0.0
        for b in range(a + 1):
            if b < d:
                gap = y[b] - x[b]
                if period[b] > 0:
                    gap -= period[b] * math.floor(gap / period[b] + 0.5)
                gap = gap * scale[b] - mean[b]
            else:
                gap = y[b] - mean[b]
            part += whiten[a, b] * gap
        total += part * part
    return 0.5 * total


@njit(nogil=True, cache=True, error_model="numpy")
def _back_kernel(
    x: FloatArray,
    scale: FloatArray,
    period: FloatArray,
    mean: FloatArray,
    whiten: FloatArray,
    weight: FloatArray,
    cumulative: FloatArray,
    after: FloatArray,
    d: int,
    pick: FloatArray,
    accept: FloatArray,
    last: FloatArray,
    result: IntArray,
) -> None:
    n = x.shape[0]
    energy = np.empty(n)
    for m in range(after.shape[0]):
        found = -1
        for t in range(pick.shape[1]):
            k = min(np.searchsorted(cumulative, pick[m, t] * cumulative[n - 1], side="right"), n - 1)
            if accept[m, t] < math.exp(-_distance(x[k], scale[k], period, mean[k], whiten, after[m], d)):
                found = k
                break
        if found < 0:
            least = np.inf
            for k in range(n):
                energy[k] = np.inf
                if weight[k] > 0:
                    energy[k] = _distance(x[k], scale[k], period, mean[k], whiten, after[m], d) - math.log(weight[k])
                    least = min(least, energy[k])
            total = 0.0
            for k in range(n):
                total += math.exp(least - energy[k])
                energy[k] = total
            found = min(np.searchsorted(energy, last[m] * total, side="right"), n - 1)
        result[m] = found
