"""The harness of the benchmarks: records know the code that they measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The module of the command, with records in a folder of its own."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the module sets it where it is not set
    spec = importlib.util.spec_from_file_location("benchmark_run", BENCHMARKS / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    yield module
    sys.modules.pop("harness", None)


def test_a_record_older_than_its_code_is_marked(run, tmp_path, monkeypatch, capsys):
    run.write("trees", [run.Line("something", 1.0, peer="a peer", theirs=2.0)])
    path = tmp_path / "trees.json"
    record = json.loads(path.read_text())
    assert record["lines"][0]["ratio"] == 2.0
    assert record["versions"]["numpy"] == sys.modules["numpy"].__version__
    assert run.main(["--stale", "trees"]) == 0
    assert not json.loads(path.read_text())["stale"]
    path.write_text(json.dumps({**record, "digest": "of other code"}))
    assert run.main(["--stale", "trees", "auto"]) == 1
    assert json.loads(path.read_text())["stale"]
    assert "Older than the code: trees, auto (never run)." in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused(run, capsys):
    assert run.main(["nothing"]) == 2
    assert "Unknown benchmark ['nothing']" in capsys.readouterr().err


def test_both_sides_of_a_duel_run_as_often(run):
    harness, calls = sys.modules["harness"], []
    harness.duel(lambda: calls.append("ours"), lambda: calls.append("theirs"), repeats=3)
    assert calls == ["ours", "theirs"] * 4
