"""Facts about data, and the simulated collection."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.describe import describe
from luce.data.simulate import simulate, split
from luce.errors import SettingError


def test_facts_equal_counts_by_hand() -> None:
    X = [[1.0, 5, np.nan], [2, 5, 1], [3, 5, 2], [4, 5, 3], [5, 5, 4], [6, 5, np.nan]]
    facts = describe(luce.from_arrays(X, [0, 1, 1, 2, 0, 0], qid=[1, 1, 1, 2, 3, 3], allow_nan=True))
    assert (facts["queries"], facts["documents"], facts["features"]) == (3, 6, 3)
    assert facts["labels"] == {"0": 3, "1": 2, "2": 1}
    assert facts["tied_pairs"] == 2 / 4  # (1, 1) in the first query and (0, 0) in the third, of 3 + 0 + 1 pairs
    assert facts["one_document_queries"] == 1
    assert facts["all_equal_queries"] == 1
    assert facts["constant_features"] == ["2"]
    assert (facts["missing_values"], facts["documents_with_missing_values"]) == (2, 2)
    assert facts["documents_per_query"]["max"] == 3


def test_a_feature_that_is_always_missing_is_constant() -> None:
    facts = describe(luce.from_arrays([[np.nan, 1], [np.nan, 2]], allow_nan=True))
    assert facts["constant_features"] == ["1"]


def test_many_labels_are_summarised() -> None:
    facts = describe(luce.from_arrays(np.ones((30, 1)), np.arange(30.0)))
    assert facts["labels"] == {"distinct": 30, "min": 0.0, "max": 29.0}
    assert describe(luce.from_arrays([[1.0]]))["tied_pairs"] is None


def test_simulation_is_the_same_for_the_same_seed_and_any_threads() -> None:
    luce.set_threads(1)
    try:
        first = simulate(900, 20, seed=3)
    finally:
        luce.set_threads(None)
    second, other = simulate(900, 20, seed=3), simulate(900, 20, seed=4)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    assert other.X.shape != first.X.shape or not np.array_equal(other.X, first.X)


def test_simulation_looks_like_a_judged_collection() -> None:
    data = simulate(2000, 40, seed=0)
    assert 1 <= data.sizes.min() <= 2
    assert data.sizes.max() <= 200
    assert 20 < data.sizes.mean() < 28
    assert np.median(data.sizes) < data.sizes.mean()
    counts = np.bincount(data.y.astype(int))
    assert len(counts) == 5
    assert (np.diff(counts) < 0).all()
    assert np.isfinite(data.X).all()
    facts = describe(data)
    assert facts["constant_features"] == ["40"]
    assert facts["tied_pairs"] > 0.3
    queries = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    columns = np.maximum.reduce([np.ptp(data.X[a:b], axis=0) for a, b in queries])
    assert (columns == 0).sum() >= 4  # features of the query alone, and the constant one


def test_labels_can_be_learned_and_not_by_a_line_alone() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    train, test = split(simulate(600, 30, seed=1), [0.5, 0.5])
    linear = LinearRegression().fit(train.X, train.y).score(test.X, test.y)
    trees = HistGradientBoostingRegressor(random_state=0, max_iter=60).fit(train.X, train.y).score(test.X, test.y)
    assert 0.02 < linear < trees < 0.9


def test_split_is_a_partition() -> None:
    data = simulate(50, 3)
    parts = split(data, [0.6, 0.2, 0.2], seed=5)
    ids = sorted(str(i) for part in parts for i in part.query_ids)
    assert ids == sorted(data.query_ids.tolist())


@pytest.mark.parametrize("wrong", [{"queries": 0}, {"features": 0}, {"grades": 1}, {"noise": -1.0}, {"seed": -1}])
def test_settings_of_the_simulation(wrong) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        simulate(**{"queries": 5, "features": 3, **wrong})
    with pytest.raises(SettingError, match="too few"):
        split(simulate(2, 3), [0.6, 0.2, 0.2])
