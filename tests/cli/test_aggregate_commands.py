from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from luce.aggregate import read_ballots
from luce.cli.app import app, main
from luce.errors import LuceWarning

VOTES = "4: a > b > c\n3: b > c > a\n2: c > a > b\n"


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.txt"
    path.write_text(VOTES)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(monkeypatch, capsys, *arguments):
    """The message of a user's mistake: exit code 2, one sentence, no traceback."""
    monkeypatch.setattr("sys.argv", ["luce", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def test_aggregate_prints_a_proven_consensus(votes, tmp_path):
    out = json.loads(run("aggregate", votes, "--json", "--out", tmp_path / "c.csv"))
    (answer,) = out["answers"]
    assert answer["tiers"] == [["a"], ["b"], ["c"]]
    assert answer["optimal"] is True
    assert answer["objective"] == answer["bound"] == 4 * 0 + 3 * 2 + 2 * 2
    assert (tmp_path / "c.csv").read_text().splitlines()[:2] == ["rule,rank,item,score", "kemeny,1,a,-1.0"]
    assert "proven optimal" in run("aggregate", votes, "-q")


def test_an_ending_in_capitals_is_the_same_format(votes, tmp_path):
    run("aggregate", votes, "--out", tmp_path / "c.JSON", "-q")
    assert json.loads((tmp_path / "c.JSON").read_text())["answers"][0]["tiers"] == [["a"], ["b"], ["c"]]


def test_aggregate_compares_rules_and_draws(votes, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "bump.png"
    text = run("aggregate", votes, "--rule", "borda", "--rule", "1/i", "--plot", picture, "-q")
    assert "borda" in text
    assert "1/i" in text
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_runs_are_fused(tmp_path):
    (tmp_path / "r1").write_text("1 Q0 x 1 9 a\n1 Q0 y 2 8 a\n")
    (tmp_path / "r2").write_text("1 Q0 y 1 9 b\n1 Q0 z 2 8 b\n")
    text = run("aggregate", tmp_path / "r1", tmp_path / "r2", "--format", "trec", "--rule", "borda", "-q")
    assert text.splitlines() == ["1 Q0 y 1 -1 luce-borda", "1 Q0 x 2 -2 luce-borda", "1 Q0 z 3 -3 luce-borda"]


def test_axioms_of_a_rule():
    out = json.loads(run("axioms", "--rule", "borda", "-n", "5", "--json"))
    (row,) = out["rules"]
    assert row["iia"] == pytest.approx(0.3)
    assert row["pareto"] is True
    table = run("axioms", "-n", "5")
    for name in ("borda", "plurality", "antiplurality", "log", "squared"):
        assert name in table


def test_axioms_of_a_profile(votes, tmp_path):
    text = run("axioms", votes, "--rule", "kemeny", "--trials", "10", "--out", tmp_path / "report.json")
    assert "cycle of majorities" in text
    assert "breaks strong_condorcet by 0.0556: 55.6% put c before a" in text
    assert json.loads((tmp_path / "report.json").read_text())["condorcet_winner"] is None


def test_columns_that_are_not_used_are_named(tmp_path, votes):
    path = tmp_path / "tidy.csv"
    path.write_text("ballot,item,rank,wieght\n1,a,1,5\n1,b,2,5\n")
    with pytest.warns(LuceWarning, match=r"tidy.csv: the column wieght is not used; known are .*weight"):
        assert read_ballots(path).total == 1


def test_a_profile_of_one_item_says_that_nothing_was_tried(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("3: a\n")
    kept = json.loads(run("axioms", path, "--rule", "kemeny", "--json"))["rules"][0]["kept"]
    assert kept["independence"] == "no single removal reverses a pair (0 tried)"
    assert (kept["consistency"], kept["monotonicity"]) == ("none found in 0 splits", "none found in 0 changes")


def test_simulated_ballots_are_read_back(tmp_path):
    path = tmp_path / "m.soc"
    run("simulate", "ballots", "--out", path, "-m", "300", "--centre", "x > y > z", "--phi", "0.2", "--seed", "3", "-q")
    first = path.read_text()
    out = json.loads(run("aggregate", path, "--json"))
    assert out["ballots"] == 300
    assert out["answers"][0]["tiers"] == [["x"], ["y"], ["z"]]
    run("simulate", "ballots", "--out", path, "-m", "300", "--centre", "x > y > z", "--phi", "0.2", "--seed", "3", "-q")
    assert path.read_text() == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["aggregate", "{bad}"], "ranks 'a' twice"),
        (["aggregate", "{missing}"], "does not exist; check the name"),
        (["aggregate", "{votes}", "{votes}"], "one file of ballots"),
        (["aggregate", "{votes}", "--rule", "kemmeny"], "Did you mean 'kemeny'"),
        (["aggregate", "{votes}", "--unranked", "first"], "last, ignore, error"),
        (["aggregate", "{votes}", "--out", "{nofolder}"], "does not exist"),
        (["aggregate", "{votes}", "--time-limit", "0"], "above 0"),
        (["aggregate", "{votes}", "--time-limit", "nan"], "above 0"),
        (["aggregate", "{folder}"], "is a folder; give the name of a file in it"),
        (["aggregate", "{folder}", "{votes}", "--format", "trec"], "is a folder; give the name of a file in it"),
        (["aggregate", "{votes}", "--rule", "borda", "--time-limit", "3"], "--time-limit is for the rule kemeny"),
        (["aggregate", "{run}", "--format", "trec", "--plot", "{picture}"], "--plot shows one consensus"),
        (["aggregate", "{counts}"], "line 2: the count is 'two'; it must be a number above 0"),
        (["aggregate", "{nan}"], "the count is 'nan'"),
        (["aggregate", "{voters}"], "no columns are called ballot, item, and rank or score"),
        (["aggregate", "{head}", "--format", "tidy"], "there are names of columns and no rows"),
        (["axioms", "-n", "4", "--trials", "5"], "--trials is for a file of ballots"),
        (["axioms", "-n", "4", "--seed", "5"], "--seed is for a file of ballots"),
        (["axioms", "-n", "4", "--unranked", "last"], "--unranked is for a file of ballots"),
        (["axioms", "-n", "4", "--format", "soc"], "--format is for a file of ballots"),
        (["axioms", "-n", "4", "--plot", "{picture}"], "--plot is for a file of ballots"),
        (["axioms", "{votes}", "--plot", "{odd}"], "its ending must be one of .png"),
        (["axioms", "{votes}", "--out", "{picture}"], "its ending must be one of .json"),
        (["axioms", "-n", "17", "--rule", "footrule"], "up to n = 16"),
        (["axioms"], "-n"),
        (["axioms", "{votes}", "-n", "4"], "leave -n out"),
        (["axioms", "-n", "1"], "at least 2"),
        (["axioms", "-n", "4", "--rule", "approval"], "not known"),
        (["axioms", "{votes}", "--trials", "-1"], "at least 0"),
        (["simulate", "ballots", "--out", "{new}", "--phi", "2"], "at most 1"),
        (["simulate", "ballots", "--out", "{odd}"], "its ending must be one of .soc, .soi"),
        (["simulate", "ballots", "--out", "{new}", "-m", "0"], "--ballots is 0"),
        (["simulate", "ballots", "--out", "{new}", "--top", "9"], "between 1 and 5"),
        (["simulate", "ballots", "--out", "{new}", "--phi", "0.5", "--phi", "0.6"], "once a centre"),
    ],
)
def test_mistakes_end_with_one_sentence(tmp_path, votes, monkeypatch, capsys, arguments, message):
    bad = tmp_path / "bad.txt"
    bad.write_text("a > b > a\n")
    texts = {"run": "1 Q0 d 1 2 x\n", "counts": "2: a > b\ntwo: b > a\n", "nan": "nan: a > b\n"}
    texts["head"] = "ballot,item,rank"
    texts["voters"] = "voter,item,rank\n1,a,1\n"
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    places = {
        **{name: tmp_path / f"{name}.txt" for name in texts},
        "picture": tmp_path / "x.png",
        "bad": bad,
        "votes": votes,
        "missing": tmp_path / "none.soc",
        "nofolder": tmp_path / "no" / "x.csv",
        "new": tmp_path / "new.soc",
        "odd": tmp_path / "new.parquet",
        "folder": tmp_path,
    }
    assert message in fails(monkeypatch, capsys, *[a.format(**places) for a in arguments])
    assert not (tmp_path / "new.soc").exists()


def test_options_of_rules(monkeypatch, capsys, tmp_path) -> None:
    path = tmp_path / "votes.txt"
    path.write_text("4: A > B > C > D\n3: B > A > D > C\n2: C > D > A > B\n")
    answer = json.loads(run("aggregate", path, "--rule", "stv", "--seats", 2, "--json"))["answers"][0]
    assert "2 seats" in answer["notes"][0]
    for arguments, message in (
        (("--rule", "borda", "--seats", 2), "--seats is for the rule stv"),
        (("--rule", "borda", "--time-limit", 5), "--time-limit is for the rule kemeny"),
        (("--rule", "stv", "--strength", "winning"), "--strength is for the rule schulze and ranked_pairs"),
        (("--format", "trec", "--plot", tmp_path / "x.png"), "--plot shows one consensus"),
    ):
        assert message in fails(monkeypatch, capsys, "aggregate", path, *arguments)
