"""XGBoost: `xgboost.train` and `xgboost.dask.train`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, MissingExtraError
from luce.losses.base import Loss
from luce.numerics.segments import check_offsets
from luce.objectives.groups import EngineMetric, EngineObjective
from luce.types import IntArray


def _check_installed() -> None:
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("An objective for XGBoost", "xgboost") from error


def _offsets(matrix: Any, n_rows: int) -> IntArray:
    pointer = np.asarray(matrix.get_uint_info("group_ptr"), dtype=np.int64)
    if len(pointer) < 2:
        raise DataError("The DMatrix has no query groups; give `qid` when it is made, or call set_group.")
    if pointer[-1] != n_rows:
        raise DataError(f"The query groups hold {pointer[-1]} documents and the DMatrix {n_rows}; they must agree.")
    return check_offsets(pointer, n_rows)


class XGBoostObjective(EngineObjective):
    """A loss as `obj` of `xgboost.train`.

    XGBRanker takes no callable. Its defaults `lambda` = 1 and `min_child_weight` = 1 count documents, since curvature
    has mean 1. Weights are one a query, as XGBoost wants them for ranking.
    """

    def __init__(self, loss: Loss | str, **settings: Any) -> None:
        _check_installed()
        super().__init__(loss, **settings)

    def __call__(self, scores: NDArray[Any], matrix: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradient and curvature at the scores of a DMatrix."""
        scores = np.asarray(scores).reshape(-1)
        weight = matrix.get_weight()
        return self.derivatives(scores, matrix.get_label(), _offsets(matrix, len(scores)), weight)


class XGBoostMetric(EngineMetric):
    """A metric as `custom_metric` of `xgboost.train`; early stopping needs `maximize=True`."""

    def __init__(self, metric: str, **settings: Any) -> None:
        _check_installed()
        super().__init__(metric, **settings)

    def __call__(self, scores: NDArray[Any], matrix: Any) -> tuple[str, float]:
        """Name and mean over queries."""
        scores = np.asarray(scores).reshape(-1)
        return self.metric.name, self.value(scores, matrix.get_label(), _offsets(matrix, len(scores)))
