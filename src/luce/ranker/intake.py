"""What a ranker is given, as validated groups, and their scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from luce.base import Base, aligned
from luce.data.filling import Filling
from luce.data.groups import Groups, from_arrays
from luce.data.normalise import normalise_within_queries
from luce.data.schema import Schema
from luce.errors import DataError, RowsError, SettingError
from luce.ranker.parts import Parts
from luce.types import FloatArray

__all__ = ["Intake"]


class Intake(BaseEstimator):
    """The part of `Ranker` that turns arrays into groups, checks them against the fitted features, and scores them."""

    query_norm: str | None
    scorer_: Any
    base_: Base | None
    on_scores_: bool
    schema_: Schema | None = None
    """The columns of the table that was learned from."""
    filling_: Filling | None = None
    """How gaps and categories become numbers; None where the scorer takes the features as they are."""

    def parts(self) -> Parts:
        """The parts that were chosen."""
        raise NotImplementedError

    def _fitted_groups(self, X: Any, y: Any, qid: Any) -> Groups:
        check_is_fitted(self, "scorer_")
        return self._groups(X, y, qid, None, reset=False)

    def _valid(self, valid: Groups | tuple[Any, ...]) -> Groups:
        if isinstance(valid, Groups):
            self._check_features(valid)
            return valid
        if not isinstance(valid, tuple) or len(valid) != 3:
            raise DataError("valid must be Groups or a tuple (X, y, qid).")
        return self._groups(valid[0], valid[1], valid[2], None, reset=False)

    def _groups(self, X: Any, y: Any, qid: Any, query_weight: Any, *, reset: bool) -> Groups:
        """Whatever was given as validated groups; notes or checks the features."""
        if isinstance(X, Groups):
            if y is not None or qid is not None:
                raise DataError("Groups carry their labels and query ids; give neither y nor qid with them.")
            data = X if query_weight is None else _with_weight(X, query_weight)
            if not reset:
                self._check_features(data)
                return data
            self._note_features(data.feature_names)
        else:
            matrix, labels = self._validated(X, y, reset)
            names = getattr(self, "feature_names_in_", ())
            more: dict[str, Any] = {
                "feature_names": list(names),
                "allow_nan": (self.parts() if reset else self).takes_missing,
            }
            data = from_arrays(matrix, labels, qid=qid, query_weight=query_weight, **more)
        if reset:
            self.feature_names_ = data.feature_names
        return data

    @property
    def takes_missing(self) -> bool:
        """Whether NaN may stand for what is missing: the scorer takes it, or the model fills it."""
        return self.parts().takes_missing or (self.filling_ is not None and self.filling_.fills)

    @property
    def scored_names(self) -> tuple[str, ...]:
        """The columns that the scorer sees: features, or what stands for gaps and categories."""
        if self.filling_ is None:
            return self.feature_names_
        return self.filling_.names(self.feature_names_, {} if self.schema_ is None else self.schema_.categories)

    def _note_columns(self, data: Groups, parts: Parts) -> Any:
        """Learn what stands for gaps and categories; gives the scorer, which is told of categories it takes itself."""
        goes_on, scorer = getattr(self, "warm_start", False) and hasattr(self, "scorer_"), parts.scorer
        known = {} if data.schema is None else data.schema.categories
        native = bool(known) and hasattr(scorer, "categorical")
        if not goes_on:
            self.schema_ = data.schema
            self.filling_ = Filling.learn(data, fill=not parts.takes_missing, expand=not native)
        if not native:
            return scorer
        return replace(scorer, categorical=sorted({*known, *scorer.categories(data.feature_names)}))

    def _note_features(self, names: tuple[str, ...]) -> None:
        """What later data are checked against."""
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if not all(name.isdigit() for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.feature_names_ = names

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        how: dict[str, Any] = {"dtype": np.float32, "order": "C", "reset": reset}
        how["ensure_all_finite"] = "allow-nan" if (self.parts() if reset else self).takes_missing else True
        if y is None and not reset:
            return validate_data(self, X, **how), None
        matrix, labels = validate_data(self, X, y, y_numeric=True, **how)
        return matrix, labels

    def _check_features(self, data: Groups) -> None:
        if data.n_features != self.n_features_in_:
            raise DataError(
                f"The data have {data.n_features} features and the model was trained on {self.n_features_in_}; "
                "give the same features in the same order."
            )
        if hasattr(self, "feature_names_in_") and data.feature_names != tuple(self.feature_names_in_):
            pairs = zip(data.feature_names, self.feature_names_in_, strict=True)
            given, expected = next((a, b) for a, b in pairs if a != b)
            raise DataError(
                f"The data have a feature {given!r} where the model was trained on {expected!r}; "
                "give the same features in the same order."
            )

        known = {} if self.schema_ is None else self.schema_.categories
        if known and (data.schema is None or data.schema.categories != known):
            raise DataError(
                f"The categories of {data.feature_names[next(iter(known))]!r} have other codes than in training; read "
                "the data with schema=model.schema_."
            )

    def _scores(self, data: Groups, base_scores: ArrayLike | None = None, moved: bool = False) -> FloatArray:
        base = self._base_scores(data, base_scores, moved)
        data = self._normalised(data)
        scores: FloatArray
        with np.errstate(over="ignore", invalid="ignore"):  # said below
            if hasattr(self.scorer_, "score_groups"):  # it sees relations between documents, and the base itself
                scores = self.scorer_.score_groups(data, base)
            else:
                scores = self.scorer_.score(data.X, data.offsets)
                scores = scores if base is None else base + scores
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores))[0])
            q = int(np.searchsorted(data.offsets, row, "right")) - 1
            said = "{query}: this model has no finite score for {documents}, whose features are too large."
            raise RowsError(said, q, [row])
        return scores

    def _base_scores(self, data: Groups, given: ArrayLike | None, moved: bool) -> FloatArray | None:
        """The scores below those of the scorer, in the order of `data`; None where there are none."""
        if self.on_scores_ != (given is not None):
            what = "was trained on top of base_scores; give" if self.on_scores_ else "has no base_scores; leave out"
            raise DataError(f"This model {what} those of these rows (to predict, or with the validation data).")
        if given is not None and self.base_ is not None:
            raise SettingError("base and base_scores were both given; give one of them.")
        if given is not None:
            return aligned(given, data, moved)
        return None if self.base_ is None else self.base_.scores(data)

    def _normalised(self, data: Groups) -> Groups:
        """The data as the scorer sees them."""
        data = data if self.filling_ is None else self.filling_.applied(data)
        if self.query_norm is None:
            return data
        return replace(data, X=normalise_within_queries(data.X, data.offsets, self.query_norm))


def _with_weight(data: Groups, query_weight: Any) -> Groups:
    return replace(data, query_weight=np.asarray(query_weight, dtype=np.float64))
