"""What errors say: centring, errors of differences, quasi-variances, rank sets, and who can be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, breadth_first_order, connected_components

from luce.aggregate.board.design import Counts
from luce.numerics.compiled import kernel
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray


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


def mean_weights(information: FloatArray, component: IntArray, main: NDArray[np.bool_] | None = None) -> FloatArray:
    """(items, components): the weight of every item in the mean of its component, in proportion to its information.

    Separated items (outside `main`) weigh nothing, unless a component has fewer than two others.

    >>> mean_weights(np.array([3.0, 1.0, 5.0]), np.array([0, 0, 1])).tolist()
    [[0.75, 0.0], [0.25, 0.0], [0.0, 1.0]]
    """
    weights = np.zeros((len(component), int(component.max()) + 1))
    for c in range(weights.shape[1]):
        members = np.flatnonzero(component == c)
        if main is not None and np.sum(main[members]) >= 2:
            members = members[main[members]]
        known = np.maximum(information[members], 0.0)
        weights[members, c] = known / known.sum() if known.sum() > 0 else 1.0 / len(members)
    return weights


def centre(x: FloatArray, weights: FloatArray, component: IntArray) -> FloatArray:
    """(..., parameters): strengths, the first of them, less the weighted mean of their component."""
    n = len(component)
    result = x.copy()
    result[..., :n] -= (x[..., :n] @ weights)[..., component]
    return result


def centre_covariance(covariance: FloatArray, weights: FloatArray, component: IntArray) -> FloatArray:
    r"""Of the centred strengths: $(I - W) C (I - W)^\top$, with what comes behind the strengths."""
    rows = centre(np.ascontiguousarray(covariance.T), weights, component)
    return centre(np.ascontiguousarray(rows.T), weights, component)


def difference_variances(covariance: FloatArray) -> FloatArray:
    """Var(x_i - x_j) of all pairs."""
    variance = np.diagonal(covariance)
    spread: FloatArray = np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0)
    return spread


class QuasiVariances(NamedTuple):
    """One variance an item, so that Var(x_i - x_j) is nearly q_i + q_j."""

    values: FloatArray
    worst: float
    """Greatest relative error of the standard error of a difference."""


def quasi_variances(covariance: FloatArray) -> QuasiVariances | None:
    r"""Minimise $\sum_{i<j} (\log(q_i + q_j) - \log \mathrm{Var}(x_i - x_j))^2$ (Firth and de Menezes, 2004).

    Gauss-Newton steps. None for fewer than three items, for pairs without any variance, and where no positive solution
    is found.

    >>> quasi_variances(np.diag([1.0, 2.0, 3.0])).values.round(6).tolist()
    [1.0, 2.0, 3.0]
    """
    n, target = len(covariance), difference_variances(covariance)
    off = ~np.eye(n, dtype=bool)
    if n < 3 or not np.all(np.isfinite(target)) or np.any(target[off] <= 0.0):
        return None
    log_target = np.log(np.where(off, target, 1.0))
    # Sums over the partners of i, less the mean of all: exact where the covariance is diagonal.
    sums = target.sum(axis=1)
    q = np.maximum((sums - sums.sum() / (2.0 * (n - 1))) / (n - 2), 0.01 * float(target[off].min()))
    for _ in range(100):
        total = q[:, None] + q[None, :]
        residual = np.where(off, np.log(total) - log_target, 0.0)
        slope = np.where(off, 1.0 / total, 0.0)
        normal = slope**2
        np.fill_diagonal(normal, np.sum(normal, axis=1))
        step = -np.linalg.solve(normal, np.sum(residual * slope, axis=1))
        # No entry falls to less than a tenth at once; one that goes on falling has no positive solution.
        fraction = min(1.0, float(np.min(np.where(step < 0, -0.9 * q / np.minimum(step, -1e-300), 1.0))))
        q = q + fraction * step
        if np.max(np.abs(step) / q) < 1e-10:
            return QuasiVariances(q, float(np.max(np.abs(np.exp(0.5 * residual) - 1.0))))
    return None


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
