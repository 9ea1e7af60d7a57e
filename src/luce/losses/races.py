"""Graded queries, lists and pieces of long queries as races: tiers of rows, each of which arrives before the next."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from luce.checks import is_whole
from luce.data.comparisons import Comparisons
from luce.errors import DataError, SettingError
from luce.losses.top_lists import TopLists, from_comparisons
from luce.numerics.segments import Tiers, query_index, tiers
from luce.types import FloatArray, IntArray


class Races(NamedTuple):
    """The races of every query.

    Tier t holds the rows `order[starts[t]:starts[t + 1]]`; race r owns the tiers `races[r]` to `races[r + 1]`, best
    first; query q owns the races `queries[q]` to `queries[q + 1]` and the rows `offsets[q]` to `offsets[q + 1]` of the
    data. `weights` has one a tier, or none where all are 1.
    """

    order: IntArray
    starts: IntArray
    races: IntArray
    queries: IntArray
    offsets: IntArray
    weights: FloatArray


def from_tiers(cut: Tiers, offsets: IntArray, firsts: IntArray | None = None) -> Races:
    """One race a query, or, with the first piece of every query, one a piece."""
    queries = np.arange(len(offsets)) if firsts is None else firsts
    return Races(cut.order, cut.starts, cut.queries, queries, offsets, np.empty(0))


def from_lists(name: str, target: Comparisons, offsets: IntArray) -> Races:
    """One race a list: its tiers, and, under a top list, the rest of the query as the last one.

    >>> races = from_lists("plackett_luce", Comparisons.from_orders([[3, [0, 2]]], top=True), np.array([0, 5]))
    >>> races.order.tolist(), races.starts.tolist()
    ([3, 0, 2, 1, 4], [0, 1, 3, 5])
    """
    lists = from_comparisons(name, target, offsets, None)
    return races_of_lists(lists, lists.tops)


def races_of_lists(lists: TopLists, tops: IntArray) -> Races:
    """One race a list: its tiers up to `tops`, one number a list, and all below as the last tier."""
    number = query_index(lists.starts)
    place = np.arange(len(lists.rows)) - lists.starts[number]
    cut = tops[number]
    firsts = np.flatnonzero((place == cut) | ((place < cut) & ~lists.tied))
    return Races(
        lists.rows,
        np.append(firsts, len(lists.rows)),
        np.searchsorted(firsts, lists.starts),
        lists.queries,
        lists.offsets,
        lists.weights[number[firsts]],
    )


def checked_cut(name: str, cut: int | None) -> int | None:
    """The length beyond which queries are cut: None, or a whole number of at least 2."""
    if cut is None:
        return None
    if not is_whole(cut, 2):
        raise SettingError(f"{name}(cut={cut!r}): cut must be a whole number of at least 2, or None for whole queries.")
    return int(cut)


def cut_at_random(labels: FloatArray, offsets: IntArray, cut: int, seed: int) -> tuple[Tiers, IntArray]:
    """Tiers of random pieces of the queries, at most `cut` documents each, and the first piece of every query.

    All documents are kept, each in one piece; the pieces of a query are as long as one another, or one longer.

    >>> pieces, firsts = cut_at_random(np.arange(5.0), np.array([0, 5]), 2, seed=0)
    >>> sorted(pieces.order.tolist()), firsts.tolist(), np.diff(pieces.starts[pieces.queries]).tolist()
    ([0, 1, 2, 3, 4], [0, 3], [2, 2, 1])
    """
    sizes = np.diff(offsets)
    counts = -(-sizes // cut)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    query = query_index(firsts)
    piece = np.arange(firsts[-1]) - firsts[query]
    lengths = sizes[query] // counts[query] + (piece < sizes[query] % counts[query])
    draws = np.random.default_rng(seed).random(len(labels))
    draws = np.where(np.repeat(counts == 1, sizes), 0.0, draws)  # a whole query stays as it is
    rows = np.lexsort((draws, query_index(offsets)))
    made = tiers(labels[rows], np.concatenate([[0], np.cumsum(lengths)]))
    return made._replace(order=rows[made.order]), firsts


def checked_gain(name: str, base: float | None) -> float | None:
    """The base of the gains that weigh tiers: None, or a number above 1."""
    if base is None:
        return None
    if not (isinstance(base, Real) and 1 < base < np.inf):
        raise SettingError(f"{name}(tier_gain={base!r}): it must be a number above 1, or None.")
    return float(base)


def gain_weights(name: str, base: float | None, labels: FloatArray, cut: Tiers) -> FloatArray:
    """Of every tier, how far the gain base^y of its grade is from that of the next stage; 0 for the last of a query.

    Without a base there are no weights.

    >>> labels = np.array([0.0, 2, 1, 1, 0, 0])
    >>> gain_weights("pmop", 2.0, labels, tiers(labels, np.array([0, 4, 6]))).tolist()
    [2.0, 1.0, 0.0, 0.0]
    """
    if base is None:
        return np.empty(0)
    grades = labels[cut.order[cut.starts[:-1]]]
    if np.abs(grades).max(initial=0) * np.log(base) > 300:
        raise DataError(f"{name}(tier_gain={base:g}): the highest grade is {labels.max():g}, too high for gains.")
    gains = base**grades
    weights = np.append(np.abs(np.diff(gains)), 0.0)
    weights[cut.queries[1:] - 1] = 0.0
    return weights


def refuse_weighed(name: str, base: float | None) -> None:
    """Refuse probabilities where stages are weighed."""
    if base is not None:
        raise SettingError(
            f"{name}(tier_gain={base:g}) weighs its stages, so that it is no probability; leave tier_gain out for one."
        )
