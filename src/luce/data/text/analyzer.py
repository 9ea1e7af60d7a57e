"""The tokens of lists of texts, as numbers: by view, every different word analysed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.text.porter import stem
from luce.data.text.tokens import grams, runs, words
from luce.types import IntArray


class Tokens(NamedTuple):
    """The tokens of texts, one text after another: those of text i are `ids[offsets[i] : offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """How many tokens every text has."""
        return np.diff(self.offsets)

    def mapped(self, new: NDArray[np.int32]) -> Tokens:
        """The same tokens under other numbers."""
        return Tokens(new[self.ids], self.offsets)

    def expanded(self, parts: Tokens) -> Tokens:
        """Every token replaced by its parts."""
        sizes = parts.lengths[self.ids]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        place = np.arange(ends[-1]) - np.repeat(ends[:-1] - parts.offsets[self.ids], sizes)
        return Tokens(parts.ids[place], ends[self.offsets])

    def kept(self, keep: NDArray[np.bool_]) -> Tokens:
        """Some of the tokens."""
        ends = np.concatenate([[0], np.cumsum(keep)])
        return Tokens(self.ids[keep], ends[self.offsets])


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
        self._of_exact += [number[stem(term)] for term in new]
        return exact.mapped(np.array(self._of_exact, dtype=np.int32))

    def numbers(self, exact: Tokens) -> Tokens:
        """The words that are numbers."""
        digit = np.array([term[0].isdigit() for term in self._exact], dtype=bool)
        return exact.kept(digit[exact.ids]) if len(digit) else exact

    def gram(self, texts: Sequence[str]) -> Tokens:
        """Three characters each."""
        found = _tokens(map(runs, texts), self._runs)
        number = self._other["gram"]
        new = list(self._runs)[len(self._of_run) :]
        self._of_run += [[number[gram] for gram in grams(run)] for run in new]
        return found.expanded(_flat(self._of_run))


def _tokens(found: map[list[str]], number: _Numbers) -> Tokens:
    return _flat([list(map(number.__getitem__, terms)) for terms in found])


def _flat(lists: list[list[int]]) -> Tokens:
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))]).astype(np.int64)
    ids = np.fromiter((one for each in lists for one in each), np.int32, int(offsets[-1]))
    return Tokens(ids, offsets)
