"""Trainers that stay inside a set: their settings, the set itself, and the best of several starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.training.checkpoint import Checkpoints
from luce.training.objective import Objective
from luce.training.projection import Feasible
from luce.training.run import History, Validate, best_validation
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.training.gradients import InBall
    from luce.training.task import Task

__all__ = ["KEPT", "fit_projected"]

KEPT = ("best", "last")


def fit_projected(
    trainer: InBall,
    objective: Objective,
    start: FloatArray | None,
    task: Task,
    validate: Validate | None,
    fingerprint: Any,
) -> tuple[FloatArray, History]:
    """The best of several starts; `start` is that of a warm start, from which there is one run only."""
    feasible = feasible_set(objective, trainer.radius, trainer.nonnegative)
    runs = []
    for number in range(1 if start is not None else trainer.starts):
        rng = np.random.default_rng([task.seed, number])
        first = trainer.first(feasible, random_start(objective, rng) if start is None else start)
        folder = None if task.checkpoint is None else Path(task.checkpoint) / f"start-{number}"
        shared: dict[str, Any] = {
            "validate": validate if trainer.keep == "best" else None,
            "patience": trainer.early_stopping,
            "checkpoints": None if folder is None else Checkpoints(folder, {**fingerprint, "start": number}),
            "progress": task.progress,
            "greater_is_better": task.metric.greater_is_better,
        }
        runs.append(trainer.run(objective, feasible, first, task.seed + number, shared))
        if trainer.keep == "last" and validate is not None:
            runs[-1][1].validation = [validate(runs[-1][0])]
    if len(runs) == 1:
        return runs[0]
    if validate is not None:
        sign = 1.0 if task.metric.greater_is_better else -1.0
        return max(runs, key=lambda found: sign * (best_validation(found[1].as_dict(), task.metric) or 0.0))
    return min(runs, key=lambda found: objective.value_and_grad(found[0])[0])


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
