"""Profiles of training data: bins, drift against its formulas, and damaged arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from luce.data.describe import Profile, drift
from luce.errors import DataError


def learned(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.exponential(size=n)]).astype(np.float32)
    X[rng.random(n) < 0.2, 2] = np.nan
    return X, rng.normal(size=n), Profile.learn(X, np.linspace(0, 1, n), {1: ("a", "b", "c")})


def test_shares_are_those_of_the_training():
    X, _, profile = learned()
    assert profile.n_columns == 4
    np.testing.assert_allclose(profile.column_shares(0)[:-1], 0.05, atol=1 / len(X))
    np.testing.assert_allclose(profile.column_shares(1), [*np.bincount(X[:, 1].astype(int)) / len(X), 0, 0])
    assert profile.column_shares(2)[-1] == pytest.approx(np.isnan(X[:, 2]).mean())
    for j in range(4):
        assert profile.column_shares(j).sum() == pytest.approx(1)


def test_the_same_documents_do_not_drift():
    X, _, profile = learned()
    for one in profile.drift(profile.counts(X, np.linspace(0, 1, len(X)))):
        assert one.psi < 1e-6
        assert one.ks < 1e-12


def test_the_index_is_its_sum_and_the_distance_that_of_scipy():
    X, _, profile = learned()
    later = np.random.default_rng(1).normal(0.5, 1.3, size=2000)
    Z = np.column_stack([later, np.zeros(2000), np.ones(2000)]).astype(np.float32)
    counts = profile.counts(Z, np.zeros(2000))
    found = profile.drift(counts)[0]
    p, q = profile.column_shares(0), counts[: len(profile.column_shares(0))] / 2000
    p, q = (p + 0.5 / 2000), (q + 0.5 / 2000)
    p, q = p / p.sum(), q / q.sum()
    assert found.psi == pytest.approx(sum((b - a) * np.log(b / a) for a, b in zip(p, q, strict=True)))
    exact = stats.ks_2samp(X[:, 0], Z[:, 0]).statistic
    assert exact - 0.05 <= found.ks <= exact + 1e-9


def test_an_unknown_category_has_a_bin_and_gaps_another():
    _, _, profile = learned()
    X = np.array([[0, 3, np.nan], [0, 0, 1]], dtype=np.float32)
    counts = profile.counts(X, np.zeros(2))
    first = profile.starts[1] + 2
    assert counts[first : first + 5].tolist() == [1, 0, 0, 1, 0]


def test_a_window_without_documents_has_no_drift():
    assert drift(np.array([0.5, 0.5, 0.0]), np.zeros(3)).psi == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.pop("edges"),
        lambda a: a["edges"].__setitem__(0, np.nan),
        lambda a: a["edges"].__setitem__(0, 1e9),
        lambda a: a["starts"].__setitem__(1, 0),
        lambda a: a["starts"].__setitem__(-1, 10**9),
        lambda a: a["shares"].__setitem__(0, -1.0),
        lambda a: a.update(shares=a["shares"][:-1]),
        lambda a: a.update(starts=a["starts"].astype(np.float64)),
    ],
)
def test_damaged_profiles_are_refused(change):
    arrays = {name: array.copy() for name, array in learned(400)[2].arrays().items()}
    Profile.from_arrays(arrays, 400, 4)
    change(arrays)
    with pytest.raises(DataError, match="profile"):
        Profile.from_arrays(arrays, 400, 4)
