"""Validation data: judged by their grades or by lists, and what is said where they do not tell iterates apart."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from luce.data.comparisons import Comparisons
from luce.data.groups import Groups
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Likelihood, Loss, Target
from luce.metrics.catalog import Formula, Metric, get
from luce.numerics.segments import differing
from luce.registry import settings_of, usual_settings
from luce.training.run import History
from luce.types import FloatArray, IntArray

USUAL = "ndcg@10"
"""The metric that judges where none was named."""
_LATE = 0.9
"""Share of the rounds after which a best one is near the limit."""


class HeldOut(NamedTuple):
    """The queries that iterates are judged on, by which metric, and which rows of the validation data they hold."""

    data: Groups
    metric: Metric
    rows: IntArray | None = None
    """None: all of them, in their order."""


def held_out(valid: Groups, lists: Comparisons | None, metric: Metric, scorer: Any, loss: Loss | None) -> HeldOut:
    """What judges the iterates of a training: the grades of `valid`, or lists of its rows, each a query of its own.

    The metric `log_likelihood` is that of the loss.

    >>> import luce
    >>> valid, lists = luce.from_arrays([[0.0]] * 3), Comparisons.from_orders([[2]], top=True)
    >>> found = held_out(valid, lists, luce.metrics.get("mrr"), None, None)
    >>> found.data.y.tolist(), found.rows.tolist()
    ([0.0, 0.0, 1.0], [0, 1, 2])
    """
    if metric.name == "log_likelihood" and metric.formula.home is not None:
        pass  # of a trainer that brings a likelihood of its own
    elif lists is not None and lists.holds_pairs:
        metric = _of_pairs(metric, loss)
    elif metric.name == "log_likelihood":
        metric = _likelihood(loss, lists is not None)
    if lists is None:
        refuse_equal_labels(valid, metric)
        return HeldOut(valid, metric)
    if getattr(scorer, "needs_queries", False) and not lists.order_is_top.all():
        raise SettingError(
            "Validation lists that leave documents open cannot judge a scorer that looks at whole queries; give top "
            "lists."
        )
    from luce.data.order_files import judged_lists

    judged = judged_lists(valid, lists)
    return HeldOut(judged.groups(valid), metric, judged.rows)


def _of_pairs(metric: Metric, loss: Loss | None) -> Metric:
    """What judges pairs: the share of preferences that are ordered rightly, or their likelihood under the loss."""
    if metric.name == "pairwise_accuracy":
        return metric
    if metric.name != "log_likelihood" or loss is None:
        if metric.name != USUAL:
            what = f"{metric.name} judges rankings; the validation pairs are judged by pairwise_accuracy."
            warnings.warn(what, LuceWarning, stacklevel=5)
        return get("pairwise_accuracy")

    from luce.losses.probabilities import pair_probabilities  # seldom asked for

    def log_prob(scores: FloatArray, labels: FloatArray) -> float:
        chances = pair_probabilities(loss, scores, np.random.default_rng(0))
        if labels[0] == labels[1]:  # of a model without ties the preferences alone are judged
            return float(np.log(chances.tie[0, 1])) if chances.tie[0, 1] > 0 else np.nan
        better, worse = (0, 1) if labels[0] > labels[1] else (1, 0)
        return float(np.log(chances.before[better, worse]))

    return Metric("log_likelihood", Formula(None, function=log_prob))


def refuse_equal_labels(valid: Groups, metric: Metric) -> None:
    """An error where the labels of every query are all equal, so that a metric of grades is blind."""
    if not differing(valid.y, valid.offsets).any() and not metric.formula.needs_subtopics:
        raise DataError(
            "All labels of every query of the validation data are equal (those of query "
            f"{str(valid.query_ids[0])!r} are {valid.y[0]:g}), so that {metric.name} cannot tell one iterate from "
            "another; give grades, or lists as valid_comparisons (--valid-orders)."
        )


def _likelihood(loss: Loss | None, on_lists: bool) -> Metric:
    """Log-probability of the outcome of a query under the loss, as a metric of scores and labels."""
    if not isinstance(loss, Likelihood):
        what = "this ranker has no loss" if loss is None else f"{loss.name!r} is none"
        raise SettingError(f"The metric 'log_likelihood' needs a loss that is a likelihood, and {what}; 'pmop' is one.")
    as_list = on_lists and loss.takes_comparisons

    def log_prob(scores: FloatArray, labels: FloatArray) -> float:
        target: Target = _top_list(labels) if as_list else labels
        return loss.log_prob(scores, target)

    return Metric("log_likelihood", Formula(None, function=log_prob))


def _top_list(grades: FloatArray) -> Comparisons:
    """The list that the grades of one query are the positions of; what it leaves out has grade 0."""
    order = np.argsort(-grades, kind="stable")
    listed = order[grades[order] > 0]
    tied = np.append(False, np.diff(grades[listed]) == 0)
    return Comparisons(
        order_rows=listed,
        order_offsets=np.array([0, len(listed)]),
        order_is_top=np.ones(1, dtype=bool),
        order_tied=tied,
    )


def warn_of_overlap(train: Groups, valid: Groups) -> None:
    """Say it where validation queries are training queries, so that they judge what was learned by heart.

    Queries are the same where their ids are; ids that only count from 0 or 1 say it with equal documents alone.
    """
    where = {query: q for q, query in enumerate(train.query_ids.tolist())}
    shared = [(where[query], q) for q, query in enumerate(valid.query_ids.tolist()) if query in where]
    if _counted(train.query_ids) and _counted(valid.query_ids):
        shared = [pair for pair in shared if _equal_documents(train, pair[0], valid, pair[1])]
    if shared:
        first = str(valid.query_ids[shared[0][1]])
        warnings.warn(
            f"{len(shared):,} of {valid.n_queries:,} validation queries are in the training data, too (the first is "
            f"{first!r}): they cannot tell what was learned from what was learned by heart; give other queries.",
            LuceWarning,
            stacklevel=4,
        )


def _counted(ids: Any) -> bool:
    """Whether ids are no names but numbers of queries, from 0 or 1."""
    texts = ids.astype(str).tolist()
    return texts[0] in ("0", "1") and texts == [str(q + int(texts[0])) for q in range(len(texts))]


def _equal_documents(one: Groups, p: int, other: Groups, q: int) -> bool:
    here, there = slice(*one.offsets[p : p + 2]), slice(*other.offsets[q : q + 2])
    return np.array_equal(one.X[here], other.X[there], equal_nan=True) and np.array_equal(one.y[here], other.y[there])


UNJUDGED = ("early_stopping", "keep", "l2_grid")
"""Settings of trainers that only validation data give an effect."""


def warn_of_unjudged(trainer: Any, scorer: Any, said: Collection[str], unsaid: Collection[str]) -> None:
    """Say which settings have no effect without validation data: those `said`, or not as they are usual.

    `unsaid` are not as they are usual, and nobody said so.
    """
    vain = []
    for part in (trainer, scorer):
        own, usual = ({}, {}) if part is None else (settings_of(part), usual_settings(part))
        for name in UNJUDGED:
            value = own.get(name)
            if value is not None and name not in unsaid and (name in said or value != usual.get(name, value)):
                vain.append(f"{name}={value!r} of {part.name!r}")
    if vain:
        warnings.warn(
            f"{' and '.join(vain)} had no effect, since there are no validation data; give valid= (--valid, "
            "--hold-out), or leave it out.",
            LuceWarning,
            stacklevel=4,
        )


def warn_of_chosen_penalty(trainer: Any) -> None:
    """Say it where validation data choose the penalty and another one was given."""
    if trainer.l2 != usual_settings(trainer)["l2"]:
        warnings.warn(
            f"l2={trainer.l2!r} of {trainer.name!r} had no effect: validation data choose the penalty from l2_grid; "
            "leave one of the two out.",
            LuceWarning,
            stacklevel=6,
        )


def warn_of_limit(history: History, trainer: Any, metric: str) -> None:
    """Say it where a training that would stop by itself was best just before the most rounds that it may have."""
    most, best = getattr(trainer, "max_iter", None), history.best_iteration
    if getattr(trainer, "early_stopping", None) is None or most is None or best is None:
        return
    if len(history.objective) >= most and best > _LATE * most:
        warnings.warn(
            f"The {metric} on the validation data was best after {best:,} of at most {most:,} rounds, and may rise "
            "further; raise max_iter.",
            LuceWarning,
            stacklevel=4,
        )


def warn_of_start(history: History, metric: str, went_on: bool) -> None:
    """Say it where nothing that was trained is better on the validation data than the start."""
    if history.best_iteration != 0 or len(history.validation) <= len(history.objective):
        return
    what = "the one that it went on from" if went_on else "its start, which has learned nothing"
    warnings.warn(
        f"No iterate is better on the validation data than the start ({metric} {history.validation[0]:.4f}), so that "
        f"the model is {what}; see whether training and validation data agree, or take another metric.",
        LuceWarning,
        stacklevel=4,
    )
