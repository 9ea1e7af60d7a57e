r"""Races with ties integrated out: minus their log-likelihood under Plackett-Luce, with gradient and Hessian.

For a tier X and what comes after it, R, with $z_i = f_i - \log \sum_{j \in R} e^{f_j}$, the log-probability that all of
X come in before all of R is F(z), with its derivatives that of `luce.numerics.races.dead_heats`. Newton's method and
the resampling of tasks need the whole Hessian. All tiers of all tasks are done at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.board.newton import Point
from luce.aggregate.scores.table import Race
from luce.numerics.races import dead_heats
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TiedRaces:
    """Minus the log-likelihood of races under Plackett-Luce with ties integrated out."""

    n: int
    races: list[Race]
    weights: FloatArray

    @cached_property
    def _layouts(self) -> list[_Layout]:
        return [_Layout.of(race) for race in self.races]

    def __call__(self, x: FloatArray) -> Point:
        """Weighted sums over the races."""
        value, gradient, hessian = 0.0, np.zeros(self.n), np.zeros((self.n, self.n))
        for race, weight, (v, g, h) in zip(self.races, self.weights, self.each(x), strict=True):
            value += weight * v
            gradient[race.order] += weight * g
            hessian[np.ix_(race.order, race.order)] += weight * h
        return Point(float(value), gradient, hessian)

    def by_task(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradients and Hessians of all races."""
        gradients, hessians = np.zeros((len(self.races), self.n)), np.zeros((len(self.races), self.n, self.n))
        for t, (race, (_, g, h)) in enumerate(zip(self.races, self.each(x), strict=True)):
            gradients[t, race.order] = g
            hessians[t][np.ix_(race.order, race.order)] = h
        return gradients, hessians

    def each(self, x: FloatArray) -> list[Point]:
        """Value, gradient and Hessian of every race, in its own order."""
        scores = [x[race.order] for race in self.races]
        after = [_log_after(f, race.starts) for f, race in zip(scores, self.races, strict=True)]
        z = [
            (f - np.append(u, 0.0)[own.tier])[own.tied] for f, u, own in zip(scores, after, self._layouts, strict=True)
        ]
        starts = np.concatenate([[0], np.cumsum(self._sizes)])
        values, slopes, blocks = (np.empty(n) for n in (len(self._sizes), starts[-1], (self._sizes**2).sum()))
        dead_heats(np.concatenate(z), starts, values, slopes, blocks)
        heat_of, row_of, cell_of = (np.cumsum([0, *sizes]) for sizes in self._lengths)
        return [
            _one_race(
                *(f, u, own),
                float(values[heat_of[k] : heat_of[k + 1]].sum()),
                slopes[row_of[k] : row_of[k + 1]],
                blocks[cell_of[k] : cell_of[k + 1]],
            )
            for k, (f, u, own) in enumerate(zip(scores, after, self._layouts, strict=True))
        ]

    @cached_property
    def _sizes(self) -> IntArray:
        return np.concatenate([own.sizes for own in self._layouts])

    @cached_property
    def _lengths(self) -> tuple[list[int], list[int], list[int]]:
        """How many tied tiers, rows of these and cells of their Hessians every race has."""
        each = self._layouts
        return [len(own.sizes) for own in each], [len(own.tied) for own in each], [len(own.i) for own in each]


class _Layout(NamedTuple):
    """Where the tiers of a race are; the last tier, which nothing comes after, is no stage."""

    tier: IntArray
    inside: NDArray[np.bool_]
    """In a tier that something comes after."""
    single: NDArray[np.bool_]
    """Inside, and alone in its tier."""
    tied: IntArray
    """The rows inside that are not alone, and the sizes of their tiers."""
    sizes: IntArray
    i: IntArray
    """Rows and columns of all pairs within a tier of `tied`, tier by tier."""
    j: IntArray
    last: slice

    @staticmethod
    def of(race: Race) -> _Layout:
        tier, size = race.tier, np.diff(race.starts)
        inside = tier < len(size) - 1
        single = inside & (size[tier] == 1)
        tied = np.flatnonzero(inside & ~single)
        first = race.starts[tier[tied]]
        i = np.repeat(tied, size[tier[tied]])
        within = np.arange(len(i)) - np.repeat(np.cumsum(size[tier[tied]]) - size[tier[tied]], size[tier[tied]])
        sizes = size[:-1][size[:-1] > 1]
        last = slice(int(race.starts[-2]), int(race.starts[-1]))
        return _Layout(tier, inside, single, tied, sizes, i, np.repeat(first, size[tier[tied]]) + within, last)


def _log_after(f: FloatArray, starts: IntArray) -> FloatArray:
    """For every tier but the last, log of the sum of exp(f) over what comes after it."""
    top = f.max(initial=0.0)
    sums = np.cumsum(np.exp(f - top)[::-1])[::-1]
    logs: FloatArray = top + np.log(sums[starts[1:-1]])
    return logs


def _one_race(
    f: FloatArray, after: FloatArray, own: _Layout, log_heats: float, of_heats: FloatArray, blocks: FloatArray
) -> Point:
    r"""A race in its own order, with the sum of F over its tied tiers, their gradients and their Hessians.

    With g and A the gradient of F and minus its Hessian, $G = \sum g$, $a = A 1$, $c = 1^\top A 1$ and
    $\pi$ the shares of what comes after, a stage adds to the Hessian $A$ inside its tier, $-a \pi^\top$ between it and
    the rest, and $G\, \mathrm{diag}(\pi) + (c - G) \pi \pi^\top$ in the rest: two running sums over the stages.
    """
    tier, inside, single, stages = own.tier, own.inside, own.single, len(after)
    log_rest = np.append(after, 0.0)[tier]
    lead = 1.0 / (1.0 + np.exp(np.minimum(f - log_rest, 700.0)))
    g = np.where(inside, lead, 0.0)
    curve = np.where(inside, lead * (1.0 - lead), 0.0)
    g[own.tied] = of_heats
    curve[own.tied] = -np.bincount(own.i, blocks, len(f))[own.tied]
    value = float(np.sum(np.logaddexp(0.0, (log_rest - f)[single]))) - log_heats
    # Before tier k: sums over earlier stages of G / rest and of (c - G) / rest^2, with phi relative to the rest.
    pull, bend = (np.bincount(tier[inside], v[inside], stages) for v in (g, curve))
    top = float(f.max(initial=0.0))
    phi, rest = np.exp(f - top), np.exp(after - top)
    once = np.concatenate([[0.0], np.cumsum(pull / rest)])[tier]
    twice = np.concatenate([[0.0], np.cumsum((bend - pull) / rest**2)])[tier]
    row = phi * twice - np.where(inside, curve * np.exp(top - log_rest), 0.0)
    hessian = np.triu(np.outer(row, phi), 1)
    hessian += hessian.T
    hessian[own.last, own.last] = np.outer(phi[own.last] * twice[own.last], phi[own.last])
    np.fill_diagonal(hessian, phi**2 * twice + phi * once + np.where(single, curve, 0.0))
    i, j = own.i, own.j
    hessian[i, j] = np.where(i == j, np.diagonal(hessian)[i], (phi * twice)[i] * phi[j]) - blocks
    return Point(value, phi * once - g, hessian)
