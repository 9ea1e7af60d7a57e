"""Items whose strength has no finite estimate: which they are, and how far their one-sided intervals reach.

An item that never won (or never lost) against the others could be arbitrarily weak (or strong). What the data do say is
how strong it can be at most, and the profile of the likelihood gives that end of its interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from luce.aggregate.board.fitting_problem import FittingProblem
from luce.aggregate.board.inference import Results, reached, strong_components
from luce.aggregate.board.likelihood import Penalised
from luce.aggregate.board.newton import newton, solve
from luce.types import FloatArray, IntArray

_MOST_WORK = 2e11
"""Items times parameters cubed: beyond that profiles would take minutes."""


@dataclass(frozen=True, eq=False)
class Separation:
    """Items outside the main strong component of their component of the games."""

    strong: IntArray
    main: NDArray[np.bool_]
    """Items of the largest strong component of each component, if it has two: what the others are compared with."""
    bounded_below: NDArray[np.bool_]
    """A chain of wins and draws leads from the item to a main one, so that it cannot be arbitrarily weak."""
    bounded_above: NDArray[np.bool_]

    @property
    def outside(self) -> IntArray:
        """The separated items."""
        return np.flatnonzero(~self.main)

    def kind(self, i: int) -> str:
        """In one word, where the item stands: below, above or apart."""
        if self.bounded_above[i]:
            return "below"
        return "above" if self.bounded_below[i] else "apart"


def find_separation(results: Results | None, component: IntArray) -> Separation | None:
    """The separated items, or None where all strengths are finite (or results cannot tell)."""
    strong = None if results is None else strong_components(results)
    if results is None or strong is None or np.array_equal(strong, component):
        return None
    main, below, above = (np.zeros(results.n, dtype=bool) for _ in range(3))
    for c in range(int(component.max()) + 1):
        members = component == c
        # Strong components are numbered by size, so the least number is the largest one.
        inside = members & (strong == np.min(strong[members]))
        if np.sum(inside) < min(2, np.sum(members)):
            # No two items have beaten each other, so that there is nothing to measure the others by.
            continue
        start = int(np.flatnonzero(inside)[0])
        main |= inside
        above |= reached(results, start, down=True)
        below |= reached(results, start, down=False)
    return None if main.all() else Separation(strong, main, below, above)


def profile_ends(
    problem: FittingProblem, separation: Separation, weights: FloatArray, start: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, str | None]:
    r"""Lower and upper ends of the separated items, infinite where nothing bounds them; and what could not be done.

    An end is the difference $\tau$ from the mean of the main items (with these `weights`) at which twice the drop of
    the profile log-likelihood from its supremum is the quantile of $\chi^2_1$, 3.84 at 95%. The supremum is that of the
    results inside strong components: all others are certain in the limit. Holding $\tau$ fixed ties the item to the
    main ones, and with it every component that lies between the two; the rest stays at infinity.
    """
    n = len(problem.names)
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    bounded = [i for i in separation.outside if separation.bounded_above[i] or separation.bounded_below[i]]
    if not bounded:
        return lower, upper, None
    if len(bounded) * len(start) ** 3 > _MOST_WORK:
        return lower, upper, f"The finite ends of {len(bounded)} one-sided intervals were left out: too much work."
    best = -_supremum(problem, separation.strong, start)
    target = 0.5 * float(chdtri(1.0, 1.0 - level))
    for i in bounded:
        sign = 1.0 if separation.bounded_above[i] else -1.0
        contrast = -weights[:, problem.component[i]].copy()
        contrast[i] += 1.0
        end = _end(problem, i, separation, sign * contrast, best, target, start)
        if sign > 0:
            upper[i] = end
        else:
            lower[i] = -end
    return lower, upper, None


def _null(label: IntArray, parameters: int) -> FloatArray:
    null = np.zeros((parameters, int(label.max()) + 1))
    null[np.arange(len(label)), label] = 1.0
    result: FloatArray = null / np.sqrt(np.maximum(np.sum(null**2, axis=0), 1.0))
    return result


def _supremum(problem: FittingProblem, strong: IntArray, start: FloatArray) -> float:
    """Minus the greatest log-likelihood inside strong components."""
    return newton(problem.within(strong), start, _null(strong, len(start))).at.value


def _end(
    problem: FittingProblem,
    i: int,
    separation: Separation,
    contrast: FloatArray,
    best: float,
    target: float,
    start: FloatArray,
) -> float:
    """The value of the contrast at which the profile has dropped by `target`.

    The maximum of log L + lambda contrast' s runs along the profile as lambda grows; its drop is nearly a power of
    lambda, so that Newton's method on logarithms needs a few steps.
    """
    assert problem.results is not None
    others = np.flatnonzero(separation.main & (problem.component == problem.component[i]))[:1]
    here = np.array([i])
    both = np.concatenate([here, others]), np.concatenate([others, here])
    label = strong_components(problem.results, both)
    likelihood, null = problem.within(label), _null(label, len(start))
    size, most, x = 1.0, np.inf, start
    for _ in range(30):
        found = newton(Penalised(likelihood, tilt=size * contrast), x, null)
        drop = found.at.value + size * float(contrast @ found.x[: len(contrast)]) + best
        if not found.converged or drop <= 0.0:
            # The tilt outweighs all results of the item (or none of them): no maximum there.
            most = min(most, size)
            size *= 0.5
            continue
        x = found.x
        if abs(drop - target) < 1e-6 * target:
            break
        pull = np.pad(contrast, (0, len(x) - len(contrast)))
        slope = size**2 * float(pull @ solve(found.at.hessian, null, pull)) / drop
        step = size * (target / drop) ** (1.0 / max(slope, 0.5))
        size = step if step < most else 0.5 * (size + most)
    return float(contrast @ x[: len(contrast)])


def describe(separation: Separation, names: tuple[str, ...]) -> str:
    """Every separated item by name, by where it stands."""
    said = {
        "below": "never beat or drew with",
        "above": "never lost to or drew with",
        "apart": "cannot be bounded against",
    }
    parts = []
    for kind, verb in said.items():
        items = [repr(names[i]) for i in separation.outside if separation.kind(int(i)) == kind]
        if items:
            parts.append(f"{', '.join(items)} {verb} the others, also by way of third items")
    return f"{len(separation.outside)} of {len(names)} items have no finite estimate: {'; '.join(parts)}"
