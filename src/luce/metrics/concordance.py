"""Agreement of two orders, by score and by label: Kendall's tau-b, pairwise accuracy, footrule, predicted ties.

These see ties of scores as ties: no order of tied documents is ever chosen, except by the footrule, which needs
positions and follows the rule for ties.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from luce.metrics.lists import Lists, Ranking, longest_of, ranked_query
from luce.numerics.compiled import kernel, part
from luce.numerics.sorting import add_at, sum_before
from luce.types import FloatArray, IntArray


def _levels(lists: Lists) -> tuple[IntArray, IntArray]:
    """The number of every document's label in its query, from 0, the best; and how many labels the query has."""
    cut = lists.tiers
    counts = np.diff(cut.queries)
    level = np.empty(len(lists.labels), dtype=np.int64)
    number = np.arange(len(cut.starts) - 1) - np.repeat(cut.queries[:-1], counts)
    level[cut.order] = np.repeat(number, np.diff(cut.starts))
    return level, counts


def _pair_counts(lists: Lists) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Pairs of every query: of different labels, of different scores, and ordered alike and against."""
    level, counts = _levels(lists)
    found: NDArray[np.int64] = np.zeros((len(counts), 3), dtype=np.int64)
    lists.each(_count_pairs, level, counts, found)
    tied = np.diff(lists.tiers.starts)
    equal = np.add.reduceat(tied * (tied - 1) // 2, lists.tiers.queries[:-1])
    pairs = lists.sizes * (lists.sizes - 1) // 2
    by_label, by_score = pairs - equal, pairs - found[:, 0]
    return by_label.astype(float), by_score.astype(float), found[:, 1].astype(float), found[:, 2].astype(float)


def kendall_tau(lists: Lists, k: int) -> FloatArray:
    """tau-b = (C - D) / sqrt((pairs - equal labels)(pairs - equal scores)).

    NaN (skipped) where all labels are equal; 0 where the labels differ and all scores are equal.
    """
    by_label, by_score, alike, against = _pair_counts(lists)
    scale = np.sqrt(by_label) * np.sqrt(by_score)
    tau = np.divide(alike - against, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.where(by_label > 0, tau, np.nan)


def pairwise_accuracy(lists: Lists, k: int) -> FloatArray:
    """Share of pairs with different labels that the scores order rightly; equal scores count 1/2. NaN without pairs."""
    different, _, alike, against = _pair_counts(lists)
    right = alike + 0.5 * (different - alike - against)
    return np.divide(right, different, out=np.full(len(right), np.nan), where=different > 0)


def tie_precision(lists: Lists, k: int) -> FloatArray:
    """Of the pairs whose scores are at most `tie_margin` apart, the share with equal labels; NaN without such pairs."""
    return lists.each(_tie_precisions, lists.scores, *_levels(lists), float(lists.chosen.tie_margin))


def footrule(lists: Lists, k: int) -> FloatArray:
    """Spearman's footrule sum |position by score - position by label| / floor(n^2 / 2): 0 is best, 1 the reverse.

    Documents of equal label share their mean position; those of equal score follow the rule for ties, the expected
    distance by default; those that were not retrieved tie for the last positions. NaN where all labels are equal.
    """
    cut, n = lists.tiers, lists.sizes
    counts = np.diff(cut.queries)
    middle = np.empty(len(lists.labels))
    places = 0.5 * (cut.starts[:-1] + 1 + cut.starts[1:]) - np.repeat(lists.offsets[:-1], counts)
    middle[cut.order] = np.repeat(places, np.diff(cut.starts))
    return np.where(counts > 1, lists.each(_distances, middle) / np.maximum(n * n // 2, 1), np.nan)


@kernel
def _count_pairs(begin, end, ranking, levels, counts, found, out):  # type: ignore[no-untyped-def]
    """Count pairs in O(n log levels): a Fenwick tree holds the levels of the documents with higher scores."""
    tree = np.empty(longest_of(ranking.offsets, begin, end) + 1, np.int64)
    for q in range(begin, end):
        ranked, level = ranked_query(ranking, q), levels[ranking.offsets[q] : ranking.offsets[q + 1]]
        tree[: counts[q] + 1] = 0
        for b in range(len(ranked.ties) - 1):
            first, last = ranked.ties[b], ranked.ties[b + 1]
            found[q, 0] += (last - first) * (last - first - 1) // 2
            for i in range(first, last):
                mine = level[ranked.order[i]]
                found[q, 1] += sum_before(tree, mine)
                found[q, 2] += first - sum_before(tree, mine + 1)
            for i in range(first, last):
                add_at(tree, level[ranked.order[i]], counts[q], 1)


@kernel
def _tie_precisions(begin, end, ranking, all_scores, levels, counts, margin, out):  # type: ignore[no-untyped-def]
    room = np.empty(longest_of(ranking.offsets, begin, end), np.int64)
    for q in range(begin, end):
        ranked, rows = ranked_query(ranking, q), slice(ranking.offsets[q], ranking.offsets[q + 1])
        scores, level, near = all_scores[rows], levels[rows], room[: counts[q]]
        near[:] = 0
        predicted, right, left = 0, 0, 0
        for i in range(ranked.n):
            here = scores[ranked.order[i]]
            # Equal infinite scores are 0 apart, though their difference is no number.
            while scores[ranked.order[left]] != here and scores[ranked.order[left]] - here > margin:
                near[level[ranked.order[left]]] -= 1
                left += 1
            predicted += i - left
            right += near[level[ranked.order[i]]]
            near[level[ranked.order[i]]] += 1
        out[q] = right / predicted if predicted > 0 else np.nan


@part
def _mean_distance(first: int, last: int, place: float) -> float:
    """Mean of |i - place| over the positions i = first + 1 .. last."""
    t = last - first
    below = min(max(math.floor(place) - first, 0), t)
    above = t - below
    near = below * place - 0.5 * below * (2 * first + below + 1)
    far = 0.5 * above * (first + below + 1 + last) - above * place
    return (near + far) / t


@kernel
def _distances(begin: int, end: int, ranking: Ranking, middle: FloatArray, out: FloatArray) -> None:
    for q in range(begin, end):
        ranked, base = ranked_query(ranking, q), ranking.offsets[q]
        out[q] = 0.0
        for b in range(len(ranked.blocks)):
            first = ranked.blocks[b]
            last = ranked.blocks[b + 1] if b + 1 < len(ranked.blocks) else ranked.n
            for i in range(first, last):
                out[q] += _mean_distance(first, last, middle[base + ranked.order[i]])
