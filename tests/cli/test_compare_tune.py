"""`luce compare`, `luce tune` and the lists of `luce info`, as a person calls them."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.experiments import read_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("collection")
    data = simulate(queries=60, features=6, seed=0)
    luce.write_letor(data.take(np.arange(36)), path / "train.txt")
    luce.write_letor(data.take(np.arange(36, 48)), path / "vali.txt")
    luce.write_letor(data.take(np.arange(48, 60)), path / "test.txt")
    luce.write_letor(data, path / "all.dat")
    return path


def test_compare_with_a_model_that_fails(call, folder, tmp_path):
    run = tmp_path / "run"
    models = ("--models", "listnet,adarank,pmop-fd", "--baseline", "listnet", "--jobs", 1)
    code, text, err = call("compare", folder, *models, "--out", run, "--tune-on", "dcg@5", "--metrics", "ndcg@5,map")
    assert code == 0
    assert "1 of 3 models failed" in err
    assert f"{folder.name}: listnet, dcg@5" in err  # plain lines where there is no terminal
    assert "failed: AdaRank needs a metric" in " ".join(text.split())
    assert text.count("Against ") == 2
    found = read_run(run)
    assert sorted(found.models) == ["listnet", "pmop-fd"]
    assert found.settings["data"] == str(folder)
    code, text, err = call("compare", folder, *models, "--out", run, "--tune-on", "dcg@5", "--metrics", "map", "--json")
    assert code == 0
    told = json.loads(text)
    assert {row["model"] for row in told["statistics"]} == set(found.models) - {told["leaderboard"][0]["model"]}
    assert {row["against"] for row in told["baseline"]} == {"listnet"}
    assert {failure["model"] for failure in told["failures"]} == {"adarank"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--models", "pmop-df"), "Did you mean 'pmop-fd'"),
        (("--models", "pmop-fd", "--baseline", "listnet"), "not among the models"),
        (("--models", "pmop-fd,pmop-fd"), "named twice"),
        (("--models", ","), "at least one model"),
        (("--models", "pmop-fd", "--metrics", "ndgc@5"), "Unknown metric"),
        (("--models", "pmop-fd", "--tune-on", "ndcg@0"), "cut-off"),
        (("--models", "pmop-fd", "-c", "ties=maybe"), "ties is 'maybe'"),
        (("--models", "pmop-fd", "-c", "persistence=0.5"), "persistence=0.5 makes no difference to"),
        (("--models", "adarank", "--tune-on", "dcg"), "No model could be fitted on all folds"),
    ],
)
def test_compare_refuses(call, folder, arguments, sentence):
    code, _, err = call("compare", folder, *arguments, "--quiet")
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err


def test_folds_that_share_queries_and_no_validation(call, folder, tmp_path):
    data = luce.read(folder / "all.dat")
    for name, first, last in (("Fold1", 40, 60), ("Fold2", 35, 55)):
        (tmp_path / name).mkdir()
        luce.write_letor(data.take(np.arange(first)), tmp_path / name / "train.txt")
        luce.write_letor(data.take(np.arange(first, last)), tmp_path / name / "test.txt")
    code, _, err = call("compare", tmp_path, "--models", "pmop-fd")
    assert code == 2
    assert "test query of both Fold1 and Fold2" in err
    code, _, err = call("compare", tmp_path / "Fold1", "--models", "pmop-fd", "--metrics", "map")
    assert code == 0
    assert "a fifth of the training queries is held out" in err


def test_another_run_in_the_folder(call, folder, tmp_path):
    arguments = ("compare", folder, "--models", "pmop-fd", "--metrics", "map", "--out", tmp_path, "--quiet")
    assert call(*arguments)[0] == 0
    code, _, err = call(*arguments, "--seed", 1)
    assert code == 2
    assert "holds a run that differs in seed" in err
    (tmp_path / "file").write_text("")
    code, _, err = call("compare", folder, "--models", "pmop-fd", "--out", tmp_path / "file")
    assert code == 2
    assert "it is a file" in err


def test_ctrl_c_keeps_what_is_done(call, folder, tmp_path):
    models = "pmop-fd,coordinate_ascent,lambdamart,mart,bt-ties,tm-ties"
    arguments = ["compare", folder / "all.dat", "--models", models, "--metrics", "map", "--out", tmp_path / "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "luce", *map(str, arguments), "--jobs", "1"], stderr=subprocess.PIPE, text=True
    )
    while len(list((tmp_path / "run" / "state").glob("*.luce"))) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"is kept in {tmp_path / 'run' / 'state'}: the same command goes on from there" in err
    assert "Traceback" not in err
    done = len(list((tmp_path / "run" / "state").glob("*.luce")))
    assert done >= 3
    assert not (tmp_path / "run" / "results.json").exists()
    arguments[3] = "pmop-fd"
    assert call(*arguments, "--quiet")[0] == 0
    assert read_run(tmp_path / "run").models == ["pmop-fd"]


def test_tune(call, folder, tmp_path):
    run = tmp_path / "run"
    arguments = ("tune", folder, "--model", "pairties-d", "--trials", 4, "--out", run)
    code, text, err = call(*arguments)
    assert code == 0
    command = text.strip().splitlines()[-1]
    assert command.startswith("luce train ")
    assert "setting 0" in err
    assert call(*shlex.split(command)[1:-1], tmp_path / "again.luce")[0] == 0
    test = luce.read(folder / "test.txt")
    best = luce.load(run / "models" / folder.name / "pairties-d.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "again.luce").predict(test), best.predict(test))
    code, text, err = call(*arguments, "--json")
    assert code == 0
    assert err == ""
    assert json.loads(text)["command"] == command
    held = ("--fix", "max_iter=7", "--fix", "loss.nu=2.5")
    code, text, _ = call("tune", folder, "--model", "pairties-d", "--trials", 3, *held, "--json")
    assert code == 0
    assert "--max-iter 7 --loss-setting nu=2.5" in json.loads(text)["command"]

    code, text, err = call(
        "tune", folder / "all.dat", "--model", "listnet", "--trials", 3, "--search", "halving", "--json"
    )
    assert code == 0
    assert "--hold-out 0.2" in json.loads(text)["command"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "pmop-df"), "Did you mean 'pmop-fd'"),
        (("--model", "borda-agg"), "only rankers can be tuned"),
        (("--model", "pmop-fd", "--search", "grid"), "random, halving"),
        (("--model", "pmop-fd", "--metric", "ndgc"), "Unknown metric"),
        (("--model", "pmop-fd", "-c", "ties=maybe"), "ties is 'maybe'"),
        (("--model", "pmop-fd", "-c", "persistence=0.5"), "persistence=0.5 makes no difference to"),
        (("--model", "pmop-fd", "--valid", "x.txt"), "leave --valid out"),
        (("--model", "pmop-fd", "--fix", "tree.leaves=3"), "does not take these parameters: tree__leaves"),
        (("--model", "pmop-fd", "--fix", "leaves=3"), "does not take these parameters: leaves"),
        (("--model", "pmop-trees", "--fix", "scorer.leaves=3"), "it takes num_leaves"),
        (("--model", "adarank", "--metric", "dcg", "--trials", 1), "No setting of adarank could be fitted"),
    ],
)
def test_tune_refuses(call, folder, arguments, sentence):
    code, _, err = call("tune", folder, *arguments, "--quiet")
    assert code == 2
    assert sentence in err


def test_hold_out(call, folder, tmp_path):
    arguments = ("train", folder / "all.dat", "--out", tmp_path / "m.luce", "--seed", 3)
    code, _, err = call(*arguments, "--hold-out", 0.25)
    assert code == 0
    assert "15 of the queries are held out" in err
    assert luce.load(tmp_path / "m.luce").history_["validation"]
    for share, sentence in ((0, "must be a number above 0 and below 1"), (1.5, "must be a number above 0 and below 1")):
        code, _, err = call(*arguments, "--hold-out", share)
        assert code == 2
        assert sentence in err
    code, _, err = call(*arguments, "--hold-out", 0.2, "--valid", folder / "vali.txt")
    assert code == 2
    assert "--hold-out and --valid were given" in err


@pytest.mark.parametrize("kind", ["models", "losses", "scorers", "metrics"])
def test_lists(call, kind):
    code, text, _ = call("info", f"--{kind}", "--json")
    assert code == 0
    names = {"models": luce.model_names, "losses": luce.losses.names, "scorers": luce.scorers.names}
    listed = set(json.loads(text)[kind])
    expected = set(names.get(kind, luce.metrics.names)())
    assert listed == {name for name in expected if not name.endswith("-agg")}
    code, text, _ = call("info", f"--{kind}")
    assert code == 0
    assert all(name in text for name in listed)
    assert call("info")[0] == call("info", "--models", "--losses")[0] == 2
