"""Trainers that follow gradients of a scorer's parameters: L-BFGS and stochastic descent, each also inside a set."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from luce import losses
from luce.checks import heard
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss
from luce.scorers.linear import FittedLinear, LinearScorer
from luce.spec import Range, option
from luce.training.descent import Descent, ProjectedDescent
from luce.training.held_out import warn_of_chosen_penalty
from luce.training.lbfgs import Feasible, lbfgs
from luce.training.objective import Objective
from luce.training.run import History, Training, Validate, best_validation
from luce.training.task import L2, Task, Trained, Trainer
from luce.types import FloatArray


class Search(NamedTuple):
    """What is minimised, from where, and how iterates are judged."""

    objective: Objective
    start: FloatArray
    task: Task
    validate: Validate | None
    """The metric of an iterate, where there are validation data."""
    warm: bool
    """True where the start is that of an earlier fit."""


class Gradients(Trainer):
    """Minimises the mean loss a query plus l2/2 ||w||^2 in the parameters of a scorer, and of the loss.

    Parameters
    ----------
    l2
        Strength of the penalty.
    early_stopping
        With validation data, steps (iterations or epochs) without a better metric that end it; None: never.
    """

    l2: float = option(default=0.01, least=0)
    early_stopping: int | None = option(default=20, least=1)

    refuses: ClassVar[tuple[str, ...]] = ("base",)
    draws: ClassVar[bool] = True
    """Whether steps are drawn, so that a checkpoint goes with one seed."""

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a scorer without parameters, and a loss whose gradient the trainer cannot use."""
        if not (hasattr(scorer, "bind")):
            raise SettingError(
                f"The trainer {self.name!r} follows gradients of parameters, which the scorer {scorer.name!r} does not "
                f"give; leave trainer at 'auto'."
            )
        super().check(scorer, loss)

    def train(self, task: Task) -> Trained:
        """Fit a differentiable scorer."""
        self.check_task(task)
        bound = task.scorer.bind(task.data)
        return self.search(bound, Objective(task.data, bound, task.given_loss, self.l2, task.target), task)

    def search(self, bound: Any, objective: Objective, task: Task) -> Trained:
        """Minimise an objective in the parameters of its scorer and loss."""

        def validate(vector: FloatArray) -> float:
            return task.judged_scorer(bound.fitted(objective.split(vector)[0]))

        task = replace(task, loss=objective.loss)
        warm = task.warm_start if task.warm_start is not None and task.warm_start.name == bound.name else None
        start = bound.initial(np.random.default_rng(task.seed)) if warm is None else bound.parameters_of(warm)
        start = np.concatenate([start if warm is None else start / objective.units, objective.loss.parameters])
        judge = None if task.valid is None else validate
        vector, history = self.minimise(Search(objective, start, task, judge, warm is not None))
        parameters, learned = objective.split(vector)
        # Of a start at 0 it is told that its scores are equal.
        if warm is None and self.most(objective) and not history.objective and np.any(parameters):
            warnings.warn(
                "No step was taken, because the loss has no slope where training starts: the model is its start, "
                "which has learned nothing; give more queries whose documents differ.",
                LuceWarning,
                stacklevel=4,
            )
        return Trained(bound.fitted(parameters), learned, history)

    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """The parameters to keep, and what happened."""
        task, objective = search.task, search.objective
        fingerprint = partial(task.fingerprint, self, search.start, self.draws)
        run = task.start_run(self.most(objective), self.early_stopping, search.validate, fingerprint)
        self.way(search).opened(run).follow()
        return run.result, run.history

    def most(self, objective: Objective) -> int:
        """Steps at most."""
        return int(vars(self)["max_iter"])

    @abstractmethod
    def way(self, search: Search) -> Training:
        """The steps from the start of a search."""


def linear_base(task: Task, l2: float, max_iter: int, tol: float) -> FittedLinear:
    """A linear ranker by ListNet, for what reranks or starts from one and was given none."""
    trainer = LBFGS(l2=l2, max_iter=max_iter, tol=tol)
    alone: dict[str, Any] = {"base": None, "valid_base": None, "checkpoint": None, "target": None, "warm_start": None}
    plain = replace(task, scorer=LinearScorer(), loss=losses.get("listnet"), **alone)
    return cast(FittedLinear, trainer.train(plain).scorer)


def base_of(
    task: Task, reranker: Any, judged: bool = True
) -> tuple[FloatArray, FloatArray | None, FittedLinear | None]:
    """What a reranker stands on: scores of training and validation rows, and the linear ranker that was trained for it.

    There is none where a base was given; `judged` says whether validation data end its training.
    """
    if task.base is not None:
        if task.valid is not None:
            warn_of_chosen_penalty(reranker)
        return task.base, task.valid_base, None
    alone = task if judged else replace(task, valid=None)
    linear = linear_base(alone, reranker.l2, reranker.max_iter, reranker.tol)
    on_valid = None if task.valid is None else linear.score(task.valid.X, task.valid.offsets)
    return linear.score(task.data.X, task.data.offsets), on_valid, linear


_STEPS = 100
"""Of a descent that nobody said the end of."""


class LBFGS(Gradients):
    """L-BFGS on all queries.

    Parameters
    ----------
    max_iter, tol
        It ends after `max_iter` iterations, or when one lowers the objective by less than `tol`, relatively.
    precondition
        Whether the Hessian of the loss leads the way of a linear or second-order scorer; None: where it saves passes
        over the data and no validation data pick the iterate, which the slower way leaves more to choose from.
    memory
        Steps that are remembered; None: 20 with a Hessian, else 50, or 10 where validation data pick the iterate.
    """

    l2: float = option(default=0.01, least=0, tune=L2)
    max_iter: int = option(default=100, least=0)
    tol: float = option(default=1e-5, above=0)
    precondition: bool | None = None
    memory: int | None = option(default=None, least=1)

    name: ClassVar[str] = "lbfgs"
    draws: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def way(self, search: Search) -> Training:
        """L-BFGS from the start."""
        objective, judged = search.objective, search.validate is not None
        how: dict[str, Any] = {"precondition": self.precondition, "memory": self.memory}
        return lbfgs(objective, search.start, judged, tol=self.tol * objective.loss.score_unit, **how)


class SGD(Gradients):
    """Stochastic gradient descent, for losses whose gradient is drawn.

    Parameters
    ----------
    max_iter, max_epochs
        Steps, and passes over all queries, after which it ends; without either it ends after 100 steps.
    learning_rate, schedule
        The first step, and how steps go on: "constant", or falling as "sqrt" or "inverse".
    batch_queries
        Queries of a step; None: all.
    """

    l2: float = option(default=0.01, least=0, tune=Range(1e-6, 1.0))
    max_iter: int | None = option(default=None, least=0)
    max_epochs: int | None = option(default=None, least=1)
    learning_rate: float = option(default=0.1, above=0, tune=Range(0.01, 1.0))
    schedule: Literal["constant", "sqrt", "inverse"] = "constant"
    batch_queries: int | None = option(default=None, least=1)

    name: ClassVar[str] = "sgd"

    def most(self, objective: Objective) -> int:
        """Steps, by what was said of them and of passes."""
        n_queries = objective.data.n_queries
        steps = _STEPS if self.max_iter is None else self.max_iter
        if self.max_epochs is None:
            return steps
        passes = self.max_epochs * -(-n_queries // min(self.batch_queries or n_queries, n_queries))
        return passes if self.max_iter is None else min(steps, passes)

    def way(self, search: Search) -> Training:
        """Steps from the start."""
        return Descent(self, search.objective, search.start, search.task.seed)


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
    """

    radius: float | None = option(default=None, above=0, tune=Range(5.0, 200.0))
    starts: int = option(default=1, least=1)
    nonnegative: bool | None = None
    keep: Literal["best", "last"] = "best"

    draws_queries: ClassVar[bool] = False
    """Whether starts differ by the order of the queries as well."""

    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """The best of several starts."""
        objective, task = search.objective, search.task
        feasible = self.feasible(objective)
        self.check_set(feasible)
        if self.starts > 1 and not search.warm and not self.draws_queries:
            one, other = (random_start(objective, np.random.default_rng([task.seed, k])) for k in (0, 1))
            differ = not np.array_equal(one, other)
            heard(self.name, {"starts": (self.starts, 1)}, differ, "a scorer or loss whose start is drawn")
        found = []
        for k in range(1 if search.warm else self.starts):
            rng = np.random.default_rng([task.seed, k])
            first = self.first(feasible, search.start if search.warm else random_start(objective, rng))
            folder = None if task.checkpoint is None else Path(task.checkpoint) / f"start-{k}"
            own = replace(task, seed=task.seed + k, checkpoint=folder)
            judge = search.validate if self.keep == "best" else None
            found.append(super().minimise(search._replace(start=first, task=own, validate=judge)))
            if self.keep == "last" and search.validate is not None:
                found[-1][1].validation = [search.validate(found[-1][0])]
        if len(found) == 1:
            return found[0]
        if task.valid is not None:
            sign = 1.0 if task.metric.greater_is_better else -1.0
            return max(found, key=lambda one: sign * (best_validation(one[1].as_dict(), task.metric) or 0.0))
        return min(found, key=lambda one: objective.value_and_grad(one[0])[0])

    def feasible(self, objective: Objective) -> Feasible:
        """The set of this trainer."""
        return feasible_set(objective, self.radius, self.nonnegative)

    def check_set(self, feasible: Feasible) -> None:
        """Refuse settings that have no effect in a set."""

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """A start as the trainer may take it."""
        return feasible.nearest(start)


class Projected(InBall):
    """Stochastic gradient, a query at a time, projected onto the ball after each step.

    The step is halved after each epoch, and once more after one that raises the objective, which is undone.

    Parameters
    ----------
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

    max_epochs: int = option(default=10, least=1)
    learning_rate: float | None = option(default=None, above=0, tune=Range(1.0, 50.0))
    batch_queries: int = option(default=1, least=1)
    inside: Literal["projection", "shrinking"] = "projection"

    name: ClassVar[str] = "projected"
    draws_queries: ClassVar[bool] = True

    def most(self, objective: Objective) -> int:
        """Passes over the queries."""
        return self.max_epochs

    def check_set(self, feasible: Feasible) -> None:
        """Refuse another way to stay inside where nothing is outside."""
        bounded = feasible.radius is not None or bool(np.isfinite([feasible.lower, feasible.upper]).any())
        heard(self.name, {"inside": (self.inside, "projection")}, bounded, "radius or nonnegative")

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """With room to move, where a step is not projected."""
        return feasible.within(start) if self.inside == "shrinking" else feasible.nearest(start)

    def way(self, search: Search) -> Training:
        """Epochs from the start."""
        objective = search.objective
        return ProjectedDescent(self, objective, self.feasible(objective), search.start, search.task.seed)


class ProjectedLBFGS(InBall):
    """L-BFGS on all queries, projected onto the ball.

    Parameters
    ----------
    max_iter, tol
        It ends after `max_iter` iterations, or when one lowers the objective by less than `tol`, relatively.
    """

    max_iter: int = option(default=500, least=0)
    tol: float = option(default=1e-5, above=0)

    name: ClassVar[str] = "projected_lbfgs"
    exact: ClassVar[bool] = True

    def way(self, search: Search) -> Training:
        """L-BFGS inside the set."""
        feasible = self.feasible(search.objective)
        return lbfgs(search.objective, search.start, search.validate is not None, feasible=feasible, tol=self.tol)


def feasible_set(objective: Objective, radius: float | None, nonnegative: bool | None) -> Feasible:
    """The set of the scorer's parameters and the loss's own."""
    scorer, loss = objective.scorer, objective.loss
    nonnegative = getattr(scorer, "nonnegative", False) if nonnegative is None else nonnegative
    own = np.array(loss.parameter_bounds).reshape(-1, 2)
    lower = np.concatenate([np.full(scorer.n_parameters, 0.0 if nonnegative else -np.inf), own[:, 0]])
    upper = np.concatenate([np.full(scorer.n_parameters, np.inf), own[:, 1]])
    counted = np.concatenate([np.ones(scorer.n_parameters, dtype=bool), own[:, 0] >= 0])
    return Feasible(lower, upper, counted, radius)


def random_start(objective: Objective, rng: np.random.Generator) -> FloatArray:
    """The scorer's own start, and the non-negative weights of the loss uniform in [0, 1] as in [StructRank]."""
    own = objective.loss.parameters.copy()
    bounds = np.array(objective.loss.parameter_bounds).reshape(-1, 2)
    weights = bounds[:, 0] >= 0
    first = objective.scorer.initial(rng)
    own[weights] = rng.uniform(0.0, 1.0, int(weights.sum()))
    return np.concatenate([first, own])
