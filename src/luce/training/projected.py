"""Trainers that stay inside a set: their settings, the set itself, and the best of several starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.checks import whole
from luce.errors import SettingError
from luce.metrics.catalog import get
from luce.training.checkpoint import Checkpoints
from luce.training.lbfgs import minimise
from luce.training.objective import Objective
from luce.training.projected_descent import projected_descent
from luce.training.projection import Feasible
from luce.training.run import History, Validate, best_validation
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.training.train import Options

__all__ = [
    "PROJECTED",
    "ProjectedSettings",
    "check_trainer_params",
    "fit_projected",
    "projected_descent",
]

PROJECTED = ("projected", "projected_lbfgs")
KEPT = ("best", "last")
DEFAULT_EPOCHS = 10


@dataclass(frozen=True)
class ProjectedSettings:
    """`trainer_params` of the projected trainers.

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

    radius: float | None = None
    starts: int = 1
    nonnegative: bool | None = None
    keep: str = "best"

    def __post_init__(self) -> None:
        if self.radius is not None and not (isinstance(self.radius, int | float) and 0 < self.radius < np.inf):
            raise SettingError(f"radius is {self.radius!r}; it must be None or a finite number above 0.")
        whole("starts", self.starts, 1)
        if self.keep not in KEPT:
            raise SettingError(f"keep is {self.keep!r}; it must be one of {', '.join(KEPT)}.")

    @classmethod
    def of(cls, given: dict[str, Any] | None) -> ProjectedSettings:
        """From what a user gives, with an error that lists what there is."""
        unknown = set(given or {}) - set(cls.__dataclass_fields__)
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise SettingError(f"trainer_params has {sorted(unknown)}; a projected trainer takes {known}.")
        return cls(**(given or {}))


def check_trainer_params(trainer: str, given: dict[str, Any] | None) -> None:
    """Refuse settings that the trainer does not have, before any data are read."""
    if trainer in PROJECTED:
        ProjectedSettings.of(given)
    elif given:
        raise SettingError(f"trainer_params goes with the trainers {' and '.join(PROJECTED)}; leave it out.")


def fit_projected(
    objective: Objective, start: FloatArray | None, options: Options, validate: Validate | None, fingerprint: Any
) -> tuple[FloatArray, History]:
    """The best of several starts; `start` is that of a warm start, from which there is one run only."""
    settings = ProjectedSettings.of(options.trainer_params)
    feasible = feasible_set(objective, settings)
    runs = []
    for number in range(1 if start is not None else settings.starts):
        rng = np.random.default_rng([options.seed, number])
        first = feasible.nearest(random_start(objective, rng) if start is None else start)
        folder = None if options.checkpoint is None else Path(options.checkpoint) / f"start-{number}"
        checkpoints = None if folder is None else Checkpoints(folder, {**fingerprint, "start": number})
        watched = validate if settings.keep == "best" else None
        shared: dict[str, Any] = {"validate": watched, "patience": options.patience, "checkpoints": checkpoints}
        shared |= {"progress": options.progress, "greater_is_better": get(options.metric).greater_is_better}
        if options.trainer == "projected":
            epochs = DEFAULT_EPOCHS if options.max_epochs is None else options.max_epochs
            steps: dict[str, Any] = {
                "learning_rate": options.learning_rate,
                "batch_queries": options.batch_queries or 1,
            }
            found = projected_descent(
                objective, feasible, first, epochs=epochs, seed=options.seed + number, **steps, **shared
            )
        else:
            found = minimise(objective, first, feasible=feasible, max_iter=options.max_iter, tol=options.tol, **shared)
        if settings.keep == "last" and validate is not None:
            found[1].validation = [validate(found[0])]
        runs.append(found)
    if len(runs) == 1:
        return runs[0]
    if validate is not None:
        chosen = max if get(options.metric).greater_is_better else min
        return chosen(runs, key=lambda found: best_validation(found[1].as_dict(), options.metric) or 0.0)
    return min(runs, key=lambda found: objective.value_and_grad(found[0])[0])


def feasible_set(objective: Objective, settings: ProjectedSettings) -> Feasible:
    """The set of the scorer's parameters and the loss's own: the constraints of [StructRank] (10)."""
    scorer, loss = objective.scorer, objective.loss
    nonnegative = getattr(scorer, "nonnegative", False) if settings.nonnegative is None else settings.nonnegative
    own = np.array(loss.parameter_bounds).reshape(-1, 2)
    lower = np.concatenate([np.full(scorer.n_parameters, 0.0 if nonnegative else -np.inf), own[:, 0]])
    upper = np.concatenate([np.full(scorer.n_parameters, np.inf), own[:, 1]])
    counted = np.concatenate([np.ones(scorer.n_parameters, dtype=bool), own[:, 0] >= 0])
    return Feasible(lower, upper, counted, settings.radius)


def random_start(objective: Objective, rng: np.random.Generator) -> FloatArray:
    """The scorer's own start, and the non-negative weights of the loss uniform in [0, 1] as in [StructRank]."""
    own = objective.loss.parameters.copy()
    bounds = np.array(objective.loss.parameter_bounds).reshape(-1, 2)
    weights = bounds[:, 0] >= 0
    first = objective.scorer.initial(rng)
    own[weights] = rng.uniform(0.0, 1.0, int(weights.sum()))
    return np.concatenate([first, own])
