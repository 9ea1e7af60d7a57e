"""From a maximum to a leaderboard: covariances, intervals, and confidence sets of ranks."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from scipy import sparse

from luce.aggregate.board.design import Counts
from luce.aggregate.board.newton import Point, Solution, inverse
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray

__all__ = ["Objective", "RankSets", "cluster_meat", "draw_normal", "rank_sets", "ranks", "sandwich"]


class Objective(Protocol):
    """What is minimised: minus a log-likelihood (or a sum of squares) and a ridge."""

    @property
    def n_parameters(self) -> int:
        """Strengths first, then coefficients, then a tie parameter."""
        ...

    def start(self) -> FloatArray:
        """Where Newton starts."""
        ...

    def __call__(self, x: FloatArray) -> Point:
        """Value, gradient, Hessian."""
        ...

    def meat(self, x: FloatArray) -> FloatArray:
        """Sum of outer products of the score vectors."""
        ...

    def scores(self, x: FloatArray) -> Any:
        """Scores of cells or races, for sums by group."""
        ...

    def log_likelihood(self, x: FloatArray, at: Point) -> float:
        """Without the ridge, at a point that was evaluated."""
        ...


def sandwich(solution: Solution, meat: FloatArray | None, null: FloatArray) -> FloatArray:
    """H^+ V H^+, or H^+ where no meat is given; the directions in `null` are projected out."""
    bread = inverse(solution.at.hessian, null)
    return bread if meat is None else bread @ meat @ bread


def cluster_meat(counts: Counts, by_group: sparse.csr_array, scores: tuple[FloatArray, FloatArray]) -> FloatArray:
    """The middle of the sandwich where the battles of one group depend on each other.

    `by_group` is (groups, cells): the weight of each cell in each group.
    """
    design, (by_d, by_t) = counts.design, scores
    n, rows = design.n_items, np.arange(len(design.first))
    if design.teams is None:
        one = np.ones(len(rows))
        items = sparse.csr_array(
            (np.concatenate([one, -one]), (np.tile(rows, 2), np.concatenate([design.first, design.second]))),
            shape=(len(rows), n),
        )
    else:
        items = design.teams
    x = sparse.hstack([items, sparse.csr_array(design.extra)], format="csr") if design.extra.shape[1] else items
    of_cells = sparse.csr_array(by_group.multiply(by_d[None, :]))
    to_rows = sparse.csr_array((np.ones(3 * len(rows)), (np.arange(3 * len(rows)), np.repeat(rows, 3))))
    sums = (of_cells @ to_rows @ x).toarray()
    if np.any(by_t):
        sums = np.column_stack([sums, by_group @ by_t])
    return sums.T @ sums


def draw_normal(covariance: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """(draws, n) deviations with this covariance, which may be singular."""
    n = len(covariance)
    # A millionth of a millionth of the variance lifts the directions that have none; an eigenvalue decomposition
    # would need no lift and twenty times as long.
    lift = 1e-12 * float(np.max(np.diagonal(covariance), initial=1e-300))
    root = np.linalg.cholesky(covariance + lift * np.eye(n))
    return rng.standard_normal((draws, n)) @ root.T


def ranks(strength: FloatArray, component: IntArray) -> IntArray:
    """1 + the number of better items of the same component; equals (to 1e-9) share a rank.

    >>> ranks(np.array([0.5, 2.0, 0.5, 9.0]), np.array([0, 0, 0, 1])).tolist()
    [2, 1, 2, 1]
    """
    result = np.empty(len(strength), dtype=np.int64)
    for c in np.unique(component):
        members = np.flatnonzero(component == c)
        ordered = np.sort(-strength[members])
        result[members] = 1 + np.searchsorted(ordered, -strength[members] - 1e-9)
    return result


class RankSets(NamedTuple):
    """Least and greatest rank of every item at the level that was asked for."""

    lower: IntArray
    upper: IntArray


def rank_sets(
    strength: FloatArray, covariance: FloatArray, deviations: FloatArray, component: IntArray, level: float
) -> RankSets:
    r"""Confidence sets of ranks.

    Item j is certainly better than i where $(s_j - s_i) / se_{ij} > c_i$, with $c_i$ the level quantile of
    $\max_j |\delta_i - \delta_j| / se_{ij}$ over simulated (or bootstrap) deviations $\delta$; the rank of i then lies
    between 1 + the number that is certainly better and n - the number that is certainly worse (Mogstad, Romano, Shaikh
    and Wilhelm, 2024). Quantiles of simulated ranks were rejected: they are biased towards the middle and miss the
    true rank of close competitors far too often.
    """
    variance = np.diagonal(covariance)
    spread = variance[:, None] + variance[None, :] - 2.0 * covariance
    with np.errstate(divide="ignore"):
        precision = np.where(spread > 1e-14 * variance.max(initial=0.0), 1.0 / np.sqrt(np.maximum(spread, 0.0)), 0.0)
    precision[component[:, None] != component[None, :]] = 0.0
    columns = np.ascontiguousarray(deviations.T)
    n = len(strength)
    size = max(1, -(-n // 16))
    chunks = [(low, min(low + size, n)) for low in range(0, n, size)]
    most = np.empty((n, deviations.shape[0]))

    def greatest(_: int, chunk: tuple[int, int]) -> None:
        _greatest(columns, precision, chunk[0], chunk[1], most)

    map_chunks(greatest, chunks)
    critical = np.quantile(most, level, axis=1, method="higher")
    t = (strength[None, :] - strength[:, None]) * precision
    better = np.sum(t > critical[:, None], axis=1)
    worse = np.sum(t < -critical[:, None], axis=1)
    size_of = np.bincount(component)[component]
    return RankSets(1 + better, size_of - worse)


@njit(nogil=True, cache=True, error_model="numpy")
def _greatest(columns, precision, low, high, out):  # type: ignore[no-untyped-def]
    draws = columns.shape[1]
    for i in range(low, high):
        for k in range(draws):
            out[i, k] = 0.0
        for j in range(columns.shape[0]):
            scale = precision[i, j]
            if scale == 0.0:
                continue
            for k in range(draws):
                value = abs(columns[i, k] - columns[j, k]) * scale
                if value > out[i, k]:
                    out[i, k] = value
