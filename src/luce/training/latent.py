r"""Fitting latent structured ranking: a Luce choice at every position of an ideal list.

At position n, after the documents P of an ideal list, document i has the utility
$t_i = v \cdot x_i + 2 (A x_i) \cdot \sum_{j \in P} \omega_j A x_j + \omega_n \|A x_i\|^2$, what it adds to the worth of
the list (over $\omega_n$). The documents of the highest grade left are the right ones. The order of equal grades in the
ideal list is that of a linear ranker, from which the search also starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from luce.checks import number, patience, whole
from luce.data.groups import Groups
from luce.numerics.blas import one_blas_thread
from luce.numerics.segments import query_index
from luce.scorers.latent import FittedLatent, position_weight
from luce.scorers.linear import LinearScorer
from luce.training.gradients import linear_base
from luce.training.run import search_by_scipy
from luce.training.task import Algorithm, Task, Trained
from luce.types import FloatArray, IntArray

_SPREAD = 0.01


class LatentObjective:
    """Mean cost of a choice plus penalty, as a function of (v, A) in one vector."""

    def __init__(self, Z: NDArray[np.float64], data: Groups, order: IntArray, model: Latent) -> None:
        self.Z, self.rank, self.l2, self.offsets = Z, model.rank, model.l2, data.offsets
        self.query = query_index(data.offsets)
        self.steps = self._plan(data, order, model.depth)
        self.n_choices = sum(len(placed) for _, _, placed, _ in self.steps)

    def _plan(
        self, data: Groups, order: IntArray, depth: int
    ) -> list[tuple[IntArray, NDArray[np.bool_], IntArray, IntArray]]:
        """For every position: rows left, which of them are right, the rows placed, and where queries start."""
        left = np.ones(data.n_rows, dtype=bool)
        steps = []
        for position in range(depth):
            labels = np.where(left, data.y, -np.inf)
            top = np.maximum.reduceat(labels, self.offsets[:-1])
            low = np.minimum.reduceat(np.where(left, data.y, np.inf), self.offsets[:-1])
            rows = np.flatnonzero(left & (top > low)[self.query])
            if not len(rows):
                break
            starts = np.unique(self.query[rows], return_index=True)[1]
            placed = order[self.offsets[self.query[rows[starts]]] + position]
            steps.append((rows, data.y[rows] == top[self.query[rows]], placed, starts))
            left[placed] = False
        return steps

    def value_and_grad(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Forward over the positions, then the gradient of what was placed, backwards."""
        features = self.Z.shape[1]
        v, A = vector[:features], vector[features:].reshape(self.rank, features)
        own, latent = self.Z @ v, self.Z @ A.T
        d_own, d_latent = np.zeros_like(own), np.zeros_like(latent)
        placed = np.zeros((len(self.offsets) - 1, self.rank))
        value, later = 0.0, []
        for position, (rows, right, chosen, starts) in enumerate(self.steps):
            weight, query, z = position_weight(position), self.query[rows], latent[rows]
            utility = own[rows] + 2 * np.einsum("ij,ij->i", z, placed[query]) + weight * np.einsum("ij,ij->i", z, z)
            cost, g = _choices(utility, right, starts)
            value += cost
            d_own[rows] += g
            d_latent[rows] += g[:, None] * (2 * placed[query] + 2 * weight * z)
            later.append(np.add.reduceat(2 * g[:, None] * z, starts))
            placed[self.query[chosen]] += weight * latent[chosen]
        d_placed = np.zeros_like(placed)
        for position in range(len(self.steps) - 1, -1, -1):
            chosen = self.steps[position][2]
            d_latent[chosen] += position_weight(position) * d_placed[self.query[chosen]]
            d_placed[self.query[chosen]] += later[position]
        grad = np.concatenate([self.Z.T @ d_own, (d_latent.T @ self.Z).ravel()]) / max(self.n_choices, 1)
        return value / max(self.n_choices, 1) + 0.5 * self.l2 * float(vector @ vector), grad + self.l2 * vector


def _choices(utility: FloatArray, right: NDArray[np.bool_], starts: IntArray) -> tuple[float, FloatArray]:
    """Sum of -log of the chance of a right document, and its gradient."""
    sizes = np.diff(np.append(starts, len(utility)))
    total, chances = 0.0, np.zeros_like(utility)
    for sign, values in ((1.0, utility), (-1.0, np.where(right, utility, -np.inf))):
        top = np.maximum.reduceat(values, starts)
        parts = np.exp(values - np.repeat(top, sizes))
        sums = np.add.reduceat(parts, starts)
        total += sign * float((top + np.log(sums)).sum())
        chances += sign * parts / np.repeat(sums, sizes)
    return total, chances


@dataclass(frozen=True)
class Latent(Algorithm):
    r"""Latent structured ranking (Weston and Blitzer, 2012): documents beside each other count by a low-rank product.

    L-BFGS from a linear ranker and a small random A; the iterate that is best on validation data is kept.

    Parameters
    ----------
    rank
        Rows of A.
    depth
        Positions that are filled greedily and learned from; the other documents follow by their last utility.
    l2
        Strength of the penalty.
    max_iter, tol, early_stopping
        When L-BFGS ends, as for the trainer `lbfgs`.
    """

    rank: int = 5
    depth: int = 10
    l2: float = 1e-2
    max_iter: int = 100
    tol: float = 1e-5
    early_stopping: int | None = 20

    name: ClassVar[str] = "latent"

    def __post_init__(self) -> None:
        whole("rank", self.rank, 1, 10**6)
        whole("depth", self.depth, 1)
        number("l2", self.l2)
        number("tol", self.tol, above=True)
        whole("max_iter", self.max_iter, 0)
        patience(self.early_stopping)

    def train(self, task: Task) -> Trained:
        """L-BFGS."""
        self.check_task(task)
        data = task.data
        bound = LinearScorer().bind(data)
        linear = linear_base(replace(task, valid=None), self.l2, self.max_iter, self.tol)
        scores = linear.score(data.X, data.offsets)
        order = np.lexsort((-scores, -data.y, query_index(data.offsets))).astype(np.int64)
        mean, inverse_sd = bound.scale.mean, bound.scale.inverse_sd
        objective = LatentObjective((data.X - mean) * inverse_sd, data, order, self)
        rng = np.random.default_rng(task.seed)
        start = np.concatenate([bound.parameters_of(linear), rng.normal(0, _SPREAD, self.rank * data.n_features)])

        def fitted(vector: FloatArray) -> FittedLatent:
            factors = vector[data.n_features :].reshape(self.rank, data.n_features)
            return FittedLatent(vector[: data.n_features].copy(), factors.copy(), mean, inverse_sd, self.depth)

        run = task.start_run(self.max_iter, self.early_stopping, lambda vector: task.judged_scorer(fitted(vector)))
        with one_blas_thread():
            search_by_scipy(run, objective.value_and_grad, start, self.tol)
        return Trained(fitted(run.result), None, run.history)
