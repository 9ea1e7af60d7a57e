"""Trainers that stay inside a set: projected stochastic gradient, and a projected quasi-Newton method beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.checks import whole
from luce.errors import SettingError
from luce.metrics.catalog import get
from luce.numerics.blas import one_blas_thread
from luce.training.checkpoint import Checkpoints
from luce.training.objective import Objective
from luce.training.projection import Feasible
from luce.training.run import History, Run, Validate, best_validation
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.training.train import Options

__all__ = [
    "PROJECTED",
    "ProjectedSettings",
    "check_trainer_params",
    "fit_projected",
    "projected_descent",
    "projected_lbfgs",
]

PROJECTED = ("projected", "projected_lbfgs")
Function = Callable[[FloatArray], tuple[float, FloatArray]]
DEFAULT_EPOCHS = 10
_MEMORY = 10


@dataclass(frozen=True)
class ProjectedSettings:
    """`trainer_params` of the projected trainers.

    Parameters
    ----------
    radius
        Bound t of the L1 norm of the scorer's parameters and the loss's weights; None for no bound.
    starts
        Random starts, of which the best on validation (without validation data, in the objective) is kept.
    nonnegative
        Whether the scorer's parameters stay at 0 or above; None leaves it to the scorer.
    """

    radius: float | None = None
    starts: int = 1
    nonnegative: bool | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not (isinstance(self.radius, int | float) and 0 < self.radius < np.inf):
            raise SettingError(f"radius is {self.radius!r}; it must be None or a finite number above 0.")
        whole("starts", self.starts, 1)

    @classmethod
    def of(cls, given: dict[str, Any] | None) -> ProjectedSettings:
        """From what a user gives, with an error that lists what there is."""
        unknown = set(given or {}) - set(cls.__dataclass_fields__)
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise SettingError(f"trainer_params has {sorted(unknown)}; a projected trainer takes {known}.")
        return cls(**(given or {}))


def check_trainer_params(trainer: str, given: dict[str, Any] | None) -> None:
    """Refuse settings that the trainer does not have, before any data are read."""
    if trainer in PROJECTED:
        ProjectedSettings.of(given)
    elif given:
        raise SettingError(f"trainer_params goes with the trainers {' and '.join(PROJECTED)}; leave it out.")


def fit_projected(
    objective: Objective, start: FloatArray | None, options: Options, validate: Validate | None, fingerprint: Any
) -> tuple[FloatArray, History]:
    """The best of several starts; `start` is that of a warm start, from which there is one run only."""
    settings = ProjectedSettings.of(options.trainer_params)
    feasible = feasible_set(objective, settings)
    runs = []
    for number in range(1 if start is not None else settings.starts):
        rng = np.random.default_rng([options.seed, number])
        first = feasible.nearest(random_start(objective, rng) if start is None else start)
        folder = None if options.checkpoint is None else Path(options.checkpoint) / f"start-{number}"
        checkpoints = None if folder is None else Checkpoints(folder, {**fingerprint, "start": number})
        shared: dict[str, Any] = {"validate": validate, "patience": options.patience, "checkpoints": checkpoints}
        shared |= {"progress": options.progress, "greater_is_better": get(options.metric).greater_is_better}
        if options.trainer == "projected":
            epochs = DEFAULT_EPOCHS if options.max_epochs is None else options.max_epochs
            steps: dict[str, Any] = {
                "learning_rate": options.learning_rate,
                "batch_queries": options.batch_queries or 1,
            }
            found = projected_descent(
                objective, feasible, first, epochs=epochs, seed=options.seed + number, **steps, **shared
            )
        else:
            found = projected_lbfgs(objective, feasible, first, max_iter=options.max_iter, tol=options.tol, **shared)
        runs.append(found)
    if len(runs) == 1:
        return runs[0]
    if validate is not None:
        chosen = max if get(options.metric).greater_is_better else min
        return chosen(runs, key=lambda found: best_validation(found[1].as_dict(), options.metric) or 0.0)
    return min(runs, key=lambda found: objective.value_and_grad(found[0])[0])


def feasible_set(objective: Objective, settings: ProjectedSettings) -> Feasible:
    """The set of the scorer's parameters and the loss's own."""
    scorer, loss = objective.scorer, objective.loss
    nonnegative = getattr(scorer, "nonnegative", False) if settings.nonnegative is None else settings.nonnegative
    own = np.array(loss.parameter_bounds).reshape(-1, 2)
    lower = np.concatenate([np.full(scorer.n_parameters, 0.0 if nonnegative else -np.inf), own[:, 0]])
    upper = np.concatenate([np.full(scorer.n_parameters, np.inf), own[:, 1]])
    counted = np.concatenate([np.ones(scorer.n_parameters, dtype=bool), own[:, 0] >= 0])
    return Feasible(lower, upper, counted, settings.radius)


def random_start(objective: Objective, rng: np.random.Generator) -> FloatArray:
    """The scorer's own start, and the non-negative weights of the loss uniform in [0, 1] as in the paper."""
    own = objective.loss.parameters.copy()
    bounds = np.array(objective.loss.parameter_bounds).reshape(-1, 2)
    weights = bounds[:, 0] >= 0
    first = objective.scorer.initial(rng)
    own[weights] = rng.uniform(0.0, 1.0, int(weights.sum()))
    return np.concatenate([first, own])


def projected_descent(
    objective: Objective,
    feasible: Feasible,
    start: FloatArray,
    *,
    epochs: int = 10,
    learning_rate: float = 0.5,
    batch_queries: int = 1,
    seed: int = 0,
    validate: Validate | None = None,
    patience: int | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Any = None,
    greater_is_better: bool = True,
) -> tuple[FloatArray, History]:
    r"""Steps $\theta \leftarrow \Pi(\theta - \eta_t\, g_q)$, a few queries each; $\eta$ is halved after every epoch.

    The paper shrinks a step until it is allowed, which an outward gradient stops for good; a projection does not. The
    queries of an epoch come in an order that depends on the seed and on the epoch alone.
    """
    if not learning_rate > 0:
        raise SettingError(f"learning_rate is {learning_rate}; it must be above 0.")
    run = Run(validate, patience, checkpoints, progress, epochs, greater_is_better=greater_is_better)
    vector = run.resume(start).copy()
    if run.iteration == 0 and validate is not None:
        run.consider(vector)
    n = objective.data.n_queries
    firsts = np.arange(0, n, batch_queries)
    while run.iteration < epochs and not run.exhausted:
        step = learning_rate * 0.5**run.iteration
        values = []
        for first in np.random.default_rng([seed, run.iteration]).permutation(firsts).tolist():
            batch = (first, min(first + batch_queries, n))
            value, grad = objective.on_batch(batch, vector, objective.loss.reseeded(run.iteration))
            vector = feasible.nearest(vector - step * grad)
            values.append(value * (batch[1] - batch[0]))
        run.step(vector, float(np.sum(values)) / n)
    run.history.converged = True
    return run.result, run.history


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
    run = Run(validate, patience, checkpoints, progress, max_iter, greater_is_better=greater_is_better)
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
