"""What a fitted ranker says of probabilities: of labels, of pairs, of ties, of whole rankings and of the top k."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from luce.checks import generator, whole
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Likelihood, Loss
from luce.losses.chances import PairProbabilities, TopKChances, pairs_of_draws
from luce.losses.tier_sizes import SizeModel
from luce.ranker.intake import Intake
from luce.types import FloatArray


class Probabilities(Intake):
    """The methods of `Ranker` that make probabilities of its scores, by the loss that trained them."""

    loss_: Loss | None
    sizes_: SizeModel | None
    random_state: int | np.random.RandomState | np.random.Generator | None

    def log_likelihood(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sizes: str = "fitted",
        comparisons: Comparisons | None = None,
    ) -> FloatArray:
        """Log-probability of the labels of every query, for losses that are likelihoods.

        `sizes="fitted"` takes how large tiers are from the training data, `"model"` from the loss alone. With ordered
        lists of rows as `comparisons` it is that of every list, those of the first query first.
        """
        from luce.losses.probabilities import list_likelihoods, log_likelihoods

        check_is_fitted(self, "scorer_")
        if comparisons is None:
            data = self._judged_groups(X, y, qid, several=False)
            if self._by_stages:
                return self._stage_likelihoods(self._normalised(data))
            return log_likelihoods(self._likelihood(), self._scores(data), data.y, data.offsets, self._sizes(sizes))
        data = self._groups(X, y, qid, None, reset=False)
        lists, model = comparisons if data is X else comparisons.moved(data.row_order), self._sizes(sizes)
        if self._by_stages:
            seen, each = self._normalised(data), lists.one_by_one(data.offsets)
            return np.array([self._stage_likelihoods(seen.take([q]), one)[0] for q, one in each])
        return list_likelihoods(self._likelihood(), self._scores(data), lists, data.offsets, model)

    def pair_probability(
        self, X: Any, *, qid: ArrayLike | None = None, samples: int = 2000, sizes: str = "fitted"
    ) -> list[FloatArray]:
        """For every query a matrix: entry (i, j) is the chance that its i-th document is better than its j-th.

        The documents of a query are in the order in which their rows stand in X.
        """
        return [pairs.before for pairs in self.pairs(X, qid=qid, samples=samples, sizes=sizes)]

    def tie_probability(
        self, X: Any, *, qid: ArrayLike | None = None, samples: int = 2000, sizes: str = "fitted"
    ) -> list[FloatArray]:
        """For every query a matrix: entry (i, j) is the chance that its i-th and j-th document are tied."""
        return [pairs.tie for pairs in self.pairs(X, qid=qid, samples=samples, sizes=sizes)]

    def sample_rankings(
        self, X: Any, n: int = 100, *, qid: ArrayLike | None = None, sizes: str = "fitted", k: int | None = None
    ) -> list[FloatArray]:
        """For every query n drawn outcomes, a row of labels each: higher is better, equal labels are ties.

        `k` is the length of the top that a top-k loss draws, where it is not that of the training.
        """
        from luce.losses.probabilities import of_length, sample_rankings

        data = self._fitted_groups(X, None, qid)
        rng, model = self._rng(), self._sizes(sizes)
        if self._by_stages:
            return [self.scorer_.sample_many(X, rng, n) for X in self._lists_of(data)]
        loss, scores = self._likelihood(), self._scores(data)
        loss = loss if k is None else of_length(loss, k)
        return [sample_rankings(loss, scores[a:b], rng, n, model) for a, b in pairwise(data.offsets)]

    def pairs(
        self, X: Any, *, qid: ArrayLike | None = None, samples: int = 2000, sizes: str = "fitted"
    ) -> list[PairProbabilities]:
        """Both kinds of chances for every query, with their standard errors."""
        from luce.losses.probabilities import pair_probabilities

        data = self._fitted_groups(X, None, qid)
        rng, model = self._seeded(), self._sizes(sizes)
        if self._by_stages:
            return [pairs_of_draws(self.scorer_.sample_many(X, rng, samples)) for X in self._lists_of(data)]
        loss, scores = self._likelihood(), self._scores(data)
        return [pair_probabilities(loss, scores[a:b], rng, samples, model) for a, b in pairwise(data.offsets)]

    def topk_probability(self, X: Any, k: int = 10, *, qid: ArrayLike | None = None) -> FloatArray:
        """The chance of every row to be among the first k of its query, in the order of the rows of X.

        For Luce's model, the `hom` losses and `topk-cps`; `topk_chances` has the standard errors as well.
        """
        return self.topk_chances(X, k, qid=qid).probability

    def topk_chances(self, X: Any, k: int = 10, *, qid: ArrayLike | None = None, draws: int = 4000) -> TopKChances:
        """The same with standard errors, one a row: 0 where a chance is exact, and else from `draws` draws a query.

        `topk-cps` is drawn stage by stage, `hom_oo` and `hom_og` beyond enumeration by weighted sets; the field `draws`
        of the result is 0 where nothing was drawn.
        """
        from luce.losses.probabilities import topk_chances

        data = self._fitted_groups(X, None, qid)
        loss = self._likelihood()
        k, draws, rng = whole("k", k, 1), whole("draws", draws, 2), self._seeded()
        if self._by_stages:
            found = [_staged(self.scorer_, X, k, rng, draws) for X in self._lists_of(data)]
        else:
            scores = self._scores(data)
            found = [topk_chances(loss, scores[a:b], k, rng, draws) for a, b in pairwise(data.offsets)]
        probability, error = (np.concatenate([each[i] for each in found]) for i in (0, 1))
        if not isinstance(X, Groups):
            probability, error = data.to_input_order(probability), data.to_input_order(error)
        return TopKChances(probability, error, max(each.draws for each in found))

    @property
    def _by_stages(self) -> bool:
        """Whether the scorer has a likelihood of its own, stage by stage (`luce.scorers.cps`)."""
        return hasattr(self.scorer_, "draw_many")

    def _stage_likelihoods(self, data: Groups, lists: Comparisons | None = None) -> FloatArray:
        from luce.training.coset_objective import coset_log_likelihoods  # few models need it

        return coset_log_likelihoods(self.scorer_, self._likelihood(), data, lists)

    def _lists_of(self, data: Groups) -> Iterator[NDArray[np.float32]]:
        """The features of one query after the other, as the scorer sees them."""
        X = self._normalised(data).X
        return (X[a:b] for a, b in pairwise(data.offsets))

    def _likelihood(self) -> Loss:
        """The loss that trained the scores; only where there is one do they have probabilities."""
        # A reranker is fitted on a power of its scores, which are in the unit of the base.
        if self.loss_ is None or hasattr(self.scorer_, "kernel_table"):
            raise SettingError(
                f"This model, {self.parts_.title}, is not trained on a likelihood; its scores have no probabilities."
            )
        loss = self.trained_loss.likelihood
        if isinstance(loss, Likelihood) and loss.composite:
            warnings.warn(
                f"{loss.name!r} was trained without its normaliser, so that its probabilities are not those of the "
                "training; loss__normalised=True takes it in.",
                LuceWarning,
                stacklevel=4,
            )
        return loss

    @property
    def trained_loss(self) -> Loss:
        """The loss with its learned parameters; an error where a criterion of its own trained the model."""
        if self.loss_ is None:
            raise SettingError(f"This model, {self.parts_.title}, has a criterion of its own and no loss.")
        return self.loss_

    def _sizes(self, kind: str) -> SizeModel | None:
        """How large tiers are, for what needs the likelihood of the loss that the scores were trained on."""
        self._likelihood()
        if kind not in ("fitted", "model"):
            raise SettingError(f"sizes is {kind!r}; it must be 'fitted' or 'model'.")
        return self.sizes_ if kind == "fitted" else None

    def _rng(self) -> np.random.Generator:
        return generator(self.random_state)

    def _seeded(self) -> np.random.Generator:
        """For chances, which are the same whenever they are asked for."""
        return generator(0 if self.random_state is None else self.random_state)


def _staged(scorer: Any, X: NDArray[np.float32], k: int, rng: np.random.Generator, draws: int) -> TopKChances:
    """The chances to be in the top k of a stagewise model: exact where all of a query is."""
    if k >= len(X):
        return TopKChances(np.ones(len(X)), np.zeros(len(X)), 0)
    _, chance = scorer.draw_many(X, k, rng, draws)
    return TopKChances(chance.mean(axis=0), chance.std(axis=0, ddof=1) / np.sqrt(draws), draws)
