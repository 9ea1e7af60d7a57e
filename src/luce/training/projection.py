"""Which vectors a search may visit, the nearest one to any other, and the way down that stays among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.training.curvature import Memory
from luce.types import FloatArray


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
    counted: NDArray[np.bool_]
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

    @classmethod
    def everything(cls, n: int) -> Feasible:
        """No bound at all."""
        return cls.box([(-np.inf, np.inf)] * n)

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
        result: FloatArray = sigma * vector - wide @ np.linalg.solve(middle, wide.T @ vector)
        return result

    return times
