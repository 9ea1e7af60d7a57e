"""The linear-time sort against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from luce.numerics.compiled import kernel
from luce.numerics.radix import sort_with_order

CASES = {
    "normal": np.random.default_rng(0).normal(size=5000),
    "many equal": np.random.default_rng(1).integers(-3, 3, 1000).astype(float),
    "all equal": np.full(50, -2.5),
    "extreme": np.array([1e300, -1e300, 1e-300, -1e-300, 0.0, 5e-324, -5e-324, 1.0, -1.0]),
    "one": np.array([3.0]),
    "none": np.empty(0),
}

compiled_sort = kernel(sort_with_order)


@pytest.mark.parametrize("case", CASES)
def test_stable_sort(case):
    values = CASES[case]
    order, out = np.empty(len(values), dtype=np.int64), np.empty(len(values))
    compiled_sort(values, order, out)
    expected = np.argsort(values, kind="stable")
    assert np.array_equal(out, values[expected])
    assert np.array_equal(order, expected)
