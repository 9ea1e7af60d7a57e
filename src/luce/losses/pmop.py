"""PMOP with full decomposition: a probability over ordered partitions, in linear time."""

from __future__ import annotations

from math import lgamma

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from luce.losses.base import NOT_WANTED, Likelihood, Target, as_tiers, check_scores
from luce.numerics.segments import Chunk, Tiers
from luce.types import FloatArray, IntArray

__all__ = ["PMOP", "one_query", "run_queries"]


class PMOP(Likelihood):
    r"""Stagewise choice of a whole tier of tied documents.

    The labels of a query cut its documents into tiers $X_1 \succ \dots \succ X_K$; $R_k$ is what remains before
    stage $k$. With $\phi_i = e^{f_i}$ and the potential $\Phi(S) = \frac{1}{|S|}\sum_{i \in S} \phi_i$ (Eq. 8),

    $$-\log p = \sum_k \log\sum_{R_k} \phi_i - \log\sum_{X_k} \phi_i + \log(C_k |X_k|),
      \quad C_k = \frac{2^{N_k} - 1}{N_k}.$$

    The last term does not depend on the scores: `value_and_grad` leaves it out, `log_prob` keeps it. Where no two
    documents are tied this is Plackett-Luce (ListMLE).

    >>> loss = PMOP()
    >>> outcomes = [[2, 1], [1, 2], [1, 1]]
    >>> round(float(sum(np.exp(loss.log_prob([0.3, -0.5], labels)) for labels in outcomes)), 12)
    1.0
    """

    name = "pmop"

    def prepare(self, target: Target, offsets: IntArray) -> Tiers:
        """Tiers of equal label."""
        return as_tiers(self, target, offsets)

    def evaluate(
        self,
        prepared: Tiers,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        """One value a query; curvature is the sum over stages of g (1 - g), g the probability of a lead."""
        values = np.empty(chunk[1] - chunk[0])
        run_queries(scores, *prepared, chunk[0], values, grad, curvature)
        return values

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of an ordered partition of one query."""
        value, _ = self.value_and_grad(scores, target)
        _, counts = np.unique(np.asarray(target), return_counts=True)
        sizes = counts[::-1]
        remaining = len(np.asarray(target)) - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        log_c = remaining * np.log(2) + np.log1p(-(0.5**remaining)) - np.log(remaining)
        return -value - float(np.sum(log_c + np.log(sizes)))

    def sample(self, scores: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw an ordered partition.

        Summed over all tiers of size m, the potential is proportional to C(N, m): draw the size, then a leader in
        proportion to phi, then the others of the tier evenly.
        """
        scores = check_scores(scores)
        labels = np.zeros(len(scores))
        left = np.arange(len(scores))
        grade = len(scores)
        while len(left):
            n = len(left)
            log_binomial = np.array([lgamma(n + 1) - lgamma(m + 1) - lgamma(n - m + 1) for m in range(1, n + 1)])
            size = 1 + rng.choice(n, p=_normalised(log_binomial))
            leader = rng.choice(n, p=_normalised(scores[left]))
            others = rng.choice(np.delete(np.arange(n), leader), size - 1, replace=False)
            tier = np.append(others, leader)
            labels[left[tier]] = grade
            left = np.delete(left, tier)
            grade -= 1
        return labels


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


@njit(nogil=True, cache=True, error_model="numpy")
def run_queries(scores, order, starts, queries, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    """`one_query` for the queries from `first` on, as many as there are values to fill."""
    for i in range(len(values)):
        q = first + i
        values[i] = one_query(scores, order, starts[queries[q] : queries[q + 1] + 1], grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def one_query(scores, order, starts, grad, curvature):  # type: ignore[no-untyped-def]
    """Value of one query with tiers `order[starts[k]:starts[k + 1]]`; fills grad and, unless empty, curvature."""
    low, high = np.inf, -np.inf
    for j in range(starts[0], starts[-1]):
        low, high = min(low, scores[order[j]]), max(high, scores[order[j]])
    if high - low < _LINEAR_RANGE:
        return _one_query_linear(scores, order, starts, high, grad, curvature)
    return _one_query_logarithmic(scores, order, starts, grad, curvature)


# exp(-2 * 300) is far from underflow, so that sums of phi, of 1/phi and of their squares need no logarithms.
_LINEAR_RANGE = 300.0


@njit(nogil=True, cache=True, error_model="numpy")
def _one_query_linear(scores, order, starts, high, grad, curvature):  # type: ignore[no-untyped-def]
    stages = len(starts) - 1
    tier = np.empty(stages)  # sum of phi over X_k
    left = np.empty(stages)  # sum of phi over R_k, by a backward sweep
    running = 0.0
    for k in range(stages - 1, -1, -1):
        tier[k] = 0.0
        for j in range(starts[k], starts[k + 1]):
            phi = np.exp(scores[order[j]] - high)
            grad[order[j]] = phi
            tier[k] += phi
        running += tier[k]
        left[k] = running
    value, once, twice = 0.0, 0.0, 0.0  # once: sum over the stages so far of 1 / sum_{R_k} phi; twice: of its square
    for k in range(stages):
        value += np.log(left[k] / tier[k])
        once += 1.0 / left[k]
        twice += 1.0 / left[k] ** 2
        for j in range(starts[k], starts[k + 1]):
            phi = grad[order[j]]
            if len(curvature):
                curvature[order[j]] = max(phi * once - phi * phi * twice, 0.0)
            grad[order[j]] = phi * (once - 1.0 / tier[k])
    return value


@njit(nogil=True, cache=True, error_model="numpy")
def _one_query_logarithmic(scores, order, starts, grad, curvature):  # type: ignore[no-untyped-def]
    stages = len(starts) - 1
    top = np.empty(stages)  # largest score of X_k
    log_tier = np.empty(stages)  # log sum of phi over X_k
    log_left = np.empty(stages)  # log sum of phi over R_k, by a backward sweep
    running = -np.inf
    for k in range(stages - 1, -1, -1):
        top[k] = scores[order[starts[k]]]
        for j in range(starts[k] + 1, starts[k + 1]):
            top[k] = max(top[k], scores[order[j]])
        total = 0.0
        for j in range(starts[k], starts[k + 1]):
            relative = np.exp(scores[order[j]] - top[k])
            grad[order[j]] = relative
            total += relative
        log_tier[k] = top[k] + np.log(total)
        running = _log_add(running, log_tier[k])
        log_left[k] = running
    # log_once = log of the sum over the stages so far of 1 / sum_{R_k} phi; log_twice the same of its square.
    value, log_once, log_twice = 0.0, -np.inf, -np.inf
    for k in range(stages):
        value += log_left[k] - log_tier[k]
        log_once = _log_add(log_once, -log_left[k])
        leads, share = np.exp(top[k] + log_once), np.exp(top[k] - log_tier[k])
        if len(curvature):
            log_twice = _log_add(log_twice, -2.0 * log_left[k])
            twice = np.exp(2.0 * top[k] + log_twice)
            for j in range(starts[k], starts[k + 1]):
                relative = grad[order[j]]
                curvature[order[j]] = max(relative * leads - relative * relative * twice, 0.0)
        for j in range(starts[k], starts[k + 1]):
            grad[order[j]] *= leads - share
    return value


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high))
