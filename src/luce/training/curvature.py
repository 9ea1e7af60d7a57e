"""What a quasi-Newton search remembers of curvature: the last steps, and the changes of the gradient along them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from luce.types import FloatArray


class Metric(Protocol):
    """A Hessian, refreshed now and then, that the memory corrects."""

    def refresh(self, iteration: int, vector: FloatArray) -> None:
        """Take the Hessian at `vector` where the iteration asks for it."""
        ...

    def solve(self, vector: FloatArray) -> FloatArray:
        """The inverse times a vector."""
        ...

    def state(self) -> dict[str, FloatArray]:
        """What it takes to build the same again."""
        ...

    def restore(self, arrays: dict[str, Any]) -> None:
        """Build it again."""
        ...


class Memory:
    """Pairs of steps s and changes of the gradient y, at most `size`, on top of a first guess of the Hessian.

    The guess is the matrix B of `metric`, or (None) the identity, divided by $s'y / y'B^{-1}y$ of the last pair: so far
    as the last step can tell, it is then of the right size.
    """

    def __init__(self, size: int, metric: Metric | None = None) -> None:
        self.size, self.metric = size, metric
        self.steps: list[FloatArray] = []
        self.changes: list[FloatArray] = []

    @property
    def any(self) -> bool:
        """True where a pair is remembered."""
        return bool(self.steps)

    @property
    def scaled(self) -> bool:
        """True where a step of length 1 is a sensible one."""
        return self.metric is not None or self.any

    def refresh(self, iteration: int, vector: FloatArray) -> None:
        """Let the metric follow the search."""
        if self.metric is not None:
            self.metric.refresh(iteration, vector)

    def add(self, step: FloatArray, change: FloatArray) -> None:
        """Remember a pair, unless the function bends the wrong way along it."""
        if float(step @ change) > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.steps = [*self.steps, step][-self.size :]
            self.changes = [*self.changes, change][-self.size :]

    def forget(self) -> None:
        """Drop all pairs."""
        self.steps, self.changes = [], []

    def solve(self, vector: FloatArray) -> FloatArray:
        """The inverse of the approximate Hessian times a vector, by the two loops of Nocedal (1980)."""
        left = vector.copy()
        pairs = list(zip(self.steps, self.changes, strict=True))
        shares = []
        for s, y in reversed(pairs):
            shares.append(float(s @ left) / float(s @ y))
            left -= shares[-1] * y
        left = self._guess(left)
        if pairs:
            s, y = pairs[-1]
            left *= float(s @ y) / float(y @ self._guess(y))
        for (s, y), share in zip(pairs, reversed(shares), strict=True):
            left += (share - float(y @ left) / float(s @ y)) * s
        return left

    def _guess(self, vector: FloatArray) -> FloatArray:
        return vector if self.metric is None else self.metric.solve(vector)

    def state(self) -> dict[str, FloatArray]:
        """The pairs as arrays, for a checkpoint."""
        metric = {} if self.metric is None else self.metric.state()
        return {"steps": np.array(self.steps), "changes": np.array(self.changes), **metric}

    def restore(self, arrays: dict[str, Any]) -> None:
        """The pairs of a checkpoint."""
        self.steps = [row.copy() for row in arrays["steps"]]
        self.changes = [row.copy() for row in arrays["changes"]]
        if self.metric is not None:
            self.metric.restore(arrays)
