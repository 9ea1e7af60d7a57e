"""All test queries of a run, fold after fold, as flat arrays that every panel works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from luce.errors import DataError
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

__all__ = ["Pool", "pool_queries"]


@dataclass(frozen=True, eq=False)
class Pool:
    """Test queries of all folds: row i of `scores` holds the scores of model i, NaN on folds where it failed."""

    models: list[str]
    folds: list[str]
    metrics: list[str]
    query_ids: list[str]
    fold: IntArray
    """The fold of every query."""
    offsets: IntArray
    documents: list[str] | None
    grades: FloatArray
    scores: FloatArray
    values: FloatArray
    """(model, metric, query): NaN where a query is skipped or the model failed."""

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
        """(model, document): position from 1 on, equal scores in the order of the data; 0 where there is no score."""
        ranks = np.zeros(self.scores.shape, dtype=np.uint16)
        place = np.arange(len(self.grades)) - self.offsets[self.query] + 1
        for row, scores in zip(ranks, self.scores, strict=True):
            order = np.lexsort((-scores, self.query))
            row[order] = np.minimum(place, 65535)
            row[np.isnan(scores)] = 0
        return ranks

    def fold_rows(self, fold: int) -> slice:
        """The documents of a fold."""
        queries = np.flatnonzero(self.fold == fold)
        return slice(int(self.offsets[queries[0]]), int(self.offsets[queries[-1] + 1]))


def pool_queries(models: list[str], folds: list[str], metrics: list[str], scores: pa.Table, rows: pa.Table) -> Pool:
    """Join the tables of scores (model, fold, query, document, grade, score) and values (.., metric, value)."""
    columns = {name: _codes(scores, name, known) for name, known in (("model", models), ("fold", folds))}
    query, names = _coded(scores, "query")
    grade, score = (scores[name].to_numpy().astype(np.float64) for name in ("grade", "score"))
    parts = []
    for f in range(len(folds)):
        here = [np.flatnonzero((columns["fold"] == f) & (columns["model"] == m)) for m in range(len(models))]
        first = next((rows_of for rows_of in here if len(rows_of)), None)
        if first is None:
            continue
        matrix = np.full((len(models), len(first)), np.nan)
        for m, rows_of in enumerate(here):
            if not len(rows_of):
                continue
            if len(rows_of) != len(first) or not np.array_equal(query[rows_of], query[first]):
                raise DataError(f"The scores of {models[m]} on {folds[f]} are of other documents than {models[0]}'s.")
            matrix[m] = score[rows_of]
        parts.append((f, first, matrix))
    if not parts:
        raise DataError("The run has no scores: no model came through on any fold, so there is nothing to report.")
    taken = np.concatenate([first for _, first, _ in parts])
    fold_of = np.concatenate([np.full(len(first), f) for f, first, _ in parts])
    change = (np.diff(query[taken]) != 0) | (np.diff(fold_of) != 0)
    starts = np.concatenate([[0], np.flatnonzero(change) + 1]).astype(np.int64)
    fold, code = fold_of[starts].astype(np.int64), query[taken[starts]]
    documents = scores["document"].take(pa.array(taken)).cast(pa.string()) if "document" in scores.column_names else None
    index = np.full((len(folds), len(names)), -1)
    index[fold, code] = np.arange(len(starts))
    return Pool(
        models,
        folds,
        metrics,
        [names[c] for c in code.tolist()],
        fold,
        np.append(starts, len(taken)),
        None if documents is None else documents.to_pylist(),
        grade[taken],
        np.concatenate([matrix for _, _, matrix in parts], axis=1),
        _values(models, folds, metrics, rows, names, index),
    )


def _values(
    models: list[str], folds: list[str], metrics: list[str], rows: pa.Table, names: list[str], index: IntArray
) -> FloatArray:
    model, fold, metric = (
        _codes(rows, name, known) for name, known in (("model", models), ("fold", folds), ("metric", metrics))
    )
    code, own = _coded(rows, "query")
    place = {name: i for i, name in enumerate(names)}
    where = np.array([place.get(name, -1) for name in own], dtype=np.int64)[code]
    known = (model >= 0) & (fold >= 0) & (metric >= 0) & (where >= 0)
    query = index[fold[known], where[known]]
    values = np.full((len(models), len(metrics), int(index.max()) + 1), np.nan)
    values[model[known], metric[known], query] = rows["value"].to_numpy()[known]
    return values


def _coded(table: pa.Table, name: str) -> tuple[IntArray, list[str]]:
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), list(map(str, column.dictionary.to_pylist()))


def _codes(table: pa.Table, name: str, known: list[str]) -> IntArray:
    """Positions in `known`; -1 for anything else."""
    codes, names = _coded(table, name)
    place: dict[Any, int] = {text: i for i, text in enumerate(known)}
    return np.array([place.get(text, -1) for text in names], dtype=np.int64)[codes]
