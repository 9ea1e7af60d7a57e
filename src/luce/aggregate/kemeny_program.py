"""Kemeny's rule as an integer program on HiGHS, with the triangle inequalities added as they are violated.

One variable x_ij in [0, 1] for each pair i < j, 1 where i comes before j; an order is a point with 0 <= x_ij + x_jk -
x_ik <= 1 for all i < j < k. Few of these cubically many rows matter, so each round adds only rows that the last
solution breaks. Every linear program on the way gives a valid lower bound.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, vstack

from luce.numerics.compiled import kernel, part
from luce.types import FloatArray, IntArray

DP_LIMIT = 16
"""Items up to which the subset program is used: 2^16 subsets take a few milliseconds."""


@part
def _half_sums(cost: FloatArray, first: int, count: int) -> FloatArray:
    """sums[S, x]: cost of putting the items of S (a subset of `count` items from `first`) before x."""
    n = cost.shape[0]
    sums = np.zeros((1 << count, n))
    for subset in range(1, 1 << count):
        low = 0
        while not (subset >> low) & 1:
            low += 1
        for x in range(n):
            sums[subset, x] = sums[subset & (subset - 1), x] + cost[first + low, x]
    return sums


@kernel
def optimal_subsets(
    cost: FloatArray, place: FloatArray, slack: float
) -> tuple[float, IntArray, IntArray, IntArray, float]:
    """All orders of least total cost: the cost, one of them, how many subsets start one by size, pairs, their number.

    An order costs `cost[x, y]` for every x before y and `place[x, k]` for x at place k. best(S) is the least cost of
    an order of S; rest(S) the least cost of everything that follows S. S starts an optimal order where best(S) +
    rest(S) is the optimum (within `slack`, for rounding): where S is the only such set of its size, its items come
    before all others in every optimal order. Bit y of `ahead[x]` is set where x comes before y in some optimal order,
    bit x of `ahead[n]` where x is first in one.
    """
    n = cost.shape[0]
    half = n // 2
    low_sums = _half_sums(cost, 0, half)
    high_sums = _half_sums(cost, half, n - half)
    low_mask = (1 << half) - 1
    full = (1 << n) - 1
    best = np.full(1 << n, np.inf)
    last = np.zeros(1 << n, dtype=np.int8)
    best[0] = 0.0
    size_of = np.zeros(1 << n, dtype=np.int8)
    for subset in range(full):
        size_of[subset] = size_of[subset >> 1] + (subset & 1)
        low, high = subset & low_mask, subset >> half
        for x in range(n):
            if not (subset >> x) & 1:
                value = best[subset] + low_sums[low, x] + high_sums[high, x] + place[x, size_of[subset]]
                grown = subset | (1 << x)
                if value < best[grown]:
                    best[grown] = value
                    last[grown] = x
    order = np.empty(n, dtype=np.int64)
    subset = full
    for k in range(n - 1, -1, -1):
        order[k] = last[subset]
        subset ^= 1 << order[k]
    optimum = best[full]
    starts = np.zeros(n + 1, dtype=np.int64)
    rest = np.full(1 << n, np.inf)
    rest[full] = 0.0
    ways = np.zeros(1 << n)
    ways[full] = 1.0
    ahead = np.zeros(n + 1, dtype=np.int64)
    starts[n] = 1
    for subset in range(full - 1, -1, -1):
        low, high = subset & low_mask, subset >> half
        for x in range(n):
            if not (subset >> x) & 1:
                grown = subset | (1 << x)
                step = low_sums[low, x] + high_sums[high, x] + place[x, size_of[subset]]
                rest[subset] = min(rest[subset], rest[grown] + step)
                if best[subset] + step + rest[grown] <= optimum + slack:
                    ways[subset] += ways[grown]
                    ahead[x] |= full & ~grown
                    if subset == 0:
                        ahead[n] |= 1 << x
        if best[subset] + rest[subset] <= optimum + slack:
            starts[size_of[subset]] += 1
    return optimum, order, starts, ahead, ways[0]


@kernel
def order_cost(cost: FloatArray, order: IntArray) -> float:
    """Total cost of an order."""
    total = 0.0
    for a in range(len(order)):
        for b in range(a + 1, len(order)):
            total += cost[order[a], order[b]]
    return total


@part
def _descend(cost: FloatArray, order: IntArray, slack: float) -> None:
    """Move single items to their best place until no move lowers the cost."""
    n = len(order)
    improved = True
    while improved:
        improved = False
        for start in range(n):
            x = order[start]
            best_change, best_place, change = -slack, start, 0.0
            for place in range(start - 1, -1, -1):
                y = order[place]
                change += cost[x, y] - cost[y, x]
                if change < best_change:
                    best_change, best_place = change, place
            change = 0.0
            for place in range(start + 1, n):
                y = order[place]
                change += cost[y, x] - cost[x, y]
                if change < best_change:
                    best_change, best_place = change, place
            if best_place != start:
                step = 1 if best_place > start else -1
                for place in range(start, best_place, step):
                    order[place] = order[place + step]
                order[best_place] = x
                improved = True


@kernel
def insertion_search(cost: FloatArray, order: IntArray, kicks: IntArray, slack: float) -> tuple[float, IntArray]:
    """Insertion search from `order`, then again after each kick: a row of `kicks` is pairs of places to exchange."""
    best = order.copy()
    _descend(cost, best, slack)
    value = order_cost(cost, best)
    for k in range(kicks.shape[0]):
        trial = best.copy()
        for j in range(0, kicks.shape[1] - 1, 2):
            a, b = kicks[k, j], kicks[k, j + 1]
            trial[a], trial[b] = trial[b], trial[a]
        _descend(cost, trial, slack)
        found = order_cost(cost, trial)
        if found < value - slack:
            best, value = trial, found
    return value, best


_TOLERANCE = 1e-6
_ROUND_LIMIT = 4000
"""Rows added a round at most, the most violated first."""

_TIE_SECONDS = 2.0
"""Once the optimum is proven, equally good orders are looked for this long and half the time spent so far."""


class KemenyResult(NamedTuple):
    """An order, its total cost and a lower bound of it.

    `cuts[k]` where all optimal orders agree on the first k + 1 items; `cuts_known` is False where not every cut could
    be examined. `method` says how the largest knot was solved. `certain[x, y]` where x comes before y in every optimal
    order, `optima` is their number or, where `counted` is False, a lower bound.
    """

    order: IntArray
    value: float
    bound: float
    cuts: NDArray[np.bool_]
    cuts_known: bool
    method: str = "program"
    certain: NDArray[np.bool_] = np.zeros((0, 0), dtype=bool)
    optima: float = 1.0
    counted: bool = True
    firsts: IntArray = np.zeros(1, dtype=np.int64)
    """Items that are first in some optimal order; where these were not all examined, those that may be."""

    @property
    def optimal(self) -> bool:
        """True where the bound meets the value."""
        return self.value - self.bound <= 1e-12 * max(1.0, abs(self.value))


class _Program:
    """The growing program, the best order and the best bound so far."""

    def __init__(self, cost: FloatArray, order: IntArray, time_limit: float, step: float) -> None:
        self.cost, self.n, self.step = cost, len(cost), step
        self.deadline = time.monotonic() + time_limit
        self.first, self.second = np.triu_indices(self.n, 1)
        self.number = np.zeros((self.n, self.n), dtype=np.int64)
        self.number[self.first, self.second] = np.arange(len(self.first))
        self.objective = cost[self.first, self.second] - cost[self.second, self.first]
        self.constant = float(cost[self.second, self.first].sum())
        self.known: set[int] = set()
        self.rows = csr_array((0, len(self.first)))
        self.order, self.value, self.bound = order, float(order_cost(cost, order)), pairwise_bound(cost)

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        return self.deadline - time.monotonic()

    @property
    def proven(self) -> bool:
        """Whether the bound meets the value."""
        # With whole counts the step settles it; otherwise the solver's own precision is what there is.
        enough = self.step * (1 - 1e-6) if self.step else 1e-7 * max(1.0, abs(self.value))
        return self.value - self.bound <= enough

    def result(self, cuts: NDArray[np.bool_] | None = None, known: bool = False) -> KemenyResult:
        """The best order, with its cuts as far as they were examined."""
        cuts = np.ones(self.n - 1, dtype=bool) if cuts is None else cuts
        return KemenyResult(self.order, self.value, self.bound, cuts, known)

    def matrix(self, point: FloatArray) -> FloatArray:
        """X[i, j] = x_ij, X[j, i] = 1 - x_ij."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.first, self.second] = point
        matrix[self.second, self.first] = 1.0 - point
        return matrix

    def rounded(self, point: FloatArray) -> IntArray:
        """Items by how many others they precede."""
        return np.argsort(-self.matrix(point).sum(axis=1), kind="stable").astype(np.int64)

    def cut(self, point: FloatArray) -> bool:
        """Add rows of triples i < j < k that a point breaks, the worst first; False where it breaks no new one."""
        x = self.matrix(point)
        found: list[Any] = [np.empty((4, 0))]
        for i in range(self.n - 2):
            value = x[i, i + 1 :, None] + x[i + 1 :, i + 1 :] - x[i, None, i + 1 :]
            excess = np.triu(np.maximum(value - 1.0, -value), 1)
            j, k = np.nonzero(excess > _TOLERANCE)
            found.append(np.stack([np.full(len(j), i), j + i + 1, k + i + 1, excess[j, k]]))
        table = np.concatenate(found, axis=1)
        i, j, k = table[:3, np.argsort(-table[3], kind="stable")].astype(np.int64)
        code = (i * self.n + j) * self.n + k
        new = np.flatnonzero([c not in self.known for c in code.tolist()])[:_ROUND_LIMIT]
        if not len(new):
            return False
        self.known.update(code[new].tolist())
        i, j, k = i[new], j[new], k[new]
        columns = np.stack([self.number[i, j], self.number[j, k], self.number[i, k]], axis=1).ravel()
        values, ends = np.tile([1.0, 1.0, -1.0], len(new)), np.arange(0, 3 * len(new) + 1, 3)
        rows = csr_array((values, columns, ends), shape=(len(new), len(self.first)))
        self.rows = vstack([self.rows, rows], format="csr")
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

    def whole(self, bounds: Bounds, *extra: LinearConstraint, objective: FloatArray | None = None) -> Any:
        """The program with the rows so far, some variables fixed, and `extra` rows, in whole numbers.

        Another objective than the cost is a question to the relaxed program. Its status is 2 where no point fits.
        """
        constraints = (*([LinearConstraint(self.rows, 0.0, 1.0)] if self.rows.shape[0] else []), *extra)
        return milp(
            self.objective if objective is None else objective,
            constraints=constraints,
            integrality=np.full(len(self.first), 1.0 if objective is None else 0.0),
            bounds=bounds,
            options={"time_limit": max(self.remaining, 0.1), "mip_rel_gap": 0.0},
        )

    def offer(self, point: FloatArray) -> None:
        """Round a point, improve it by insertion, and keep it where it is better."""
        slack = 1e-12 * max(1.0, self.value)
        none = np.empty((0, 2), dtype=np.int64)
        found, trial = insertion_search(self.cost, self.rounded(point), none, slack)
        if found < self.value - slack:
            self.order, self.value = trial, float(found)

    def branch(self, reduced: FloatArray) -> None:
        """The integer program, with variables fixed whose reduced cost exceeds the gap."""
        gap = self.value - self.bound + 1e-6
        bounds = Bounds(np.where(reduced < -gap, 1.0, 0.0), np.where(reduced > gap, 0.0, 1.0))
        while self.remaining > 0 and not self.proven:
            solution = self.whole(bounds)
            if solution.mip_dual_bound is not None:
                # With variables fixed the bound holds for orders better than the best one only.
                self.bound = max(self.bound, min(self.constant + solution.mip_dual_bound, self.value))
            if solution.x is None or solution.status != 0:
                return
            point = np.round(solution.x)
            self.offer(point)
            if not self.cut(point):
                return


def solve_program(cost: FloatArray, order: IntArray, time_limit: float, step: float) -> KemenyResult:
    """Solve Kemeny's problem, given a good order to start from.

    `step` is the least difference of two different costs (1 for whole counts, 0 if unknown): a bound that comes
    within a step of the best cost proves it.
    """
    start = time.monotonic()
    program = _Program(cost, order, time_limit, step)
    point = (program.objective < 0).astype(np.float64)
    reduced = program.objective
    while program.cut(point):
        solution = program.relaxed()
        if solution is None:
            return program.result()
        point, reduced = solution.x, solution.lower.marginals + solution.upper.marginals
        program.bound = max(program.bound, program.constant + solution.fun)
        program.offer(point)
    relaxed_bound = program.bound
    if not program.proven:
        program.branch(reduced)
    if not program.proven:
        return program.result()
    # Reduced costs speak of the relaxed program, so it is its bound that they are held against.
    gap = program.value - relaxed_bound
    program.bound = program.value
    spent = time.monotonic() - start
    program.deadline = min(program.deadline, time.monotonic() + _TIE_SECONDS + 0.5 * spent)
    return program.result(*_Reversals(program, np.abs(reduced) > gap + 1e-6).settle())


def pairwise_bound(cost: FloatArray) -> float:
    """What no order is below: every pair in its cheaper order."""
    return float(np.minimum(cost, cost.T)[np.triu_indices(len(cost), 1)].sum())


class _Reversals:
    """Which cuts of an optimal order all optimal orders agree on.

    A pair stays as it is in every optimal order where its reduced cost exceeds the gap (`fixed`), or where no point of
    the relaxed program that is as cheap as the order moves it. What is left is asked of the integer program: an order
    as cheap as the best one, with a pair across a cut in doubt reversed. It either does not exist, which settles all
    cuts at once, or it crosses at least one of them.
    """

    def __init__(self, program: _Program, fixed: NDArray[np.bool_]) -> None:
        self.program, self.fixed = program, fixed
        place = np.argsort(program.order)
        first, second = place[program.first], place[program.second]
        self.before = first < second
        self.low, self.high = np.minimum(first, second), np.maximum(first, second)
        slack = 1e-7 * max(1.0, program.value)
        self.forced = ~_free_moves(program.cost, program.order, slack)
        self.as_cheap = LinearConstraint(program.objective, -np.inf, program.value - program.constant + slack)

    def settle(self) -> tuple[NDArray[np.bool_], bool]:
        """The cuts, and whether all of them were examined before the time was over."""
        self._relax()
        program = self.program
        while (across := self._in_doubt()).any():
            # An order as cheap as the best that reverses one of these pairs.
            row = np.where(across, np.where(self.before, -1.0, 1.0), 0.0)
            some = LinearConstraint(row, 1.0 - float((across & self.before).sum()), np.inf)
            if program.remaining <= 0:
                return self.forced, False
            solution = program.whole(self._bounds(), self.as_cheap, some)
            if solution.x is None or solution.status != 0:
                return self.forced, solution.status == 2  # there is none
            point = np.round(solution.x)
            if not program.cut(point):
                other = np.argsort(program.rounded(point))[program.order]
                self.forced &= np.maximum.accumulate(other)[:-1] <= np.arange(program.n - 1)
        return self.forced, True

    def _in_doubt(self) -> NDArray[np.bool_]:
        """Pairs that may change and that span a cut not yet known to be crossed."""
        until = np.concatenate([[0], np.cumsum(self.forced)])
        return ~self.fixed & (until[self.high] > until[self.low])

    def _bounds(self) -> Bounds:
        return Bounds(np.where(self.fixed & self.before, 1.0, 0.0), np.where(self.fixed & ~self.before, 0.0, 1.0))

    def _relax(self) -> None:
        """Fix every pair that no equally cheap point of the relaxed program moves."""
        doubt = self._in_doubt()
        while doubt.any() and self.program.remaining > 0:
            # Minimising x where i comes before j, and -x elsewhere, reverses as much of the doubtful pairs as it can.
            aim = np.where(doubt, np.where(self.before, 1.0, -1.0), 0.0)
            solution = self.program.whole(self._bounds(), self.as_cheap, objective=aim)
            if solution.x is None or solution.status != 0:
                return
            if self.program.cut(solution.x):
                continue
            moved = doubt & (np.where(self.before, 1.0 - solution.x, solution.x) > 1e-4)
            if not moved.any():
                self.fixed = self.fixed | doubt
                return
            doubt &= ~moved


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
