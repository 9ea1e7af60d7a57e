"""The coset-permutation scorer: features as weak rankers, documents chosen stage by stage.

What a document is worth depends on which others are left, so that the scorer has a likelihood of its own; the trainer
`cps` learns its weights, and `luce.model("topk-cps")` is that system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError
from luce.numerics.coset_permutations import first_distances, greedy_stages
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.saved import finite
from luce.types import FloatArray, IntArray


def distances(X: NDArray[np.float32], starts: IntArray) -> NDArray[np.float32]:
    """(rows, features): before the first stage, how many documents of its list a feature puts before a row.

    >>> distances(np.array([[3], [1], [2], [2]], dtype=np.float32), np.array([0, 4])).ravel().tolist()
    [0.0, 3.0, 1.5, 1.5]
    """
    result = np.empty(X.shape, dtype=np.float32)

    def fill(_: int, chunk: Chunk) -> None:
        for i in range(*chunk):
            first_distances(X[starts[i] : starts[i + 1]], result[starts[i] : starts[i + 1]])

    map_chunks(fill, chunk_queries(starts, 4096))
    return result


@dataclass(frozen=True, eq=False)
class CPSScorer:
    r"""One weight a feature, $\theta_m$, on distances of unit spread; learned by `luce.training.coset_objective`."""

    k: int = 10
    inverse_spread: FloatArray = field(default_factory=lambda: np.empty(0))

    name = "cps"

    def bind(self, data: Groups) -> CPSScorer:
        """Take the spread of the distances in a training set; a feature that tells no two documents apart has none."""
        if np.isnan(data.X).any():
            row, column = np.argwhere(np.isnan(data.X))[0]
            raise DataError(f"Feature {column + 1} of row {row} is NaN; a feature that ranks needs numbers.")
        d = distances(data.X, data.offsets)
        d -= np.repeat(0.5 * (data.sizes - 1.0), data.sizes).astype(np.float32)[:, None]
        spread = np.sqrt(np.square(d, out=d).mean(axis=0, dtype=np.float64))
        return replace(self, inverse_spread=np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0))

    @property
    def n_parameters(self) -> int:
        """One weight a feature."""
        return len(self.inverse_spread)

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Zero: every order is equally probable."""
        return np.zeros(self.n_parameters)

    def fitted(self, parameters: FloatArray) -> FittedCPS:
        """The weights of the distances themselves."""
        return FittedCPS(parameters * self.inverse_spread, self.k)

    def parameters_of(self, fitted: FittedCPS) -> FloatArray:
        """The weights of a fitted scorer on this scorer's scale, for a warm start."""
        known = self.inverse_spread > 0
        return np.divide(fitted.theta, self.inverse_spread, out=np.zeros_like(fitted.theta), where=known)


def _put_before(X: NDArray[np.float32], theta: FloatArray) -> NDArray[np.float64]:
    """Entry (s, j): what row s takes off the utility of row j as long as it is left; 0 for a row itself."""
    n = len(X)
    result = np.zeros((n, n))
    for column, weight in zip(X.T, theta, strict=True):
        if weight != 0:
            result += (0.5 * weight) * (
                (column[:, None] > column).astype(np.float64) + (column[:, None] >= column).astype(np.float64)
            )
    np.fill_diagonal(result, 0.0)
    return result


@dataclass(frozen=True, eq=False)
class FittedCPS:
    """Ranks a query by k greedy stages, and what is left by its utility after them."""

    theta: FloatArray
    k: int

    name = "cps"
    needs_queries = True

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """k, k - 1, ..., 1 for the documents chosen; the others have 0 or less, in the order of their utility."""
        scores = np.empty(len(X))

        def block(_: int, chunk: Chunk) -> None:
            for q in range(*chunk):
                rows = slice(offsets[q], offsets[q + 1])
                greedy_stages(X[rows], self.theta, self.k, scores[rows])

        map_chunks(block, chunk_queries(offsets, 4096))
        return scores

    def draw(self, X: NDArray[np.float32], rng: np.random.Generator) -> IntArray:
        """Draw the first k rows of one query, best first."""
        rows: IntArray = self.draw_many(X, self.k, rng, 1)[0][0]
        return rows

    def draw_many(
        self, X: NDArray[np.float32], k: int, rng: np.random.Generator, count: int
    ) -> tuple[IntArray, FloatArray]:
        """Draw `count` times the first k rows of one query, best first, [HOM] (2).

        Also, (count, rows), the chances of every row to be chosen, summed over the stages of a draw: their mean over
        draws is the chance to be among the first k, with less noise than the rows that were drawn.
        """
        n = len(X)
        k = min(k, n)
        put_before = _put_before(X, self.theta)
        utility = np.tile(-put_before.sum(axis=0), (count, 1))
        order, chance, draws = np.empty((count, k), dtype=np.int64), np.zeros((count, n)), np.arange(count)
        for stage in range(k):
            chance += softmax(utility, axis=1)
            order[:, stage] = np.argmax(utility + rng.gumbel(size=(count, n)), axis=1)
            utility += put_before[order[:, stage]]
            utility[draws, order[:, stage]] = -np.inf
        return order, chance

    def sample_many(self, X: NDArray[np.float32], rng: np.random.Generator, n: int) -> FloatArray:
        """Draw the top of one query n times, a row of labels each: k for the best, 1 for the k-th, 0 for the others."""
        order, _ = self.draw_many(X, self.k, rng, n)
        labels = np.zeros((n, len(X)))
        np.put_along_axis(labels, order, np.arange(order.shape[1], 0, -1.0)[None, :], axis=1)
        return labels

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        return {"k": self.k}, {"theta": self.theta}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedCPS:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        k = settings.get("k")
        if type(k) is not int or k < 1:
            raise ModelFormatError(f"A coset-permutation scorer needs k of at least 1; the file has {k!r}.")
        return cls(finite(cls.name, arrays, "theta", (None,)), k)

    @property
    def n_features(self) -> int:
        """Features that a row must have."""
        return len(self.theta)

    def importance(self) -> FloatArray:
        """The weight of each feature's own ranking; below 0 where it is followed in reverse."""
        return self.theta
