"""The rules behind `consensus`: each takes ballots and what to do with open items, and gives a `Consensus`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from luce.aggregate.ballots import UNRANKED, Ballots
from luce.aggregate.kemeny import EXACT_LIMIT, by_cuts, by_subsets, kemeny_order
from luce.aggregate.kemeny_program import DP_LIMIT
from luce.aggregate.positional import (
    POSITIONAL,
    PositionRule,
    before_weights,
    compared,
    first_shares,
    is_positional,
    margins,
    named,
    ordered_components,
    position_values,
    positional_scores,
    rule_label,
)
from luce.aggregate.result import Consensus, Optima, by_scores, by_tiers, closure, layers, tiers_by_cuts, tiers_text
from luce.checks import one_of
from luce.data.names import alike
from luce.errors import DataError, SettingError
from luce.registry import Registry, canonical, unknown_name
from luce.types import FloatArray, IntArray

_FOOTRULE_TIES = 400
"""Items up to which the footrule's equally good answers are examined (cubic time)."""


def positional(ballots: Ballots, unranked: str, rule: PositionRule) -> Consensus:
    """Sort by f(x) = E[h(position of x)], which minimises [Pareek] (4.5) by [Pareek] Proposition 12."""
    scores = positional_scores(ballots, rule, unranked)
    # The minimum of [Pareek] (4.5); tied items may stand in any order without changing it.
    objective = float(np.sort(scores)[::-1] @ np.arange(1, len(scores) + 1))
    rises = np.any(np.diff(position_values(rule, ballots.n_items)) > 0)
    notes = ("The rule gives a lower place more than a higher one somewhere.",) if rises else ()
    return by_scores(rule_label(rule), ballots.items, scores, objective=objective, bound=objective, notes=notes)


def kemeny(ballots: Ballots, unranked: str, *, time_limit: float = 60.0, exact_limit: int = EXACT_LIMIT) -> Consensus:
    """The ranking of [Pareek] (4.4) with Kendall's distance to the ballots as loss (a pair tied in one costs 1/2)."""
    time_limit, exact_limit = float(time_limit), int(exact_limit)
    if not time_limit > 0 or exact_limit < 1:
        raise SettingError(f"time_limit is {time_limit:g} and exact_limit is {exact_limit}; both must be above 0.")
    weights = before_weights(ballots, unranked)
    result = kemeny_order(weights, time_limit=time_limit, exact_limit=exact_limit)
    upper = np.triu_indices(ballots.n_items, 1)
    tied = float((compared(ballots, unranked) - weights - weights.T)[upper].sum())
    tiers = tiers_by_cuts(ballots.items, result.order, result.cuts)
    optima = _optima(ballots, result.certain, result.order, result.optima, result.counted, result.firsts)
    notes: list[str] = []
    if result.optimal and result.cuts_known:
        tiers, notes = _by_layers(ballots, optima)
    if not result.optimal:
        why = "too many items for the exact program" if result.method == "search" else "the time was over"
        notes.append(
            f"Not proven optimal ({why}): the total distance is {result.value + tied / 2:g}, and no ranking is below "
            f"{result.bound + tied / 2:g}."
        )
    elif not result.cuts_known:
        notes.append("Optimal, but other optimal rankings were not all examined: a tie may be missing.")
    objective, bound = result.value + tied / 2, result.bound + tied / 2
    return by_tiers("kemeny", tiers, objective, bound, result.optimal, tuple(notes), optima)


def _optima(
    ballots: Ballots, certain: NDArray[np.bool_], order: IntArray, count: float, counted: bool, firsts: IntArray
) -> Optima:
    winners = tuple(ballots.items[i] for i in sorted(firsts.tolist()))
    example = tuple(ballots.items[i] for i in order)
    return Optima(ballots.items, winners, certain, example, count, counted)


def _by_layers(ballots: Ballots, optima: Optima) -> tuple[list[list[str]], list[str]]:
    """Tiers of what is certain, and a remark where items in different tiers may change places."""
    tiers, apart = layers(ballots.items, optima.certain)
    open_pairs = apart & ~optima.certain
    notes = [f"{optima}."] if optima.count > 1 or not optima.counted else []
    if open_pairs.any():
        x, y = np.argwhere(open_pairs)[0]
        notes.append(
            f"Tiers show what all optimal rankings agree on; some pairs in different tiers are open, such as "
            f"{ballots.items[x]} and {ballots.items[y]}."
        )
    return tiers, notes


def footrule(ballots: Ballots, unranked: str) -> Consensus:
    """The ranking with the least total footrule distance: an assignment of items to positions.

    An item of a tier costs the mean of |position - p| over the positions p of the tier, not the cost at their mean.
    """
    cost = _position_costs(ballots, unranked)
    items, places = linear_sum_assignment(cost)
    order = np.empty(len(items), dtype=np.int64)
    order[places] = items
    value = float(cost[items, places].sum())
    if len(order) > _FOOTRULE_TIES:
        tiers = [[ballots.items[i]] for i in order]
        notes = ["Optimal, but other optimal rankings were not examined: a tie may be missing."]
        return by_tiers("footrule", tiers, value, value, notes=tuple(notes))
    # What all optimal assignments agree on: blocks between cuts are examined by themselves, up to 16 items each.
    slack = 1e-9 * max(1.0, float(cost.max()))
    cuts = _assignment_cuts(cost[order], slack)
    certain, count, counted, firsts = by_cuts(order, cuts), 1.0, True, order[:1]
    edges = np.concatenate([[0], np.flatnonzero(cuts) + 1, [len(order)]])
    for low, high in pairwise(edges.tolist()):
        size, items = high - low, order[low:high]
        if 1 < size <= DP_LIMIT:
            found = by_subsets(np.zeros((size, size)), np.ascontiguousarray(cost[items, low:high]), slack)
            certain[np.ix_(items, items)] = found.certain
            count *= found.optima
            firsts = items[found.firsts] if low == 0 else firsts
        elif size > 1:
            count, counted = 2.0 * count, False
            firsts = items if low == 0 else firsts
    optima = _optima(ballots, certain, order, count, counted, firsts)
    tiers, notes = _by_layers(ballots, optima)
    return by_tiers("footrule", tiers, value, value, notes=tuple(notes), optima=optima)


def _position_costs(ballots: Ballots, unranked: str) -> FloatArray:
    """(items, positions): the weighted cost of an item at a position."""
    n = ballots.n_items
    first, size = ballots.spans(unranked)
    spans, inverse = np.unique(first * (n + 1) + size, return_inverse=True)
    inverse = inverse.reshape(first.shape)
    place = np.arange(n)
    table = np.zeros((len(spans), n))
    for row, (a, s) in enumerate(zip(*divmod(spans, n + 1), strict=True)):
        if s:
            table[row] = np.abs(place[:, None] - np.arange(a, a + s)).mean(axis=1)
    cost = np.zeros((n, n))
    for x in range(n):
        cost[x] = np.bincount(inverse[:, x], weights=ballots.weights, minlength=len(spans)) @ table
    return cost


def _assignment_cuts(cost: FloatArray, slack: float) -> NDArray[np.bool_]:
    """Cuts that every optimal assignment respects; the item of row p stands on position p.

    Another optimal assignment differs by cycles of moves that cost nothing in total: the move p -> q is on one exactly
    where its cost and the cheapest way back sum to 0.
    """
    n = len(cost)
    move = cost - np.diag(cost)[:, None]
    way = move.copy()
    for via in range(n):
        np.minimum(way, way[:, via, None] + way[None, via, :], out=way)
    free = move + way.T <= slack
    np.fill_diagonal(free, False)
    crossed = np.zeros(n, dtype=np.int64)
    for p, q in np.argwhere(free):
        if p < q:
            crossed[p] += 1
            crossed[q] -= 1
    return np.asarray(np.cumsum(crossed)[:-1] == 0)


def mode(ballots: Ballots, unranked: str) -> Consensus:
    """The most frequent ballot (0-1 loss); where several are, tiers show what all of them agree on.

    Under `ignore` only complete ballots count.
    """
    filled = ballots.filled(unranked)
    complete = (filled >= 0).all(axis=1)
    if not complete.any():
        raise DataError("No ballot ranks every item, so unranked='ignore' leaves no mode; use unranked='last'.")
    # Filling can make ballots equal that were not: a ballot that ties its last items, and one that leaves them open.
    whole = Ballots(ballots.items, filled[complete], ballots.weights[complete])
    top = float(whole.weights.max())
    modes = whole.tiers[whole.weights >= top * (1 - 1e-12)]
    objective = ballots.total - top
    example = np.lexsort((np.arange(ballots.n_items), modes[0]))
    shown = tiers_by_cuts(ballots.items, example, np.diff(modes[0][example]) > 0)
    if len(modes) == 1:
        return by_tiers("mode", shown, objective, objective)
    certain = np.asarray((modes[:, :, None] < modes[:, None, :]).all(axis=0))
    first = np.flatnonzero((modes == modes.min(axis=1, keepdims=True)).any(axis=0))
    optima = _optima(ballots, certain, example, float(len(modes)), True, first)
    tiers, notes = _by_layers(ballots, optima)
    notes[0] = f"{len(modes)} ballots are the most frequent, one is {tiers_text(shown)}."
    return by_tiers("mode", tiers, objective, objective, notes=tuple(notes), optima=optima)


def copeland(ballots: Ballots, unranked: str) -> Consensus:
    """Sort by the number of majority wins, a tied pair counting half."""
    margin = margins(before_weights(ballots, unranked))
    scores = (margin > 0).sum(axis=1) + 0.5 * ((margin == 0).sum(axis=1) - 1)
    return by_scores("copeland", ballots.items, scores)


def _strengths(ballots: Ballots, unranked: str, strength: str) -> FloatArray:
    """Strength of every majority x over y, 0 where x does not win: its margin, or its winning votes."""
    one_of("strength", strength, ("margin", "winning"))
    weights = before_weights(ballots, unranked)
    margin = margins(weights)
    return np.where(margin > 0, margin if strength == "margin" else weights, 0.0)


def schulze(ballots: Ballots, unranked: str, *, strength: str = "margin") -> Consensus:
    """Schulze's beat-path rule: x is above y where the strongest path from x to y is stronger than any path back.

    A path is as strong as its weakest majority. The relation is transitive; a tier is what nothing left beats.
    """
    path = _strengths(ballots, unranked, strength)
    for via in range(len(path)):
        np.maximum(path, np.minimum(path[:, via, None], path[None, via, :]), out=path)
    beats = path > path.T
    return _layers("schulze", ballots, beats)


def ranked_pairs(ballots: Ballots, unranked: str, *, strength: str = "margin") -> Consensus:
    """Tideman's ranked pairs: keep majorities, the strongest first, unless they close a cycle.

    Majorities of equal strength are taken together, and those of them that lie on a common cycle are all left out: no
    tie is broken by the order of the items.
    """
    strengths = _strengths(ballots, unranked, strength)
    locked = np.zeros(strengths.shape, dtype=bool)
    for level in np.unique(strengths[strengths > 0])[::-1]:
        group = strengths == level
        component = np.zeros(len(strengths), dtype=np.int64)
        for number, part in enumerate(ordered_components(locked | group)):
            component[part] = number
        locked |= group & (component[:, None] != component[None, :])
    return _layers("ranked_pairs", ballots, closure(locked))


def _layers(rule: str, ballots: Ballots, above: NDArray[np.bool_]) -> Consensus:
    """Tiers of a transitive relation, and a remark where it leaves items of different tiers open."""
    tiers, apart = layers(ballots.items, above)
    split = bool((apart & ~(above | above.T)).any())
    if split:
        return by_tiers(rule, tiers, notes=("Some items in different tiers are not comparable by this rule.",))
    return Consensus(rule, tiers, dict(zip(ballots.items, above.sum(axis=1).astype(float).tolist(), strict=True)))


def instant_runoff(ballots: Ballots, unranked: str) -> Consensus:
    """Instant runoff: strike out the item with the fewest first places, again and again; the last one left is first.

    Items tied for the fewest are struck out together and share a tier. A ballot counts for the best of its items that
    are left, split evenly over a tie; a ballot without listed items left is spent under `ignore`, and split over all
    that are left under `last`.
    """
    tiers = ballots.filled(unranked)
    left, scores, rounds = np.ones(ballots.n_items, dtype=bool), np.zeros(ballots.n_items), 0
    while left.any():
        votes = ballots.weights @ first_shares(tiers, left)
        struck = left & (votes <= votes[left].min() + 1e-10 * max(1.0, ballots.total))
        scores[struck] = rounds
        left &= ~struck
        rounds += 1
    return by_scores("instant_runoff", ballots.items, scores)


_HERE = ("kemeny", "footrule", "mode", "copeland", "schulze", "ranked_pairs", "instant_runoff")
_BESIDE = ("minimax", "approval", "hodge", "stv")
RULES = Registry(
    "rule",
    {name: f"luce.aggregate.rules:{name}" for name in _HERE}
    | {name: f"luce.aggregate.positional:{name}" for name in _BESIDE},
)
"""Rules beside the positional ones."""
ALIASES = {
    **{"irv": "instant_runoff", "alternative_vote": "instant_runoff", "av": "instant_runoff"},
    **{"single_transferable_vote": "stv", "simpson": "minimax", "simpson_kramer": "minimax"},
    **{"tideman": "ranked_pairs", "beatpath": "schulze", "kemeny_young": "kemeny", "veto": "antiplurality"},
    **{"hodgerank": "hodge"},
}
"""Other names that people try."""


def rule_names() -> list[str]:
    """All names that `consensus` knows; a vector, a function or an expression in i and n is a rule too."""
    return sorted([*RULES.names(), *POSITIONAL])


def consensus(ballots: Ballots, rule: PositionRule = "borda", *, unranked: str = "last", **options: Any) -> Consensus:
    """The consensus ranking of the ballots by a rule, [Pareek] (4.2).

    Parameters
    ----------
    ballots
        What the voters said.
    rule
        A name (`luce.aggregate.rule_names()`), a vector of n scores for the positions, a function of (positions, n),
        or an expression in the position i and n such as `"1/i"`.
    unranked
        What to do with items that a ballot leaves open: `last` puts them in one tied tier below the others (each gets
        the mean score of the open positions), `ignore` counts only what the ballot says, `error` refuses.
    options
        Of the rule: `time_limit` and `exact_limit` for `kemeny`, `strength` for `schulze` and `ranked_pairs`, `seats`
        for `stv`.

    >>> votes = Ballots.from_orders(["abc", "bca", "cab", "abc"])
    >>> str(consensus(votes, "kemeny")), consensus(votes, "kemeny").objective
    ('a > b > c', 4.0)
    >>> str(consensus(votes, "plurality"))
    'a > b = c'
    """
    one_of("unranked", unranked, UNRANKED)
    if isinstance(rule, str):
        rule = ALIASES.get(canonical(rule), rule)
    if isinstance(rule, str) and not named(rule) and rule in RULES:
        name, answer = RULES.resolve(rule), RULES.get(rule)
    elif isinstance(rule, str) and not is_positional(rule):
        raise unknown_name("rule", rule, rule_names())
    else:
        name, answer = rule_label(rule), partial(positional, rule=rule)
    allowed = sorted(
        p.name for p in signature(answer).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "rule"
    )
    for given in options:
        if given not in allowed:
            has = f"its options are {', '.join(allowed)}" if allowed else "it has no options"
            raise SettingError(f"The rule {name} has no option {given!r}; {has}.")
    found: Consensus = answer(ballots, unranked, **options)
    return replace(found, notes=(*found.notes, *alike(ballots.items)))
