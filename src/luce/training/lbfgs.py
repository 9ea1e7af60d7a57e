"""L-BFGS: preconditioned where it pays, inside bounds or a ball, with early stopping and checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.errors import LuceWarning
from luce.numerics.blas import one_blas_thread
from luce.training.curvature import Memory
from luce.training.objective import Objective
from luce.training.preconditioner import Preconditioner, preconditioner_of
from luce.training.projection import Feasible
from luce.training.run import History, TrainingRun
from luce.types import FloatArray

Function = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value and gradient at a vector."""

MEMORY = 10
"""Steps that are remembered where validation picks the iterate: the slow path regularises."""
PLAIN_MEMORY = 50
PRECONDITIONED_MEMORY = 20

_ARMIJO, _WOLFE = 1e-4, 0.9
_TRIALS = 30
_BLOCKED = (
    "The objective does not fall along its own gradient, so that nothing was learned: the gradient of the loss or of "
    "the scorer is not that of its value; luce.testing.check_loss and check_scorer say more."
)


def minimise(
    objective: Objective,
    start: FloatArray,
    run: TrainingRun,
    *,
    tol: float = 1e-5,
    memory: int | None = None,
    precondition: bool | None = None,
    feasible: Feasible | None = None,
) -> tuple[FloatArray, History]:
    """Minimise until the relative decrease of an iteration is below `tol`, or as many iterations as the run may have.

    Where the run validates, the iterate of the best validation value is returned. Where it does not, only the minimum
    counts, and the search is preconditioned by the Hessian of the loss where the scorer is linear in its parameters
    (`precondition` says otherwise): a fraction of the passes over X.
    A checkpoint holds the iterate and the memory of curvature, so that a resumed search gives the bits of a whole one.
    """
    wanted = run.validate is None if precondition is None else precondition
    newton = preconditioner_of(objective, always=precondition is True) if wanted and feasible is None else None
    if memory is None:
        memory = PRECONDITIONED_MEMORY if newton else PLAIN_MEMORY if run.validate is None else MEMORY
    if feasible is None and objective.bounds is not None:
        feasible = Feasible.box(objective.bounds)
    return minimise_function(
        objective.value_and_grad, start, run, tol=tol, memory=memory, feasible=feasible, preconditioner=newton
    )


def minimise_function(
    function: Function,
    start: FloatArray,
    run: TrainingRun,
    *,
    tol: float,
    memory: int = PLAIN_MEMORY,
    feasible: Feasible | None = None,
    preconditioner: Preconditioner | None = None,
) -> tuple[FloatArray, History]:
    """The search itself, for any smooth function; `run` says how long, watches and saves."""
    region = Feasible.everything(len(start)) if feasible is None else feasible
    # The search's own small products wake BLAS threads that spin beside ours, at half their speed.
    with one_blas_thread():
        search = _Search(function, region, Memory(memory, preconditioner), run, tol)
        search.begin(start)
        while run.iteration < run.max_iter and not run.exhausted and not search.converged():
            if not search.step():
                run.history.converged = not search.blocked
                break
        run.history.converged |= search.converged()
    return run.result, run.history


class _Point(NamedTuple):
    """A place on the way: where, value and gradient there."""

    x: FloatArray
    value: float
    grad: FloatArray


class _Search:
    """The state of a search: the present point, the memory of curvature, and the decrease of the last step."""

    def __init__(self, function: Function, region: Feasible, memory: Memory, run: TrainingRun, tol: float) -> None:
        self.function, self.region, self.memory, self.run, self.tol = function, region, memory, run, tol
        self.before = np.inf
        self.blocked = False
        run.extras = self.state

    def begin(self, start: FloatArray) -> None:
        """At the start, or at the point of the last checkpoint with the memory it had."""
        run = self.run
        x = run.resume(start)
        if run.iteration:
            self.memory.restore(run.saved)
            self.at = _Point(x, run.history.objective[-1], run.saved["gradient"])
            self.before = float(run.saved["before"][0])
            return
        x = self.region.nearest(x)
        if run.validate is not None:
            run.consider(x)
        if run.max_iter > 0 and not run.exhausted:
            self.at = _Point(x, *self.function(x))

    def state(self) -> dict[str, NDArray[np.float64]]:
        """What a checkpoint keeps beside the iterates."""
        return {"gradient": self.at.grad, "before": np.array([self.before]), **self.memory.state()}

    def converged(self) -> bool:
        """True where the last step gained next to nothing."""
        if not np.isfinite(self.before):
            return False
        return self.before - self.at.value <= self.tol * max(abs(self.before), abs(self.at.value), 1.0)

    def step(self) -> bool:
        """One iteration; False where there is no way down."""
        at = self.at
        self.memory.refresh(self.run.iteration, at.x)
        found = self._descend()
        if found is None and self.memory.any:
            # What was remembered no longer fits: begin again with the gradient alone.
            self.memory.forget()
            found = self._descend()
        if self.run.iteration == 0 and (found is None or found.value >= at.value):
            slope = float(at.grad @ self.region.direction(at.x, at.grad, self.memory)[0])
            self.blocked = -slope > 1e-6 * max(abs(at.value), 1.0)
            if self.blocked:  # a step so short that rounding takes it for one down is none
                warnings.warn(_BLOCKED, LuceWarning, stacklevel=6)
                return False
        if found is None:
            return False
        self.memory.add(found.x - at.x, found.grad - at.grad)
        self.before, self.at = at.value, found
        self.run.step(found.x.copy(), found.value)
        return True

    def _descend(self) -> _Point | None:
        at = self.at
        direction, limit = self.region.direction(at.x, at.grad, self.memory)
        slope = float(at.grad @ direction)
        if not -slope > 1e-14 * max(abs(at.value), 1.0) or np.abs(direction).max(initial=0.0) == 0.0:
            return None
        first = 1.0 if self.memory.scaled or limit <= 1.0 else min(1.0, 1.0 / float(np.linalg.norm(at.grad)))
        return _line_search(self.function, self.region, at, direction, slope, first, limit)


def _line_search(
    function: Function,
    region: Feasible,
    at: _Point,
    direction: FloatArray,
    slope: float,
    step: float,
    limit: float,
) -> _Point | None:
    """A step that lowers the value enough (Armijo) and leaves a flatter slope (Wolfe), by bracketing and cubics."""
    low = (0.0, at.value, slope)
    high: tuple[float, float, float] | None = None
    best: _Point | None = None
    for _ in range(_TRIALS):
        x, moving = region.along(at.x, direction, step)
        found = _Point(x, *function(x))
        sloped = float(found.grad @ moving)
        here = (step, found.value, sloped)
        gained = at.value + _ARMIJO * float(at.grad @ (x - at.x))
        if not (np.isfinite(found.value) and np.isfinite(sloped) and found.value <= gained):
            high = here
        elif sloped < _WOLFE * slope and step < limit:
            low, best = here, found
        else:
            return found
        step = min(_next_step(low, high), limit)
        if high is not None and high[0] - low[0] <= 1e-10 * high[0]:
            break
    return best


def _next_step(low: tuple[float, float, float], high: tuple[float, float, float] | None) -> float:
    """Between two steps the minimum of the cubic through them, kept away from both; beyond one, twice to ten times."""
    if high is None:
        return 4.0 * low[0]
    width = high[0] - low[0]
    if not (np.isfinite(high[1]) and np.isfinite(high[2])):
        return low[0] + 0.1 * width
    bend = low[2] + high[2] - 3.0 * (high[1] - low[1]) / width
    inside = bend * bend - low[2] * high[2]
    if inside < 0.0:
        return low[0] + 0.5 * width
    root = float(np.sqrt(inside))
    share = (root + bend - low[2]) / (2.0 * root + high[2] - low[2] + 1e-300)
    return low[0] + width * min(max(share, 0.1), 0.9)
