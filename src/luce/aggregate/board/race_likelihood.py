"""Likelihood of races: Plackett-Luce, and PMOP where competitors tie, with exact Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from luce.aggregate.board.likelihood import add_up
from luce.aggregate.board.newton import Point
from luce.aggregate.board.races import Races
from luce.losses.pmop import PMOP
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Tiers, tiers
from luce.types import FloatArray

_PMOP = PMOP()


def prepare(races: Races) -> Tiers:
    """The ordered partitions of the places of all races."""
    return tiers(-races.place, races.offsets)


@dataclass(frozen=True, eq=False)
class RaceLikelihood:
    r"""Minus the log-likelihood of races.

    The score of a competitor is its strength plus covariates. Value and gradient in the scores are those of the loss
    `pmop`; without ties they are Plackett-Luce's. With $p_k$ the shares of the competitors left before stage k and
    $q_k$ the shares inside the tier that is chosen, the Hessian in the scores is
    $\sum_k (\mathrm{diag}(p_k) - p_k p_k^\top) - (\mathrm{diag}(q_k) - q_k q_k^\top)$; the
    second part is 0 without ties.
    """

    races: Races
    order: Tiers | None = None
    """The ordered partitions of the places, where they are known from the same races with other weights."""

    @property
    def n_parameters(self) -> int:
        """Strengths and coefficients."""
        return len(self.races.names) + len(self.races.covariate_names)

    def start(self) -> FloatArray:
        """All equal."""
        return np.zeros(self.n_parameters)

    @cached_property
    def _tiers(self) -> Tiers:
        return self.order or prepare(self.races)

    @cached_property
    def _last(self) -> dict[bytes, tuple[FloatArray, FloatArray]]:
        return {}

    @cached_property
    def _covariates(self) -> FloatArray:
        rows = len(self.races.item)
        return np.empty((rows, 0)) if self.races.covariates is None else np.ascontiguousarray(self.races.covariates)

    def _scores(self, x: FloatArray) -> FloatArray:
        n = len(self.races.names)
        scores = x[:n][self.races.item]
        return scores + self._covariates @ x[n:] if len(x) > n else scores

    def _values_and_grad(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """-log p of every race up to a constant, and its gradient in the scores of its rows; without weights."""
        key = x.tobytes()
        if key not in self._last:
            grad = np.zeros(len(self.races.item))
            values = _PMOP.evaluate(self._tiers, self._scores(x), (0, len(self.races.count)), grad)
            self._last.clear()
            self._last[key] = values, grad
        return self._last[key]

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """Sum of log-probabilities of all races; constants of PMOP included."""
        order = self._tiers
        sizes = np.diff(order.starts)
        first = np.repeat(order.queries[:-1], np.diff(order.queries))
        left = np.repeat(np.diff(self.races.offsets), np.diff(order.queries)) - (
            order.starts[:-1] - order.starts[first]
        )
        # log((2^N - 1) m / N): the constant of a stage with N left and m chosen; Plackett-Luce has none.
        constant = left * np.log(2) + np.log1p(-(0.5**left)) - np.log(left) + np.log(sizes)
        constant = constant if self.ties else np.zeros(len(left))
        by_race = np.add.reduceat(constant, order.queries[:-1])
        return -float((self._values_and_grad(x)[0] + by_race) @ self.races.count)

    @cached_property
    def ties(self) -> bool:
        """True where two competitors of a race share a place."""
        return bool(np.any(np.diff(self._tiers.starts) > 1))

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient and Hessian of what is minimised."""
        n, order = len(self.races.names), self._tiers
        by_row = np.empty(len(self.races.item))
        hessian = np.zeros((self.n_parameters, self.n_parameters))
        scores, item, count = self._scores(x), self.races.item, self.races.count
        value = float(_second_order(scores, *order, item, self._covariates, n, count, by_row, hessian))
        gradient = np.concatenate([add_up(item, by_row, n), by_row @ self._covariates])
        return Point(value, gradient, hessian + hessian.T)

    def scores(self, x: FloatArray) -> sparse.csr_array:
        """(races, parameters): the gradient of the log-likelihood of each race, without its weight."""
        n = len(self.races.names)
        _, by_row = self._values_and_grad(x)
        items = sparse.csr_array((-by_row, self.races.item, self.races.offsets), shape=(len(self.races.count), n))
        if not self.races.covariate_names:
            return items
        product = -by_row[:, None] * self._covariates
        return sparse.hstack([items, np.add.reduceat(product, self.races.offsets[:-1])], format="csr")

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum over races of the outer product of their score vectors."""
        scores = self.scores(x)
        result: FloatArray = (scores.T @ scores.multiply(self.races.squares[:, None])).toarray()
        return result


@kernel
def _second_order(scores, order, starts, queries, item, covariates, n, weight, grad, hessian):  # type: ignore[no-untyped-def]
    """Weighted value; fills the gradient by row, and adds half the Hessian (the caller adds its transpose)."""
    value = 0.0
    for q in range(len(weight)):
        low, high = starts[queries[q]], starts[queries[q + 1]]
        phi = np.empty(high - low)
        local = np.empty(high - low, dtype=np.int64)
        top = -np.inf
        for r in range(low, high):
            top = max(top, scores[order[r]])
        for r in range(low, high):
            phi[r - low] = np.exp(scores[order[r]] - top)
            local[r - low] = item[order[r]]
        value += weight[q] * _one_race(
            phi, local, starts[queries[q] : queries[q + 1] + 1] - low, weight[q], order[low:high], grad, hessian
        )
        if covariates.shape[1]:
            _with_covariates(
                phi,
                local,
                starts[queries[q] : queries[q + 1] + 1] - low,
                weight[q],
                order[low:high],
                covariates,
                n,
                hessian,
            )
    return value


@part
def _one_race(phi, local, starts, weight, rows, grad, hessian):  # type: ignore[no-untyped-def]
    stages = len(starts) - 1
    sums = np.empty(stages)
    left = 0.0
    for k in range(stages - 1, -1, -1):
        for r in range(starts[k], starts[k + 1]):
            left += phi[r]
        sums[k] = left
    # Sums over stages of 1 / sum and 1 / sum^2: a pair of competitors then needs one product, whatever the stages.
    value, once, twice = 0.0, 0.0, 0.0
    for k in range(stages):
        once += 1.0 / sums[k]
        twice += 1.0 / sums[k] ** 2
        tier = 0.0
        for r in range(starts[k], starts[k + 1]):
            tier += phi[r]
        value += np.log(sums[k] / tier)
        for r in range(starts[k], starts[k + 1]):
            share = phi[r] / tier
            grad[rows[r]] = weight * (phi[r] * once - share)
            line = hessian[local[r]]
            line[local[r]] += 0.5 * weight * (phi[r] * once - phi[r] * phi[r] * twice - share * (1.0 - share))
            slope = weight * phi[r] * twice
            for other in range(r + 1, len(phi)):
                line[local[other]] -= slope * phi[other]
            for other in range(r + 1, starts[k + 1]):
                line[local[other]] += weight * share * phi[other] / tier
    return value


@part
def _with_covariates(phi, local, starts, weight, rows, covariates, n, hessian):  # type: ignore[no-untyped-def]
    """The rows and columns of the coefficients: the Hessian of this race in its scores, times the covariates."""
    size = len(phi)
    own = np.zeros((size, size))
    scratch = np.empty(size)
    _one_race(phi, np.arange(size), starts, weight, np.arange(size), scratch, own)
    own = own + own.T
    for i in range(size):
        for c in range(covariates.shape[1]):
            total = 0.0
            for j in range(size):
                total += own[i, j] * covariates[rows[j], c]
            hessian[local[i], n + c] += total
            for e in range(covariates.shape[1]):
                hessian[n + e, n + c] += 0.5 * total * covariates[rows[i], e]
