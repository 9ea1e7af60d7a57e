"""How often the intervals of `luce.clicks` hold the truth, over logs of simulated users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import luce
from luce.clicks import ClickCounts, evaluate, examination
from luce.clicks.evaluation import ESTIMATORS
from luce.clicks.simulation import Users, attraction, production, simulate_counts, weak_rankers
from luce.numerics.segments import query_index
from luce.types import FloatArray, IntArray

__all__ = ["CURVES", "covered", "error"]


@dataclass(frozen=True)
class StepUsers(Users):
    """Users whose attention falls at the third and the sixth position, and hardly elsewhere."""

    def theta(self, positions: FloatArray) -> FloatArray:
        """Examination of positions, the first 1."""
        at = np.asarray(positions, dtype=np.float64)
        return np.where(at < 3, 1.0, np.where(at < 6, 0.5, 0.2)) * 0.97 ** (at - 1)

    def chance(self, k: int, attracted: FloatArray) -> FloatArray:
        """Probability of a click at position k."""
        return float(self.theta(np.array([k]))[0]) * attracted


CURVES: dict[str, Users] = {"1/k": Users(), "steps": StepUsers()}


def error(seen: luce.clicks.Examination, users: Users) -> float:
    """Root mean squared error of log examination, positions 2 and on."""
    return float(np.sqrt(np.mean((np.log(seen.theta / users.theta(seen.position)))[1:] ** 2)))


def covered(
    data: luce.Groups, size: int, seeds: range, users: Users, *, share: float, shown: int, swap: float
) -> dict[str, float]:
    """The share of logs whose interval holds the truth, by metric, estimator and what is estimated.

    The new ranker is linear, learned from the grades, among the documents that the log shows; production rankers,
    sessions and clicks are drawn anew for every log. Also how often intervals of examination hold the truth, and how
    far it is off.
    """
    scores = luce.Ranker(loss="ranknet", l2=0.01).fit(data).predict(data)
    weights = {"dcg@10": lambda k: 1 / np.log2(1 + k), "clicks@10": users.theta}
    hits: dict[str, list[float]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, 99])
        made = production(data, weak_rankers(data, rng, share=share), shown=shown, swap=swap)
        counts = simulate_counts(data, made, rng, sessions=size, users=users)
        rows = counts.rows_in(data)
        new = scores - 2 * np.ptp(scores)  # what was never shown is last
        new[rows] = scores[rows]
        seen = examination(counts, data)
        found = evaluate(seen, data, new, metrics=list(weights))
        for metric, weigh in weights.items():
            value, before = truth(data, counts, rows, new, weigh)
            for estimator in ESTIMATORS:
                for what, part, right in (
                    ("value", found.estimates, value),
                    ("difference", found.differences, value - before),
                ):
                    one = part[metric, estimator]
                    hits.setdefault(f"{metric}, {estimator}, {what}", []).append(one.low <= right <= one.high)
        (low, high), right = seen.interval(), users.theta(seen.position)
        hits.setdefault("examination", []).append(np.mean((low <= right)[1:] & (right <= high)[1:]))
        hits.setdefault("rmse", []).append(error(seen, users))
        for method in ("conditional", "joint"):
            hits.setdefault(f"rmse, {method}", []).append(error(examination(counts, data, method=method), users))
    return {"logs": float(len(seeds))} | {name: float(np.mean(inside)) for name, inside in hits.items()}


def truth(
    data: luce.Groups,
    counts: ClickCounts,
    rows: IntArray,
    scores: FloatArray,
    weigh: Callable[[FloatArray], FloatArray],
) -> tuple[float, float]:
    """The value of the ranking by `scores`, and of what was shown; `weigh` gives the weight of a rank."""
    gamma, query = attraction(data.y), query_index(data.offsets)
    sessions = np.zeros(data.n_queries)
    sessions[query[rows]] = counts.sessions[counts.document_query]
    order = np.lexsort((-scores, query))
    rank = np.empty(data.n_rows, dtype=np.int64)
    rank[order] = np.arange(data.n_rows) - data.offsets[query[order]] + 1
    value = np.sum(np.where(rank <= 10, weigh(rank), 0.0) * sessions[query] * gamma) / sessions.sum()
    before = np.sum(counts.shown * weigh(counts.position) * gamma[rows[counts.document]]) / sessions.sum()
    return float(value), float(before)
