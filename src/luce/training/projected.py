"""Trainers that stay inside a set: their settings, the set itself, and the best of several starts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from luce.checks import heard, number, one_of, patience, truth, whole
from luce.losses.base import Loss
from luce.training.gradients import Gradients, Search, refuse_drawn
from luce.training.lbfgs import minimise
from luce.training.objective import Objective
from luce.training.projected_descent import INSIDE, projected_descent
from luce.training.projection import Feasible
from luce.training.run import History, TrainingRun, best_validation
from luce.types import FloatArray

KEPT = ("best", "last")


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

    draws_queries: ClassVar[bool] = False
    """Whether starts differ by the order of the queries as well."""

    def __post_init__(self) -> None:
        number("l2", self.l2)
        if self.radius is not None:
            number("radius", self.radius, above=True)
        whole("starts", self.starts, 1)
        if self.nonnegative is not None:
            truth("nonnegative", self.nonnegative)
        one_of("keep", self.keep, KEPT)
        patience(self.early_stopping)

    def minimise(self, search: Search) -> tuple[FloatArray, History]:
        """The best of several starts."""
        objective, task = search.objective, search.task
        feasible = feasible_set(objective, self.radius, self.nonnegative)
        self.check_set(feasible)
        if self.starts > 1 and not search.warm and not self.draws_queries:
            one, other = (random_start(objective, np.random.default_rng([task.seed, k])) for k in (0, 1))
            differ = not np.array_equal(one, other)
            heard(self.name, {"starts": (self.starts, 1)}, differ, "a scorer or loss whose start is drawn")
        found = []
        for k in range(1 if search.warm else self.starts):
            rng = np.random.default_rng([task.seed, k])
            first = self.first(feasible, search.start if search.warm else random_start(objective, rng))
            found.append(self.run(objective, feasible, first, task.seed + k, self._begin(search, k)))
            if self.keep == "last" and task.valid is not None:
                found[-1][1].validation = [search.validate(found[-1][0])]
        if len(found) == 1:
            return found[0]
        if task.valid is not None:
            sign = 1.0 if task.metric.greater_is_better else -1.0
            return max(found, key=lambda one: sign * (best_validation(one[1].as_dict(), task.metric) or 0.0))
        return min(found, key=lambda one: objective.value_and_grad(one[0])[0])

    def check_set(self, feasible: Feasible) -> None:
        """Refuse settings that have no effect in a set."""

    def _begin(self, search: Search, k: int) -> TrainingRun:
        """The record of start k; each has checkpoints of its own."""
        task = search.task
        if task.checkpoint is not None:
            task = replace(task, checkpoint=Path(task.checkpoint) / f"start-{k}")
        validate = search.validate if self.keep == "best" else None
        fingerprint = {**search.fingerprint, "start": k}
        return task.start_run(self.rounds, self.early_stopping, validate, lambda: fingerprint)

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """A start as the trainer may take it."""
        return feasible.nearest(start)

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Iterations, or passes over the queries, at most."""

    @abstractmethod
    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, run: TrainingRun
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
    draws_queries: ClassVar[bool] = True

    @property
    def rounds(self) -> int:
        """Passes over the queries."""
        return self.max_epochs

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("max_epochs", self.max_epochs, 1)
        whole("batch_queries", self.batch_queries, 1)
        if self.learning_rate is not None:
            number("learning_rate", self.learning_rate, above=True)
        one_of("inside", self.inside, INSIDE)

    def check_set(self, feasible: Feasible) -> None:
        """Refuse another way to stay inside where nothing is outside."""
        bounded = feasible.radius is not None or bool(np.isfinite([feasible.lower, feasible.upper]).any())
        heard(self.name, {"inside": (self.inside, "projection")}, bounded, "radius or nonnegative")

    def first(self, feasible: Feasible, start: FloatArray) -> FloatArray:
        """With room to move, where a step is not projected."""
        return feasible.within(start) if self.inside == "shrinking" else feasible.nearest(start)

    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, run: TrainingRun
    ) -> tuple[FloatArray, History]:
        """One start."""
        names = ("learning_rate", "batch_queries", "inside")
        steps: dict[str, Any] = {name: getattr(self, name) for name in names}
        return projected_descent(objective, feasible, start, run, seed=seed, **steps)


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

    max_iter: int = 500
    tol: float = 1e-5

    name: ClassVar[str] = "projected_lbfgs"

    @property
    def rounds(self) -> int:
        """Iterations at most."""
        return self.max_iter

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("max_iter", self.max_iter, 0)
        number("tol", self.tol, above=True)

    def run(
        self, objective: Objective, feasible: Feasible, start: FloatArray, seed: int, run: TrainingRun
    ) -> tuple[FloatArray, History]:
        """One start."""
        return minimise(objective, start, run, feasible=feasible, tol=self.tol)

    def check(self, scorer: Any, loss: Loss | None) -> None:
        """Refuse a loss whose gradient is drawn."""
        super().check(scorer, loss)
        refuse_drawn(loss)


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
