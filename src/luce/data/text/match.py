"""How well rows match: kernels over (query, document) rows whose terms have numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.text.analyzer import Tokens
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


class Bag(NamedTuple):
    """The different terms of queries and how often each stands there."""

    terms: NDArray[np.int32]
    times: NDArray[np.int32]
    offsets: IntArray

    @classmethod
    def of(cls, tokens: Tokens) -> Bag:
        """In the order of their first places, which are kept for what asks for neighbours."""
        query = np.repeat(np.arange(len(tokens.offsets) - 1), tokens.lengths)
        key = query * (int(tokens.ids.max(initial=0)) + 1) + tokens.ids
        _, first, times = np.unique(key, return_index=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        place = first[order]
        ends = np.searchsorted(place, tokens.offsets)
        return cls(tokens.ids[place], times[order].astype(np.int32), ends.astype(np.int64))


@kernel
def match(query, document, terms, times, starts, ids, offsets, idf, inverse, out):  # type: ignore[no-untyped-def]
    """BM25, the idf of matched terms and their number, for every row; `inverse` is 1 / (k1 (1 - b + b length / mean)).

    A term of frequency f scores idf (1 - 1 / (1 + f inverse)), as often as it stands in the query.
    """
    slot = np.full(len(idf), -1, dtype=np.int32)
    longest = 1
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    count = np.zeros(longest, dtype=np.int64)
    now = -1
    for row in range(len(query)):
        q, d = query[row], document[row]
        first, size = starts[q], starts[q + 1] - starts[q]
        if q != now:
            if now >= 0:
                for k in range(starts[now], starts[now + 1]):
                    slot[terms[k]] = -1
            for k in range(size):
                slot[terms[first + k]] = k
            now = q
        for k in range(size):
            count[k] = 0
        for place in range(offsets[d], offsets[d + 1]):
            k = slot[ids[place]]
            if k >= 0:
                count[k] += 1
        score = matched = number = 0.0
        for k in range(size):
            if count[k] > 0:
                weight = idf[terms[first + k]] * times[first + k]
                score += weight - weight / (1.0 + count[k] * inverse[d])
                matched += weight
                number += times[first + k]
        out[row, 0], out[row, 1], out[row, 2] = score, matched, number


@kernel
def closeness(query, document, terms, times, starts, ids, offsets, idf, squared, out):  # type: ignore[no-untyped-def]
    """What no query of an engine says, for every row: cosine, shares of idf and places of the matched terms.

    `squared` is the squared length of the vector of each document.
    """
    slot = np.full(len(idf), -1, dtype=np.int32)
    longest = 1
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    count, seen = np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    now = -1
    for row in range(len(query)):
        q, d = query[row], document[row]
        first, size = starts[q], starts[q + 1] - starts[q]
        if q != now:
            if now >= 0:
                for k in range(starts[now], starts[now + 1]):
                    slot[terms[k]] = -1
            for k in range(size):
                slot[terms[first + k]] = k
            now = q
        for k in range(size):
            count[k], seen[k] = 0, -1
        begin = -1
        for place in range(offsets[d], offsets[d + 1]):
            k = slot[ids[place]]
            if k >= 0:
                count[k] += 1
                begin = place - offsets[d] if begin < 0 else begin
        total = share = missed = product = length = 0.0
        found = have = 0
        for k in range(size):
            weight = idf[terms[first + k]]
            total += weight * times[first + k]
            length += (times[first + k] * weight) ** 2
            if count[k] > 0:
                found += 1
                share += weight * times[first + k]
                product += times[first + k] * weight * count[k] * weight
            else:
                missed = max(missed, weight)
        shortest = offsets[d + 1] - offsets[d]
        for place in range(offsets[d], offsets[d + 1] if found > 0 else offsets[d]):
            k = slot[ids[place]]
            if k >= 0:
                have += seen[k] < 0
                seen[k] = place
                if have == found:
                    oldest = place
                    for each in range(size):
                        if count[each] > 0:
                            oldest = min(oldest, seen[each])
                    shortest = min(shortest, place - oldest + 1)
        out[row, 0] = product / np.sqrt(length * squared[d]) if length * squared[d] > 0.0 else 0.0
        out[row, 1] = share / total if total > 0.0 else 0.0
        out[row, 2] = missed
        out[row, 3] = 1.0 / (1.0 + begin) if begin >= 0 else 0.0
        out[row, 4] = found / shortest if found > 0 else 0.0
        out[row, 5] = 1.0 if size > 0 and count[size - 1] > 0 else 0.0


@kernel
def squared_lengths(ids, offsets, idf, out):  # type: ignore[no-untyped-def]
    """The squared length of every document's vector of term frequency times idf."""
    count = np.zeros(len(idf), dtype=np.int64)
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1]):
            count[ids[place]] += 1
        total = 0.0
        for place in range(offsets[document], offsets[document + 1]):
            term = ids[place]
            total += (count[term] * idf[term]) ** 2
            count[term] = 0
        out[document] = total


def matched(
    rows: tuple[IntArray, IntArray], bag: Bag, tokens: Tokens, idf: FloatArray, inverse: FloatArray | None = None
) -> FloatArray:
    """BM25, idf and count of rows of (query, document)."""
    out = np.zeros((len(rows[0]), 3))
    match(*rows, *bag, *tokens, idf, np.ones(len(tokens.offsets) - 1) if inverse is None else inverse, out)
    return out


def placed(rows: tuple[IntArray, IntArray], bag: Bag, tokens: Tokens, idf: FloatArray) -> FloatArray:
    """Cosine, share, missed, first, window and last of rows of (query, document)."""
    out, squared = np.zeros((len(rows[0]), 6)), np.zeros(len(tokens.offsets) - 1)
    squared_lengths(*tokens, idf, squared)
    closeness(*rows, *bag, *tokens, idf, squared, out)
    return out
