"""Tests and intervals for many models and metrics at once.

All columns share the same random sign flips and the same resampled queries, so that a matrix product does the work of
many tests. Each one alone is what `luce.metrics.randomisation_test` and `luce.metrics.bootstrap_interval` compute.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from luce.metrics.catalog import get
from luce.metrics.evaluate import mean_of
from luce.metrics.significance import holm, randomisation_test, win_tie_loss
from luce.numerics.compiled import kernel
from luce.types import FloatArray

FLIPS = 20_000
"""Random sign flips of a test: p = 0.05 is known to 0.0015."""
RESAMPLES = 10_000
"""Resampled sets of queries of an interval."""
_BLOCK = 1 << 18
"""Signs or draws at a time: two megabytes, which the cache holds for the product that follows."""
_FEW = 16
"""Up to so many queries that differ, a test takes all flips of its own."""

K = TypeVar("K", bound=Hashable)


class Column(NamedTuple):
    """One model beside another on one metric: a value each for every query."""

    metric: str
    model: str
    values: FloatArray
    reference: FloatArray


def against(columns: Sequence[Column], seed: int, level: float = 0.95) -> list[dict[str, Any]]:
    """Difference, interval, p-values (also after Holm, over the models of a metric) and counts of every column.

    Where no query has a value in both, there is no difference (NaN) and nothing against the null (p = 1).
    """
    return board(columns, {}, seed, level)[0]


def intervals(values: Mapping[K, FloatArray], seed: int, level: float = 0.95) -> dict[K, tuple[float, float]]:
    """Bootstrap intervals over queries of the means of several columns; NaN where a column has no value."""
    return board([], values, seed, level)[1]


def board(
    columns: Sequence[Column], values: Mapping[K, FloatArray], seed: int, level: float = 0.95
) -> tuple[list[dict[str, Any]], dict[K, tuple[float, float]]]:
    """`against` and `intervals` at once: to draw the queries takes longer than all the means over them."""
    differences = [column.values - column.reference for column in columns]
    stacked = [*differences, *values.values()]
    if not stacked:
        return [], {}
    low, high = _quantiles(resampled_means(np.column_stack(stacked), seed=seed), level)
    limits = list(zip(low.tolist(), high.tolist(), strict=True))
    rows = _rows(columns, np.column_stack(differences), limits[: len(columns)], seed) if columns else []
    return rows, dict(zip(values, limits[len(columns) :], strict=True))


def _rows(
    columns: Sequence[Column], difference: NDArray[np.float64], limits: Sequence[tuple[float, float]], seed: int
) -> list[dict[str, Any]]:
    counted: NDArray[np.bool_] = np.logical_not(np.isnan(difference).all(axis=0))
    p_values = randomisation_p_values(difference, seed=seed)
    corrected: dict[tuple[str, str], float] = {}
    for metric in dict.fromkeys(column.metric for column in columns):
        family = {c.model: p for c, p in zip(columns, p_values, strict=True) if c.metric == metric}
        corrected |= {(metric, model): p for model, p in holm(family).items()}
    rows = []
    for i, column in enumerate(columns):
        wins, ties, losses = win_tie_loss(column.values, column.reference) if counted[i] else (0, 0, 0)
        if not get(column.metric).greater_is_better:
            wins, losses = losses, wins
        rows.append(
            {
                "metric": column.metric,
                "model": column.model,
                "difference": mean_of(difference[:, i]),
                "low": limits[i][0],
                "high": limits[i][1],
                "p": float(p_values[i]),
                "p_holm": corrected[column.metric, column.model],
                "wins": wins,
                "ties": ties,
                "losses": losses,
            }
        )
    return rows


def randomisation_p_values(difference: NDArray[np.float64], *, samples: int = FLIPS, seed: int = 0) -> FloatArray:
    r"""Two-sided p-values of paired randomisation tests, a column each; NaN rows of a column count for nothing.

    $p = (1 + \#\{|\sum_q \pm d_q| \ge |\sum_q d_q|\}) / (1 + \text{samples})$, with all $2^q$ flips instead where at
    most 16 differences are not zero.

    >>> randomisation_p_values(np.array([[0.1], [0.2], [0.3]]))
    array([0.25])
    """
    filled = np.nan_to_num(difference, nan=0.0)
    moving = np.count_nonzero(filled, axis=0)
    p_values = np.ones(filled.shape[1])
    for i in np.flatnonzero(moving <= _FEW):
        p_values[i] = randomisation_test(filled[:, i], np.zeros(len(filled))).p_value
    many = np.flatnonzero(moving > _FEW)
    if not many.size:
        return p_values
    values = np.ascontiguousarray(filled[:, many])
    total = values.sum(axis=0)
    # Sums that are equal on paper may differ in the last bits: count them as reached.
    bar = np.abs(total) - 1e-12 * np.abs(values).sum(axis=0)
    rng = np.random.default_rng(seed)
    queries = len(values)
    block = max(1, _BLOCK // queries)
    hits = np.zeros(len(many), dtype=np.int64)
    padded = np.zeros((8 * -(-queries // 8), len(many)))
    padded[:queries] = values
    for start in range(0, samples, block):
        shape = (min(block, samples - start), len(padded) // 8)
        bits = np.frombuffer(rng.bytes(shape[0] * shape[1]), dtype=np.uint8).reshape(shape)
        hits += (np.abs(total - 2.0 * _sums_of_chosen(bits, padded)) >= bar).sum(axis=0)
    p_values[many] = (1 + hits) / (1 + samples)
    return p_values


def resampled_means(values: NDArray[np.float64], *, samples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Means of every column over queries drawn with replacement, a row a draw; NaN rows of a column are left out."""
    there = ~np.isnan(values)
    filled = np.nan_to_num(values, nan=0.0)
    queries = len(filled)
    rng = np.random.default_rng(seed)
    means = np.empty((samples, filled.shape[1]))
    block = max(1, _BLOCK // queries)
    for start in range(0, samples, block):
        count = min(block, samples - start)
        drawn = rng.integers(0, queries, size=(count, queries), dtype=np.int32)
        weight = np.zeros((count, queries))
        _count(drawn, weight)
        present = np.full((count, filled.shape[1]), float(queries)) if there.all() else weight @ there
        with np.errstate(invalid="ignore"):
            means[start : start + count] = (weight @ filled) / present
    return means


@kernel
def _sums_of_chosen(bits: NDArray[np.uint8], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every row of bits, the sum of the rows of `values` whose bit is set, the first one being the highest.

    Four queries at a time: of their 16 sums each row of bits takes one, which is a quarter of the additions and needs
    no matrix of flips.
    """
    samples, columns = bits.shape[0], values.shape[1]
    sums = np.zeros((samples, columns))
    of_four = np.zeros((16, columns))
    for four in range(2 * bits.shape[1]):
        for chosen in range(1, 16):
            rest, last = chosen, 3
            while not rest & 1:
                rest >>= 1
                last -= 1
            for c in range(columns):
                of_four[chosen, c] = of_four[chosen & (chosen - 1), c] + values[4 * four + last, c]
        shift = 0 if four & 1 else 4
        for s in range(samples):
            chosen = (bits[s, four >> 1] >> shift) & 15
            for c in range(columns):
                sums[s, c] += of_four[chosen, c]
    return sums


@kernel
def _count(drawn: NDArray[np.int32], weight: NDArray[np.float64]) -> None:
    """How often every query was drawn, a row a draw."""
    for s in range(drawn.shape[0]):
        for i in range(drawn.shape[1]):
            weight[s, drawn[s, i]] += 1.0


def _quantiles(means: NDArray[np.float64], level: float) -> tuple[FloatArray, FloatArray]:
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    if not np.isnan(means).any():
        low, high = np.quantile(means, tails, axis=0)
        return low, high
    found = np.full((2, means.shape[1]), np.nan)
    for i in range(means.shape[1]):
        column = means[:, i][~np.isnan(means[:, i])]
        if column.size:
            found[:, i] = np.quantile(column, tails)
    return found[0], found[1]
