r"""Top-k lists as a loss sees them: races of the tiers of T, and what stands between T and F.

$P(\sigma) = P_{TF}\, P_T$: the order inside T is a race, as in `plackett_luce`; what stands between T and F is told by
the loss. Of a tie across the cut so many documents as there are seats come first, whichever they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from luce.losses.base import Outputs
from luce.losses.races import EXACT, Races, races_of_lists, run_races
from luce.losses.top_lists import TopLists, cut_ties
from luce.numerics.compiled import kernel
from luce.numerics.races import chance_of_seats
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

STAGES, GROUP_GROUP, ONE_ONE, ONE_GROUP = range(4)
"""What stands between T and F: stages that see both, or one of the three P_TF."""


Against = Callable[[FloatArray, IntArray, FloatArray, FloatArray, FloatArray], None]
"""T against F of some lists: from scores, T and F of one list after the other, and where these start, to the value of
every list, and slopes and (unless there is no room) bends of every document, all of which are 0 before."""


class TopGroups(NamedTuple):
    """The lists; the race of each, of all its documents (`STAGES`) or of T; ties across the cut; and T against F.

    The lists with documents on both sides have T and F at `starts[2 l]`, `starts[2 l + 1]` of `rows`, and a weight;
    query q owns those from `firsts[q]` to `firsts[q + 1]`.
    """

    lists: TopLists
    races: Races
    seats: Seats | None
    rows: IntArray
    starts: IntArray
    weights: FloatArray
    firsts: IntArray


def top_groups(kind: int, lists: TopLists) -> TopGroups:
    """Cut lists into their parts."""
    sizes = np.diff(lists.starts)
    if kind == STAGES:
        seats, both = seats_of_lists(lists), np.empty(0, dtype=np.int64)
        races = races_of_lists(lists, lists.tops if seats is None else seats.begins)
    else:
        seats, both = None, np.flatnonzero((lists.tops > 0) & (lists.tops < sizes))
        number = query_index(lists.starts)
        inside = np.arange(len(lists.rows)) - lists.starts[number] < lists.tops[number]
        starts = np.concatenate([[0], np.cumsum(lists.tops)])
        top = lists._replace(rows=lists.rows[inside], tied=lists.tied[inside], starts=starts)
        races = races_of_lists(top, lists.tops)
    ends = np.cumsum(sizes[both])
    begins = ends - sizes[both]
    rows = np.repeat(lists.starts[both] - begins, sizes[both]) + np.arange(sizes[both].sum())
    starts = np.append(np.column_stack([begins, begins + lists.tops[both]]).ravel(), len(rows))
    firsts = np.searchsorted(both, lists.queries)
    return TopGroups(lists, races, seats, lists.rows[rows], starts, lists.weights[both], firsts)


def fill_groups(prepared: TopGroups, scores: FloatArray, out: Outputs, against: Against) -> None:
    """Value, gradient and curvature of a run of queries, each the sum over its lists."""
    run_races(EXACT, prepared.races, scores, *out.arrays)
    if prepared.seats is not None:
        add_seats(prepared.seats, prepared.lists.rows, scores, out)
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


class Seats(NamedTuple):
    """Ties across the cut. Tie t is `rows[edges[t, 0]:edges[t, 1]]` of the lists, and what is below it goes on to
    `edges[t, 2]`; `free[t]` seats are left for it, and its list weighs `weights[t]`. Query q owns the ties `queries[q]`
    to `queries[q + 1]`. `begins` has one a list: how many documents are above the tie, or in T where there is none."""

    edges: IntArray
    free: IntArray
    weights: FloatArray
    queries: IntArray
    begins: IntArray


def seats_of_lists(lists: TopLists) -> Seats | None:
    """The ties across the cut, None where there are none."""
    edges, numbers, begins = [], [], lists.tops.copy()
    for number in cut_ties(lists).tolist():
        first, last = int(lists.starts[number]), int(lists.starts[number + 1])
        begin = end = first + int(lists.tops[number])
        while end < last and lists.tied[end]:
            end += 1
        while lists.tied[begin]:
            begin -= 1
        begins[number] = begin - first
        if end < last:
            edges.append((begin, end, last))
            numbers.append(number)
    if (begins == lists.tops).all():
        return None
    found = np.array(numbers, dtype=np.int64)
    free = lists.tops[found] - begins[found]
    bounds = np.searchsorted(found, lists.queries)
    return Seats(np.array(edges, dtype=np.int64).reshape(-1, 3), free, lists.weights[found], bounds, begins)


def add_seats(seats: Seats, rows: IntArray, scores: FloatArray, out: Outputs) -> None:
    """Add -log of the chance that the first to arrive among a tie and all below it are of the tie, for its seats."""
    if _add(seats, rows, scores, None, *out.arrays):
        _add(seats, rows, scores, True, *out.arrays)


@kernel
def _add(seats, rows, scores, logs, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """The ties that plain numbers, or logarithms, are for (see `chance_of_seats`); whether there are others."""
    others = False
    for i in range(len(values)):
        for t in range(seats.queries[first + i], seats.queries[first + i + 1]):
            begin, end, last, weight = seats.edges[t, 0], seats.edges[t, 1], seats.edges[t, 2], seats.weights[t]
            high, total = -np.inf, 0.0
            for j in range(end, last):
                high = max(high, scores[rows[j]])
            for j in range(end, last):
                total += np.exp(scores[rows[j]] - high)
            log_rest, m = high + np.log(total), end - begin
            log_rates, slopes, bends = np.empty(m), np.empty(m), np.empty(m if len(curvature) else 0)
            for j in range(m):
                log_rates[j] = scores[rows[begin + j]] - log_rest
            log_p, once, twice = chance_of_seats(log_rates, seats.free[t], logs, slopes, bends)
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
