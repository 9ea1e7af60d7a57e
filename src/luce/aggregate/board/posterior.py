"""`Posterior`: strengths with their covariance, and what follows: errors, intervals, ranks, tiers, differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from luce.errors import DataError
from luce.numerics.compiled import kernel
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray

RANK_DRAWS = 999


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
    return np.asarray(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0))


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
    return np.asarray(rng.standard_normal((draws, n)) @ root.T)


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
    """Least and greatest rank of every item: for all items at once, and for each by itself, at one level."""

    lower: IntArray
    upper: IntArray
    surely_better: NDArray[np.bool_]
    """(i, j): j is better than i beyond doubt, for all pairs at once."""
    each_lower: IntArray
    each_upper: IntArray
    critical: float
    """What the statistic of a pair that is not decided would have to exceed, for all pairs at once."""


Rows = Callable[[NDArray[np.bool_]], FloatArray]
"""(i, j) that are looked at -> (items, draws): by item and draw the greatest |t| of its differences under equality."""


def rank_sets(
    strength: FloatArray,
    covariance: FloatArray,
    deviations: FloatArray,
    component: IntArray,
    level: float,
    exact: FloatArray | None = None,
) -> RankSets:
    """Confidence sets of ranks from simulated (or bootstrap) deviations with one covariance.

    `exact` has the statistic of the pairs that have one of their own, and NaN elsewhere; these are decided only beyond
    the point where an interval of the single difference excludes 0.
    """
    chunks = [(low, min(low + 250, len(deviations))) for low in range(0, len(deviations), 250)]
    parts = [np.ascontiguousarray(deviations[low:high].T) for low, high in chunks]
    precision = precisions(covariance, component)

    def rows(active: NDArray[np.bool_]) -> FloatArray:
        found = map_chunks(lambda k, _: _rows(parts[k], precision, active), chunks)
        return np.concatenate(found, axis=1)

    t, least = np.where(precision > 0.0, (strength[None, :] - strength[:, None]) * precision, np.nan), 0.0
    if exact is not None:
        t, least = np.where(np.isnan(exact), t, exact), float(ndtri(0.5 + level / 2))
    return step_down(t, rows, component, level, least)


def precisions(covariance: FloatArray, component: IntArray) -> FloatArray:
    """1 / standard error of every difference; 0 where there is none, or where two items cannot be compared."""
    variance, spread = np.diagonal(covariance), difference_variances(covariance)
    with np.errstate(divide="ignore"):
        result = np.where(spread > 1e-14 * variance.max(initial=0.0), 1.0 / np.sqrt(spread), 0.0)
    result[component[:, None] != component[None, :]] = 0.0
    return result


def step_down(t: FloatArray, rows: Rows, component: IntArray, level: float, least: float = 0.0) -> RankSets:
    r"""Which item is surely better than which, and the ranks that this leaves to every item.

    Item j is surely better than i where $t_{ij} > c$ (NaN where two cannot be compared), with c the level quantile of
    the greatest |t| over all pairs under equality; pairs that are decided are left out and the rest is judged again,
    until nothing more is decided. The rank of i then lies between 1 + the number that is surely better and n - the
    number that is surely worse, for all items at once (Mogstad, Romano, Shaikh and Wilhelm, 2024). With the quantile of
    the greatest |t| of the pairs of one item in the place of c, the same holds for that item by itself. Quantiles of
    simulated ranks were rejected: they are biased towards the middle and miss the true rank of close competitors.
    """
    size = np.bincount(component)[component]

    def ends(decided: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
        return 1 + np.sum(decided & (t > 0), axis=1), size - np.sum(decided & (t < 0), axis=1)

    # For all at once a pair need be looked at from one side only.
    at_once, critical = _decided(t, lambda active: rows(np.tril(active)).max(axis=0, keepdims=True), level, least)
    each, _ = _decided(t, rows, level, least)
    return RankSets(*ends(at_once), at_once & (t > 0), *ends(each), float(np.max(critical)))


def _decided(t: FloatArray, greatest: Rows, level: float, least: float) -> tuple[NDArray[np.bool_], FloatArray]:
    """The pairs beyond the quantile of the greatest, which is judged again without them; and that quantile."""
    open_, critical = np.isfinite(t), np.array([[least]])
    decided = np.zeros(t.shape, dtype=bool)
    while open_.any():
        drawn = greatest(open_)
        place = min(math.ceil(level * (drawn.shape[1] + 1)), drawn.shape[1]) - 1
        critical = np.maximum(np.partition(drawn, place, axis=1)[:, place, None], least)
        more = open_ & (np.abs(t) > critical)
        if not more.any():
            break
        decided |= more
        open_ &= ~more
    return decided, critical


@kernel
def _rows(deviations, precision, active):  # type: ignore[no-untyped-def]
    """Draws are the inner loop: it has vector instructions, and pairs that are left out cost nothing."""
    out = np.zeros_like(deviations)
    for i in range(len(deviations)):
        for j in range(i):
            unit = precision[i, j]
            for one, other in ((i, j), (j, i)):
                if active[one, other]:
                    best, first, second = out[one], deviations[one], deviations[other]
                    for k in range(len(best)):
                        gap = abs(first[k] - second[k]) * unit
                        best[k] = gap if gap > best[k] else best[k]
    return out


@dataclass(frozen=True, eq=False)
class Posterior:
    """Strengths of items, best first within their component, with all that their covariance says.

    Everything about errors and ranks is worked out here, once, for boards of every kind.
    """

    names: tuple[str, ...]
    strength: FloatArray
    covariance: FloatArray
    component: IntArray
    level: float
    se: FloatArray
    lower: FloatArray
    upper: FloatArray
    rank: IntArray
    sets: RankSets
    order: IntArray = field(repr=False)
    """Where each item stood in what this was made from."""
    profile: Callable[[int, int], tuple[float, float, float] | None] | None = field(default=None, repr=False)
    """Of items as they stood there, and in units of `unit`: a difference and its ends, where these are not normal."""
    unit: float = 1.0

    @staticmethod
    def of(
        names: Sequence[str],
        strength: FloatArray,
        covariance: FloatArray,
        component: IntArray,
        level: float,
        *,
        sets: RankSets,
        ends: tuple[FloatArray, FloatArray] | None = None,
        unknown: NDArray[np.bool_] | IntArray | None = None,
        profile: Callable[[int, int], tuple[float, float, float] | None] | None = None,
    ) -> Posterior:
        """Items in any order, put in order of strength.

        Intervals are normal unless their `ends` are given; `unknown` items have no errors, nor intervals unless they
        are given.
        """
        se = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        lower, upper = normal_ends(strength, se, level) if ends is None else ends
        if unknown is not None:
            se[unknown] = np.nan
            if ends is None:
                lower[unknown] = upper[unknown] = np.nan
        order = np.lexsort((np.array(names), -strength, component))
        both = np.ix_(order, order)
        low, high, better, least, most, critical = sets
        return Posterior(
            names=tuple(names[i] for i in order),
            strength=strength[order],
            covariance=covariance[both],
            component=component[order],
            level=level,
            se=se[order],
            lower=lower[order],
            upper=upper[order],
            rank=ranks(strength, component)[order],
            sets=RankSets(low[order], high[order], better[both], least[order], most[order], critical),
            order=order,
            profile=profile,
        )

    def shown(self, factor: float, shift: float) -> Posterior:
        """In other units: every strength times a factor, and shifted."""
        return replace(
            self,
            strength=factor * self.strength + shift,
            covariance=factor**2 * self.covariance,
            se=factor * self.se,
            lower=factor * self.lower + shift,
            upper=factor * self.upper + shift,
            unit=factor * self.unit,
        )

    @property
    def components(self) -> list[list[str]]:
        """Items that can be compared with each other, the largest component first."""
        members = (np.flatnonzero(self.component == c) for c in range(int(self.component.max()) + 1))
        return [[self.names[i] for i in rows] for rows in members]

    @property
    def tiers(self) -> list[list[str]]:
        """Items cut, within each component, where everything above is surely better than everything below."""
        result: list[list[str]] = []
        for c in range(int(self.component.max()) + 1):
            rows = np.flatnonzero(self.component == c)
            inside = self.sets.surely_better[np.ix_(rows, rows)]
            # A cut before k: all of the first k are better than all of the rest.
            cuts = [k for k in range(1, len(rows)) if inside[k:, :k].all()]
            result.extend([[self.names[i] for i in part] for part in np.split(rows, cuts)])
        return result

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """The place of an item."""
        try:
            return self._places[str(name)]
        except KeyError:
            raise DataError(f"{name!r} is not on this leaderboard; it has {len(self.names)} items.") from None

    def differences(self, anchor: str) -> list[dict[str, Any]]:
        """The strength of every item less that of an anchor, with the error of that difference."""
        at = self.index(anchor)
        rows = np.flatnonzero(self.component == self.component[at])
        value, se = (self.strength - self.strength[at])[rows], np.sqrt(difference_variances(self.covariance)[at, rows])
        columns = (value, se, *normal_ends(value, se, self.level))
        for k, i in enumerate(rows if self.profile is not None else ()):
            assert self.profile is not None
            found = self.profile(int(self.order[i]), int(self.order[at])) if i != at else None
            if found is not None:
                se[k] = np.nan
                for column, end in zip((columns[0], *columns[2:]), found, strict=True):
                    column[k] = self.unit * end
        keys = ("name", "difference", "se", "lower", "upper")
        listed = zip((self.names[i] for i in rows), *(column.tolist() for column in columns), strict=True)
        return [dict(zip(keys, row, strict=True)) for row in listed]

    @cached_property
    def quasi_variances(self) -> QuasiVariances | None:
        """One variance an item that stands for the errors of all differences; None where there is no such table."""
        return quasi_variances(self.covariance) if int(self.component.max()) == 0 else None


def normal_ends(value: FloatArray, se: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """The ends of a normal interval."""
    half = se * float(ndtri(0.5 + level / 2))
    return value - half, value + half
