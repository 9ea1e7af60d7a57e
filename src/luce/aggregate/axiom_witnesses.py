"""Changed profiles that show how a rule breaks an axiom."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.aggregate.positional import PositionRule, position_values
from luce.aggregate.result import Consensus, tiers_text
from luce.errors import DataError
from luce.types import IntArray

Solve = Callable[[Ballots], Consensus]


def removal_witness(ballots: Ballots, solve: Solve, answer: Consensus, limit: int = 200) -> tuple[str, str, str] | None:
    """Items (x, y, z) such that x is above y, and y above x once z is struck out; at most `limit` removals."""
    for gone in ballots.items[:limit] if ballots.n_items > 2 else ():
        left = ballots.without(gone)
        kept = [ballots.items.index(name) for name in left.items]
        above = answer.is_above(ballots.items)[np.ix_(kept, kept)]
        flipped = above & solve(left).is_above(left.items).T
        if flipped.any():
            x, y = np.argwhere(flipped)[0]
            return left.items[x], left.items[y], gone
    return None


def monotonicity_witness(ballots: Ballots, solve: Solve, answer: Consensus, trials: int) -> tuple[str | None, int]:
    """Equal ballots that raise an item to their top, whereupon it falls, and how many raises were tried.

    The winners are tried first.

    Where a rule has several answers, the best place after the raise must be behind the worst one before.
    """
    heaviest = np.argsort(-ballots.weights, kind="stable")
    left = trials
    for name in answer.order:
        x = ballots.items.index(name)
        for row in heaviest:
            if ballots.tiers[row, x] <= 0:
                continue
            whole = float(ballots.weights[row])
            for part in dict.fromkeys((whole, max(1.0, whole // 2), max(1.0, whole // 4))):
                if part > whole:
                    continue
                if left == 0:
                    return None, trials
                left -= 1
                before, after = answer.spans[name][1], solve(_lift(ballots, int(row), x, part)).spans[name][0]
                if after > before:
                    order = tiers_text(ballots.take([row]).orders()[0])
                    shown = f"if {part:g} ballots {order} raise {name} to their top, {name} falls from rank"
                    return f"{shown} {before} to {after}", trials - left
    return None, trials - left


def _lift(ballots: Ballots, row: int, x: int, part: float) -> Ballots:
    """The same ballots, but `part` of the weight of one row puts x first."""
    raised = ballots.tiers[row].copy()
    raised[raised >= 0] += 1
    raised[x] = 0
    weights = ballots.weights.copy()
    weights[row] -= part
    keep = weights > 0
    return Ballots(ballots.items, np.vstack([ballots.tiers[keep], raised[None, :]]), np.append(weights[keep], part))


def consistency_witness(
    ballots: Ballots, solve: Solve, answer: Consensus, trials: int, rng: np.random.Generator
) -> tuple[str | None, int]:
    """A split of the ballots in two parts that elect the same single winner, while the whole elects another.

    And how many splits were tried.
    """
    tried = 0
    for _ in range(trials if ballots.n_ballots > 1 else 0):
        side = rng.random(ballots.n_ballots) < 0.5
        if side.all() or not side.any():
            continue
        tried += 1
        one, two = solve(ballots.take(side)), solve(ballots.take(~side))
        if len(one.winners) == 1 and one.winners == two.winners and answer.winners != one.winners:
            share = float(ballots.weights[side].sum())
            found = f"{one.winners[0]} wins among {share:g} of the ballots and among the other"
            return f"{found} {ballots.total - share:g}, yet {' = '.join(answer.winners)} wins in all", tried
    return None, tried


def rearranged(ballots: Ballots, rule: PositionRule, x: str, y: str) -> Ballots:
    """Ballots in which every voter keeps the order of x and y, arranged as badly for x as a positional rule allows.

    Voters for x over y put the two where h differs least, voters for y over x where it differs most (the distribution
    [Pareek] (4.9), which meets the lower bound of [Pareek] (4.6)); the other items keep their order. Comparing the two
    answers shows what independence of irrelevant alternatives would forbid.
    """
    if not ballots.is_complete or ballots.has_ties:
        raise DataError("Only complete ballots without ties can be rearranged.")
    h = position_values(rule, ballots.n_items)
    first, second = np.triu_indices(len(h), 1)
    difference = h[first] - h[second]
    near, far = int(np.argmin(difference)), int(np.argmax(difference))
    a, b = ballots.items.index(x), ballots.items.index(y)
    rows = []
    for tiers in ballots.tiers:
        ahead, behind = (a, b) if tiers[a] < tiers[b] else (b, a)
        pair = near if ahead == a else far
        rows.append(_placed(tiers, ahead, behind, int(first[pair]), int(second[pair])))
    return Ballots(ballots.items, np.array(rows, dtype=np.int32), ballots.weights)


def _placed(tiers: IntArray, ahead: int, behind: int, place: int, later: int) -> IntArray:
    others = [i for i in np.argsort(tiers, kind="stable").tolist() if i not in (ahead, behind)]
    order = np.empty(len(tiers), dtype=np.int64)
    order[place], order[later] = ahead, behind
    order[[k for k in range(len(tiers)) if k not in (place, later)]] = others
    result = np.empty(len(tiers), dtype=np.int64)
    result[order] = np.arange(len(tiers))
    return result
