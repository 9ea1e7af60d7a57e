"""Damped Newton for smooth functions of a few thousand parameters, with directions that do not matter left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from luce.types import FloatArray, IntArray

_MOST_STEPS = 100


class Point(NamedTuple):
    """Value, gradient and Hessian of the function that is minimised."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


class Solution(NamedTuple):
    """Where Newton stopped."""

    x: FloatArray
    at: Point
    iterations: int
    converged: bool


def newton(
    function: Callable[[FloatArray], Point],
    start: FloatArray,
    null: FloatArray,
    *,
    tolerance: float = 1e-6,
    flat: float = 1e-7,
) -> Solution:
    """Minimise from `start`; the function must not change along the orthonormal columns of `null`.

    Stops when a full Newton step is shorter than `tolerance` in every coordinate. Newton converges quadratically, so
    what is then left is about the square of it. Steps are halved until the value decreases; where the Hessian is
    not positive definite (PMOP with ties) it is lifted by a multiple of the identity.

    Where there is no finite minimum the function flattens out: curvature falls to `flat` of the least that it had at
    the start, and the search ends, not converged. A bound on the parameters would be simpler and wrong: on a long
    chain of opponents they are large and right.
    """
    x, at, lift = start, function(start), 0.0
    diagonal = np.diagonal(at.hessian)
    floor = flat * float(np.min(diagonal[diagonal > 0.0], initial=np.inf))
    for iteration in range(1, _MOST_STEPS + 1):
        step, lift, curvature = newton_step(at, null, lift)
        if curvature < floor:
            return Solution(x, at, iteration, False)
        longest = float(np.max(np.abs(step), initial=0.0))
        if longest < tolerance and lift == 0.0:
            return Solution(x + step, after(at, step), iteration, True)
        slope, noise = float(at.gradient @ step), 1e-13 * (1.0 + abs(at.value))
        # A first step in units of logits longer than this leaves the region where the quadratic says anything.
        fraction = 5.0 / max(5.0, longest)
        for _ in range(40):
            there = function(x + fraction * step)
            if np.isfinite(there.value) and there.value <= at.value + 1e-4 * fraction * slope + noise:
                break
            fraction *= 0.5
        else:
            return Solution(x, at, iteration, False)
        x, at = x + fraction * step, there
    return Solution(x, at, _MOST_STEPS, False)


def after(at: Point, step: FloatArray) -> Point:
    """What the quadratic says of the end of a short step; the function itself would say the same."""
    pull = at.hessian @ step
    return Point(at.value + float(step @ (at.gradient + 0.5 * pull)), at.gradient + pull, at.hessian)


def newton_step(at: Point, null: FloatArray, lift: float = 0.0) -> tuple[FloatArray, float, float]:
    """The Newton step, the lift it needed, and the least pivot of the Hessian (infinite where it was lifted)."""
    scale = float(np.max(np.abs(np.diagonal(at.hessian)), initial=1e-300))
    fixed = at.hessian + scale * (null @ null.T)
    factor, lift = cholesky(fixed, 0.1 * lift if lift >= 1e-8 * scale else 0.0, 1e-6 * scale)
    step = -linalg.cho_solve((factor, False), at.gradient, check_finite=False)
    least = np.inf if lift else float(np.min(np.diagonal(factor))) ** 2
    return step - null @ (null.T @ step), lift, least


def cholesky(matrix: FloatArray, lift: float, first: float) -> tuple[FloatArray, float]:
    """The upper factor, and how much the diagonal was lifted for it: as given, or from `first` on what it needs."""
    while True:
        try:
            return linalg.cholesky(matrix + lift * np.eye(len(matrix)) if lift else matrix, check_finite=False), lift
        except linalg.LinAlgError:
            if not np.isfinite(lift):  # an entry is NaN
                raise
            lift = max(10.0 * lift, first)


def inverse(matrix: FloatArray, null: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix on the complement of `null`, zero on `null`.

    Where a search did not converge the matrix may not be definite; directions without curvature are then left out.
    """
    scale = float(np.max(np.diagonal(matrix), initial=1e-300))
    try:
        fixed = matrix + (scale * null) @ null.T if null.size else matrix.copy()
        factor = linalg.cholesky(fixed, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        curved = values > 1e-12 * np.max(np.abs(values))
        return np.asarray((vectors[:, curved] / values[curved]) @ vectors[:, curved].T)
    full = inverse_of_factor(factor)
    if null.size:
        full -= null @ (null.T @ full)
    return full


def inverse_of_factor(factor: FloatArray) -> FloatArray:
    """The inverse of U' U, U upper triangular with zeros below, which is overwritten.

    A third of the work of a solution for every unit vector.
    """
    half, _ = linalg.lapack.dpotri(factor, overwrite_c=True)
    full: FloatArray = half + half.T  # only the upper half is filled
    full[np.diag_indices(len(full))] *= 0.5
    return full


def constant_on(label: IntArray, parameters: int | None = None) -> FloatArray:
    """(parameters, labels) orthonormal: adding a constant to all items of one label; items are the first parameters."""
    null = np.zeros((len(label) if parameters is None else parameters, int(label.max()) + 1))
    null[np.arange(len(label)), label] = 1.0
    return np.asarray(null / np.sqrt(np.maximum(np.sum(null, axis=0), 1.0)))


def cross(sums: sparse.csr_array) -> FloatArray:
    """S' S, dense; where S has many rows that are mostly 0, such as one a battle, these never take memory."""
    if 10 * sums.nnz < sums.shape[0] * sums.shape[1]:
        return np.asarray((sums.T @ sums).toarray())
    rows = sums.toarray()
    return np.asarray(rows.T @ rows)


def add_up(index: IntArray, weight: FloatArray | None, length: int) -> FloatArray:
    """Sums of the weights (1 where None) by index, always as float64."""
    return np.bincount(index, weight, length).astype(np.float64, copy=False)
