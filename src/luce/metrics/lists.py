"""`Lists`: judged queries under one set of conventions, each sorted once; every metric reads them.

What metrics read, such as gains and the sums of them, is computed when the first one asks, and kept for the others. A
metric is a function of lists and a cut-off, 0 for whole lists, that gives a value a query, NaN where it is skipped.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.errors import DataError, SettingError
from luce.metrics.conventions import Conventions
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Tiers, chunk_queries, map_chunks
from luce.numerics.sorting import sort_descending, sort_grades, sort_space
from luce.types import FloatArray, IntArray

STABLE, AVERAGE, BEST, WORST = range(4)
_TIES = {"average": AVERAGE, "stable": STABLE, "docid": STABLE, "best": BEST, "worst": WORST}
"""Rules for tied scores, as kernels know them; `docid` is `stable` on rows that were sorted by document id."""


class Ranked(NamedTuple):
    """A ranked query of n documents, named by their numbers 0..n-1 in the input.

    `order` lists them best score first, `ideal` best label first. `blocks` cuts the first `retrieved` positions into
    runs whose inner order is not decided (single documents unless ties are averaged): block b holds the positions
    `blocks[b]` to `blocks[b + 1]`. `ties` cuts all n positions into runs of equal score, whatever the rule for ties.
    """

    n: int
    retrieved: int
    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray


class Ranking(NamedTuple):
    """All queries ranked, end to end: what `ranked_query` cuts a `Ranked` from.

    `counts` has, for every query, its retrieved documents, its blocks and its runs of equal score; the bounds of those
    of query q start at `offsets[q] + q`.
    """

    offsets: IntArray
    order: IntArray
    ideal: IntArray
    blocks: IntArray
    ties: IntArray
    counts: NDArray[np.int64]


def rank(scores: FloatArray, labels: FloatArray, offsets: IntArray, ties: str) -> Ranking:
    """Sort every query once, for all metrics."""
    n, queries = len(scores), len(offsets) - 1
    order, ideal = np.empty(n, np.int64), np.empty(n, np.int64)
    blocks, runs = np.empty(n + queries, np.int64), np.empty(n + queries, np.int64)
    ranking = Ranking(offsets, order, ideal, blocks, runs, np.empty((queries, 3), np.int64))
    rule = _TIES[ties]
    map_chunks(lambda _, chunk: _rank_queries(*chunk, scores, labels, rule, *ranking), chunk_queries(offsets))
    return ranking


@kernel
def _rank_queries(
    first: int,
    last: int,
    all_scores: FloatArray,
    all_labels: FloatArray,
    ties: int,
    offsets: IntArray,
    orders: IntArray,
    ideals: IntArray,
    blocks: IntArray,
    runs: IntArray,
    counts: NDArray[np.int64],
) -> None:
    space = sort_space(longest_of(offsets, first, last))
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        scores, labels = all_scores[begin : begin + n], all_labels[begin : begin + n]
        order, ideal = orders[begin : begin + n], ideals[begin : begin + n]
        sort_grades(labels, ideal, space)
        for i in range(n):
            order[i] = ideal[i] if ties == BEST else ideal[n - 1 - i] if ties == WORST else i
        sort_descending(scores, order, space)
        retrieved = n  # a score of minus infinity marks a document that was not retrieved
        while retrieved > 0 and scores[order[retrieved - 1]] == -np.inf:
            retrieved -= 1
        n_ties, n_blocks, base = 0, 0, begin + q
        for i in range(n):
            new = i == 0 or scores[order[i]] != scores[order[i - 1]]
            if new:
                runs[base + n_ties] = i
                n_ties += 1
            if i < retrieved and (new or ties != AVERAGE):
                blocks[base + n_blocks] = i
                n_blocks += 1
        runs[base + n_ties], blocks[base + n_blocks] = n, retrieved
        counts[q, 0], counts[q, 1], counts[q, 2] = retrieved, n_blocks, n_ties


@part
def ranked_query(ranking: Ranking, q: int) -> Ranked:
    """One query of a ranking."""
    begin, end = ranking.offsets[q], ranking.offsets[q + 1]
    return Ranked(
        end - begin,
        ranking.counts[q, 0],
        ranking.order[begin:end],
        ranking.ideal[begin:end],
        ranking.blocks[begin + q : begin + q + ranking.counts[q, 1] + 1],
        ranking.ties[begin + q : begin + q + ranking.counts[q, 2] + 1],
    )


@part
def longest_of(offsets: IntArray, first: int, last: int) -> int:
    """Documents of the longest of some queries."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


_LARGEST_EXPONENT = 500.0
Sums = tuple[FloatArray, FloatArray]


class Lists:
    """Documents query by query with scores and labels, and with subtopics where there are some."""

    def __init__(
        self,
        scores: FloatArray,
        labels: FloatArray,
        offsets: IntArray,
        chosen: Conventions,
        document_ids: NDArray[Any] | None = None,
        rmax: float | None = None,
        subtopics: sparse.csr_array | None = None,
    ) -> None:
        self.offsets, self.sizes, self.chosen = offsets, np.diff(offsets), chosen
        self._rmax = rmax if chosen.rmax is None else chosen.rmax
        self._gained: dict[bool, Sums] = {}
        if chosen.ties == "docid":
            order = _document_order(document_ids, offsets)
            scores, labels = scores[order], labels[order]
            subtopics = None if subtopics is None else subtopics[order]
        if chosen.score_precision == "single":
            with np.errstate(over="ignore"):
                scores = scores.astype(np.float32).astype(np.float64)
        # Copies: kernels are compiled once more for what is read only, and data read from files often is.
        self.scores, self.labels, self.subtopics = scores.copy(), labels.copy(), subtopics

    @cached_property
    def ranking(self) -> Ranking:
        """The orders by score and by label."""
        return rank(self.scores, self.labels, self.offsets, self.chosen.ties)

    @cached_property
    def tiers(self) -> Tiers:
        """The documents by label, the best first; `luce.numerics.segments.tiers` would sort them once more."""
        order = np.repeat(self.offsets[:-1], self.sizes) + self.ranking.ideal
        falling = self.labels[order]
        new = np.append(True, falling[1:] != falling[:-1])
        new[self.offsets[:-1]] = True
        firsts = np.flatnonzero(new)
        return Tiers(order, np.append(firsts, len(order)), np.searchsorted(firsts, self.offsets))

    def each(self, kernel: Any, *given: Any, ranking: Ranking | None = None) -> FloatArray:
        """A value a query, by a kernel that fills those from a first to a last query, on threads."""
        out, ranking = np.empty(len(self.sizes)), self.ranking if ranking is None else ranking
        map_chunks(lambda _, chunk: kernel(*chunk, ranking, *given, out), chunk_queries(self.offsets))
        return out

    @property
    def empty(self) -> float:
        """The value of a metric that would be 0/0, without a relevant document."""
        return as_number(self.chosen.empty)

    @property
    def nothing(self) -> float:
        """The value of one that is 0 there by itself."""
        return math.nan if self.chosen.empty == "skip" else 0.0

    @cached_property
    def discounts(self) -> FloatArray:
        """Of the positions of the longest list."""
        return discounts(int(self.sizes.max(initial=1)), self.chosen.discount)

    @cached_property
    def relevant(self) -> FloatArray:
        """1 for relevant documents, else 0."""
        return (self.labels >= self.chosen.relevance).astype(np.float64)

    @cached_property
    def n_relevant(self) -> FloatArray:
        """The relevant documents of every query, retrieved or not."""
        return np.add.reduceat(self.relevant, self.offsets[:-1])

    @cached_property
    def hits(self) -> FloatArray:
        """Relevant documents up to each position."""
        return self.sums(self.relevant, np.ones_like(self.discounts))[0]

    def gained(self, by_position: bool) -> Sums:
        """DCG up to each position, and the largest that any order reaches; gains are those of labels or positions."""
        if by_position not in self._gained:
            exponential = not by_position and self.chosen.gain == "exponential"
            plain = self._by_position[0] if by_position else np.maximum(self.labels, 0.0)
            gain = exponential_gain(self.labels) if exponential else plain
            self._gained[by_position] = self.sums(gain, self.discounts, ideal=True)
        return self._gained[by_position]

    def stops(self, by_position: bool) -> FloatArray:
        """The probability of every document to satisfy."""
        return self._by_position[1] if by_position else self._graded_stops

    @cached_property
    def _graded_stops(self) -> FloatArray:
        """V(r) = (2^r - 1) / 2^rmax, or the label itself; without rmax it is the highest label."""
        highest = max(float(self.labels.max(initial=0.0)), 0.0)
        if self.chosen.err_probability == "label":
            if highest > 1.0:
                raise DataError(
                    f"The highest label is {highest:g}; with err_probability='label' labels must be in [0, 1]: divide "
                    "them by their scale, or use err_probability='exponential'."
                )
            return np.maximum(self.labels, 0.0)
        rmax = highest if self._rmax is None else self._rmax
        if highest > rmax:
            raise SettingError(f"rmax is {rmax:g}, and the data have a label of {highest:g}; give the highest grade.")
        return exponential_gain(self.labels) / 2.0**rmax

    @cached_property
    def _by_position(self) -> Sums:
        """Gain and stopping probability; equal labels share their best position, or follow the input's order."""
        k, cut = self.chosen.top_k, self.tiers
        place = np.arange(len(self.labels)) - np.repeat(self.offsets[:-1], self.sizes)
        if self.chosen.label_ties != "stable":
            sizes, first = np.diff(cut.starts), place[cut.starts[:-1]]
            relevant = self.labels[cut.order[cut.starts[:-1]]] > 0.0
            if self.chosen.label_ties == "error" and np.any((sizes > 1) & (first < k) & relevant):
                raise DataError(
                    f"Equal labels among the first {k} documents of a query, and label_ties is 'error'; give a full "
                    "order, or use label_ties='extend' or 'stable'."
                )
            place = np.repeat(first, sizes)
        at = np.maximum(2.0 ** (k - np.arange(len(self.discounts))) - 1.0, 0.0)
        gain = np.empty(len(place))
        gain[cut.order] = np.where(self.labels[cut.order] > 0.0, at[place], 0.0)
        return gain, gain / 2.0**k

    def sums(self, gain: FloatArray, weights: FloatArray, ideal: bool = False) -> Sums:
        """Expected sums of gain times weight up to the positions 0..n of every query, end to end.

        The second are the largest that any order reaches; they are empty where nobody asks for the `ideal`.
        """
        total = len(gain) + len(self.sizes)
        found, best = np.empty(total), np.empty(total if ideal else 0)
        chunks = chunk_queries(self.offsets)
        map_chunks(lambda _, chunk: _cumulate(*chunk, self.ranking, gain, weights, found, best), chunks)
        return found, best

    @cached_property
    def starts(self) -> IntArray:
        """Where the sums of queries start."""
        return self.offsets[:-1] + np.arange(len(self.sizes))

    def cut(self, k: int) -> IntArray:
        """Where the sums up to position k of queries are, or the last ones; 0 is the last."""
        return self.starts + np.minimum(k or self.sizes, self.sizes)


def as_number(empty: Any) -> float:
    """The value of a query without a relevant document; NaN is one that is skipped."""
    return math.nan if empty == "skip" else float(empty)


def exponential_gain(labels: FloatArray) -> FloatArray:
    """2^r - 1; negative grades gain 0."""
    highest = float(labels.max(initial=0.0))
    if highest > _LARGEST_EXPONENT:
        raise DataError(
            f"The highest label is {highest:g}, too large for the gain 2^r - 1; use gain='linear', or the kappa "
            "metrics for labels that are positions."
        )
    positive = np.maximum(labels, 0.0)
    whole = positive.astype(np.int64)
    if np.array_equal(whole, positive):  # grades are whole numbers nearly always, and a table is three times as fast
        return np.asarray((np.exp2(np.arange(highest + 1.0)) - 1.0)[whole])
    return np.asarray(np.exp2(positive) - 1.0)


def discounts(n: int, rule: str) -> FloatArray:
    """Discount of the positions 1..n.

    >>> discounts(4, "letor").tolist()
    [1.0, 1.0, 0.6309297535714575, 0.5]
    """
    position = np.arange(1.0, n + 1.0)
    if rule == "log2":
        return np.asarray(1.0 / np.log2(position + 1.0))
    return np.asarray(1.0 / np.log2(np.maximum(position, 2.0)))


def _document_order(document_ids: NDArray[np.generic] | None, offsets: IntArray) -> IntArray:
    """Rows of every query by document id as text, larger ids first, as trec_eval breaks ties."""
    if document_ids is None:
        raise DataError("ties='docid' needs document ids, and the data have none; use another rule for ties.")
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    _, rank = np.unique(document_ids.astype(str), return_inverse=True)
    return np.lexsort((-rank, query)).astype(np.int64)


@kernel
def _cumulate(first, last, ranking, gain, weights, sums, best):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        ranked, base = ranked_query(ranking, q), ranking.offsets[q]
        at = base + q
        sums[at] = 0.0
        for b in range(len(ranked.blocks) - 1):
            start, stop = ranked.blocks[b], ranked.blocks[b + 1]
            if stop - start == 1:
                sums[at + stop] = sums[at + start] + gain[base + ranked.order[start]] * weights[start]
                continue
            total = 0.0
            for i in range(start, stop):
                total += gain[base + ranked.order[i]]
            mean = total / (stop - start)
            for i in range(start, stop):
                sums[at + i + 1] = sums[at + i] + mean * weights[i]
        for i in range(ranked.retrieved, ranked.n):
            sums[at + i + 1] = sums[at + i]
        if len(best):
            best[at] = 0.0
            for i in range(ranked.n):
                best[at + i + 1] = best[at + i] + gain[base + ranked.ideal[i]] * weights[i]
