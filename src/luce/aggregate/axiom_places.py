r"""Margins of the footrule, for more items than all rankings can be gone through.

The footrule sees only how often each item has each place. Where an axiom asks about x and one other item at a time, a
distribution of rankings is as good as the shares $q_{iyj}$ of votes with x at place i and y at place j: for each i
they are a doubly stochastic matrix times a number, and each such matrix is a mixture of rankings (Birkhoff). That a
ranking is an optimum is linear in them too, by the dual of the assignment problem, so that every margin is a few linear
programs in about $n^3$ numbers in place of $n!$.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from luce.errors import SettingError
from luce.types import FloatArray

MAX_PLACES = 16
"""Items up to which the programs take a few seconds."""


def footrule_margins(n: int) -> dict[str, float | bool | None]:
    r"""The largest shares at which an optimum of the footrule still goes against x, minus 1/2.

    From four items on not even all votes for x over y bind it, and from three on it is neither monotonic nor
    consistent: what fails for some items fails for more, with the others at the end of every vote.

    >>> found = footrule_margins(4)
    >>> round(found["condorcet"], 3), round(found["winner"], 3), round(found["majority"], 3)
    (0.5, 0.25, 0.121)
    """
    if n > MAX_PLACES:
        raise SettingError(
            f"n is {n}; the margins of the footrule come from programs in n^3 numbers, up to n = {MAX_PLACES}."
        )
    places = _Places(n)
    every = np.stack([places.row(joint=places.before(y), least=-1.0) for y in range(n - 1)])
    winner = max(places.largest(places.row(least=1.0), _optimum(n, x), every) for x in range(1, n))
    majority = max(places.largest(places.row(x=np.eye(n)[0]), _optimum(n, x)) for x in range(1, n))
    strong = 1.0
    if n < 4:
        pair = places.row(joint=places.before(0))
        strong = max(places.largest(pair, _optimum(n, x, y)) for x in range(1, n) for y in range(x))
    return {
        "iia": strong - 0.5,
        "condorcet": strong - 0.5,
        "winner": winner - 0.5,
        "majority": majority - 0.5,
        "pareto": n < 4,
        "monotonic": n < 3,
        "consistent": n < 3,
    }


def _optimum(n: int, x: int, y: int | None = None) -> list[int]:
    """Places of x, y and the others, who have no names."""
    named = [x] if y is None else [x, y]
    return [*named, *(place for place in range(n) if place not in named)]


class _Places:
    """The shares of places as variables of a program: those of x, joint ones, the dual's potentials, and a share t."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(np.float64)
        rows = []
        for i in range(n):
            at = -np.eye(n)[i]
            for y in range(n - 1):
                joint = np.zeros((n, n - 1, n))
                joint[i, y] = 1.0
                rows.append(self.row(x=at, joint=joint))
            for j in range(n):
                joint = np.zeros((n, n - 1, n))
                joint[i, :, j] = 1.0
                rows.append(self.row(x=at * (i != j), joint=joint))  # at x's own place there is no other item
        self.distribution = np.stack([*rows, self.row(x=np.ones(n))])

    def row(
        self,
        x: FloatArray | None = None,
        joint: FloatArray | None = None,
        items: FloatArray | None = None,
        places: FloatArray | None = None,
        least: float = 0.0,
    ) -> FloatArray:
        """One line of a program: a number for each variable, 0 where none is given."""
        n = self.n
        blocks = zip((x, joint, items, places), (n, n * (n - 1) * n, n, n), strict=True)
        return np.concatenate(
            [*(np.zeros(size) if given is None else given.ravel() for given, size in blocks), [least]]
        )

    def before(self, y: int) -> FloatArray:
        """Picks the joint shares with x before the other item y."""
        joint = np.zeros((self.n, self.n - 1, self.n))
        joint[:, y] = np.triu(np.ones((self.n, self.n)), 1)
        return joint

    def largest(self, objective: FloatArray, optimum: list[int], shares: FloatArray | None = None) -> float:
        """The largest objective over all shares for which the ranking is optimal, and t at most each of `shares`."""
        n, costs = self.n, []
        for item in range(n):
            for place in range(n):
                joint = np.zeros((n, n - 1, n))
                if item:
                    joint[:, item - 1] = -self.apart[:, place]
                own = None if item else -self.apart[:, place]
                costs.append(self.row(own, joint, np.eye(n)[item], np.eye(n)[place]))
        met = np.zeros(n * n, dtype=bool)
        met[np.arange(n) * n + optimum] = True
        dual = np.stack(costs)
        lower = dual[~met] if shares is None else np.vstack([dual[~met], -shares])
        equal = np.vstack([self.distribution, dual[met]])
        right = np.zeros(len(equal))
        right[len(self.distribution) - 1] = 1.0
        free = len(objective) - (2 * n + 1)
        result = linprog(
            -objective,
            A_ub=lower,
            b_ub=np.zeros(len(lower)),
            A_eq=equal,
            b_eq=right,
            bounds=[(0, None)] * free + [(None, None)] * (2 * n) + [(0, 1)],
            method="highs",
        )
        if result.status != 0:
            raise RuntimeError(f"HiGHS ended with: {result.message}")
        return float(-result.fun)
