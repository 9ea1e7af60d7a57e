"""What every iterative trainer keeps track of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.metrics.catalog import Metric, get
from luce.training.checkpoint import Checkpoints
from luce.types import FloatArray, Progress

SAVE_SECONDS = 1.0
"""Least time between two checkpoints: one reaches the disk before training goes on, which may take longer than a step.
One that takes long to write is followed by ten times as long a pause. The last step is always kept."""

Validate = Callable[[FloatArray], float]
"""Metric of an iterate on validation data."""


@dataclass
class History:
    """What happened in a training: objective and validation metric by iteration.

    Listwise boosting adds the edge of every round, a search for the best surrogate the weights that it visited, each as
    {"alpha": weights, "value": metric}, and a blend what was tried and what it will be worth.
    """

    objective: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    converged: bool = False
    best_iteration: int | None = None
    edges: list[float] = field(default_factory=list)
    surface: list[dict[str, Any]] = field(default_factory=list)
    blend: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For model files and reports."""
        more = {"edges": self.edges, "surface": self.surface, "blend": self.blend}
        return {
            "objective": self.objective,
            "validation": self.validation,
            "converged": self.converged,
            "best_iteration": self.best_iteration,
            **{name: found for name, found in more.items() if found},
        }


def best_validation(history: Mapping[str, Any], metric: str | Metric) -> float | None:
    """The best value of the metric on validation data in a history, None where there were none.

    >>> best_validation({"validation": [0.2, 0.4, 0.3]}, "ndcg@10"), best_validation({"validation": []}, "map")
    (0.4, None)
    """
    values = history.get("validation")
    if not values:
        return None
    rising = (metric if isinstance(metric, Metric) else get(metric)).greater_is_better
    return float(max(values) if rising else min(values))


class TrainingRun:
    """The state of one training: the last iterate, the best one on validation, and what is told and saved of them."""

    def __init__(
        self,
        max_iter: int,
        *,
        validate: Validate | None = None,
        patience: int | None = None,
        checkpoints: Checkpoints | None = None,
        progress: Progress | None = None,
        greater_is_better: bool = True,
        every: int = 1,
        extras: Callable[[], dict[str, NDArray[Any]]] = dict,
    ) -> None:
        self.validate, self.patience = validate, patience
        self.checkpoints, self.progress, self.max_iter = checkpoints, progress, max_iter
        self.every, self.extras = every, extras
        """A checkpoint is written after a multiple of `every` iterations and holds these arrays beside the iterates."""
        self._next_save = -np.inf
        self.saved: dict[str, NDArray[Any]] = {}
        """The arrays of the checkpoint that this run goes on from."""
        self.history = History()
        self.iteration = 0
        self.stopped = False
        """True where who watches has asked for the end."""
        self.last: FloatArray = np.empty(0)
        self.best: FloatArray | None = None
        self.greater_is_better = greater_is_better
        """False where the metric on validation is a distance."""
        self.best_value = -np.inf if greater_is_better else np.inf

    @property
    def exhausted(self) -> bool:
        """True where the metric has not become better for `patience` iterations, or who watches says so."""
        if self.stopped:
            return True
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
        self.saved = saved.arrays
        self.last = saved.arrays["last"]
        if self.validate is not None and "best" in saved.arrays:
            self.best, self.best_value = saved.arrays["best"], saved.state["best_value"]
        return self.last

    def consider(self, vector: FloatArray) -> None:
        """Keep an iterate that is better on validation than all before it."""
        assert self.validate is not None
        value = self.validate(vector)
        self.history.validation.append(value)
        if value > self.best_value if self.greater_is_better else value < self.best_value:
            self.best_value, self.best = value, vector.copy()
            self.history.best_iteration = self.iteration

    def step(self, vector: FloatArray, value: float, edge: float | None = None) -> None:
        """An iteration is done: validate, tell, save."""
        self.iteration += 1
        self.last = vector
        self.history.objective.append(value)
        info = {"objective": value}
        if edge is not None:
            self.history.edges.append(edge)
            info["edge"] = edge
        if self.validate is not None:
            self.consider(vector)
            info["validation"] = self.history.validation[-1]
        if self.progress:
            self.stopped = self.progress(self.iteration, self.max_iter, info) is True
        due = time.monotonic() >= self._next_save or self.iteration == self.max_iter
        if self.checkpoints and due and self.iteration % self.every == 0:
            arrays = {"last": self.last} if self.best is None else {"last": self.last, "best": self.best}
            state = {"history": self.history.as_dict(), "best_value": float(np.clip(self.best_value, -1e300, 1e300))}
            begun = time.monotonic()
            self.checkpoints.save(self.iteration, state, {**arrays, **self.extras()})
            now = time.monotonic()
            self._next_save = now + SAVE_SECONDS * max(1.0, 10.0 * (now - begun))

    @property
    def result(self) -> FloatArray:
        """The iterate to keep: the best on validation, or the last."""
        return self.last if self.best is None else self.best


def search_by_scipy(
    run: TrainingRun, function: Any, start: FloatArray, ftol: float, bounds: list[tuple[float, float]] | None = None
) -> None:
    """L-BFGS-B of SciPy from the start; every iterate is a step of the run, and what the run keeps is the result."""
    from scipy.optimize import minimize

    def after(intermediate_result: Any) -> None:
        run.step(intermediate_result.x.copy(), float(intermediate_result.fun))
        if run.exhausted:
            raise StopIteration

    run.last = start
    if run.validate is not None:
        run.consider(start)
    how = {"maxiter": run.max_iter, "ftol": ftol}
    found = minimize(function, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=after, options=how)
    run.history.converged = bool(found.status == 0)
