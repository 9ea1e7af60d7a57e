"""Linear scorer and stagewise likelihood in one compiled pass over X.

The general objective hands blocks of rows between compiled calls through Python, which wants blocks of megabytes to be
worth it. Here a block is a few queries, small enough for the second-level cache, so that the gradient reads no memory
that the scores did not just read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from luce.data.groups import Groups
from luce.losses.base import Loss
from luce.losses.listmle import ListMLE
from luce.losses.pmop import PMOP, one_query, stage_scratch
from luce.numerics.rows import accumulate_rows, score_rows
from luce.numerics.segments import Chunk, Tiers
from luce.scorers.linear import LinearScorer
from luce.types import DifferentiableScorer, FloatArray

__all__ = ["CHUNK_BLOCKS", "FusedStagewise", "applies"]

CHUNK_BLOCKS = 8
"""Blocks of a chunk, the unit of work of a thread."""
_BLOCK_BYTES = 160 * 1024


def applies(scorer: DifferentiableScorer, loss: Loss) -> bool:
    """True for the pairs of scorer and loss that this module knows."""
    if not isinstance(scorer, LinearScorer):
        return False
    return isinstance(loss, ListMLE) or (isinstance(loss, PMOP) and loss.is_plain)


class FusedStagewise:
    """Value and gradient of one chunk of queries, for `pmop` and `listmle` with the linear scorer."""

    def __init__(self, data: Groups, prepared: Tiers, query_weight: FloatArray | None) -> None:
        self.data, self.prepared = data, prepared
        self.weight = np.ones(data.n_queries) if query_weight is None else query_weight
        self.block_rows = max(8, _BLOCK_BYTES // (4 * max(data.n_features, 1)))

    def __call__(self, scorer: LinearScorer, parameters: FloatArray, chunk: Chunk) -> tuple[float, FloatArray]:
        """Sum of the weighted values of the chunk, and the gradient in the standardised weights."""
        weights = parameters * scorer.scale.inverse_sd
        grad = np.zeros(len(weights))
        data = self.data
        value, total = _pass(
            data.X, weights, data.offsets, *self.prepared, self.weight, chunk[0], chunk[1], self.block_rows, grad
        )
        return value, (grad - scorer.scale.mean * total) * scorer.scale.inverse_sd


@njit(nogil=True, cache=True, error_model="numpy")
def _pass(X, weights, offsets, order, starts, queries, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    scores = np.empty(max(longest, block_rows))
    d_scores = np.empty(len(scores))
    scratch = stage_scratch(queries, first, last)
    no_curvature = np.empty(0)
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], q + 1
        while end < last and offsets[end + 1] - start <= block_rows:
            end += 1
        stop = offsets[end]
        score_rows(X[start:stop], weights, scores)
        for i in range(q, end):
            cuts = starts[queries[i] : queries[i + 1] + 1]
            value += query_weight[i] * one_query(scores, order, cuts, start, scratch, d_scores, no_curvature)
            for j in range(offsets[i] - start, offsets[i + 1] - start):
                d_scores[j] *= query_weight[i]
                total += d_scores[j]
        accumulate_rows(X[start:stop], d_scores, grad)
        q = end
    return value, total
