from __future__ import annotations

import numpy as np
import pytest

from luce.aggregate import Ballots, footrule, footrule_matrix, kendall, kendall_matrix
from luce.errors import SettingError

from . import references
from .references import mean_places, random_ballots


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_kendall_matrix_against_a_loop_over_pairs(ties, penalty):
    votes = random_ballots(np.random.default_rng(1), 7, 20, ties=ties, truncate=ties)
    rows = votes.filled("last")
    expected = [[references.kendall(a, b, penalty) for b in rows] for a in rows]
    np.testing.assert_allclose(kendall_matrix(votes, penalty=penalty), expected)


def test_kendall_on_the_items_that_both_rank():
    votes = Ballots.from_orders([["a", "b", "c"], ["c", "a"], ["b"]], items="abc")
    # Ballots 1 and 2 share a and c and disagree; a single item gives no pair.
    np.testing.assert_allclose(kendall_matrix(votes, unranked="ignore"), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(footrule_matrix(votes, unranked="ignore")[0], [0, 1 + 2, 1])


def test_blocks_do_not_change_the_result(monkeypatch):
    votes = random_ballots(np.random.default_rng(2), 8, 30, ties=True)
    whole = kendall_matrix(votes)
    monkeypatch.setattr("luce.aggregate.distances._BLOCK", 100)
    monkeypatch.setattr("luce.aggregate.distances._ROWS", 7)
    np.testing.assert_array_equal(kendall_matrix(votes), whole)


def test_rectangular_matrices_match_columns_by_name():
    a = Ballots.from_orders(["abc", "bca"])
    b = Ballots.from_orders(["cba"], items="cab")
    np.testing.assert_allclose(kendall_matrix(a, b), [[3.0], [1.0]])
    np.testing.assert_allclose(footrule_matrix(a, b), [[4.0], [2.0]])
    with pytest.raises(SettingError, match="same items"):
        kendall_matrix(a, Ballots.from_orders(["ab"]))


def test_footrule_matrix_against_mean_positions():
    votes = random_ballots(np.random.default_rng(3), 6, 15, ties=True, truncate=True)
    places = [mean_places(row) for row in votes.filled("last")]
    expected = [[np.abs(a - b).sum() for b in places] for a in places]
    np.testing.assert_allclose(footrule_matrix(votes), expected)


def test_pairs_of_rankings():
    assert kendall("abcd", "dcba") == 6
    assert kendall("abcd", "abcd") == 0
    assert kendall([["a", "b"]], "ab", penalty=0.3) == pytest.approx(0.3)
    assert footrule("abcd", "dcba") == 8
    with pytest.raises(SettingError, match="between 0 and 1"):
        kendall("ab", "ba", penalty=2)


def test_diaconis_graham():
    votes = random_ballots(np.random.default_rng(4), 8, 40)
    k, f = kendall_matrix(votes), footrule_matrix(votes)
    assert (k <= f).all()
    assert (f <= 2 * k).all()
