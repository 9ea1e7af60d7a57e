"""Follow a target: filter, smoother, labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import fits_in_memory, generator, is_whole
from luce.errors import DataError, SettingError
from luce.registry import unknown_name
from luce.result import Result, Sheet, sheet_of
from luce.track.checkpoint import checkpoint_file, load_checkpoint, save_checkpoint
from luce.track.filter import Filter, State, TrackingProblem, draw_evenly, is_lost, step_back
from luce.track.motion import Dynamics, RandomWalk
from luce.track.reception import Reception
from luce.track.result import Track
from luce.track.signals import Receiver, Signals, Sources
from luce.track.sound_speed import SpeedGrid
from luce.track.trust import Mode, check_trust, find_modes, moments_of
from luce.types import FloatArray, Progress


def make_problem(
    signals: Signals | Sequence[ArrayLike],
    sources: Sources | ArrayLike,
    *,
    start: ArrayLike,
    dynamics: Dynamics | ArrayLike,
    receiver: Receiver | None = None,
    **settings: Any,
) -> TrackingProblem:
    """Check and complete the arguments of `follow`; settings are those of the problem and of the observation model."""
    heard, own = ({field.name for field in fields(each)} for each in (Reception, TrackingProblem))
    own |= {*signature(follow).parameters, "receiver"}
    for name in settings:
        if name not in (known := heard | own - {"signals", "sources", "settings", "reception"}):
            raise unknown_name("setting", name, known)
    reception = Reception.of({name: settings.pop(name) for name in [*settings] if name in heard})
    if not isinstance(signals, Signals):
        if isinstance(signals, str) or not all(np.ndim(step) == 1 for step in signals):
            said = "signals must be luce.track.Signals (from_lists, read_signals) or one list of arrivals a step."
            raise DataError(said)
        signals = Signals.from_lists(np.arange(1.0, len(signals) + 1), signals)
    sources = Sources.of(sources)
    if receiver is not None:
        signals = signals.corrected(receiver)
    if isinstance(reception.speed, SpeedGrid):
        reception.speed.check(sources.geometry, signals.dated)
    signals = signals.keep(reception.keep, reception.r)
    if reception.r is None and reception.keep != "all":
        reception = replace(reception, r=max(int(signals.counts.max(initial=0)), 1))
    if settings.get("fix_labels") and signals.labels is None:
        raise SettingError("fix_labels is set, and the signals have no labels; leave it out, or give them labels.")
    first, last = float(signals.times[0]), float(signals.times[-1])
    motion: Dynamics = dynamics if isinstance(dynamics, Dynamics) else RandomWalk(dynamics)
    step_sd = math.sqrt(float(np.max(np.diag(motion.moments(1.0, sources.positions.shape[1]).Q))))
    # An end that is known exactly would leave the last step no freedom at all.
    usual = {"start_time": first - signals.period, "end": None, "end_time": last, "end_sd": 0.01 * step_sd}
    settings = usual | {name: value for name, value in settings.items() if value is not None or name not in usual}
    settings |= {name: float(settings[name]) for name in ("start_time", "end_time")}
    if settings["start_time"] > first:
        raise DataError(f"The start, {settings['start_time']:g}, is later than the first signals, {first:g}.")
    if settings["end"] is not None:
        settings["end"] = sources.geometry.check(settings["end"], "The end")[0]
        if settings["end_time"] < last:
            raise DataError(f"The end, {settings['end_time']:g}, is earlier than the last signals, {last:g}.")
    place = sources.geometry.check(start, "The start")[0]
    return TrackingProblem(signals, sources, reception, motion, place, **settings)


def follow(
    signals: Signals | Sequence[ArrayLike],
    sources: Sources | ArrayLike,
    *,
    start: ArrayLike,
    dynamics: Dynamics | ArrayLike | None = None,
    smooth: bool = True,
    trajectories: int = 1000,
    check: bool = True,
    random_state: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 50,
    resume: bool = False,
    **settings: Any,
) -> Track:
    """Track a target from its ranked signals: particle filter, then backward smoothing.

    Parameters
    ----------
    signals, sources
        What was heard (`Signals`, or a list of arrivals a step) and from where it may have come.
    start, start_time, start_sd
        Position before the first signals, when that was (one usual period before them), and how well it is known.
    dynamics
        `RandomWalk`, `OrnsteinUhlenbeck`, or the standard deviation of a random walk's step; None: a random walk whose
        step is chosen by marginal likelihood (see `tune`).
    end, end_time, end_sd
        A known last position, if there is one: the walk is conditioned on it.
    receiver
        Clock whose error is taken out of the arrivals.
    engine, fix_labels
        Likelihood engine; whether labels by hand bind (always with `labelled`) or are only compared.
    particles, threshold, widen
        Number of particles; resample below this share of effective ones; factor on the noise of
        the first step after too many signals were clutter; it grows as long as that lasts.
    smooth, trajectories
        Whether to smooth, by how many backward draws.
    check
        Whether to look if the result is to be trusted (see `luce.track.Trust`); what is wrong is in `remarks`. It takes
        a second run of the filter, and leaves the first one's numbers as they are.
    random_state
        A whole number (the same bits on any number of threads), a generator, or None for fresh draws.
    checkpoint, checkpoint_every, resume
        File for the filter's state, written every so many steps; `resume` goes on from it with the same result. A
        folder instead is gone on from whenever there is something in it.
    **settings
        The observation model: sigma, speed, detection, clutter_rate, window, r, keep, early,
        emission_sd (see `Reception`).

    >>> from luce.track import simulate
    >>> world = simulate("straight", steps=20, clutter_rate=0.5, random_state=1)
    >>> track = follow(world.signals, world.sources, start=world.start, dynamics=0.03, particles=500, **world.settings)
    >>> bool(np.median(track.errors(world.truth)) < 0.05)
    True
    """
    if trajectories < 1 or checkpoint_every < 1:
        raise SettingError("trajectories and checkpoint_every must be at least 1.")
    if resume and checkpoint is None:
        raise SettingError("Nothing to resume from: give the checkpoint's file.")
    remarks: tuple[str, ...] = ()
    if dynamics is None:
        tuned = {"start": start, "random_state": random_state, **settings, "particles": 1000}
        dynamics = tune(signals, sources, **tuned).best["sd"]
        remarks = (f"The step's standard deviation, {dynamics:.4g}, was chosen by marginal likelihood.",)
    problem = make_problem(signals, sources, start=start, dynamics=dynamics, **settings)
    if smooth:
        fits_in_memory(
            8.0 * len(problem.signals) * trajectories * problem.dimensions,
            f"Smoothing {len(problem.signals):,} steps by {trajectories:,} trajectories",
            "take fewer trajectories",
        )
    rng = generator(random_state)
    path, resume = (None, False) if checkpoint is None else checkpoint_file(checkpoint, resume)
    run = load_checkpoint(path, problem, rng) if resume and path is not None else Filter(problem, rng)
    total = len(problem.signals)

    def each(at: Filter) -> None:
        step = at.state.step
        if progress is not None:
            progress(step, total * (2 if smooth else 1), {"effective": at.state.effective[step - 1]})
        if path is not None and (step % checkpoint_every == 0 or step == total):
            save_checkpoint(path, at)

    state = run.run(each)
    clouds, labels, squares, drawn = list(zip(state.x, np.exp(state.log_weight), strict=True)), state.labels, None, None
    filtered_positions, filtered_covariances = positions, covariances = moments_of(problem.sources.geometry, clouds)
    if smooth:
        drawn, labels, squares = _smooth(problem, state, trajectories, rng, progress)
        clouds = [(draws, np.ones(trajectories)) for draws in drawn]
        positions, covariances = moments_of(problem.sources.geometry, clouds)
    trust = check_trust(problem, state, squares) if check else None
    modes = [find_modes(problem.sources.geometry, x, weight) for x, weight in clouds]
    lost = np.array([is_lost(state, k) for k in range(total)])
    remarks += _remarks(problem, lost, state, positions, modes) + (() if trust is None else trust.doubts)
    return Track(
        times=problem.signals.times,
        positions=positions,
        covariances=covariances,
        filtered_positions=filtered_positions,
        filtered_covariances=filtered_covariances,
        label_posteriors=labels,
        lost=lost,
        skipped=state.skipped > 0,
        effective_sample_size=state.effective,
        evidence=state.evidence,
        trajectories=drawn,
        signals=problem.signals,
        sources=problem.sources,
        modes=modes,
        trust=trust,
        remarks=remarks,
    )


def _smooth(
    problem: TrackingProblem, state: State, n: int, rng: np.random.Generator, progress: Progress | None
) -> tuple[FloatArray, list[FloatArray], FloatArray]:
    """Backward draws, the labels they imply, and mean squares of their whitened steps."""
    total, geometry, d = len(problem.signals), problem.sources.geometry, problem.dimensions
    drawn, squares = np.empty((total, n, d)), np.empty(max(total - 1, 0))
    labels: list[FloatArray] = [np.zeros((0, 0))] * total
    chosen = draw_evenly(state.log_weight[-1], n, rng)
    for k in range(total - 1, -1, -1):
        if k < total - 1:
            after = np.hstack([state.x[k + 1][chosen], state.v[k + 1][chosen]])
            move = problem.move(k + 1, state.widening(problem, k + 1))
            chosen = step_back(geometry, move, state.x[k], state.v[k], state.log_weight[k], after, rng)
            # Steps whitened by the model's noise: their squares are 1 on average if the model holds.
            move, x = problem.move(k + 1, 1.0), state.x[k][chosen]
            gap = np.hstack([geometry.displacement(x, after[:, :d]), after[:, d:]])
            gap -= move.mean(geometry, x, state.v[k][chosen])
            squares[k] = np.mean(np.linalg.solve(move.L, gap.T) ** 2)
        drawn[k], labels[k] = state.x[k][chosen], state.labels[k]
        if problem.signals.was_listening(k) and not state.skipped[k]:
            rows, counts = np.unique(chosen, return_counts=True)
            step = problem.step_at(k)
            labels[k] = step.labels(step.all_ranges(state.x[k][rows]), counts / counts.sum())
        if progress is not None:
            progress(2 * total - k, 2 * total, {})
    return drawn, labels, squares


def _remarks(
    problem: TrackingProblem, lost: np.ndarray[Any, Any], state: State, positions: FloatArray, modes: list[list[Mode]]
) -> tuple[str, ...]:
    remarks, total = [], len(lost)
    if np.any(state.skipped):
        n = int(state.skipped.sum())
        remarks.append(f"At {n} of {total} steps no particle could explain the signals; these steps were left out.")
    if np.any(lost):
        remarks.append(
            f"The track counted as lost at {int(lost.sum())} of {total} steps: a target elsewhere explains the signals "
            "far better."
        )
    collapsed = int(np.sum(state.effective < 1.5))
    if collapsed > total / 2:
        remarks.append(
            f"At {collapsed} of {total} steps one particle carried all the weight, so the covariances say nothing: "
            "sigma is too small for so few particles, or the step too narrow."
        )
    several = sum(len(each) > 1 for each in modes)
    if several > 0.05 * total:
        remarks.append(
            f"At {several} of {total} steps the target may be at two places or more (mirror images, or other labels); "
            "the position is the mean of all there, and the modes are the places."
        )
    speed = problem.reception.speed
    beyond = speed.outside(positions) if isinstance(speed, SpeedGrid) else 0
    if beyond:
        remarks.append(
            f"At {beyond} of {total} steps the target is outside of the grid of speeds; its edge counts there."
        )
    return tuple(remarks)


@dataclass(frozen=True)
class Tuning(Result):
    """Log-likelihoods of a grid of settings, minus infinity where steps had to be left out; `best` is the highest."""

    best: dict[str, float]
    rows: list[dict[str, float]]

    def sheets(self) -> list[Sheet]:
        """A row a point of the grid."""
        return [sheet_of("Log-likelihoods", list(self.rows[0]), [list(row.values()) for row in self.rows])]

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Whether nothing was possible."""
        if any(row["log_likelihood"] > -math.inf for row in self.rows):
            return ()
        return ("No setting of the grid can explain all steps, so that the first one was taken; try other ones.",)


def step_grid(sources: Sources) -> list[float]:
    """Steps to try where nothing is known: eight, from 1/500 to 1/10 of the extent of the sources."""
    first = np.repeat(sources.positions[:1], len(sources), axis=0)
    extent = float(np.max(np.ptp(sources.geometry.displacement(first, sources.positions), axis=0), initial=0.0))
    return list(map(float, np.geomspace(0.002, 0.1, 8) * (extent or 1.0)))


def tune(
    signals: Signals | Sequence[ArrayLike],
    sources: Sources | ArrayLike,
    grid: Mapping[str, Sequence[float]] | None = None,
    *,
    start: ArrayLike,
    particles: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Tuning:
    """Settings by marginal likelihood: the filter's estimate of log p(all signals) at every point of a grid.

    `grid` names settings of the observation model (`speed`, `clutter_rate`, ...) and `sd`, the step of a random walk;
    every point uses the same random numbers. Without a grid, `sd` is tried from 1/500 to 1/10 of the sources' extent.
    Other settings as in `follow`.

    >>> from luce.track import simulate
    >>> world = simulate("walk", steps=30, step_sd=0.03, clutter_rate=0.5, random_state=2)
    >>> found = tune(world.signals, world.sources, {"sd": [0.003, 0.03, 0.3]}, start=world.start, **world.settings)
    >>> found.best["sd"]
    0.03
    """
    sources = Sources.of(sources)
    grid = {"sd": step_grid(sources)} if grid is None else grid
    if not grid or any(len(values) == 0 for values in grid.values()):
        raise SettingError("The grid is empty; name at least one setting with its values, such as {'sd': [1, 2, 4]}.")
    seed = int(generator(random_state).integers(2**63)) if not is_whole(random_state) else random_state
    rows = []
    points = list(itertools.product(*grid.values()))
    for i, values in enumerate(points):
        point = dict(zip(grid, map(float, values), strict=True))
        chosen = settings | {name: value for name, value in point.items() if name != "sd"}
        if "sd" in point:
            chosen["dynamics"] = RandomWalk(point["sd"])
        if "dynamics" not in chosen:
            raise SettingError("dynamics, the model of motion, is needed unless the grid has 'sd'.")
        problem = make_problem(signals, sources, start=start, particles=particles, **chosen)
        state = Filter(problem, generator(seed)).run()
        penalty = 0.0 if not np.any(state.skipped) else -np.inf
        rows.append(point | {"log_likelihood": float(state.evidence.sum()) + penalty})
        if progress is not None:
            progress(i + 1, len(points), {"log-likelihood": rows[-1]["log_likelihood"]})
    best = max(rows, key=lambda row: row["log_likelihood"])
    return Tuning({name: best[name] for name in grid}, rows)
