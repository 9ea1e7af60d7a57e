"""Grades and comparisons together: one loss on both kinds of target."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from luce.checks import number
from luce.data.comparisons import Comparisons
from luce.errors import SettingError
from luce.losses.base import Loss, Outputs
from luce.types import FloatArray, IntArray


class BothTargets(NamedTuple):
    """What is known: grades, one a row, and statements about pairs of rows."""

    labels: FloatArray
    comparisons: Comparisons


def says_something(labels: FloatArray) -> bool:
    """False for grades that are equal throughout: data that carry none have zeros."""
    return bool(np.any(labels != labels[0]))


class GradesAndComparisons(Loss):
    """`loss(grades) + weight * loss(comparisons)`, query by query.

    Where the grades say nothing only the comparisons count.
    """

    name = "joined"

    def __init__(self, loss: Loss, weight: float) -> None:
        if not loss.takes_comparisons:
            raise SettingError(f"The loss {loss.name!r} cannot use comparisons; 'ranknet' or 'davidson' can.")
        self.loss, self.weight = loss, number("comparison_weight", weight, above=True)
        self.smooth = loss.smooth

    @property
    def stated(self) -> Loss:
        """The loss on what is stated beside the grades."""
        return self.loss

    @property
    def settings(self) -> dict[str, Any]:
        """The loss that both targets share, and the weight of the comparisons."""
        return {"loss": repr(self.loss), "weight": self.weight}

    @property
    def parameters(self) -> FloatArray:
        """Those of the shared loss."""
        return self.loss.parameters

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Those of the shared loss."""
        return self.loss.parameter_bounds

    def with_parameters(self, values: FloatArray) -> Self:
        """The same with these values of the shared loss's parameters."""
        return type(self)(self.loss.with_parameters(values), self.weight)

    def prepare(self, target: Any, offsets: IntArray) -> tuple[Any, Any, IntArray]:
        """Both targets, each as the loss wants it (no grades where they say nothing), and the query boundaries."""
        labels, comparisons = target
        graded = self.loss.prepare(labels, offsets) if says_something(labels) else None
        return graded, self.loss.prepare(comparisons, offsets), offsets

    def fill(self, prepared: tuple[Any, Any, IntArray], scores: FloatArray, out: Outputs) -> None:
        """The sum of both parts; only the rows of the chunk are touched, other threads own the others."""
        graded, compared, offsets = prepared
        chunk, values, grad, curvature, d_parameters = out
        rows = slice(offsets[chunk[0]], offsets[chunk[1]])
        totals = (values, grad[rows], curvature[rows] if len(curvature) else curvature, d_parameters)
        self.stated.fill(compared, scores, out)
        for total in totals:
            total *= self.weight
        if graded is None:
            return
        part = (np.empty_like(values), np.empty_like(grad), np.empty_like(curvature), np.zeros_like(d_parameters))
        self.loss.fill(graded, scores, Outputs(chunk, *part))
        parts = (part[0], part[1][rows], part[2][rows] if len(curvature) else part[2], part[3])
        for total, other in zip(totals, parts, strict=True):
            total += other
