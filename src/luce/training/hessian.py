r"""An approximate Hessian of a linear model under any loss, from the curvature that the loss gives to trees.

$$H = \frac{1}{\sum_q v_q} \sum_q v_q \left[Z_q' C_q Z_q - \frac{(Z_q' c_q)(Z_q' c_q)'}{1' c_q}\right] + \lambda I$$

with $Z_q$ the design of a query (standardised features), $c_q$ the curvature of the loss there and $C_q$ its diagonal
matrix. Adding a constant to the scores of a query changes nothing, hence the second term: rows are centred by the mean
of their query, weighted by c. Sums of fixed blocks are added in order, so that the bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.blocks import cut_blocks
from luce.numerics.blas import one_blas_thread
from luce.numerics.segments import Chunk, chunk_queries, join_chunks, map_chunks
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.training.objective import Objective

_BYTES = 2 << 20
"""Design of a matrix product: small enough for the cache, large enough for BLAS."""
_WAVE = 8
"""Matrices that are held at once."""


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

    def part(_: int, chunk: Chunk) -> FloatArray:
        return _part(objective, parameters, loss, share, chunk, room)

    with one_blas_thread():
        for first in range(0, len(blocks), _WAVE):
            yield from map_chunks(part, blocks[first : first + _WAVE])


def _part(objective: Objective, parameters: Any, loss: Any, share: FloatArray, chunk: Chunk, room: Any) -> FloatArray:
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
            d_own = np.zeros((run[1] - run[0], len(loss.parameters)))
            loss.evaluate(objective.prepared, scores, run, grad, curvature, d_own)
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
