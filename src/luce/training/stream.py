"""Learning from a stream of queries: one Adagrad step a mini-batch, with running moments of the features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from luce.data.groups import Groups
from luce.losses.base import Loss
from luce.numerics.segments import chunk_queries
from luce.scorers.linear import FittedLinear, LinearScorer, Standardisation, standardise
from luce.training.objective import Objective
from luce.types import FloatArray


@dataclass
class LinearStream:
    """State of a linear scorer that learns as queries arrive.

    Moments of the features are kept over all rows seen so far; weights live on the standardised scale. A mini-batch of
    about `batch_rows` rows gives one step of Adagrad, `w -= rate * g / sqrt(sum of g^2)`.
    """

    n_features: int
    l2: float
    rate: float = 0.1
    batch_rows: int = 512
    rows: int = 0
    mean: FloatArray = field(init=False)
    square: FloatArray = field(init=False)
    vector: FloatArray = field(init=False)
    sum_squares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.mean = np.zeros(self.n_features)
        self.square = np.zeros(self.n_features)
        self.vector = np.zeros(self.n_features)
        self.sum_squares = np.zeros(self.n_features)

    def _scale(self) -> Standardisation:
        deviation = np.sqrt(self.square / max(self.rows, 1))
        constant = deviation <= 1e-7 * np.abs(self.mean)
        return Standardisation(self.mean, np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation)))

    def _see(self, data: Groups) -> None:
        """Join the moments of new rows (Chan's update of mean and sum of squares)."""
        new = standardise(data.X)
        deviation = np.where(new.inverse_sd > 0, 1.0 / np.where(new.inverse_sd > 0, new.inverse_sd, 1.0), 0.0)
        total = self.rows + data.n_rows
        delta = new.mean - self.mean
        self.square += deviation**2 * data.n_rows + delta**2 * self.rows * data.n_rows / total
        self.mean = self.mean + delta * data.n_rows / total
        self.rows = total

    def learn(self, data: Groups, loss: Loss) -> tuple[FittedLinear, Loss]:
        """One pass over the queries of `data` in their order; returns the scorer and the loss as they now are."""
        own = len(loss.parameters)
        if len(self.vector) < self.n_features + own:
            self.vector = np.concatenate([self.vector, loss.parameters])
            self.sum_squares = np.concatenate([self.sum_squares, np.zeros(own)])
        for first, last in chunk_queries(data.offsets, self.batch_rows):
            batch = data.take(np.arange(first, last))
            self._see(batch)
            scorer = LinearScorer().with_scale(self._scale())
            objective = Objective(batch, scorer, loss, self.l2)
            _, grad = objective.value_and_grad(self.vector)
            self.sum_squares += grad**2
            moving = self.sum_squares > 0
            step = self.rate * grad[moving] / np.sqrt(self.sum_squares[moving])
            self.vector[moving] -= step
            if objective.bounds is not None:
                low, high = np.array(objective.bounds).T
                self.vector = np.clip(self.vector, low, high)
        weights, own_values = np.split(self.vector, [self.n_features])
        fitted = LinearScorer().with_scale(self._scale()).fitted(loss.score_unit * weights)
        return fitted, loss.with_parameters(own_values)
