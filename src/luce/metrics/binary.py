"""Metrics of relevant or not: precision, recall, average precision, reciprocal rank, RBP.

Expected values over the orders of a tied block of t documents, r of them relevant, that follows c documents with
`before` relevant ones:

- a position of the block is relevant with probability r/t (P, recall, RBP);
- AP: position i of the block adds (r/t) (1 + before + (i - 1)(r - 1)/(t - 1)) / (c + i);
- RR: the first relevant document is at position i with probability C(t - i, r - 1) / C(t, r).
"""

from __future__ import annotations

from numba import njit

from luce.metrics.ranked import Ranked, Rules
from luce.types import FloatArray

__all__ = ["average_precision", "count_relevant", "hits", "rank_biased_precision", "reciprocal_rank"]


@njit(nogil=True, cache=True, error_model="numpy")
def count_relevant(labels: FloatArray, relevance: float) -> int:
    """R: the relevant documents of the query, retrieved or not."""
    total = 0
    for label in labels:
        if label >= relevance:
            total += 1
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def _relevant_in(labels: FloatArray, ranked: Ranked, first: int, last: int, relevance: float) -> int:
    total = 0
    for i in range(first, last):
        if labels[ranked.order[i]] >= relevance:
            total += 1
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def hits(labels: FloatArray, ranked: Ranked, k: int, rules: Rules) -> float:
    """Expected number of relevant documents among the first k: k times P@k, [Ties] (18)."""
    total = 0.0
    for b in range(len(ranked.blocks) - 1):
        first, last = ranked.blocks[b], ranked.blocks[b + 1]
        if first >= k:
            break
        relevant = _relevant_in(labels, ranked, first, last, rules.relevance)
        total += relevant * (min(last, k) - first) / (last - first)
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def average_precision(labels: FloatArray, ranked: Ranked, k: int, n_relevant: int, rules: Rules) -> float:
    """AP@k = (1/R) sum_{i <= k} rel_i P@i, [Ties] (19)."""
    blocks = ranked.ties if rules.map_by_threshold else ranked.blocks
    before, total = 0, 0.0
    for b in range(len(blocks) - 1):
        first, last = blocks[b], min(blocks[b + 1], ranked.retrieved)
        if first >= k or first >= ranked.retrieved:
            break
        t = last - first
        r = _relevant_in(labels, ranked, first, last, rules.relevance)
        if r > 0 and rules.map_by_threshold:
            total += r * (before + r) / last
        elif r > 0:
            slope = (r - 1) / (t - 1) if t > 1 else 0.0
            for i in range(1, min(last, k) - first + 1):
                total += (r / t) * (1.0 + before + (i - 1) * slope) / (first + i)
        before += r
    return total / (min(n_relevant, k) if rules.map_by_cutoff else n_relevant)


@njit(nogil=True, cache=True, error_model="numpy")
def reciprocal_rank(labels: FloatArray, ranked: Ranked, k: int, rules: Rules) -> float:
    """1 / position of the first relevant document, 0 where none is among the first k."""
    for b in range(len(ranked.blocks) - 1):
        first, last = ranked.blocks[b], ranked.blocks[b + 1]
        if first >= k:
            break
        r = _relevant_in(labels, ranked, first, last, rules.relevance)
        if r == 0:
            continue
        t = last - first
        total, probability = 0.0, r / t
        for i in range(1, min(last, k) - first + 1):
            total += probability / (first + i)
            # C(t - i - 1, r - 1) / C(t - i, r - 1); it is 0 where fewer than r documents are left.
            probability *= (t - i - r + 1) / (t - i) if t > i else 0.0
        return total
    return 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def rank_biased_precision(labels: FloatArray, ranked: Ranked, k: int, rules: Rules) -> float:
    """RBP@k = (1 - p) sum_{i <= k} rel_i p^(i - 1)."""
    total, weight = 0.0, 1.0 - rules.persistence
    for b in range(len(ranked.blocks) - 1):
        first, last = ranked.blocks[b], ranked.blocks[b + 1]
        if first >= k:
            break
        gain = 0.0
        for i in range(first, last):
            label = labels[ranked.order[i]]
            if label >= rules.relevance:
                gain += label if rules.graded_rbp else 1.0
        mean = gain / (last - first)
        for _ in range(first, min(last, k)):
            total += mean * weight
            weight *= rules.persistence
    return total
