"""What a report is about: a finished run, its queries and documents, and large arrays as texts."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from luce.data.text.transformer import Text
from luce.errors import DataError, LuceError
from luce.experiments.folds import find_folds
from luce.experiments.run_folder import RunFolder
from luce.numerics.segments import query_index
from luce.ranker import Ranker
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Pool:
    """Test queries of all folds: row i of `scores` holds the scores of model i."""

    models: list[str]
    folds: list[str]
    metrics: list[str]
    query_ids: list[str]
    fold: IntArray
    """The fold of every query."""
    offsets: IntArray
    documents: list[str]
    grades: FloatArray
    scores: FloatArray
    values: FloatArray
    """(model, metric, query): NaN where a metric skips a query."""

    @property
    def n_queries(self) -> int:
        """Number of test queries."""
        return len(self.query_ids)

    @cached_property
    def query(self) -> IntArray:
        """The query of every document."""
        return query_index(self.offsets)

    @cached_property
    def ranks(self) -> NDArray[np.uint16]:
        """(model, document): position from 1 on, equal scores in the order of the data."""
        ranks = np.zeros(self.scores.shape, dtype=np.uint16)
        place = np.arange(len(self.grades)) - self.offsets[self.query] + 1
        # Sixteen bits are sorted by counting, in linear time.
        query = self.query.astype(np.uint16) if self.n_queries < 2**16 else self.query
        for row, scores in zip(ranks, self.scores, strict=True):
            order = np.argsort(-scores, kind="stable")
            order = order[np.argsort(query[order], kind="stable")]
            row[order] = np.minimum(place, 65535)
        return ranks

    def fold_rows(self, fold: int) -> slice:
        """The documents of a fold."""
        queries = np.flatnonzero(self.fold == fold)
        return slice(int(self.offsets[queries[0]]), int(self.offsets[queries[-1] + 1]))


def pool_queries(run: RunFolder) -> Pool:
    """Join the tables of scores (model, fold, query, document, grade, score) and values (.., metric, value)."""
    models, folds, scores = run.models, run.folds, run.scores
    if not models:
        raise DataError("No model of the run came through on all folds, so there is nothing to report.")
    model, fold = _codes(scores, "model", models), _codes(scores, "fold", folds)
    names = pc.unique(scores["query"].cast(pa.string())).to_pylist()
    query = _codes(scores, "query", names)
    rows_of = [[np.flatnonzero((fold == f) & (model == m)) for m in range(len(models))] for f in range(len(folds))]
    for f, members in enumerate(rows_of):
        for m, members_of in enumerate(members):
            if len(members_of) == 0 or not np.array_equal(query[members_of], query[members[0]]):
                raise DataError(
                    f"The scores of {models[m]} on {folds[f]} are missing or of other documents than those of "
                    f"{models[0]}; run `luce compare` again."
                )
    taken = np.concatenate([members[0] for members in rows_of])
    change = (np.diff(query[taken]) != 0) | (np.diff(fold[taken]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(change) + 1]).astype(np.int64)
    code = query[taken[starts]]
    index = np.full((len(folds), len(names)), -1)
    index[fold[taken[starts]], code] = np.arange(len(starts))
    rows, metrics = run.rows, run.metrics
    places = _codes(rows, "model", models), _codes(rows, "metric", metrics), _codes(rows, "fold", folds)
    where = _codes(rows, "query", names)
    known = np.all([codes >= 0 for codes in (*places, where)], axis=0)
    of_model, of_metric, of_fold = (codes[known] for codes in places)
    values = np.full((len(models), len(metrics), len(starts)), np.nan)
    values[of_model, of_metric, index[of_fold, where[known]]] = rows["value"].to_numpy()[known]
    score = scores["score"].to_numpy().astype(np.float64)
    return Pool(
        models,
        folds,
        metrics,
        [names[c] for c in code.tolist()],
        fold[taken[starts]],
        np.append(starts, len(taken)),
        scores["document"].take(pa.array(taken)).to_pylist(),
        scores["grade"].to_numpy().astype(np.float64)[taken],
        np.stack([score[np.concatenate([members[m] for members in rows_of])] for m in range(len(models))]),
        values,
    )


def _codes(table: pa.Table, name: str, known: Sequence[str]) -> IntArray:
    """Positions in `known`; -1 for anything else."""
    places = pc.index_in(table[name].cast(pa.string()), pa.array(known, pa.string()))
    return pc.fill_null(places, -1).to_numpy().astype(np.int64)


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run as the panels need it."""

    run: RunFolder

    @cached_property
    def pool(self) -> Pool:
        """The test queries of all folds."""
        return pool_queries(self.run)

    @property
    def seed(self) -> int:
        """Seed of the run, which also seeds what a report draws."""
        return int(self.run.settings.get("seed") or 0)

    @cached_property
    def rankers(self) -> dict[int, dict[int, Ranker]]:
        """The chosen models by number, best first, each by fold; without those that are gone or damaged."""
        found: dict[int, dict[int, Ranker]] = {}
        for m, model in enumerate(self.pool.models):
            for f, fold in enumerate(self.pool.folds):
                try:
                    ranker = self.run.model(model, fold)
                except LuceError:
                    continue
                if ranker is not None:
                    found.setdefault(m, {})[f] = ranker
        return found

    @property
    def not_kept(self) -> list[str]:
        """Models of which no file was written: estimators of a user's own, or of other libraries."""
        return [m for m in self.pool.models if not any(self.run.model_path(m, fold) for fold in self.pool.folds)]

    @property
    def models_gone(self) -> int:
        """How many chosen models were written and are not there."""
        written = len(self.pool.models) - len(self.not_kept)
        return written * len(self.pool.folds) - sum(map(len, self.rankers.values()))


def judged_features(source: ReportedRun, data: str | Path | None) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The features of the test documents, in the order of the pool, and their names.

    `data` is where the data are now; without it they are looked for where the run read them.
    """
    settings, pool = source.run.settings, source.pool
    given = settings.get("data") if data is None else data
    if given is None:
        raise DataError("the run does not say where its data are; give them with --data.")
    reading = dict(settings.get("reading", {}))
    if "text" in reading:
        reading["text"] = Text(**reading["text"])
    folds = find_folds(given, folds=len(pool.folds), seed=source.seed, **reading)
    by_name = {fold.name: fold for fold in folds}
    cards: dict[str, Any] = source.run.results["data"].get("folds", {})
    X: list[NDArray[np.float32]] = []
    names: tuple[str, ...] = ()
    for f, fold in enumerate(pool.folds):
        if fold not in by_name:
            raise DataError(f"{given} has no fold {fold}, which the run has; give the data of the run.")
        test = by_name[fold].read_test(cards.get(fold, {}).get("train", {}).get("features"))
        if not np.array_equal(test.y, pool.grades[pool.fold_rows(f)]):
            raise DataError(f"{given} has other test documents on {fold} than the run; give the data of the run.")
        names = names or test.feature_names
        X.append(test.X)
    return X[0] if len(X) == 1 else np.concatenate(X), names


MOST_BYTES = 10_500_000
"""Of all bundles together: 14 MB in base64, which leaves 1 MB for the page and its tables."""


_CODES = {code: code for code in ("u1", "u2", "u4", "i2", "i4", "f4", "f8")}


class Blobs:
    """Bundles of named arrays; `add` gives back what the page needs to find and decode one."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Keep a bundle; returns its name and the layout of its arrays."""
        layout, raw = pack(arrays)
        return self._keep(name, layout, raw)

    def add_texts(self, name: str, texts: list[str]) -> dict[str, Any]:
        """Keep a list of texts."""
        return self._keep(name, "texts", json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode())

    def _keep(self, name: str, layout: Any, raw: bytes) -> dict[str, Any]:
        if name in self.texts:
            raise ValueError(f"a bundle named {name!r} is there already")
        self.texts[name] = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
        return {"bundle": name, "layout": layout}

    @property
    def room(self) -> int:
        """Bytes, after compression, that may still be added to keep a page below 15 MB."""
        return MOST_BYTES - sum(map(len, self.texts.values())) * 3 // 4


def pack(arrays: Mapping[str, NDArray[Any]]) -> tuple[list[list[Any]], bytes]:
    """Layout, a list of (name, type, shape), and the bytes of the arrays one after the other.

    >>> pack({"a": np.array([1, 258], dtype=np.uint16)})
    ([['a', 'u2', [2]]], b'\\x01\\x02\\x00\\x01')
    """
    layout: list[list[Any]] = []
    parts = []
    for key, array in arrays.items():
        layout.append([key, _CODES[array.dtype.str[1:]], list(array.shape)])
        parts.append(shuffled(array))
    return layout, b"".join(parts)


def shuffled(array: NDArray[Any]) -> bytes:
    """Little-endian bytes, first all first bytes, then all second ones, ...: alike bytes together compress well."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
