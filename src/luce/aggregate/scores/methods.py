"""Four methods for scores on tasks, each task a race with ties: strengths, and their terms task by task."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from luce.aggregate.board.likelihood import Likelihood, Penalised
from luce.aggregate.board.newton import Point, constant_on, newton
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.board.races import Races
from luce.aggregate.board.separation import Results, Separation, find_separation, linked
from luce.aggregate.board.solve import prior_of_separated
from luce.aggregate.scores.table import Race, ScoreTable
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray

STEPS, LONGEST = 2, 2.0
"""Newton steps from equality behind rank sets, and how far one may go."""
RIDGE = 1e-3
"""Precision there, which keeps finite what no task bounds."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The scores that are there, task after task and best first: task t has the rows `offsets[t]:offsets[t + 1]`."""

    models: int
    item: IntArray
    tier: IntArray
    offsets: IntArray
    weights: FloatArray
    """One a task."""

    @staticmethod
    def of(models: int, races: list[Race], weights: FloatArray) -> Cells:
        """The rows of races."""
        offsets = np.concatenate([[0], np.cumsum([len(race.order) for race in races])]).astype(np.int64)
        item, tier = (np.concatenate(rows) for rows in zip(*((race.order, race.tier) for race in races), strict=True))
        return Cells(models, item, tier, offsets, weights)

    @cached_property
    def task(self) -> IntArray:
        """The task of every row."""
        return np.repeat(np.arange(len(self.weights)), np.diff(self.offsets))

    def alone(self, t: int) -> Cells:
        """One task."""
        rows = slice(*self.offsets[t : t + 2])
        offsets = self.offsets[t : t + 2] - self.offsets[t]
        return Cells(self.models, self.item[rows], self.tier[rows], offsets, self.weights[t : t + 1])

    def spread(self, values: FloatArray, item: IntArray, columns: int | None = None) -> FloatArray:
        """(tasks, columns): values of rows where these models have them, 0 elsewhere."""
        result = np.zeros((len(self.weights), columns or self.models))
        result[self.task, item] = values
        return result


class Terms(NamedTuple):
    """Of what is minimised, all with the weights of the tasks."""

    gradients: FloatArray
    """(tasks, parameters)."""
    bends: FloatArray
    """(tasks, parameters): the diagonals of the Hessians of the tasks."""
    hessian: FloatArray
    """Of all tasks."""


@dataclass(frozen=True, eq=False)
class Method:
    """Terms for models in any rows of the cells, as labels are shuffled; strengths are the first parameters."""

    cells: Cells
    null: FloatArray
    """(models, k) orthonormal: directions that no task sees."""

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        """At a point, with these models in the rows."""
        raise NotImplementedError

    def start(self) -> FloatArray:
        """Equality, which is the same point whoever has which row."""
        return np.zeros(self.cells.models)

    def settle(self, item: IntArray) -> FloatArray:
        """A few Newton steps from equality."""
        x, n = self.start(), self.cells.models
        for _ in range(STEPS):
            at = self.terms(x, item)
            matrix, pull = self.kept(at.hessian), at.gradients.sum(axis=0)
            pull[:n] += RIDGE * x[:n]
            step = linalg.solve(matrix, pull, assume_a="pos", overwrite_a=True, check_finite=False)
            x = x - np.clip(step, -LONGEST, LONGEST)
        return x

    def kept(self, hessian: FloatArray) -> FloatArray:
        """The Hessian with the ridge, and with a curvature along directions that no task sees."""
        n, result = self.cells.models, hessian.copy()
        result[:n, :n] += np.max(np.diagonal(hessian)) * (self.null @ self.null.T)
        result[np.arange(n), np.arange(n)] += RIDGE
        return result


@dataclass(frozen=True, eq=False)
class _Tied(Method):
    likelihood: RaceLikelihood

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        pulls, bends, hessian = self.likelihood.by_row(x, item)
        return Terms(self.cells.spread(pulls, item), self.cells.spread(bends, item), hessian)


@dataclass(frozen=True, eq=False)
class Davidson(Likelihood):
    """Minus the log-likelihood of all pairs of a task, won or drawn; the last parameter is log nu, if any are drawn."""

    cells: Cells
    drawn: bool

    @property
    def n_parameters(self) -> int:
        """Strengths, and that of draws."""
        return self.cells.models + self.drawn

    def start(self) -> FloatArray:
        """All equal, with the share of draws that there is."""
        x = np.zeros(self.n_parameters)
        if self.drawn:
            sizes = np.diff(self.cells.offsets)
            pairs = float(self.cells.weights @ (sizes * (sizes - 1))) / 2.0
            key = self.cells.task * len(self.cells.item) + self.cells.tier
            tiers, size = np.unique(key, return_counts=True)
            ties = float(self.cells.weights[tiers // len(self.cells.item)] @ (size * (size - 1))) / 2.0
            x[-1] = np.log(2.0 * ties / max(pairs - ties, 1e-3 * pairs))
        return x

    def by_task(self, x: FloatArray, item: IntArray) -> tuple[float, Terms]:
        """The value and the terms, with these models in the rows."""
        cells, n, p = self.cells, self.cells.models, self.n_parameters
        pulls, bends, hessian = np.zeros(len(item)), np.zeros(len(item)), np.zeros((n + 1, n + 1))
        of_ties, nu = np.zeros((len(cells.weights), 2)), np.exp(x[-1]) if self.drawn else 0.0
        rows = cells.tier, cells.offsets, cells.weights
        value = _pairs(np.exp(0.5 * x[:n]), nu, item, *rows, pulls, bends, of_ties, hessian)
        gradients, curves = (cells.spread(values, item, n + 1) for values in (pulls, bends))
        gradients[:, n], curves[:, n] = of_ties.T
        return value, Terms(gradients[:, :p], curves[:, :p], (hessian + hessian.T)[:p, :p])

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        value, at = self.by_task(x, self.cells.item)
        return Point(value, at.gradients.sum(axis=0), at.hessian)


@kernel
def _pairs(root, nu, item, tier, offsets, weights, pulls, bends, of_ties, out):  # type: ignore[no-untyped-def]
    """Minus log P of all pairs; fills gradients and second derivatives, and half the Hessian.

    Weights of a pair are p^2, q^2 and nu p q with p = e^{x/2}, so that d/2 (won - lost) + log nu (drawn) less the log
    of their sum is the log-likelihood, and its derivatives are moments.
    """
    total, n = 0.0, len(root)
    for task in range(len(weights)):
        w = weights[task]
        for r in range(offsets[task], offsets[task + 1]):
            i = item[r]
            for s in range(r + 1, offsets[task + 1]):
                j = item[s]
                win, lose, tie = root[i] ** 2, root[j] ** 2, nu * root[i] * root[j]
                whole = win + lose + tie
                drawn = tier[r] == tier[s]
                total -= w * np.log((tie if drawn else win) / whole)
                lead, tie = 0.5 * (win - lose) / whole, tie / whole
                pull = w * (lead - (0.0 if drawn else 0.5))
                bend = w * (0.25 * (1.0 - tie) - lead * lead)
                pulls[r] += pull
                pulls[s] -= pull
                bends[r] += bend
                bends[s] += bend
                out[i, j] -= bend
                out[i, i] += 0.5 * bend
                out[j, j] += 0.5 * bend
                mixed = w * lead * tie
                of_ties[task, 0] += w * (tie - (1.0 if drawn else 0.0))
                of_ties[task, 1] += w * tie * (1.0 - tie)
                out[i, n] -= mixed
                out[j, n] += mixed
        out[n, n] += 0.5 * of_ties[task, 1]
    return total


@dataclass(frozen=True, eq=False)
class _Paired(Method):
    likelihood: Davidson

    def start(self) -> FloatArray:
        return self.likelihood.start()

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        return self.likelihood.by_task(x, item)[1]


@dataclass(frozen=True, eq=False)
class Means(Method):
    """A mean over tasks minimises a sum of squares, so that it has terms like the others."""

    values: FloatArray
    """Of every row; 0 where it says nothing."""
    counts: FloatArray
    """Of every row: the weight of its task, 0 where it says nothing."""
    fill: bool = False
    """Gaps are filled by a product of model and task."""

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        """Squares of the rows that say something."""
        bends = self.cells.spread(self.counts, item)
        pulls = self.counts * (x[item] - self.values)
        return Terms(self.cells.spread(pulls, item), bends, np.diag(bends.sum(axis=0)))

    def settle(self, item: IntArray) -> FloatArray:
        """The means."""
        if self.fill:
            there, weights = self.cells.spread(np.ones(len(item)), item).T, self.cells.weights
            filled = _filled(self.cells.spread(self.values, item).T, there)
            return np.asarray(filled @ weights / weights.sum())
        n, known = self.cells.models, np.bincount(item, self.counts, self.cells.models)
        return np.bincount(item, self.counts * self.values, n) / np.where(known > 0.0, known, 1.0)


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
    return np.where(there > 0.0, z, np.outer(model, task))


@dataclass(frozen=True, eq=False)
class Fit:
    """Strengths by a method, and where they have them from."""

    x: FloatArray
    """Strengths, and what comes behind them."""
    method: Method = field(repr=False)
    component: IntArray
    prior: FloatArray
    """(models, models): the precision of a prior on separated models."""
    separation: Separation | None = None
    log_likelihood: float = float("nan")

    @property
    def strength(self) -> FloatArray:
        """Of the models."""
        return self.x[: self.method.cells.models]

    def hessian_of(self, t: int) -> FloatArray:
        """The weighted Hessian of one task at the fit, in the strengths."""
        cells, n = self.method.cells.alone(t), self.method.cells.models
        if isinstance(self.method, Means):
            rows = slice(*self.method.cells.offsets[t : t + 2])
            return np.diag(np.bincount(cells.item, self.method.counts[rows], n))
        likelihood = self.method.likelihood  # type: ignore[attr-defined]
        alone = Davidson(cells, likelihood.drawn) if isinstance(likelihood, Davidson) else tied_races(cells)
        return alone(self.x).hessian[:n, :n]


def plackett_luce(table: ScoreTable, races: list[Race]) -> Fit:
    """Tied Plackett-Luce."""
    cells, edges = Cells.of(len(table.names), races, table.weights), _edges(races)
    share = np.clip(borda(table, races).strength, 0.02, 0.98)
    component = linked(cells.models, *edges)
    likelihood = tied_races(cells)
    method = _Tied(cells, constant_on(component), likelihood)
    return _solved(method, likelihood, np.log(share / (1.0 - share)), Results(cells.models, *edges), component)


def _solved(method: Method, likelihood: Likelihood, start: FloatArray, results: Results, component: IntArray) -> Fit:
    """Strengths of greatest likelihood; models below (or above) all others are pulled to their mean, as elsewhere."""
    n, prior = results.n, np.zeros((results.n, results.n))
    separation = find_separation(results, component)
    if separation is not None:
        games = np.bincount(method.cells.item, minlength=n).astype(np.float64)
        prior = prior_of_separated(games, component, separation)
    x, at, _, _ = newton(Penalised(likelihood, prior), start, constant_on(component, len(start)))
    log_likelihood = 0.5 * float(x[:n] @ prior @ x[:n]) - at.value
    return Fit(x, method, component, prior, separation, log_likelihood)


def tied_races(cells: Cells) -> RaceLikelihood:
    """Minus the log-likelihood of tasks under Plackett-Luce with ties integrated out."""
    names = tuple(map(str, range(cells.models)))
    place = cells.tier.astype(np.float64)
    return RaceLikelihood(
        Races(names, cells.item, place, cells.offsets, cells.weights, cells.weights**2), integrated=True
    )


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
    """Davidson's model of all pairs of a task."""
    cells = Cells.of(len(table.names), races, table.weights)
    # A chain along every tier: draws link all of it.
    same = (np.diff(cells.tier) == 0) & (np.diff(cells.task) == 0)
    drawn = cells.item[:-1][same], cells.item[1:][same]
    results = Results(cells.models, *_edges(races), *drawn)
    component = linked(cells.models, results.better, results.worse)
    likelihood = Davidson(cells, bool(same.any()))
    method = _Paired(cells, constant_on(component), likelihood)
    return _solved(method, likelihood, likelihood.start(), results, component)


def borda(table: ScoreTable, races: list[Race]) -> Fit:
    """The mean over tasks of the share of present models that one is better than."""
    cells = Cells.of(len(table.names), races, table.weights)
    values = np.zeros(len(cells.item))
    for race, low, high in zip(races, cells.offsets[:-1], cells.offsets[1:], strict=True):
        below = high - low - race.starts[1:]
        values[low:high] = ((below + 0.5 * (np.diff(race.starts) - 1)) / max(high - low - 1, 1))[race.tier]
    compared = np.diff(cells.offsets)[cells.task] > 1
    return _mean_fit(cells, values, np.where(compared, cells.weights[cells.task], 0.0))


def z_score(table: ScoreTable, races: list[Race]) -> Fit:
    """The mean over tasks of standardised scores; gaps are filled by a product of model and task."""
    cells = Cells.of(len(table.names), races, table.weights)
    spread = np.nanstd(table.scores, axis=0)
    z = (table.scores - np.nanmean(table.scores, axis=0)) / np.where(spread > 0, spread, 1.0)
    counts = cells.weights[cells.task]
    return _mean_fit(cells, z[cells.item, cells.task], counts, fill=len(cells.item) < table.scores.size)


def _mean_fit(cells: Cells, values: FloatArray, counts: FloatArray, *, fill: bool = False) -> Fit:
    n = cells.models
    method = Means(cells, np.zeros((n, 0)), values, counts, fill)
    return Fit(method.settle(cells.item), method, np.zeros(n, dtype=np.int64), np.zeros((n, n)))


METHODS = {"plackett_luce": plackett_luce, "davidson": davidson, "borda": borda, "z_score": z_score}
