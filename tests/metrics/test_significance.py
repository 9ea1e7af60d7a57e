from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

from luce.errors import DataError, SettingError
from luce.metrics import bootstrap_interval, compare, holm, randomisation_test, win_tie_loss


@pytest.mark.parametrize("seed", range(4))
def test_exact_p_value_equals_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 8) / 4.0, rng.integers(0, 5, 8) / 4.0
    d = a - b
    reached = [abs(np.dot(signs, d)) >= abs(d.sum()) - 1e-12 for signs in itertools.product([1, -1], repeat=8)]
    result = randomisation_test(a, b)
    assert result.exact
    assert result.p_value == pytest.approx(np.mean(reached))
    assert result.difference == pytest.approx(d.mean())


def test_sums_that_are_equal_on_paper_are_reached() -> None:
    """Tenths have no exact binary form; in whole numbers the same flips are counted without rounding."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        tenths = rng.integers(-9, 10, 8)
        sums = [abs(np.dot(signs, tenths)) for signs in itertools.product([1, -1], repeat=8)]
        expected = np.mean(np.array(sums) >= abs(tenths.sum()))
        assert randomisation_test(tenths / 10, np.zeros(8)).p_value == expected


def test_sampled_p_value_of_one_is_never_zero() -> None:
    """Of 999 draws none reaches a difference that is the same on 40 queries: p = 1 / 1000."""
    assert randomisation_test(np.ones(40), np.zeros(40), samples=999).p_value == 0.001


def test_sampled_p_value_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(5)
    d = rng.normal(0.3, 1.0, 20)
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    exact = np.mean(np.abs(sums) >= abs(d.sum()) - 1e-12)
    result = randomisation_test(d, np.zeros(20), samples=40_000, rng=1)
    assert not result.exact
    # Four standard errors of 40,000 draws.
    assert result.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))


def test_p_values_are_uniform_under_the_null() -> None:
    rng = np.random.default_rng(6)
    p = [randomisation_test(*rng.normal(size=(2, 40)), samples=999, rng=rng).p_value for _ in range(400)]
    assert kstest(p, "uniform").pvalue > 0.01


def test_a_real_difference_is_found() -> None:
    rng = np.random.default_rng(7)
    base = rng.uniform(size=200)
    assert randomisation_test(base + rng.normal(0.05, 0.1, 200), base, samples=9_999).p_value < 0.001


def test_interval_covers_the_mean() -> None:
    """Of 400 intervals at 90% for means of 60 exponential values, 84% to 93% hold the truth: skewness costs some."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        interval = bootstrap_interval(rng.exponential(size=60), level=0.9, samples=500, rng=rng)
        covered += interval.low <= 1.0 <= interval.high
    assert 0.84 <= covered / 400 <= 0.93


def test_interval_of_a_paired_difference() -> None:
    rng = np.random.default_rng(9)
    base = rng.uniform(size=500)
    noise = rng.normal(0.1, 0.05, 500)
    interval = bootstrap_interval(base + noise, base, rng=3)
    half = 1.96 * noise.std() / math.sqrt(500)
    assert interval.mean == pytest.approx(noise.mean())
    assert interval.low == pytest.approx(noise.mean() - half, abs=half / 5)
    assert interval.high == pytest.approx(noise.mean() + half, abs=half / 5)


def test_same_seed_same_answer_and_generators_move_on() -> None:
    a, b = np.random.default_rng(10).normal(size=(2, 50))
    assert compare(a, b, rng=4) == compare(a, b, rng=4)
    rng = np.random.default_rng(4)
    assert bootstrap_interval(a, rng=rng) != bootstrap_interval(a, rng=rng)


def test_skipped_queries_are_left_out() -> None:
    a, b = [1.0, math.nan, 0.5, 0.25], [0.5, 1.0, math.nan, 0.5]
    assert win_tie_loss(a, b) == (1, 0, 1)
    assert randomisation_test(a, b).difference == pytest.approx(0.125)
    with pytest.raises(DataError, match="No query has a value in both"):
        randomisation_test([math.nan], [1.0])


def test_equal_models() -> None:
    result = compare([0.5, 0.2], [0.5, 0.2])
    assert result.test.p_value == 1.0
    assert result.counts == (0, 2, 0)
    assert result.interval == (0.0, 0.0, 0.0)


def test_holm_against_its_definition() -> None:
    p = {"a": 0.005, "b": 0.011, "c": 0.02, "d": 0.04, "e": 0.013}
    ordered = sorted(p.values())
    for name, value in holm(p).items():
        i = ordered.index(p[name])
        assert value == pytest.approx(min(1.0, max((5 - j) * ordered[j] for j in range(i + 1))))
    assert holm({}) == {}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_bad_settings() -> None:
    with pytest.raises(DataError, match="two vectors of one length"):
        randomisation_test([1.0], [1.0, 2.0])
    with pytest.raises(SettingError, match="at least 1"):
        randomisation_test(np.arange(30.0), np.zeros(30), samples=0)
    with pytest.raises(SettingError, match="level"):
        bootstrap_interval([1.0], level=1.5)
