"""`Text`: texts of queries and documents as features, alone or as a part of a ranker; and those that were logged."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from luce.checks import number, one_of, truth, whole
from luce.data.late import pa
from luce.data.table import Table
from luce.data.text.analyzer import Frequencies
from luce.data.text.features import FULL, QUERY, UNION, VIEWS, Texts, compute, field_names, learn, of_field
from luce.data.text.tokens import LANGUAGES, VERSION, stem, words
from luce.errors import DataError, LuceWarning, SettingError
from luce.result import Result, Sheet
from luce.types import IntArray

_FEATURES = ("engine", "full")
_SETTINGS = ("query", "fields", "doc", "language", "features", "min_df", "numbers", "query_features", "k1", "b")


class Text(TransformerMixin, BaseEstimator):
    """How well the text of a document matches that of its query, as numbers that a search engine computes as well.

    Every feature of the default set is the score of a Lucene query: a field, seen by an analyzer, scored by a
    similarity. Of each field, and of all of them together where there are several: BM25 of stemmed words, of words as
    they are and of 3-grams, the number of matched words and of matched neighbours, the sum of the idf of matched
    3-grams, and the length; and of the query its length and the sum of its idf.

    Parameters
    ----------
    query
        Column with the text of the query.
    fields
        Columns with texts of the document.
    corpus
        Documents to count words in, as a data frame or a file with the same fields; None counts in those that are
        fitted. Text carries no labels, so that a corpus of all documents is no leak.
    doc
        Column of document ids: a document counts once, however often it is judged. None goes by its text.
    language
        "english" stems words; "none" leaves them as they are.
    features
        "engine" makes what a search engine can compute; "full" adds what only Python does.
    min_df
        Words of fewer documents are not kept, and count as those of one document.
    numbers
        Also count the numbers that match.
    query_features
        Also the two features of the query alone, `q_words` and `q_idf`; a client of a search engine passes them as
        numbers, and one that passes none needs a model without them.
    k1, b
        Parameters of BM25.

    Examples
    --------
    >>> import luce
    >>> rows = {"search": ["angle bracket"] * 2, "title": ["Angle brackets, steel", "Wood screws"]}
    >>> text = luce.Text("search", ["title"])
    >>> features = text.fit_transform(rows)
    >>> dict(zip(text.get_feature_names_out(), features[0].round(3).tolist()))["title.word_count"]
    2.0
    """

    def __init__(
        self,
        query: str = "query",
        fields: Sequence[str] = ("title",),
        *,
        corpus: Any = None,
        doc: str | None = None,
        language: str = "english",
        features: str = "engine",
        min_df: int = 1,
        numbers: bool = False,
        query_features: bool = True,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        self.query = query
        self.fields = fields
        self.corpus = corpus
        self.doc = doc
        self.language = language
        self.features = features
        self.min_df = min_df
        self.numbers = numbers
        self.query_features = query_features
        self.k1 = k1
        self.b = b

    frequencies_: dict[str, Frequencies]
    """What is known of the corpus, by field and view."""

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        names = self.fields
        if isinstance(names, str) or not isinstance(names, Sequence) or not names or not all(map(_is_name, names)):
            raise SettingError(f"fields is {names!r:.100}; give a list of the columns of document texts.")
        if not _is_name(self.query):
            raise SettingError(f"query is {self.query!r:.100}; give the column with the text of the query.")
        if len(set(names)) < len(names) or (UNION in names and len(names) > 1):
            raise SettingError(f"fields is {list(names)!r}; every field has one name, and {UNION!r} is that of all.")
        if self.query in names:
            raise SettingError(f"{self.query!r} is the query and among the fields; documents need texts of their own.")
        one_of("language", self.language, LANGUAGES)
        one_of("features", self.features, _FEATURES)
        whole("min_df", self.min_df, 1)
        truth("numbers", self.numbers)
        truth("query_features", self.query_features)
        number("k1", self.k1)
        if number("b", self.b) > 1:
            raise SettingError(f"b is {self.b}; it must be a number from 0 to 1.")

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.query, *self.fields]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count words: in the corpus, or else in the documents of X, a frame, a mapping of columns or a file."""
        self.check()
        source = Table.open(X if self.corpus is None else self.corpus)
        names = [*self.fields, *([self.doc] if self.doc is not None else [])]
        rows = source.read(_there(source, names, "there is" if self.corpus is None else "the corpus has"))
        texts = {name: texts_of(rows[name].texts()) for name in names}
        ids = None if self.doc is None else texts[self.doc].rows
        return self.learn({name: texts[name] for name in self.fields}, ids)

    def learn(self, columns: Mapping[str, Texts], ids: IntArray | None = None) -> Self:
        """Count words of documents, of which every row is one; with ids, or else by its text, each once."""
        key = np.stack([texts.rows for texts in columns.values()]) if ids is None else ids[None, :]
        _, first = np.unique(key, axis=1, return_index=True)
        once = {name: Texts(texts.values, texts.rows[np.sort(first)]) for name, texts in columns.items()}
        _warn_of_script(once)
        self.frequencies_ = learn(once, self.language, self.min_df)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The features of rows, one column each; all are finite."""
        check_is_fitted(self, "frequencies_")
        texts = self._read(X)
        return self.of_texts(texts[self.query], {name: texts[name] for name in self.fields})

    def _read(self, X: Any) -> dict[str, Texts]:
        source = Table.open(X)
        rows = source.read(_there(source, self.columns))
        return {name: texts_of(rows[name].texts()) for name in self.columns}

    def of_texts(self, query: Texts, columns: Mapping[str, Texts]) -> NDArray[np.float32]:
        """The features of rows whose texts are given."""
        return compute(self, query, columns)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """The names of the features: field.view_similarity."""
        return np.array(self.names, dtype=object)

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        each = of_field(self.features, self.numbers)
        return [*(f"{field}.{name}" for field in field_names(self.fields) for name in each), *self.of_query]

    @property
    def of_query(self) -> tuple[str, ...]:
        """The features of the query alone, which the client of an engine passes."""
        return QUERY if self.query_features else ()

    def counts_as(self, other: Text) -> bool:
        """Whether another one, which is fitted as well, computes the same numbers."""
        ours, theirs = ((list(one.fields), one.language, one.k1, one.b) for one in (self, other))
        return ours == theirs and self.frequencies_ == other.frequencies_

    def python_only(self, names: Sequence[str]) -> list[str]:
        """Those of the features that no search engine computes."""
        own = {f"{field}.{name}" for field in field_names(self.fields) for name in FULL}
        return [name for name in names if name in own]

    @property
    def corpus_facts(self) -> dict[str, Any]:
        """How many documents have words in each field, and how many different words are kept of them."""
        kept = {name: self.frequencies_[f"{name}.exact"] for name in self.fields}
        words = len(set().union(*(found.counts for found in kept.values())))
        return {"documents": {name: found.documents for name, found in kept.items()}, "words": words}

    def facts(self, X: Any) -> dict[str, Any]:
        """What is odd in rows of texts: by column how many have no word, and the words of queries that no text has."""
        check_is_fitted(self, "frequencies_")
        texts = self._read(X)
        empty = {
            name: int((~np.array([bool(words(text)) for text in found.values], dtype=bool))[found.rows].sum())
            for name, found in texts.items()
        }
        asked = texts[self.query]
        there = dict.fromkeys(w for i in np.unique(asked.rows).tolist() for w in words(asked.values[i]))
        known = set().union(*(self.frequencies_[f"{name}.word"].counts for name in self.fields))
        unknown = [word for word in there if (stem(word) if self.language == "english" else word) not in known]
        return {"rows": len(asked.rows), "empty": empty, "query_words": len(there), "unknown_query_words": unknown}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: settings, the version of the analyzer, and what is known of the corpus."""
        settings = {name: getattr(self, name) for name in _SETTINGS} | {"fields": list(self.fields)}
        if self.query_features:  # as in files of before, which a luce of before can read
            del settings["query_features"]
        known = {name: found.to_dict() for name, found in self.frequencies_.items()}
        return {"version": VERSION, **settings, "frequencies": known}

    @classmethod
    def from_dict(cls, record: Any) -> Text:
        """What `to_dict` gave; anything else is a `DataError`."""
        if not isinstance(record, dict) or not isinstance(record.get("frequencies"), dict):
            raise DataError("what it knows of texts is damaged")
        if record.get("version") != VERSION:
            raise DataError(f"its texts need version {record.get('version')!r} of the analyzer; update luce")
        record = {"query_features": True, **record}
        if set(record) != {"version", "frequencies", *_SETTINGS}:
            raise DataError("what it knows of texts is damaged")
        text = cls(**{name: record[name] for name in _SETTINGS})
        try:
            text.check()
        except SettingError as error:
            raise DataError("what it knows of texts is damaged") from error
        wanted = {f"{field}.{view}" for field in field_names(text.fields) for view in VIEWS}
        if set(record["frequencies"]) != wanted or not all(isinstance(v, dict) for v in record["frequencies"].values()):
            raise DataError("what it knows of the words of its corpus is damaged")
        text.frequencies_ = {name: Frequencies.from_dict(found) for name, found in record["frequencies"].items()}
        return text

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _there(source: Table, names: Sequence[str], there: str = "there is") -> list[str]:
    """The columns of these names; one that is missing is named with the parameter that says it."""
    for name in names:
        if name not in source.names:
            raise source.wrong(f"{there} no column {name!r} of text; the columns are {', '.join(source.names)}.")
    return list(names)


def texts_of(array: Any) -> Texts:
    """Texts of Arrow; null is an empty text."""
    whole = pa.chunked_array([array]) if not isinstance(array, pa.ChunkedArray) else array
    coded = whole.cast(pa.large_string()).dictionary_encode().combine_chunks()
    coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
    values = coded.dictionary.to_pylist()
    rows = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return Texts([*values, ""], rows)


_UNSPACED = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0x20000, 0x2FA1F), (0x0E00, 0x0EFF), (0x1780, 0x17FF))
"""Japanese, Chinese, Thai, Lao and Khmer have no blanks between words."""


def _warn_of_script(columns: Mapping[str, Texts]) -> None:
    for name, texts in columns.items():
        sample = "".join(text[:200] for text in texts.values[:200] if not text.isascii())
        letters = [ord(letter) for letter in sample if letter.isalpha()]
        odd = sum(any(a <= code <= b for a, b in _UNSPACED) for code in letters)
        if odd > 0.5 * max(len(letters), 100):
            warnings.warn(
                f"The texts of {name!r} have no blanks between words, so that features of words see whole runs of "
                "letters; those of 3-grams (gram_bm25, gram_idf) compare them.",
                LuceWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class TextCheck(Result):
    """Features as an engine logged them beside those that are computed: one row a feature, the farthest first."""

    rows: list[dict[str, Any]]
    documents: int
    worst: float
    notes: tuple[str, ...] = ()

    @property
    def parted(self) -> list[str]:
        """The features that differ by more than is allowed."""
        return [row["feature"] for row in self.rows if row["largest"] > self.worst]

    def sheets(self) -> list[Sheet]:
        """The table."""
        columns = {name: [row[name] for row in self.rows] for name in ("feature", "largest", "median", "differ")}
        return [Sheet(f"Logged against computed, {self.documents:,} documents", columns, 6)]

    @property
    def lines(self) -> list[str]:
        """The verdict."""
        parted = self.parted
        if not parted:
            return [f"All {len(self.rows)} features agree to {self.worst:g}."]
        return [
            f"{len(parted)} of {len(self.rows)} features differ by more than {self.worst:g}: other analyzers, a corpus "
            "that grew, or several shards, which count words each for itself."
        ]


def text_check(text: Text, logged: Any, worst: float = 1e-4) -> TextCheck:
    """Compare the columns of a table that have the names of features with the features of its texts.

    Differences are relative, |logged - computed| / max(1, |computed|); an empty cell did not match and is 0.
    """
    table = Table.open(logged)
    there = [name for name in text.names if name in table.names]
    if not there:
        raise table.wrong(f"no column is a feature of the model, such as {text.names[0]}; name them so.")
    computed = dict(zip(text.names, text.transform(logged).T.astype(np.float64), strict=True))
    rows = table.read(there)
    found = []
    for name in there:
        given = np.nan_to_num(np.asarray(rows[name].number(), dtype=np.float64))
        apart = np.abs(given - computed[name]) / np.maximum(1.0, np.abs(computed[name]))
        differ = int(np.count_nonzero(apart > worst))
        largest, median = (float(f(apart)) if len(apart) else 0.0 for f in (np.max, np.median))
        found.append({"feature": name, "largest": largest, "median": median, "differ": differ})
    absent = len(text.names) - len(there)
    notes = [f"{absent} features of the model are no columns of the table, and were not compared."] if absent else []
    if not text.query_features:
        notes.append(f"The model was trained without {' and '.join(QUERY)}, which an engine need not be passed.")
    return TextCheck(sorted(found, key=lambda row: -row["largest"]), len(rows), worst, tuple(notes))
