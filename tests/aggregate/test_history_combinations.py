"""Strengths that move, with scales, categories, draws, covariates, judges, counts and parts of wins; and updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from luce.aggregate import leaderboard, save_board, update_board
from luce.aggregate.history.walks import Games, Parameters, filtered, most_probable
from luce.errors import DataError, LuceError, SettingError
from luce.numerics import links

LINK, ELO = links.get("davidson"), 400 / np.log(10)


@pytest.fixture(scope="module")
def league() -> dict[str, list]:
    """Five players over 400 days; length 0.7 for the longer side, judges, categories, weights."""
    rng = np.random.default_rng(5)
    walk = np.linspace(1, -1, 5) + np.cumsum(0.04 * rng.normal(size=(400, 5)), axis=0)
    day = np.sort(rng.integers(0, 400, 1200))
    a = rng.integers(0, 5, 1200)
    b = (a + rng.integers(1, 5, 1200)) % 5
    length = rng.normal(size=1200)
    d = walk[day, a] - walk[day, b] + 0.7 * length
    win, loss = (np.exp(LINK.win(sign * d, -0.3).value) for sign in (1, -1))
    u = rng.random(1200)
    return {
        "a": [f"p{i}" for i in a],
        "b": [f"p{i}" for i in b],
        "outcome": np.where(u < win, "a", np.where(u < win + loss, "b", "tie")).tolist(),
        "day": day.tolist(),
        "length": (10 * length).tolist(),
        "judge": [f"j{k}" for k in rng.integers(0, 60, 1200)],
        "kind": rng.choice(["x", "y"], 1200).tolist(),
        "times": rng.integers(1, 4, 1200).tolist(),
    }


def season(weight: np.ndarray | None = None) -> Games:
    rng = np.random.default_rng(0)
    rows = np.array([[0, 1, 0], [1, 2, 2], [2, 0, 1], [0, 1, 2], [1, 2, 0], [2, 0, 0]])
    return Games(3, rows, rng.random(6), np.arange(6.0), weight=weight)


def test_a_weight_of_two_is_the_game_twice() -> None:
    games, p = season(np.full(6, 2.0)), Parameters(0.1, 1.0, -0.2, 0.3)
    twice = Games(3, np.repeat(games.games, 2, axis=0), np.repeat(games.sides, 2), np.repeat(games.times, 2))
    ours, theirs = (most_probable(one, LINK, p) for one in (games, twice))
    np.testing.assert_allclose(ours.strength, theirs.strength, atol=1e-6)
    np.testing.assert_allclose(ours.present.covariance, theirs.present.covariance, atol=1e-6)


def test_a_draw_that_is_not_modelled_is_half_a_win_each() -> None:
    games, p = replace(season(), modelled=False), Parameters(0.1, 1.0, 0.0, 0.3)
    graded = games.games.copy()
    share = np.select([graded[:, 2] == 0, graded[:, 2] == 1], [1.0, 0.0], 0.5)
    graded[:, 2] = 3
    parts = replace(games, games=graded, share=share)
    ours, theirs = (most_probable(one, LINK, p) for one in (games, parts))
    np.testing.assert_allclose(ours.strength, theirs.strength, atol=1e-9)
    np.testing.assert_allclose(*(filtered(one, LINK, p)[0].mean for one in (games, parts)), atol=1e-9)
    assert np.all(filtered(games, LINK, p)[1][:, 2] == 0.0)


def test_covariates_are_added_to_the_difference() -> None:
    p = Parameters(0.1, 1.0, -0.2, 0.0, (0.3,))
    games = season()
    covariates = replace(games, sides=np.zeros(6), covariates=games.sides[:, None])
    ours, theirs = most_probable(covariates, LINK, p), most_probable(games, LINK, p._replace(home=0.3, effects=()))
    np.testing.assert_allclose(ours.strength, theirs.strength, atol=1e-12)


def test_elo_and_an_anchor_are_another_scale_of_the_same(league) -> None:
    log, elo = (leaderboard(league, time="day", drift=0.04, scale=scale) for scale in ("log", "elo"))
    np.testing.assert_allclose(elo.strength, 1000 + ELO * log.strength)
    np.testing.assert_allclose(elo.upper - elo.lower, ELO * (log.upper - log.lower))
    assert elo.win_probability("p0", "p1") == pytest.approx(log.win_probability("p0", "p1"))
    for board in (log, elo):
        line = board.history("p0")
        last = board.present.mean[board.players.index("p0")]
        first = board.present.mean[board.posterior.order[0]]
        assert line.strength[-1] == pytest.approx(board.strength[0] + board.posterior.unit * (last - first))
    anchored = leaderboard(league, time="day", drift=0.04, scale="elo", anchor="p3", anchor_at=500)
    assert anchored.strength[anchored.names.index("p3")] == pytest.approx(500)
    np.testing.assert_allclose(anchored.se, elo.se)
    with pytest.raises(DataError, match="anchor 'nobody'"):
        _ = leaderboard(league, time="day", drift=0.04, anchor="nobody").names


def test_an_effect_of_a_covariate_is_found_in_its_own_units(league) -> None:
    board = leaderboard(league, time="day", covariates=["length"])
    still = leaderboard(league, covariates=["length"])
    assert board.effects["length"] == pytest.approx(0.07, abs=0.015)
    assert board.effects["length"] == pytest.approx(still.effects["length"].value, abs=3 * still.effects["length"].se)
    assert board.win_probability("p0", "p1", covariates={"length": 20.0}) > board.win_probability("p0", "p1")
    with pytest.raises(SettingError, match="no effect 'height'"):
        board.win_probability("p0", "p1", covariates={"height": 1.0})
    with pytest.raises(DataError, match="'none' is 0 in every battle"):
        leaderboard({**league, "none": [0.0] * 1200}, time="day", covariates=["none"])


def test_copies_of_a_judge_count_once(league) -> None:
    rows = {key: league[key] for key in ("a", "b", "outcome", "day")}
    own = leaderboard(rows | {"who": list(range(1200))}, time="day", drift=0.04, group="who")
    copies = {key: values * 10 for key, values in rows.items()} | {"who": list(range(1200)) * 10}
    again = leaderboard(copies, time="day", drift=0.04, group="who")
    assert again.factor == pytest.approx(own.factor / 10, rel=0.1)
    np.testing.assert_allclose(again.se, own.se, rtol=0.05)


def test_a_count_is_that_many_battles(league) -> None:
    board = leaderboard(league, time="day", count="times", drift=0.04)
    rows = {key: np.repeat(league[key], league["times"]).tolist() for key in ("a", "b", "outcome", "day")}
    many = leaderboard(rows, time="day", drift=0.04)
    assert board.as_dict()["battles"] == sum(league["times"])
    np.testing.assert_allclose(board.games, many.games)
    # The start and the tie parameter come from a filter that takes the battles of a row together.
    np.testing.assert_allclose(board.strength, many.strength, atol=0.3 * many.se.min())


@pytest.mark.parametrize("draws", ["half", "drop"])
def test_draws_by_another_treatment(league, draws) -> None:
    board = leaderboard(league, time="day", draws=draws)
    assert board.tie is None
    assert board.draw_probability("p0", "p1") == 0.0
    assert board.win_probability("p0", "p1") + board.win_probability("p1", "p0") == pytest.approx(1.0)
    assert "tie parameter" not in board.lines[0]
    assert any("are draws and are left out" in note for note in board.notes) == (draws == "drop")


def test_no_draw_and_parts_of_wins(league) -> None:
    won = {**league, "outcome": ["b" if o == "tie" else o for o in league["outcome"]]}
    assert any("No battle is a draw" in note for note in leaderboard(won, time="day").notes)
    part = {"a": 0.9, "b": 0.2, "tie": 0.5}
    graded = leaderboard({**league, "outcome": [part[o] for o in league["outcome"]]}, time="day")
    whole = leaderboard(league, time="day", draws="half")
    assert graded.names == whole.names
    assert np.ptp(graded.strength) < np.ptp(whole.strength)
    board = leaderboard(league, "bradley_terry", time="day")
    assert board.model.draws == "half"


def gaps_of(ours, theirs) -> tuple[float, float]:
    """Greatest gaps of strengths, and of errors in parts of them."""
    assert sorted(ours.names) == sorted(theirs.names)
    at = [ours.names.index(name) for name in theirs.names]
    return np.abs(ours.strength[at] - theirs.strength).max(), np.abs(ours.se[at] / theirs.se - 1).max()


def parts(league: dict[str, list], cut: int = 1000) -> tuple[dict[str, list], ...]:
    return tuple({key: values[rows] for key, values in league.items()} for rows in (slice(cut), slice(cut, None)))


@pytest.mark.parametrize(
    "settings",
    [
        {"by": "kind"},
        {"by": "kind", "pool": False, "count": "times"},
        {"by": "kind", "scale": "elo", "anchor": "p1"},
        {"group": "judge"},
        {"weight": "times"},
        {"covariates": ["length"]},
        {"by": "kind", "covariates": ["length"], "group": "judge", "weight": "times", "side": True},
    ],
)
def test_an_update_of_a_board_that_stays_is_the_refit(league, tmp_path, settings) -> None:
    (old, new), path = parts(league), tmp_path / "b.luce"
    columns = {key: value for key, value in settings.items() if key not in ("pool", "scale", "anchor")}
    save_board(leaderboard(old, **settings), path)
    save_board(update_board(path, parts(new, 100)[0], **columns), path)
    kept, whole = update_board(path, parts(new, 100)[1], **columns), leaderboard(league, **settings)
    pairs = [(kept, whole)]
    if "by" in settings:
        pairs = [(kept.overall, whole.overall), *((kept[kind], board) for kind, board in whole.items())]
    for ours, theirs in pairs:
        assert max(gaps_of(ours, theirs)) < 1e-8
        assert ours.n_battles == theirs.n_battles
    if "by" in settings:
        assert kept.spread == (None if whole.spread is None else pytest.approx(whole.spread))
        assert kept.by == "kind"
    for name in set(columns) & {"by", "group", "covariates"}:
        with pytest.raises(SettingError, match=r"is a board with (categories|judges)|has length covariates"):
            update_board(path, new, **{key: value for key, value in columns.items() if key != name})


@pytest.mark.parametrize(
    "settings", [{}, {"scale": "elo", "anchor": "p1"}, {"covariates": ["length"], "draws": "half"}]
)
def test_categories_in_time_are_kept(league, tmp_path, settings) -> None:
    """Near the refit; a category that is new begins with newcomers, and grows like the others."""
    (old, new), path = parts(league), tmp_path / "b.luce"
    again = {"time": "day", "by": "kind"} | {key: settings[key] for key in set(settings) & {"covariates"}}
    save_board(leaderboard(old, drift=0.04, **(settings | again)), path)
    kept, whole = update_board(path, new, **again), leaderboard(league, drift=0.04, **(settings | again))
    for ours, theirs in ((kept.overall, whole.overall), *((kept[kind], board) for kind, board in whole.items())):
        strength, error = gaps_of(ours, theirs)
        assert (strength, error) < (0.2 * theirs.se.max(), 0.02)
        assert ours.as_dict()["battles"] == theirs.as_dict()["battles"]
    save_board(kept, path)
    more = {**new, "kind": ["z"] * 150 + ["x"] * 50}
    save_board(update_board(path, more, **again), path)
    third = update_board(path, more, **again)
    assert third["z"].as_dict()["battles"] == 300
    assert third["x"].as_dict()["battles"] == kept["x"].as_dict()["battles"] + 100
    assert third["y"].as_dict()["battles"] == kept["y"].as_dict()["battles"]
    assert third["z"].parameters[:2] == third.overall.parameters[:2]
    with pytest.raises(SettingError, match="is a board with categories"):
        update_board(path, new, **{key: value for key, value in again.items() if key != "by"})


def test_the_first_draws_of_a_category_have_the_tie_parameter_of_all(league, tmp_path) -> None:
    """Where its draws come with the update, a category is as if it had known the tie parameter from the start."""
    old, new = parts(league)
    kept = [kind == "x" or outcome != "tie" for kind, outcome in zip(old["kind"], old["outcome"], strict=True)]
    old = {key: [value for value, keep in zip(values, kept, strict=True) if keep] for key, values in old.items()}
    first = leaderboard(old, time="day", by="kind", drift=0.04)
    assert (first["x"].modelled, first["y"].modelled) == (True, False)
    save_board(first, tmp_path / "b.luce")
    again = update_board(tmp_path / "b.luce", new, time="day", by="kind")
    assert again["y"].tie == first.overall.tie
    assert again["y"].draw_probability("p0", "p1") > 0.05
    assert any("y: Its first draws have the tie parameter of all battles." in note for note in again.notes)
    save_board(again, tmp_path / "b.luce")
    assert update_board(tmp_path / "b.luce", new, time="day", by="kind")["y"].tie == pytest.approx(again["y"].tie)


def test_categories_in_time(league, tmp_path) -> None:
    boards = leaderboard(league, time="day", by="kind", scale="elo")
    assert sorted(boards.boards) == ["x", "y"]
    for board in boards.boards.values():
        assert board.parameters[:2] == boards.overall.parameters[:2]
        assert sum(board.games) < sum(boards.overall.games)
    assert boards.matrix().shape == (5, 2)
    assert boards.as_dict()["boards"]["x"]["now"] <= 400
    boards.plot(tmp_path / "b.svg")


@pytest.mark.parametrize(
    ("settings", "again"),
    [
        ({"scale": "elo", "anchor": "p1"}, {}),
        ({"covariates": ["length"]}, {"covariates": ["length"]}),
        ({"group": "judge"}, {"group": "judge"}),
        ({"count": "times"}, {"count": "times"}),
        ({"draws": "half"}, {}),
        ({"draws": "drop"}, {}),
        ({"model": "bradley_terry", "level": 0.9}, {}),
    ],
)
def test_an_update_of_each_is_near_the_refit(league, tmp_path, settings, again) -> None:
    old, new = ({key: values[cut] for key, values in league.items()} for cut in (slice(0, 1000), slice(1000, None)))
    first = leaderboard(old, time="day", drift=0.04, **settings)
    save_board(first, tmp_path / "b.luce")
    kept = update_board(tmp_path / "b.luce", new, time="day", **again)
    whole = leaderboard(league, time="day", drift=0.04, **settings)
    assert kept.level == whole.level
    assert kept.as_dict()["battles"] == whole.as_dict()["battles"]
    ours = dict(zip(kept.names, kept.strength, strict=True))
    gaps = [ours[name] - strength for name, strength in zip(whole.names, whole.strength, strict=True)]
    assert np.max(np.abs(gaps)) < whole.se.max() * (1.2 if "group" in settings else 0.5)


@pytest.mark.parametrize(
    ("settings", "again", "said"),
    [
        ({}, {"covariates": ["length"]}, "has no covariates"),
        ({"covariates": ["length"]}, {}, "has length covariates"),
        ({}, {"by": "kind"}, "without categories; leave it out"),
        ({}, {"draws": "half"}, "keeps the drift, the draws"),
        ({}, {"drift": 0.3}, "keeps the drift, the draws"),
    ],
)
def test_an_update_that_does_not_fit_its_board(league, tmp_path, settings, again, said) -> None:
    save_board(leaderboard(league, time="day", drift=0.04, **settings), tmp_path / "b.luce")
    with pytest.raises(LuceError, match=said):
        update_board(tmp_path / "b.luce", league, time="day", **again)
