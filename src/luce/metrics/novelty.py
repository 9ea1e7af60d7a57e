r"""alpha-NDCG: gain that a document brings beyond what was seen before (Clarke et al., 2008).

A document about the subtopics $T_d$ gains $\sum_{i \in T_d} (1 - \alpha)^{c_i}$, where $c_i$ documents before it are
about subtopic $i$; the sum of gain times discount is divided by that of an ideal order. Finding the best order is
NP-hard, so the ideal one is greedy, as in the tools of TREC: at each position the document that gains most.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from luce.data.named_rows import numbered_by_query
from luce.errors import DataError
from luce.metrics.lists import Lists, Ranked, rank, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray


def alpha_ndcg(lists: Lists, k: int) -> FloatArray:
    """alpha-NDCG@k; a query whose documents have no subtopic follows the convention `empty`."""
    if lists.subtopics is None:
        raise DataError(
            f"The metric 'alpha_ndcg{f'@{k}' if k else ''}' needs the subtopics of documents, and the data have none; "
            "add them with luce.with_subtopics, or with --subtopics on the command line."
        )
    matrix = numbered_by_query(sparse.csr_array(lists.subtopics), lists.offsets)
    start, column = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    ranking = rank(lists.scores, np.diff(start).astype(np.float64), lists.offsets, lists.chosen.ties)
    about = start, column, matrix.shape[1], float(lists.chosen.alpha)
    out = lists.each(_measure, *about, k or len(lists.discounts), lists.discounts, ranking=ranking)
    short = (lists.chosen.shortfall != "truncate") & (lists.sizes < k)
    has_any = start[lists.offsets[1:]] > start[lists.offsets[:-1]]
    return np.where(has_any, np.where(short, 0.0, out), lists.empty)


@kernel
def _measure(first, last, ranking, start, column, n_subtopics, alpha, k, discounts, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = ranking.offsets[q], ranking.offsets[q + 1]
        gained = _expected(ranked_query(ranking, q), start[a : b + 1], column, n_subtopics, k, alpha, discounts)
        order = ideal_order(start[a : b + 1], column, n_subtopics, min(k, b - a), alpha)
        out[q] = gained / _of_order(order, start[a : b + 1], column, n_subtopics, alpha, discounts)


@part
def ideal_order(start: IntArray, column: IntArray, n_subtopics: int, k: int, alpha: float) -> IntArray:
    """The first k documents of one query, each the one that gains most after those before it; the first of equals."""
    n = len(start) - 1
    weight, placed = np.ones(n_subtopics), np.zeros(n, np.bool_)
    order = np.empty(k, np.int64)
    for position in range(k):
        best, most = -1, -1.0
        for d in range(n):
            if not placed[d]:
                gain = 0.0
                for e in range(start[d], start[d + 1]):
                    gain += weight[column[e]]
                if gain > most:
                    best, most = d, gain
        order[position] = best
        placed[best] = True
        for e in range(start[best], start[best + 1]):
            weight[column[e]] *= 1.0 - alpha
    return order


@part
def _of_order(
    order: IntArray, start: IntArray, column: IntArray, n_subtopics: int, alpha: float, discounts: FloatArray
) -> float:
    weight = np.ones(n_subtopics)
    total = 0.0
    for position in range(len(order)):
        d = order[position]
        for e in range(start[d], start[d + 1]):
            total += weight[column[e]] * discounts[position]
            weight[column[e]] *= 1.0 - alpha
    return total


@part
def _expected(
    ranked: Ranked, start: IntArray, column: IntArray, n_subtopics: int, k: int, alpha: float, discounts: FloatArray
) -> float:
    """Sum of gain times discount, as expected over the orders of tied documents.

    In a tied block of t documents, R of them about a subtopic, position n holds one of these with probability R/t; the
    number H of others among the n - 1 before it is hypergeometric, so that its gain there is E (1 - alpha)^H.
    """
    weight = np.ones(n_subtopics)
    about = np.zeros(n_subtopics, np.int64)
    total = 0.0
    for b in range(len(ranked.blocks) - 1):
        first, last = ranked.blocks[b], ranked.blocks[b + 1]
        if first >= k:
            break
        about[:] = 0
        for i in range(first, last):
            d = ranked.order[i]
            for e in range(start[d], start[d + 1]):
                about[column[e]] += 1
        t = last - first
        for s in range(n_subtopics):
            if about[s] > 0:
                for i in range(first, min(last, k)):
                    seen = _seen(t - 1, about[s] - 1, i - first, 1.0 - alpha)
                    total += about[s] / t * weight[s] * seen * discounts[i]
                weight[s] *= (1.0 - alpha) ** about[s]
    return total


@part
def _seen(others: int, about: int, drawn: int, q: float) -> float:
    """E q^H, with H of `about` documents among `drawn` out of `others`."""
    if about == 0 or drawn == 0:
        return 1.0
    total = 0.0
    for h in range(max(0, drawn + about - others), min(about, drawn) + 1):
        log_p = _log_binomial(about, h) + _log_binomial(others - about, drawn - h) - _log_binomial(others, drawn)
        total += math.exp(log_p) * q**h
    return total


@part
def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
