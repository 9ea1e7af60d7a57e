"""Features of (query, document) rows of text: what a search engine scores, and what only Python computes.

A feature is *field x view x similarity*: `title.word_bm25` is the score of a `match` query on a subfield of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.text.analyzer import Analysis, Frequencies, Tokens, stored_length
from luce.data.text.match import Bag, joined, matched, near_spellings, split
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.text.transformer import Text

ENGINE = ("word_bm25", "word_count", "exact_bm25", "pair_count", "gram_bm25", "gram_idf", "length")
"""What an engine can say of a field."""
NUMBERS = ("number_count",)
FULL = (
    "word_cosine",
    "word_share",
    "word_missed",
    "word_first",
    "word_window",
    "word_last",
    "near_words",
    "joined_words",
    "gram_cosine",
)
"""What only Python computes of a field: cosine of tf-idf vectors, share of the query's idf that is matched, largest idf
that is missed, how early the first match stands, how dense the shortest window with all matches is, whether the last
word of the query matches, words that are spelt nearly so, and words written as one or apart."""
QUERY = ("q_words", "q_idf")
"""Words of the query and the sum of their idf: parameters that the client of an engine passes."""
UNION = "all"
"""Where there are several fields: all of them, one after another, as `copy_to` makes it."""
VIEWS = ("word", "exact", "gram")
"""Views whose statistics are kept; pairs and numbers are only counted."""


class Texts(NamedTuple):
    """A column of texts: the different ones, and which of them every row has."""

    values: list[str]
    rows: IntArray

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """From one text a row."""
        number: dict[str, int] = {}
        rows = [number.setdefault(text, len(number)) for text in texts]
        return cls(list(number), np.array(rows, dtype=np.int64))


class Field(NamedTuple):
    """The tokens of the different texts of a field, by view."""

    exact: Tokens
    word: Tokens
    gram: Tokens
    borders: IntArray
    """Where no pair goes across: the beginnings of texts, and in a union those of its parts."""

    def view(self, name: str) -> Tokens:
        """The tokens of a view whose statistics are kept."""
        tokens: Tokens = getattr(self, name)
        return tokens


def field_names(fields: Sequence[str]) -> list[str]:
    """The fields that have features: those given, and their union where there are several."""
    return [*fields, *([UNION] if len(fields) > 1 else [])]


def of_field(features: str, numbers: bool) -> tuple[str, ...]:
    """The features of one field."""
    return (*ENGINE, *(NUMBERS if numbers else ()), *(FULL if features == "full" else ()))


class _Reader(Analysis):
    """Texts of queries and fields, analysed once for what is asked of them."""

    def field(self, texts: Sequence[str]) -> Field:
        """The tokens of different texts."""
        exact = self.exact(texts)
        return Field(exact, self.word(exact), self.gram(texts), exact.offsets)

    def fields(self, columns: Mapping[str, Texts]) -> Iterator[tuple[str, Field, IntArray]]:
        """Every field and, where there are several, their union: its tokens and the text of every row."""
        found = {name: self.field(texts.values) for name, texts in columns.items()}
        for name, texts in columns.items():
            yield name, found[name], texts.rows
        if len(columns) > 1:
            every = np.stack([texts.rows for texts in columns.values()])
            different, rows = np.unique(every, axis=1, return_inverse=True)
            exact, word, gram = (_joined([f.view(v) for f in found.values()], different) for v in Field._fields[:3])
            sizes = np.stack([f.word.lengths[i] for f, i in zip(found.values(), different, strict=True)], axis=1)
            borders = np.concatenate([[0], np.cumsum(sizes.reshape(-1))])
            yield UNION, Field(exact, word, gram, borders), rows.reshape(-1)


def _joined(fields: Sequence[Tokens], texts: IntArray) -> Tokens:
    """The tokens of several fields as one, a text of each after the other."""
    first = np.cumsum([0, *(len(f.offsets) - 1 for f in fields)])
    shift = np.cumsum([0, *(len(f.ids) for f in fields)])
    starts = np.concatenate([f.offsets[:-1] + s for f, s in zip(fields, shift, strict=False)])
    whole = Tokens(np.concatenate([f.ids for f in fields]), np.append(starts, shift[-1]).astype(np.int64))
    chosen = (texts + first[: len(fields), None]).T.reshape(-1)
    found = _taken(whole, chosen)
    return Tokens(found.ids, found.offsets[:: len(fields)])


def _taken(tokens: Tokens, texts: IntArray) -> Tokens:
    """The tokens of some texts, in this order."""
    each = Tokens(texts.astype(np.int32), np.arange(len(texts) + 1))
    return each.expanded(tokens)


def learn(columns: Mapping[str, Texts], language: str, min_df: int) -> dict[str, Frequencies]:
    """The statistics of documents, by field and view; `columns` have a row a document."""
    reader, found = _Reader(language), {}
    for name, field, rows in reader.fields(columns):
        for view in VIEWS:
            tokens = _taken(field.view(view), rows)
            found[f"{name}.{view}"] = Frequencies.learn(tokens, reader.terms(view), min_df)
    return found


def compute(text: Text, query: Texts, columns: Mapping[str, Texts]) -> NDArray[np.float32]:
    """All features of rows by a `Text` that is fitted, field by field, then those of the query."""
    reader, known, full = _Reader(text.language), text.frequencies_, text.features == "full"
    asked = reader.field(query.values)
    if not full:  # no other feature looks at grams that no query has
        reader.close_grams()
    fields = list(reader.fields(columns))
    terms = {view: reader.terms(view) for view in VIEWS}
    order = np.argsort(query.rows, kind="stable")  # a query's terms are laid out once for all of its rows
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    spelling = _Spelling(asked.exact, terms["exact"]) if full else None
    bags = {view: Bag.of(asked.view(view)) for view in VIEWS}
    parts: list[FloatArray] = []
    last = np.zeros(0)
    for name, field, rows in fields:
        at = (query.rows[order], rows[order])
        idf = {view: _idf(known[f"{name}.{view}"], terms[view], asked.view(view), full) for view in VIEWS}
        scores = {}
        for view in VIEWS:
            length = stored_length(field.view(view).lengths) / known[f"{name}.{view}"].mean_length
            with np.errstate(divide="ignore"):
                inverse = 1.0 / (text.k1 * (1.0 - text.b + text.b * length))
            also = full and view != "exact"
            scores[view] = matched(at, bags[view], field.view(view), idf[view], inverse, also)
        pair = _pair_count(at, asked, field, len(terms["word"]))
        word, gram = scores["word"], scores["gram"]
        size = field.word.lengths[at[1]].astype(np.float64)
        parts += [word[:, 0], word[:, 2], scores["exact"][:, 0], pair, gram[:, 0], gram[:, 1], size]
        if text.numbers:
            bag = Bag.of(reader.numbers(asked.exact))
            parts.append(matched(at, bag, field.exact, np.ones(len(terms["exact"])))[:, 2])
        if spelling is not None:
            parts += [*word[:, 3:].T, *spelling.features(at, field), gram[:, 3]]
        last = idf["word"]
    found = np.empty((len(order), len(text.names)), dtype=np.float32)
    for j, values in enumerate(parts):
        found[:, j] = values[back]
    if not text.query_features:
        return found
    words = asked.word.lengths
    sums = np.bincount(np.repeat(np.arange(len(words)), words), last[asked.word.ids], len(words))  # each from 0 on
    found[:, -2], found[:, -1] = words[query.rows], sums[query.rows]
    return found


def _idf(known: Frequencies, terms: Sequence[str], asked: Tokens, full: bool) -> FloatArray:
    """The idf of terms; unless all are wanted, of those of queries alone, which were read first: the others are 0."""
    count = len(terms) if full else int(asked.ids.max(initial=-1)) + 1
    return np.concatenate([known.idf(terms[:count]), np.zeros(len(terms) - count)])


def _pair_count(at: tuple[IntArray, IntArray], asked: Field, field: Field, size: int) -> FloatArray:
    """How many neighbouring stems of the query are neighbours in the document, as often as the query has them."""
    keys, query = _pairs(asked.word, asked.borders, size)
    wanted, codes = np.unique(keys, return_inverse=True)
    inside = np.zeros(size + 1, dtype=bool)
    inside[asked.word.ids] = True
    found = _wanted_pairs(field.word, field.borders, wanted, inside)
    return matched(at, Bag.of(_by_text(codes, query, asked.word)), found, np.ones(len(wanted) + 1))[:, 2]


def _pairs(
    tokens: Tokens, borders: IntArray, size: int, keep: NDArray[np.bool_] | None = None
) -> tuple[IntArray, IntArray]:
    """Neighbours as one number each, and the text that they stand in; with `keep` only where it keeps both."""
    inside = np.ones(max(len(tokens.ids) - 1, 0), dtype=bool)
    cut = borders[(borders > 0) & (borders < len(tokens.ids))] - 1
    inside[cut] = False
    if keep is not None:
        inside &= keep[tokens.ids[:-1]] & keep[tokens.ids[1:]]
    place = np.flatnonzero(inside)
    text = np.searchsorted(tokens.offsets, place, "right") - 1
    return tokens.ids[place].astype(np.int64) * size + tokens.ids[place + 1], text


def _wanted_pairs(tokens: Tokens, borders: IntArray, wanted: IntArray, inside: NDArray[np.bool_]) -> Tokens:
    """Those of the wanted pairs that every text has, by their number; `inside` are the terms of wanted pairs."""
    keys, text = _pairs(tokens, borders, len(inside) - 1, inside)
    spot = np.minimum(np.searchsorted(wanted, keys), max(len(wanted) - 1, 0))
    hit = wanted[spot] == keys if len(wanted) else np.zeros(len(keys), dtype=bool)
    return _by_text(spot[hit], text[hit], tokens)


def _by_text(ids: IntArray, text: IntArray, like: Tokens) -> Tokens:
    """Tokens of these texts, which come in order."""
    return Tokens(ids.astype(np.int32), np.searchsorted(text, np.arange(len(like.offsets))).astype(np.int64))


class _Spelling:
    """Words of queries as documents may spell them."""

    def __init__(self, asked: Tokens, terms: Sequence[str]) -> None:
        number = {term: i for i, term in enumerate(terms)}
        words = [asked.ids[a:b].tolist() for a, b in zip(asked.offsets[:-1], asked.offsets[1:], strict=True)]
        near = near_spellings(set(asked.ids.tolist()), terms)
        self._near = Bag.of_lists([[other for word in each for other in near.get(word, ())] for each in words])
        self._one = Bag.of_lists([joined(each, terms, number) for each in words])
        two = [[a * len(terms) + b for a, b in split(each, terms, number)] for each in words]
        self._wanted = np.unique(np.array([key for each in two for key in each], dtype=np.int64))
        self._two = Bag.of_lists([np.searchsorted(self._wanted, each).tolist() for each in two])
        self._inside = np.zeros(len(terms) + 1, dtype=bool)
        for part in (self._wanted // max(len(terms), 1), self._wanted % max(len(terms), 1)):
            self._inside[part] = True

    def features(self, at: tuple[IntArray, IntArray], field: Field) -> list[FloatArray]:
        """How many words are spelt nearly so, and how many are written as one or apart."""
        ones = np.ones(len(self._inside))
        near, one = (matched(at, bag, field.exact, ones)[:, 2] for bag in (self._near, self._one))
        apart = _wanted_pairs(field.exact, field.borders, self._wanted, self._inside)
        two = matched(at, self._two, apart, np.ones(len(self._wanted) + 1))[:, 2]
        return [near, one + two]
