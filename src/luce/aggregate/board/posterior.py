"""`Posterior`: strengths with their covariance, and what follows: errors, intervals, ranks, tiers, differences."""

from __future__ import annotations

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

    @staticmethod
    def of(
        names: Sequence[str],
        strength: FloatArray,
        covariance: FloatArray,
        component: IntArray,
        level: float,
        *,
        sets: RankSets | np.random.Generator | FloatArray,
        ends: tuple[FloatArray, FloatArray] | None = None,
        unknown: NDArray[np.bool_] | IntArray | None = None,
    ) -> Posterior:
        """Items in any order, put in order of strength.

        `sets` are the rank sets, or what they come from: deviations, or the source of normal ones. Intervals are normal
        unless their `ends` are given; `unknown` items have neither errors nor intervals.
        """
        se = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        lower, upper = normal_ends(strength, se, level) if ends is None else ends
        if unknown is not None:
            se, lower, upper = (values.copy() for values in (se, lower, upper))
            se[unknown] = lower[unknown] = upper[unknown] = np.nan
        if not isinstance(sets, RankSets):
            drawn = draw_normal(covariance, RANK_DRAWS, sets) if isinstance(sets, np.random.Generator) else sets
            sets = rank_sets(strength, covariance, drawn, component, level)
        order = np.lexsort((np.array(names), -strength, component))
        both = np.ix_(order, order)
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
            sets=RankSets(sets.lower[order], sets.upper[order], sets.surely_better[both]),
            order=order,
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
        )

    @property
    def components(self) -> list[list[str]]:
        """Items that can be compared with each other, the largest component first."""
        groups: list[list[str]] = [[] for _ in range(int(self.component.max()) + 1)]
        for name, c in zip(self.names, self.component, strict=True):
            groups[c].append(name)
        return groups

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
