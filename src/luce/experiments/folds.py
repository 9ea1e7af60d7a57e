"""Folds: predefined ones as LETOR lays them out, or drawn by query."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from luce.checks import is_whole
from luce.data.describe import describe_queries
from luce.data.groups import Groups
from luce.data.named_rows import with_statements
from luce.data.readers.detect import beside, data_format, open_source, read, read_like
from luce.data.schema import Schema
from luce.data.table import Table
from luce.data.text.features import Texts
from luce.data.text.transformer import Text, texts_of
from luce.errors import DataError, LuceWarning, SettingError
from luce.settings import Splits
from luce.spec import accepted
from luce.storage import container_kind
from luce.training.task import digest_of
from luce.types import IntArray

_PARTS = ("train",), ("vali", "valid", "validation", "dev"), ("test",)
_ENDINGS = (".txt", ".txt.gz", ".txt.zst", ".txt.bz2", ".lucedata", ".parquet", ".csv", "")


@dataclass(frozen=True)
class Fold:
    """One split of the data; `load` gives (train, valid, test), and how validation queries were come by is said."""

    name: str
    load: Callable[[], tuple[Groups, Groups, Groups]]
    note: str = ""

    def read_test(self, n_features: int | None = None) -> Groups:
        """The test part alone, without reading the others where it has a file of its own.

        `n_features` is the number of features of the training part, where it is known: a LETOR file does not tell.
        """
        alone = self.load.read_test(n_features) if isinstance(self.load, FileParts) and n_features else None
        return self.load()[2] if alone is None else alone


def find_folds(path: str | Path, *, folds: int = Splits.folds, seed: int = 0, **options: Any) -> list[Fold]:
    """The folds of a data set.

    A folder with `Fold1`, `Fold2`, ... that hold train, vali and test files is taken as it is, and so is a folder that
    holds the three files themselves. A single file is cut by query into `folds` parts: each is the test part once, the
    next one is for validation, the others are for training. Options go to `luce.read`; `comparisons` and `orders` are
    files of what is stated of the documents, which is learned from and judged by where there are no grades, and
    `clicks` is a log, whose preferences and ties, freed of position, stand in place of any grades.
    """
    path = Path(path)
    if path.is_file():
        reading, files = _apart(options)
        data = _with_statements(read(path, **reading), files, "error")
        return grouped_folds(data, folds, seed, texts_beside(path, data))
    return _folder_folds(path, seed, options)


def find_splits(path: str | Path, *, valid: str | Path | None = None, seed: int = 0, **options: Any) -> list[Fold]:
    """Training and validation data alone, for tuning: a training file, or folders as in `find_folds`.

    Without validation data, a fifth of the training queries is held out. Test files are not looked at; what `load`
    gives as the test part is the validation part once more.
    """
    path = Path(path)
    if path.is_file():
        checked = None if valid is None else Path(valid)
        if checked is not None and not checked.is_file():
            raise DataError(f"{checked} does not exist; give a file of validation data.")
        parts = FileParts(path.parent, path, checked, None, seed, options)
        return [Fold(path.name.partition(".")[0], parts, "" if valid else _HELD_OUT)]
    if valid is not None and path.is_dir():
        raise SettingError(f"{path} is a folder, whose validation data are its own; leave --valid out.")
    return _folder_folds(path, seed, options, tested=False)


def _folder_folds(path: Path, seed: int, options: dict[str, Any], tested: bool = True) -> list[Fold]:
    """The folds of the folders in a folder, or of itself."""
    if not path.is_dir():
        raise DataError(f"{path} does not exist; give a file, or a folder with train, vali and test files.")
    folders = sorted(p for p in path.iterdir() if p.is_dir() and p.name.lower().startswith("fold"))
    return [_folder_fold(folder, seed, options, tested) for folder in folders or [path]]


def _folder_fold(folder: Path, seed: int, options: dict[str, Any], tested: bool) -> Fold:
    paths = ([folder / f"{name}{ending}" for name in names for ending in _ENDINGS] for names in _PARTS)
    train, valid, test = (next(filter(Path.is_file, listed), None) for listed in paths)
    if train is None or (tested and test is None):
        what, names = ("train and test files", "train.txt and test.txt") if tested else ("train file", "train.txt")
        raise DataError(f"{folder} holds no {what}; expected names such as {names}.")
    parts = FileParts(folder, train, valid, test if tested else None, seed, options)
    return Fold(folder.resolve().name, parts, "" if valid else _HELD_OUT)


_HELD_OUT = "no validation file: a fifth of the training queries is held out"


@dataclass(frozen=True)
class FileParts:
    """Reads the parts of a fold from their files; a class and no closure, so that it can go to other processes."""

    folder: Path
    train: Path
    valid: Path | None
    test: Path | None
    seed: int
    options: dict[str, Any]

    def __call__(self) -> tuple[Groups, Groups, Groups]:
        """Training, validation and test data."""
        train = self._stated(read(self.train, **self._reading))
        if self.valid is not None:
            valid = self._read(self.valid, train)
        else:
            kept, held = _held_out(train, self.seed)
            texts = texts_beside(self.train, train)
            train = train if texts is None else texts.counted(train, kept)
            train, valid = train.take(kept), train.take(held)
        test = valid if self.test is None else self._read(self.test, train)
        _check_apart(self.folder, train, valid, None if self.test is None else test)
        return train, valid, test

    @property
    def schema(self) -> Schema | None:
        """The columns of the training data, where they are a table."""
        source = open_source(self.train, **self._reading) if data_format(self.train) not in ("letor", "log") else None
        return None if source is None else source.schema if isinstance(source, Groups) else source.outline().schema

    def read_test(self, width: int) -> Groups | None:
        """The test part alone, with as many features as the training part has; None where there is no such file."""
        if self.test is None:
            return None
        if data_format(self.test) == "letor":
            return self._stated(read(self.test, **{"n_features": width, **self._reading}))
        return self._read(self.test, read(self.train, **self._reading))

    def _read(self, path: Path, train: Groups) -> Groups:
        """A part beside the training part: text files do not say how many features they have."""
        columns = {"n_features": train.n_features} if data_format(path) == "letor" else {}
        return self._stated(read_like(path, train.feature_names, train.schema, {**columns, **beside(self._reading)}))

    @property
    def _reading(self) -> dict[str, Any]:
        return _apart(self.options)[0]

    def _stated(self, part: Groups) -> Groups:
        """A part with what is stated of its documents; files beside several parts name the documents of all."""
        alone = self.valid is None and self.test is None
        return _with_statements(part, _apart(self.options)[1], "error" if alone else "skip")


def _apart(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `luce.read` takes, and the files of statements."""
    files: dict[str, Any] = {name: options[name] for name in ("comparisons", "orders", "clicks") if name in options}
    return {name: value for name, value in options.items() if name not in files}, files


def _with_statements(data: Groups, files: dict[str, Any], missing: str) -> Groups:
    """The data with what files state of their documents; that of a log of clicks is in place of grades."""
    log = files.get("clicks")
    if log is None:
        return with_statements(data, **files, missing=missing)
    from luce.clicks import examination, pairs
    from luce.clicks import read as read_log

    examined = examination(read_log(log, pairs=True), data, missing=missing)
    for note in (*examined.counts.notes, *examined.notes):
        warnings.warn(note, LuceWarning, stacklevel=2)
    return replace(data, y=np.zeros(data.n_rows), stated=pairs(examined, data, missing=missing))


@dataclass(frozen=True)
class QueryParts:
    """Cuts the parts of fold `k` out of one data set: `part` says to which fold a query is a test query."""

    data: Groups
    part: IntArray
    k: int
    folds: int
    texts: TextsBeside | None = None

    @property
    def schema(self) -> Schema | None:
        """The columns of the data, where they are a table."""
        return self.data.schema

    def __call__(self) -> tuple[Groups, Groups, Groups]:
        """Training, validation and test data."""
        test, valid = self.part == self.k, self.part == (self.k + 1) % self.folds
        train = ~(test | valid)
        data = self.data if self.texts is None else self.texts.counted(self.data, np.flatnonzero(train))
        return data.take(train), data.take(valid), data.take(test)


@dataclass(frozen=True)
class TextsBeside:
    """The texts of the rows of a data set, so that words are counted in the training rows of a fold alone."""

    text: Text
    query: Texts
    fields: dict[str, Texts]
    ids: IntArray | None

    def counted(self, data: Groups, queries: IntArray) -> Groups:
        """The data with features of texts whose words were counted in the documents of these queries."""
        rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in queries])
        some = {name: Texts(texts.values, texts.rows[rows]) for name, texts in self.fields.items()}
        text = clone(self.text).learn(some, None if self.ids is None else self.ids[rows])
        X = np.array(data.X)
        X[:, X.shape[1] - len(text.names) :] = text.of_texts(self.query, self.fields)
        assert data.schema is not None
        return replace(data, X=X, schema=replace(data.schema, text=text))


def texts_beside(path: Path, data: Groups) -> TextsBeside | None:
    """The texts of a table that was read, in the order of its rows; None where words are counted in no rows of it."""
    text = None if data.schema is None else data.schema.text
    if text is None or text.corpus is not None:
        return None
    if container_kind(path) is not None:
        warnings.warn(
            f"{path} holds features of texts whose words were counted in all of its documents, and no texts to count "
            "anew in the training rows of each fold; give the table itself for that.",
            LuceWarning,
            stacklevel=3,
        )
        return None
    rows = Table.open(path).read([*text.columns, *([] if text.doc is None else [text.doc])])
    order = np.arange(data.n_rows) if data.row_order is None else np.asarray(data.row_order)
    if len(rows) != data.n_rows:
        raise DataError(f"{path} has {len(rows):,} rows and {data.n_rows:,} documents, so that texts have no place.")

    def of(name: str) -> Texts:
        found = texts_of(rows[name].texts())
        return Texts(found.values, found.rows[order])

    ids = None if text.doc is None else of(text.doc).rows
    return TextsBeside(text, of(text.query), {name: of(name) for name in text.fields}, ids)


def hold_out(data: Groups, seed: int, share: float = Splits.hold_out) -> tuple[Groups, Groups]:
    """Training and validation data: this share of the queries, drawn with `seed`, is held out."""
    kept, held = _held_out(data, seed, share)
    return data.take(kept), data.take(held)


def _held_out(data: Groups, seed: int, share: float = Splits.hold_out) -> tuple[IntArray, IntArray]:
    accepted(Splits, {"hold_out": share})
    if data.n_queries < 2:
        raise DataError("One query cannot be split into training and validation data; give at least two.")
    order = np.random.default_rng(seed).permutation(data.n_queries)
    cut = min(max(1, int(data.n_queries * share)), data.n_queries - 1)
    return np.sort(order[cut:]), np.sort(order[:cut])


def grouped_folds(data: Groups, folds: int, seed: int = 0, texts: TextsBeside | None = None) -> list[Fold]:
    """Cut a data set by query into `folds` parts, drawn with `seed`; words of `texts` are counted in training rows."""
    if not is_whole(folds, 3, data.n_queries):
        raise SettingError(f"{folds} folds of {data.n_queries} queries; give at least 3 and at most one a query.")
    part = np.random.default_rng(seed).permutation(data.n_queries) % folds
    return [Fold(f"Fold{k + 1}", QueryParts(data, part, k, folds, texts)) for k in range(folds)]


def _check_apart(folder: Path, train: Groups, valid: Groups, test: Groups | None) -> None:
    parts = {"train": train, "vali": valid} | ({} if test is None else {"test": test})
    for a, b in combinations(parts, 2):
        shared = set(map(str, parts[a].query_ids)) & set(map(str, parts[b].query_ids))
        if shared:
            raise DataError(
                f"{folder}: query {min(shared)} stands in both {a} and {b} ({len(shared)} such queries); "
                "the parts of a fold must not share queries."
            )


_SUMMED = ("queries", "documents", "pairs", "empty_queries", "one_document_queries", "all_equal_queries")


def card(data: Groups) -> dict[str, Any]:
    """Facts of one part. An empty query has no document of grade 1 or more; `tied_pairs` is a share of `pairs`.

    >>> import luce
    >>> facts = card(luce.from_arrays([[1.0], [2.0], [3.0]], [0, 0, 1]))
    >>> facts["grades"], facts["pairs"], facts["empty_queries"]
    ({'0': 2, '1': 1}, 3, 0)
    """
    facts, sizes = describe_queries(data), data.sizes
    empty = np.maximum.reduceat(data.y, data.offsets[:-1]) < 1
    counted = {"pairs": int((sizes * (sizes - 1) // 2).sum()), "empty_queries": int(np.count_nonzero(empty))}
    return {"grades": facts.pop("labels"), **facts, **counted}


def together(cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The card of parts that share no query, from their cards.

    Grades that are too many to be counted one by one are known by their number in each part only: left out.
    """
    whole: dict[str, Any] = {name: sum(part[name] for part in cards) for name in _SUMMED}
    whole["features"] = max(part["features"] for part in cards)
    grades: Counter[str] = Counter()
    for part in cards:
        grades.update(part["grades"])
    counted = not any("distinct" in part["grades"] for part in cards)
    whole["grades"] = {grade: grades[grade] for grade in sorted(grades, key=float)} if counted else {}
    tied = sum((part["tied_pairs"] or 0.0) * part["pairs"] for part in cards)
    whole["tied_pairs"] = tied / whole["pairs"] if whole["pairs"] else None
    return whole


def data_fingerprint(data: Groups) -> str:
    """Digest of everything that training and evaluation see of a part."""
    found = hashlib.sha256(repr((data.X.shape, data.feature_names)).encode())
    for array in (data.X, data.y, data.offsets, data.query_weight):
        if array is not None:
            found.update(np.ascontiguousarray(array).data)
    if data.stated is not None:
        found.update(digest_of(data.stated).encode())
    for name, relation in sorted(data.relations.items()):
        found.update(name.encode() + relation.data.tobytes() + relation.indices.tobytes() + relation.indptr.tobytes())
    for names in (data.query_ids, data.document_ids):
        if names is not None:
            texts = names.tolist()
            found.update("\n".join(texts if names.dtype.kind == "U" else map(str, texts)).encode())
    return found.hexdigest()
