"""`Comparisons`: what is known of an order beyond grades: wins, ties, orderings and top-k lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from luce.errors import DataError, LuceWarning
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

__all__ = ["Comparisons"]


def _no_pairs() -> IntArray:
    return np.empty((0, 2), dtype=np.int64)


def _no_orders() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Statements about the rows of a data set, all inside one query each.

    Parameters
    ----------
    wins
        (n, 2) rows: the first is better than the second.
    ties
        (n, 2) rows that are equally good.
    win_weight, tie_weight
        Positive weights (counts); None means 1 each.
    order_rows, order_offsets
        Ordered lists of rows, best first, laid end to end.
    order_is_top
        True where a list names the top of its query and every other row of the query is below it; False where
        rows that are not listed are left open.
    """

    wins: IntArray = field(default_factory=_no_pairs)
    ties: IntArray = field(default_factory=_no_pairs)
    win_weight: FloatArray | None = None
    tie_weight: FloatArray | None = None
    order_rows: IntArray = field(default_factory=_no_orders)
    order_offsets: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    order_is_top: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("wins", "ties"):
            pairs = np.ascontiguousarray(getattr(self, name), dtype=np.int64).reshape(-1, 2)
            if np.any(pairs[:, 0] == pairs[:, 1]):
                row = int(pairs[pairs[:, 0] == pairs[:, 1]][0, 0])
                raise DataError(f"Row {row} is compared with itself in {name}; a pair needs two different rows.")
            put(self, name, pairs)
        for name, pairs in (("win_weight", self.wins), ("tie_weight", self.ties)):
            weight = getattr(self, name)
            if weight is not None:
                weight = np.ascontiguousarray(weight, dtype=np.float64)
                if weight.shape != (len(pairs),) or not np.isfinite(weight).all() or np.any(weight <= 0):
                    raise DataError(f"{name} needs {len(pairs)} positive finite numbers, one a pair.")
                put(self, name, weight)
        put(self, "order_rows", np.ascontiguousarray(self.order_rows, dtype=np.int64))
        put(self, "order_offsets", np.ascontiguousarray(self.order_offsets, dtype=np.int64))
        put(self, "order_is_top", np.ascontiguousarray(self.order_is_top, dtype=bool))
        if len(self.order_is_top) != self.n_orders or self.order_offsets[-1] != len(self.order_rows):
            raise DataError("The ordered lists, their offsets and their top-k flags do not fit together.")
        self._check_orders()
        self._check_ties()

    def _check_ties(self) -> None:
        if not (len(self.wins) and len(self.ties)):
            return
        base = int(max(self.wins.max(), self.ties.max())) + 1
        won, tied = (pairs.min(axis=1) * base + pairs.max(axis=1) for pairs in (self.wins, self.ties))
        both = np.isin(won, tied)
        if both.any():
            better, worse = self.wins[both][0]
            raise DataError(
                f"Row {better} is better than row {worse} and tied with it; a pair is one or the other, take one out."
            )

    def _check_orders(self) -> None:
        lists = query_index(self.order_offsets) if self.n_orders else _no_orders()
        order = np.lexsort((self.order_rows, lists))
        same = (lists[order][1:] == lists[order][:-1]) & (self.order_rows[order][1:] == self.order_rows[order][:-1])
        if same.any():
            row = int(self.order_rows[order][1:][same][0])
            raise DataError(f"Row {row} stands twice in one ordered list; a list names each row once.")

    @property
    def n_orders(self) -> int:
        """Number of ordered lists."""
        return len(self.order_offsets) - 1

    @classmethod
    def from_pairs(
        cls,
        wins: ArrayLike = (),
        ties: ArrayLike = (),
        win_weight: ArrayLike | None = None,
        tie_weight: ArrayLike | None = None,
    ) -> Comparisons:
        """From pairs of rows; preferences that run in a circle are kept, and reported by a `LuceWarning`.

        >>> Comparisons.from_pairs(wins=[(0, 1)], ties=[(1, 2)]).wins.tolist()
        [[0, 1]]
        """
        made = cls(
            wins=np.asarray(wins, dtype=np.int64).reshape(-1, 2),
            ties=np.asarray(ties, dtype=np.int64).reshape(-1, 2),
            win_weight=None if win_weight is None else np.asarray(win_weight, dtype=np.float64),
            tie_weight=None if tie_weight is None else np.asarray(tie_weight, dtype=np.float64),
        )
        made.report_cycles()
        return made

    def cycles(self) -> list[IntArray]:
        """Groups of rows whose preferences run in circles: from each row of a group, wins lead to each other one.

        >>> [group.tolist() for group in Comparisons(wins=[(0, 1), (1, 2), (2, 0), (2, 3)]).cycles()]
        [[0, 1, 2]]
        """
        if not len(self.wins):
            return []
        rows, ends = np.unique(self.wins, return_inverse=True)
        better, worse = ends.reshape(-1, 2).T
        graph = sparse.csr_array((np.ones(len(better), dtype=np.int8), (better, worse)), shape=(len(rows), len(rows)))
        _, group = sparse.csgraph.connected_components(graph, directed=True, connection="strong")
        members = np.argsort(group, kind="stable")
        sizes = np.bincount(group)
        pieces = np.split(rows[members], np.cumsum(sizes)[:-1])
        return sorted((piece for piece in pieces if len(piece) > 1), key=lambda piece: int(piece[0]))

    def report_cycles(self, name: Callable[[int], str] = str) -> None:
        """Warn where preferences contradict each other in a circle, with the first rows by name."""
        cycles = self.cycles()
        if cycles:
            shown = ", ".join(name(int(row)) for row in cycles[0][:5])
            warnings.warn(
                f"Preferences run in a circle in {len(cycles)} group(s) of rows, the first of {len(cycles[0])} rows "
                f"({shown}{', ...' if len(cycles[0]) > 5 else ''}); they are kept, and weighed against each other.",
                LuceWarning,
                stacklevel=3,
            )

    @classmethod
    def from_orders(cls, orders: Iterable[Sequence[int]], *, top: bool = False) -> Comparisons:
        """From lists of rows, best first; `top=True` says that each list is the top of its query.

        >>> Comparisons.from_orders([[2, 0], [5, 4, 3]]).order_offsets.tolist()
        [0, 2, 5]
        """
        lists = [np.asarray(order, dtype=np.int64) for order in orders]
        return cls(
            order_rows=np.concatenate([_no_orders(), *lists]),
            order_offsets=np.cumsum([0, *map(len, lists)]),
            order_is_top=np.full(len(lists), top),
        )

    def moved(self, row_order: IntArray | None) -> Comparisons:
        """The same statements after rows were moved: row i is now what was row `row_order[i]`.

        >>> Comparisons.from_pairs(wins=[(0, 2)]).moved(np.array([2, 0, 1])).wins.tolist()
        [[1, 0]]
        """
        if row_order is None:
            return self
        now = np.empty(len(row_order), dtype=np.int64)
        now[row_order] = np.arange(len(row_order))
        named = np.concatenate([self.wins.ravel(), self.ties.ravel(), self.order_rows])
        if named.size and not (named.min() >= 0 and named.max() < len(now)):
            raise DataError(f"A comparison names row {int(named.max())}; the data have rows 0 to {len(now) - 1}.")
        return replace(self, wins=now[self.wins], ties=now[self.ties], order_rows=now[self.order_rows])

    def check_rows(self, offsets: IntArray) -> None:
        """Every row must exist, and every statement must stay inside one query."""
        rows = int(offsets[-1])
        query = query_index(offsets)
        for name in ("wins", "ties"):
            pairs = getattr(self, name)
            unknown = (pairs < 0) | (pairs >= rows)
            if unknown.any():
                raise DataError(f"A pair in {name} names row {pairs[unknown][0]}; the data have rows 0 to {rows - 1}.")
            apart = query[pairs[:, 0]] != query[pairs[:, 1]]
            if apart.any():
                a, b = pairs[apart][0]
                raise DataError(f"Rows {a} and {b} in {name} are of different queries; compare rows of one query.")
        if self.order_rows.size:
            if not (self.order_rows.min() >= 0 and self.order_rows.max() < rows):
                raise DataError(f"An ordered list names a row outside 0 to {rows - 1}.")
            first = self.order_rows[np.minimum(self.order_offsets[:-1], rows - 1)]
            if np.any(query[self.order_rows] != np.repeat(query[first], np.diff(self.order_offsets))):
                raise DataError("An ordered list names rows of different queries; a list stays inside one query.")

    def all_wins(self, offsets: IntArray) -> tuple[IntArray, FloatArray]:
        """Every strict preference as a weighted pair: the wins, and those that the ordered lists imply.

        >>> pairs, weight = Comparisons.from_orders([[2, 0, 1]]).all_wins(np.array([0, 3]))
        >>> pairs.tolist()
        [[2, 0], [2, 1], [0, 1]]
        """
        self.check_rows(offsets)
        query = query_index(offsets)
        pairs, weights = (
            [self.wins],
            [np.ones(len(self.wins)) if self.win_weight is None else self.win_weight],
        )
        for i in range(self.n_orders):
            rows = self.order_rows[self.order_offsets[i] : self.order_offsets[i + 1]]
            above, below = np.triu_indices(len(rows), 1)
            implied = np.column_stack([rows[above], rows[below]])
            if self.order_is_top[i] and len(rows):
                q = query[rows[0]]
                rest = np.setdiff1d(np.arange(offsets[q], offsets[q + 1]), rows)
                outside = np.column_stack([np.repeat(rows, len(rest)), np.tile(rest, len(rows))])
                implied = np.concatenate([implied, outside])
            pairs.append(implied)
            weights.append(np.ones(len(implied)))
        return np.concatenate(pairs), np.concatenate(weights)
