"""What a machine does not give: standard error, long names, whole files, a terminal that obeys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import luce
from luce.data.mapped import read_data, write_data
from luce.data.simulate import simulate
from luce.errors import ModelFormatError, OutputError
from luce.result import Sheet, for_terminal, seen_lines
from luce.storage import atomic_write, check_output

ESCAPE = "\x1b[31m\x1b]0;title\x07"


def run(*arguments: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a shell that can close its files."""
    command = [sys.executable, "-m", "luce", *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {more}', "sh", *command], capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def letor(tmp_path_factory) -> Path:
    data, path = simulate(queries=10, features=3, seed=0), tmp_path_factory.mktemp("machine") / "train.txt"
    lines = []
    for q, (a, b) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        for y, x in zip(data.y[a:b], data.X[a:b], strict=True):
            lines.append(f"{int(y)} qid:{q} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)))
    path.write_text("\n".join(lines) + "\n")
    return path


posix = pytest.mark.skipif(os.name != "posix", reason="a shell is needed to close files")


@posix
@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_files(letor, tmp_path, closed):
    """What is said goes nowhere, and above all not into the model, which would have taken its place."""
    out = tmp_path / "model.luce"
    assert run("train", str(letor), "--loss", "ranknet", "--out", str(out), more=closed).returncode == 0
    assert luce.load(out).n_features_in_ == 3
    assert run("info", str(tmp_path / "nothing.luce"), more=closed).returncode == 2


@posix
def test_names_that_are_too_long(letor, tmp_path):
    long = "x" * 300
    for arguments in (
        ["train", str(letor), "--out", str(tmp_path / f"{long}.luce")],
        ["train", str(tmp_path / f"{long}.txt"), "--out", str(tmp_path / "model.luce")],
        ["serve", f"{long}.luce"],
        ["report", long, "--out", str(tmp_path / "report.html")],
        ["info", long],
    ):
        done = run(*arguments)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert "shorter" in last or "at most 255" in last or "too long" in last


@posix
def test_the_longest_name_can_be_written(tmp_path):
    path = tmp_path / ("é" * 125 + ".luce")
    assert len(os.fsencode(path.name)) == 255
    with atomic_write(path, "w") as stream:
        stream.write("whole")
    assert path.read_text() == "whole"
    with pytest.raises(
        OutputError, match=r"^Cannot write x{40}\.\.\.: the name has 256 bytes; give one of at most 255\.$"
    ):
        check_output(tmp_path / ("x" * 256))


@posix
def test_a_terminal_is_told_no_escapes(letor, tmp_path):
    """Names of files, of features and of items come from others."""
    bad = tmp_path / f"a{ESCAPE}b.txt"
    bad.write_text("1 qid:1 1:x\n")
    for arguments in (["train", str(bad), "--out", str(tmp_path / "m.luce")], ["info", str(bad)], ["info", f"{bad}no"]):
        done = run(*arguments)
        assert done.returncode == 2
        assert "\x1b" not in done.stderr
        assert "\\x1b[31m" in done.stderr
    battles = tmp_path / "battles.csv"
    battles.write_text(f"winner,loser\na{ESCAPE},b\nb,a{ESCAPE}\na{ESCAPE},b\n")
    done = run("leaderboard", str(battles))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31m" in done.stdout


def test_titles_and_headings_are_shown_without_escapes(capsys):
    from rich.console import Console

    Console().print(for_terminal(Sheet(f"t{ESCAPE}", {f"h{ESCAPE}": [f"c{ESCAPE}"]})))
    assert "\x1b" not in capsys.readouterr().out
    assert seen_lines("a\x1b\nb") == "a\\x1b\nb"


CUT = """
import os, sys, luce
from luce.data import mapped
mapped.SMALL = int(sys.argv[2])
data = mapped.read_data(sys.argv[1])
os.truncate(sys.argv[1], 4096)
try:
    print("done", luce.Ranker(loss="ranknet", max_iter=2).fit(data).n_features_in_)
except luce.errors.ModelFormatError as error:
    print(error)
"""


@pytest.mark.parametrize(("small", "said"), [(1 << 30, "done 50"), (0, "was cut while it was open, to 4,096 of ")])
def test_a_data_file_that_is_cut_while_it_is_open(tmp_path, small, said):
    """A map of what is no longer there would end the process (SIGBUS): small ones are in memory, large ones say so."""
    path = tmp_path / "train.lucedata"
    write_data(simulate(queries=200, features=50, seed=0), path)
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(path), str(small)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert said in done.stdout
    with pytest.raises(ModelFormatError, match="is cut off"):
        read_data(path)
