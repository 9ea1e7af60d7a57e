"""One additive model: a gradient, a weak learner, a step, and the sum goes on; trainers differ in these alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from luce.data.groups import Groups
from luce.errors import LuceWarning
from luce.losses.base import Loss
from luce.training.run import Training, scipy_minimum
from luce.training.task import Task, Trained, Trainer
from luce.types import FloatArray

CHECKPOINT_EVERY = 10
"""Rounds between two checkpoints."""
FRUITLESS = 20
"""Rounds in a row without a step after which boosting ends where rounds differ by what they draw."""

Gradients = Callable[[Loss], tuple[float, FloatArray, FloatArray]]
"""Mean loss a query and its gradients in the scores and in the loss's own parameters, at the present scores."""


class Additive(Training):
    r"""A sum $F = F_0 + \sum_t \alpha_t h_t$ in training; $F_0$ is a base or an earlier fit.

    An iterate is what the loss learned of its own (a tie parameter). With validation data the rounds up to the best
    value of the metric are kept, with the parameters of that round.
    """

    every = CHECKPOINT_EVERY

    def __init__(self, trainer: Trainer, task: Task, ensemble: Any) -> None:
        self.trainer, self.task = trainer, task
        self.data, self.valid, self.loss = task.data, task.valid, task.loss
        self.sum: Any = ensemble
        self.valid_scores = np.empty(0)
        if self.valid is not None:
            self.valid_scores = self.first_scores(self.valid, task.valid_base)
        self.start = self.parameters

    @property
    def parameters(self) -> FloatArray:
        """The loss's own, none where there is no loss."""
        return np.empty(0) if self.loss is None else self.loss.parameters

    def with_loss(self, loss: Loss) -> None:
        """Go on with this loss."""
        self.loss = loss

    def first_scores(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Scores before the first round."""
        scores: FloatArray = self.sum.fitted().score(data.X, data.offsets)
        return scores if base is None else scores + base

    def open(self, max_iter: int, patience: int | None) -> Self:
        """The training before its first round, or that after the last checkpoint."""
        return self.opened(self.task.start_run(max_iter, patience, self.judged, self.fingerprint, every=self.every))

    def judged(self, _: FloatArray) -> float:
        """The metric of the present sum on the validation data."""
        return self.task.judged(self.valid_scores)

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        return self.task.fingerprint(self.trainer, list(self.sum.fitted().state()[1].values()))

    def begin(self) -> None:
        """Take up the sum and the parameters of the checkpoint."""
        if self.run.saved:
            self.sum.restore(self.run.saved)
            self.valid_scores = self.run.saved["valid_scores"]
        if self.loss is not None:
            self.with_loss(self.loss.with_parameters(self.run.last))

    def state(self) -> dict[str, Any]:
        """The sum, and the scores of the validation data."""
        return {**self.sum.arrays(), "valid_scores": self.valid_scores}

    def reestimate(self, gradients: Gradients, unit: float = 1.0) -> None:
        """A few steps of L-BFGS on the loss's own parameters at the present scores; `unit` is the size of the loss."""
        loss = self.loss
        assert loss is not None

        def objective(values: FloatArray) -> tuple[float, FloatArray]:
            value, _, slope = gradients(loss.with_parameters(values))
            return value / unit, slope / unit

        found = scipy_minimum(objective, loss.parameters, loss.parameter_bounds, maxiter=10)
        self.with_loss(loss.with_parameters(found.x))

    @property
    def kept(self) -> int | None:
        """Rounds that are kept; None: all."""
        return None if self.run.best is None else self.run.history.best_iteration

    def trained(self) -> Trained:
        """The rounds to keep, and the loss with the parameters of that round."""
        loss = None if self.loss is None else self.loss.with_parameters(self.run.result)
        return Trained(self.sum.fitted(self.kept), loss, self.run.history)


class ByRounds(Additive):
    """An additive model whose scores are here, and which takes one weak learner after the other."""

    def __init__(self, trainer: Trainer, task: Task, ensemble: Any) -> None:
        super().__init__(trainer, task, ensemble)
        self.scores = self.first_scores(self.data, task.base)

    def begin(self) -> None:
        """Take up the scores, too."""
        super().begin()
        self.scores = self.run.saved.get("scores", self.scores)

    def state(self) -> dict[str, Any]:
        """The scores, too."""
        return {**super().state(), "scores": self.scores}

    def converged(self, ended: bool) -> bool:
        """Always: it had its rounds, or none could follow."""
        return True

    def add(self, h: FloatArray, alpha: float) -> None:
        """Add the weak learner that was chosen last, h on the training rows, with this weight."""
        self.sum.add(alpha)
        self.scores = self.scores + alpha * h
        if self.valid is not None:
            self.valid_scores = self.valid_scores + alpha * self.sum.values(self.valid.X)


def warn_of_no_split(number: int, least: str) -> None:
    """Say that a tree found no split."""
    warnings.warn(
        f"Tree {number} found no split (constant features, labels that say nothing, or fewer {least}",
        LuceWarning,
        stacklevel=8,
    )
