"""Who is linked with whom, and items whose strength has no finite estimate: how far their open intervals reach.

An item that never won (or never lost) against the others could be arbitrarily weak (or strong). What the data do say is
how strong it can be at most, and the profile of the likelihood gives that: one function for the strength that is shown,
for the ends of intervals and of differences, and for ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, breadth_first_order, connected_components
from scipy.special import ndtri

from luce.aggregate.board.likelihood import Penalised
from luce.aggregate.board.newton import Point, constant_on, newton, newton_step
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.aggregate.board.fitting_problem import FittingProblem

_MOST_WORK, _MOST_PAIRS, _REFIT = 2e11, 2e9, 3e5
"""Items times parameters cubed beyond which profiles would take minutes, and pairs seconds; what any refit costs."""


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


def linked(n: int, first: IntArray, second: IntArray, connection: str = "weak") -> IntArray:
    """The component of every item in the graph of games; 0 is the largest, items without games are alone.

    >>> linked(4, np.array([0, 2]), np.array([1, 1])).tolist()
    [0, 0, 0, 1]
    """
    pair = first * n + second
    pair = np.flatnonzero(np.bincount(pair)) if n * n < 4 * len(pair) else np.unique(pair)
    edges = sparse.csr_array((np.ones(len(pair)), divmod(pair, n)), shape=(n, n))
    _, found = connected_components(edges, directed=True, connection=connection)
    _, firsts, sizes = np.unique(found, return_index=True, return_counts=True)
    return np.asarray(np.argsort(np.lexsort((firsts, -sizes)))[found])


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
    return linked(results.n, worse, better, "strong")


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

    def kinds(self, names: Sequence[str], order: Iterable[int]) -> dict[str, str]:
        """The same of the separated items, by name and in this order of all."""
        return {names[i]: self.kind(i) for i in order if not self.main[i]}


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


@dataclass(frozen=True, eq=False)
class Profile:
    r"""How well a value d of a contrast of strengths fits where it has no finite estimate: $p(d) = e^{-D(d)}$.

    D is the drop of the profile log-likelihood from its supremum, which is that of the results inside strong
    components: all others are certain in the limit. If an item lost everything, the likelihood of its results is the
    probability of the most extreme outcome, so that p is a tail probability; half of what twice D would mean as a
    chi-square lies elsewhere. Holding d fixed ties two items, and with them every component between the two; the rest
    stays at infinity.
    """

    problem: FittingProblem
    separation: Separation
    start: FloatArray
    level: float
    factor: float = 1.0
    """Of D: below 1 where results depend on each other or are weighted."""

    @cached_property
    def best(self) -> float:
        """The supremum of the log-likelihood: the greatest inside strong components."""
        strong = self.separation.strong
        null = constant_on(strong, len(self.start))
        return -newton(self.problem.likelihood.within(strong), self.start, null).at.value

    def ends(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, str | None]:
        """Strengths, lower and upper ends of all items, NaN where these are not separated; what could not be done.

        They are differences from the mean of the main items, with these `weights`.
        """
        problem, apart = self.problem, self.separation
        shown, lower, upper = (np.full(len(problem.names), np.nan) for _ in range(3))
        outside = apart.outside
        lower[outside], upper[outside] = -np.inf, np.inf
        bounded = [int(i) for i in outside if apart.bounded_above[i] != apart.bounded_below[i]]
        if len(bounded) * len(self.start) ** 3 > _MOST_WORK:
            said = f"The finite ends of {len(bounded)} one-sided intervals were left out: too much work."
            return shown, lower, upper, said
        for i in bounded:
            sign = 1.0 if apart.bounded_above[i] else -1.0
            contrast = -sign * weights[:, problem.component[i]]
            contrast[i] += sign
            other = int(np.flatnonzero(apart.main & (problem.component == problem.component[i]))[0])
            shown[i], end = (sign * value for value in self._at(i, other, contrast))
            if sign > 0:
                upper[i] = end
            else:
                lower[i] = end
        return shown, lower, upper, None

    def difference(self, i: int, j: int) -> tuple[float, float, float] | None:
        """What is shown of s_i - s_j, and its ends; None where it has a finite estimate."""
        results, strong = self.problem.results, self.separation.strong
        if strong[i] == strong[j] or results is None:
            return None
        below, above = bool(reached(results, j, down=True)[i]), bool(reached(results, j, down=False)[i])
        if not below and not above:
            return math.nan, -math.inf, math.inf
        sign = 1.0 if below else -1.0
        contrast = np.zeros(results.n)
        contrast[[i, j]] = sign, -sign
        shown, end = (sign * value for value in self._at(i, j, contrast))
        return (shown, -math.inf, end) if below else (shown, end, math.inf)

    @cached_property
    def statistics(self) -> FloatArray:
        r"""(i, j): $t = -\Phi^{-1}(p(0))$ of $s_j - s_i$, 0 where nothing links the two, NaN inside strong components.

        p(0) falls as j grows stronger than i: where there is too much work some are worked out, and the others have the
        least that these leave them.
        """
        problem, strong, component = self.problem, self.separation.strong, self.problem.component
        results, n, p = problem.results, len(problem.names), len(self.start)
        assert results is not None
        apart = (strong[:, None] != strong) & (component[:, None] == component)
        result = np.where(apart, 0.0, np.nan)
        outside = self.separation.outside
        most = int(_MOST_PAIRS / (p**3 + _REFIT) / max(len(outside), 1))
        for i in outside:
            for sign in (1.0, -1.0):
                linked_to = reached(results, int(i), down=sign < 0) & apart[i]
                others = np.flatnonzero(linked_to)[np.argsort(sign * self.start[:n][linked_to])]
                chosen = np.unique(np.linspace(0, len(others) - 1, min(most, len(others))).astype(np.int64))
                start, least = self.start, 0.0
                for k, j in enumerate(others):
                    if k in chosen:
                        least, start = self._drop(int(i), int(j), start)
                    t = max(-float(ndtri(math.exp(-max(self.factor * least, 0.0)))), 0.0)
                    result[i, j], result[j, i] = sign * t, -sign * t
        return result

    def _tied(self, i: int, j: int) -> IntArray:
        """Labels of what is bounded when the difference of two items is held."""
        assert self.problem.results is not None
        return strong_components(self.problem.results, (np.array([i, j]), np.array([j, i])))

    def _drop(self, i: int, j: int, start: FloatArray) -> tuple[float, FloatArray]:
        """D where two items are equal, and the point."""
        label = self._tied(i, j)
        likelihood, null = self.problem.likelihood.within(label), constant_on(label, len(start))
        null[j] = 0.0
        null = np.column_stack([null / np.linalg.norm(null, axis=0), np.eye(len(start))[j]])

        def merged(x: FloatArray) -> Point:
            at = x.copy()
            at[j] = at[i]
            value, gradient, hessian = likelihood(at)
            gradient, hessian = gradient.copy(), hessian.copy()
            gradient[i] += gradient[j]
            hessian[i] += hessian[j]
            hessian[:, i] += hessian[:, j]
            gradient[j] = hessian[j] = hessian[:, j] = 0.0
            return Point(value, gradient, hessian)

        found = newton(merged, start, null)
        return found.at.value + self.best, found.x

    def _at(self, i: int, j: int, contrast: FloatArray) -> list[float]:
        """The values of a contrast that ties two items that are shown, and at the end of an interval.

        At the former this outcome has probability 1/2.

        The maximum of log L + lambda contrast' s runs along the profile as lambda grows; its drop is nearly a power of
        lambda, so that Newton's method on logarithms needs a few steps.
        """
        label, n = self._tied(i, j), len(contrast)
        likelihood, null = self.problem.likelihood.within(label), constant_on(label, len(self.start))
        pull = np.pad(contrast, (0, len(self.start) - n))
        size, x, values = 1.0, self.start, []
        for target in (math.log(2.0) / self.factor, -math.log(0.5 - self.level / 2.0) / self.factor):
            most = np.inf
            for _ in range(30):
                found = newton(Penalised(likelihood, tilt=size * contrast), x, null)
                drop = found.at.value + size * float(contrast @ found.x[:n]) + self.best
                if not found.converged or drop <= 0.0:
                    # The tilt outweighs all results of the item (or none of them): no maximum there.
                    most = min(most, size)
                    size *= 0.5
                    continue
                x = found.x
                if abs(drop - target) < 1e-6 * target:
                    break
                slope = -(size**2) * float(pull @ newton_step(Point(0.0, pull, found.at.hessian), null)[0]) / drop
                step = size * (target / drop) ** (1.0 / max(slope, 0.5))
                size = step if step < most else 0.5 * (size + most)
            values.append(float(contrast @ x[:n]))
        return values


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
