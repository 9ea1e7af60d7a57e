"""What a profile of ballots shows: majorities, winners, cycles, and the axioms that a rule breaks on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from luce.aggregate.axiom_programs import Solve, consistency_witness, monotonicity_witness, removal_witness
from luce.aggregate.ballots import Ballots
from luce.aggregate.positional import (
    PositionRule,
    before_weights,
    is_expression,
    margins,
    named,
    ordered_components,
    positional_scores,
    shortest_cycle,
    support,
)
from luce.aggregate.result import Consensus
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

    answer = solve(ballots)
    shares = support(ballots, unranked)
    margin = margins(before_weights(ballots, unranked))
    firsts = positional_scores(ballots, "plurality", "last")
    report = ProfileReport(
        items=ballots.items,
        support=shares,
        first_places=dict(zip(ballots.items, firsts.tolist(), strict=True)),
        condorcet_winner=_condorcet_winner(ballots, margin),
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
    positional = not isinstance(rule, str) or bool(named(rule)) or is_expression(rule)
    searched = _searched(report, ballots, solve, positional, trials, generator(random_state))
    for axiom, found, remark in chain(_decided(report, _unanimous(ballots, unranked)), searched):
        if found is None:
            report.kept[axiom] = remark
        else:
            report.violations.append(found)
    return report


def _condorcet_winner(ballots: Ballots, margin: FloatArray) -> str | None:
    wins = (margin > 0).sum(axis=1)
    best = int(np.argmax(wins))
    return ballots.items[best] if wins[best] == ballots.n_items - 1 and ballots.n_items > 1 else None


def _unanimous(ballots: Ballots, unranked: str) -> Any:
    """all[x, y]: every ballot puts x strictly before y (and so some ballot does)."""
    tiers = ballots.filled(unranked)
    n = ballots.n_items
    result = np.zeros((n, n), dtype=bool)
    for x in range(n):
        result[x] = ((tiers[:, x, None] >= 0) & (tiers >= 0) & (tiers[:, x, None] < tiers)).all(axis=0)
    return result


_Finding = tuple[str, Violation | None, str]
"""An axiom, how it is broken, or what there is to say where it is not."""


def _decided(report: ProfileReport, unanimous: Any) -> Iterator[_Finding]:
    answer, items, shares = report.consensus, report.items, report.support
    # Over all answers: x is above y where every equally good ranking has it so.
    above = answer.is_above(items)
    yield "pareto", _overruled("pareto", items, shares, unanimous & ~above), "holds here"
    for axiom, winner in (("majority", report.majority_winner), ("condorcet", report.condorcet_winner)):
        if winner is None:
            yield axiom, None, "no such winner here"
        elif answer.winners == [winner]:
            yield axiom, None, f"{winner} wins"
        else:
            share = report.first_places[winner] if axiom == "majority" else _least_share(report, winner)
            kind = "of the first places" if axiom == "majority" else "or more against each other item"
            witness = f"{winner} has {share:.1%} {kind}, yet {' = '.join(answer.winners)} wins"
            yield axiom, Violation(axiom, share - 0.5, witness), ""
    beaten = (shares > 0.5 + 1e-12) & ~above
    yield "strong_condorcet", _overruled("strong_condorcet", items, shares, beaten), "every majority is respected"


def _least_share(report: ProfileReport, winner: str) -> float:
    x = report.items.index(winner)
    return float(np.delete(report.support[x], x).min())


def _overruled(axiom: str, items: tuple[str, ...], shares: FloatArray, pairs: Any) -> Violation | None:
    """The pair with the largest share among those where the answer does not put x above y."""
    if not pairs.any():
        return None
    x, y = np.unravel_index(int(np.argmax(np.where(pairs, shares, -1.0))), shares.shape)
    witness = f"{shares[x, y]:.1%} put {items[x]} before {items[y]}, yet {items[x]} is not above {items[y]}"
    return Violation(axiom, float(shares[x, y]) - 0.5, witness, int(pairs.sum()))


def _searched(
    report: ProfileReport, ballots: Ballots, solve: Solve, positional: bool, trials: int, rng: np.random.Generator
) -> Iterator[_Finding]:
    removal = removal_witness(ballots, solve, report.consensus, limit=trials)
    if removal is None:
        tried = min(ballots.n_items, trials) if ballots.n_items > 2 else 0
        yield "independence", None, f"no single removal reverses a pair ({tried} tried)"
    else:
        x, y, gone = removal
        share = report.support[ballots.items.index(x), ballots.items.index(y)]
        witness = f"{x} is above {y}, but {y} is above {x} once {gone} is struck out (no vote on {x} and {y} changed)"
        yield "independence", Violation("independence", abs(float(share) - 0.5), witness), ""
    if positional:
        yield "consistency", None, "every positional rule has it"
    else:
        halves, tried = consistency_witness(ballots, solve, report.consensus, trials, rng)
        yield "consistency", _shown("consistency", halves), f"none found in {tried} splits"
    lifted, tried = monotonicity_witness(ballots, solve, report.consensus, trials)
    yield "monotonicity", _shown("monotonicity", lifted), f"none found in {tried} changes"


def _shown(axiom: str, witness: str | None) -> Violation | None:
    return None if witness is None else Violation(axiom, 0.0, witness)
