"""The driver of losses of whole queries: array code over runs of queries whose documents lie end to end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from luce.losses.base import Loss, Outputs
from luce.numerics.segments import shares
from luce.types import FloatArray, IntArray

Costs = tuple[FloatArray, FloatArray, FloatArray]
"""A number a query; slopes and curvatures, one a document."""


class Run(NamedTuple):
    """Which queries and rows of the data these are, where each query begins among the latter, and the last
    one ends, and how long each is.

    `curved` says whether curvature is asked for; `own` is room for gradients in the loss's own parameters, a row a
    query, and empty where they are not.
    """

    queries: slice
    rows: slice
    offsets: IntArray
    sizes: IntArray
    curved: bool
    own: FloatArray

    @property
    def firsts(self) -> IntArray:
        """Where queries begin."""
        return self.offsets[:-1]

    def sums(self, of_documents: FloatArray) -> FloatArray:
        """For every query, the sum over its documents."""
        return np.add.reduceat(of_documents, self.firsts)

    def each(self, of_queries: Any) -> Any:
        """For every document, the number of its query."""
        return np.repeat(of_queries, self.sizes)

    def softmax(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For every query the log of the sum of exponentials, and for every document its share in it."""
        return shares(utility, self.firsts, self.sizes)


class SegmentLoss(Loss):
    """A sum over queries of a function of all scores of a query.

    A loss of this kind gives `prepare`, a tuple that knows the query boundaries as `offsets`, and `costs`, which sees
    the scores of a run of queries as one array.

    >>> from luce.losses.base import as_labels
    >>> class Known(NamedTuple):
    ...     labels: FloatArray
    ...     offsets: IntArray
    >>> class Square(SegmentLoss):
    ...     name = "square"
    ...     def prepare(self, target, offsets):
    ...         return Known(as_labels(self, target, offsets), offsets)
    ...     def costs(self, s, run, known):
    ...         apart = s - known.labels[run.rows]
    ...         return 0.5 * run.sums(apart**2), apart, np.ones_like(s)
    >>> Square().value_and_grad([0.0, 1.0, 1.0], [1, 0, 1], [0, 2, 3])[0]
    1.0
    """

    @abstractmethod
    def costs(self, s: FloatArray, run: Run, known: Any) -> Costs:
        """Value of every query, gradient and curvature of every document; the last is used where `run.curved`."""

    def fill(self, prepared: Any, scores: FloatArray, out: Outputs) -> None:
        """One value a query."""
        first, last = out.chunk
        own = prepared.offsets[first : last + 1]
        rows, offsets = slice(own[0], own[-1]), own - own[0]
        run = Run(slice(first, last), rows, offsets, np.diff(own), len(out.curvature) > 0, out.d_parameters)
        out.values[:], out.grad[rows], bends = self.costs(scores[rows], run, prepared)
        if run.curved:
            out.curvature[rows] = bends


class ConjugateLoss(SegmentLoss):
    r"""$\psi^*(s) - \langle r, s \rangle$, whose gradient is $\nabla\psi^*(s) - r$.

    A loss of this kind gives `conjugate`: $\psi^*$, its gradient, and its curvature or a bound of it, all 0 for a query
    that says nothing. What it prepares has the targets r, one a document, as `target`.
    """

    @abstractmethod
    def conjugate(self, s: FloatArray, run: Run, known: Any) -> Costs:
        """As `costs`, without the targets."""

    def costs(self, s: FloatArray, run: Run, known: Any) -> Costs:
        """Less the targets."""
        target = known.target[run.rows]
        values, slopes, bends = self.conjugate(s, run, known)
        return values - run.sums(target * s), slopes - target, bends
