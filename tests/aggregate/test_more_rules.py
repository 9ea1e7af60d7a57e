"""Minimax, approval, the single transferable vote, and names that people try."""

from __future__ import annotations

import numpy as np
import pytest

from luce.aggregate import Ballots, consensus
from luce.errors import SettingError

TENNESSEE = Ballots.from_orders(
    [["M", "N", "C", "K"], ["N", "C", "K", "M"], ["C", "K", "N", "M"], ["K", "C", "N", "M"]], weights=[42, 26, 15, 17]
)


def test_aliases_are_the_rules_they_name() -> None:
    for alias, rule in {
        "irv": "instant_runoff",
        "IRV": "instant_runoff",
        "tideman": "ranked_pairs",
        "simpson": "minimax",
    }.items():
        assert consensus(TENNESSEE, alias).tiers == consensus(TENNESSEE, rule).tiers


def test_minimax_is_the_least_worst_defeat() -> None:
    """Nashville is beaten by nobody; worst margins of the others from the weights: C -36 (68:32), K -66, M -16."""
    answer = consensus(TENNESSEE, "minimax")
    assert answer.scores == {"M": -16.0, "N": 16.0, "C": -36.0, "K": -66.0}
    assert [t[0] for t in answer.tiers] == ["N", "M", "C", "K"]


def test_approval_counts_ballots_that_list_an_item() -> None:
    votes = Ballots.from_orders([["a", "b"], ["b"], ["c", "b"]], weights=[3, 2, 1])
    assert consensus(votes, "approval").scores == {"a": 3.0, "b": 6.0, "c": 1.0}
    assert any("tells nothing" in note for note in consensus(TENNESSEE, "approval").notes)


def test_single_transferable_vote_of_one_seat_is_a_runoff() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        votes = Ballots.from_orders([rng.permutation(list("abcd")).tolist() for _ in range(9)], rng.permutation(9) + 1)
        assert consensus(votes, "stv").winners == consensus(votes, "irv").winners


def test_a_surplus_is_passed_on_in_proportion() -> None:
    """Orange has 12 of 20 for 2 seats, quota 7; its surplus 5 goes to pear 5/12 of each ballot."""
    orders = [["orange", "pear"], ["orange", "kiwi"], ["pear"], ["kiwi"]]
    votes = Ballots.from_orders(orders, weights=[8, 4, 4, 4], items=["orange", "pear", "kiwi"])
    answer = consensus(votes, "stv", seats=2, unranked="ignore")
    # Pear: 4 + 8 * 5/12 = 7.33 reaches the quota; kiwi: 4 + 4 * 5/12 = 5.67 does not.
    assert answer.tiers == [["orange"], ["pear"], ["kiwi"]]
    with pytest.raises(SettingError, match="seats is 3"):
        consensus(votes, "stv", seats=3)
    with pytest.raises(SettingError, match="from 1 to one less than the items"):
        consensus(Ballots.from_orders(["ab"]), "stv", seats=2)


def test_hodge_solves_its_least_squares_and_says_what_runs_in_circles() -> None:
    votes = Ballots.from_orders(["abc", "bc", "ca", "bca"], weights=[4, 3, 2, 1])
    answer = consensus(votes, "hodge", unranked="ignore")
    rows, target, weight = [], [], []
    for order, count in (("abc", 4), ("bc", 3), ("ca", 2), ("bca", 1)):
        for i, x in enumerate(order):
            for y in order[i + 1 :]:  # one vote for x over y: a margin of 1
                row = np.zeros(3)
                row[votes.items.index(x)], row[votes.items.index(y)] = 1.0, -1.0
                rows.append(row)
                target.append(1.0)
                weight.append(np.sqrt(count))
    design = np.array(rows) * np.array(weight)[:, None]
    expected = np.linalg.lstsq(design, np.array(target) * np.array(weight), rcond=None)[0]
    expected -= expected.mean()
    np.testing.assert_allclose([answer.scores[x] for x in votes.items], expected, atol=1e-10)
    circle = Ballots.from_orders(["abc", "bca", "cab"])
    assert consensus(circle, "hodge").tiers == [["a", "b", "c"]]
    assert consensus(circle, "hodge").notes[0].startswith("100.0% of the squared margins run in circles")
    apart = Ballots.from_orders(["ab", "cd"])
    assert "2 groups" in consensus(apart, "hodge", unranked="ignore").notes[-1]


def test_hodge_of_whole_ballots_is_borda() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        orders = ["".join(rng.permutation(list("abcde"))) for _ in range(7)]
        votes = Ballots.from_orders(orders, weights=rng.integers(1, 9, 7))
        assert consensus(votes, "hodge").tiers == consensus(votes, "borda").tiers
