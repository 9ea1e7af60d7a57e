"""How often the intervals of `luce.clicks.evaluate` hold the truth, over logs of simulated users."""

from __future__ import annotations

import numpy as np

import luce
from luce.clicks import ClickCounts, evaluate, examination
from luce.clicks.evaluation import ESTIMATORS
from luce.clicks.simulation import production, simulate_counts, weak_rankers
from luce.clicks.users import attraction
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

__all__ = ["covered"]

METRICS = {"dcg@10": lambda k: 1 / np.log2(1 + k), "clicks@10": lambda k: 1 / k}
"""Weight of a rank, for users who look at position k with probability 1/k."""


def covered(data: luce.Groups, size: int, seeds: range, *, share: float, shown: int, swap: float) -> dict[str, float]:
    """The share of logs whose interval holds the truth, by metric, estimator and what is estimated.

    The new ranker is linear, learned from the grades, among the documents that the log shows; production rankers,
    sessions and clicks are drawn anew for every log.
    """
    scores = luce.Ranker(loss="ranknet", l2=0.01).fit(data).predict(data)
    hits: dict[str, list[bool]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, 99])
        made = production(data, weak_rankers(data, rng, share=share), shown=shown, swap=swap)
        counts = simulate_counts(data, made, rng, sessions=size)
        rows = counts.rows_in(data)
        new = scores - 2 * np.ptp(scores)  # what was never shown is last
        new[rows] = scores[rows]
        found = evaluate(examination(counts, data), data, new, metrics=list(METRICS))
        for metric in METRICS:
            value, before = truth(data, counts, rows, new, metric)
            for estimator in ESTIMATORS:
                for what, part, right in (
                    ("value", found.estimates, value),
                    ("difference", found.differences, value - before),
                ):
                    one = part[metric, estimator]
                    hits.setdefault(f"{metric}, {estimator}, {what}", []).append(one.low <= right <= one.high)
    return {"logs": float(len(seeds))} | {name: float(np.mean(inside)) for name, inside in hits.items()}


def truth(
    data: luce.Groups, counts: ClickCounts, rows: IntArray, scores: FloatArray, metric: str
) -> tuple[float, float]:
    """The value of the ranking by `scores`, and of what was shown."""
    gamma, query, weigh = attraction(data.y), query_index(data.offsets), METRICS[metric]
    sessions = np.zeros(data.n_queries)
    sessions[query[rows]] = counts.sessions[counts.document_query]
    order = np.lexsort((-scores, query))
    rank = np.empty(data.n_rows, dtype=np.int64)
    rank[order] = np.arange(data.n_rows) - data.offsets[query[order]] + 1
    value = np.sum(np.where(rank <= 10, weigh(rank), 0.0) * sessions[query] * gamma) / sessions.sum()
    before = np.sum(counts.shown * weigh(counts.position) * gamma[rows[counts.document]]) / sessions.sum()
    return float(value), float(before)
