"""Gaps and categories as columns of numbers."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import luce
from luce.data.filling import Filling
from luce.errors import DataError

TABLE = pa.table(
    {
        "qid": [1, 1, 1, 2, 2],
        "brand": ["b", "a", None, "b", "c"],
        "price": [4.0, None, 6.0, 9.0, None],
        "stock": [1, 2, 3, 4, 6],
    }
)


def test_medians_indicators_and_categories():
    data = luce.from_frame(TABLE, allow_nan=True)
    filling = Filling.learn(data, fill=True, expand=True)
    seen = filling.applied(data)
    price = np.array([4.0, np.median([4, 6, 9]), 6, 9, np.median([4, 6, 9])])
    brand = np.array([[value == name for name in "abc"] for value in TABLE["brand"].to_pylist()])
    gaps = [value is None for value in TABLE["price"].to_pylist()]
    expected = np.column_stack([price, TABLE["stock"].to_numpy(), gaps, brand]).astype(np.float32)
    np.testing.assert_array_equal(seen.X, expected)
    assert seen.feature_names == ("price", "stock", "price is missing", "brand = a", "brand = b", "brand = c")
    assert filling.width == seen.n_features
    assert Filling.from_dict(json.loads(json.dumps(filling.to_dict()))) == filling


def test_later_data_have_the_medians_and_columns_of_training():
    data = luce.from_frame(TABLE, allow_nan=True)
    filling = Filling.learn(data, fill=True, expand=True)
    later = {"qid": [1], "brand": ["never"], "price": [5.0], "stock": [None]}
    with pytest.warns(luce.errors.LuceWarning, match="not seen"):
        other = luce.from_frame(pa.table(later | {"stock": pa.array([None], pa.int64())}), schema=data.schema)
    with pytest.warns(luce.errors.LuceWarning, match="'stock' has gaps, and had none in training"):
        filled = filling.applied(other)
    assert filled.X.tolist() == [[5, 3, 0, 0, 0, 0]]


def test_only_what_a_scorer_cannot_do_is_done():
    data = luce.from_frame(TABLE, allow_nan=True)
    gaps_stay = Filling.learn(data, fill=False, expand=True).applied(data)
    assert np.isnan(gaps_stay.X[:, 0]).tolist() == [False, True, False, False, True]
    assert Filling.learn(data, fill=False, expand=False) is None
    whole = luce.from_frame(TABLE.select(["qid", "stock"]))
    filling = Filling.learn(whole, fill=True, expand=True)
    assert filling.applied(whole) is whole
    assert filling.matrix(np.array([[np.nan]], dtype=np.float32)).tolist() == [[3.0]]
    assert Filling.learn(luce.from_arrays(np.eye(2)), fill=True, expand=True) is None
    gaps = luce.from_arrays([[1.0], [np.nan], [3.0]], allow_nan=True)
    assert Filling.learn(gaps, fill=True, expand=True).applied(gaps).X.tolist() == [[1, 0], [2, 1], [3, 0]]


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"medians": [1.0], "marked": [1], "categories": [0]},
        {"medians": [1.0], "marked": [], "categories": []},
        {"medians": [1.0], "marked": [], "categories": [-1]},
        {"medians": [1.0], "marked": [0], "categories": [2]},
        {"medians": ["x"], "marked": [], "categories": [0]},
        {"medians": [1e999], "marked": [], "categories": [0]},
    ],
)
def test_damaged_records_are_refused(record):
    with pytest.raises(DataError, match="gaps and categories"):
        Filling.from_dict(record)
