"""The likelihood of races with ties, stage by stage, with the whole Hessian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from luce.aggregate.board.design import shares
from luce.aggregate.board.likelihood import Likelihood
from luce.aggregate.board.newton import Point, add_up, cross
from luce.aggregate.board.races import Races
from luce.numerics.compiled import kernel, part
from luce.numerics.races import dead_heats
from luce.numerics.segments import Tiers
from luce.types import FloatArray, IntArray


class Layout(NamedTuple):
    """Rows of races in the order of their tiers, whatever the races weigh."""

    tiers: Tiers
    item: IntArray
    race: IntArray
    covariates: FloatArray
    cuts: IntArray
    """Where the tiers that something comes after, which all but the last of a race are, begin among their rows."""


class _Stages(NamedTuple):
    """A point of all races: what was worked out for it, in the order of the tiers."""

    phi: FloatArray
    """Of every row, exp(score) over the greatest of the race."""
    rest: FloatArray
    """Of every tier, the sum of phi over what comes after it."""
    slopes: FloatArray
    """Of F in the scores of the tiers that something comes after."""
    blocks: FloatArray
    """The Hessians of F, tier by tier, the rows of one after the other."""
    values: FloatArray
    """-log p of every race, up to a constant."""
    gradients: FloatArray
    """Of every race in the scores of its rows."""


@dataclass(frozen=True, eq=False)
class RaceLikelihood(Likelihood):
    r"""Minus the log-likelihood of races.

    The score of a competitor is its strength plus covariates. For a tier X and what comes after it, R, with
    $z_i = f_i - \log \sum_{j \in R} e^{f_j}$, the log-probability of X before R is F(z). Of PMOP it is
    $F = \log \frac{T}{1 + T}$ with $T = \sum_{i \in X} e^{z_i}$, up to a constant; where ties are integrated out it is
    that of Plackett-Luce, `luce.numerics.races.dead_heats`. Without ties both are Plackett-Luce's.

    With g and A the gradient of F and minus its Hessian, $G = \sum g$, $a = A 1$, $c = 1^\top A 1$ and $\pi$ the shares
    of what comes after, a stage adds to the Hessian in the scores $A$ inside its tier, $-a \pi^\top$ between it and the
    rest, and $G\, \mathrm{diag}(\pi) + (c - G) \pi \pi^\top$ in the rest: two running sums over the stages.
    """

    races: Races
    layout: Layout | None = None
    """Known from the same races with other weights."""
    integrated: bool = False
    """Ties are integrated out, and not those of PMOP."""

    @property
    def n_parameters(self) -> int:
        """Strengths and coefficients."""
        return len(self.races.names) + len(self.races.covariate_names)

    @cached_property
    def _laid(self) -> Layout:
        if self.layout is not None:
            return self.layout
        races, tiers = self.races, self.races.tiers
        given = np.empty((len(races.item), 0)) if races.covariates is None else races.covariates
        return Layout(
            tiers=tiers,
            item=races.item[tiers.order],
            race=races.race,
            covariates=np.ascontiguousarray(given[tiers.order]),
            cuts=np.concatenate([[0], np.cumsum(np.delete(np.diff(tiers.starts), tiers.queries[1:] - 1))]),
        )

    def _at(self, x: FloatArray, *, bent: bool = True) -> _Stages:
        n, (_, starts, queries), laid = len(self.races.names), self._laid.tiers, self._laid
        scores = x[:n][laid.item]
        scores = scores + laid.covariates @ x[n:] if len(x) > n else scores
        phi, rest, z = np.empty(len(scores)), np.empty(len(starts) - 1), np.empty(laid.cuts[-1])
        _leads(scores, starts, queries, phi, rest, z)
        values, slopes = np.empty(len(laid.cuts) - 1), np.empty(len(z))
        blocks = np.empty(int((np.diff(laid.cuts) ** 2).sum()) if bent else 0)
        (dead_heats if self.integrated else _pmop_heats)(z, laid.cuts, values, slopes, blocks)
        by_race, by_row = np.zeros(len(self.races.count)), np.empty(len(scores))
        _pulls(phi, rest, values, slopes, starts, queries, by_race, by_row)
        return _Stages(phi, rest, slopes, blocks, by_race, by_row)

    def _hessian(self, at: _Stages) -> FloatArray:
        """The weighted Hessian of all races."""
        p, n = self.n_parameters, len(self.races.names)
        result, arrays = np.zeros((p, p)), (*self._laid.tiers[1:], self._laid.item, self._laid.covariates)
        _curves(at.phi, at.rest, at.slopes, at.blocks, *arrays, n, self.races.count, result)
        return result + result.T

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        at, weight, laid = self._at(x), self.races.count, self._laid
        by_row = at.gradients * weight[laid.race]
        gradient = np.concatenate([add_up(laid.item, by_row, len(self.races.names)), by_row @ laid.covariates])
        return Point(float(at.values @ weight), gradient, self._hessian(at))

    def pulls(self, x: FloatArray, item: IntArray) -> FloatArray:
        """The weighted gradient by row, with other competitors in the rows."""
        at = replace(self, layout=self._laid._replace(item=item))._at(x, bent=False)
        return at.gradients * self.races.count[self._laid.race]

    def by_row(self, x: FloatArray, item: IntArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """With other competitors in the rows: the value, gradients and second derivatives by row, and the Hessian."""
        at = replace(self, layout=self._laid._replace(item=item))._at(x)
        (_, starts, queries), weight, n = self._laid.tiers, self.races.count, len(self.races.names)
        result, bends, room = np.zeros((n, n)), np.empty(len(item)), np.zeros((3, len(weight), n))
        _dense_curves(at.phi, at.rest, at.slopes, at.blocks, starts, queries, item, weight, room, result, bends)
        return float(at.values @ weight), at.gradients * weight[self._laid.race], bends, result

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """Sum of log-probabilities of all races; constants of PMOP included."""
        order = self._laid.tiers
        sizes = np.diff(order.starts)
        if self.integrated or not np.any(sizes > 1):
            return -at.value
        first = np.repeat(order.queries[:-1], np.diff(order.queries))
        left = np.repeat(np.diff(self.races.offsets), np.diff(order.queries)) - (
            order.starts[:-1] - order.starts[first]
        )
        # log((2^N - 1) m / N): the constant of a stage with N left and m chosen.
        constant = left * np.log(2) + np.log1p(-(0.5**left)) - np.log(left) + np.log(sizes)
        return -at.value - float(np.add.reduceat(constant, order.queries[:-1]) @ self.races.count)

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum over races, or over judges where there are any, of the outer product of their score vectors."""
        by_row, run = -self._at(x).gradients, self.races
        shape = (len(run.count), len(run.names))
        scores = sparse.csr_array((by_row, (self._laid.race, self._laid.item)), shape=shape)
        if run.covariate_names:
            product = by_row[:, None] * self._laid.covariates
            scores = sparse.hstack([scores, np.add.reduceat(product, run.offsets[:-1])], format="csr")
        if run.group is None:
            return np.asarray((scores.T @ scores.multiply(run.squares[:, None])).toarray())
        return cross(sparse.csr_array((run.count, (run.group, np.arange(len(run.count))))) @ scores)

    def within(self, label: IntArray) -> Self:
        """That of every race cut, in the order of its places, where the label of the competitors changes."""
        run, order, race = self.races, self.races.tiers.order, self.races.race
        of = label[run.item[order]]
        starts = np.flatnonzero(np.concatenate([[True], (race[1:] != race[:-1]) | (of[1:] != of[:-1])]))
        part = race[starts]
        cut = replace(
            run,
            item=run.item[order],
            place=run.place[order],
            offsets=np.append(starts, len(order)).astype(np.int64),
            count=run.count[part],
            squares=run.squares[part],
            group=None if run.group is None else run.group[part],
            covariates=None if run.covariates is None else run.covariates[order],
        )
        return replace(self, races=cut, layout=None)

    def resampled(self, rng: np.random.Generator) -> Self:
        """That with Dirichlet weights of races, or of all races of a judge."""
        run, times = self.races, self.races.times
        if run.group is not None:
            count = run.count * shares(np.ones(int(run.group.max()) + 1), rng)[run.group]
        else:
            count = np.where(times > 0, run.count / np.maximum(times, 1e-300), 0.0) * shares(times, rng)
        return replace(self, races=replace(run, count=count), layout=self._laid)


@kernel
def _leads(scores, starts, queries, phi, rest, z):  # type: ignore[no-untyped-def]
    """Fill phi, the rest of every tier, and how far its rows are ahead of that, without the last tier of a race."""
    lasts = 0
    for q in range(len(queries) - 1):
        final = starts[queries[q + 1] - 1]
        top = np.max(scores[starts[queries[q]] : starts[queries[q + 1]]])
        after = 0.0
        for k in range(queries[q + 1] - 1, queries[q] - 1, -1):
            rest[k] = after
            ahead = top + np.log(after)
            for r in range(starts[k], starts[k + 1]):
                phi[r] = np.exp(scores[r] - top)
                after += phi[r]
                if r < final:
                    z[r - lasts] = scores[r] - ahead
        lasts += starts[queries[q + 1]] - final


@kernel
def _pmop_heats(z, starts, values, slopes, blocks):  # type: ignore[no-untyped-def]
    """F of PMOP, of every tier, with its gradient and Hessian, laid out as those of `dead_heats`."""
    cell = 0
    for k in range(len(values)):
        low, m = starts[k], starts[k + 1] - starts[k]
        top, total = z[low], 0.0
        for r in range(low + 1, low + m):
            top = max(top, z[r])
        for r in range(low, low + m):
            slopes[r] = np.exp(z[r] - top) if m > 1 else 1.0
            total += slopes[r]
        whole = top + np.log(total) if m > 1 else top
        small = np.exp(-abs(whole))
        # log(T / (1 + T)), and the chance that the rest comes first.
        values[k] = min(whole, 0.0) - np.log1p(small)
        behind = small / (1.0 + small) if whole > 0.0 else 1.0 / (1.0 + small)
        bend = behind * (2.0 - behind) / total**2
        for i in range(m if len(blocks) else 0):
            for j in range(m):
                blocks[cell + i * m + j] = -bend * slopes[low + i] * slopes[low + j]
            blocks[cell + i * m + i] += behind * slopes[low + i] / total
        for r in range(low, low + m):
            slopes[r] *= behind / total
        cell += m * m


@kernel
def _pulls(phi, rest, values, slopes, starts, queries, by_race, by_row):  # type: ignore[no-untyped-def]
    """The value of every race, and its gradient in the scores of its rows."""
    lasts = 0
    for q in range(len(queries) - 1):
        once, last = 0.0, queries[q + 1] - 1
        for k in range(queries[q], last):
            total = 0.0
            for r in range(starts[k], starts[k + 1]):
                by_row[r] = phi[r] * once - slopes[r - lasts]
                total += slopes[r - lasts]
            once += total / rest[k]
            by_race[q] -= values[k - q]
        for r in range(starts[last], starts[last + 1]):
            by_row[r] = phi[r] * once
        lasts += starts[last + 1] - starts[last]


@kernel
def _curves(phi, rest, slopes, blocks, starts, queries, item, covariates, n, weight, out):  # type: ignore[no-untyped-def]
    """Add half the Hessian of every race, in strengths and coefficients, times its weight; the caller adds the rest."""
    longest = np.max(starts[queries[1:]] - starts[queries[:-1]])
    own, cell, lasts = np.empty((longest, longest)), 0, 0
    for q in range(len(queries) - 1):
        low, high = starts[queries[q]], starts[queries[q + 1]]
        # Sums over the stages before a tier: of G / rest, and of (c - G) / rest^2.
        once, twice = 0.0, 0.0
        for k in range(queries[q], queries[q + 1]):
            first, last = starts[k], starts[k + 1]
            m, more = last - first, k + 1 < queries[q + 1]
            share = 1.0 / rest[k] if more else 0.0
            pull, bend = 0.0, 0.0
            for i in range(first, last):
                line, curve = own[i - low], 0.0
                for j in range(first, last):
                    inside = blocks[cell + (i - first) * m + j - first] if more else 0.0
                    line[j - low] = phi[i] * phi[j] * twice - inside
                    curve -= inside
                line[i - low] = 0.5 * (line[i - low] + phi[i] * once)
                row = phi[i] * twice - curve * share
                for j in range(last, high):
                    line[j - low] = row * phi[j]
                pull += slopes[i - lasts] if more else 0.0
                bend += curve
            cell += m * m if more else 0
            once += pull * share
            twice += (bend - pull) * share * share
        lasts += high - starts[queries[q + 1] - 1]
        _scatter(own, item[low:high], covariates[low:high], n, weight[q], out)


@kernel
def _dense_curves(phi, rest, slopes, blocks, starts, queries, item, weight, room, out, bends):  # type: ignore[no-untyped-def]
    """The same where most compete in most races, without covariates: the Hessian, in vector instructions.

    Between two tiers a cell is the turn of the one before times phi of the one after, so that a row of the Hessian
    takes a pass over the competitors for every race and nothing is scattered but the cells within tiers: a quarter of
    the time with 337 models on 56 tasks. `bends` gets the weighted second derivative of every row in its own score.
    """
    stage, turn, share, cell, lasts = room[0], room[1], room[2], 0, 0
    for q in range(len(queries) - 1):
        once, twice = 0.0, 0.0
        for k in range(queries[q], queries[q + 1]):
            first, last = starts[k], starts[k + 1]
            m, more = last - first, k + 1 < queries[q + 1]
            part_of = 1.0 / rest[k] if more else 0.0
            pull, bend = 0.0, 0.0
            for i in range(first, last):
                curve, line = 0.0, out[item[i]]
                for j in range(first, last):
                    inside = blocks[cell + (i - first) * m + j - first] if more else 0.0
                    line[item[j]] += 0.5 * weight[q] * (phi[i] * phi[j] * twice - inside)
                    curve -= inside
                    if i == j:
                        bends[i] = weight[q] * (phi[i] * (phi[i] * twice + once) - inside)
                line[item[i]] += 0.5 * weight[q] * phi[i] * once
                stage[q, item[i]], share[q, item[i]] = k + 1, phi[i]
                turn[q, item[i]] = weight[q] * (phi[i] * twice - curve * part_of)
                pull += slopes[i - lasts] if more else 0.0
                bend += curve
            cell += m * m if more else 0
            once += pull * part_of
            twice += (bend - pull) * part_of * part_of
        lasts += starts[queries[q + 1]] - starts[queries[q + 1] - 1]
    for i in range(len(out)):
        for q in range(len(weight)):
            if stage[q, i] > 0.0:
                _between(out[i], i, stage[q], turn[q], share[q])
    for i in range(len(out)):
        for j in range(i):
            out[i, j] += out[j, i]
            out[j, i] = out[i, j]
        out[i, i] *= 2.0


@part
def _between(line, i, stage, turn, share):  # type: ignore[no-untyped-def]
    """Add the cells of i with the competitors before it in the list that are in other tiers; absent ones add 0."""
    k, own, phi = stage[i], turn[i], share[i]
    for j in range(i):
        line[j] += (own * share[j] if stage[j] > k else 0.0) + (phi * turn[j] if stage[j] < k else 0.0)


@part
def _scatter(own, item, covariates, n, weight, out):  # type: ignore[no-untyped-def]
    """Add half a Hessian in the scores of some rows, the upper one, to strengths and the coefficients behind them."""
    size = len(item)
    for i in range(size):
        line = out[item[i]]
        for j in range(i, size):
            line[item[j]] += weight * own[i, j]
    for i in range(size if covariates.shape[1] else 0):
        for c in range(covariates.shape[1]):
            total = own[i, i] * covariates[i, c]
            for j in range(size):
                total += (own[i, j] if j >= i else own[j, i]) * covariates[j, c]
            out[item[i], n + c] += weight * total
            for e in range(covariates.shape[1]):
                out[n + e, n + c] += 0.5 * weight * total * covariates[i, e]
