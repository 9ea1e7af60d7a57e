"""A projected quasi-Newton method: an L-BFGS model, minimised over the set."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from luce.numerics.blas import one_blas_thread
from luce.training.checkpoint import Checkpoints
from luce.training.objective import Objective
from luce.training.projection import Feasible
from luce.training.run import History, TrainingRun, Validate
from luce.types import FloatArray

__all__ = ["projected_lbfgs"]

Function = Callable[[FloatArray], tuple[float, FloatArray]]
_MEMORY = 10


def projected_lbfgs(
    objective: Objective,
    feasible: Feasible,
    start: FloatArray,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    validate: Validate | None = None,
    patience: int | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Any = None,
    greater_is_better: bool = True,
) -> tuple[FloatArray, History]:
    """Quasi-Newton steps inside the set (Schmidt et al., 2009): the L-BFGS model is minimised over the set.

    The model's minimiser comes from spectral projected gradient steps; a line search towards it keeps the descent.
    """
    run = TrainingRun(validate, patience, checkpoints, progress, max_iter, greater_is_better=greater_is_better)
    x = feasible.nearest(run.resume(start))
    if run.iteration == 0 and validate is not None:
        run.consider(x)
    pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_MEMORY)
    with one_blas_thread():
        value, grad = objective.value_and_grad(x)
        while run.iteration < max_iter and not run.exhausted:
            direction = _towards_minimum(x, grad, pairs, feasible)
            if -float(grad @ direction) <= 1e-14 * max(abs(value), 1.0):
                run.history.converged = True
                break
            moved = _line_search(objective.value_and_grad, x, value, grad, direction)
            if moved is None:
                run.history.converged = True
                break
            before = value
            (value, new_grad), new_x = moved
            if (new_grad - grad) @ (new_x - x) > 1e-12 * float((new_x - x) @ (new_x - x)):
                pairs.append((new_x - x, new_grad - grad))
            x, grad = new_x, new_grad
            run.step(x.copy(), value)
            if before - value <= tol * max(abs(before), abs(value), 1.0):
                run.history.converged = True
                break
    return run.result, run.history


def _line_search(
    function: Function, x: FloatArray, value: float, grad: FloatArray, direction: FloatArray
) -> tuple[tuple[float, FloatArray], FloatArray] | None:
    """The first of the steps 1, 1/2, 1/4, ... that lowers the function enough (Armijo)."""
    step, slope = 1.0, float(grad @ direction)
    while step > 1e-10:
        there = x + step * direction
        found = function(there)
        if np.isfinite(found[0]) and found[0] <= value + 1e-4 * step * slope:
            return found, there
        step *= 0.5
    return None


def _towards_minimum(x: FloatArray, grad: FloatArray, pairs: Any, feasible: Feasible) -> FloatArray:
    """From x to the minimum of the quadratic model over the set, by spectral projected gradient."""
    if not pairs:
        length = max(float(np.abs(grad).sum()), 1e-300)
        return feasible.nearest(x - grad / length) - x
    times = _hessian(pairs)
    at, slope, step = x.copy(), grad, 1.0
    best, best_value = x, 0.0
    for _ in range(25):
        target = feasible.nearest(at - step * slope)
        move = target - at
        curve, descent = float(move @ times(move)), float(slope @ move)
        if -descent <= 1e-12:
            break
        # Along a straight line the model is a parabola, whose minimum is known.
        length = min(1.0, -descent / curve) if curve > 0 else 1.0
        at = at + length * move
        new_slope = grad + times(at - x)
        change = new_slope - slope
        inner = float(move @ change) * length
        step = float(length**2 * (move @ move)) / inner if inner > 0 else 1.0
        slope = new_slope
        value = float(grad @ (at - x)) + 0.5 * float((at - x) @ times(at - x))
        if value < best_value:
            best, best_value = at.copy(), value
    return best - x


def _hessian(pairs: Any) -> Callable[[FloatArray], FloatArray]:
    """The L-BFGS approximation of the Hessian as a function (the compact form of Byrd, Nocedal and Schnabel)."""
    S, Y = np.array([s for s, _ in pairs]).T, np.array([y for _, y in pairs]).T
    sigma = float(Y[:, -1] @ Y[:, -1]) / float(S[:, -1] @ Y[:, -1])
    products = S.T @ Y
    lower, diagonal = np.tril(products, -1), np.diag(np.diag(products))
    middle = np.block([[sigma * (S.T @ S), lower], [lower.T, -diagonal]])
    wide = np.hstack([sigma * S, Y])

    def times(vector: FloatArray) -> FloatArray:
        result: FloatArray = sigma * vector - wide @ np.linalg.solve(middle, wide.T @ vector)
        return result

    return times
