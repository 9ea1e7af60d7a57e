"""Validation data: judged by their grades or by lists, and what is said where they do not tell iterates apart."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.judged_lists import judged_lists
from luce.errors import DataError, LuceWarning, SettingError
from luce.metrics.catalog import Metric
from luce.training.run import History
from luce.types import IntArray

__all__ = ["judged_validation", "warn_of_start"]


def judged_validation(valid: Groups, lists: Comparisons | None, metric: Metric) -> tuple[Groups, IntArray | None]:
    """The queries that iterates are judged on; with lists, one a list, and the rows of `valid` that they hold.

    >>> import luce
    >>> valid = luce.from_arrays([[0.0]] * 3)
    >>> judged, rows = judged_validation(valid, Comparisons.from_orders([[2]], top=True), luce.metrics.get("mrr"))
    >>> judged.y.tolist(), rows.tolist()
    ([0.0, 0.0, 1.0], [0, 1, 2])
    """
    if lists is not None:
        found = judged_lists(valid, lists)
        return found.groups(valid), found.rows
    starts = valid.offsets[:-1]
    same = np.maximum.reduceat(valid.y, starts) == np.minimum.reduceat(valid.y, starts)
    if same.all() and not metric.formula.needs_subtopics:
        raise DataError(
            f"All labels of every query of the validation data are equal (in query {str(valid.query_ids[0])!r} all are "
            f"{valid.y[0]:g}), so that {metric.name} cannot tell one iterate from another; give grades, or lists as "
            "valid_comparisons (--valid-orders)."
        )
    return valid, None


def refuse_open_lists(lists: Comparisons, scorer: Any) -> None:
    """A scorer that sees whole queries cannot be judged on the documents of an open list alone."""
    if getattr(scorer, "needs_queries", False) and not lists.order_is_top.all():
        raise SettingError(
            "Validation lists that leave documents open cannot judge a scorer that looks at whole queries; give top lists."
        )


def warn_of_start(history: History, metric: str, went_on: bool) -> None:
    """Say it where nothing that was trained is better on the validation data than the start."""
    if history.best_iteration != 0 or len(history.validation) <= len(history.objective):
        return
    what = "the one it went on from" if went_on else "its start, which has learned nothing"
    warnings.warn(
        f"No iterate is better on the validation data than the start ({metric} {history.validation[0]:.4f}), so that the "
        f"model is {what}; see whether training and validation data agree, or take another metric.",
        LuceWarning,
        stacklevel=3,
    )
