"""What a model says about one query: chances of pairs and of the top, each with its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.types import FloatArray

_AT_ONCE = 1 << 20
"""Pairs of documents that are compared at once."""


class PairProbabilities(NamedTuple):
    """Probabilities for all pairs of documents of a query, from `samples` independent draws (0: exact).

    `tie[i, j]` is the chance that i and j are tied, `before[i, j]` that i is better than j;
    `tie + before + before.T` is 1 everywhere (the diagonal of `tie` is 1).
    """

    tie: FloatArray
    before: FloatArray
    samples: int

    @property
    def tie_error(self) -> FloatArray:
        """Standard errors of `tie`."""
        return _standard_error(self.tie, self.samples)

    @property
    def before_error(self) -> FloatArray:
        """Standard errors of `before`."""
        return _standard_error(self.before, self.samples)


class TopKChances(NamedTuple):
    """The chance of every document to be in the top k, its standard error, and the draws it comes from (0: exact)."""

    probability: FloatArray
    error: FloatArray
    draws: int


def exact_pairs(tie: FloatArray, before: FloatArray) -> PairProbabilities:
    """Chances that are known, a matrix each, whatever stands on their diagonals."""
    np.fill_diagonal(tie, 1.0)
    np.fill_diagonal(before, 0.0)
    return PairProbabilities(tie, before, 0)


def exact_top(probability: FloatArray) -> TopKChances:
    """Chances that are known."""
    return TopKChances(probability, np.zeros_like(probability), 0)


def pairs_of_draws(labels: FloatArray) -> PairProbabilities:
    """How often each pair of documents was tied, and in which order, in independent draws, a row of labels each.

    To every outcome of a pair a third of a draw is added: what was never seen is not impossible.

    >>> pairs_of_draws(np.array([[2.0, 1.0], [1.0, 1.0]])).before.round(6).tolist()
    [[0.0, 0.444444], [0.111111, 0.0]]
    """
    samples, n = labels.shape
    tie, before = np.zeros((n, n)), np.zeros((n, n))
    some = max(1, _AT_ONCE // max(n * n, 1))
    for first in range(0, samples, some):
        here = labels[first : first + some]
        tie += (here[:, :, None] == here[:, None, :]).sum(axis=0)
        before += (here[:, :, None] > here[:, None, :]).sum(axis=0)
    third = 1.0 / 3.0
    tie, before = (tie + third) / (samples + 1), (before + third) / (samples + 1)
    return exact_pairs(tie, before)._replace(samples=samples)


def _standard_error(p: FloatArray, n: int) -> FloatArray:
    if n == 0:
        return np.zeros_like(p)
    # Half a success and half a failure more: a chance that was never seen in n draws is not known without error.
    smoothed = (p * n + 0.5) / (n + 1)
    return np.sqrt(smoothed * (1 - smoothed) / n)
