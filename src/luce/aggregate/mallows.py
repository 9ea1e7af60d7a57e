r"""Mallows' model and its generalisation: $P(\pi) \propto \phi^{d(\pi, c)}$ with Kendall's distance d to a centre c.

At stage j of a ranking, let $V_j$ be the number of items left that the centre prefers to the one that is picked. Then
$d = \sum_j V_j$, and under the model the $V_j$ are independent, $P(V_j = v) \propto \phi_j^v$ on 0, ..., n - j. So
likelihoods, samples and fits are exact, a top-k list is the first k stages, and a spread of its own for each stage
(Fligner and Verducci's generalised model) costs nothing more. Smaller phi is more concentrated.

A ballot with ties is the event that the ranking agrees with its tiers, what it leaves open being the last tier. Pairs
of different tiers count as they stand, and a tier of k items sums to $\prod_{c \le k} Z_c$ with
$Z_c = 1 + \dots + \phi^{c-1}$: $P = \phi^{d} \prod_t \prod_{c \le k_t} Z_c / \prod_{c \le n} Z_c$ with d the pairs of
different tiers that disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from luce.aggregate.ballots import Ballots
from luce.aggregate.kemeny import kemeny_order
from luce.aggregate.positional import before_weights
from luce.checks import fits_in_memory, whole
from luce.errors import DataError, SettingError
from luce.numerics.compiled import kernel
from luce.types import FloatArray, IntArray


@kernel
def _stages(tiers: NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
    """(ballots, n) each: V of the items of every tier, and how often the normaliser of every stage divides.

    Columns of `tiers` are in the centre's order. All n stages divide, and the i-th of the k items of a tier, in any
    order, gives back that of i choices; so does what is left open, -1, which is the last tier.
    """
    m, n = tiers.shape
    counts, divided = np.zeros((m, n)), np.ones((m, n))
    for b in range(m):
        left_open = 0
        for i in range(n):
            own = tiers[b, i]
            if own < 0:
                left_open += 1
                divided[b, n - left_open] -= 1.0
                continue
            preferred, choices = 0, 1
            for j in range(i):
                other = tiers[b, j]
                preferred += other < 0 or other > own
                choices += other == own
            counts[b, own] += preferred
            divided[b, n - choices] -= 1.0
    return counts, divided


@kernel
def orders_from_stages(stages: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rankings from stage counts: stage j picks the V_j-th of the items left, in the centre's order."""
    m, n = stages.shape
    orders = np.empty((m, n), dtype=np.int32)
    left = np.empty(n, dtype=np.int32)
    for b in range(m):
        for i in range(n):
            left[i] = i
        for j in range(n):
            v = stages[b, j]
            orders[b, j] = left[v]
            for i in range(v, n - j - 1):
                left[i] = left[i + 1]
    return orders


_LEAST_PHI = 1e-6
"""Where all ballots agree the likelihood grows without end as phi falls to 0; the fit stops here."""


def log_normaliser(phi: ArrayLike, n: int) -> FloatArray:
    r"""$\log Z_j$ for every stage j = 1, ..., n: $Z_j = 1 + \phi_j + \dots + \phi_j^{n-j}$.

    >>> import math
    >>> math.isclose(float(np.exp(log_normaliser(0.5, 3)).prod()), (1 + 0.5 + 0.25) * (1 + 0.5))
    True
    """
    fits_in_memory(24.0 * n**2, f"A Mallows model of {n:,} items", "take fewer items")
    spread = np.broadcast_to(np.asarray(phi, dtype=np.float64), n)
    powers = spread[:, None] ** np.arange(n)
    inside = np.arange(n)[None, :] < n - np.arange(n)[:, None]
    return np.asarray(np.log(np.where(inside, powers, 0.0).sum(axis=1)))


def _check_stages(ballots: Ballots, generalised: bool) -> None:
    """Refuse ties where stages differ, and more ballots than there is memory for."""
    if generalised and ballots.has_ties:
        raise DataError("A spread for every stage needs ballots without ties (complete or top-k lists); fit one phi.")
    m, n = ballots.tiers.shape
    fits_in_memory(32.0 * m * n, f"A Mallows model of {m:,} ballots of {n:,} items", "take fewer ballots or items")


@dataclass(frozen=True, eq=False)
class Mallows:
    """A Mallows model: a centre and a spread phi in (0, 1], one number or one for each of the n - 1 stages.

    >>> model = Mallows("abc", 0.5)
    >>> round(float(np.exp(model.log_prob(Ballots.from_orders(["acb"], items="abc"))[0])), 4)   # 0.5 / (1.75 * 1.5)
    0.1905
    """

    centre: tuple[str, ...]
    phi: float | FloatArray

    def __post_init__(self) -> None:
        centre = tuple(map(str, self.centre))
        if len(set(centre)) != len(centre) or not centre:
            raise DataError("The centre of a Mallows model must be a ranking: every item once.")
        phi = np.asarray(self.phi, dtype=np.float64)
        if phi.ndim > 1 or (phi.ndim == 1 and len(phi) != len(centre) - 1):
            raise SettingError(f"phi needs one number, or {len(centre) - 1} for as many stages; got shape {phi.shape}.")
        if not ((phi > 0) & (phi <= 1)).all():
            raise SettingError(f"phi is {self.phi}; it must be above 0 and at most 1 (1 is no preference at all).")
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "phi", float(phi) if phi.ndim == 0 else phi)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.centre)

    @property
    def spreads(self) -> FloatArray:
        """Phi of every stage; the last stage has one item and no choice."""
        if isinstance(self.phi, float):
            return np.full(self.n_items, self.phi)
        return np.append(self.phi, 1.0)

    def log_prob(self, ballots: Ballots) -> FloatArray:
        """Log-probability of every different ballot.

        Of a top-k list it is the probability that the ranking starts so, and of a ballot with ties that it agrees.
        """
        _check_stages(ballots, not isinstance(self.phi, float))
        counts, divided = _stages(ballots.tiers[:, np.argsort(_ranks(self.centre, ballots.items))])
        return np.asarray(counts @ np.log(self.spreads) - divided @ log_normaliser(self.spreads, self.n_items))

    def log_likelihood(self, ballots: Ballots) -> float:
        """Weighted sum of the log-probabilities."""
        return float(ballots.weights @ self.log_prob(ballots))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """(size, n): rankings as item numbers of the centre (0 is its first), best first; exact, stage by stage."""
        size, n, spreads = whole("size", size, 1), self.n_items, self.spreads
        _drawn_fit(size, n)
        uniform, choices = rng.random((size, n)), np.arange(n, 0, -1)
        even = spreads > 1 - 1e-9  # the geometric series is flat there, and log phi no divisor
        base = np.log(np.where(even, 0.5, spreads))
        # V_j by inverting the distribution function of a truncated geometric variable.
        geometric = np.log1p(uniform * np.expm1(choices * base)) / base
        stages = np.where(even, uniform * choices, geometric).astype(np.int32)
        # Rounding must not reach the end.
        return np.asarray(orders_from_stages(np.minimum(stages, choices - 1).astype(np.int32)))

    def ballots(self, size: int, rng: np.random.Generator, items: Sequence[str] | None = None) -> Ballots:
        """`size` sampled rankings as ballots; `items` fixes the order of their columns."""
        names = tuple(map(str, items)) if items is not None else tuple(sorted(self.centre))
        rank = _ranks(self.centre, names)
        tiers = np.argsort(self.sample(size, rng), axis=1)[:, rank]
        return Ballots(names, tiers.astype(np.int32), np.ones(size))

    def position_probabilities(self) -> FloatArray:
        """(n, n): the probability that item i of the centre stands on position p.

        Exact in O(n^3): follow an item's place among those left, stage by stage; it is picked there, or moves up by one
        when something above it is.
        """
        n = self.n_items
        fits_in_memory(48.0 * n**2, f"The chances of {n:,} items on as many positions", "take fewer items")
        probability = np.exp(
            np.arange(n)[None, :] * np.log(self.spreads)[:, None] - log_normaliser(self.spreads, n)[:, None]
        )
        result = np.zeros((n, n))
        alive = np.eye(n)  # alive[i, r]: item i is the r-th of those left (from 0) and was not picked yet
        for stage in range(n):
            choices = n - stage
            pick = probability[stage, :choices]
            result[:, stage] = alive[:, :choices] @ pick
            above = np.concatenate([[0.0], np.cumsum(pick)[:-1]])  # picked from above r: the item moves up
            stay = 1.0 - above - pick
            moved = np.zeros_like(alive)
            moved[:, : choices - 1] = alive[:, : choices - 1] * stay[: choices - 1] + alive[:, 1:choices] * above[1:]
            alive = moved
        return result


def _ranks(centre: Sequence[str], items: Sequence[str]) -> IntArray:
    """The place in the centre of every column."""
    place = {name: i for i, name in enumerate(centre)}
    if set(place) != set(items):
        odd = sorted(set(place) ^ set(items))[0]
        raise DataError(f"The centre and the ballots must rank the same items; {odd!r} is in only one of them.")
    return np.array([place[name] for name in items], dtype=np.int64)


def _drawn_fit(size: int, n: int) -> None:
    """Refuse more rankings than there is memory for."""
    fits_in_memory(40.0 * size * n, f"A draw of {size:,} rankings of {n:,} items", "draw fewer rankings at a time")


def fit_mallows(ballots: Ballots, *, generalised: bool = False, **options: Any) -> Mallows:
    """Maximum likelihood: the centre is Kemeny's ranking (exact; options as for that rule), phi solves one equation.

    With `generalised=True` there is a phi a stage, and the centre is improved by single moves from Kemeny's, a local
    optimum. Ballots may be complete, top-k lists or, with one phi, have ties.
    """
    n = ballots.n_items
    fits_in_memory(48.0 * n**2, f"A Mallows model of {n:,} items", "take fewer items")
    if n < 2:
        raise DataError("A Mallows model needs at least two items.")
    _check_stages(ballots, generalised)
    centre = kemeny_order(before_weights(ballots), **options).order
    phi: float | FloatArray
    if generalised:
        centre, phi = _improve_centre(ballots, centre)
    else:
        totals, chances = _stage_totals(ballots, centre)
        phi = _solve_phi(float(totals.sum()), chances)
    return Mallows(tuple(ballots.items[i] for i in centre), phi)


def _stage_totals(ballots: Ballots, centre: IntArray) -> tuple[FloatArray, FloatArray]:
    """Weighted sums of V_j, and the weight of the ballots that have a stage j."""
    counts, divided = _stages(ballots.tiers[:, centre])
    return ballots.weights @ counts, ballots.weights @ divided


def _solve_phi(total: float, chances: FloatArray) -> float:
    """The phi whose expected sum of V_j, over the stages that were reached, is the observed one."""
    grid = np.arange(len(chances))
    inside = grid[None, :] < len(grid) - grid[:, None]

    def surplus(phi: float) -> float:
        mass = np.where(inside, phi ** grid[None, :], 0.0)
        return float(chances @ ((mass @ grid) / mass.sum(axis=1))) - total

    if surplus(1.0) <= 0:
        return 1.0
    if surplus(_LEAST_PHI) >= 0:
        return _LEAST_PHI
    return float(brentq(surplus, _LEAST_PHI, 1.0, xtol=1e-14, rtol=1e-12))


def _improve_centre(ballots: Ballots, centre: IntArray) -> tuple[IntArray, FloatArray]:
    """Single moves of an item while the likelihood of the generalised model grows."""
    best, phi = _generalised(ballots, centre)
    n = len(centre)
    improved = True
    while improved:
        improved = False
        for start in range(n):
            for place in range(n):
                if place == start:
                    continue
                trial = np.insert(np.delete(centre, start), place, centre[start])
                value, spread = _generalised(ballots, trial)
                if value > best + 1e-9 * max(1.0, abs(best)):
                    centre, best, phi, improved = trial, value, spread, True
    return centre, phi


def _generalised(ballots: Ballots, centre: IntArray) -> tuple[float, FloatArray]:
    """The log-likelihood of the best phi of every stage, and those phi."""
    totals, chances = _stage_totals(ballots, centre)
    each = zip(totals[:-1], np.diag(chances)[:-1], strict=True)
    spreads = np.array([*(_solve_phi(*stage) for stage in each), 1.0])
    value = float(totals @ np.log(spreads) - chances @ log_normaliser(spreads, len(centre)))
    return value, spreads[:-1]


@dataclass(frozen=True, eq=False)
class MallowsMixture:
    """Mallows models with weights that sum to 1."""

    weights: FloatArray
    components: tuple[Mallows, ...]

    def __post_init__(self) -> None:
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.components),) or not len(weights):
            raise SettingError(f"{len(self.components)} components need as many weights; got shape {weights.shape}.")
        if (weights < 0).any() or not np.isclose(weights.sum(), 1.0):
            raise SettingError("The weights of a mixture must be at least 0 and sum to 1.")
        if any(set(c.centre) != set(self.components[0].centre) for c in self.components):
            raise SettingError("The components of a mixture must rank the same items.")
        object.__setattr__(self, "weights", weights)

    def _joint(self, ballots: Ballots) -> FloatArray:
        each = np.stack([component.log_prob(ballots) for component in self.components], axis=1)
        with np.errstate(divide="ignore"):
            return each + np.log(self.weights)

    def log_prob(self, ballots: Ballots) -> FloatArray:
        """Log-probability of every different ballot."""
        return np.asarray(logsumexp(self._joint(ballots), axis=1))

    def log_likelihood(self, ballots: Ballots) -> float:
        """Weighted sum of the log-probabilities."""
        return float(ballots.weights @ self.log_prob(ballots))

    def responsibilities(self, ballots: Ballots) -> FloatArray:
        """(ballots, components): the probability that a ballot comes from a component."""
        joint = self._joint(ballots)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))

    def sample(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Rankings (item numbers of the sorted names, best first) and the component of each."""
        names = sorted(self.components[0].centre)
        _drawn_fit(size, len(names))
        origin = rng.choice(len(self.weights), size=size, p=self.weights)
        orders = np.empty((size, len(names)), dtype=np.int32)
        for k, component in enumerate(self.components):
            mine = np.flatnonzero(origin == k)
            if len(mine):
                number = np.array([names.index(name) for name in component.centre], dtype=np.int32)
                orders[mine] = number[component.sample(len(mine), rng)]
        return orders, origin

    def ballots(self, size: int, rng: np.random.Generator) -> Ballots:
        """Sampled rankings as ballots over the sorted names."""
        orders, _ = self.sample(size, rng)
        return Ballots(
            tuple(sorted(self.components[0].centre)), np.argsort(orders, axis=1).astype(np.int32), np.ones(size)
        )

    def position_probabilities(self) -> FloatArray:
        """(n, n): the probability that an item, by sorted name, stands on a position."""
        names = sorted(self.components[0].centre)
        total = np.zeros((len(names), len(names)))
        for weight, component in zip(self.weights, self.components, strict=True):
            rows = [component.centre.index(name) for name in names]
            total += weight * component.position_probabilities()[rows]
        return total


def fit_mixture(
    ballots: Ballots,
    n_components: int,
    rng: np.random.Generator,
    *,
    starts: int = 5,
    max_iter: int = 200,
    tol: float = 1e-8,
    generalised: bool = False,
    **options: Any,
) -> MallowsMixture:
    """Maximum likelihood by expectation and maximisation, the best of several random starts.

    Each start takes different ballots, drawn by weight, as first centres. A maximisation step fits each component to
    the ballots weighted by its responsibilities; Kemeny's ranking is exact there, so the likelihood never falls (with
    `generalised=True` a component keeps its old parameters where its local search would lower its part).
    """
    if n_components < 1 or n_components > ballots.n_ballots:
        raise SettingError(
            f"n_components is {n_components}; it must be between 1 and {ballots.n_ballots} different ballots."
        )
    starts, max_iter = whole("starts", starts, 1), whole("max_iter", max_iter, 1)
    best, best_value = _start(ballots, n_components, rng), -np.inf
    for _ in range(starts):
        mixture = _start(ballots, n_components, rng)
        value = mixture.log_likelihood(ballots)
        for _ in range(max_iter):
            mixture = _step(ballots, mixture, generalised, options)
            new = mixture.log_likelihood(ballots)
            if new - value <= tol * max(1.0, abs(value)):
                value = new
                break
            value = new
        if value > best_value:
            best, best_value = mixture, value
    order = np.argsort(-best.weights, kind="stable")
    return MallowsMixture(best.weights[order], tuple(best.components[k] for k in order))


def _start(ballots: Ballots, k: int, rng: np.random.Generator) -> MallowsMixture:
    rows = rng.choice(ballots.n_ballots, size=k, replace=False, p=ballots.weights / ballots.total)
    centres = []
    for row in rows:
        # What a top-k list leaves open follows in random order.
        keys = np.where(ballots.tiers[row] >= 0, ballots.tiers[row], ballots.n_items) + rng.random(ballots.n_items) / 2
        centres.append(Mallows(tuple(ballots.items[i] for i in np.argsort(keys)), 0.5))
    return MallowsMixture(np.full(k, 1.0 / k), tuple(centres))


def _step(ballots: Ballots, mixture: MallowsMixture, generalised: bool, options: dict[str, Any]) -> MallowsMixture:
    share = mixture.responsibilities(ballots) * ballots.weights[:, None]
    components = []
    for k, old in enumerate(mixture.components):
        rows = share[:, k] > 1e-12 * ballots.total
        if not rows.any():
            components.append(old)
            continue
        mine = ballots.take(rows, share[rows, k])
        new = fit_mallows(mine, generalised=generalised, **options)
        components.append(new if new.log_likelihood(mine) >= old.log_likelihood(mine) else old)
    weights = share.sum(axis=0)
    return MallowsMixture(weights / weights.sum(), tuple(components))
