"""L-BFGS on an objective, with early stopping on a metric and checkpoints."""

from __future__ import annotations

from scipy.optimize import OptimizeResult, minimize

from luce.numerics.blas import one_blas_thread
from luce.training.checkpoint import Checkpoints
from luce.training.objective import Objective
from luce.training.run import History, TrainingRun, Validate
from luce.types import FloatArray, Progress

__all__ = ["minimise"]


def minimise(
    objective: Objective,
    start: FloatArray,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    validate: Validate | None = None,
    greater_is_better: bool = True,
    patience: int | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Progress | None = None,
) -> tuple[FloatArray, History]:
    """Minimise until the relative decrease of an iteration is below `tol`, or `max_iter` iterations.

    With `validate` the iterate of the best validation value is returned, and `patience` iterations without a better one
    end the search. A checkpoint holds the last iterate; a resumed search starts there with a fresh memory of
    curvature and reaches the same optimum.
    """
    run = TrainingRun(validate, patience, checkpoints, progress, max_iter, greater_is_better=greater_is_better)
    start = run.resume(start)
    if run.iteration == 0 and validate is not None:
        run.consider(start)

    def after(intermediate_result: OptimizeResult) -> None:
        run.step(intermediate_result.x.copy(), float(intermediate_result.fun))
        if run.exhausted:
            raise StopIteration

    left = max_iter - run.iteration
    if left > 0 and not run.exhausted:
        # The search's own small products wake BLAS threads that spin beside ours, at half their speed.
        with one_blas_thread():
            result = minimize(
                objective.value_and_grad,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=objective.bounds,
                callback=after,
                options={"maxiter": left, "ftol": tol, "gtol": 1e-9, "maxcor": 10, "maxfun": 20 * left},
            )
        run.history.converged = bool(result.status == 0)
        run.last = result.x
    return run.result, run.history
