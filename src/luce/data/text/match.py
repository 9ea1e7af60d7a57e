"""How well rows match: over (query, document) rows whose terms have numbers; and words that are spelt nearly so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.text.analyzer import Tokens, laid_out
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray

_SHORTEST, _LONGEST = 4, 64
"""Shorter words are near too many others; longer ones are none that a hand has misspelt, and have as many spellings."""


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

    @classmethod
    def of_lists(cls, lists: Sequence[Sequence[int]]) -> Bag:
        """Terms of queries, each once."""
        return cls.of(laid_out([list(dict.fromkeys(each)) for each in lists]))


@kernel
def _match(rows, bag, tokens, idf, inverse, out):  # type: ignore[no-untyped-def]
    """For every row BM25, the idf of matched terms and their number; `inverse` is 1 / (k1 (1 - b + b length / mean)).

    A term of frequency f scores idf (1 - 1 / (1 + f inverse)), as often as it stands in the query. Where `out` has room
    for it, also what no query of an engine says: cosine, shares of idf and places of the matched terms.
    """
    terms, times, starts = bag
    ids, offsets = tokens
    slot, every = np.full(len(idf), -1, dtype=np.int32), np.zeros(len(idf), dtype=np.int64)
    squared = np.full(len(offsets) - 1 if out.shape[1] > 3 else 0, -1.0)
    longest = 1
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    count, seen = np.zeros(longest, dtype=np.int64), np.zeros(longest, dtype=np.int64)
    now = -1
    for row in range(len(rows[0])):
        q, d = rows[0][row], rows[1][row]
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
        score = share = number = total = missed = product = length = 0.0
        found = have = 0
        for k in range(size):
            weight = idf[terms[first + k]]
            whole = weight * times[first + k]
            total += whole
            length += whole**2
            if count[k] > 0:
                found += 1
                score += whole - whole / (1.0 + count[k] * inverse[d])
                share += whole
                number += times[first + k]
                product += whole * count[k] * weight
            else:
                missed = max(missed, weight)
        out[row, 0], out[row, 1], out[row, 2] = score, share, number
        if out.shape[1] == 3:
            continue
        shortest = offsets[d + 1] - offsets[d]
        for place in range(offsets[d], offsets[d + 1]):
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
        if squared[d] < 0.0:  # of a document that several queries have, once
            squared[d] = 0.0
            for place in range(offsets[d], offsets[d + 1]):
                every[ids[place]] += 1
            for place in range(offsets[d], offsets[d + 1]):
                squared[d] += (every[ids[place]] * idf[ids[place]]) ** 2
                every[ids[place]] = 0
        out[row, 3] = product / np.sqrt(length * squared[d]) if length * squared[d] > 0.0 else 0.0
        out[row, 4] = share / total if total > 0.0 else 0.0
        out[row, 5] = missed
        out[row, 6] = 1.0 / (1.0 + begin) if begin >= 0 else 0.0
        out[row, 7] = found / shortest if found > 0 else 0.0
        out[row, 8] = 1.0 if size > 0 and count[size - 1] > 0 else 0.0


def matched(
    rows: tuple[IntArray, IntArray],
    bag: Bag,
    tokens: Tokens,
    idf: FloatArray,
    inverse: FloatArray | None = None,
    full: bool = False,
) -> FloatArray:
    """BM25, idf and count of rows of (query, document); if `full` also cosine, share, missed, first, window, last."""
    out = np.zeros((len(rows[0]), 9 if full else 3))
    _match(rows, bag, tokens, idf, np.ones(len(tokens.offsets) - 1) if inverse is None else inverse, out)
    return out


def near_spellings(wanted: Iterable[int], terms: Sequence[str]) -> dict[int, list[int]]:
    """For words (by number) the others at a distance of one letter, or of two letters that changed places.

    >>> near_spellings([0], ["bracket", "brackett", "brakcet", "brocket", "racket", "ratchet"])
    {0: [1, 2, 3, 4]}
    """
    fit = [i for i, term in enumerate(terms) if _SHORTEST <= len(term) <= _LONGEST and term.isalpha()]
    asked = set(wanted).intersection(fit)
    shared: dict[str, list[int]] = defaultdict(list)
    for i in asked:
        for key in _shorter(terms[i]):
            shared[key].append(i)
    found: dict[int, set[int]] = defaultdict(set)
    for j in fit:
        for i in {i for key in _shorter(terms[j]) if key in shared for i in shared[key]}:
            if i != j and _near(terms[i], terms[j]):
                found[i].add(j)
    return {i: sorted(near) for i, near in sorted(found.items())}


def _shorter(word: str) -> set[str]:
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _near(a: str, b: str) -> bool:
    if len(a) != len(b):
        long, short = (a, b) if len(a) > len(b) else (b, a)
        return short in _shorter(long)
    other = [i for i in range(len(a)) if a[i] != b[i]]
    swapped = len(other) == 2 and other[1] == other[0] + 1 and a[other[0]] == b[other[1]] and a[other[1]] == b[other[0]]
    return len(other) == 1 or swapped


def joined(words: Sequence[int], terms: Sequence[str], number: dict[str, int]) -> list[int]:
    """Words that are two neighbours of a query written as one.

    >>> joined([0, 1], ["deck", "over", "deckover"], {"deck": 0, "over": 1, "deckover": 2})
    [2]
    """
    pairs = (terms[a] + terms[b] for a, b in pairwise(words))
    return [number[pair] for pair in pairs if pair in number]


def split(words: Sequence[int], terms: Sequence[str], number: dict[str, int]) -> list[tuple[int, int]]:
    """Two words that are one of a query written apart."""
    found = []
    for word in dict.fromkeys(terms[i] for i in words if len(terms[i]) <= _LONGEST):
        cuts = ((word[:i], word[i:]) for i in range(2, len(word) - 1))
        found += [(number[a], number[b]) for a, b in cuts if a in number and b in number]
    return found
