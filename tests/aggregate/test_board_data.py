"""Intake of battles and races: formats, frames, policies, and what is refused."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from luce.aggregate import judge_agreement, leaderboard, save_board, update_board
from luce.errors import DataError, ParseError, SettingError, UnknownNameError

ROWS = {
    "a": ["x", "y", "z", "x", "z", "y", "x"],
    "b": ["y", "z", "x", "z", "y", "x", "y"],
    "outcome": ["a", "a", "a", "tie", "b", "tie", "b"],
}
LMSYS = {"a": "model_a", "b": "model_b", "tie": "tie"}


def strengths(data, **settings) -> np.ndarray:
    board = leaderboard(data, **settings)
    return board.strength[np.argsort(board.names)]


EXPECTED = strengths(ROWS)


def test_columns_of_the_table() -> None:
    table = leaderboard(pd.DataFrame(ROWS)).table
    assert list(table.columns) == [
        "name",
        "strength",
        "se",
        "lower",
        "upper",
        "rank",
        "rank_lower",
        "rank_upper",
        "rank_each_lower",
        "rank_each_upper",
        "games",
    ]
    assert table["games"].sum() == 14
    assert (np.diff(table["strength"]) <= 0).all()


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda rows: pd.DataFrame(rows).astype(object),
        lambda rows: pd.DataFrame(rows).astype("category"),
        pl.DataFrame,
        lambda rows: pl.DataFrame(rows).lazy(),
        pa.table,
        lambda rows: {key: np.array(values) for key, values in rows.items()},
    ],
)
def test_any_frame(make) -> None:
    board = leaderboard(make(ROWS))
    np.testing.assert_array_equal(board.strength[np.argsort(board.names)], EXPECTED)


def test_the_table_is_of_the_kind_of_the_input() -> None:
    assert isinstance(leaderboard(pd.DataFrame(ROWS)).table, pd.DataFrame)
    assert isinstance(leaderboard(pl.DataFrame(ROWS)).table, pl.DataFrame)
    assert isinstance(leaderboard(ROWS).table, pa.Table)


def test_files(tmp_path) -> None:
    lmsys = {"model_a": ROWS["a"], "model_b": ROWS["b"], "winner": [LMSYS[o] for o in ROWS["outcome"]]}
    records = [dict(zip(lmsys, row, strict=True)) for row in zip(*lmsys.values(), strict=True)]
    nested = [{**record, "conversation": [{"turn": i}] * i} for i, record in enumerate(records)]
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(r) for r in nested) + "\n")
    (tmp_path / "b.json").write_text(json.dumps(nested))
    pa.parquet.write_table(pa.table(lmsys), tmp_path / "b.parquet")
    pd.DataFrame(lmsys).to_csv(tmp_path / "b.csv", index=False)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as stream:
        pd.DataFrame(lmsys).to_csv(stream, index=False)
    for name in ("b.jsonl", "b.json", "b.parquet", "b.csv", "b.csv.gz"):
        np.testing.assert_array_equal(strengths(tmp_path / name), EXPECTED)


def test_names_that_are_numbers(tmp_path) -> None:
    text = "a,b,outcome\n007,8,a\n8,007,a\n007,8,tie\n"
    (tmp_path / "b.csv").write_text(text)
    assert sorted(leaderboard(str(tmp_path / "b.csv")).names) == ["007", "8"]


def test_other_outcomes_and_columns() -> None:
    score = {"a": 1.0, "b": 0.0, "tie": 0.5}
    numeric = {"home": ROWS["a"], "away": ROWS["b"], "points": [score[o] for o in ROWS["outcome"]]}
    np.testing.assert_array_equal(strengths(numeric, a="home", b="away", outcome="points"), EXPECTED)
    first = [b if o == "b" else a for a, b, o in zip(*ROWS.values(), strict=True)]
    second = [a if o == "b" else b for a, b, o in zip(*ROWS.values(), strict=True)]
    listed = {"winner": first, "loser": second, "tie": [o == "tie" for o in ROWS["outcome"]]}
    np.testing.assert_array_equal(strengths(listed), EXPECTED)


def test_counts_weights_and_repeats_agree() -> None:
    times = np.array([3, 1, 2, 4, 1, 2, 5])
    repeated = {key: np.repeat(values, times) for key, values in ROWS.items()}
    counted = leaderboard({**ROWS, "n": times}, count="n")
    whole = leaderboard(repeated)
    weighted = leaderboard({**ROWS, "w": times.astype(float)}, weight="w")
    np.testing.assert_allclose(counted.strength, whole.strength, atol=1e-12)
    np.testing.assert_allclose(counted.se, whole.se, atol=1e-12)
    np.testing.assert_allclose(weighted.strength, whole.strength, atol=1e-12)
    # A weight of 5 is one battle that counts five times, not five battles: it is less sure.
    assert np.all(weighted.se > whole.se)


def test_both_bad() -> None:
    bad = {**ROWS, "outcome": ["tie (bothbad)" if o == "tie" else o for o in ROWS["outcome"]]}
    as_tie = leaderboard(bad)
    np.testing.assert_array_equal(as_tie.strength[np.argsort(as_tie.names)], EXPECTED)
    assert any("bad on both sides" in note for note in as_tie.notes)
    dropped = leaderboard(bad, both_bad="drop", model="bradley_terry")
    kept = [i for i, o in enumerate(ROWS["outcome"]) if o != "tie"]
    without = leaderboard({k: [v[i] for i in kept] for k, v in ROWS.items()}, model="bradley_terry")
    np.testing.assert_array_equal(dropped.strength, without.strength)
    with pytest.raises(SettingError, match="both_bad is 'lose'"):
        leaderboard(bad, both_bad="lose")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"outcome": ["a", "a", "c", "a", "a", "a", "a"]}, {}, r"Row 2: outcome is 'c'; allowed are"),
        ({"n": [1, 1, -2, 1, 1, 1, 1]}, {"count": "n"}, r"Row 2: n is -2; it must be a finite number of at least 0"),
        ({"n": [1, 1, 0.5, 1, 1, 1, 1]}, {"count": "n"}, r"Row 2: the count is 0.5; counts must be whole"),
        ({"n": [0] * 7}, {"count": "n"}, "nothing is left"),
        ({"w": ["1"] * 6 + ["one"]}, {"weight": "w"}, r"Row 6: w is 'one'; it must be a finite number"),
        ({"a": ["x", "y", "z", "x", "z", "y", "y"]}, {}, r"Row 6: 'y' is set against itself"),
        ({"a": ["x", None, "z", "x", "z", "y", "x"]}, {}, r"Row 1: a is empty; every row needs a value"),
        ({}, {"a": "left"}, r"no column 'left'"),
        ({}, {"anchor": "q"}, r"anchor 'q' is not among"),
        ({"outcome": ["tie"] * 7}, {}, "Every battle is a draw"),
    ],
)
def test_bad_battles(change, settings, message) -> None:
    with pytest.raises(DataError, match=message):
        leaderboard({**ROWS, **change}, **settings)


def test_bad_settings() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'davidson'"):
        leaderboard(ROWS, model="davison")
    with pytest.raises(SettingError, match="level is 95"):
        leaderboard(ROWS, level=95)
    with pytest.raises(SettingError, match="prior is -1"):
        leaderboard(ROWS, prior=-1)
    with pytest.raises(SettingError, match="at least 20"):
        leaderboard(ROWS, bootstrap=3)
    with pytest.raises(DataError, match="battles need a, b, outcome"):
        leaderboard({"left": ["x"], "right": ["y"]})
    with pytest.raises(DataError, match="A list is no table"):
        leaderboard([1, 2])


def test_bad_files(tmp_path) -> None:
    def file(name: str, text: str):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    with pytest.raises(DataError, match="does not exist"):
        leaderboard(tmp_path / "none.csv")
    with pytest.raises(ParseError, match="the file is empty"):
        leaderboard(file("empty.csv", ""))
    with pytest.raises(DataError, match="has no rows"):
        leaderboard(file("header.csv", "a,b,outcome\n"))
    with pytest.raises(ParseError, match="binary file"):
        leaderboard(file("b.xls", "PK\0\1"))
    with pytest.raises(ParseError, match="line 2: this is no JSON"):
        leaderboard(file("b.jsonl", '{"a": "x", "b": "y", "outcome": "a"}\n{"a": \n'))
    with pytest.raises(ParseError, match=r"line 3: 2 cells, and the header has 3; .*--short-rows"):
        leaderboard(file("ragged.csv", "a,b,outcome\nx,y,a\nx,y\n"))
    with pytest.raises(ParseError, match="cannot be read as parquet"):
        leaderboard(file("b.parquet", "not parquet"))
    with pytest.raises(ParseError, match="list of objects"):
        leaderboard(file("b.json", '{"a": 1}'))


RACES = {
    "race": ["r1"] * 3 + ["r2"] * 4 + ["r3"] * 3,
    "competitor": ["x", "y", "z", "z", "x", "y", "w", "w", "y", "x"],
    "place": [1, 2, 3, 1, 2, 3, 4, 1, 2, 2],
}


def test_races() -> None:
    with pytest.raises(DataError, match="share a place"):
        leaderboard(RACES, model="plackett_luce")
    with pytest.raises(SettingError, match="holds races"):
        leaderboard(RACES, model="davidson")
    with pytest.raises(SettingError, match="holds races, which have no counts"):
        leaderboard(RACES, model="pmop", side=True)
    board = leaderboard(RACES, model="pmop")
    assert dict(zip(board.names, board.games, strict=True)) == {"w": 2, "x": 3, "y": 3, "z": 2}
    twice = {**RACES, "competitor": ["x", "x", *RACES["competitor"][2:]]}
    with pytest.raises(DataError, match="has 'x' twice"):
        leaderboard(twice, model="pmop")


def test_wide_races_equal_long_ones(tmp_path) -> None:
    (tmp_path / "wide.csv").write_text("rank1,rank2,rank3\n3.0,1.0,2.0\n1.0,2.0,\n2.0,3.0,1.0\n")
    long = {"race": [1, 1, 1, 2, 2, 3, 3, 3], "competitor": list("31212231"), "place": [1, 2, 3, 1, 2, 1, 2, 3]}
    wide = leaderboard(tmp_path / "wide.csv", model="plackett_luce", names={"3": "three"})
    board = leaderboard(long, model="plackett_luce")
    assert "three" in wide.names
    np.testing.assert_allclose(wide.strength, board.strength, atol=1e-12)


@pytest.mark.real
def test_nascar(real_data) -> None:
    """NASCAR 2002: 83 drivers, of whom some are always last; P. J. Jones and Scott Pruett lead (Hunter, 2004)."""
    folder = real_data("races")
    drivers = pd.read_csv(folder / "nascar_drivers.csv")
    names = {str(i): name for i, name in zip(drivers["id"], drivers["driver"], strict=True)}
    board = leaderboard(folder / "nascar_orderings.csv", model="plackett_luce", names=names)
    assert board.converged
    assert board.n_battles == 36
    assert len(board.names) == len(drivers)
    assert np.isfinite(board.strength).all()
    assert set(board.names[:2]) == {"PJ Jones", "Scott Pruett"}


def minorised(races: list[list[str]], names: list[str], rounds: int = 3000) -> dict[str, float]:
    """Log-strengths with mean 0 by the minorisation-maximisation of Hunter (2004), in plain NumPy: slow and obvious.

    gamma_i <- (races in which i is not last) / (sum over stages with i still in the race of 1 / sum of gamma there)
    """
    rows = [np.array([names.index(name) for name in race]) for race in races]
    stages = [row[k:] for row in rows for k in range(len(row) - 1)]
    wins = np.bincount([stage[0] for stage in stages], minlength=len(names))
    inside = np.zeros((len(stages), len(names)))
    for k, stage in enumerate(stages):
        inside[k, stage] = 1.0
    gamma = np.ones(len(names))
    for _ in range(rounds):
        gamma = wins / (inside.T @ (1.0 / (inside @ gamma)))
        gamma /= np.exp(np.mean(np.log(gamma)))
    return dict(zip(names, np.log(gamma), strict=True))


def stage_gradient(races: list[list[str]], x: dict[str, float]) -> dict[str, float]:
    """Of the log-likelihood, stage by stage."""
    gradient = dict.fromkeys(x, 0.0)
    for race in races:
        for k in range(len(race) - 1):
            weights = np.exp([x[name] for name in race[k:]])
            gradient[race[k]] += 1.0
            for name, share in zip(race[k:], weights / weights.sum(), strict=True):
                gradient[name] -= share
    return gradient


@pytest.mark.real
def test_nascar_by_slow_references(real_data) -> None:
    """Drivers with a finite estimate by minorisation."""
    frame = pd.read_csv(real_data("races") / "nascar_orderings.csv", dtype=str)
    races = [[name for name in row if isinstance(name, str)] for row in frame.to_numpy().tolist()]
    board = leaderboard(frame, model="plackett_luce")
    names, apart = [str(float(name)) for name in board.names], {str(float(name)) for name in board.separated}
    assert apart
    main = [name for name in names if name not in apart]
    # The others alone.
    inner = [[name for name in race if name not in apart] for race in races]
    most = max(map(len, inner))
    alone = pd.DataFrame([race + [None] * (most - len(race)) for race in inner])
    found = leaderboard(alone.rename(columns=lambda k: f"rank{k + 1}"), model="plackett_luce")
    slow = minorised(inner, sorted(main))
    strength = {str(float(name)): value for name, value in zip(found.names, found.logits, strict=True)}
    gap = np.array([strength[name] - slow[name] for name in main])
    assert np.ptp(gap) < 1e-6
    choix = pytest.importorskip("choix")
    order = sorted(main)
    theirs = choix.ilsr_rankings(len(order), [[order.index(name) for name in race] for race in inner], tol=1e-10)
    assert np.ptp([strength[name] - theirs[i] for i, name in enumerate(order)]) < 1e-5


def test_forms_of_one_name_are_one_and_said() -> None:
    """Composed and decomposed letters, wide letters and spaces around: one item, under its composed name."""
    plain = {"a": ["Zo\u00e9", "b", "NaN", "b"], "b": ["b", "Zo\u00e9", "b", "NaN"], "outcome": ["a", "a", "a", "tie"]}
    forms = plain | {"a": ["Zoe\u0301", "b", "NaN", "b "], "b": ["\uff42", " Zo\u00e9", "b", "NaN"]}
    board, same = leaderboard(forms), leaderboard(plain)
    assert board.names == same.names
    np.testing.assert_array_equal(board.strength, same.strength)
    assert any("Unicode form are one" in note and "'Zoe\\u0301'" in note for note in board.notes)
    assert not any("Unicode" in note for note in same.notes)
    assert any("'NaN' is taken as a name" in note for note in same.notes)
    with pytest.raises(DataError, match="against itself"):
        leaderboard(plain | {"a": ["Zoe\u0301"] * 4, "b": ["Zo\u00e9"] * 4})
    with pytest.raises(DataError, match="names a member twice"):
        leaderboard(plain | {"a": ["x+\uff58"] * 4}, team_separator="+")
    races = {"race": [1, 1, 2, 2], "competitor": ["Zo\u00e9", "b", "b ", "Zoe\u0301"], "place": [1, 2, 1, 2]}
    raced = leaderboard(races, "plackett_luce")
    assert raced.names == ("Zo\u00e9", "b")
    assert any("Unicode form are one" in note for note in raced.notes)


def graded(n: int = 300) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    share = np.round(1.0 / (1.0 + np.exp(0.8 * (a - b) + rng.normal(size=n))), 3)
    names = np.array(list("wxyz"))
    return {"a": names[a], "b": names[b], "outcome": share}, np.eye(4)[a] - np.eye(4)[b]


@pytest.mark.parametrize("model", ["bradley_terry", "davidson", "plackett_luce"])
def test_graded_outcomes_are_parts_of_wins(model) -> None:
    """The likelihood is that of weighted wins; the errors are those of whole battles."""
    rows, x = graded()
    board = leaderboard(rows, model)
    share, order = rows["outcome"], np.argsort(board.names)
    residual = share - 1.0 / (1.0 + np.exp(-x @ board.strength[order]))
    np.testing.assert_allclose(x.T @ residual, 0.0, atol=1e-6)
    halves = {k: np.concatenate([v, v]) for k, v in rows.items() if k != "outcome"}
    halves |= {"outcome": np.repeat(["a", "b"], len(share)), "w": np.concatenate([share, 1.0 - share])}
    as_weights = leaderboard(halves, model, weight="w")
    np.testing.assert_allclose(board.strength, as_weights.strength, atol=1e-6)
    assert board.n_battles == len(share)
    assert board.games.sum() == pytest.approx(2 * len(share))
    assert any("from 0 to 1: the part of a win that goes to a" in note for note in board.notes)
    # Two parts of a battle are not two battles.
    joined = leaderboard({**halves, "n": np.tile(np.arange(len(share)), 2)}, model, weight="w", group="n")
    np.testing.assert_allclose(board.se, joined.se, rtol=5e-3)  # how far few games lean on the curvature differs
    assert np.all(board.se < 0.9 * as_weights.se)


def test_graded_outcomes_from_1_to_2() -> None:
    rows, _ = graded()
    expected = leaderboard(rows)
    named = {"generator_1": rows["a"], "generator_2": rows["b"], "preference": 2.0 - rows["outcome"]}
    board = leaderboard(named)
    np.testing.assert_allclose(board.strength, expected.strength, atol=1e-9)
    assert any("from 1 (a wins) to 2 (b wins)" in note for note in board.notes)
    score = {"a": 1, "b": 2, "tie": 0}
    whole = {"a": ROWS["a"], "b": ROWS["b"], "preference": [score[o] for o in ROWS["outcome"]]}
    np.testing.assert_array_equal(strengths(whole), EXPECTED)
    assert any("0 as a draw" in note for note in leaderboard(whole).notes)
    with pytest.raises(DataError, match=r"outcome is '0\.3'; allowed are"):
        leaderboard({**rows, "outcome": [0.3, 1.7] * 150})


def test_where_graded_outcomes_do_not_fit(tmp_path) -> None:
    rows, _ = graded()
    rows |= {"n": np.ones(300), "t": np.arange(300), "judge": np.arange(300) % 30}
    with pytest.raises(DataError, match="parts of a win, and a count"):
        leaderboard(rows, count="n")
    board = leaderboard(rows, group="judge")
    with pytest.raises(SettingError, match="leave parts of wins"):
        judge_agreement(board, rows, group="judge")
    teams = {"a": ["x+y", "z"], "b": ["z", "x+y"], "outcome": ["a", "tie"]}
    with pytest.raises(SettingError, match="can be kept for updates"):
        save_board(leaderboard(teams, team_separator="+"), tmp_path / "b.luce")


def test_a_graded_board_is_kept_and_updated(tmp_path) -> None:
    rows, _ = graded()
    old, new = ({key: list(values)[cut] for key, values in rows.items()} for cut in (slice(0, 200), slice(200, None)))
    save_board(leaderboard(old), tmp_path / "b.luce")
    kept, whole = update_board(tmp_path / "b.luce", new), leaderboard(rows)
    assert kept.names == whole.names
    np.testing.assert_allclose(kept.strength, whole.strength, atol=1e-6)
    np.testing.assert_allclose(kept.se, whole.se, rtol=1e-6)
    with pytest.raises(SettingError, match="parts of wins"):
        update_board(tmp_path / "b.luce", {**new, "outcome": ["a", "b"] * 50})
    save_board(leaderboard(ROWS), tmp_path / "b.luce")
    with pytest.raises(SettingError, match="parts of wins"):
        update_board(tmp_path / "b.luce", rows)


def test_verdicts() -> None:
    words = {"a": "[[A>B]]", "b": "B > A", "tie": "A=B"}
    rows = {**ROWS, "outcome": [words[o] for o in ROWS["outcome"]]}
    np.testing.assert_array_equal(strengths(rows), EXPECTED)
    rows["outcome"][0], rows["outcome"][4] = "A>>B", "A<<B"
    board = leaderboard(rows)
    np.testing.assert_array_equal(board.strength[np.argsort(board.names)], EXPECTED)
    assert any("2 battles have a strong verdict" in n and "like any other win" in n for n in board.notes)
    weight = np.where([">>" in o or "<<" in o for o in rows["outcome"]], 3.0, 1.0)
    np.testing.assert_array_equal(strengths(rows, strong=3.0), strengths({**ROWS, "w": weight}, weight="w"))
    assert any("counts 3 times a win" in note for note in leaderboard(rows, strong=3.0).notes)
    with pytest.raises(SettingError, match="has no verdicts A>>B"):
        leaderboard(ROWS, strong=3.0)


def test_three_columns_of_which_one_is_1() -> None:
    kinds = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}
    rows = {"model_a": ROWS["a"], "model_b": ROWS["b"]}
    rows |= {name: [int(o == kind) for o in ROWS["outcome"]] for name, kind in kinds.items()}
    np.testing.assert_array_equal(strengths(rows), EXPECTED)
    other = dict(zip(("model_a", "model_b", "x", "y", "z"), rows.values(), strict=True))
    np.testing.assert_array_equal(strengths(other, outcome=("x", "y", "z")), EXPECTED)
    np.testing.assert_array_equal(strengths(other, outcome="x,y,z"), EXPECTED)
    with pytest.raises(DataError, match=r"Row 1: 2 of winner_model_a, winner_model_b, winner_tie are 1"):
        leaderboard({**rows, "winner_tie": [0, 1, 0, 1, 0, 1, 0]})
    with pytest.raises(DataError, match="cannot be both wins of a and ties"):
        leaderboard(other, outcome=("x", "y", "x"))


def test_battles_of_one_against_itself(tmp_path) -> None:
    rows = {"a": [*ROWS["a"], "x"], "b": [*ROWS["b"], "x"], "outcome": [*ROWS["outcome"], "a"]}
    with pytest.raises(DataError, match=r"Row 7: 'x' is set against itself.*--self-battles drop"):
        leaderboard(rows)
    dropped = leaderboard(rows, self_battles="drop")
    np.testing.assert_array_equal(dropped.strength[np.argsort(dropped.names)], EXPECTED)
    assert "1 battles set one against itself; they are left out." in dropped.notes
    tied = leaderboard(rows, self_battles="tie")
    assert tied.n_battles == 8
    assert tied.games.sum() == 15
    # A tie of equals says nothing of strengths, but that ties are frequent.
    assert tied.tie.value > dropped.tie.value
    save_board(dropped, tmp_path / "b.luce")
    assert update_board(tmp_path / "b.luce", rows).n_battles == 14
    with pytest.raises(SettingError, match="use 'drop'"):
        leaderboard(rows, "pmop", self_battles="tie")
    with pytest.raises(SettingError, match="self_battles='drop'"):
        leaderboard({**rows, "t": range(8)}, time="t", self_battles="tie")
    with pytest.raises(DataError, match="every battle sets one against itself"):
        leaderboard({**ROWS, "b": ROWS["a"]}, self_battles="drop")
    with pytest.raises(SettingError, match="self_battles is 'keep'"):
        leaderboard(rows, self_battles="keep")


@pytest.mark.parametrize(
    "usual", [("a", "b", "outcome"), ("model_a", "model_b", "winner"), ("model_a", "model_b", "outcome")]
)
@pytest.mark.parametrize("role", range(3))
def test_naming_one_column_leaves_the_usual_names_of_the_others(usual, role) -> None:
    values = (ROWS["a"], ROWS["b"], ROWS["outcome"])
    names = [*usual[:role], "mine", *usual[role + 1 :]]
    rows = dict(zip(names, values, strict=True))
    np.testing.assert_array_equal(strengths(rows, **{("a", "b", "outcome")[role]: "mine"}), EXPECTED)
    np.testing.assert_array_equal(strengths(dict(zip(usual, values, strict=True))), EXPECTED)


@pytest.mark.real
def test_real_votes_as_shares_and_as_three_columns(real_data) -> None:
    """The mean vote on a pair of answers, times the votes, holds what Bradley-Terry with half wins takes from them."""
    frame = pd.read_csv(real_data("boards") / "llmfao" / "crowd-comparisons.csv.gz")
    votes = leaderboard(frame, "bradley_terry", a="left", b="right")
    frame["share"] = frame["winner"].map({"left": 1.0, "right": 0.0, "tie": 0.5})
    pairs = frame.groupby(["id", "left", "right"])["share"].agg(["mean", "size"]).reset_index()
    shares = leaderboard(pairs, "bradley_terry", a="left", b="right", outcome="mean", weight="size")
    assert shares.names == votes.names
    assert shares.n_battles == len(pairs)
    np.testing.assert_allclose(shares.strength, votes.strength, atol=1e-6)
    one_hot = pd.DataFrame({"model_a": frame["left"], "model_b": frame["right"]})
    for column, kind in (("winner_model_a", "left"), ("winner_model_b", "right"), ("winner_tie", "tie")):
        one_hot[column] = (frame["winner"] == kind).astype(int)
    np.testing.assert_array_equal(leaderboard(one_hot, "bradley_terry").strength, votes.strength)


def test_short_rows_by_a_policy(tmp_path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("a,b,outcome,n,note\nx,y,a,2,1\ny,x,b\nx,y,tie,1\nx,y,b,1,2\n")
    with pytest.raises(DataError, match="line 3: 3 cells, and the header has 5"):
        leaderboard(path)
    dropped = leaderboard(path, short_rows="drop", count="n")
    assert dropped.n_battles == 3
    assert "2 rows have fewer cells than the header; they are left out." in dropped.notes
    filled = leaderboard(path, short_rows="fill")
    assert filled.n_battles == 4
    assert any("empty cells" in note for note in filled.notes)
    with pytest.raises(DataError, match="n"):
        leaderboard(path, short_rows="fill", count="n")
    path.write_text("a,b,outcome\nx,y,a,2,1\n")
    with pytest.raises(DataError, match="line 2: 5 cells, and the header has 3"):
        leaderboard(path, short_rows="drop")
    with pytest.raises(SettingError, match="is no file"):
        leaderboard(ROWS, short_rows="drop")
