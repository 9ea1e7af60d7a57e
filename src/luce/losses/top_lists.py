"""Top-k lists as the target of a loss: who is on top, in which order, and who is below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.checks import is_whole
from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import RowsError, SettingError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

K = int | tuple[int, ...] | None
"""Length of the list: one for all queries, one each, or None for the whole of what is known."""


class TopLists(NamedTuple):
    """The lists of every query.

    List l holds the documents `rows[starts[l]:starts[l + 1]]`: first the `tops[l]` of T, best first, then those of F.
    Query q owns the lists `queries[q]` to `queries[q + 1]` and the rows `offsets[q]` to `offsets[q + 1]` of the data.
    `tied` marks the entries of `rows` that are in the tier of the one before them, in T and, where the tier at the cut
    is integrated out, up to the end of that tier; `weights` has one a list.
    """

    rows: IntArray
    starts: IntArray
    tops: IntArray
    queries: IntArray
    offsets: IntArray
    tied: NDArray[np.bool_]
    weights: FloatArray


def checked_k(name: str, k: Any) -> K:
    """`k` as a number, a tuple with one a query, or None."""
    many = not isinstance(k, Integral) and isinstance(k, Sequence | np.ndarray)
    given = tuple(k) if many else (k,)
    if not given or not all(is_whole(one, 1) for one in given):
        raise SettingError(f"{name} is {k!r}; it must be a whole number of at least 1, one for each query, or None.")
    values = tuple(int(one) for one in given)
    return values if many else values[0]


def _by_query(k: K, n_queries: int) -> IntArray | None:
    if k is None:
        return None
    if isinstance(k, tuple) and len(k) != n_queries:
        raise SettingError(f"{len(k)} values of k were given for {n_queries} queries; give one, or one a query.")
    return np.broadcast_to(np.asarray(k, dtype=np.int64), n_queries)


def from_labels(labels: FloatArray, offsets: IntArray, k: K, ties: str, inside: str, seed: int = 0) -> TopLists:
    """T is the k documents of highest label, F the others of the query.

    A query that has fewer documents than k is all T. Equal labels at the cut are kept whole in T (`extend`), put into
    F unless nothing else is in T (`shrink`), parted in the order of the input (`stable`), left tied across the cut
    (`exact`), or refused (`error`). Inside T they are tied (`exact`), put in the order of the input (`stable`) or in
    one drawn by `seed` (`random`), or refused.

    >>> lists = from_labels(np.array([0.0, 2, 0, 1]), np.array([0, 4]), 3, "extend", "stable")
    >>> lists.rows.tolist(), lists.tops.tolist()
    ([1, 3, 0, 2], [4])
    >>> from_labels(np.array([0.0, 2, 0, 1]), np.array([0, 4]), 3, "shrink", "stable").tops.tolist()
    [2]
    """
    query = query_index(offsets)
    places = np.arange(len(labels))
    tie_break = np.random.default_rng(seed).permutation(places) if inside == "random" else places
    order = np.lexsort((tie_break, -labels, query)).astype(np.int64)
    sizes, ranked = np.diff(offsets), labels[order]
    wanted = _by_query(k, len(sizes))
    tops = sizes.copy() if wanted is None else np.minimum(wanted, sizes)
    same = np.zeros(len(labels), dtype=bool)
    same[1:] = (ranked[1:] == ranked[:-1]) & (query[1:] == query[:-1])
    at = offsets[:-1] + tops
    split = np.append(same, False)[at] & (tops < sizes)
    if ties == "error" and split.any():
        q = int(np.flatnonzero(split)[0])
        said = (
            f"both have label {ranked[at[q]]:g} at the cut k = {tops[q]}; ties='extend' keeps such documents together."
        )
        raise RowsError(f"{{query}}: {{documents}} {said}", q, (int(order[at[q] - 1]), int(order[at[q]])))
    tops, tied = _cut(offsets, same, tops, ties)
    if inside == "error" and tied.any():
        i = int(np.flatnonzero(tied)[0])
        said = f"of the top {tops[query[i]]} both have label {ranked[i]:g}; inside='exact' sums over their orders."
        raise RowsError(f"{{query}}: {{documents}} {said}", int(query[i]), (int(order[i - 1]), int(order[i])))
    if inside in ("stable", "random"):
        tied[:] = False
    return TopLists(order, offsets, tops, np.arange(len(offsets)), offsets, tied, np.ones(len(sizes)))


def _cut(starts: IntArray, same: NDArray[np.bool_], tops: IntArray, ties: str) -> tuple[IntArray, NDArray[np.bool_]]:
    """How many of each list are T, `tops` but for ties at the cut, and which entries are tied with the one before.

    `same` marks the entries in the tier of the one before them.
    """
    number, sizes, cut = query_index(starts), np.diff(starts), starts[:-1] + tops
    fresh = np.flatnonzero(np.append(~same, True))  # where a new tier begins
    above = fresh[np.searchsorted(fresh, cut, side="right") - 1] - starts[:-1]
    below = fresh[np.searchsorted(fresh, cut)] - starts[:-1]
    split = (above < tops) & (tops < sizes)
    if ties in ("extend", "shrink"):
        shrunk = np.where((above > 0) | (below == sizes), above, below)
        tops = np.where(split, below if ties == "extend" else shrunk, tops)
    reach = np.where(split, below, tops) if ties == "exact" else tops
    return tops, same & (np.arange(len(same)) - starts[number] < reach[number])


def from_comparisons(name: str, target: Comparisons, offsets: IntArray, k: K, ties: str = "extend") -> TopLists:
    """Ordered lists of rows.

    T is the first k of a list (None: all of it), and a tier at the cut is treated as equal labels are. Below T are the
    others of the query where the list is a top list, and else the rest of the list alone, since nothing is known of
    documents that are not on it.

    >>> lists = from_comparisons("hom_gg", Comparisons.from_orders([[2, 0]], top=True), np.array([0, 4]), None)
    >>> lists.rows.tolist(), lists.tops.tolist()
    ([2, 0, 1, 3], [2])
    """
    said = listed(name, target, offsets)
    closed, names = said.closed(), np.diff(said.by_chain)
    starts, cuts = closed.by_chain, _by_query(k, len(offsets) - 1)
    place = np.arange(len(closed.rows)) - np.repeat(starts[:-1], np.diff(starts))
    tied = place < np.repeat(names, np.diff(starts))
    tied[closed.tiers[:-1]] = False
    owner = query_index(said.by_query)
    tops = names if cuts is None else np.minimum(names, cuts[owner])
    at = starts[:-1] + tops
    split = np.flatnonzero(np.append(tied, False)[at] & (tops < names))
    if ties == "error" and len(split):
        first = int(split[0])
        raise RowsError(
            f"{{query}}: {{documents}} are in one tier of its list, at the cut k = {tops[first]}; ties='extend' keeps "
            "such documents together.",
            int(owner[first]),
            (int(closed.rows[at[first] - 1]), int(closed.rows[at[first]])),
        )
    tops, tied = _cut(starts, tied, tops, ties)
    return TopLists(closed.rows, starts, tops, closed.by_query, offsets, tied, said.times)


def listed(name: str, target: Comparisons, offsets: IntArray) -> Statements:
    """Comparisons of ordered lists alone; pairs are refused."""
    if target.holds_pairs:
        raise SettingError(f"The loss {name!r} learns from ordered lists; the comparisons hold pairs: use 'ranknet'.")
    return Statements.of_comparisons(target, offsets)


def refuse_tied(name: str, lists: TopLists) -> None:
    """An error where the top of a list has a tier of several documents, for what cannot learn from such a list."""
    if not lists.tied.any():
        return
    at = int(np.flatnonzero(lists.tied)[0])
    number = int(np.searchsorted(lists.starts, at, side="right")) - 1
    raise RowsError(
        f"{{query}}: {{documents}} are in one tier of a list, and {name!r} needs an order of its top; 'plackett_luce' "
        "takes tiers as they are.",
        int(np.searchsorted(lists.queries, number, side="right")) - 1,
        (int(lists.rows[at - 1]), int(lists.rows[at])),
    )


def cut_ties(lists: TopLists) -> IntArray:
    """The lists whose tier at the cut is marked as tied across it."""
    cut = lists.starts[:-1] + lists.tops
    inside = np.flatnonzero(cut < lists.starts[1:])
    found: IntArray = inside[lists.tied[cut[inside]]]
    return found


def leading_ties(lists: TopLists) -> IntArray:
    """Those of them whose tie at the cut is the first tier of the list: nothing of the top stands above it."""
    across = cut_ties(lists)
    starts = lists.starts[across]
    first = [not np.any(~lists.tied[a + 1 : a + top]) for a, top in zip(starts, lists.tops[across], strict=True)]
    found: IntArray = across[np.array(first, dtype=bool)]
    return found


def average_cuts(lists: TopLists, draws: int, seed: int, whole: IntArray | None = None) -> TopLists:
    """Lists without a tie across the cut: where there is one, a list for each of some choices from the tie.

    All choices where there are at most `draws`, which no order of the rows changes; else so many, drawn by `seed` so
    that the documents of the tie are chosen equally often, or once more. The weight of a list is shared among them. A
    list that is one tier says nothing, and stays whole; so do the lists `whole`, with the tie as their top.
    """
    rng = np.random.default_rng(seed)
    tied_across, kept = set(cut_ties(lists).tolist()), set(() if whole is None else whole.tolist())
    rows, tied, tops, weights, counts = [], [], [], [], []
    for number, (a, b) in enumerate(pairwise(lists.starts.tolist())):
        listed, same, top = lists.rows[a:b], lists.tied[a:b], int(lists.tops[number])
        orders = [np.arange(b - a)]
        if number in tied_across:
            orders, top = _parted(same, top, draws, rng, number in kept)
        rows += [listed[order] for order in orders]
        tied += [same & (np.arange(b - a) < top)] * len(orders)
        tops += [top] * len(orders)
        weights += [float(lists.weights[number]) / len(orders)] * len(orders)
        counts.append(len(orders))
    firsts = np.cumsum([0, *counts]).astype(np.int64)
    return TopLists(
        np.concatenate([np.empty(0, dtype=np.int64), *rows]),
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.array(tops, dtype=np.int64),
        firsts[lists.queries],
        lists.offsets,
        np.concatenate([np.empty(0, dtype=bool), *tied]),
        np.array(weights, dtype=np.float64),
    )


def _parted(
    same: NDArray[np.bool_], top: int, draws: int, rng: np.random.Generator, whole: bool
) -> tuple[list[IntArray], int]:
    """Orders of a list with each choice from the tier at the cut ahead of the rest of it, and the length of the top."""
    fresh = np.flatnonzero(np.append(~same, True))
    begin, end = int(fresh[fresh <= top][-1]), int(fresh[fresh > top][0])
    places = np.arange(len(same))
    if whole or end - begin == len(same):
        return [places], end
    tier, orders = places[begin:end], []
    for chosen in _choices(end - begin, top - begin, draws, rng):
        orders.append(np.concatenate([places[:begin], tier[chosen], np.delete(tier, chosen), places[end:]]))
    return orders, top


def _choices(size: int, places: int, draws: int, rng: np.random.Generator) -> IntArray:
    """Sets of `places` out of `size`, a row each: all of them, or `draws` of those that were chosen least so far."""
    if math.comb(size, places) <= draws:
        return np.array(list(combinations(range(size), places)))
    counts, chosen = np.zeros(size), np.empty((draws, places), dtype=np.int64)
    for hand in chosen:
        hand[:] = np.lexsort((rng.random(size), counts))[:places]
        counts[hand] += 1
    return chosen
