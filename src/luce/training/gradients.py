"""Trainers that follow gradients of a scorer's parameters: L-BFGS and stochastic descent."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from luce import losses
from luce.checks import is_whole, number, one_of, patience, whole
from luce.errors import SettingError
from luce.losses.base import Loss
from luce.registry import settings_of
from luce.scorers.linear import FittedLinear, LinearScorer
from luce.training.lbfgs import minimise
from luce.training.objective import Objective
from luce.training.run import History, TrainingRun, Validate
from luce.training.sgd import SCHEDULES, descend
from luce.training.task import Task, Trained, Trainer, data_digest, digest_of
from luce.types import FloatArray


@dataclass(frozen=True, eq=False)
class Search:
    """What is minimised, from where, and how iterates are judged and kept."""

    objective: Objective
    start: FloatArray
    task: Task
    validate: Validate
    """The metric of an iterate, where there are validation data."""
    fingerprint: dict[str, Any]
    """What a checkpoint must agree on."""
    warm: bool
    """True where the start is that of an earlier fit."""

    def begin(self, max_iter: int, early_stopping: int | None) -> TrainingRun:
        """The record of the search."""
        return self.task.start_run(max_iter, early_stopping, self.validate, lambda: self.fingerprint)


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
            return task.judged_scorer(bound.fitted(objective.split(vector)[0]))

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
        first = np.concatenate([start, objective.loss.parameters])
        vector, history = self.minimise(Search(objective, first, task, validate, fingerprint, warm is not None))
        parameters, learned = objective.split(vector)
        return Trained(bound.fitted(parameters), learned, history)

    @abstractmethod
    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """The parameters to keep, and what happened."""


def linear_base(task: Task, l2: float, max_iter: int, tol: float) -> FittedLinear:
    """A linear ranker by ListNet, for what reranks or starts from one and was given none."""
    trainer = LBFGS(l2=l2, max_iter=max_iter, tol=tol)
    alone: dict[str, Any] = {"base": None, "valid_base": None, "checkpoint": None, "target": None, "warm_start": None}
    plain = replace(task, scorer=LinearScorer(), loss=losses.get("listnet"), **alone)
    return cast(FittedLinear, trainer.train(plain).scorer)


_STEPS = 100
"""Of a descent that nobody said the end of."""
_ENDS = ("max_iter", "max_epochs", "tol", "early_stopping")
"""Settings that say when a training ends: it may be taken up again with others."""


def refuse_drawn(loss: Loss | None) -> None:
    """An error where the gradient of a loss is drawn, which leads L-BFGS astray."""
    if loss is not None and loss.stochastic:
        raise SettingError(f"The gradient of {loss.name!r} is sampled, which L-BFGS cannot use; take trainer='sgd'.")


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
        refuse_drawn(loss)

    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """L-BFGS from the start."""
        run = search.begin(self.max_iter, self.early_stopping)
        tol = self.tol * search.objective.loss.score_unit
        how: dict[str, Any] = {"precondition": self.precondition, "memory": self.memory}
        return minimise(search.objective, search.start, run, tol=tol, **how)


@dataclass(frozen=True)
class SGD(Gradients):
    """Stochastic gradient descent, for losses whose gradient is drawn.

    Parameters
    ----------
    l2
        Strength of the penalty.
    max_iter, max_epochs
        Steps, and passes over all queries, after which it ends; without either it ends after 100 steps.
    learning_rate, schedule
        The first step, and how steps go on: "constant", or falling as "sqrt" or "inverse".
    batch_queries
        Queries of a step; None: all.
    early_stopping
        With validation data, steps without a better metric that end it; None: never.
    """

    l2: float = 1e-2
    max_iter: int | None = None
    max_epochs: int | None = None
    learning_rate: float = 0.1
    schedule: str = "constant"
    batch_queries: int | None = None
    early_stopping: int | None = 20

    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        number("l2", self.l2)
        for name, least in (("max_iter", 0), ("max_epochs", 1), ("batch_queries", 1)):
            if getattr(self, name) is not None and not is_whole(getattr(self, name), least):
                raise SettingError(
                    f"{name} is {getattr(self, name)!r}; it must be None or a whole number of at least {least}."
                )
        number("learning_rate", self.learning_rate, above=True)
        one_of("schedule", self.schedule, SCHEDULES)
        patience(self.early_stopping)

    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """Steps from the start."""
        n_queries = search.objective.data.n_queries
        steps = _STEPS if self.max_iter is None and self.max_epochs is None else self.max_iter
        if self.max_epochs is not None:
            passes = self.max_epochs * -(-n_queries // min(self.batch_queries or n_queries, n_queries))
            steps = passes if steps is None else min(steps, passes)
        assert steps is not None
        return descend(
            search.objective,
            search.start,
            search.begin(steps, self.early_stopping),
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            batch_queries=self.batch_queries,
            seed=search.task.seed,
        )
