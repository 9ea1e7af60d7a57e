"""Is one model better than another? Tests and intervals on per-query values.

All functions take one value a query; queries that are NaN in either column (skipped) are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.errors import DataError, SettingError
from luce.metrics.catalog import get
from luce.metrics.evaluate import mean_of
from luce.result import Sheet, sheet_of
from luce.types import FloatArray

_EXACT_QUERIES = 16
"""Up to so many queries that differ, a test takes all flips."""
FLIPS = 20_000
"""Random sign flips of a test: p = 0.05 is known to 0.0015."""
RESAMPLES = 10_000
"""Resampled sets of queries of an interval."""
_BLOCK = 1 << 18
"""Signs or draws at a time: two megabytes, which the cache holds for the product that follows."""
_BLOCK_OF_ONE = 1 << 22
"""The same for a test alone; what is drawn depends on it, and pages were made with it."""


K = TypeVar("K", bound=Hashable)


class RandomisationTest(NamedTuple):
    """Mean difference, two-sided p-value, and whether all sign flips were enumerated."""

    difference: float
    p_value: float
    exact: bool


class Interval(NamedTuple):
    """A mean with a confidence interval."""

    mean: float
    low: float
    high: float


class WinTieLoss(NamedTuple):
    """Queries on which the first is better, equal, worse."""

    wins: int
    ties: int
    losses: int


class ModelDifference(NamedTuple):
    """Everything about one pair of models on one metric."""

    test: RandomisationTest
    interval: Interval
    counts: WinTieLoss


def _differences(a: ArrayLike, b: ArrayLike | None) -> FloatArray:
    first = np.asarray(a, dtype=np.float64)
    second = np.zeros_like(first) if b is None else np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise DataError(
            f"Per-query values must be two vectors of one length; got shapes {first.shape} and {second.shape}."
        )
    difference = first - second
    difference = difference[~np.isnan(difference)]
    if not difference.size:
        raise DataError("No query has a value in both columns; at least one is needed.")
    return difference


def randomisation_test(
    a: ArrayLike, b: ArrayLike, *, samples: int = 100_000, rng: np.random.Generator | int | None = 0
) -> RandomisationTest:
    """Paired randomisation test of equal means, two-sided.

    Under the null hypothesis the two values of a query may be swapped: p is the share of the 2^q sign flips of the
    differences whose |mean| is at least the observed one. Up to 16 queries that differ, all flips are enumerated;
    beyond, `samples` random ones are drawn and p = (1 + hits) / (1 + samples): never 0, and valid as it is.

    >>> randomisation_test([0.5, 0.7, 0.9], [0.4, 0.5, 0.6]).p_value
    0.25
    """
    difference = _differences(a, b)
    mean = float(difference.mean())
    # Flipping a zero changes nothing, so queries without a difference need no flips.
    moving = difference[difference != 0.0]
    if moving.size == 0:
        return RandomisationTest(mean, 1.0, True)
    if moving.size <= _EXACT_QUERIES:
        # Sums that are equal on paper may differ in the last bits: count them as reached.
        bar = abs(moving.sum()) - 1e-12 * np.abs(moving).sum()
        sums = np.zeros(1)
        for value in moving:
            sums = np.concatenate([sums + value, sums - value])
        return RandomisationTest(mean, float(np.mean(np.abs(sums) >= bar)), True)
    if samples < 1:
        raise SettingError(f"The number of samples is {samples}; it must be at least 1.")
    share = _flipped_shares(moving[:, None], samples, np.random.default_rng(rng), _BLOCK_OF_ONE)[0]
    return RandomisationTest(mean, float(share), False)


def bootstrap_interval(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    level: float = 0.95,
    samples: int = 10_000,
    rng: np.random.Generator | int | None = 0,
) -> Interval:
    """Percentile bootstrap over queries, of a mean or, given `b`, of the mean paired difference.

    >>> bootstrap_interval([1.0, 1.0, 1.0])
    Interval(mean=1.0, low=1.0, high=1.0)
    """
    if not 0.0 < level < 1.0 or samples < 1:
        raise SettingError(f"level is {level} and samples is {samples}; they must be in (0, 1) and at least 1.")
    values = _differences(a, b)
    low, high = _quantiles(resampled_means(values[:, None], samples=samples, seed=rng), level)
    return Interval(float(values.mean()), float(low[0]), float(high[0]))


def win_tie_loss(a: ArrayLike, b: ArrayLike, *, tolerance: float = 1e-9) -> WinTieLoss:
    """Count the queries where `a` is better, equal within `tolerance`, worse.

    >>> win_tie_loss([1.0, 0.5, 0.2], [0.5, 0.5, 0.1])
    WinTieLoss(wins=2, ties=1, losses=0)
    """
    difference = _differences(a, b)
    wins, losses = int((difference > tolerance).sum()), int((difference < -tolerance).sum())
    return WinTieLoss(wins, difference.size - wins - losses, losses)


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    level: float = 0.95,
    samples: int = 100_000,
    rng: np.random.Generator | int | None = 0,
) -> ModelDifference:
    """Test, interval and counts of the paired differences `a - b`."""
    generator = np.random.default_rng(rng)
    return ModelDifference(
        randomisation_test(a, b, samples=samples, rng=generator),
        bootstrap_interval(a, b, level=level, rng=generator),
        win_tie_loss(a, b),
    )


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: adjusted p-values that keep the family-wise error below any level.

    The i-th smallest of m becomes the largest of (m - j + 1) p_(j) over j <= i, at most 1.

    >>> holm({"x": 0.01, "y": 0.04, "z": 0.03})
    {'x': 0.03, 'y': 0.06, 'z': 0.06}
    """
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, running = {}, 0.0
    for i, name in enumerate(ordered):
        running = max(running, min(1.0, (len(ordered) - i) * p_values[name]))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


# Many models on one set of queries share sign flips and draws, so that a matrix product does the work of many tests.


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


def board(
    columns: Sequence[Column], values: Mapping[K, FloatArray], seed: int, level: float = 0.95
) -> tuple[list[dict[str, Any]], dict[K, tuple[float, float]]]:
    """`against`, and bootstrap intervals of the means of further columns, NaN where one has no value.

    Both at once, since to draw the queries takes longer than all the means over them.
    """
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


def differences_sheet(rows: Sequence[Mapping[str, Any]], who: str = "model") -> Sheet:
    """The rows of `against` for people: those of many models (`who`) against one, or of one against many."""
    header = ["metric", who, "difference", "95% interval", "p", "p (Holm)", "better", "equal", "worse"]
    shown = [
        [
            row["metric"],
            row[who],
            f"{row['difference']:+.4f}",
            f"{row['low']:+.4f} to {row['high']:+.4f}",
            *(f"{row[key]:.4f}" if row[key] >= 0.001 else f"{row[key]:.2g}" for key in ("p", "p_holm")),
            *(row[count] for count in ("wins", "ties", "losses")),
        ]
        for row in rows
    ]
    title = f"Against {rows[0]['against']}, query by query" if who == "model" else "Paired differences"
    return sheet_of(title, header, shown)


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
    for i in np.flatnonzero(moving <= _EXACT_QUERIES):
        p_values[i] = randomisation_test(filled[:, i], np.zeros(len(filled))).p_value
    many = np.flatnonzero(moving > _EXACT_QUERIES)
    if many.size:
        p_values[many] = _flipped_shares(np.ascontiguousarray(filled[:, many]), samples, np.random.default_rng(seed))
    return p_values


def _flipped_shares(
    values: NDArray[np.float64], samples: int, rng: np.random.Generator, at_once: int = _BLOCK
) -> FloatArray:
    """(1 + hits) / (1 + samples) of random sign flips whose sums are as far from 0 as those of the columns."""
    total = values.sum(axis=0)
    # Sums that are equal on paper may differ in the last bits: count them as reached.
    bar = np.abs(total) - 1e-12 * np.abs(values).sum(axis=0)
    hits = np.zeros(values.shape[1], dtype=np.int64)
    block = max(1, at_once // len(values))
    for start in range(0, samples, block):
        bits = rng.integers(0, 256, size=(min(block, samples - start), -(-len(values) // 8)), dtype=np.uint8)
        flips = np.unpackbits(bits, axis=1, count=len(values)).astype(np.float64)
        hits += (np.abs(total - 2.0 * (flips @ values)) >= bar).sum(axis=0)
    return (1 + hits) / (1 + samples)


def resampled_means(
    values: NDArray[np.float64], *, samples: int = RESAMPLES, seed: np.random.Generator | int | None = 0
) -> NDArray[np.float64]:
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
        places = drawn + queries * np.arange(count)[:, None]
        weight = np.bincount(places.ravel(), minlength=count * queries).reshape(count, queries).astype(np.float64)
        present = np.full((count, filled.shape[1]), float(queries)) if there.all() else weight @ there
        with np.errstate(invalid="ignore"):
            means[start : start + count] = (weight @ filled) / present
    return means


def _quantiles(means: NDArray[np.float64], level: float) -> tuple[FloatArray, FloatArray]:
    quantile = np.nanquantile if np.isnan(means).any() else np.quantile  # which is quicker
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may have no value
        low, high = quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return low, high
