"""The two pieces of work of an experiment, what a record of them must hold, and how far an experiment is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from luce.data.groups import Groups
from luce.errors import DataError, LuceError, SettingError
from luce.experiments.estimators import fit_estimator, predict_scores
from luce.experiments.folds import Fold
from luce.metrics.catalog import get
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import evaluate_rows, refuse_unheard
from luce.model_file import Packed, packed, unpacked
from luce.ranker import Ranker
from luce.systems import model as complete
from luce.types import FloatArray


def trial_fault(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the record of a fit, or None.

    >>> trial_fault({"validation": 0.5, "seconds": "1", "history": {}, "model": {}})
    "'seconds' is not a number of at least 0"
    """
    validation, seconds = settings.get("validation", ""), settings.get("seconds")
    history, model = settings.get("history"), settings.get("model")
    if validation is not None and not _is_number(validation):
        return "'validation' is neither a number nor null"
    if seconds is None or not (_is_number(seconds) and 0 <= seconds < math.inf):
        return "'seconds' is not a number of at least 0"
    if not isinstance(history, dict):
        return "'history' is not an object"
    for name in ("objective", "validation"):
        values = history.get(name, [])
        if not (isinstance(values, list) and all(map(_is_number, values))):
            return f"{name!r} of its history is not a list of numbers"
    return None if isinstance(model, dict) else "'model' is not an object"


def verdict_fault(settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> str | None:
    """What is wrong with the record of a judged model, or None.

    >>> verdict_fault({"metrics": ["map"]}, {"scores": np.zeros(3)})
    "it has no vector of numbers 'values.map'"
    """
    names = settings.get("metrics")
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        return "'metrics' is not a list of names"
    expected = ["scores", *(f"values.{name}" for name in names)]
    for name in expected:
        array = arrays.get(name)
        if array is None or array.ndim != 1 or array.dtype != np.float64:
            return f"it has no vector of numbers {name!r}"
    lengths = {len(arrays[name]) for name in expected[1:]}
    return None if len(lengths) == 1 else "its metrics have values for different numbers of queries"


def results_are_whole(results: Any) -> bool:
    """Whether the content of `results.json` has what a reader of a run looks for, in its form.

    >>> results_are_whole({"settings": {"metrics": ["map"], "folds": []}, "leaderboard": [], "folds": [], "data": {}})
    True
    """
    if not isinstance(results, dict):
        return False
    settings, board, folds = results.get("settings"), results.get("leaderboard"), results.get("folds")
    named = isinstance(settings, dict) and all(_are_names(settings.get(name)) for name in ("metrics", "folds"))
    rows = isinstance(board, list) and all(isinstance(row, dict) and isinstance(row.get("model"), str) for row in board)
    places = isinstance(folds, list) and all(isinstance(row, dict) and {"model", "fold"} <= set(row) for row in folds)
    return named and rows and places and isinstance(results.get("data"), dict)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    """Score the test queries of a fold with a fitted model."""

    fold: int
    model: Packed


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
        """The trial of a record; an error says what is wrong with another one."""
        fault = trial_fault(settings)
        if fault is not None:
            raise DataError(fault)
        value = settings["validation"]
        model = (settings["model"], arrays)
        return cls(math.nan if value is None else value, settings["seconds"], settings["history"], model)


@dataclass(frozen=True)
class Verdict:
    """What the chosen model gave on the test queries: every metric by query, and the scores of all rows."""

    values: dict[str, FloatArray]
    scores: FloatArray

    def content(self) -> Packed:
        """For a record on disk."""
        names = list(self.values)
        return {"metrics": names}, {"scores": self.scores, **{f"values.{name}": self.values[name] for name in names}}

    @classmethod
    def from_content(cls, settings: Mapping[str, Any], arrays: dict[str, Any]) -> Verdict:
        """The verdict of a record; an error says what is wrong with another one."""
        fault = verdict_fault(settings, arrays)
        if fault is not None:
            raise DataError(fault)
        return cls({name: arrays[f"values.{name}"] for name in settings["metrics"]}, arrays["scores"])


@dataclass(frozen=True)
class Failed:
    """A piece of work that ended with an error; `worker_lost` where its process ended with it."""

    error: str
    worker_lost: bool = False


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

    def do(self, task: Task) -> Trial | Verdict:
        """One piece of work."""
        return self._fit(task) if isinstance(task, Fit) else self._judge(task)

    def _fit(self, task: Fit) -> Trial:
        setup = self.setup
        train, valid, test = self.parts(task.fold)
        if not isinstance(task.system, str):
            return self._fit_estimator(task.system, train, valid, test)
        ranker = complete(task.system, **{"metric": setup.tune_on, "random_state": setup.seed, **task.settings})
        part = train if task.share >= 1.0 else _share(train, task.share, setup.seed)
        start = time.perf_counter()
        ranker.fit(part, valid=valid)
        seconds = time.perf_counter() - start
        value = _own_estimate(ranker.history_)
        if value is None:
            value = evaluate_rows(ranker, valid, [setup.tune_on], **setup.conventions).means[get(setup.tune_on).name]
        return Trial(value, seconds, ranker.history_, packed(ranker))

    def _fit_estimator(self, estimator: Any, train: Groups, valid: Groups, test: Groups) -> Trial:
        """Any estimator; where no file can hold it, the scores of the test queries are kept in its place."""
        setup, start = self.setup, time.perf_counter()
        fitted = fit_estimator(estimator, train, valid)
        seconds = time.perf_counter() - start
        scores = predict_scores(fitted, valid)
        value = evaluate_rows(scores, valid, [setup.tune_on], **setup.conventions).means[get(setup.tune_on).name]
        history = getattr(fitted, "history_", {})
        try:
            model = packed(fitted) if isinstance(fitted, Ranker) else None
        except SettingError:  # a part of one's own that is not registered: the fit is good, only no file can hold it
            model = None
        return Trial(value, seconds, history, model or ({SCORES_ONLY: True}, {"scores": predict_scores(fitted, test)}))

    def _judge(self, task: Judge) -> Verdict:
        test = self.parts(task.fold)[2]
        if SCORES_ONLY in task.model[0]:
            scores = task.model[1]["scores"]
            return Verdict(
                evaluate_rows(scores, test, list(self.setup.metrics), **self.setup.conventions).values, scores
            )
        ranker = unpacked(task.model)
        scored = _Scored(ranker, ranker.predict(test))
        result = evaluate_rows(scored, test, list(self.setup.metrics), **self.setup.conventions)
        return Verdict(dict(result.values), scored.scores)


@dataclass(frozen=True)
class _Scored:
    """A ranker beside the scores that it has given already."""

    ranker: Ranker
    scores: FloatArray

    @property
    def max_grade_(self) -> float:
        return self.ranker.max_grade_

    def predict(self, data: Groups) -> FloatArray:
        return self.scores

    def log_likelihood(self, data: Groups) -> FloatArray:
        return self.ranker.log_likelihood(data)


def _own_estimate(history: Mapping[str, Any]) -> float | None:
    """What a blend says of itself where it learned from the validation queries as well, which then judge nothing."""
    record = history.get("blend", {})
    return record.get("estimate", {}).get("value") if record.get("valid") == "more" else None


def _share(train: Groups, share: float, seed: int) -> Groups:
    order = np.random.default_rng([seed, train.n_queries]).permutation(train.n_queries)
    count = min(train.n_queries, max(2, round(share * train.n_queries)))
    return train.take(np.sort(order[:count]))


def attempt(bench: Bench, task: Task) -> Trial | Verdict | Failed:
    """Do a piece of work; what a user's data or settings bring an engine to refuse is a result, too.

    Anything else is a defect of luce, which ends this process: beside workers of their own, only itself.
    """
    try:
        return bench.do(task)
    except (LuceError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
        return Failed(sentence(error))
    except _engine_errors() as error:
        return Failed(sentence(error))


def _engine_errors() -> tuple[type[Exception], ...]:
    """What the tree engine raises, where it is loaded."""
    engine = sys.modules.get("lightgbm")
    return () if engine is None else (engine.basic.LightGBMError,)


def sentence(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, LuceError) else f"{type(error).__name__}: {text}".rstrip(": ")


@dataclass
class ModelTally:
    """One model: fits that are done, failed, taken from an earlier run, and to be done in all."""

    total: int = 0
    done: int = 0
    kept: int = 0
    failed: int = 0
    seconds: float = 0.0
    best: float | None = None
    """The best validation value of a fit so far, over all folds."""
    best_on: str = ""
    fold: str = ""
    """The fold that was begun last."""
    error: str = ""

    @property
    def left(self) -> int:
        """Fits that are still to come."""
        return self.total - self.done - self.kept - self.failed


@dataclass
class Tally:
    """All models of an experiment, updated as results come in."""

    metric: str
    jobs: int = 1
    models: dict[str, ModelTally] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Fits of all models."""
        return sum(model.total for model in self.models.values())

    @property
    def left(self) -> int:
        """Fits of all models that are still to come."""
        return sum(model.left for model in self.models.values())

    def seconds_left(self, name: str | None = None) -> float | None:
        """An estimate for one model, or all: fits that are left, at the mean time of those that are done."""
        done = sum(model.done for model in self.models.values())
        if not done:
            return None
        usual = sum(model.seconds for model in self.models.values()) / done
        chosen = list(self.models.values()) if name is None else [self.models[name]]
        work = sum(model.left * (model.seconds / model.done if model.done else usual) for model in chosen)
        return work / max(1, min(self.jobs, sum(model.left for model in chosen)))

    def expect(self, model: str, fits: int) -> None:
        """So many fits of a model will come."""
        self.models.setdefault(model, ModelTally()).total += fits

    def note(self, model: str, fold: str, result: Trial | Failed, *, kept: bool = False) -> None:
        """A fit has ended, now or in an earlier run."""
        row = self.models[model]
        if isinstance(result, Failed):
            row.failed += 1
            row.error = result.error
            return
        if kept:
            row.kept += 1
        else:
            row.done += 1
            row.seconds += result.seconds
        if row.best is None or is_better(result.validation, row.best, self.metric):
            row.best, row.best_on = result.validation, fold


Watch = Callable[[Tally, str, str, Any], None]
"""Told of (tally, model, fold, result): None at the start of a fit, then its result, last the outcome of the fold."""
