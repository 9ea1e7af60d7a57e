"""ListNet: cross entropy between the top-one distributions of labels and scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.numerics.segments import log_sums
from luce.types import FloatArray, IntArray


class _TopOne(NamedTuple):
    target: FloatArray
    offsets: IntArray


class ListNet(Loss):
    r"""Cross entropy of two softmax distributions over the documents of a query.

    $$-\sum_i p_i \log q_i, \quad p = \operatorname{softmax}(y), \; q = \operatorname{softmax}(f)$$

    >>> value, grad = ListNet().value_and_grad([0.0, 0.0], [1.0, 0.0])
    >>> round(value, 6), grad.round(6).tolist()
    (0.693147, [-0.231059, 0.231059])
    """

    learns_from_ties = True
    name = "listnet"
    ordinal = False

    def prepare(self, target: Target, offsets: IntArray) -> _TopOne:
        """The softmax of the labels of every query."""
        labels = as_labels(self, target, offsets)
        sizes = np.diff(offsets)
        weight = np.exp(labels - np.repeat(np.maximum.reduceat(labels, offsets[:-1]), sizes))
        return _TopOne(weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), sizes), offsets)

    def fill(self, prepared: _TopOne, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is q (1 - q)."""
        rows, firsts, sizes = out.spans(prepared.offsets)
        log_q = scores[rows] - np.repeat(log_sums(scores[rows], firsts, sizes), sizes)
        q = np.exp(log_q)
        out.values[:] = -np.add.reduceat(prepared.target[rows] * log_q, firsts)
        out.grad[rows] = q - prepared.target[rows]
        if len(out.curvature):
            out.curvature[rows] = q * (1.0 - q)
