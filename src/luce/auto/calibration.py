r"""Scores as probabilities: the chances under which what happened out of fold is most likely.

A pair of documents with scores $s_i$, $s_j$ is won, lost or tied in proportion to

$$e^{c (s_i - s_j) / 2}, \qquad e^{-c (s_i - s_j) / 2}, \qquad \nu e^{a m + b m^2}, \qquad m = c (s_i + s_j) / 2,$$

Davidson's model with ties that depend on the level of the pair; $c, \nu, a, b$ are fitted by a convex program. Who
is in the top k is said by Luce's model on a scale of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from luce import losses
from luce.data.groups import Groups
from luce.losses.base import Loss
from luce.losses.pairwise import Davidson
from luce.numerics.links import get as link
from luce.types import FloatArray, IntArray

_FARTHEST = 7.0
"""Scales lie between exp(-7) and exp(7)."""
_LEAST = 1e-3
_PAIRS = 500_000
"""Pairs of which at most the chances are learned."""
_PENALTY = 1e-6


@dataclass(frozen=True)
class Calibration:
    """What scores are multiplied by, and the loss whose probabilities they then have."""

    scale: float
    loss: Davidson


def calibrate(scores: FloatArray, data: Groups, rng: np.random.Generator) -> Calibration:
    """Davidson's model for pairs and ties, and Luce's for the top k, each with the scale that suits it best.

    `scores` are about 1 in their spread within a query.
    """
    slope, beta, first, second = _fit_pairs(scores, data, rng)
    scale = max(slope, _LEAST)
    race_scale, _ = fit_scale(losses.get("plackett_luce"), scores, data)
    loss = losses.get("davidson", race_scale=race_scale / scale, tie_level=(first / scale, second / scale**2))
    assert isinstance(loss, Davidson)
    low, high = link("davidson").bounds
    return Calibration(scale, loss.with_parameters(np.array([np.clip(beta, low, high)])))


def _fit_pairs(scores: FloatArray, data: Groups, rng: np.random.Generator) -> FloatArray:
    """Slope of the difference, and the three terms of ties, by logistic regression with three outcomes."""
    i, j = _pairs(data, rng)
    half, level = 0.5 * (scores[i] - scores[j]), 0.5 * (scores[i] + scores[j])
    outcome = np.sign(data.y[i] - data.y[j]).astype(np.int64)  # 0 is a tie, 1 a win, -1 a loss
    terms = np.stack([np.ones_like(level), level, level**2])
    rows = np.arange(len(i))

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        logs = np.stack([vector[1:] @ terms, vector[0] * half, -vector[0] * half])
        logs -= logsumexp(logs, axis=0)
        chance = np.exp(logs)
        chance[outcome, rows] -= 1.0
        grad = np.append((chance[1] - chance[2]) @ half, terms @ chance[0]) / len(i)
        value = 0.5 * _PENALTY * float(vector @ vector) - float(logs[outcome, rows].mean())
        return value, grad + _PENALTY * vector

    found: FloatArray = minimize(objective, np.array([1.0, 0.0, 0.0, 0.0]), jac=True, method="L-BFGS-B").x
    return found


def _pairs(data: Groups, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Rows of pairs of documents of one query, all of them or so many drawn ones."""
    sizes = data.sizes
    counts = sizes * (sizes - 1) // 2
    if counts.sum() <= _PAIRS:
        upper = [np.triu_indices(n, 1) for n in sizes]
        starts = np.repeat(data.offsets[:-1], counts)
        i, j = (np.concatenate([pair[side] for pair in upper]) for side in (0, 1))
        return starts + i, starts + j
    query = rng.choice(len(sizes), _PAIRS, p=counts / counts.sum())
    i = (rng.random(_PAIRS) * sizes[query]).astype(np.int64)
    j = (i + 1 + (rng.random(_PAIRS) * (sizes[query] - 1)).astype(np.int64)) % sizes[query]
    return data.offsets[query] + i, data.offsets[query] + j


def fit_scale(loss: Loss, scores: FloatArray, data: Groups) -> tuple[float, Loss]:
    """The factor of the scores, with the parameters of the loss itself, at which the loss is least."""

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        scaled = np.exp(vector[0]) * scores
        value, grad, d_parameters = loss.with_parameters(vector[1:]).value_and_grads(scaled, data.y, data.offsets)
        return value / data.n_queries, np.append(grad @ scaled, d_parameters) / data.n_queries

    start = np.append(0.0, loss.parameters)
    bounds = [(-_FARTHEST, _FARTHEST), *loss.parameter_bounds]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(found.x[0])), loss.with_parameters(found.x[1:])
