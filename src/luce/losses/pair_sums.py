"""Losses that are sums over pairs of documents: which pairs, with what weight, and how a pass over them is made."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.data.comparisons import Comparisons
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.numerics.segments import Chunk, Tiers, query_index, tiers
from luce.types import FloatArray, IntArray

BLOCK, CROSS, SELF = range(3)
"""Kinds of work in a plan: a few documents pair by pair, better tiers against worse ones, one long tier with itself."""
LONG, SHORT = 512, 256
"""Documents from which a query may go by panels, and up to which a part of it does not: measured, see
benchmarks/bench_pairwise.py."""
_AT_ONCE = 1 << 20
"""Pairs that are listed at once where every pair is taken by itself."""
WEIGHTINGS = ("all", "pairs", "size")
DISCOUNTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log2": lambda position: 1.0 / np.log2(position + 1.0),
    "reciprocal": lambda position: 1.0 / position,
}


class Graded(NamedTuple):
    """Grades as tiers, with the weight of every pair and the plan of work.

    A pair of different grades weighs `win_weight` of its better document, a tied pair `tie_weight` (the same for the
    whole tier), both by position in `order`. Query q owns the tasks `task_queries[q]` to `task_queries[q + 1]`, none
    where it is short.
    """

    order: IntArray
    starts: IntArray
    queries: IntArray
    win_weight: FloatArray
    tie_weight: FloatArray
    tasks: IntArray
    task_queries: IntArray


class Here(NamedTuple):
    """A run of queries by position: where tiers start, which tiers a query starts with, scores, weights of pairs."""

    starts: IntArray
    queries: IntArray
    f: FloatArray
    win_weight: FloatArray
    tie_weight: FloatArray

    def part(self, edges: IntArray, ties: bool) -> Here:
        """Documents of one query between these edges as tiers, with their ties or without."""
        here = slice(edges[0], edges[-1])
        tie_weight = self.tie_weight[here] if ties else np.zeros(edges[-1] - edges[0])
        bounds = np.array([0, len(edges) - 1])
        return Here(edges - edges[0], bounds, self.f[here], self.win_weight[here], tie_weight)


class Sums(NamedTuple):
    """What a pass over the pairs of some queries fills: a value and a derivative in the tie parameter for each query,
    and what is added to the slope and, unless there is no room, to the bend of each document."""

    values: FloatArray
    by_t: FloatArray
    slopes: FloatArray
    bends: FloatArray

    def part(self, q: int, rows: slice) -> Sums:
        """Those of one query, the documents of which stand at these places."""
        return Sums(self.values[q : q + 1], self.by_t[q : q + 1], self.slopes[rows], self.bends[rows])


class Listed(NamedTuple):
    """Explicit pairs, sorted by query: the first wins or, where `tied`, neither."""

    first: IntArray
    second: IntArray
    tied: IntArray
    weight: FloatArray
    queries: IntArray
    offsets: IntArray


def listed_pairs(target: Comparisons, offsets: IntArray, ties: bool) -> Listed:
    """The wins, those that ordered lists imply, and the ties if they are wanted."""
    wins, win_weight = target.all_wins(offsets)
    n_ties = len(target.ties) if ties else 0
    pairs = np.concatenate([wins, target.ties[:n_ties]])
    tie_weight = np.ones(n_ties) if target.tie_weight is None else target.tie_weight[:n_ties]
    tied = np.repeat(np.array([0, 1]), [len(wins), n_ties])
    query = query_index(offsets)[pairs[:, 0]]
    by_query = np.argsort(query, kind="stable")
    bounds = np.searchsorted(query[by_query], np.arange(len(offsets))).astype(np.int64)
    first, second = np.ascontiguousarray(pairs[by_query].T)
    weight = np.concatenate([win_weight, tie_weight])[by_query]
    return Listed(first, second, tied[by_query], weight, bounds, offsets)


def count_pairs(tiers: Tiers, tied: FloatArray) -> FloatArray:
    """Pairs of every query: those of different grades, and those of the tiers where `tied` is not 0.

    >>> count_pairs(Tiers(np.arange(4), np.array([0, 1, 3, 4]), np.array([0, 3])), np.ones(3)).tolist()
    [6.0]
    """
    sizes = np.diff(tiers.starts).astype(np.float64)
    within = sizes * (sizes - 1) / 2
    rows = np.diff(tiers.starts[tiers.queries]).astype(np.float64)
    left_out = np.concatenate([[0.0], np.cumsum(within * (tied == 0))])[tiers.queries]
    pairs: FloatArray = rows * (rows - 1) / 2 - np.diff(left_out)
    return pairs


def pairs_of_documents(target: Graded | Listed) -> FloatArray:
    """The weight of all pairs that a document is in, one a row.

    >>> pairs = listed_pairs(Comparisons(wins=[(0, 1), (0, 2)], ties=[(1, 2)]), np.array([0, 3]), ties=True)
    >>> pairs_of_documents(pairs).tolist()
    [2.0, 2.0, 2.0]
    """
    if isinstance(target, Listed):
        ends = np.concatenate([target.first, target.second])
        weight = np.concatenate([target.weight, target.weight])
        return np.bincount(ends, weight, int(target.offsets[-1])).astype(np.float64)
    n = len(target.order)
    tier = query_index(target.starts)
    query = query_index(target.starts[target.queries])
    first, last = target.starts[tier], target.starts[tier + 1]
    end = target.starts[target.queries[query + 1]]
    total = np.concatenate([[0.0], np.cumsum(target.win_weight)])
    better = total[first] - total[target.starts[target.queries[query]]]
    counts = np.empty(n)
    counts[target.order] = better + target.win_weight * (end - last) + target.tie_weight * (last - first - 1)
    return counts


def plan(starts: IntArray, queries: IntArray, long: int, short: int) -> tuple[IntArray, IntArray]:
    """Cut the pairs of the queries of more than `long` documents into tasks (kind, first, middle, last tier + 1).

    Tiers are halved by documents until a half has one tier or at most `short` documents: every pair of different grades
    is then in exactly one CROSS or BLOCK, every tied pair in one SELF or BLOCK, and a document in O(log tiers) tasks.

    >>> tasks, _ = plan(np.array([0, 2, 4, 9]), np.array([0, 3]), 5, 4)
    >>> tasks.tolist()
    [[0, 0, 2, 2], [2, 2, 3, 3], [1, 0, 2, 3]]
    """
    tasks: list[tuple[int, int, int, int]] = []
    counts = np.zeros(len(queries), dtype=np.int64)
    for q in np.flatnonzero(np.diff(starts[queries]) > long):
        tasks += _tasks(starts, int(queries[q]), int(queries[q + 1]), short)
        counts[q + 1] = len(tasks)
    return np.array(tasks, dtype=np.int64).reshape(-1, 4), np.maximum.accumulate(counts)


def _tasks(starts: IntArray, first: int, last: int, short: int) -> list[tuple[int, int, int, int]]:
    size = starts[last] - starts[first]
    if size <= short or last - first == 1:
        return [(BLOCK if size <= short else SELF, first, last, last)]
    middle = _middle(starts, first, last)
    return [
        *_tasks(starts, first, middle, short),
        *_tasks(starts, middle, last, short),
        (CROSS, first, middle, last),
    ]


def _middle(starts: IntArray, first: int, last: int) -> int:
    # The boundary between tiers, neither the first nor the last one, that is nearest to half of the documents.
    half = (starts[first] + starts[last]) // 2
    tier = min(first + 1 + int(np.searchsorted(starts[first + 1 : last], half)), last - 1)
    if tier - 1 > first and half - starts[tier - 1] < starts[tier] - half:
        tier -= 1
    return tier


def positions(target: Graded, scores: FloatArray, chunk: Chunk) -> tuple[IntArray, Here]:
    """Rows of a run of queries, best tier first, and what kernels see of them."""
    first, last = target.queries[chunk[0]], target.queries[chunk[1]]
    begin, end = target.starts[first], target.starts[last]
    rows = target.order[begin:end]
    return rows, Here(
        target.starts[first : last + 1] - begin,
        target.queries[chunk[0] : chunk[1] + 1] - first,
        scores[rows],
        target.win_weight[begin:end],
        target.tie_weight[begin:end],
    )


def checked_weights(weights: str | Sequence[float] | None) -> str | tuple[float, ...] | None:
    """The name of a discount, or the weights of positions 1, 2, ...; an error for anything else."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights not in DISCOUNTS:
            raise SettingError(f"position_weight={weights!r} is not known; choose one of {', '.join(DISCOUNTS)}.")
        return weights
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values < 0).any():
        raise SettingError("position_weight needs finite numbers of at least 0, those of positions 1, 2, ....")
    return tuple(values.tolist())


def weights_of_tiers(weights: str | tuple[float, ...], by_grade: Tiers) -> FloatArray:
    """One weight a tier: the mean over the positions that it fills in the ideal order.

    >>> by_grade = Tiers(np.arange(4), np.array([0, 1, 3, 4]), np.array([0, 3]))
    >>> weights_of_tiers((3.0, 2.0, 1.0), by_grade).tolist()
    [3.0, 1.5, 1.0]
    """
    first = by_grade.starts[by_grade.queries[:-1]]
    rows_before = np.repeat(first, np.diff(by_grade.starts[by_grade.queries]))
    position = (np.arange(by_grade.starts[-1]) - rows_before + 1).astype(np.float64)
    if isinstance(weights, str):
        each = DISCOUNTS[weights](position)
    else:
        each = np.asarray(weights)[np.minimum(position.astype(np.int64), len(weights)) - 1]
    return np.add.reduceat(each, by_grade.starts[:-1]) / np.diff(by_grade.starts)


class PairwiseLoss(Loss):
    """Sum over the pairs of a query of a function of the difference of two scores: the risk [Ties] (8).

    The target is grades (every pair of different grades, better first; every pair of equal grades is a tie), or
    `Comparisons` with explicit preferences and ties.

    Parameters
    ----------
    weighting
        "all": every pair counts 1, so long queries count most (as in the papers); "pairs": a query is divided by its
        number of pairs; "size": by its number of documents.
    position_weight
        None, or what a pair weighs by the position of its better document in the ideal order: "log2" is
        1 / log2(position + 1), "reciprocal" 1 / position, a sequence gives the weights of positions 1, 2, ... and its
        last one goes on. Tied documents share the mean of the positions that they fill.
    """

    takes_comparisons: ClassVar[bool] = True

    def __init__(self, *, weighting: str = "all", position_weight: str | Sequence[float] | None = None) -> None:
        if weighting not in WEIGHTINGS:
            raise SettingError(f"weighting={weighting!r} is not known; choose one of {', '.join(WEIGHTINGS)}.")
        self.weighting = weighting
        self.position_weight = checked_weights(position_weight)
        self.uses_ties = False
        self.tie_grades: tuple[float, ...] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Only what differs from the defaults, so that a name stays short."""
        chosen: dict[str, Any] = {}
        if self.weighting != "all":
            chosen["weighting"] = self.weighting
        if self.position_weight is not None:
            chosen["position_weight"] = self.position_weight
        if self.tie_grades is not None:
            chosen["tie_grades"] = list(self.tie_grades)
        return chosen

    @abstractmethod
    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """Loss of pairs at d = f_i - f_j, its two derivatives in d, its derivative in the tie parameter: (4, *d)."""

    def prepare(self, target: Target, offsets: IntArray) -> Graded | Listed:
        """Tiers with the weights of their pairs and a plan of work, or the explicit pairs sorted by query."""
        prepared = self._listed(target, offsets) if isinstance(target, Comparisons) else self._graded(target, offsets)
        nothing = len(prepared.first) == 0 if isinstance(prepared, Listed) else not _any_pair(prepared)
        if nothing and np.diff(offsets).max(initial=0) > 1:
            what = "neither a preference nor a tie" if self.uses_ties else "no preference (all its pairs are tied)"
            warnings.warn(f"The target has {what}: {self.name!r} has nothing to learn from.", LuceWarning, stacklevel=2)
        return prepared

    def pair_counts(self, target: Target, offsets: ArrayLike | None = None) -> FloatArray:
        """Number (weight) of the pairs of every document: the curvature that makes a boosted tree average gradients.

        >>> from luce.losses.pairwise import RankNet, RaoKupper
        >>> RaoKupper().pair_counts([2, 1, 1, 0], [0, 4]).tolist(), RankNet().pair_counts([2, 1, 1, 0]).tolist()
        ([3.0, 3.0, 3.0, 3.0], [3.0, 2.0, 2.0, 3.0])
        """
        if offsets is None:
            if isinstance(target, Comparisons):
                raise SettingError("The pairs of comparisons need offsets, which say how many documents there are.")
            offsets = [0, len(np.asarray(target))]
        return pairs_of_documents(self.prepare(target, np.asarray(offsets, dtype=np.int64)))

    def _graded(self, target: ArrayLike, offsets: IntArray) -> Graded:
        labels = as_labels(self, target, offsets)
        by_grade = tiers(labels, offsets)
        tied = np.zeros(len(by_grade.starts) - 1)
        if self.uses_ties:
            grades = labels[by_grade.order[by_grade.starts[:-1]]]
            tied[:] = 1.0 if self.tie_grades is None else np.isin(grades, self.tie_grades)
        scale = self._scale(count_pairs(by_grade, tied), offsets)
        weight = np.repeat(scale, np.diff(by_grade.queries))
        if self.position_weight is not None:
            weight *= weights_of_tiers(self.position_weight, by_grade)
        sizes = np.diff(by_grade.starts)
        tasks, task_queries = plan(by_grade.starts, by_grade.queries, LONG, SHORT)
        return Graded(*by_grade, np.repeat(weight, sizes), np.repeat(weight * tied, sizes), tasks, task_queries)

    def _listed(self, target: Comparisons, offsets: IntArray) -> Listed:
        if self.position_weight is not None or self.tie_grades is not None:
            option = "position_weight" if self.position_weight is not None else "tie_grades"
            raise SettingError(f"{option} goes by grades; explicit comparisons have none, so leave it out.")
        pairs = listed_pairs(target, offsets, self.uses_ties)
        query = query_index(pairs.queries) if len(pairs.first) else np.empty(0, dtype=np.int64)
        counts = np.bincount(query, weights=pairs.weight, minlength=len(offsets) - 1).astype(np.float64)
        return pairs._replace(weight=pairs.weight * self._scale(counts, offsets)[query])

    def _scale(self, n_pairs: FloatArray, offsets: IntArray) -> FloatArray:
        if self.weighting == "pairs":
            return 1.0 / np.where(n_pairs > 0, n_pairs, 1.0)
        return 1.0 / np.diff(offsets) if self.weighting == "size" else np.ones(len(offsets) - 1)

    def fill(self, prepared: Graded | Listed, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian."""
        chunk, values, grad, curvature, d_parameters = out
        values[:] = 0.0
        rows: slice | IntArray
        if isinstance(prepared, Listed):
            rows = slice(prepared.offsets[chunk[0]], prepared.offsets[chunk[1]])
            f, here = scores[rows], None
        else:
            rows, here = positions(prepared, scores, chunk)
            f = here.f
        bends = np.zeros(len(f) if len(curvature) else 0)
        sums = Sums(values, np.zeros_like(values), np.zeros(len(f)), bends)
        if isinstance(prepared, Listed):
            self._run_listed(prepared, f, chunk, sums)
        elif here is not None:
            self.run_pairs(prepared, here, chunk, sums)
        grad[rows] = sums.slopes
        if len(curvature):
            curvature[rows] = np.maximum(bends, 0.0)  # convex: below 0 is rounding
        if d_parameters.size:
            d_parameters[:, 0] = sums.by_t

    @abstractmethod
    def run_pairs(self, prepared: Graded, here: Here, chunk: Chunk, sums: Sums) -> None:
        """Fill values and derivatives in the tie parameter of a run of queries; add to slopes and bends."""

    def _run_listed(self, prepared: Listed, f: FloatArray, chunk: Chunk, sums: Sums) -> None:
        pairs = slice(prepared.queries[chunk[0]], prepared.queries[chunk[1]])
        query = query_index(prepared.queries[chunk[0] : chunk[1] + 1])
        base, tied = prepared.offsets[chunk[0]], prepared.tied[pairs]
        for kind in (False, True)[: 1 + self.uses_ties]:
            of = np.flatnonzero(tied == kind)
            i, j = prepared.first[pairs][of] - base, prepared.second[pairs][of] - base
            self._add(f, i, j, prepared.weight[pairs][of], query[of], kind, sums)

    def one_by_one(self, here: Here, sums: Sums) -> None:
        """All pairs of one query by `terms`: the slow form that any scores and any link allow."""
        n, tier = len(here.f), query_index(here.starts)
        sums.values[:], sums.by_t[:] = 0.0, 0.0
        for first in range(0, n, max(1, _AT_ONCE // n)):
            rows = np.arange(first, min(n, first + max(1, _AT_ONCE // n)))
            for tied in (False, True)[: 1 + self.uses_ties]:
                same = tier[rows, None] == tier if tied else tier[rows, None] < tier
                weights = here.tie_weight if tied else here.win_weight
                i, j = np.nonzero(same & (rows[:, None] < np.arange(n)) & (weights[rows, None] > 0.0))
                i += first
                self._add(here.f, i, j, weights[i], np.zeros_like(i), tied, sums)

    def _add(
        self, f: FloatArray, i: IntArray, j: IntArray, weight: FloatArray, query: IntArray, tied: bool, sums: Sums
    ) -> None:
        """Add what listed pairs, i better than j or tied with it, come to."""
        value, slope, bend, by_t = self.terms(f[i] - f[j], tied) * weight
        sums.values[:] += np.bincount(query, value, len(sums.values))
        sums.by_t[:] += np.bincount(query, by_t, len(sums.by_t))
        sums.slopes[:] += np.bincount(i, slope, len(f)) - np.bincount(j, slope, len(f))
        if len(sums.bends):
            sums.bends[:] += np.bincount(i, bend, len(f)) + np.bincount(j, bend, len(f))


def _any_pair(target: Graded) -> bool:
    more_tiers = bool(np.any(np.diff(target.queries) > 1))
    sizes = np.diff(target.starts)
    return more_tiers or bool(np.any((sizes > 1) & (target.tie_weight[target.starts[:-1]] > 0)))
