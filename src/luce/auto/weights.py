r"""What every member of a blend counts, learned on scores that no member saw the labels of.

Choosing one member by its out-of-fold figure is the worst way on small data, and weights of likelihood do not know
the metric. So all blends of at most four parts are valued on every query once; on a random half of the queries the
best of them is taken; and the mean over many halves is shrunk to equal weights,

$$w = \lambda\, \overline{w}_\text{halves} + (1 - \lambda)\, w_\text{equal}, \qquad \lambda = \frac{n}{n + 100},$$

with n the queries on which blends differ. A member that is clearly worse than the best has no part in the equal
weights. What the blend will be worth is valued on queries whose labels had no say in its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from luce.data.groups import Groups
from luce.metrics.catalog import Metric
from luce.metrics.evaluate import evaluate_rows
from luce.types import FloatArray, IntArray

__all__ = ["Estimate", "Learned", "Valued", "estimate", "learn", "learned", "spread", "value_blends"]

_PARTS = 4
_HALVES = 50
_PRIOR_QUERIES = 100.0
_WORSE = 2.5
"""Standard errors by which a member must lie below the best to be left out of the equal weights."""
_ROUNDS = 10
"""Parts of the queries that an estimate leaves out in turn."""
_MOST_QUERIES = 4000
"""Weights and estimate are learned on at most so many queries."""


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
    sizes = data.sizes[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(data.offsets[:-1][chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    labels = _Labels(data.y[rows], offsets, np.arange(len(chosen)))
    scores, shares = np.ascontiguousarray(scores[:, rows]), _lattice(len(scores))
    values = np.stack([_worth(row @ scores, labels, metric) for row in shares])
    return Valued(shares, values, scores, labels, metric)


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
    values = evaluate_rows(scores, labels, [metric]).values[metric.name]
    return values if metric.greater_is_better else -values


class Learned(NamedTuple):
    """Weights of the members, which sum to 1, and what they come of."""

    weights: FloatArray
    chosen: FloatArray
    """The share of every member in the blends that were best on halves of the queries."""
    kept: NDArray[np.bool_]
    """Whether a member is among those that count alike, being not clearly worse than the best."""


def learn(valued: Valued, queries: IntArray, rng: np.random.Generator) -> FloatArray:
    """Weights of the members by these queries, which sum to 1."""
    return learned(valued, queries, rng).weights


def learned(valued: Valued, queries: IntArray, rng: np.random.Generator) -> Learned:
    """The same, with what they come of."""
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
    shares: FloatArray = kept / kept.sum()
    return shares


def estimate(valued: Valued, rng: np.random.Generator) -> Estimate:
    """Every tenth of the queries by weights that were learned on the others."""
    n = valued.values.shape[1]
    parts = rng.permutation(n) % min(_ROUNDS, n)
    found = np.full(n, np.nan)
    for part in range(int(parts.max()) + 1):
        out = parts == part
        found[out] = valued.worth(learn(valued, np.flatnonzero(~out), rng))[out]
    found = found[~np.isnan(found)]
    mean = float(found.mean())
    width = float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    sign = 1.0 if valued.metric.greater_is_better else -1.0
    low, high = sorted((sign * (mean - width), sign * (mean + width)))
    return Estimate(sign * mean, low, high, len(found))
