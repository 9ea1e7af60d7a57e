"""`Comparisons`: what is known of an order beyond grades: wins, ties, orderings and top-k lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from luce.checks import is_whole
from luce.errors import DataError, LuceWarning, RowsError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

_LISTS: dict[str, type] = {"order_rows": np.int64, "order_offsets": np.int64, "order_is_top": bool, "order_tied": bool}


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
    order_tied
        One a listed row: True where it is in the tier of the row before it in its list, so that nothing is said of the
        two; empty means that no list has such a tier.
    order_weight
        Positive weights of the lists; None means 1 each.
    win_judge, tie_judge, order_judge
        Whole numbers from 0 on: who said so. What one judge says of a query belongs together. None: all wins and ties
        of a query belong together, and every list stands by itself.
    counted
        True where the weights count many comparisons, of which a pair may have won some and tied others.
    """

    wins: IntArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    ties: IntArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    win_weight: FloatArray | None = None
    tie_weight: FloatArray | None = None
    order_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    order_offsets: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    order_is_top: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    order_tied: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    order_weight: FloatArray | None = None
    win_judge: IntArray | None = None
    tie_judge: IntArray | None = None
    order_judge: IntArray | None = None
    counted: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("wins", "ties"):
            pairs = np.ascontiguousarray(getattr(self, name), dtype=np.int64).reshape(-1, 2)
            if np.any(pairs[:, 0] == pairs[:, 1]):
                row = int(pairs[pairs[:, 0] == pairs[:, 1]][0, 0])
                raise DataError(f"Row {row} is compared with itself in {name}; a pair needs two different rows.")
            put(self, name, pairs)
        for kind, n in (("win", len(self.wins)), ("tie", len(self.ties)), ("order", self.n_orders)):
            for name, checked in ((f"{kind}_weight", _checked_weight), (f"{kind}_judge", _checked_judges)):
                if getattr(self, name) is not None:
                    put(self, name, checked(name, getattr(self, name), n))
        for name, dtype in _LISTS.items():
            put(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        if not self.order_tied.size:
            put(self, "order_tied", np.zeros(len(self.order_rows), dtype=bool))
        lengths_fit = len(self.order_is_top) == self.n_orders and len(self.order_tied) == len(self.order_rows)
        if not lengths_fit or self.order_offsets[-1] != len(self.order_rows):
            raise DataError("The ordered lists, their offsets, their top-k flags and their ties do not fit together.")
        self._check_orders()
        self._check_ties()

    def _check_ties(self) -> None:
        if self.counted or not (len(self.wins) and len(self.ties)):
            return
        if (self.win_judge is None) != (self.tie_judge is None):
            raise DataError("win_judge and tie_judge go together; give both, or neither.")
        base, judges = int(max(self.wins.max(), self.ties.max())) + 1, (self.win_judge, self.tie_judge)
        won, tied = (
            pairs.min(axis=1) * base + pairs.max(axis=1) + (0 if judge is None else judge * base**2)
            for pairs, judge in zip((self.wins, self.ties), judges, strict=True)
        )
        both = np.isin(won, tied)
        if both.any():
            better, worse = self.wins[both][0]
            raise DataError(
                f"Row {better} is better than row {worse} and tied with it; a pair is one or the other, take one out."
            )

    def _check_orders(self) -> None:
        empty = np.flatnonzero(np.diff(self.order_offsets) <= 0)
        if empty.size:
            raise DataError(f"The ordered list {empty[0]} (counted from 0) is empty; a list names at least one row.")
        order = np.lexsort((self.order_rows, self.order_index))
        rows, lists = self.order_rows[order], self.order_index[order]
        same = (np.diff(lists) == 0) & (np.diff(rows) == 0)
        if same.any():
            row, number = rows[1:][same][0], lists[1:][same][0]
            raise DataError(
                f"Row {row} stands twice in the ordered list {number} (counted from 0); a list names each row once."
            )
        if self.order_tied[self.order_offsets[:-1]].any():
            raise DataError("The first row of an ordered list is tied with a row before it; there is none.")

    @property
    def order_index(self) -> IntArray:
        """The list of every listed row."""
        return np.repeat(np.arange(self.n_orders), np.diff(self.order_offsets))

    @property
    def order_tier(self) -> IntArray:
        """The tier of every listed row in its list, 0 for the best.

        >>> Comparisons.from_orders([[3, [1, 2]], [4, 3]]).order_tier.tolist()
        [0, 1, 1, 0, 1]
        """
        fresh = np.cumsum(~self.order_tied)
        return np.asarray(fresh - np.repeat(fresh[self.order_offsets[:-1]], np.diff(self.order_offsets)))

    @property
    def holds_pairs(self) -> bool:
        """Whether there are wins or ties."""
        return len(self.wins) + len(self.ties) > 0

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
        win_judge: ArrayLike | None = None,
        tie_judge: ArrayLike | None = None,
    ) -> Comparisons:
        """From pairs of rows; preferences that run in a circle are kept, and reported by a `LuceWarning`.

        >>> Comparisons.from_pairs(wins=[(0, 1)], ties=[(1, 2)]).wins.tolist()
        [[0, 1]]
        """
        given: dict[str, Any] = {"wins": wins, "ties": ties, "win_weight": win_weight, "tie_weight": tie_weight}
        made = cls(**given, win_judge=win_judge, tie_judge=tie_judge)  # type: ignore[arg-type]
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
    def from_orders(
        cls,
        orders: Iterable[Sequence[int | Sequence[int]]],
        *,
        top: bool | Sequence[bool] = False,
        weights: ArrayLike | None = None,
        judges: ArrayLike | None = None,
    ) -> Comparisons:
        """From lists of rows, best first; a query may have several, by several judges.

        Rows that stand in a list of their own share a tier: nothing is said of their order. `top=True` says that each
        list is the top of its query, with all other rows below; one truth value a list says it of some. `weights` has
        one positive number a list, `judges` a whole number, where a judge has several lists of one query.

        >>> lists = Comparisons.from_orders([[2, 0], [5, [4, 3]]], weights=[1, 2])
        >>> lists.order_rows.tolist(), lists.order_offsets.tolist(), lists.order_tied.tolist()
        ([2, 0, 5, 4, 3], [0, 2, 5], [False, False, False, False, True])
        """
        flat = [_flat(number, order) for number, order in enumerate(orders)]
        is_top = np.asarray(top)
        if is_top.dtype != bool and is_top.size:
            raise DataError(f"top is {top!r}; it must be True or False, or one of them for each list.")
        if is_top.ndim and is_top.shape != (len(flat),):
            raise DataError(f"{len(flat)} lists need as many values of top, or one for all; got {is_top.size}.")
        return cls(
            order_rows=np.array([row for rows, _ in flat for row in rows], dtype=np.int64),
            order_offsets=np.cumsum([0, *(len(rows) for rows, _ in flat)]),
            order_is_top=np.broadcast_to(is_top.astype(bool), len(flat)),
            order_tied=np.array([tied for _, ties in flat for tied in ties], dtype=bool),
            order_weight=weights,  # type: ignore[arg-type]  # made an array there
            order_judge=judges,  # type: ignore[arg-type]
        )

    @property
    def list_weight(self) -> FloatArray:
        """The weight of every ordered list."""
        return np.ones(self.n_orders) if self.order_weight is None else self.order_weight

    def moved(self, row_order: IntArray | None) -> Comparisons:
        """The same statements after rows were moved: row i is now what was row `row_order[i]`.

        >>> Comparisons.from_pairs(wins=[(0, 2)]).moved(np.array([2, 0, 1])).wins.tolist()
        [[1, 0]]
        """
        if row_order is None:
            return self
        self._check_known(len(row_order))
        return self.taken(row_order, len(row_order))

    def _check_known(self, n: int) -> None:
        for name in ("wins", "ties", "order_rows"):
            rows = getattr(self, name)
            unknown = (rows < 0) | (rows >= n)
            if unknown.any():
                lists = name == "order_rows"
                what = (
                    f"The ordered list {self.order_index[unknown][0]} (counted from 0)"
                    if lists
                    else f"A pair in {name}"
                )
                raise DataError(f"{what} names row {rows[unknown][0]}; the data have rows 0 to {n - 1}.")

    def taken(self, rows: IntArray, n: int) -> Comparisons:
        """What is said of some of `n` rows alone: row i is now what was row `rows[i]`.

        >>> Comparisons.from_pairs(wins=[(0, 1), (3, 2)]).taken(np.array([2, 3]), 4).wins.tolist()
        [[1, 0]]
        """
        now = np.full(n, -1)
        now[rows] = np.arange(len(rows))
        wins, ties, listed = now[self.wins], now[self.ties], now[self.order_rows]
        won, tied = ((pairs >= 0).all(axis=1) for pairs in (wins, ties))
        lists = np.bincount(self.order_index[listed < 0], minlength=self.n_orders) == 0
        inside = np.repeat(lists, np.diff(self.order_offsets))
        sizes = np.diff(self.order_offsets)[lists]
        which = {"win": won, "tie": tied, "order": lists}
        beside: dict[str, Any] = {}
        for name, mask in ((f"{kind}_{what}", mask) for kind, mask in which.items() for what in ("weight", "judge")):
            beside[name] = None if getattr(self, name) is None else getattr(self, name)[mask]
        return replace(
            self,
            wins=wins[won],
            ties=ties[tied],
            order_rows=listed[inside],
            order_offsets=np.concatenate([[0], np.cumsum(sizes)]),
            order_is_top=self.order_is_top[lists],
            order_tied=self.order_tied[inside],
            **beside,
        )

    def check_rows(self, offsets: IntArray) -> None:
        """Every row must exist, and every statement must stay inside one query."""
        self._check_known(int(offsets[-1]))
        query = query_index(offsets)
        for name in ("wins", "ties"):
            pairs = getattr(self, name)
            apart = query[pairs[:, 0]] != query[pairs[:, 1]]
            if apart.any():
                a, b = pairs[apart][0]
                raise DataError(f"Rows {a} and {b} in {name} are of different queries; compare rows of one query.")
        self._check_lists(offsets, query)

    def _check_lists(self, offsets: IntArray, query: IntArray) -> None:
        """Every list must name rows of one query, and say something of them."""
        owner, lengths = self.list_queries(offsets), np.diff(self.order_offsets)
        apart = np.flatnonzero(query[self.order_rows] != np.repeat(owner, lengths))
        if apart.size:
            number = int(self.order_index[apart[0]])
            a, b = self.order_rows[self.order_offsets[number]], self.order_rows[apart[0]]
            raise DataError(
                f"Rows {a} and {b} of the ordered list {number} (counted from 0) are of different queries; a list "
                "stays inside one query."
            )
        one_tier = (np.add.reduceat(~self.order_tied, self.order_offsets[:-1]) == 1) if self.n_orders else lengths == 1
        nothing_below = ~self.order_is_top | (lengths == np.diff(offsets)[owner])
        silent = np.flatnonzero(one_tier & nothing_below & (lengths > 1))
        if silent.size:
            first = self.order_offsets[silent[0]]
            raise RowsError(
                "{query}: a list has {documents}"
                + (", ..." if lengths[silent[0]] > 3 else "")
                + " in one tier and nothing below them, which says nothing; take it out.",
                int(owner[silent[0]]),
                self.order_rows[first : min(first + 3, self.order_offsets[silent[0] + 1])].tolist(),
            )

    def list_queries(self, offsets: IntArray) -> IntArray:
        """The query of every ordered list, by its first row."""
        first = self.order_rows[self.order_offsets[:-1]]
        return np.searchsorted(offsets, first, side="right") - 1

    def one_by_one(self, offsets: IntArray) -> Iterator[tuple[int, Comparisons]]:
        """The ordered lists, those of the first query first: the query, and the list by the rows of the query alone.

        A list of one document and nothing below it says nothing, and is passed over.

        >>> lists = Comparisons.from_orders([[4, 3], [1]], top=True)
        >>> [(q, one.order_rows.tolist()) for q, one in lists.one_by_one(np.array([0, 2, 5]))]
        [(0, [1]), (1, [2, 1])]
        """
        self.check_rows(offsets)
        owner = self.list_queries(offsets)
        for i in np.argsort(owner, kind="stable").tolist():
            span, q = slice(self.order_offsets[i], self.order_offsets[i + 1]), int(owner[i])
            rows = self.order_rows[span] - offsets[q]
            if len(rows) == 1 and not (self.order_is_top[i] and offsets[q + 1] - offsets[q] > 1):
                continue
            yield (
                q,
                Comparisons(
                    order_rows=rows,
                    order_offsets=np.array([0, len(rows)]),
                    order_is_top=self.order_is_top[[i]],
                    order_tied=self.order_tied[span],
                    order_weight=None if self.order_weight is None else self.order_weight[[i]],
                    order_judge=None if self.order_judge is None else self.order_judge[[i]],
                ),
            )


def _checked_weight(name: str, weight: ArrayLike, n: int) -> FloatArray:
    """One positive finite number each."""
    checked = np.ascontiguousarray(weight, dtype=np.float64)
    what = "a list" if name == "order_weight" else "a pair"
    if checked.shape != (n,):
        raise DataError(f"{name} needs {n} positive finite numbers, one {what}; got shape {checked.shape}.")
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked > 0)))
    if bad.size:
        raise DataError(
            f"{name} needs {n} positive finite numbers, one {what}; entry {bad[0]} (counted from 0) is "
            f"{checked[bad[0]]:g}."
        )
    return checked


def _checked_judges(name: str, judge: ArrayLike, n: int) -> IntArray:
    """One whole number of at least 0 each."""
    given = np.asarray(judge)
    if given.shape != (n,) or (n and given.dtype.kind not in "iu") or np.any(given < 0):
        raise DataError(f"{name} needs {n} whole numbers of at least 0, one for each; got {judge!r}.")
    return np.ascontiguousarray(given, dtype=np.int64)


def _flat(number: int, order: Sequence[int | Sequence[int]]) -> tuple[list[int], list[bool]]:
    """The rows of a list, and which of them are in the tier of the one before."""
    rows: list[int] = []
    tied: list[bool] = []
    if not isinstance(order, Iterable):
        raise DataError(f"The ordered list {number} (counted from 0) is {order!r}; every list is a list of rows.")
    for entry in order.tolist() if isinstance(order, np.ndarray) else order:
        tier = list(entry) if isinstance(entry, Sequence | np.ndarray) else [entry]
        if not tier:
            raise DataError(f"The ordered list {number} (counted from 0) has an empty tier; a tier names a row.")
        for row in tier:
            if not is_whole(row, 0):
                raise DataError(
                    f"The ordered list {number} (counted from 0) names {row!r}; a row is a whole number of at least 0."
                )
        rows += [int(row) for row in tier]
        tied += [place > 0 for place in range(len(tier))]
    return rows, tied
