"""All metrics of all queries in one pass: each query is sorted once, then every metric reads the same ranking.

One compiled kernel fills a matrix (queries, metrics). A kind is a formula; a source says which labels it reads: 0
the labels as given, 1 the position-aware labels of the kappa metrics.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from luce.metrics.binary import average_precision, count_relevant, hits, rank_biased_precision, reciprocal_rank
from luce.metrics.cascade import expected_reciprocal_rank
from luce.metrics.concordance import (
    count_pairs,
    footrule,
    kendall_tau,
    level_labels,
    pairwise_accuracy,
    tie_precision,
)
from luce.metrics.discounted import cumulate_gain, cumulate_ideal, mean_ndcg, ndcg
from luce.metrics.ranked import Ranked, Rules, Workspace, rank_query, workspace
from luce.numerics.segments import chunk_queries, map_chunks
from luce.types import FloatArray, IntArray

__all__ = ["Kind", "Plan", "fill"]


class Kind(IntEnum):
    """The formulas, grouped in families by what they need of a query."""

    DCG = 0
    NDCG = 1
    MEAN_NDCG = 2
    ERR = 10
    PRECISION = 20
    RECALL = 21
    AVERAGE_PRECISION = 22
    RECIPROCAL_RANK = 23
    RBP = 24
    KENDALL_TAU = 30
    PAIRWISE_ACCURACY = 31
    TIE_PRECISION = 32
    FOOTRULE = 33


# Kernels see enum members as plain numbers.
_DCG, _NDCG, _ERR = int(Kind.DCG), int(Kind.NDCG), int(Kind.ERR)
_RECALL, _AP, _RR, _RBP = (int(k) for k in (Kind.RECALL, Kind.AVERAGE_PRECISION, Kind.RECIPROCAL_RANK, Kind.RBP))
_TAU, _TIES, _FOOTRULE = int(Kind.KENDALL_TAU), int(Kind.TIE_PRECISION), int(Kind.FOOTRULE)


class Plan(NamedTuple):
    """What to compute: one entry a metric. A cut-off of 0 means the whole list."""

    kinds: IntArray
    sources: IntArray
    cutoffs: IntArray


class Evidence(NamedTuple):
    """One query: scores, labels, and gains and stopping probabilities of every source."""

    scores: FloatArray
    labels: FloatArray
    gains: NDArray[np.float64]
    stops: NDArray[np.float64]


@njit(nogil=True, cache=True, error_model="numpy")
def _zero_unless_skipped(empty: float) -> float:
    return np.nan if np.isnan(empty) else 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def _discounted(kind: int, k: int, n: int, dcg: FloatArray, best: FloatArray, rules: Rules) -> float:
    if kind == _NDCG:
        return ndcg(dcg, best, n, k, rules.empty, rules.short_ndcg_is_zero)
    if kind == _DCG:
        return dcg[min(k, n)] if best[n] > 0.0 else _zero_unless_skipped(rules.empty)
    return mean_ndcg(dcg, best, n, rules.empty)


@njit(nogil=True, cache=True, error_model="numpy")
def _cascade(k: int, stop: FloatArray, ranked: Ranked, empty: float, means: FloatArray) -> float:
    if stop[ranked.ideal[0]] <= 0.0:
        return _zero_unless_skipped(empty)
    return expected_reciprocal_rank(stop, ranked, k, means)


@njit(nogil=True, cache=True, error_model="numpy")
def _binary(kind: int, k: int, whole: bool, labels: FloatArray, ranked: Ranked, rules: Rules) -> float:
    relevant = count_relevant(labels, rules.relevance)
    if relevant == 0:
        if kind == _AP:
            return rules.empty_map
        return rules.empty if kind == _RECALL else _zero_unless_skipped(rules.empty)
    if kind == _AP:
        return average_precision(labels, ranked, k, relevant, rules)
    if kind == _RR:
        return reciprocal_rank(labels, ranked, k, rules)
    if kind == _RBP:
        return rank_biased_precision(labels, ranked, k, rules)
    if kind == _RECALL:
        return hits(labels, ranked, k, rules) / relevant
    places = min(k, ranked.retrieved) if whole or rules.precision_by_retrieved else k
    if places == 0 or (rules.short_precision_is_zero and not whole and ranked.n < k):
        return 0.0
    return hits(labels, ranked, k, rules) / places


@njit(nogil=True, cache=True, error_model="numpy")
def _concordance(
    kind: int, scores: FloatArray, ranked: Ranked, level: IntArray, levels: int, counts: IntArray, margin: float
) -> float:
    if kind == _TIES:
        return tie_precision(scores, ranked, level, levels, margin, counts)
    pairs = count_pairs(ranked, level, levels, counts)
    return kendall_tau(pairs) if kind == _TAU else pairwise_accuracy(pairs)


@njit(nogil=True, cache=True, error_model="numpy")
def _measure_query(query: Evidence, plan: Plan, rules: Rules, work: Workspace, out: FloatArray) -> None:
    ranked = rank_query(query.scores, query.labels, rules.ties, work)
    cumulated = np.zeros(len(query.gains), np.bool_)
    levels = 0
    for m in range(len(plan.kinds)):
        kind, source = plan.kinds[m], plan.sources[m]
        whole = plan.cutoffs[m] == 0
        k = ranked.n if whole else plan.cutoffs[m]
        if kind < _ERR:
            dcg, best = work.dcg[source], work.best[source]
            if not cumulated[source]:
                cumulate_gain(query.gains[source], ranked, rules.discounts, dcg)
                cumulate_ideal(query.gains[source], ranked, rules.discounts, best)
                cumulated[source] = True
            out[m] = _discounted(kind, k, ranked.n, dcg, best, rules)
        elif kind == _ERR:
            out[m] = _cascade(k, query.stops[source], ranked, rules.empty, work.means)
        elif kind < _TAU:
            out[m] = _binary(kind, k, whole, query.labels, ranked, rules)
        else:
            if levels == 0:
                levels = level_labels(query.labels, ranked, work.level, work.middle)
            if kind == _FOOTRULE:
                out[m] = footrule(ranked, levels, work.middle)
            else:
                out[m] = _concordance(kind, query.scores, ranked, work.level, levels, work.counts, rules.tie_margin)


@njit(nogil=True, cache=True, error_model="numpy")
def _measure_chunk(
    first: int, last: int, offsets: IntArray, data: Evidence, plan: Plan, rules: Rules, out: NDArray[np.float64]
) -> None:
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    work = workspace(longest, len(data.gains))
    for q in range(first, last):
        here, end = offsets[q], offsets[q + 1]
        query = Evidence(data.scores[here:end], data.labels[here:end], data.gains[:, here:end], data.stops[:, here:end])
        _measure_query(query, plan, rules, work, out[q])


def fill(
    scores: FloatArray,
    labels: FloatArray,
    offsets: IntArray,
    gains: NDArray[np.float64],
    stops: NDArray[np.float64],
    plan: Plan,
    rules: Rules,
) -> NDArray[np.float64]:
    """The matrix (queries, metrics) of values; NaN where a query is skipped.

    Shapes: `scores` and `labels` (rows,), `gains` and `stops` (sources, rows).
    """
    out = np.empty((len(offsets) - 1, len(plan.kinds)))
    data = Evidence(scores, labels, gains, stops)
    map_chunks(lambda _, chunk: _measure_chunk(*chunk, offsets, data, plan, rules, out), chunk_queries(offsets))
    return out
