"""`Ranker`: scorer, loss and trainer as one scikit-learn estimator."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from luce import losses, scorers
from luce.base import make_base
from luce.data.clicks import Clicks
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.normalise import KINDS
from luce.data.trec import document_names
from luce.errors import DataError, RowsError, SettingError
from luce.losses.base import Loss
from luce.losses.grades_and_clicks import with_clicks
from luce.losses.grades_and_comparisons import BothTargets, GradesAndComparisons
from luce.losses.partition import PartitionLikelihood
from luce.metrics.catalog import get
from luce.metrics.evaluate import evaluate
from luce.ranker.chances import Chances
from luce.registry import canonical
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


class Ranker(Chances):
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
        so. Descent makes `max_iter` steps of `learning_rate` (None: 0.1), "constant" or falling as "sqrt" or
        "inverse", on `batch_queries` queries each (None: all); `max_epochs` passes over all queries instead, where it
        is given. "projected" and "projected_lbfgs" keep the parameters in the L1 ball of `trainer_params` (`radius`,
        `starts`, `nonnegative`, `keep`): the first by stochastic gradient, a query at a time, from `learning_rate`
        (None: one that fits the gradients at the start), which is halved after each of `max_epochs` (None: 10) and
        once more after one that raises the objective, which is undone.
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
        learning_rate: float | None = None,
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
        clicks: Clicks | None = None,
        clicks_weight: float = 1.0,
        base_scores: ArrayLike | None = None,
        valid_base_scores: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from `Groups`, or from a matrix, labels and query ids (without ids, all rows are one query).

        `valid` is `Groups` or a tuple (X, y, qid). `query_weight` has one entry a query, in order of appearance.
        `comparisons` are pairs or ordered lists of rows of `X`, for losses that take them: they are joined with the
        grades, `comparison_weight` times as heavy, or stand alone where the grades are all equal. `clicks` (of
        `luce.clicks`) are learned from by `click_choice`, joined with the grades in the same way by `clicks_weight`.
        `base_scores` (and `valid_base_scores`) are scores of the rows to which trees are added, or which are reranked:
        no model can keep them, so that `predict` then needs those of its rows as well.
        """
        self._check_settings()
        loss = self._make_loss()
        data = self._groups(X, y, qid, query_weight, reset=True)
        target: Any = None
        if comparisons is not None:
            loss = GradesAndComparisons(loss, comparison_weight)
            stated = comparisons if isinstance(X, Groups) else comparisons.moved(data.row_order)
            target = BothTargets(data.y, stated)
        if clicks is not None:
            loss, target = with_clicks(loss, data, clicks, clicks_weight, target, isinstance(X, Groups))
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
        except RowsError as error:
            raise error.named(data.query_ids.tolist(), document_names(data).tolist()) from None
        self._adopt(trained, data.y, data.offsets)
        return self

    def _adopt(self, trained: Trained, y: FloatArray, offsets: IntArray) -> None:
        """Take over what was trained on data with these labels."""
        self.scorer_ = trained.scorer
        self.loss_ = trained.loss.loss if isinstance(trained.loss, GradesAndComparisons) else trained.loss
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

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, atomically; `luce.load` reads it."""
        from luce.model_file import save

        save(self, path)

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
