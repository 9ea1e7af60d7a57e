r"""A guard for learning from clicks: taking position out must not make a ranker worse than leaving it in.

With few queries, or many features, a learner that is right on average may still be worse than plain click rates, which
repeat what was shown; trees most of all, since documents that were never shown lie where they learned nothing. The
guard fits every learner on folds of the queries and judges it on the queries that it did not see, by attraction: that
of a document that was looked at once or more is $C_d / E_d$; for the others it is $a\, e^{f_d}$, $f$ the linear scores
that the same folds learned from clicks freed of position and $a = \sum C / \sum E e^f$ there. With these as gains a
query counts its NDCG@10 over all its documents. The learner of the greatest mean is fitted on all queries. Nothing but
the log and the features is used. (Judged among the shown documents alone, trees that fail on all others looked best.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from luce.checks import generator, whole
from luce.clicks.examination import Examination
from luce.data.clicks import Clicks
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.ranker import Ranker
from luce.types import FloatArray, IntArray, Progress

__all__ = ["Guarded", "guarded", "shown_often"]

_DEPTH = 10
NAIVE = "naive"


class Guarded(NamedTuple):
    """The model that was taken, its learner's name, and a row a learner.

    Rows have `learner`, `value` (mean NDCG@10 by attraction over held-out queries), and `difference` from naive with
    its `standard_error` over queries.
    """

    model: Ranker
    chosen: str
    table: list[dict[str, Any]]


def shown_often(seen: Examination, data: Groups, missing: str = "error") -> Clicks:
    """Click rates: exposure is how often a document was shown, wherever; what a naive learner takes."""
    counts = seen.counts
    rows = counts.rows_in(data, missing)
    used = (seen.place >= 0) & (rows[counts.document] >= 0)
    clicks, shown = np.zeros(data.n_rows), np.zeros(data.n_rows)
    np.add.at(clicks, rows[counts.document[used]], counts.clicked[used])
    np.add.at(shown, rows[counts.document[used]], counts.shown[used])
    return Clicks(clicks, shown)


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
    """Learn from clicks by the best of three: the ranker, a linear one, and click rates as they are.

    Parameters
    ----------
    ranker
        Any ranker of the loss `click_choice`; where its scorer is not linear, a linear one is tried beside it.
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
    >>> [row["learner"] for row in found.table], found.chosen in ("debiased", "naive")
    (['debiased', 'naive'], True)
    """
    whole("folds", folds, 2)
    loss = ranker.parts().loss
    if loss is None or loss.name != "click_choice":
        raise SettingError("The guard is for the loss click_choice; give a Ranker(loss='click_choice', ...).")
    debiased, naive = seen.target(data, missing), shown_often(seen, data, missing)
    learners = _learners(ranker, debiased, naive)
    fold = _folds(data, debiased, folds, generator(random_state))
    values: dict[str, list[FloatArray]] = {name: [] for name in learners}
    judge = "debiased, linear" if "debiased, linear" in learners else "debiased"
    level = 0.0
    for k in range(folds):
        known, held = data.take(fold != k), data.take(fold == k)
        scores = {}
        for name, (one, clicks) in learners.items():
            fitted = clone(one).fit(known, clicks=_of_queries(clicks, data, fold != k))
            scores[name] = fitted.predict(held)
            if name == judge:
                level = _level(fitted.predict(known), _of_queries(debiased, data, fold != k))
            if progress is not None:
                progress(k * len(learners) + len(scores), folds * len(learners), {})
        gains = attraction(_of_queries(debiased, data, fold == k), level * np.exp(np.minimum(scores[judge], 50.0)))
        for name, found in scores.items():
            values[name].append(held_out_ndcg(found, gains, held))
    table = _table({name: np.concatenate(parts) for name, parts in values.items()})
    chosen = max(table, key=lambda row: row["value"])["learner"]
    one, clicks = learners[chosen]
    model = clone(one).fit(data, clicks=clicks)
    model.history_["guard"] = {"chosen": chosen, "learners": table}
    return Guarded(model, chosen, table)


def _learners(ranker: Ranker, debiased: Clicks, naive: Clicks) -> dict[str, tuple[Ranker, Clicks]]:
    """What is tried, the first preferred where two are equal; naive is linear, which is hardest to mislead."""
    linear = ranker
    found = {"debiased": (ranker, debiased)}
    if ranker.parts().scorer.name != "linear":
        linear = Ranker(loss="click_choice", random_state=ranker.random_state)
        found["debiased, linear"] = (linear, debiased)
    return found | {NAIVE: (linear, naive)}


def _folds(data: Groups, clicks: Clicks, folds: int, rng: np.random.Generator) -> IntArray:
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


def _of_queries(clicks: Clicks, data: Groups, queries: Any) -> Clicks:
    rows = np.repeat(queries, data.sizes)
    return Clicks(clicks.clicks[rows], clicks.exposure[rows])


def _level(scores: FloatArray, clicks: Clicks) -> float:
    """The factor that makes the exponentials of scores attractions: as many clicks expected as there were."""
    looked = clicks.exposure > 0
    return float(clicks.clicks[looked].sum() / (clicks.exposure[looked] @ np.exp(np.minimum(scores[looked], 50.0))))


def attraction(clicks: Clicks, modelled: FloatArray) -> FloatArray:
    """C / E where a document was looked at once or more, else what a model says, at most 1."""
    enough = clicks.exposure >= 1
    return np.where(enough, clicks.clicks / np.where(enough, clicks.exposure, 1.0), np.minimum(modelled, 1.0))


def held_out_ndcg(scores: FloatArray, gains: FloatArray, data: Groups) -> FloatArray:
    """NDCG@10 of every query that has a gain at all.

    >>> data = Groups(np.zeros((3, 1), np.float32), np.zeros(3), np.array([0, 3]), np.arange(1))
    >>> held_out_ndcg(np.array([3.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.5]), data)
    array([0.5])
    """
    discount = 1 / np.log2(np.arange(_DEPTH) + 2.0)
    result = []
    for q in range(data.n_queries):
        rows = slice(data.offsets[q], data.offsets[q + 1])
        gain = gains[rows]
        order = np.argsort(-scores[rows], kind="stable")[:_DEPTH]
        best = np.sort(gain)[::-1][:_DEPTH]
        if best[0] > 0:
            result.append(float(gain[order] @ discount[: len(order)] / (best @ discount[: len(best)])))
    return np.array(result)


def _table(values: Mapping[str, FloatArray]) -> list[dict[str, Any]]:
    rows = []
    for name, value in values.items():
        gap = value - values[NAIVE]
        error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("nan")
        row = {"learner": name, "value": float(value.mean()), "difference": float(gap.mean()), "standard_error": error}
        rows.append(row)
    return rows
