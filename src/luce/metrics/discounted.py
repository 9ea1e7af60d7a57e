"""DCG, NDCG and MeanNDCG: sums of gain times discount.

DCG@k = sum_{i <= k} G(y_i) D(i); NDCG@k = DCG@k / max DCG@k. In a tied block every document is at every position with
the same probability, so the expected DCG gives each position of the block the block's mean gain.
"""

from __future__ import annotations

from numba import njit

from luce.metrics.ranked import Ranked
from luce.types import FloatArray

__all__ = ["cumulate_gain", "cumulate_ideal", "mean_ndcg", "ndcg"]


@njit(nogil=True, cache=True, error_model="numpy")
def cumulate_gain(gain: FloatArray, ranked: Ranked, discounts: FloatArray, dcg: FloatArray) -> None:
    """`dcg[k]` becomes the expected DCG@k, for k = 0..n."""
    dcg[0] = 0.0
    for b in range(len(ranked.blocks) - 1):
        first, last = ranked.blocks[b], ranked.blocks[b + 1]
        total = 0.0
        for i in range(first, last):
            total += gain[ranked.order[i]]
        mean = total / (last - first)
        for i in range(first, last):
            dcg[i + 1] = dcg[i] + mean * discounts[i]
    for i in range(ranked.retrieved, ranked.n):
        dcg[i + 1] = dcg[i]


@njit(nogil=True, cache=True, error_model="numpy")
def cumulate_ideal(gain: FloatArray, ranked: Ranked, discounts: FloatArray, best: FloatArray) -> None:
    """`best[k]` becomes the largest DCG@k that any order reaches."""
    best[0] = 0.0
    for i in range(ranked.n):
        best[i + 1] = best[i] + gain[ranked.ideal[i]] * discounts[i]


@njit(nogil=True, cache=True, error_model="numpy")
def ndcg(dcg: FloatArray, best: FloatArray, n: int, k: int, empty: float, short_is_zero: bool) -> float:
    """NDCG@k from the cumulated gains: [Ties] (20), and minus [Pareek] (3.1)."""
    if best[n] <= 0.0:
        return empty
    if short_is_zero and n < k:
        return 0.0
    at = min(k, n)
    result: float = dcg[at] / best[at]
    return result


@njit(nogil=True, cache=True, error_model="numpy")
def mean_ndcg(dcg: FloatArray, best: FloatArray, n: int, empty: float) -> float:
    """LETOR's MeanNDCG: the mean of NDCG@k over k = 1..n."""
    if best[n] <= 0.0:
        return empty
    total = 0.0
    for k in range(1, n + 1):
        total += dcg[k] / best[k]
    return total / n
