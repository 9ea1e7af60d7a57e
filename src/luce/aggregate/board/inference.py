"""From estimates to a leaderboard: sums of scores by judge, ranks, and confidence sets of ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.aggregate.board.contrast import difference_variances
from luce.aggregate.board.design import Counts
from luce.numerics.compiled import kernel
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray


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
    result: FloatArray = sums.T @ sums
    return result


def draw_normal(covariance: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """(draws, n) deviations with this covariance, which may be singular."""
    n = len(covariance)
    # A millionth of a millionth of the variance lifts the directions that have none; an eigenvalue decomposition
    # needs no lift and twenty times as long, so that it serves only where rounding took more than the lift gives.
    lift = 1e-12 * float(np.max(np.diagonal(covariance), initial=1e-300))
    try:
        root = np.linalg.cholesky(covariance + lift * np.eye(n))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
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
    """Least and greatest rank of every item, for all items at once at the level that was asked for."""

    lower: IntArray
    upper: IntArray
    surely_better: NDArray[np.bool_]
    """(i, j): j is better than i beyond doubt."""


def no_sets(component: IntArray) -> RankSets:
    """Nothing is decided: every item may have any rank of its component."""
    n = len(component)
    return RankSets(np.ones(n, dtype=np.int64), np.bincount(component)[component], np.zeros((n, n), dtype=bool))


Greatest = Callable[[FloatArray], FloatArray]
"""(1 / standard error of every difference, 0 where left out) -> the greatest |deviation| in these units, by draw."""


def rank_sets(
    strength: FloatArray, covariance: FloatArray, deviations: FloatArray, component: IntArray, level: float
) -> RankSets:
    """Simultaneous confidence sets of ranks from simulated (or bootstrap) deviations with one covariance."""
    chunks = [(low, min(low + 250, len(deviations))) for low in range(0, len(deviations), 250)]
    parts = [np.ascontiguousarray(deviations[low:high].T) for low, high in chunks]

    def greatest(precision: FloatArray) -> FloatArray:
        out = np.zeros(len(deviations))
        map_chunks(lambda k, chunk: _greatest(parts[k], precision, out[chunk[0] : chunk[1]]), chunks)
        return out

    return step_down(strength, precisions(covariance, component), greatest, component, level)


def precisions(covariance: FloatArray, component: IntArray) -> FloatArray:
    """1 / standard error of every difference; 0 where there is none, or where two items cannot be compared."""
    variance, spread = np.diagonal(covariance), difference_variances(covariance)
    with np.errstate(divide="ignore"):
        result = np.where(spread > 1e-14 * variance.max(initial=0.0), 1.0 / np.sqrt(spread), 0.0)
    result[component[:, None] != component[None, :]] = 0.0
    return result


def step_down(
    strength: FloatArray, precision: FloatArray, greatest: Greatest, component: IntArray, level: float
) -> RankSets:
    r"""Which item is surely better than which, and the ranks that this leaves to every item.

    Item j is surely better than i where $(s_j - s_i) / se_{ij} > c$, with c the level quantile of the greatest
    $|\delta_i - \delta_j| / se_{ij}$ over all pairs; pairs that are decided are left out and the rest is judged again,
    until nothing more is decided. The rank of i then lies between 1 + the number that is surely better and n - the
    number that is surely worse, for all items at once (Mogstad, Romano, Shaikh and Wilhelm, 2024). Quantiles of
    simulated ranks were rejected: they are biased towards the middle and miss the true rank of close competitors.
    """
    t = (strength[None, :] - strength[:, None]) * precision
    decided = np.zeros(t.shape, dtype=bool)
    while True:
        left = np.where(decided, 0.0, precision)
        if not left.any():
            break
        critical = np.quantile(greatest(left), level, method="higher")
        more = (np.abs(t) > critical) & ~decided
        if not more.any():
            break
        decided |= more
    better = decided & (t > 0)
    size_of = np.bincount(component)[component]
    return RankSets(1 + better.sum(axis=1), size_of - (decided & (t < 0)).sum(axis=1), better)


@kernel
def _greatest(deviations, precision, out):  # type: ignore[no-untyped-def]
    """Draws are the inner loop: it has vector instructions, and pairs that are left out cost nothing."""
    for i in range(len(deviations)):
        first = deviations[i]
        for j in range(i):
            second, unit = deviations[j], precision[i, j]
            if unit > 0.0:
                for k in range(len(out)):
                    gap = abs(first[k] - second[k]) * unit
                    out[k] = gap if gap > out[k] else out[k]
