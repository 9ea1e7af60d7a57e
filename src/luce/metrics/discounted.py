"""Discounted gains and cascades: DCG, NDCG, ERR."""

from __future__ import annotations

from functools import partial

import numpy as np

from luce.metrics.lists import Lists, Ranked, Ranking, longest_of, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray


def dcg(lists: Lists, k: int) -> FloatArray:
    """DCG@k."""
    sums, best = lists.gained(False)
    return np.where(best[lists.cut(0)] > 0.0, sums[lists.cut(k)], lists.nothing)


def ndcg(lists: Lists, k: int, by_position: bool = False) -> FloatArray:
    """NDCG@k: [Ties] (20), and minus [Pareek] (3.1)."""
    sums, best = lists.gained(by_position)
    cut, has_gain = lists.cut(k), best[lists.cut(0)] > 0.0
    value = sums[cut] / np.where(has_gain, best[cut], 1.0)
    short = (lists.chosen.shortfall != "truncate") & (lists.sizes < k)
    return np.where(has_gain, np.where(short, 0.0, value), lists.empty)


def mean_ndcg(lists: Lists, k: int) -> FloatArray:
    """LETOR's MeanNDCG: the mean of NDCG@k over k = 1..n."""
    sums, best = lists.gained(False)
    values = np.divide(sums, best, out=np.zeros(len(sums)), where=best > 0.0)
    values[lists.starts] = 0.0
    total = np.add.reduceat(values, lists.starts)
    return np.where(best[lists.cut(0)] > 0.0, total / lists.sizes, lists.empty)


def err(lists: Lists, k: int, by_position: bool = False) -> FloatArray:
    """Expected ERR@k; 0 by itself where no document can satisfy."""
    stops = lists.stops(by_position)
    can = np.maximum.reduceat(stops, lists.offsets[:-1]) > 0.0
    return np.where(can, lists.each(_expected_reciprocal_ranks, stops, k), lists.nothing)


position_ndcg, position_err = partial(ndcg, by_position=True), partial(err, by_position=True)
"""The same of lists that are graded by position alone."""


@part
def _symmetric_means(stop: FloatArray, ranked: Ranked, first: int, last: int, most: int, means: FloatArray) -> None:
    """`means[i]` becomes S_i for i = 0..most.

    After j documents S_i is a convex combination, (i/j) (1 - V_j) S_{i-1} + (1 - i/j) S_i of the first j - 1, so
    neither the polynomials nor the binomials are ever large.
    """
    means[0] = 1.0
    for i in range(1, most + 1):
        means[i] = 0.0
    for j in range(1, last - first + 1):
        passes = 1.0 - stop[ranked.order[first + j - 1]]
        for i in range(min(j, most), 0, -1):
            share = i / j
            means[i] = share * passes * means[i - 1] + (1.0 - share) * means[i]


@kernel
def _expected_reciprocal_ranks(
    begin: int, stop_at: int, ranking: Ranking, stops: FloatArray, k: int, out: FloatArray
) -> None:
    means = np.empty(longest_of(ranking.offsets, begin, stop_at) + 1)
    for q in range(begin, stop_at):
        ranked, stop = ranked_query(ranking, q), stops[ranking.offsets[q] : ranking.offsets[q + 1]]
        cut = k if k > 0 else ranked.n
        reach, total = 1.0, 0.0
        for b in range(len(ranked.blocks) - 1):
            start, end = ranked.blocks[b], ranked.blocks[b + 1]
            if start >= cut:
                break
            if end - start == 1:
                value = stop[ranked.order[start]]
                total += reach * value / (start + 1)
                reach *= 1.0 - value
                continue
            most = min(end, cut) - start
            _symmetric_means(stop, ranked, start, end, most, means)
            for i in range(1, most + 1):
                total += reach * (means[i - 1] - means[i]) / (start + i)
            reach *= means[most]
        out[q] = total
