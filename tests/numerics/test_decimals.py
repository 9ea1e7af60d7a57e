"""Rounding of decimal numbers against Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from luce.numerics.compiled import kernel
from luce.numerics.decimals import nearest

# What only kernels call, compiled for a call from here.
nearest = kernel(nearest)


def check(w: int, q: int) -> None:
    assert nearest(np.uint64(w), q) == float(f"{w}e{q}"), (w, q)


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(-350, 315))
def test_any_whole_number_times_any_power_of_ten(w, q):
    check(w, q)


@pytest.mark.parametrize("w", [1, 2**53 - 1, 2**53, 2**53 + 1, 10**19, 2**63 + 2**10, 2**64 - 1])
def test_every_power_of_ten(w):
    for q in range(-350, 315):
        check(w, q)


@settings(max_examples=500, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0), st.sampled_from([16, 17, 18]))
def test_digits_of_float64_numbers(x, places):
    digits, exponent = f"{x:.{places}e}".split("e")
    check(int(digits.replace(".", "")), int(exponent) - places)


@settings(max_examples=500, deadline=None)
@given(st.integers(2**52, 2**53 - 1), st.integers(0, 9), st.integers(-4, 23))
def test_numbers_half_way_between_two(k, zeros, q):
    half_way = 2 * k + 1
    check(half_way << zeros, 0)
    for w in (half_way * 5**-q if q < 0 else half_way, half_way + 1):
        if w < 2**64:
            check(w, q)
