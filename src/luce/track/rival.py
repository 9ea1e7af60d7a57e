"""Is the track lost? A rival that searches everywhere, against which the filter must hold its ground.

The rival follows the same target on a coarse lattice over the area of the sources, and lets it turn up anywhere with
probability 1/50 a step. Given the past, its density q_k of the signals of step k is a proper density, and so is the
filter's, p_k. While the filter's model holds, E[q_k / p_k | past] = 1, so that

    W_k = max(W_{k-1}, 1)^0.9 q_k / p_k,          lost where W_k >= 10,000,

raises its first false alarm after 10,000 steps or more on average (Page's test; Lorden 1971 has the bound, and the
exponent only lowers W), whatever the lattice: that is chosen for power only. p_k is an estimate by particles, so the
bound holds up to their number.
A lost track is found again once filter and rival have two fifths of their probability in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from luce.track.dynamics import Dynamics
from luce.track.geometry import Geometry
from luce.track.reception import OfRange, Reception
from luce.track.sources import Sources
from luce.types import FloatArray

ALARM = math.log(10_000.0)
_MOST = 1.5 * ALARM
"""Suspicion grows no further: a target that is found again is believed after a few steps."""
_MEMORY = 0.9
"""Old evidence fades: a step that is somewhat too small is not yet a lost track."""
_POINTS = 600
_ANYWHERE = 0.02


def suspicion(before: float, ours: float, theirs: float) -> float:
    """Log W_k from log W_{k-1} and the log-densities of the filter and the rival.

    >>> round(suspicion(-3.0, -5.0, -4.0), 6), round(suspicion(2.0, -4.0, -5.0), 6)
    (1.0, 0.8)
    """
    return min(_MEMORY * max(before, 0.0) + theirs - ours, _MOST)


@dataclass(frozen=True, eq=False)
class Rival:
    """A lattice of positions and what is heard there; its state is one probability a position."""

    origin: FloatArray
    points: FloatArray
    axes: tuple[FloatArray, ...]
    """Displacements of the lattice from the origin, axis by axis."""
    reception: Reception

    @classmethod
    def over(cls, sources: Sources, start: FloatArray, reception: Reception) -> Rival:
        """A lattice over the box of the sources and the start, a tenth wider on each side.

        Arrivals are blurred by the time that a signal needs for the sides of a cell, so that a target between the
        points is heard too.
        """
        low, high = _box(sources.geometry, np.vstack([sources.positions, start[None, :]]))
        extent = high - low
        # Sources on a line or at one place say nothing of how far off they are heard.
        reach = 1.0 if reception.window is None else reception.mean_speed * (reception.window[1] - reception.window[0])
        extent = np.maximum(extent, 0.5 * np.max(extent) if np.max(extent) > 0 else reach)
        centre = 0.5 * (low + high)
        n = max(round(_POINTS ** (1 / len(extent))), 2)
        places = np.linspace(-0.6, 0.6, n)
        axes = tuple(c + e * places for c, e in zip(centre, extent, strict=True))
        offsets = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        origin = sources.positions[0]
        points = sources.geometry.move(np.repeat(origin[None, :], len(offsets), axis=0), offsets)
        side = math.sqrt(float(np.sum((1.2 * extent / (n - 1)) ** 2)) / (12 * len(axes)))
        return cls(
            origin, points, axes, replace(reception, sigma=_blurred(reception.sigma, side / reception.mean_speed))
        )

    def initial(self) -> FloatArray:
        """Anywhere."""
        return np.full(len(self.points), 1 / len(self.points))

    def moved(self, weight: FloatArray, dynamics: Dynamics, span: float) -> FloatArray:
        """Probabilities after a span of time: the target's motion, axis by axis, or a jump anywhere."""
        table = weight.reshape([len(axis) for axis in self.axes])
        for a, variance in enumerate(_variances(dynamics, span, len(self.axes))):
            axis = self.axes[a]
            kernel = np.exp(-0.5 * (axis[:, None] - axis) ** 2 / (variance + 0.25 * (axis[1] - axis[0]) ** 2))
            kernel /= kernel.sum(axis=1, keepdims=True)
            table = np.moveaxis(np.tensordot(table, kernel, axes=(a, 0)), -1, a)
        return (1 - _ANYWHERE) * table.reshape(-1) + _ANYWHERE / len(weight)

    @staticmethod
    def heard(weight: FloatArray, log_likelihood: FloatArray) -> tuple[float, FloatArray]:
        """Log q of the signals and the probabilities after them; unchanged where no point explains the signals."""
        top = float(np.max(log_likelihood))
        if top == -math.inf:
            return top, weight
        joint = weight * np.exp(log_likelihood - top)
        total = float(joint.sum())
        return top + math.log(total), joint / total

    def on_lattice(self, geometry: Geometry, x: FloatArray, weight: FloatArray) -> FloatArray:
        """Weights of positions, each given to the nearest point."""
        offsets = geometry.displacement(np.repeat(self.origin[None, :], len(x), axis=0), x)
        nearest = [
            np.clip(np.rint((offsets[:, a] - axis[0]) / (axis[1] - axis[0])), 0, len(axis) - 1).astype(np.int64)
            for a, axis in enumerate(self.axes)
        ]
        rows = np.ravel_multi_index(nearest, [len(axis) for axis in self.axes])
        return np.asarray(np.bincount(rows, weight, minlength=len(self.points)), dtype=np.float64)


def _box(geometry: Geometry, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    offsets = geometry.displacement(np.repeat(positions[:1], len(positions), axis=0), positions)
    return offsets.min(axis=0), offsets.max(axis=0)


def _blurred(sigma: OfRange, blur: float) -> OfRange:
    if not callable(sigma):
        return np.sqrt(np.asarray(sigma, dtype=np.float64) ** 2 + blur**2)

    def wider(distance: FloatArray) -> FloatArray:
        return np.sqrt(np.asarray(sigma(distance)) ** 2 + blur**2)

    return wider


def _variances(dynamics: Dynamics, span: float, dimensions: int) -> FloatArray:
    """Mean square displacement of each axis, velocities drawn as at the start."""
    A, b, Q = dynamics.moments(span, dimensions)
    velocity = dynamics.initial_velocity(256, dimensions, np.random.default_rng(0))
    shift = velocity @ A[:dimensions].T + b[:dimensions]
    result: FloatArray = np.diag(Q)[:dimensions] + np.mean(np.broadcast_to(shift**2, (256, dimensions)), axis=0)
    return result
