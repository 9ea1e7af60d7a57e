"""Gradient and curvature of a loss, document by document, in the form that engines of boosted trees want."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from luce.errors import LuceWarning, SettingError
from luce.losses.base import NOT_WANTED, Loss, Risk
from luce.losses.grades_and_statements import GradesAndComparisons, says_something
from luce.losses.pairs import PairLoss
from luce.scorers.trees import OVER_PAIRS
from luce.types import Features, FloatArray, IntArray

Single = Features


class Shared(NamedTuple):
    """Means over a whole data set, for its parts."""

    curvature: float
    row_weight: float = 1.0


class Derivatives(Risk):
    r"""Value, gradient and curvature of a loss on one data set, in buffers that are made once.

    A tree puts $-\beta \sum g / (\sum h + \lambda)$ into a leaf. Engines grow no split where curvatures $h$ are tiny or
    negative, so with $m$ the mean of $\max(h, 0)$ they are handed $g / m$ and $\max(h / m, \epsilon)$. One
    constant in both changes neither leaves nor the order of splits: it only makes $\lambda$ and the least sum of
    curvatures of a leaf count documents, whatever the loss.

    Parameters
    ----------
    curvature
        "newton": the second derivative, or that of a convex majoriser; "pairs": the number of pairs of a document, so
        that $-g / h$ is the mean gradient of its pairs; "risk": that number with the gradient times as many, so that it
        is the gradient of the whole risk; "documents": 1 for every document that has a pair, so that it is that
        gradient with every document once ([Ties] Algorithm 1, step 3, in its three readings).
    floor
        $\epsilon$ above.
    shared
        $m$ and the mean weight of a row where these data are a part of a larger set; None takes them from the data.
    """

    def __init__(
        self,
        loss: Loss,
        target: Any,
        offsets: IntArray,
        query_weight: FloatArray | None = None,
        *,
        curvature: str = "newton",
        floor: float = 1e-2,
        shared: Shared | None = None,
    ) -> None:
        super().__init__(loss, target, offsets, query_weight)
        self._shared = shared
        # A document without a pair has no say in an average of pairs, so that counts are not raised.
        self.floor = 0.0 if curvature in OVER_PAIRS else floor
        n_rows = int(offsets[-1])
        by_row = None if query_weight is None else np.repeat(query_weight, np.diff(offsets))
        mean_weight = 1.0 if by_row is None else float(by_row.mean()) if shared is None else shared.row_weight
        self._row_weight = None if by_row is None else by_row / mean_weight
        self._grad = np.empty(n_rows)
        self._fixed = _pair_counts(loss, target, offsets, curvature) if curvature in OVER_PAIRS else None
        self._occurrences = self._fixed if curvature == "risk" else None
        if curvature == "documents" and self._fixed is not None:
            self._fixed = np.sign(self._fixed)
        self._curvature = np.full(n_rows, np.nan) if self._fixed is None else self._fixed
        self._checked = self._fixed is not None
        self._single = np.empty((2, n_rows), dtype=np.float32)

    def value(self, scores: FloatArray) -> float:
        """Mean loss a query."""
        return float(self.mean(self.each(scores, self._grad)[0]))

    def __call__(self, scores: FloatArray) -> tuple[float, Single, Single]:  # type: ignore[override]  # as engines want
        """Mean loss a query, gradients, and curvatures of mean 1; the arrays are used again by the next call."""
        value = self._both(scores)
        mean = self._positive() / len(self._curvature) if self._shared is None else self._shared.curvature
        scale, weight = (mean if mean > 0 else 1.0), self._row_weight
        grad, curvature = self._grad / scale, np.maximum(self._curvature / scale, self.floor)
        self._single[0] = grad if weight is None else weight * grad
        self._single[1] = curvature if weight is None else weight * curvature
        return value, self._single[0], self._single[1]

    def positive_curvature(self, scores: FloatArray) -> float:
        """The sum of all curvatures above 0, by which partitions of one data set find their common mean."""
        self._both(scores)
        return self._positive()

    def _both(self, scores: FloatArray) -> float:
        """Gradient and curvature into their buffers; returns the value."""
        values, _ = self.each(scores, self._grad, self._curvature if self._fixed is None else NOT_WANTED)
        if not self._checked:
            self._check_curvature()
        if self._occurrences is not None:
            self._grad *= self._occurrences
        return float(self.mean(values))

    def _positive(self) -> float:
        positive = np.maximum(self._curvature, 0.0)
        return float(positive.sum() if self._row_weight is None else (positive * self._row_weight).sum())

    def _check_curvature(self) -> None:
        """A loss that leaves its curvature out, or has none anywhere, gets 1: trees on the plain gradient."""
        self._checked = True
        known = np.isfinite(self._curvature)
        if known.all() and (self._curvature > 0).any():
            return
        if known.all() and not self._grad.any():
            return
        self._curvature = self._fixed = np.ones(len(self._curvature))
        warnings.warn(
            f"The loss {self.loss.name!r} gives no curvature; trees take 1 for every document, the plain gradient.",
            LuceWarning,
            stacklevel=3,
        )


def _pair_counts(loss: Any, target: Any, offsets: IntArray, curvature: str) -> FloatArray:
    joined = isinstance(loss, GradesAndComparisons)
    for part in [loss.loss, loss.stated] if joined else [loss]:
        if not isinstance(part, PairLoss):
            raise SettingError(f"curvature={curvature!r} counts pairs, and {part.name!r} has none; use 'newton'.")
    if not joined:
        return np.asarray(loss.pair_counts(target, offsets))
    counts: FloatArray = loss.weight * loss.loss.pair_counts(target.comparisons, offsets)
    return counts + loss.loss.pair_counts(target.labels, offsets) if says_something(target.labels) else counts
