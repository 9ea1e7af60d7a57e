"""Where a person's own table meets a board: what is read, refused or named, and nothing passed over in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from luce.aggregate import judge_agreement, leaderboard, save_board, score_board, update_board
from luce.errors import DataError, SettingError, UnknownNameError

ROWS = {
    "a": ["x", "y", "x", "z", "y", "x"],
    "b": ["y", "z", "z", "x", "x", "z"],
    "outcome": ["a", "tie", "a", "a", "tie", "b"],
}
RACES = {
    "race": [1, 1, 1, 2, 2, 2, 3, 3, 3],
    "competitor": ["x", "y", "z", "y", "x", "z", "z", "x", "y"],
    "place": [1, 2, 3, 1, 2, 3, 1, 2, 3],
}
SCORES = {
    "model": ["x", "y", "z", "w"],
    "maths": [90, 70, 65, 20],
    "code": [80, 85, 30, 35],
    "prose": [7.1, 7.1, 6.0, 6.2],
}
LONG = {
    "model": [m for m in "xyzw" for _ in range(3)],
    "task": ["t1", "t2", "t3"] * 4,
    "score": [9, 8, 5, 8, 9, 6, 3, 4, 7, 1, 2, 9],
}


def arena(battles: int, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    names = np.array(["u", "v", "w", "x"])
    a = rng.integers(0, 4, battles)
    b = (a + rng.integers(1, 4, battles)) % 4
    chance = rng.random(battles) + 0.1 * (b - a)
    outcome = np.where(chance > 0.6, "a", np.where(chance > 0.3, "tie", "b"))
    return {"a": names[a].tolist(), "b": names[b].tolist(), "outcome": outcome.tolist()}


def strengths(board) -> dict[str, float]:
    return dict(zip(board.names, board.strength.tolist(), strict=True))


@pytest.mark.parametrize(
    "spelling",
    [
        ("Win", "Draw", "Loss"),
        ("W", "D", "L"),
        ("model_a", "TIE", "model_b"),
        ("1", "0.5", "0"),
        (1.0, 0.5, 0.0),
        ("1-0", "1/2-1/2", "0-1"),
    ],
)
def test_outcomes_in_other_spellings(spelling) -> None:
    mean = dict(zip(("a", "tie", "b"), spelling, strict=True))
    board = leaderboard({**ROWS, "outcome": [mean[o] for o in ROWS["outcome"]]})
    assert strengths(board) == strengths(leaderboard(ROWS))


def test_outcomes_that_name_the_winner() -> None:
    winner = ["x", "tie", "x", "z", "tie", "z"]
    board = leaderboard({"model_a": ROWS["a"], "model_b": ROWS["b"], "winner": winner})
    assert strengths(board) == strengths(leaderboard(ROWS))
    assert any("names the winners" in note for note in board.notes)
    with pytest.raises(DataError, match="Row 0: outcome is 'q'"):
        leaderboard({**ROWS, "outcome": ["q", *winner[1:]]})


def test_a_side_that_is_also_a_name_is_refused() -> None:
    rows = {"a": ["a", "b", "a", "b"], "b": ["b", "a", "b", "a"], "outcome": ["a", "a", "a", "b"]}
    with pytest.raises(DataError, match="both a side and the name of an item"):
        leaderboard(rows)
    side = {"a": "left", "b": "right"}
    assert leaderboard({**rows, "outcome": [side[o] for o in rows["outcome"]]}).games.tolist() == [4, 4]
    # The names cannot be meant where an outcome names neither side.
    assert leaderboard({"a": ["a", "c"], "b": ["c", "a"], "outcome": ["a", "b"]}).names[0] == "a"


def test_goals(tmp_path) -> None:
    goals = {"a": (2, 0), "b": (0, 1), "tie": (1, 1)}
    home, away = zip(*(goals[o] for o in ROWS["outcome"]), strict=True)
    rows = {"home": ROWS["a"], "away": ROWS["b"], "hs": list(home), "as": list(away)}
    columns = {"a": "home", "b": "away"}
    expected = strengths(leaderboard(ROWS))
    assert strengths(leaderboard(rows, outcome=("hs", "as"), **columns)) == expected
    assert strengths(leaderboard(rows, outcome="hs, as", **columns)) == expected
    with pytest.raises(DataError, match="no column 'hs2' for the goals"):
        leaderboard(rows, outcome="hs2,as", **columns)
    with pytest.raises(DataError, match="Row 0: hs is nan"):
        leaderboard({**rows, "hs": [np.nan, *home[1:]]}, outcome=("hs", "as"), **columns)


def test_winners_and_losers_that_are_given_have_their_ties() -> None:
    rows = {"winner": ROWS["a"], "loser": ROWS["b"], "tie": ["no", "yes", "no", "no", "yes", "no"]}
    named = leaderboard(rows, a="winner", b="loser")
    assert strengths(named) == strengths(leaderboard(rows))
    assert named.tie is not None
    with pytest.raises(DataError, match="a column tie and a column draw"):
        leaderboard({**rows, "draw": [0] * 6})
    with pytest.raises(DataError, match="Row 1: tie is 2; it must be true or false"):
        leaderboard({**rows, "tie": [0, 2, 0, 0, 1, 0]})


@pytest.mark.parametrize(
    ("more", "settings", "message"),
    [
        ({"n": [True] * 6}, {"neutral": "n"}, "neutral does nothing without side"),
        ({"n": [0.5] * 6}, {"neutral": "n", "side": True}, "it must be true or false"),
        ({}, {"pool": False}, "pool does nothing without by"),
        ({}, {"side": "home"}, "side is 'home'"),
        ({}, {"covariates": "length"}, "it must be a list of columns"),
        ({}, {"anchor": "x", "anchor_at": float("nan")}, "anchor_at is nan; it must be a finite number"),
        ({}, {"bootstrap": 20.5}, "bootstrap is 20.5"),
        ({}, {"prior": "0.1"}, "prior is '0.1'"),
        ({}, {"level": "0.9"}, "level is '0.9'"),
        ({}, {"a": 3}, "a is 3; it must be the name of a column"),
        ({}, {"names": ["x"]}, "names is"),
        ({"w": [2] * 6}, {"weight": "w", "count": "w"}, "cannot be both weights and counts"),
        ({"k": [1.0, 1, 1, np.nan, 2, 2]}, {"by": "k"}, "Row 3: k is nan; every row needs a value"),
        ({"u": ["j"] * 6}, {"group": "u"}, "There is one judge"),
        ({"rank1": list("xyzxyz")}, {}, "columns of battles and columns of races"),
    ],
)
def test_settings_and_columns_that_would_pass_in_silence(more, settings, message) -> None:
    with pytest.raises((DataError, SettingError), match=message):
        leaderboard({**ROWS, **more}, **settings)


@pytest.mark.parametrize(
    ("more", "settings", "message"),
    [
        ({"w": [1, 1, 1, 1, 1, 0]}, {"weight": "w"}, "1 battles count 0 and are left out"),
        ({}, {"names": {"x": "Xerxes", "nobody": "N"}}, "not in the data: 'nobody'"),
        ({"a": ["X", *ROWS["a"][1:]]}, {}, "differ only in capitals or spaces are different ones: 'X' and 'x'"),
        ({"u": list("jkjkjk")}, {"group": "u"}, "There are 2 judges"),
    ],
)
def test_notes(more, settings, message) -> None:
    assert any(message in note for note in leaderboard({**ROWS, **more}, **settings).notes)


def test_one_name_in_several_forms() -> None:
    numbers = {"x": 1.0, "y": 2.0, "z": 3.0}
    rows = {**ROWS, "a": [numbers[n] for n in ROWS["a"]], "b": [str(int(numbers[n])) for n in ROWS["b"]]}
    assert sorted(leaderboard(rows).names) == ["1", "2", "3"]
    more = {key: values * 3 for key, values in ROWS.items()}
    boards = leaderboard({**more, "kind": ["maths", "maths "] * 9}, by="kind")
    assert list(boards.boards) == ["maths"]
    assert any("'maths' and 'maths '" in note for note in boards.notes)
    with pytest.raises(DataError, match="Two columns are named 'a'; every column needs a name"):
        leaderboard(pd.concat([pd.DataFrame(ROWS)] * 2, axis=1))


@pytest.mark.parametrize("place", [0, -1])
def test_places_count_from_one(place: int) -> None:
    with pytest.raises(DataError, match=r"Row 2: (place|t) (is|mixes)"):
        leaderboard({**RACES, "place": [1, 2, place, *RACES["place"][3:]]}, "plackett_luce")


def test_races_that_say_nothing() -> None:
    alone = {"race": [*RACES["race"], 4], "competitor": [*RACES["competitor"], "q"], "place": [*RACES["place"], 1]}
    assert any("1 races have one competitor" in n for n in leaderboard(alone, "plackett_luce").notes)
    weighted = {**RACES, "w": [1] * 6 + [0] * 3}
    assert any("1 races have the weight 0" in n for n in leaderboard(weighted, "plackett_luce", weight="w").notes)
    with pytest.raises(DataError, match="no race that counts"):
        leaderboard({**RACES, "w": [0] * 9}, "plackett_luce", weight="w")
    with pytest.raises(SettingError, match="holds races"):
        leaderboard(RACES, "plackett_luce", both_bad="drop")
    with pytest.raises(DataError, match="two columns for the place 1"):
        leaderboard({"rank1": ["x", "y"], "place1": ["y", "x"], "rank2": ["z", "z"]}, "plackett_luce")


@pytest.mark.parametrize(
    "wrong", ["20240531", "31.05.2024", "05/31/2024", "NaT", "now", "today", "", "2024-13-01", "2024-05-31T25:00"]
)
def test_texts_that_are_no_time(wrong: str) -> None:
    rows = arena(30)
    with pytest.raises(DataError, match=r"Row 2: (place|t) (is|mixes)"):
        leaderboard({**rows, "t": ["2024-01-01", "2024-01-02", wrong, *["2024-02-01"] * 27]}, time="t")


def test_times() -> None:
    rows = arena(60)
    days = np.datetime64("2024-01-01") + np.arange(60)
    plain = leaderboard({**rows, "t": [f"{day} 00:00" for day in days]}, time="t")
    zones = leaderboard({**rows, "t": [f"{day}T02:00:00+02:00" for day in days]}, time="t")
    assert strengths(plain) == strengths(zones)
    with pytest.raises(DataError, match="look like dates"):
        leaderboard({**rows, "t": [int(str(day).replace("-", "")) for day in days]}, time="t")
    numbers = leaderboard({**rows, "t": [100 + k for k in range(60)]}, time="t")
    assert numbers.notes == ()
    assert "future" in leaderboard({**rows, "t": np.append(days[:-1], np.datetime64("9999-01-01"))}, time="t").notes[-1]
    assert "at one time" in leaderboard({**rows, "t": days[:1].repeat(60)}, time="t").notes[-1]
    apart = {key: [*rows[key], *more] for key, more in zip(rows, (["p", "q"], ["q", "p"], ["a", "tie"]), strict=True)}
    assert "2 components" in leaderboard({**apart, "t": list(range(62))}, time="t").notes[-1]
    with pytest.raises(SettingError, match="errors does nothing"):
        leaderboard({**rows, "t": days}, time="t", errors="curvature")
    with pytest.raises(SettingError, match="no effect 'side'"):
        plain.win_probability("u", "v", side=1)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": "elo"},
        {"draws": "half"},
        {"prior": 5.0},
        {"level": 0.8},
        {"anchor": "u", "anchor_at": 3.0},
        {"names": {"u": "U"}},
        {"errors": "curvature"},
    ],
)
def test_an_update_keeps_the_settings_of_its_board(tmp_path, settings) -> None:
    first, second = arena(80), arena(60, seed=1)
    path = tmp_path / "board.luce"
    save_board(leaderboard(first, **settings), path)
    after = update_board(path, second)
    save_board(after, path)
    again = update_board(path, second)
    whole = leaderboard({key: first[key] + 2 * second[key] for key in first}, **settings)
    assert again.names == whole.names
    for column in ("strength", "se", "lower", "upper"):
        np.testing.assert_allclose(getattr(again, column), getattr(whole, column), atol=1e-8)


def test_updates_refuse_what_they_cannot_use(tmp_path) -> None:
    rows = arena(60)
    board, history = tmp_path / "board.luce", tmp_path / "history.luce"
    timed = {**rows, "t": list(range(60)), "w": [1] * 60}
    save_board(leaderboard(rows), board)
    save_board(leaderboard(timed, time="t", side=True), history)
    with pytest.raises(SettingError, match="is a board without judges; leave it out"):
        update_board(board, timed, group="w")
    with pytest.raises(SettingError, match="has a side effect"):
        update_board(history, timed, time="t")
    with pytest.raises(SettingError, match="group does nothing"):
        update_board(history, timed, time="t", side=True, group="w")


def test_judges_of_boards_with_effects() -> None:
    rng = np.random.default_rng(3)
    rows = {**arena(200), "u": list("jk") * 100, "length": rng.normal(size=200)}
    board = leaderboard(rows, covariates=["length"], side=True)
    judges = judge_agreement(board, rows, group="u", covariates=["length"], side=True)
    effect = {name: found.value for name, found in board.effects.items()}
    d = [
        board.logits[board.names.index(a)] - board.logits[board.names.index(b)]
        for a, b in zip(rows["a"], rows["b"], strict=True)
    ]
    d = np.array(d) + effect["side"] + effect["length"] * rows["length"]
    decided = np.array([o != "tie" for o in rows["outcome"]])
    right = np.where(np.array(rows["outcome"]) == "a", d > 0, d < 0)
    mine = decided & (np.array(rows["u"]) == "j")
    assert {j.name: j.agreement for j in judges}["j"] == pytest.approx(right[mine].mean())
    for settings, message in (
        ({}, "give side and covariates"),
        ({"count": "length"}, "count does nothing"),
        ({"level": 95}, "level is 95"),
    ):
        with pytest.raises(SettingError, match=message):
            judge_agreement(board, rows, group="u", **settings)
    with pytest.raises(SettingError, match="gives draws no probability"):
        judge_agreement(leaderboard(rows, "bradley_terry"), rows, group="u")
    with pytest.raises(DataError, match="'q' is not on this leaderboard"):
        judge_agreement(leaderboard(rows), {**rows, "a": ["q", *rows["a"][1:]]}, group="u")
    with pytest.raises(SettingError, match="length is nan"):
        board.win_probability("u", "v", covariates={"length": float("nan")})


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        ({**SCORES, "maths": ["90%", "0.7", "65%", "20%"]}, {}, "percent sign"),
        ({**SCORES, "maths": ["9,0", "7", "6", "2"]}, {}, "decimal point"),
        ({**SCORES, "maths": ["9_0", "7", "6", "2"]}, {}, "Row 0: maths is '9_0'"),
        ({**SCORES, "maths": [1e300, 7, 6, 2]}, {}, "within 1e"),
        ({**SCORES, "model": ["x", "x ", "z", "w"]}, {}, "in two rows"),
        ({key: SCORES[key] for key in ("maths", "code")}, {}, "no column of models"),
        (pd.DataFrame(), {}, "no column of models"),
        (SCORES, {"lower": "maths"}, "it must be a list"),
        (SCORES, {"drop": "maths"}, "it must be a list"),
        (SCORES, {"tolerance": "5"}, "tolerance is '5'"),
        (SCORES, {"task_weights": {"maths": "2"}}, "weight of the task 'maths' is '2'"),
        (SCORES, {"resamples": 100.5}, "resamples is 100.5"),
        (SCORES, {"random_state": "a"}, "random_state is 'a'"),
        (LONG, {"drop": ["t9"]}, "Unknown task 't9'"),
        ({**LONG, "task": [np.nan, *[1.0, 2.0, 3.0] * 3, 1.0, 2.0]}, {}, "Row 0: task is nan"),
        ({**LONG, "se": [-1.0] * 12}, {"score_se": "se"}, "standard error is -1"),
        ({k: [*v, v[0]] for k, v in {**LONG, "se": [1.0] * 12}.items()}, {"score_se": "se"}, "more than once"),
    ],
)
def test_scores_that_would_pass_in_silence(table, settings, message) -> None:
    with pytest.raises((DataError, SettingError, UnknownNameError), match=message):
        score_board(table, **{"resamples": 100, **settings})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**SCORES, "": [0, 1, 2, 3]}, "no name of its own and is left out"),
        ({**SCORES, "Unnamed: 0": [0, 1, 2, 3]}, "no name of its own and is left out"),
        ({**SCORES, "rank": [1, 2, 3, 4]}, "'rank' is a task like any other"),
        ({**SCORES, "seed": [3, 1, 3, 2]}, "'seed' is a task like any other"),
        ({**SCORES, "params_b": [7.0, 13, 70, 8]}, "'params_b' is a task like any other"),
        ({**SCORES, "releaseDate": [20240101, 20240301, 20240501, 20240201]}, "'releaseDate' is a task like any other"),
        ({**SCORES, "open": [True, False, True, True]}, "'open' is a task like any other"),
        ({**SCORES, "k": [7, 8, 9, 10]}, "'k' is a task like any other"),
        ({**LONG, "seed": [1] * 12}, "Columns that are not used: seed."),
        ({"bot": SCORES["model"], **{k: SCORES[k] for k in ("maths", "code", "prose")}}, "the column 'bot'"),
        ({**LONG, "model": ["x ", *LONG["model"][1:]]}, "'x' and 'x '"),
        ({**LONG, "task": ["T1", *LONG["task"][1:]]}, "'T1' and 't1'"),
    ],
)
def test_notes_of_scores(table, message) -> None:
    assert any(message in note for note in score_board(table, resamples=100).notes)


def test_an_index_is_no_task() -> None:
    plain = score_board(SCORES, resamples=100)
    assert strengths(score_board({**SCORES, "": [0, 1, 2, 3]}, resamples=100)) == strengths(plain)
    numbers = score_board({**LONG, "b": [1] * 12}, where={"b": 1}, resamples=100)
    assert strengths(numbers) == strengths(score_board(LONG, resamples=100))


def test_a_model_that_is_always_last_has_no_standard_error() -> None:
    board = score_board({"model": ["x", "y", "z"], "a": [1, 2, 3], "b": [1, 3, 2]}, resamples=100)
    assert board.separated == {"x": "below"}
    assert np.isnan(board.se[board.names.index("x")])
    assert board.as_dict()["table"][2]["se"] is None
