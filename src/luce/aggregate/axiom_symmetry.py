r"""Worst cases of a rule over all distributions of rankings where symmetry leaves few numbers, for any number of items.

A positional rule sees only the places of the items in question: averaging a distribution over the renamings of all
others changes neither their scores nor the shares that an axiom asks about. Rules on majorities and runoffs have closed
forms, with their reasons in `closed_margins`.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from scipy.optimize import linprog

from luce.types import FloatArray

CLOSED_RULES = frozenset({"copeland", "instant_runoff", "kemeny", "minimax", "mode", "ranked_pairs", "schulze"})
MAX_MONOTONIC = {"kemeny": 5, "ranked_pairs": 5}
"""Items up to which raising x in a vote never gives it a worse place; beyond, profiles in the tests show that it may.

Going through all cases shows the former: raising x over z changes one margin, and Kemeny's answer then moves along an
edge of the polytope of all rankings, that of ranked pairs where two majorities change places in their order.
"""


def winner_threshold(h: FloatArray) -> float:
    r"""The least eps of the plain Condorcet rule ([Pareek] Definition 12) for a positional rule with scores h.

    The largest t such that x is before every other item in a share t of the votes, while some z has at least its
    score: a program in the probabilities that x and z have places i and j.

    >>> round(winner_threshold(np.array([1.0, 0.0, 0.0, 0.0])), 6)  # plurality: a quarter of the first places each
    0.25
    """
    n = len(h)
    place = np.array([(i, j) for i in range(n) for j in range(n) if i != j])
    x, z = place.T
    before_z = (x < z).astype(np.float64)
    shares = [before_z]
    if n > 2:
        shares.append((n - 1.0 - x - before_z) / (n - 2.0))  # the mean over the others, of whom none differs
    rows = [*(np.append(-share, 1.0) for share in shares), np.append(h[x] - h[z], 0.0)]
    count = len(place)
    found = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.stack(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(count), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"HiGHS ended with: {found.message}")
    return float(-found.fun) - 0.5


def top_threshold(h: FloatArray, k: int) -> float:
    r"""The least eps such that an item among the first k of a share above 1/2 + eps is among the first k of the answer.

    Where x has place i, k others have at most the mean of the k best scores but h(i): their lead d(i). With a the
    greatest lead for places up to k and b that beyond, x may stay outside up to the share b / (b - a). For k = 1 that
    is the majority rule, [Pareek] Definition 11.

    >>> round(top_threshold(np.array([2.0, 1.0, 0.0]), 1), 6)
    0.166667
    """
    n = len(h)
    leads = np.array([np.sort(np.delete(h, i))[::-1][:k].mean() - h[i] for i in range(n)])
    inside, outside = float(leads[:k].max()), float(leads[k:].max())
    if inside >= 0:
        return 0.5
    # Without a lead anywhere, x is always inside.
    return max(outside, 0.0) / (max(outside, 0.0) - inside) - 0.5


def closed_margins(rule: str, n: int) -> dict[str, float | bool | None]:
    r"""Margins of rules on majorities and of the runoff, for any number of items.

    `schulze` and `ranked_pairs` put y above x against a share $\gamma$ only where a chain of majorities of at least
    $\gamma$ leads from y to x; that closes a circle of m <= n items, of whose m pairs a vote can have m - 1, so that
    $\gamma \le 1 - 1/m$: strong Condorcet with the least eps that any rule can have, $1/2 - 1/n$. `copeland` counts a
    bare majority as much as any, and three items in a circle of shares 1/2, 1/2 and almost 1 are tied: never. All three
    put the winner of all pairs first. Raising x only adds to what `schulze` and `copeland` count for x and to nothing
    that they count for others; what `ranked_pairs` lock elsewhere may change with it (`MAX_MONOTONIC`).

    `kemeny` reaches the same least eps. Let an optimum have y before x and m - 1 items between them. Moving y behind
    them all gains nothing, nor does moving x before them all: added up, the shares of y before z, of z before x, over
    all z between, and twice that of y before x are at least half of their number, 2m. A vote with y before x adds at
    most 2m to these, one with x before y at most m - 1 (no z is both behind y and before x), so that
    $(1 - \gamma) 2m + \gamma (m - 1) \ge m$, or $\gamma \le 1 - 1/(m + 1)$. A winner that is raised stays one.

    `mode` is led by one vote that is as frequent as each other one: against it stand N = n!/2 votes with x before y, or
    N = (n - 1)! with x first, and the share is N / (N + 1). The winner of all pairs is first in (n - 1)! votes and
    behind one other item each in n - 1.

    `minimax` looks at the worst defeat alone: behind a third item that all prefer to both, x and y are tied, whatever
    all votes say of the two. It puts the winner of all pairs first, and raising x makes no defeat of x worse and none
    of another better.

    `instant_runoff` strikes out x only if none has fewer first places, so that with m items left some y has 1/m or more
    of them and x is before y in at most $1 - 1/m$: plain Condorcet with $1/2 - 1/n$. A majority of first places is
    never struck out. An item that is second everywhere goes first, whatever the share over another: strong Condorcet
    never, and two items without first places are tied, whatever all votes say.
    """
    if rule == "mode":
        pair, first = factorial(n) // 2, factorial(n - 1)
        shares = {"iia": pair, "condorcet": pair, "winner": first + n - 2, "majority": first}
        margins: dict[str, float | bool | None] = {name: 0.5 - 1 / (votes + 1) for name, votes in shares.items()}
        return {**margins, "pareto": True, "monotonic": n == 2, "consistent": n == 2}
    if rule == "instant_runoff":
        runoff: dict[str, float | bool | None] = {"iia": 0.5, "condorcet": 0.5, "winner": max(0.5 - 1 / n, 0.0)}
        # Two items have a majority and nothing else.
        own = runoff if n > 2 else {"iia": 0.0, "condorcet": 0.0, "winner": 0.0}
        return {**own, "majority": 0.0, "pareto": n == 2, "monotonic": n == 2, "consistent": n == 2}
    pairs = (0.5 if n > 2 else 0.0) if rule in ("copeland", "minimax") else 0.5 - 1 / n
    majorities: dict[str, float | bool | None] = {"iia": pairs, "condorcet": pairs, "winner": 0.0, "majority": 0.0}
    monotonic = n <= MAX_MONOTONIC.get(rule, n)
    return {**majorities, "pareto": rule != "minimax" or n == 2, "monotonic": monotonic, "consistent": n == 2}
