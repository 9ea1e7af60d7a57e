"""The linear scorer: one weight a feature, on standardised features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from luce.data.blocks import Blocks, cut_blocks
from luce.data.groups import Groups
from luce.errors import DataError
from luce.numerics.rows import accumulate_rows, column_sums, score_rows
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.saved import Fitted, array
from luce.spec import Spec
from luce.types import Features, FloatArray, IntArray


@dataclass(frozen=True)
class Standardisation:
    """Mean and reciprocal standard deviation of every feature; the reciprocal is 0 where a feature is constant."""

    mean: FloatArray
    inverse_sd: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard deviations, 0 where a feature is constant."""
        return reciprocal(self.inverse_sd)

    def __call__(self, X: Features) -> FloatArray:
        """Standardised rows."""
        return (X - self.mean) * self.inverse_sd


def reciprocal(values: FloatArray, least: float | FloatArray = 0.0) -> FloatArray:
    """One over each value above `least`, 0 for the others.

    >>> reciprocal(np.array([2.0, 0.0])).tolist()
    [0.5, 0.0]
    """
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > least)


def refuse_gaps(bad: Any) -> None:
    """An error that names the first feature that is not finite, if there is one."""
    if bad.any():
        raise DataError(
            f"Feature {int(np.argmax(bad)) + 1} has NaN or infinite values; training needs finite ones: fill them in "
            "first."
        )


def standardise(X: Features) -> Standardisation:
    """Moments of the columns in one pass over X; NaN and infinity are refused.

    >>> s = standardise(np.array([[1, 5], [3, 5]], dtype=np.float32))
    >>> s.mean.tolist(), s.inverse_sd.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    rows = np.arange(len(X) + 1)
    return standardise_blocks(Groups(X, np.zeros(len(X)), rows, rows[1:]))


def standardise_blocks(data: Blocks) -> Standardisation:
    """The same over whole queries at a time, for data that need not be in memory."""
    cuts = cut_blocks(data.offsets, data.n_features)
    (shift,) = data.map(_first_row, cuts[:1])
    sums = np.zeros((2, len(shift)))
    with np.errstate(invalid="ignore", over="ignore"):
        for part in data.map(partial(_column_moments, shift=shift), cuts):  # in their order
            sums += part
        first_moment, second_moment = sums / data.n_rows
        variance = second_moment - first_moment**2
        mean = shift + first_moment
    refuse_gaps(~np.isfinite(variance))
    # Float32 carries 7 digits: a spread below that of the mean is rounding, not information.
    constant = variance <= (1e-7 * np.abs(mean)) ** 2
    return Standardisation(mean, reciprocal(np.sqrt(np.where(constant, 0.0, variance))))


def _first_row(X: Features, y: FloatArray) -> FloatArray:
    return np.asarray(X[0].astype(np.float64))


def _column_moments(X: Features, y: FloatArray, shift: FloatArray) -> FloatArray:
    total = np.zeros((2, len(shift)))
    column_sums(X, shift, total[0], total[1])
    return total


class OnStandardised(Spec):
    """A scorer on standardised features: bound to the moments of a training set, and started from zero."""

    scale = Standardisation(np.empty(0), np.empty(0))

    @property
    def n_parameters(self) -> int:
        """One weight a feature, where nothing else is said."""
        return len(self.scale.mean)

    def bind(self, data: Blocks) -> Self:
        """Take the moments of a training set."""
        return self._changed(scale=standardise_blocks(data))

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Zero: every ranking is equally probable."""
        return np.zeros(self.n_parameters)

    def parameter_units(self, score_unit: float) -> FloatArray:
        """How large a change of each parameter is one, where that of scores is `score_unit`."""
        return np.full(self.n_parameters, score_unit)


class LinearScorer(OnStandardised):
    r"""Scores $f(x) = w \cdot (x - \mu) / \sigma$, with the moments of the training set and no copy of X.

    The parameters are the weights $w$ of the standardised features, which the L2 penalty sees.
    """

    name = "linear"

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of rows."""
        weights = parameters * self.scale.inverse_sd
        scores = np.empty(len(X))
        score_rows(X, weights, scores)
        scores -= self.scale.mean @ weights
        return scores

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the weights."""
        total = np.zeros(self.n_parameters)
        accumulate_rows(X, d_scores, total)
        return np.asarray((total - self.scale.mean * d_scores.sum()) * self.scale.inverse_sd)

    def design(self, X: Features) -> Features:
        """What the scores of a block are linear in, one column a parameter: the standardised features."""
        Z: Features = X - self.scale.mean.astype(np.float32)
        Z *= self.scale.inverse_sd.astype(np.float32)
        return Z

    def fitted(self, parameters: FloatArray) -> FittedLinear:
        """Fold the standardisation into the weights."""
        weights = parameters * self.scale.inverse_sd
        return FittedLinear(weights, float(-self.scale.mean @ weights), self.scale.inverse_sd)

    def parameters_of(self, fitted: FittedLinear) -> FloatArray:
        """The weights of a fitted scorer on this scorer's standardised features, for a warm start."""
        return fitted.weights * self.scale.sd


class FittedLinear(Fitted):
    """`weights . x + intercept`, on features as they are in the data."""

    weights: FloatArray = array("features")
    intercept: float
    inverse_sd: FloatArray = array("features")
    """Reciprocal standard deviations of the training set: weights / inverse_sd is the effect of one deviation."""

    name = "linear"

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        scores = np.empty(len(X))

        def block(_: int, chunk: Chunk) -> None:
            rows = slice(offsets[chunk[0]], offsets[chunk[1]])
            score_rows(X[rows], self.weights, scores[rows])

        map_chunks(block, chunk_queries(offsets))
        scores += self.intercept
        return scores

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each feature on the score."""
        return self.weights * reciprocal(self.inverse_sd)
