"""Who can be compared with whom: components of the graph of games, and of the graph of wins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, breadth_first_order, connected_components

from luce.types import FloatArray, IntArray


class Results(NamedTuple):
    """Which wins and draws occurred, each pair of items once or more."""

    n: int
    winner: IntArray
    loser: IntArray
    drawn_a: IntArray = np.empty(0, dtype=np.int64)
    drawn_b: IntArray = np.empty(0, dtype=np.int64)
    draws_modelled: bool = False
    """True where draws have a probability with a parameter that is learned."""

    @property
    def better(self) -> IntArray:
        """Heads of the edges "beat or drew with"; draws go both ways."""
        return np.concatenate([self.winner, self.drawn_a, self.drawn_b])

    @property
    def worse(self) -> IntArray:
        """Tails of these edges."""
        return np.concatenate([self.loser, self.drawn_b, self.drawn_a])


def linked(n: int, first: IntArray, second: IntArray) -> IntArray:
    """The component of every item in the graph of games; 0 is the largest, items without games are alone.

    >>> linked(4, np.array([0, 2]), np.array([1, 1])).tolist()
    [0, 0, 0, 1]
    """
    return _components(n, first, second, "weak")


def strong_components(results: Results, also: tuple[IntArray, IntArray] | None = None) -> IntArray:
    """The strong component of every item in the graph of "beat or drew with", with more edges where `also` has them.

    Strengths have a finite maximum of the likelihood iff every component of the games is one strong component
    (Ford, 1957): otherwise some items never lose, or never win, against all the others.

    >>> strong_components(Results(3, np.array([0, 1]), np.array([1, 0]))).tolist()
    [0, 0, 1]
    """
    better, worse = results.better, results.worse
    if also is not None:
        better, worse = np.concatenate([better, also[0]]), np.concatenate([worse, also[1]])
    return _components(results.n, worse, better, "strong")


def reached(results: Results, start: int, *, down: bool) -> FloatArray:
    """True for items that a chain of wins and draws leads to from `start` (down), or from which one leads to it."""
    tail, head = (results.better, results.worse) if down else (results.worse, results.better)
    edges = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(results.n, results.n))
    found = np.zeros(results.n, dtype=bool)
    found[breadth_first_order(edges, start, return_predecessors=False)] = True
    return found


def runs_away(results: Results) -> bool:
    """Whether a learned tie parameter has no finite maximum, together with the differences of strengths.

    It grows for ever, with every win by a difference that grows as fast and every draw by one that grows no faster,
    unless some cycle of results has more wins than draws: x_loser <= x_winner - 1 and |x_a - x_b| <= 1 for draws have
    a solution iff no cycle is negative.

    >>> a, b = np.array([0]), np.array([1])
    >>> runs_away(Results(2, a, b, a, b, True)), runs_away(Results(2, np.array([0, 1]), np.array([1, 0]), a, b, True))
    (True, False)
    """
    n, winner, loser = results.n, results.winner, results.loser
    if not (results.draws_modelled and len(results.drawn_a)):
        return False
    if np.isin(winner * n + loser, loser * n + winner).any():
        return False
    # An item 0 from which all others are reached; a win outweighs a draw of the same pair.
    tail = np.concatenate([np.zeros(n, dtype=np.int64), winner + 1, results.drawn_a + 1, results.drawn_b + 1])
    head = np.concatenate([np.arange(1, n + 1), loser + 1, results.drawn_b + 1, results.drawn_a + 1])
    length = np.repeat([float(n), -1.0, 1.0], [n, len(winner), 2 * len(results.drawn_a)])
    order = np.lexsort((length, head, tail))
    tail, head, length = tail[order], head[order], length[order]
    first = np.concatenate([[True], (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])])
    edges = sparse.csr_array((length[first], (tail[first], head[first])), shape=(n + 1, n + 1))
    try:
        bellman_ford(edges, indices=0)
    except NegativeCycleError:
        return False
    return True


def _components(n: int, tail: IntArray, head: IntArray, connection: str) -> IntArray:
    pair = tail * n + head
    pair = np.flatnonzero(np.bincount(pair)) if n * n < 4 * len(pair) else np.unique(pair)
    tail, head = pair // n, pair % n
    weight: FloatArray = np.ones(len(pair))
    edges = sparse.csr_array((weight, (tail, head)), shape=(n, n))
    count, found = connected_components(edges, directed=True, connection=connection)
    sizes = np.bincount(found, minlength=count)
    firsts = np.full(count, n)
    np.minimum.at(firsts, found, np.arange(n))
    rank = np.empty(count, dtype=np.int64)
    rank[np.lexsort((firsts, -sizes))] = np.arange(count)
    result: IntArray = rank[found]
    return result
