"""LightGBM: `lightgbm.train`, `LGBMRanker` and `DaskLGBMRanker`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError
from luce.objectives.groups import EngineMetric, EngineObjective, offsets_of


def _unpacked(first: Any, second: Any, weight: Any, group: Any) -> tuple[NDArray[Any], NDArray[Any], Any, Any]:
    """Scores, labels, weights and groups.

    `lightgbm.train` calls f(scores, dataset); the estimators, which count the parameters of f, call f(labels, scores,
    weight, group).
    """
    if not hasattr(second, "get_group"):
        return np.asarray(second), np.asarray(first), weight, group
    labels = second.get_label()
    if labels is None:
        raise DataError("The LightGBM data set has no labels; give them as `label`.")
    return np.asarray(first), np.asarray(labels), second.get_weight(), second.get_group()


class LightGBMObjective(EngineObjective):
    """A loss as an objective of LightGBM; pass it as `objective`.

    Gradients are those of the loss divided by the mean curvature (see `luce.training.derivatives`), which leaves
    the trees as they are. Under Dask every worker sees its own partition: cut partitions at query boundaries.

    >>> import numpy as np
    >>> grad, curvature = LightGBMObjective("pmop")(np.array([1, 0]), np.zeros(2), None, [2])
    >>> grad.tolist(), curvature.tolist()
    ([-2.0, 2.0], [1.0, 1.0])
    """

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[Any, Any]:
        """f(scores, dataset), or f(labels, scores, weight, group)."""
        scores, labels, weight, group = _unpacked(first, second, weight, group)
        return self.derivatives(scores, labels, offsets_of(group, len(scores)), weight)


class LightGBMMetric(EngineMetric):
    """A metric as `feval` of `lightgbm.train`, or `eval_metric` of `LGBMRanker`."""

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[str, float, bool]:
        """f(scores, dataset), or f(labels, scores, weight, group)."""
        scores, labels, _, group = _unpacked(first, second, weight, group)
        return self.metric.name, self.value(scores, labels, offsets_of(group, len(scores))), True
