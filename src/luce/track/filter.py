"""The particle filter, [Pareek] Algorithm 2: propagate, weight, resample.

Weights are kept as logarithms. A step whose likelihood is zero at every particle is left out (prediction only), and
said so. While many more signals of the last five steps are taken for clutter than the clutter rate allows, the noise of
the next step is widened, the more the longer it lasts, in filter and smoother alike. That rule is quick to come and go,
as a search must be, and blind where clutter is usual; whether the track counts as lost is therefore another question,
decided by a test against a rival that searches everywhere (see `rival`). Widening for as long as that test says lost
was tried: it finds fewer targets, as the particles stay spread out for too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from luce.errors import SettingError
from luce.track.dynamics import Dynamics, Transition, transition
from luce.track.likelihood import Engine, all_ranges, engine_for, expected_labels, step_for, step_likelihood
from luce.track.reception import Reception, StepModel
from luce.track.rival import ALARM, Rival, suspicion
from luce.track.signals import Signals
from luce.track.sources import Sources
from luce.types import FloatArray

_SEARCH_STEPS = 5
_MOST_WIDENING = 4
_COMMON = 0.4
"""A lost track is found when filter and rival have this share of their probability in common."""


@dataclass(frozen=True, eq=False)
class TrackingProblem:
    """Everything that does not change while a target is followed."""

    signals: Signals
    sources: Sources
    reception: Reception
    dynamics: Dynamics
    start: FloatArray
    start_time: float
    start_sd: float = 0.0
    end: FloatArray | None = None
    end_time: float = 0.0
    end_sd: float = 0.0
    engine: str = "auto"
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
        return int(self.sources.positions.shape[1])

    def engine_at(self, k: int) -> Engine:
        """The engine for step k."""
        return engine_for(self.engine, int(self.signals.counts[k]))

    @cached_property
    def rival(self) -> Rival:
        """What the filter is compared with to see whether the track is lost."""
        return Rival.over(self.sources, self.start, self.reception)

    @property
    def fixed(self) -> bool:
        """Whether labels by hand bind."""
        return self.fix_labels or engine_for(self.engine, 0).needs_labels

    def step_at(self, k: int, reception: Reception) -> tuple[FloatArray, StepModel]:
        """Places of the sources at work at step k, and the step's model."""
        time = float(self.signals.times[k])
        return step_for(self.signals, k, self.sources, reception, self.engine_at(k), time=time, fixed=self.fixed)

    def span(self, k: int) -> float:
        """Time between step k and what was before it."""
        return float(self.signals.times[k] - (self.start_time if k == 0 else self.signals.times[k - 1]))

    def move(self, k: int, widened: float) -> Transition:
        """The transition into step k, its noise widened by a factor."""
        return transition(
            self.dynamics,
            self.span(k),
            self.dimensions,
            widen=widened,
            end=self.end,
            end_sd=self.end_sd,
            remaining=float(self.end_time - self.signals.times[k]),
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
    suspicion: FloatArray
    search_steps: FloatArray
    skipped: FloatArray
    resampled: FloatArray
    elsewhere: FloatArray
    labels: list[FloatArray] = field(default_factory=list)
    step: int = 0

    @classmethod
    def empty(cls, problem: TrackingProblem) -> State:
        """Room for every step."""
        steps, n, d = len(problem.signals), problem.particles, problem.dimensions
        m = problem.dynamics.n_velocity(d)
        blocks = [*np.zeros((8, steps)), np.zeros((steps, len(problem.rival.points)))]
        return cls(np.zeros((steps, n, d)), np.zeros((steps, n, m)), np.zeros((steps, n)), *blocks)

    def widening(self, problem: TrackingProblem, k: int) -> float:
        """Factor on the noise of the step into k: 1 + (widen - 1) times the steps of a search so far, up to four."""
        return float(1 + (problem.widen - 1) * min(self.search_steps[k], _MOST_WIDENING))


class Filter:
    """A filter at work: `advance` takes one step; everything random comes from `rng`."""

    def __init__(self, problem: TrackingProblem, rng: np.random.Generator, state: State | None = None) -> None:
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
        state.search_steps[k] = state.search_steps[k - 1] + 1 if k > 0 and must_search(state, k - 1) else 0
        x, v, log_weight = self._propagated(k)
        log_weight = self._weighted(k, x, log_weight)
        state.x[k], state.v[k], state.log_weight[k] = x, v, log_weight
        if k > 0 and is_lost(state, k - 1) and self._is_found(k):
            state.suspicion[k] = 0.0
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
        s = len(problem.sources)
        shares = np.zeros((int(problem.signals.counts[k]), s + 1))
        state.labels.append(shares)
        if not problem.signals.was_listening(k):
            self._suspect(k, None)
            return log_weight
        engine, (points, step) = problem.engine_at(k), problem.step_at(k, problem.reception)
        distances = all_ranges(step, problem.sources.geometry, x, points)
        joint = log_weight + step_likelihood(engine, step, distances)
        top = np.max(joint)
        if top == -np.inf:
            state.skipped[k] = 1
            shares[:, s] = 1
            self._suspect(k, None)
            return log_weight
        state.evidence[k] = top + np.log(np.exp(joint - top).sum())
        self._suspect(k, state.evidence[k])
        joint -= state.evidence[k]
        shares[:, np.append(step.columns, s)] = expected_labels(engine, step, distances, np.exp(joint))
        if not problem.fixed:
            state.clutter[k] = shares[:, s].sum()
            state.expected_clutter[k] = -step.constant
        return joint

    def _suspect(self, k: int, evidence: float | None) -> None:
        """Let the rival take step k too and compare its density of the signals with the filter's, if there is one."""
        state, problem, rival = self.state, self.problem, self.problem.rival
        weight = rival.moved(rival.initial() if k == 0 else state.elsewhere[k - 1], problem.dynamics, problem.span(k))
        state.suspicion[k] = state.suspicion[k - 1] if k > 0 else 0.0
        if problem.signals.was_listening(k):
            points, step = problem.step_at(k, rival.reception)
            distances = all_ranges(step, problem.sources.geometry, rival.points, points)
            theirs, weight = rival.heard(weight, step_likelihood(problem.engine_at(k), step, distances))
            if evidence is not None and theirs > -np.inf:
                state.suspicion[k] = suspicion(state.suspicion[k], evidence, theirs)
        state.elsewhere[k] = weight

    def _is_found(self, k: int) -> bool:
        """Whether the particles of a lost track have come to where the rival takes the target to be.

        While they are spread out in search, the rival goes on to explain the signals better: only this can tell.
        """
        problem, state, rival = self.problem, self.state, self.problem.rival
        cloud = rival.on_lattice(problem.sources.geometry, state.x[k], np.exp(state.log_weight[k]))
        ours, theirs = (rival.moved(share, problem.dynamics, problem.span(k)) for share in (cloud, state.elsewhere[k]))
        return bool(np.minimum(ours, theirs).sum() >= _COMMON)


def is_lost(state: State, k: int) -> bool:
    """Whether step k was impossible, or its signals and those before are far better explained elsewhere."""
    return bool(state.skipped[k] or state.suspicion[k] >= ALARM)


def must_search(state: State, k: int) -> bool:
    """Whether step k was impossible, or the last steps have far more clutter than a Poisson number of its mean can be.

    The mean number of clutter signals before the late threshold is lambda F_N(tau); the bound is three standard
    deviations and two signals above it.
    """
    if state.skipped[k]:
        return True
    rows = slice(max(k - _SEARCH_STEPS + 1, 0), k + 1)
    expected = state.expected_clutter[rows].sum()
    return bool(state.clutter[rows].sum() > expected + 3 * math.sqrt(expected) + 2)


def effective_size(log_weight: FloatArray) -> float:
    """1 / sum of squared weights.

    >>> round(effective_size(np.log(np.array([0.5, 0.5, 1e-300]))), 6)
    2.0
    """
    weight = np.exp(log_weight - np.max(log_weight))
    return float(weight.sum() ** 2 / (weight**2).sum())
