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
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.pmop import PMOP, one_query, stage_scratch
from luce.losses.race_kernels import one_race, race_room
from luce.losses.races import Races, from_tiers
from luce.numerics.rows import accumulate_rows, score_rows
from luce.numerics.segments import Chunk, Tiers
from luce.scorers.linear import LinearScorer
from luce.types import DifferentiableScorer, FloatArray

__all__ = ["CHUNK_BLOCKS", "FusedStagewise", "applies"]

CHUNK_BLOCKS = 8
"""Blocks of a chunk, the unit of work of a thread."""
_BLOCK_BYTES = 160 * 1024


_PMOP = -1
"""Stands for `pmop` among the numbers of the treatments of ties."""


def applies(scorer: DifferentiableScorer, loss: Loss) -> bool:
    """True for the pairs of scorer and loss that this module knows."""
    if not isinstance(scorer, LinearScorer):
        return False
    return isinstance(loss, PlackettLuce) or (isinstance(loss, PMOP) and loss.is_plain)


class FusedStagewise:
    """Value and gradient of one chunk of queries, for `pmop` and `plackett_luce` with the linear scorer."""

    def __init__(self, data: Groups, loss: Loss, prepared: Tiers | Races, query_weight: FloatArray | None) -> None:
        self.data = data
        self.method = loss.method if isinstance(loss, PlackettLuce) else _PMOP
        self.races = prepared if isinstance(prepared, Races) else from_tiers(prepared, data.offsets)
        self.weight = np.ones(data.n_queries) if query_weight is None else query_weight
        self.block_rows = max(8, _BLOCK_BYTES // (4 * max(data.n_features, 1)))

    def __call__(self, scorer: LinearScorer, parameters: FloatArray, chunk: Chunk) -> tuple[float, FloatArray]:
        """Sum of the weighted values of the chunk, and the gradient in the standardised weights."""
        weights = parameters * scorer.scale.inverse_sd
        grad = np.zeros(len(weights))
        value, total = _pass(
            self.method, self.data.X, weights, self.races, self.weight, chunk[0], chunk[1], self.block_rows, grad
        )
        return value, (grad - scorer.scale.mean * total) * scorer.scale.inverse_sd


@njit(nogil=True, cache=True, error_model="numpy")
def _pass(method, X, weights, races, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    offsets, longest = races.offsets, 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    scores = np.empty(max(longest, block_rows))
    d_scores = np.empty(len(scores))
    begin, finish = races.queries[first], races.queries[last]
    scratch, room = stage_scratch(races.races, begin, finish), race_room(races.starts, races.races, begin, finish)
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], q + 1
        while end < last and offsets[end + 1] - start <= block_rows:
            end += 1
        stop = offsets[end]
        score_rows(X[start:stop], weights, scores)
        d_scores[: stop - start] = 0.0
        for i in range(q, end):
            value += query_weight[i] * _one_query(method, races, i, scores, start, scratch, room, d_scores)
            for j in range(offsets[i] - start, offsets[i + 1] - start):
                d_scores[j] *= query_weight[i]
                total += d_scores[j]
        accumulate_rows(X[start:stop], d_scores, grad)
        q = end
    return value, total


@njit(nogil=True, cache=True, error_model="numpy")
def _one_query(method, races, query, scores, start, scratch, room, d_scores):  # type: ignore[no-untyped-def]
    value, order, no_curvature = 0.0, races.order, np.empty(0)
    for race in range(races.queries[query], races.queries[query + 1]):
        a, b = races.races[race], races.races[race + 1]
        cuts = races.starts[a : b + 1]
        if method == _PMOP:
            value += one_query(scores, order, cuts, start, scratch, d_scores, no_curvature)
        else:
            tier_weights = races.weights[a:b] if len(races.weights) else races.weights
            value += one_race(method, scores, order, cuts, start, tier_weights, room, d_scores, no_curvature)
    return value
