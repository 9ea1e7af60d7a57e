r"""Sets of k documents under the hierarchical models whose normaliser has no closed form: all of them, or draws.

`hom_og` gives a set T of k documents a weight $P_{TF}$ that does not factorise over its members, [HOM] (7). A
distribution that does, $q(T) \propto \prod_{i \in T} w_i$ with $|T| = k$, is drawn exactly, and its normaliser and its
chances $\pi$ of each document are elementary symmetric polynomials (`luce.numerics.symmetric`). The $w$ are those of a
mean field: what a member adds to $\log P_{TF}$ where every other document is in T with its chance $\pi$, by a fixed
point. The draws are then weighed by $P_{TF} / q$. At 100 documents and k = 10 more than half of the draws are effective
for scores of any spread that was tried, and mostly nine in ten. `hom_oo` needs no draws (`luce.losses.one_one`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logsumexp, softmax

from luce.errors import LuceWarning
from luce.losses.one_one import ProductLaw, greatest_spread
from luce.losses.top_lists import GROUP_GROUP, ONE_GROUP, ONE_ONE
from luce.types import BoolArray, FloatArray, IntArray

_ROUNDS = 20
_FEW = 100.0
"""Effective draws below which a standard error is not to be trusted."""
_AT_ONCE = 1 << 21
"""Documents of sets that are looked at together."""
_PROPOSALS = 50
"""Steps of a chain of independent proposals, of which the last state is a draw."""


class AllSets:
    """The law of sets of k documents, [HOM] (6) or (7), by enumeration; `luce.losses.one_one.OneOneLaw` has the same.

    `log_total` is the log of the sum of the weights of all sets, `slopes` its gradient in the scores, `spread` not less
    than the diagonal of its Hessian, and `chance` that of every document to be in the set.
    """

    def __init__(self, kind: int, scores: FloatArray, k: int) -> None:
        self.members, logs = all_sets(partial(log_between, kind), scores, k)
        self.probability, self.log_total = softmax(logs), float(logsumexp(logs))
        inside = indicators(self.members, len(scores)).astype(np.float64)
        self.chance: FloatArray = self.probability @ inside
        self.slopes = mean_slopes(kind, scores, inside, self.probability)
        lost = expit(scores[None, :] - scores[:, None]).sum(axis=1) - 0.5
        self.spread = greatest_spread(self.slopes, lost, k, np.inf if kind == ONE_ONE else 1.0)

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """(count, k) documents."""
        return self.members[rng.choice(len(self.members), count, p=self.probability)]


class WeighedSets(NamedTuple):
    """Sets (draws, k) drawn from q, log P_TF / q of each, and the chance of every document to be in a set under q."""

    members: IntArray
    log_weight: FloatArray
    chance: FloatArray

    @property
    def weight(self) -> FloatArray:
        """The weights, with mean 1."""
        return np.exp(self.log_weight - self.log_normaliser[0])

    @property
    def effective(self) -> float:
        """How many draws from the model itself would be as good."""
        return float(len(self.log_weight) / np.mean(self.weight**2))

    @property
    def log_normaliser(self) -> tuple[float, float]:
        """Log of the sum of P_TF over all sets of k documents, and its standard error."""
        count = len(self.log_weight)
        value = float(logsumexp(self.log_weight)) - np.log(count)
        return value, float(np.std(np.exp(self.log_weight - value)) / np.sqrt(count))

    def inclusion(self) -> tuple[FloatArray, FloatArray]:
        """The chance of every document to be in T, and its standard error.

        The chances under q are known, and the same draws estimate them: what they miss there is taken off here. To the
        error half a draw is added, since a chance that was never seen is not known without error.
        """
        inside, weight = indicators(self.members, len(self.chance)).astype(np.float64), self.weight
        probability = weight @ inside / len(weight) + (self.chance - inside.mean(axis=0))
        spread = weight[:, None] * (inside - probability) - (inside - self.chance)
        error = np.hypot(spread.std(axis=0) / np.sqrt(len(weight)), 0.5 / self.effective)
        least = 0.25 / self.effective  # no set is impossible, though none may be seen
        chance = np.clip(probability, least, 1.0 - least)
        # What is cut off is shared out in proportion to the room of each, so that chances sum to k.
        missing = self.members.shape[1] - float(chance.sum())
        room = 1.0 - chance if missing > 0 else chance
        return chance + room * (missing / max(float(room.sum()), 1e-300)), error

    def pairs(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Chances of each pair: that neither is in T, and that the first is before the second (inside T, by Luce)."""
        inside = indicators(self.members, len(self.chance)).astype(np.float64)
        both = inside.T @ (self.weight[:, None] * inside) / len(inside)
        single = np.diag(both)
        before = single[:, None] - both + both * expit(scores[:, None] - scores[None, :])
        outside = 1.0 - single[:, None] - single[None, :] + both
        np.fill_diagonal(before, 0.0)
        np.fill_diagonal(outside, 1.0)
        return np.clip(outside, 0.0, 1.0), np.clip(before, 0.0, 1.0)


def weighed_sets(scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> WeighedSets:
    """Weighted draws of T under `hom_og`, for 1 <= k < n; where few are effective, a `LuceWarning` says so.

    >>> sets = weighed_sets(np.zeros(6), 2, np.random.default_rng(0), 500)
    >>> round(float(np.exp(sets.log_normaliser[0])) * 25, 9)  # 15 sets, each of two documents of chance 1/5
    15.0
    """
    q = _mean_field(scores, k)
    members = q.draw(draws, rng)
    sets = WeighedSets(members, _log_ratio(scores, q, members), q.chance)
    if sets.effective < _FEW:
        warnings.warn(
            f"Of {draws} draws of the top {k} of {len(scores)} documents only {sets.effective:.0f} are effective, "
            "since the scores are far apart; chances and their errors are rough: draw more.",
            LuceWarning,
            stacklevel=3,
        )
    return sets


def _log_ratio(scores: FloatArray, q: ProductLaw, members: IntArray) -> FloatArray:
    """Log P_TF / q of sets."""
    return log_between(ONE_GROUP, scores, indicators(members, len(scores))) - q.log_prob(members)


def draw_sets(scores: FloatArray, k: int, rng: np.random.Generator, count: int) -> IntArray:
    """(count, k) draws from `hom_og`: of each chain of independent proposals from q (Metropolis) the last state."""
    q = _mean_field(scores, k)
    members = q.draw(count, rng)
    logs = _log_ratio(scores, q, members)
    for _ in range(_PROPOSALS):
        other = q.draw(count, rng)
        other_logs = _log_ratio(scores, q, other)
        moved = np.log(rng.random(count)) < other_logs - logs
        members[moved], logs[moved] = other[moved], other_logs[moved]
    return members


def indicators(members: IntArray, n: int) -> BoolArray:
    """(sets, n): True where a document is in the set."""
    inside = np.zeros((len(members), n), dtype=bool)
    np.put_along_axis(inside, members, True, axis=1)
    return inside


def log_between(kind: int, scores: FloatArray, inside: BoolArray) -> FloatArray:
    """Log P_TF of sets, a row each that is True inside T; [HOM] (5), and not normalised [HOM] (6), (7)."""
    if kind == ONE_ONE:  # a sum over members and one over pairs of them: each beats all, but not each other
        wins = log_expit(scores[:, None] - scores[None, :])
        np.fill_diagonal(wins, 0.0)
        alone, together = wins.sum(axis=1), -(wins + wins.T)
        within = np.einsum("ri,ri->r", inside @ together, inside, dtype=np.float64)
        return np.asarray(inside @ alone + 0.5 * within)
    if kind == GROUP_GROUP:
        return np.asarray(logsumexp(np.where(inside, scores, -np.inf), axis=1) - logsumexp(scores))
    outside = logsumexp(np.where(inside, -np.inf, scores), axis=1)
    return np.asarray(np.where(inside, log_expit(scores - outside[:, None]), 0.0).sum(axis=1))


FirstLayer = Callable[[FloatArray, BoolArray], FloatArray]
"""Log of a weight for each set of documents: scores (n), and a row (n) that is True inside T for each set."""


def every_set(n: int, k: int) -> IntArray:
    """Every set of k of n documents, a row each, in lexicographic order."""
    return np.fromiter(chain.from_iterable(combinations(range(n), k)), dtype=np.int64).reshape(-1, k)


def all_sets(layer: FirstLayer, scores: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Every set of k documents, in lexicographic order, and the log-weight of each, such as log P_TF (unnormalised)."""
    n = len(scores)
    members, some = every_set(n, k), max(1, _AT_ONCE // n)
    cuts = range(0, len(members), some)
    return members, np.concatenate([layer(scores, indicators(members[a : a + some], n)) for a in cuts])


def mean_slopes(kind: int, scores: FloatArray, inside: FloatArray, weight: FloatArray) -> FloatArray:
    """The mean of the gradient of log P_TF over sets that weigh so much; sets are rows, 1 for a document in T.

    Where the sets are all there are, and weigh P_TF over its sum, that is the gradient of the log of this sum.
    """
    if kind == ONE_ONE:
        apart = inside.T @ (weight[:, None] * (1.0 - inside))  # the chance that i is in T and j in F
        loses = apart * expit(scores[None, :] - scores[:, None])
        return np.asarray(loses.sum(axis=1) - loses.sum(axis=0))
    left = 1.0 - inside
    phi = np.exp(scores - scores.max())
    rest = left @ phi
    if rest.min() < 1e-250:  # scores so far apart that F is nothing beside T in some set
        outside = logsumexp(np.where(inside > 0, -np.inf, scores), axis=1)[:, None]
        loses = inside * expit(outside - scores)
        share = np.exp(np.where(inside > 0, -np.inf, scores - outside))
        return np.asarray(weight @ (loses - share * loses.sum(axis=1, keepdims=True)))
    lost = inside * (rest[:, None] / (rest[:, None] + phi))
    return np.asarray(weight @ lost - phi * ((weight * lost.sum(axis=1) / rest) @ left))


def _mean_field(f: FloatArray, k: int) -> ProductLaw:
    chance = np.full(len(f), k / len(f))
    phi = np.exp(np.maximum(f - f.max(), -600.0))
    for _ in range(_ROUNDS):
        # A member leaves the sum over F, in its own denominator and, to first order, in those of the others.
        rest = max(float((1.0 - chance) @ phi), 1e-300)
        q = ProductLaw.of(np.log(phi / (phi + rest)) + phi * float(np.sum(chance / (phi + rest))), k)
        chance = 0.5 * (chance + q.chance)
    return q
