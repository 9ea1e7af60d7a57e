"""Who can be compared with whom: components of the graph of games, and of the graph of wins."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from luce.types import FloatArray, IntArray

__all__ = ["linked", "won_or_drawn"]


def linked(n: int, first: IntArray, second: IntArray) -> IntArray:
    """The component of every item in the graph of games; 0 is the largest, items without games are alone.

    >>> linked(4, np.array([0, 2]), np.array([1, 1])).tolist()
    [0, 0, 0, 1]
    """
    return _components(n, first, second, "weak")


def won_or_drawn(n: int, better: IntArray, worse: IntArray) -> IntArray:
    """The strong component of every item, with an edge from `worse` to `better` for every win and both ways for a draw.

    Strengths have a finite maximum of the likelihood iff every component of the games is one strong component
    (Ford, 1957): otherwise some items never lose, or never win, against all the others.

    >>> won_or_drawn(3, np.array([0, 1]), np.array([1, 0])).tolist()
    [0, 0, 1]
    """
    return _components(n, worse, better, "strong")


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
    return rank[found]
