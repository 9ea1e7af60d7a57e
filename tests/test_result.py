"""A result shows itself: every form is made of its sheets and its record."""

from __future__ import annotations

import csv
import io
import json
import math
import re

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import luce
from luce.aggregate import leaderboard, score_board
from luce.errors import SettingError, UnknownNameError
from luce.result import Result, Sheet, csv_text, for_terminal, json_text, seen, sheet_of

BATTLES = {"a": list("abcabc"), "b": list("bcacab"), "outcome": ["a", "tie", "b", "a", "a", "tie"]}


class Pair(Result):
    notes = ("x < y",)

    def sheets(self) -> list[Sheet]:
        return [sheet_of("T & F", ["name", "value", "value"], [["a_b", 0.5, 1], ["=c|d", math.nan, 2]], decimals=2)]


def test_forms():
    pair = Pair()
    assert pair.to_markdown().splitlines()[2:] == [
        "| name | value | value 2 |",
        "| --- | ---: | ---: |",
        "| a_b | 0.50 | 1 |",
        "| =c\\|d |  | 2 |",
    ]
    latex = pair.to_latex()
    assert r"a\_b & 0.50 & 1 \\" in latex
    assert r"\begin{tabular}{lrr}" in latex
    assert "<p>x &lt; y</p>" in pair._repr_html_()
    rows = list(csv.reader(io.StringIO(pair.to_csv())))
    assert rows[1:] == [["a_b", "0.5", "1"], ["=c|d", "", "2"]]
    assert "'=c|d" in pair.to_csv(safe=True)
    assert pair.as_dict()["notes"] == ["x < y"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "md", "tex", "html"])
def test_written_by_ending(tmp_path, ending):
    board, path = leaderboard(BATTLES), tmp_path / f"board.{ending}"
    board.write(path)
    if ending == "parquet":
        assert pq.read_table(path).column_names == list(board.columns())
    elif ending == "json":
        assert json.loads(path.read_text())["model"] == "davidson"
    else:
        assert all(name in path.read_text() for name in board.names)
    with pytest.raises(SettingError, match=r"its ending must be one of .csv, .json"):
        board.write(tmp_path / "board.xlsx")
    assert not (tmp_path / "board.xlsx").exists()


def test_terminals_obey_no_name():
    console = Console(file=io.StringIO(), width=80)
    console.print(for_terminal(sheet_of("", ["name"], [["a\x1b[31mb [bold]c[/bold]"]])))
    shown = console.file.getvalue()
    assert "\x1b" not in shown
    assert "[bold]c[/bold]" in shown
    assert seen("caf\u00e9 \u202e") == "caf\u00e9 \\u202e"


def test_terminals_have_one_column_for_both_ends_of_an_interval():
    columns = {
        "name": ["x", "y", "z"],
        "lower": [-math.inf, 0.25, 1.0],
        "upper": [1.5, math.inf, 1.0],
        "rank_each_lower": [1, 2, 3],
        "rank_each_upper": [3, 2, 3],
    }
    console = Console(file=io.StringIO(), width=80)
    console.print(
        for_terminal(Sheet("A title that is longer than the table which it stands above", columns, 2, intervals=True))
    )
    title, _, head, _, *rows = (line.strip() for line in console.file.getvalue().rstrip().splitlines())
    assert title == "A title that is longer than the table which it stands above"
    assert head.split("  ")[0] == "name"
    assert [re.split(r" {2,}", row) for row in rows] == [
        ["x", "up to 1.50", "1 to 3"],
        ["y", "from 0.25", "2"],
        ["z", "1.00", "3"],
    ]
    assert re.split(r" {2,}", head)[1:] == ["interval", "ranks, each"]
    console = Console(file=io.StringIO(), width=80)
    console.print(for_terminal(Sheet("", {"name": ["x"], "lower": [1], "upper": [2]})))  # categories of a user's own
    assert console.file.getvalue().split()[:3] == ["name", "lower", "upper"]


def test_json_has_no_nan():
    assert json_text({"x": [math.inf, 1.5], (1, 2): None}) == '{"x": [null, 1.5], "(1, 2)": null}'
    assert csv_text([["a"], ["-1"]], safe=True) == "a\n'-1\n"


def test_evaluations_are_asked_by_name():
    from luce.data.simulate import simulate

    data = simulate(queries=20, features=4, seed=1)
    found = luce.evaluate(data.X[:, 0], data, ["ndcg@10", "map"])
    assert found["ndcg@10"] == found.means["ndcg@10"]
    with pytest.raises(UnknownNameError, match="Did you mean 'ndcg@10'"):
        found["ndcg@1"]


def test_boards_by_category_are_iterated():
    battles = {name: values * 20 for name, values in BATTLES.items()} | {"kind": ["x"] * 60 + ["y"] * 60}
    boards = leaderboard(battles, by="kind")
    assert list(boards) == ["x", "y"]
    assert len(boards) == 2
    assert dict(boards.items())["x"] is boards["x"]
    assert len(repr(boards)) < 200
    assert boards.sheets()[0].columns["name"] == boards.overall.names


def test_short_reprs():
    scores = {"model": list("xyz"), "maths": [9, 7, 6], "code": [8, 8, 3]}
    for found in (leaderboard(BATTLES), score_board(scores, resamples=100)):
        assert len(repr(found)) < 200
        assert "<table>" in found._repr_html_()
