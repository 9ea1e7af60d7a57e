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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from luce.aggregate.positional import PositionRule, is_expression, named, position_values
from luce.errors import SettingError
from luce.registry import canonical
from luce.types import FloatArray, IntArray

__all__ = [
    "LINEAR_RULES",
    "MAX_ITEMS",
    "MAX_SEARCHED",
    "condorcet_threshold",
    "is_consistent",
    "is_monotonic",
    "majority_bound",
    "majority_threshold",
    "margin_bounds",
    "plain_threshold",
]

LINEAR_RULES = frozenset({"kemeny", "footrule", "mode"})
"""Rules beside the positional ones whose objective is linear in the distribution."""

MAX_ITEMS = 5
MAX_SEARCHED = 4
"""Items up to which all pairs of answers are gone through for monotonicity and consistency."""
_CLEAR = 1e-7
"""A lead of an answer that is no rounding."""


@lru_cache(maxsize=8)
def _rankings(n: int) -> IntArray:
    """(n!, n): the position of every item, for every ranking."""
    return np.array(list(permutations(range(n))), dtype=np.int64)


def _losses(rule: PositionRule, n: int) -> FloatArray:
    """(n!, n!): the loss of the answer (row) where the vote is the column."""
    if not 2 <= n <= MAX_ITEMS:
        raise SettingError(f"n is {n}; these programs run over all n! rankings, for n from 2 to {MAX_ITEMS}.")
    place = _rankings(n)
    if isinstance(rule, str) and canonical(rule) in LINEAR_RULES:
        if canonical(rule) == "mode":
            return 1.0 - np.eye(len(place))
        if canonical(rule) == "footrule":
            result: FloatArray = np.abs(place[:, None, :] - place[None, :, :]).sum(axis=2).astype(np.float64)
            return result
        first, second = np.triu_indices(n, 1)
        signs = (place[:, first] < place[:, second]).astype(np.float64)
        return signs @ (1.0 - signs.T) + (1.0 - signs) @ signs.T
    if isinstance(rule, str) and not (named(rule) or is_expression(rule)):
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


def _solve(objective: FloatArray, **program: Any) -> float:
    """The least value; the programs here always have one, since some distribution fits."""
    result = linprog(objective, method="highs", **program)
    if result.status != 0:
        raise RuntimeError(f"HiGHS ended with: {result.message}")
    return float(result.fun)


def _extreme(losses: FloatArray, fixed: int, against: NDArray[np.bool_], share: FloatArray, gamma: float) -> float:
    """Max t with t <= g(sigma) - g(fixed) for all sigma in `against`, over P with P(share) = gamma."""
    rows = losses[fixed][None, :] - losses[against]
    count = rows.shape[1]
    return -_solve(
        np.append(np.zeros(count), -1.0),
        A_ub=np.column_stack([rows, np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.column_stack([np.stack([np.ones(count), share]), np.zeros(2)]),
        b_eq=[1.0, gamma],
        bounds=[(0, None)] * count + [(None, None)],
    )


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
    if not 0 <= gamma <= 1:
        raise SettingError(f"gamma is {gamma}; a share of the votes is between 0 and 1.")
    losses = _losses(rule, n)
    place = _rankings(n)
    before = place[:, 0] < place[:, 1]
    share = before.astype(np.float64)
    upper = [_extreme(losses, tau, before, share, gamma) for tau in _representatives(~before, n, 2)]
    # min_P max_tau [g(sigma) - g(tau)] is minus the same program with the two sides exchanged.
    lower = [_extreme(losses, sigma, ~before, share, gamma) for sigma in _representatives(before, n, 2)]
    return -max(lower), max(upper)


def majority_bound(rule: PositionRule, n: int, gamma: float) -> float:
    r"""$U^1$ of [Pareek] Proposition 11: how far from winning an item with a share gamma of first places can be.

    The largest $\min_{\sigma(x)=1} g_P - \min_{\sigma(x) \ne 1} g_P$ over all P; negative means that x wins.

    >>> majority_bound("plurality", n=3, gamma=0.6) < 0 < majority_bound("borda", n=3, gamma=0.6)
    True
    """
    if not 0 <= gamma <= 1:
        raise SettingError(f"gamma is {gamma}; a share of the votes is between 0 and 1.")
    losses = _losses(rule, n)
    first = _rankings(n)[:, 0] == 0
    share = first.astype(np.float64)
    return max(_extreme(losses, tau, first, share, gamma) for tau in _representatives(~first, n, 1))


def _largest_share(losses: FloatArray, fixed: int, against: NDArray[np.bool_], share: FloatArray) -> float:
    """The largest P(share) at which `fixed` is still at least as good as everything in `against`."""
    rows = losses[fixed][None, :] - losses[against]
    count = rows.shape[1]
    return -_solve(-share, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=np.ones((1, count)), b_eq=[1.0], bounds=(0, None))


def condorcet_threshold(rule: PositionRule, n: int) -> float:
    """The least eps of strong Condorcet: the largest share for x over y at which y may still be above x, minus 1/2.

    >>> round(condorcet_threshold("kemeny", 3), 6)
    0.166667
    """
    losses = _losses(rule, n)
    before = _rankings(n)[:, 0] < _rankings(n)[:, 1]
    share = before.astype(np.float64)
    return max(_largest_share(losses, tau, before, share) for tau in _representatives(~before, n, 2)) - 0.5


def majority_threshold(rule: PositionRule, n: int) -> float:
    """The least eps of the majority rule: the largest share of firsts with which x may still not win, minus 1/2."""
    losses = _losses(rule, n)
    first = _rankings(n)[:, 0] == 0
    share = first.astype(np.float64)
    return max(_largest_share(losses, tau, first, share) for tau in _representatives(~first, n, 1)) - 0.5


def plain_threshold(rule: PositionRule, n: int) -> float:
    """The least eps of the plain Condorcet rule: x is before every other by such a share and may still not win.

    >>> round(plain_threshold("kemeny", 3), 6), round(plain_threshold("mode", 3), 6)
    (0.0, 0.25)
    """
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    above = [np.append(-(place[:, 0] < place[:, y]).astype(np.float64), 1.0) for y in range(1, n)]
    best = 0.0
    for tau in _representatives(place[:, 0] != 0, n, 1):
        optimal = np.column_stack([losses[tau][None, :] - losses, np.zeros(count)])
        found = _solve(
            np.append(np.zeros(count), -1.0),
            A_ub=np.vstack([above, optimal]),
            b_ub=np.zeros(n - 1 + count),
            A_eq=np.append(np.ones(count), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * count + [(None, None)],
        )
        best = max(best, -found)
    return best - 0.5


def is_monotonic(rule: PositionRule, n: int) -> bool:
    """Whether raising x in a vote never gives it a worse place in the answer (axiom D7 of the dissertation).

    All pairs of an answer before and one after in which x stands lower, and all votes in which x changes places with
    the item before it, of which every raise is made. A program finds the profile at which each is the only answer by
    the clearest lead. A profile of n items with one more at the end of every vote shows as much for n + 1.

    >>> is_monotonic("borda", 3), is_monotonic("mode", 3)
    (True, False)
    """
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    index = {tuple(row): number for number, row in enumerate(place.tolist())}
    for vote in np.flatnonzero(place[:, 0] > 0):
        raised = place[vote].copy()
        raised[raised == raised[0] - 1] += 1
        raised[0] -= 1
        moved = np.zeros(count)
        moved[index[tuple(raised.tolist())]], moved[vote] = 1.0, -1.0
        for old in _representatives(np.ones(count, dtype=bool), n, 1):  # the others have no names
            for new in np.flatnonzero(place[:, 0] > place[old, 0]):
                if float((losses[new] - losses[old]) @ moved) >= -_CLEAR:
                    continue  # the raise does not speak for the new answer
                if _lead(losses, [(old, np.zeros(count)), (int(new), moved)], int(vote)) > _CLEAR:
                    return False
    return True


def _lead(losses: FloatArray, answers: list[tuple[int, FloatArray]], vote: int) -> float:
    """The clearest common lead of the answers, each at P plus a share of its own change; the share is P(vote)'s."""
    count = losses.shape[1]
    rows = []
    for answer, change in answers:
        worse = np.delete(losses[answer][None, :] - losses, answer, axis=0)
        rows.append(np.column_stack([worse, worse @ change, np.ones(len(worse))]))
    least = np.zeros(count + 2)
    least[vote], least[count] = -1.0, 1.0
    return -_solve(
        np.append(np.zeros(count + 1), -1.0),
        A_ub=np.vstack([*rows, least]),
        b_ub=np.zeros(sum(map(len, rows)) + 1),
        A_eq=np.append(np.ones(count), [0.0, 0.0])[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * (count + 1) + [(None, None)],
    )


def is_consistent(rule: PositionRule, n: int) -> bool:
    """Whether an item that wins in two groups of voters wins in both together (axiom D8 of the dissertation).

    >>> is_consistent("borda", 3), is_consistent("kemeny", 3)
    (True, False)
    """
    losses, place = _losses(rule, n), _rankings(n)
    count = len(place)
    first = np.flatnonzero(place[:, 0] == 0)
    for second in first:
        for joint in np.flatnonzero(place[:, 0] != 0):
            rows = []
            for answer, parts in ((first[0], (1, 0)), (second, (0, 1)), (joint, (0.5, 0.5))):
                worse = np.delete(losses[answer][None, :] - losses, answer, axis=0)
                rows.append(np.column_stack([parts[0] * worse, parts[1] * worse, np.ones(len(worse))]))
            sums = np.zeros((2, 2 * count + 1))
            sums[0, :count], sums[1, count:-1] = 1.0, 1.0
            lead = -_solve(
                np.append(np.zeros(2 * count), -1.0),
                A_ub=np.vstack(rows),
                b_ub=np.zeros(sum(map(len, rows))),
                A_eq=sums,
                b_eq=[1.0, 1.0],
                bounds=[(0, None)] * (2 * count) + [(None, None)],
            )
            if lead > _CLEAR:
                return False
    return True
