"""All metrics of all queries: each query is sorted once, then every metric reads the same ranking.

A kind is a formula, with a small kernel of its own that fills one column of a matrix (queries, metrics), so that what
nobody asks for is never compiled. The kappa metrics are DCG and ERR with other gains: those of positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.metrics.binary import average_precisions, precisions, rank_biased_precisions, recalls, reciprocal_ranks
from luce.metrics.concordance import footrules, pair_shares, tie_precisions
from luce.metrics.discounted import cumulate, dcgs, expected_reciprocal_ranks, mean_ndcgs, ndcgs
from luce.metrics.inputs import weigh_positions
from luce.metrics.ranked import Ranking, Rules, rank
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.types import FloatArray, IntArray

NOTHING = np.empty(0)


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


class Plan(NamedTuple):
    """What to compute: one entry a metric (a cut-off of 0 means the whole list), and what that needs of a query."""

    kinds: list[Kind]
    by_position: list[bool]
    cutoffs: list[int]
    needs_gain: bool
    needs_positions: bool

    @classmethod
    def of(cls, kinds: Sequence[Kind], by_position: Sequence[bool], cutoffs: Sequence[int | None]) -> Plan:
        """A plan for these formulas."""
        discounted = {Kind.DCG, Kind.NDCG, Kind.MEAN_NDCG}
        return cls(
            list(kinds),
            list(by_position),
            [cutoff or 0 for cutoff in cutoffs],
            needs_gain=any(k in discounted and not p for k, p in zip(kinds, by_position, strict=True)),
            needs_positions=any(by_position),
        )


class Evidence(NamedTuple):
    """Documents with their scores, labels, gains (for DCG) and stopping probabilities (for ERR)."""

    scores: FloatArray
    labels: FloatArray
    gain: FloatArray
    stop: FloatArray


def fill(data: Evidence, offsets: IntArray, plan: Plan, rules: Rules) -> NDArray[np.float64]:
    """The matrix (queries, metrics) of values; NaN where a query is skipped."""
    out = np.empty((len(plan.kinds), len(offsets) - 1))

    def measure(_: int, chunk: Chunk) -> None:
        begin, end = offsets[chunk[0]], offsets[chunk[1]]
        # Copies: kernels are compiled once more for what is read only, and data read from files often is.
        here = Evidence(*(column[begin:end].copy() for column in data))
        _measure(here, offsets[chunk[0] : chunk[1] + 1] - begin, plan, rules, out[:, chunk[0] : chunk[1]])

    map_chunks(measure, chunk_queries(offsets))
    return out.T


def _measure(data: Evidence, offsets: IntArray, plan: Plan, rules: Rules, out: NDArray[np.float64]) -> None:
    ranking = rank(data.scores, data.labels, offsets, rules.ties)
    evidence = {False: data}
    sums: dict[tuple[str, bool] | None, tuple[FloatArray, FloatArray]] = {}
    if plan.needs_positions:
        gain, stop = weigh_positions(ranking, data.labels, rules.top_k, rules.equal_labels_share)
        evidence[True] = data._replace(gain=gain, stop=stop)
    for column, (kind, by_position, k) in enumerate(zip(plan.kinds, plan.by_position, plan.cutoffs, strict=True)):
        here = evidence[by_position]
        what = _summed(kind, by_position)
        if what is not None and what not in sums:
            sums[what] = cumulate(ranking, *_terms(what, here, rules), ideal=what[0] == "gain")
        _fill_column(kind, k, ranking, here, rules, *sums.get(what, (NOTHING, NOTHING)), out[column])


def _summed(kind: Kind, by_position: bool) -> tuple[str, bool] | None:
    """What a metric is a sum of, over the positions of a list; None where it is none."""
    if kind <= Kind.MEAN_NDCG:
        return "gain", by_position
    if kind in (Kind.PRECISION, Kind.RECALL):
        return "relevant", False
    return ("persistent", False) if kind == Kind.RBP else None


def _terms(what: tuple[str, bool], data: Evidence, rules: Rules) -> tuple[FloatArray, FloatArray]:
    """What every document adds to such a sum, and what positions weigh."""
    if what[0] == "gain":
        return data.gain, rules.discounts
    relevant = (data.labels >= rules.relevance).astype(np.float64)
    if what[0] == "relevant":
        return relevant, np.ones_like(rules.discounts)
    weights: FloatArray = (1.0 - rules.persistence) * rules.persistence ** np.arange(float(len(rules.discounts)))
    return relevant * data.labels if rules.graded_rbp else relevant, weights


def _fill_column(
    kind: Kind,
    k: int,
    ranking: Ranking,
    data: Evidence,
    rules: Rules,
    sums: FloatArray,
    best: FloatArray,
    out: FloatArray,
) -> None:
    """One metric of all queries of a ranking; k is 0 for the whole list."""
    nothing = math.nan if math.isnan(rules.empty) else 0.0
    offsets, binary = ranking.offsets, (ranking, data.labels, rules.relevance, k)
    if kind == Kind.NDCG:
        ndcgs(offsets, sums, best, k, rules.empty, rules.short_ndcg_is_zero, out)
    elif kind == Kind.DCG:
        dcgs(offsets, sums, best, k, nothing, out)
    elif kind == Kind.MEAN_NDCG:
        mean_ndcgs(offsets, sums, best, rules.empty, out)
    elif kind == Kind.ERR:
        expected_reciprocal_ranks(ranking, data.stop, k, nothing, out)
    elif kind == Kind.PRECISION:
        by_retrieved, short_is_zero = rules.precision_by_retrieved, rules.short_precision_is_zero
        retrieved = ranking.counts[:, 0]
        precisions(
            offsets, sums, _relevant(data, offsets, rules), retrieved, k, nothing, by_retrieved, short_is_zero, out
        )
    elif kind == Kind.RECALL:
        recalls(offsets, sums, _relevant(data, offsets, rules), k, rules.empty, out)
    elif kind == Kind.AVERAGE_PRECISION:
        average_precisions(*binary, rules.empty_map, rules.map_by_threshold, rules.map_by_cutoff, out)
    elif kind == Kind.RECIPROCAL_RANK:
        reciprocal_ranks(*binary, nothing, out)
    elif kind == Kind.RBP:
        rank_biased_precisions(offsets, sums, _relevant(data, offsets, rules), k, nothing, out)
    elif kind == Kind.TIE_PRECISION:
        tie_precisions(ranking, data.labels, data.scores, rules.tie_margin, out)
    elif kind == Kind.FOOTRULE:
        footrules(ranking, data.labels, out)
    else:
        pair_shares(ranking, data.labels, kind == Kind.KENDALL_TAU, out)


def _relevant(data: Evidence, offsets: IntArray, rules: Rules) -> FloatArray:
    """The relevant documents of every query, retrieved or not."""
    return np.add.reduceat((data.labels >= rules.relevance).astype(np.float64), offsets[:-1])
