"""`luce leaderboard` and `luce simulate battles` as a user calls them."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from luce.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command; returns exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["luce", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def battles(run, tmp_path):
    path = tmp_path / "battles.csv"
    code, _, _ = run(
        "simulate", "battles", "--out", path, "--players", 5, "--battles", 2000, "--truth", tmp_path / "t.csv"
    )
    assert code == 0
    return path


def test_decimals_are_those_that_errors_allow(run, battles) -> None:
    """Elo points are whole numbers on the screen, and as they are for machines."""
    code, out, _ = run("leaderboard", battles, "--scale", "elo", "--against", "player1")
    assert code == 0
    assert "." not in "".join(line for line in out.splitlines() if line.strip().startswith("player"))
    code, out, _ = run("leaderboard", battles, "--scale", "elo", "--json")
    assert any(row["strength"] != round(row["strength"]) for row in json.loads(out)["table"])


def test_table_json_and_files(run, battles, tmp_path) -> None:
    code, out, err = run("leaderboard", battles, "--model", "davidson")
    assert code == 0
    assert "ranks, each" in out
    assert "nu " in err
    code, out, _ = run("leaderboard", battles, "--json", "--out", tmp_path / "b.parquet", "--anchor", "player1")
    board = json.loads(out)
    assert code == 0
    assert board["converged"]
    assert pq.read_table(tmp_path / "b.parquet").column_names == list(board["table"][0])
    with open(tmp_path / "t.csv") as stream:
        truth = {row["name"]: float(row["strength"]) for row in csv.DictReader(stream)}
    ours = {row["name"]: row["strength"] for row in board["table"]}
    assert ours["player1"] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose([ours[n] for n in truth], np.array(list(truth.values())) - truth["player1"], atol=0.35)
    code, _, _ = run(
        "leaderboard", battles, "--out", tmp_path / "b.csv", "--win-matrix", tmp_path / "w.csv", "--top", 3
    )
    assert code == 0
    assert (
        (tmp_path / "b.csv")
        .read_text()
        .startswith("name,strength,se,lower,upper,rank,rank_lower,rank_upper,rank_each_lower,rank_each_upper,games\n")
    )
    assert len((tmp_path / "w.csv").read_text().splitlines()) == 4


def test_formats_of_simulated_battles_agree(run, tmp_path) -> None:
    boards = []
    for name, extra in (("b.csv", ()), ("b.jsonl", ("--lmsys",)), ("b.parquet", ("--lmsys",))):
        assert run("simulate", "battles", "--out", tmp_path / name, "--battles", 300, "--players", 4, *extra)[0] == 0
        boards.append(json.loads(run("leaderboard", tmp_path / name, "--json", "--bootstrap", 20)[1])["table"])
    assert boards[0] == boards[1] == boards[2]


def test_pictures(run, battles, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    code, _, _ = run("leaderboard", battles, "--plot", tmp_path / "p.svg", "--win-matrix", tmp_path / "w.png", "-q")
    assert code == 0
    assert (tmp_path / "w.png").read_bytes()[:4] == b"\x89PNG"


def test_components_and_notes_are_shown(run, tmp_path) -> None:
    (tmp_path / "b.csv").write_text("a,b,outcome\nx,y,a\ny,x,a\nu,v,a\nv,u,tie\n")
    code, out, err = run("leaderboard", tmp_path / "b.csv")
    assert code == 0
    assert "component" in out
    assert "2 components" in " ".join(err.split())


def test_help_is_light(run) -> None:
    code, out, _ = run("leaderboard", "--help")
    assert code == 0
    assert "--both-bad" in out


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", (), "the file is empty"),
        ("a,b,outcome\n", (), "has no rows"),
        ("a,b,outcome\nx,y,maybe\n", (), "line 2: outcome is 'maybe'"),
        ("a,b,outcome,n\nx,y,a,-1\n", ("--count", "n"), "line 2: n is -1"),
        ("a,b,outcome\nx,y,a\n", ("--model", "elo"), "Unknown leaderboard model 'elo'"),
        ("a,b,outcome\nx,y,a\n", ("--out", "b.xlsx"), "its ending must be one of"),
        ("a,b,outcome\nx,y,a\n", ("--out", "nowhere/b.csv"), "does not exist"),
        ("a,b,outcome\nx,y,a\n", ("--prior", "0"), "infinite"),
        ("a,b,outcome\nx,y,a\n", ("--anchor", "z"), "anchor 'z'"),
    ],
)
def test_mistakes_are_one_sentence(run, tmp_path, monkeypatch, text, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.csv").write_text(text)
    code, out, err = run("leaderboard", "b.csv", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--players", 1), "at least 2"),
        (("--battles", 0), "at least 1"),
        (("--model", "pmop"), "cannot be drawn"),
        (("--model", "bradley_terry", "--tie", 0.3), "has no draws"),
        (("--spread", -1), "spread"),
    ],
)
def test_mistakes_of_the_simulator(run, tmp_path, arguments, message) -> None:
    code, _, err = run("simulate", "battles", "--out", tmp_path / "b.csv", *arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "b.csv").exists()


def test_battles_to_hold_next(run, battles) -> None:
    code, out, _ = run("leaderboard", battles, "--next", 9, "--json")
    assert code == 0
    assert sum(row["battles"] for row in json.loads(out)["next"]["next"]) == 9
    code, out, _ = run("leaderboard", battles, "--next", 9)
    assert "next 9 battles" in out
    code, _, err = run("leaderboard", battles, "--next", 9, "--by", "a")
    assert (code, "--next does nothing with --by" in err) == (2, True)


def test_boards_by_category_are_kept_and_updated(run, tmp_path) -> None:
    rows = [f"{'xyz'[k % 3]},{'yzx'[k % 3]},{['a', 'b', 'a', 'tie'][k % 4]},{'pq'[k // 3 % 2]},{k}" for k in range(48)]
    for name, part in (("old", rows[:36]), ("new", rows[36:]), ("all", rows)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,outcome,kind,day", *part]) + "\n")
    by = ("--by", "kind", "--json")
    for time in ((), ("--time", "day")):
        board, more = tmp_path / f"b{len(time)}.luce", (*by, *time)
        assert run("leaderboard", tmp_path / "old.csv", *more, "--save", board)[0] == 0
        code, out, _ = run("leaderboard", tmp_path / "new.csv", *more, "--update", board, "--save", board)
        whole = json.loads(run("leaderboard", tmp_path / "all.csv", *more)[1])
        assert code == 0
        for kind, found in json.loads(out)["boards"].items():
            assert found["battles"] == whole["boards"][kind]["battles"]
    code, _, err = run("leaderboard", tmp_path / "new.csv", "--update", tmp_path / "b0.luce")
    assert (code, "name their column: by (--by)" in err) == (2, True)


def test_a_page_and_a_site_to_publish(run, battles, tmp_path) -> None:
    about = ("--title", "Arena", "--date", "2026-05-01", "--source", "our votes", "--link", "player1=https://a.b/?c=d")
    code, _, _ = run("leaderboard", battles, "--html", tmp_path / "b.html", "--site", tmp_path / "site", *about)
    assert code == 0
    text = (tmp_path / "b.html").read_text()
    assert "<title>Arena</title>" in text
    assert all(word in text for word in ("2026-05-01", "our votes", "https://a.b/?c=d"))
    names = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.*")}
    items = {f"items/player{k}.{kind}" for k in range(1, 6) for kind in ("html", "json")}
    assert names == {"index.html", "board.json", "board.csv"} | items
    assert len(json.loads((tmp_path / "site/items/player1.json").read_text())["against"]) == 4
    for wrong, said in (
        (("--title", "x"), "--title does nothing without --html"),
        (("--html", tmp_path / "b.html", "--link", "player1=javascript:1"), "item=https://"),
        (("--html", tmp_path / "b.html", "--link", "nobody=https://a.b"), "'nobody', which is not on this board"),
        (("--site", battles), "this command reads it"),
        (("--site", tmp_path / "b.html"), "is a file"),
    ):
        code, _, err = run("leaderboard", battles, *wrong)
        assert (code, said in err) == (2, True), err


def test_ballots_have_a_page_too(run, tmp_path) -> None:
    ballots = tmp_path / "votes.txt"
    ballots.write_text("a > b > c\na > c > b\nb > a > c\n")
    code, _, err = run(
        "aggregate", ballots, "--html", tmp_path / "v.html", "--site", tmp_path / "s", "--title", "Votes"
    )
    assert code == 0, err
    assert "share of ballots" in (tmp_path / "v.html").read_text()
    assert (tmp_path / "s/items/a.html").is_file()
    code, _, err = run("aggregate", ballots, "--rule", "borda", "--rule", "kemeny", "--html", tmp_path / "v.html")
    assert (code, "shows one rule" in err) == (2, True)
