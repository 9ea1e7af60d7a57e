"""Discounted gains and cascades: DCG, NDCG, RBP, ERR."""

from __future__ import annotations

import numpy as np

from luce.metrics.ranked import FEW, Ranked, Ranking, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray

_ROOM = 1 << 20


def cumulate(
    ranking: Ranking, gain: FloatArray, discounts: FloatArray, ideal: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Expected DCG@k of the scores, and the largest that any order reaches, for k = 0..n of every query, end to end.

    Where nobody asks for the `ideal`, the second may be empty.
    """
    if len(gain) <= FEW and len(ranking.counts) * int(np.diff(ranking.offsets).max(initial=0)) <= _ROOM:
        return _cumulate_few(ranking, gain, discounts)
    sums = len(gain) + len(ranking.counts)
    dcg, best = np.empty(sums), np.empty(sums if ideal else 0)
    _cumulate(ranking, gain, discounts, dcg, best)
    return dcg, best


def _cumulate_few(ranking: Ranking, gain: FloatArray, discounts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same without compiled code: a row a query, filled up with zeros."""
    at, n = _bounds(ranking.offsets)
    query = np.repeat(np.arange(len(n)), n)
    begin = ranking.offsets[query]
    place = np.arange(len(gain)) - begin
    expected = gain[begin + ranking.order]
    retrieved, n_blocks = ranking.counts[:, 0], ranking.counts[:, 1]
    expected[place >= retrieved[query]] = 0.0
    if np.any(n_blocks < retrieved):  # each document of a tied block has the mean gain of the block
        of = np.repeat(np.arange(len(n)), n_blocks)
        within = at[of] + np.arange(len(of)) - (np.cumsum(n_blocks) - n_blocks)[of]
        start, sizes = ranking.blocks[within], ranking.blocks[within + 1] - ranking.blocks[within]
        first = ranking.offsets[of] + start
        block = np.repeat(np.arange(len(of)), sizes)
        rows = np.repeat(first, sizes) + np.arange(len(block)) - (np.cumsum(sizes) - sizes)[block]
        means = np.bincount(block, expected[rows], len(of)) / sizes
        expected[rows] = means[block]
    shape = len(n), int(n.max(initial=0)) + 1
    results = []
    for gains in (expected, gain[begin + ranking.ideal]):
        sums = np.zeros(shape)
        sums[query, place + 1] = gains * discounts[place]
        np.cumsum(sums, axis=1, out=sums)
        results.append(sums[np.arange(shape[1]) <= n[:, None]])
    return results[0], results[1]


@kernel
def _cumulate(ranking: Ranking, gain: FloatArray, discounts: FloatArray, dcg: FloatArray, best: FloatArray) -> None:
    for q in range(len(ranking.offsets) - 1):
        ranked, base = ranked_query(ranking, q), ranking.offsets[q]
        at = base + q
        dcg[at] = 0.0
        for b in range(len(ranked.blocks) - 1):
            start, stop = ranked.blocks[b], ranked.blocks[b + 1]
            if stop - start == 1:
                dcg[at + stop] = dcg[at + start] + gain[base + ranked.order[start]] * discounts[start]
                continue
            total = 0.0
            for i in range(start, stop):
                total += gain[base + ranked.order[i]]
            mean = total / (stop - start)
            for i in range(start, stop):
                dcg[at + i + 1] = dcg[at + i] + mean * discounts[i]
        for i in range(ranked.retrieved, ranked.n):
            dcg[at + i + 1] = dcg[at + i]
        if len(best):
            best[at] = 0.0
            for i in range(ranked.n):
                best[at + i + 1] = best[at + i] + gain[base + ranked.ideal[i]] * discounts[i]


def dcgs(offsets: IntArray, dcg: FloatArray, best: FloatArray, k: int, nothing: float, out: FloatArray) -> None:
    """DCG@k of queries; a query without gain has `nothing`."""
    at, n = _bounds(offsets)
    out[:] = np.where(best[at + n] > 0.0, up_to(offsets, dcg, k), nothing)


def up_to(offsets: IntArray, sums: FloatArray, k: int) -> FloatArray:
    """Of sums up to each position, as `cumulate` gives them, those up to position k of every query; 0 is the last."""
    at, n = _bounds(offsets)
    result: FloatArray = sums[at + np.minimum(k or n, n)]
    return result


def ndcgs(
    offsets: IntArray,
    dcg: FloatArray,
    best: FloatArray,
    k: int,
    empty: float,
    short_is_zero: bool,
    out: FloatArray,
) -> None:
    """NDCG@k of queries: [Ties] (20), and minus [Pareek] (3.1)."""
    at, n = _bounds(offsets)
    cut = at + np.minimum(k or n, n)
    has_gain = best[at + n] > 0.0
    value = dcg[cut] / np.where(has_gain, best[cut], 1.0)
    out[:] = np.where(has_gain, np.where(short_is_zero & (n < k), 0.0, value), empty)


def mean_ndcgs(offsets: IntArray, dcg: FloatArray, best: FloatArray, empty: float, out: FloatArray) -> None:
    """LETOR's MeanNDCG: the mean of NDCG@k over k = 1..n."""
    at, n = _bounds(offsets)
    here = slice(at[0], at[-1] + n[-1] + 1)
    values = np.divide(dcg[here], best[here], out=np.zeros(here.stop - here.start), where=best[here] > 0.0)
    values[at - at[0]] = 0.0
    total = np.add.reduceat(values, at - at[0])
    out[:] = np.where(best[at + n] > 0.0, total / n, empty)


def _bounds(offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Where the sums of queries start, and how many documents these have."""
    return offsets[:-1] + np.arange(len(offsets) - 1), np.diff(offsets)


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
def expected_reciprocal_ranks(ranking: Ranking, stops: FloatArray, k: int, nothing: float, out: FloatArray) -> None:
    """Expected ERR@k of queries; one where no document can satisfy has `nothing`."""
    longest = 0
    for q in range(len(out)):
        longest = max(longest, ranking.offsets[q + 1] - ranking.offsets[q])
    means = np.empty(longest + 1)
    for q in range(len(out)):
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
        out[q] = total if stop[ranked.ideal[0]] > 0.0 else nothing
