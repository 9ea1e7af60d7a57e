"""`luce tune --surrogate`: weights, surface and models on disk, taken up again, and what it refuses."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("collection")
    data = simulate(queries=90, features=4, seed=5)
    luce.write_letor(data.take(np.arange(60)), path / "train.txt")
    luce.write_letor(data.take(np.arange(60, 90)), path / "vali.txt")
    return path


def search(call, folder, *more):
    return call("tune", folder / "train.txt", "--valid", folder / "vali.txt", "--surrogate", "--trials", 6, *more)


def test_everything_is_written_and_taken_up_again(call, folder, tmp_path):
    code, first, _ = search(call, folder, "--out", tmp_path / "out", "--json")
    assert code == 0
    shown = json.loads(first)["train"]
    record = json.loads((tmp_path / "out" / "results.json").read_text())["parts"]["train"]
    assert record["alpha"] == shown["alpha"]
    assert record["surface"] == shown["surface"]
    assert len(record["surface"]) == 6
    with open(tmp_path / "out" / "surface.csv") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["part", "cross_entropy", "square", "qnorm", "value", "iterations", "converged"]
    assert len(rows) == 7
    model = luce.load(tmp_path / "out" / record["model"])
    valid = luce.read_letor(folder / "vali.txt", n_features=4)
    assert luce.evaluate(model, valid, ["ndcg@10"]).means["ndcg@10"] == pytest.approx(record["value"], abs=1e-6)
    _, again, _ = search(call, folder, "--out", tmp_path / "out", "--json")
    assert json.loads(again) == json.loads(first)


def test_a_table_for_people(call, folder):
    code, shown, _ = search(call, folder, "--fix", "max_iter=300", "--fix", "scorer=linear", "--fix", "loss.beta=0.1")
    assert code == 0
    assert "The best of 6 visited" in shown
    assert "rounds" in shown


def test_a_grid(call, folder):
    code, shown, _ = search(call, folder, "--fix", "loss.search=grid", "--fix", "loss.fits=stopped", "--json")
    assert code == 0
    assert [visit["alpha"] for visit in json.loads(shown)["train"]["surface"]][:3] == [
        [0, 0, 1],
        [0, 1, 0],
        [100, 0, 0],
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model", "pmop-fd"], "one of the two"),
        (["--preset", "letor4"], "leave --preset"),
        (["--metric", "ndgc@10"], "Unknown metric"),
        (["--fix", "max_itr=3"], "--fix max_itr"),
    ],
)
def test_what_is_refused(call, folder, more, message):
    code, _, complaint = search(call, folder, *more)
    assert code == 2
    assert message in complaint


def test_neither_model_nor_surrogate(call, folder):
    code, _, complaint = call("tune", folder / "train.txt")
    assert code == 2
    assert "--surrogate" in complaint
