"""`luce train`, `predict`, `info`, `compare` and `demo`, as a person calls them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import luce
from luce.cli.demo import _MODELS
from luce.data.simulate import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("collection")
    data = simulate(queries=60, features=6, seed=0)
    luce.write_letor(data.take(np.arange(40)), path / "train.txt")
    luce.write_letor(data.take(np.arange(40, 50)), path / "vali.txt")
    luce.write_letor(data.take(np.arange(50, 60)), path / "test.txt")
    luce.write_letor(simulate(queries=5, features=4, seed=0), path / "narrow.txt")
    luce.write_letor(simulate(queries=5, features=9, seed=0), path / "wide.txt")
    return path


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "model.luce"
    luce.Ranker(l2=0.1).fit(luce.read(folder / "train.txt")).save(path)
    return path


def test_train_predict_evaluate(call, folder, tmp_path):
    out = tmp_path / "m.luce"
    code, text, err = call(
        "train", folder / "train.txt", "--loss", "pmop", "--valid", folder / "vali.txt", "--out", out, "--json"
    )
    assert code == 0, err
    told = json.loads(text)
    assert told["loss"] == "pmop"
    assert told["iterations"] > 1
    assert err == ""

    test = luce.read(folder / "test.txt")
    expected = luce.load(out).predict(test)
    code, text, _ = call("predict", folder / "test.txt", "--model", out)
    assert code == 0
    np.testing.assert_array_equal(np.array(text.split(), dtype=float), expected)

    code, text, _ = call("evaluate", folder / "test.txt", "--model", out, "--metrics", "ndcg@10", "--json")
    assert code == 0
    assert json.loads(text)["means"]["ndcg@10"] == pytest.approx(
        luce.evaluate(expected, test, ["ndcg@10"]).means["ndcg@10"]
    )


def test_scores_come_in_the_order_of_the_file(call, folder, model, tmp_path):
    """Rows of queries shuffled through each other give the same score, line by line."""
    lines = (folder / "test.txt").read_text().splitlines()
    order = np.random.default_rng(0).permutation(len(lines))
    (tmp_path / "shuffled.txt").write_text("\n".join(lines[i] for i in order) + "\n")
    call("predict", folder / "test.txt", "--model", model, "--out", tmp_path / "a")
    call("predict", tmp_path / "shuffled.txt", "--model", model, "--out", tmp_path / "b")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "a")[order], np.loadtxt(tmp_path / "b"))


@pytest.mark.parametrize("format", ["scores", "trec", "csv"])
def test_prediction_formats(call, folder, model, tmp_path, format):
    code, _, _ = call("predict", folder / "test.txt", "--model", model, "--format", format, "--out", tmp_path / "p")
    assert code == 0
    rows = luce.read(folder / "test.txt").n_rows
    assert len((tmp_path / "p").read_text().splitlines()) == rows + (format == "csv")


def test_loss_settings_and_systems(call, folder, tmp_path):
    code, text, _ = call(
        *(
            "train",
            folder / "train.txt",
            "--loss",
            "listmle",
            "--loss-setting",
            "ties=random",
            "--loss-setting",
            "seed=3",
        ),
        *("--out", tmp_path / "m.luce", "--query-norm", "zscore", "--max-iter", 1),
    )
    assert code == 0
    assert "not converged" in text
    loaded = luce.load(tmp_path / "m.luce")
    assert repr(loaded.loss_) == "listmle(ties='random', seed=3)"
    assert loaded.query_norm == "zscore"
    assert call("train", folder / "train.txt", "--model", "listnet", "--out", tmp_path / "n.luce")[0] == 0
    code, text, _ = call("info", tmp_path / "m.luce", "--json")
    assert code == 0
    assert json.loads(text)["scorer"] == "linear"


def test_train_on_clicks(call, folder, tmp_path):
    clicks = ("simulate", "clicks", folder / "train.txt", "--out", tmp_path / "log.csv", "--quiet")
    assert call(*clicks)[0] == 0
    arguments = ("train", folder / "train.txt", "--loss", "ranknet", "--clicks", tmp_path / "log.csv")
    code, _, err = call(*arguments, "--out", tmp_path / "m.luce", "--l2", "0.1")
    assert code == 0, err
    assert "preferences" in err
    counts = tmp_path / "counts.lucedata"
    code, text, err = call("clicks", tmp_path / "log.csv", "--data", folder / "train.txt", "--out", counts, "--json")
    assert code == 0, err
    assert json.loads(text)["positions"][0]["theta"] == 1.0
    guard = ("train", folder / "train.txt", "--clicks", counts, "--ignore-grades", "--guard")
    code, _, err = call(*guard, "--out", tmp_path / "g.luce")
    assert code == 0, err
    assert "Taken: " in err
    assert "from naive" in err
    arguments = ("train", folder / "train.txt", "--clicks", counts, "--ignore-grades", "--scorer", "trees")
    code, text, err = call(*arguments, "--max-iter", "5", "--out", tmp_path / "t.luce", "--json")
    assert code == 0, err
    assert json.loads(text)["loss"] == "click_choice"


def test_compare(call, folder, tmp_path):
    code, text, err = call("compare", folder, "--models", "pmop-fd,listnet", "--out", tmp_path / "run", "--quiet")
    assert code == 0, err
    assert "pmop-fd" in text
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "leaderboard.csv",
        "results.json",
        "rows.parquet",
        "scores.parquet",
        "curves.parquet",
        "models",
        "state",
    }


def test_demo_of_too_few_queries(call, tmp_path):
    code, _, error = call("demo", "--out", tmp_path / "demo", "--queries", 9)
    assert code == 2
    assert "--queries is 9; it must be at least 10" in error
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_demo(call, tmp_path):
    code, text, _ = call("demo", "--out", tmp_path / "demo", "--queries", 60, "--features", 6, "--json")
    assert code == 0
    board = json.loads(text)["leaderboard"]
    assert {row["model"] for row in board} >= {"pmop-fd", "ranknet", "listnet"}
    assert luce.load(tmp_path / "demo" / "model.luce").n_features_in_ == 6
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Why" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_demo_without_auto(call, tmp_path):
    code, text, _ = call("demo", "--no-auto", "--out", tmp_path, "--queries", 30, "--features", 4, "--json")
    assert code == 0
    assert sorted(row["model"] for row in json.loads(text)["leaderboard"]) == sorted(_MODELS)


BAD = {
    "missing file": (["train", "{f}/nothing.txt", "--out", "{t}/m.luce"], "nothing.txt"),
    "unknown loss": (["train", "{f}/train.txt", "--loss", "pmap", "--out", "{t}/m.luce"], "Did you mean 'pmop'"),
    "loss and system": (
        ["train", "{f}/train.txt", "--loss", "pmop", "--model", "listnet", "--out", "{t}/m"],
        "not both",
    ),
    "unknown system": (["train", "{f}/train.txt", "--model", "lambda", "--out", "{t}/m.luce"], "Available"),
    "wrong metric": (["train", "{f}/train.txt", "--metric", "ndgc@10", "--out", "{t}/m.luce"], "Did you mean 'ndcg'"),
    "an aggregator": (["train", "{f}/train.txt", "--model", "cps-agg", "--out", "{t}/m.luce"], "only rankers"),
    "two kinds": (["train", "{f}/train.txt", "--clicks", "c", "--orders", "o", "--out", "{t}/m.luce"], "one of them"),
    "place that takes no files": (["train", "{f}/train.txt", "--out", "/proc/x.luce"], "Cannot write"),
    "bad penalty": (["train", "{f}/train.txt", "--l2", "-1", "--out", "{t}/m.luce"], "l2"),
    "bad setting": (["train", "{f}/train.txt", "--loss-setting", "x", "--out", "{t}/m.luce"], "name=value"),
    "loss without that setting": (["train", "{f}/train.txt", "--loss-setting", "x=1", "--out", "{t}/m"], "x"),
    "no folder": (["train", "{f}/train.txt", "--out", "{t}/no/m.luce"], "does not exist"),
    "no validation data": (["train", "{f}/none.txt", "--valid", "{t}/v.txt", "--out", "{t}/m"], "v.txt does not exist"),
    "no log": (["train", "{f}/train.txt", "--ignore-grades", "--out", "{t}/m"], "--ignore-grades goes with --clicks"),
    "guard of grades": (
        ["train", "{f}/train.txt", "--clicks", "{f}/train.txt", "--guard", "--out", "{t}/m"],
        "--guard is for clicks alone",
    ),
    "no clicks": (["train", "{f}/none.txt", "--clicks", "{t}/c.csv", "--out", "{t}/m"], "c.csv does not exist"),
    "no share": (["train", "{f}/none.txt", "--hold-out", "1", "--out", "{t}/m"], "above 0 and below 1"),
    "no base": (["train", "{f}/none.txt", "--scorer", "trees", "--base", "{t}/b", "--out", "{t}/m"], "path of a model"),
    "disk full": (["train", "{f}/train.txt", "--out", "/dev/full"], "disk is full"),
    "no model": (["predict", "{f}/test.txt", "--model", "{t}/m.luce"], "does not exist"),
    "not a model": (["predict", "{f}/test.txt", "--model", "{f}/test.txt"], "test.txt"),
    "wrong format": (["predict", "{f}/test.txt", "--model", "{m}", "--format", "xml"], "Available: csv, scores, trec"),
    "too few features": (["predict", "{f}/narrow.txt", "--model", "{m}"], "4 features, and 6 are expected"),
    "too many features": (["predict", "{f}/wide.txt", "--model", "{m}"], "9 features, and 6 are expected"),
    "evaluate other features": (["evaluate", "{f}/wide.txt", "--model", "{m}"], "6 are expected"),
    "evaluate wrong metric": (["evaluate", "{f}/test.txt", "--model", "{m}", "--metrics", "ndgc"], "ndcg"),
    "predictions to a full disk": (["predict", "{f}/test.txt", "--model", "{m}", "--out", "/dev/full"], "disk is full"),
    "compare nothing": (["compare", "{t}/nothing", "--models", "pmop-fd"], "does not exist"),
    "compare unknown": (["compare", "{f}", "--models", "pmop-df"], "Did you mean 'pmop-fd'"),
}


@pytest.mark.parametrize(("arguments", "expected"), BAD.values(), ids=BAD)
def test_bad_input(call, folder, model, tmp_path, arguments, expected):
    code, _, err = call(*[a.format(f=folder, t=tmp_path, m=model) for a in arguments])
    assert code == 2
    complaint = [line for line in err.splitlines() if line.startswith("luce: ")]
    assert len(complaint) == 1
    assert expected in complaint[0]
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_help_is_light():
    """Neither `luce --help` nor `import luce` imports anything heavy."""
    code = (
        "import sys, luce, luce.cli.app\n"
        "heavy = {'numpy', 'scipy', 'numba', 'sklearn', 'lightgbm', 'pyarrow', 'narwhals', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout.strip() == "[]"


def test_trees_are_trained_updated_and_stand_on_a_base(call, folder, tmp_path):
    first, second, third = (tmp_path / name for name in ("a.luce", "b.luce", "c.luce"))
    trees = ("--scorer", "trees", "--scorer-setting", "learning_rate=0.05", "--max-iter", "4")
    train, more = folder / "train.txt", folder / "vali.txt"
    assert call("train", train, *trees, "--out", first)[0] == 0
    assert call("train", more, "--update", first, "--max-iter", "3", "--out", second)[0] == 0
    assert luce.load(second).scorer_.forest.n_trees == 7
    assert luce.load(second).parts_.scorer.learning_rate == 0.05
    assert call("train", more, *trees, "--base", second, "--out", third)[0] == 0
    assert call("train", more, "--update", third, "--max-iter", "2", "--out", third)[0] == 0
    base = luce.load(third).base_.ranker.predict(luce.read(more))
    np.testing.assert_array_equal(base, luce.load(second).predict(luce.read(more)))
    for wrong in (("--update", first, "--loss", "ranknet"), ("--update", first, "--base", second)):
        code, _, err = call("train", more, *wrong, "--out", third)
        assert code == 2
        assert "--update" in err
    assert call("train", more, "--base", second, "--out", third)[0] == 2
    assert call("train", folder / "wide.txt", "--update", first, "--out", third)[0] == 2
