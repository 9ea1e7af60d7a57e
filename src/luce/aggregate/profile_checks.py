"""What a profile of ballots shows: majorities, winners, cycles, and the axioms that a rule breaks on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.aggregate.positional import (
    PositionRule,
    before_weights,
    is_positional,
    margins,
    ordered_components,
    positional_scores,
    shortest_cycle,
    support,
)
from luce.aggregate.result import Consensus, tiers_text
from luce.aggregate.rules import consensus
from luce.checks import generator
from luce.types import FloatArray


@dataclass(frozen=True)
class Violation:
    """An axiom that the consensus breaks on this profile.

    `by` is the share of votes above 1/2 that was overruled; `witness` says what happened.
    """

    axiom: str
    by: float
    witness: str
    count: int = 1


@dataclass(frozen=True)
class ProfileReport:
    """What `check_profile` found.

    Parameters
    ----------
    items, support
        `support[x, y]` is P(x before y), a tie counting half.
    first_places
        The share of first places of every item, ties split evenly.
    condorcet_winner, majority_winner
        The item that a majority puts before each other item; the item with more than half of the first places; or None.
    cycles
        One shortest cycle of majorities for every knot of them: each item beats the next, the last beats the first.
    consensus
        The answer of the rule.
    violations
        Axioms broken here, each with its worst case.
    kept
        Axioms examined and not found broken, each with a remark.
    """

    items: tuple[str, ...]
    support: FloatArray
    first_places: dict[str, float]
    condorcet_winner: str | None
    majority_winner: str | None
    cycles: list[list[str]]
    consensus: Consensus
    violations: list[Violation]
    kept: dict[str, str]


def check_profile(
    ballots: Ballots,
    rule: PositionRule = "borda",
    *,
    unranked: str = "last",
    trials: int = 200,
    random_state: int | np.random.Generator | None = 0,
    **options: Any,
) -> ProfileReport:
    """Check which axioms a rule's consensus breaks on these ballots, by how much, with a witness for each.

    Pareto, majority, Condorcet and strong Condorcet are decided. Independence is examined by striking out each single
    item; monotonicity and consistency are searched for in at most `trials` changed profiles each, so for them "not
    found" is no proof (positional rules are consistent by Proposition 17).

    >>> report = check_profile(Ballots.from_orders(["abc", "bca"], weights=[3, 2]), "borda", trials=0)
    >>> report.condorcet_winner, str(report.consensus), [v.axiom for v in report.violations][:2]
    ('a', 'b > a > c', ['majority', 'condorcet'])
    """

    def solve(votes: Ballots) -> Consensus:
        return consensus(votes, rule, unranked=unranked, **options)

    rng = generator(random_state)
    answer = solve(ballots)
    shares = support(ballots, unranked)
    margin = margins(before_weights(ballots, unranked))
    firsts, wins = positional_scores(ballots, "plurality", "last"), (margin > 0).sum(axis=1).tolist()
    report = ProfileReport(
        items=ballots.items,
        support=shares,
        first_places=dict(zip(ballots.items, firsts.tolist(), strict=True)),
        condorcet_winner=next((x for x, n in zip(ballots.items, wins, strict=True) if 0 < n == len(wins) - 1), None),
        majority_winner=next((x for x, p in zip(ballots.items, firsts, strict=True) if p > 0.5 + 1e-12), None),
        cycles=[
            [ballots.items[i] for i in shortest_cycle(margin > 0, part)]
            for part in ordered_components(margin > 0)
            if len(part) > 1
        ],
        consensus=answer,
        violations=[],
        kept={},
    )
    # Every ballot puts x strictly before y, whatever it weighs.
    each = ballots.take(slice(None), np.ones(ballots.n_ballots))
    found = dict(_decided(report, before_weights(each, unranked) == each.n_ballots))
    found["independence"] = _independence(report, ballots, solve, trials)
    found["consistency"] = "every positional rule has it"
    if not is_positional(rule):
        found["consistency"] = _consistency(ballots, solve, answer, trials, rng)
    found["monotonicity"] = _monotonicity(ballots, solve, answer, trials)
    for axiom, finding in found.items():
        if isinstance(finding, str):
            report.kept[axiom] = finding
        else:
            report.violations.append(Violation(axiom, *finding))
    return report


_Solve: TypeAlias = Callable[[Ballots], Consensus]
_Finding: TypeAlias = str | tuple[float, str] | tuple[float, str, int]
"""What there is to say of an axiom that is kept; or by how much it is broken, the witness, and how often."""


def _decided(report: ProfileReport, unanimous: Any) -> Iterator[tuple[str, _Finding]]:
    answer, shares = report.consensus, report.support
    # Over all answers: x is above y where every equally good ranking has it so.
    above = answer.is_above(report.items)
    yield "pareto", _overruled(report, unanimous & ~above) or "holds here"
    for axiom, winner in (("majority", report.majority_winner), ("condorcet", report.condorcet_winner)):
        if winner is None:
            yield axiom, "no such winner here"
        elif answer.winners == [winner]:
            yield axiom, f"{winner} wins"
        else:
            share, kind = report.first_places[winner], "of the first places"
            if axiom == "condorcet":
                x = report.items.index(winner)
                share, kind = float(np.delete(shares[x], x).min()), "or more against each other item"
            yield axiom, (share - 0.5, f"{winner} has {share:.1%} {kind}, yet {' = '.join(answer.winners)} wins")
    yield "strong_condorcet", _overruled(report, (shares > 0.5 + 1e-12) & ~above) or "every majority is respected"


def _overruled(report: ProfileReport, pairs: Any) -> tuple[float, str, int] | None:
    """The pair with the largest share among those where the answer does not put x above y."""
    if not pairs.any():
        return None
    items, shares = report.items, report.support
    x, y = np.unravel_index(int(np.argmax(np.where(pairs, shares, -1.0))), shares.shape)
    witness = f"{shares[x, y]:.1%} put {items[x]} before {items[y]}, yet {items[x]} is not above {items[y]}"
    return float(shares[x, y]) - 0.5, witness, int(pairs.sum())


def _independence(report: ProfileReport, ballots: Ballots, solve: _Solve, trials: int) -> _Finding:
    """Items x above y, with y above x once another is struck out."""
    struck = ballots.items[:trials] if ballots.n_items > 2 else ()
    for gone in struck:
        left = ballots.without(gone)
        kept = np.array([ballots.items.index(name) for name in left.items])
        above = report.consensus.is_above(ballots.items)[np.ix_(kept, kept)]
        flipped = above & solve(left).is_above(left.items).T
        if flipped.any():
            first, second = kept[np.argwhere(flipped)[0]]
            x, y = ballots.items[first], ballots.items[second]
            what = f"{x} is above {y}, but {y} is above {x} once {gone} is struck out (no vote on {x} and {y} changed)"
            return abs(float(report.support[first, second]) - 0.5), what
    return f"no single removal reverses a pair ({len(struck)} tried)"


def _consistency(ballots: Ballots, solve: _Solve, answer: Consensus, trials: int, rng: np.random.Generator) -> _Finding:
    """A split of the ballots in two parts that elect the same single winner, while the whole elects another."""
    tried = 0
    for side in (rng.random(ballots.n_ballots) < 0.5 for _ in range(trials)):
        if side.all() or not side.any():
            continue
        tried += 1
        one, two = solve(ballots.take(side)), solve(ballots.take(~side))
        if len(one.winners) == 1 and one.winners == two.winners and answer.winners != one.winners:
            share = float(ballots.weights[side].sum())
            found = f"{one.winners[0]} wins among {share:g} of the ballots and among the other"
            return 0.0, f"{found} {ballots.total - share:g}, yet {' = '.join(answer.winners)} wins in all"
    return f"none found in {tried} splits"


def _monotonicity(ballots: Ballots, solve: _Solve, answer: Consensus, trials: int) -> _Finding:
    """Equal ballots that raise an item to their top, whereupon it falls; the winners are tried first.

    Where a rule has several answers, the best place after the raise must be behind the worst one before.
    """
    tried = 0
    for row, x, part in islice(_raises(ballots, answer), trials):
        tried += 1
        name = ballots.items[x]
        before, after = answer.spans[name][1], solve(_lift(ballots, row, x, part)).spans[name][0]
        if after > before:
            order = tiers_text(ballots.take([row]).orders()[0])
            shown = f"if {part:g} ballots {order} raise {name} to their top, {name} falls from rank"
            return 0.0, f"{shown} {before} to {after}"
    return f"none found in {tried} changes"


def _raises(ballots: Ballots, answer: Consensus) -> Iterator[tuple[int, int, float]]:
    """A ballot, an item to be raised in it, and how many of such ballots: all, a half, a quarter."""
    for x in map(ballots.items.index, answer.order):
        for row in np.argsort(-ballots.weights, kind="stable").tolist():
            whole = float(ballots.weights[row])
            parts = dict.fromkeys((whole, max(1.0, whole // 2), max(1.0, whole // 4)))
            if ballots.tiers[row, x] > 0:
                yield from ((row, x, part) for part in parts if part <= whole)


def _lift(ballots: Ballots, row: int, x: int, part: float) -> Ballots:
    """The same ballots, but `part` of the weight of one row puts x first."""
    raised = ballots.tiers[row].copy()
    raised[raised >= 0] += 1
    raised[x] = 0
    weights = ballots.weights.copy()
    weights[row] -= part
    keep = weights > 0
    return Ballots(ballots.items, np.vstack([ballots.tiers[keep], raised[None, :]]), np.append(weights[keep], part))
