"""Random small boards: a finite answer, an infinite end that is said, or one sentence of refusal, and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from luce.aggregate import Ballots, fit_mallows, fit_mixture, leaderboard, score_board
from luce.aggregate.board.posterior import draw_normal
from luce.aggregate.board.result import Board
from luce.errors import LuceError, LuceWarning
from tests.fuzz.boards import (
    Case,
    by_category,
    by_default,
    by_least_squares,
    in_time,
    of_races,
    of_scores,
    with_a_prior,
    with_options,
)
from tests.thorough import many


def assert_board(board: Board) -> None:
    assert np.isfinite(board.strength).all()
    alone = np.bincount(board.component)[board.component] == 1
    known = ~alone & ~np.isin(board.names, list(board.separated))
    assert np.isfinite(board.se[known]).all()
    assert not np.isnan([board.lower, board.upper])[:, ~alone].any()
    assert not np.isnan(board.covariance).any()
    assert all(np.isfinite(effect).all() for effect in board.effects.values())
    ends = [*board.lower, *board.upper, *(() if board.tie is None else board.tie)]
    assert board.notes or not np.isinf(ends).any()
    assert board.tie is None or (np.isfinite(board.tie.value) and not np.isnan(board.tie).any())
    board.as_dict()


def answer(data: dict[str, list[Any]], options: dict[str, Any]) -> bool:
    """True where there is an answer, and it is sound; False for a refusal."""
    try:
        if "race" not in data and "a" not in data:
            scores = score_board(data, **options)
            assert np.isfinite(scores.strength).all()
            return scores.as_dict() is not None
        found = leaderboard(data, **options)
    except LuceError as refusal:
        if not str(refusal).endswith("."):
            raise AssertionError(f"No sentence: {refusal}") from refusal
        return False
    if "time" in options:
        assert np.isfinite([found.strength, found.se]).all()
        assert np.isfinite([*found.parameters[:4], *found.parameters.effects]).all()
        return found.as_dict() is not None
    for board in [found.overall, *found.boards.values()] if "by" in options else [found]:
        assert_board(board)
    return True


@pytest.mark.parametrize(
    ("draw", "count", "least"),
    [
        (by_default, 700, 0.8),
        (with_a_prior, 700, 0.8),
        (with_options, 800, 0.5),
        (of_races, 500, 0.6),
        (by_least_squares, 200, 0.8),
        (by_category, 300, 0.4),
        (in_time, 250, 0.5),
        (of_scores, 300, 0.6),
    ],
)
def test_small_boards_answer_or_refuse(draw: Callable[[np.random.Generator], Case], count: int, least: float) -> None:
    faults, answers, count = [], 0, many(count)
    for seed in range(count):
        data, options = draw(np.random.default_rng(seed))
        with warnings.catch_warnings():
            # A search that does not converge says so.
            warnings.simplefilter("ignore", LuceWarning)
            try:
                answers += answer(data, options)
            except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, Warning) as fault:
                faults.append(f"{seed}: {type(fault).__name__}: {fault}: {data}, {options}")
    assert not faults, "\n".join([f"{len(faults)} of {count}:", *faults[:5]])
    assert answers > least * count


def test_a_separated_item_beside_draws_alone() -> None:
    """The item above the others lets the tie parameter of the others grow without a limit; a prior on all holds it."""
    data = {"a": ["v", "x", "v", "w"], "b": ["w", "u", "w", "x"], "outcome": ["tie", "a", "tie", "tie"]}
    board = leaderboard(data)
    assert board.converged
    assert np.isfinite([board.lower, board.upper]).all()
    assert board.strength[board.names.index("x")] > board.strength[board.names.index("u")]
    assert any("no finite maximum" in note for note in board.notes)


@pytest.mark.parametrize("precision", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_weak_prior_hardly_moves_what_the_data_say(precision: float) -> None:
    data = {"a": list("xyzxyx"), "b": list("yzxyzz"), "outcome": ["a", "a", "a", "tie", "b", "tie"]}
    without, weak = leaderboard(data), leaderboard(data, prior=precision)
    assert weak.converged
    np.testing.assert_allclose(weak.strength, without.strength, atol=10 * precision + 1e-9)
    np.testing.assert_allclose(weak.se, without.se, rtol=20 * precision + 1e-6)


def test_a_prior_alone_tells_members_apart_who_always_play_together() -> None:
    """Their difference has the variance of the prior, 2 / precision; before centring, and whatever the battles say."""
    data = {"a": ["x+y", "z+w", "x+y"], "b": ["z+w", "x+y", "z+w"], "outcome": ["a", "a", "tie"]}
    board = leaderboard(data, team_separator="+", prior=0.5, errors="curvature")
    i, j = board.names.index("x"), board.names.index("y")
    variance = board.covariance[i, i] + board.covariance[j, j] - 2 * board.covariance[i, j]
    assert variance == pytest.approx(2 / 0.5)


def test_an_open_end_of_the_tie_parameter_is_said() -> None:
    data = {"a": ["x", "x"], "b": ["w", "w"], "outcome": ["tie", "b"]}
    board = leaderboard(data, model="davidson", prior=1e-7)
    assert board.tie.upper == np.inf
    assert any("open above" in note for note in board.notes)


def test_races_that_all_share_one_place_tell_nothing() -> None:
    with pytest.raises(LuceError, match="all competitors share one place"):
        leaderboard({"race": [0, 0], "competitor": ["x", "y"], "place": [1, 1]}, model="pmop")
    data = {"race": [0, 0, 1, 1], "competitor": ["x", "y", "z", "w"], "place": [1, 2, 1, 1]}
    board = leaderboard(data, model="pmop")
    assert dict(zip(board.names, np.isnan(board.se), strict=True)) == {"x": False, "y": False, "z": True, "w": True}


def test_normal_draws_of_a_covariance_that_rounding_made_indefinite() -> None:
    covariance = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
    drawn = draw_normal(covariance, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), covariance, atol=0.03)


@pytest.mark.parametrize(("components", "count"), [(0, 200), (1, 100), (2, 2)])
def test_small_ballots_have_a_finite_likelihood(components: int, count: int) -> None:
    """Mallows models (0) and mixtures of them, of a few full or cut orders."""
    for seed in range(many(count)):
        rng = np.random.default_rng(seed)
        items = "abcde"[: rng.integers(3, 6)]
        sizes = rng.integers(1, len(items) + 1, rng.integers(1, 8))
        orders = [["abcde"[i] for i in rng.permutation(len(items))[:size]] for size in sizes]
        votes = Ballots.from_orders([["a", "b"], ["b"], *orders], items=items)
        own = bool(rng.random() < 0.5)
        if components:
            found = fit_mixture(votes, components, rng, generalised=own).log_prob(votes)
        else:
            found = fit_mallows(votes, generalised=own).log_prob(votes)
        assert np.isfinite(found).all()
