"""How a ranker is fitted: what a task is made of, the trainer's work, and what is kept of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.base import FOLDS, RankerBase, cross_fitted, make_base, to_be_fitted
from luce.checks import generator
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, document_names
from luce.data.statements import graded_rows, position_grades
from luce.errors import DataError, LuceWarning, RowsError, SettingError, of_user
from luce.losses.base import Loss
from luce.losses.function_loss import warn_of_gradient
from luce.losses.grades_and_statements import BothTargets, GradesAndComparisons
from luce.losses.stages import PartitionLikelihood
from luce.numerics.segments import tiers
from luce.ranker.parts import Parts, choose
from luce.ranker.probabilities import Probabilities
from luce.registry import settings_of
from luce.training.held_out import UNJUDGED, held_out, warn_of_limit, warn_of_start, warn_of_unjudged
from luce.training.run import History
from luce.training.task import Task, Trained
from luce.types import FloatArray, IntArray, Progress


@contextmanager
def watched(
    parts: Parts, progress: Progress | None, callbacks: Sequence[Progress], verbose: bool
) -> Iterator[Progress | None]:
    """One function that tells all that listen, a bar among them where it is wanted; True of any ends the training."""
    listening = list(callbacks) if isinstance(callbacks, Sequence) else [None]
    listening += [] if progress is None else [progress]
    if not all(callable(each) for each in listening):
        raise SettingError(
            f"progress is {progress!r} and callbacks is {callbacks!r}; give a list of functions of (round, most "
            "rounds, values)."
        )

    def tell(step: int, total: int | None, info: Mapping[str, float]) -> bool:
        answers = [each(step, total, info) for each in listening]
        return True in answers

    if not verbose:
        yield tell if listening else None
        return
    from luce.display import progress_bar

    with progress_bar(parts.title, {"validation": parts.metric.name}, last=True) as bar:
        listening.append(bar)
        yield tell


def refuse_alone(**given: tuple[bool, str, Any]) -> None:
    """Refuse arguments of `fit` without what they go with: name=(whether it was given, the other, its value)."""
    for name, (said, other, there) in given.items():
        if said and there is None:
            raise SettingError(f"{name} goes with {other}, which was not given; give both, or leave {name} out.")


def check_grades(data: Groups, parts: Parts) -> None:
    """Refuse data without labels, and name a loss whose gradient is not that of its value."""
    if not data.labelled:
        raise DataError(
            "The data have no column of labels, so that there is nothing to learn from; name it by label=, --label, or "
            "give comparisons or clicks."
        )
    if parts.loss is not None:
        warn_of_gradient(parts.loss, data.y, data.offsets)


def warn_of_equal_grades(data: Groups, parts: Parts) -> None:
    """Say it where labels had nothing to learn from; after the training, which may have refused them."""
    low, high = (each.reduceat(data.y, data.offsets[:-1]) for each in (np.minimum, np.maximum))
    alike = (low == high).all() if parts.loss is not None else np.ptp(data.y) == 0
    if alike and data.n_rows > 1:
        what = "All labels are equal" if np.ptp(data.y) == 0 else "No query has two documents of different labels"
        warnings.warn(
            f"{what}, so that no order can be learned from them; check the labels and the query ids.",
            LuceWarning,
            stacklevel=4,
        )


def with_list_grades(task: Task) -> Task:
    """For scorers that look at grades: positions in lists and pairs, where there are no grades that differ."""
    data, target = task.data, task.target
    if not isinstance(target, BothTargets) or np.ptp(data.y) > 0 or task.scorer is None:
        return task
    y = position_grades(target.comparisons, data.offsets)
    return replace(task, data=replace(data, y=whole_grades(y, data.offsets) if task.loss is None else y))


def whole_grades(y: FloatArray, offsets: IntArray) -> FloatArray:
    """The order of grades within queries as whole grades from 0 up, of which 4 is the highest where there are more.

    >>> whole_grades(np.array([1.5, 0.0, 1.5, 7.0]), np.array([0, 3, 4])).tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    cut = tiers(y, offsets)
    levels = np.diff(cut.queries)
    last = np.repeat(levels - 1, levels)
    level = last - (np.arange(len(cut.starts) - 1) - np.repeat(cut.queries[:-1], levels))
    grades = np.empty(len(y))
    grades[cut.order] = np.repeat(
        np.where(last > 4, np.round(4.0 * level / np.maximum(last, 1)), level), np.diff(cut.starts)
    )
    return grades


def refuse_unheard(comparisons: Comparisons, parts: Parts, data: Groups) -> None:
    """Comparisons that say nothing, or that an objective of LightGBM would not hear beside grades."""
    if not len(graded_rows(comparisons, data.offsets).queries):
        raise DataError("The comparisons hold neither a list nor a pair that says something; give at least one.")
    ties_only = not len(comparisons.wins) and not comparisons.n_orders
    if ties_only and not (np.ptp(data.y) > 0 and getattr(parts.loss, "uses_ties", False)):
        raise DataError(
            "The comparisons hold ties only, from which no order can be learned; give preferences or lists as well."
        )
    if getattr(parts.scorer, "objective", None) is not None and np.ptp(data.y) > 0:
        raise SettingError(
            f"{parts.title!r} has a criterion of its own, which learns from the grades and would not hear the "
            "comparisons; take a loss such as 'davidson', or leave the grades out (--ignore-grades)."
        )


def work_of(parts: Parts, task: Task) -> Callable[[Task], Any]:
    """What trains these parts."""
    if not getattr(task.loss, "chooses_alpha", False):
        return parts.trainer.train
    from luce.training.best_surrogate import train_best  # and all losses consistent with NDCG

    return partial(train_best, parts.trainer)


def as_trained(found: Any, parts: Parts, task: Task) -> Trained:
    """What a trainer gave, checked."""
    made = found if isinstance(found, Trained) else Trained(found, task.loss, History())
    if not type(made.scorer).__module__.startswith("luce."):
        _check_scorer(parts.trainer.name, made.scorer, task.data)
    elif not np.isfinite(getattr(made.scorer, "weights", 0.0)).all():
        raise SettingError(
            f"The training by {parts.trainer.name!r} ran out of the finite numbers; lower l2 or the learning rate."
        )
    return made


def _check_scorer(trainer: str, fitted: Any, data: Groups) -> None:
    """Refuse what a trainer of a user gave where it does not score documents."""
    if isclass(fitted) or not callable(getattr(fitted, "score", None)):
        raise SettingError(
            f"The trainer {trainer!r} gave {type(fitted).__name__}; it must give a fitted scorer, which has a method "
            "score(X, offsets), or Trained."
        )
    with of_user(f"score of what the trainer {trainer!r} gave"):
        scores = np.asarray(fitted.score(data.X, data.offsets), dtype=np.float64)
    if scores.shape != (data.n_rows,):
        raise SettingError(
            f"score of what the trainer {trainer!r} gave has shape {scores.shape} for {data.n_rows} documents; one "
            "number a document is needed."
        )


def refuse_trainer(parts: Parts, named: bool) -> None:
    """A stream is learned in a way of its own: an error where a trainer, or a setting of it, was given."""
    auto = choose({"loss": parts.loss, "scorer": parts.scorer}, {}).trainer
    if named or type(parts.trainer) is not type(auto):
        raise SettingError(
            f"partial_fit has a way of its own to learn and would not use the trainer {parts.trainer.name}; "
            "leave the trainer out, or use fit."
        )
    usual, given = settings_of(auto), parts.settings("trainer").items()
    unheard = [name for name, value in given if name != "l2" and value != usual[name]]
    if unheard:
        raise SettingError(f"partial_fit hears l2 alone and would not use {', '.join(unheard)}; use fit.")


class Fitting(Probabilities):
    """What `Ranker.fit` is made of: the base below, the queries that judge, and what is kept of a training."""

    base: Any
    base_folds: int | None
    checkpoint: str | Path | None
    warm_start: bool
    max_grade_: float | None
    """The highest grade of the training, None where another library trained."""
    _unsaid: Mapping[str, Any] = {}
    """What a complete system or a file says of early stopping and of the iterate that is kept: nobody said it."""

    def _fitted_base(
        self, parts: Parts, data: Groups, valid: Any, given: ArrayLike | None, moved: bool
    ) -> FloatArray | None:
        """Make the base, and give its scores on the training documents; cross-fitted where that was asked for."""
        if self.base is None and self.base_folds is None:
            self.base_ = None
            return self._base_scores(data, given, moved)
        new: Any = self.base if to_be_fitted(self.base) else None
        if self.base is None and given is None and parts.trainer.name in ("reranking", "greedy"):
            from luce.ranker.estimator import Ranker

            new = Ranker("listnet", random_state=self.random_state)
        self.base_ = None if new is not None else make_base(self.base)
        if new is None and self.base_folds is None:
            return self._base_scores(data, given, moved)
        if given is not None:
            raise SettingError("base_scores are taken as they are; leave base and base_folds out.")
        old = self.base_.ranker if isinstance(self.base_, RankerBase) else None
        if new is None and old is None:
            raise SettingError(
                f"base_folds is {self.base_folds!r} and the base is {self.base!r}, which is no ranker that could be "
                "fitted on folds; leave base_folds out, or give a ranker or the path of a model as base."
            )
        folds = FOLDS if self.base_folds is None else self.base_folds
        seed, judged = int(self._rng().integers(2**31)), None if valid is None else self._valid(valid)
        self.base_, scores = cross_fitted(new if old is None else old, data, judged, folds, seed, old)
        return scores

    def _judged(
        self,
        task: Task,
        parts: Parts,
        valid: Groups,
        lists: Comparisons | None,
        base: FloatArray | None,
        moved: bool,
    ) -> Task:
        """The task with the queries that judge its iterates; `moved` where rows are named as they were given."""
        stated = lists.moved(valid.row_order) if lists is not None and moved else lists
        metric = parts.metric if stated is None else parts.trainer.judge(parts.metric, stated)
        try:
            held = held_out(self._normalised(valid), stated, metric, parts.scorer, parts.loss)
        except RowsError as error:
            raise error.named(valid.query_ids.tolist(), document_names(valid).tolist()) from None
        below = base if base is None or held.rows is None else base[held.rows]
        return replace(task, valid=held.data, valid_base=below, metric=held.metric)

    def _adopt(self, trained: Trained, parts: Parts, y: FloatArray, offsets: IntArray, judged: bool) -> None:
        """Take over what was trained on data with these labels, `judged` by validation data or not."""
        self.parts_ = parts
        self.scorer_ = trained.scorer
        self.loss_ = trained.loss.loss if isinstance(trained.loss, GradesAndComparisons) else trained.loss
        self.history_ = trained.history.as_dict()
        # Where no query has two grades, lists were learned from.
        skipped = 0 if self.loss_ is None or np.ptp(y) == 0 else self.loss_.skipped(y, offsets)
        if 0 < skipped < len(offsets) - 1:
            self.history_["skipped_queries"] = skipped
        if not judged:
            said = ["early_stopping"] if self._is_set("early_stopping") else []
            own = parts.settings("trainer")
            unsaid = [name for name in UNJUDGED if name in self._unsaid and own.get(name) == self._unsaid[name]]
            warn_of_unjudged(parts.trainer, parts.scorer, said, unsaid)
        warn_of_start(trained.history, parts.metric.name, self.warm_start)
        warn_of_limit(trained.history, parts.trainer, parts.metric.name)
        self.profile_ = None
        self.n_iter_ = max(len(trained.history.objective), 1)
        self._note_labels(y, offsets)
        self.__dict__.pop("stream_", None)

    def _told(self, parts: Parts, progress: Progress | None) -> dict[str, Any]:
        """What every training is told beside data and parts."""
        return {
            "metric": parts.metric,
            "checkpoint": self.checkpoint,
            "progress": progress,
            "warm_start": getattr(self, "scorer_", None) if self.warm_start else None,
            "seed": int(generator(self.random_state).integers(2**31)),
        }

    def _note_labels(self, y: FloatArray, offsets: IntArray) -> None:
        """What probabilities and metrics need of the training labels: the highest grade and the sizes of tiers."""
        self.max_grade_ = float(y.max())
        model = None if self.loss_ is None else self.loss_.likelihood
        self.sizes_ = model.fit_sizes(y, offsets) if isinstance(model, PartitionLikelihood) else None

    def _started(self, loss: Loss | None) -> Loss | None:
        """The loss to start with: in a warm start with the parameters that the last fit learned."""
        last = getattr(self, "loss_", None) if self.warm_start else None
        if loss is not None and last is not None and last.settings == loss.settings and last.name == loss.name:
            return loss.with_parameters(last.parameters)
        return loss
