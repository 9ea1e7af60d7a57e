"""Linear scorer and stagewise likelihood in one compiled pass over X.

The general objective hands blocks of rows between compiled calls through Python, which wants blocks of megabytes to be
worth it. Here a block is a few queries, small enough for the second-level cache, so that the gradient reads no memory
that the scores did not just read. Each of the two losses has a kernel of its own, compiled where it is used.
"""

from __future__ import annotations

import numpy as np

from luce.data.groups import Groups
from luce.losses.base import Loss
from luce.losses.plackett_luce import PlackettLuce
from luce.losses.pmop import PMOP, one_query, stage_scratch
from luce.losses.races import Races, one_race, race_room
from luce.numerics.compiled import kernel, part
from luce.numerics.rows import score_rows
from luce.numerics.segments import Chunk, Tiers
from luce.scorers.linear import LinearScorer
from luce.types import DifferentiableScorer, FloatArray

CHUNK_BLOCKS = 8
"""Blocks of a chunk, the unit of work of a thread."""
LEAST_VALUES = 1 << 20
"""Feature values from which on this is worth it. Fewer stay in the processor's cache by themselves: at a half of these
both ways take the same time, at five times as many the general one takes 1.2 to 1.4 times as long. What the general
way compiles, the Hessian needs in any case; a pass of its own takes one to two seconds more."""
_BLOCK_BYTES = 160 * 1024


def applies(scorer: DifferentiableScorer, loss: Loss) -> bool:
    """True for the pairs of scorer and loss that this module knows."""
    if not isinstance(scorer, LinearScorer):
        return False
    return isinstance(loss, PlackettLuce) or (isinstance(loss, PMOP) and loss.is_plain)


class FusedStagewise:
    """Value and gradient of one chunk of queries, for `pmop` and `plackett_luce` with the linear scorer."""

    def __init__(self, data: Groups, loss: Loss, prepared: Tiers | Races, query_weight: FloatArray | None) -> None:
        self.data, self.loss, self.prepared = data, loss, prepared
        self.weight = np.ones(data.n_queries) if query_weight is None else query_weight
        self.block_rows = max(8, _BLOCK_BYTES // (4 * max(data.n_features, 1)))

    def __call__(self, scorer: LinearScorer, parameters: FloatArray, chunk: Chunk) -> tuple[float, FloatArray]:
        """Sum of the weighted values of the chunk, and the gradient in the standardised weights."""
        weights = parameters * scorer.scale.inverse_sd
        grad = np.zeros(len(weights))
        shared = (self.data.X, weights, self.data.offsets, self.weight, *chunk, self.block_rows, grad)
        if isinstance(self.loss, PlackettLuce):
            value, total = _races_pass(self.loss.method, self.prepared, *shared)
        else:
            value, total = _tiers_pass(*self.prepared, *shared)
        return value, (grad - scorer.scale.mean * total) * scorer.scale.inverse_sd


@kernel
def _tiers_pass(order, starts, tiers, X, weights, offsets, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    scores = np.empty(_most_rows(offsets, first, last, block_rows))
    d_scores, no_curvature, all_alike = np.empty(len(scores)), np.empty(0), np.empty(0)
    scratch = stage_scratch(tiers, first, last)
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], _end_of_block(offsets, q, last, block_rows)
        score_rows(X[start : offsets[end]], weights, scores)
        for i in range(q, end):
            cuts = starts[tiers[i] : tiers[i + 1] + 1]
            value += query_weight[i] * one_query(scores, order, cuts, start, all_alike, scratch, d_scores, no_curvature)
        total = _weigh(offsets, query_weight, q, end, d_scores, total)
        _accumulate(X[start : offsets[end]], d_scores, grad)
        q = end
    return value, total


@kernel
def _races_pass(method, races, X, weights, offsets, query_weight, first, last, block_rows, grad):  # type: ignore[no-untyped-def]
    scores = np.empty(_most_rows(offsets, first, last, block_rows))
    d_scores, no_curvature = np.empty(len(scores)), np.empty(0)
    room = race_room(races.starts, races.races, races.queries[first], races.queries[last])
    value, total, q = 0.0, 0.0, first
    while q < last:
        start, end = offsets[q], _end_of_block(offsets, q, last, block_rows)
        score_rows(X[start : offsets[end]], weights, scores)
        for j in range(offsets[end] - start):
            d_scores[j] = 0.0
        for i in range(q, end):
            here = 0.0
            for race in range(races.queries[i], races.queries[i + 1]):
                a, b = races.races[race], races.races[race + 1]
                own = races.weights[a:b] if len(races.weights) else races.weights
                cuts = races.starts[a : b + 1]
                here += one_race(method, scores, races.order, cuts, start, own, room, d_scores, no_curvature)
            value += query_weight[i] * here
        total = _weigh(offsets, query_weight, q, end, d_scores, total)
        _accumulate(X[start : offsets[end]], d_scores, grad)
        q = end
    return value, total


@part
def _most_rows(offsets, first, last, block_rows):  # type: ignore[no-untyped-def]
    """Rows of the largest block: one query may be larger than blocks should be."""
    most = block_rows
    for q in range(first, last):
        most = max(most, offsets[q + 1] - offsets[q])
    return most


@part
def _end_of_block(offsets, q, last, block_rows):  # type: ignore[no-untyped-def]
    """One past the last query of the block that begins with query q."""
    end = q + 1
    while end < last and offsets[end + 1] - offsets[q] <= block_rows:
        end += 1
    return end


@part
def _weigh(offsets, query_weight, first, last, d_scores, total):  # type: ignore[no-untyped-def]
    """Multiply the slopes of every query by its weight, and add them to `total`."""
    for q in range(first, last):
        for j in range(offsets[q] - offsets[first], offsets[q + 1] - offsets[first]):
            d_scores[j] *= query_weight[q]
            total += d_scores[j]
    return total


@part(reorder=True)
def _accumulate(X, factors, out):  # type: ignore[no-untyped-def]
    """`out += X.T @ factors` of rows in the cache: eight are joined in float32, sums of eight added up in float64."""
    rows, columns = X.shape
    whole = rows - rows % 8
    for i in range(0, whole, 8):
        a, b, c, d = _four(factors, i)
        e, f, g, h = _four(factors, i + 4)
        for j in range(columns):
            out[j] += (
                (a * X[i, j] + b * X[i + 1, j])
                + (c * X[i + 2, j] + d * X[i + 3, j])
                + (e * X[i + 4, j] + f * X[i + 5, j])
                + (g * X[i + 6, j] + h * X[i + 7, j])
            )
    for i in range(whole, rows):
        for j in range(columns):
            out[j] += factors[i] * X[i, j]


@part(forceinline=True)
def _four(factors, i):  # type: ignore[no-untyped-def]
    return np.float32(factors[i]), np.float32(factors[i + 1]), np.float32(factors[i + 2]), np.float32(factors[i + 3])
