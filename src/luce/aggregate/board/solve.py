"""Solve a fitting problem: the estimate, its covariance and, where asked for, bootstrap draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from luce.aggregate.board.inference import Objective, sandwich
from luce.aggregate.board.newton import Solution, newton
from luce.aggregate.board.problem import Problem
from luce.errors import DataError, LuceWarning, SettingError
from luce.types import FloatArray, IntArray, Progress

__all__ = ["DEFAULT_PRIOR", "Errors", "Estimate", "bootstrap", "estimate"]

DEFAULT_PRIOR = 0.1
"""Ridge where the data need one: a normal prior of the strengths with standard deviation 3.2."""

Errors = Literal["sandwich", "curvature"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Where the likelihood is greatest, and how sure that is."""

    x: FloatArray
    covariance: FloatArray
    log_likelihood: float
    iterations: int
    converged: bool
    ridge: float
    errors: Errors
    notes: tuple[str, ...]


def estimate(problem: Problem, prior: float | None, errors: Errors) -> Estimate:
    """Maximum likelihood, or the greatest posterior where the data need a prior or one is asked for."""
    if prior is not None and not (np.isfinite(prior) and prior >= 0):
        raise SettingError(f"prior is {prior}; it must be a finite number of at least 0.")
    if errors not in ("sandwich", "curvature"):
        raise SettingError(f"errors is {errors!r}; it must be 'sandwich' or 'curvature'.")
    ridge, notes = _choose_prior(problem, prior)
    objective = problem.build(None, ridge)
    solution, null = _solve(problem, objective, _start(problem, objective, ridge), ridge)
    if not solution.converged and prior is None and ridge == 0.0:
        ridge = DEFAULT_PRIOR
        notes.append(
            f"The likelihood has no finite maximum; a normal prior with precision {ridge:g} on the strengths makes "
            "the estimates finite."
        )
        objective = problem.build(None, ridge)
        solution, null = _solve(problem, objective, objective.start(), ridge)
    if not solution.converged:
        text = f"Newton did not converge in {solution.iterations} iterations; do not rely on these strengths."
        warnings.warn(text, LuceWarning, stacklevel=3)
        notes.append(text)
    separated = ridge > 0.0 and prior is None
    if separated and errors == "sandwich":
        # A result that was never contradicted has almost no scatter, so the sandwich would call it certain.
        errors = "curvature"
    meat = problem.meat(objective, solution.x) if errors == "sandwich" else None
    return Estimate(
        x=solution.x,
        covariance=sandwich(solution, meat, null),
        log_likelihood=objective.log_likelihood(solution.x, solution.at),
        iterations=solution.iterations,
        converged=solution.converged,
        ridge=ridge,
        errors=errors,
        notes=(*problem.notes, *notes),
    )


def _solve(problem: Problem, objective: Objective, start: FloatArray, ridge: float) -> tuple[Solution, FloatArray]:
    null = problem.null if ridge == 0.0 else problem.null[:, :0]
    return newton(objective, start, null), null


def _start(problem: Problem, objective: Objective, ridge: float) -> FloatArray:
    """The minimum of a sample where there are very many rows, so that full passes only polish it."""
    if problem.sample is None:
        return objective.start()
    # A sample may miss the wins that keep an estimate finite; a small ridge does no harm to a mere start.
    part = problem.sample(max(ridge, 1e-3))
    found = newton(part, part.start(), problem.null[:, :0], tolerance=1e-3)
    return found.x if found.converged else objective.start()


def _choose_prior(problem: Problem, prior: float | None) -> tuple[float, list[str]]:
    """The ridge, and what to say about it."""
    if problem.strong is None or np.array_equal(problem.strong, problem.component):
        return prior or 0.0, []
    odd = _outside(problem.strong, problem.component)
    listed = ", ".join(repr(problem.names[i]) for i in odd[:5]) + (", ..." if len(odd) > 5 else "")
    said = f"{len(odd)} of {len(problem.names)} items win or lose every battle against all the others ({listed})"
    if prior is not None and prior == 0.0:
        raise DataError(f"{said}, so that without a prior their strengths are infinite; give a prior above 0, or None.")
    ridge = DEFAULT_PRIOR if prior is None else prior
    return ridge, [f"{said}; a normal prior with precision {ridge:g} on the strengths makes their estimates finite."]


def _outside(strong: IntArray, component: IntArray) -> IntArray:
    """Items outside the largest strong component of their component."""
    inside = np.zeros(len(strong), dtype=bool)
    for c in np.unique(component):
        members = component == c
        inside |= members & (strong == np.argmax(np.bincount(strong[members])))
    return np.flatnonzero(~inside)


def bootstrap(
    problem: Problem, found: Estimate, draws: int, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[FloatArray, str | None]:
    """(draws, parameters): estimates on resampled battles, races or groups, each started at the estimate.

    A sample may lack the wins that keep an estimate finite; it is then fitted with the default prior, and counted.
    """
    result = np.empty((draws, len(found.x)))
    odd = 0
    for i in range(draws):
        weights = problem.resample(rng)
        solution, _ = _solve(problem, problem.build(weights, found.ridge), found.x, found.ridge)
        if not solution.converged and found.ridge == 0.0:
            odd += 1
            solution, _ = _solve(problem, problem.build(weights, DEFAULT_PRIOR), found.x, DEFAULT_PRIOR)
        result[i] = solution.x
        if progress is not None:
            progress(i + 1, draws, {})
    if not odd:
        return result, None
    return result, f"{odd} of {draws} bootstrap samples had no finite maximum and were fitted with a prior."
