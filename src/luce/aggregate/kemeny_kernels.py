"""Compiled parts of Kemeny's rule: dynamic programming over subsets, and insertion search.

`cost[x, y]` is what it costs to put x before y: the weight of the ballots that disagree.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray

DP_LIMIT = 16
"""Items up to which the subset program is used: 2^16 subsets take a few milliseconds."""


@part
def _half_sums(cost: FloatArray, first: int, count: int) -> FloatArray:
    """sums[S, x]: cost of putting the items of S (a subset of `count` items from `first`) before x."""
    n = cost.shape[0]
    sums = np.zeros((1 << count, n))
    for subset in range(1, 1 << count):
        low = 0
        while not (subset >> low) & 1:
            low += 1
        for x in range(n):
            sums[subset, x] = sums[subset & (subset - 1), x] + cost[first + low, x]
    return sums


@kernel
def optimal_subsets(
    cost: FloatArray, place: FloatArray, slack: float
) -> tuple[float, IntArray, IntArray, IntArray, float]:
    """All orders of least total cost: the cost, one of them, how many subsets start one by size, pairs, their number.

    An order costs `cost[x, y]` for every x before y and `place[x, k]` for x at place k. best(S) is the least cost of
    an order of S; rest(S) the least cost of everything that follows S. S starts an optimal order where best(S) +
    rest(S) is the optimum (within `slack`, for rounding): where S is the only such set of its size, its items come
    before all others in every optimal order. Bit y of `ahead[x]` is set where x comes before y in some optimal order,
    bit x of `ahead[n]` where x is first in one.
    """
    n = cost.shape[0]
    half = n // 2
    low_sums = _half_sums(cost, 0, half)
    high_sums = _half_sums(cost, half, n - half)
    low_mask = (1 << half) - 1
    full = (1 << n) - 1
    best = np.full(1 << n, np.inf)
    last = np.zeros(1 << n, dtype=np.int8)
    best[0] = 0.0
    size_of = np.zeros(1 << n, dtype=np.int8)
    for subset in range(full):
        size_of[subset] = size_of[subset >> 1] + (subset & 1)
        low, high = subset & low_mask, subset >> half
        for x in range(n):
            if not (subset >> x) & 1:
                value = best[subset] + low_sums[low, x] + high_sums[high, x] + place[x, size_of[subset]]
                grown = subset | (1 << x)
                if value < best[grown]:
                    best[grown] = value
                    last[grown] = x
    order = np.empty(n, dtype=np.int64)
    subset = full
    for k in range(n - 1, -1, -1):
        order[k] = last[subset]
        subset ^= 1 << order[k]
    optimum = best[full]
    starts = np.zeros(n + 1, dtype=np.int64)
    rest = np.full(1 << n, np.inf)
    rest[full] = 0.0
    ways = np.zeros(1 << n)
    ways[full] = 1.0
    ahead = np.zeros(n + 1, dtype=np.int64)
    starts[n] = 1
    for subset in range(full - 1, -1, -1):
        low, high = subset & low_mask, subset >> half
        for x in range(n):
            if not (subset >> x) & 1:
                grown = subset | (1 << x)
                step = low_sums[low, x] + high_sums[high, x] + place[x, size_of[subset]]
                rest[subset] = min(rest[subset], rest[grown] + step)
                if best[subset] + step + rest[grown] <= optimum + slack:
                    ways[subset] += ways[grown]
                    ahead[x] |= full & ~grown
                    if subset == 0:
                        ahead[n] |= 1 << x
        if best[subset] + rest[subset] <= optimum + slack:
            starts[size_of[subset]] += 1
    return optimum, order, starts, ahead, ways[0]


@kernel
def order_cost(cost: FloatArray, order: IntArray) -> float:
    """Total cost of an order."""
    total = 0.0
    for a in range(len(order)):
        for b in range(a + 1, len(order)):
            total += cost[order[a], order[b]]
    return total


@part
def _descend(cost: FloatArray, order: IntArray, slack: float) -> None:
    """Move single items to their best place until no move lowers the cost."""
    n = len(order)
    improved = True
    while improved:
        improved = False
        for start in range(n):
            x = order[start]
            best_change, best_place, change = -slack, start, 0.0
            for place in range(start - 1, -1, -1):
                y = order[place]
                change += cost[x, y] - cost[y, x]
                if change < best_change:
                    best_change, best_place = change, place
            change = 0.0
            for place in range(start + 1, n):
                y = order[place]
                change += cost[y, x] - cost[x, y]
                if change < best_change:
                    best_change, best_place = change, place
            if best_place != start:
                step = 1 if best_place > start else -1
                for place in range(start, best_place, step):
                    order[place] = order[place + step]
                order[best_place] = x
                improved = True


@kernel
def insertion_search(cost: FloatArray, order: IntArray, kicks: IntArray, slack: float) -> tuple[float, IntArray]:
    """Insertion search from `order`, then again after each kick: a row of `kicks` is pairs of places to exchange."""
    best = order.copy()
    _descend(cost, best, slack)
    value = order_cost(cost, best)
    for k in range(kicks.shape[0]):
        trial = best.copy()
        for j in range(0, kicks.shape[1] - 1, 2):
            a, b = kicks[k, j], kicks[k, j + 1]
            trial[a], trial[b] = trial[b], trial[a]
        _descend(cost, trial, slack)
        found = order_cost(cost, trial)
        if found < value - slack:
            best, value = trial, found
    return value, best
