r"""Attraction from features, $\log \gamma_d = b + w'x_d$: a Poisson regression of clicks with exposure as offset."""

from __future__ import annotations

import numpy as np

from luce.data.groups import Groups
from luce.numerics.segments import query_index
from luce.types import FloatArray

_RIDGE = 1.0
_STEPS = 50


def cross_fitted(data: Groups, clicks: FloatArray, exposure: FloatArray) -> FloatArray:
    """Attraction of every row by the model of the other half of the queries, at most 1."""
    X = np.nan_to_num(data.X.astype(np.float64))
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    X = np.column_stack([np.ones(len(X)), X])
    half = query_index(data.offsets) % 2
    found = np.empty(len(X))
    for part in (0, 1):
        other = (half != part) & (exposure > 0)
        if not clicks[other].any():
            other = exposure > 0  # one query only: there is no other half
        weights = poisson_regression(X[other], clicks[other], exposure[other])
        own = half == part
        found[own] = np.exp(np.minimum(X[own] @ weights, 0.0))
    return found


def poisson_regression(X: FloatArray, clicks: FloatArray, exposure: FloatArray) -> FloatArray:
    """Weights that maximise sum C f - E e^f - ridge/2 |w|^2; the first column of X is the constant, not penalised."""
    weights = np.zeros(X.shape[1])
    weights[0] = np.log(clicks.sum() / exposure.sum())
    penalty = np.full(len(weights), _RIDGE)
    penalty[0] = 0.0

    def value(at: FloatArray) -> float:
        f = X @ at
        return float(clicks @ f - exposure @ np.exp(np.minimum(f, 50.0)) - 0.5 * penalty @ at**2)

    now = value(weights)
    for _ in range(_STEPS):
        mean = exposure * np.exp(np.minimum(X @ weights, 50.0))
        score = (clicks - mean) @ X - penalty * weights
        step = np.linalg.solve((X.T * mean) @ X + np.diag(penalty + 1e-9), score)
        if score @ step < 1e-8 * max(float(clicks.sum()), 1.0):
            break
        scale = 1.0
        while (then := value(weights + scale * step)) < now and scale > 1e-6:
            scale /= 2
        weights, now = weights + scale * step, then
    return weights
