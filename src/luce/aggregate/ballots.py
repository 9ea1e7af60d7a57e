"""`Ballots`: a histogram of rankings, complete or not, with or without ties; validated once and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.checks import one_of
from luce.data.names import plain
from luce.data.outline import check_memory
from luce.data.table import Table
from luce.errors import DataError, SettingError
from luce.types import FloatArray

UNRANKED = ("last", "ignore", "error")
"""What a rule may do with items that a ballot leaves open."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """Rankings of the same items, each with a weight; equal rankings are one row.

    Make one with `luce.aggregate.read_ballots` or the `from_...` methods.

    Parameters
    ----------
    items
        Names, all different.
    tiers
        (ballots, items): 0 for the best tier of a ballot, 1 for the next, ...; -1 where the ballot leaves the item
        open.
    weights
        A positive weight (count) a ballot.
    metadata
        What the file said about itself.

    >>> b = Ballots.from_orders([["a", ["b", "c"]], ["c", "a"], ["c", "a"]])
    >>> b.tiers.tolist(), b.weights.tolist()
    ([[0, 1, 1], [1, -1, 0]], [1.0, 2.0])
    """

    items: tuple[str, ...]
    tiers: NDArray[np.int32]
    weights: FloatArray
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        items = tuple(map(str, self.items))
        if len(set(items)) != len(items):
            twice = next(name for i, name in enumerate(items) if name in items[:i])
            raise DataError(f"The item {twice!r} is listed twice; every item needs a name of its own.")
        tiers = np.ascontiguousarray(self.tiers, dtype=np.int32)
        if tiers.ndim != 2 or tiers.shape[1] != len(items):
            raise DataError(f"Ballots over {len(items)} items need as many columns; got shape {tiers.shape}.")
        if not items or not len(tiers):
            raise DataError("There are no ballots; at least one that ranks an item is needed.")
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        if weights.shape != (len(tiers),):
            raise DataError(f"{len(tiers)} ballots need as many weights; got shape {weights.shape}.")
        bad = ~(np.isfinite(weights) & (weights > 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(f"Ballot {row + 1} has weight {weights[row]:g}; a weight or count must be above 0.")
        if (tiers.max(axis=1) < 0).any():
            row = int(np.flatnonzero(tiers.max(axis=1) < 0)[0])
            raise DataError(f"Ballot {row + 1} ranks no item; leave it out.")
        put = object.__setattr__
        put(self, "items", items)
        tiers = _dense(tiers, tiers >= 0)
        # Equal rows once, in order of first appearance, with the sum of their weights.
        _, first, inverse = np.unique(tiers, axis=0, return_index=True, return_inverse=True)
        if len(first) < len(tiers):
            order = np.argsort(first)
            tiers, weights = tiers[first[order]], np.bincount(inverse.ravel(), weights).astype(np.float64)[order]
        put(self, "tiers", tiers)
        put(self, "weights", weights)
        put(self, "metadata", dict(self.metadata))

    @classmethod
    def from_orders(
        cls, orders: Iterable[Sequence[Any]], weights: ArrayLike | None = None, items: Sequence[Any] | None = None
    ) -> Ballots:
        """Ballots from lists of items, best first; a list inside a list is a tie.

        `items` fixes the columns (and may name items that nobody ranks); without it they are the items in order of
        first appearance.

        >>> Ballots.from_orders([["x", "y"], [["x", "y"]]], weights=[3, 1.5]).total
        4.5
        """
        if isinstance(orders, str | Mapping):
            raise DataError(f"Orders are a list of ballots, each a list of items; got {orders!r}.")
        orders = [list(order) for order in orders]
        index: dict[str, int] = {str(name): i for i, name in enumerate(items)} if items is not None else {}
        rows: list[dict[int, int]] = []
        for number, order in enumerate(orders, 1):
            row: dict[int, int] = {}
            for tier, entry in enumerate(order):
                for name in _names(entry, number):
                    if items is not None and name not in index:
                        raise DataError(f"Ballot {number} ranks {name!r}, which is not among the items.")
                    column = index.setdefault(name, len(index))
                    if column in row:
                        raise DataError(f"Ballot {number} ranks {name!r} twice; an item has one place.")
                    row[column] = tier
            rows.append(row)
        tiers = np.full((len(rows), len(index)), -1, dtype=np.int32)
        for i, row in enumerate(rows):
            tiers[i, list(row)] = list(row.values())
        counts = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(tuple(index), tiers, counts)

    @classmethod
    def from_ranks(
        cls, ranks: ArrayLike, items: Sequence[Any] | None = None, weights: ArrayLike | None = None
    ) -> Ballots:
        """Ballots from a (ballots, items) matrix of ranks, small is best, equal is tied, NaN is not ranked."""
        matrix = _matrix("Ranks", ranks)
        if np.any(matrix < 0):
            row, column = np.argwhere(matrix < 0)[0]
            raise DataError(
                f"Ballot {row + 1} has the rank {matrix[row, column]:g}; a rank is 1 or more, NaN is not ranked."
            )
        # Ranks count from 1, or from 0 where every ballot has a 0; tables write 0 for what is not ranked, too.
        first = np.any(matrix == 0, axis=1)
        if first.any() and not first.all():
            raise DataError(
                f"Ballot {int(np.argmax(first)) + 1} has the rank 0 and others have none: is 0 the first place or no "
                "place? Count from 1, and leave out what is not ranked (NaN)."
            )
        return cls._of_values(matrix, items, weights)

    @classmethod
    def _of_values(cls, matrix: FloatArray, items: Sequence[Any] | None, weights: ArrayLike | None) -> Ballots:
        """Small is best."""
        names = tuple(map(str, items)) if items is not None else tuple(str(i + 1) for i in range(matrix.shape[1]))
        counts = np.ones(len(matrix)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(names, _dense(matrix, ~np.isnan(matrix)), counts)

    @classmethod
    def from_scores(
        cls, scores: ArrayLike, items: Sequence[Any] | None = None, weights: ArrayLike | None = None
    ) -> Ballots:
        """Ballots from a (ballots, items) matrix of scores, high is best, equal is tied, NaN is not ranked.

        >>> Ballots.from_scores([[0.1, 0.7, 0.7]], items="abc").orders()
        [[['b', 'c'], ['a']]]
        """
        return cls._of_values(-_matrix("Scores", scores), items, weights)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        ballot: str = "ballot",
        item: str = "item",
        rank: str | None = None,
        score: str | None = None,
        weight: str | None = None,
    ) -> Ballots:
        """Ballots from a tidy data frame of any library: one row a ballot and item, with a rank or a score.

        >>> import polars as pl
        >>> votes = pl.DataFrame({"ballot": [1, 1, 2, 2], "item": ["a", "b", "a", "b"], "rank": [1, 2, 2, 1]})
        >>> Ballots.from_frame(votes, rank="rank").n_ballots
        2
        """
        if (rank is None) == (score is None):
            raise SettingError("Give the column of the ranks or the column of the scores, and not both.")
        value, table = str(rank if rank is not None else score), Table.open(frame)
        roles = {"ballots": ballot, "items": item, "ranks" if score is None else "scores": value, "weights": weight}
        wanted = [table.name(name, role=role) for role, name in roles.items() if name is not None]
        cells = table.read(wanted, [ballot, item])
        rows, voters = cells[ballot].codes()
        columns, names = cells[item].codes()
        values = cells[value].number(default=np.nan)
        check_memory(len(voters), len(names), ("ballots", "items"), 8, "leave out items, or split the ballots")
        matrix = np.full((len(voters), len(names)), np.nan)
        known, count = np.unique(rows * len(names) + columns, return_counts=True)
        if (count > 1).any():
            i, j = divmod(int(known[count > 1][0]), len(names))
            raise DataError(f"Ballot {voters[i]!r} ranks {names[j]!r} twice; an item has one place.")
        matrix[rows, columns] = values
        counts = np.ones(len(voters))
        if weight is not None:
            given = cells[weight].number("a number above 0")
            counts[rows] = given
            if not np.array_equal(counts[rows], given):
                raise DataError(f"The column {weight!r} gives one ballot several weights; it must be constant in each.")
        make = cls.from_ranks if score is None else cls.from_scores
        return make(matrix, names, counts)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def n_ballots(self) -> int:
        """Number of different ballots."""
        return len(self.tiers)

    @property
    def total(self) -> float:
        """Sum of the weights: the number of voters."""
        return float(self.weights.sum())

    @property
    def is_complete(self) -> bool:
        """True where every ballot ranks every item."""
        return bool((self.tiers >= 0).all())

    @property
    def has_ties(self) -> bool:
        """True where a ballot ranks two items as equal."""
        return bool(((self.tiers >= 0).sum(axis=1) > self.tiers.max(axis=1) + 1).any())

    def __repr__(self) -> str:
        kind = ("complete" if self.is_complete else "incomplete") + (", with ties" if self.has_ties else "")
        return f"Ballots({self.n_items} items, {self.total:g} ballots, {self.n_ballots} different, {kind})"

    def orders(self) -> list[list[list[str]]]:
        """Every ballot as a list of tiers, best first."""
        return [
            [[self.items[i] for i in np.flatnonzero(row == tier)] for tier in range(row.max() + 1)]
            for row in self.tiers
        ]

    def filled(self, unranked: str = "last") -> NDArray[np.int32]:
        """The tiers with what is open made explicit: a last tier (`last`), -1 (`ignore`), or refused (`error`)."""
        one_of("unranked", unranked, UNRANKED)
        open_ = self.tiers < 0
        if unranked == "error" and open_.any():
            row, column = np.argwhere(open_)[0]
            raise DataError(
                f"Ballot {row + 1} does not rank {self.items[column]!r}, and unranked='error' was asked for; "
                "choose 'last' or 'ignore', or complete the ballots."
            )
        if unranked == "ignore":
            return self.tiers
        return np.where(open_, self.tiers.max(axis=1, keepdims=True) + 1, self.tiers).astype(np.int32)

    def spans(self, unranked: str = "last") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For every ballot and item the first position (from 0) of its tier, and the number of items in that tier.

        An item of a tier of s items stands on each of its s positions with probability 1/s. Under `ignore` an open
        item has size 0.
        """
        tiers = self.filled(unranked)
        m, n = tiers.shape
        key = np.where(tiers < 0, n, tiers) + (np.arange(m) * (n + 1))[:, None]
        counts = np.bincount(key.ravel(), minlength=m * (n + 1)).reshape(m, n + 1)
        starts = np.cumsum(counts, axis=1) - counts
        first, size = starts.ravel()[key], counts.ravel()[key]
        return np.where(tiers < 0, 0, first), np.where(tiers < 0, 0, size)

    def positions(self, unranked: str = "last") -> FloatArray:
        """(ballots, items): the mean position, from 1, of the tier that holds the item; NaN where it is ignored."""
        first, size = self.spans(unranked)
        return np.where(size > 0, first + (size + 1) / 2.0, np.nan)

    def take(self, rows: Any, weights: ArrayLike | None = None) -> Ballots:
        """Some of the ballots, with other weights if given."""
        kept = self.weights[rows] if weights is None else np.asarray(weights, dtype=np.float64)
        return Ballots(self.items, self.tiers[rows], kept, self.metadata)

    def without(self, *names: str) -> Ballots:
        """The same ballots with some items struck out; ballots that then rank nothing are dropped."""
        for name in names:
            if name not in self.items:
                raise DataError(f"There is no item {name!r}; the items are {', '.join(self.items)}.")
        columns = [i for i, name in enumerate(self.items) if name not in names]
        tiers = self.tiers[:, columns]
        rows = (tiers >= 0).any(axis=1)
        return Ballots(tuple(self.items[i] for i in columns), tiers[rows], self.weights[rows], self.metadata)


def _names(entry: Any, ballot: int) -> list[str]:
    """The items of one place; sets are sorted, so that the columns do not depend on their hash order."""
    tier = list(entry) if isinstance(entry, set | frozenset | list | tuple) else [entry]
    if not tier or any(is_nothing(name) for name in tier):
        what = "an empty tier" if not tier else f"{next(filter(is_nothing, tier))!r} as an item"
        raise DataError(f"Ballot {ballot} has {what}; leave it out.")
    names = [str(plain(name)) for name in tier]
    return sorted(names) if isinstance(entry, set | frozenset) else names


def is_nothing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or a text of spaces."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _matrix(what: str, values: ArrayLike) -> FloatArray:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise DataError(f"{what} must be a matrix with a row a ballot and a column an item; got {matrix.shape}.")
    if np.isinf(matrix).any():
        raise DataError("Ranks and scores must be finite; NaN stands for an item that is not ranked.")
    return matrix


def _dense(values: NDArray[Any], ranked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Row by row the tier of every value, 0 for the smallest, without gaps; -1 where `ranked` is False."""
    if not values.size:
        return np.empty(values.shape, dtype=np.int32)
    sortable = np.where(ranked, values, np.inf).astype(np.float64)
    order = np.argsort(sortable, axis=1, kind="stable")
    ordered = np.take_along_axis(sortable, order, axis=1)
    steps = np.zeros(values.shape, dtype=np.int32)
    steps[:, 1:] = np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1)
    tiers = np.empty(values.shape, dtype=np.int32)
    np.put_along_axis(tiers, order, steps, axis=1)
    tiers[~ranked] = -1
    return tiers
