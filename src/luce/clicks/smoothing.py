r"""Examination that changes smoothly down the list: noisy estimates lean on their neighbours, as much as they show.

Attention falls down a list without jumps that matter, and by ratios rather than by steps. So $\log \theta_k$ is taken
as a line in $x = \log k$ of any slope plus a Wiener process in x with variance $\tau^2$, both 0 at the first position.
The estimates $\hat z$ are normal around it with their own covariance S, and $\tau$ has the greatest marginal
likelihood: with many clicks S vanishes and nothing is changed. An integrated Wiener process is smoother, and was
rejected: where a page ends and attention falls at once, it made errors a third larger.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from luce.types import FloatArray

__all__ = ["LEAST_PLACES", "smoothing_matrix"]

LEAST_PLACES = 4
"""Fewer positions than this have no neighbours to lean on."""
_ANY_SLOPE = 100.0
"""Variance of the slope: that of a power of the position."""


def smoothing_matrix(positions: FloatArray, log_theta: FloatArray, covariance: FloatArray) -> FloatArray:
    """(places, places): what the smooth estimates are of the given ones; the first place stays at 0.

    >>> k = np.arange(1.0, 6.0)
    >>> noisy = -np.log(k) + np.array([0.0, 0.1, -0.1, 0.1, -0.1])
    >>> smooth = smoothing_matrix(k, noisy, np.diag([0.0, 0.01, 0.01, 0.01, 0.01])) @ noisy
    >>> bool(np.abs(smooth + np.log(k)).max() < 0.06)
    True
    """
    x = np.log(np.asarray(positions, dtype=np.float64) / positions[0])[1:]
    z, noise = log_theta[1:], covariance[1:, 1:]
    path, line = np.minimum.outer(x, x), _ANY_SLOPE * np.outer(x, x)

    def loss(log_variance: float) -> float:
        total = noise + line + np.exp(log_variance) * path
        return float(np.linalg.slogdet(total)[1] + z @ np.linalg.solve(total, z))

    found = minimize_scalar(loss, bounds=(-25.0, 6.0), method="bounded")
    prior = line + np.exp(found.x) * path
    result = np.zeros((len(log_theta), len(log_theta)))
    result[1:, 1:] = np.linalg.solve(prior + noise, prior).T
    return result
