"""Tasks resampled: standard errors, and confidence sets of ranks for all models at once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from luce.aggregate.board.contrast import centre
from luce.aggregate.board.inference import RankSets, precisions, step_down
from luce.aggregate.scores.methods import Fit
from luce.numerics.compiled import kernel
from luce.types import FloatArray

_CHUNK_BYTES = 1 << 24
FEW_TASKS = 6
"""With fewer, the scatter of tasks says too little about a model."""


class Resampled(NamedTuple):
    """Covariance of the strengths, and their rank sets."""

    covariance: FloatArray
    sets: RankSets


def task_weights(draws: int, tasks: int, rng: np.random.Generator) -> FloatArray:
    """(draws, tasks) Dirichlet weights with mean 1.

    Of ten equal models on 20 tasks, sets at 95% covered .945 of the time (200 boards); with Mammen's two-point weights
    .905, and drawing with replacement .995, with sets that are wider by a quarter where models do differ. Replacement
    may also lose the only task that keeps a strength finite.
    """
    drawn = rng.standard_exponential((draws, tasks))
    scaled: FloatArray = drawn * (tasks / drawn.sum(axis=1, keepdims=True))
    return scaled


def one_step(fit: Fit, weights: FloatArray, lift: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Strengths after one Newton step with these task weights, less the fitted ones, and the pull of every task.

    (draws, models) and (draws, tasks, models); a pull is the inverse Hessian times the centred gradient of a task.
    `lift` (draws, models) is added to the diagonals. Numbers are of the type of the terms of the fit.
    """
    n, tasks = len(fit.strength), len(fit.gradients)
    weights = weights.astype(fit.hessians.dtype)
    hessian = (weights @ fit.hessians.reshape(tasks, -1)).reshape(-1, n, n)
    hessian += fit.fixed
    if lift is not None:
        hessian[:, np.arange(n), np.arange(n)] += lift
    right = np.empty((len(weights), 1 + tasks, n), dtype=hessian.dtype)
    right[:, 0] = total = weights @ fit.gradients
    right[:, 1:] = fit.gradients[None] - (total / weights.sum(axis=1)[:, None])[:, None, :]
    (solve,) = linalg.get_lapack_funcs(("posv",), (hessian,))
    for k in range(len(weights)):
        # Symmetric, so that the transposed views are the matrices in the order that LAPACK wants; half the work of LU.
        _, found, failed = solve(hessian[k].T, right[k].T)
        right[k] = np.linalg.solve(_whole(hessian[k]), right[k].T).T if failed else found.T
    return -right[:, 0], -right[:, 1:]


def _whole(matrix: FloatArray) -> FloatArray:
    """In double precision: a matrix that rounding, or ties, kept from being positive definite."""
    return matrix.astype(np.float64)


def in_single_precision(fit: Fit, task_weight: FloatArray) -> tuple[Fit, FloatArray]:
    """The fit in single precision, and the units of its strengths, in which all have the same curvature.

    Resamples are good to a hundredth at best, and a thousand systems take half the time in short numbers.
    """
    unit = 1.0 / np.sqrt(np.diagonal(np.tensordot(task_weight, fit.hessians, 1) + fit.fixed))
    both = unit[:, None] * unit
    gradients, hessians, fixed = (_single(v) for v in (fit.gradients * unit, fit.hessians * both, fit.fixed * both))
    return replace(fit, terms=lambda: (gradients, hessians), fixed=fixed), unit


def _single(values: FloatArray) -> FloatArray:
    short: FloatArray = values.astype(np.float32)
    return short


def resample(
    fit: Fit, task_weight: FloatArray, mean: FloatArray, level: float, draws: int, rng: np.random.Generator
) -> Resampled:
    """Errors by the pulls of tasks, and rank sets by studentised resamples.

    Every resample is measured by its own standard errors: with those of the data the sets of 20 tasks would cover .76
    instead of .95.
    """
    tasks, n = fit.gradients.shape
    small = tasks / max(tasks - 1, 1)
    _, pulls = one_step(fit, task_weight[None])
    pulled = centre(pulls[0] * task_weight[:, None], mean, fit.component)
    covariance = small * pulled.T @ pulled + np.diag(_floor(fit, task_weight, small * pulled**2))
    if tasks < 2:
        undecided = np.zeros((n, n), dtype=bool)
        size = np.bincount(fit.component)[fit.component]
        return Resampled(covariance * np.nan, RankSets(np.ones(n, dtype=np.int64), size, undecided))
    deviations, scaled = np.empty((draws, n)), np.empty((draws, tasks, n), dtype=np.float32)
    short, unit = in_single_precision(fit, task_weight)
    chunk = max(1, _CHUNK_BYTES // (4 * n * n))
    for low in range(0, draws, chunk):
        drawn = task_weights(min(chunk, draws - low), tasks, rng)
        part = slice(low, low + len(drawn))
        moved, pulls = one_step(short, drawn * task_weight)
        deviations[part] = moved * unit
        scaled[part] = pulls * unit * (np.sqrt(small * drawn) * task_weight)[:, :, None]

    def greatest(precision: FloatArray) -> FloatArray:
        active, out = precision > 0, np.empty(draws)
        for k in range(draws):
            # The lower triangle of a product with itself, which is half of it.
            out[k] = _greatest(deviations[k], linalg.blas.ssyrk(1.0, scaled[k].T).T, active)
        return out

    sets = step_down(fit.strength, precisions(covariance, fit.component), greatest, fit.component, level)
    return Resampled(covariance, sets)


def _floor(fit: Fit, task_weight: FloatArray, squares: FloatArray) -> FloatArray:
    """More variance for models with few tasks.

    The strength of a model with one task makes the gradient of that task 0, and its pull says that it is certain. Such
    models get the variance of the curvature on top, times what the pulls of all others are of theirs.
    """
    seen = np.sum(np.einsum("tii->ti", fit.hessians) > 0, axis=0)
    few = seen < FEW_TASKS
    if not few.any() or few.all():
        return np.zeros(len(seen))
    hessian = np.einsum("t,tij->ij", task_weight, fit.hessians) + fit.fixed
    plain = np.diagonal(np.linalg.inv(hessian))
    ratio = float(np.median(squares.sum(axis=0)[~few] / plain[~few]))
    return np.where(few, max(ratio, 0.0) * plain, 0.0)


@kernel
def _greatest(deviation, covariance, active):  # type: ignore[no-untyped-def]
    """The greatest difference of deviations in units of its standard error, squared until the end."""
    most = 0.0
    for i in range(len(deviation)):
        for j in range(i):
            if active[i, j]:
                spread = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
                if spread > 0.0:
                    most = max(most, (deviation[i] - deviation[j]) ** 2 / spread)
    return np.sqrt(most)
