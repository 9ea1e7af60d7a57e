r"""Worst cases of a rule over all distributions of rankings, by linear programming.

A rule that minimises $g_P(\sigma) = \sum_\pi P(\pi) \ell(\sigma, \pi)$, [Pareek] (4.4), is linear in P, so each of the
quantities of [Pareek] section 4.4 is a handful of linear programs over the n! probabilities. Rules are neutral, hence x
and y are the items 0 and 1, and of the rankings that one of the two minima runs over, one for each pair of places of x
and y is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from luce.aggregate.axioms import greatest_bound
from luce.aggregate.ballots import Ballots
from luce.aggregate.positional import PositionRule, is_positional, position_values
from luce.errors import DataError, SettingError
from luce.registry import canonical
from luce.types import FloatArray, IntArray

LINEAR_RULES = frozenset({"kemeny", "footrule", "mode"})
"""Rules beside the positional ones whose objective is linear in the distribution."""

MAX_ITEMS = 5


@lru_cache(maxsize=8)
def _rankings(n: int) -> IntArray:
    """(n!, n): the position of every item, for every ranking."""
    if not 2 <= n <= MAX_ITEMS:
        raise SettingError(f"n is {n}; these programs run over all n! rankings, for n from 2 to {MAX_ITEMS}.")
    return np.array(list(permutations(range(n))), dtype=np.int64)


def _losses(rule: PositionRule, n: int) -> FloatArray:
    """(n!, n!): the loss of the answer (row) where the vote is the column."""
    place = _rankings(n)
    name = canonical(rule) if isinstance(rule, str) else ""
    if name == "mode":
        return 1.0 - np.eye(len(place))
    if name == "footrule":
        return np.asarray(cdist(place, place, "cityblock"))
    if name == "kemeny":
        first, second = np.triu_indices(n, 1)
        signs = (place[:, first] < place[:, second]).astype(np.float64)
        return np.asarray(cdist(signs, signs, "cityblock"))
    if not is_positional(rule):
        raise SettingError(
            f"The rule {rule!r} has no objective that is linear in the votes; use a positional rule or one of "
            f"{', '.join(sorted(LINEAR_RULES))}."
        )
    h = position_values(rule, n)
    return (place + 1.0) @ h[place].T  # Definition 14


def _representatives(rankings: NDArray[np.bool_], n: int, items: int) -> Iterator[int]:
    """One ranking of those selected for each choice of places of the first `items` items."""
    place = _rankings(n)
    seen = set()
    for index in np.flatnonzero(rankings):
        key = tuple(place[index, :items].tolist())
        if key not in seen:
            seen.add(key)
            yield int(index)


def _extreme(rule: PositionRule, n: int, wins: NDArray[np.bool_], share: FloatArray, gamma: float, items: int) -> float:
    """Max t with t <= g(sigma) - g(tau) for all sigma in `wins` and a tau outside, over P with P(share) = gamma."""
    if not 0 <= gamma <= 1:
        raise SettingError(f"gamma is {gamma}; a share of the votes is between 0 and 1.")
    losses, equal = _losses(rule, n), np.column_stack([np.stack([np.ones(len(share)), share]), np.zeros(2)])
    rows = (losses[tau] - losses[wins] for tau in _representatives(~wins, n, items))
    return max(greatest_bound(np.column_stack([row, np.ones(len(row))]), equal, [1.0, gamma]) for row in rows)


def margin_bounds(rule: PositionRule, n: int, gamma: float) -> tuple[float, float]:
    r"""L and U of [Pareek] section 4.4: how clearly a rule may decide for x where a share gamma prefers it to y.

    The least and largest
    $\min_{\sigma: x<y} g_P(\sigma) - \min_{\sigma: x>y} g_P(\sigma)$ over all P with a share gamma of votes for x
    over y. Negative means that x is above y. The rule respects every share gamma for which U is negative
    ([Pareek] Proposition 8, [Pareek] Proposition 10).

    >>> lower, upper = margin_bounds("borda", n=3, gamma=0.8)
    >>> round(lower, 6), round(upper, 6)
    (-2.1, -0.4)
    """
    place = _rankings(n)
    before = place[:, 0] < place[:, 1]
    share = before.astype(np.float64)
    # min_P max_tau [g(sigma) - g(tau)] is minus the same program with the two sides exchanged.
    return -_extreme(rule, n, ~before, share, gamma, 2), _extreme(rule, n, before, share, gamma, 2)


def majority_bound(rule: PositionRule, n: int, gamma: float) -> float:
    r"""$U^1$ of [Pareek] Proposition 11: how far from winning an item with a share gamma of first places can be.

    The largest $\min_{\sigma(x)=1} g_P - \min_{\sigma(x) \ne 1} g_P$ over all P; negative means that x wins.

    >>> majority_bound("plurality", n=3, gamma=0.6) < 0 < majority_bound("borda", n=3, gamma=0.6)
    True
    """
    first = _rankings(n)[:, 0] == 0
    return _extreme(rule, n, first, first.astype(np.float64), gamma, 1)


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
    return np.argsort(order)
