"""What a ranker is given, as validated groups, and their scores."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from luce.base import Base, aligned
from luce.data.describe import Profile, sampled
from luce.data.filling import Filling, normalise_within_queries
from luce.data.groups import Groups, from_arrays, query_sizes
from luce.data.schema import Schema, likely_queries
from luce.errors import DataError, KindError, LuceWarning, RowsError, SettingError
from luce.ranker.columns import check_labels, is_frame, names_of, table_groups
from luce.ranker.parts import Parts
from luce.types import FloatArray


def refuse_blind_search(qid: Any, group: Any) -> None:
    """Refuse a fit whose score will be asked without query ids.

    Without metadata routing, GridSearchCV hands `qid` to `fit` and nothing to `score`. It makes NaN of an error of
    `score` and goes on with the first settings of its grid: only `fit` can refuse, and who calls is in the stack alone.
    """
    if group is not None and _search() is not None:
        raise DataError(f"group cannot be cut into folds, which take rows; give qid in its place. {ROUTING}")
    if qid is None or isinstance(qid, str) or get_config()["enable_metadata_routing"]:
        return
    scorer = _search()
    scorers = [scorer, *getattr(scorer, "_scorers", {}).values()]
    if any(type(each).__name__ == "_PassthroughScorer" for each in scorers):  # that of an estimator's own score
        raise DataError(f"qid was given to fit, and this search would call score without it. {ROUTING}")


def _search() -> Any:
    """The scorer of the search or cross-validation that is running, or None."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith("sklearn."):
            return frame.f_locals.get("scorer")
        frame = frame.f_back  # type: ignore[assignment]
    return None


ROUTING = (
    "Inside GridSearchCV and cross_validate, three lines carry them there:\n"
    "    sklearn.set_config(enable_metadata_routing=True)\n"
    "    search = GridSearchCV(luce.Ranker(...), grid, cv=GroupKFold())\n"
    "    search.fit(X, y, groups=qid, qid=qid)\n"
    "or give a data frame X and the name of its query column as qid."
)
_MANY = 1000
"""More rows than this are seldom the documents of one query."""


class Intake(BaseEstimator):
    """The part of `Ranker` that turns arrays into groups, checks them against the fitted features, and scores them."""

    query_norm: str | None
    text: Any
    scorer_: Any
    base_: Base | None
    on_scores_: bool
    history_: dict[str, Any]
    parts_: Parts
    frame_: str | None = None
    """The kind of data frame that was learned from, as which tables are given."""
    one_query_: bool = False
    """Fitted without query ids: all rows are one query, also where the model is judged."""
    schema_: Schema | None = None
    """The columns of the table that was learned from."""
    profile_: Profile | None = None
    """What the features and scores of the training looked like; None where they were not all at hand."""
    filling_: Filling | None = None
    """How gaps and categories become numbers; None where the scorer takes the features as they are."""

    parts: Callable[[], Parts]
    """The parts that were chosen: a method of `Ranker`."""

    def _fitted_groups(self, X: Any, y: Any, qid: Any) -> Groups:
        check_is_fitted(self, "scorer_")
        return self._groups(X, y, qid, None, reset=False)

    def _judged_groups(self, X: Any, y: Any, qid: Any, group: Any = None, *, several: bool = True) -> Groups:
        """Data to be judged by: they need labels and, for a mean over `several` queries as in training, their ids."""
        if not isinstance(X, Groups):
            y = self._column_of("label", X) if y is None else y
            if y is None:
                raise DataError("There are no labels to judge by; give y, or a frame with the column of the labels.")
            unknown = qid is None and group is None and self._column_of("qid", X) is None
            if several and unknown and not self.one_query_:
                raise DataError(f"This ranker was fitted with qid; its score needs the query ids too. {ROUTING}")
        return self._groups(X, y, qid, None, reset=False, group=group)

    def _valid(self, valid: Any) -> Groups:
        if isinstance(valid, Groups):
            self._check_features(valid)
            return valid
        if is_frame(valid):
            return self._judged_groups(valid, None, None)
        if not isinstance(valid, tuple) or len(valid) != 3:
            raise DataError("valid must be Groups, a tuple (X, y, qid), or a frame with the columns of the training.")
        return self._groups(valid[0], valid[1], valid[2], None, reset=False)

    def _groups(self, X: Any, y: Any, qid: Any, query_weight: Any, *, reset: bool, group: Any = None) -> Groups:
        """Whatever was given as validated groups; notes or checks the features."""
        if isinstance(X, Groups):
            if y is not None or qid is not None or group is not None:
                raise DataError("Groups carry their labels and query ids; give none of y, qid and group with them.")
            data = X if query_weight is None else replace(X, query_weight=np.asarray(query_weight))
            if not reset:
                self._check_features(data)
                return data
            if self.text is not None and (data.schema is None or data.schema.text is None):
                raise DataError("Groups hold no texts; give a data frame, or read them by luce.read(..., text=...).")
            self._note_features(data.feature_names)
            self.one_query_ = data.n_queries == 1
            return data
        if group is not None:
            if qid is not None:
                raise DataError("Both qid and group were given; give one of them.")
            sizes = query_sizes(group, rows_of(X))  # of queries one after the other, as LightGBM takes them
            qid = np.repeat(np.arange(len(sizes)), sizes)
        if is_frame(X) and (reset or self.schema_ is not None):
            data = self._table(X, y, qid, reset)
            return data if query_weight is None else replace(data, query_weight=np.asarray(query_weight))
        return self._matrix(X, y, qid, query_weight, reset)

    def _matrix(self, X: Any, y: Any, qid: Any, query_weight: Any, reset: bool) -> Groups:
        """An array as groups."""
        known = self.text is not None if reset else self.schema_ is not None and self.schema_.text is not None
        if known:
            raise DataError("This ranker reads texts, and X is no data frame; give a frame with the columns of texts.")
        if isinstance(qid, str) or isinstance(y, str):
            raise DataError("y and qid name columns, and X is no data frame; give a frame, or labels and ids.")
        if not reset and self.schema_ is not None and self.schema_.categories:
            named = self.schema_.features[next(iter(self.schema_.categories))].name
            raise DataError(
                f"The model was trained on a table with names in the column {named!r}, and an array has numbers only; "
                "give a data frame, or Groups."
            )
        if y is not None:
            check_labels(y)
        matrix, labels = self._validated(X, y, reset)
        takes_missing = (self.parts() if reset else self).takes_missing
        names = list(getattr(self, "feature_names_in_", ()))
        data = from_arrays(
            matrix, labels, qid=qid, query_weight=query_weight, feature_names=names, allow_nan=takes_missing
        )
        if reset:
            self.feature_names_, self.one_query_ = data.feature_names, qid is None
            if qid is None:
                _warn_of_one_query(data, [])
        return data

    def _table(self, X: Any, y: Any, qid: Any, reset: bool) -> Groups:
        """A data frame as groups: in `fit` it makes the schema, later it is read by it."""
        names = names_of(X)
        if y is not None and not isinstance(y, str):
            check_labels(y)
        if reset:
            alone = qid is None and not {"qid", "query_id"} & set(names)
            if y is None and "label" not in names:
                raise DataError("y is None, and the frame has no column 'label'; give labels, or the name of a column.")
            if alone and self.text is not None:
                qid, alone = self.text.query, False
            data = table_groups(X, {"label": y, "qid": np.zeros(len(X)) if alone else qid}, text=self.text)
            self._note_features(data.feature_names)
            self.one_query_ = alone
            if alone:
                _warn_of_one_query(data, likely_queries(names))
            _warn_of_left_out(data)
            return data
        schema = self.schema_
        assert schema is not None
        if self.one_query_:
            _check_feature_names(self, X, reset=False)
        qid = self._column_of("qid", X) if qid is None else qid
        return table_groups(X, {"label": y, "qid": np.zeros(len(X)) if qid is None else qid}, schema=schema)

    def _column_of(self, role: str, X: Any) -> str | None:
        """The column of a frame that played a part in training, where the frame has it."""
        name = None if self.schema_ is None or not is_frame(X) else self.schema_.named(role)
        return name if name is not None and name in names_of(X) else None

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
        split = hasattr(scorer, "categorical")
        native = bool(known) and (split or getattr(parts.trainer, "takes_categories", False))
        if not goes_on:
            self.schema_, self.frame_ = data.schema, data.frame
            self.filling_ = Filling.learn(data, fill=not parts.takes_missing, expand=not native)
        if not native or not split:
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
        how["ensure_all_finite"] = False  # said below and by `from_arrays`, with row and feature
        rows_of(X)
        try:
            if y is None and not reset:
                matrix, labels = validate_data(self, X, **how), None
            else:
                matrix, labels = validate_data(self, X, y, y_numeric=True, **how)
        except (TypeError, ValueError) as error:  # in scikit-learn's words and kinds, which its own checks ask for
            raise (KindError if isinstance(error, TypeError) else DataError)(str(error)) from error
        if not (self.parts() if reset else self).takes_missing and np.isnan(matrix.sum(dtype=np.float64)):
            gaps = np.argwhere(np.isnan(matrix))
            if len(gaps):
                row, column = gaps[0]
                raise DataError(
                    f"Feature {column + 1} of row {row} is NaN, and this model takes no gaps in arrays; fill them, fit "
                    "a data frame or Groups, whose gaps a model fills by itself, or take scorer='trees'."
                )
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
        ours, theirs = (None if schema is None else schema.text for schema in (self.schema_, data.schema))
        if ours is not None and theirs is not None and not ours.counts_as(theirs):
            raise DataError(
                "The features of texts were computed with the words of another corpus than that of the model; give the "
                "table itself, or read it with schema=model.schema_."
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
            said = "{query}: this model has no finite score for {documents}, whose features are missing or too large."
            raise RowsError(said, q, [row])
        return scores

    def _note_profile(self, data: Groups, base_scores: FloatArray | None, scores: FloatArray | None) -> None:
        """Remember what some of the training documents and their scores look like."""
        queries, some = sampled(data), data
        if len(queries) < data.n_queries:
            some = data.take(queries)
            rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in queries])
            base_scores, scores = (None if each is None else each[rows] for each in (base_scores, scores))
        try:
            scores = self._scores(some, base_scores if self.on_scores_ else None) if scores is None else scores
        except DataError:  # a model without finite scores says so when it is used
            self.profile_ = None
            return
        said = self.history_.get("best_iteration") == 0 or self.parts_.trainer.name == "boosting"  # by itself
        if len(scores) > 1 and not said and np.ptp(scores) == 0 and np.ptp(some.y) > 0:
            warnings.warn(
                "The model gives all documents the same score, so that it ranks nothing: the features do not differ, "
                "or the loss has no slope where training starts.",
                LuceWarning,
                stacklevel=3,
            )
        known = {} if data.schema is None else data.schema.categories
        self.profile_ = Profile.learn(np.asarray(some.X), scores, known)

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


def rows_of(X: Any) -> int:
    """How many rows a matrix has, of whatever kind."""
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise DataError(f"X is {X!r:.40}; give a matrix of features, a data frame, or Groups.")
    return int(X.shape[0]) if getattr(X, "shape", ()) else len(X)


def _warn_of_one_query(data: Groups, likely: Sequence[str]) -> None:
    """Say that rows without query ids are one query, where they seem to be several: many, or beside likely ids."""
    if likely or data.n_rows > _MANY:
        hint = f"; {', '.join(map(repr, likely))} may be the query: give qid={likely[0]!r}" if likely else ""
        warnings.warn(
            f"qid was not given, so that all {data.n_rows:,} rows are the documents of one query{hint or '; give qid'} "
            "or group where there are several.",
            LuceWarning,
            stacklevel=5,
        )


def _warn_of_left_out(data: Groups) -> None:
    """Say which columns of a frame were not used, unless that was said already or is no surprise."""
    assert data.schema is not None
    said = ("the index of a data frame", "equal to the label", "the number of the row")
    left = [f"{column.name} ({column.why})" for column in data.schema.left_out if column.why not in said]
    if left:
        texts = data.schema.unused_texts()
        more = f" Not used as they are: {texts}." if texts else ""
        warnings.warn(f"Columns left out: {', '.join(left)}.{more}", LuceWarning, stacklevel=5)
