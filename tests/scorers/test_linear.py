"""Moments of the columns."""

from __future__ import annotations

import numpy as np

from luce.scorers import linear


def test_moments_of_many_blocks_are_those_of_the_columns():
    X = np.random.default_rng(0).normal(1e3, 1.0, (300_000, 7)).astype(np.float32)
    X[:, 3] = 5.0
    found, wide = linear.standardise(X), X.astype(np.float64)
    np.testing.assert_allclose(found.mean, wide.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.sd, wide.std(axis=0), rtol=1e-10)
    assert found.inverse_sd[3] == found.sd[3] == 0.0
