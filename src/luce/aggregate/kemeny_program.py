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

_TOLERANCE = 1e-6
_ROUND_LIMIT = 4000
"""Rows added a round at most, the most violated first."""

_TIE_SECONDS = 2.0
"""Once the optimum is proven, equally good orders are looked for this long and half the time spent so far."""


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

    def whole(
        self,
        lower: FloatArray,
        upper: FloatArray,
        *extra: LinearConstraint,
        objective: FloatArray | None = None,
        whole: bool = True,
    ) -> Any:
        """The program with the rows so far, some variables fixed, `extra` rows and perhaps another objective."""
        constraints = (*([LinearConstraint(self.rows, 0.0, 1.0)] if self.rows.shape[0] else []), *extra)
        return milp(
            self.objective if objective is None else objective,
            constraints=constraints,
            integrality=np.full(self.pairs.count, 1.0 if whole else 0.0),
            bounds=Bounds(lower, upper),
            options={"time_limit": max(self.remaining, 0.1), "mip_rel_gap": 0.0},
        )


def solve_program(cost: FloatArray, order: IntArray, time_limit: float, step: float) -> ProgramResult:
    """Solve Kemeny's problem, given a good order to start from.

    `step` is the least difference of two different costs (1 for whole counts, 0 if unknown): a bound that comes
    within a step of the best cost proves it.
    """
    start = time.monotonic()
    program = _Program(cost, start + time_limit)
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
    relaxed_bound = best.bound
    if not best.proven(step):
        _branch(program, best, reduced, step)
    if not best.proven(step):
        return best.result(np.ones(len(cost) - 1, dtype=bool), known=False)
    # Reduced costs speak of the relaxed program, so it is its bound that they are held against.
    gap = best.value - relaxed_bound
    best.bound = best.value
    spent = time.monotonic() - start
    program.deadline = min(program.deadline, time.monotonic() + _TIE_SECONDS + 0.5 * spent)
    return best.result(*_Reversals(program, best, np.abs(reduced) > gap + 1e-6).settle())


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
        # With whole counts the step settles it; otherwise the solver's own precision is what there is.
        return self.value - self.bound <= (step * (1 - 1e-6) if step else 1e-7 * max(1.0, abs(self.value)))

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


class _Reversals:
    """Which cuts of an optimal order all optimal orders agree on.

    A pair stays as it is in every optimal order where its reduced cost exceeds the gap (`fixed`), or where no point of
    the relaxed program that is as cheap as the order moves it. What is left is asked of the integer program: an order
    as cheap as the best one, with a pair across a cut in doubt reversed. It either does not exist, which settles all
    cuts at once, or it crosses at least one of them.
    """

    def __init__(self, program: _Program, best: _Best, fixed: NDArray[np.bool_]) -> None:
        self.program, self.best = program, best
        place = np.empty(program.pairs.n, dtype=np.int64)
        place[best.order] = np.arange(program.pairs.n)
        first, second = place[program.pairs.first], place[program.pairs.second]
        self.before = first < second
        self.low, self.high = np.minimum(first, second), np.maximum(first, second)
        self.fixed = fixed
        self.settled = False
        slack = 1e-7 * max(1.0, best.value)
        self.forced = ~_free_moves(program.cost, best.order, slack)
        self.as_cheap = LinearConstraint(program.objective, -np.inf, best.value - program.constant + slack)

    def settle(self) -> tuple[NDArray[np.bool_], bool]:
        """The cuts, and whether all of them were examined before the time was over."""
        self._relax()
        while (across := self._in_doubt()).any():
            order = self._other_order(across)
            if order is None:
                return self.forced, self.settled
            self.forced &= self._agrees(order)
        return self.forced, True

    def _in_doubt(self) -> NDArray[np.bool_]:
        """Pairs that may change and that span a cut not yet known to be crossed."""
        until = np.concatenate([[0], np.cumsum(self.forced)])
        return ~self.fixed & (until[self.high] > until[self.low])

    def _agrees(self, order: IntArray) -> NDArray[np.bool_]:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return np.maximum.accumulate(place[self.best.order])[:-1] <= np.arange(len(order) - 1)

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        return np.where(self.fixed & self.before, 1.0, 0.0), np.where(self.fixed & ~self.before, 0.0, 1.0)

    def _reversed(self, point: FloatArray) -> FloatArray:
        return np.where(self.before, 1.0 - point, point)

    def _relax(self) -> None:
        """Fix every pair that no equally cheap point of the relaxed program moves."""
        doubt = self._in_doubt()
        while doubt.any() and self.program.remaining > 0:
            # Minimising x where i comes before j, and -x elsewhere, reverses as much of the doubtful pairs as it can.
            aim = np.where(doubt, np.where(self.before, 1.0, -1.0), 0.0)
            solution = self.program.whole(*self._bounds(), self.as_cheap, objective=aim, whole=False)
            if solution.x is None or solution.status != 0:
                return
            if self.program.cut(solution.x):
                continue
            moved = doubt & (self._reversed(solution.x) > 1e-4)
            if not moved.any():
                self.fixed = self.fixed | doubt
                return
            doubt &= ~moved

    def _other_order(self, across: NDArray[np.bool_]) -> IntArray | None:
        """An order as cheap as the best that reverses one of these pairs; None (and `settled`) where there is none."""
        row = np.where(across, np.where(self.before, -1.0, 1.0), 0.0)
        some = LinearConstraint(row, 1.0 - float((across & self.before).sum()), np.inf)
        while self.program.remaining > 0:
            solution = self.program.whole(*self._bounds(), self.as_cheap, some)
            if solution.status == 2:
                self.settled = True
                return None
            if solution.x is None or solution.status != 0:
                break
            if not self.program.cut(np.round(solution.x)):
                return _round(self.program.pairs, np.round(solution.x))
        self.settled = False
        return None


def _free_moves(cost: FloatArray, order: IntArray, slack: float) -> NDArray[np.bool_]:
    """Cuts that a costless move of one item to another place crosses."""
    n = len(order)
    change = (cost - cost.T)[np.ix_(order, order)]  # what it adds to put the row before the column
    crossed = np.zeros(n - 1, dtype=bool)
    for start in range(n):
        down = np.cumsum(change[start + 1 :, start])
        for place in np.flatnonzero(np.abs(down) <= slack):
            crossed[start : start + place + 1] = True
        up = np.cumsum(change[start, :start][::-1])
        for place in np.flatnonzero(np.abs(up) <= slack):
            crossed[start - place - 1 : start] = True
    return crossed


def _round(pairs: _Pairs, point: FloatArray) -> IntArray:
    """Items by how many others they precede."""
    return np.argsort(-pairs.matrix(point).sum(axis=1), kind="stable").astype(np.int64)
