"""PMOP with the general potential, normalised exactly in polynomial time."""

from __future__ import annotations

import numpy as np
from numba import njit

from luce.losses.base import NOT_WANTED
from luce.losses.partition import PartitionLikelihood
from luce.losses.sizes import SizeModel, Stages
from luce.numerics.segments import Chunk, Tiers
from luce.numerics.symmetric import forward, partition_functions
from luce.sampling.ordered import draw_exponential
from luce.sampling.streams import seed_from
from luce.types import FloatArray, IntArray

__all__ = ["PMOPExact"]


class PMOPExact(PartitionLikelihood):
    r"""Stagewise choice of a tier with the potential $\Phi(S) = \exp\{\frac{1}{|S|}\sum_{i \in S} f_i\}$ (Eq. 16).

    $$-\log p = \sum_k \log Z_k - \frac{1}{|X_k|}\sum_{i \in X_k} f_i, \qquad
      Z_k = \sum_{\emptyset \ne S \subseteq R_k} \Phi(S) = \sum_{m=1}^{N_k} e_m\big(e^{f/m}\big).$$

    The paper holds $Z_k$ to be intractable and samples. Grouped by size its $2^{N_k} - 1$ terms are elementary
    symmetric polynomials $e_m$ (see `luce.numerics.symmetric`), and the stages of a query, nested as they are, share
    one sweep: value and gradient take about $N^3/2$ operations.

    The value is convex in the scores and has no constant to drop: `log_prob` is its negative.

    >>> loss = PMOPExact()
    >>> round(float(np.exp(loss.log_prob([0.0, 0.0], [1, 1]))), 12)
    0.333333333333
    """

    name = "pmop_exact"

    def evaluate(
        self,
        prepared: Tiers,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        r"""One value a query.

        The diagonal of the Hessian is $\sum_k E_k[1_i/|S|^2] - E_k[1_i/|S|]^2$. The second part would need the gradient
        of every stage by itself; the curvature puts in its place the least it can be, the square of the sum over
        the number of stages, and so lies above; with one stage it is exact.
        """
        values = np.empty(chunk[1] - chunk[0])
        _queries(scores, *prepared, chunk[0], values, grad, curvature)
        return values

    def _log_prob(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        return -float(self.evaluate(cut, scores, (0, 1), NOT_WANTED)[0])

    def _log_prob_given_sizes(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        return float(_log_prob_given_sizes(scores[cut.order], cut.starts))

    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        table = np.empty((0, 0, 0)) if sizes is None else sizes.cumulative(len(scores))
        draw_exponential(seed_from(rng), scores, table, tier)


@njit(nogil=True, cache=True, error_model="numpy")
def _queries(scores, order, starts, queries, first, values, grad, curvature):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        q = first + i
        values[i] = _one_query(scores, order, starts[queries[q] : queries[q + 1] + 1], grad, curvature)


@njit(nogil=True, cache=True, error_model="numpy")
def _one_query(scores, order, starts, grad, curvature):  # type: ignore[no-untyped-def]
    """An empty `grad` asks for the value alone."""
    stages, end = len(starts) - 1, starts[-1]
    n = end - starts[0]
    # Worst first: what remains before a stage is then a prefix, and all stages share one program.
    f, ends = np.empty(n), np.empty(stages, dtype=np.int64)
    for i in range(n):
        f[i] = scores[order[end - 1 - i]]
    for k in range(stages):
        ends[stages - 1 - k] = end - starts[k]
    wanted = n if len(grad) else 0
    log_z, expected, squares = np.empty(stages), np.empty(wanted), np.empty(n if len(curvature) else 0)
    partition_functions(f, ends, log_z, expected, squares)
    value = 0.0
    for k in range(stages):
        size, mean = starts[k + 1] - starts[k], 0.0
        for j in range(starts[k], starts[k + 1]):
            mean += scores[order[j]]
        mean /= size
        value += log_z[stages - 1 - k] - mean
        if wanted == 0:
            continue
        for j in range(starts[k], starts[k + 1]):
            row, i = order[j], end - 1 - j
            grad[row] = expected[i] - 1.0 / size
            if len(curvature):
                curvature[row] = max(squares[i] - expected[i] ** 2 / (k + 1), 0.0)
    return value


@njit(nogil=True, cache=True, error_model="numpy")
def _log_prob_given_sizes(f, starts):  # type: ignore[no-untyped-def]
    n = len(f)
    total = 0.0
    log_e, ratio, stay = np.empty(n), np.empty(n + 1), np.empty((1, n + 1))
    for k in range(len(starts) - 1):
        size, left = starts[k + 1] - starts[k], f[starts[k] :]
        forward(left, size, len(left), log_e, ratio[: size + 1], stay, False)
        total += left[:size].mean() - log_e[len(left) - 1]
    return total
