"""Four numbers at once against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from luce.numerics.fours import WIDTH, exp, first_lanes, load, place, splat, store, total, whole_fours


@njit(error_model="numpy")
def arithmetic(a, b, out):
    for i in range(0, len(a), WIDTH):
        x, y = load(place(a), i), load(place(b), i)
        store(place(out), i, (x + y * 2.0 - 1.0) / (3.0 - x) + 1.0 / y)


@njit(error_model="numpy")
def sum_of_first(a, count):
    return total(load(place(a), 0) * first_lanes(count)) + total(splat(0.25))


@njit(error_model="numpy")
def exponentials(x, out):
    for i in range(0, len(x), WIDTH):
        store(place(out), i, exp(load(place(x), i)))


@njit(error_model="numpy")
def with_a_whole_number(a):
    return total(load(place(a), 0) + 1)


@njit(error_model="numpy")
def place_of(a):
    return place(a)[0]


def test_arithmetic_is_that_of_each_number():
    rng = np.random.default_rng(0)
    a, b, out = rng.normal(size=12), rng.normal(size=12), np.empty(12)
    arithmetic(a, b, out)
    np.testing.assert_allclose(out, (a + b * 2.0 - 1.0) / (3.0 - a) + 1.0 / b, rtol=1e-14)


@pytest.mark.parametrize("count", [-3, 0, 1, 2, 3, 4, 9])
def test_first_lanes_and_total(count):
    a = np.array([1.0, 10.0, 100.0, 1000.0])
    assert sum_of_first(a, count) == a[: max(count, 0)].sum() + 1.0


def test_exponential_to_full_precision():
    x = np.concatenate([np.linspace(-700, 700, 4001), [0.0, 1e-300, -1e-17]])
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=2e-15)
    assert out[-3] == 1.0


def test_infinity_and_nan_stay_what_they_are():
    a, b, out = np.array([np.inf, np.nan, 3.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0]), np.empty(4)
    arithmetic(a, b, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, (a + b * 2.0 - 1.0) / (3.0 - a) + 1.0 / b)


@pytest.mark.parametrize(("n", "expected"), [(0, 4), (1, 4), (3, 4), (4, 8), (5, 8)])
def test_whole_fours_hold_the_place_behind_the_end(n, expected):
    assert whole_fours(n) == expected


@pytest.mark.parametrize("array", [np.zeros(4, dtype=np.float32), np.zeros((4, 4)), np.zeros(8)[::2]])
def test_other_arrays_have_no_place(array):
    with pytest.raises(TypingError):
        place_of(array)


def test_whole_numbers_do_not_mix_with_fours():
    with pytest.raises(TypingError):
        with_a_whole_number(np.zeros(4))
