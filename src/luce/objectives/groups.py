"""What the adapters of all engines share: the data as an engine gives them, and work that is done once for them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce import losses
from luce.errors import DataError, SettingError
from luce.losses.base import Loss
from luce.metrics.catalog import parse
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import evaluate_arrays, mean_of
from luce.numerics.segments import check_offsets
from luce.scorers.trees import CURVATURES
from luce.training.derivatives import Derivatives, Shared
from luce.types import FloatArray, IntArray


def as_loss(loss: Loss | str) -> Loss:
    """A loss, or the loss of that name."""
    return loss if isinstance(loss, Loss) else losses.get(loss)


def offsets_of(group: ArrayLike | None, n_rows: int) -> IntArray:
    """Query boundaries from the sizes of queries; they must add up to the rows.

    >>> offsets_of([2, 3], 5).tolist()
    [0, 2, 5]
    """
    if group is None or np.size(group) == 0:
        raise DataError("The engine has no query groups; give the sizes of the queries as `group` with the data.")
    sizes = np.asarray(group, dtype=np.int64)
    if sizes.sum() != n_rows:
        raise DataError(f"The query groups hold {sizes.sum()} documents and the data {n_rows}; they must agree.")
    return check_offsets(np.concatenate([[0], np.cumsum(sizes)]), n_rows)


def query_weights(weight: ArrayLike | None, offsets: IntArray) -> FloatArray | None:
    """Weights of queries from weights of rows, which must be equal within a query, or of queries."""
    if weight is None or np.size(weight) == 0:
        return None
    given = np.asarray(weight, dtype=np.float64)
    n_queries = len(offsets) - 1
    if given.shape == (n_queries,) and n_queries != offsets[-1]:
        return given
    if given.shape != (offsets[-1],):
        raise DataError(f"{offsets[-1]} documents need as many weights; got shape {given.shape}.")
    by_query: FloatArray = given[offsets[:-1]]
    if not np.array_equal(np.repeat(by_query, np.diff(offsets)), given):
        raise DataError("Weights differ within a query; ranking losses weigh whole queries: give equal ones.")
    return by_query


class EngineObjective:
    """Gradients and curvatures of a loss, for an engine that asks again and again for the same data.

    Parameters
    ----------
    loss
        A loss or the name of one.
    curvature, floor
        As for the scorer `trees`.
    """

    shared: Shared | None = None
    """Means of a whole data set of which each process of an engine sees a part; None: those of its part."""

    def __init__(self, loss: Loss | str, *, curvature: str = "newton", floor: float = 1e-2) -> None:
        if curvature not in CURVATURES:
            raise SettingError(f"curvature is {curvature!r}; it must be {' or '.join(map(repr, CURVATURES))}.")
        self.loss, self.curvature, self.floor = as_loss(loss), curvature, floor
        self._kept = threading.local()  # workers of a cluster may share this object between threads

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._kept = threading.local()

    def derivatives(
        self, scores: NDArray[Any], labels: NDArray[Any], offsets: IntArray, weight: ArrayLike | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradient and curvature; what depends on the target alone is computed once."""
        by_query = query_weights(weight, offsets)
        key = (labels, offsets, by_query)
        if not all(map(_same, key, getattr(self._kept, "key", (None,) * 3))):
            self._kept.key = tuple(None if part is None else np.array(part) for part in key)
            self._kept.found = Derivatives(
                self.loss,
                np.asarray(labels, dtype=np.float64),
                offsets,
                by_query,
                curvature=self.curvature,
                floor=self.floor,
                shared=self.shared,
            )
            self._kept.round = 0
        found: Derivatives = self._kept.found
        found.loss = self.loss.reseeded(self._kept.round)
        self._kept.round += 1
        _, grad, curvature = found(np.ascontiguousarray(scores, dtype=np.float64))
        return grad, curvature


def _same(a: Any, b: Any) -> bool:
    return b is None if a is None else b is not None and np.array_equal(a, b)


class EngineMetric:
    """A metric of luce by name, with the conventions of `luce.evaluate`."""

    def __init__(self, metric: str, *, preset: str | None = None, **settings: Any) -> None:
        self.metric = parse(metric, conventions(preset, **settings))
        if self.metric.formula.kind is None:
            raise SettingError(f"The metric {metric!r} needs a model; an engine has scores only: choose another one.")

    def value(self, scores: NDArray[Any], labels: NDArray[Any], offsets: IntArray) -> float:
        """Mean over queries."""
        arrays = (np.ascontiguousarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64), offsets)
        return mean_of(evaluate_arrays(*arrays, [self.metric])[self.metric.name])
