"""Raising an item gives it no worse place: up to how many items, and the profiles that show where it does."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
from scipy.optimize import linprog

from luce.aggregate import Ballots, axiom_margins, consensus


def test_kemeny_is_monotonic_up_to_five_items_and_not_among_six():
    """Raising x over z moves the answer along an edge of the polytope of rankings, on which x and z change places."""
    assert [bool(_edges_that_lower(n)) for n in (3, 4, 5)] == [False, False, False]
    assert [axiom_margins("kemeny", n).monotonic for n in (5, 6, 30)] == [True, False, False]
    votes = {"zxabcd": 2, "dxbzac": 3, "zcaxdb": 1, "cabdzx": 3}
    before = consensus(Ballots.from_orders(list(votes), weights=list(votes.values())), "kemeny")
    raised = {"zxabcd": 2, "dxbzac": 3, "zcaxdb": 1, "cabdzx": 1, "cabdxz": 2}
    after = consensus(Ballots.from_orders(list(raised), weights=list(raised.values())), "kemeny")
    assert (str(before), str(after)) == ("z > x > a > b > c > d", "a > d > x > b > z > c")  # x falls to the third place


def test_ranked_pairs_are_monotonic_among_four_items_and_not_among_six():
    """A raise lets a majority pass the next one, or turns the weakest: all orders of all majorities."""
    pairs = [(1, 0), *((x, y) for x in range(4) for y in range(x) if (x, y) != (1, 0))]
    for order in permutations(pairs[1:]):
        for turned in product([False, True], repeat=5):
            wins = [(0, 1), *((y, x) if turn else (x, y) for (x, y), turn in zip(order, turned, strict=True))]
            before = _places_of_ranked_pairs(wins, 4)
            for k in range(5):
                after = _places_of_ranked_pairs([*wins[:k], wins[k + 1], wins[k], *wins[k + 2 :]], 4)
                assert after[wins[k][1]] <= before[wins[k][1]]  # who lost the stronger one
                assert after[wins[k + 1][0]] <= before[wins[k + 1][0]]  # who won the weaker one
            after = _places_of_ranked_pairs([*wins[:5], wins[5][::-1]], 4)
            assert after[wins[5][1]] <= before[wins[5][1]]
    upper = [[3, 4, 7, 10, -15], [9, -13, -1, -5], [-2, -11, 8], [-12, 14], [6]]  # by how much a beats b, c, ...
    votes, raised = _by_margins(upper), _by_margins([upper[0], [9, -13, 12.5, -5], *upper[2:]])
    assert (consensus(votes, "ranked_pairs").ranks["b"], consensus(raised, "ranked_pairs").ranks["b"]) == (3, 4)
    assert [axiom_margins("ranked_pairs", n).monotonic for n in (4, 6)] == [True, False]


def _places_of_ranked_pairs(wins, n):
    reach = np.zeros((n, n), dtype=bool)
    for x, y in wins:
        if not reach[y, x]:
            up, down = reach[:, x].copy(), reach[y].copy()
            up[x] = down[y] = True
            reach |= up[:, None] & down[None, :]
    return 1 + reach.sum(axis=0)


def _by_margins(upper):
    """For each pair two ballots that agree on it alone, so often that one item beats the other by this much."""
    items = "abcdef"
    orders, weights = [], []
    for i, row in enumerate(upper):
        for j, margin in enumerate(row, i + 1):
            x, y = (items[i], items[j]) if margin > 0 else (items[j], items[i])
            rest = "".join(z for z in items if z not in x + y)
            orders += [x + y + rest, rest[::-1] + x + y]
            weights += [abs(margin)] * 2
    return Ballots.from_orders(orders, weights=weights, items=items)


def _edges_that_lower(n):
    place = np.array(list(permutations(range(n))))
    first, second = np.triu_indices(n, 1)
    signs = np.sign(place[:, second] - place[:, first]).astype(float)
    found = []
    for old in [int(np.flatnonzero(place[:, 0] == p)[0]) for p in range(n)]:  # the others have no names
        for new in np.flatnonzero(place[:, 0] > place[old, 0]):
            if not ((place[old, 1:] < place[old, 0]) & (place[new, 1:] > place[new, 0])).any():
                continue
            open_ = signs[old] != signs[new]
            between = (signs[:, ~open_] == signs[old, ~open_]).all(axis=1)
            between[[old, new]] = False
            lead = np.column_stack([signs[between][:, open_] - signs[old, open_], np.ones(between.sum())])
            level = np.append(signs[old, open_] - signs[new, open_], 0.0)[None, :]
            goal = np.append(np.zeros(open_.sum()), -1.0)
            box = [(-1, 1)] * int(open_.sum()) + [(None, 1)]
            clear = linprog(goal, A_ub=lead, b_ub=np.zeros(len(lead)), A_eq=level, b_eq=[0.0], bounds=box)
            if -clear.fun > 1e-7:
                found.append((old, int(new)))
    return found
