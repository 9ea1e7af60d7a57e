"""The slow, obvious form of every pairwise loss: a double loop over documents, formulas straight from the papers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

Pair = Callable[[float], float]


def logistic_win(theta: float) -> Pair:
    return lambda d: float(np.logaddexp(0, np.log(theta) - d))


def logistic_tie(theta: float) -> Pair:
    log_theta = np.log(theta)
    return lambda d: float(np.logaddexp(0, log_theta - d) + np.logaddexp(0, log_theta + d) - np.log(theta**2 - 1))


def davidson_win(nu: float) -> Pair:
    return lambda d: float(special.logsumexp([d / 2, -d / 2, np.log(nu)]) - d / 2)


def davidson_tie(nu: float) -> Pair:
    return lambda d: float(special.logsumexp([d / 2, -d / 2, np.log(nu)]) - np.log(nu))


def normal_win(epsilon: float) -> Pair:
    return lambda d: -float(special.log_ndtr(d - epsilon))


def normal_tie(epsilon: float) -> Pair:
    def value(d: float) -> float:
        high, low = special.log_ndtr(-abs(d) + epsilon), special.log_ndtr(-abs(d) - epsilon)
        return -float(high + np.log(-np.expm1(low - high)))

    return value


def total(
    win: Pair,
    tie: Pair | None,
    scores: np.ndarray,
    labels: np.ndarray,
    pair_weight: Callable[[int, int], float] = lambda i, j: 1.0,
) -> float:
    """Sum over all pairs of one query."""
    result = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if labels[i] > labels[j]:
                result += pair_weight(i, j) * win(scores[i] - scores[j])
            elif tie is not None and labels[i] == labels[j] and i < j:
                result += pair_weight(i, j) * tie(scores[i] - scores[j])
    return result
