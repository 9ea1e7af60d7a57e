"""From a task to what was trained: the trainer's work, and what it is given in place of grades."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from luce.data.groups import Groups
from luce.data.judged_lists import position_grades
from luce.display import progress_bar
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.function_loss import warn_of_gradient
from luce.losses.grades_and_comparisons import BothTargets
from luce.ranker.parts import Parts
from luce.training.best_surrogate import train_best
from luce.training.run import History
from luce.training.task import Task, Trained
from luce.types import Progress

__all__ = ["check_grades", "trained_by", "watched", "with_list_grades"]


@contextmanager
def watched(parts: Parts, callbacks: Sequence[Progress | None], verbose: bool) -> Iterator[Progress | None]:
    """One function that tells all that listen, a bar among them where it is wanted; True of any ends the training."""
    listening = [each for each in callbacks if each is not None]

    def tell(step: int, total: int | None, info: Mapping[str, float]) -> bool:
        answers = [each(step, total, info) for each in listening]
        return True in answers

    if not verbose:
        yield tell if listening else None
        return
    with progress_bar(parts.title, {"validation": parts.metric.name}) as bar:
        listening.append(bar)
        yield tell


def check_grades(data: Groups, parts: Parts) -> None:
    """Refuse data without labels, and say it where labels have nothing to learn from."""
    if not data.labelled:
        raise DataError(
            "The data have no column of labels, so that there is nothing to learn from; name it by label=, --label, or "
            "give comparisons or clicks."
        )
    low, high = (each.reduceat(data.y, data.offsets[:-1]) for each in (np.minimum, np.maximum))
    alike = (low == high).all() if parts.loss is not None else np.ptp(data.y) == 0
    if alike and data.n_rows > 1:
        what = "All labels are equal" if np.ptp(data.y) == 0 else "No query has two documents of different labels"
        warnings.warn(
            f"{what}, so that no order can be learned from them; check the labels and the query ids.",
            LuceWarning,
            stacklevel=4,
        )
    if parts.loss is not None:
        warn_of_gradient(parts.loss, data.y, data.offsets)


def with_list_grades(task: Task) -> Task:
    """For scorers that look at grades: positions in lists, where there are lists and no grades that differ."""
    data, target = task.data, task.target
    if not isinstance(target, BothTargets) or not target.comparisons.n_orders or np.ptp(data.y) > 0:
        return task
    return replace(task, data=replace(data, y=position_grades(target.comparisons, data.offsets)))


def trained_by(parts: Parts, task: Task) -> Trained:
    """What the trainer of these parts makes of a task."""
    if getattr(task.loss, "chooses_alpha", False):
        return train_best(parts.trainer, task)
    found = parts.trainer.train(task)
    if isinstance(found, Trained):
        return found
    if not hasattr(found, "score"):
        raise SettingError(
            f"The trainer {parts.trainer.name!r} gave {type(found).__name__}; it must give a fitted scorer, "
            "which has a method score, or Trained."
        )
    return Trained(found, task.loss, History())
