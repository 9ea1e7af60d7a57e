"""What is maximised: the interface of a likelihood, and a likelihood with a quadratic penalty or a tilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from luce.aggregate.board.newton import Point
from luce.types import FloatArray, IntArray


class Likelihood(Protocol):
    """Minus a log-likelihood (or half a sum of squares) of strengths, coefficients and a tie parameter."""

    @property
    def n_parameters(self) -> int:
        """Strengths first, then coefficients, then a tie parameter."""
        ...

    def start(self) -> FloatArray:
        """Where Newton starts."""
        ...

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient, Hessian."""
        ...

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum of outer products of the score vectors."""
        ...

    def scores(self, x: FloatArray) -> Any:
        """Scores of cells or races, for sums by group."""
        ...

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """At a point that was evaluated, constants included."""
        ...


@dataclass(frozen=True, eq=False)
class Penalised:
    r"""$-\log L(x) + \frac{1}{2} s^\top Q s - a^\top s$ over the strengths s, the first entries of x.

    Q is the precision of a normal prior. A tilt a moves the maximum along a profile: where it is $\lambda b$, the
    maximum is that of the likelihood under the constraint that $b^\top s$ has the value it takes there.
    """

    likelihood: Likelihood
    precision: FloatArray | None = None
    tilt: FloatArray | None = None

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient, Hessian."""
        value, gradient, hessian = self.likelihood(x)
        if self.precision is not None:
            n = len(self.precision)
            pull = self.precision @ x[:n]
            value += 0.5 * float(x[:n] @ pull)
            gradient, hessian = gradient.copy(), hessian.copy()
            gradient[:n] += pull
            hessian[:n, :n] += self.precision
        if self.tilt is not None:
            n = len(self.tilt)
            value -= float(self.tilt @ x[:n])
            gradient = gradient - np.pad(self.tilt, (0, len(gradient) - n))
        return Point(value, gradient, hessian)


def add_up(index: IntArray, weight: FloatArray | None, length: int) -> FloatArray:
    """Sums of the weights (1 where None) by index, always as float64."""
    return np.bincount(index, weight, length).astype(np.float64, copy=False)
