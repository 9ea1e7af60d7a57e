"""The two pieces of work of an experiment, what a record of them must hold, and who does them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from luce.auto.crossfit import failures
from luce.data.groups import Groups
from luce.errors import DataError, LuceError, SettingError
from luce.experiments.estimators import fit_estimator, predict_scores
from luce.experiments.folds import Fold
from luce.metrics.catalog import get
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import Evaluation, evaluate_rows, means_by, refuse_unheard
from luce.model_file import Packed, packed, unpacked
from luce.ranker import Ranker
from luce.systems import model as complete
from luce.types import FloatArray

SCORES_ONLY = "scores_only"
"""In place of a model that no file can hold."""
_KEPT_BYTES = 1 << 30
"""Folds are kept in memory as long as their features take less than this; beyond, only the last one is."""


@dataclass(frozen=True)
class Setup:
    """What all pieces of work of one experiment share."""

    folds: Sequence[Fold]
    metrics: tuple[str, ...]
    tune_on: str
    seed: int
    conventions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would only fail after the first fit."""
        conventions(**self.conventions)
        settings = {name: value for name, value in self.conventions.items() if name != "preset"}
        refuse_unheard(settings, [get(name) for name in (*self.metrics, self.tune_on)])

    @property
    def facts(self) -> dict[str, Any]:
        """What every piece of work depends on, beside data and tuning metric."""
        names = [fold.name for fold in self.folds]
        return {"folds": names, "seed": self.seed, "conventions": dict(self.conventions)}

    @property
    def notes(self) -> list[str]:
        """What there is to know of the folds."""
        return sorted({fold.note for fold in self.folds if fold.note})


@dataclass(frozen=True)
class Fit:
    """Fit a system with these settings on a fold, and validate it.

    `share` below 1 takes that part of the training queries, the first ones of an order drawn from the seed, so that
    larger shares contain smaller ones.
    """

    fold: int
    system: Any
    """Name of a complete system, or an estimator with fit and predict."""
    settings: Mapping[str, Any]
    share: float = 1.0


@dataclass(frozen=True)
class Judge:
    """Score the test queries of the fold of a fit with its model."""

    fit: Fit
    model: Packed

    @property
    def fold(self) -> int:
        """The fold of the fit."""
        return self.fit.fold


Task: TypeAlias = Fit | Judge


@dataclass(frozen=True)
class Trial:
    """What a fit gave: the metric on validation, the time of the fit, its history and the model."""

    validation: float
    seconds: float
    history: dict[str, Any]
    model: Packed

    def content(self) -> Packed:
        """For a record on disk."""
        settings, arrays = self.model
        value = None if math.isnan(self.validation) else self.validation
        return {"validation": value, "seconds": self.seconds, "history": self.history, "model": settings}, arrays

    @classmethod
    def from_content(cls, settings: Mapping[str, Any], arrays: dict[str, Any]) -> Trial:
        """The trial of a record; an error says what is wrong with another one.

        >>> Trial.from_content({"validation": 0.5, "seconds": "1", "history": {}, "model": {}}, {})
        Traceback (most recent call last):
            ...
        luce.errors.DataError: 'seconds' is not a number of at least 0
        """
        value, *others = (settings.get(name, "") for name in ("validation", "seconds", "history", "model"))
        seconds, history, model = others
        _demand(value is None or _is_number(value), "'validation' is neither a number nor null")
        _demand(_is_number(seconds) and 0 <= seconds < math.inf, "'seconds' is not a number of at least 0")
        _demand(isinstance(history, dict), "'history' is not an object")
        for name in ("objective", "validation"):
            values = history.get(name, [])
            numbers = isinstance(values, list) and all(map(_is_number, values))
            _demand(numbers, f"{name!r} of its history is not a list of numbers")
        _demand(isinstance(model, dict), "'model' is not an object")
        return cls(math.nan if value is None else value, seconds, history, (model, arrays))


@dataclass(frozen=True)
class Verdict:
    """What the chosen model gave on the test queries: every metric by query, and the scores of all rows."""

    values: dict[str, FloatArray]
    scores: FloatArray

    def content(self) -> Packed:
        """For a record on disk."""
        return {"metrics": list(self.values)}, {
            "scores": self.scores,
            **{f"values.{name}": values for name, values in self.values.items()},
        }

    @classmethod
    def from_content(cls, settings: Mapping[str, Any], arrays: dict[str, Any]) -> Verdict:
        """The verdict of a record; an error says what is wrong with another one."""
        names: Any = settings.get("metrics")
        named = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
        _demand(named, "'metrics' is not a list of names")
        for name in ("scores", *(f"values.{name}" for name in names)):
            array = arrays.get(name)
            vector = array is not None and array.ndim == 1 and array.dtype == np.float64
            _demand(vector, f"it has no vector of numbers {name!r}")
        values = {name: arrays[f"values.{name}"] for name in names}
        lengths = set(map(len, values.values()))
        _demand(len(lengths) == 1, "its metrics have values for different numbers of queries")
        return cls(values, arrays["scores"])


@dataclass(frozen=True)
class Failed:
    """A piece of work that ended with an error."""

    error: str


Result: TypeAlias = Trial | Verdict | Failed


def _demand(holds: Any, otherwise: str) -> None:
    """What a record must be; else the error says what it is."""
    if not holds:
        raise DataError(otherwise)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_better(value: float, than: float, metric: str) -> bool:
    """Whether one value of a metric is better than another; anything is better than NaN.

    >>> is_better(0.3, 0.2, "ndcg@10"), is_better(0.3, 0.2, "spearman_footrule")
    (True, False)
    """
    if math.isnan(value) or math.isnan(than):
        return math.isnan(than) and not math.isnan(value)
    return value > than if get(metric).greater_is_better else value < than


class Bench:
    """Does pieces of work in this process; keeps the folds that it has read."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._parts: dict[int, tuple[Groups, Groups, Groups]] = {}

    def parts(self, fold: int) -> tuple[Groups, Groups, Groups]:
        """Training, validation and test data of a fold."""
        if fold not in self._parts:
            if sum(part.X.nbytes for parts in self._parts.values() for part in parts) > _KEPT_BYTES:
                self._parts.clear()
            self._parts[fold] = self.setup.folds[fold].load()
        return self._parts[fold]

    @property
    def largest_fold(self) -> int:
        """Bytes of features of the largest fold that was read."""
        return max((sum(part.X.nbytes for part in parts) for parts in self._parts.values()), default=0)

    def attempt(self, task: Task) -> Result:
        """Do a piece of work; what a user's data or settings bring an engine to refuse is a result, too.

        Anything else is a defect of luce, which ends this process: beside workers of their own, only itself.
        """
        try:
            return self._fit(task) if isinstance(task, Fit) else self._judge(task)
        except failures() as error:
            return Failed(sentence(error))

    def _fit(self, task: Fit) -> Trial:
        setup = self.setup
        train, valid, test = self.parts(task.fold)
        part, many = train, train.n_queries
        if task.share < 1.0:
            order = np.random.default_rng([setup.seed, many]).permutation(many)
            part = train.take(np.sort(order[: min(many, max(2, round(task.share * many)))]))
        if isinstance(task.system, str):
            ranker = complete(task.system, **{"metric": setup.tune_on, "random_state": setup.seed, **task.settings})
            start = time.perf_counter()
            fitted = ranker.fit(part, valid=valid)
        else:
            start = time.perf_counter()
            fitted = fit_estimator(task.system, part, valid)
        seconds = time.perf_counter() - start
        history = fitted.history_ if isinstance(fitted, Ranker) else {}
        # A blend that learned from the validation queries as well, which then judge nothing, says it of itself.
        blend = history.get("blend", {})
        value = blend.get("estimate", {}).get("value") if blend.get("valid") == "more" else None
        if value is None:
            judged = fitted if isinstance(fitted, Ranker) else predict_scores(fitted, valid)
            value = evaluate_rows(judged, valid, [setup.tune_on], **setup.conventions).means[get(setup.tune_on).name]
        return Trial(value, seconds, history, _kept(fitted, test))

    def _judge(self, task: Judge) -> Verdict:
        test = self.parts(task.fold)[2]
        if SCORES_ONLY in task.model[0]:
            scores = task.model[1]["scores"]
            judged: Any = scores
        else:
            ranker = unpacked(task.model)
            scores = ranker.predict(test)
            judged = _Scored(ranker, scores)
        result = evaluate_rows(judged, test, list(self.setup.metrics), **self.setup.conventions)
        return Verdict(by_query(result, test), scores)


def by_query(result: Evaluation, data: Groups) -> dict[str, FloatArray]:
    """A value a query: the mean over the lists that judge it, where lists or pairs do; NaN where none does."""
    if data.judges is None:
        return dict(result.values)
    place = {query: q for q, query in enumerate(data.query_ids.tolist())}
    at = np.array([place[query] for query in result.query_ids.tolist()], dtype=np.int64)
    return {name: means_by(at, each, np.ones(len(at)), data.n_queries) for name, each in result.values.items()}


def _kept(fitted: Any, test: Groups) -> Packed:
    """A model for its file; where no file can hold it, the scores of the test queries in its place."""
    try:
        if isinstance(fitted, Ranker):
            return packed(fitted)
    except SettingError:  # a part of one's own that is not registered: the fit is good, only no file can hold it
        pass
    return {SCORES_ONLY: True}, {"scores": predict_scores(fitted, test)}


@dataclass(frozen=True)
class _Scored:
    """A ranker beside the scores that it has given already."""

    ranker: Ranker
    scores: FloatArray

    @property
    def max_grade_(self) -> float | None:
        return self.ranker.max_grade_

    def predict(self, data: Groups) -> FloatArray:
        return self.scores

    def log_likelihood(self, data: Groups, **given: Any) -> FloatArray:
        return self.ranker.log_likelihood(data, **given)


def sentence(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, LuceError) else f"{type(error).__name__}: {text}".rstrip(": ")
