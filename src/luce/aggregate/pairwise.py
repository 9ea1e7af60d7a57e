"""Pairwise support: how much weight puts x before y; majority graph, components and cycles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from luce.aggregate.ballots import Ballots
from luce.types import FloatArray, IntArray


def before_weights(ballots: Ballots, unranked: str = "last") -> FloatArray:
    """(items, items): the weight of the ballots that put x strictly before y.

    >>> before_weights(Ballots.from_orders([["a", "b"], ["b", "a"]], weights=[2, 1])).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    tiers = ballots.filled(unranked)
    ranked = tiers >= 0
    n = tiers.shape[1]
    weights = np.zeros((n, n))
    for x in range(n):
        before = (tiers[:, x, None] < tiers) & ranked[:, x, None] & ranked
        weights[x] = ballots.weights @ before
    return weights


def support(ballots: Ballots, unranked: str = "last") -> FloatArray:
    """(items, items): P(x before y), a tie counting half; 1/2 where no ballot compares the two, and on the diagonal."""
    weights = before_weights(ballots, unranked)
    ranked = ballots.filled(unranked) >= 0
    compared = (ranked * ballots.weights[:, None]).T @ ranked
    with np.errstate(invalid="ignore"):
        share = 0.5 + 0.5 * (weights - weights.T) / compared
    return np.where(compared > 0, share, 0.5)


def margins(weights: FloatArray, tolerance: float | None = None) -> FloatArray:
    """W - W', with differences that are only rounding set to 0."""
    margin = weights - weights.T
    slack = 1e-10 * float(weights.max(initial=0.0)) if tolerance is None else tolerance
    margin[np.abs(margin) <= slack] = 0.0
    return margin


def ordered_components(edges: NDArray[np.bool_]) -> list[IntArray]:
    """Strongly connected components of a digraph, sources first: no edge leads from a later to an earlier one."""
    count, labels = connected_components(csr_array(edges), directed=True, connection="strong")
    between = np.zeros((count, count), dtype=bool)
    rows, columns = np.nonzero(edges)
    between[labels[rows], labels[columns]] = True
    np.fill_diagonal(between, False)
    incoming = between.sum(axis=0)
    ready = sorted(np.flatnonzero(incoming == 0).tolist(), reverse=True)
    order = []
    while ready:
        component = ready.pop()
        order.append(component)
        targets = np.flatnonzero(between[component])
        incoming[targets] -= 1
        ready.extend(sorted((t for t in targets.tolist() if incoming[t] == 0), reverse=True))
    return [np.flatnonzero(labels == component).astype(np.int64) for component in order]


def shortest_cycle(edges: NDArray[np.bool_], nodes: IntArray) -> list[int]:
    """A shortest cycle through the first node of a strongly connected component, by breadth-first search."""
    inside = np.zeros(len(edges), dtype=bool)
    inside[nodes] = True
    start = int(nodes[0])
    parent = {start: start}
    frontier = [start]
    while frontier:
        reached = []
        for node in frontier:
            for target in np.flatnonzero(edges[node] & inside).tolist():
                if target == start:
                    cycle = [node]
                    while cycle[-1] != start:
                        cycle.append(parent[cycle[-1]])
                    return cycle[::-1]
                if target not in parent:
                    parent[target] = node
                    reached.append(target)
        frontier = reached
    return []
