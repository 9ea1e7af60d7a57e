"""What a model may stand on: scores that are there already, to which trees are added or which are reranked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.groups import Groups
from luce.data.trec import document_names
from luce.errors import DataError, SettingError
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.ranker import Ranker

__all__ = ["Base", "ColumnBase", "RankerBase", "aligned", "make_base"]

_COLUMN = "column:"


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
        return self.ranker.predict(data)


Base = ColumnBase | RankerBase


def make_base(given: Any) -> Base | None:
    """From what a user gives: None, a fitted ranker, the path of a model file, or `column:NAME`."""
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
    if isinstance(given, str | Path):
        from luce.model_file import load

        return make_base(load(given))
    raise SettingError(
        f"base is a {type(given).__name__}; it must be a fitted Ranker, the path of a model, or 'column:NAME'."
    )


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
