"""Which vectors a projected trainer may visit, and the nearest one to any other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.types import FloatArray

__all__ = ["Feasible", "onto_l1_ball", "onto_simplex"]


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
