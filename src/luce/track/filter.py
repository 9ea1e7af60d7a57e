"""Particle filter and smoother, and the watch for a track that is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from luce.checks import fits_in_memory
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, map_chunks
from luce.spec import Spec, option
from luce.track.geometry import Geometry
from luce.track.likelihood import StepModel, engine_for
from luce.track.motion import Dynamics, Transition, transition
from luce.track.reception import OfRange, Reception
from luce.track.signals import Signals, Sources
from luce.types import FloatArray, IntArray

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
        origin = sources.positions[0]
        offsets = sources.geometry.displacement(*np.broadcast_arrays(origin, np.vstack([sources.positions, start])))
        low, high = offsets.min(axis=0), offsets.max(axis=0)
        extent = high - low
        # Sources on a line or at one place say nothing of how far off they are heard.
        reach = 1.0 if reception.window is None else reception.mean_speed * (reception.window[1] - reception.window[0])
        extent = np.maximum(extent, 0.5 * np.max(extent) if np.max(extent) > 0 else reach)
        centre = 0.5 * (low + high)
        n = max(round(_POINTS ** (1 / len(extent))), 2)
        places = np.linspace(-0.6, 0.6, n)
        axes = tuple(c + e * places for c, e in zip(centre, extent, strict=True))
        offsets = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        points = sources.geometry.move(np.repeat(origin[None, :], len(offsets), axis=0), offsets)
        side = math.sqrt(float(np.sum((1.2 * extent / (n - 1)) ** 2)) / (12 * len(axes)))
        return cls(
            origin, points, axes, replace(reception, sigma=_blurred(reception.sigma, side / reception.mean_speed))
        )

    def moved(self, weight: FloatArray, dynamics: Dynamics, span: float) -> FloatArray:
        """Probabilities after a span of time: the target's motion, axis by axis, or a jump anywhere."""
        table = weight.reshape([len(axis) for axis in self.axes])
        # The mean square displacement of each axis, velocities drawn as at the start.
        d = len(self.axes)
        A, b, Q = dynamics.moments(span, d)
        shift = dynamics.initial_velocity(256, d, np.random.default_rng(0)) @ A[:d].T + b[:d]
        variances = np.diag(Q)[:d] + np.mean(np.broadcast_to(shift**2, (256, d)), axis=0)
        for a, variance in enumerate(variances):
            axis = self.axes[a]
            kernel = np.exp(-0.5 * (axis[:, None] - axis) ** 2 / (variance + 0.25 * (axis[1] - axis[0]) ** 2))
            kernel /= kernel.sum(axis=1, keepdims=True)
            table = np.moveaxis(np.tensordot(table, kernel, axes=(a, 0)), -1, a)
        return (1 - _ANYWHERE) * table.reshape(-1) + _ANYWHERE / len(weight)

    @staticmethod
    def heard(weight: FloatArray, log_likelihood: FloatArray) -> tuple[float, FloatArray]:
        """Log q of the signals and the probabilities after them; unchanged where no point explains the signals."""
        joint = np.log(weight) + log_likelihood
        total = float(np.logaddexp.reduce(joint))
        return total, weight if total == -math.inf else np.exp(joint - total)

    def on_lattice(self, geometry: Geometry, x: FloatArray, weight: FloatArray) -> FloatArray:
        """Weights of positions, each given to the nearest point."""
        offsets = geometry.displacement(np.repeat(self.origin[None, :], len(x), axis=0), x)
        nearest = [
            np.clip(np.rint((offsets[:, a] - axis[0]) / (axis[1] - axis[0])), 0, len(axis) - 1).astype(np.int64)
            for a, axis in enumerate(self.axes)
        ]
        rows = np.ravel_multi_index(nearest, [len(axis) for axis in self.axes])
        return np.asarray(np.bincount(rows, weight, minlength=len(self.points)), dtype=np.float64)


def _blurred(sigma: OfRange, blur: float) -> OfRange:
    if not callable(sigma):
        return np.sqrt(np.asarray(sigma, dtype=np.float64) ** 2 + blur**2)

    def wider(distance: FloatArray) -> FloatArray:
        return np.sqrt(np.asarray(sigma(distance)) ** 2 + blur**2)

    return wider


_SEARCH_STEPS = 5
_MOST_WIDENING = 4
_COMMON = 0.4
"""A lost track is found when filter and rival have this share of their probability in common."""


class TrackingProblem(Spec):
    """Everything that does not change while a target is followed; what each setting means is said in `follow`."""

    signals: Signals
    sources: Sources
    reception: Reception
    dynamics: Dynamics
    start: FloatArray
    start_time: float
    start_sd: float = option(default=0.0, least=0)
    end: FloatArray | None = None
    end_time: float = 0.0
    end_sd: float = option(default=0.0, least=0)
    engine: str = "auto"
    particles: int = option(default=2000, least=1)
    threshold: float = option(default=0.5, least=0, most=1)
    widen: float = option(default=5.0, least=1)
    fix_labels: bool = False

    @property
    def dimensions(self) -> int:
        """Dimensions of space."""
        return int(self.sources.positions.shape[1])

    @cached_property
    def rival(self) -> Rival:
        """What the filter is compared with to see whether the track is lost."""
        return Rival.over(self.sources, self.start, self.reception)

    @property
    def fixed(self) -> bool:
        """Whether labels by hand bind."""
        return self.fix_labels or engine_for(self.engine, 0).needs_labels

    def step_at(self, k: int, reception: Reception | None = None, signals: Signals | None = None) -> StepModel:
        """The model of step k, by another reception or of other signals where some are given."""
        heard, how = signals or self.signals, reception or self.reception
        engine, time = engine_for(self.engine, int(heard.counts[k])), float(heard.times[k])
        return StepModel.of(heard, k, self.sources, how, engine, time=time, fixed=self.fixed)

    def span(self, k: int) -> float:
        """Time between step k and what was before it."""
        return float(self.signals.times[k] - (self.start_time if k == 0 else self.signals.times[k - 1]))

    def move(self, k: int, widened: float) -> Transition:
        """The transition into step k, its noise widened by a factor."""
        left = float(self.end_time - self.signals.times[k])
        end: dict[str, Any] = {"end": self.end, "end_sd": self.end_sd, "remaining": left}
        return transition(self.dynamics, self.span(k), self.dimensions, widen=widened, **end)


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
        fits_in_memory(
            8.0 * steps * (n * (d + m + 1) + 8 + len(problem.rival.points)),
            f"A track of {steps:,} steps with {n:,} particles",
            "take fewer particles, or fewer steps at a time",
        )
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
        problem, state, rng = self.problem, self.state, self.rng
        n, d, geometry = problem.particles, problem.dimensions, problem.sources.geometry
        if k == 0:
            x = np.repeat(problem.start[None, :], n, axis=0)
            if problem.start_sd > 0:
                x = geometry.move(x, problem.start_sd * rng.standard_normal((n, d)))
            v, log_weight = problem.dynamics.initial_velocity(n, d, rng), np.full(n, -np.log(n))
        else:
            x, v, log_weight = state.x[k - 1], state.v[k - 1], state.log_weight[k - 1]
            if state.effective[k - 1] < problem.threshold * n:  # systematic resampling
                state.resampled[k - 1] = 1
                chosen = draw_evenly(log_weight, n, rng)
                x, v, log_weight = x[chosen], v[chosen], np.full(n, -np.log(n))
        move = problem.move(k, state.widening(problem, k))
        z = move.mean(geometry, x, v) + rng.standard_normal((n, len(move.b))) @ move.L.T
        return geometry.move(x, z[:, :d]), np.ascontiguousarray(z[:, d:]), log_weight

    def _weighted(self, k: int, x: FloatArray, log_weight: FloatArray) -> FloatArray:
        """Weights after the signals of step k, normalised; unchanged where the receiver was off."""
        state, problem = self.state, self.problem
        s = len(problem.sources)
        shares = np.zeros((int(problem.signals.counts[k]), s + 1))
        state.labels.append(shares)
        if not problem.signals.was_listening(k):
            self._suspect(k, None)
            return log_weight
        step = problem.step_at(k)
        log_likelihood, distances = step.likelihood(x)
        joint = log_weight + log_likelihood
        evidence = float(np.logaddexp.reduce(joint))
        if evidence == -np.inf:
            state.skipped[k] = 1
            shares[:, s] = 1
            self._suspect(k, None)
            return log_weight
        state.evidence[k] = evidence
        self._suspect(k, evidence)
        joint -= evidence
        shares[:] = step.labels(distances, np.exp(joint))
        if not problem.fixed:
            state.clutter[k] = shares[:, s].sum()
            state.expected_clutter[k] = -step.constant
        return joint

    def _suspect(self, k: int, evidence: float | None) -> None:
        """Let the rival take step k too and compare its density of the signals with the filter's, if there is one."""
        state, problem, rival = self.state, self.problem, self.problem.rival
        n = len(rival.points)
        before = np.full(n, 1 / n) if k == 0 else state.elsewhere[k - 1]
        weight = rival.moved(before, problem.dynamics, problem.span(k))
        state.suspicion[k] = state.suspicion[k - 1] if k > 0 else 0.0
        if problem.signals.was_listening(k):
            theirs, weight = rival.heard(weight, problem.step_at(k, rival.reception).likelihood(rival.points)[0])
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


TRIES = 32
_CHUNK = 128


def draw_evenly(log_weight: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """N indices in proportion to the weights, evenly spread (systematic)."""
    cumulative = np.cumsum(np.exp(log_weight - np.max(log_weight)))
    points = (rng.random() + np.arange(n)) / n * cumulative[-1]
    chosen: IntArray = np.searchsorted(cumulative, points, side="right")
    return np.minimum(chosen, len(log_weight) - 1)


class _Cloud(NamedTuple):
    """Particles before a step: places with the scale and period of their coordinates, where the step leads on average,
    the inverse of the root of its covariance, and weights.
    """

    x: FloatArray
    scale: FloatArray
    period: FloatArray
    mean: FloatArray
    whiten: FloatArray
    log_weight: FloatArray
    cumulative: FloatArray


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
    whiten: FloatArray = np.linalg.inv(move.L).astype(np.float64)
    log_weight = log_weight - np.max(log_weight)
    cloud = _Cloud(x, geometry.scale(x), geometry.period, mean, whiten, log_weight, np.cumsum(np.exp(log_weight)))
    pick, accept, last = rng.random((n, tries)), rng.random((n, tries)), rng.random(n)
    result = np.empty(n, dtype=np.int64)

    def work(_: int, chunk: Chunk) -> None:
        rows = slice(*chunk)
        _back_kernel(cloud, after[rows], pick[rows], accept[rows], last[rows], result[rows])

    map_chunks(work, [(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK)])
    return result


@part(fastmath={"contract"})
def _energy(cloud: _Cloud, k: int, y: FloatArray, gap: FloatArray) -> float:
    """Half the squared Mahalanobis length of (displacement x_k -> y, velocity) - mean_k."""
    d, m = cloud.x.shape[1], cloud.mean.shape[1]
    for b in range(d):
        gap[b] = y[b] - cloud.x[k, b]
        if cloud.period[b] > 0:
            gap[b] -= cloud.period[b] * math.floor(gap[b] / cloud.period[b] + 0.5)
        gap[b] = gap[b] * cloud.scale[k, b] - cloud.mean[k, b]
    for b in range(d, m):
        gap[b] = y[b] - cloud.mean[k, b]
    total = 0.0
    for a in range(m):
        part = 0.0
        for b in range(a + 1):
            part += cloud.whiten[a, b] * gap[b]
        total += part * part
    return 0.5 * total


@kernel(fastmath={"contract"})
def _back_kernel(
    cloud: _Cloud, after: FloatArray, pick: FloatArray, accept: FloatArray, last: FloatArray, result: IntArray
) -> None:
    """Draw a particle for each state of `after`: by rejection, and exactly where all tries were rejected."""
    cumulative, n, tries = cloud.cumulative, cloud.x.shape[0], pick.shape[1]
    energy, gap = np.empty(n), np.empty(cloud.mean.shape[1])
    for m in range(after.shape[0]):
        y = after[m]
        found = -1
        for t in range(tries):
            k = min(np.searchsorted(cumulative, pick[m, t] * cumulative[n - 1], side="right"), n - 1)
            if accept[m, t] < math.exp(-_energy(cloud, k, y, gap)):
                found = k
                break
        if found < 0:
            least = np.inf
            for k in range(n):
                energy[k] = _energy(cloud, k, y, gap) - cloud.log_weight[k]
                least = min(least, energy[k])
            total = 0.0
            for k in range(n):
                gone = energy[k] - least
                if gone < 60:
                    total += math.exp(-gone)
                energy[k] = total
            found = min(np.searchsorted(energy, last[m] * total, side="right"), n - 1)
        result[m] = found
