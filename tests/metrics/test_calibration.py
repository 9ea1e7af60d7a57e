"""Reliability curves on outcomes with known probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from luce.errors import DataError, SettingError
from luce.metrics.calibration import reliability


def test_calibrated_predictions_have_no_error_but_noise():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200_000)
    curve = reliability(p, rng.uniform(size=len(p)) < p)
    assert curve.error < 0.006
    np.testing.assert_allclose(curve.predicted, np.arange(0.05, 1, 0.1), atol=0.002)
    assert curve.counts.sum() == len(p)


def test_known_distance():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.7, 100_000)
    curve = reliability(p, rng.uniform(size=len(p)) < p + 0.2)
    assert curve.error == pytest.approx(0.2, abs=0.01)
    filled = curve.counts > 0
    np.testing.assert_allclose((curve.observed - curve.predicted)[filled], 0.2, atol=0.02)


def test_empty_bins_are_nan_and_do_not_count():
    curve = reliability([0.05, 0.95], [0, 1], bins=10)
    assert curve.counts.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert np.isnan(curve.observed[1:9]).all()
    assert curve.error == pytest.approx(0.05)


def test_ends_of_the_scale_belong_to_the_outer_bins():
    assert reliability([0.0, 1.0], [0, 1], bins=4).counts.tolist() == [1, 0, 0, 1]


def test_an_edge_belongs_to_the_bin_above():
    assert reliability([0.25, 0.5, 0.75], [0, 1, 1], bins=4).counts.tolist() == [0, 1, 1, 1]


def test_weights_count_as_repetitions():
    p, y, w = np.array([0.1, 0.15, 0.8]), np.array([0, 1, 1]), np.array([3, 1, 2])
    weighted = reliability(p, y, bins=5, weight=w)
    repeated = reliability(np.repeat(p, w), np.repeat(y, w), bins=5)
    np.testing.assert_allclose(weighted.observed, repeated.observed)
    np.testing.assert_allclose(weighted.predicted, repeated.predicted)
    assert weighted.error == pytest.approx(repeated.error)


def test_quantile_bins_hold_equally_many():
    p = np.random.default_rng(0).beta(1, 8, 1000)
    curve = reliability(p, np.zeros(1000), bins=4, strategy="quantile")
    np.testing.assert_allclose(curve.counts, 250, atol=1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (([0.5], [0, 1]), "vectors of one length"),
        (([], []), "at least 1"),
        (([1.5], [1]), r"must lie in \[0, 1\]"),
        (([np.nan], [1]), r"must lie in \[0, 1\]"),
        (([0.5], [2]), "outcomes be 0 or 1"),
    ],
)
def test_bad_arrays(arguments, why):
    with pytest.raises(DataError, match=why):
        reliability(*arguments)


def test_bad_settings():
    with pytest.raises(SettingError, match="bins"):
        reliability([0.5], [1], bins=0)
    with pytest.raises(SettingError, match="strategy"):
        reliability([0.5], [1], strategy="log")
    with pytest.raises(DataError, match="Weights"):
        reliability([0.5], [1], weight=[0.0])
