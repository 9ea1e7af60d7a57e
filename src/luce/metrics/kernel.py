"""All metrics of all queries in one pass: each query is sorted once, then every metric reads the same ranking.

One compiled kernel fills a matrix (queries, metrics). A kind is a formula; a source says which labels it reads: 0
the labels as given, 1 the position-aware labels of the kappa metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from luce.metrics.positions import weigh_positions
from luce.metrics.ranked import Ranked, Rules, Workspace, rank_query, workspace
from luce.numerics.segments import chunk_queries, map_chunks
from luce.types import FloatArray, IntArray

__all__ = ["Evidence", "Kind", "Plan", "fill"]


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
    """What to compute: one entry a metric (a cut-off of 0 means the whole list), and what that needs of a query."""

    kinds: IntArray
    sources: IntArray
    cutoffs: IntArray
    needs_gain: bool
    needs_positions: bool
    needs_levels: bool

    @classmethod
    def of(cls, kinds: Sequence[Kind], by_position: Sequence[bool], cutoffs: Sequence[int | None]) -> Plan:
        """A plan for these formulas."""
        discounted = {Kind.DCG, Kind.NDCG, Kind.MEAN_NDCG}
        return cls(
            np.array([int(kind) for kind in kinds], dtype=np.int64),
            np.array(by_position, dtype=np.int64),
            np.array([cutoff or 0 for cutoff in cutoffs], dtype=np.int64),
            needs_gain=any(k in discounted and not p for k, p in zip(kinds, by_position, strict=True)),
            needs_positions=any(by_position),
            needs_levels=any(kind >= Kind.KENDALL_TAU for kind in kinds),
        )


class Evidence(NamedTuple):
    """Documents with their scores, labels, gains (for DCG) and stopping probabilities (for ERR)."""

    scores: FloatArray
    labels: FloatArray
    gain: FloatArray
    stop: FloatArray


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


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _prepare(query: Evidence, ranked: Ranked, plan: Plan, rules: Rules, work: Workspace) -> int:
    """What several metrics share: cumulated gains by label and by position, and the number of distinct labels."""
    if plan.needs_gain:
        cumulate_gain(query.gain, ranked, rules.discounts, work.dcg[0])
        cumulate_ideal(query.gain, ranked, rules.discounts, work.best[0])
    if plan.needs_positions:
        gain, stop = work.position_gain, work.position_stop
        weigh_positions(query.labels, ranked, rules.top_k, rules.equal_labels_share, gain, stop)
        cumulate_gain(gain, ranked, rules.discounts, work.dcg[1])
        cumulate_ideal(gain, ranked, rules.discounts, work.best[1])
    return level_labels(query.labels, ranked, work.level, work.middle) if plan.needs_levels else 0


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _measure_query(query: Evidence, plan: Plan, rules: Rules, work: Workspace, out: FloatArray) -> None:
    # Inlined with what it calls first: handing over this many arrays costs as much as sorting a short query.
    ranked = rank_query(query.scores, query.labels, rules.ties, work)
    levels = _prepare(query, ranked, plan, rules, work)
    for m in range(len(plan.kinds)):
        kind, source = plan.kinds[m], plan.sources[m]
        whole = plan.cutoffs[m] == 0
        k = ranked.n if whole else plan.cutoffs[m]
        if kind < _ERR:
            out[m] = _discounted(kind, k, ranked.n, work.dcg[source], work.best[source], rules)
        elif kind == _ERR:
            stop = work.position_stop if source == 1 else query.stop
            out[m] = _cascade(k, stop, ranked, rules.empty, work.means)
        elif kind < _TAU:
            out[m] = _binary(kind, k, whole, query.labels, ranked, rules)
        elif kind == _FOOTRULE:
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
    work = workspace(longest)
    for q in range(first, last):
        here, end = offsets[q], offsets[q + 1]
        query = Evidence(data.scores[here:end], data.labels[here:end], data.gain[here:end], data.stop[here:end])
        _measure_query(query, plan, rules, work, out[q])


def fill(data: Evidence, offsets: IntArray, plan: Plan, rules: Rules) -> NDArray[np.float64]:
    """The matrix (queries, metrics) of values; NaN where a query is skipped."""
    out = np.empty((len(offsets) - 1, len(plan.kinds)))
    map_chunks(lambda _, chunk: _measure_chunk(*chunk, offsets, data, plan, rules, out), chunk_queries(offsets))
    return out
