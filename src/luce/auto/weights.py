"""The blend: weights learned on out-of-fold scores, what it will be worth, and probabilities of its scores."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

from luce import losses
from luce.data.groups import Groups
from luce.losses.base import Loss, Risk
from luce.losses.pairwise import Davidson
from luce.metrics.catalog import Formula, Metric
from luce.metrics.evaluate import Judged, evaluate_rows
from luce.metrics.lists import Lists
from luce.numerics.links import get as link
from luce.types import FloatArray, IntArray

_FARTHEST = 7.0
"""Scales lie between exp(-7) and exp(7)."""
_LEAST = 1e-3
_PAIRS = 500_000
"""Pairs of which at most the chances are learned."""
_PENALTY = 1e-6


def calibrate(scores: FloatArray, data: Groups, rng: np.random.Generator, as_race: bool = False) -> tuple[float, Loss]:
    """Davidson's model for pairs and ties, and Luce's for the top k, each with the scale that suits it best.

    `scores` are about 1 in their spread within a query. `as_race` takes Luce's for all: what shares a tier of a list
    was not compared, so that there are no ties to learn from. Gives what scores are multiplied by, and the loss whose
    probabilities they then have.
    """
    if as_race:
        return fit_scale(losses.get("plackett_luce"), scores, data)
    slope, beta, first, second = _fit_pairs(scores, data, rng)
    scale = max(slope, _LEAST)
    race_scale, _ = fit_scale(losses.get("plackett_luce"), scores, data)
    loss = losses.get("davidson", race_scale=race_scale / scale, tie_level=(first / scale, second / scale**2))
    assert isinstance(loss, Davidson)
    low, high = link("davidson").bounds
    return scale, loss.with_parameters(np.array([np.clip(beta, low, high)]))


def _fit_pairs(scores: FloatArray, data: Groups, rng: np.random.Generator) -> FloatArray:
    """Slope of the difference, and the three terms of ties, by logistic regression with three outcomes."""
    i, j = _pairs(data, rng)
    half, level = 0.5 * (scores[i] - scores[j]), 0.5 * (scores[i] + scores[j])
    outcome = np.sign(data.y[i] - data.y[j]).astype(np.int64)  # 0 is a tie, 1 a win, -1 a loss
    terms = np.stack([np.ones_like(level), level, level**2])
    rows = np.arange(len(i))

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        logs = np.stack([vector[1:] @ terms, vector[0] * half, -vector[0] * half])
        logs -= logsumexp(logs, axis=0)
        chance = np.exp(logs)
        chance[outcome, rows] -= 1.0
        grad = np.append((chance[1] - chance[2]) @ half, terms @ chance[0]) / len(i)
        value = 0.5 * _PENALTY * float(vector @ vector) - float(logs[outcome, rows].mean())
        return value, grad + _PENALTY * vector

    return minimize(objective, np.array([1.0, 0.0, 0.0, 0.0]), jac=True, method="L-BFGS-B").x


def _pairs(data: Groups, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Rows of pairs of documents of one query, all of them or so many drawn ones."""
    sizes = data.sizes
    counts = sizes * (sizes - 1) // 2
    if counts.sum() <= _PAIRS:
        upper = [np.triu_indices(n, 1) for n in sizes]
        starts = np.repeat(data.offsets[:-1], counts)
        i, j = (np.concatenate([pair[side] for pair in upper]) for side in (0, 1))
        return starts + i, starts + j
    query = rng.choice(len(sizes), _PAIRS, p=counts / counts.sum())
    i = (rng.random(_PAIRS) * sizes[query]).astype(np.int64)
    j = (i + 1 + (rng.random(_PAIRS) * (sizes[query] - 1)).astype(np.int64)) % sizes[query]
    return data.offsets[query] + i, data.offsets[query] + j


def race_likelihood() -> Metric:
    """Log-probability of every list or preference under Luce's model, for what is stated in place of grades."""

    def measure(lists: Lists, _: int) -> FloatArray:
        risk = Risk(losses.get("plackett_luce"), lists.labels, lists.offsets)
        return -risk.each(lists.scores, np.empty_like(lists.scores))[0]

    return Metric("log_likelihood", Formula(measure))


def fit_scale(loss: Loss, scores: FloatArray, data: Judged) -> tuple[float, Loss]:
    """The factor of the scores, with the parameters of the loss itself, at which the loss is least."""

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        scaled = np.exp(vector[0]) * scores
        value, grad, d_parameters = loss.with_parameters(vector[1:]).value_and_grads(scaled, data.y, data.offsets)
        return value / queries, np.append(grad @ scaled, d_parameters) / queries

    start, queries = np.append(0.0, loss.parameters), len(data.offsets) - 1
    bounds = [(-_FARTHEST, _FARTHEST), *loss.parameter_bounds]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(np.exp(found.x[0])), loss.with_parameters(found.x[1:])


_PARTS = 4
_HALVES = 50
_PRIOR_QUERIES = 100.0
_WORSE = 2.5
"""Standard errors by which a member must lie below the best to be left out of the equal weights."""
_ROUNDS = 10
"""Parts of the queries that an estimate leaves out in turn."""
_MOST_QUERIES = 4000
"""Weights and estimate are learned on at most so many queries."""
_MOST_VALUES, _DRAWS = 4_000_000, 5
"""Values of features that are tried alone, and random orders."""


@dataclass(frozen=True)
class _Labels:
    """What a metric looks at of the queries."""

    y: FloatArray
    offsets: IntArray
    query_ids: NDArray[Any]
    document_ids: None = None


@dataclass(frozen=True, eq=False)
class Valued:
    """Blends and what each is worth on every query; higher is better, whatever the metric."""

    shares: FloatArray
    """A row a blend, a column a member; the first rows are the members alone."""
    values: FloatArray
    """A row a blend, a column a query."""
    scores: FloatArray
    """A row a member, in units of its spread, on the documents of these queries."""
    labels: _Labels
    metric: Metric

    def worth(self, shares: FloatArray) -> FloatArray:
        """The value of one more blend on every query."""
        return _worth(shares @ self.scores, self.labels, self.metric)


@dataclass(frozen=True)
class Estimate:
    """What the blend will be worth on queries like these, with a 95% interval over queries."""

    value: float
    low: float
    high: float
    queries: int


def spread(scores: FloatArray, data: Groups) -> float:
    """Standard deviation of scores within queries, over all documents together."""
    starts = data.offsets[:-1]
    mean = np.add.reduceat(scores, starts) / data.sizes
    return float(np.sqrt(np.mean((scores - np.repeat(mean, data.sizes)) ** 2)))


def value_blends(scores: FloatArray, data: Groups, metric: Metric, rng: np.random.Generator) -> Valued:
    """All blends of up to four parts on every query that the metric counts."""
    chosen = np.arange(data.n_queries)
    if len(chosen) > _MOST_QUERIES:
        chosen = np.sort(rng.choice(chosen, _MOST_QUERIES, replace=False))
    rows, labels = _of_queries(data, chosen)
    scores, shares = np.ascontiguousarray(scores[:, rows]), _lattice(len(scores))
    values = np.stack([_worth(row @ scores, labels, metric) for row in shares])
    return Valued(shares, values, scores, labels, metric)


def _of_queries(data: Groups, chosen: IntArray) -> tuple[IntArray, _Labels]:
    """The rows of some queries, and their labels."""
    sizes = data.sizes[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(data.offsets[:-1][chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return rows, _Labels(data.y[rows], offsets, np.arange(len(chosen)))


def _lattice(members: int) -> FloatArray:
    """Shares of all blends of up to four parts, members alone first.

    >>> _lattice(2).tolist()[:3]
    [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    """
    counts = (parts for n in range(1, _PARTS + 1) for parts in combinations_with_replacement(range(members), n))
    rows = [np.bincount(parts, minlength=members) / len(parts) for parts in counts]
    found, first = np.unique(np.round(rows, 12), axis=0, return_index=True)
    return found[np.argsort(first)]


def _worth(scores: FloatArray, labels: _Labels, metric: Metric) -> FloatArray:
    if metric.name == "log_likelihood":  # at the scale that the blend will have
        scores = scores * fit_scale(losses.get("plackett_luce"), scores, labels)[0]
    values = evaluate_rows(scores, labels, [metric]).values[metric.name]
    return values if metric.greater_is_better else -values


class Learned(NamedTuple):
    """Weights of the members, which sum to 1, and what they come of."""

    weights: FloatArray
    chosen: FloatArray
    """The share of every member in the blends that were best on halves of the queries."""
    kept: NDArray[np.bool_]
    """Whether a member is among those that count alike, being not clearly worse than the best."""


def learned(valued: Valued, queries: IntArray, rng: np.random.Generator) -> Learned:
    """Weights of the members by these queries."""
    values = valued.values[:, queries]
    values = values[:, ~np.isnan(values).any(axis=0)]
    n, members = values.shape[1], valued.shares.shape[1]
    equal = _equal(values[:members]) if n > 1 else np.full(members, 1.0 / members)
    if n < 2:
        return Learned(equal, equal, equal > 0)
    chosen = np.zeros(members)
    for _ in range(_HALVES):
        half = rng.permutation(n)[: (n + 1) // 2]
        chosen += valued.shares[int(np.argmax(values[:, half].mean(axis=1)))] / _HALVES
    speaking = int(np.sum(values.max(axis=0) > values.min(axis=0)))
    share = speaking / (speaking + _PRIOR_QUERIES)
    return Learned(share * chosen + (1.0 - share) * equal, chosen, equal > 0)


def _equal(alone: FloatArray) -> FloatArray:
    """Equal weights of the members that are not clearly worse than the best."""
    means = alone.mean(axis=1)
    below = alone - alone[int(np.argmax(means))]
    error = below.std(axis=1, ddof=1) / np.sqrt(alone.shape[1])
    kept = below.mean(axis=1) >= -_WORSE * error
    return kept / kept.sum()


def beside(X: NDArray[np.float32], data: Groups, metric: Metric, rng: np.random.Generator) -> dict[str, Any]:
    """What a random order is worth on queries, and the best feature alone, in its better direction; gaps come last.

    Of many queries some at equal distances are taken, so that all features take a second or so.
    """
    step = max(1, data.n_rows * X.shape[1] // _MOST_VALUES)
    taken, labels = _of_queries(data, np.arange(0, data.n_queries, step))
    sign = 1.0 if metric.greater_is_better else -1.0
    draws = [float(np.nanmean(_worth(rng.random(len(taken)), labels, metric))) for _ in range(_DRAWS)]
    worth = np.full(X.shape[1], -np.inf)
    for j in range(X.shape[1]):
        x = X[taken, j].astype(np.float64)
        low, high = np.nanmin(x, initial=0.0), np.nanmax(x, initial=0.0)
        for column in (np.nan_to_num(x, nan=low - 1.0), np.nan_to_num(-x, nan=-high - 1.0)):
            worth[j] = max(worth[j], float(np.nanmean(_worth(column, labels, metric)))) if np.ptp(column) else worth[j]
    best = int(np.argmax(worth))
    alone = {} if not np.isfinite(worth[best]) else {"feature": best, "feature_value": sign * float(worth[best])}
    return {"random": sign * float(np.mean(draws)), **alone}


def estimate(valued: Valued, rng: np.random.Generator) -> Estimate:
    """Every tenth of the queries by weights that were learned on the others."""
    n = valued.values.shape[1]
    parts = rng.permutation(n) % min(_ROUNDS, n)
    found = np.full(n, np.nan)
    for part in range(int(parts.max()) + 1):
        out = parts == part
        found[out] = valued.worth(learned(valued, np.flatnonzero(~out), rng).weights)[out]
    found = found[~np.isnan(found)]
    mean = float(found.mean())
    width = float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    sign = 1.0 if valued.metric.greater_is_better else -1.0
    low, high = sorted((sign * (mean - width), sign * (mean + width)))
    return Estimate(sign * mean, low, high, len(found))
