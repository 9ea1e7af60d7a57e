"""The driver of likelihoods that go stage by stage, tier after tier from what is left; and ordered partitions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError, SettingError
from luce.losses.base import NOT_WANTED, Likelihood, Outputs, Target, as_labels, check_scores
from luce.losses.tier_sizes import SizeModel, Stages, orient, stages
from luce.numerics.segments import Tiers, query_index, tiers
from luce.spec import option
from luce.types import FloatArray, IntArray


class Races(NamedTuple):
    """Tiers that are ordered among themselves: of queries, of random pieces of them, or of lists.

    Tier t holds the rows `order[starts[t]:starts[t + 1]]`; race r owns the tiers `races[r]` to `races[r + 1]`, best
    first; query q owns the races `queries[q]` to `queries[q + 1]` and the rows `offsets[q]` to `offsets[q + 1]` of the
    data. `weights` has one a tier, or none where all are 1.
    """

    order: IntArray
    starts: IntArray
    races: IntArray
    queries: IntArray
    offsets: IntArray
    weights: FloatArray


class StageLoss(Likelihood):
    r"""A likelihood that goes stage by stage over the tiers of a query, and how its stages are weighed and cut.

    A loss of this kind gives `stage`, how unlikely it is that a tier is taken from what is left, and `sample`. One that
    has a kernel over all stages of a query gives `fill` in its place.

    Parameters
    ----------
    tier_gain
        A base b > 1 weighs stage k by $|b^{y_k} - b^{y_{k+1}}|$, the difference of the gains of its grade and that of
        the next stage (the last one has none, and counts nothing): a composite likelihood, for those who are judged by
        NDCG, without a `log_prob`. None weighs all alike.
    cut
        Cuts longer queries into random pieces of at most so many documents, each a query of its own. All documents are
        kept. None takes queries whole.
    seed
        Of the cuts, and of a drawn order.

    >>> import luce
    >>> class Breslow(StageLoss):
    ...     name = "breslow"
    ...     def stage(self, f, size):
    ...         log_share = f - np.logaddexp.reduce(f)
    ...         chosen = 1.0 * (np.arange(len(f)) < size)
    ...         share = np.exp(log_share)
    ...         return -log_share[:size].sum(), size * share - chosen, size * share * (1.0 - share)
    ...     def sample(self, scores, rng):
    ...         return np.argsort(np.argsort(scores + rng.gumbel(size=len(scores)))) + 1.0
    >>> ours, luces = Breslow(), luce.losses.get("plackett_luce", ties="breslow")
    >>> [round(loss.value_and_grad([0.3, 0.0, -0.5], [1, 1, 0])[0], 6) for loss in (ours, luces)]
    [1.867937, 1.867937]
    """

    _: KW_ONLY
    cut: int | None = option(default=None, least=2)
    seed: int = option(
        default=0, least=0, below=2**64, needs=(lambda loss: loss._draws, "cut or ties='random', which draw")
    )
    tier_gain: float | None = option(default=None, above=1)

    @property
    def _draws(self) -> bool:
        return self.cut is not None or self.stochastic

    def _check(self) -> None:
        self.ordinal = self.tier_gain is None
        self.permutation_invariant = self.permutation_invariant and self.cut is None

    def prepare(self, target: Target, offsets: IntArray) -> Races:
        """Tiers of equal label, in the order of the stages, of queries or of their pieces."""
        labels = as_labels(self, target, offsets)
        return self._races(orient(getattr(self, "direction", "forward")) * labels, labels, offsets)

    def stage(self, f: FloatArray, size: int) -> tuple[float, FloatArray, FloatArray]:
        """-log P that the first `size` of what is left are taken, with slope and curvature of all that are left."""
        raise SettingError(f"The loss {self.name!r} goes stage by stage, and has neither a method stage nor fill.")

    def fill(self, prepared: Races, scores: FloatArray, out: Outputs) -> None:
        """One value a query, the sum over its races, stage by stage."""
        order, starts, weights = prepared.order, prepared.starts, prepared.weights
        for number, q in enumerate(range(*out.chunk)):
            own = slice(prepared.offsets[q], prepared.offsets[q + 1])
            out.values[number], out.grad[own], out.curvature[own] = 0.0, 0.0, 0.0
            for race in range(prepared.queries[q], prepared.queries[q + 1]):
                begin, end = prepared.races[race], prepared.races[race + 1]
                for k in range(begin, end):
                    left, weight = order[starts[k] : starts[end]], weights[k] if len(weights) else 1.0
                    value, slopes, bends = self.stage(scores[left], int(starts[k + 1] - starts[k]))
                    out.values[number] += weight * value
                    out.grad[left] += weight * slopes
                    if len(out.curvature):
                        out.curvature[left] += weight * bends

    def _races(self, keys: FloatArray, labels: FloatArray, offsets: IntArray) -> Races:
        """Tiers of equal key, of queries or of their pieces."""
        if self.cut is None:
            made, firsts = tiers(keys, offsets), np.arange(len(offsets))
        else:
            made, firsts = cut_at_random(keys, offsets, self.cut, self.seed)
        return Races(*made, firsts, offsets, gain_weights(self.name, self.tier_gain, labels, made))

    def _refuse_weighed(self) -> None:
        """Refuse probabilities where stages are weighed."""
        if self.tier_gain is not None:
            raise SettingError(
                f"{self.name}(tier_gain={self.tier_gain:g}) weighs its stages, so that it is no probability; leave "
                "tier_gain out for one."
            )

    def log_prob(self, scores: ArrayLike, target: Target) -> float:
        """Log-probability of the tiers of one query, where the stages are probabilities."""
        self._refuse_weighed()
        return -self._changed(cut=None).value_and_grad(scores, target)[0]


class PartitionLikelihood(StageLoss):
    r"""A likelihood over ordered partitions, $p(X_1, \dots, X_K) = \prod_k p_k(X_k \mid R_k)$.

    The chain of stages is [PMOP] (4), the choice of a tier among the non-empty subsets of what is left [PMOP] (5), the
    chain from the worst tier on [PMOP] (17), the log-likelihood [PMOP] (12).

    Every probability exists in two forms. Without `sizes` it is that of the model. With a fitted `SizeModel`
    $p_k(X_k) = P_k(|X_k| \mid N_k)\, p_k(X_k \mid |X_k|)$: how large a tier is follows the training data, who is in it
    follows the model. In the model alone sizes follow the binomial coefficients, about half of what is left, almost
    whatever the scores.
    """

    knows_tiers = True
    direction: Literal["forward", "backward"] = field(default="forward", init=False)

    def fit_sizes(self, labels: ArrayLike, offsets: ArrayLike | None = None) -> SizeModel:
        """The sizes of tiers in training data, for the probabilities of this loss."""
        return SizeModel.fit(labels, offsets, self.direction)

    def log_prob(self, scores: ArrayLike, target: Target, sizes: SizeModel | None = None) -> float:
        """Log-probability of an ordered partition of one query, constants included."""
        self._refuse_weighed()
        f = check_scores(scores)
        offsets = np.array([0, len(f)])
        made = tiers(orient(self.direction) * as_labels(self, target, offsets), offsets)
        cut, stage = Races(*made, np.arange(2), offsets, NOT_WANTED), stages(made)
        if sizes is None:
            return self._log_prob(f, cut, stage, given=False)
        self._check_sizes(sizes)
        return float(np.sum(sizes.log_prob(stage))) + self._log_prob(f, cut, stage, given=True)

    def sample_many(
        self, scores: ArrayLike, rng: np.random.Generator, n: int, sizes: SizeModel | None = None
    ) -> FloatArray:
        """Draw n ordered partitions of one query; a row of labels each."""
        f = check_scores(scores)
        if sizes is not None:
            self._check_sizes(sizes)
        tier = np.empty((n, len(f)), dtype=np.int64)
        if len(f):
            self._draw(orient(self.direction) * f, rng, tier, sizes)
        if self.direction == "backward":
            return tier.astype(np.float64)
        return (len(f) - tier).astype(np.float64)

    def _check_sizes(self, sizes: SizeModel) -> None:
        if sizes.direction != self.direction:
            raise SettingError(
                f"The sizes were fitted with direction={sizes.direction!r}, but {self!r} goes {self.direction}; "
                "fit them with loss.fit_sizes(labels, offsets)."
            )

    @abstractmethod
    def _log_prob(self, scores: FloatArray, cut: Races, stage: Stages, given: bool) -> float:
        """Log-probability of the tiers of one query under the model, or `given` the size of each."""

    @abstractmethod
    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        """Fill `tier[s, i]`, the stage of item i in draw s; `scores` are oriented: higher goes first."""


def cut_at_random(labels: FloatArray, offsets: IntArray, cut: int, seed: int) -> tuple[Tiers, IntArray]:
    """Tiers of random pieces of the queries, at most `cut` documents each, and the first piece of every query.

    All documents are kept, each in one piece; the pieces of a query are as long as one another, or one longer.

    >>> pieces, firsts = cut_at_random(np.arange(5.0), np.array([0, 5]), 2, seed=0)
    >>> sorted(pieces.order.tolist()), firsts.tolist(), np.diff(pieces.starts[pieces.queries]).tolist()
    ([0, 1, 2, 3, 4], [0, 3], [2, 2, 1])
    """
    sizes = np.diff(offsets)
    counts = -(-sizes // cut)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    query = query_index(firsts)
    piece = np.arange(firsts[-1]) - firsts[query]
    lengths = sizes[query] // counts[query] + (piece < sizes[query] % counts[query])
    draws = np.random.default_rng(seed).random(len(labels))
    draws = np.where(np.repeat(counts == 1, sizes), 0.0, draws)  # a whole query stays as it is
    rows = np.lexsort((draws, query_index(offsets)))
    made = tiers(labels[rows], np.concatenate([[0], np.cumsum(lengths)]))
    return made._replace(order=rows[made.order]), firsts


def gain_weights(name: str, base: float | None, labels: FloatArray, cut: Tiers) -> FloatArray:
    """Of every tier, how far the gain base^y of its grade is from that of the next stage; 0 for the last of a query.

    Without a base there are no weights.

    >>> labels = np.array([0.0, 2, 1, 1, 0, 0])
    >>> gain_weights("pmop", 2.0, labels, tiers(labels, np.array([0, 4, 6]))).tolist()
    [2.0, 1.0, 0.0, 0.0]
    """
    if base is None:
        return np.empty(0)
    grades = labels[cut.order[cut.starts[:-1]]]
    if np.abs(grades).max(initial=0) * np.log(base) > 300:
        raise DataError(f"{name}(tier_gain={base:g}): the highest grade is {labels.max():g}, too high for gains.")
    gains = base**grades
    weights = np.append(np.abs(np.diff(gains)), 0.0)
    weights[cut.queries[1:] - 1] = 0.0
    return weights
