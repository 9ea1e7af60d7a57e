"""ERR: a reader goes down the list and stops at a document with probability V.

ERR@k = sum_{i <= k} (1/i) V_i prod_{j < i} (1 - V_j).

In a tied block after c documents, the probability that the reader passes its first i documents, averaged over all
orders, is S_i = e_i(1 - V) / C(t, i): e_i is the elementary symmetric polynomial of the block's t values. The block
adds P sum_i (S_{i-1} - S_i) / (c + i), where P is the probability of reaching it. Putting in the block's mean V instead
is wrong, since the V of a block are drawn without replacement.
"""

from __future__ import annotations

import numpy as np

from luce.metrics.ranked import Ranked, Ranking, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray


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
