"""Four methods for scores on tasks, each task a race with ties, and their resampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from luce.aggregate.board.design import Counts, Design
from luce.aggregate.board.likelihood import BattleLikelihood, Penalised
from luce.aggregate.board.newton import constant_on, newton
from luce.aggregate.board.posterior import RankSets, centre, no_sets, precisions, step_down
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.board.races import Races
from luce.aggregate.board.separation import Results, Separation, find_separation, linked
from luce.aggregate.board.solve import prior_of_separated
from luce.aggregate.scores.table import Race, ScoreTable
from luce.numerics import links
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Fit:
    """Strengths, and the terms of which they are the sum over tasks.

    The terms are worked out when they are asked for: of three methods out of four a board wants the ranks alone.
    """

    strength: FloatArray
    terms: Callable[[], tuple[FloatArray, FloatArray]] = field(repr=False)
    fixed: FloatArray
    """(models, models): precision of a prior, and a constant along directions that no task sees."""
    component: IntArray
    separation: Separation | None = None
    log_likelihood: float = float("nan")

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray]:
        return self.terms()

    @property
    def gradients(self) -> FloatArray:
        """(tasks, models): of the loss of every task at the strengths, not weighted."""
        return self._terms[0]

    @property
    def hessians(self) -> FloatArray:
        """(tasks, models, models)."""
        return self._terms[1]


def plackett_luce(table: ScoreTable, races: list[Race]) -> Fit:
    """Tied Plackett-Luce."""
    of, edges = tied_races(table.names, races, table.weights), _edges(races)
    share = np.clip(borda(table, races).strength, 0.02, 0.98)
    results = Results(len(table.names), *edges)
    return _solved(of, np.log(share / (1.0 - share)), results, linked(results.n, *edges), races, of.by_race)


def _solved(
    likelihood: BattleLikelihood | RaceLikelihood,
    start: FloatArray,
    results: Results,
    component: IntArray,
    races: list[Race],
    terms: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Fit:
    """Strengths of greatest likelihood; models below (or above) all others are pulled to their mean, as elsewhere."""
    n, prior = results.n, np.zeros((results.n, results.n))
    separation = find_separation(results, component)
    if separation is not None:
        games = np.bincount(np.concatenate([race.order for race in races]), minlength=n).astype(np.float64)
        prior = prior_of_separated(games, component, separation)
    null = constant_on(component, len(start))
    x, at, _, _ = newton(Penalised(likelihood, prior), start, null)
    shifts = np.max(np.diagonal(at.hessian)[:n]) * (null @ null.T)[:n, :n]
    log_likelihood = 0.5 * float(x[:n] @ prior @ x[:n]) - at.value
    return Fit(x[:n], lambda: terms(x), prior + shifts, component, separation, log_likelihood)


def tied_races(names: tuple[str, ...], races: list[Race], weights: FloatArray) -> RaceLikelihood:
    """Minus the log-likelihood of tasks under Plackett-Luce with ties integrated out."""
    offsets = np.concatenate([[0], np.cumsum([len(race.order) for race in races])]).astype(np.int64)
    item, place = (np.concatenate(parts) for parts in zip(*((race.order, race.tier) for race in races), strict=True))
    run = Races(names, item, place.astype(np.float64), offsets, weights, weights**2)
    return RaceLikelihood(run, integrated=True)


def _edges(races: list[Race]) -> tuple[IntArray, IntArray]:
    """Every model of a tier, and every one of the next."""
    better, worse = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for race in races:
        above = np.arange(race.starts[-2])
        following = np.diff(race.starts)[1:][race.tier[above]]
        within = np.arange(following.sum()) - np.repeat(np.cumsum(following) - following, following)
        better.append(race.order[np.repeat(above, following)])
        worse.append(race.order[np.repeat(race.starts[1:-1][race.tier[above]], following) + within])
    return np.concatenate(better), np.concatenate(worse)


def davidson(table: ScoreTable, races: list[Race]) -> Fit:
    """Davidson's model of all pairs of a task; the tie parameter is held at its estimate when tasks are resampled."""
    n, (i, j) = len(table.names), np.triu_indices(len(table.names), 1)
    hits = [_outcomes(n, race, i, j) for race in races]
    total = np.sum([weight * hit for weight, hit in zip(table.weights, hits, strict=True)], axis=0)
    used, drawn = total.sum(axis=1) > 0, total[:, 2] > 0
    counts = Counts(Design(n, i[used], j[used], np.empty((int(used.sum()), 0))), total[used], total[used])
    likelihood = BattleLikelihood(counts, links.get("davidson"), "model" if drawn.any() else "drop")

    def terms(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = [replace(likelihood, counts=counts.with_totals(hit[used]))(x) for hit in hits]
        return np.array([at.gradient[:n] for at in each]), np.array([at.hessian[:n, :n] for at in each])

    results = Results(n, *_edges(races), i[drawn], j[drawn])
    return _solved(likelihood, likelihood.start(), results, linked(n, i[used], j[used]), races, terms)


def _outcomes(n: int, race: Race, i: IntArray, j: IntArray) -> FloatArray:
    """(pairs, 3): 1 where the first model of a pair was better on this task, the second was, or both were equal."""
    level = np.full(n, np.nan)
    level[race.order] = race.tier
    gap = level[j] - level[i]
    return np.column_stack([gap > 0, gap < 0, gap == 0]).astype(np.float64)


def borda(table: ScoreTable, races: list[Race]) -> Fit:
    """The mean over tasks of the share of present models that one is better than."""
    values = np.full(table.scores.shape, np.nan)
    for t, race in enumerate(races):
        sizes, size = np.diff(race.starts), len(race.order)
        if size > 1:
            below = size - race.starts[1:]
            values[race.order, t] = ((below + 0.5 * (sizes - 1)) / (size - 1))[race.tier]
    return _mean_fit(values, table.weights)


def z_score(table: ScoreTable, races: list[Race]) -> Fit:
    """The mean over tasks of standardised scores; gaps are filled by a product of model and task."""
    there = np.isfinite(table.scores)
    centre = np.nanmean(table.scores, axis=0)
    spread = np.nanstd(table.scores, axis=0)
    z = np.where(there, (table.scores - centre) / np.where(spread > 0, spread, 1.0), 0.0)
    return _mean_fit(z if there.all() else _filled(z, there), table.weights)


def _filled(z: FloatArray, there: FloatArray) -> FloatArray:
    """Gaps replaced by the rank-one fit of the rest, by alternating least squares with a ridge of one cell."""
    task = np.ones(z.shape[1])
    for _ in range(200):
        model = (z * there) @ task / (there @ task**2 + 1.0)
        moved = (z * there).T @ model / (there.T @ model**2 + 1.0)
        scale = np.sqrt(np.mean(moved**2)) or 1.0
        done = np.max(np.abs(moved / scale - task)) < 1e-9
        task = moved / scale
        if done:
            break
    model = (z * there) @ task / (there @ task**2 + 1.0)
    return np.where(there, z, np.outer(model, task))


def _mean_fit(values: FloatArray, weights: FloatArray) -> Fit:
    """A mean over tasks minimises a sum of squares, so that it has terms like the others."""
    there = np.isfinite(values)
    filled = np.where(there, values, 0.0)
    known = there @ weights
    strength = filled @ weights / np.where(known > 0, known, 1.0)
    n = len(strength)

    def terms() -> tuple[FloatArray, FloatArray]:
        hessians = np.zeros((values.shape[1], n, n))
        hessians[:, np.arange(n), np.arange(n)] = there.T
        return np.where(there, strength[:, None] - filled, 0.0).T, hessians

    fixed = np.diag(np.where(known > 0, 0.0, 1.0))
    return Fit(strength, terms, fixed, np.zeros(n, dtype=np.int64))


METHODS = {"plackett_luce": plackett_luce, "davidson": davidson, "borda": borda, "z_score": z_score}


_CHUNK_BYTES = 1 << 24
FEW_TASKS = 6
"""With fewer, the scatter of tasks says too little about a model."""


class Resampled(NamedTuple):
    """Covariance of the strengths, and their rank sets."""

    covariance: FloatArray
    sets: RankSets


def task_weights(draws: int, tasks: int, rng: np.random.Generator) -> FloatArray:
    """(draws, tasks) Dirichlet weights with mean 1.

    Of ten equal models on 20 tasks, sets at 95% covered .945 of the time (200 boards); with Mammen's two-point weights
    .905, and drawing with replacement .995, with sets that are wider by a quarter where models do differ. Replacement
    may also lose the only task that keeps a strength finite.
    """
    drawn = rng.standard_exponential((draws, tasks))
    scaled: FloatArray = drawn * (tasks / drawn.sum(axis=1, keepdims=True))
    return scaled


def one_step(fit: Fit, weights: FloatArray, lift: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Strengths after one Newton step with these task weights, less the fitted ones, and the pull of every task.

    (draws, models) and (draws, tasks, models); a pull is the inverse Hessian times the centred gradient of a task.
    `lift` (draws, models) is added to the diagonals. Numbers are of the type of the terms of the fit.
    """
    n, tasks = len(fit.strength), len(fit.gradients)
    weights = weights.astype(fit.hessians.dtype)
    hessian = (weights @ fit.hessians.reshape(tasks, -1)).reshape(-1, n, n)
    hessian += fit.fixed
    if lift is not None:
        hessian[:, np.arange(n), np.arange(n)] += lift
    right = np.empty((len(weights), 1 + tasks, n), dtype=hessian.dtype)
    right[:, 0] = total = weights @ fit.gradients
    right[:, 1:] = fit.gradients[None] - (total / weights.sum(axis=1)[:, None])[:, None, :]
    (solve,) = linalg.get_lapack_funcs(("posv",), (hessian,))
    for k in range(len(weights)):
        # Double precision where rounding, or ties, kept the matrix from being positive definite, or made it singular.
        # Symmetric, so that the transposed views are the matrices in the order that LAPACK wants; half the work of LU.
        _, found, failed = solve(hessian[k].T, right[k].T)
        right[k] = np.linalg.lstsq(hessian[k].astype(np.float64), right[k].T)[0].T if failed else found.T
    return -right[:, 0], -right[:, 1:]


def in_single_precision(fit: Fit, task_weight: FloatArray) -> tuple[Fit, FloatArray]:
    """The fit in single precision, and the units of its strengths, in which all have the same curvature.

    Resamples are good to a hundredth at best, and a thousand systems take half the time in short numbers.
    """
    unit = 1.0 / np.sqrt(np.diagonal(np.tensordot(task_weight, fit.hessians, 1) + fit.fixed))
    both = unit[:, None] * unit
    gradients, hessians, fixed = (_single(v) for v in (fit.gradients * unit, fit.hessians * both, fit.fixed * both))
    return replace(fit, terms=lambda: (gradients, hessians), fixed=fixed), unit


def _single(values: FloatArray) -> FloatArray:
    short: FloatArray = values.astype(np.float32)
    return short


def resample(
    fit: Fit, task_weight: FloatArray, mean: FloatArray, level: float, draws: int, rng: np.random.Generator
) -> Resampled:
    """Errors by the pulls of tasks, and rank sets by studentised resamples.

    Every resample is measured by its own standard errors: with those of the data the sets of 20 tasks would cover .76
    instead of .95.
    """
    tasks, n = fit.gradients.shape
    small = tasks / max(tasks - 1, 1)
    _, pulls = one_step(fit, task_weight[None])
    pulled = centre(pulls[0] * task_weight[:, None], mean, fit.component)
    covariance = small * pulled.T @ pulled + np.diag(_floor(fit, task_weight, small * pulled**2))
    if tasks < 2:
        return Resampled(covariance * np.nan, no_sets(fit.component))
    deviations, scaled = np.empty((draws, n)), np.empty((draws, tasks, n), dtype=np.float32)
    short, unit = in_single_precision(fit, task_weight)
    chunk = max(1, _CHUNK_BYTES // (4 * n * n))
    for low in range(0, draws, chunk):
        drawn = task_weights(min(chunk, draws - low), tasks, rng)
        part = slice(low, low + len(drawn))
        moved, pulls = one_step(short, drawn * task_weight)
        deviations[part] = moved * unit
        scaled[part] = pulls * unit * (np.sqrt(small * drawn) * task_weight)[:, :, None]

    def greatest(precision: FloatArray) -> FloatArray:
        active, out = precision > 0, np.empty(draws)
        for k in range(draws):
            # The lower triangle of a product with itself, which is half of it.
            out[k] = _greatest(deviations[k], linalg.blas.ssyrk(1.0, scaled[k].T).T, active)
        return out

    sets = step_down(fit.strength, precisions(covariance, fit.component), greatest, fit.component, level)
    return Resampled(covariance, sets)


def _floor(fit: Fit, task_weight: FloatArray, squares: FloatArray) -> FloatArray:
    """More variance for models with few tasks.

    The strength of a model with one task makes the gradient of that task 0, and its pull says that it is certain. Such
    models get the variance of the curvature on top, times what the pulls of all others are of theirs.
    """
    seen = np.sum(np.einsum("tii->ti", fit.hessians) > 0, axis=0)
    few = seen < FEW_TASKS
    if not few.any() or few.all():
        return np.zeros(len(seen))
    hessian = np.einsum("t,tij->ij", task_weight, fit.hessians) + fit.fixed
    plain = np.diagonal(np.linalg.inv(hessian))
    ratio = float(np.median(squares.sum(axis=0)[~few] / plain[~few]))
    return np.where(few, max(ratio, 0.0) * plain, 0.0)


@kernel
def _greatest(deviation, covariance, active):  # type: ignore[no-untyped-def]
    """The greatest difference of deviations in units of its standard error, squared until the end."""
    most = 0.0
    for i in range(len(deviation)):
        for j in range(i):
            if active[i, j]:
                spread = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
                if spread > 0.0:
                    most = max(most, (deviation[i] - deviation[j]) ** 2 / spread)
    return np.sqrt(most)
