"""Four methods for scores on tasks, each task a race with ties: strengths, and their terms task by task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from luce.aggregate.board.likelihood import Penalised
from luce.aggregate.board.newton import Point, constant_on, inverse, newton
from luce.aggregate.board.race_likelihood import RaceLikelihood
from luce.aggregate.board.races import Races
from luce.aggregate.board.separation import Results, Separation, find_separation, linked
from luce.aggregate.board.solve import prior_of_separated
from luce.aggregate.scores.table import ScoreTable
from luce.numerics.compiled import kernel
from luce.numerics.segments import query_index, runs
from luce.types import FloatArray, IntArray

LONGEST = 2.0
"""How far a Newton step from equality, of which rank sets are made, may go."""
RIDGE = 1e-3
"""Precision there, which keeps finite what no task bounds."""
_UNSEEN = 1e4
"""Curvature along what no task sees, beside the greatest of the others."""


class Terms(NamedTuple):
    """Of what is minimised, all with the weights of the tasks."""

    value: float
    gradients: FloatArray
    """(tasks, parameters)."""
    bends: FloatArray
    """(tasks, parameters): the diagonals of the Hessians of the tasks."""
    hessian: FloatArray
    """Of all tasks."""


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """Terms for models in any rows of the races, as labels are shuffled; strengths are the first parameters."""

    races: Races
    """One a task, its rows best first."""
    null: FloatArray
    """(models, k) orthonormal: directions that no task sees."""

    @abstractmethod
    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        """At a point, with these models in the rows."""

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        at = self.terms(x, self.races.item)
        return Point(at.value, at.gradients.sum(axis=0), at.hessian)

    @property
    def models(self) -> int:
        """How many."""
        return len(self.races.names)

    def start(self) -> FloatArray:
        """Equality, which is the same point whoever has which row."""
        return np.zeros(self.models)

    def alone(self, t: int) -> Self:
        """That of one task."""
        return replace(self, races=self.races.alone(t))

    def spread(self, values: FloatArray, item: IntArray, columns: int | None = None) -> FloatArray:
        """(tasks, columns): values of rows where these models have them, 0 elsewhere."""
        result = np.zeros((len(self.races.count), columns or self.models))
        result[self.races.race, item] = values
        return result

    def gradients(self, x: FloatArray, item: IntArray) -> FloatArray:
        """(tasks, parameters): those of `terms` alone."""
        return self.terms(x, item).gradients

    @cached_property
    def _equal(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """At equality: gradients of the rows, gradients of other parameters, and the inverse Hessian, on average.

        None of them depends on labels: the mean over all shuffles of the Hessian of a task with the mean d of its
        diagonal is d (I - 11'/m) m / (m - 1) over its m models, as its rows sum to 0.
        """
        at, n, races = self.terms(self.start(), self.races.item), self.models, self.races
        sizes = np.diff(races.offsets)
        there = self.spread(np.ones(len(races.item)), races.item)
        bend = at.bends[:, :n].sum(axis=1) / np.maximum(sizes - 1, 1)
        matrix = at.hessian.copy()
        matrix[:n, :n] = np.diag(bend @ there) - (there.T * (bend / sizes)) @ there
        matrix[:n, n:] = matrix[n:, :n] = 0.0
        rows = at.gradients[races.race, races.item]
        return rows, at.gradients[:, n:].sum(axis=0), inverse(self.kept(matrix), self.wide_null)

    @cached_property
    def wide_null(self) -> FloatArray:
        """With rows for the other parameters."""
        return np.pad(self.null, ((0, len(self.start()) - self.models), (0, 0)))

    def settle(self, item: IntArray) -> tuple[FloatArray, Terms, FloatArray]:
        """Two steps from equality, with the mean Hessian and with that of the first point; with gradients there.

        The second step's terms and curvature serve for the errors as well.
        """
        rows, others, curvature = self._equal
        pull = np.append(np.bincount(item, rows, self.models), others)
        x = self.start() - np.clip(curvature @ pull, -LONGEST, LONGEST)
        at = self.terms(x, item)
        # What no task sees is as good as 0 there: to take it out would be an eighth of the work of a shuffle.
        curvature, pull = inverse(self.kept(at.hessian), self.wide_null[:, :0]), at.gradients.sum(axis=0)
        pull[: self.models] += RIDGE * x[: self.models]
        x = x - np.clip(curvature @ pull, -LONGEST, LONGEST)
        return x, at._replace(gradients=self.gradients(x, item)), curvature

    def kept(self, hessian: FloatArray) -> FloatArray:
        """The Hessian with the ridge, and with a great curvature along directions that no task sees."""
        scaled = _UNSEEN * np.max(np.diagonal(hessian)) * self.wide_null
        result: FloatArray = hessian + scaled @ self.wide_null.T
        result[np.arange(self.models), np.arange(self.models)] += RIDGE
        return result


@dataclass(frozen=True, eq=False)
class _Tied(Method):
    @cached_property
    def _likelihood(self) -> RaceLikelihood:
        return RaceLikelihood(self.races, integrated=True)

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        value, pulls, bends, hessian = self._likelihood.by_row(x, item)
        return Terms(value, self.spread(pulls, item), self.spread(bends, item), hessian)

    def gradients(self, x: FloatArray, item: IntArray) -> FloatArray:
        return self.spread(self._likelihood.pulls(x, item), item)


@dataclass(frozen=True, eq=False)
class _Paired(Method):
    """Minus the log-likelihood of all pairs of a task, won or drawn; the last parameter is log nu, if any are drawn."""

    drawn: bool

    def start(self) -> FloatArray:
        """All equal, with the share of draws that there is."""
        if not self.drawn:
            return super().start()
        weights, (_, starts, queries) = self.races.count, self.races.tiers
        sizes, tied = np.diff(self.races.offsets), np.diff(starts)
        pairs = float(weights @ (sizes * (sizes - 1))) / 2.0
        ties = float(weights[query_index(queries)] @ (tied * (tied - 1))) / 2.0
        return np.append(super().start(), np.log(2.0 * ties / max(pairs - ties, 1e-3 * pairs)))

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        races, n, p = self.races, self.models, self.models + self.drawn
        pulls, bends, hessian = np.zeros(len(item)), np.zeros(len(item)), np.zeros((n + 1, n + 1))
        of_ties, nu = np.zeros((len(races.count), 2)), np.exp(x[-1]) if self.drawn else 0.0
        rows = races.place, races.offsets, races.count
        value = _pairs(np.exp(0.5 * x[:n]), nu, item, *rows, pulls, bends, of_ties, hessian)
        gradients, curves = (self.spread(values, item, n + 1) for values in (pulls, bends))
        gradients[:, n], curves[:, n] = of_ties.T
        return Terms(value, gradients[:, :p], curves[:, :p], (hessian + hessian.T)[:p, :p])


@kernel
def _pairs(root, nu, item, place, offsets, weights, pulls, bends, of_ties, out):  # type: ignore[no-untyped-def]
    """Minus log P of all pairs; fills gradients and second derivatives, and half the Hessian.

    Weights of a pair are p^2, q^2 and nu p q with p = e^{x/2}, so that d/2 (won - lost) + log nu (drawn) less the log
    of their sum is the log-likelihood, and its derivatives are moments.
    """
    total, n = 0.0, len(root)
    for task in range(len(weights)):
        w = weights[task]
        for r in range(offsets[task], offsets[task + 1]):
            i, chance = item[r], 1.0
            for s in range(r + 1, offsets[task + 1]):
                j = item[s]
                win, lose, tie = root[i] ** 2, root[j] ** 2, nu * root[i] * root[j]
                whole = win + lose + tie
                drawn = place[r] == place[s]
                # One logarithm for many pairs, as long as their product can be told from 0.
                this = (tie if drawn else win) / whole
                if chance * this < 1e-290:
                    total -= w * np.log(chance)
                    chance = 1.0
                chance *= this
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
            total -= w * np.log(chance)
        out[n, n] += 0.5 * of_ties[task, 1]
    return total


@dataclass(frozen=True, eq=False)
class _Means(Method):
    """A mean over tasks minimises a sum of squares, so that it has terms like the others."""

    values: FloatArray
    """Of every row; 0 where it says nothing."""
    counts: FloatArray
    """Of every row: the weight of its task, 0 where it says nothing."""
    fill: bool = False
    """Gaps are filled by a product of model and task."""

    def alone(self, t: int) -> Self:
        rows = slice(*self.races.offsets[t : t + 2])
        return replace(super().alone(t), values=self.values[rows], counts=self.counts[rows])

    def terms(self, x: FloatArray, item: IntArray) -> Terms:
        """Squares of the rows that say something."""
        bends, gap = self.spread(self.counts, item), x[item] - self.values
        value = 0.5 * float(self.counts @ gap**2)
        return Terms(value, self.spread(self.counts * gap, item), bends, np.diag(bends.sum(axis=0)))

    def settle(self, item: IntArray) -> tuple[FloatArray, Terms, FloatArray]:
        """The means, with their terms and curvature."""
        x = self.means(item)
        at = self.terms(x, item)
        return x, at, np.diag(1.0 / np.diagonal(self.kept(at.hessian)))

    def means(self, item: IntArray) -> FloatArray:
        """Of all models."""
        if self.fill:
            there, weights = self.spread(np.ones(len(item)), item).T, self.races.count
            filled = _filled(self.spread(self.values, item).T, there)
            return np.asarray(filled @ weights / weights.sum())
        known, total = (np.bincount(item, w, self.models) for w in (self.counts, self.counts * self.values))
        return total / np.where(known > 0.0, known, 1.0)


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
        return self.x[: self.method.models]

    def hessian_of(self, t: int) -> FloatArray:
        """The weighted Hessian of one task at the fit, in the strengths."""
        n = self.method.models
        return self.method.alone(t)(self.x).hessian[:n, :n]


def plackett_luce(table: ScoreTable, races: Races) -> Fit:
    """Tied Plackett-Luce."""
    edges, share = _edges(races), np.clip(borda(table, races).strength, 0.02, 0.98)
    component = linked(len(races.names), *edges)
    method = _Tied(races, constant_on(component))
    return _solved(method, np.log(share / (1.0 - share)), Results(len(races.names), *edges), component)


def _solved(method: Method, start: FloatArray, results: Results, component: IntArray) -> Fit:
    """Strengths of greatest likelihood; models below (or above) all others are pulled to their mean, as elsewhere."""
    n, prior = results.n, np.zeros((results.n, results.n))
    separation = find_separation(results, component)
    if separation is not None:
        games = np.bincount(method.races.item, minlength=n).astype(np.float64)
        prior = prior_of_separated(games, component, separation)
    x, at, _, _ = newton(Penalised(method, prior), start, constant_on(component, len(start)))
    log_likelihood = 0.5 * float(x[:n] @ prior @ x[:n]) - at.value
    return Fit(x, method, component, prior, separation, log_likelihood)


def _edges(races: Races) -> tuple[IntArray, IntArray]:
    """Every model of a tier, and every one of the next."""
    _, starts, queries = races.tiers
    sizes = np.diff(starts)
    following = np.append(sizes[1:], 0)
    following[queries[1:] - 1] = 0
    row, tier = np.arange(len(races.item)), np.repeat(np.arange(len(sizes)), sizes)
    better = np.repeat(row, following[tier])
    return races.item[better], races.item[runs(starts[1:][tier], following[tier])]


def davidson(table: ScoreTable, races: Races) -> Fit:
    """Davidson's model of all pairs of a task."""
    # A chain along every tier: draws link all of it.
    same = (np.diff(races.place) == 0) & (np.diff(races.race) == 0)
    results = Results(len(races.names), *_edges(races), races.item[:-1][same], races.item[1:][same])
    component = linked(results.n, results.better, results.worse)
    method = _Paired(races, constant_on(component), bool(same.any()))
    return _solved(method, method.start(), results, component)


def borda(table: ScoreTable, races: Races) -> Fit:
    """The mean over tasks of the share of present models that one is better than."""
    _, starts, queries = races.tiers
    sizes, task = np.diff(starts), query_index(queries)
    others, below = np.diff(races.offsets) - 1, races.offsets[1:][task] - starts[1:]
    share = (below + 0.5 * (sizes - 1)) / np.maximum(others, 1)[task]
    counts = np.where(others > 0, races.count, 0.0)[races.race]
    return _mean_fit(races, np.repeat(share, sizes), counts)


def z_score(table: ScoreTable, races: Races) -> Fit:
    """The mean over tasks of standardised scores; gaps are filled by a product of model and task."""
    spread = np.nanstd(table.scores, axis=0)
    z = (table.scores - np.nanmean(table.scores, axis=0)) / np.where(spread > 0, spread, 1.0)
    fill = len(races.item) < table.scores.size
    return _mean_fit(races, z[races.item, races.race], races.count[races.race], fill=fill)


def _mean_fit(races: Races, values: FloatArray, counts: FloatArray, *, fill: bool = False) -> Fit:
    n = len(races.names)
    method = _Means(races, np.zeros((n, 0)), values, counts, fill)
    return Fit(method.means(races.item), method, np.zeros(n, dtype=np.int64), np.zeros((n, n)))


METHODS = {"plackett_luce": plackett_luce, "davidson": davidson, "borda": borda, "z_score": z_score}
