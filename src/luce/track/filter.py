"""The particle filter (Algorithm 2): propagate, weight, resample.

Weights are kept as logarithms. A step whose likelihood is zero at every particle is left out (prediction only), and
said so. A track counts as lost while many more signals of the last five steps are taken for clutter than the clutter
rate allows; the noise of the next step is then widened, the more the longer it lasts, in filter and smoother alike,
until sources are heard again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from luce.errors import SettingError
from luce.track.dynamics import Dynamics, Transition, transition
from luce.track.likelihood import Engine, all_distances, engine_for, expected_labels, step_for, step_likelihood
from luce.track.reception import Reception
from luce.track.signals import Signals
from luce.track.sources import Sources
from luce.types import FloatArray

__all__ = ["Filter", "Problem", "State", "effective_size", "is_lost", "mean_and_covariance"]

_LOST_STEPS = 5
_MOST_WIDENING = 4


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that does not change while a target is followed."""

    signals: Signals
    sources: Sources
    reception: Reception
    dynamics: Dynamics
    engine: str
    start: FloatArray
    start_time: float
    start_sd: float = 0.0
    end: FloatArray | None = None
    end_time: float = 0.0
    end_sd: float = 0.0
    particles: int = 2000
    threshold: float = 0.5
    widen: float = 5.0
    fix_labels: bool = False

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise SettingError(f"particles is {self.particles}; at least 1 is needed.")
        if not 0 <= self.threshold <= 1:
            raise SettingError(f"threshold is {self.threshold:g}; it is a share of the particles, between 0 and 1.")
        if not self.widen >= 1:
            raise SettingError(f"widen is {self.widen:g}; it multiplies the noise of a lost track, so at least 1.")

    @property
    def dimensions(self) -> int:
        """Dimensions of space."""
        return self.sources.positions.shape[1]

    def engine_at(self, k: int) -> Engine:
        """The engine for step k."""
        return engine_for(self.engine, int(self.signals.counts[k]))

    def move(self, k: int, widened: float) -> Transition:
        """The transition into step k, its noise widened by a factor."""
        before = self.start_time if k == 0 else self.signals.times[k - 1]
        now = self.signals.times[k]
        return transition(
            self.dynamics,
            float(now - before),
            self.dimensions,
            widen=widened,
            end=self.end,
            end_sd=self.end_sd,
            remaining=float(self.end_time - now),
        )


@dataclass(eq=False)
class State:
    """What the filter has found so far: a block a step, enough to go on, to smooth, or to write down."""

    x: FloatArray
    v: FloatArray
    log_weight: FloatArray
    evidence: FloatArray
    effective: FloatArray
    clutter: FloatArray
    expected_clutter: FloatArray
    lost_steps: FloatArray
    skipped: FloatArray
    resampled: FloatArray
    labels: list[FloatArray] = field(default_factory=list)
    step: int = 0

    @classmethod
    def empty(cls, problem: Problem) -> State:
        """Room for every step."""
        steps, n, d = len(problem.signals), problem.particles, problem.dimensions
        m = problem.dynamics.n_velocity(d)
        blocks = np.zeros((7, steps))
        return cls(np.zeros((steps, n, d)), np.zeros((steps, n, m)), np.zeros((steps, n)), *blocks)

    def widening(self, problem: Problem, k: int) -> float:
        """Factor on the noise of the step into k: 1 + (widen - 1) times the steps it has been lost, up to four."""
        return float(1 + (problem.widen - 1) * min(self.lost_steps[k], _MOST_WIDENING))


class Filter:
    """A filter at work: `advance` takes one step; everything random comes from `rng`."""

    def __init__(self, problem: Problem, rng: np.random.Generator, state: State | None = None) -> None:
        self.problem = problem
        self.rng = rng
        self.state = State.empty(problem) if state is None else state

    def run(self, each: Callable[[Filter], Any] | None = None) -> State:
        """All remaining steps; `each` is called after every one."""
        while self.state.step < len(self.problem.signals):
            self.advance()
            if each is not None:
                each(self)
        return self.state

    def advance(self) -> None:
        """Propagate into the next step, weight by its signals, and resample if the weights have become uneven."""
        state, k = self.state, self.state.step
        state.lost_steps[k] = state.lost_steps[k - 1] + 1 if k > 0 and is_lost(state, k - 1) else 0
        x, v, log_weight = self._propagated(k)
        log_weight = self._weighted(k, x, log_weight)
        state.x[k], state.v[k], state.log_weight[k] = x, v, log_weight
        state.effective[k] = effective_size(log_weight)
        state.step = k + 1

    def _propagated(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        problem, rng = self.problem, self.rng
        n, d, geometry = problem.particles, problem.dimensions, problem.sources.geometry
        if k == 0:
            x = np.repeat(problem.start[None, :], n, axis=0)
            if problem.start_sd > 0:
                x = geometry.move(x, problem.start_sd * rng.standard_normal((n, d)))
            v, log_weight = problem.dynamics.initial_velocity(n, d, rng), np.full(n, -np.log(n))
        else:
            x, v, log_weight = self._resampled(k - 1)
        move = problem.move(k, self.state.widening(problem, k))
        z = move.mean(geometry, x, v) + rng.standard_normal((n, len(move.b))) @ move.L.T
        return geometry.move(x, z[:, :d]), np.ascontiguousarray(z[:, d:]), log_weight

    def _resampled(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Systematic resampling when the effective size is below the threshold."""
        state, n = self.state, self.problem.particles
        if state.effective[k] >= self.problem.threshold * n:
            return state.x[k], state.v[k], state.log_weight[k]
        state.resampled[k] = 1
        points = (self.rng.random() + np.arange(n)) / n
        cumulative = np.cumsum(np.exp(state.log_weight[k]))
        chosen = np.minimum(np.searchsorted(cumulative / cumulative[-1], points, side="right"), n - 1)
        return state.x[k][chosen], state.v[k][chosen], np.full(n, -np.log(n))

    def _weighted(self, k: int, x: FloatArray, log_weight: FloatArray) -> FloatArray:
        """Weights after the signals of step k, normalised; unchanged where the receiver was off."""
        state, problem = self.state, self.problem
        s, n_signals = len(problem.sources), int(problem.signals.counts[k])
        if not problem.signals.was_listening(k):
            state.labels.append(np.zeros((n_signals, s + 1)))
            return log_weight
        engine = problem.engine_at(k)
        time = float(problem.signals.times[k])
        fixed = problem.fix_labels or engine.needs_labels
        points, step = step_for(problem.signals, k, problem.sources, problem.reception, engine, time=time, fixed=fixed)
        geometry = problem.sources.geometry
        distances = all_distances(geometry, x, points)
        joint = log_weight + step_likelihood(engine, step, distances)
        top = np.max(joint)
        shares = np.zeros((n_signals, s + 1))
        columns = np.append(step.columns, s)
        if top == -np.inf:
            state.skipped[k] = 1
            shares[:, s] = 1
            state.labels.append(shares)
            return log_weight
        total = np.exp(joint - top).sum()
        state.evidence[k] = top + np.log(total)
        joint -= state.evidence[k]
        weight = np.exp(joint)
        shares[:, columns] = expected_labels(engine, step, distances, weight)
        state.labels.append(shares)
        if not fixed:
            state.clutter[k] = shares[:, s].sum()
            state.expected_clutter[k] = -step.constant
        return joint


def is_lost(state: State, k: int) -> bool:
    """Whether step k was impossible, or the last steps have far more clutter than a Poisson number of its mean can be.

    The mean number of clutter signals before the late threshold is lambda F_N(tau); the bound is three standard
    deviations and two signals above it.
    """
    if state.skipped[k]:
        return True
    rows = slice(max(k - _LOST_STEPS + 1, 0), k + 1)
    expected = state.expected_clutter[rows].sum()
    return bool(state.clutter[rows].sum() > expected + 3 * math.sqrt(expected) + 2)


def effective_size(log_weight: FloatArray) -> float:
    """1 / sum of squared weights.

    >>> round(effective_size(np.log(np.array([0.5, 0.5, 1e-300]))), 6)
    2.0
    """
    weight = np.exp(log_weight - np.max(log_weight))
    return float(weight.sum() ** 2 / (weight**2).sum())


def mean_and_covariance(geometry: Any, x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean position and covariance of displacements, right across the antimeridian."""
    weight = weight / weight.sum()
    centre = x[int(np.argmax(weight))][None, :]
    for _ in range(3):
        offsets = geometry.displacement(np.repeat(centre, len(x), axis=0), x)
        centre = geometry.move(centre, (weight @ offsets)[None, :])
    offsets = geometry.displacement(np.repeat(centre, len(x), axis=0), x)
    return centre[0], (offsets * weight[:, None]).T @ offsets
