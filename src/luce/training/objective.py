"""The one objective of every gradient trainer: mean loss a query, of a scorer, plus a penalty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from luce.data.blocks import cut_blocks
from luce.data.groups import Groups
from luce.losses.base import Loss, Risk
from luce.numerics.segments import Chunk, chunk_queries, join_chunks, map_chunks
from luce.scorers.linear import LinearScorer, Standardisation
from luce.training.hessian import hessian_parts, reach
from luce.types import DifferentiableScorer, Features, FloatArray, IntArray

CHUNK_BLOCKS = 8
"""Blocks of a chunk, the unit of work of a thread."""
LEAST_VALUES = 1 << 20
"""Feature values from which on this is worth it. Fewer stay in the processor's cache by themselves: at a half of these
both ways take the same time, at five times as many the general one takes 1.2 to 1.4 times as long. What the general
way compiles, the Hessian needs in any case; a pass of its own takes one to two seconds more."""
_BLOCK_BYTES = 160 * 1024

Part = tuple[float, FloatArray]
"""Sum of the weighted values of one chunk of queries, and its gradient."""


def added_up(parts: Sequence[Part], weight: float, parameters: FloatArray, l2: float) -> tuple[float, FloatArray]:
    """Objective and gradient from the sums of chunks, added in their order, and the penalty on `parameters`."""
    value = sum(value for value, _ in parts) / weight
    grad = np.sum([grad for _, grad in parts], axis=0) / weight
    grad[: len(parameters)] += l2 * parameters
    return value + 0.5 * l2 * float(parameters @ parameters), grad


def units_of(scorer: DifferentiableScorer, loss: Loss) -> Any:
    """What the entries of the optimised vector are multiplied by to give the scorer's parameters."""
    units = getattr(scorer, "parameter_units", None)
    return 1.0 if units is None else units(loss.score_unit)


def blocks_a_sum(scorer: DifferentiableScorer, offsets: IntArray, n_features: int) -> int:
    """Blocks whose sums go together, on one machine and on many: partitions of a cluster end where these do."""
    if scorer.name != "second_order":
        return CHUNK_BLOCKS
    from luce.scorers.correlation import blocks_a_part

    return blocks_a_part(offsets, n_features)


class Objective:
    r"""Mean loss a query plus penalty, $\frac{1}{\sum v_q} \sum_q v_q \ell_q(f_w) + \frac{\lambda}{2} \|w\|^2$.

    Value and gradient come from one read of X: the scores of a query need only the rows of that query, so a block of
    whole queries is scored, its loss gradient taken, and its rows added back while they are still in cache. Blocks are
    fixed by the data and their sums are added in order, so the result does not depend on the number of threads. The
    vector that is optimised holds the scorer's parameters, then those of the loss (a tie parameter), not penalised; the
    former in the units that `loss.score_unit` asks for.
    `target` is whatever the loss prepares; None is the labels of the data. `n_values` is the number of feature values
    of the whole where this is a part of it: both take the same way.
    """

    def __init__(
        self,
        data: Groups,
        scorer: DifferentiableScorer,
        loss: Loss,
        l2: float,
        target: Any = None,
        query_weight: FloatArray | None = None,
        n_values: int | None = None,
    ) -> None:
        self.data, self.scorer, self.loss, self.l2 = data, scorer, loss, l2
        self.units = units_of(scorer, loss)
        weight = data.query_weight if query_weight is None else query_weight
        self.risk = Risk(loss, data.y if target is None else target, data.offsets, weight)
        self.query_weight, self.total_weight = weight, self.risk.total_weight
        rows = getattr(scorer, "chunk_rows", None)
        blocks = cut_blocks(data.offsets, data.n_features) if rows is None else chunk_queries(data.offsets, rows)
        large = (data.X.size if n_values is None else n_values) >= LEAST_VALUES
        fuse = large and fuses(scorer, loss)
        self.chunks = join_chunks(blocks, CHUNK_BLOCKS if fuse else 1)
        self._fused: Any = loss.linear_pass if fuse else None
        self._counts = np.ones(data.n_queries) if weight is None else weight
        self._scores = np.empty(0 if fuse else data.n_rows)
        self._d_scores = np.empty_like(self._scores)

    @property
    def n_parameters(self) -> int:
        """Length of the vector that is optimised."""
        return self.scorer.n_parameters + len(self.loss.parameters)

    @property
    def bounds(self) -> list[tuple[float, float]] | None:
        """Bounds of the loss's own parameters; None where nothing is bounded."""
        if not len(self.loss.parameters):
            return None
        return [(-np.inf, np.inf)] * self.scorer.n_parameters + self.loss.parameter_bounds

    def split(self, vector: FloatArray) -> tuple[FloatArray, Loss]:
        """The scorer's parameters, and the loss with its own."""
        n = self.scorer.n_parameters
        return self.units * vector[:n], self.loss.with_parameters(vector[n:])

    def value_and_grad(
        self, vector: FloatArray, chunks: Sequence[Chunk] | None = None, loss: Loss | None = None, weight: float = 0.0
    ) -> tuple[float, FloatArray]:
        """Objective and gradient at `vector`; over some chunks, with a loss that draws anew, where they are given."""
        n, parts = self.scorer.n_parameters, self.parts(vector, chunks, loss)
        value, grad = added_up(parts, weight or self.total_weight, self.units * vector[:n], self.l2)
        grad[:n] *= self.units
        return value, grad

    def value(self, vector: FloatArray) -> float:
        """Objective alone, without the scorer's way back."""
        parameters, own = self.split(vector)
        values = map_chunks(lambda _, chunk: self._value(parameters, own, chunk), self.chunks)
        return sum(values) / self.total_weight + 0.5 * self.l2 * float(parameters @ parameters)

    @property
    def offsets(self) -> IntArray:
        """Query boundaries of all rows, wherever the features are."""
        return self.data.offsets

    def reach(self) -> FloatArray:
        """How far the rows of every query reach, by which queries are drawn for the Hessian."""
        return reach(self)

    def hessian(self, vector: FloatArray, share: FloatArray) -> FloatArray:
        """Approximate Hessian in the scorer's part of `vector`, from queries that count `share` each."""
        n = self.scorer.n_parameters
        total = np.zeros((n, n))
        for block in self._hessian_parts(vector, share):
            total += block
        total /= self.total_weight
        total[np.diag_indices(n)] += self.l2
        units = np.broadcast_to(self.units, n)
        return total * np.outer(units, units)

    def _hessian_parts(self, vector: FloatArray, share: FloatArray) -> Iterator[FloatArray]:
        return hessian_parts(self, vector, share, blocks_a_sum(self.scorer, self.offsets, self.data.n_features))

    def on_batch(self, batch: Chunk, vector: FloatArray, loss: Loss) -> tuple[float, FloatArray]:
        """The same for the queries of a batch only, with a loss that draws anew."""
        first, last = batch
        weight = float(last - first if self.query_weight is None else self.query_weight[first:last].sum())
        inside = [(max(a, first), min(b, last)) for a, b in self.chunks if a < last and b > first]
        return self.value_and_grad(vector, inside, loss, weight or 1.0)

    def parts(self, vector: FloatArray, chunks: Sequence[Chunk] | None = None, loss: Loss | None = None) -> list[Part]:
        """The sums of chunks (None: of all), which added in order make the objective."""
        n = self.scorer.n_parameters
        parameters, own = self.units * vector[:n], (loss or self.loss).with_parameters(vector[n:])
        return map_chunks(partial(self._block, parameters, own), self.chunks if chunks is None else chunks)

    def _block(self, parameters: FloatArray, loss: Loss, _: int, chunk: Chunk) -> Part:
        if self._fused is not None:
            return self._in_one_pass(cast(LinearScorer, self.scorer).scale, parameters, chunk)
        scorer, X, local = self.block(chunk)
        values, d_scores, d_own = self._forward(scorer, X, local, parameters, loss, chunk)
        d_scorer = scorer.backward(parameters, X, local, d_scores)
        return float(values.sum()), np.concatenate([d_scorer, d_own.sum(axis=0)])

    def _in_one_pass(self, scale: Standardisation, parameters: FloatArray, chunk: Chunk) -> Part:
        """The same of linear scores in one compiled pass over X: `Loss.linear_pass`.

        The general way hands blocks of rows between compiled calls through Python, which wants blocks of megabytes to
        be worth it. Here a block is a few queries, small enough for the second-level cache, so that the gradient reads
        no memory that the scores did not just read.
        """
        data, weights = self.data, parameters * scale.inverse_sd
        block_rows, grad = max(8, _BLOCK_BYTES // (4 * max(data.n_features, 1))), np.zeros(len(weights))
        value, total = self._fused(
            self.risk.prepared, data.X, weights, data.offsets, self._counts, *chunk, block_rows, grad
        )
        return value, (grad - scale.mean * total) * scale.inverse_sd

    def _value(self, parameters: FloatArray, loss: Loss, chunk: Chunk) -> float:
        if self._fused is not None:
            return self._block(parameters, loss, 0, chunk)[0]
        return float(self._forward(*self.block(chunk), parameters, loss, chunk)[0].sum())

    def block(self, chunk: Chunk) -> tuple[DifferentiableScorer, Features, IntArray]:
        """Scorer, features and offsets of a chunk."""
        offsets = self.data.offsets[chunk[0] : chunk[1] + 1]
        # A scorer that learns from the other training documents must know which ones it sees.
        scorer = self.scorer.of_queries(chunk[0]) if hasattr(self.scorer, "of_queries") else self.scorer
        return scorer, self.data.X[offsets[0] : offsets[-1]], offsets - offsets[0]

    def _forward(
        self,
        scorer: DifferentiableScorer,
        X: Features,
        local: IntArray,
        parameters: FloatArray,
        loss: Loss,
        chunk: Chunk,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weighted values of the queries of a chunk, and derivatives in the scores and in the loss's parameters."""
        rows = slice(self.data.offsets[chunk[0]], self.data.offsets[chunk[1]])
        self._scores[rows] = scorer.forward(parameters, X, local)
        values, d_own = self.risk.chunk(self._scores, chunk, self._d_scores, own=True, loss=loss)
        d_scores = self._d_scores[rows]
        if self.query_weight is not None:
            weight = self.query_weight[chunk[0] : chunk[1]]
            d_scores = d_scores * np.repeat(weight, np.diff(local))
            values, d_own = values * weight, d_own * weight[:, None]
        return values, d_scores, d_own


def fuses(scorer: DifferentiableScorer, loss: Loss) -> bool:
    """True for the pairs of scorer and loss that have a compiled pass of their own."""
    return isinstance(scorer, LinearScorer) and loss.linear_pass is not None
