"""The driver of losses that are sums over pairs of documents: which pairs, with what weight, and how to sum them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, statements
from luce.losses.gains import DISCOUNTS, named_or_numbers
from luce.numerics.segments import Tiers, chunk_queries, query_index, runs
from luce.spec import option
from luce.types import FloatArray, IntArray

_AT_ONCE = 1 << 20
"""Pairs that are listed at once where every pair is taken by itself."""


class PairTarget(NamedTuple):
    """Groups of tiers whose pairs are summed, with the weight of every pair.

    A pair of different tiers weighs `win_weight` of its better document, a pair of one tier `tie_weight` (the same for
    the whole tier), both by position in `order`. Group g owns the tiers from `groups[g]` on, query q the groups from
    `queries[q]` on and the rows `offsets[q]` to `offsets[q + 1]`. Of grades every query is one group.
    """

    order: IntArray
    starts: IntArray
    groups: IntArray
    win_weight: FloatArray
    tie_weight: FloatArray
    queries: IntArray
    offsets: IntArray

    def of_positions(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The weight of the pairs of every position with worse, with better and with tied documents."""
        tier, group = query_index(self.starts), query_index(self.starts[self.groups])
        first, last = self.starts[tier], self.starts[tier + 1]
        total = np.concatenate([[0.0], np.cumsum(self.win_weight)])
        better: FloatArray = total[first] - total[self.starts[self.groups[group]]]
        worse: FloatArray = self.win_weight * (self.starts[self.groups[group + 1]] - last)
        return worse, better, self.tie_weight * (last - first - 1)

    def of_queries(self) -> FloatArray:
        """The weight of all pairs of every query."""
        worse, _, tied = self.of_positions()
        bounds = self.starts[self.groups[self.queries]]
        return np.bincount(query_index(bounds), worse + 0.5 * tied, len(bounds) - 1).astype(np.float64)

    def of_documents(self) -> FloatArray:
        """The weight of all pairs that a document is in, one a row.

        >>> pairs = Comparisons(wins=[(0, 1), (0, 2)], ties=[(1, 2)])
        >>> said = Statements.of_comparisons(pairs, np.array([0, 3]))
        >>> groups_of(said, np.ones(5), said.equal).of_documents().tolist()
        [2.0, 2.0, 2.0]
        """
        return np.bincount(self.order, sum(self.of_positions()), int(self.offsets[-1])).astype(np.float64)


def groups_of(said: Statements, weight: FloatArray, tied: FloatArray) -> PairTarget:
    """The groups of pairs of chains whose tiers weigh so much, and whose ties so much of that, a number a tier each."""
    sizes = np.diff(said.tiers)
    weights = np.repeat(weight, sizes), np.repeat(weight * tied, sizes)
    found = PairTarget(*said.as_tiers(), *weights, said.by_query, said.offsets)
    return _above_the_rest(found, said) if said.open.any() else found


def _above_the_rest(found: PairTarget, said: Statements) -> PairTarget:
    """The same with what open chains say of all whom they do not name.

    Those whom such a chain names, T, are above all others: above everyone, less T above T. So a chain costs as much as
    it is long, and a query its length once: whom its open chains name, weighing as much as these together, above all.
    """
    owner, bounds, open_chains = query_index(said.by_query), said.by_chain, np.flatnonzero(said.open)
    lengths = np.diff(bounds)[open_chains]
    places = runs(bounds[open_chains], lengths)
    top, weight = said.rows[places], found.win_weight[places]
    in_all = np.bincount(top, weight, int(said.offsets[-1]))
    named, asked = np.flatnonzero(in_all), np.unique(owner[open_chains])
    everyone = np.diff(said.offsets)[asked]
    upper, lower = np.concatenate([top, named]), np.concatenate([top, runs(said.offsets[asked], everyone)])
    of_upper = np.concatenate([lengths, np.bincount(query_index(said.offsets)[named], minlength=len(everyone))[asked]])
    of_lower = np.concatenate([lengths, everyone])
    rows = np.concatenate([found.order, upper, lower])
    win_weight = np.concatenate([found.win_weight, -weight, in_all[named], np.zeros(len(lower))])
    # Tiers by where they begin and how long they are, those of the chains first, then an upper and a lower one a group.
    n, sizes = len(found.order), np.column_stack([of_upper, of_lower])
    begins = np.column_stack([n + np.cumsum(of_upper), n + len(upper) + np.cumsum(of_lower)]) - sizes
    begins = np.concatenate([found.starts[:-1], begins.ravel()])
    lengths = np.concatenate([np.diff(found.starts), sizes.ravel()])
    groups = np.concatenate([found.groups, found.groups[-1] + 2 * np.arange(1, len(of_upper) + 1)])
    owner = np.concatenate([owner, owner[open_chains], asked])
    order = np.argsort(owner, kind="stable")
    tiers = runs(groups[order], np.diff(groups)[order])
    at = runs(begins[tiers], lengths[tiers])
    return PairTarget(
        rows[at],
        np.concatenate([[0], np.cumsum(lengths[tiers])]),
        np.concatenate([[0], np.cumsum(np.diff(groups)[order])]),
        win_weight[at],
        np.concatenate([found.tie_weight, np.zeros(len(rows) - n)])[at],
        np.searchsorted(owner[order], np.arange(len(said.offsets))),
        said.offsets,
    )


class Here(NamedTuple):
    """A run of queries by position: where tiers start, which tiers a query starts with, scores, weights of pairs."""

    starts: IntArray
    queries: IntArray
    f: FloatArray
    win_weight: FloatArray
    tie_weight: FloatArray

    def part(self, edges: IntArray, ties: bool) -> Here:
        """Documents of one group between these edges as tiers, with their ties or without."""
        here = slice(edges[0], edges[-1])
        tie_weight = self.tie_weight[here] if ties else np.zeros(edges[-1] - edges[0])
        bounds = np.array([0, len(edges) - 1])
        return Here(edges - edges[0], bounds, self.f[here], self.win_weight[here], tie_weight)


class Sums(NamedTuple):
    """What a pass over the pairs of some queries fills: a value and a derivative in the tie parameter for each query,
    and what is added to the slope and, unless there is no room, to the bend of each document."""

    values: FloatArray
    by_t: FloatArray
    slopes: FloatArray
    bends: FloatArray

    def part(self, q: int, rows: slice) -> Sums:
        """Those of one query, the documents of which stand at these places."""
        return Sums(self.values[q : q + 1], self.by_t[q : q + 1], self.slopes[rows], self.bends[rows])


def weights_of_tiers(weights: str | tuple[float, ...], by_grade: Tiers) -> FloatArray:
    """One weight a tier: the mean over the positions that it fills in the ideal order.

    >>> by_grade = Tiers(np.arange(4), np.array([0, 1, 3, 4]), np.array([0, 3]))
    >>> weights_of_tiers((3.0, 2.0, 1.0), by_grade).tolist()
    [3.0, 1.5, 1.0]
    """
    first = by_grade.starts[by_grade.queries[:-1]]
    rows_before = np.repeat(first, np.diff(by_grade.starts[by_grade.queries]))
    position = (np.arange(by_grade.starts[-1]) - rows_before + 1).astype(np.float64)
    if isinstance(weights, str):
        each = DISCOUNTS[weights](position)
    else:
        each = np.asarray(weights)[np.minimum(position.astype(np.int64), len(weights)) - 1]
    return np.add.reduceat(each, by_grade.starts[:-1]) / np.diff(by_grade.starts)


def grades(name: str, given: Any) -> tuple[float, ...]:
    """The check of a setting that is some grades."""
    try:
        return tuple(map(float, given))
    except (TypeError, ValueError):
        raise SettingError(f"{name} is {given!r}; it must be some grades, or None for all.") from None


class PairLoss(Loss):
    """Sum over the pairs of a query of a function of the difference of two scores: the risk [Ties] (8).

    A loss of this kind gives `terms`, what one pair costs, and no more: all pairs are then taken one by one. One that
    has a faster way gives `run_pairs` as well, as smooth links do (`luce.losses.pairwise`) and margins
    (`luce.losses.margins`).

    The target is grades (every pair of different grades, better first; every pair of equal grades is a tie), or
    `Comparisons` with explicit preferences and ties.

    Parameters
    ----------
    weighting
        "all": every pair counts 1, so long queries count most (as in the papers); "pairs": a query is divided by its
        number of pairs; "size": by its number of documents.
    position_weight
        None, or what a pair weighs by the position of its better document in the ideal order: "log2" is
        1 / log2(position + 1), "reciprocal" 1 / position, a sequence gives the weights of positions 1, 2, ... and its
        last one goes on. Tied documents share the mean of the positions that they fill.

    >>> class Exponential(PairLoss):
    ...     name = "exponential"
    ...     def terms(self, d, tied):
    ...         return np.exp(-d) * np.array([1.0, -1.0, 1.0, 0.0]).reshape(4, *[1] * np.ndim(d))
    >>> Exponential().value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])[1].tolist()
    [-2.0, 1.0, 1.0]
    """

    takes_comparisons: ClassVar[bool] = True

    _: KW_ONLY
    weighting: Literal["all", "pairs", "size"] = "all"
    position_weight: str | tuple[float, ...] | None = option(
        default=None, convert=named_or_numbers("log2", "reciprocal")
    )
    ties: bool = field(default=False, init=False)
    tie_grades: tuple[float, ...] | None = field(default=None, init=False)

    @property
    def uses_ties(self) -> bool:
        """Whether tied pairs count."""
        return self.ties

    @abstractmethod
    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """Loss of pairs at d = f_i - f_j, its two derivatives in d, its derivative in the tie parameter: (4, *d)."""

    def prepare(self, target: Target, offsets: IntArray) -> PairTarget:
        """The groups of tiers whose pairs are summed, with their weights."""
        return self.prepared(statements(self, target, offsets))

    def prepared(self, said: Statements) -> PairTarget:
        """The same, of a target that is statements already."""
        offsets = said.offsets
        if said.grade is None and (self.position_weight is not None or self.tie_grades is not None):
            option = "position_weight" if self.position_weight is not None else "tie_grades"
            raise SettingError(f"{option} goes by grades; explicit comparisons have none, so leave it out.")
        tied = said.equal & self.uses_ties
        if self.tie_grades is not None and said.grade is not None:
            tied &= np.isin(said.grade, self.tie_grades)
        found = groups_of(said, np.repeat(said.times, np.diff(said.chains)), tied.astype(np.float64))
        speaks = np.any(np.diff(found.groups) > 1) or np.any(
            (np.diff(found.starts) > 1) & (found.tie_weight[found.starts[:-1]] > 0)
        )
        if not speaks and np.diff(offsets).max(initial=0) > 1:
            what = "neither a preference nor a tie" if self.uses_ties else "no preference (all its pairs are tied)"
            warnings.warn(f"The target has {what}: {self.name!r} has nothing to learn from.", LuceWarning, stacklevel=2)
        if self.weighting != "all":
            pairs = found.of_queries() if self.weighting == "pairs" else np.diff(offsets)
            found = _weighed(
                found, np.diff(found.starts[found.groups[found.queries]]), 1.0 / np.where(pairs, pairs, 1.0)
            )
        if self.position_weight is not None:
            weights = weights_of_tiers(self.position_weight, said.as_tiers())
            found = _weighed(found, np.diff(found.starts), weights)
        return found

    def pair_counts(self, target: Target, offsets: ArrayLike | None = None) -> FloatArray:
        """Number (weight) of the pairs of every document: the curvature that makes a boosted tree average gradients.

        >>> from luce.losses.pairwise import RankNet, RaoKupper
        >>> RaoKupper().pair_counts([2, 1, 1, 0], [0, 4]).tolist(), RankNet().pair_counts([2, 1, 1, 0]).tolist()
        ([3.0, 3.0, 3.0, 3.0], [3.0, 2.0, 2.0, 3.0])
        """
        if offsets is None:
            if isinstance(target, Comparisons):
                raise SettingError("The pairs of comparisons need offsets, which say how many documents there are.")
            offsets = [0, len(np.asarray(target))]
        return self.prepare(target, np.asarray(offsets, dtype=np.int64)).of_documents()

    def fill(self, prepared: PairTarget, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian."""
        chunk, values, grad, curvature, d_parameters = out
        first, last = (int(prepared.queries[q]) for q in chunk)
        tiers = slice(prepared.groups[first], prepared.groups[last] + 1)
        at = slice(*prepared.starts[prepared.groups[[first, last]]])
        rows, starts = prepared.order[at], prepared.starts[tiers] - at.start
        weights = prepared.win_weight[at], prepared.tie_weight[at]
        here = Here(starts, prepared.groups[first : last + 1] - tiers.start, scores[rows], *weights)
        n = last - first
        sums = Sums(np.zeros(n), np.zeros(n), np.zeros(len(rows)), np.zeros(len(rows) if len(curvature) else 0))
        alone = len(rows) == 2 * n and (np.diff(here.starts[here.queries]) == 2).all()
        (self._two_by_two if alone else self.run_pairs)(here, sums)
        own = slice(*prepared.offsets[list(chunk)])
        each_row_once = len(prepared.order) == prepared.offsets[-1] and len(prepared.groups) == len(prepared.offsets)
        for found, result in ((sums.slopes, grad), (sums.bends, curvature)):
            if each_row_once and len(result):
                result[rows] = found
            elif len(result):
                result[own] = np.bincount(rows - own.start, found, own.stop - own.start)
        if len(curvature):
            np.maximum(curvature[own], 0.0, out=curvature[own])  # convex: below 0 is rounding
        query = query_index(prepared.queries[chunk[0] : chunk[1] + 1])
        values[:] = np.bincount(query, sums.values, len(values))
        if d_parameters.size:
            d_parameters[:, 0] = np.bincount(query, sums.by_t, len(values))

    def run_pairs(self, here: Here, sums: Sums) -> None:
        """Fill values and derivatives in the tie parameter of a run of groups; add to slopes and bends."""
        self.by_terms(here, sums)

    def _two_by_two(self, here: Here, sums: Sums) -> None:
        """Groups of two documents each, in a third of the time: a pair is its difference."""
        of_tie = np.diff(here.queries) == 1
        for tied in (False, True)[: 1 + self.uses_ties]:
            first = 2 * np.flatnonzero(of_tie == tied)
            weight = (here.tie_weight if tied else here.win_weight)[first]
            value, slope, bend, by_t = self.terms(here.f[first] - here.f[first + 1], tied) * weight
            sums.values[first // 2], sums.by_t[first // 2] = value, by_t
            sums.slopes[first], sums.slopes[first + 1] = slope, -slope
            if len(sums.bends):
                sums.bends[first] = sums.bends[first + 1] = bend

    def by_terms(self, here: Here, sums: Sums) -> None:
        """The same pair by pair, some at a time: the slow form that any scores and any link allow."""
        n, tier, group = len(sums.values), query_index(here.starts), query_index(here.starts[here.queries])
        follow = here.starts[here.queries[group + 1]] - np.arange(len(tier)) - 1  # in the group of every position
        sums.values[:], sums.by_t[:] = 0.0, 0.0
        for first, last in chunk_queries(np.concatenate([[0], np.cumsum(follow)]), _AT_ONCE):
            rows, counts = np.arange(first, last), follow[first:last]
            one, other = np.repeat(rows, counts), runs(rows + 1, counts)
            for tied in (False, True)[: 1 + self.uses_ties]:
                weights = here.tie_weight if tied else here.win_weight
                chosen = ((tier[one] == tier[other]) == tied) & (weights[one] != 0.0)
                i, j = one[chosen], other[chosen]
                value, slope, bend, by_t = self.terms(here.f[i] - here.f[j], tied) * weights[i]
                sums.values[:] += np.bincount(group[i], value, n)
                sums.by_t[:] += np.bincount(group[i], by_t, n)
                sums.slopes[:] += np.bincount(i, slope, len(tier)) - np.bincount(j, slope, len(tier))
                if len(sums.bends):
                    sums.bends[:] += np.bincount(i, bend, len(tier)) + np.bincount(j, bend, len(tier))


def _weighed(target: PairTarget, sizes: IntArray, weight: FloatArray) -> PairTarget:
    """The same with the weights of runs of positions times these."""
    by_position = np.repeat(weight, sizes)
    return target._replace(win_weight=target.win_weight * by_position, tie_weight=target.tie_weight * by_position)
