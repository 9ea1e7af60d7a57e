"""Which battles next: information by enumeration, the choice by brute force, gains, links, and fewer battles."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_next import run
from luce.aggregate import leaderboard, simulate_battles
from luce.aggregate.board.next_battles import information
from luce.aggregate.board.posterior import difference_variances
from luce.errors import SettingError

TABLE = simulate_battles(600, np.linspace(1, -1, 6), tie=0.8, random_state=0).table


def test_information_of_a_battle_is_that_of_bradley_and_terry() -> None:
    """Without draws it is p (1 - p)."""
    d = np.linspace(-3, 3, 7)
    p = 1 / (1 + np.exp(-d))
    found = information(lambda x: (1 / (1 + np.exp(-x)), np.zeros_like(x)), d)
    np.testing.assert_allclose(found, p * (1 - p), rtol=1e-6)


@pytest.mark.parametrize("scale", ["log", "elo"])
def test_the_first_choice_is_the_best_of_all_pairs(scale: str) -> None:
    """By adding the information of every pair in turn to the covariance, one after the other."""
    board = leaderboard(TABLE, "bradley_terry", scale=scale)
    covariance, n = leaderboard(TABLE, "bradley_terry").covariance, len(board.names)
    better = board.surely_better
    open_ = ~better & ~better.T & ~np.eye(n, dtype=bool)
    before = difference_variances(covariance)
    slope = np.zeros((n, n))
    for a in range(n):
        for b in range(a):
            e = np.eye(n)[a] - np.eye(n)[b]
            p = 1 / (1 + np.exp(board.logits[b] - board.logits[a]))
            small = 1e-3 * p * (1 - p)
            after = covariance - small * np.outer(covariance @ e, covariance @ e) / (1 + small * e @ covariance @ e)
            growth = -np.sum(np.log(difference_variances(after)[open_] / before[open_]))
            slope[a, b] = growth / 1e-3 / (1 + p * (1 - p) * e @ covariance @ e)
    a, b = np.unravel_index(np.argmax(slope), slope.shape)
    assert set(board.next(1).pairs[0]) == {board.names[a], board.names[b]}


def test_gains_add_up_and_grow_with_the_battles() -> None:
    board = leaderboard(TABLE)
    few, many = board.next(20), board.next(400)
    assert sum(few.battles) == 20
    assert 0 < sum(few.gain) < sum(many.gain) < many.open
    assert many.open == np.sum(board.rank_upper - board.rank_lower)
    assert len(few.to_markdown().splitlines()) > 4


def test_a_board_in_time_and_least_squares_propose_too() -> None:
    rows = TABLE.to_pydict() | {"when": list(range(600))}
    assert sum(leaderboard(rows, time="when").next(5).battles) == 5
    assert sum(leaderboard(TABLE, "hodge").next(5).battles) == 5


def test_components_are_linked_first_and_what_is_decided_is_left() -> None:
    rows = {"winner": list("abcdefd"), "loser": list("bcaefdf")}
    found = leaderboard(rows).next(3)
    assert found.gain[0] is None
    assert {name in "abc" for name in found.pairs[0]} == {True, False}
    assert "link components" in found.notes[0]
    apart = {"a": ["x"] * 100 + ["y"], "b": ["y"] * 100 + ["x"], "outcome": ["a"] * 101}
    done = leaderboard(apart).next(3)
    assert (done.pairs, done.open) == ((), 0)
    assert "decided" in done.notes[0]


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "9"])
def test_a_number_of_battles_is_whole(n: object) -> None:
    with pytest.raises(SettingError, match=r"n is .*whole number of at least 1"):
        leaderboard(TABLE).next(n)


@pytest.mark.slow
def test_fewer_battles_than_at_random_for_the_same_rank_sets() -> None:
    """Four arenas of 20: the rank sets of random pairing at the end are reached with at most four fifths."""
    truth = [0.9 * np.random.default_rng(seed).normal(size=20) for seed in range(4)]
    lines = {p: np.mean([run(p, t, 200, 100, 16, k) for k, t in enumerate(truth)], axis=0) for p in ("random", "next")}
    goal, (battles, width) = lines["random"][-1, 1], lines["next"].T
    assert np.interp(-goal, -np.minimum.accumulate(width), battles) < 0.8 * lines["random"][-1, 0]
