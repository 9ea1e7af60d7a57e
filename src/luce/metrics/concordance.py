"""Agreement of two orders, by score and by label: Kendall's tau-b, pairwise accuracy, footrule, predicted ties.

These see ties of scores as ties: no order of tied documents is ever chosen, except by the footrule, which needs
positions and follows the rule for ties.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from luce.metrics.ranked import Ranked, Ranking, ranked_query
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray


class PairCounts(NamedTuple):
    """Pairs of documents of a query: all, with equal labels, with equal scores, and ordered alike or against."""

    pairs: int
    equal_labels: int
    equal_scores: int
    concordant: int
    discordant: int


@part
def _level_labels(labels: FloatArray, ranked: Ranked, level: IntArray, middle: FloatArray) -> int:
    """Number the labels from 0, the best, and give documents their label's mean position; how many labels there are."""
    levels, first = 0, 0
    for last in range(1, ranked.n + 1):
        if last < ranked.n and labels[ranked.ideal[last]] == labels[ranked.ideal[first]]:
            continue
        for i in range(first, last):
            level[ranked.ideal[i]] = levels
            middle[ranked.ideal[i]] = 0.5 * (first + 1 + last)
        levels += 1
        first = last
    return levels


@part
def _seen_up_to(tree: IntArray, level: int) -> int:
    total, i = 0, level + 1
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@part
def _count_pairs(ranked: Ranked, level: IntArray, levels: int, tree: IntArray) -> PairCounts:
    """Count pairs in O(n log levels): a Fenwick tree holds the levels of the documents with higher scores."""
    for i in range(levels + 1):
        tree[i] = 0
    concordant, discordant, equal_scores = 0, 0, 0
    for b in range(len(ranked.ties) - 1):
        first, last = ranked.ties[b], ranked.ties[b + 1]
        equal_scores += (last - first) * (last - first - 1) // 2
        for i in range(first, last):
            mine = level[ranked.order[i]]
            up_to = _seen_up_to(tree, mine)
            concordant += _seen_up_to(tree, mine - 1)
            discordant += first - up_to
        for i in range(first, last):
            node = level[ranked.order[i]] + 1
            while node <= levels:
                tree[node] += 1
                node += node & -node
    equal_labels, run = 0, 0
    for i in range(ranked.n):
        run = run + 1 if i > 0 and level[ranked.ideal[i]] == level[ranked.ideal[i - 1]] else 0
        equal_labels += run
    return PairCounts(ranked.n * (ranked.n - 1) // 2, equal_labels, equal_scores, concordant, discordant)


@part
def _kendall_tau(counts: PairCounts) -> float:
    """tau-b = (C - D) / sqrt((pairs - equal labels)(pairs - equal scores)).

    NaN (skipped) where all labels are equal; 0 where the labels differ and all scores are equal.
    """
    by_label, by_score = counts.pairs - counts.equal_labels, counts.pairs - counts.equal_scores
    if by_label == 0:
        return np.nan
    if by_score == 0:
        return 0.0
    return (counts.concordant - counts.discordant) / (math.sqrt(by_label) * math.sqrt(by_score))


@part
def _pairwise_accuracy(counts: PairCounts) -> float:
    """Share of pairs with different labels that the scores order rightly; equal scores count 1/2. NaN without pairs."""
    different = counts.pairs - counts.equal_labels
    if different == 0:
        return np.nan
    undecided = different - counts.concordant - counts.discordant
    return (counts.concordant + 0.5 * undecided) / different


@part
def _tie_precision(
    scores: FloatArray, ranked: Ranked, level: IntArray, levels: int, margin: float, counts: IntArray
) -> float:
    """Of the pairs whose scores are at most `margin` apart, the share with equal labels; NaN without such pairs."""
    for i in range(levels):
        counts[i] = 0
    predicted, right, left = 0, 0, 0
    for i in range(ranked.n):
        here = scores[ranked.order[i]]
        # Equal infinite scores are 0 apart, though their difference is no number.
        while scores[ranked.order[left]] != here and scores[ranked.order[left]] - here > margin:
            counts[level[ranked.order[left]]] -= 1
            left += 1
        predicted += i - left
        right += counts[level[ranked.order[i]]]
        counts[level[ranked.order[i]]] += 1
    return right / predicted if predicted > 0 else np.nan


@part
def _mean_distance(first: int, last: int, place: float) -> float:
    """Mean of |i - place| over the positions i = first + 1 .. last."""
    t = last - first
    below = min(max(math.floor(place) - first, 0), t)
    above = t - below
    near = below * place - 0.5 * below * (2 * first + below + 1)
    far = 0.5 * above * (first + below + 1 + last) - above * place
    return (near + far) / t


@part
def _footrule(ranked: Ranked, levels: int, middle: FloatArray) -> float:
    """Spearman's footrule sum |position by score - position by label| / floor(n^2 / 2): 0 is best, 1 the reverse.

    Documents of equal label share their mean position; those of equal score follow the rule for ties, the expected
    distance by default; those that were not retrieved tie for the last positions. NaN where all labels are equal.
    """
    if levels < 2:
        return np.nan
    total = 0.0
    for b in range(len(ranked.blocks)):
        if b + 1 < len(ranked.blocks):
            first, last = ranked.blocks[b], ranked.blocks[b + 1]
        else:
            first, last = ranked.retrieved, ranked.n
        for i in range(first, last):
            total += _mean_distance(first, last, middle[ranked.order[i]])
    return total / (ranked.n * ranked.n // 2)


@part
def _room(offsets: IntArray) -> int:
    longest = 0
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest + 1


@kernel
def pair_shares(ranking: Ranking, labels: FloatArray, tau: bool, out: FloatArray) -> None:
    """Kendall's tau of queries, or their pairwise accuracy."""
    room = _room(ranking.offsets)
    level, tree, middle = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    for q in range(len(out)):
        ranked, here = ranked_query(ranking, q), labels[ranking.offsets[q] : ranking.offsets[q + 1]]
        levels = _level_labels(here, ranked, level, middle)
        pairs = _count_pairs(ranked, level, levels, tree)
        out[q] = _kendall_tau(pairs) if tau else _pairwise_accuracy(pairs)


@kernel
def tie_precisions(
    ranking: Ranking,
    labels: FloatArray,
    scores: FloatArray,
    margin: float,
    out: FloatArray,
) -> None:
    """Of the pairs of queries whose scores are at most `margin` apart, the share with equal labels."""
    room = _room(ranking.offsets)
    level, counts, middle = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    for q in range(len(out)):
        begin, end = ranking.offsets[q], ranking.offsets[q + 1]
        ranked = ranked_query(ranking, q)
        levels = _level_labels(labels[begin:end], ranked, level, middle)
        out[q] = _tie_precision(scores[begin:end], ranked, level, levels, margin, counts)


@kernel
def footrules(ranking: Ranking, labels: FloatArray, out: FloatArray) -> None:
    """Spearman's footrule of queries."""
    room = _room(ranking.offsets)
    level, middle = np.empty(room, np.int64), np.empty(room)
    for q in range(len(out)):
        ranked, here = ranked_query(ranking, q), labels[ranking.offsets[q] : ranking.offsets[q + 1]]
        out[q] = _footrule(ranked, _level_labels(here, ranked, level, middle), middle)
