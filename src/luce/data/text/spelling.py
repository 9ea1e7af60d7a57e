"""Words of queries that documents spell nearly so, or write as one word or two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from luce.data.text.match import Bag

_SHORTEST = 4
"""Shorter words are near too many others."""


def near_spellings(wanted: Iterable[int], terms: Sequence[str]) -> dict[int, list[int]]:
    """For words (by number) the others at a distance of one letter, or of two letters that changed places.

    >>> near_spellings([0], ["bracket", "brackett", "brakcet", "brocket", "racket", "ratchet"])
    {0: [1, 2, 3, 4]}
    """
    long = [i for i, term in enumerate(terms) if len(term) >= _SHORTEST and term.isalpha()]
    asked = {i for i in wanted if len(terms[i]) >= _SHORTEST and terms[i].isalpha()}
    shared: dict[str, list[int]] = defaultdict(list)
    for i in asked:
        for key in _shorter(terms[i]):
            shared[key].append(i)
    found: dict[int, set[int]] = defaultdict(set)
    for j in long:
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


def bag_of(lists: Sequence[Sequence[int]]) -> Bag:
    """Terms of queries, each once."""
    once = [list(dict.fromkeys(each)) for each in lists]
    flat = np.array([one for each in once for one in each], dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in once])]).astype(np.int64)
    return Bag(flat, np.ones(len(flat), dtype=np.int32), offsets)


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
    for word in dict.fromkeys(terms[i] for i in words):
        cuts = ((word[:i], word[i:]) for i in range(2, len(word) - 1))
        found += [(number[a], number[b]) for a, b in cuts if a in number and b in number]
    return found
