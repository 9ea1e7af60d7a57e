"""The tokens of lists of texts, as numbers: by view, every different word analysed once; and how common they are."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.late import pa
from luce.data.text.tokens import grams, runs, stem, words
from luce.errors import DataError
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


class Tokens(NamedTuple):
    """The tokens of texts, one text after another: those of text i are `ids[offsets[i] : offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """How many tokens every text has."""
        return np.diff(self.offsets)

    def expanded(self, parts: Tokens) -> Tokens:
        """Every token replaced by its parts."""
        sizes = parts.lengths[self.ids]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        place = np.arange(ends[-1]) - np.repeat(ends[:-1] - parts.offsets[self.ids], sizes)
        return Tokens(parts.ids[place], ends[self.offsets])


class _Numbers(dict[str, int]):
    """A number for every term, in the order in which they come."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


class Analysis:
    """Lists of texts by view, whose terms have numbers in common; every different word is stemmed once."""

    def __init__(self, language: str) -> None:
        self._stems = language == "english"
        self._exact, self._runs = _Numbers(), _Numbers()
        self._other: dict[str, _Numbers] = {"word": _Numbers(), "gram": _Numbers()}
        self._of_exact: list[int] = []
        self._of_run: list[list[int]] = []
        self._rest: int | None = None

    def terms(self, view: str) -> list[str]:
        """The terms of a view, by number."""
        return list(self._exact if view == "exact" or (not self._stems and view == "word") else self._other[view])

    def exact(self, texts: Sequence[str]) -> Tokens:
        """Words as they are."""
        return _tokens(map(words, texts), self._exact)

    def word(self, exact: Tokens) -> Tokens:
        """Stems of words."""
        if not self._stems:
            return exact
        number = self._other["word"]
        new = list(self._exact)[len(self._of_exact) :]
        self._of_exact += [number[stem(term) if len(term) <= _SHORT else stem.__wrapped__(term)] for term in new]
        return Tokens(np.array(self._of_exact, dtype=np.int32)[exact.ids], exact.offsets)

    def numbers(self, exact: Tokens) -> Tokens:
        """The words that are numbers."""
        keep = np.array([term[0].isdigit() for term in self._exact], dtype=bool)[exact.ids]
        return Tokens(exact.ids[keep], np.concatenate([[0], np.cumsum(keep)])[exact.offsets])

    def close_grams(self) -> None:
        """From now on all grams that are new have one number: those of documents that no query has."""
        self._rest = self._other["gram"][""]

    def gram(self, texts: Sequence[str]) -> Tokens:
        """Three characters each."""
        found = _tokens(map(runs, texts), self._runs)
        number, rest = self._other["gram"], self._rest
        added = list(self._runs)[len(self._of_run) :]
        new = [_short_grams(run) if len(run) <= _SHORT else grams(run) for run in added]
        if rest is None:
            self._of_run += [[number[gram] for gram in each] for each in new]
        else:
            known = number.keys()
            self._of_run += [
                [rest] * len(each) if known.isdisjoint(each) else [number.get(gram, rest) for gram in each]
                for each in new
            ]
        return found.expanded(laid_out(self._of_run))


_SHORT = 32
"""Longer words are seldom met again: to remember them would take memory that whoever sends texts decides on."""
_short_grams = lru_cache(1 << 15)(grams)


def _tokens(found: map[list[str]], number: _Numbers) -> Tokens:
    return laid_out([list(map(number.__getitem__, terms)) for terms in found])


def laid_out(lists: list[list[int]]) -> Tokens:
    """The tokens of texts from a list each."""
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))]).astype(np.int64)
    ids = np.fromiter(chain.from_iterable(lists), np.int32, int(offsets[-1]))
    return Tokens(ids, offsets)


MOST_TERMS, MOST_BYTES = 20_000_000, 1 << 29
"""What a model file may hold of one field and view."""


@kernel
def _frequencies(ids, offsets, found):  # type: ignore[no-untyped-def]
    """Count each term once a document."""
    last = np.full(len(found), -1, dtype=np.int64)
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1]):
            term = ids[place]
            if last[term] != document:
                last[term] = document
                found[term] += 1


@dataclass(frozen=True)
class Frequencies:
    """What is known of a corpus by one field and view: what Lucene takes from an index.

    Documents without a token of the view do not count, and a term counts once a document. A term that is not known has
    the frequency 1: in an engine, the document that it stands in has it.
    """

    documents: int
    tokens: int
    counts: Mapping[str, int]
    """In how many documents a term stands."""

    @classmethod
    def learn(cls, tokens: Tokens, terms: Sequence[str], min_df: int) -> Frequencies:
        """Those of documents; terms of fewer than `min_df` of them are forgotten."""
        found = np.zeros(len(terms), dtype=np.int64)
        _frequencies(tokens.ids, tokens.offsets, found)
        kept = np.flatnonzero(found >= max(min_df, 1)).tolist()
        counts = {terms[i]: n for i, n in zip(kept, found[kept].tolist(), strict=True)}
        return cls(int(np.count_nonzero(tokens.lengths)), len(tokens.ids), dict(sorted(counts.items())))

    @property
    def mean_length(self) -> float:
        """Tokens a document; 1 where there are none."""
        return self.tokens / self.documents if self.tokens else 1.0

    def idf(self, terms: Sequence[str]) -> FloatArray:
        """ln(1 + (N - n + .5) / (n + .5)) of every term."""
        n = np.fromiter((self.counts.get(term, 1) for term in terms), np.float64, len(terms))
        return np.log1p((np.maximum(self.documents, n) - n + 0.5) / (n + 0.5))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: terms and counts packed."""
        raw = "\n".join(self.counts).encode() + b"\0" + np.fromiter(self.counts.values(), "<u4").tobytes()
        packed = pa.compress(raw, codec="zstd", asbytes=True)
        sizes = {"documents": self.documents, "tokens": self.tokens, "terms": len(self.counts), "bytes": len(raw)}
        return {**sizes, "packed": base64.b64encode(packed).decode()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Frequencies:
        """What `to_dict` gave, within limits; anything else is a `DataError`."""
        damaged = "what it knows of the words of its corpus is damaged"
        try:
            sizes = [record[name] for name in ("documents", "tokens", "terms", "bytes")]
            if not all(type(size) is int and 0 <= size < 2**48 for size in sizes):
                raise DataError(damaged)
            if sizes[2] > MOST_TERMS or sizes[3] > MOST_BYTES:
                raise DataError(f"its corpus has {sizes[2]:,} terms of {sizes[3]:,} bytes, more than a model may have")
            packed = base64.b64decode(record["packed"], validate=True)
            raw = pa.decompress(packed, decompressed_size=sizes[3], codec="zstd", asbytes=True)
            text, _, rest = raw.partition(b"\0")
            terms, counts = text.decode().split("\n") if text else [], np.frombuffer(rest, "<u4").tolist()
        except (KeyError, TypeError, ValueError, UnicodeError, binascii.Error, pa.ArrowException, OSError) as error:
            raise DataError(damaged) from error
        if not len(terms) == len(counts) == sizes[2] == len(set(terms)) or any(n > sizes[0] for n in counts):
            raise DataError(damaged)
        return cls(sizes[0], sizes[1], dict(zip(terms, counts, strict=True)))


def stored_length(length: IntArray) -> IntArray:
    """The length of a document as Lucene keeps it in a byte: exact to 39, then with four significant bits.

    >>> stored_length(np.array([0, 39, 40, 41, 100, 1000])).tolist()
    [0, 39, 40, 40, 96, 984]
    """
    above = np.maximum(length - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1] - 4, 0)
    return np.where(length < 24, length, 24 + (above >> shift << shift))
