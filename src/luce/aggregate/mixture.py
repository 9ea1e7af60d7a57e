"""Mixtures of Mallows models, fitted by expectation and maximisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from luce.aggregate.ballots import Ballots
from luce.aggregate.mallows import Mallows, fit_mallows
from luce.errors import SettingError
from luce.types import FloatArray


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
        result: FloatArray = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return result

    def sample(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Rankings (item numbers of the sorted names, best first) and the component of each."""
        names = sorted(self.components[0].centre)
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
    if starts < 1 or max_iter < 1:
        raise SettingError("starts and max_iter must be at least 1.")
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
