"""The slow, obvious forms that the rules are tested against: everything by enumeration of rankings."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np

from luce.aggregate import Ballots


def random_ballots(
    rng: np.random.Generator, n: int, m: int, *, ties: bool = False, truncate: bool = False, names: str = "abcdefghij"
) -> Ballots:
    orders = []
    for _ in range(m):
        order: list[object] = [names[i] for i in rng.permutation(n)]
        if ties and n > 2:
            k = int(rng.integers(0, n - 1))
            order[k : k + 2] = [order[k : k + 2]]
        if truncate:
            order = order[: int(rng.integers(1, len(order) + 1))]
        orders.append(order)
    return Ballots.from_orders(orders, weights=rng.integers(1, 4, m), items=names[:n])


def places(order, items):
    """Tier number of every item of a list of items or tied lists; items that are missing share the last tier."""
    found = {}
    for tier, entry in enumerate(order):
        for name in entry if isinstance(entry, list | tuple) else [entry]:
            found[name] = tier
    return [found.get(name, len(order)) for name in items]


def kendall(a, b, penalty=0.5):
    total = 0.0
    for x, y in combinations(range(len(a)), 2):
        s, t = np.sign(a[x] - a[y]), np.sign(b[x] - b[y])
        if s * t < 0:
            total += 1
        elif (s == 0) != (t == 0):
            total += penalty
    return total


def mean_places(tiers):
    tiers = np.asarray(tiers)
    return np.array([(tiers < t).sum() + ((tiers == t).sum() + 1) / 2 for t in tiers])


def footrule_cost(order_places, tiers):
    """Mean footrule over all strict orders that break the ties of a ballot."""
    n = len(tiers)
    total, count = 0.0, 0
    for breaking in permutations(range(n)):
        if all(tiers[breaking[k]] <= tiers[breaking[k + 1]] for k in range(n - 1)):
            position = np.empty(n)
            position[list(breaking)] = np.arange(n)
            total += np.abs(position - order_places).sum()
            count += 1
    return total / count


def best_orders(ballots: Ballots, cost) -> tuple[float, list[tuple[int, ...]]]:
    """The least total cost over all n! rankings, and all rankings that reach it."""
    filled = ballots.filled("last")
    values = {}
    for order in permutations(range(ballots.n_items)):
        place = np.empty(ballots.n_items, dtype=int)
        place[list(order)] = np.arange(ballots.n_items)
        values[order] = sum(w * cost(place, row) for row, w in zip(filled, ballots.weights, strict=True))
    least = min(values.values())
    return least, [order for order, value in values.items() if value <= least + 1e-9]
