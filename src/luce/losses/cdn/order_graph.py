"""Order graphs and the networks over their edges: what a cumulative distribution network makes of its target."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import RowsError, SettingError
from luce.numerics.segments import query_index, runs
from luce.types import FloatArray, IntArray

MOST_EDGES = 50_000_000
_SHOWN = 8
"""Documents of a circle that an error names."""


class Edges(NamedTuple):
    """Edges of order graphs, one an observation: `better` is preferred to `worse`; graph g owns `graphs[g]` on."""

    better: IntArray
    worse: IntArray
    weight: FloatArray
    graphs: IntArray


class Pairs(NamedTuple):
    """Pairs of edges that share a function of the network, by position among the edges, sorted by graph."""

    one: IntArray
    other: IntArray
    weight: FloatArray
    graphs: IntArray


class Hubs(NamedTuple):
    """Groups of edges that meet all with all, laid end to end; graph g owns the hubs `graphs[g]` on."""

    edges: IntArray
    starts: IntArray
    graphs: IntArray


def edge_counts(said: Statements) -> IntArray:
    """How many edges every closed chain implies: its pairs of different tiers.

    >>> edge_counts(Statements.of_grades(np.array([2.0, 1.0, 1.0, 0.0]), np.array([0, 4]))).tolist()
    [5]
    """
    inside = np.add.reduceat(np.diff(said.tiers) ** 2, said.chains[:-1]) if len(said.open) else said.chains[:-1]
    return np.asarray((np.diff(said.by_chain) ** 2 - inside) // 2)


def edges_of(said: Statements) -> Edges:
    """Every pair of different tiers of every closed chain, best first: by the worse document, then by the better one.

    Ties say nothing.
    """
    n_edges = edge_counts(said)
    if n_edges.sum() > MOST_EDGES:
        raise SettingError(
            f"The grades imply {n_edges.sum():,} edges, more than the {MOST_EDGES:,} that this topology may list; "
            "take topology='full', 'disconnected' or 'random', which do not list them."
        )
    bounds = np.concatenate([[0], np.cumsum(n_edges)]).astype(np.int64)
    return _edges_at(said, np.arange(bounds[-1]), bounds, bounds[said.observations])


def _edges_at(said: Statements, index: IntArray, bounds: IntArray, graphs: IntArray) -> Edges:
    """The edges of these places among all that closed chains imply, where all are numbered through."""
    first = np.repeat(said.by_chain[:-1], np.diff(said.by_chain))
    above = np.repeat(said.tiers[:-1], np.diff(said.tiers)) - first
    total = np.concatenate([[0], np.cumsum(above)]).astype(np.int64)
    worse = np.searchsorted(total, index, side="right") - 1
    better = first[worse] + index - total[worse]
    weight = said.weight[np.searchsorted(bounds, index, side="right") - 1]
    return Edges(said.rows[better], said.rows[worse], weight, graphs)


def order_graphs(said: Statements, *, closure: bool, acyclic: bool) -> Statements:
    """Closed chains of explicit preferences and lists; with `closure` those that they imply beside.

    >>> said = Statements.of_comparisons(Comparisons(wins=[(0, 1), (1, 2)]), np.array([0, 3]))
    >>> edges = edges_of(order_graphs(said, closure=True, acyclic=True))
    >>> edges.better.tolist(), edges.worse.tolist()
    ([0, 1, 0], [1, 2, 2])
    """
    if acyclic:
        _refuse_circles(np.column_stack(edges_of(said)[:2]), said.offsets)
    return _closed(said) if closure else said


def _refuse_circles(wins: IntArray, offsets: IntArray) -> None:
    """Name the query and the documents of a circle, the shortest through its first row."""
    circles = Comparisons(wins=wins).cycles()
    if circles:
        circle = _shortest_circle(wins, circles[0][0])
        shown, more = circle[:_SHOWN], ", ..." if len(circle) > _SHOWN else ""
        raise RowsError(
            f"{{query}}: the order graph runs in a circle through {{documents}}{more} (each is preferred to the next, "
            "the last to the first), and acyclic=True was given; take a preference out, or let circles be weighed "
            "against each other with acyclic=False.",
            int(query_index(offsets)[circle[0]]),
            shown,
        )


def _graph(wins: IntArray) -> tuple[IntArray, Any]:
    """The rows that preferences name, and a sparse matrix of those that are better by those that are worse."""
    rows, ends = np.unique(wins, return_inverse=True)
    better, worse = ends.reshape(-1, 2).T
    return rows, sparse.csr_array((np.ones(len(better)), (better, worse)), shape=(len(rows), len(rows)))


def _shortest_circle(wins: IntArray, first: int) -> list[int]:
    """Rows from the first on, each preferred to the next, the last to the first, where there is a circle through it."""
    rows, graph = _graph(wins)
    start = int(np.searchsorted(rows, first))
    steps, before = sparse.csgraph.dijkstra(graph, indices=start, unweighted=True, return_predecessors=True)
    into = graph[:, [start]].nonzero()[0]
    circle = [int(into[np.argmin(steps[into])])]
    while circle[-1] != start:
        circle.append(int(before[circle[-1]]))
    return list(map(int, rows[circle[::-1]]))


def _closed(said: Statements) -> Statements:
    """The preferences of every observation and all that they imply, which weigh 1 each, a chain each."""
    edges, wins, weights, counts = edges_of(said), [], [], []
    for first, last in pairwise(edges.graphs.tolist()):
        direct = np.column_stack(edges[:2])[first:last]
        more = _implied(direct)
        wins += [direct, more]
        weights += [edges.weight[first:last], np.ones(len(more))]
        counts.append(len(direct) + len(more))
    n = sum(counts)
    return said._replace(
        rows=np.concatenate([np.empty((0, 2), dtype=np.int64), *wins]).ravel(),
        tiers=np.arange(2 * n + 1),
        chains=2 * np.arange(n + 1),
        observations=np.cumsum([0, *counts]),
        equal=np.zeros(2 * n, dtype=bool),
        open=np.zeros(n, dtype=bool),
        weight=np.concatenate([np.empty(0), *weights]),
    )


def _implied(wins: IntArray) -> IntArray:
    below: dict[int, set[int]] = {}
    for better, worse in wins.tolist():
        below.setdefault(better, set()).add(worse)
    implied = []
    for row, direct in below.items():
        reached, front = set(direct), list(direct)
        while front:
            for further in below.get(front.pop(), ()):
                if further not in reached:
                    reached.add(further)
                    front.append(further)
        # In a circle a row is implied to be better than itself, which says nothing.
        implied += [(row, other) for other in sorted(reached - direct - {row})]
    return np.array(implied, dtype=np.int64).reshape(-1, 2)


def line(edges: Edges) -> Pairs:
    """Each edge with the next one of its graph; an edge that is alone with itself."""
    sizes = np.diff(edges.graphs)
    counts = np.maximum(sizes - 1, np.minimum(sizes, 1))
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    one = runs(edges.graphs[:-1], counts)
    other = np.minimum(one + 1, np.repeat(edges.graphs[1:], counts) - 1)
    return Pairs(one, other, edges.weight[one] * edges.weight[other], bounds)


def by_document(edges: Edges, said: Statements) -> Hubs:
    """One hub a document of a graph, with the edges at it in their order."""
    graph, n = query_index(edges.graphs), len(said.made)
    sizes = np.diff(said.offsets)[query_index(said.queries)]
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    shift = (firsts[:-1] - said.offsets[query_index(said.queries)])[graph] if n else graph
    ends = np.concatenate([edges.better + shift, edges.worse + shift])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=int(firsts[-1])))]).astype(np.int64)
    return Hubs(np.ascontiguousarray(order % max(len(edges.better), 1)), starts, firsts)


def draw(said: Statements, pairs: int | None, networks: int, seed: int) -> tuple[Edges, Pairs]:
    """Random pairs of edges of each graph, and the edges that were drawn, two a pair; no others are ever made.

    The draws of a graph depend on the seed and on its number of edges alone, not on what stands beside it.
    """
    bounds = np.concatenate([[0], np.cumsum(edge_counts(said))]).astype(np.int64)
    firsts = bounds[said.observations]
    n_edges, sizes = np.diff(firsts), np.diff(said.offsets)[query_index(said.queries)]
    counts = np.where(n_edges > 0, networks * (10 * sizes if pairs is None else np.full(len(sizes), pairs)), 0)
    drawn = [
        np.random.default_rng([seed, int(n)]).integers(0, int(n), 2 * int(count))
        for n, count in zip(n_edges, counts, strict=True)
        if n
    ]
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    index = np.repeat(firsts[:-1], 2 * counts) + np.concatenate([np.empty(0, dtype=np.int64), *drawn])
    edges = _edges_at(said, index, bounds, 2 * ends)
    one = 2 * np.arange(ends[-1])
    return edges, Pairs(one, one + 1, edges.weight[0::2] * edges.weight[1::2] / networks, ends)
