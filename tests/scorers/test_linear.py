"""Moments of the columns, by NumPy and by a kernel."""

from __future__ import annotations

import numpy as np

from luce.scorers import linear


def test_moments_of_few_and_of_many_values(monkeypatch):
    X = np.random.default_rng(0).normal(1e3, 1.0, (5000, 7)).astype(np.float32)
    X[:, 3] = 5.0
    few = linear.standardise(X)
    monkeypatch.setattr(linear, "_FEW", 0)
    many = linear.standardise(X)
    np.testing.assert_allclose(few.mean, many.mean, rtol=1e-14)
    np.testing.assert_allclose(few.inverse_sd, many.inverse_sd, rtol=1e-11)
    assert few.inverse_sd[3] == many.inverse_sd[3] == 0.0
