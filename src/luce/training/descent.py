"""Stochastic gradient descent: plain, inside a set, and on a stream of queries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from luce.data.groups import Groups
from luce.errors import LuceWarning
from luce.losses.base import Loss
from luce.numerics.segments import Chunk, chunk_queries
from luce.scorers.linear import FittedLinear, LinearScorer, Standardisation, reciprocal, standardise
from luce.training.lbfgs import Feasible
from luce.training.objective import Objective
from luce.training.run import Step, Training
from luce.types import FloatArray

POWERS = {"constant": 0.0, "sqrt": 0.5, "inverse": 1.0}
"""By which power of its number a step falls, by schedule."""

_SHARE = 0.1
"""Length of a typical first step beside that of the parameters."""
_LOOKED_AT = 64
"""Batches whose gradients tell how long a typical one is."""


class Descent(Training):
    r"""Steps $w \leftarrow w - \eta_t g_t$, with $\eta_t = \eta$, $\eta/\sqrt{t}$ or $\eta/t$ by `schedule`.

    [PMOP] takes $\eta = 0.1$ and 1,000 iterations. A step sees `batch_queries` queries (None: all), as the trainer
    `sgd` has these settings. Draws and batches of iteration t depend on the seed and on t alone.
    """

    def __init__(self, trainer: Any, objective: Objective, start: FloatArray, seed: int) -> None:
        self.trainer, self.objective, self.start, self.seed = trainer, objective, start, seed

    def steps(self) -> Iterator[Step]:
        """A batch each."""
        objective, vector, power = self.objective, self.run.last, POWERS[self.trainer.schedule]
        bounds = None if objective.bounds is None else np.array(objective.bounds).T
        while True:
            t = self.run.iteration
            batch = _batch(objective.data.n_queries, self.trainer.batch_queries, self.seed, t)
            value, grad = objective.on_batch(batch, vector, objective.loss.reseeded(t))
            vector = vector - self.trainer.learning_rate / (t + 1) ** power * grad
            if bounds is not None:
                vector = np.clip(vector, *bounds)
            yield Step(vector, value)


def _batch(n_queries: int, size: int | None, seed: int, t: int) -> Chunk:
    """A run of neighbouring queries; every epoch passes over all runs in an order of its own."""
    if size is None or size >= n_queries:
        return 0, n_queries
    runs = -(-n_queries // size)
    epoch, position = divmod(t, runs)
    first = int(np.random.default_rng([seed, epoch]).permutation(runs)[position]) * size
    return first, min(first + size, n_queries)


class ProjectedDescent(Training):
    r"""Steps $\theta \leftarrow \Pi(\theta - \eta\, g_q)$, a few queries each; $\eta$ is halved after every epoch.

    An epoch that ends at a higher objective than it began with is undone, and the next one begins at the same place
    with half the step that was its turn: no step, however long, leaves the objective above its start. The first step is
    `learning_rate`, or (None) that of `first_step`. The queries of an epoch come in an order that depends on the seed
    and on the epoch alone; the run says how many epochs there are.

    `inside="shrinking"` is the rule of [StructRank] instead: no projection, but a step is halved until it is allowed,
    each by itself; and no epoch is undone. The settings are those of the trainer `projected`.
    """

    def __init__(
        self, trainer: Any, objective: Objective, feasible: Feasible, start: FloatArray, seed: int = 0
    ) -> None:
        self.objective, self.start, self.seed, self.learning_rate = objective, start, seed, trainer.learning_rate
        self.shrinking, self.feasible = trainer.inside == "shrinking", feasible
        n, batch_queries = objective.data.n_queries, trainer.batch_queries
        self.batches = [(first, min(first + batch_queries, n)) for first in range(0, n, batch_queries)]
        self.pace = np.zeros(2)
        """The next step, and the number of epochs that lowered the objective."""

    def begin(self) -> None:
        """The step of the checkpoint, or the first one."""
        if self.run.iteration:
            self.pace[:] = self.run.saved["pace"]
        else:
            self.pace[0] = self.learning_rate or first_step(self.objective, self.start, self.batches)

    def state(self) -> dict[str, FloatArray]:
        """The pace."""
        return {"pace": self.pace}

    def steps(self) -> Iterator[Step]:
        """An epoch each."""
        objective, run, pace = self.objective, self.run, self.pace
        vector = run.last
        value = run.history.objective[-1] if run.iteration else objective.value(vector)
        while True:
            order = np.random.default_rng([self.seed, run.iteration]).permutation(len(self.batches))
            loss = objective.loss.reseeded(run.iteration)
            moved = self._epoch(vector, [self.batches[i] for i in order.tolist()], loss)
            reached = np.nan if moved is None else objective.value(moved)
            pace[0] *= 0.5
            if moved is not None and (reached <= value or (self.shrinking and np.isfinite(reached))):
                vector, value = moved, reached
                pace[1] += 1
            else:
                pace[0] *= 0.5
            yield Step(vector, value)

    def _epoch(self, vector: FloatArray, batches: list[Chunk], loss: Loss) -> FloatArray | None:
        """One pass over the batches; None where it runs out of the numbers."""
        for batch in batches:
            with np.errstate(over="ignore", invalid="ignore"):
                change = -self.pace[0] * self.objective.on_batch(batch, vector, loss)[1]
            if not np.isfinite(vector + change).all():
                return None
            if self.shrinking:
                vector = self.feasible.shortened(vector, change)
            else:
                vector = self.feasible.nearest(vector + change)
        return vector

    def converged(self, ended: bool) -> bool:
        """Always; there is a warning where nothing was gained."""
        if self.run.max_iter > 0 and self.pace[1] == 0:
            what = "The projected trainer ended where it started: every epoch raised the objective and was undone; "
            if self.learning_rate is None:
                what += "give a small learning_rate, or take trainer='projected_lbfgs'."
            else:
                what += f"learning_rate={self.learning_rate:g} is too long a step: give less, or leave it out."
            warnings.warn(what, LuceWarning, stacklevel=3)
        return True


def first_step(objective: Objective, vector: FloatArray, batches: list[Chunk]) -> float:
    r"""The step at which a typical move is a tenth of the parameters' length, or of 1 where they are shorter.

    $\eta = 0.1 \max(\|\theta\|, 1) / \sqrt{\operatorname{mean} \|g_q\|^2}$, over some of the batches: gradients of one
    query are what a step is made of, and their lengths differ by the scorer and the loss in many powers of ten.
    """
    looked_at = batches[:: -(-len(batches) // _LOOKED_AT)]
    squares = [float(np.sum(objective.on_batch(batch, vector, objective.loss)[1] ** 2)) for batch in looked_at]
    typical = float(np.sqrt(np.mean(squares)))
    return _SHARE * max(float(np.linalg.norm(vector)), 1.0) / typical if typical > 0 else 1.0


@dataclass
class LinearStream:
    """State of a linear scorer that learns as queries arrive: one Adagrad step a mini-batch.

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
        return Standardisation(self.mean, reciprocal(deviation, 1e-7 * np.abs(self.mean)))

    def learn(self, data: Groups, loss: Loss) -> tuple[FittedLinear, Loss]:
        """One pass over the queries of `data` in their order; returns the scorer and the loss as they now are."""
        own = len(loss.parameters)
        if len(self.vector) < self.n_features + own:
            self.vector = np.concatenate([self.vector, loss.parameters])
            self.sum_squares = np.concatenate([self.sum_squares, np.zeros(own)])
        for first, last in chunk_queries(data.offsets, self.batch_rows):
            batch = data.take(np.arange(first, last))
            # Moments of new rows are joined by Chan's update of mean and sum of squares.
            new, total = standardise(batch.X), self.rows + batch.n_rows
            delta = new.mean - self.mean
            self.square += new.sd**2 * batch.n_rows + delta**2 * self.rows * batch.n_rows / total
            self.mean, self.rows = self.mean + delta * batch.n_rows / total, total
            scorer = LinearScorer()._changed(scale=self._scale())
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
        fitted = LinearScorer()._changed(scale=self._scale()).fitted(loss.score_unit * weights)
        return fitted, loss.with_parameters(own_values)
