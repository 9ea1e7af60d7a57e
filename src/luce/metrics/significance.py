"""Is one model better than another? Tests and intervals on per-query values.

All functions take one value a query; queries that are NaN in either column (skipped) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError, SettingError
from luce.types import FloatArray

_EXACT_QUERIES = 16
_BLOCK = 1 << 22
"""Random numbers drawn at a time, which bounds the memory whatever the number of queries and samples."""


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
    # Sums that are equal on paper may differ in the last bits: count them as reached.
    bar = abs(moving.sum()) - 1e-12 * np.abs(moving).sum()
    if moving.size <= _EXACT_QUERIES:
        sums = np.zeros(1)
        for value in moving:
            sums = np.concatenate([sums + value, sums - value])
        return RandomisationTest(mean, float(np.mean(np.abs(sums) >= bar)), True)
    if samples < 1:
        raise SettingError(f"The number of samples is {samples}; it must be at least 1.")
    hits = sum(int((np.abs(sums) >= bar).sum()) for sums in _flipped_sums(moving, samples, np.random.default_rng(rng)))
    return RandomisationTest(mean, (1 + hits) / (1 + samples), False)


def _flipped_sums(values: FloatArray, samples: int, rng: np.random.Generator) -> Any:
    """Sums of `values` under random signs, block by block."""
    words = -(-values.size // 8)
    total = values.sum()
    block = max(1, _BLOCK // values.size)
    for start in range(0, samples, block):
        bits = rng.integers(0, 256, size=(min(block, samples - start), words), dtype=np.uint8)
        flips = np.unpackbits(bits, axis=1, count=values.size)
        yield total - 2.0 * (flips @ values)


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
    generator = np.random.default_rng(rng)
    means = np.empty(samples)
    block = max(1, _BLOCK // values.size)
    for start in range(0, samples, block):
        count = min(block, samples - start)
        draws = generator.integers(0, values.size, size=(count, values.size), dtype=np.int32)
        means[start : start + count] = values[draws].mean(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(values.mean()), float(low), float(high))


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
