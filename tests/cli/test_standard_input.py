"""`-` is standard input, for every command that reads a file."""

from __future__ import annotations

import io
import json
import sys

import pytest

from luce.cli import main
from luce.data.simulate import simulate
from luce.data.writers import write_letor


@pytest.fixture
def run(monkeypatch, capsys):
    def called(content, *arguments):
        monkeypatch.setattr(sys, "argv", ["luce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", None if content is None else io.TextIOWrapper(io.BytesIO(content)))
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return called


@pytest.fixture
def letor(tmp_path):
    write_letor(simulate(queries=12, features=4, seed=1), tmp_path / "d.txt")
    return tmp_path / "d.txt"


def test_documents(run, letor, tmp_path):
    code, out, _ = run(letor.read_bytes(), "info", "-", "--json")
    assert code == 0
    assert json.loads(out)["queries"] == 12
    code, _, err = run(letor.read_bytes(), "train", "-", "--out", tmp_path / "m.luce", "-q")
    assert (code, err) == (0, "")
    code, out, _ = run(letor.read_bytes(), "evaluate", "-", "--model", tmp_path / "m.luce", "--json")
    assert code == 0
    code, same, _ = run(None, "evaluate", letor, "--model", tmp_path / "m.luce", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(same)


def test_tables_and_ballots(run):
    code, out, _ = run(b"a,b,outcome\nx,y,a\ny,x,tie\nx,z,b\nz,y,a\n", "leaderboard", "-", "--json")
    assert code == 0
    assert {row["name"] for row in json.loads(out)["table"]} == {"x", "y", "z"}
    code, out, _ = run(b"a > b > c\nb > a > c\na > c > b\n", "aggregate", "-", "--rule", "borda", "--json")
    assert code == 0
    assert json.loads(out)["answers"][0]["winners"] == ["a"]


def test_mistakes(run, letor, tmp_path):
    code, _, err = run(None, "info", "-")
    assert code == 2
    assert "Standard input (-) is a terminal or closed; pipe a file into it." in err
    code, _, err = run(b"x", "train", "-", "--valid", "-", "--out", tmp_path / "m.luce")
    assert code == 2
    assert "asked for twice" in err
