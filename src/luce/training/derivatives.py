"""Gradient and curvature of a loss, document by document, in the form that engines of boosted trees want."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from luce.errors import LuceWarning, SettingError
from luce.losses.base import NOT_WANTED, Loss
from luce.losses.grades_and_statements import GradesAndComparisons, says_something
from luce.losses.pair_sums import PairwiseLoss
from luce.numerics.compiled import kernel
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.trees import OVER_PAIRS
from luce.types import FloatArray, IntArray

Single = NDArray[np.float32]


class Shared(NamedTuple):
    """Means over a whole data set, for its parts."""

    curvature: float
    row_weight: float = 1.0


class Derivatives:
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
        is the gradient of the whole risk ([Ties] Algorithm 1, step 3, in its two readings).
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
        self.loss, self.offsets, self._shared = loss, offsets, shared
        # A document without a pair has no say in an average of pairs, so that counts are not raised.
        self.floor = 0.0 if curvature in OVER_PAIRS else floor
        self.prepared = loss.prepare(target, offsets)
        n_rows = int(offsets[-1])
        self._weight = query_weight
        by_row = None if query_weight is None else np.repeat(query_weight, np.diff(offsets))
        mean_weight = 1.0 if by_row is None else float(by_row.mean()) if shared is None else shared.row_weight
        self._row_weight = None if by_row is None else by_row / mean_weight
        self.total_weight = float(len(offsets) - 1 if query_weight is None else query_weight.sum())
        self.chunks = chunk_queries(offsets)
        self._grad = np.empty(n_rows)
        self._fixed = _pair_counts(loss, target, offsets, curvature) if curvature in OVER_PAIRS else None
        self._occurrences = self._fixed if curvature == "risk" else None
        self._curvature = np.full(n_rows, np.nan) if self._fixed is None else self._fixed
        self._checked = self._fixed is not None
        self._single = np.empty((2, n_rows), dtype=np.float32)

    def value(self, scores: FloatArray) -> float:
        """Mean loss a query."""
        return self._run(scores, NOT_WANTED)

    def __call__(self, scores: FloatArray) -> tuple[float, Single, Single]:
        """Mean loss a query, gradients, and curvatures of mean 1; the arrays are used again by the next call."""
        value, blocks = self._both(scores)
        curvature = self._curvature
        mean = self._positive(blocks) / len(curvature) if self._shared is None else self._shared.curvature
        scale = mean if mean > 0 else 1.0

        def finish(_: int, rows: Chunk) -> None:
            cut = slice(*rows)
            single = self._single[:, cut]
            _finish(self._grad[cut], curvature[cut], self._weights(rows), scale, self.floor, single[0], single[1])

        map_chunks(finish, blocks)
        return value, self._single[0], self._single[1]

    def positive_curvature(self, scores: FloatArray) -> float:
        """The sum of all curvatures above 0, by which partitions of one data set find their common mean."""
        return self._positive(self._both(scores)[1])

    def _both(self, scores: FloatArray) -> tuple[float, list[Chunk]]:
        """Gradient and curvature into their buffers; returns the value, and the rows of each chunk."""
        value = self._run(scores, self._curvature if self._fixed is None else NOT_WANTED)
        if not self._checked:
            self._check_curvature()
        if self._occurrences is not None:
            self._grad *= self._occurrences
        return value, [(int(self.offsets[a]), int(self.offsets[b])) for a, b in self.chunks]

    def _positive(self, blocks: list[Chunk]) -> float:
        def positive(_: int, rows: Chunk) -> float:
            return float(_weighted_positive(self._curvature[slice(*rows)], self._weights(rows)))

        return sum(map_chunks(positive, blocks))

    def parameter_gradient(self, loss: Loss, scores: FloatArray) -> tuple[float, FloatArray]:
        """Mean loss a query and its gradient in the loss's own parameters."""
        slopes = np.zeros((len(self.offsets) - 1, len(loss.parameters)))

        def evaluate(_: int, chunk: Chunk) -> FloatArray:
            part = slopes[chunk[0] : chunk[1]]
            return loss.evaluate(self.prepared, scores, chunk, self._grad, NOT_WANTED, part)

        values = np.concatenate(map_chunks(evaluate, self.chunks))
        weight = np.ones(len(values)) if self._weight is None else self._weight
        return float(values @ weight) / self.total_weight, weight @ slopes / self.total_weight

    def _run(self, scores: FloatArray, curvature: FloatArray) -> float:
        def evaluate(_: int, chunk: Chunk) -> float:
            values = self.loss.evaluate(self.prepared, scores, chunk, self._grad, curvature)
            return float(values.sum() if self._weight is None else values @ self._weight[chunk[0] : chunk[1]])

        return sum(map_chunks(evaluate, self.chunks)) / self.total_weight

    def _weights(self, rows: Chunk) -> FloatArray:
        return NOT_WANTED if self._row_weight is None else self._row_weight[slice(*rows)]

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


def _pair_counts(loss: Loss, target: Any, offsets: IntArray, curvature: str) -> FloatArray:
    parts = [loss.loss, loss.stated] if isinstance(loss, GradesAndComparisons) else [loss]
    for part in parts:
        if not isinstance(part, PairwiseLoss):
            name = part.name
            raise SettingError(
                f"curvature={curvature!r} counts pairs, and {name!r} is no loss over pairs; use 'newton'."
            )
    pairwise = cast("PairwiseLoss", parts[0])
    if isinstance(loss, GradesAndComparisons):
        counts = loss.weight * pairwise.pair_counts(target.comparisons, offsets)
        return counts + pairwise.pair_counts(target.labels, offsets) if says_something(target.labels) else counts
    return pairwise.pair_counts(target, offsets)


@kernel
def _weighted_positive(curvature, weight):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(curvature)):
        if curvature[i] > 0.0:
            total += curvature[i] * (weight[i] if len(weight) else 1.0)
    return total


@kernel
def _finish(grad, curvature, weight, scale, floor, single_grad, single_curvature):  # type: ignore[no-untyped-def]
    for i in range(len(grad)):
        w = weight[i] if len(weight) else 1.0
        single_grad[i] = w * (grad[i] / scale)
        single_curvature[i] = w * max(curvature[i] / scale, floor)
