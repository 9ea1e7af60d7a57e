from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from luce.cli import main

RUN = "1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n2 Q0 c 1 2 t\n2 Q0 d 2 1 t\n"
OTHER = "1 Q0 a 1 1 t\n1 Q0 b 2 2 t\n2 Q0 c 1 2 t\n2 Q0 d 2 1 t\n"
QRELS = "1 0 a 1\n1 0 b 0\n2 0 c 0\n2 0 d 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("run", RUN), ("other", OTHER), ("qrels", QRELS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["luce", "evaluate", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_run_and_judgements(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code = call(
        monkeypatch, "--run", "run", "--qrels", "qrels", "--metrics", "mrr,p@1", "--json", "--per-query", "out.csv"
    )
    assert code == 0
    result = json.loads(capsys.readouterr().out)
    assert result["means"] == {"mrr": 0.75, "p@1": 0.5}
    assert result["queries"] == 2
    assert (folder / "out.csv").read_text() == "query,metric,value\n1,mrr,1.0\n2,mrr,0.5\n1,p@1,1.0\n2,p@1,0.0\n"


def test_table_for_people(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--run", "run", "--qrels", "qrels", "--compare", "other", "--metrics", "mrr") == 0
    out = capsys.readouterr().out
    assert "2 queries" in out
    assert "0.7500" in out
    assert "Paired differences" in out


def test_comparison(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--run",
        "run",
        "--qrels",
        "qrels",
        "--compare",
        "other",
        "--compare",
        "run",
        "--metrics",
        "mrr",
        "--json",
    )
    assert call(monkeypatch, *arguments) == 0
    first, second = json.loads(capsys.readouterr().out)["comparisons"]
    assert (first["against"], first["difference"], first["p"], first["p_holm"]) == ("other", 0.25, 1.0, 1.0)
    assert (first["wins"], first["ties"], first["losses"]) == (1, 1, 0)
    assert (second["against"], second["ties"]) == ("run", 2)


def test_scores_in_file_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data.txt").write_text("1 qid:1 1:0\n0 qid:2 1:0\n0 qid:1 1:0\n1 qid:2 1:0\n")
    (folder / "scores").write_text("3\n2\n1\n1\n")
    assert call(monkeypatch, "data.txt", "--scores", "scores", "--metrics", "mrr", "--json") == 0
    assert json.loads(capsys.readouterr().out)["means"] == {"mrr": 0.75}


def test_conventions(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--run",
        "run",
        "--qrels",
        "qrels",
        "--metrics",
        "rbp",
        "--preset",
        "ranx",
        "-c",
        "persistence=0.5",
        "-c",
        "ties=worst",
    )
    assert call(monkeypatch, *arguments, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["means"]["rbp"] == pytest.approx((0.5 + 0.25) / 2)
    assert result["conventions"]["ties"] == "worst"
    assert result["conventions"]["gain"] == "linear"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--qrels", "qrels"], "0 of --model, --scores and --run were given"),
        (["--run", "run"], "Give the judged data as DATA"),
        (["x", "--run", "run", "--qrels", "qrels"], "one of the two"),
        (["x", "--scores", "run", "--qrels", "qrels"], "--qrels goes with --run"),
        (["--run", "absent", "--qrels", "qrels"], "absent does not exist"),
        (["--run", "qrels", "--qrels", "qrels"], "qrels, line 1: 4 columns; 6 were expected"),
        (["--run", "run", "--qrels", "qrels", "--metrics", "ndgc@10"], "Did you mean 'ndcg'?"),
        (["--run", "run", "--qrels", "qrels", "--metrics", ","], "No metric was named"),
        (["--run", "run", "--qrels", "qrels", "--preset", "letor5"], "Unknown preset 'letor5'"),
        (["--run", "run", "--qrels", "qrels", "--top-k", "0"], "top_k is 0"),
        (["--run", "run", "--qrels", "qrels", "-c", "ties"], "must have the form name=value"),
        (["--run", "run", "--qrels", "qrels", "-c", "ties=luck"], "ties is 'luck'"),
        (["--run", "run", "--qrels", "qrels", "-c", "persistence=0.5"], "makes no difference to ndcg@10, map, mrr"),
        (["--run", "run", "--qrels", "qrels", "--per-query", "no/such/out.csv"], "does not exist"),
        (["--run", "run", "--qrels", "qrels", "--metrics", "log_likelihood"], "needs a model"),
    ],
)
def test_mistakes(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert call(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["other", "qrels", "run"]
