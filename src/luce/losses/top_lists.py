r"""Top-k lists as the target of a loss: who is on top, in which order, and who is below.

$P(\sigma) = P_{TF}\, P_T$: the order inside T is a race, as in `plackett_luce`; what stands between T and F is told by
the loss. Of a tie across the cut so many documents as there are seats come first, whichever they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from luce.checks import is_whole
from luce.data.statements import Statements
from luce.errors import RowsError, SettingError
from luce.losses.base import Outputs
from luce.losses.plackett_luce import EXACT, run_races
from luce.losses.stages import Races
from luce.numerics.compiled import kernel
from luce.numerics.races import chance_of_seats
from luce.numerics.segments import query_index, runs
from luce.types import BoolArray, FloatArray, IntArray

STAGES, GROUP_GROUP, ONE_ONE, ONE_GROUP = range(4)
"""What stands between T and F: stages that see both, or one of the three P_TF."""
K = int | tuple[int, ...] | None
"""Length of the list: one for all queries, one each, or None for the whole of what is known."""
Against = Callable[[FloatArray, IntArray, FloatArray, FloatArray, FloatArray], None]
"""T against F of some lists: from scores, T and F of one list after the other, and where these start, to the value of
every list, and slopes and (unless there is no room) bends of every document, all of which are 0 before."""


class TopLists(NamedTuple):
    """The lists of every query.

    List l holds the documents `rows[starts[l]:starts[l + 1]]`: first the `tops[l]` of T, best first, then those of F.
    Query q owns the lists `queries[q]` to `queries[q + 1]` and the rows `offsets[q]` to `offsets[q + 1]` of the data.
    `tied` marks the entries of `rows` that are in the tier of the one before them, in T and in a tie across the cut,
    which is the places `begins[l]` to `ends[l]` of its list; both are `tops[l]` where there is none.
    """

    rows: IntArray
    starts: IntArray
    tops: IntArray
    queries: IntArray
    offsets: IntArray
    tied: BoolArray
    weights: FloatArray
    begins: IntArray
    ends: IntArray

    @property
    def across(self) -> BoolArray:
        """Which lists have a tie across the cut."""
        return self.ends > self.tops

    def races(self, cuts: IntArray) -> Races:
        """One race a list: its tiers up to its cut, and all below as the last tier."""
        number = query_index(self.starts)
        place, cut = np.arange(len(self.rows)) - self.starts[number], cuts[number]
        firsts = np.flatnonzero((place == cut) | ((place < cut) & ~self.tied))
        bounds = np.append(firsts, len(self.rows)), np.searchsorted(firsts, self.starts)
        return Races(self.rows, *bounds, self.queries, self.offsets, self.weights[number[firsts]])


def checked_k(name: str, k: Any) -> K:
    """`k` as a number, a tuple with one a query, or None."""
    many = not isinstance(k, Integral) and isinstance(k, Sequence | np.ndarray)
    given = tuple(k) if many else (k,)
    if not given or not all(is_whole(one, 1) for one in given):
        raise SettingError(f"{name} is {k!r}; it must be a whole number of at least 1, one for each query, or None.")
    values = tuple(int(one) for one in given)
    return values if many else values[0]


def top_lists(said: Statements, k: K, ties: str = "extend", inside: str = "exact", seed: int = 0) -> TopLists:
    """T is the first k rows of a chain (None: all that it names), F what is below them.

    That is the rest of the chain, of an open one that of the query. Who has fewer than k is all T. A tier at the cut is
    kept whole in T (`extend`), put into F unless nothing else is in T (`shrink`), parted in the order of the input
    (`stable`), left tied across the cut (`exact`), or refused (`error`). Inside T tiers are tied (`exact`); those of
    grades may be put in the order of the input (`stable`) or in one drawn by `seed` (`random`), or refused.

    >>> said = Statements.of_grades(np.array([0.0, 2, 0, 1]), np.array([0, 4]))
    >>> lists = top_lists(said, 3)
    >>> lists.rows.tolist(), lists.tops.tolist(), top_lists(said, 3, "shrink").tops.tolist()
    ([1, 3, 0, 2], [4], [2])
    """
    closed, names, owner = said.closed(), np.diff(said.by_chain), query_index(said.by_query)
    rows, starts = closed.rows, closed.by_chain
    if inside == "random":
        tie_break = np.random.default_rng(seed).permutation(len(rows))
        rows = rows[np.lexsort((tie_break[rows], query_index(closed.tiers)))]
    number = query_index(starts)
    place = np.arange(len(rows)) - starts[number]
    tied = place < names[number]  # nothing is said of the rest of a query
    tied[closed.tiers[:-1]] = False
    if isinstance(k, tuple) and len(k) != len(said.offsets) - 1:
        raise SettingError(
            f"{len(k)} values of k were given for {len(said.offsets) - 1} queries; give one, or one each."
        )
    tops = names if k is None else np.minimum(names, np.asarray(k)[owner] if isinstance(k, tuple) else k)
    fresh, cut = np.flatnonzero(np.append(~tied, True)), starts[:-1] + tops  # where a new tier begins
    above = fresh[np.searchsorted(fresh, cut, side="right") - 1] - starts[:-1]
    below = fresh[np.searchsorted(fresh, cut)] - starts[:-1]
    split = above < tops

    def refuse(at: int, why: str) -> None:
        of = int(number[at])
        known = "are in one tier of its list"
        if said.grade is not None:
            known = f"both have label {said.grade[np.searchsorted(said.tiers, at, side='right') - 1]:g}"
        raise RowsError(
            f"{{query}}: {{documents}} {why.format(known, tops[of])}", int(owner[of]), rows[at - 1 : at + 1].tolist()
        )

    if ties == "error" and split.any():
        refuse(int(cut[split][0]), "{} at the cut k = {}; ties='extend' keeps such documents together.")
    if ties in ("extend", "shrink"):
        shrunk = np.where((above > 0) | (below == np.diff(starts)), above, below)
        tops = np.where(split, below if ties == "extend" else shrunk, tops)
    begins, ends = (above, below) if ties == "exact" else (tops, tops)
    tied &= place < ends[number]
    if tied.any() and (inside == "error" or (inside != "exact" and said.grade is None)):
        refuse(int(np.flatnonzero(tied)[0]), "of the top {1} {0}; inside='exact' sums over their orders.")
    tied &= inside == "exact"
    return TopLists(rows, starts, tops, closed.by_query, said.offsets, tied, said.times, begins, ends)


def average_cuts(lists: TopLists, draws: int, seed: int, whole: BoolArray) -> TopLists:
    """Lists without a tie across the cut: where there is one, a list for each of some choices from the tie.

    All choices where there are at most `draws`, which no order of the rows changes; else so many, drawn by `seed` so
    that the documents of the tie are chosen equally often, or once more. The weight of a list is shared among them. A
    list that is one tier says nothing, and stays whole; so do those that are `whole`, with the tie as their top.
    """
    rng, sizes = np.random.default_rng(seed), np.diff(lists.starts)
    whole = whole | (lists.ends - lists.begins == sizes)
    tops = np.where(lists.across & whole, lists.ends, lists.tops)
    orders, counts = [], np.ones(len(tops), dtype=np.int64)
    for one, (start, begin, top, end) in enumerate(zip(lists.starts[:-1], lists.begins, tops, lists.ends, strict=True)):
        places = start + np.arange(sizes[one])
        if end > top:
            chosen = _choices(end - begin, top - begin, draws, rng)
            counts[one] = len(chosen)
            tier = places[begin:end]
            ahead = [np.concatenate([tier[hand], np.delete(tier, hand)]) for hand in chosen]
            orders += [np.concatenate([places[:begin], parted, places[end:]]) for parted in ahead]
        else:
            orders.append(places)
    number = np.repeat(np.arange(len(tops)), counts)
    starts, firsts = (np.concatenate([[0], np.cumsum(each)]) for each in (sizes[number], counts))
    places, tops = runs(np.zeros(len(number), dtype=np.int64), sizes[number]), tops[number]
    tied = lists.tied[runs(lists.starts[number], sizes[number])] & (places < np.repeat(tops, sizes[number]))
    rows = lists.rows[np.concatenate([np.empty(0, dtype=np.int64), *orders])]
    weights = (lists.weights / counts)[number]
    return TopLists(rows, starts, tops, firsts[lists.queries], lists.offsets, tied, weights, tops, tops)


def _choices(size: int, places: int, draws: int, rng: np.random.Generator) -> IntArray:
    """Sets of `places` out of `size`, a row each: all of them, or `draws` of those that were chosen least so far."""
    if math.comb(size, places) <= draws:
        return np.array(list(combinations(range(size), places)))
    counts, chosen = np.zeros(size), np.empty((draws, places), dtype=np.int64)
    for hand in chosen:
        hand[:] = np.lexsort((rng.random(size), counts))[:places]
        counts[hand] += 1
    return chosen


class TopGroups(NamedTuple):
    """The lists; the race of each, of all its documents (`STAGES`) or of T; and T against F.

    The lists with documents on both sides have T and F at `starts[2 l]`, `starts[2 l + 1]` of `rows`, and a weight;
    query q owns those from `firsts[q]` to `firsts[q + 1]`.
    """

    lists: TopLists
    races: Races
    rows: IntArray
    starts: IntArray
    weights: FloatArray
    firsts: IntArray


def top_groups(kind: int, lists: TopLists) -> TopGroups:
    """Cut lists into their parts."""
    sizes = np.diff(lists.starts)
    if kind == STAGES:
        both, races = np.empty(0, dtype=np.int64), lists.races(lists.begins)
    else:
        both, inside = np.flatnonzero((lists.tops > 0) & (lists.tops < sizes)), runs(lists.starts[:-1], lists.tops)
        starts = np.concatenate([[0], np.cumsum(lists.tops)])
        races = lists._replace(rows=lists.rows[inside], tied=lists.tied[inside], starts=starts).races(lists.tops)
    ends = np.cumsum(sizes[both])
    begins = ends - sizes[both]
    rows = lists.rows[runs(lists.starts[both], sizes[both])]
    starts = np.append(np.column_stack([begins, begins + lists.tops[both]]).ravel(), len(rows))
    return TopGroups(lists, races, rows, starts, lists.weights[both], np.searchsorted(both, lists.queries))


def fill_groups(prepared: TopGroups, scores: FloatArray, out: Outputs, against: Against) -> None:
    """Value, gradient and curvature of a run of queries, each the sum over its lists."""
    run_races(EXACT, prepared.races, scores, out.arrays)
    if prepared.lists.across.any() and add_seats(prepared.lists, scores, None, out.arrays):
        add_seats(prepared.lists, scores, True, out.arrays)
    first, last = (int(prepared.firsts[q]) for q in out.chunk)
    if first == last:
        return
    starts, weights = prepared.starts[2 * first : 2 * last + 1], prepared.weights[first:last]
    rows, starts = prepared.rows[starts[0] : starts[-1]], starts - starts[0]
    values, slopes = np.zeros(last - first), np.zeros(len(rows))
    bends = np.zeros(len(rows) if len(out.curvature) else 0)
    against(scores[rows], starts, values, slopes, bends)
    by_row = np.repeat(weights, np.diff(starts[::2]))
    owners = query_index(prepared.firsts[out.chunk[0] : out.chunk[1] + 1] - first)
    out.values[:] += np.bincount(owners, weights * values, len(out.values))
    begin, end = (int(prepared.lists.offsets[q]) for q in out.chunk)
    out.grad[begin:end] += np.bincount(rows - begin, by_row * slopes, end - begin)
    if len(bends):
        out.curvature[begin:end] += np.bincount(rows - begin, by_row * bends, end - begin)


@kernel
def add_seats(lists, scores, logs, out):  # type: ignore[no-untyped-def]
    """Add -log of the chance that the first to arrive among a tie and all below it are of the tie, for its seats.

    The ties that plain numbers, or logarithms, are for (see `chance_of_seats`); whether there are others.
    """
    rows, others, (first, values, grad, curvature) = lists.rows, False, out
    for i in range(len(values)):
        for t in range(lists.queries[first + i], lists.queries[first + i + 1]):
            begin, end, last = lists.starts[t] + lists.begins[t], lists.starts[t] + lists.ends[t], lists.starts[t + 1]
            if lists.ends[t] == lists.tops[t] or end == last:
                continue
            weight, high, total = lists.weights[t], -np.inf, 0.0
            for j in range(end, last):
                high = max(high, scores[rows[j]])
            for j in range(end, last):
                total += np.exp(scores[rows[j]] - high)
            log_rest, m = high + np.log(total), end - begin
            log_rates, slopes, bends = np.empty(m), np.empty(m), np.empty(m if len(curvature) else 0)
            for j in range(m):
                log_rates[j] = scores[rows[begin + j]] - log_rest
            log_p, once, twice = chance_of_seats(log_rates, lists.tops[t] - lists.begins[t], logs, slopes, bends)
            if np.isnan(log_p):
                others = True
                continue
            values[i] -= weight * log_p
            for j in range(m):
                grad[rows[begin + j]] -= weight * slopes[j]
                if len(curvature):
                    curvature[rows[begin + j]] += weight * bends[j]
            for j in range(end, last):
                share = np.exp(scores[rows[j]] - log_rest)
                grad[rows[j]] += weight * share * once
                if len(curvature):
                    curvature[rows[j]] += weight * max(share * once - share * share * twice, 0.0)
    return others
