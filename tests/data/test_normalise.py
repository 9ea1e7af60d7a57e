"""Normalisation within queries, query by query."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from luce.data.filling import normalise_within_queries
from luce.errors import SettingError


@pytest.mark.parametrize("kind", ["minmax", "zscore"])
def test_against_the_formula_of_one_query(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(3, 5, (30, 4)).astype(np.float32)
    X[:, 2] = np.repeat(rng.normal(size=3), 10)  # constant in every query
    offsets = np.array([0, 10, 29, 30])
    found = normalise_within_queries(X, offsets, kind)
    for a, b in pairwise(offsets):
        x = X[a:b].astype(np.float64)
        centre, spread = (x.min(axis=0), np.ptp(x, axis=0)) if kind == "minmax" else (x.mean(axis=0), x.std(axis=0))
        expected = np.divide(x - centre, spread, out=np.zeros_like(x), where=spread > 1e-12)
        np.testing.assert_allclose(found[a:b], expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32


def test_unknown_kind():
    with pytest.raises(SettingError, match="'minmax' or 'zscore'"):
        normalise_within_queries(np.zeros((1, 1), np.float32), np.array([0, 1]), "norm")
