"""Smoothing: trajectories drawn backwards through the filter's particles (FFBS).

Given the state y of a trajectory at step t + 1, its state at t is particle k with probability proportional to
w_k f(y | x_k). Drawing an index by w and accepting it with probability f(y | x_k) / max f gives just that
distribution without a sum over all particles; a trajectory that is refused 32 times takes the sum (terms below e^-60 of
the largest left out). The expected cost a step is a few evaluations a trajectory instead of one a particle.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, map_chunks
from luce.track.dynamics import Transition
from luce.track.geometry import Geometry
from luce.types import FloatArray, IntArray

TRIES = 32
_CHUNK = 128


def draw_last(log_weight: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """N indices in proportion to the weights, evenly spread (systematic)."""
    cumulative = np.cumsum(np.exp(log_weight - np.max(log_weight)))
    points = (rng.random() + np.arange(n)) / n * cumulative[-1]
    result: IntArray = np.minimum(np.searchsorted(cumulative, points, side="right"), len(log_weight) - 1).astype(
        np.int64
    )
    return result


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
    n = len(after)
    mean = np.ascontiguousarray(move.mean(geometry, x, v))
    scale, period = geometry.scale(x), geometry.period
    whiten: FloatArray = np.linalg.inv(move.L).astype(np.float64)
    log_weight = log_weight - np.max(log_weight)
    cumulative = np.cumsum(np.exp(log_weight))
    pick, accept, last = rng.random((n, tries)), rng.random((n, tries)), rng.random(n)
    result = np.empty(n, dtype=np.int64)

    def work(_: int, chunk: Chunk) -> None:
        rows = slice(*chunk)
        _back_kernel(
            x, scale, period, mean, whiten, log_weight, cumulative,
            after[rows], pick[rows], accept[rows], last[rows], result[rows],
        )  # fmt: skip

    map_chunks(work, [(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK)])
    return result


@part(fastmath={"contract"})
def _energy(
    k: int,
    x: FloatArray,
    scale: FloatArray,
    period: FloatArray,
    mean: FloatArray,
    whiten: FloatArray,
    y: FloatArray,
    gap: FloatArray,
) -> float:
    """Half the squared Mahalanobis length of (displacement x_k -> y, velocity) - mean_k."""
    d, m = x.shape[1], mean.shape[1]
    for b in range(d):
        gap[b] = y[b] - x[k, b]
        if period[b] > 0:
            gap[b] -= period[b] * math.floor(gap[b] / period[b] + 0.5)
        gap[b] = gap[b] * scale[k, b] - mean[k, b]
    for b in range(d, m):
        gap[b] = y[b] - mean[k, b]
    total = 0.0
    for a in range(m):
        part = 0.0
        for b in range(a + 1):
            part += whiten[a, b] * gap[b]
        total += part * part
    return 0.5 * total


@kernel(fastmath={"contract"})
def _back_kernel(
    x: FloatArray,
    scale: FloatArray,
    period: FloatArray,
    mean: FloatArray,
    whiten: FloatArray,
    log_weight: FloatArray,
    cumulative: FloatArray,
    after: FloatArray,
    pick: FloatArray,
    accept: FloatArray,
    last: FloatArray,
    result: IntArray,
) -> None:
    n, tries = x.shape[0], pick.shape[1]
    energy, gap = np.empty(n), np.empty(mean.shape[1])
    for m in range(after.shape[0]):
        y = after[m]
        found = -1
        for t in range(tries):
            k = min(np.searchsorted(cumulative, pick[m, t] * cumulative[n - 1], side="right"), n - 1)
            if accept[m, t] < math.exp(-_energy(k, x, scale, period, mean, whiten, y, gap)):
                found = k
                break
        if found < 0:
            least = np.inf
            for k in range(n):
                energy[k] = _energy(k, x, scale, period, mean, whiten, y, gap) - log_weight[k]
                least = min(least, energy[k])
            total = 0.0
            for k in range(n):
                gone = energy[k] - least
                if gone < 60:
                    total += math.exp(-gone)
                energy[k] = total
            found = min(np.searchsorted(energy, last[m] * total, side="right"), n - 1)
        result[m] = found
