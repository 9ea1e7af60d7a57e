r"""Curvature for a quasi-Newton search: what it remembers of its steps, and an approximate Hessian that leads them.

The Hessian is that of a linear model under any loss, from the curvature that the loss gives to trees,

$$H = \frac{1}{\sum_q v_q} \sum_q v_q \left[Z_q' C_q Z_q - \frac{(Z_q' c_q)(Z_q' c_q)'}{1' c_q}\right] + \lambda I$$

with $Z_q$ the design of a query (standardised features), $c_q$ the curvature of the loss there and $C_q$ its diagonal
matrix. Adding a constant to the scores of a query changes nothing, hence the second term: rows are centred by the mean
of their query, weighted by c. Sums of fixed blocks are added in order, so that the bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from luce.checks import fits_in_memory
from luce.data.blocks import cut_blocks
from luce.losses.base import Loss
from luce.numerics.segments import Chunk, chunk_queries, join_chunks, map_chunks
from luce.numerics.threads import one_blas_thread
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.training.objective import Objective

_BYTES = 2 << 20
"""Design of a matrix product: small enough for the cache, large enough for BLAS."""
_WAVE = 8
"""Matrices that are held at once."""
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


class Memory:
    """Pairs of steps s and changes of the gradient y, at most `size`, on top of a first guess of the Hessian.

    The guess is the matrix B of `metric`, or (None) the identity, divided by $s'y / y'B^{-1}y$ of the last pair: so far
    as the last step can tell, it is then of the right size.
    """

    def __init__(self, size: int, metric: Preconditioner | None = None) -> None:
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
    """Solves with the Hessian, taken anew at some iterations.

    A little is added to its diagonal, a hundred times more where it has no Cholesky factor, and where that does not
    help either the identity takes its place. A parameter of the loss (a tie parameter) stands alone, with its second
    derivative by differences.
    """

    def __init__(self, objective: Objective) -> None:
        n = objective.scorer.n_parameters
        fits_in_memory(24.0 * n**2, f"A Hessian of {n:,} parameters", "take another trainer or fewer features")
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
        return np.asarray(cho_solve(self._factor, vector, check_finite=False))

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


def reach(objective: Objective) -> FloatArray:
    """For every query, the sum over its rows of the largest squared entry of the design."""

    def of_block(_: int, chunk: Chunk) -> FloatArray:
        scorer, X, local = objective.block(chunk)
        Z = scorer.design(X)  # type: ignore[attr-defined]  # asked for where there is one
        largest = np.maximum(Z.max(axis=1), -Z.min(axis=1)).astype(np.float64)
        return np.add.reduceat(largest**2, local[:-1])

    return np.concatenate(map_chunks(of_block, cut_blocks(objective.offsets, objective.data.n_features)))


def hessian_parts(objective: Objective, vector: FloatArray, share: FloatArray, unit: int) -> Iterator[FloatArray]:
    """The sums over `unit` blocks each, in order, of queries that count `share`; those that count 0 are not read."""
    blocks = join_chunks(cut_blocks(objective.offsets, objective.data.n_features), unit)
    parameters, loss = objective.split(vector)
    room = [np.zeros(objective.data.n_rows) for _ in range(3)]
    part = partial(_part, objective, parameters, loss, share, room)
    with one_blas_thread():
        for first in range(0, len(blocks), _WAVE):
            yield from map_chunks(part, blocks[first : first + _WAVE])


def _part(
    objective: Objective,
    parameters: FloatArray,
    loss: Loss,
    share: FloatArray,
    room: list[FloatArray],
    _: int,
    chunk: Chunk,
) -> FloatArray:
    n = objective.scorer.n_parameters
    total = np.zeros((n, n))
    drawn = np.flatnonzero(share[chunk[0] : chunk[1]] > 0) + chunk[0]
    if not len(drawn):
        return total
    offsets, (scores, grad, curvature) = objective.offsets, room
    lengths = offsets[drawn + 1] - offsets[drawn]
    ends = np.append(0, np.cumsum(lengths))
    for first, last in chunk_queries(ends, max(256, _BYTES // (4 * n))):
        queries, sizes, starts = drawn[first:last], lengths[first:last], ends[first:last] - ends[first]
        rows = np.arange(sizes.sum()) + np.repeat(offsets[queries] - starts, sizes)
        X = objective.data.X.take(rows, axis=0)
        scores[rows] = objective.scorer.forward(parameters, X, np.append(starts, len(rows)))
        for run in _runs(queries):
            objective.risk.chunk(scores, run, grad, curvature, loss=loss)
        c = np.maximum(curvature[rows], 0.0) * np.repeat(share[queries], sizes)
        Z = _centred(objective.scorer.design(X), c.astype(np.float32), starts, sizes)  # type: ignore[attr-defined]
        total += Z.T @ Z
    return total


def _runs(queries: IntArray) -> list[Chunk]:
    """Runs of neighbouring queries, which a loss takes at once."""
    ends = np.flatnonzero(np.diff(queries) > 1)
    firsts, lasts = queries[np.append(0, ends + 1)], queries[np.append(ends, len(queries) - 1)]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _centred(Z: Any, c: Any, starts: IntArray, sizes: IntArray) -> Any:
    """The rows less the mean of their query, weighted by c, times the root of c; in place."""
    sums = np.add.reduceat(c, starts)
    middle = np.add.reduceat(c[:, None] * Z, starts, axis=0)
    middle /= np.where(sums > 0, sums, 1.0).astype(np.float32)[:, None]
    Z -= np.repeat(middle, sizes, axis=0)
    Z *= np.sqrt(c)[:, None]
    return Z
