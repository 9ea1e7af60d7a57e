"""Counts that are drawn without rows have the means of counted rows, for every kind of users."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.clicks import read
from luce.clicks.simulation import Users, as_columns, production, simulate_counts, simulate_sessions, weak_rankers
from luce.errors import DataError, SettingError


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    rng = np.random.default_rng(0)
    return luce.from_arrays(
        rng.normal(size=(9, 2)), [0, 1, 2, 0, 1, 2, 0, 1, 2], qid=["a"] * 6 + ["b"] * 3, document_ids=np.arange(9)
    )


@pytest.mark.parametrize("kind", ["position", "trust", "cascade"])
def test_counts_agree_with_sessions(data, kind):
    rng = np.random.default_rng(1)
    made = production(data, [rng.normal(size=9), rng.normal(size=9)], shown=4, swap=0.3)
    users = Users(kind, eta=0.7)
    n = 200_000
    drawn = simulate_counts(data, made, rng, sessions=n, users=users)
    counted = read(as_columns(simulate_sessions(data, made, rng, sessions=n, users=users), data))

    def table(counts):
        rows = counts.rows_in(data)[counts.document]
        dense = np.zeros((2, 9, 5, 5))
        dense[0, rows, counts.position, counts.after] = counts.shown
        dense[1, rows, counts.position, counts.after] = counts.clicked
        return dense

    one, other = table(drawn), table(counted)
    error = np.sqrt(np.maximum(one + other, 1.0))  # of the difference of two binomial counts, at most
    assert np.abs((one - other) / error).max() < 5
    assert one[0].sum() == other[0].sum() or abs(one[0].sum() - other[0].sum()) < 5 * np.sqrt(n)


def test_weak_rankers_and_bad_settings(data):
    rng = np.random.default_rng(0)
    scores = weak_rankers(data, rng, rankers=3, share=0.5)
    assert len(scores) == 3
    with pytest.raises(DataError, match="grades that differ"):
        weak_rankers(luce.from_arrays(np.zeros((2, 1)), [1, 1]), rng)
    with pytest.raises(SettingError, match="at least one"):
        production(data, [])
    with pytest.raises(DataError, match="finite scores"):
        production(data, [np.zeros(3)])
    for options in ({"trust": 2.0}, {"after_click": -1.0}, {"eta": np.inf}):
        with pytest.raises(SettingError, match=next(iter(options))):
            Users(**options)
