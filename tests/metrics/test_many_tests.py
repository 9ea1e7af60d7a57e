"""Many tests and intervals at once: the same as one by one, right in size and in coverage."""

from __future__ import annotations

import numpy as np
import pytest

from luce.metrics import bootstrap_interval, holm, randomisation_test
from luce.metrics.significance import (
    Column,
    against,
    board,
    randomisation_p_values,
    resampled_means,
)


@pytest.fixture(scope="module")
def values():
    """Three models on 90 queries, one of them better on most."""
    rng = np.random.default_rng(0)
    base = rng.beta(2, 2, 90)
    return {"a": base, "b": base + rng.normal(0, 0.1, 90), "c": base + rng.normal(0.04, 0.1, 90)}


def test_p_values_are_those_of_the_single_test(values):
    difference = np.column_stack([values["b"] - values["a"], values["c"] - values["a"]])
    found = randomisation_p_values(difference, samples=50_000, seed=1)
    for i, name in enumerate("bc"):
        alone = randomisation_test(values[name], values["a"], samples=200_000, rng=5).p_value
        error = np.sqrt(alone * (1 - alone) * (1 / 50_000 + 1 / 200_000))
        assert abs(found[i] - alone) < 5 * error + 1e-4


def test_few_differences_are_enumerated(values):
    difference = np.zeros((90, 2))
    difference[:5, 0] = [0.1, 0.2, -0.1, 0.3, 0.4]
    expected = randomisation_test(difference[:, 0], np.zeros(90))
    assert expected.exact
    np.testing.assert_array_equal(randomisation_p_values(difference), [expected.p_value, 1.0])


def test_skipped_queries_count_for_nothing(values):
    rng = np.random.default_rng(2)
    padded = np.insert(values["c"] - values["a"], [10, 50], np.nan)[:, None]
    plain = (values["c"] - values["a"])[:, None]
    p = [randomisation_p_values(d, samples=50_000, seed=3)[0] for d in (padded, plain)]
    assert p[0] == pytest.approx(p[1], abs=5 * np.sqrt(p[1] / 50_000) + 1e-4)
    means = resampled_means(np.where(rng.random((40, 1)) < 0.3, np.nan, 0.25), samples=50, seed=0)
    np.testing.assert_allclose(means, 0.25)


def test_intervals_are_those_of_the_single_bootstrap(values):
    found = board([], values, 0)[1]
    for name, column in values.items():
        alone = bootstrap_interval(column, samples=20_000, rng=9)
        width = alone.high - alone.low
        assert found[name] == pytest.approx((alone.low, alone.high), abs=0.05 * width)


def test_rows_against_a_model(values):
    columns = [Column(metric, name, values[name], values["a"]) for metric in ("map", "err") for name in "bc"]
    rows = against(columns, seed=0)
    assert [(row["metric"], row["model"]) for row in rows] == [(c.metric, c.model) for c in columns]
    for row, column in zip(rows, columns, strict=True):
        assert row["difference"] == pytest.approx(np.mean(column.values - column.reference))
        assert row["low"] < row["difference"] < row["high"]
        assert row["wins"] + row["ties"] + row["losses"] == 90
    # One family a metric: the correction knows two models, not four columns.
    corrected = holm({row["model"]: row["p"] for row in rows[:2]})
    assert [row["p_holm"] for row in rows[:2]] == [corrected["b"], corrected["c"]]
    assert against([], seed=0) == []
    (row,) = against([Column("map", "b", np.full(3, np.nan), np.ones(3))], seed=0)
    assert np.isnan(row["difference"])
    assert (row["p"], row["wins"] + row["ties"] + row["losses"]) == (1.0, 0)


def test_false_positives_of_equal_models():
    """Under the null, p <= 0.05 happens in 5% of experiments, and after Holm any of four does in at most 5%."""
    rng = np.random.default_rng(7)
    experiments, models, queries = 400, 4, 40
    # Skewed, with many exact ties, as differences of a metric are; the two systems of a query may swap places.
    size = rng.exponential(0.2, (queries, experiments * models)) * (rng.random((queries, experiments * models)) < 0.6)
    difference = size * rng.choice([-1.0, 1.0], size.shape)
    p = randomisation_p_values(difference, samples=2000, seed=1)
    rate = np.mean(p <= 0.05)
    assert abs(rate - 0.05) < 4 * np.sqrt(0.05 * 0.95 / p.size)
    families = p.reshape(experiments, models)
    any_wrong = np.mean([min(holm(dict(enumerate(row))).values()) <= 0.05 for row in families])
    assert any_wrong < 0.05 + 4 * np.sqrt(0.05 * 0.95 / experiments)
    assert np.mean((families <= 0.05).any(axis=1)) > any_wrong  # what the correction is for


def test_a_real_difference_is_found():
    rng = np.random.default_rng(8)
    difference = rng.normal(0.05, 0.1, (100, 200))
    assert np.mean(randomisation_p_values(difference, samples=2000, seed=1) <= 0.05) > 0.95


def test_coverage_of_intervals():
    """95% intervals of the mean of skewed values hold it in 91 to 97 of 100 cases at 60 queries."""
    rng = np.random.default_rng(9)
    experiments = 600
    columns = {i: rng.beta(0.6, 1.4, 60) for i in range(experiments)}
    found = np.array(list(board([], columns, 3)[1].values()))
    covered = np.mean((found[:, 0] <= 0.3) & (found[:, 1] >= 0.3))
    assert 0.91 < covered < 0.97


def test_draws_are_counted(values):
    matrix = np.column_stack(list(values.values()))
    rng = np.random.default_rng(4)
    drawn = rng.integers(0, 90, size=(50, 90), dtype=np.int32)
    np.testing.assert_allclose(resampled_means(matrix, samples=50, seed=4), matrix[drawn].mean(axis=1), rtol=1e-12)


def test_a_board_is_both_of_its_parts(values):
    columns = [Column("map", name, values[name], values["a"]) for name in "bc"]
    rows, found = board(columns, values, seed=2)
    for row, alone in zip(rows, against(columns, seed=2), strict=True):
        assert row == {
            key: pytest.approx(value, rel=1e-9) if key in ("low", "high") else value for key, value in alone.items()
        }
    assert found == {name: pytest.approx(limits, rel=1e-9) for name, limits in board([], values, 2)[1].items()}
    assert board([], {}, seed=2) == ([], {})
