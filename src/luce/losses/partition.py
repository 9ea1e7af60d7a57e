"""What the likelihoods over ordered partitions share: stages, sizes of tiers, probabilities and draws."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import heard, whole
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED, Likelihood, Outputs, Target, as_labels, check_scores
from luce.losses.races import checked_cut, checked_gain, cut_at_random, gain_weights, refuse_weighed
from luce.losses.tier_sizes import SizeModel, Stages, orient, stages
from luce.numerics.segments import Tiers, tiers
from luce.types import FloatArray, IntArray


class Pieces(NamedTuple):
    """Tiers of queries or of random pieces of them, the first piece of every query, and the weights of the stages.

    `weights` has one a tier, or none where all are 1.
    """

    tiers: Tiers
    firsts: IntArray
    weights: FloatArray


class PartitionLikelihood(Likelihood):
    r"""A likelihood over ordered partitions, $p(X_1, \dots, X_K) = \prod_k p_k(X_k \mid R_k)$.

    The chain of stages is [PMOP] (4), the choice of a tier among the non-empty subsets of what is left [PMOP] (5), the
    chain from the worst tier on [PMOP] (17), the log-likelihood [PMOP] (12).

    Every probability exists in two forms. Without `sizes` it is that of the model. With a fitted `SizeModel`
    $p_k(X_k) = P_k(|X_k| \mid N_k)\, p_k(X_k \mid |X_k|)$: how large a tier is follows the training data, who is in it
    follows the model. In the model alone sizes follow the binomial coefficients, about half of what is left, almost
    whatever the scores.

    What all of them take: `cut`, with `seed`, parts longer queries into random pieces of at most so many documents,
    each a query of its own; all documents are kept. `tier_gain`, a base b > 1, weighs stage k by
    $|b^{y_k} - b^{y_{k+1}}|$, the difference of the gains of its grade and that of the next stage (the last one has
    none, and counts nothing): a composite likelihood, for those who are judged by NDCG, without a `log_prob`.
    """

    knows_tiers = True
    direction: str = "forward"
    tier_gain: float | None = None
    cut: int | None = None
    seed: int = 0

    def _set_stages(self, tier_gain: float | None, cut: int | None, seed: int) -> None:
        """Take how stages are weighed, and into how long pieces queries are cut; None is all alike, and whole."""
        self.tier_gain, self.cut = checked_gain(self.name, tier_gain), checked_cut(self.name, cut)
        self.seed = whole("seed", seed, 0)
        heard(self.name, {"seed": (seed, 0)}, cut is not None or self.stochastic, "cut, whose pieces it draws")
        self.ordinal = tier_gain is None
        if cut is not None:
            self.permutation_invariant = False

    @property
    def _stage_settings(self) -> dict[str, Any]:
        gain = {} if self.tier_gain is None else {"tier_gain": self.tier_gain}
        return gain | ({} if self.cut is None else {"cut": self.cut, "seed": self.seed})

    def prepare(self, target: Target, offsets: IntArray) -> Tiers | Pieces:
        """Tiers of equal label, in the order of the stages, of queries or of their pieces."""
        labels = as_labels(self, target, offsets)
        oriented = orient(self.direction) * labels
        if self.cut is None:
            made, firsts = tiers(oriented, offsets), np.arange(len(offsets))
            if self.tier_gain is None:
                return made
        else:
            made, firsts = cut_at_random(oriented, offsets, self.cut, self.seed)
        return Pieces(made, firsts, gain_weights(self.name, self.tier_gain, labels, made))

    def fill(self, prepared: Tiers | Pieces, scores: FloatArray, out: Outputs) -> None:
        """One value a query, the sum over its pieces where it is cut."""
        if isinstance(prepared, Tiers):
            self._fill(prepared, scores, NOT_WANTED, out)
            return
        firsts = prepared.firsts[out.chunk[0] : out.chunk[1] + 1]
        pieces = (int(firsts[0]), int(firsts[-1]))
        values = np.empty(pieces[1] - pieces[0])
        self._fill(prepared.tiers, scores, prepared.weights, out._replace(chunk=pieces, values=values))
        out.values[:] = np.add.reduceat(values, firsts[:-1] - firsts[0])

    @abstractmethod
    def _fill(self, prepared: Tiers, scores: FloatArray, weights: FloatArray, out: Outputs) -> None:
        """`Loss.fill` for whole queries; `weights` has one a tier, or none where all are 1."""

    def fit_sizes(self, labels: ArrayLike, offsets: ArrayLike | None = None) -> SizeModel:
        """The sizes of tiers in training data, for the probabilities of this loss."""
        return SizeModel.fit(labels, offsets, self.direction)

    def log_prob(self, scores: ArrayLike, target: Target, sizes: SizeModel | None = None) -> float:
        """Log-probability of an ordered partition of one query, constants included."""
        refuse_weighed(self.name, self.tier_gain)
        f = check_scores(scores)
        offsets = np.array([0, len(f)])
        cut = tiers(orient(self.direction) * as_labels(self, target, offsets), offsets)
        stage = stages(cut)
        if sizes is None:
            return self._log_prob(f, cut, stage)
        self._check(sizes)
        return float(np.sum(sizes.log_prob(stage))) + self._log_prob_given_sizes(f, cut, stage)

    def sample(self, scores: ArrayLike, rng: np.random.Generator, sizes: SizeModel | None = None) -> FloatArray:
        """Draw an ordered partition of one query, as labels: higher is better."""
        result: FloatArray = self.sample_many(scores, rng, 1, sizes)[0]
        return result

    def sample_many(
        self, scores: ArrayLike, rng: np.random.Generator, n: int, sizes: SizeModel | None = None
    ) -> FloatArray:
        """Draw n ordered partitions of one query; a row of labels each."""
        f = check_scores(scores)
        if sizes is not None:
            self._check(sizes)
        tier = np.empty((n, len(f)), dtype=np.int64)
        if len(f):
            self._draw(orient(self.direction) * f, rng, tier, sizes)
        if self.direction == "backward":
            return tier.astype(np.float64)
        return (len(f) - tier).astype(np.float64)

    def _check(self, sizes: SizeModel) -> None:
        if sizes.direction != self.direction:
            raise SettingError(
                f"The sizes were fitted with direction={sizes.direction!r}, but {self!r} goes {self.direction}; "
                "fit them with loss.fit_sizes(labels, offsets)."
            )

    @abstractmethod
    def _log_prob(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        """Log-probability of the tiers of one query under the model."""

    @abstractmethod
    def _log_prob_given_sizes(self, scores: FloatArray, cut: Tiers, stage: Stages) -> float:
        """Log-probability of the tiers of one query, given the size of each."""

    @abstractmethod
    def _draw(self, scores: FloatArray, rng: np.random.Generator, tier: IntArray, sizes: SizeModel | None) -> None:
        """Fill `tier[s, i]`, the stage of item i in draw s; `scores` are oriented: higher goes first."""
