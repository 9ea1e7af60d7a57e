"""Grades and what is stated beside them: one loss on both, or any loss on the grades and a choice on clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from luce.checks import number
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.statements import graded_rows
from luce.errors import DataError, SettingError
from luce.losses.base import Loss, Outputs, Risk
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.clicks import Clicks


class BothTargets(NamedTuple):
    """What is known: grades, one a row, and statements about pairs of rows."""

    labels: FloatArray
    comparisons: Comparisons


def says_something(labels: FloatArray) -> bool:
    """False for grades that are equal throughout: data that carry none have zeros."""
    return bool(np.any(labels != labels[0]))


class JudgedTarget(NamedTuple):
    """Lists as grades: the loss on them, their rows and weights, the first list of every query, and the boundaries."""

    inner: Risk
    rows: IntArray
    weights: FloatArray
    queries: IntArray
    offsets: IntArray


class OnLists(Loss):
    """A loss of grades on ordered lists: each is a query of its own, graded by position, and counts by its weight."""

    def __init__(self, loss: Loss) -> None:
        self.loss, self.name = loss, loss.name  # type: ignore[misc]

    @property
    def parameters(self) -> FloatArray:
        """Those of the loss."""
        return self.loss.parameters

    def prepare(self, target: Any, offsets: IntArray) -> JudgedTarget:
        """The lists, whose last tier has grade 1, the one before it 2, and so on, and what is below a top list 0."""
        if target.holds_pairs:
            raise SettingError(
                f"The loss {self.name!r} learns from rankings; the comparisons hold pairs: use 'ranknet' or 'davidson'."
            )
        found = graded_rows(target, offsets)
        bounds = np.searchsorted(found.queries, np.arange(len(offsets)))
        inner = Risk(self.loss, found.grades, found.offsets)
        return JudgedTarget(inner, found.rows, found.weights, bounds, offsets)

    def fill(self, prepared: JudgedTarget, scores: FloatArray, out: Outputs) -> None:
        """The sum over the lists of every query."""
        first, last = (int(prepared.queries[q]) for q in out.chunk)
        bounds, n = prepared.inner.offsets[first : last + 1], len(prepared.rows)
        here, own = slice(bounds[0], bounds[-1]), slice(*prepared.offsets[list(out.chunk)])
        found, grad, curvature = np.empty(n), np.empty(n), np.empty(n if len(out.curvature) else 0)
        rows, weight = prepared.rows[here], prepared.weights[first:last]
        found[here] = scores[rows]
        values, slopes = np.empty(0), np.empty((0, len(self.parameters)))
        if first < last:
            values, slopes = prepared.inner.chunk(
                found, (first, last), grad, curvature, own=out.d_parameters.size > 0, loss=self.loss
            )
        query = query_index(prepared.queries[out.chunk[0] : out.chunk[1] + 1] - first)
        out.values[:] = np.bincount(query, weight * values, len(out.values))
        for by_row, result in ((grad, out.grad), (curvature, out.curvature)):
            if len(result):
                times = np.repeat(weight, np.diff(bounds))
                result[own] = np.bincount(rows - own.start, times * by_row[here], own.stop - own.start)
        if out.d_parameters.size:
            out.d_parameters[:] = 0.0
            np.add.at(out.d_parameters, query, weight[:, None] * slopes)


class GradesAndComparisons(Loss):
    """`loss(grades) + weight * loss(comparisons)`, query by query.

    Where the grades say nothing only the comparisons count. A loss of grades takes lists as `OnLists`.
    """

    name = "joined"
    setting = "comparison_weight"
    """Of a ranker, where the weight comes from."""

    def __init__(self, loss: Loss, weight: float) -> None:
        self.loss, self.weight = loss, number(self.setting, weight, above=True)
        self.smooth = loss.smooth

    @property
    def stated(self) -> Loss:
        """The loss on what is stated beside the grades."""
        return self.loss if self.loss.takes_comparisons else OnLists(self.loss)

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

    def take(self, values: FloatArray) -> None:
        """Those of the shared loss."""
        self.loss = self.loss.with_parameters(values)

    def prepare(self, target: Any, offsets: IntArray) -> tuple[Any, Any, IntArray]:
        """Both targets, each as the loss wants it (no grades where they say nothing), and the query boundaries."""
        labels, comparisons = target
        graded = self.loss.prepare(labels, offsets) if says_something(labels) else None
        return graded, self.stated.prepare(comparisons, offsets), offsets

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


class GradesAndClicks(GradesAndComparisons):
    """`loss(grades) + weight * click_choice(clicks)`, query by query.

    The clicks are scaled so that a query has one (weighted) click in the mean: their weight and the penalty of the
    ranker mean the same whatever the size of the log. Grades that are equal throughout say nothing: then only the
    clicks count, and the loss must be `click_choice`.
    """

    name = "grades_and_clicks"

    setting = "clicks_weight"

    @property
    def stated(self) -> Loss:
        """The loss on the clicks."""
        from luce.losses.listwise import ClickChoice  # only those who have clicks need it

        return self.loss if isinstance(self.loss, ClickChoice) else ClickChoice()

    def prepare(self, target: Any, offsets: IntArray) -> tuple[Any, Any, IntArray]:
        """Both targets, each as its loss wants it (no grades where they say nothing), and the query boundaries."""
        graded, choices, _ = super().prepare(target, offsets)
        if graded is None and self.loss.name != "click_choice":
            raise SettingError(
                f"The loss {self.loss.name!r} learns from grades, and there are none beside the clicks; take "
                "'click_choice', or a loss over pairs on luce.clicks.pairs."
            )
        scale = (len(offsets) - 1) / choices.target.sum()
        return graded, choices._replace(target=choices.target * scale), offsets


def with_clicks(
    loss: Loss, data: Groups, clicks: Clicks, weight: float, others: Any, in_order: bool
) -> tuple[GradesAndClicks, tuple[FloatArray, Clicks]]:
    """The loss of a ranker that also learns from clicks, which may be in the order of the input, and its target."""
    from luce.data.clicks import Clicks

    if not isinstance(clicks, Clicks):
        raise DataError(
            f"clicks is a {type(clicks).__name__}; give luce.clicks.examination(counts, data).target(data), or Clicks."
        )
    if others is not None:
        raise SettingError("comparisons and clicks were both given; give one of them beside the grades.")
    if len(clicks.clicks) != data.n_rows:
        raise DataError(f"The data have {data.n_rows} rows and the clicks {len(clicks.clicks)}; give one a row.")
    return GradesAndClicks(loss, weight), (data.y, clicks if in_order else clicks.moved(data.row_order))
