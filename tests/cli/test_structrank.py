"""StructRank and order graphs on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import LuceWarning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Graded data, the same without grades, and edge lists over one query."""
    path = tmp_path_factory.mktemp("structrank")
    data = simulate(queries=8, features=3, seed=1)
    for name, labels in (("graded.txt", data.y), ("flat.txt", np.zeros(data.n_rows))):
        lines = []
        for row in range(data.n_rows):
            features = " ".join(f"{k + 1}:{value:.5f}" for k, value in enumerate(data.X[row]))
            lines.append(f"{int(labels[row])} qid:{data.qid[row]} {features} # docid = r{row}")
        (path / name).write_text("\n".join(lines) + "\n")
    query = data.query_ids[0]
    chain, circle = ((0, 1), (1, 2)), ((0, 1), (1, 2), (2, 0))
    for name, edges in (("chain.csv", chain), ("circle.csv", circle)):
        rows = "".join(f"{query},r{a},r{b}\n" for a, b in edges)
        (path / name).write_text("query,better,worse\n" + rows)
    return path


@pytest.mark.parametrize("model", ["structrank", "structrank-disconnected", "structrank-random"])
def test_systems_train_and_predict(call, folder, tmp_path, model):
    out = tmp_path / "model.luce"
    settings = ["--trainer-setting", "starts=1", "--trainer-setting", "radius=5"]
    code, _, error = call("train", folder / "graded.txt", "--model", model, "--out", out, *settings)
    assert code == 0, error
    loaded = luce.load(out)
    assert loaded.scorer_.a.sum() + loaded.loss_.parameters.sum() <= 5 + 1e-9
    assert call("predict", folder / "graded.txt", "--model", out)[0] == 0


def test_edge_lists_train_and_say_what_was_skipped(call, folder, tmp_path):
    out = tmp_path / "model.luce"
    settings = [
        "--loss-setting",
        "closure=true",
        "--loss-setting",
        "acyclic=true",
        "--comparisons",
        folder / "chain.csv",
    ]
    code, _, error = call("train", folder / "flat.txt", "--loss", "cdn", "--out", out, *settings)
    assert code == 0, error
    assert "7 of 8 queries have no preference and were skipped" in error
    assert luce.load(out).loss_.closure


def test_grades_can_be_ignored(call, folder, tmp_path):
    """Preferences alone teach the same from a file with grades as from one without."""
    shared = ("--loss", "bradley_terry", "--comparisons", folder / "chain.csv")
    graded = ("train", folder / "graded.txt", *shared, "--out")
    for arguments in (
        ("train", folder / "flat.txt", *shared, "--out", tmp_path / "flat.luce"),
        (*graded, tmp_path / "ignored.luce", "--ignore-grades"),
        (*graded, tmp_path / "both.luce"),
    ):
        code, _, error = call(*arguments)
        assert code == 0, error
    data = luce.read(folder / "flat.txt")
    flat, ignored, both = (luce.load(tmp_path / f"{name}.luce").predict(data) for name in ("flat", "ignored", "both"))
    np.testing.assert_array_equal(ignored, flat)
    assert not np.allclose(both, flat)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ignore-grades"], "--ignore-grades goes with --clicks, --comparisons or --orders"),
        (["--comparisons", "x.csv", "--guard"], "--guard goes with --clicks"),
        (["--model", "structrank", "--trainer-setting", "ball=2"], "it takes l2, early_stopping, radius"),
        (["--model", "structrank", "--trainer-setting", "radius=-1"], "radius is -1"),
        (["--model", "structrank", "--loss-setting", "topology=ring"], "it must be one of full"),
        (["--loss", "cdn", "--loss-setting", "w1=-1"], "at least 0"),
        (["--loss", "cdn", "--trainer-setting", "radius=2"], "'lbfgs' does not take these parameters: radius"),
    ],
)
def test_bad_settings_end_with_one_sentence(call, folder, tmp_path, arguments, says):
    assert_refused(call("train", folder / "graded.txt", "--out", tmp_path / "x.luce", *arguments), says)


@pytest.mark.filterwarnings("ignore:Preferences run in a circle:luce.errors.LuceWarning")
def test_circles_are_refused_and_grades_may_be_missing(call, folder, tmp_path):
    shared = ["train", folder / "flat.txt", "--out", tmp_path / "x.luce", "--comparisons"]
    circle = call(*shared, folder / "circle.csv", "--loss", "cdn", "--loss-setting", "acyclic=true")
    query = luce.read(folder / "flat.txt").query_ids[0]
    assert_refused(circle, f"Query '{query}': the order graph runs in a circle through documents 'r0', 'r1', 'r2' (")
    # References from the pairs alone: of the other queries, which must have some.
    with pytest.warns(LuceWarning, match="No step was taken"):
        call(*shared, folder / "chain.csv", "--model", "structrank")
    data = luce.read(folder / "graded.txt")
    rows = (f"{q},r{a},r{a + 1}\n" for q, a in zip(data.query_ids[:4], data.offsets[:4], strict=True))
    (tmp_path / "chains.csv").write_text("query,better,worse\n" + "".join(rows))
    code, told, error = call(*shared, tmp_path / "chains.csv", "--model", "structrank", "--json")
    assert code == 0, error
    assert json.loads(told)["iterations"] > 0


def assert_refused(result, says) -> None:
    code, _, error = result
    assert code == 2
    assert says in error.splitlines()[-1]
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("trainer", "heard", "refused"),
    [([], "max-iter", "max-epochs"), (["--trainer", "projected"], "max-epochs", "max-iter")],
)
def test_the_length_of_the_training_can_be_limited(call, folder, tmp_path, trainer, heard, refused):
    shared = ("train", folder / "graded.txt", "--model", "structrank", "--out", tmp_path / "model.luce", "--json")
    code, told, error = call(*shared, *trainer, f"--{heard}", 2)
    assert code == 0, error
    assert json.loads(told)["iterations"] == 2
    setting = refused.replace("-", "_")
    assert_refused(call(*shared, *trainer, f"--{refused}", 2), f"{setting} is a setting of no part of this ranker")
