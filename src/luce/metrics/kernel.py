"""All metrics of all queries: each query is sorted once, then every metric reads the same ranking.

A kind is a formula, with a small kernel of its own that fills one column of a matrix (queries, metrics), so that what
nobody asks for is never compiled. The kappa metrics are DCG and ERR with other gains: those of positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.metrics.binary import average_precisions, precisions, rank_biased_precisions, recalls, reciprocal_ranks
from luce.metrics.cascade import expected_reciprocal_ranks
from luce.metrics.concordance import footrules, pair_shares, tie_precisions
from luce.metrics.discounted import cumulate, dcgs, mean_ndcgs, ndcgs
from luce.metrics.positions import weigh_positions
from luce.metrics.ranked import Ranking, Rules, rank
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
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
    ranking, chunks = rank(data.scores, data.labels, offsets, rules.ties), chunk_queries(offsets)
    by_position = {}
    if plan.needs_positions:
        gain, stop = np.empty(len(data.labels)), np.empty(len(data.labels))
        for first, last in chunks:
            weigh_positions(first, last, ranking, data.labels, rules.top_k, rules.equal_labels_share, gain, stop)
        by_position = {True: data._replace(gain=gain, stop=stop)}
    sums: dict[bool, tuple[FloatArray, FloatArray]] = {}
    for column, (kind, positions, k) in enumerate(zip(plan.kinds, plan.by_position, plan.cutoffs, strict=True)):
        evidence = by_position.get(positions, data)
        if kind <= Kind.MEAN_NDCG and positions not in sums:
            sums[positions] = cumulate(ranking, chunks, evidence.gain, rules.discounts)
        work = _work(kind, k, ranking, evidence, rules, sums.get(positions), out[column])
        map_chunks(work, chunks)
    return out.T


def _work(
    kind: Kind,
    k: int,
    ranking: Ranking,
    data: Evidence,
    rules: Rules,
    sums: tuple[FloatArray, FloatArray] | None,
    out: FloatArray,
) -> Callable[[int, Chunk], None]:
    """What fills one column, chunk by chunk; k is 0 for the whole list."""
    nothing = math.nan if math.isnan(rules.empty) else 0.0
    labels, relevance = data.labels, rules.relevance
    work: dict[Kind, Callable[[int, int], None]] = {
        Kind.DCG: lambda a, b: dcgs(a, b, ranking.offsets, *_known(sums), k, nothing, out),
        Kind.NDCG: lambda a, b: ndcgs(
            a, b, ranking.offsets, *_known(sums), k, rules.empty, rules.short_ndcg_is_zero, out
        ),
        Kind.MEAN_NDCG: lambda a, b: mean_ndcgs(a, b, ranking.offsets, *_known(sums), rules.empty, out),
        Kind.ERR: lambda a, b: expected_reciprocal_ranks(a, b, ranking, data.stop, k, nothing, out),
        Kind.PRECISION: lambda a, b: precisions(
            a, b, ranking, labels, relevance, k, nothing,
            rules.precision_by_retrieved, rules.short_precision_is_zero, out,
        ),
        Kind.RECALL: lambda a, b: recalls(a, b, ranking, labels, relevance, k, rules.empty, out),
        Kind.AVERAGE_PRECISION: lambda a, b: average_precisions(
            a, b, ranking, labels, relevance, k, rules.empty_map, rules.map_by_threshold, rules.map_by_cutoff, out
        ),
        Kind.RECIPROCAL_RANK: lambda a, b: reciprocal_ranks(a, b, ranking, labels, relevance, k, nothing, out),
        Kind.RBP: lambda a, b: rank_biased_precisions(
            a, b, ranking, labels, relevance, k, nothing, rules.persistence, rules.graded_rbp, out
        ),
        Kind.KENDALL_TAU: lambda a, b: pair_shares(a, b, ranking, labels, True, out),
        Kind.PAIRWISE_ACCURACY: lambda a, b: pair_shares(a, b, ranking, labels, False, out),
        Kind.TIE_PRECISION: lambda a, b: tie_precisions(a, b, ranking, labels, data.scores, rules.tie_margin, out),
        Kind.FOOTRULE: lambda a, b: footrules(a, b, ranking, labels, out),
    }  # fmt: skip
    chosen = work[kind]
    return lambda _, chunk: chosen(*chunk)


def _known(sums: tuple[FloatArray, FloatArray] | None) -> tuple[FloatArray, FloatArray]:
    assert sums is not None  # kinds of gains have them
    return sums
