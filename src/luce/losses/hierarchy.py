r"""Hierarchical ordering with any two layers, and riffled independence: the framework of [HOM] for few documents.

A top of k documents is made in two steps: which set T of k documents stands above the others, F, with probability
$P_{TF}$, then the order of T, with probability $P_T$. Anybody may write such a layer. Sets and orders are gone through
one by one, which is for few documents; the losses `hom_gg`, `hom_oo` and `hom_og` are three such models for many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from luce.checks import number, whole
from luce.errors import DataError, SettingError
from luce.losses.base import check_scores
from luce.losses.top_lists import GROUP_GROUP, ONE_GROUP, ONE_ONE
from luce.losses.top_sets import FirstLayer, every_set, indicators, log_between
from luce.types import FloatArray, IntArray

MOST = 100_000
"""Sets, or orders, that are gone through."""


FIRST_LAYERS: dict[str, FirstLayer] = {
    "group_to_group": partial(log_between, GROUP_GROUP),
    "one_to_one": partial(log_between, ONE_ONE),
    "one_to_group": partial(log_between, ONE_GROUP),
}
"""The share of T in the sum of e^f, [HOM] (5); each document of T beats each of F, (6), or F as a whole, (7)."""


@dataclass(frozen=True)
class LuceOrder:
    """Luce's model on T alone, [HOM] (8)."""

    def log_prob(self, ordered: FloatArray) -> float:
        """Sum over the places of the score there less the log of the sum of e^f from there on."""
        left = np.logaddexp.accumulate(ordered[::-1])[::-1]
        return float((ordered - left).sum())


@dataclass(frozen=True)
class MallowsOrder:
    r"""Mallows' model on T around the order of the scores.

    $$P_T(\sigma_T) = \theta^{d} \Big/ \prod_{i \le k} (1 + \theta + \dots + \theta^{i - 1})$$

    $d$ is the number of pairs of T that stand against their scores (a pair of equal scores is half of one), and
    $0 < \theta \le 1$ the spread: 1 makes all orders alike. The scores enter by their order only.

    >>> round(math.exp(MallowsOrder(0.5).log_prob(np.array([3.0, 1.0, 2.0]))), 12) == round(0.5 / (1.5 * 1.75), 12)
    True
    """

    spread: float = 0.5

    def __post_init__(self) -> None:
        number("spread", self.spread)
        if not 0 < self.spread <= 1:
            raise SettingError(f"spread is {self.spread}; it must be above 0 and at most 1.")

    def log_prob(self, ordered: FloatArray) -> float:
        """Of the documents of T in this order; with tied scores the weights are divided by their own sum."""
        distance = self._distance(ordered)
        if len(np.unique(ordered)) == len(ordered):
            powers = self.spread ** np.arange(len(ordered))
            return distance * math.log(self.spread) - float(np.log(np.cumsum(powers)).sum())
        _few(math.factorial(len(ordered)), "orders")
        every = np.array([self._distance(np.array(order)) for order in permutations(ordered)])
        return distance * math.log(self.spread) - float(logsumexp(every * math.log(self.spread)))

    @staticmethod
    def _distance(ordered: FloatArray) -> float:
        above = np.sign(ordered[None, :] - ordered[:, None])[np.triu_indices(len(ordered), 1)]
        return float((0.5 * (1.0 + above)).sum())


@dataclass(frozen=True)
class HierarchicalOrdering:
    r"""$P(\sigma) = P_{TF}(T \prec F)\, P_T(\sigma_T)$, [HOM] (4), with any two layers.

    Parameters
    ----------
    k
        Documents of T.
    first
        "group_to_group", "one_to_one" or "one_to_group", the layers of [HOM], or a function of one's own, of
        scores and sets, that gives log-weights. They are divided by their sum over all sets.
    second
        `LuceOrder()`, `MallowsOrder(spread)`, or any object with a `log_prob` of the scores of T, best document first.

    >>> model = HierarchicalOrdering(2, "one_to_one", MallowsOrder(0.5))
    >>> every = model.tops(3)
    >>> round(float(sum(math.exp(model.log_prob([0.3, 0.0, -0.5], top)) for top in every)), 12)
    1.0
    """

    k: int
    first: str | FirstLayer = "one_to_group"
    second: Any = LuceOrder()

    def __post_init__(self) -> None:
        whole("k", self.k, 1)
        if isinstance(self.first, str) and self.first not in FIRST_LAYERS:
            raise SettingError(f"first is {self.first!r}; it must be one of {', '.join(FIRST_LAYERS)}, or a function.")

    def sets(self, scores: ArrayLike) -> tuple[IntArray, FloatArray]:
        """All sets of k documents, a row each, and their probabilities."""
        f = check_scores(scores)
        k = min(self.k, len(f))
        _few(math.comb(len(f), k), f"sets of {k}")
        members = every_set(len(f), k)
        if k == len(f):
            return members, np.ones(1)
        layer = FIRST_LAYERS[self.first] if isinstance(self.first, str) else self.first
        logs = np.asarray(layer(f, indicators(members, len(f))), dtype=np.float64)
        if logs.shape != (len(members),) or np.isnan(logs).any() or not np.isfinite(logs.max()):
            raise SettingError("The first layer must give one log-weight a set, not NaN and not all of them -inf.")
        return members, softmax(logs)

    def tops(self, n: int) -> list[tuple[int, ...]]:
        """All tops of n documents, best first."""
        _few(math.perm(n, min(self.k, n)), "tops")
        return list(permutations(range(n), min(self.k, n)))

    def log_prob(self, scores: ArrayLike, top: Sequence[int]) -> float:
        """Log-probability of a top, given by its documents, best first."""
        f = check_scores(scores)
        named = np.asarray(top)
        if len(named) != min(self.k, len(f)) or len(set(top)) != len(top) or not set(top) <= set(range(len(f))):
            k = min(self.k, len(f))
            raise DataError(f"A top names {k} different documents of {len(f)}, from 0; got {list(top)}.")
        members, chances = self.sets(f)
        at = int(np.flatnonzero((members == np.sort(named)).all(axis=1))[0])
        with np.errstate(divide="ignore"):
            return float(np.log(chances[at]) + self.second.log_prob(f[named]))

    def inclusion(self, scores: ArrayLike) -> FloatArray:
        """The chance of every document to be in T; they sum to k."""
        members, chances = self.sets(scores)
        counted = np.bincount(members.ravel(), np.repeat(chances, members.shape[1]), minlength=len(np.asarray(scores)))
        return counted.astype(np.float64)

    def sample(self, scores: ArrayLike, rng: np.random.Generator, count: int) -> IntArray:
        """Draw (count, k) tops, best first: a set by the first layer, its order by the second."""
        f = check_scores(scores)
        members, chances = self.sets(f)
        _few(math.factorial(members.shape[1]), "orders")
        orders = np.array(list(permutations(range(members.shape[1]))))
        drawn = rng.choice(len(members), count, p=chances)
        tops = np.empty((count, members.shape[1]), dtype=np.int64)
        for which in np.unique(drawn):
            choices = members[which][orders]
            weights = softmax([self.second.log_prob(f[order]) for order in choices])
            here = drawn == which
            tops[here] = choices[rng.choice(len(choices), int(here.sum()), p=weights)]
        return tops


def _few(count: int, what: str) -> None:
    if count > MOST:
        raise SettingError(f"There are {count:.3g} {what}, more than the {MOST:,} that are gone through; take fewer.")


class Riffle(NamedTuple):
    """A distribution over orders, taken apart by a set A: interleavings and relative orders, each with its chance."""

    interleaving: dict[tuple[bool, ...], float]
    first: dict[tuple[int, ...], float]
    second: dict[tuple[int, ...], float]
    divergence: float
    """Kullback-Leibler, of the distribution from the product of its three parts: 0 for riffled independence."""


def riffle(orders: ArrayLike, chances: ArrayLike, group: Sequence[int]) -> Riffle:
    r"""Whether A and the other documents B are riffle independent.

    $$p(\pi) = m_{AB}(\tau_{AB}(\pi))\, f_A(\pi_A)\, g_B(\pi_B)$$

    is [HOM] (3): the interleaving of A and B, the order of A and the order of B are independent of each other.
    `orders` has the documents of every order in a row, best first. An interleaving says of each place whether a
    document of A stands there.

    >>> orders = np.array(list(permutations(range(3))))
    >>> round(riffle(orders, np.full(6, 1 / 6), [0, 1]).divergence, 12)
    0.0
    """
    rows, p = np.asarray(orders, dtype=np.int64), np.asarray(chances, dtype=np.float64)
    if rows.ndim != 2 or p.shape != (len(rows),) or (p < 0).any() or not math.isclose(p.sum(), 1.0, abs_tol=1e-9):
        raise DataError("riffle takes a row of documents for every order, and chances of the orders that sum to 1.")
    inside = np.isin(rows, list(group))
    keys = [
        (tuple(mine.tolist()), tuple(row[mine].tolist()), tuple(row[~mine].tolist()))
        for row, mine in zip(rows, inside, strict=True)
    ]
    parts: tuple[dict[tuple[int, ...], float], ...] = ({}, {}, {})
    for key, chance in zip(keys, p.tolist(), strict=True):
        for part, name in zip(parts, key, strict=True):
            part[name] = part.get(name, 0.0) + chance
    product = np.array([math.prod(part[name] for part, name in zip(parts, key, strict=True)) for key in keys])
    known = p > 0
    divergence = float((p[known] * np.log(p[known] / product[known])).sum())
    interleaving = {tuple(map(bool, name)): chance for name, chance in parts[0].items()}
    return Riffle(interleaving, parts[1], parts[2], max(divergence, 0.0))
