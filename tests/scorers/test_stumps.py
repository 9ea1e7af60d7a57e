"""Sums of steps: scores, importance and states from files."""

from __future__ import annotations

import numpy as np
import pytest

from luce.errors import ModelFormatError
from luce.scorers.stumps import FittedStumps


@pytest.fixture
def stumps() -> FittedStumps:
    rng = np.random.default_rng(0)
    feature, threshold = rng.integers(0, 4, 30), rng.choice([0.0, 0.25, 0.5, 0.75], 30)
    return FittedStumps.of(feature, threshold, rng.normal(size=30), rng.normal(size=30), 5)


def test_scores_are_sums_over_steps(stumps):
    X = np.random.default_rng(1).choice([0.0, 0.25, 0.3, 0.9, np.nan], (50, 5)).astype(np.float32)
    expected = np.zeros(50)
    for i, row in enumerate(X):
        for k, threshold, weight, missing in zip(
            stumps.feature, stumps.threshold, stumps.weight, stumps.missing, strict=True
        ):
            expected[i] += missing if np.isnan(row[k]) else weight * (row[k] > threshold)
    np.testing.assert_allclose(stumps.score(X, np.array([0, 20, 50])), expected, atol=1e-12)


def test_joining_equal_places_keeps_the_sum():
    feature, threshold, weight = [0, 1, 0, 0], [0.5, 0.5, 0.5, 0.1], [1.0, 2.0, 4.0, 8.0]
    joined = FittedStumps.of(feature, threshold, weight, weight, 2)
    assert (joined.feature.tolist(), joined.threshold.tolist()) == ([0, 0, 1], [0.1, 0.5, 0.5])
    assert joined.weight.tolist() == joined.missing.tolist() == [8.0, 5.0, 2.0]


def test_importance_is_the_range_of_a_feature():
    stumps = FittedStumps.of([0, 0, 2], [0.0, 1.0, 0.0], [3.0, -1.0, -2.0], [0.0] * 3, 3)
    assert stumps.importance().tolist() == [3.0, 0.0, 2.0]


def test_no_steps_score_zero():
    empty = FittedStumps.of([], [], [], [], 3)
    assert empty.score(np.ones((2, 3), dtype=np.float32), np.array([0, 2])).tolist() == [0.0, 0.0]
    again = FittedStumps.from_state(*empty.state())
    assert again.importance().tolist() == [0.0, 0.0, 0.0]


def test_states_with_a_fault_are_refused(stumps):
    settings, arrays = stumps.state()
    X = np.random.default_rng(2).normal(size=(6, 5)).astype(np.float32)
    offsets = np.array([0, 6])
    again = FittedStumps.from_state(settings, arrays)
    np.testing.assert_array_equal(again.score(X, offsets), stumps.score(X, offsets))
    faults = [
        {"feature": arrays["feature"].astype(np.int32)},
        {"feature": np.full_like(arrays["feature"], 5)},
        {"feature": arrays["feature"] - 1},
        {"feature": arrays["feature"][::-1].copy()},
        {"threshold": np.zeros_like(arrays["threshold"])},
        {"threshold": np.full_like(arrays["threshold"], np.nan)},
        {"weight": arrays["weight"][:-1]},
        {"weight": np.full_like(arrays["weight"], np.inf)},
        {"missing": arrays["missing"].astype(np.float32)},
    ]
    for fault in faults:
        with pytest.raises(ModelFormatError):
            FittedStumps.from_state(settings, {**arrays, **fault})
    for key in arrays:
        with pytest.raises(ModelFormatError):
            FittedStumps.from_state(settings, {k: v for k, v in arrays.items() if k != key})
    for n_features in (None, 0, 2.0, True, "5"):
        with pytest.raises(ModelFormatError, match="number of features"):
            FittedStumps.from_state({"n_features": n_features}, arrays)
