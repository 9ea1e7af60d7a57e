"""`Ranker`: loss, scorer, trainer and metric as one scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from luce.base import to_be_fitted
from luce.data.comparisons import Comparisons
from luce.data.groups import Groups, document_names
from luce.errors import DataError, LuceError, RowsError, SettingError
from luce.losses.grades_and_statements import BothTargets, GradesAndComparisons, with_clicks
from luce.ranker import fitting
from luce.ranker.columns import importance_shares, importance_table, query_weights, shown_as_html
from luce.ranker.intake import refuse_blind_search, rows_of
from luce.ranker.parts import PARTS, SHORT, Parts, choose, refuse_both_forms, unknown_parameter
from luce.registry import all_settings_of, unknown_setting, with_settings
from luce.settings import UNSET, Surroundings
from luce.spec import accepted
from luce.training.held_out import warn_of_overlap
from luce.training.task import Task
from luce.types import FloatArray, Progress

if TYPE_CHECKING:
    from luce.data.clicks import Clicks
    from luce.data.text.transformer import Text
    from luce.explanation import Explanation


def _learns_streams(ranker: Ranker) -> bool:
    """Whether `partial_fit` exists: scikit-learn wants a method that cannot work to be absent."""
    scorer = ranker.parts().scorer
    if scorer is None or scorer.name != "linear":
        raise SettingError("partial_fit works with the linear scorer; this ranker has another one: use fit.")
    return True


class Ranker(fitting.Fitting):
    r"""Learn to rank documents within queries: any loss on any scorer, by any trainer that suits them.

    Minimises the mean loss a query plus $\frac{l2}{2}\|w\|^2$ on standardised features.

    Loss, scorer, trainer and metric are each a name or an object with settings of its own. A setting is given with its
    part, `Ranker(loss="topk_listmle", loss__k=5, trainer__max_iter=50)`, here or by `set_params`, also where the part
    was named; the short forms below go to the part that takes them. What no part takes is refused by `fit`.

    Parameters
    ----------
    loss
        Name of a loss (`luce.losses.names()`), a loss, or a function (scores, labels) of one query that gives value and
        gradient. None is `pmop`, or no loss where scorer or trainer have a criterion of their own.
    scorer
        Name of a scorer (`luce.scorers.names()`) or a scorer. None is `linear`, or that of the algorithm.
    trainer
        Name of a trainer (`luce.training.names()`) or a trainer; "auto" takes the one that suits scorer and loss.
        Algorithms such as `rankboost` bring a scorer and a criterion of their own.
    metric
        Where validation data are given, what chooses the iterate that is kept; also that of `score`.
    l2, max_iter, max_epochs, tol, learning_rate, schedule, batch_queries
        Short forms of settings; None leaves that of the part.
    early_stopping
        The same for iterations without a better validation metric that end the training; None: never.
    query_norm
        None, or "minmax" or "zscore": normalise each feature within each query, in training and prediction.
    warm_start
        Start from the scorer of the last fit; trees are added to its trees.
    base
        What trees are added to, and what `listwise` reranks: a fitted ranker, a booster or fitted estimator of
        LightGBM or XGBoost (its trees, before any link), the path of a model of luce or of these, or `"column:NAME"`
        for a feature that is the score of today. It is saved in the model, and `predict` uses it. A ranker that is not
        fitted is fitted here, on the same data.
    base_folds
        Cross-fitting of the base: scores of training documents come from copies of it that are fitted on this data
        without the fold of their query. None: 5 for a base that is fitted here, and none for a fitted one, which is
        right where it was trained on other queries.
    checkpoint
        Folder for checkpoints: an interrupted fit that is started again goes on from the last one.
    text
        A `luce.Text`: texts of a data frame become features. It is fitted with the ranker and saved in the model.
    random_state
        Seed of everything random.
    **settings
        Settings of parts, as in `loss__k=5`.

    Examples
    --------
    >>> import luce
    >>> from luce.data.simulate import simulate
    >>> data = simulate(queries=60, features=8, seed=0)
    >>> model = luce.Ranker(loss="pmop", l2=0.01).fit(data)
    >>> model.predict(data).shape == (data.n_rows,)
    True
    """

    # Where scikit-learn routes metadata, query ids come to each of these without being asked for.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def __init__(
        self,
        loss: Any = None,
        scorer: Any = None,
        *,
        trainer: Any = "auto",
        metric: Any = "ndcg@10",
        l2: float | None = None,
        max_iter: int | None = None,
        max_epochs: int | None = None,
        tol: float | None = None,
        learning_rate: float | None = None,
        schedule: str | None = None,
        batch_queries: int | None = None,
        early_stopping: int | str | None = UNSET,
        query_norm: str | None = None,
        warm_start: bool = False,
        base: Ranker | str | Path | None = None,
        base_folds: int | None = None,
        checkpoint: str | Path | None = None,
        text: Text | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        **settings: Any,
    ) -> None:
        self.loss = loss
        self.scorer = scorer
        self.trainer = trainer
        self.metric = metric
        self.l2 = l2
        self.max_iter = max_iter
        self.max_epochs = max_epochs
        self.tol = tol
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_queries = batch_queries
        self.early_stopping = early_stopping
        self.query_norm = query_norm
        self.warm_start = warm_start
        self.base = base
        self.base_folds = base_folds
        self.checkpoint = checkpoint
        self.text = text
        self.random_state = random_state
        if settings:
            refuse_both_forms({**{name: getattr(self, name) for name in SHORT if self._is_set(name)}, **settings})
            self.set_params(**settings)

    def _is_set(self, short: str) -> bool:
        """Whether a short form was given."""
        value = getattr(self, short)
        return not isinstance(value, str) or value != UNSET if short == "early_stopping" else value is not None

    def parts(self) -> Parts:
        """Loss, scorer, trainer and metric as they were chosen; an error says what does not go together.

        They are chosen once, and again where a setting was changed since.
        """
        given = [getattr(self, name) for name in (*PARTS, *SHORT, "query_norm", "warm_start", "checkpoint")]
        before = vars(self).get("_chosen")
        if before is not None and all(one is other for one, other in zip(given, before[0], strict=True)):
            return before[1]
        short = {name: getattr(self, name) for name in SHORT if self._is_set(name)}
        accepted(Surroundings, {name: getattr(self, name) for name in ("query_norm", "warm_start", "checkpoint")})
        found = choose({part: getattr(self, part) for part in PARTS}, short)
        self._chosen = (given, found)
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings; with `deep` those of the parts too, as `trainer__max_iter`, also where the part was named."""
        own: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return own
        try:
            parts = self.parts()
        except LuceError:  # parts that cannot be made have no settings; `fit` says why
            return own
        found = {part: getattr(parts, part) for part in PARTS if getattr(parts, part) is not None}
        return own | {
            f"{name}__{key}": value for name, part in found.items() for key, value in all_settings_of(part).items()
        }

    def set_params(self, **params: Any) -> Self:
        """Change settings; `loss__k=5` changes one of a part, which from then on is an object."""
        own = super().get_params(deep=False)
        refuse_both_forms(params)
        nested: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            part, dunder, setting = name.partition("__")
            if dunder and part in PARTS:
                nested.setdefault(part, {})[setting] = value
            elif name in own:
                setattr(self, name, value)
            else:
                unknown = [each for each in params if each not in own and each.partition("__")[0] not in PARTS]
                raise unknown_parameter(unknown, own, {part: params.get(part, getattr(self, part)) for part in PARTS})
        for part, changes in nested.items():
            found = getattr(choose({name: getattr(self, name) for name in PARTS}, {}), part)
            if found is None:
                raise SettingError(
                    f"{part}__{next(iter(changes))} was given, and this ranker has no {part}; its trainer "
                    "or scorer has a criterion of its own."
                )
            setattr(self, part, with_settings(part, found, changes))
            for name in SHORT:
                if name in changes and part != "metric":  # what was said last is heard, not an older short form
                    setattr(self, name, UNSET if name == "early_stopping" else None)
        return self

    def fit(
        self,
        X: Any,
        y: ArrayLike | str | None = None,
        *,
        qid: ArrayLike | str | None = None,
        group: ArrayLike | None = None,
        valid: Any = None,
        query_weight: ArrayLike | None = None,
        comparisons: Comparisons | None = None,
        comparison_weight: float = 1.0,
        clicks: Clicks | None = None,
        clicks_weight: float = 1.0,
        valid_comparisons: Comparisons | None = None,
        base_scores: ArrayLike | None = None,
        valid_base_scores: ArrayLike | None = None,
        progress: Progress | None = None,
        callbacks: Sequence[Progress] = (),
        verbose: bool | int = False,
        **unknown: Any,
    ) -> Self:
        """Learn from `Groups`, or from features, labels and query ids (without ids, all rows are one query).

        X is an array, or a data frame as `luce.from_frame` takes it, of which `y` and `qid` may name columns:
        `fit(frame, "grade", qid="search")`. `group` instead of `qid` has the sizes of queries whose rows stand
        together. `valid` is `Groups`, a tuple (X, y, qid), or a frame with the same columns. `query_weight` has one
        entry a query, in order of appearance.
        `comparisons` are pairs or ordered lists of rows of `X`, for losses that take them: they are joined with the
        grades, `comparison_weight` times as heavy, or stand alone where the grades are all equal. `clicks` (of
        `luce.clicks`) are learned from by `click_choice`, joined with the grades in the same way by `clicks_weight`.
        `valid_comparisons` are ordered lists or pairs of rows of `valid` (or of `X` where there is none) that judge
        iterates in place of grades, each a query of its own; the metric `log_likelihood` is that of the loss, and pairs
        are judged by `pairwise_accuracy` unless it is named.
        `base_scores` (and `valid_base_scores`) are scores of the rows to which trees are added, or which are reranked:
        no model can keep them, so that `predict` then needs those of its rows as well.
        `verbose` shows progress, in notebooks, terminals and logs. `callbacks` (`progress` is one more) are called
        once a round with its number, the most rounds and a dict of values; one that gives True ends the training.
        """
        if unknown:  # words of other libraries are answered by those of this one
            taken = [p.name for p in signature(Ranker.fit).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
            raise unknown_setting("fit", unknown, taken[1:])
        parts = self.parts()
        refuse_blind_search(qid, group)
        fitting.refuse_alone(
            comparison_weight=(comparison_weight != 1.0, "comparisons", comparisons or getattr(X, "stated", None)),
            clicks_weight=(clicks_weight != 1.0, "clicks", clicks),
            valid_base_scores=(valid_base_scores is not None, "valid", valid),
        )
        data = self._groups(X, y, qid, query_weight, reset=True, group=group)
        comparisons = data.stated if comparisons is None else comparisons
        if valid_comparisons is None and isinstance(valid, Groups):
            valid_comparisons = valid.judges
        if comparisons is None and clicks is None:
            fitting.check_grades(data, parts)
        scorer = self._note_columns(data, parts)
        loss = self._started(parts.loss)
        target: Any = None
        if comparisons is not None:
            stated = comparisons if isinstance(X, Groups) else comparisons.moved(data.row_order)
            fitting.refuse_unheard(stated, parts, data)
            if loss is None and comparison_weight != 1.0:
                raise SettingError(f"comparison_weight goes with a loss, which {parts.title!r} has none; leave it out.")
            loss = None if loss is None else GradesAndComparisons(loss, comparison_weight)
            target = BothTargets(data.y, stated)
        if clicks is not None:
            if loss is None:
                raise SettingError(f"{parts.title!r} has a criterion of its own; clicks need a loss, 'click_choice'.")
            loss, target = with_clicks(loss, data, clicks, clicks_weight, target, isinstance(X, Groups))
        self.on_scores_ = base_scores is not None
        base = self._fitted_base(parts, data, valid, base_scores, not isinstance(X, Groups))
        task = Task(
            self._normalised(data),
            scorer,
            loss,
            target=target,
            base=base,
            **self._told(parts, None),
        )
        if valid is not None:
            checked, moved = self._valid(valid), not isinstance(valid, Groups)
            warn_of_overlap(data, checked)
            valid_base = self._base_scores(checked, valid_base_scores, moved)
            task = self._judged(task, parts, checked, valid_comparisons, valid_base, moved)
        elif valid_comparisons is not None:
            task = self._judged(task, parts, data, valid_comparisons, base, not isinstance(X, Groups))
        if task.metric.name == "pairwise_accuracy":
            parts = replace(parts, metric=task.metric)  # of pairs, which no other metric judges
        try:
            # A step that is too long may overflow: what counts is what comes out.
            with (
                fitting.watched(parts, progress, callbacks, bool(verbose)) as told,
                np.errstate(over="ignore", invalid="ignore"),
            ):
                task = replace(fitting.with_list_grades(task), progress=told)
                found = fitting.work_of(parts, task)(task)
        except RowsError as error:
            raise error.named(data.query_ids.tolist(), document_names(data).tolist()) from None
        trained = fitting.as_trained(found, parts, task)
        if comparisons is None and clicks is None:
            fitting.warn_of_equal_grades(data, parts)
        self._adopt(trained, parts, data.y, data.offsets, task.valid is not None)
        self._note_profile(data, base, trained.scores)
        return self

    @available_if(_learns_streams)
    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None, query_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from some more queries of a stream, in their order; for the linear scorer.

        The first call of a ranker that was never fitted starts from nothing; a fitted one starts anew as well, since
        a stream keeps moments and step sizes that `fit` does not have.
        """
        parts = self.parts()
        first = not hasattr(self, "stream_")
        data = self._groups(X, y, qid, query_weight, reset=first)
        if np.isnan(data.X).any() or (data.schema is not None and data.schema.categories):
            raise DataError("A stream takes numbers without gaps: medians and categories need all data; use fit.")
        data = self._normalised(data)
        if first:
            self.schema_ = self.filling_ = None
            fitting.refuse_trainer(parts, named=isinstance(self.trainer, str) and self.trainer != "auto")
            from luce.training.descent import LinearStream

            self.stream_ = LinearStream(data.n_features, parts.trainer.l2)
            self.parts_, self.loss_ = parts, parts.loss
        self.scorer_, self.loss_ = self.stream_.learn(data, self.trained_loss)
        self.base_, self.on_scores_ = None, False
        seen = getattr(self, "max_grade_", -np.inf)
        self._note_labels(data.y, data.offsets)
        self.max_grade_ = max(float(data.y.max()), seen)
        return self

    @property
    def needs_queries(self) -> bool:
        """True where a score depends on the other documents of its query, so that `predict` needs query ids."""
        above = self.query_norm is not None or getattr(self.scorer_, "needs_queries", True)
        return above or (self.base_ is not None and self.base_.needs_queries)

    def predict(
        self, X: Any, *, qid: ArrayLike | str | None = None, base_scores: ArrayLike | None = None
    ) -> FloatArray:
        """One score a row, higher is better, in the order of the rows of X.

        A data frame is read by the columns that the model was trained on: in any order, and among others.
        """
        check_is_fitted(self, "scorer_")
        if isinstance(X, Groups):
            self._check_features(X)
            return self._scores(X, base_scores)
        if not self.needs_queries:
            qid = np.zeros(rows_of(X))
        elif qid is None and self._column_of("qid", X) is None:
            raise DataError("This model scores documents within their query; give qid (or Groups) to predict.")
        data = self._groups(X, None, qid, None, reset=False)
        return data.to_input_order(self._scores(data, base_scores, moved=True))

    def score(
        self,
        X: Any,
        y: ArrayLike | str | None = None,
        *,
        qid: ArrayLike | str | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean of `metric` over queries; its negative where lower is better, since scikit-learn maximises scores.

        `sample_weight`, which scikit-learn's routing knows, is the weight of the query of each row.
        """
        from luce.metrics.evaluate import evaluate_rows, mean_of

        check_is_fitted(self, "scorer_")
        data = self._judged_groups(X, y, qid, group)
        metric = self.parts_.metric
        values = evaluate_rows(self._scores(data), data, [metric]).values[metric.name]
        if sample_weight is None:
            value = mean_of(values)
        else:
            weight = query_weights(sample_weight, data, moved=not isinstance(X, Groups)) * ~np.isnan(values)
            value = float(np.nan_to_num(values) @ weight / weight.sum()) if weight.any() else float("nan")
        return value if metric.greater_is_better else -value

    def importance(self) -> Any:
        """What the scores look at, the largest first: a table (feature, importance), a data frame where one came in.

        Importance is the effect of one standard deviation, or what `scorer_.importance_is` says.
        """
        check_is_fitted(self, "scorer_")
        return importance_table(self)

    def explain(
        self,
        X: Any,
        *,
        qid: ArrayLike | str | None = None,
        base_scores: ArrayLike | None = None,
        against: int | None = None,
    ) -> Explanation:
        """What every feature adds to the score of every row, in sums that are exact (`luce.explanation`).

        `against` is the row of a document to compare with: why the others are above or below it.
        """
        from luce.explanation import explained

        check_is_fitted(self, "scorer_")
        if not isinstance(X, Groups) and not self.needs_queries:
            qid = np.zeros(rows_of(X))
        data = self._groups(X, None, qid, None, reset=False)
        moved = data.row_order is not None and not isinstance(X, Groups)
        given = self._base_scores(data, base_scores, moved=moved) if self.on_scores_ else None
        order = np.asarray(data.row_order) if moved else np.arange(data.n_rows)
        row = None if against is None or against not in order else int(np.flatnonzero(order == against)[0])
        return explained(self, data, given, against if row is None else row)[np.argsort(order)]

    @property
    def feature_importances_(self) -> FloatArray:
        """The share of every feature in what the scores look at, as scikit-learn has it; see `importance`."""
        check_is_fitted(self, "scorer_")
        return importance_shares(self)

    @property
    def best_iteration_(self) -> int:
        """The round that was kept: the best on validation data, and else the last."""
        check_is_fitted(self, "scorer_")
        best = self.history_.get("best_iteration")
        return max(len(self.history_.get("objective", ())), 1) if best is None else int(best)

    def _html_repr(self) -> str:
        return shown_as_html(self) if hasattr(self, "history_") else str(super()._html_repr())

    def save(self, path: str | Path, *, sign: str | Path | None = None) -> None:
        """Write the fitted model to one file, atomically; `luce.load` reads it.

        `sign` is the file of a private key (Ed25519), which signs what is written.
        """
        from luce.model_file import save

        save(self, path, sign=sign)

    def __sklearn_clone__(self) -> Self:
        # A clone is not fitted, its base is: it is part of the settings, as a path to it would be.
        settings = {
            name: clone(value, safe=False) for name, value in self.get_params(deep=False).items() if name != "base"
        }
        base = clone(self.base) if to_be_fitted(self.base) else self.base
        copy = type(self)(**{**settings, "base": base})
        for name in ("_metadata_request", "_unsaid"):
            if name in vars(self):
                setattr(copy, name, deepcopy(vars(self)[name]))
        return copy

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        try:
            tags.input_tags.allow_nan = self.parts().takes_missing
        except LuceError:  # parts that cannot be made take nothing; `fit` says why
            tags.input_tags.allow_nan = False
        return tags


# scikit-learn tries every name of a signature as a setting of its own, which the rest of the settings is not.
Ranker.__signature__ = Signature(
    [p for p in signature(Ranker).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
)
