"""Ties at the cut of a top-k list, averaged: several lists in place of one, each with others of the tie in its top."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from luce.losses.top_lists import TopLists
from luce.types import IntArray


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
