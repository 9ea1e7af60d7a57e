"""Queries, sorted once for all metrics: ranked order, ideal order, blocks of tied documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import kernel, part
from luce.numerics.segments import chunk_queries, map_chunks
from luce.numerics.sorting import sort_descending, sort_grades, sort_space
from luce.types import FloatArray, IntArray

STABLE, AVERAGE, BEST, WORST = range(4)
_TIES = {"average": AVERAGE, "stable": STABLE, "docid": STABLE, "best": BEST, "worst": WORST}
"""Rules for tied scores, as kernels know them; `docid` is `stable` on rows that were sorted by document id."""


class Ranked(NamedTuple):
    """A ranked query of n documents, named by their numbers 0..n-1 in the input.

    `order` lists them best score first, `ideal` best label first. `blocks` cuts the first `retrieved` positions into
    runs whose inner order is not decided (single documents unless ties are averaged): block b holds the positions
    `blocks[b]` to `blocks[b + 1]`. `ties` cuts all n positions into runs of equal score, whatever the rule for ties.
    """

    n: int
    retrieved: int
    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray


class Ranking(NamedTuple):
    """All queries ranked, end to end: what `ranked_query` cuts a `Ranked` from.

    `counts` has, for every query, its retrieved documents, its blocks and its runs of equal score; the bounds of those
    of query q start at `offsets[q] + q`.
    """

    offsets: IntArray
    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray
    counts: NDArray[np.int64]


def rank(scores: FloatArray, labels: FloatArray, offsets: IntArray, ties: str) -> Ranking:
    """Sort every query once, for all metrics."""
    n, queries = len(scores), len(offsets) - 1
    order, ideal = np.empty(n, np.int64), np.empty(n, np.int64)
    blocks, runs = np.empty(n + queries, np.int64), np.empty(n + queries, np.int64)
    ranking = Ranking(offsets, order, ideal, blocks, runs, np.empty((queries, 3), np.int64))
    rule = _TIES[ties]
    map_chunks(lambda _, chunk: _rank_queries(*chunk, scores, labels, rule, *ranking), chunk_queries(offsets))
    return ranking


@kernel
def _rank_queries(
    first: int,
    last: int,
    all_scores: FloatArray,
    all_labels: FloatArray,
    ties: int,
    offsets: IntArray,
    orders: IntArray,
    ideals: IntArray,
    blocks: IntArray,
    runs: IntArray,
    counts: NDArray[np.int64],
) -> None:
    space = sort_space(longest_of(offsets, first, last))
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        scores, labels = all_scores[begin : begin + n], all_labels[begin : begin + n]
        order, ideal = orders[begin : begin + n], ideals[begin : begin + n]
        sort_grades(labels, ideal, space)
        for i in range(n):
            order[i] = ideal[i] if ties == BEST else ideal[n - 1 - i] if ties == WORST else i
        sort_descending(scores, order, space)
        retrieved = n  # a score of minus infinity marks a document that was not retrieved
        while retrieved > 0 and scores[order[retrieved - 1]] == -np.inf:
            retrieved -= 1
        n_ties, n_blocks, base = 0, 0, begin + q
        for i in range(n):
            new = i == 0 or scores[order[i]] != scores[order[i - 1]]
            if new:
                runs[base + n_ties] = i
                n_ties += 1
            if i < retrieved and (new or ties != AVERAGE):
                blocks[base + n_blocks] = i
                n_blocks += 1
        runs[base + n_ties], blocks[base + n_blocks] = n, retrieved
        counts[q, 0], counts[q, 1], counts[q, 2] = retrieved, n_blocks, n_ties


@part
def ranked_query(ranking: Ranking, q: int) -> Ranked:
    """One query of a ranking."""
    begin, end = ranking.offsets[q], ranking.offsets[q + 1]
    return Ranked(
        end - begin,
        ranking.counts[q, 0],
        ranking.order[begin:end],
        ranking.ideal[begin:end],
        ranking.blocks[begin + q : begin + q + ranking.counts[q, 1] + 1],
        ranking.ties[begin + q : begin + q + ranking.counts[q, 2] + 1],
    )


@part
def longest_of(offsets: IntArray, first: int, last: int) -> int:
    """Documents of the longest of some queries."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest
