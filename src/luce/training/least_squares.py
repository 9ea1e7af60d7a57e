"""Least squares: grades as a linear function of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from luce.checks import number
from luce.data.groups import Groups
from luce.numerics.segments import Chunk, chunk_queries, map_chunks, query_index
from luce.scorers.linear import FittedLinear, LinearScorer
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray

__all__ = ["LinearRegression"]

_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class LinearRegression(Algorithm):
    r"""A linear scorer by least squares: grades are the target, whatever the query.

    The minimum of $\frac{1}{2 \sum_i v_i} \sum_i v_i (y_i - b - w \cdot z_i)^2 + \frac{l2}{2} \|w\|^2$.

    $z$ are the standardised features and $v_i$ the weight of the document's query; solved in closed form. Where the
    features depend on each other and `l2` is 0, $w$ is the shortest solution.

    Parameters
    ----------
    l2
        Strength of the penalty.
    """

    l2: float = 1e-2

    name: ClassVar[str] = "linear_regression"

    def __post_init__(self) -> None:
        number("l2", self.l2)

    def train(self, task: Task) -> Trained:
        """In closed form."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        weight = np.ones(data.n_rows) if data.query_weight is None else data.query_weight[query_index(data.offsets)]
        weight = weight / weight.sum()
        moments = _moments(bound, data, weight)
        means, gram = moments[-1, :-2], moments[:-2, :-2]
        mean_y = moments[-1, -2]
        covariance = gram - np.outer(means, means)
        slope = moments[-2, :-2] - mean_y * means
        w = np.linalg.lstsq(covariance + self.l2 * np.eye(len(means)), slope, rcond=1e-10)[0]
        plain = bound.fitted(w)
        fitted = FittedLinear(plain.weights, float(plain.intercept + mean_y - means @ w), plain.inverse_sd)
        run = task.start_run(1, None, lambda _: task.judged_scorer(fitted))
        residual = moments[-2, -2] - mean_y**2 - 2 * w @ slope + w @ covariance @ w
        run.step(w, float(residual + self.l2 * w @ w) / 2)
        run.history.converged = True
        return Trained(fitted, None, run.history)


def _moments(bound: LinearScorer, data: Groups, weight: FloatArray) -> FloatArray:
    """The matrix of weighted mean products of standardised features, label and 1, block by block of rows."""
    scale = bound.scale

    def block(_: int, chunk: Chunk) -> FloatArray:
        rows = slice(data.offsets[chunk[0]], data.offsets[chunk[1]])
        Z = (data.X[rows] - scale.mean) * scale.inverse_sd
        Z = np.column_stack([Z, data.y[rows], np.ones(len(Z))])
        product: FloatArray = (Z * weight[rows, None]).T @ Z
        return product

    result: FloatArray = np.sum(map_chunks(block, chunk_queries(data.offsets, _BLOCK_ROWS)), axis=0)
    return result
