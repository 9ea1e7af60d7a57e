"""Losses that are sums over pairs of documents: which pairs, with what weight, and how a pass over them is made."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from luce.data.comparisons import Comparisons
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.losses.pair_panels import Costs, panel_sums
from luce.losses.pair_plan import (
    Graded,
    Here,
    Listed,
    Sums,
    count_pairs,
    listed_pairs,
    pairs_of_documents,
    plan,
    positions,
)
from luce.losses.pair_tables import REACH, pair_table, pairs_by_table
from luce.losses.position_weight import checked_weights, weights_of_tiers
from luce.numerics.segments import Chunk, query_index, tiers
from luce.types import FloatArray, IntArray

LONG, SHORT = 512, 256
"""Documents from which a query may go by panels, and up to which a part of it does not: measured, see
benchmarks/bench_pairwise.py."""
_AT_ONCE = 1 << 20
"""Pairs that are listed at once where every pair is taken by itself."""
WEIGHTINGS = ("all", "pairs", "size")


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
        by_t = np.zeros_like(values)
        if isinstance(prepared, Listed):
            self._run_listed(prepared, scores, chunk, values, by_t, grad, curvature)
        else:
            rows, here = positions(prepared, scores, chunk)
            slopes, bends = np.zeros(len(rows)), np.zeros(len(rows) if len(curvature) else 0)
            self.run_pairs(prepared, here, chunk, Sums(values, by_t, slopes, bends))
            grad[rows] = slopes
            if len(curvature):
                curvature[rows] = np.maximum(bends, 0.0)  # convex: below 0 is rounding
        if d_parameters.size:
            d_parameters[:, 0] = by_t

    def _run_listed(
        self,
        prepared: Listed,
        scores: FloatArray,
        chunk: Chunk,
        values: FloatArray,
        by_t: FloatArray,
        grad: FloatArray,
        curvature: FloatArray,
    ) -> None:
        begin, end = prepared.queries[chunk[0]], prepared.queries[chunk[1]]
        a, b, tied = (column[begin:end] for column in (prepared.first, prepared.second, prepared.tied))
        d, terms = scores[a] - scores[b], np.empty((4, end - begin))
        terms[:, tied == 0] = self.terms(d[tied == 0], False)
        if self.uses_ties:
            terms[:, tied == 1] = self.terms(d[tied == 1], True)
        value, first, second, slope = terms * prepared.weight[begin:end]
        query = np.repeat(np.arange(len(values)), np.diff(prepared.queries[chunk[0] : chunk[1] + 1]))
        values[:] = np.bincount(query, value, len(values))
        by_t[:] = np.bincount(query, slope, len(values))
        base, n = prepared.offsets[chunk[0]], prepared.offsets[chunk[1]] - prepared.offsets[chunk[0]]
        grad[base : base + n] = np.bincount(a - base, first, n) - np.bincount(b - base, first, n)
        if len(curvature):
            curvature[base : base + n] = np.bincount(a - base, second, n) + np.bincount(b - base, second, n)

    @abstractmethod
    def run_pairs(self, prepared: Graded, here: Here, chunk: Chunk, sums: Sums) -> None:
        """Fill values and derivatives in the tie parameter of a run of queries; add to slopes and bends."""

    def _one_by_one(self, here: Here, slopes: FloatArray, bends: FloatArray) -> tuple[float, float]:
        """All pairs of one query by `terms`: the slow form that any scores and any link allow."""
        n = len(here.f)
        tier = np.repeat(np.arange(len(here.starts) - 1), np.diff(here.starts))
        total = np.zeros(2)
        for first in range(0, n, max(1, _AT_ONCE // n)):
            rows = np.arange(first, min(n, first + max(1, _AT_ONCE // n)))
            for tied in (False, True)[: 1 + self.uses_ties]:
                same = tier[rows, None] == tier if tied else tier[rows, None] < tier
                weights = here.tie_weight if tied else here.win_weight
                i, j = np.nonzero(same & (rows[:, None] < np.arange(n)) & (weights[rows, None] > 0.0))
                i += first
                value, slope, bend, by_t = self.terms(here.f[i] - here.f[j], tied) * weights[i]
                total += value.sum(), by_t.sum()
                slopes += np.bincount(i, slope, n) - np.bincount(j, slope, n)
                if len(bends):
                    bends += np.bincount(i, bend, n) + np.bincount(j, bend, n)
        return float(total[0]), float(total[1])


class SmoothPairs(PairwiseLoss):
    """Losses that are smooth in the difference: short queries pair by pair, long ones by panels."""

    panel_width: float = 6.0
    """Width of a panel: less where the loss has singularities nearer to the real line."""
    costs: ClassVar[Costs] = (20.0, 100.0, 5_000.0)
    """Nanoseconds a pair, a document in panels, a panel: measured, see benchmarks/bench_pairwise.py."""
    exact: bool = False
    _kept: tuple[bytes, float, FloatArray] | None = None
    """The last table, with the parameters that it is of and how far it reaches: all chunks of a pass read the same."""

    def run_pairs(self, prepared: Graded, here: Here, chunk: Chunk, sums: Sums) -> None:
        """Short queries pair by pair, long ones by panels where these cost less."""
        sizes = np.diff(here.starts[here.queries])
        longest = int(sizes.max()) if self.exact else LONG
        table = self._table(here, longest)
        self._pairs(table, here, longest, sums)
        values, by_t, slopes, bends = sums
        for q in np.flatnonzero(np.isnan(values) | ((sizes > LONG) & (not self.exact))):
            alone = here.part(here.starts[here.queries[q] : here.queries[q + 1] + 1], ties=True)
            inside = slice(here.starts[here.queries[q]], here.starts[here.queries[q + 1]])
            if sizes[q] <= LONG or self.exact:
                values[q], by_t[q] = self._one_by_one(alone, slopes[inside], bends[inside])
            else:
                values[q], by_t[q] = panel_sums(
                    prepared,
                    chunk[0] + int(q),
                    alone,
                    self.terms,
                    partial(self._pairs_of_one, table),
                    self.panel_width,
                    self.costs,
                    slopes[inside],
                    bends[inside],
                )

    def _table(self, here: Here, longest: int) -> FloatArray:
        """What all pairs of these queries are read off, those of longer queries so far as a table reaches."""
        edges, most = here.starts[here.queries], REACH * self.panel_width
        spans = np.maximum.reduceat(here.f, edges[:-1]) - np.minimum.reduceat(here.f, edges[:-1])
        spans = np.where(np.diff(edges) > longest, np.minimum(spans, most), spans)
        span, key, kept = float(spans[spans <= most].max(initial=0.0)), self.parameters.tobytes(), self._kept
        if kept is None or kept[0] != key or kept[1] < span:
            table = pair_table(self.terms, span, self.panel_width, self.uses_ties)
            self._kept = kept = (key, span, table)
        return kept[2]

    def _pairs_of_one(
        self, table: FloatArray, here: Here, slopes: FloatArray, bends: FloatArray
    ) -> tuple[float, float]:
        value, by_t = np.zeros(1), np.zeros(1)
        self._pairs(table, here, len(here.f), Sums(value, by_t, slopes, bends))
        if np.isnan(value[0]):
            return self._one_by_one(here, slopes, bends)
        return float(value[0]), float(by_t[0])

    def _pairs(self, table: FloatArray, here: Here, longest: int, sums: Sums) -> None:
        """The pairs of queries of at most `longest` documents; NaN where their scores are too far apart."""
        pairs_by_table(table, self.panel_width, *here, longest, *sums)


def _any_pair(target: Graded) -> bool:
    more_tiers = bool(np.any(np.diff(target.queries) > 1))
    sizes = np.diff(target.starts)
    return more_tiers or bool(np.any((sizes > 1) & (target.tie_weight[target.starts[:-1]] > 0)))
