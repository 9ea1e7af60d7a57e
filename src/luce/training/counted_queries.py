"""What the algorithms share that climb a metric: the queries that count, and the values of many rankings there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.errors import SettingError
from luce.metrics.catalog import Metric, get
from luce.metrics.evaluate import evaluate_arrays
from luce.numerics.segments import differing
from luce.types import FloatArray, IntArray


class CountedQueries:
    """The queries of a training set that a metric can tell rankings of apart, and its values there."""

    def __init__(self, data: Groups, metric: str | Metric, wanted_by: str) -> None:
        self.metric = _rising(metric, wanted_by)
        self.rmax = float(data.y.max())
        zero = evaluate_arrays(np.zeros(data.n_rows), data.y, data.offsets, [self.metric], None, self.rmax)
        counted = differing(data.y, data.offsets) & np.isfinite(zero[self.metric.name])
        self.data = data if counted.all() else data.take(counted) if counted.any() else None
        weight = np.ones(int(counted.sum())) if data.query_weight is None else data.query_weight[counted]
        self.share: FloatArray = weight / (weight.sum() or 1.0)
        """Weight of each query, all together 1."""
        self._tiled: tuple[int, FloatArray, IntArray] = (0, np.empty(0), np.empty(0, dtype=np.int64))

    def values(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The metric of several rankings at once: a row of `scores` each, a row of values by query in return."""
        assert self.data is not None
        times = len(scores)
        if self._tiled[0] != times:
            rows = np.arange(times)[:, None] * self.data.n_rows
            offsets = np.append((self.data.offsets[:-1] + rows).ravel(), times * self.data.n_rows)
            self._tiled = (times, np.tile(self.data.y, times), offsets)
        _, labels, offsets = self._tiled
        found = evaluate_arrays(scores.ravel(), labels, offsets, [self.metric], None, self.rmax)[self.metric.name]
        return found.reshape(times, self.data.n_queries)


def _rising(given: str | Metric, wanted_by: str) -> Metric:
    metric = given if isinstance(given, Metric) else get(given)
    if metric.formula.kind is None or not metric.greater_is_better:
        raise SettingError(
            f"{wanted_by!r} maximises a metric of rankings; {metric.name!r} is none: take one such as 'ndcg@10'."
        )
    return metric
