"""`Statements`: what is known of the order of the rows of a data set, in the one form that losses see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.comparisons import Comparisons
from luce.numerics.segments import Tiers, query_index, runs, tiers
from luce.types import FloatArray, IntArray


class Statements(NamedTuple):
    """Chains of tiers of rows, each tier better than the next: grades, preferences, ties, lists and top lists alike.

    Tier t holds `rows[tiers[t]:tiers[t + 1]]`. Chain c, what is said in one breath, owns the tiers from `chains[c]` on,
    best first; observation o, what one judge says of one query, the chains from `observations[o]` on; query q the
    observations from `queries[q]` on, and the rows `offsets[q]` to `offsets[q + 1]` of the data.

    Grades are one chain of equal tiers a query, a win is a chain of two, a tie one equal tier, a list a chain whose
    tiers are not compared inside, a top list one that is open. No tier, chain or observation is empty; the rows of a
    chain are distinct, and those of an observation of one query; a chain has two tiers at least, or is open and has a
    rest, or is one equal tier of two rows at least; grades fall along a chain; weights are above 0.
    """

    rows: IntArray
    tiers: IntArray
    chains: IntArray
    observations: IntArray
    queries: IntArray
    offsets: IntArray
    equal: NDArray[np.bool_]
    """One a tier: its rows were judged equal; else nothing is said of their order."""
    open: NDArray[np.bool_]
    """One a chain: all other rows of the query are below it, and not compared."""
    weight: FloatArray
    """One a chain: how often it was said inside its observation."""
    made: FloatArray
    """One an observation: how often it was made."""
    grade: FloatArray | None = None
    """One a tier, where the target is grades."""

    @classmethod
    def of_grades(cls, labels: FloatArray, offsets: IntArray) -> Statements:
        """One chain a query, of tiers of equal label, higher labels first.

        >>> said = Statements.of_grades(np.array([0.0, 2, 0]), np.array([0, 3]))
        >>> said.rows.tolist(), said.tiers.tolist(), said.grade.tolist()
        ([1, 0, 2], [0, 1, 3], [2.0, 0.0])
        """
        order, starts, chains = tiers(labels, offsets)
        each, n = np.arange(len(offsets)), len(offsets) - 1
        equal, grade = np.ones(len(starts) - 1, dtype=bool), labels[order[starts[:-1]]]
        return cls(order, starts, chains, each, each, offsets, equal, np.zeros(n, bool), np.ones(n), np.ones(n), grade)

    @classmethod
    def of_comparisons(cls, given: Comparisons, offsets: IntArray) -> Statements:
        """Chains of wins, ties and lists, in this order, by observation.

        What has a judge is one observation with all else that this judge says of the query. Without judges all wins and
        ties of a query are one observation, and every list is one, which was made as often as it weighs. Lists that say
        nothing are left out.

        >>> said = Comparisons(wins=[(0, 2)], ties=[(1, 2)])
        >>> Statements.of_comparisons(said, np.array([0, 3])).chains.tolist()
        [0, 2, 3]
        """
        given.check_rows(offsets)
        wins, ties, lists = len(given.wins), len(given.ties), given.n_orders
        rows = np.concatenate([given.wins.ravel(), given.ties.ravel(), given.order_rows])
        sizes = np.concatenate([np.full(wins + ties, 2), np.diff(given.order_offsets)])
        kind = np.repeat(np.arange(3), [wins, ties, lists])
        fresh = np.concatenate([np.ones(2 * wins, bool), np.tile([True, False], ties), ~given.order_tied])
        chain = query_index(np.concatenate([[0], np.cumsum(sizes)]))
        weight = np.concatenate([_weights(given.win_weight, wins), _weights(given.tie_weight, ties), given.list_weight])
        is_open = np.concatenate([np.zeros(wins + ties, dtype=bool), given.order_is_top])
        query = query_index(offsets)[rows[np.cumsum(sizes) - sizes]]
        n_tiers = np.bincount(chain, fresh, len(sizes)).astype(np.int64)
        speaks = (n_tiers > 1) | (kind == 1) | (is_open & (sizes < np.diff(offsets)[query]))
        judge, alone = _judges(given)
        order = np.lexsort((np.arange(len(sizes)), judge, query))
        order = order[speaks[order]]
        places = runs((np.cumsum(sizes) - sizes)[order], sizes[order])
        starts = np.flatnonzero(fresh[places])
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(query[order]) != 0) | (np.diff(judge[order]) != 0)
        firsts, alone = np.flatnonzero(new), alone[order]
        return cls(
            rows[places],
            np.append(starts, len(places)),
            np.concatenate([[0], np.cumsum(n_tiers[order])]),
            np.append(firsts, len(order)),
            np.searchsorted(query[order][firsts], np.arange(len(offsets))),
            offsets,
            np.repeat(kind[order] == 1, n_tiers[order]),
            is_open[order],
            np.where(alone, 1.0, weight[order]),
            np.where(alone, weight[order], 1.0)[firsts],
        )

    @property
    def by_query(self) -> IntArray:
        """The first chain of every query, and one past the last."""
        return np.asarray(self.observations[self.queries])

    @property
    def by_chain(self) -> IntArray:
        """The first place of every chain in `rows`, and one past the last."""
        return np.asarray(self.tiers[self.chains])

    @property
    def times(self) -> FloatArray:
        """How often every chain was said in all."""
        return np.asarray(self.weight * np.repeat(self.made, np.diff(self.observations)))

    def as_tiers(self) -> Tiers:
        """The tiers of every chain, as if chains were queries."""
        return Tiers(self.rows, self.tiers, self.chains)

    def closed(self) -> Statements:
        """The same with the rest of the query as the last tier of every open chain.

        >>> top = Comparisons.from_orders([[3, [0, 2]]], top=True)
        >>> closed = Statements.of_comparisons(top, np.array([0, 5])).closed()
        >>> closed.rows.tolist(), closed.tiers.tolist()
        ([3, 0, 2, 1, 4], [0, 1, 3, 5])
        """
        if not self.open.any():
            return self
        owner, bounds = query_index(self.by_query), self.by_chain
        chosen, sizes = np.flatnonzero(self.open), np.diff(self.offsets)[owner[self.open]]
        ends = np.cumsum(sizes)
        everyone = runs(self.offsets[owner[chosen]], sizes)
        named = np.zeros(len(everyone), dtype=bool)
        lengths = np.diff(bounds)[chosen]
        of = runs(bounds[chosen], lengths)
        named[self.rows[of] + np.repeat(ends - sizes - self.offsets[owner[chosen]], lengths)] = True
        rest, rest_sizes = everyone[~named], sizes - lengths
        at = np.repeat(bounds[1:][chosen], rest_sizes)
        last = np.flatnonzero(rest_sizes)  # a list of the whole query has no rest
        starts = self.tiers[:-1] + np.searchsorted(at, self.tiers[:-1], side="right")
        closes = bounds[1:][chosen[last]] + np.concatenate([[0], np.cumsum(rest_sizes)])[last]
        tier_at = self.chains[1:][chosen[last]]
        added = np.zeros(len(self.chains), dtype=np.int64)
        added[chosen[last] + 1] = 1
        return self._replace(
            rows=np.insert(self.rows, at, rest),
            tiers=np.append(np.insert(starts, tier_at, closes), len(self.rows) + len(rest)),
            chains=self.chains + np.cumsum(added),
            equal=np.insert(self.equal, tier_at, False),
            open=np.zeros_like(self.open),
            grade=None,
        )


def _weights(given: FloatArray | None, n: int) -> FloatArray:
    return np.ones(n) if given is None else given


def _judges(given: Comparisons) -> tuple[IntArray, NDArray[np.bool_]]:
    """The judge of every win, tie and list, one of its own for every list that has none; and which have such a one."""
    known = [(given.win_judge, len(given.wins)), (given.tie_judge, len(given.ties)), (given.order_judge, 0)]
    judge = [np.full(n, -1) if found is None else found for found, n in known]
    most = max((int(found.max(initial=-1)) for found in judge), default=-1)
    if given.order_judge is None:
        judge[2] = most + 1 + np.arange(given.n_orders)
    alone = np.repeat([False, given.order_judge is None], [len(judge[0]) + len(judge[1]), len(judge[2])])
    return np.concatenate(judge).astype(np.int64), alone


class GradedRows(NamedTuple):
    """Rows and grades of one chain after the other, and the query and the weight of each."""

    rows: IntArray
    grades: FloatArray
    offsets: IntArray
    queries: IntArray
    weights: FloatArray


def graded_rows(lists: Comparisons, offsets: IntArray) -> GradedRows:
    """The rows that each list, win or tie judges, in their order, and their grades.

    The last tier has grade 1, the one before it 2, and so on, and what is below a top list 0.
    """
    said = Statements.of_comparisons(lists, offsets)
    closed = said.closed()
    counts, named = np.diff(closed.chains), np.diff(said.chains)
    place = np.arange(len(closed.equal)) - np.repeat(closed.chains[:-1], counts)
    grades = np.repeat(np.repeat(named, counts) - place, np.diff(closed.tiers)).astype(np.float64)
    bounds = closed.by_chain
    order = np.lexsort((closed.rows, query_index(bounds)))
    return GradedRows(closed.rows[order], grades[order], bounds, query_index(said.by_query), said.times)


def position_grades(lists: Comparisons, offsets: IntArray) -> FloatArray:
    """A grade for every row, for scorers that look at grades: its weighted mean over the lists and pairs of its query.

    They are graded as in `graded_rows`; a row that none of them grades has 0.

    >>> position_grades(Comparisons.from_orders([[2, 0], [0]], top=True), np.array([0, 3])).tolist()
    [1.0, 0.0, 1.0]
    """
    found, n = graded_rows(lists, offsets), int(offsets[-1])
    weight = np.repeat(found.weights, np.diff(found.offsets))
    total = np.bincount(found.rows, weight * found.grades, n)
    return np.divide(total, np.bincount(found.rows, weight, n), out=np.zeros(n), where=total > 0)
