"""Validation data: judged by their grades or by lists, and what is said where they do not tell iterates apart."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.judged_lists import judged_lists
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Likelihood, Loss, Target
from luce.metrics.catalog import Formula, Metric
from luce.numerics.segments import differing
from luce.training.run import History
from luce.types import FloatArray, IntArray

_LATE = 0.9
"""Share of the rounds after which a best one is near the limit."""


class HeldOut(NamedTuple):
    """The queries that iterates are judged on, by which metric, and which rows of the validation data they hold."""

    data: Groups
    metric: Metric
    rows: IntArray | None = None
    """None: all of them, in their order."""


def held_out(valid: Groups, lists: Comparisons | None, metric: Metric, scorer: Any, loss: Loss | None) -> HeldOut:
    """What judges the iterates of a training: the grades of `valid`, or lists of its rows, each a query of its own.

    The metric `log_likelihood` is that of the loss.

    >>> import luce
    >>> valid, lists = luce.from_arrays([[0.0]] * 3), Comparisons.from_orders([[2]], top=True)
    >>> found = held_out(valid, lists, luce.metrics.get("mrr"), None, None)
    >>> found.data.y.tolist(), found.rows.tolist()
    ([0.0, 0.0, 1.0], [0, 1, 2])
    """
    if metric.name == "log_likelihood":
        metric = _likelihood(loss, lists is not None)
    if lists is None:
        refuse_equal_labels(valid, metric)
        return HeldOut(valid, metric)
    if getattr(scorer, "needs_queries", False) and not lists.order_is_top.all():
        raise SettingError(
            "Validation lists that leave documents open cannot judge a scorer that looks at whole queries; give top "
            "lists."
        )
    judged = judged_lists(valid, lists)
    return HeldOut(judged.groups(valid), metric, judged.rows)


def refuse_equal_labels(valid: Groups, metric: Metric) -> None:
    """An error where the labels of every query are all equal, so that a metric of grades is blind."""
    if not differing(valid.y, valid.offsets).any() and not metric.formula.needs_subtopics:
        raise DataError(
            "All labels of every query of the validation data are equal (those of query "
            f"{str(valid.query_ids[0])!r} are {valid.y[0]:g}), so that {metric.name} cannot tell one iterate from "
            "another; give grades, or lists as valid_comparisons (--valid-orders)."
        )


def _likelihood(loss: Loss | None, on_lists: bool) -> Metric:
    """Log-probability of the outcome of a query under the loss, as a metric of scores and labels."""
    if not isinstance(loss, Likelihood):
        what = "this ranker has no loss" if loss is None else f"{loss.name!r} is none"
        raise SettingError(f"The metric 'log_likelihood' needs a loss that is a likelihood, and {what}; 'pmop' is one.")
    as_list = on_lists and loss.takes_comparisons

    def log_prob(scores: FloatArray, labels: FloatArray) -> float:
        target: Target = _top_list(labels) if as_list else labels
        return loss.log_prob(scores, target)

    return Metric("log_likelihood", Formula(None, function=log_prob))


def _top_list(grades: FloatArray) -> Comparisons:
    """The list that the grades of one query are the positions of; what it leaves out has grade 0."""
    order = np.argsort(-grades, kind="stable")
    listed = order[grades[order] > 0]
    tied = np.append(False, np.diff(grades[listed]) == 0)
    return Comparisons(
        order_rows=listed,
        order_offsets=np.array([0, len(listed)]),
        order_is_top=np.ones(1, dtype=bool),
        order_tied=tied,
    )


def warn_of_limit(history: History, trainer: Any, metric: str) -> None:
    """Say it where a training that would stop by itself was best just before the most rounds that it may have."""
    most, best = getattr(trainer, "max_iter", None), history.best_iteration
    if getattr(trainer, "early_stopping", None) is None or most is None or best is None:
        return
    if len(history.objective) >= most and best > _LATE * most:
        warnings.warn(
            f"The {metric} on the validation data was best after {best:,} of at most {most:,} rounds, and may rise "
            "further; raise max_iter.",
            LuceWarning,
            stacklevel=4,
        )


def warn_of_start(history: History, metric: str, went_on: bool) -> None:
    """Say it where nothing that was trained is better on the validation data than the start."""
    if history.best_iteration != 0 or len(history.validation) <= len(history.objective):
        return
    what = "the one that it went on from" if went_on else "its start, which has learned nothing"
    warnings.warn(
        f"No iterate is better on the validation data than the start ({metric} {history.validation[0]:.4f}), so that "
        f"the model is {what}; see whether training and validation data agree, or take another metric.",
        LuceWarning,
        stacklevel=4,
    )
