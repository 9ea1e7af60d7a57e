"""One training under way: its iterates, what is told and saved of them, and the driver of all step by step trainers.

A checkpoint is a container (see `luce.storage`) with the state of a trainer as JSON and arrays, a step number and a
fingerprint of the problem. A folder keeps the newest two; a torn or damaged file is passed over for the one before it,
with a warning.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from luce.errors import LuceWarning, ModelFormatError, SettingError
from luce.metrics.catalog import Metric, get
from luce.numerics.threads import one_blas_thread
from luce.storage import make_folder, read_container, write_container
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


class Checkpoint(NamedTuple):
    """State of a training after `step` steps."""

    step: int
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Checkpoints:
    """The checkpoints of one training in one folder."""

    keep = 2

    def __init__(self, folder: str | Path, fingerprint: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.fingerprint = dict(fingerprint)
        for torn in make_folder(self.folder).glob(".step-*.part"):
            torn.unlink(missing_ok=True)  # what a process was writing when it was killed

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.luce"))

    def save(self, step: int, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the state after `step` steps, and drop all but the newest two."""
        settings = {"step": step, "fingerprint": self.fingerprint, "state": dict(state), "arrays": _listed(arrays)}
        write_container(self.folder / f"step-{step:09d}.luce", "checkpoint", settings, arrays)
        for old in self._files()[: -self.keep]:
            old.unlink(missing_ok=True)

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None; one of another problem is an error."""
        for path in reversed(self._files()):
            try:
                settings, arrays = read_container(path, "checkpoint")[1:]
                if settings.get("arrays") != _listed(arrays):
                    raise ModelFormatError(f"{path} is damaged: its arrays are not those that were written.")
            except ModelFormatError as error:
                warnings.warn(f"{error} The checkpoint before it is used, if there is one.", LuceWarning, stacklevel=3)
                continue
            if settings.get("fingerprint") != self.fingerprint:
                raise SettingError(
                    f"The checkpoint {path} belongs to another training (data or settings differ, or the seed, "
                    "which is another one each time where none is given); give another folder, or empty this one."
                )
            return Checkpoint(settings["step"], settings["state"], arrays)
        return None


def _listed(arrays: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Types and shapes by name: what the checksums of a container leave out."""
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


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
    ) -> None:
        self.validate, self.patience = validate, patience
        self.checkpoints, self.progress, self.max_iter = checkpoints, progress, max_iter
        self.every = every
        self.extras: Callable[[], dict[str, NDArray[Any]]] = dict
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

    @property
    def goes_on(self) -> bool:
        """True where one more iteration is allowed and wanted."""
        return self.iteration < self.max_iter and not self.exhausted

    def resume(self, start: FloatArray) -> FloatArray:
        """Where to start: the last checkpoint, or `start`, which is judged."""
        self.last = start
        saved = self.checkpoints.load() if self.checkpoints else None
        if saved is None:
            self.consider(start)
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
        if self.validate is None:
            return
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
        self.consider(vector)
        if self.validate is not None:
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


class Step(NamedTuple):
    """What one iteration gives: the iterate (what is kept of it where it is the best), and the objective there."""

    vector: FloatArray
    value: float
    edge: float | None = None


class Training(ABC):
    """A training as an iterator of steps; validation, patience, checkpoints, resuming and progress are the driver's.

    What a step draws depends on the seed and its number alone, and what it needs of the steps before is in `state`: so
    a resumed training gives the bits of a whole one.
    """

    start: FloatArray
    """The iterate before the first step."""
    run: TrainingRun
    """The record of the training, once it is open."""
    blas: Callable[[], AbstractContextManager[None]] = nullcontext
    """What steps are taken in: `one_blas_thread` where small products would wake threads that spin beside ours."""

    @abstractmethod
    def steps(self) -> Iterator[Step]:
        """One step after the other; the end where no further one can follow."""

    def begin(self) -> None:  # noqa: B027 (most have nothing to restore)
        """Take up what `state` gave (`run.saved`), if there is any."""

    def state(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint holds beside the iterates."""
        return {}

    def converged(self, ended: bool) -> bool:
        """Whether the training came to its end, by itself (`ended`) or as it was told."""
        return not self.run.goes_on

    def opened(self, run: TrainingRun) -> Self:
        """The training before its next step: its first one, or that after the last checkpoint."""
        self.run, run.extras = run, self.state
        run.resume(self.start)
        with self.blas():
            self.begin()
        self._coming, self._ended = self.steps(), False
        return self

    def round(self) -> bool:
        """One more step; False where none can follow. For who wants to watch or time them."""
        step = next(self._coming, None)
        self._ended = step is None
        if step is not None:
            self.run.step(*step)
        return not self._ended

    def follow(self) -> Self:
        """The training at its end."""
        with self.blas():
            while self.run.goes_on and self.round():
                pass
        self.run.history.converged = self.converged(self._ended)
        return self


def scipy_minimum(function: Any, start: FloatArray, bounds: Any = None, callback: Any = None, **options: float) -> Any:
    """What SciPy's L-BFGS-B finds, on one BLAS thread; the function gives value and gradient."""
    from scipy.optimize import minimize

    with one_blas_thread():
        return minimize(function, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options)
