"""A tie across the cut of a top list: so many of its documents as there are seats come first, whichever they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.losses.base import Outputs
from luce.losses.top_draws import cut_ties
from luce.losses.top_lists import TopLists
from luce.numerics.compiled import kernel
from luce.numerics.first_arrivals import chance_of_seats
from luce.types import FloatArray, IntArray


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
