"""Losses over pairs of documents, with and without ties: one generic loss, and a thin class for every name."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from luce.checks import number
from luce.data.comparisons import Comparisons
from luce.errors import LuceWarning, SettingError
from luce.losses.base import NOT_WANTED, Loss, Target, as_labels
from luce.losses.pair_kernels import form_of, pairs_of_queries
from luce.losses.pair_panels import Costs, panel_sums
from luce.losses.pair_plan import Graded, Here, Listed, count_pairs, listed_pairs, pairs_of_documents, plan, positions
from luce.losses.pair_tables import NO_TABLE, REACH, pair_table, pairs_by_table
from luce.losses.position_weight import checked_weights, weights_of_tiers
from luce.numerics import links
from luce.numerics.segments import Chunk, query_index, tiers
from luce.types import FloatArray, IntArray

__all__ = ["BradleyTerry", "Davidson", "LinkedLoss", "PairwiseLoss", "RankNet", "RaoKupper", "ThurstoneMosteller"]

LONG, SHORT = 512, 256
"""Documents from which a query may go by panels, and up to which a part of it does not: measured, see
benchmarks/bench_pairwise.py."""
_AT_ONCE = 1 << 20
"""Pairs that are listed at once where every pair is taken by itself."""
WEIGHTINGS = ("all", "pairs", "size")


class PairOptions(TypedDict, total=False):
    """What every loss with a link takes by keyword."""

    exact: bool
    weighting: str
    position_weight: str | Sequence[float] | None


class TieOptions(PairOptions, total=False):
    """And what those with ties take beside."""

    ties: bool
    tie_grades: Sequence[float] | None


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

    def evaluate(
        self,
        prepared: Graded | Listed,
        scores: FloatArray,
        chunk: Chunk,
        grad: FloatArray,
        curvature: FloatArray = NOT_WANTED,
        d_parameters: FloatArray = NOT_WANTED,
    ) -> FloatArray:
        """One value a query; curvature is the diagonal of the Hessian."""
        values, by_t = np.zeros(chunk[1] - chunk[0]), np.zeros(chunk[1] - chunk[0])
        if isinstance(prepared, Listed):
            self._run_listed(prepared, scores, chunk, values, by_t, grad, curvature)
        else:
            rows, here = positions(prepared, scores, chunk)
            slopes, bends = np.zeros(len(rows)), np.zeros(len(rows) if len(curvature) else 0)
            self._run_graded(prepared, here, chunk, values, by_t, slopes, bends)
            grad[rows] = slopes
            if len(curvature):
                curvature[rows] = np.maximum(bends, 0.0)  # convex: below 0 is rounding
        if d_parameters.size:
            d_parameters[:, 0] = by_t
        return values

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
    def _run_graded(
        self,
        prepared: Graded,
        here: Here,
        chunk: Chunk,
        values: FloatArray,
        by_t: FloatArray,
        slopes: FloatArray,
        bends: FloatArray,
    ) -> None:
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

    def _run_graded(
        self,
        prepared: Graded,
        here: Here,
        chunk: Chunk,
        values: FloatArray,
        by_t: FloatArray,
        slopes: FloatArray,
        bends: FloatArray,
    ) -> None:
        sizes = np.diff(here.starts[here.queries])
        longest = int(sizes.max()) if self.exact else LONG
        table = self._table(here, longest)
        self._pairs(table, here, longest, values, by_t, slopes, bends)
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
        self._pairs(table, here, len(here.f), value, by_t, slopes, bends)
        if np.isnan(value[0]):
            return self._one_by_one(here, slopes, bends)
        return float(value[0]), float(by_t[0])

    def _pairs(
        self,
        table: FloatArray,
        here: Here,
        longest: int,
        values: FloatArray,
        by_t: FloatArray,
        slopes: FloatArray,
        bends: FloatArray,
    ) -> None:
        """The pairs of queries of at most `longest` documents; NaN where their scores are too far apart."""
        pairs_by_table(table, self.panel_width, *here, longest, values, by_t, slopes, bends)


class LinkedLoss(SmoothPairs):
    r"""-log P of wins, [Ties] (9), and ties, [Ties] (10), under a link of `luce.numerics.links`.

    A long query is done by panel sums (`luce.numerics.chebyshev`) with a relative error of value and gradient below
    1e-8, where that costs less; pairs of the normal link are read off a table (1e-12). `exact=True` takes every pair by
    itself whatever the length.

    Parameters
    ----------
    value
        The tie parameter on its natural scale; None learns it together with the scores.
    ties
        False takes the model without ties and leaves tied pairs out.
    tie_grades
        Only documents of these grades are tied; None for all.
    exact
        Never use panel sums.
    """

    link: ClassVar[links.Link]

    def __init__(
        self,
        value: float | None,
        *,
        ties: bool = True,
        tie_grades: Sequence[float] | None = None,
        exact: bool = False,
        weighting: str = "all",
        position_weight: str | Sequence[float] | None = None,
    ) -> None:
        super().__init__(weighting=weighting, position_weight=position_weight)
        self.ties = ties
        self.uses_ties = ties
        self.exact = exact
        if value is not None and not ties:
            raise SettingError(f"{self.link.parameter} was given with ties=False; leave one of them out.")
        self._given = value
        self._learned = ties and value is None
        self._t = self.link.unconstrained(self.link.start if value is None else value)
        self.code = self.link.code if ties else self.link.code_without_ties
        if tie_grades is not None:
            if not ties:
                raise SettingError("tie_grades was given with ties=False; leave one of them out.")
            self.tie_grades = tuple(map(float, tie_grades))

    @property
    def settings(self) -> dict[str, Any]:
        """The tie parameter (None while it is learned) and what differs from the defaults."""
        chosen: dict[str, Any] = {self.link.parameter: self._given}
        if not self.ties:
            chosen = {"ties": False}
        return chosen | ({"exact": True} if self.exact else {}) | super().settings

    @property
    def tie_parameter(self) -> float:
        """The tie parameter on its natural scale: given, learned, or the start value."""
        return self.link.natural(self._t) if self._given is None else self._given

    @property
    def parameters(self) -> FloatArray:
        """The unconstrained tie parameter, where it is learned."""
        return np.array([self._t]) if self._learned else NOT_WANTED

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Data without ties drive a learned tie parameter to its lower bound, data with nothing else to the upper."""
        return [self.link.bounds] if self._learned else []

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with this value of its unconstrained tie parameter."""
        if len(values) != len(self.parameters):
            raise SettingError(f"{self!r} has {len(self.parameters)} parameters of its own; got {len(values)}.")
        if not self._learned:
            return self
        other = copy.copy(self)
        other._t = float(values[0])
        return other

    def pair_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that the first of two documents wins, given the difference of their scores."""
        return np.exp(self.link.win(difference, self._t, ties=self.ties).value)

    def tie_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that two documents tie, given the difference of their scores."""
        if not self.ties:
            return np.zeros_like(np.asarray(difference, dtype=np.float64))
        return np.exp(self.link.tie(difference, self._t).value)

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """-log P of wins or ties, and its derivatives."""
        at = self.link.tie(d, self._t) if tied else self.link.win(d, self._t, ties=self.ties)
        return -np.stack([at.value, at.d, at.dd, at.t])

    def _table(self, here: Here, longest: int) -> FloatArray:
        return NO_TABLE if self.link.exponential or self.exact else super()._table(here, longest)

    def _pairs(
        self,
        table: FloatArray,
        here: Here,
        longest: int,
        values: FloatArray,
        by_t: FloatArray,
        slopes: FloatArray,
        bends: FloatArray,
    ) -> None:
        if self.link.exponential:
            pairs_of_queries(form_of(self.code, self._t), *here, longest, values, by_t, slopes, bends)
        elif self.exact:
            values[:] = np.nan
        else:
            super()._pairs(table, here, longest, values, by_t, slopes, bends)


class RankNet(LinkedLoss):
    r"""Sum over pairs $i$ better than $j$ of $\log(1 + e^{-(f_i - f_j)})$; tied pairs are left out.

    >>> value, grad = RankNet().value_and_grad([0.0, 0.0], [1, 0])
    >>> round(value, 6), grad.tolist()
    (0.693147, [-0.5, 0.5])
    """

    name = "ranknet"
    link = links.get("rao_kupper")
    costs = (0.9, 100.0, 5_000.0)

    def __init__(self, **options: Unpack[PairOptions]) -> None:
        super().__init__(None, ties=False, **options)

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {key: value for key, value in super().settings.items() if key != "ties"}


class RaoKupper(LinkedLoss):
    r"""Bradley-Terry with ties after Rao and Kupper: [PMOP] (18), [Ties] (5) and [Ties] (6), their losses [Ties] (11).

    $$P(i \succ j) = \frac{\phi_i}{\phi_i + \theta\phi_j}, \quad
      P(i \approx j) = \frac{(\theta^2 - 1)\,\phi_i\phi_j}{(\phi_i + \theta\phi_j)(\theta\phi_i + \phi_j)}$$

    with $\phi = e^f$ and $\theta = 1 + e^\alpha > 1$. `theta=None` learns $\alpha$ with the scores, from $\theta = 2$.
    `ties=False` is $\theta = 1$ without tied pairs, that is `ranknet`. `tie_grades` takes ties from these grades only.

    >>> loss = RaoKupper(theta=3.0)
    >>> value, _ = loss.value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])  # two wins and a tie: 1/4 * 1/4 * 1/2
    >>> round(float(np.exp(-value)), 12)
    0.03125
    """

    name = "rao_kupper"
    link = links.get("rao_kupper")
    costs = (1.1, 100.0, 5_000.0)

    def __init__(self, theta: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(theta, **options)


class BradleyTerry(LinkedLoss):
    r"""Bradley-Terry with ties, by the half-width of the band of ties: `rao_kupper` with $\theta = e^\epsilon$.

    $$P(i \succ j) = F(f_i - f_j - \epsilon), \quad P(i \approx j) = F(f_i - f_j + \epsilon) - F(f_i - f_j - \epsilon)$$

    with F the logistic cdf in [Ties] (2) and [Ties] (3). `epsilon=None` learns $\alpha$,
    $\epsilon = \log(1 + e^\alpha)$, from $\epsilon = \log 2$; `ties=False` is $\epsilon = 0$ without tied pairs.

    >>> labels, scores = [2, 1, 1, 0], [0.4, 0.1, 0.3, -1.0]
    >>> a = BradleyTerry(epsilon=float(np.log(3))).value_and_grad(scores, labels)[0]
    >>> b = RaoKupper(theta=3).value_and_grad(scores, labels)[0]
    >>> abs(a - b) < 1e-12
    True
    """

    name = "bradley_terry"
    link = links.get("bradley_terry")
    costs = RaoKupper.costs

    def __init__(self, epsilon: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(epsilon, **options)


class Davidson(LinkedLoss):
    r"""Bradley-Terry with ties after Davidson: wins, losses and ties in proportion to $\phi_i$, $\phi_j$ and
    $\nu\sqrt{\phi_i\phi_j}$, [PMOP] (19).

    `nu=None` learns $\beta = \log\nu$ with the scores, from $\nu = 1$; `ties=False` (or `nu=0`) is the model without
    ties, that is `ranknet`. `tie_grades` takes ties from these grades only.

    Two settings make chances of scores that were trained otherwise, and training does not see them. `race_scale` times
    the scores are those of Luce's model of the same documents, which says who is in the top k. Most documents have the
    lowest grade, so that two bad ones are tied more often than two good ones: with `tie_level` = (a, b) the tie
    parameter of a pair is $\nu e^{a m + b m^2}$, m the mean of its scores.

    >>> loss = Davidson(nu=2.0)
    >>> loss.pair_probability(0.0).item(), loss.tie_probability(0.0).item()
    (0.25, 0.5)
    """

    name = "davidson"
    link = links.get("davidson")
    costs = (1.1, 100.0, 5_000.0)

    def __init__(
        self,
        nu: float | None = None,
        *,
        race_scale: float = 1.0,
        tie_level: Sequence[float] = (0.0, 0.0),
        **options: Unpack[TieOptions],
    ) -> None:
        if nu == 0:
            nu, options["ties"] = None, False
        super().__init__(nu, **options)
        self.race_scale = number("race_scale", race_scale, above=True)
        self.tie_level = tuple(map(float, tie_level))
        if len(self.tie_level) != 2 or not np.isfinite(self.tie_level).all():
            raise SettingError(f"tie_level is {tie_level!r}; it must be two finite numbers.")

    @property
    def settings(self) -> dict[str, Any]:
        """Those of all links, and what chances take beside where it is not the usual."""
        more = {} if self.race_scale == 1.0 else {"race_scale": self.race_scale}
        return super().settings | more | ({"tie_level": list(self.tie_level)} if any(self.tie_level) else {})

    def chances(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Chances of a tie, of the first and of the second of two documents with these scores."""
        half, level = 0.5 * (first - second), 0.5 * (first + second)
        if not self.ties:
            return np.zeros_like(half), expit(2.0 * half), expit(-2.0 * half)
        tie = self._t + self.tie_level[0] * level + self.tie_level[1] * level**2
        logs = np.stack([tie, half, -half])
        tied, before, after = np.exp(logs - logsumexp(logs, axis=0))
        return tied, before, after


class ThurstoneMosteller(LinkedLoss):
    r"""Paired comparisons with ties and the normal cdf: [Ties] (7), its losses [Ties] (12) and [Ties] (13).

    $$P(i \succ j) = \Phi(f_i - f_j - \epsilon), \quad
      P(i \approx j) = \Phi(f_i - f_j + \epsilon) - \Phi(f_i - f_j - \epsilon)$$

    `epsilon=None` learns $\log\epsilon$ with the scores, from $\epsilon = 0.5$; `ties=False` is $\epsilon = 0$ without
    tied pairs. `tie_grades` takes ties from these grades only.

    >>> loss = ThurstoneMosteller(epsilon=1.0)
    >>> round(loss.tie_probability(0.0).item(), 6)  # within one standard deviation
    0.682689
    """

    name = "thurstone_mosteller"
    link = links.get("thurstone_mosteller")
    panel_width = 5.0

    def __init__(self, epsilon: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(epsilon, **options)


def _any_pair(target: Graded) -> bool:
    more_tiers = bool(np.any(np.diff(target.queries) > 1))
    sizes = np.diff(target.starts)
    return more_tiers or bool(np.any((sizes > 1) & (target.tie_weight[target.starts[:-1]] > 0)))
