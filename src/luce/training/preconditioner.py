"""The Hessian of a loss on a linear model, from queries that are drawn by their weight, as a preconditioner."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from luce.training.objective import Objective
from luce.types import FloatArray

MOST_PARAMETERS = 2000
"""Beyond it a Cholesky factor costs more than the passes that it saves."""
ROWS_A_PARAMETER = 100
LEAST_SHARE = 0.1
"""Rows that a Hessian is made of: so many for each parameter, and at least this share of all."""
CHEAP, DEAR = 25, 100
"""Parameters times the share of the rows: what a Hessian costs, of which a pass is some 25. It may always take the
former, and never more than the latter."""
TOO_FEW = 30
"""Rows for each parameter below which a draw is of no use."""
TURNS = (0, 10, 20)
"""Iterations that take a new Hessian."""
_DAMPING = 1e-6


def preconditioner_of(objective: Objective, *, always: bool = False) -> Preconditioner | None:
    """The preconditioner of an objective; None where there is none, or (unless `always`) none that would pay."""
    loss = objective.loss
    if not hasattr(objective.scorer, "design") or loss.stochastic or not (always or loss.guides_newton):
        return None
    n, rows = objective.scorer.n_parameters, int(objective.offsets[-1])
    pays = always or (0 < n <= MOST_PARAMETERS and rows_of_hessian(n, rows) >= min(rows, TOO_FEW * n))
    return Preconditioner(objective) if pays else None


def rows_of_hessian(n_parameters: int, n_rows: int) -> int:
    """How many rows a Hessian is made of.

    >>> [rows_of_hessian(46, 9630), rows_of_hessian(519, 473_134), rows_of_hessian(519, 48_000)]
    [5234, 51900, 9249]
    """
    most = min(ROWS_A_PARAMETER * n_parameters, DEAR * n_rows / n_parameters)
    return round(min(max(most, LEAST_SHARE * n_rows, CHEAP * n_rows / n_parameters), n_rows))


class Preconditioner:
    """Solves with the Hessian of `training.hessian`, taken anew at some iterations.

    A little is added to its diagonal, a hundred times more where it has no Cholesky factor, and where that does not
    help either the identity takes its place. A parameter of the loss (a tie parameter) stands alone, with its second
    derivative by differences.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._share: FloatArray | None = None
        self._factor: Any = None
        self._at: FloatArray = np.empty(0)

    def refresh(self, iteration: int, vector: FloatArray) -> None:
        """Take the Hessian at `vector` where it is time."""
        if iteration in TURNS:
            self._take(vector.copy())

    def _take(self, vector: FloatArray) -> None:
        self._at = vector
        if self._share is None:
            self._share = draw_queries(self.objective)
        n, own = self.objective.scorer.n_parameters, len(self.objective.loss.parameters)
        hessian = np.zeros((n + own, n + own))
        hessian[:n, :n] = self.objective.hessian(vector, self._share)
        hessian[n:, n:] = np.diag(self._own_curvature(vector)) if own else 0.0
        self._factor = _cholesky(hessian)

    def _own_curvature(self, vector: FloatArray) -> FloatArray:
        grad, n = self.objective.value_and_grad(vector)[1], self.objective.scorer.n_parameters
        found = np.zeros(len(vector) - n)
        for j, (_, upper) in enumerate(self.objective.loss.parameter_bounds, start=n):
            step = 1e-4 * max(1.0, abs(vector[j]))
            moved = vector.copy()
            moved[j] += step if vector[j] + step <= upper else -step
            found[j - n] = abs((self.objective.value_and_grad(moved)[1][j] - grad[j]) / step)
        return found

    def solve(self, vector: FloatArray) -> FloatArray:
        """The inverse times a vector; the vector itself where there is no factor."""
        if self._factor is None:
            return vector
        result: FloatArray = cho_solve(self._factor, vector, check_finite=False)
        return result

    def state(self) -> dict[str, FloatArray]:
        """Where the Hessian was taken: the same queries are drawn again, and the same bits found."""
        return {"hessian_at": self._at}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the Hessian where it was."""
        self._take(arrays["hessian_at"])


def _cholesky(hessian: FloatArray) -> Any:
    size = float(np.trace(hessian)) / len(hessian)
    if not (np.isfinite(hessian).all() and size > 0):
        return None
    for damping in (_DAMPING, 100 * _DAMPING):
        try:
            return cho_factor(hessian + damping * size * np.eye(len(hessian)), check_finite=False)
        except LinAlgError:
            continue
    return None


def draw_queries(objective: Objective) -> FloatArray:
    r"""What each query counts: its weight over the chance that it was drawn, 0 where it was not.

    All count where there are few rows. Else queries are drawn with $p_q = \min(1, c\,(n_q/2N + l_q/2\sum l))$, where
    $l_q = \sum_i \max_j z_{ij}^2$, $n_q$ is the number of documents, and $c$ meets the budget of rows: a draw that does
    not look at the features misses the few rows that make most of a heavy-tailed column.
    """
    sizes = np.diff(objective.offsets).astype(np.float64)
    weight = np.ones(len(sizes)) if objective.query_weight is None else objective.query_weight
    rows = float(sizes.sum())
    budget = rows_of_hessian(objective.scorer.n_parameters, int(rows))
    if budget >= rows:
        return weight
    reach = objective.reach()
    mixed = sizes / (2 * rows) + reach / (2 * reach.sum() or 1.0)
    chance = np.minimum(1.0, _factor(sizes, mixed, budget) * mixed)
    drawn = np.random.default_rng(0).random(len(sizes)) < chance
    share = np.where(drawn, weight / chance, 0.0)
    total = float(share.sum())
    return share * (float(weight.sum()) / total) if total > 0 else weight


def _factor(sizes: FloatArray, mixed: FloatArray, budget: float) -> float:
    """C of sum_q n_q min(1, c m_q) = budget."""
    low, high = 0.0, 1.0 / float(mixed.min())
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(sizes @ np.minimum(1.0, middle * mixed)) < budget else (low, middle)
    return high
