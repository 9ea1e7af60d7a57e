"""Metrics of relevant or not: precision, recall, average precision, reciprocal rank, RBP.

Expected values over the orders of a tied block of t documents, r of them relevant, that follows c documents with
`before` relevant ones:

- a position of the block is relevant with probability r/t (P, recall, RBP: sums with that in place of a gain);
- AP: position i of the block adds (r/t) (1 + before + (i - 1)(r - 1)/(t - 1)) / (c + i);
- RR: the first relevant document is at position i with probability C(t - i, r - 1) / C(t, r).
"""

from __future__ import annotations

import numpy as np

from luce.metrics.lists import Lists, Ranked, Ranking, as_number, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray


def precision(lists: Lists, k: int) -> FloatArray:
    """P@k, [Ties] (18)."""
    n, retrieved = lists.sizes, lists.ranking.counts[:, 0]
    by_retrieved = k == 0 or lists.chosen.precision_denominator == "retrieved"
    places = np.minimum(k or n, retrieved) if by_retrieved else np.full(len(n), k)
    empty = (places == 0) | ((lists.chosen.shortfall == "zero") & (n < k))
    value = lists.hits[lists.cut(k)] / np.maximum(places, 1)
    return np.where(lists.n_relevant > 0, np.where(empty, 0.0, value), lists.nothing)


def recall(lists: Lists, k: int) -> FloatArray:
    """Recall@k."""
    share = lists.hits[lists.cut(k)] / np.maximum(lists.n_relevant, 1)
    return np.where(lists.n_relevant > 0, share, lists.empty)


def rank_biased_precision(lists: Lists, k: int) -> FloatArray:
    """RBP@k = (1 - p) sum_{i <= k} rel_i p^(i - 1)."""
    p = lists.chosen.persistence
    weights: FloatArray = (1.0 - p) * p ** np.arange(float(len(lists.discounts)))
    graded = lists.chosen.rbp_gain == "grade"
    sums = lists.sums(lists.relevant * lists.labels if graded else lists.relevant, weights)[0]
    return np.where(lists.n_relevant > 0, sums[lists.cut(k)], lists.nothing)


def average_precision(lists: Lists, k: int) -> FloatArray:
    """AP@k = (1/R) sum_{i <= k} rel_i P@i, [Ties] (19)."""
    chosen, relevant = lists.chosen, lists.n_relevant
    total = lists.each(_sums_of_precision, lists.relevant, k, chosen.map_ties == "threshold")
    most = np.minimum(relevant, k or lists.sizes) if chosen.map_denominator == "cutoff" else relevant
    empty = lists.empty if chosen.empty_map is None else as_number(chosen.empty_map)
    return np.where(relevant > 0, total / np.maximum(most, 1), empty)


def reciprocal_rank(lists: Lists, k: int) -> FloatArray:
    """1 / position of the first relevant document, 0 where none is among the first k."""
    return np.where(lists.n_relevant > 0, lists.each(_reciprocal_ranks, lists.relevant, k), lists.nothing)


@part
def _relevant_in(relevant: FloatArray, ranked: Ranked, first: int, last: int) -> int:
    total = 0
    for i in range(first, last):
        if relevant[ranked.order[i]] > 0.0:
            total += 1
    return total


@kernel
def _sums_of_precision(
    begin: int, end: int, ranking: Ranking, relevant: FloatArray, k: int, by_threshold: bool, out: FloatArray
) -> None:
    for q in range(begin, end):
        ranked, here = ranked_query(ranking, q), relevant[ranking.offsets[q] : ranking.offsets[q + 1]]
        cut = k if k > 0 else ranked.n
        blocks = ranked.ties if by_threshold else ranked.blocks
        before, total = 0, 0.0
        for b in range(len(blocks) - 1):
            start, stop = blocks[b], min(blocks[b + 1], ranked.retrieved)
            if start >= cut or start >= ranked.retrieved:
                break
            t, r = stop - start, _relevant_in(here, ranked, start, stop)
            if t == 1 or (r > 0 and by_threshold):
                total += r * (before + r) / stop
            elif r > 0:
                slope = (r - 1) / (t - 1)
                for i in range(1, min(stop, cut) - start + 1):
                    total += (r / t) * (1.0 + before + (i - 1) * slope) / (start + i)
            before += r
        out[q] = total


@kernel
def _reciprocal_ranks(begin: int, end: int, ranking: Ranking, relevant: FloatArray, k: int, out: FloatArray) -> None:
    for q in range(begin, end):
        ranked, here = ranked_query(ranking, q), relevant[ranking.offsets[q] : ranking.offsets[q + 1]]
        cut = k if k > 0 else ranked.n
        out[q] = 0.0
        for b in range(len(ranked.blocks) - 1):
            start, stop = ranked.blocks[b], ranked.blocks[b + 1]
            r = _relevant_in(here, ranked, start, stop)
            if start >= cut or r > 0:
                t = stop - start
                probability = r / t
                for i in range(1, min(stop, cut) - start + 1):
                    out[q] += probability / (start + i)
                    # C(t - i - 1, r - 1) / C(t - i, r - 1); it is 0 where fewer than r documents are left.
                    probability *= (t - i - r + 1) / (t - i) if t > i else 0.0
                break
