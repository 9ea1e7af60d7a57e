"""L-BFGS: preconditioned where it pays, inside bounds or a ball, with early stopping and checkpoints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from luce.errors import LuceWarning, SettingError
from luce.numerics.threads import one_blas_thread
from luce.training.hessian import Memory, Preconditioner, preconditioner_of
from luce.training.objective import Objective
from luce.training.run import Step, Training
from luce.types import BoolArray, FloatArray

Function = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value and gradient at a vector."""

MEMORY = 10
"""Steps that are remembered where validation picks the iterate: the slow path regularises."""
PLAIN_MEMORY = 50
PRECONDITIONED_MEMORY = 20

_ARMIJO, _WOLFE = 1e-4, 0.9
_TRIALS = 30
_HALVINGS = 60
"""After so many a step is too short to move anything."""
_BLOCKED = (
    "The objective does not fall along its own gradient, so that nothing was learned: the gradient of the loss or of "
    "the scorer is not that of its value; luce.testing.check_loss and check_scorer say more."
)


def lbfgs(
    objective: Objective,
    start: FloatArray,
    judged: bool,
    *,
    tol: float = 1e-5,
    memory: int | None = None,
    precondition: bool | None = None,
    feasible: Feasible | None = None,
) -> LBFGSSearch:
    """A search that ends where the relative decrease of an iteration is below `tol`.

    Where iterates are `judged` by validation data, the best of them is what counts. Where they are not, only the
    minimum does, and the search is preconditioned by the Hessian of the loss where the scorer is linear in its
    parameters (`precondition` says otherwise): a fraction of the passes over X.
    """
    wanted = not judged if precondition is None else precondition
    newton = preconditioner_of(objective, always=precondition is True) if wanted and feasible is None else None
    if memory is None:
        memory = PRECONDITIONED_MEMORY if newton else MEMORY if judged else PLAIN_MEMORY
    if feasible is None and objective.bounds is not None:
        feasible = Feasible.box(objective.bounds)
    return LBFGSSearch(
        objective.value_and_grad, start, tol=tol, memory=memory, feasible=feasible, preconditioner=newton
    )


class _Point(NamedTuple):
    """A place on the way: where, value and gradient there."""

    x: FloatArray
    value: float
    grad: FloatArray


class LBFGSSearch(Training):
    """L-BFGS on any smooth function: the present point, the memory of curvature, and the decrease of the last step.

    A checkpoint holds the iterate and the memory of curvature, so that a resumed search gives the bits of a whole one.
    """

    blas = staticmethod(one_blas_thread)

    def __init__(
        self,
        function: Function,
        start: FloatArray,
        *,
        tol: float,
        memory: int = PLAIN_MEMORY,
        feasible: Feasible | None = None,
        preconditioner: Preconditioner | None = None,
    ) -> None:
        self.region = Feasible.box([(-np.inf, np.inf)] * len(start)) if feasible is None else feasible
        self.function, self.start, self.tol = function, self.region.nearest(start), tol
        self.memory = Memory(memory, preconditioner)
        self.before = np.inf
        self.blocked = False

    def begin(self) -> None:
        """At the point of the last checkpoint, with the memory it had."""
        run = self.run
        if run.iteration:
            self.memory.restore(run.saved)
            self.at = _Point(run.last, run.history.objective[-1], run.saved["gradient"])
            self.before = float(run.saved["before"][0])

    def state(self) -> dict[str, FloatArray]:
        """What a checkpoint keeps beside the iterates."""
        return {"gradient": self.at.grad, "before": np.array([self.before]), **self.memory.state()}

    def settled(self) -> bool:
        """True where the last step gained next to nothing."""
        if not np.isfinite(self.before):
            return False
        return self.before - self.at.value <= self.tol * max(abs(self.before), abs(self.at.value), 1.0)

    def converged(self, ended: bool) -> bool:
        """True where there was no further way down, or none worth it."""
        return (ended and not self.blocked) or self.settled()

    def steps(self) -> Iterator[Step]:
        """One way down after the other."""
        if self.run.iteration == 0:
            self.at = _Point(self.start, *self.function(self.start))
        while not self.settled():
            at, found = self.at, self._found()
            if found is None:
                return
            self.memory.add(found.x - at.x, found.grad - at.grad)
            self.before, self.at = at.value, found
            yield Step(found.x.copy(), found.value)

    def _found(self) -> _Point | None:
        """Where the next step ends; None where there is no way down."""
        at = self.at
        self.memory.refresh(self.run.iteration, at.x)
        found = self._descend()
        if found is None and self.memory.any:
            # What was remembered no longer fits: begin again with the gradient alone.
            self.memory.steps, self.memory.changes = [], []
            found = self._descend()
        if self.run.iteration == 0 and (found is None or found.value >= at.value):
            slope = float(at.grad @ self.region.direction(at.x, at.grad, self.memory)[0])
            self.blocked = -slope > 1e-6 * max(abs(at.value), 1.0)
            if self.blocked:  # a step so short that rounding takes it for one down is none
                warnings.warn(_BLOCKED, LuceWarning, stacklevel=8)
                return None
        return found

    def _descend(self) -> _Point | None:
        at = self.at
        direction, limit = self.region.direction(at.x, at.grad, self.memory)
        slope = float(at.grad @ direction)
        if not -slope > 1e-14 * max(abs(at.value), 1.0) or np.abs(direction).max(initial=0.0) == 0.0:
            return None
        first = 1.0 if self.memory.scaled or limit <= 1.0 else min(1.0, 1.0 / float(np.linalg.norm(at.grad)))
        return _line_search(self.function, self.region, at, direction, slope, first, limit)


def _line_search(
    function: Function, region: Feasible, at: _Point, direction: FloatArray, slope: float, step: float, limit: float
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


def onto_simplex(vector: FloatArray, total: float) -> FloatArray:
    r"""The nearest point of $\{\theta \ge 0, \sum \theta \le t\}$, the set of [StructRank] (10), by one sort.

    >>> onto_simplex(np.array([0.9, 0.5, -0.3]), 1.0).round(12).tolist()
    [0.7, 0.3, 0.0]
    """
    clipped = np.maximum(vector, 0.0)
    if clipped.sum() <= total:
        return clipped
    falling = np.sort(vector)[::-1]
    excess = np.cumsum(falling) - total
    kept = int(np.flatnonzero(falling * np.arange(1, len(vector) + 1) > excess)[-1]) if total > 0 else 0
    result: FloatArray = np.maximum(vector - excess[kept] / (kept + 1), 0.0)
    return result if total > 0 else np.zeros_like(vector)


def onto_l1_ball(vector: FloatArray, radius: float) -> FloatArray:
    r"""The nearest point with $\sum |\theta| \le t$.

    >>> onto_l1_ball(np.array([0.9, -0.5, 0.1]), 1.0).round(12).tolist()
    [0.7, -0.3, 0.0]
    """
    return np.sign(vector) * onto_simplex(np.abs(vector), radius)


@dataclass(frozen=True, eq=False)
class Feasible:
    r"""Non-negativity of some entries, the L1 ball of all that count, bounds of the others.

    Parameters
    ----------
    lower, upper
        Bounds of each entry.
    counted
        Entries whose sum of absolute values is at most `radius`.
    radius
        None: no ball.
    """

    lower: FloatArray
    upper: FloatArray
    counted: BoolArray
    radius: float | None

    def __post_init__(self) -> None:
        least = float(np.maximum(self.lower[self.counted], 0.0).sum())
        if self.radius is not None and not self.radius > least:
            raise SettingError(f"radius is {self.radius}; it must be above {least:g}, what the lower bounds sum to.")

    def nearest(self, vector: FloatArray) -> FloatArray:
        """The nearest vector that is allowed; where an upper bound and the ball both bind, a near one."""
        moved = np.clip(vector, self.lower, self.upper)
        if self.radius is None:
            return moved
        # An entry with a lower bound above 0 has that much of the ball for certain: measured from there.
        floor = np.where(np.isfinite(self.lower) & (self.lower > 0), self.lower, 0.0)[self.counted]
        inside = onto_l1_ball(moved[self.counted] - floor, self.radius - float(floor.sum()))
        moved[self.counted] = inside + floor
        return moved

    def allows(self, vector: FloatArray) -> bool:
        """True for a vector of the set."""
        bounded = bool(np.all((vector >= self.lower) & (vector <= self.upper)))
        return bounded and (self.radius is None or float(np.abs(vector[self.counted]).sum()) <= self.radius)

    def shortened(self, vector: FloatArray, change: FloatArray) -> FloatArray:
        """Where a step ends that is halved until it is allowed."""
        halved = (vector + change * 0.5**halvings for halvings in range(_HALVINGS))
        return next((moved for moved in halved if self.allows(moved)), vector)

    def within(self, vector: FloatArray) -> FloatArray:
        """A vector of the set with room on all sides where there is any: the ball's share is scaled, not cut."""
        moved = np.clip(vector, self.lower, self.upper)
        length = float(np.abs(moved[self.counted]).sum())
        if self.radius is not None and length >= self.radius:
            moved[self.counted] *= 0.9 * self.radius / length
        return moved if self.allows(moved) else self.nearest(moved)

    @classmethod
    def box(cls, bounds: Sequence[tuple[float, float]]) -> Feasible:
        """Bounds alone."""
        lower, upper = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        return cls(lower, upper, np.zeros(len(lower), dtype=bool), None)

    def along(self, x: FloatArray, direction: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
        """Where a step leads, and how the place moves with it: entries stop at their bounds."""
        there = x + step * direction
        if self.radius is not None:
            return there, direction
        moving = np.where((there < self.lower) | (there > self.upper), 0.0, direction)
        return np.clip(there, self.lower, self.upper), moving

    def direction(self, x: FloatArray, grad: FloatArray, memory: Memory) -> tuple[FloatArray, float]:
        """The way to the minimum of the quadratic model, and the longest step that may be taken along it.

        Entries at a bound that the way would leave are held there, and the others take the inverse Hessian of their
        own block: still a way down (Bertsekas, 1982). Inside a ball the model is minimised over the ball.
        """
        if self.radius is not None:
            return _minimum_of_model(x, grad, memory, self) - x, 1.0
        low, high = x <= self.lower, x >= self.upper
        held = (low & (grad > 0)) | (high & (grad < 0))
        while True:
            direction = -memory.solve(np.where(held, 0.0, grad))
            direction[held] = 0.0
            leaving = (low & (direction < 0)) | (high & (direction > 0))
            if not leaving.any():
                return direction, np.inf
            held |= leaving


def _minimum_of_model(x: FloatArray, grad: FloatArray, memory: Memory, feasible: Feasible) -> FloatArray:
    """The minimum of the quadratic model over the set, by spectral projected gradient (Schmidt et al., 2009)."""
    if not memory.any:
        length = max(float(np.abs(grad).sum()), 1e-300)
        return feasible.nearest(x - grad / length)
    times = _hessian(memory)
    at, slope, step = x.copy(), grad, 1.0
    best, best_value = x, 0.0
    for _ in range(25):
        move = feasible.nearest(at - step * slope) - at
        curve, descent = float(move @ times(move)), float(slope @ move)
        if -descent <= 1e-12:
            break
        # Along a straight line the model is a parabola, whose minimum is known.
        length = min(1.0, -descent / curve) if curve > 0 else 1.0
        at = at + length * move
        new_slope = grad + times(at - x)
        inner = float(move @ (new_slope - slope)) * length
        step = float(length**2 * (move @ move)) / inner if inner > 0 else 1.0
        slope = new_slope
        value = 0.5 * float((grad + slope) @ (at - x))
        if value < best_value:
            best, best_value = at.copy(), value
    return best


def _hessian(memory: Memory) -> Callable[[FloatArray], FloatArray]:
    """The approximate Hessian as a function (the compact form of Byrd, Nocedal and Schnabel, 1994)."""
    S, Y = np.array(memory.steps).T, np.array(memory.changes).T
    products = S.T @ Y
    sigma = float(Y[:, -1] @ Y[:, -1]) / float(products[-1, -1])
    lower, diagonal = np.tril(products, -1), np.diag(np.diag(products))
    middle = np.block([[sigma * (S.T @ S), lower], [lower.T, -diagonal]])
    wide = np.hstack([sigma * S, Y])

    def times(vector: FloatArray) -> FloatArray:
        return sigma * vector - wide @ np.linalg.solve(middle, wide.T @ vector)

    return times
