"""Trainers that follow gradients of a scorer's parameters: L-BFGS, stochastic descent, and both inside a set."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from luce import losses
from luce.checks import is_whole, number, patience, truth, whole
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.metrics.evaluate import evaluate_rows
from luce.registry import settings_of
from luce.scorers.linear import FittedLinear, LinearScorer
from luce.training.checkpoint import Checkpoints
from luce.training.lbfgs import minimise
from luce.training.objective import Objective
from luce.training.projected import KEPT, fit_projected
from luce.training.projected_descent import INSIDE, projected_descent
from luce.training.projection import Feasible
from luce.training.run import History, Validate
from luce.training.sgd import SCHEDULES, descend
from luce.training.task import Task, Trained, Trainer, data_digest, digest_of
from luce.types import FloatArray

__all__ = ["LBFGS", "SGD", "Gradients", "InBall", "Projected", "ProjectedLBFGS", "linear_base"]


class Gradients(Trainer):
    """Minimises the mean loss a query plus l2/2 ||w||^2 in the parameters of a scorer, and of the loss."""

    l2: float
    draws: ClassVar[bool] = True
    """Whether steps are drawn, so that a checkpoint goes with one seed."""

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a scorer without parameters, a missing loss, and what else the trainer cannot use."""
        if not (hasattr(scorer, "bind")):
            raise SettingError(
                f"The trainer {self.name!r} follows gradients of parameters, which the scorer {scorer.name!r} does not "
                f"give; leave trainer at 'auto'."
            )

    def train(self, task: Task) -> Trained:
        """Fit a differentiable scorer."""
        if task.base is not None:
            raise SettingError(
                "A base needs a scorer that stands on it: trees, listwise or greedy; "
                f"{task.scorer.name!r} stands alone."
            )
        bound = task.scorer.bind(task.data)
        objective = Objective(task.data, bound, task.given_loss, self.l2, task.target)
        problem = "" if task.checkpoint is None else data_digest(task.data) + digest_of(task.target)
        return self.search(bound, objective, task, problem)

    def search(self, bound: Any, objective: Objective, task: Task, problem: str) -> Trained:
        """Minimise an objective in the parameters of its scorer and loss; `problem` is a digest for checkpoints."""
        valid, metric = task.valid, task.metric

        def validate(vector: FloatArray) -> float:
            assert valid is not None
            fitted = bound.fitted(objective.split(vector)[0])
            return evaluate_rows(fitted.score(valid.X, valid.offsets), valid, [metric]).means[metric.name]

        warm = task.warm_start if task.warm_start is not None and task.warm_start.name == bound.name else None
        start = bound.initial(np.random.default_rng(task.seed)) if warm is None else bound.parameters_of(warm)
        start = start if warm is None else start / objective.units
        fingerprint = {
            "data": problem,
            "scorer": bound.name,
            "parameters": objective.n_parameters,
            "loss": repr(objective.loss),
            "start": digest_of(np.concatenate([start, objective.loss.parameters])),
            "trainer": [
                self.name,
                {key: value for key, value in settings_of(self).items() if key not in _ENDS},
                task.seed if self.draws else None,
            ],
            "validation": None if valid is None else [metric.name, data_digest(valid)],
        }
        vector, history = self.minimise(
            objective,
            np.concatenate([start, objective.loss.parameters]),
            task,
            None if valid is None else validate,
            fingerprint if task.checkpoint is not None else {},
            warm is not None,
        )
        parameters, learned = objective.split(vector)
        return Trained(bound.fitted(parameters), learned, history)

    @abstractmethod
    def minimise(
        self,
        objective: Objective,
        start: FloatArray,
        task: Task,
        validate: Validate | None,
        fingerprint: dict[str, Any],
        warm: bool,
    ) -> tuple[FloatArray, History]:
        """The parameters to keep, and what happened; `warm` where the start is that of an earlier fit."""


def linear_base(task: Task, l2: float, max_iter: int, tol: float) -> FittedLinear:
    """A linear ranker by ListNet, for what reranks or starts from one and was given none."""
    trainer = LBFGS(l2=l2, max_iter=max_iter, tol=tol)
    alone: dict[str, Any] = {"base": None, "valid_base": None, "checkpoint": None, "target": None, "warm_start": None}
    plain = replace(task, scorer=LinearScorer(), loss=losses.get("listnet"), **alone)
    return cast(FittedLinear, trainer.train(plain).scorer)


_ENDS = ("max_iter", "max_epochs", "tol", "early_stopping")
"""Settings that say when a training ends: it may be taken up again with others."""


def _shared(task: Task, validate: Validate | None, early_stopping: int | None, fingerprint: Any) -> dict[str, Any]:
    return {
        "validate": validate,
        "greater_is_better": task.metric.greater_is_better,
        "patience": early_stopping,
        "progress": task.progress,
        "checkpoints": None if task.checkpoint is None else Checkpoints(task.checkpoint, fingerprint),
    }


@dataclass(frozen=True)
class LBFGS(Gradients):
    """L-BFGS on all queries.

    Parameters
    ----------
    l2
        Strength of the penalty.
    max_iter, tol
        It ends after `max_iter` iterations, or when one lowers the objective by less than `tol`, relatively.
    early_stopping
        With validation data, iterations without a better metric that end it; None: never.
    precondition
        Whether the Hessian of the loss leads the way of a linear or second-order scorer; None: where it saves passes
        over the data and no validation data pick the iterate, which the slower way leaves more to choose from.
    memory
        Steps that are remembered; None: 20 with a Hessian, else 50, or 10 where validation data pick the iterate.
    """

    l2: float = 1e-2
    max_iter: int = 100
    tol: float = 1e-5
    early_stopping: int | None = 20
    precondition: bool | None = None
    memory: int | None = None

    name: ClassVar[str] = "lbfgs"
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number("l2", self.l2)
        whole("max_iter", self.max_iter, 0)
        number("tol", self.tol, above=True)
        patience(self.early_stopping)
        if not (self.precondition is None or isinstance(self.precondition, bool)):
            raise SettingError(f"precondition is {self.precondition!r}; it must be True, False or None.")
        if not (self.memory is None or is_whole(self.memory, 1)):
            raise SettingError(f"memory is {self.memory!r}; it must be None or a whole number of at least 1.")

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a loss whose gradient is drawn."""
        super().check(scorer, loss)
        if loss is not None and loss.stochastic:
            raise SettingError(
                f"The gradient of {loss.name!r} is sampled, which L-BFGS cannot use; take trainer='sgd'."
            )

    def minimise(
        self,
        objective: Objective,
        start: FloatArray,
        task: Task,
        validate: Validate | None,
        fingerprint: dict[str, Any],
        warm: bool,
    ) -> tuple[FloatArray, History]:
        """L-BFGS from the start."""
        shared = _shared(task, validate, self.early_stopping, fingerprint)
        tol = self.tol * objective.loss.score_unit
        how: dict[str, Any] = {"precondition": self.precondition, "memory": self.memory}
        return minimise(objective, start, max_iter=self.max_iter, tol=tol, **how, **shared)


@dataclass(frozen=True)
class SGD(Gradients):
    """Stochastic gradient descent, for losses whose gradient is drawn.

    Parameters
    ----------
    l2
        Strength of the penalty.
    max_iter, max_epochs
        Steps, or passes over all queries instead where they are given.
    learning_rate, schedule
        The first step, and how steps go on: "constant", or falling as "sqrt" or "inverse".
    batch_queries
        Queries of a step; None: all.
    early_stopping
        With validation data, steps without a better metric that end it; None: never.
    """

    l2: float = 1e-2
    max_iter: int = 100
    max_epochs: int | None = None
    learning_rate: float = 0.1
    schedule: str = "constant"
    batch_queries: int | None = None
    early_stopping: int | None = 20

    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        number("l2", self.l2)
        whole("max_iter", self.max_iter, 0)
        _check_steps({"max_epochs": self.max_epochs, "batch_queries": self.batch_queries})
        number("learning_rate", self.learning_rate, above=True)
        if self.schedule not in SCHEDULES:
            raise SettingError(f"schedule is {self.schedule!r}; it must be one of {', '.join(SCHEDULES)}.")
        patience(self.early_stopping)

    def minimise(
        self,
        objective: Objective,
        start: FloatArray,
        task: Task,
        validate: Validate | None,
        fingerprint: dict[str, Any],
        warm: bool,
    ) -> tuple[FloatArray, History]:
        """Steps from the start."""
        steps = self.max_iter
        if self.max_epochs is not None:
            n_queries = objective.data.n_queries
            steps = self.max_epochs * -(-n_queries // min(self.batch_queries or n_queries, n_queries))
        return descend(
            objective,
            start,
            max_iter=steps,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            batch_queries=self.batch_queries,
            seed=task.seed,
            **_shared(task, validate, self.early_stopping, fingerprint),
        )


def _check_steps(counts: dict[str, Any]) -> None:
    for name, value in counts.items():
        if not (value is None or is_whole(value, 1)):
            raise SettingError(f"{name} is {value!r}; it must be None or a whole number of at least 1.")


@dataclass(frozen=True)
class InBall(Gradients):
    """What the trainers share that keep the parameters in an L1 ball.

    Parameters
    ----------
    radius
        Bound t of the L1 norm of the scorer's parameters and the loss's weights; None for no bound.
    starts
        Random starts, of which the best on validation (without validation data, in the objective) is kept.
    nonnegative
        Whether the scorer's parameters stay at 0 or above; None leaves it to the scorer.
    keep
        With validation data, the iterate of a start that is kept: "best", that with the best metric, the start itself
        included; or "last", as [StructRank] does, so that validation judges whole trainings alone.
    l2
        Strength of the penalty.
    early_stopping
        With validation data, iterations without a better metric that end it; None: never.
    """

    radius: float | None = None
    starts: int = 1
    nonnegative: bool | None = None
    keep: str = "best"
    l2: float = 1e-2
    early_stopping: int | None = 20

    def __post_init__(self) -> None:
        number("l2", self.l2)
        if self.radius is not None:
            number("radius", self.radius, above=True)
        whole("starts", self.starts, 1)
        if self.nonnegative is not None:
            truth("nonnegative", self.nonnegative)
        if self.keep not in KEPT:
            raise SettingError(f"keep is {self.keep!r}; it must be one of {', '.join(KEPT)}.")
        patience(self.early_stopping)

    def minimise(
        self,
        objective: Objective,
        start: FloatArray,
        task: Task,
        validate: Validate | None,
        fingerprint: dict[str, Any],
        warm: bool,
    ) -> tuple[FloatArray, History]:
        """The best of several starts."""
        return fit_projected(self, objective, start if warm else None, task, validate, fingerprint)

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """A start as the trainer may take it."""
        return feasible.nearest(start)

    @abstractmethod
    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, shared: dict[str, Any]
    ) -> tuple[FloatArray, History]:
        """One start."""


@dataclass(frozen=True)
class Projected(InBall):
    """Stochastic gradient, a query at a time, projected onto the ball after each step.

    The step is halved after each epoch, and once more after one that raises the objective, which is undone.

    Parameters
    ----------
    radius, starts, nonnegative, keep, l2, early_stopping
        As for every trainer in a ball.
    max_epochs
        Passes over the queries.
    learning_rate
        The first step; None: one that fits the gradients at the start.
    batch_queries
        Queries of a step.
    inside
        What is done with a step that would leave the set: "projection"; or "shrinking", halving it until it is allowed,
        as [StructRank] does, where no epoch is undone.
    """

    max_epochs: int = 10
    learning_rate: float | None = None
    batch_queries: int = 1
    inside: str = "projection"

    name: ClassVar[str] = "projected"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("max_epochs", self.max_epochs, 1)
        whole("batch_queries", self.batch_queries, 1)
        if self.learning_rate is not None:
            number("learning_rate", self.learning_rate, above=True)
        if self.inside not in INSIDE:
            raise SettingError(f"inside is {self.inside!r}; it must be one of {', '.join(INSIDE)}.")

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """With room to move, where a step is not projected."""
        return feasible.within(start) if self.inside == "shrinking" else feasible.nearest(start)

    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, shared: dict[str, Any]
    ) -> tuple[FloatArray, History]:
        """One start."""
        names = ("learning_rate", "batch_queries", "inside")
        steps: dict[str, Any] = {name: getattr(self, name) for name in names}
        return projected_descent(objective, feasible, start, epochs=self.max_epochs, seed=seed, **steps, **shared)


@dataclass(frozen=True)
class ProjectedLBFGS(InBall):
    """L-BFGS on all queries, projected onto the ball.

    Parameters
    ----------
    radius, starts, nonnegative, keep, l2, early_stopping
        As for every trainer in a ball.
    max_iter, tol
        It ends after `max_iter` iterations, or when one lowers the objective by less than `tol`, relatively.
    """

    max_iter: int = 100
    tol: float = 1e-5

    name: ClassVar[str] = "projected_lbfgs"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("max_iter", self.max_iter, 0)
        number("tol", self.tol, above=True)

    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, shared: dict[str, Any]
    ) -> tuple[FloatArray, History]:
        """One start."""
        return minimise(objective, start, feasible=feasible, max_iter=self.max_iter, tol=self.tol, **shared)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a loss whose gradient is drawn."""
        super().check(scorer, loss)
        if loss is not None and loss.stochastic:
            raise SettingError(
                f"The gradient of {loss.name!r} is sampled, which L-BFGS cannot use; take trainer='sgd'."
            )
