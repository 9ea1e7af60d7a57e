"""The empirical risk of a loss as a function of the scores alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.losses.base import NOT_WANTED, Loss
from luce.numerics.segments import Chunk, chunk_queries, map_chunks
from luce.types import FloatArray, IntArray


class Risk:
    r"""Mean loss a query, $R(s) = \sum_q v_q \phi(s_q, r_q) / \sum_q v_q$, [Pareek] (3.6); gradient [Pareek] (3.16)."""

    def __init__(self, loss: Loss, target: Any, offsets: IntArray, query_weight: FloatArray | None) -> None:
        self.loss, self.offsets = loss, offsets
        self.prepared = loss.prepare(target, offsets)
        weight = np.ones(len(offsets) - 1) if query_weight is None else query_weight
        self.share: FloatArray = weight / weight.sum()
        self._by_row = np.repeat(self.share, np.diff(offsets))
        self.chunks = chunk_queries(offsets)

    def __call__(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient in the scores, the weights [Pareek] (3.21), and curvature (NaN where the loss has none)."""
        grad, curvature = np.empty_like(scores), np.full_like(scores, np.nan)

        def evaluate(_: int, chunk: Chunk) -> float:
            values = self.loss.evaluate(self.prepared, scores, chunk, grad, curvature)
            rows = slice(self.offsets[chunk[0]], self.offsets[chunk[1]])
            grad[rows] *= self._by_row[rows]
            curvature[rows] *= self._by_row[rows]
            return float(values @ self.share[chunk[0] : chunk[1]])

        return sum(map_chunks(evaluate, self.chunks)), grad, curvature

    def parameter_gradient(self, loss: Loss, scores: FloatArray) -> tuple[float, FloatArray]:
        """The risk and its gradient in the loss's own parameters."""
        slopes, unused = np.zeros((len(self.share), len(loss.parameters))), np.empty_like(scores)

        def evaluate(_: int, chunk: Chunk) -> FloatArray:
            return loss.evaluate(self.prepared, scores, chunk, unused, NOT_WANTED, slopes[chunk[0] : chunk[1]])

        return float(np.concatenate(map_chunks(evaluate, self.chunks)) @ self.share), self.share @ slopes
