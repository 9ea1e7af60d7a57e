"""Metrics of relevant or not: precision, recall, average precision, reciprocal rank, RBP.

Expected values over the orders of a tied block of t documents, r of them relevant, that follows c documents with
`before` relevant ones:

- a position of the block is relevant with probability r/t (P, recall, RBP: sums with that in place of a gain);
- AP: position i of the block adds (r/t) (1 + before + (i - 1)(r - 1)/(t - 1)) / (c + i);
- RR: the first relevant document is at position i with probability C(t - i, r - 1) / C(t, r).
"""

from __future__ import annotations

import numpy as np

from luce.metrics.discounted import up_to
from luce.metrics.ranked import Ranked, Ranking, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray


@part
def _count_relevant(labels: FloatArray, relevance: float) -> int:
    """R: the relevant documents of the query, retrieved or not."""
    total = 0
    for label in labels:
        if label >= relevance:
            total += 1
    return total


@part
def _relevant_in(labels: FloatArray, ranked: Ranked, first: int, last: int, relevance: float) -> int:
    total = 0
    for i in range(first, last):
        if labels[ranked.order[i]] >= relevance:
            total += 1
    return total


def precisions(
    offsets: IntArray,
    hits: FloatArray,
    relevant: FloatArray,
    retrieved: IntArray,
    k: int,
    nothing: float,
    by_retrieved: bool,
    short_is_zero: bool,
    out: FloatArray,
) -> None:
    """P@k of queries, [Ties] (18), from `hits`, their relevant documents up to each position, as `cumulate` has them.

    A query without a relevant document has `nothing`.
    """
    n = np.diff(offsets)
    places = np.minimum(k or n, retrieved) if k == 0 or by_retrieved else np.full(len(n), k)
    empty = (places == 0) | (short_is_zero & (n < k))
    value = up_to(offsets, hits, k) / np.maximum(places, 1)
    out[:] = np.where(relevant > 0, np.where(empty, 0.0, value), nothing)


def recalls(offsets: IntArray, hits: FloatArray, relevant: FloatArray, k: int, empty: float, out: FloatArray) -> None:
    """Recall@k of queries; a query without a relevant document is `empty`."""
    out[:] = np.where(relevant > 0, up_to(offsets, hits, k) / np.maximum(relevant, 1), empty)


def rank_biased_precisions(
    offsets: IntArray, sums: FloatArray, relevant: FloatArray, k: int, nothing: float, out: FloatArray
) -> None:
    """RBP@k = (1 - p) sum_{i <= k} rel_i p^(i - 1) of queries, from these sums up to each position."""
    out[:] = np.where(relevant > 0, up_to(offsets, sums, k), nothing)


@kernel
def average_precisions(
    ranking: Ranking,
    labels: FloatArray,
    relevance: float,
    k: int,
    empty: float,
    by_threshold: bool,
    by_cutoff: bool,
    out: FloatArray,
) -> None:
    """AP@k = (1/R) sum_{i <= k} rel_i P@i of queries, [Ties] (19)."""
    for q in range(len(out)):
        ranked, here = ranked_query(ranking, q), labels[ranking.offsets[q] : ranking.offsets[q + 1]]
        relevant = _count_relevant(here, relevance)
        if relevant == 0:
            out[q] = empty
            continue
        cut = k if k > 0 else ranked.n
        blocks = ranked.ties if by_threshold else ranked.blocks
        before, total = 0, 0.0
        for b in range(len(blocks) - 1):
            start, stop = blocks[b], min(blocks[b + 1], ranked.retrieved)
            if start >= cut or start >= ranked.retrieved:
                break
            t = stop - start
            if t == 1:
                if here[ranked.order[start]] >= relevance:
                    before += 1
                    total += before / stop
                continue
            r = _relevant_in(here, ranked, start, stop, relevance)
            if r > 0 and by_threshold:
                total += r * (before + r) / stop
            elif r > 0:
                slope = (r - 1) / (t - 1)
                for i in range(1, min(stop, cut) - start + 1):
                    total += (r / t) * (1.0 + before + (i - 1) * slope) / (start + i)
            before += r
        out[q] = total / (min(relevant, cut) if by_cutoff else relevant)


@kernel
def reciprocal_ranks(
    ranking: Ranking,
    labels: FloatArray,
    relevance: float,
    k: int,
    nothing: float,
    out: FloatArray,
) -> None:
    """1 / position of the first relevant document of queries, 0 where none is among the first k."""
    for q in range(len(out)):
        ranked, here = ranked_query(ranking, q), labels[ranking.offsets[q] : ranking.offsets[q + 1]]
        cut = k if k > 0 else ranked.n
        out[q] = 0.0 if _count_relevant(here, relevance) > 0 else nothing
        for b in range(len(ranked.blocks) - 1):
            start, stop = ranked.blocks[b], ranked.blocks[b + 1]
            r = _relevant_in(here, ranked, start, stop, relevance)
            if start >= cut or r > 0:
                t = stop - start
                probability = r / t
                for i in range(1, min(stop, cut) - start + 1):
                    out[q] += probability / (start + i)
                    # C(t - i - 1, r - 1) / C(t - i, r - 1); it is 0 where fewer than r documents are left.
                    probability *= (t - i - r + 1) / (t - i) if t > i else 0.0
                break
