"""`Consensus`: the answer of a rule, with ties shown as ties, and how rules build it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.result import Result, Sheet, sheet_of
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Optima:
    """All rankings of least distance: who wins in one, what they agree on, one of them, and how many there are."""

    items: tuple[str, ...]
    winners: tuple[str, ...]
    certain: NDArray[np.bool_]
    """[x, y] where x is before y in all of them."""
    example: tuple[str, ...]
    count: float
    counted: bool
    """False where `count` is only a lower bound."""

    def __str__(self) -> str:
        many = f"{self.count:,.0f}" if self.counted else f"at least {self.count:,.0f}"
        return f"{many} optimal ranking{'s' * (self.count != 1 or not self.counted)}, one is {' > '.join(self.example)}"


def layers(items: tuple[str, ...], above: NDArray[np.bool_]) -> tuple[list[list[str]], NDArray[np.bool_]]:
    """Tiers of a transitive relation, what nothing left is above next; and pairs [x, y] of different tiers, x first."""
    tier, left, number = np.zeros(len(above), dtype=np.int64), np.ones(len(above), dtype=bool), 0
    while left.any():
        top = left & ~(above[left]).any(axis=0)
        tier[top], number = number, number + 1
        left &= ~top
    tiers = [[items[i] for i in np.flatnonzero(tier == k)] for k in range(number)]
    return tiers, tier[:, None] < tier[None, :]


def closure(relation: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The transitive closure."""
    closed = relation.copy()
    for via in range(len(closed)):
        closed |= closed[:, via, None] & closed[None, via, :]
    return closed


@dataclass(frozen=True)
class Consensus(Result):
    """The answer of a rule.

    Parameters
    ----------
    rule
        Its name.
    tiers
        The items, best first; items of one list are tied: the rule gives no reason to put either first.
    scores
        A number an item, higher is better: what the rule sorts by, or minus the mean position of the tier for rules
        that have no scores of their own.
    objective
        What the answer costs, where the rule minimises something: total distance to the ballots.
    bound
        A proven lower bound of the objective.
    optimal
        True where the answer is proven to be the rule's; False for a search that ended with a bound.
    notes
        What a reader should know, a sentence each.
    """

    rule: str
    tiers: list[list[str]]
    scores: dict[str, float]
    objective: float | None = None
    bound: float | None = None
    optimal: bool = True
    notes: tuple[str, ...] = ()
    optima: Optima | None = None
    """The equally good rankings of a rule that minimises a distance; None for other rules."""

    @property
    def winners(self) -> list[str]:
        """Items that are first in some answer: the first tier, or those that begin an optimal ranking."""
        return self.tiers[0] if self.optima is None else list(self.optima.winners)

    @property
    def certain(self) -> list[tuple[str, str]]:
        """Pairs (x, y) with x before y in every answer: a partial order, larger where fewer items are tied."""
        if self.optima is None:
            ranks = self.ranks
            return [(x, y) for x in self.order for y in self.order if ranks[x] < ranks[y]]
        items, before = self.optima.items, self.optima.certain
        return [(items[x], items[y]) for x, y in np.argwhere(before)]

    @property
    def optimum(self) -> list[str]:
        """One answer in full: an optimal ranking, or the items in one line."""
        return self.order if self.optima is None else list(self.optima.example)

    def is_above(self, items: tuple[str, ...]) -> NDArray[np.bool_]:
        """[x, y] where x is before y in every answer."""
        if self.optima is not None:
            return self.optima.certain
        ranks = np.array([self.ranks[name] for name in items])
        return np.asarray(ranks[:, None] < ranks[None, :])

    @property
    def order(self) -> list[str]:
        """The items in one line, tied ones in the order of the ballots' columns."""
        return [name for tier in self.tiers for name in tier]

    @property
    def ranks(self) -> dict[str, int]:
        """1 + the number of items in better tiers."""
        result, place = {}, 1
        for tier in self.tiers:
            result.update(dict.fromkeys(tier, place))
            place += len(tier)
        return result

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """The best and the worst place of an item over all answers; a tier shares its first place."""
        if self.optima is None:
            return {name: (rank, rank) for name, rank in self.ranks.items()}
        best, worst = 1 + self.optima.certain.sum(axis=0), len(self.order) - self.optima.certain.sum(axis=1)
        return dict(zip(self.optima.items, zip(best.tolist(), worst.tolist(), strict=True), strict=True))

    @property
    def title(self) -> str:
        """The rule, and what is proven of its answer."""
        if self.objective is None or self.rule not in ("kemeny", "footrule"):
            return self.rule
        proof = "proven optimal" if self.optimal else f"no ranking is below {self.bound:g}"
        return f"{self.rule}: total distance {self.objective:,.12g}, {proof}"

    def sheets(self) -> list[Sheet]:
        """Rank, item and score, best first."""
        rows = [[self.ranks[name], name, float(self.scores[name])] for name in self.order]
        return [sheet_of(self.title, ["rank", "item", "score"], rows)]

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants; pairs that are certain where there are few."""
        return {
            "rule": self.rule,
            "tiers": self.tiers,
            "winners": self.winners,
            "optimum": self.optimum,
            "certain": self.certain if len(self.order) <= 100 else None,
            "optima": None if self.optima is None else self.optima.count,
            "optima_counted": None if self.optima is None else self.optima.counted,
            "scores": self.scores,
            "objective": self.objective,
            "bound": self.bound,
            "optimal": self.optimal,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return tiers_text(self.tiers)


def tiers_text(tiers: Iterable[Iterable[str]]) -> str:
    """Tiers in one line: `a > b = c`."""
    return " > ".join(" = ".join(tier) for tier in tiers)


def by_scores(rule: str, items: tuple[str, ...], scores: FloatArray, **more: Any) -> Consensus:
    """The answer of a rule that sorts by these scores; those that differ by rounding only are equal."""
    order = np.argsort(-scores, kind="stable")
    cuts = -np.diff(scores[order]) > 1e-10 * max(1.0, float(np.abs(scores).max()))
    return Consensus(rule, tiers_by_cuts(items, order, cuts), dict(zip(items, scores.tolist(), strict=True)), **more)


def by_tiers(rule: str, tiers: list[list[str]], *found: Any, **more: Any) -> Consensus:
    """The answer of a rule without scores of its own: minus the mean position of its tier, for every item."""
    scores, place = {}, 0
    for tier in tiers:
        scores.update(dict.fromkeys(tier, -(place + (len(tier) + 1) / 2.0)))
        place += len(tier)
    return Consensus(rule, tiers, scores, *found, **more)


def tiers_by_cuts(items: tuple[str, ...], order: IntArray, cuts: NDArray[np.bool_]) -> list[list[str]]:
    """An order of item numbers, cut after place k where `cuts[k]`; inside a tier, items by column."""
    parts = np.split(order, np.flatnonzero(cuts) + 1)
    return [[items[i] for i in sorted(part.tolist())] for part in parts]


def uncrossed(forced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cuts of an order that no undetermined pair crosses; `forced[a, b]` where place a must come before place b."""
    n = len(forced)
    free = np.triu(~forced, 1)
    furthest = np.where(free.any(axis=1), n - 1 - np.argmax(free[:, ::-1], axis=1), np.arange(n))
    return np.maximum.accumulate(furthest)[:-1] <= np.arange(n - 1)
