"""Grades and clicks together: any loss on the grades, the choice loss on the clicks."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from luce.checks import number
from luce.data.clicks import Clicks
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.losses.base import Loss
from luce.losses.click_choice import ClickChoice
from luce.losses.grades_and_comparisons import GradesAndComparisons
from luce.types import FloatArray, IntArray


class Labelled(NamedTuple):
    """What is known: grades, one a row, and clicks."""

    labels: FloatArray
    clicks: Clicks


class GradesAndClicks(GradesAndComparisons):
    """`loss(grades) + weight * click_choice(clicks)`, query by query.

    The clicks are scaled so that a query has one (weighted) click in the mean: their weight and the penalty of the
    ranker mean the same whatever the size of the log. Grades that are equal throughout say nothing: then only the
    clicks count, and the loss must be `click_choice`.
    """

    name = "grades_and_clicks"

    def __init__(self, loss: Loss, weight: float) -> None:
        self.loss, self.weight = loss, number("clicks_weight", weight, above=True)
        self.smooth = loss.smooth
        self._choice = loss if isinstance(loss, ClickChoice) else ClickChoice()

    @property
    def stated(self) -> Loss:
        """The loss on the clicks."""
        return self._choice

    def with_parameters(self, values: FloatArray) -> Self:
        """The same with these values of the parameters of the loss on grades."""
        return type(self)(self.loss.with_parameters(values), self.weight)

    def prepare(self, target: Any, offsets: IntArray) -> tuple[Any, Any, IntArray]:
        """Both targets, each as its loss wants it (no grades where they say nothing), and the query boundaries."""
        labels, clicks = target
        graded = None
        if np.any(labels != labels[0]):
            graded = self.loss.prepare(labels, offsets)
        elif not isinstance(self.loss, ClickChoice):
            raise SettingError(
                f"The loss {self.loss.name!r} learns from grades, and there are none beside the clicks; take "
                "'click_choice', or a loss over pairs on luce.clicks.pairs."
            )
        choices = self._choice.prepare(clicks, offsets)
        scale = (len(offsets) - 1) / choices.chosen.sum()
        return graded, choices._replace(chosen=choices.chosen * scale), offsets


def with_clicks(
    loss: Loss, data: Groups, clicks: Clicks, weight: float, others: Any, in_order: bool
) -> tuple[GradesAndClicks, Labelled]:
    """The loss and the target of a ranker that also learns from clicks, which may be in the order of the input."""
    if not isinstance(clicks, Clicks):
        raise DataError(
            f"clicks is a {type(clicks).__name__}; give luce.clicks.examination(counts, data).target(data), or Clicks."
        )
    if others is not None:
        raise SettingError("comparisons and clicks were both given; give one of them beside the grades.")
    if len(clicks.clicks) != data.n_rows:
        raise DataError(f"The data have {data.n_rows} rows and the clicks {len(clicks.clicks)}; give one a row.")
    return GradesAndClicks(loss, weight), Labelled(data.y, clicks if in_order else clicks.moved(data.row_order))
