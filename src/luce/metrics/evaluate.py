"""`luce.evaluate`: metrics of a model or of scores on judged data, query by query and as means."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.data.statements import GradedRows, graded_rows
from luce.errors import DataError, LuceWarning, SettingError, of_user
from luce.metrics.catalog import Metric, of, parse
from luce.metrics.conventions import conventions
from luce.numerics.segments import differing
from luce.registry import unknown_name
from luce.result import Result, Sheet, as_frame, plain
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.order_files import JudgedLists

OneQuery = Callable[[FloatArray, FloatArray], float]
"""A metric of one's own: scores and labels of one query to a number."""
_FEW_ROWS = 10
_TWO_ORDERS = (
    "Rows of a query stood apart in the input, so that there are two orders of rows, and the scores are taken in that "
    "of data.X, as predict(data) gives them; order='data' says that this is right, order='input' that they are in the "
    "order of the input."
)
DEFAULT_METRICS = ("ndcg@10", "map", "mrr")
PAIR_METRICS = ("pairwise_accuracy",)
"""What pairs, in place of grades, are judged by."""


class Judged(Protocol):
    """Labels query by query: `Groups`, or a run joined with its judgements."""

    @property
    def y(self) -> FloatArray:
        """Labels."""

    @property
    def offsets(self) -> IntArray:
        """Query boundaries."""

    @property
    def query_ids(self) -> NDArray[Any]:
        """One id a query."""

    @property
    def document_ids(self) -> NDArray[Any] | None:
        """One id a row, or None."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """Values of metrics on every query, and their means.

    `values` maps a metric to one value a query, NaN where the query is skipped; `means` are over the queries that
    are not, NaN where there is none.
    """

    query_ids: NDArray[Any]
    values: dict[str, FloatArray]
    frame: str | None = None
    """The kind of data frame that came in, as which `to_frame` gives the rows."""

    @property
    def means(self) -> dict[str, float]:
        """Mean of every metric over the queries that it counts."""
        return {name: mean_of(column) for name, column in self.values.items()}

    @property
    def rows(self) -> list[tuple[Any, str, float]]:
        """Tidy rows (query, metric, value), without the skipped ones."""
        ids = self.query_ids.tolist()
        return [
            (query, name, value)
            for name, column in self.values.items()
            for query, value in zip(ids, column.tolist(), strict=True)
            if not math.isnan(value)
        ]

    def __getitem__(self, metric: str) -> float:
        """The mean of a metric, by its name: `evaluate(...)["ndcg@10"]`."""
        if metric not in self.values:
            raise unknown_name("metric of this evaluation", metric, self.values)
        return mean_of(self.values[metric])

    @property
    def counted(self) -> dict[str, int]:
        """How many queries each metric counts."""
        return {name: int((~np.isnan(column)).sum()) for name, column in self.values.items()}

    def to_frame(self, kind: str | None = None) -> Any:
        """The rows with the columns query, metric and value: pandas or polars as it came in, else a pyarrow table."""
        rows = self.rows
        columns = {key: [row[i] for row in rows] for i, key in enumerate(("query", "metric", "value"))}
        return as_frame(columns, kind or self.frame)

    def sheets(self) -> list[Sheet]:
        """The means, and how many queries they are over."""
        means = self.means
        counted = list(self.counted.values())
        return [Sheet("Evaluation", {"metric": list(means), "mean": list(means.values()), "queries": counted})]

    @property
    def lines(self) -> list[str]:
        """Which metrics have no mean."""
        empty = [name for name, count in self.counted.items() if not count]
        return [f"No query counts for {', '.join(empty)}, so that there is no mean."] if empty else []

    def as_dict(self) -> dict[str, Any]:
        """Means and counts, without NaN."""
        return {"queries": len(self.query_ids), "means": plain(self.means), "counted": self.counted}

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"Evaluation({len(self.query_ids)} queries: {means})"


def mean_of(column: FloatArray) -> float:
    """Mean without the NaN of skipped queries; NaN where nothing is left."""
    counted = column[~np.isnan(column)]
    return float(counted.mean()) if counted.size else math.nan


def evaluate(
    model: Any,
    data: Judged,
    metrics: Sequence[str | Metric | OneQuery] | str = DEFAULT_METRICS,
    *,
    preset: str | None = None,
    top_k: int | None = None,
    comparisons: Comparisons | None = None,
    order: str | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate a model, or scores aligned with the rows of `data`, by the metrics named.

    Parameters
    ----------
    model
        Anything with `predict(data)`, or an array with one score a row of `data` (in the order of `data.X`). A score of
        minus infinity means that the document was not retrieved: it has no position, but still counts as relevant.
    data
        `Groups`, or what `luce.data.trec.join_run` gives; with `subtopics` for alpha-NDCG.
    metrics
        Names such as `ndcg@10`, metrics made by `luce.metrics.get`, which keep their own conventions, or functions
        (scores, labels) of one query that give a number, NaN where the query does not count.
    preset
        Conventions of another tool: lightgbm, xgboost, catboost, sklearn, trec_eval, ranx, letor3, letor4.
    top_k
        k of the kappa metrics, 10 unless given.
    comparisons
        Ordered lists or pairs of rows of `data` (or those that `data.stated` holds, where no grades differ), which are
        then the judgements in place of its grades. Every list is a
        query, graded by position, and all count alike, whatever their weights. Pairs have `pairwise_accuracy`, of the
        preferences, and `log_likelihood`, ties included: a value a query, the weighted mean over its pairs.
    order
        For an array of scores: "data", the order of `data.X`, as `predict(data)` gives them, or "input", that of the
        frame or file which `data` were read from. The two differ where rows of a query stood apart there; without
        `order` a warning says so.
    **settings
        Conventions, by name: see `luce.metrics.Conventions`.

    Examples
    --------
    >>> import luce
    >>> data = luce.from_arrays([[0.0]] * 4, [0, 2, 1, 0], qid=[1, 1, 2, 2])
    >>> luce.evaluate([0.3, 0.7, 0.1, 0.6], data, ["ndcg@10", "mrr"])
    Evaluation(2 queries: ndcg@10 0.8155, mrr 0.7500)
    """
    if order not in (None, "data", "input"):
        raise SettingError(f"order is {order!r}; it must be 'data' or 'input'.")
    comparisons = getattr(data, "judges", None) if comparisons is None else comparisons
    if comparisons is None and not getattr(data, "labelled", True):
        raise DataError("The data have no column of labels to judge by; name it by label=, --label.")
    moved = None if hasattr(model, "predict") else getattr(data, "row_order", None)
    if moved is not None and order is None:
        warnings.warn(_TWO_ORDERS, LuceWarning, stacklevel=2)
    elif moved is not None and order == "input":
        model = check_scores(model, len(moved))[moved]
    rules = {"preset": preset, **({} if top_k is None else {"top_k": top_k}), **settings}
    found = evaluate_rows(model, data, metrics, comparisons=comparisons, **rules)
    wanted = [parse(m, conventions(preset, **settings)) if isinstance(m, str) else of(m) for m in _listed(metrics)]
    own = [m for m, given in zip(wanted, _listed(metrics), strict=True) if isinstance(given, str)]  # others keep theirs
    refuse_unheard(settings, own)
    warn_of_top_k(top_k, own)
    if comparisons is None:
        _warn_of_labels(wanted, data)
    return found


def refuse_unheard(settings: Mapping[str, Any], metrics: Sequence[Metric]) -> None:
    """Refuse a convention that makes no difference to any of these metrics."""
    for name, value in settings.items():
        if not any(name in metric.formula.hears for metric in metrics):
            names = ", ".join(metric.name for metric in metrics) or "metrics that are given as objects"
            raise SettingError(f"{name}={value!r} makes no difference to {names}; leave it out.")


def warn_of_top_k(top_k: int | None, metrics: Sequence[Metric]) -> None:
    """Name the metrics to which `top_k` makes no difference, and how their cut-off is written.

    Beside metrics that hear it, those without a cut-off are passed by: nobody could have meant them.
    """
    deaf = [metric for metric in metrics if "top_k" not in metric.formula.hears]
    cut = [metric for metric in deaf if metric.formula.takes_cutoff]
    named = deaf if len(deaf) == len(metrics) else cut
    if top_k is not None and named:
        how = f"; a cut-off is written with the name, as in {cut[0].name.partition('@')[0]}@{top_k}" if cut else ""
        warnings.warn(
            f"top_k={top_k!r}, the k of the kappa metrics, makes no difference to {', '.join(m.name for m in named)}"
            f"{how}.",
            LuceWarning,
            stacklevel=3,
        )


def evaluate_rows(
    model: Any,
    data: Judged,
    metrics: Sequence[str | Metric | OneQuery] | str = DEFAULT_METRICS,
    *,
    comparisons: Comparisons | None = None,
    **rules: Any,
) -> Evaluation:
    """`evaluate` where the scores are known to be in the order of `data`, without remarks, by these conventions."""
    comparisons = getattr(data, "judges", None) if comparisons is None else comparisons
    if comparisons is not None:
        if comparisons.holds_pairs and metrics is DEFAULT_METRICS:
            metrics = PAIR_METRICS
        if not isinstance(data, Groups):
            raise SettingError(f"The data are {type(data).__name__}; lists judge documents of Groups.")
        from luce.data.order_files import judged_lists

        judged, is_model = judged_lists(data, comparisons), hasattr(model, "predict")
        scored = _ListModel(model, data, comparisons) if is_model else check_scores(model, data.n_rows)[judged.rows]
        by_list = evaluate_rows(scored, judged, metrics, **rules)
        return _of_pairs(by_list, graded_rows(comparisons, data.offsets), data) if comparisons.holds_pairs else by_list
    chosen = conventions(**rules)
    wanted = [parse(m, chosen) if isinstance(m, str) else of(m) for m in _listed(metrics)]
    if not wanted:
        raise SettingError("No metric was named; name at least one, such as 'ndcg@10'.")
    for one, other in combinations(wanted, 2):  # where both are luce's own, their values are compared later
        if one.name == other.name and one.formula != other.formula:
            raise SettingError(
                f"Two metrics are named {one.name!r}, and a result has one value for a name; give one of them another "
                "name, as by fn.name = 'mine'."
            )
    if not hasattr(data, "offsets"):
        raise SettingError(
            f"The data are {type(data).__name__}; give the model or the scores first, then the Groups (a frame is read "
            "by luce.from_frame(frame, schema=model.schema_))."
        )
    is_model = hasattr(model, "predict")
    values: dict[str, FloatArray] = {}
    measured = [m for m in wanted if m.formula.home is not None]
    own = [m for m in wanted if m.formula.function is not None]
    if measured or own:
        scores = check_scores(model.predict(data) if is_model else model, len(data.y))
        rmax = getattr(model, "max_grade_", None) if is_model else None
        about = getattr(data, "subtopics", None)
        values = evaluate_arrays(scores, data.y, data.offsets, measured, data.document_ids, rmax, about)
        values |= {m.name: _by_function(m, scores, data) for m in own}
    if len(measured) + len(own) < len(wanted):
        values["log_likelihood"] = _log_likelihood(model, data)
    found = {m.name: values[m.name] for m in wanted}
    return Evaluation(np.asarray(data.query_ids), found, getattr(data, "frame", None))


def _warn_of_labels(wanted: Sequence[Metric], data: Judged) -> None:
    """Say it where labels say nothing of a ranking: all alike, none or all relevant, or below 0, where gains end."""
    labels = data.y
    if len(labels) < _FEW_ROWS:
        return
    if isinstance(data, Groups) and not differing(labels, data.offsets).any() and data.subtopics is None:
        warnings.warn(
            "No query has two documents of different labels, so that every ranking has these values; check the labels "
            "and the query ids.",
            LuceWarning,
            stacklevel=3,
        )
        return
    gaining = [m.name for m in wanted if "gain" in m.formula.hears]
    if labels.min() < 0 and gaining:
        warnings.warn(
            f"Labels below 0 (the lowest is {labels.min():g}) gain nothing in {', '.join(gaining)}, as 0 does; add to "
            "all labels what makes the lowest 0.",
            LuceWarning,
            stacklevel=3,
        )
    binary = [m for m in wanted if "relevance" in m.formula.hears]
    for chosen in dict.fromkeys(m.conventions for m in binary):
        relevant = labels >= chosen.relevance
        if relevant.any() and not relevant.all():
            continue
        names = ", ".join(m.name for m in binary if m.conventions == chosen)
        what = "every document is" if relevant.any() else "no document is"
        warnings.warn(
            f"The labels go from {labels.min():g} to {labels.max():g}, and {what} relevant to {names}, which count "
            f"labels of at least {chosen.relevance:g}; give relevance=... (--convention relevance=...).",
            LuceWarning,
            stacklevel=3,
        )


def _listed(metrics: Any) -> list[Any]:
    return list(metrics) if isinstance(metrics, Sequence) and not isinstance(metrics, str) else [metrics]


def _by_function(metric: Metric, scores: FloatArray, data: Judged) -> FloatArray:
    """A metric of one's own, query after query."""
    assert metric.formula.function is not None
    values = np.empty(len(data.offsets) - 1)
    for q, (first, last) in enumerate(pairwise(data.offsets.tolist())):
        with of_user(f"The metric {metric.name!r}"):
            found = metric.formula.function(scores[first:last].copy(), data.y[first:last].copy())
        if isinstance(found, bool) or not isinstance(found, Real) or math.isinf(found):
            raise SettingError(
                f"The metric {metric.name!r} gave {found!r} for query {str(data.query_ids[q])!r}; a metric is a "
                "function (scores, labels) of one query that gives a finite number, or NaN where the query does not "
                "count."
            )
        values[q] = float(found)
    return values


@dataclass(frozen=True)
class _ListModel:
    """A model that is judged by lists: it scores and weighs all documents, of which each list judges some."""

    model: Any
    data: Groups
    lists: Comparisons

    def predict(self, judged: JudgedLists) -> FloatArray:
        return check_scores(self.model.predict(self.data), self.data.n_rows)[judged.rows]

    def log_likelihood(self, judged: JudgedLists) -> Any:
        if not hasattr(self.model, "log_likelihood"):
            return _log_likelihood(self.model, judged)
        return self.model.log_likelihood(self.data, comparisons=self.lists)


def _of_pairs(judged_pairs: Evaluation, judged: GradedRows, data: Judged) -> Evaluation:
    """Values of the queries that have pairs, from those of pairs; metrics that see more than pairs are refused."""
    for name in judged_pairs.values:
        if name not in (*PAIR_METRICS, "log_likelihood"):
            raise SettingError(f"{name} judges rankings; pairs have {', '.join(PAIR_METRICS)} and log_likelihood.")
    queries, at = np.unique(judged.queries, return_inverse=True)
    found = {name: means_by(at, each, judged.weights, len(queries)) for name, each in judged_pairs.values.items()}
    return Evaluation(np.asarray(data.query_ids)[queries], found, getattr(data, "frame", None))


def means_by(place: IntArray, values: FloatArray, weight: FloatArray, count: int) -> FloatArray:
    """Weighted means of the values of each of `count` places, without those that are NaN; NaN where none is left."""
    known = ~np.isnan(values)
    place, values, weight = place[known], values[known], weight[known]
    total, counted = np.bincount(place, weight * values, count), np.bincount(place, weight, count)
    return np.divide(total, counted, out=np.full(count, np.nan), where=counted > 0)


def check_scores(scores: Any, rows: int) -> FloatArray:
    """Scores as a float64 vector of the right length without NaN."""
    try:
        vector = np.ascontiguousarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("Scores must be a vector of numbers, or a model with a method predict.") from error
    if vector.shape != (rows,):
        raise DataError(
            f"The data have {rows} documents, and the scores have shape {vector.shape}; one a row is needed."
        )
    if np.isnan(vector).any():
        raise DataError(f"The score of row {int(np.flatnonzero(np.isnan(vector))[0])} is NaN; scores must be numbers.")
    return vector


def _log_likelihood(model: Any, data: Judged) -> FloatArray:
    if not hasattr(model, "log_likelihood"):
        raise SettingError(
            "The metric 'log_likelihood' needs a model with a method log_likelihood; scores alone have no likelihood: "
            "give such a model, or leave the metric out."
        )
    values = np.ascontiguousarray(model.log_likelihood(data), dtype=np.float64)
    if values.shape != (len(data.query_ids),):
        raise DataError(
            f"log_likelihood gave shape {values.shape}; one value for each of {len(data.query_ids)} queries is needed."
        )
    return values


def evaluate_arrays(
    scores: FloatArray,
    labels: FloatArray,
    offsets: IntArray,
    metrics: Sequence[Metric],
    document_ids: NDArray[Any] | None = None,
    rmax: float | None = None,
    subtopics: Any = None,
) -> dict[str, FloatArray]:
    """Values of metrics, one a query, from plain arrays; `rmax` serves where the conventions leave it open.

    >>> from luce.metrics import get
    >>> evaluate_arrays(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([0, 2]), [get("mrr")])
    {'mrr': array([1.])}
    """
    from luce.metrics.lists import Lists

    values: dict[str, FloatArray] = {}
    lists = {
        chosen: Lists(scores, labels, offsets, chosen, document_ids, rmax, subtopics)
        for chosen in dict.fromkeys(metric.conventions for metric in metrics)
    }
    for metric in metrics:
        found = metric.formula.measure(lists[metric.conventions], metric.cutoff or 0)
        if metric.name in values and not np.array_equal(values[metric.name], found, equal_nan=True):
            raise SettingError(
                f"The metric {metric.name!r} was asked for twice with different conventions; ask in two calls."
            )
        values[metric.name] = found
    return values
