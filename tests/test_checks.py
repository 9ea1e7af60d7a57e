"""Whole numbers as settings: what counts as one, and what is said of anything else."""

from __future__ import annotations

import numpy as np
import pytest

from luce.checks import is_whole, whole
from luce.errors import SettingError


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3), 10**30])
def test_whole_numbers(value):
    assert is_whole(value)
    assert whole("k", value, 1) == value
    assert type(whole("k", value, 1)) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float64(2.0), "3", None, [1], float("nan")])
def test_what_is_no_whole_number(value):
    assert not is_whole(value)
    with pytest.raises(SettingError, match=r"^k is .*; it must be a whole number of at least 1\.$"):
        whole("k", value, 1)


def test_bounds_are_included():
    assert [n for n in range(6) if is_whole(n, 2, 4)] == [2, 3, 4]
    with pytest.raises(SettingError, match=r"^k is 5; it must be a whole number from 2 to 4\.$"):
        whole("k", 5, 2, 4)
