"""Solve a fitting problem: the estimate, its covariance and, where asked for, bootstrap draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from luce.aggregate.board.fitting_problem import FittingProblem
from luce.aggregate.board.likelihood import Hodge, Likelihood, Penalised
from luce.aggregate.board.newton import Solution, constant_on, inverse, newton
from luce.aggregate.board.options import Inference
from luce.aggregate.board.posterior import centre, centre_covariance, mean_weights
from luce.aggregate.board.separation import Separation, describe, find_separation, runs_away
from luce.errors import DataError, LuceWarning
from luce.types import FloatArray, IntArray, Progress

DEFAULT_PRIOR = 0.1
"""Precision where the data need a prior: a standard deviation of 3.2."""


FEW_RESULTS = 10.0
"""An item with so many results leans on the curvature by half; see `_lean`."""


class Prior(NamedTuple):
    """Precision matrix of the strengths (None: no prior), the number that it stands for, and what to say of it."""

    matrix: FloatArray | None = None
    strength: float = 0.0
    notes: tuple[str, ...] = ()
    separation: Separation | None = None
    ridge: bool = False
    """The matrix is a multiple of the identity."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Where the likelihood is greatest, and how sure that is; strengths are centred by `weights`."""

    x: FloatArray
    covariance: FloatArray
    of_few: FloatArray
    """The part of the covariance that items with few results have from the curvature; see `_lean`."""
    weights: FloatArray
    """(items, components): see `mean_weights`."""
    log_likelihood: float
    iterations: int
    converged: bool
    prior: Prior
    errors: str
    notes: tuple[str, ...]
    factor: float = 1.0
    """How much of the information of the likelihood counts; see `dependence`."""


def dependence(problem: FittingProblem, how: Inference, meat: FloatArray, hessian: FloatArray) -> float:
    r"""$\mathrm{tr} H / \mathrm{tr} V$, at most 1: how much of a log-likelihood counts where battles depend on others.

    Twelve losses before one judge, or one that weighs twelve, are not twelve. Least squares has no unit, and this gives
    it one; elsewhere battles that count alike are taken as independent.
    """
    n, special = len(problem.names), isinstance(problem.likelihood, Hodge)
    if (how.errors == "curvature" or problem.alike) and not special:
        return 1.0
    scatter = float(np.trace(meat[:n, :n]))
    ratio = float(np.trace(hessian[:n, :n])) / scatter if scatter > 0.0 else 1.0
    return ratio if special else min(1.0, ratio)


def estimate(problem: FittingProblem, how: Inference, start: FloatArray | None = None) -> Estimate:
    """Maximum likelihood, or the greatest posterior where the data need a prior or one is asked for."""
    prior = _choose_prior(problem, how.prior)
    likelihood = problem.likelihood
    solution = _solve(problem, likelihood, _start(problem, likelihood) if start is None else start, prior)
    if not solution.converged and how.prior is None and not prior.ridge:
        text = (
            f"The likelihood has no finite maximum; a normal prior with precision {DEFAULT_PRIOR:g} on the strengths "
            "makes the estimates finite."
        )
        prior = _ridge(problem, DEFAULT_PRIOR, text)
        solution = _solve(problem, likelihood, likelihood.start(), prior)
    notes = [*problem.notes, *prior.notes]
    if not solution.converged:
        text = f"Newton did not converge in {solution.iterations} iterations; do not rely on these strengths."
        warnings.warn(text, LuceWarning, stacklevel=3)
        notes.append(text)
    at = solution.at if prior.matrix is None else likelihood(solution.x)
    n = len(problem.names)
    main = None if prior.separation is None or how.prior is not None else prior.separation.main
    weights = mean_weights(np.diagonal(at.hessian)[:n], problem.component, main)
    bread = inverse(solution.at.hessian, problem.null) + _of_prior_alone(problem, prior)
    meat = likelihood.meat(solution.x)
    factor = dependence(problem, how, meat, at.hessian)
    lean = _lean(meat, at.hessian, problem.games)
    covariance, errors = _covariance(problem, how, prior, meat + lean, bread, weights)
    return Estimate(
        x=centre(solution.x, weights, problem.component),
        covariance=covariance,
        of_few=centre_covariance(bread @ lean @ bread, weights, problem.component),
        weights=weights,
        log_likelihood=likelihood.log_likelihood(solution.x, at),
        iterations=solution.iterations,
        converged=solution.converged,
        prior=prior,
        errors=errors,
        notes=tuple(notes),
        factor=factor,
    )


def _covariance(
    problem: FittingProblem, how: Inference, prior: Prior, meat: FloatArray, bread: FloatArray, weights: FloatArray
) -> tuple[FloatArray, str]:
    r"""$H^+ V H^+$ (sandwich) or $H^+$ (curvature) of the centred strengths.

    A result that was never contradicted has almost no scatter, and the sandwich would call it certain. So the prior
    enters V, and separated items get the variances and covariances of the curvature on top; where nothing tells which
    items these are, all get those of the curvature alone.
    """
    plain = centre_covariance(bread, weights, problem.component)
    unknown = prior.matrix is not None and how.prior is None and prior.separation is None
    if how.errors == "curvature" or unknown:
        return plain, "curvature"
    if prior.separation is None or how.prior is not None or prior.matrix is None:
        return centre_covariance(bread @ meat @ bread, weights, problem.component), "sandwich"
    n, outside = len(problem.names), prior.separation.outside
    meat[:n, :n] += prior.matrix
    robust = centre_covariance(bread @ meat @ bread, weights, problem.component)
    robust[np.ix_(outside, outside)] += plain[np.ix_(outside, outside)]
    return robust, "sandwich"


def _lean(meat: FloatArray, hessian: FloatArray, games: FloatArray) -> FloatArray:
    r"""What is added to the scatter V of the scores for items with few results: $\rho \Lambda H \Lambda$.

    An item that has drawn its three battles has no scatter at all, and the sandwich would call its strength certain.
    $\lambda_i = k / (k + n_i)$ with n results and k = 10 leans on the curvature H where results are few and vanishes
    where they are many; $\rho$ is what V is of H for the items with k results or more.
    """
    n = len(games)
    share, many = FEW_RESULTS / (FEW_RESULTS + games), games >= FEW_RESULTS
    curved = np.diagonal(hessian)[:n]
    usable = many & (curved > 0.0)
    ratio = float(np.median(np.diagonal(meat)[:n][usable] / curved[usable])) if usable.any() else 1.0
    result = np.zeros_like(meat)
    result[:n, :n] = ratio * share[:, None] * hessian[:n, :n] * share
    return result


def _solve(problem: FittingProblem, likelihood: Likelihood, start: FloatArray, prior: Prior) -> Solution:
    """The maximum, whose strengths do not move along the directions that the likelihood does not see.

    A ridge has its maximum there at 0. It keeps every strength finite, so that no curvature is too small for it.
    """
    null = problem.null
    if prior.matrix is None:
        return newton(likelihood, start, null)
    if not prior.ridge:
        return newton(Penalised(likelihood, prior.matrix), start, null)
    return newton(Penalised(likelihood, prior.matrix), start - null @ (null.T @ start), null, flat=0.0)


def _of_prior_alone(problem: FittingProblem, prior: Prior) -> FloatArray | float:
    """The variance of a ridge along directions that the likelihood does not see: members who never play apart.

    Common shifts of a component are left out, since centring takes them away.
    """
    if not prior.ridge or problem.null.shape[1] <= int(problem.component.max()) + 1:
        return 0.0
    shifts = constant_on(problem.component, len(problem.null))
    unseen = np.linalg.norm(problem.null.T @ shifts, axis=0) > 1.0 - 1e-9
    rest = problem.null - shifts[:, unseen] @ (shifts[:, unseen].T @ problem.null)
    return np.asarray(rest @ rest.T / prior.strength)


def _start(problem: FittingProblem, likelihood: Likelihood) -> FloatArray:
    """The maximum of a sample where there are very many rows, so that full passes only polish it."""
    part = likelihood.sample()
    if part is None:
        return likelihood.start()
    # A sample may miss the wins that keep an estimate finite; a small ridge does no harm to a mere start.
    ridge = Penalised(part, 1e-3 * np.eye(len(problem.names)))
    found = newton(ridge, part.start(), problem.null[:, :0], tolerance=1e-3)
    return found.x if found.converged else likelihood.start()


def start_near(problem: FittingProblem, whole: FittingProblem, found: Estimate) -> FloatArray:
    """The parameters of a category at the strengths and the tie parameter of all results."""
    x, strength = problem.likelihood.start(), dict(zip(whole.names, found.x, strict=False))
    x[: len(problem.names)] = [strength[name] for name in problem.names]
    tied = problem.draws == whole.draws == "model" and not isinstance(problem.likelihood, Hodge)
    if len(x) > len(problem.names) and tied:
        x[-1] = found.x[-1]
    return x


def _ridge(problem: FittingProblem, precision: float, *notes: str, separation: Separation | None = None) -> Prior:
    return Prior(precision * np.eye(len(problem.names)), precision, notes, separation, ridge=True)


def _choose_prior(problem: FittingProblem, asked: float | None) -> Prior:
    """The prior that was asked for, or the one that the data need."""
    separation = find_separation(problem.results, problem.component)
    away = separation is None and problem.results is not None and runs_away(problem.results)
    if separation is None and not away:
        return _ridge(problem, asked) if asked else Prior()
    said = describe(separation, problem.names) if separation is not None else _AWAY
    if asked == 0.0:
        raise DataError(
            f"{said}; without a prior their estimates are infinite, so give a prior above 0, or leave it out."
        )
    made = "a normal prior with precision {:g} {} makes their estimates finite"
    if asked or separation is None:
        strength = asked or DEFAULT_PRIOR
        return _ridge(problem, strength, f"{said}; {made.format(strength, 'on the strengths')}.", separation=separation)
    matrix = prior_of_separated(problem.games, problem.component, separation)
    where = "around the mean of the others"
    note = (
        f"{said}; {made.format(DEFAULT_PRIOR, where)}. Where something bounds them, the strength shown is where "
        "such results have probability 1/2, and their intervals are open to the other side."
    )
    return Prior(matrix, DEFAULT_PRIOR, (note,), separation)


_AWAY = (
    "No cycle of results has more wins than draws, so that the tie parameter and the differences of strengths grow "
    "together without a limit"
)


def prior_of_separated(games: FloatArray, component: IntArray, separation: Separation) -> FloatArray:
    """Only the separated items are pulled, to the mean of the others; all items where there are no two others."""
    weights = mean_weights(games, component, separation.main)
    alone = np.bincount(component, separation.main, int(component.max()) + 1)[component] < 2
    rows = np.flatnonzero(alone | ~separation.main)
    contrasts = np.eye(len(component))[rows] - weights[:, component[rows]].T
    return DEFAULT_PRIOR * contrasts.T @ contrasts


def bootstrap(
    problem: FittingProblem, found: Estimate, draws: int, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[FloatArray, str | None]:
    """(draws, parameters): estimates with Dirichlet weights of battles, races or groups."""
    result = np.empty((draws, len(found.x)))
    odd = 0
    for i in range(draws):
        solution = _solve(problem, problem.likelihood.resampled(rng), found.x, found.prior)
        odd += not solution.converged
        result[i] = solution.x
        if progress is not None:
            progress(i + 1, draws, {})
    note = f"{odd} of {draws} bootstrap samples did not converge." if odd else None
    return centre(result, found.weights, problem.component), note
