"""`auto` and folds from the command line: train, info, predict, compare, and going on after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import luce
from luce.auto import plan
from luce.data.simulate import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("auto")
    data = simulate(queries=60, features=5, seed=2)
    for name, rows in {"train": range(40), "vali": range(40, 50), "test": range(50, 60)}.items():
        luce.write_letor(data.take(np.array(rows)), path / f"{name}.txt")
    return path


@pytest.fixture(autouse=True)
def long_steps(monkeypatch):
    monkeypatch.setattr(plan, "_FINE", 0.3)


def test_train_info_and_predict(call, folder, tmp_path):
    out = tmp_path / "auto.luce"
    options = ("--model", "auto", "--folds", 3, "--trainer-setting", "members=luce-linear,regression")
    code, text, _ = call("train", folder / "train.txt", *options, "--out", out, "--json")
    assert code == 0
    found = json.loads(text)["blend"]
    assert found["folds"] == 3
    assert {row["member"] for row in found["members"]} == {"luce-linear", "regression"}
    code, text, _ = call("info", out)
    assert code == 0
    for word in ("to be expected on queries like these", "luce-linear", "squared error of the grade", "plan"):
        assert word in text
    assert call("predict", folder / "test.txt", "--model", out, "--out", tmp_path / "scores.txt")[0] == 0
    assert call("evaluate", folder / "test.txt", "--model", out)[0] == 0


def test_a_plan_is_carried_out_again_and_validation_queries_are_named(call, folder, tmp_path):
    out, plan = tmp_path / "auto.luce", ("--trainer-setting", "plan=luce-linear,regression#2", "--folds", 3)
    first = (folder / "train.txt", "--model", "auto", *plan, "--valid", folder / "vali.txt", "--out", out)
    code, text, said = call("train", *first)
    assert code == 0, said
    assert "50 queries, 3 folds" in text
    assert "learned from as well" in said
    assert luce.load(out).history_["blend"]["plan"] == ["luce-linear", "regression#2"]
    code, text, said = call("train", *first, "--trainer-setting", "use_valid=yardstick")
    assert "40 queries, 3 folds" in text
    assert "a yardstick, nothing was learned from them: ndcg@10 0." in said
    code, _, said = call("train", *first[:-4], "--hold-out", 0.2, "--out", out)
    assert "8 of the queries are held out as validation queries" in said


def test_compare_and_report(call, folder, tmp_path):
    code, text, err = call("compare", folder, "--models", "auto,mart", "--out", tmp_path / "results", "--json")
    assert code == 0, err
    assert {row["model"] for row in json.loads(text)["leaderboard"]} == {"auto", "mart"}
    assert call("report", tmp_path / "results", "--out", tmp_path / "report.html")[0] == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "auto", "--budget", "soon"), "'fast', 'best', or seconds"),
        (("--model", "auto", "--budget", "-3"), "'fast', 'best', or seconds"),
        (("--model", "auto", "--trainer-setting", "members=none-such"), "none-such"),
        (("--model", "mart", "--budget", "fast"), "budget"),
        (("--model", "mart", "--folds", 1), "folds"),
        (("--model", "mart", "--folds", 99), "99 folds need as many queries"),
        (("--model", "mart", "--folds", 3, "--hold-out", 0.2), "--folds and --hold-out were given"),
    ],
)
def test_what_cannot_be(call, folder, tmp_path, options, sentence):
    code, _, err = call("train", folder / "train.txt", *options, "--out", tmp_path / "m.luce")
    assert code == 2
    assert sentence in err


@pytest.mark.filterwarnings("ignore:.*the most that were allowed")
def test_folds_of_a_single_system(call, folder, tmp_path):
    out = tmp_path / "mart.luce"
    code, text, _ = call("train", folder / "train.txt", "--model", "mart", "--folds", 3, "--max-iter", 10, "--out", out)
    assert code == 0
    assert "mean of 3 folds" in text
    assert "cross-fitted" in call("info", out)[1]


@pytest.mark.slow
def test_it_goes_on_after_kill_9(folder, tmp_path):
    def command(out, *more):
        options = ["--model", "auto", "--trainer-setting", "members=luce-linear,regression,luce", "--out", str(out)]
        return [sys.executable, "-m", "luce", "train", str(folder / "train.txt"), *options, "--quiet", *more]

    kept = tmp_path / "kept"
    with subprocess.Popen(command(tmp_path / "a.luce", "--checkpoint", str(kept))) as process:
        while process.poll() is None and not list(kept.glob("*/*.luce")):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    assert not (tmp_path / "a.luce").exists()
    subprocess.run(command(tmp_path / "a.luce", "--checkpoint", str(kept)), check=True, timeout=300)
    subprocess.run(command(tmp_path / "b.luce"), check=True, timeout=300)
    test = luce.read(folder / "test.txt")
    found = [luce.load(tmp_path / name).predict(test) for name in ("a.luce", "b.luce")]
    np.testing.assert_array_equal(*found)
