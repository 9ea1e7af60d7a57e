"""Battles as rows of a linear model: the difference of strengths, the side effect and covariates.

Every battle has the linear predictor $d = x^\\top\\beta$, with x = e_a - e_b (or the members of team a minus those of
team b), then 1 for the advantage of side a, then covariates. Battles with the same x are one row with three counts, so
a million battles cost as much as their different pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from luce.aggregate.board.battles import Battles, parts_of_wins
from luce.aggregate.board.newton import add_up
from luce.aggregate.board.outcomes import A_WINS, B_WINS
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Design:
    """The rows x of the linear model, never built as a dense matrix.

    `first` and `second` are items where `teams` is None; otherwise `teams` holds +1 for the members of side a and -1
    for those of side b.
    """

    n_items: int
    first: IntArray
    second: IntArray
    extra: FloatArray
    """(rows, extra columns): side effect and covariates."""
    teams: sparse.csr_array | None = None

    @property
    def n_parameters(self) -> int:
        """Strengths and coefficients."""
        return self.n_items + int(self.extra.shape[1])

    def predict(self, beta: FloatArray) -> FloatArray:
        """X beta, one value a row."""
        strength = beta[: self.n_items]
        d = strength[self.first] - strength[self.second] if self.teams is None else self.teams @ strength
        return d + self.extra @ beta[self.n_items :] if self.extra.shape[1] else d

    def matrix(self) -> sparse.csr_array:
        """X, sparse."""
        if self.teams is not None:
            items = self.teams
        else:
            one, row = np.ones(len(self.first)), np.arange(len(self.first))
            places = np.tile(row, 2), np.concatenate([self.first, self.second])
            items = sparse.csr_array((np.concatenate([one, -one]), places), shape=(len(row), self.n_items))
        extra = [sparse.csr_array(self.extra)] if self.extra.shape[1] else []
        return sparse.csr_array(sparse.hstack([items, *extra], format="csr"))

    def pull(self, g: FloatArray) -> FloatArray:
        """X' g."""
        if self.teams is None:
            n = self.n_items
            items = add_up(self.first, g, n) - add_up(self.second, g, n)
        else:
            items = self.teams.T @ g
        return np.concatenate([items, g @ self.extra])

    def gram(self, h: FloatArray) -> FloatArray:
        """X' diag(h) X, dense."""
        n, k = self.n_items, self.extra.shape[1]
        result = np.zeros((n + k, n + k))
        if self.teams is None:
            _add_gram(self.first, self.second, self.extra, h, n, result)
            return result + result.T
        result[:n, :n] = (self.teams.T @ self.teams.multiply(h[:, None])).toarray()
        for c in range(k):
            result[:, n + c] = result[n + c, :] = self.pull(h * self.extra[:, c])
        return result


@kernel
def _add_gram(first, second, extra, h, n, out):  # type: ignore[no-untyped-def]
    """Add half of X' diag(h) X; the caller adds its transpose."""
    for r in range(len(h)):
        i, j, weight = first[r], second[r], h[r]
        out[i, j] -= weight
        out[i, i] += 0.5 * weight
        out[j, j] += 0.5 * weight
        for c in range(extra.shape[1]):
            value = weight * extra[r, c]
            out[i, n + c] += value
            out[j, n + c] -= value
            out[n + c, n + c] += 0.5 * value * extra[r, c]
            for e in range(c):
                out[n + e, n + c] += value * extra[r, e]


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each row of the design was won by a, won by b, and tied."""

    design: Design
    total: FloatArray
    """(rows, 3): sum of weights."""
    squares: FloatArray
    """(rows, 3): sum of squared weights, for sandwich errors; equal to `total` without weights."""
    judged: sparse.csr_array | None = None
    """(judges, rows times 3): the weight of each cell before each judge, where battles are grouped."""
    weighted: tuple[IntArray, FloatArray, FloatArray] | None = None
    """The battles behind the counts, where they have weights: row times 3 plus outcome, how many, and the weight."""


def shares(count: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Weights with these means that add up to the same total: a Dirichlet draw times it."""
    drawn = rng.standard_gamma(count)
    return np.asarray(drawn * (count.sum() / drawn.sum()))


def collapse(battles: Battles) -> Counts:
    """Count equal battles.

    Without a side effect or covariates the order of a and b does not matter, and rows join unordered pairs; with
    covariates every battle keeps a row of its own.
    """
    battles = parts_of_wins(battles)
    first, second, extra, cell = _joined(battles) if battles.covariates is None else _one_each(battles)
    items, cells = len(battles.names), 3 * len(first)
    sides = None if battles.teams is None else sparse.csr_array(battles.teams[first] - battles.teams[second])
    design = Design(items, first, second, extra, sides)
    if battles.weight is None:
        total = squares = add_up(cell, battles.count, cells).reshape(-1, 3)
    else:
        each = battles.weight if battles.count is None else battles.weight * battles.count
        total, squares = (add_up(cell, w, cells).reshape(-1, 3) for w in (each, each * battles.weight))
    if battles.group is None and battles.weight is None:
        return Counts(design, total, squares)
    count, weight = (np.ones(len(cell)) if given is None else given for given in (battles.count, battles.weight))
    if battles.group is None:
        return Counts(design, total, squares, weighted=(cell, count, weight))
    shape = (int(battles.group.max()) + 1, cells)
    return Counts(design, total, squares, sparse.csr_array((weight * count, (battles.group, cell)), shape=shape))


_Rows = tuple[IntArray, IntArray, FloatArray, IntArray]
"""Both sides of every row of a design and what stands behind them; and of every battle its row times 3 plus outcome."""


def _joined(battles: Battles) -> _Rows:
    n, kinds = battles.n_sides, 1 if battles.side is None else 2
    code = battles.a * n + battles.b
    if battles.side is not None:
        code = code * 2 + battles.side.astype(np.int64)
    codes, at = _distinct(code * 3 + battles.outcome, 3 * kinds * n * n)
    # Until the end arrays are as long as there are different battles, not as long as the input.
    kind, outcome = codes // 3 % kinds, codes % 3
    a, b = divmod(codes // (3 * kinds), n)
    if battles.side is None:
        outcome = np.where((a > b) & (outcome <= B_WINS), A_WINS + B_WINS - outcome, outcome)
        a, b = np.minimum(a, b), np.maximum(a, b)
    keys, row = np.unique((a * n + b) * kinds + kind, return_inverse=True)
    extra = np.empty((len(keys), 0)) if battles.side is None else (keys % 2).astype(np.float64)[:, None]
    return *divmod(keys // kinds, n), extra, (row * 3 + outcome)[at]


def _distinct(code: IntArray, span: int) -> tuple[IntArray, IntArray]:
    """The different codes that occur, and where each code stands among them."""
    if span > 8 * len(code) + 1_000_000:
        return np.unique(code, return_inverse=True)
    codes, place = np.flatnonzero(np.bincount(code, minlength=span)), np.empty(span, dtype=np.int64)
    place[codes] = np.arange(len(codes))
    return codes, place[code]


def _one_each(battles: Battles) -> _Rows:
    # Rows sorted by outcome: the branches of the kernel that evaluates them are then foreseen by the processor.
    order = np.argsort(battles.outcome.astype(np.int8), kind="stable")
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order))
    extra = np.column_stack([column for column in (battles.side, battles.covariates) if column is not None])
    return battles.a[order], battles.b[order], extra[order], row * 3 + battles.outcome
