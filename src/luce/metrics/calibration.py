"""Are predicted probabilities what they say? Reliability curves and the expected calibration error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError, SettingError
from luce.types import FloatArray, IntArray


class Reliability(NamedTuple):
    """A reliability curve: one entry a bin of predicted probability, `edges` one more.

    `predicted` and `observed` are the mean prediction and the share of outcomes that came true, NaN in an empty bin;
    `error` is the expected calibration error, the mean over all predictions of |predicted - observed| of their bin.
    """

    edges: FloatArray
    predicted: FloatArray
    observed: FloatArray
    counts: IntArray
    error: float


def reliability(
    probability: ArrayLike,
    outcome: ArrayLike,
    bins: int = 10,
    strategy: str = "uniform",
    weight: ArrayLike | None = None,
) -> Reliability:
    """Compare predicted probabilities with what came true, bin by bin.

    `strategy="uniform"` cuts [0, 1] into bins of equal width, `"quantile"` into bins of equally many predictions.
    `weight` is one number a prediction, for instance 1 over the number of pairs of its query.

    >>> curve = reliability([0.1, 0.1, 0.1, 0.1, 0.9, 0.9], [0, 0, 0, 1, 1, 1], bins=2)
    >>> curve.observed.tolist(), curve.counts.tolist(), round(curve.error, 6)
    ([0.25, 1.0], [4, 2], 0.133333)
    """
    p, came_true = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    w = np.ones_like(p) if weight is None else np.asarray(weight, dtype=np.float64)
    if p.ndim != 1 or p.shape != came_true.shape or p.shape != w.shape or len(p) == 0:
        raise DataError(
            f"Probabilities, outcomes and weights must be vectors of one length, at least 1; got shapes {p.shape}, "
            f"{came_true.shape} and {w.shape}."
        )
    if not ((p >= 0) & (p <= 1)).all() or not np.isin(came_true, (0, 1)).all():
        raise DataError("Probabilities must lie in [0, 1] and outcomes be 0 or 1.")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise DataError("Weights must be finite, at least 0 and not all 0.")
    edges = _edges(p, bins, strategy)
    which = bins_of(p, edges)
    mass = np.bincount(which, w, len(edges) - 1)
    share = np.divide(1.0, mass, out=np.full(len(mass), np.nan), where=mass > 0)
    predicted = np.bincount(which, w * p, len(mass)) * share
    observed = np.bincount(which, w * came_true, len(mass)) * share
    error = float(np.nansum(mass * np.abs(predicted - observed)) / mass.sum())
    return Reliability(edges, predicted, observed, np.bincount(which, minlength=len(mass)), error)


def bins_of(probability: FloatArray, edges: FloatArray) -> IntArray:
    """The bin of every probability: one on an edge belongs to the bin above it, 1 to the last.

    >>> bins_of(np.array([0.2, 0.5, 1.0]), np.array([0.0, 0.5, 1.0])).tolist()
    [0, 1, 1]
    """
    return np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, len(edges) - 2)


def _edges(p: FloatArray, bins: int, strategy: str) -> FloatArray:
    if bins < 1:
        raise SettingError(f"{bins} bins were asked for; at least 1 is needed.")
    if strategy == "uniform":
        return np.linspace(0, 1, bins + 1)
    if strategy == "quantile":
        inner = np.unique(np.quantile(p, np.linspace(0, 1, bins + 1)[1:-1]))
        return np.concatenate([[0.0], inner[(inner > 0) & (inner < 1)], [1.0]])
    raise SettingError(f"The strategy is {strategy!r}; it must be 'uniform' or 'quantile'.")
