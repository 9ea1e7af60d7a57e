r"""A guard for learning from clicks: held-out queries of the log choose learner and penalty.

With few queries, or many features, a learner that is right on average may still be worse than plain click rates, which
repeat what was shown; trees most of all. The guard fits every learner on folds of the queries and judges it on the
clicks of the queries that it did not see: by how many nats its scores f explain a click better than exposure alone,

$$\frac{1}{|Q|} \sum_q \frac{L_q(0) - L_q(f)}{\sum_d h_d C_d},$$

L the loss `click_choice` of a query. Given examination this is an unbiased estimate for new queries, whatever was
shown, and differences have a standard error over queries. The best learner is fitted on all queries. Nothing but the
log and the features is used. (NDCG by estimated attraction needs a model for documents that were never shown, and
on average chose no better.)

Scores are logarithms of attraction, on one scale for all learners. So where the ranker is made of trees, the mean of
its scores and of those of the best linear learner is another one: both are wrong in different ways. (Weights learned on
the held-out clicks explained them no better than one half each.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from luce.blending import can_join, joined_models
from luce.checks import generator, whole
from luce.clicks.counts import kind_of
from luce.clicks.examination import Examination
from luce.data.clicks import Clicks
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.losses.listwise import ClickChoice
from luce.ranker import Ranker
from luce.types import FloatArray, IntArray, Progress

_PENALTIES = (0.01, 0.1, 1.0, 10.0)
NAIVE = "naive"
_OWN, _LINEAR, _MEAN = "debiased", "debiased, linear, ", "debiased, mean with linear, "


class Guarded(NamedTuple):
    """The model that was taken, its learner's name, and a row a learner.

    Rows have `learner`, `value` (by how many nats a click of a held-out query is explained better than by exposure
    alone), and its `difference` from that of the best naive learner with its `standard_error` over queries.
    """

    model: Ranker
    chosen: str
    table: list[dict[str, Any]]


def shown_often(seen: Examination, data: Groups, missing: str = "error") -> Clicks:
    """Click rates: exposure is how often a document was shown, wherever; what a naive learner takes."""
    return replace(seen, theta=np.ones(len(seen.theta)), trust=None).target(data, missing)


def guarded(
    ranker: Ranker,
    data: Groups,
    seen: Examination,
    *,
    folds: int = 5,
    missing: str = "error",
    random_state: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
) -> Guarded:
    """Learn from clicks by the best of these: the ranker, linear ones of four penalties, and click rates as they are.

    Where the ranker is made of trees, the mean of it and the best linear one is another.

    Parameters
    ----------
    ranker
        Any ranker of the loss `click_choice`; linear ones of the same loss are tried beside it.
    data, seen
        The documents, and examination from the log.
    folds
        Of the queries that were clicked.

    >>> from luce.clicks.simulation import production, simulate_counts, weak_rankers
    >>> from luce.clicks import examination
    >>> from luce.data.simulate import simulate
    >>> import luce
    >>> drawn, rng = simulate(queries=40, features=5, seed=0), np.random.default_rng(0)
    >>> docs = luce.from_arrays(drawn.X, drawn.y, qid=drawn.qid, document_ids=np.arange(drawn.n_rows))
    >>> counts = simulate_counts(docs, production(docs, weak_rankers(docs, rng), swap=0.2), rng, sessions=20_000)
    >>> found = guarded(Ranker(loss="click_choice"), docs, examination(counts, docs))
    >>> [row["learner"] for row in found.table][:3]
    ['debiased', 'debiased, linear, l2=0.01', 'debiased, linear, l2=0.1']
    >>> found.chosen == max(found.table, key=lambda row: row["value"])["learner"]
    True
    """
    whole("folds", folds, 2)
    kind_of(seen, Examination, "luce.clicks.examination(counts, data)")
    loss = ranker.parts().loss
    if not isinstance(loss, ClickChoice):
        raise SettingError("The guard is for the loss click_choice; give a Ranker(loss='click_choice', ...).")
    debiased, naive = seen.target(data, missing), shown_often(seen, data, missing)
    learners = _learners(ranker, loss, debiased, naive)
    fold = folds_of(data, debiased, folds, generator(random_state))
    scores = {name: np.empty(data.n_rows) for name in learners}
    can_mix = True
    for k in range(folds):
        known, held, rows = data.take(fold != k), data.take(fold == k), np.repeat(fold == k, data.sizes)
        fitted: dict[str, Ranker] = {}
        for i, (name, (one, clicks)) in enumerate(learners.items()):
            fitted[name] = clone(one).fit(known, clicks=of_queries(clicks, data, fold != k))
            scores[name][rows] = fitted[name].predict(held)
            if progress is not None:
                progress(k * len(learners) + i + 1, folds * len(learners), {})
        # Trees whose sum with a linear one is a ranker.
        own, other = fitted[_OWN], next(model for name, model in fitted.items() if name.startswith(_LINEAR))
        can_mix &= own.parts().scorer.name == "trees" and can_join(own, own) and can_join(other, own)
    values = {name: explained(loss, found, debiased, data.offsets) for name, found in scores.items()}
    if can_mix:
        best = max((name for name in values if name.startswith(_LINEAR)), key=lambda name: values[name].mean())
        mean = 0.5 * (scores[_OWN] + scores[best])
        values[best.replace(_LINEAR, _MEAN)] = explained(loss, mean, debiased, data.offsets)
    table = _table(values)
    chosen = max(table, key=lambda row: row["value"])["learner"]
    names = [_OWN, chosen.replace(_MEAN, _LINEAR)] if chosen.startswith(_MEAN) else [chosen]
    models: list[Ranker] = [clone(learners[name][0]).fit(data, clicks=learners[name][1]) for name in names]
    model = models[0] if len(models) == 1 else joined_models(models, np.full(2, 0.5), models[0].loss_)
    model.history_["guard"] = {"chosen": chosen, "learners": table}
    return Guarded(model, chosen, table)


def _learners(ranker: Ranker, loss: ClickChoice, debiased: Clicks, naive: Clicks) -> dict[str, tuple[Ranker, Clicks]]:
    """What is tried, the first preferred where two are equal; naive is linear, which is hardest to mislead."""
    settings = {f"loss__{name}": value for name, value in loss.settings.items()}
    linear = {
        f"l2={l2:g}": Ranker(loss=loss.name, l2=l2, random_state=ranker.random_state, **settings) for l2 in _PENALTIES
    }
    found = {_OWN: (ranker, debiased)}
    found |= {f"{_LINEAR}{name}": (one, debiased) for name, one in linear.items()}
    return found | {f"{NAIVE}, {name}": (one, naive) for name, one in linear.items()}


def explained(loss: ClickChoice, scores: FloatArray, clicks: Clicks, offsets: IntArray) -> FloatArray:
    """Nats a click, weighed as in the loss, of every query that was clicked; 0 for equal scores."""
    prepared = loss.prepare(clicks, offsets)
    chunk, slopes = (0, len(offsets) - 1), np.empty(len(scores))
    gain = loss.evaluate(prepared, np.zeros(len(scores)), chunk, slopes) - loss.evaluate(
        prepared, np.ascontiguousarray(scores, dtype=np.float64), chunk, slopes
    )
    weight = np.add.reduceat(prepared.target, offsets[:-1])
    return np.asarray(gain[weight > 0] / weight[weight > 0])


def folds_of(data: Groups, clicks: Clicks, folds: int, rng: np.random.Generator) -> IntArray:
    """The fold of every query, those with clicks dealt evenly."""
    clicked = np.add.reduceat(clicks.clicks, data.offsets[:-1]) > 0
    if clicked.sum() < 2 * folds:
        raise DataError(
            f"{int(clicked.sum())} queries were clicked; a guard of {folds} folds needs {2 * folds}. Give fewer folds, "
            "or leave the guard out."
        )
    order = np.concatenate([rng.permutation(np.flatnonzero(part)) for part in (clicked, ~clicked)])
    result = np.empty(data.n_queries, dtype=np.int64)
    result[order] = np.arange(data.n_queries) % folds
    return result


def of_queries(clicks: Clicks, data: Groups, queries: Any) -> Clicks:
    """The clicks on the rows of some queries."""
    rows = np.repeat(queries, data.sizes)
    return Clicks(clicks.clicks[rows], clicks.exposure[rows])


def _table(values: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    naive = max((name for name in values if name.startswith(NAIVE)), key=lambda name: values[name].mean())
    rows = []
    for name, value in values.items():
        gap = value - values[naive]
        error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("nan")
        row = {"learner": name, "value": float(value.mean()), "difference": float(gap.mean()), "standard_error": error}
        rows.append(row)
    return rows
