"""L-BFGS on an objective, with early stopping on a metric and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from luce.training.checkpoint import Checkpoints
from luce.training.objective import Objective
from luce.types import FloatArray, Progress

__all__ = ["History", "minimise"]

Validate = Callable[[FloatArray], float]


@dataclass
class History:
    """What happened in a training: objective and validation metric by iteration."""

    objective: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    converged: bool = False
    best_iteration: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For model files and reports."""
        return {
            "objective": self.objective,
            "validation": self.validation,
            "converged": self.converged,
            "best_iteration": self.best_iteration,
        }


def minimise(
    objective: Objective,
    start: FloatArray,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    validate: Validate | None = None,
    patience: int | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Progress | None = None,
) -> tuple[FloatArray, History]:
    """Minimise until the relative decrease of an iteration is below `tol`, or `max_iter` iterations.

    With `validate` the iterate of the best validation value is returned, and `patience` iterations without a better one
    end the search. A checkpoint holds the last iterate; a resumed search starts there with a fresh memory of
    curvature and reaches the same optimum.
    """
    run = _Run(objective, validate, patience, checkpoints, progress, max_iter)
    start = run.resume(start)
    if run.iteration == 0 and validate is not None:
        run.consider(start)
    left = max_iter - run.iteration
    if left > 0 and not run.exhausted:
        result = minimize(
            objective.value_and_grad,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds,
            callback=run,
            options={"maxiter": left, "ftol": tol, "gtol": 1e-9, "maxcor": 10, "maxfun": 20 * left},
        )
        run.history.converged = bool(result.status == 0)
        run.last = result.x
    best = run.last if run.best is None else run.best
    return best, run.history


class _Run:
    """The state of one search; called by SciPy after every iteration."""

    def __init__(
        self,
        objective: Objective,
        validate: Validate | None,
        patience: int | None,
        checkpoints: Checkpoints | None,
        progress: Progress | None,
        max_iter: int,
    ) -> None:
        self.objective, self.validate, self.patience = objective, validate, patience
        self.checkpoints, self.progress, self.max_iter = checkpoints, progress, max_iter
        self.history = History()
        self.iteration = 0
        self.last: FloatArray = np.empty(0)
        self.best: FloatArray | None = None
        self.best_value = -np.inf

    @property
    def exhausted(self) -> bool:
        """True where the metric has not risen for `patience` iterations."""
        best = self.history.best_iteration
        return self.patience is not None and best is not None and self.iteration - best >= self.patience

    def resume(self, start: FloatArray) -> FloatArray:
        """Where to start: the last checkpoint, or `start`."""
        self.last = start
        saved = self.checkpoints.load() if self.checkpoints else None
        if saved is None:
            return start
        self.iteration = saved.step
        self.history = History(**saved.state["history"])
        self.last = saved.arrays["last"]
        if self.validate is not None and "best" in saved.arrays:
            self.best, self.best_value = saved.arrays["best"], saved.state["best_value"]
        return self.last

    def consider(self, vector: FloatArray) -> None:
        """Keep an iterate that is better on validation than all before it."""
        assert self.validate is not None
        value = self.validate(vector)
        self.history.validation.append(value)
        if value > self.best_value:
            self.best_value, self.best = value, vector.copy()
            self.history.best_iteration = self.iteration

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        self.iteration += 1
        self.last = intermediate_result.x.copy()
        self.history.objective.append(float(intermediate_result.fun))
        info = {"objective": self.history.objective[-1]}
        if self.validate is not None:
            self.consider(self.last)
            info["validation"] = self.history.validation[-1]
        if self.progress:
            self.progress(self.iteration, self.max_iter, info)
        if self.checkpoints:
            arrays = {"last": self.last} if self.best is None else {"last": self.last, "best": self.best}
            state = {"history": self.history.as_dict(), "best_value": float(max(self.best_value, -1e300))}
            self.checkpoints.save(self.iteration, state, arrays)
        if self.exhausted:
            raise StopIteration
