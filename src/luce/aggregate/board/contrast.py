"""Strengths as differences from a mean that newcomers do not move, and variances that stand for all differences.

A plain mean of strengths contains every item that is hardly known, and passes its uncertainty on to all others. The
mean weighted by information does not: an item that has told nothing weighs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.types import FloatArray, IntArray


def mean_weights(information: FloatArray, component: IntArray, main: NDArray[np.bool_] | None = None) -> FloatArray:
    """(items, components): the weight of every item in the mean of its component, in proportion to its information.

    Separated items (outside `main`) weigh nothing, unless a component has fewer than two others.

    >>> mean_weights(np.array([3.0, 1.0, 5.0]), np.array([0, 0, 1])).tolist()
    [[0.75, 0.0], [0.25, 0.0], [0.0, 1.0]]
    """
    weights = np.zeros((len(component), int(component.max()) + 1))
    for c in range(weights.shape[1]):
        members = np.flatnonzero(component == c)
        if main is not None and np.sum(main[members]) >= 2:
            members = members[main[members]]
        known = np.maximum(information[members], 0.0)
        weights[members, c] = known / known.sum() if known.sum() > 0 else 1.0 / len(members)
    return weights


def centre(x: FloatArray, weights: FloatArray, component: IntArray) -> FloatArray:
    """(..., parameters): strengths, the first of them, less the weighted mean of their component."""
    n = len(component)
    result = x.copy()
    result[..., :n] -= (x[..., :n] @ weights)[..., component]
    return result


def centre_covariance(covariance: FloatArray, weights: FloatArray, component: IntArray) -> FloatArray:
    r"""Of the centred strengths: $(I - W) C (I - W)^\top$, with what comes behind the strengths."""
    rows = centre(np.ascontiguousarray(covariance.T), weights, component)
    return centre(np.ascontiguousarray(rows.T), weights, component)


def difference_variances(covariance: FloatArray) -> FloatArray:
    """Var(x_i - x_j) of all pairs."""
    variance = np.diagonal(covariance)
    spread: FloatArray = np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0)
    return spread


class QuasiVariances(NamedTuple):
    """One variance an item, so that Var(x_i - x_j) is nearly q_i + q_j."""

    values: FloatArray
    worst: float
    """Greatest relative error of the standard error of a difference."""


def quasi_variances(covariance: FloatArray) -> QuasiVariances | None:
    r"""Minimise $\sum_{i<j} (\log(q_i + q_j) - \log \mathrm{Var}(x_i - x_j))^2$ (Firth and de Menezes, 2004).

    Gauss-Newton steps. None for fewer than three items, for pairs without any variance, and where no positive solution
    is found.

    >>> quasi_variances(np.diag([1.0, 2.0, 3.0])).values.round(6).tolist()
    [1.0, 2.0, 3.0]
    """
    n, target = len(covariance), difference_variances(covariance)
    off = ~np.eye(n, dtype=bool)
    if n < 3 or not np.all(np.isfinite(target)) or np.any(target[off] <= 0.0):
        return None
    log_target = np.log(np.where(off, target, 1.0))
    # Sums over the partners of i, less the mean of all: exact where the covariance is diagonal.
    sums = target.sum(axis=1)
    q = np.maximum((sums - sums.sum() / (2.0 * (n - 1))) / (n - 2), 0.01 * float(target[off].min()))
    for _ in range(100):
        total = q[:, None] + q[None, :]
        residual = np.where(off, np.log(total) - log_target, 0.0)
        slope = np.where(off, 1.0 / total, 0.0)
        normal = slope**2
        np.fill_diagonal(normal, np.sum(normal, axis=1))
        step = -np.linalg.solve(normal, np.sum(residual * slope, axis=1))
        # No entry falls to less than a tenth at once; one that goes on falling has no positive solution.
        fraction = min(1.0, float(np.min(np.where(step < 0, -0.9 * q / np.minimum(step, -1e-300), 1.0))))
        q = q + fraction * step
        if np.max(np.abs(step) / q) < 1e-10:
            return QuasiVariances(q, float(np.max(np.abs(np.exp(0.5 * residual) - 1.0))))
    return None
