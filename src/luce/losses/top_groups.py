r"""Top-k lists as a loss sees them: races of the tiers of T, and what stands between T and F.

$P(\sigma) = P_{TF}\, P_T$: the order inside T is a race, as in `plackett_luce`; T against F is pairs, as in `ranknet`,
or sums over groups. Of a tie across the cut so many documents as there are seats come first, whichever they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.losses.base import Outputs
from luce.losses.pair_sums import LONG, SHORT, Graded, Sums, plan, positions
from luce.losses.pairwise import RankNet
from luce.losses.races import EXACT, Races, races_of_lists, run_races
from luce.losses.top_lists import TopLists, cut_ties
from luce.numerics.compiled import kernel
from luce.numerics.races import chance_of_seats
from luce.numerics.segments import log_sums, query_index
from luce.types import FloatArray, IntArray

STAGES, GROUP_GROUP, ONE_ONE, ONE_GROUP = range(4)
"""What stands between T and F: stages that see both, or one of the three P_TF."""


class TopGroups(NamedTuple):
    """The lists; the race of each, of all its documents (`STAGES`) or of T; ties across the cut; and T against F.

    `between` has the lists with documents on both sides, as two tiers each; query q owns its lists `firsts[q]` to
    `firsts[q + 1]`.
    """

    lists: TopLists
    races: Races
    seats: Seats | None
    between: Graded
    firsts: IntArray


def top_groups(kind: int, lists: TopLists) -> TopGroups:
    """Cut lists into their parts."""
    if kind == STAGES:
        seats = seats_of_lists(lists)
        races = races_of_lists(lists, lists.tops if seats is None else seats.begins)
        return TopGroups(lists, races, seats, _two_tiers(lists, np.empty(0, dtype=np.int64)), lists.queries * 0)
    number = query_index(lists.starts)
    inside = np.arange(len(lists.rows)) - lists.starts[number] < lists.tops[number]
    starts = np.concatenate([[0], np.cumsum(lists.tops)])
    top = lists._replace(rows=lists.rows[inside], tied=lists.tied[inside], starts=starts)
    both = np.flatnonzero((lists.tops > 0) & (lists.tops < np.diff(lists.starts)))
    firsts = np.searchsorted(both, lists.queries)
    return TopGroups(lists, races_of_lists(top, lists.tops), None, _two_tiers(lists, both), firsts)


def _two_tiers(lists: TopLists, chosen: IntArray) -> Graded:
    """T and F of the chosen lists, every pair with the weight of its list."""
    sizes = np.diff(lists.starts)[chosen]
    ends = np.cumsum(sizes)
    starts = np.append(np.column_stack([ends - sizes, ends - sizes + lists.tops[chosen]]).ravel(), sizes.sum())
    rows = np.repeat(lists.starts[chosen] - (ends - sizes), sizes) + np.arange(sizes.sum())
    queries = 2 * np.arange(len(chosen) + 1)
    weight = np.repeat(lists.weights[chosen], sizes)
    tasks = plan(starts, queries, LONG, SHORT)
    return Graded(lists.rows[rows], starts, queries, weight, np.zeros_like(weight), *tasks)


def fill_groups(kind: int, prepared: TopGroups, scores: FloatArray, out: Outputs, exact: bool) -> None:
    """Value, gradient and curvature of a run of queries, each the sum over its lists."""
    run_races(EXACT, prepared.races, scores, *out.arrays)
    if prepared.seats is not None:
        add_seats(prepared.seats, prepared.lists.rows, scores, out)
    first, last = (int(prepared.firsts[q]) for q in out.chunk)
    if first == last:
        return
    rows, here = positions(prepared.between, scores, (first, last))
    values, slopes = np.zeros(last - first), np.zeros(len(rows))
    bends = np.zeros(len(rows) if len(out.curvature) else 0)
    if kind == ONE_ONE:
        sums = Sums(values, np.zeros_like(values), slopes, bends)
        RankNet(exact=exact or not _by_panels(here.starts)).run_pairs(prepared.between, here, (first, last), sums)
    else:
        (_one_to_group if kind == ONE_GROUP else _group_to_group)(here.f, here.starts, values, slopes, bends)
        values *= here.win_weight[here.starts[:-1:2]]
        slopes *= here.win_weight
        bends *= here.win_weight[: len(bends)]
    owners = query_index(prepared.firsts[out.chunk[0] : out.chunk[1] + 1] - first)
    out.values[:] += np.bincount(owners, values, len(out.values))
    begin, end = (int(prepared.lists.offsets[q]) for q in out.chunk)
    out.grad[begin:end] += np.bincount(rows - begin, slopes, end - begin)
    if len(bends):
        out.curvature[begin:end] += np.bincount(rows - begin, bends, end - begin)


def _by_panels(starts: IntArray) -> bool:
    """Whether T against F costs less by panel sums than pair by pair, in any list."""
    pair, document, panel = RankNet.costs
    tops, others = np.diff(starts)[::2], np.diff(starts)[1::2]
    return bool(np.any(pair * tops * others >= document * (tops + others) + panel))


def _group_to_group(f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray) -> None:
    """-log of the share of T in the sum over all; its curvature is that of log sum over all, a convex majoriser."""
    sizes = np.diff(starts)
    logs = log_sums(f, starts[:-1], sizes)
    log_t, log_f = logs[::2], logs[1::2]
    log_all = np.logaddexp(log_t, log_f)
    outside = np.exp(log_f - log_all)
    values[:] = np.logaddexp(0.0, log_f - log_t)
    slopes[:] = np.repeat(np.column_stack([-outside, outside]).ravel(), sizes) * np.exp(f - np.repeat(logs, sizes))
    if len(bends):
        p = np.exp(f - np.repeat(np.repeat(log_all, 2), sizes))
        bends[:] = p * (1.0 - p)


def _one_to_group(f: FloatArray, starts: IntArray, values: FloatArray, slopes: FloatArray, bends: FloatArray) -> None:
    """Every document of T by itself against all of F."""
    sizes = np.diff(starts)
    logs = log_sums(f, starts[:-1], sizes)
    in_t = np.repeat(np.tile([True, False], len(values)), sizes)
    log_f = np.repeat(logs[1::2], sizes[::2])
    log_d = np.logaddexp(f[in_t], log_f)
    firsts = np.concatenate([[0], np.cumsum(sizes[:-2:2])])
    values[:] = np.add.reduceat(log_d - f[in_t], firsts)
    loses = np.exp(log_f - log_d)
    share = np.exp(f[~in_t] - np.repeat(logs[1::2], sizes[1::2]))
    slopes[in_t] = -loses
    slopes[~in_t] = share * np.repeat(np.add.reduceat(loses, firsts), sizes[1::2])
    if len(bends):
        bends[in_t] = loses * np.exp(f[in_t] - log_d)
        twice = np.repeat(np.add.reduceat(loses * loses, firsts), sizes[1::2])
        bends[~in_t] = np.maximum(slopes[~in_t] - share * share * twice, 0.0)


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
