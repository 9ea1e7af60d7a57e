"""Likelihood of races: Plackett-Luce, and PMOP where competitors tie, with exact Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse

from luce.aggregate.board.intake import add_up
from luce.aggregate.board.newton import Point
from luce.aggregate.board.races import Races
from luce.losses.pmop import PMOP
from luce.numerics.segments import Tiers
from luce.types import FloatArray

__all__ = ["Listwise"]

_PMOP = PMOP()


@dataclass(frozen=True, eq=False)
class Listwise:
    r"""Minus the log-likelihood of races, and a ridge on the strengths.

    The score of a competitor is its strength plus covariates. Value and gradient in the scores are those of the loss
    `pmop`; without ties they are Plackett-Luce's. With $p_k$ the shares of the competitors left before stage k and
    $q_k$ the shares inside the tier that is chosen, the Hessian in the scores is
    $\sum_k (\mathrm{diag}(p_k) - p_k p_k^\top) - (\mathrm{diag}(q_k) - q_k q_k^\top)$; the
    second part is 0 without ties.
    """

    races: Races
    ridge: float = 0.0

    @property
    def n_parameters(self) -> int:
        """Strengths and coefficients."""
        return len(self.races.names) + len(self.races.covariate_names)

    def start(self) -> FloatArray:
        """All equal."""
        return np.zeros(self.n_parameters)

    @cached_property
    def _tiers(self) -> Tiers:
        tiers: Tiers = _PMOP.prepare(-self.races.place, self.races.offsets)
        return tiers

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
        grad = np.zeros(len(self.races.item))
        values = _PMOP.evaluate(self._tiers, self._scores(x), (0, len(self.races.count)), grad)
        return values, grad

    def log_likelihood(self, x: FloatArray) -> float:
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
        n = len(self.races.names)
        values, by_row = self._values_and_grad(x)
        value = float(values @ self.races.count)
        by_row *= np.repeat(self.races.count, np.diff(self.races.offsets))
        gradient = np.concatenate([add_up(self.races.item, by_row, n), by_row @ self._covariates])
        hessian = np.zeros((self.n_parameters, self.n_parameters))
        order = self._tiers
        _hessian(self._scores(x), *order, self.races.item, self._covariates, n, self.races.count, hessian)
        hessian = hessian + hessian.T
        if self.ridge:
            value += 0.5 * self.ridge * float(x[:n] @ x[:n])
            gradient[:n] += self.ridge * x[:n]
            hessian[np.arange(n), np.arange(n)] += self.ridge
        return Point(value, gradient, hessian)

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
        return (scores.T @ scores.multiply(self.races.squares[:, None])).toarray()


@njit(nogil=True, cache=True, error_model="numpy")
def _hessian(scores, order, starts, queries, item, covariates, n, weight, out):  # type: ignore[no-untyped-def]
    """Add half the Hessian; the caller adds its transpose."""
    for q in range(len(weight)):
        first, last = queries[q], queries[q + 1]
        low, high = starts[first], starts[last]
        top = -np.inf
        for r in range(low, high):
            top = max(top, scores[order[r]])
        phi = np.empty(high - low)
        for r in range(low, high):
            phi[r - low] = np.exp(scores[order[r]] - top)
        left = 0.0
        # Sums of phi over what is left, from the last tier up; `once` and `twice` are then sums over stages
        # of 1 / sum and 1 / sum^2, so that a pair of competitors needs one product, whatever the stages.
        sums = np.empty(last - first)
        for k in range(last - 1, first - 1, -1):
            for r in range(starts[k], starts[k + 1]):
                left += phi[r - low]
            sums[k - first] = left
        once, twice = 0.0, 0.0
        for k in range(first, last):
            once += 1.0 / sums[k - first]
            twice += 1.0 / sums[k - first] ** 2
            tier = 0.0
            for r in range(starts[k], starts[k + 1]):
                tier += phi[r - low]
            tied = starts[k + 1] - starts[k] > 1
            for r in range(starts[k], starts[k + 1]):
                own = phi[r - low]
                diagonal = own * once - own * own * twice
                if tied:
                    share = own / tier
                    diagonal -= share - share * share
                _add(out, item, covariates, n, order[r], order[r], 0.5 * weight[q] * diagonal)
                for other in range(r + 1, high):
                    product = own * phi[other - low]
                    value = -product * twice
                    if tied and other < starts[k + 1]:
                        value += product / (tier * tier)
                    _add(out, item, covariates, n, order[r], order[other], weight[q] * value)


@njit(nogil=True, cache=True, error_model="numpy")
def _add(out, item, covariates, n, i, j, value):  # type: ignore[no-untyped-def]
    out[item[i], item[j]] += value
    for c in range(covariates.shape[1]):
        out[item[i], n + c] += value * covariates[j, c]
        out[n + c, item[j]] += value * covariates[i, c]
        for e in range(covariates.shape[1]):
            out[n + c, n + e] += value * covariates[i, c] * covariates[j, e]
