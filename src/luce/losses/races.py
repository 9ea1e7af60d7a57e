"""Races of tiers of rows, each of which arrives before the next: made of grades, lists or pieces of long queries, and
run stage by stage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from luce.data.comparisons import Comparisons
from luce.losses.chances import TopKChances, exact_top
from luce.losses.top_lists import TopLists, listed
from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp
from luce.numerics.races import chance_of_tier, chances_in_top, room_for_tiers
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

EXACT, EFRON, BRESLOW = None, 1, 2
"""How a tier of several documents is treated: integrated over its orders, or by two well-known approximations.

Of None the compiler knows that no approximation is asked for, and passes it by.
"""


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


def from_lists(name: str, target: Comparisons, offsets: IntArray) -> Races:
    """One race a list: its tiers, and, under a top list, the rest of the query as the last one.

    >>> races = from_lists("plackett_luce", Comparisons.from_orders([[3, [0, 2]]], top=True), np.array([0, 5]))
    >>> races.order.tolist(), races.starts.tolist()
    ([3, 0, 2, 1, 4], [0, 1, 3, 5])
    """
    said = listed(name, target, offsets).closed()
    weights = np.repeat(said.times, np.diff(said.chains))
    return Races(*said.as_tiers(), said.by_query, offsets, weights)


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


def race_to_top(scores: FloatArray, k: int) -> TopKChances:
    """The chances to be among the first k under Luce's model: all of them where there are no more."""
    return exact_top(np.ones(len(scores)) if k >= len(scores) else chances_in_top(scores, k))


@kernel
def run_races(method, target, scores, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """`one_race` for all races of the queries from `first` on, as many as there are values to fill."""
    last = first + len(values)
    begin, end = target.queries[first], target.queries[last]
    room = race_room(target.starts, target.races, begin, end)
    shift = np.int64(0)  # not the literal, for which all would be compiled once more
    for row in range(target.offsets[first], target.offsets[last]):
        grad[row] = 0.0
        if len(curvature):
            curvature[row] = 0.0
    for i in range(len(values)):
        values[i] = 0.0
        for race in range(target.queries[first + i], target.queries[first + i + 1]):
            a, b = target.races[race], target.races[race + 1]
            weights = target.weights[a:b] if len(target.weights) else target.weights
            values[i] += one_race(
                method, scores, target.order, target.starts[a : b + 1], shift, weights, room, grad, curvature
            )


@part
def race_room(starts, races, first, last):  # type: ignore[no-untyped-def]
    """Room for `one_race`, for the longest tier and the most stages of the races first to last."""
    most, longest = np.int64(1), np.int64(1)
    for race in range(first, last):
        most = max(most, races[race + 1] - races[race])
        for t in range(races[race], races[race + 1] - 1):
            longest = max(longest, starts[t + 1] - starts[t])
    return room_for_tiers(longest), np.empty((3, longest)), np.empty(most)


@part
def one_race(method, scores, order, starts, shift, weights, room, grad, curvature):  # type: ignore[no-untyped-def]
    """Value of the tiers `order[starts[k]:starts[k + 1]]`; adds to grad and, unless it is empty, to curvature.

    Row r of the data is entry `r - shift` of scores, grad and curvature, so that a caller may hold a block only.
    `weights` has one a tier, or none where all are 1.
    """
    tiers, rooms, after = len(starts) - 1, room[0], room[2]
    running = -np.inf
    for k in range(tiers - 1, 0, -1):
        running = _log_sum(running, scores, order, starts[k], starts[k + 1], shift)
        after[k - 1] = running
    # Over the stages so far, in units of what came after the last of them: what a share is multiplied by in the
    # gradient, and it and its square in the curvature, which is the diagonal of the Hessian.
    value, once, twice = 0.0, 0.0, 0.0
    for k in range(tiers):
        if k > 0:
            for j in range(starts[k], starts[k + 1]):
                row = order[j] - shift
                share = fast_exp(scores[row] - after[k - 1])
                grad[row] += share * once
                if len(curvature):
                    curvature[row] += max(share * once - share * share * twice, 0.0)
        if k == tiers - 1:
            break
        if k > 0:
            smaller = math.exp(after[k] - after[k - 1])
            once, twice = once * smaller, twice * smaller * smaller
        m = starts[k + 1] - starts[k]
        log_rates, slopes, bends = room[1][0, :m], room[1][1, :m], room[1][2, : m if len(curvature) else 0]
        for i in range(m):
            log_rates[i] = scores[order[starts[k] + i] - shift] - after[k]
        if method is None or m == 1:
            log_p, total, second = chance_of_tier(log_rates, slopes, bends, rooms)
        else:
            log_p, total, second = _approximate(log_rates, method == EFRON, slopes, bends)
        weight = weights[k] if len(weights) else 1.0
        value -= weight * log_p
        once, twice = once + weight * total, twice + weight * second
        for i in range(m):
            row = order[starts[k] + i] - shift
            grad[row] -= weight * slopes[i]
            if len(curvature):
                curvature[row] += weight * bends[i]
    return value


@part
def _log_sum(running, scores, order, first, last, shift):  # type: ignore[no-untyped-def]
    """Log of e^running plus the sum of e^f over a tier."""
    high, total = running, 0.0
    for j in range(first, last):
        high = max(high, scores[order[j] - shift])
    for j in range(first, last):
        total += fast_exp(scores[order[j] - shift] - high)
    return high + math.log(total + math.exp(running - high))


@part
def _approximate(log_rates, efron, slopes, bends):  # type: ignore[no-untyped-def]
    r"""What `chance_of_tier` gives, for $\prod_i r_i / \prod_l (1 + (1 - c_l) \sum_i r_i)$, $c_l = l/m$ or 0."""
    m, high, sums, total = len(log_rates), -np.inf, 0.0, 0.0
    for log_rate in log_rates:
        high = max(high, log_rate)
        sums += log_rate
    for log_rate in log_rates:
        total += math.exp(log_rate - high)
    log_rate = high + math.log(total)
    rate = math.exp(min(log_rate, 700.0))
    log_p, out, out_square, inside, inside_square = sums, 0.0, 0.0, 0.0, 0.0
    for stage in range(m):
        left = 1.0 - stage / m if efron else 1.0
        log_p -= math.log1p(left * rate) if log_rate < 700.0 else log_rate + math.log(left)
        p = 1.0 / (1.0 + left * rate)
        out, out_square = out + p, out_square + p * p
        inside, inside_square = inside + (1.0 - p), inside_square + (1.0 - p) ** 2
    for i in range(m):
        share = math.exp(log_rates[i] - log_rate)
        slopes[i] = 1.0 - share * inside
        if len(bends):
            bends[i] = max(share * inside - share * share * inside_square, 0.0)
    return log_p, out, out_square
