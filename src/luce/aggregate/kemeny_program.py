"""Kemeny's rule as an integer program on HiGHS, with the triangle inequalities added as they are violated.

One variable x_ij in [0, 1] for each pair i < j, 1 where i comes before j; an order is a point with 0 <= x_ij + x_jk -
x_ik <= 1 for all i < j < k. Few of these cubically many rows matter, so each round adds only rows that the last
solution breaks. Every linear program on the way gives a valid lower bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack

from luce.aggregate.kemeny_kernels import insertion_search, order_cost
from luce.types import FloatArray, IntArray

__all__ = ["ProgramResult", "solve_program"]

_TOLERANCE = 1e-6
_ROUND_LIMIT = 4000
"""Rows added a round at most, the most violated first."""


class ProgramResult(NamedTuple):
    """The best order known, its cost and a lower bound.

    `cuts[k]` where the first k + 1 items of the order come before the rest in every optimal order; `cuts_known` is
    False where the time was over before every cut was examined.
    """

    order: IntArray
    value: float
    bound: float
    cuts: NDArray[np.bool_]
    cuts_known: bool


class _Pairs:
    """Numbers of the variables and the matrix form of a point."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.first, self.second = np.triu_indices(n, 1)
        self.count = len(self.first)
        self.number = np.zeros((n, n), dtype=np.int64)
        self.number[self.first, self.second] = np.arange(self.count)

    def matrix(self, point: FloatArray) -> FloatArray:
        """X[i, j] = x_ij, X[j, i] = 1 - x_ij."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.first, self.second] = point
        matrix[self.second, self.first] = 1.0 - point
        return matrix

    def vector(self, order: IntArray) -> FloatArray:
        place = np.empty(self.n, dtype=np.int64)
        place[order] = np.arange(self.n)
        return (place[self.first] < place[self.second]).astype(np.float64)

    def rows(self, i: IntArray, j: IntArray, k: IntArray) -> csr_array:
        """Rows x_ij + x_jk - x_ik of triples i < j < k."""
        count = len(i)
        columns = np.stack([self.number[i, j], self.number[j, k], self.number[i, k]], axis=1).ravel()
        values = np.tile([1.0, 1.0, -1.0], count)
        return csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, self.count))


def _violated(pairs: _Pairs, point: FloatArray, known: set[int]) -> tuple[IntArray, IntArray, IntArray]:
    """Triples i < j < k whose inequality the point breaks and that are not rows yet, the worst first."""
    x = pairs.matrix(point)
    found: list[Any] = []
    for i in range(pairs.n - 2):
        upper = x[i + 1 :, i + 1 :]
        value = x[i, i + 1 :, None] + upper - x[i, None, i + 1 :]
        excess = np.triu(np.maximum(value - 1.0, -value), 1)
        j, k = np.nonzero(excess > _TOLERANCE)
        if len(j):
            found.append(np.stack([np.full(len(j), i), j + i + 1, k + i + 1, excess[j, k]]))
    if not found:
        return (np.empty(0, dtype=np.int64),) * 3
    table = np.concatenate(found, axis=1)
    table = table[:, np.argsort(-table[3], kind="stable")]
    i, j, k = table[:3].astype(np.int64)
    code = (i * pairs.n + j) * pairs.n + k
    new = np.array([c not in known for c in code.tolist()], dtype=bool)
    i, j, k, code = i[new][:_ROUND_LIMIT], j[new][:_ROUND_LIMIT], k[new][:_ROUND_LIMIT], code[new][:_ROUND_LIMIT]
    known.update(code.tolist())
    return i, j, k


class _Program:
    """The growing program; `remaining` is the time left."""

    def __init__(self, cost: FloatArray, deadline: float) -> None:
        self.cost = cost
        self.pairs = _Pairs(len(cost))
        first, second = self.pairs.first, self.pairs.second
        self.objective = cost[first, second] - cost[second, first]
        self.constant = float(cost[second, first].sum())
        self.known: set[int] = set()
        self.rows = csr_array((0, self.pairs.count))
        self.deadline = deadline

    @property
    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def cut(self, point: FloatArray) -> bool:
        """Add the rows that a point breaks; False where it breaks none."""
        triples = _violated(self.pairs, point, self.known)
        if not len(triples[0]):
            return False
        self.rows = vstack([self.rows, self.pairs.rows(*triples)], format="csr")
        return True

    def relaxed(self) -> Any:
        """The linear program with the rows so far, or None where the time is over."""
        if self.remaining <= 0:
            return None
        result = linprog(
            self.objective,
            A_ub=vstack([self.rows, -self.rows], format="csr") if self.rows.shape[0] else None,
            b_ub=np.repeat([1.0, 0.0], self.rows.shape[0]) if self.rows.shape[0] else None,
            bounds=(0.0, 1.0),
            method="highs-ds",
            options={"time_limit": max(self.remaining, 0.1)},
        )
        return result if result.status == 0 else None

    def whole(self, lower: FloatArray, upper: FloatArray, *extra: LinearConstraint) -> Any:
        """The integer program with the rows so far, some variables fixed, and `extra` rows."""
        constraints = (*([LinearConstraint(self.rows, 0.0, 1.0)] if self.rows.shape[0] else []), *extra)
        return milp(
            self.objective,
            constraints=constraints,
            integrality=np.ones(self.pairs.count),
            bounds=Bounds(lower, upper),
            options={"time_limit": max(self.remaining, 0.1), "mip_rel_gap": 0.0},
        )


def solve_program(cost: FloatArray, order: IntArray, time_limit: float, step: float) -> ProgramResult:
    """Solve Kemeny's problem, given a good order to start from.

    `step` is the least difference of two different costs (1 for whole counts, 0 if unknown): a bound that comes
    within a step of the best cost proves it.
    """
    program = _Program(cost, time.monotonic() + time_limit)
    best = _Best(order, float(order_cost(cost, order)), _pairwise_bound(cost))
    point = (program.objective < 0).astype(np.float64)
    reduced = program.objective
    while program.cut(point):
        solution = program.relaxed()
        if solution is None:
            return best.result(np.ones(len(cost) - 1, dtype=bool), known=False)
        point, reduced = solution.x, solution.lower.marginals + solution.upper.marginals
        best.bound = max(best.bound, program.constant + solution.fun)
        best.offer(program, point)
    if not best.proven(step):
        _branch(program, best, reduced, step)
    if not best.proven(step):
        return best.result(np.ones(len(cost) - 1, dtype=bool), known=False)
    gap = best.value - best.bound
    best.bound = best.value
    return best.result(*_forced_cuts(program, best, np.abs(reduced) > gap + 1e-6))


def _pairwise_bound(cost: FloatArray) -> float:
    return float(np.minimum(cost, cost.T)[np.triu_indices(len(cost), 1)].sum())


@dataclass
class _Best:
    """The best order and the best bound so far."""

    order: IntArray
    value: float
    bound: float

    def offer(self, program: _Program, point: FloatArray) -> None:
        """Round a point, improve it by insertion, and keep it where it is better."""
        start = _round(program.pairs, point)
        slack = 1e-12 * max(1.0, self.value)
        found, trial = insertion_search(program.cost, start, np.empty((0, 2), dtype=np.int64), slack)
        if found < self.value - slack:
            self.order, self.value = trial, float(found)

    def proven(self, step: float) -> bool:
        return self.value - self.bound <= max(1e-7 * max(1.0, abs(self.value)), step * (1 - 1e-6))

    def result(self, cuts: NDArray[np.bool_], known: bool) -> ProgramResult:
        return ProgramResult(self.order, self.value, self.bound, cuts, known)


def _branch(program: _Program, best: _Best, reduced: FloatArray, step: float) -> None:
    """The integer program, with variables fixed whose reduced cost exceeds the gap."""
    gap = best.value - best.bound + 1e-6
    lower = np.where(reduced < -gap, 1.0, 0.0)
    upper = np.where(reduced > gap, 0.0, 1.0)
    while program.remaining > 0 and not best.proven(step):
        solution = program.whole(lower, upper)
        if solution.mip_dual_bound is not None:
            # With variables fixed the bound holds for orders better than the best one only.
            best.bound = max(best.bound, min(program.constant + solution.mip_dual_bound, best.value))
        if solution.x is None or solution.status != 0:
            return
        point = np.round(solution.x)
        best.offer(program, point)
        if not program.cut(point):
            return


def _forced_cuts(program: _Program, best: _Best, fixed: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], bool]:
    """For every cut of the optimal order, whether all optimal orders agree on the two sides.

    Three answers, cheapest first: no pair across the cut may change (its reduced cost exceeds the gap); a move of one
    item across the cut costs nothing; or the program with at least one pair across the cut reversed has a worse
    optimum.
    """
    n = program.pairs.n
    place = np.empty(n, dtype=np.int64)
    place[best.order] = np.arange(n)
    first, second = place[program.pairs.first], place[program.pairs.second]
    low, high = np.minimum(first, second), np.maximum(first, second)
    forced = ~_free_moves(program.cost, best.order, 1e-7 * max(1.0, best.value))
    lower = np.where(fixed & (first < second), 1.0, 0.0)
    upper = np.where(fixed & (first > second), 0.0, 1.0)
    for k in np.flatnonzero(forced):
        across = np.flatnonzero(~fixed & (low <= k) & (high > k))
        if not len(across):
            continue
        if program.remaining <= 0:
            return forced, False
        outcome = _reversal(program, across, first < second, lower, upper, best.value)
        if outcome is None:
            return forced, False
        forced[k] = not outcome
    return forced, True


def _free_moves(cost: FloatArray, order: IntArray, slack: float) -> NDArray[np.bool_]:
    """Cuts that a costless move of one item to another place crosses."""
    n = len(order)
    change = (cost - cost.T)[np.ix_(order, order)]  # what it adds to put the row before the column
    crossed = np.zeros(n - 1, dtype=bool)
    for start in range(n):
        down = np.cumsum(change[start + 1 :, start])
        for place in np.flatnonzero(np.abs(down) <= slack):
            crossed[start : start + place + 1] = True
    return crossed


def _reversal(
    program: _Program, across: IntArray, before: NDArray[np.bool_], lower: FloatArray, upper: FloatArray, value: float
) -> bool | None:
    """Whether an order as cheap as `value` reverses one of the pairs `across`; None where the time is over."""
    row = np.zeros(program.pairs.count)
    row[across] = np.where(before[across], -1.0, 1.0)
    needed = 1.0 - float(before[across].sum())
    slack = 1e-7 * max(1.0, abs(value))
    while program.remaining > 0:
        solution = program.whole(lower, upper, LinearConstraint(row, needed, np.inf))
        if solution.status == 2:
            return False
        if solution.x is None or solution.status != 0:
            return None
        if program.constant + solution.fun > value + slack:
            return False
        if not program.cut(np.round(solution.x)):
            return True
    return None


def _round(pairs: _Pairs, point: FloatArray) -> IntArray:
    """Items by how many others they precede."""
    return np.argsort(-pairs.matrix(point).sum(axis=1), kind="stable").astype(np.int64)
