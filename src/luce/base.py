"""What a model may stand on: scores that are there already, to which trees are added or which are reranked.

A base that was trained on the same queries scores them better than it will score any others, and what stands on it
learns to trust it too much. Cross-fitted scores of training documents come from copies of the base that did not see
their queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from luce.checks import whole
from luce.data.groups import Groups, document_names
from luce.errors import DataError, SettingError
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker
    from luce.scorers.boosters import ForeignTrees

_COLUMN = "column:"
FOLDS = 5
"""Folds of a base that is fitted with the model on top of it, where nothing else is said."""


@dataclass(frozen=True)
class ColumnBase:
    """The score of today's system, where it is a feature of the data."""

    name: str
    needs_queries = False

    @property
    def given(self) -> str:
        """What a user gives for it."""
        return _COLUMN + self.name

    def scores(self, data: Groups) -> FloatArray:
        """That column."""
        if self.name not in data.feature_names:
            raise DataError(f"The base is the feature {self.name!r}, which the data do not have; name one they have.")
        column = data.X[:, data.feature_names.index(self.name)].astype(np.float64)
        if not np.isfinite(column).all():
            raise DataError(f"The base {self.name!r} has NaN or infinite values; a base needs a score for every row.")
        return column


@dataclass(frozen=True, eq=False)
class RankerBase:
    """A fitted ranker."""

    ranker: Ranker

    @property
    def given(self) -> Ranker:
        """What a user gives for it."""
        return self.ranker

    @property
    def needs_queries(self) -> bool:
        """True where its scores depend on the other documents of a query."""
        return self.ranker.needs_queries

    def scores(self, data: Groups) -> FloatArray:
        """Its scores."""
        library, named = _library(self.ranker), {} if data.schema is None else data.schema.categories
        if library is not None and named:
            raise DataError(
                f"The base is a model of {library}, which takes numbers, and {data.feature_names[next(iter(named))]!r} "
                "has categories, whose codes it does not know; give them as numbers, or another base."
            )
        return self.ranker.predict(data)


Base = ColumnBase | RankerBase


def make_base(given: Any) -> Base | None:
    """From what a user gives: None, a fitted ranker, a model of LightGBM or XGBoost, a path, or `column:NAME`."""
    from sklearn.utils.validation import check_is_fitted

    from luce.ranker import Ranker

    if given is None:
        return None
    if isinstance(given, Ranker):
        check_is_fitted(given, "scorer_")
        if given.on_scores_:
            raise SettingError("The base was itself trained on base_scores, which no model can keep; give another one.")
        return RankerBase(given)
    if isinstance(given, str) and given.startswith(_COLUMN):
        return ColumnBase(given.removeprefix(_COLUMN))
    from luce.scorers.boosters import library_of, library_of_file, trees_in_memory, trees_of_file

    if isinstance(given, str | Path):
        from luce.model_file import load

        return RankerBase(_ranker_of(trees_of_file(given))) if library_of_file(given) else make_base(load(given))
    if library_of(given):
        return RankerBase(_ranker_of(trees_in_memory(given)))
    raise SettingError(
        f"base is a {type(given).__name__}; it must be a Ranker, a model of LightGBM or XGBoost, the path of a model, "
        "or 'column:NAME'."
    )


def _library(ranker: Ranker) -> str | None:
    """The library that trained a ranker, None for luce."""
    return getattr(ranker, "history_", {}).get("library")


def _ranker_of(trees: ForeignTrees) -> Ranker:
    """A fitted ranker with the trees of another library, which knows no labels and has no loss."""
    from luce.ranker import Ranker

    ranker = Ranker(scorer="trees", scorer__objective="lambdarank")
    ranker.parts_ = ranker.parts()
    ranker.scorer_, ranker.loss_, ranker.sizes_, ranker.max_grade_ = trees.scorer, None, None, None
    ranker.base_, ranker.on_scores_ = None, False
    told = {"objective": [], "validation": [], "converged": True, "best_iteration": None}
    ranker.history_ = {**told, "library": trees.library}
    ranker._note_features(trees.feature_names or tuple(str(i + 1) for i in range(trees.scorer.n_features)))
    return ranker


def to_be_fitted(given: Any) -> bool:
    """Whether the base is a ranker that is not fitted yet.

    >>> from luce.ranker import Ranker
    >>> to_be_fitted(Ranker("listnet")), to_be_fitted("column:bm25")
    (True, False)
    """
    from luce.ranker import Ranker

    return isinstance(given, Ranker) and not hasattr(given, "scorer_")


def cross_fitted(
    ranker: Ranker, data: Groups, valid: Groups | None, folds: int, seed: int, fitted: Ranker | None = None
) -> tuple[RankerBase, FloatArray]:
    """A base fitted on all queries, and scores of each document by a copy that was fitted without its query.

    All fits stop early by `valid`, where it is given. `fitted` is the base where it was fitted before.
    """
    library = None if fitted is None else _library(fitted)
    if library is not None:
        raise SettingError(
            f"base_folds is {folds!r} and the base is a model of {library}, which luce cannot fit again; leave "
            "base_folds out, or give base_scores of documents by models that did not see their queries."
        )
    check_folds("base_folds", folds, data)
    if ranker.base is not None:
        raise SettingError("The base stands on a base itself, which cannot be cross-fitted; give base_scores instead.")
    fresh: Ranker = clone(ranker).set_params(checkpoint=None, warm_start=False)
    scores = np.empty(data.n_rows)
    for copy, held, rows in fits_on_folds(fresh, data, folds, [seed], lambda held: valid):
        scores[rows] = copy.predict(held)
    if fitted is None:
        fitted = fresh.set_params(random_state=seed) if ranker.random_state is None else fresh
        fitted = fitted.fit(data, valid=valid)
    return RankerBase(fitted), scores


def check_folds(name: str, folds: int, data: Groups) -> None:
    """Refuse a number of folds that is none, or of which some would say nothing of an order."""
    from luce.auto.crossfit import informative

    whole(name, folds, 2)
    speaking = len(informative(data))
    if speaking < folds:
        raise DataError(
            f"{folds} folds need as many queries of more than one grade, and the data have {speaking}; give fewer "
            f"{name}, or more queries."
        )


def fits_on_folds(
    ranker: Ranker, data: Groups, folds: int, seed: list[int], valid: Callable[[Groups], Groups | None]
) -> Iterator[tuple[Ranker, Groups, NDArray[np.bool_]]]:
    """Fitted copies, each with the queries that it did not see and with their rows; `valid` says what judges it."""
    from luce.auto.crossfit import deal

    fold = deal(data, folds, np.random.default_rng(seed))
    for k in range(folds):
        # A seed of its own: a model file keeps none.
        copy = clone(ranker).set_params(random_state=int(np.random.default_rng([*seed, k]).integers(2**31)))
        held = data.take(fold == k)
        yield copy.fit(data.take(fold != k), valid=valid(held)), held, np.repeat(fold == k, data.sizes)


def aligned(scores: Any, data: Groups, moved: bool) -> FloatArray:
    """Base scores as a finite vector in the order of `data`; `moved` where they were given in that of the input."""
    vector = np.asarray(scores, dtype=np.float64)
    if vector.shape != (data.n_rows,):
        raise DataError(f"{data.n_rows} documents need as many finite base_scores; got shape {vector.shape}.")
    vector = vector[data.row_order] if moved and data.row_order is not None else vector.copy()
    missing = np.flatnonzero(~np.isfinite(vector))
    if missing.size:
        row = int(missing[0])
        raise DataError(
            f"The base score of document {str(document_names(data)[row])!r} of query {str(data.qid[row])!r} is "
            f"{vector[row]}; every document needs a finite one."
        )
    return vector
