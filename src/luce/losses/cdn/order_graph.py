"""Order graphs and the networks over their edges: what a cumulative distribution network makes of its target."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from luce.data.comparisons import Comparisons
from luce.errors import RowsError, SettingError
from luce.losses.pair_sums import count_pairs
from luce.numerics.segments import Tiers, query_index
from luce.types import FloatArray, IntArray

MOST_EDGES = 50_000_000
_SHOWN = 8
"""Documents of a circle that an error names."""


class Edges(NamedTuple):
    """Edges of order graphs, sorted by query: `better` is preferred to `worse`; query q owns `queries[q]` on."""

    better: IntArray
    worse: IntArray
    weight: FloatArray
    queries: IntArray


class Pairs(NamedTuple):
    """Pairs of edges that share a function of the network, by position among the edges, sorted by query."""

    one: IntArray
    other: IntArray
    weight: FloatArray
    queries: IntArray


class Hubs(NamedTuple):
    """Groups of edges that meet all with all, laid end to end; query q owns the hubs `queries[q]` on."""

    edges: IntArray
    starts: IntArray
    queries: IntArray


def graded_edges(tiers: Tiers) -> Edges:
    """Every pair of different grades, best first: by the worse document, then by the better one."""
    n_edges = count_pairs(tiers, np.zeros(len(tiers.starts) - 1)).astype(np.int64)
    if n_edges.sum() > MOST_EDGES:
        raise SettingError(
            f"The grades imply {n_edges.sum():,} edges, more than the {MOST_EDGES:,} that this topology may list; "
            "take topology='full', 'disconnected' or 'random', which do not list them."
        )
    bounds = np.concatenate([[0], np.cumsum(n_edges)]).astype(np.int64)
    return _edges_at(tiers, np.arange(bounds[-1]), bounds)


def _edges_at(tiers: Tiers, index: IntArray, bounds: IntArray) -> Edges:
    """The edges of these places among all that grades imply, where all are numbered through."""
    order, starts, queries = tiers
    first = np.repeat(starts[queries[:-1]], np.diff(starts[queries]))
    above = np.repeat(starts[:-1], np.diff(starts)) - first
    total = np.concatenate([[0], np.cumsum(above)]).astype(np.int64)
    worse = np.searchsorted(total, index, side="right") - 1
    better = first[worse] + index - total[worse]
    return Edges(order[better], order[worse], np.ones(len(index)), bounds)


def compared_edges(target: Comparisons, offsets: IntArray, *, closure: bool, acyclic: bool) -> Edges:
    """Explicit preferences, and those that ordered lists imply; ties say nothing.

    >>> chain = Comparisons(wins=[(0, 1), (1, 2)])
    >>> edges = compared_edges(chain, np.array([0, 3]), closure=True, acyclic=True)
    >>> edges.better.tolist(), edges.worse.tolist()
    ([0, 1, 0], [1, 2, 2])
    """
    wins, weight = target.all_wins(offsets)
    if acyclic:
        _refuse_circles(wins, offsets)
    if closure:
        wins, weight = _closed(wins, weight)
    query = query_index(offsets)[wins[:, 0]]
    by_query = np.argsort(query, kind="stable")
    bounds = np.searchsorted(query[by_query], np.arange(len(offsets))).astype(np.int64)
    better, worse = np.ascontiguousarray(wins[by_query].T)
    return Edges(better, worse, weight[by_query], bounds)


def _refuse_circles(wins: IntArray, offsets: IntArray) -> None:
    """Name the query and the documents of a circle, the shortest through its first row."""
    circles = Comparisons(wins=wins).cycles()
    if circles:
        circle = _shortest_circle(wins, circles[0])
        shown, more = circle[:_SHOWN], ", ..." if len(circle) > _SHOWN else ""
        raise RowsError(
            f"{{query}}: the order graph runs in a circle through {{documents}}{more} (each is preferred to the next, "
            "the last to the first), and acyclic=True was given; take a preference out, or let circles be weighed "
            "against each other with acyclic=False.",
            int(query_index(offsets)[circle[0]]),
            shown,
        )


def _shortest_circle(wins: IntArray, group: IntArray) -> list[int]:
    """Rows from the first of a strongly connected group on, each preferred to the next, the last to the first."""
    below: dict[int, list[int]] = {}
    inside = set(group.tolist())
    for better, worse in wins.tolist():
        if better in inside and worse in inside:
            below.setdefault(better, []).append(worse)
    first = int(group[0])
    paths, seen = deque([[first]]), {first}
    while paths:
        path = paths.popleft()
        for row in below[path[-1]]:
            if row == first:
                return path
            if row not in seen:
                seen.add(row)
                paths.append([*path, row])
    raise AssertionError("a strongly connected group has a circle through each of its rows")


def _closed(wins: IntArray, weight: FloatArray) -> tuple[IntArray, FloatArray]:
    """The preferences and all that they imply, which weigh 1 each."""
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
    more = np.array(implied, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([wins, more]), np.concatenate([weight, np.ones(len(more))])


def line(edges: Edges) -> Pairs:
    """Each edge with the next one of its query; an edge that is alone with itself."""
    sizes = np.diff(edges.queries)
    counts = np.maximum(sizes - 1, np.minimum(sizes, 1))
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    one = np.repeat(edges.queries[:-1] - bounds[:-1], counts) + np.arange(bounds[-1])
    other = np.minimum(one + 1, np.repeat(edges.queries[1:], counts) - 1)
    return Pairs(one, other, edges.weight[one] * edges.weight[other], bounds)


def by_query(edges: Edges) -> Hubs:
    """One hub a query, with all its edges."""
    return Hubs(np.arange(len(edges.better)), edges.queries, np.arange(len(edges.queries)))


def by_document(edges: Edges, offsets: IntArray) -> Hubs:
    """One hub a document, with the edges at it in their order."""
    ends = np.concatenate([edges.better, edges.worse])
    order = np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=int(offsets[-1])))]).astype(np.int64)
    return Hubs(np.ascontiguousarray(order % max(len(edges.better), 1)), starts, offsets)


def _draws(n_edges: IntArray, sizes: IntArray, pairs: int | None, networks: int, seed: int) -> tuple[IntArray, Pairs]:
    """Positions of drawn edges among those of their query, two a pair, and the pairs.

    The draws of a query depend on the seed and on its number of edges alone, not on the queries beside it.
    """
    counts = np.where(n_edges > 0, networks * (10 * sizes if pairs is None else np.full(len(sizes), pairs)), 0)
    drawn = [
        np.random.default_rng([seed, int(n)]).integers(0, int(n), 2 * int(count))
        for n, count in zip(n_edges, counts, strict=True)
        if n
    ]
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    one = 2 * np.arange(bounds[-1])
    weight = np.full(len(one), 1.0 / networks)
    return np.concatenate([np.empty(0, dtype=np.int64), *drawn]), Pairs(one, one + 1, weight, bounds)


def draw_listed(edges: Edges, offsets: IntArray, pairs: int | None, networks: int, seed: int) -> tuple[Edges, Pairs]:
    """Random pairs of listed edges; the edges that come back are those that were drawn, in the order of the pairs."""
    position, drawn = _draws(np.diff(edges.queries), np.diff(offsets), pairs, networks, seed)
    index = np.repeat(edges.queries[:-1], 2 * np.diff(drawn.queries)) + position
    weight = edges.weight[index]
    chosen = Edges(edges.better[index], edges.worse[index], weight, 2 * drawn.queries)
    return chosen, drawn._replace(weight=drawn.weight * weight[0::2] * weight[1::2])


def draw_graded(tiers: Tiers, offsets: IntArray, pairs: int | None, networks: int, seed: int) -> tuple[Edges, Pairs]:
    """The same for the edges that grades imply, of which only those that are drawn are ever made."""
    n_edges = count_pairs(tiers, np.zeros(len(tiers.starts) - 1)).astype(np.int64)
    position, drawn = _draws(n_edges, np.diff(offsets), pairs, networks, seed)
    bounds = np.concatenate([[0], np.cumsum(n_edges)])
    index = np.repeat(bounds[:-1], 2 * np.diff(drawn.queries)) + position
    return _edges_at(tiers, index, 2 * drawn.queries), drawn
