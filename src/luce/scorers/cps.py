r"""The coset-permutation scorer: features as weak rankers, documents chosen stage by stage.

What a document is worth depends on which others are left, so that the scorer has a likelihood of its own; the trainer
`cps` learns its weights, and `luce.model("topk-cps")` is that system.

Feature m ranks the documents of a query by its value, highest first. With Kendall's distance between a coset (all
permutations that begin with the documents chosen so far) and that ranking, what depends on the next document j is
$d_m(j)$, the number of documents left that feature m puts before j, with half for each that it ties with j. Stage by
stage j is chosen from what is left with probability proportional to $e^{-\theta \cdot d(j)}$.

When document s leaves, $d_m(j)$ falls by $c_m(s, j)$ = 1, 1/2 or 0. So the distances are sorted out once, for the first
stage, and a stage costs one pass over the features for the utilities and one for the gradient: O(k n M) a list.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import softmax

from luce.checks import fits_in_memory
from luce.data.groups import Groups
from luce.errors import DataError
from luce.numerics.compiled import kernel, part
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.scorers.linear import reciprocal
from luce.scorers.saved import Fitted, array
from luce.spec import option
from luce.types import Features, FloatArray, IntArray


def distances(X: Features, starts: IntArray) -> Features:
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
        return replace(self, inverse_spread=reciprocal(spread))

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
        return fitted.theta * reciprocal(self.inverse_spread)


def _put_before(X: Features, theta: FloatArray) -> FloatArray:
    """Entry (s, j): what row s takes off the utility of row j as long as it is left; 0 for a row itself."""
    n = len(X)
    fits_in_memory(24.0 * n**2, f"cps of a query of {n:,} documents", "take shorter queries or another scorer")
    result = np.zeros((n, n))
    for column, weight in zip(X.T, theta, strict=True):
        if weight != 0:
            result += (0.5 * weight) * (
                (column[:, None] > column).astype(np.float64) + (column[:, None] >= column).astype(np.float64)
            )
    np.fill_diagonal(result, 0.0)
    return result


class FittedCPS(Fitted):
    """Ranks a query by k greedy stages, and what is left by its utility after them."""

    theta: FloatArray = array("features")
    k: int = option(least=1)

    name = "cps"
    needs_queries = True

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """k, k - 1, ..., 1 for the documents chosen; the others have 0 or less, in the order of their utility."""
        scores = np.empty(len(X))

        def block(_: int, chunk: Chunk) -> None:
            for q in range(*chunk):
                rows = slice(offsets[q], offsets[q + 1])
                greedy_stages(X[rows], self.theta, self.k, scores[rows])

        map_chunks(block, chunk_queries(offsets, 4096))
        return scores

    def draw(self, X: Features, rng: np.random.Generator) -> IntArray:
        """Draw the first k rows of one query, best first."""
        return np.asarray(self.draw_many(X, self.k, rng, 1)[0][0])

    def draw_many(self, X: Features, k: int, rng: np.random.Generator, count: int) -> tuple[IntArray, FloatArray]:
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

    def sample_many(self, X: Features, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw the top of one query n times, a row of labels each: k for the best, 1 for the k-th, 0 for the others."""
        order, _ = self.draw_many(X, self.k, rng, n)
        labels = np.zeros((n, len(X)))
        np.put_along_axis(labels, order, np.arange(order.shape[1], 0, -1.0)[None, :], axis=1)
        return labels

    def importance(self) -> FloatArray:
        """The weight of each feature's own ranking; below 0 where it is followed in reverse."""
        return self.theta


@kernel
def first_distances(X, distance):  # type: ignore[no-untyped-def]
    """d_m(j) before the first stage, for the rows of one list; exact in float32, since they are half counts."""
    n = len(X)
    for m in range(X.shape[1]):
        column = X[:, m].copy()
        order = np.argsort(-column)
        first = 0
        while first < n:
            last = first + 1
            while last < n and column[order[last]] == column[order[first]]:
                last += 1
            for i in range(first, last):
                distance[order[i], m] = first + 0.5 * (last - first - 1)
            first = last


@kernel
def list_value(X, distance, theta, top, grad, scratch):  # type: ignore[no-untyped-def]
    """-log p, [HOM] (2), of the first `top` rows in their order, ahead of the others; adds the gradient in theta.

    The gradient is sum over stages of d(chosen) - sum_j p_j d(j). With d at stage i written as d at the first stage
    minus the c of those that left, it is a sum over documents with weights and one over those that left.
    `scratch` is (top + 2, at least n).
    """
    n, n_features = X.shape
    utility, weight = scratch[top], scratch[top + 1]
    for j in range(n):
        total = 0.0
        for m in range(n_features):
            total -= theta[m] * distance[j, m]
        utility[j] = total
    value = 0.0
    for i in range(top):
        value += _choose(utility, i, n, scratch[i])
        if i + 1 < top:
            _leave(X, theta, i, i + 1, n, utility)
    weight[:n] = 0.0
    for i in range(top - 1, -1, -1):
        if i + 1 < top:
            _returned(X, i, i + 1, n, weight, grad)
        for j in range(i, n):
            weight[j] += scratch[i, j]
        weight[i] -= 1.0
    for j in range(n):
        for m in range(n_features):
            grad[m] -= weight[j] * distance[j, m]
    return value


@part
def _choose(utility, chosen, n, share):  # type: ignore[no-untyped-def]
    """-log of the chance of `chosen` among the rows from it on, and the chances of all of them."""
    high, total = -np.inf, 0.0
    for j in range(chosen, n):
        high = max(high, utility[j])
    for j in range(chosen, n):
        share[j] = np.exp(utility[j] - high)
        total += share[j]
    for j in range(chosen, n):
        share[j] /= total
    return np.log(total) + high - utility[chosen]


# Sums in any order: allows vector instructions, and is the same order in every run.
@part(reorder=True)
def _leave(X, theta, gone, first, last, utility):  # type: ignore[no-untyped-def]
    """Document `gone` leaves: the utilities of the rows first to last without it."""
    row = X[gone]
    for j in range(first, last):
        other, total = X[j], 0.0
        for m in range(len(theta)):
            total += theta[m] * ((0.5 if row[m] > other[m] else 0.0) + (0.5 if row[m] >= other[m] else 0.0))
        utility[j] += total


@part(reorder=True)
def _returned(X, gone, first, last, weight, grad):  # type: ignore[no-untyped-def]
    """What document `gone`, which the later stages do not see, takes off the distances: adds weight * c to grad."""
    row = X[gone]
    for j in range(first, last):
        other, w = X[j], weight[j]
        for m in range(len(grad)):
            grad[m] += w * ((0.5 if row[m] > other[m] else 0.0) + (0.5 if row[m] >= other[m] else 0.0))


@kernel
def greedy_stages(X, theta, k, scores):  # type: ignore[no-untyped-def]
    """Scores of one query: k, k - 1, ..., 1 for the rows chosen one after the other, each of greatest utility.

    The others follow by their utility after the last stage, at or below 0.
    """
    n = len(X)
    k = min(k, n)
    distance = np.empty(X.shape, dtype=np.float32)
    first_distances(X, distance)
    utility = np.zeros(n)
    for j in range(n):
        for m in range(len(theta)):
            utility[j] -= theta[m] * distance[j, m]
    left = np.ones(n, dtype=np.bool_)
    for i in range(k):
        best = -1
        for j in range(n):
            if left[j] and (best < 0 or utility[j] > utility[best]):
                best = j
        scores[best] = k - i
        left[best] = False
        _leave(X, theta, best, 0, n, utility)
    highest = -np.inf
    for j in range(n):
        if left[j]:
            highest = max(highest, utility[j])
    for j in range(n):
        if left[j]:
            scores[j] = utility[j] - highest
