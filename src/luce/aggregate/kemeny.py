"""Kemeny's rule: the order with the least total Kendall distance to the ballots, with a proof or a bound."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.kemeny_program import (
    DP_LIMIT,
    KemenyResult,
    insertion_search,
    optimal_subsets,
    order_cost,
    pairwise_bound,
    solve_program,
)
from luce.aggregate.positional import margins, ordered_components
from luce.aggregate.result import closure, uncrossed
from luce.checks import fits_in_memory
from luce.types import FloatArray, IntArray

EXACT_LIMIT = 120
"""Items of a knot of majority cycles up to which the integer program is tried; larger ones are searched."""


def kemeny_order(weights: FloatArray, *, time_limit: float = 60.0, exact_limit: int = EXACT_LIMIT) -> KemenyResult:
    """Solve Kemeny's problem for a pairwise matrix: `weights[x, y]` votes put x before y.

    Items of different components of the majority graph (ties included) stand in the same order in every optimal
    ranking, so each component is solved alone: by dynamic programming over subsets up to 16 items, by integer
    programming beyond, by insertion search with the best bound found where that is too large or too slow.
    """
    n = len(weights)
    fits_in_memory(48.0 * n**2, f"Kemeny's ranking of {n:,} items", "take a rule of positions, such as borda")
    deadline = time.monotonic() + time_limit
    margin = margins(weights)
    cost = np.ascontiguousarray(weights.T)
    parts = [
        _solve_weak(cost[np.ix_(part, part)], margin[np.ix_(part, part)], part, deadline, exact_limit)
        for part in ordered_components(margin >= 0)
    ]
    found, inside = _together(cost, parts)
    certain = _blocks(parts, inside[:, None] < inside[None, :])
    cuts = np.concatenate([np.append(part.cuts, True) for part in parts])[:-1]
    return found._replace(cuts=cuts, certain=certain, firsts=parts[0].firsts)


def _together(cost: FloatArray, parts: list[KemenyResult]) -> tuple[KemenyResult, IntArray]:
    """Components one after another, as far as they add up, and the number of the component of every item.

    Everything between components costs the least it can, whichever order is optimal inside.
    """
    inside = np.zeros(len(cost), dtype=np.int64)
    for number, part in enumerate(parts):
        inside[part.order] = number
    across = float(np.minimum(cost, cost.T)[inside[:, None] < inside[None, :]].sum())
    found = KemenyResult(
        order=np.concatenate([part.order for part in parts]),
        value=across + sum(part.value for part in parts),
        bound=across + sum(part.bound for part in parts),
        cuts=np.empty(0, dtype=bool),
        cuts_known=all(part.cuts_known for part in parts),
        method=max((part.method for part in parts), key=["majority", "subsets", "program", "search"].index),
        optima=float(np.prod([part.optima for part in parts])),
        counted=all(part.counted for part in parts),
    )
    return found, inside


def _blocks(parts: list[KemenyResult], certain: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What is certain between components, with what is certain inside each."""
    for part in parts:
        items = np.sort(part.order)
        certain[np.ix_(items, items)] = part.certain
    return certain


def _solve_weak(
    cost: FloatArray, margin: FloatArray, items: IntArray, deadline: float, exact_limit: int
) -> KemenyResult:
    """A component of the graph of majorities and ties."""
    # Beyond that size the strict majorities are solved by themselves, and pairs that are tied between them are free.
    strict = [np.arange(len(items))] if len(items) <= DP_LIMIT else ordered_components(margin > 0)
    parts = []
    for part in strict:
        solved = _solve_strict(cost[np.ix_(part, part)], margin[np.ix_(part, part)], deadline, exact_limit)
        parts.append(solved._replace(order=part[solved.order], firsts=part[solved.firsts]))
    found = parts[0]
    if len(items) > DP_LIMIT:
        found, inside = _together(cost, parts)
        forced = closure(_blocks(parts, (inside[:, None] != inside[None, :]) & (margin > 0)))
        cuts = uncrossed(forced[np.ix_(found.order, found.order)])
        firsts = np.flatnonzero(~forced.any(axis=0))
        counted = len(strict) == 1 and found.counted
        found = found._replace(cuts=cuts, certain=forced, counted=counted, firsts=firsts)
    return found._replace(order=items[found.order], firsts=items[found.firsts])


def _solve_strict(cost: FloatArray, margin: FloatArray, deadline: float, exact_limit: int) -> KemenyResult:
    """One component, by the method that its size allows."""
    n = len(cost)
    if n == 1:
        none = np.zeros((1, 1), dtype=bool)
        return KemenyResult(np.zeros(1, dtype=np.int64), 0.0, 0.0, np.empty(0, dtype=bool), True, "majority", none)
    cost = np.ascontiguousarray(cost)
    if n <= DP_LIMIT:
        slack = 1e-9 * max(1.0, float(cost.max()))
        return by_subsets(cost, np.zeros((n, n)), slack)
    order = _search(cost, margin)
    if n > exact_limit:
        value, unknown = float(order_cost(cost, order)), np.zeros((n, n), dtype=bool)
        found = KemenyResult(order, value, pairwise_bound(cost), np.ones(n - 1, dtype=bool), False, "search")
        return found._replace(certain=unknown, counted=False, firsts=order[:1])
    found = solve_program(cost, order, deadline - time.monotonic(), _step(margin))
    sure = by_cuts(found.order, found.cuts) if found.cuts_known and found.optimal else np.zeros((n, n), dtype=bool)
    one = bool(found.cuts_known and found.cuts.all())
    may = np.flatnonzero(~sure.any(axis=0))
    return found._replace(firsts=may, certain=sure, optima=1.0 if one else 2.0 * found.cuts_known or 1.0, counted=one)


def by_subsets(cost: FloatArray, place: FloatArray, slack: float) -> KemenyResult:
    """What all optimal orders of up to `DP_LIMIT` items agree on."""
    n = len(cost)
    value, order, starts, ahead, optima = optimal_subsets(cost, place, slack)
    some = (ahead[:, None] >> np.arange(n)) & 1
    certain, firsts = (some[:n] == 1) & (some[:n].T == 0), np.flatnonzero(some[n])
    return KemenyResult(order, value, value, starts[1:n] == 1, True, "subsets", certain, optima, firsts=firsts)


def by_cuts(order: IntArray, cuts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[x, y] where a cut of the order lies between x and y."""
    tier = np.empty(len(order), dtype=np.int64)
    tier[order] = np.concatenate([[0], np.cumsum(cuts)])
    return np.asarray(tier[:, None] < tier[None, :])


def _search(cost: FloatArray, margin: FloatArray) -> IntArray:
    """Insertion search from Borda's and from Copeland's order, with random kicks from a fixed seed."""
    n = len(cost)
    rng = np.random.default_rng(0)
    rounds = int(np.clip(20_000_000 // n**2, 20, 500))
    kicks = rng.integers(0, n, size=(rounds, 8))
    slack = 1e-12 * max(1.0, float(np.abs(margin).sum()))
    starts = [-margin.sum(axis=1), -np.sign(margin).sum(axis=1)]
    found = [insertion_search(cost, np.argsort(s, kind="stable").astype(np.int64), kicks, slack) for s in starts]
    return np.asarray(min(found, key=lambda pair: pair[0])[1])


def _step(margin: FloatArray) -> float:
    """The least difference of two different costs: reversing a pair changes the cost by its margin."""
    whole = np.abs(margin[np.triu_indices(len(margin), 1)])
    if not np.array_equal(whole, np.round(whole)):
        return 0.0
    return float(np.gcd.reduce(whole.astype(np.int64)))
