"""LightGBM and XGBoost: a loss as an objective, a metric as an evaluation, on the data as an engine gives them."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce import losses
from luce.errors import DataError, MissingExtraError, SettingError
from luce.losses.base import Loss
from luce.metrics.catalog import parse
from luce.metrics.conventions import conventions
from luce.metrics.evaluate import evaluate_arrays, mean_of
from luce.numerics.segments import check_offsets
from luce.scorers.trees import CURVATURES
from luce.training.derivatives import Derivatives, Shared
from luce.types import FloatArray, IntArray


def offsets_of(group: ArrayLike | None, n_rows: int) -> IntArray:
    """Query boundaries from the sizes of queries; they must add up to the rows.

    >>> offsets_of([2, 3], 5).tolist()
    [0, 2, 5]
    """
    if group is None or np.size(group) == 0:
        raise DataError("The engine has no query groups; give sizes of queries as `group`, or `qid`, with the data.")
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


class Asked(NamedTuple):
    """What an engine asks about: scores, labels, query boundaries, and weights of rows or queries."""

    scores: NDArray[Any]
    labels: NDArray[Any]
    offsets: IntArray
    weight: Any

    @classmethod
    def of(cls, first: Any, second: Any, weight: Any, group: Any) -> Asked:
        """`train` of both engines calls f(scores, data set); estimators call f(labels, scores, weight, group)."""
        if hasattr(second, "get_uint_info"):
            scores, labels, weight = np.asarray(first).reshape(-1), second.get_label(), second.get_weight()
            group = np.diff(second.get_uint_info("group_ptr").astype(np.int64))
        elif hasattr(second, "get_group"):
            labels = second.get_label()
            if labels is None:
                raise DataError("The LightGBM data set has no labels; give them as `label`.")
            scores, weight, group = np.asarray(first), second.get_weight(), second.get_group()
        else:
            scores, labels = np.asarray(second), first
        return cls(scores, np.asarray(labels), offsets_of(group, len(scores)), weight)


def _check_xgboost() -> None:
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("An objective for XGBoost", "xgboost") from error


class LightGBMObjective:
    """A loss as `objective` of LightGBM, for `lightgbm.train`, `LGBMRanker` and `DaskLGBMRanker`.

    Gradients are those of the loss divided by the mean curvature (see `luce.training.derivatives`), which leaves
    the trees as they are. Under Dask every worker sees its own partition: cut partitions at query boundaries. What
    depends on the data alone is computed once, however often an engine asks.

    >>> import numpy as np
    >>> grad, curvature = LightGBMObjective("pmop")(np.array([1, 0]), np.zeros(2), None, [2])
    >>> grad.tolist(), curvature.tolist()
    ([-2.0, 2.0], [1.0, 1.0])

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
        self.loss, self.curvature, self.floor = losses.of(loss), curvature, floor
        self._kept = threading.local()  # workers of a cluster may share this object between threads

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._kept = threading.local()

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[Any, Any]:
        """Gradient and curvature, as f(scores, data set) or f(labels, scores, weight, group)."""
        scores, labels, offsets, weight = Asked.of(first, second, weight, group)
        by_query = query_weights(weight, offsets)
        key: tuple[Any, ...] = (labels, offsets, by_query)
        if not all(map(np.array_equal, key, getattr(self._kept, "key", (None,) * 3))):
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


class LightGBMMetric:
    """A metric by name as `feval` of `lightgbm.train`, or `eval_metric` of `LGBMRanker`, as `luce.evaluate` has it."""

    def __init__(self, metric: str, *, preset: str | None = None, **settings: Any) -> None:
        self.metric = parse(metric, conventions(preset, **settings))
        if not self.metric.formula.of_labels:
            raise SettingError(f"The metric {metric!r} needs a model; an engine has scores only: choose another one.")

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> Any:
        """Name, mean over queries, and whether more is better."""
        scores, labels, offsets, _ = Asked.of(first, second, weight, group)
        arrays = np.ascontiguousarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
        return self.metric.name, mean_of(evaluate_arrays(*arrays, offsets, [self.metric])[self.metric.name]), True


class XGBoostObjective(LightGBMObjective):
    """A loss as `obj` of `xgboost.train` and `xgboost.dask.train`.

    XGBRanker takes no callable. Its defaults `lambda` = 1 and `min_child_weight` = 1 count documents, since curvature
    has mean 1. Weights are one a query, as XGBoost wants them for ranking.
    """

    def __init__(self, loss: Loss | str, **settings: Any) -> None:
        _check_xgboost()
        super().__init__(loss, **settings)


class XGBoostMetric(LightGBMMetric):
    """A metric as `custom_metric` of `xgboost.train`; early stopping needs `maximize=True`."""

    def __init__(self, metric: str, **settings: Any) -> None:
        _check_xgboost()
        super().__init__(metric, **settings)

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> Any:
        """Name and mean over queries."""
        return super().__call__(first, second, weight, group)[:2]
