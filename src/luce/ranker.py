"""`Ranker`: scorer, loss and trainer as one scikit-learn estimator."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from luce import losses, scorers
from luce.base import aligned, make_base
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, from_arrays
from luce.data.normalise import KINDS, normalise_within_queries
from luce.data.trec import document_names
from luce.errors import DataError, SettingError
from luce.losses.base import Loss
from luce.losses.joined import BothTargets, Joined
from luce.losses.partition import PartitionLikelihood
from luce.losses.probabilities import PairProbabilities, log_likelihoods, pair_probabilities, sample_rankings
from luce.losses.sizes import SizeModel
from luce.losses.top_lists import ListError
from luce.losses.topk_probability import topk_probability
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate
from luce.registry import canonical
from luce.scorers.cps import FittedCPS
from luce.training.coset import coset_log_likelihoods
from luce.training.projected import check_trainer_params
from luce.training.stream import LinearStream
from luce.training.train import Options, Trained, train
from luce.types import FloatArray, IntArray, Progress

__all__ = ["Ranker"]


def _learns_streams(ranker: Ranker) -> bool:
    """Whether `partial_fit` exists: scikit-learn wants a method that cannot work to be absent."""
    if canonical(ranker.scorer) != "linear":
        raise SettingError(f"partial_fit works with the linear scorer; this one is {ranker.scorer!r}: use fit.")
    return True


class Ranker(BaseEstimator):
    r"""Learn to rank documents within queries: any loss on any scorer.

    Minimises the mean loss a query plus $\frac{l2}{2}\|w\|^2$ on standardised features.

    Parameters
    ----------
    loss
        Name of a loss (`luce.losses.names()`) or a loss object. Not used where the scorer names an algorithm with a
        criterion of its own: adarank, coordinate_ascent, frank, linear_regression, random_forest, rankboost.
    scorer
        Name of a scorer (`luce.scorers.names()`).
    l2
        Strength of the penalty.
    max_iter, tol
        L-BFGS ends after `max_iter` iterations, or when one lowers the objective by less than `tol`, relatively; for
        the scorer `trees`, `max_iter` is the number of trees.
    metric, early_stopping
        Where validation data are given, the iterate that is best in `metric` is kept and `early_stopping` iterations
        without a better one end the training (None: never).
    trainer, learning_rate, schedule, batch_queries, max_epochs
        "auto" takes L-BFGS, and stochastic gradient descent where the loss samples its gradient; "lbfgs" or "sgd" say
        so. Descent makes `max_iter` steps of `learning_rate`, "constant" or falling as "sqrt" or "inverse", on
        `batch_queries` queries each (None: all); `max_epochs` passes over all queries instead, where it is given.
        "projected" and "projected_lbfgs" keep the parameters in the L1 ball of `trainer_params` (`radius`, `starts`,
        `nonnegative`): the first by stochastic gradient, a query at a time, halving `learning_rate` after each of
        `max_epochs` (None: 10).
    query_norm
        None, or "minmax" or "zscore": normalise each feature within each query, in training and prediction.
    warm_start
        Start from the scorer of the last fit; trees are added to its trees.
    base
        What trees are added to, and what `listwise` reranks: a fitted ranker, the path of a model, or `"column:NAME"`
        for a feature that is the score of today. It is saved in the model, and `predict` uses it.
    checkpoint
        Folder for checkpoints: an interrupted fit that is started again goes on from the last one.
    loss_params, scorer_params
        Parameters of the named loss and scorer.
    random_state
        Seed of everything random.

    Examples
    --------
    >>> import luce
    >>> from luce.data.simulate import simulate
    >>> data = simulate(queries=60, features=8, seed=0)
    >>> model = luce.Ranker(loss="pmop", l2=0.01).fit(data)
    >>> model.predict(data).shape == (data.n_rows,)
    True
    """

    def __init__(
        self,
        loss: str | Loss = "pmop",
        scorer: str = "linear",
        *,
        l2: float = 1e-2,
        max_iter: int = 100,
        tol: float = 1e-5,
        metric: str = "ndcg@10",
        early_stopping: int | None = 20,
        trainer: str = "auto",
        learning_rate: float = 0.1,
        schedule: str = "constant",
        batch_queries: int | None = None,
        max_epochs: int | None = None,
        query_norm: str | None = None,
        warm_start: bool = False,
        base: Ranker | str | Path | None = None,
        checkpoint: str | Path | None = None,
        loss_params: dict[str, Any] | None = None,
        scorer_params: dict[str, Any] | None = None,
        trainer_params: dict[str, Any] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.loss = loss
        self.scorer = scorer
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.metric = metric
        self.early_stopping = early_stopping
        self.trainer = trainer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_queries = batch_queries
        self.max_epochs = max_epochs
        self.query_norm = query_norm
        self.warm_start = warm_start
        self.base = base
        self.checkpoint = checkpoint
        self.loss_params = loss_params
        self.scorer_params = scorer_params
        self.trainer_params = trainer_params
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Groups | tuple[Any, ...] | None = None,
        query_weight: ArrayLike | None = None,
        comparisons: Comparisons | None = None,
        comparison_weight: float = 1.0,
        base_scores: ArrayLike | None = None,
        valid_base_scores: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from `Groups`, or from a matrix, labels and query ids (without ids, all rows are one query).

        `valid` is `Groups` or a tuple (X, y, qid). `query_weight` has one entry a query, in order of appearance.
        `comparisons` are pairs or ordered lists of rows of `X`, for losses that take them: they are joined with the
        grades, `comparison_weight` times as heavy, or stand alone where the grades are all equal. `base_scores` (and
        `valid_base_scores`) are scores of the rows to which trees are added, or which are reranked: no model can keep
        them, so that `predict` then needs those of its rows as well.
        """
        self._check_settings()
        loss = self._make_loss()
        data = self._groups(X, y, qid, query_weight, reset=True)
        target = None
        if comparisons is not None:
            loss = Joined(loss, comparison_weight)
            stated = comparisons if isinstance(X, Groups) else comparisons.moved(data.row_order)
            target = BothTargets(data.y, stated)
        checked_valid = None if valid is None else self._valid(valid)
        self.base_, self.on_scores_ = make_base(self.base), base_scores is not None
        options = replace(
            self._options(progress),
            base=self._base_scores(data, base_scores, not isinstance(X, Groups)),
            valid_base=None
            if checked_valid is None
            else self._base_scores(checked_valid, valid_base_scores, isinstance(valid, tuple)),
        )
        try:
            trained = train(
                scorers.get(self.scorer, **(self.scorer_params or {})),
                loss,
                self._normalised(data),
                None if checked_valid is None else self._normalised(checked_valid),
                options,
                target,
            )
        except ListError as error:
            raise error.named(data.query_ids.tolist(), document_names(data).tolist()) from None
        self._adopt(trained, data.y, data.offsets)
        return self

    def _adopt(self, trained: Trained, y: FloatArray, offsets: IntArray) -> None:
        """Take over what was trained on data with these labels."""
        self.scorer_ = trained.scorer
        self.loss_ = trained.loss.loss if isinstance(trained.loss, Joined) else trained.loss
        self.history_ = trained.history.as_dict()
        self.n_iter_ = max(len(trained.history.objective), 1)
        self._note_labels(y, offsets)
        self.__dict__.pop("stream_", None)

    def _options(self, progress: Progress | None) -> Options:
        return Options(
            l2=self.l2,
            max_iter=self.max_iter,
            tol=self.tol,
            metric=self.metric,
            patience=self.early_stopping,
            checkpoint=self.checkpoint,
            progress=progress,
            warm_start=getattr(self, "scorer_", None) if self.warm_start else None,
            trainer=self.trainer,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            batch_queries=self.batch_queries,
            max_epochs=self.max_epochs,
            trainer_params=self.trainer_params,
            seed=int(self._rng().integers(2**31)),
        )

    def _note_labels(self, y: FloatArray, offsets: IntArray) -> None:
        """What probabilities and metrics need of the training labels: the highest grade and the sizes of tiers."""
        self.max_grade_ = float(y.max())
        self.sizes_ = self.loss_.fit_sizes(y, offsets) if isinstance(self.loss_, PartitionLikelihood) else None

    @available_if(_learns_streams)
    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None, query_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from some more queries of a stream, in their order; for the linear scorer.

        The first call of a ranker that was never fitted starts from nothing; a fitted one starts anew as well, since
        a stream keeps moments and step sizes that `fit` does not have.
        """
        first = not hasattr(self, "stream_")
        if first:
            self._check_settings()
        data = self._normalised(self._groups(X, y, qid, query_weight, reset=first))
        if first:
            self.stream_ = LinearStream(data.n_features, self.l2)
            self.loss_ = self._make_loss()
        self.scorer_, self.loss_ = self.stream_.learn(data, self.loss_)
        self.base_, self.on_scores_ = None, False
        seen = getattr(self, "max_grade_", -np.inf)
        self._note_labels(data.y, data.offsets)
        self.max_grade_ = max(self.max_grade_, seen)
        return self

    @property
    def needs_queries(self) -> bool:
        """True where a score depends on the other documents of its query, so that `predict` needs query ids."""
        above = self.query_norm is not None or self.scorer_.needs_queries
        return above or (self.base_ is not None and self.base_.needs_queries)

    def predict(self, X: Any, *, qid: ArrayLike | None = None, base_scores: ArrayLike | None = None) -> FloatArray:
        """One score a row, higher is better, in the order of the rows of X."""
        check_is_fitted(self, "scorer_")
        if isinstance(X, Groups):
            self._check_features(X)
            return self._scores(X, base_scores)
        if self.needs_queries and qid is None:
            raise DataError("This model scores documents within their query; give qid (or Groups) to predict.")
        data = self._groups(X, None, qid if self.needs_queries else None, None, reset=False)
        return data.to_input_order(self._scores(data, base_scores, moved=True))

    def score(self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None) -> float:
        """Mean of `metric` over queries; its negative where lower is better, since scikit-learn maximises scores."""
        data = self._fitted_groups(X, y, qid)
        metric = get(self.metric)
        value = evaluate(self._scores(data), data, [metric]).means[metric.name]
        return value if metric.greater_is_better else -value

    def log_likelihood(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None, sizes: str = "fitted"
    ) -> FloatArray:
        """Log-probability of the labels of every query, for losses that are likelihoods.

        `sizes="fitted"` takes how large tiers are from the training data, `"model"` from the loss alone.
        """
        data = self._fitted_groups(X, y, qid)
        if isinstance(self.scorer_, FittedCPS):
            return coset_log_likelihoods(self.scorer_, self.loss_, self._normalised(data))
        return log_likelihoods(self.loss_, self._scores(data), data.y, data.offsets, self._sizes(sizes))

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
        self, X: Any, n: int = 100, *, qid: ArrayLike | None = None, sizes: str = "fitted"
    ) -> list[FloatArray]:
        """For every query n drawn outcomes, a row of labels each: higher is better, equal labels are ties."""
        data = self._fitted_groups(X, None, qid)
        scores, rng = self._utilities(data), self._rng()
        return [sample_rankings(self.loss_, scores[a:b], rng, n, self._sizes(sizes)) for a, b in pairwise(data.offsets)]

    def pairs(
        self, X: Any, *, qid: ArrayLike | None = None, samples: int = 2000, sizes: str = "fitted"
    ) -> list[PairProbabilities]:
        """Both kinds of chances for every query, with their standard errors."""
        data = self._fitted_groups(X, None, qid)
        scores, rng, model = self._utilities(data), self._rng(), self._sizes(sizes)
        return [pair_probabilities(self.loss_, scores[a:b], rng, samples, model) for a, b in pairwise(data.offsets)]

    def topk_probability(self, X: Any, k: int = 10, *, qid: ArrayLike | None = None) -> FloatArray:
        """The chance of every row to be among the first k of its query, in the order of the rows of X.

        For `listmle`, `topk_listmle` and the `hom` losses; see `luce.losses.topk_probability`.
        """
        data = self._fitted_groups(X, None, qid)
        scores = self._utilities(data)
        chances = [topk_probability(self.loss_, scores[a:b], k) for a, b in pairwise(data.offsets)]
        result = np.concatenate(chances)
        return result if isinstance(X, Groups) else data.to_input_order(result)

    def _utilities(self, data: Groups) -> FloatArray:
        """Scores that a likelihood can make probabilities of."""
        self._check_utilities()
        if isinstance(self.scorer_, FittedCPS):
            raise SettingError(
                "The scores of topk-cps are places in a ranking; draws and probabilities need utilities."
            )
        return self._scores(data)

    def _check_utilities(self) -> None:
        """Probabilities come from the loss, and mean something only where it is the loss that trained the scores."""
        own = (self.scorer_params or {}).get("objective") if canonical(self.scorer) == "trees" else None
        # A reranker is fitted on a power of its scores, which are in the unit of the base.
        if own is not None or scorers.has_own_criterion(self.scorer) or hasattr(self.scorer_, "kernel_table"):
            what = repr(self.scorer) if own is None else f"This model, trained by LightGBM's own objective {own!r},"
            raise SettingError(f"{what} is not trained on a likelihood; its scores have no probabilities.")

    def _fitted_groups(self, X: Any, y: Any, qid: Any) -> Groups:
        check_is_fitted(self, "scorer_")
        return self._groups(X, y, qid, None, reset=False)

    def _sizes(self, kind: str) -> SizeModel | None:
        """How large tiers are, for what needs the likelihood of the loss that the scores were trained on."""
        self._check_utilities()
        if kind not in ("fitted", "model"):
            raise SettingError(f"sizes is {kind!r}; it must be 'fitted' or 'model'.")
        return self.sizes_ if kind == "fitted" else None

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically; `luce.load` reads it."""
        from luce.model_file import save

        save(self, path)

    def _scores(self, data: Groups, base_scores: ArrayLike | None = None, moved: bool = False) -> FloatArray:
        base = self._base_scores(data, base_scores, moved)
        data = self._normalised(data)
        scores: FloatArray
        if hasattr(self.scorer_, "score_groups"):  # it sees relations between documents, and the base itself
            scores = self.scorer_.score_groups(data, base)
            return scores
        scores = self.scorer_.score(data.X, data.offsets)
        return scores if base is None else base + scores

    def _base_scores(self, data: Groups, given: ArrayLike | None, moved: bool) -> FloatArray | None:
        """The scores below those of the scorer, in the order of `data`; None where there are none."""
        if self.on_scores_ != (given is not None):
            what = "was trained on top of base_scores; give" if self.on_scores_ else "has no base_scores; leave out"
            raise DataError(f"This model {what} those of these rows (to predict, or with the validation data).")
        if given is not None and self.base_ is not None:
            raise SettingError("base and base_scores were both given; give one of them.")
        if given is not None:
            return aligned(given, data, moved)
        return None if self.base_ is None else self.base_.scores(data)

    def _normalised(self, data: Groups) -> Groups:
        if self.query_norm is None:
            return data
        return replace(data, X=normalise_within_queries(data.X, data.offsets, self.query_norm))

    def _make_loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            if self.loss_params:
                raise SettingError("loss_params goes with the name of a loss; here a loss object was given.")
            return self.loss
        loss = losses.get(self.loss, **(self.loss_params or {}))
        last = getattr(self, "loss_", None) if self.warm_start else None
        if last is not None and last.settings == loss.settings and last.name == loss.name:
            return loss.with_parameters(last.parameters)
        return loss

    def _check_settings(self) -> None:
        checks = (
            ("l2", self.l2, self.l2 >= 0, "a number of at least 0"),
            ("max_iter", self.max_iter, self.max_iter >= 0, "a whole number of at least 0"),
            (
                "max_epochs",
                self.max_epochs,
                self.max_epochs is None or self.max_epochs > 0,
                "None or a whole number above 0",
            ),
            ("tol", self.tol, self.tol > 0, "a number above 0"),
            ("query_norm", self.query_norm, self.query_norm in (None, *KINDS), "None, 'minmax' or 'zscore'"),
            (
                "early_stopping",
                self.early_stopping,
                self.early_stopping is None or self.early_stopping > 0,
                "None or a whole number above 0",
            ),
        )
        for name, value, good, allowed in checks:
            if not good:
                raise SettingError(f"{name} is {value!r}; it must be {allowed}.")
        check_trainer_params(self.trainer, self.trainer_params)

    def _rng(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(self.random_state.randint(2**31))
        return np.random.default_rng(self.random_state)

    def _valid(self, valid: Groups | tuple[Any, ...]) -> Groups:
        if isinstance(valid, Groups):
            self._check_features(valid)
            return valid
        if not isinstance(valid, tuple) or len(valid) != 3:
            raise DataError("valid must be Groups or a tuple (X, y, qid).")
        return self._groups(valid[0], valid[1], valid[2], None, reset=False)

    def _groups(self, X: Any, y: Any, qid: Any, query_weight: Any, *, reset: bool) -> Groups:
        """Whatever was given as validated groups; notes or checks the features."""
        if isinstance(X, Groups):
            if y is not None or qid is not None:
                raise DataError("Groups carry their labels and query ids; give neither y nor qid with them.")
            data = X if query_weight is None else _with_weight(X, query_weight)
            if not reset:
                self._check_features(data)
                return data
            self._note_features(data.feature_names)
        else:
            matrix, labels = self._validated(X, y, reset)
            names = getattr(self, "feature_names_in_", ())
            more: dict[str, Any] = {"feature_names": list(names), "allow_nan": scorers.takes_missing(self.scorer)}
            data = from_arrays(matrix, labels, qid=qid, query_weight=query_weight, **more)
        if reset:
            self.feature_names_ = data.feature_names
        return data

    def _note_features(self, names: tuple[str, ...]) -> None:
        """What later data are checked against."""
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if not all(name.isdigit() for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.feature_names_ = names

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        how: dict[str, Any] = {"dtype": np.float32, "order": "C", "reset": reset}
        how["ensure_all_finite"] = "allow-nan" if scorers.takes_missing(self.scorer) else True
        if y is None and not reset:
            return validate_data(self, X, **how), None
        matrix, labels = validate_data(self, X, y, y_numeric=True, **how)
        return matrix, labels

    def _check_features(self, data: Groups) -> None:
        if data.n_features != self.n_features_in_:
            raise DataError(
                f"The data have {data.n_features} features and the model was trained on {self.n_features_in_}; "
                "give the same features in the same order."
            )
        if hasattr(self, "feature_names_in_") and data.feature_names != tuple(self.feature_names_in_):
            pairs = zip(data.feature_names, self.feature_names_in_, strict=True)
            given, expected = next((a, b) for a, b in pairs if a != b)
            raise DataError(
                f"The data have a feature {given!r} where the model was trained on {expected!r}; "
                "give the same features in the same order."
            )

    def __sklearn_clone__(self) -> Self:
        # A clone is not fitted, its base is: it is part of the settings, as a path to it would be.
        settings = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        copy = type(self)(**{**settings, "base": self.base})
        if hasattr(self, "_metadata_request"):
            copy._metadata_request = deepcopy(self._metadata_request)
        return copy

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.input_tags.allow_nan = scorers.takes_missing(self.scorer)
        return tags


def _with_weight(data: Groups, query_weight: Any) -> Groups:
    return replace(data, query_weight=np.asarray(query_weight, dtype=np.float64))
