"""What the likelihoods over ordered partitions share: stages, sizes of tiers, probabilities and draws."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.losses.base import Likelihood, Target, as_labels, check_scores
from luce.losses.tier_sizes import SizeModel, Stages, orient, stages
from luce.numerics.segments import Tiers, tiers
from luce.types import FloatArray, IntArray

__all__ = ["PartitionLikelihood"]


class PartitionLikelihood(Likelihood):
    r"""A likelihood over ordered partitions, $p(X_1, \dots, X_K) = \prod_k p_k(X_k \mid R_k)$.

    The chain of stages is [PMOP] (4), the choice of a tier among the non-empty subsets of what is left [PMOP] (5), the
    chain from the worst tier on [PMOP] (17), the log-likelihood [PMOP] (12).

    Every probability exists in two forms. Without `sizes` it is that of the model. With a fitted `SizeModel`
    $p_k(X_k) = P_k(|X_k| \mid N_k)\, p_k(X_k \mid |X_k|)$: how large a tier is follows the training data, who is in it
    follows the model. In the model alone sizes follow the binomial coefficients, about half of what is left, almost
    whatever the scores.
    """

    direction: str = "forward"

    def prepare(self, target: Target, offsets: IntArray) -> Tiers:
        """Tiers of equal label, in the order of the stages."""
        return tiers(orient(self.direction) * as_labels(self, target, offsets), offsets)

    def fit_sizes(self, labels: ArrayLike, offsets: ArrayLike | None = None) -> SizeModel:
        """The sizes of tiers in training data, for the probabilities of this loss."""
        return SizeModel.fit(labels, offsets, self.direction)

    def log_prob(self, scores: ArrayLike, target: Target, sizes: SizeModel | None = None) -> float:
        """Log-probability of an ordered partition of one query, constants included."""
        f = check_scores(scores)
        cut = self.prepare(target, np.array([0, len(f)]))
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
