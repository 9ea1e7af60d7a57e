"""`luce convert`, `luce info` and `luce simulate data`, as a person calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import luce

GOOD = "1 qid:b 1:1 2:2\n0 qid:a 1:2\n2 qid:b 1:3\n"


def test_convert_to_every_format(call, tmp_path) -> None:
    (tmp_path / "a.txt").write_text(GOOD)
    for name in ("b.lucedata", "b.parquet", "b.txt", "b.txt.gz", "b.svm"):
        code, out, _ = call("convert", tmp_path / "a.txt", "--out", tmp_path / name, "--json")
        assert code == 0
        assert json.loads(out)["documents"] == 3
        np.testing.assert_array_equal(luce.read(tmp_path / name).X, [[1, 2], [3, 0], [2, 0]])
    code, _, _ = call("convert", tmp_path / "b.lucedata", "--out", tmp_path / "c.lucedata", "--quiet")
    assert code == 0
    assert luce.read(tmp_path / "c.lucedata").row_order.tolist() == [0, 2, 1]


def test_info_for_people_and_machines(call, tmp_path) -> None:
    (tmp_path / "a.txt").write_text(GOOD)
    code, out, _ = call("info", tmp_path / "a.txt")
    assert code == 0
    assert "one-document queries     1" in out
    code, out, _ = call("info", tmp_path / "a.txt", "--json")
    facts = json.loads(out)
    assert (facts["queries"], facts["labels"], facts["rows_regrouped"]) == (2, {"0": 1, "1": 1, "2": 1}, True)


def test_simulate_one_file_several_or_a_folder(call, tmp_path) -> None:
    assert call("simulate", "data", "--out", tmp_path / "a.lucedata", "--queries", "20", "--features", "5")[0] == 0
    assert luce.read(tmp_path / "a.lucedata").n_queries == 20
    code, out, _ = call(
        "simulate", "data", "--out", tmp_path / "t.txt", "--valid", tmp_path / "v.txt", "--queries", "20", "--json"
    )
    assert code == 0
    assert [file["queries"] for file in json.loads(out)["files"]] == [15, 5]
    assert call("simulate", "data", "--out", f"{tmp_path}/folder/", "--queries", "10")[0] == 0
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["test.txt", "train.txt", "vali.txt"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist"),
        ("", "empty"),
        ("\x00\x01" * 99, "binary"),
        ("1 qid:1 1:1\nx qid:1 1:1\n", "line 2: the label 'x' is not a number"),
        ("inf qid:1 1:1\n", "line 1: the label 'inf' is not finite"),
        ("1 1:1\n", "line 1: no `qid:`"),
        ("1 qid:1 0:1\n", "line 1: '0:1' has the index 0"),
        ("1 qid:1 2:1 2:1\n", "line 1: the feature of '2:1' occurs twice"),
        ("1 qid:1 2:nan\n", "line 1: the value in '2:nan' is NaN"),
    ],
)
@pytest.mark.parametrize("command", ["info", "convert"])
def test_bad_input_is_one_sentence_and_code_two(call, tmp_path, command, text, said) -> None:
    path, out = tmp_path / "bad.txt", tmp_path / "out.lucedata"
    if text is not None:
        path.write_text(text)
    code, printed, complaint = call(command, path, *(["--out", out, "--quiet"] if command == "convert" else []))
    assert code == 2
    assert printed == ""
    assert complaint.startswith("luce: ")
    assert said in complaint
    assert complaint.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} <= {"bad.txt"}


def test_nan_is_admitted_on_request(call, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:nan 2:NULL\n")
    code, out, _ = call("info", tmp_path / "a.txt", "--allow-nan", "--missing", "NULL", "--json")
    assert code == 0
    assert json.loads(out)["missing_values"] == 2


@pytest.mark.parametrize("name", ["absent/out.txt", "out.unknown", "full.lucedata", "full.txt", "full.parquet"])
def test_outputs_that_cannot_be_written(call, tmp_path, name) -> None:
    (tmp_path / "a.txt").write_text(GOOD * 3000)
    if name.startswith("full"):
        (tmp_path / name).symlink_to("/dev/full")
    for command in (["convert", tmp_path / "a.txt"], ["simulate", "data", "--queries", "50"]):
        code, _, complaint = call(*command, "--out", tmp_path / name, "--quiet")
        assert code == 2
        assert complaint.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", *([name] if name.startswith("full") else [])}


def test_bad_shares(call, tmp_path) -> None:
    for split in ("1,2", "a,b,c", "0.9,0.9,0.1"):
        code, _, complaint = call("simulate", "data", "--out", f"{tmp_path}/f/", "--split", split)
        assert code == 2
        assert "such as 0.6,0.2,0.2" in complaint
    assert call("simulate", "data", "--out", f"{tmp_path}/f/", "--queries", "0")[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["convert", "train", "info", "rerank"])
def test_help_imports_nothing_heavy(command) -> None:
    code = (
        f"import sys; sys.argv = ['luce', {command!r}, '--help']\n"
        "from luce.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'numpy', 'numba', 'pyarrow', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=300).returncode == 0


def test_versions_are_told(monkeypatch):
    from typer.testing import CliRunner

    from luce.cli.app import app

    monkeypatch.delenv("LUCE_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    result = CliRunner().invoke(app, ["info", "--versions", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert {"luce", "python", "numba", "kernels"} <= set(found)
    assert (found["threads"], found["threads_from"]) == (3, "OMP_NUM_THREADS")


@pytest.mark.parametrize(
    "words",
    [
        ["--un\x1b[31mknown"],
        ["in\x1b[31mfo"],
        ["info", "--un\x1b[31mknown"],
        ["train", "a", "-o", "b", "--\x1b]0;title\x07"],
        ["simulate", "no\x1b[2Jne"],
        ["simulate", "data", "--\x9b31m"],
        ["info", "no\x1b[31mfile"],
    ],
)
def test_what_was_typed_cannot_command_the_terminal(words):
    run = subprocess.run(
        [sys.executable, "-m", "luce", *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 2
    assert re.search(r"\\x(1b|9b)", run.stderr), run.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", run.stdout + run.stderr)
