"""Who is linked with whom, and items whose strength has no finite estimate: how far their open intervals reach.

An item that never won (or never lost) against the others could be arbitrarily weak (or strong). What the data do say is
how strong it can be at most, and the profile of the likelihood gives that end of its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, breadth_first_order, connected_components
from scipy.special import chdtri

from luce.aggregate.board.likelihood import Penalised
from luce.aggregate.board.newton import constant_on, newton, solve
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.aggregate.board.fitting_problem import FittingProblem

_MOST_WORK = 2e11
"""Items times parameters cubed: beyond that profiles would take minutes."""


class Results(NamedTuple):
    """Which wins and draws occurred, each pair of items once or more."""

    n: int
    winner: IntArray
    loser: IntArray
    drawn_a: IntArray = np.empty(0, dtype=np.int64)
    drawn_b: IntArray = np.empty(0, dtype=np.int64)
    draws_modelled: bool = False
    """True where draws have a probability with a parameter that is learned."""

    @property
    def better(self) -> IntArray:
        """Heads of the edges "beat or drew with"; draws go both ways."""
        return np.concatenate([self.winner, self.drawn_a, self.drawn_b])

    @property
    def worse(self) -> IntArray:
        """Tails of these edges."""
        return np.concatenate([self.loser, self.drawn_b, self.drawn_a])


def linked(n: int, first: IntArray, second: IntArray) -> IntArray:
    """The component of every item in the graph of games; 0 is the largest, items without games are alone.

    >>> linked(4, np.array([0, 2]), np.array([1, 1])).tolist()
    [0, 0, 0, 1]
    """
    return _components(n, first, second, "weak")


def strong_components(results: Results, also: tuple[IntArray, IntArray] | None = None) -> IntArray:
    """The strong component of every item in the graph of "beat or drew with", with more edges where `also` has them.

    Strengths have a finite maximum of the likelihood iff every component of the games is one strong component
    (Ford, 1957): otherwise some items never lose, or never win, against all the others.

    >>> strong_components(Results(3, np.array([0, 1]), np.array([1, 0]))).tolist()
    [0, 0, 1]
    """
    better, worse = results.better, results.worse
    if also is not None:
        better, worse = np.concatenate([better, also[0]]), np.concatenate([worse, also[1]])
    return _components(results.n, worse, better, "strong")


def reached(results: Results, start: int, *, down: bool) -> FloatArray:
    """True for items that a chain of wins and draws leads to from `start` (down), or from which one leads to it."""
    tail, head = (results.better, results.worse) if down else (results.worse, results.better)
    edges = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(results.n, results.n))
    found = np.zeros(results.n, dtype=bool)
    found[breadth_first_order(edges, start, return_predecessors=False)] = True
    return found


def runs_away(results: Results) -> bool:
    """Whether a learned tie parameter has no finite maximum, together with the differences of strengths.

    It grows for ever, with every win by a difference that grows as fast and every draw by one that grows no faster,
    unless some cycle of results has more wins than draws: x_loser <= x_winner - 1 and |x_a - x_b| <= 1 for draws have
    a solution iff no cycle is negative.

    >>> a, b = np.array([0]), np.array([1])
    >>> runs_away(Results(2, a, b, a, b, True)), runs_away(Results(2, np.array([0, 1]), np.array([1, 0]), a, b, True))
    (True, False)
    """
    n, winner, loser = results.n, results.winner, results.loser
    if not (results.draws_modelled and len(results.drawn_a)):
        return False
    if np.isin(winner * n + loser, loser * n + winner).any():
        return False
    # An item 0 from which all others are reached; a win outweighs a draw of the same pair.
    tail = np.concatenate([np.zeros(n, dtype=np.int64), winner + 1, results.drawn_a + 1, results.drawn_b + 1])
    head = np.concatenate([np.arange(1, n + 1), loser + 1, results.drawn_b + 1, results.drawn_a + 1])
    length = np.repeat([float(n), -1.0, 1.0], [n, len(winner), 2 * len(results.drawn_a)])
    order = np.lexsort((length, head, tail))
    tail, head, length = tail[order], head[order], length[order]
    first = np.concatenate([[True], (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])])
    edges = sparse.csr_array((length[first], (tail[first], head[first])), shape=(n + 1, n + 1))
    try:
        bellman_ford(edges, indices=0)
    except NegativeCycleError:
        return False
    return True


def _components(n: int, tail: IntArray, head: IntArray, connection: str) -> IntArray:
    pair = tail * n + head
    pair = np.flatnonzero(np.bincount(pair)) if n * n < 4 * len(pair) else np.unique(pair)
    tail, head = pair // n, pair % n
    weight: FloatArray = np.ones(len(pair))
    edges = sparse.csr_array((weight, (tail, head)), shape=(n, n))
    count, found = connected_components(edges, directed=True, connection=connection)
    sizes = np.bincount(found, minlength=count)
    firsts = np.full(count, n)
    np.minimum.at(firsts, found, np.arange(n))
    rank = np.empty(count, dtype=np.int64)
    rank[np.lexsort((firsts, -sizes))] = np.arange(count)
    result: IntArray = rank[found]
    return result


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
    profile = Profile(problem, separation, start)
    target = 0.5 * float(chdtri(1.0, 1.0 - level))
    for i in bounded:
        sign = 1.0 if separation.bounded_above[i] else -1.0
        contrast = -weights[:, problem.component[i]].copy()
        contrast[i] += 1.0
        end = profile.end(i, sign * contrast, target)
        if sign > 0:
            upper[i] = end
        else:
            lower[i] = -end
    return lower, upper, None


@dataclass(frozen=True, eq=False)
class Profile:
    """The greatest likelihood where a contrast of the strengths is held, against its supremum."""

    problem: FittingProblem
    separation: Separation
    start: FloatArray

    @cached_property
    def best(self) -> float:
        """The supremum of the log-likelihood: the greatest inside strong components."""
        strong = self.separation.strong
        null = constant_on(strong, len(self.start))
        return -newton(self.problem.likelihood.within(strong), self.start, null).at.value

    def end(self, i: int, contrast: FloatArray, target: float) -> float:
        """The value of the contrast at which the profile has dropped by `target`; i is the separated item in it.

        The maximum of log L + lambda contrast' s runs along the profile as lambda grows; its drop is nearly a power of
        lambda, so that Newton's method on logarithms needs a few steps.
        """
        problem, separation = self.problem, self.separation
        assert problem.results is not None
        others = np.flatnonzero(separation.main & (problem.component == problem.component[i]))[:1]
        here = np.array([i])
        both = np.concatenate([here, others]), np.concatenate([others, here])
        label = strong_components(problem.results, both)
        likelihood, null = problem.likelihood.within(label), constant_on(label, len(self.start))
        size, most, x = 1.0, np.inf, self.start
        for _ in range(30):
            found = newton(Penalised(likelihood, tilt=size * contrast), x, null)
            drop = found.at.value + size * float(contrast @ found.x[: len(contrast)]) + self.best
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
