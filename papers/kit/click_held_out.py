"""Trees and a linear scorer on the clicks of held-out queries, by the number of queries; no grade judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import clone

import luce
from luce.clicks import examination
from luce.clicks.guard import explained, folds_of, of_queries
from luce.clicks.simulation import production, simulate_counts, weak_rankers

__all__ = ["held_out"]

FOLDS = 5


def held_out(data: luce.Groups, queries: int, per_query: int, *, shown: int, swap: float) -> dict[str, float]:
    """Nats a click that each explains better than exposure alone, and the difference with its standard error."""
    if queries < data.n_queries:
        drawn = np.random.default_rng([queries, 1]).choice(data.n_queries, queries, replace=False)
        data = data.take(np.sort(drawn))
    rng = np.random.default_rng([0, 5])
    rankers = weak_rankers(data, rng, share=max(0.01, 2 / data.n_queries))
    made = production(data, rankers, shown=shown, swap=swap)
    counts = simulate_counts(data, made, rng, sessions=per_query * data.n_queries)
    target = examination(counts, data).target(data)
    blank = replace(data, y=np.zeros(data.n_rows))
    learners = {
        "linear": luce.Ranker(loss="click_choice", l2=0.01),
        "trees": luce.Ranker(loss="click_choice", scorer="trees", max_iter=50, random_state=0),
    }
    fold, loss = folds_of(blank, target, FOLDS, np.random.default_rng(0)), learners["linear"].parts().loss
    values: dict[str, list[np.ndarray]] = {name: [] for name in learners}
    for k in range(FOLDS):
        known, held, judged = blank.take(fold != k), blank.take(fold == k), of_queries(target, blank, fold == k)
        for name, learner in learners.items():
            fitted = clone(learner).fit(known, clicks=of_queries(target, blank, fold != k))
            values[name].append(explained(loss, fitted.predict(held), judged, held.offsets))
    linear, trees = (np.concatenate(values[name]) for name in ("linear", "trees"))
    apart = trees - linear
    return {
        "linear": float(linear.mean()),
        "trees": float(trees.mean()),
        "difference": float(apart.mean()),
        "error": float(apart.std(ddof=1) / np.sqrt(len(apart))),
    }
