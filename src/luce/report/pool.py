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


def pool_queries(models: list[str], folds: list[str], metrics: list[str], scores: pa.Table, rows: pa.Table) -> Pool:
    """Join the tables of scores (model, fold, query, document, grade, score) and values (.., metric, value)."""
    if not models:
        raise DataError("No model of the run came through on all folds, so there is nothing to report.")
    model, fold = _codes(scores, "model", models), _codes(scores, "fold", folds)
    query, names = _coded(scores, "query")
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
