"""`luce train --scorer second_order --scorer-setting ...`, as a person calls it."""

from __future__ import annotations

import json
import sys

import pytest

import luce
from luce.cli import app as application
from luce.data.simulate import simulate
from luce.data.writers import write


@pytest.fixture
def train(monkeypatch, capsys, tmp_path):
    write(simulate(queries=30, features=6, seed=0), tmp_path / "data.txt")

    def call(*arguments: str) -> tuple[int, str, str]:
        command = ["luce", "train", str(tmp_path / "data.txt"), "--out", str(tmp_path / "model.luce"), *arguments]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            application.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def test_settings_reach_the_scorer(train, tmp_path):
    code, out, _ = train("--scorer", "second-order", "--scorer-setting", "count=7", "--json")
    assert code == 0
    assert json.loads(out)["products"] == 7
    assert len(luce.load(tmp_path / "model.luce").scorer_.table()) == 7


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("threshold=0.99", "the largest absolute correlation is 0."),
        ("threshold=7", "from 0 to 1"),
        ("count=few", "whole number"),
        ("limit=3", "does not take"),
        ("count", "name=value"),
    ],
)
def test_bad_settings_are_one_sentence(train, tmp_path, setting, message):
    code, _, err = train("--scorer", "second_order", "--scorer-setting", setting, "--quiet")
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "model.luce").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scorer", "trees", "--scorer-setting", "leaves=3"], "leaves; it takes num_leaves, learning_rate,"),
        (
            ["--scorer", "trees", "--scorer-setting", "learning_rate=fast"],
            "learning_rate is 'fast'; it must be a number above 0",
        ),
        (["--loss", "ndcg_mix", "--loss-setting", "alpha=all"], "alpha is 'all'; it must hold 3 weights"),
        (["--loss", "ndcg_square", "--loss-setting", "beta=1"], "beta; it takes gain, discount"),
    ],
)
def test_parameters_that_are_not_taken_are_named_with_those_that_are(train, arguments, message):
    code, _, err = train(*arguments, "--quiet")
    assert code == 2
    assert message in " ".join(err.split())
    assert "__init__" not in err


def test_base_rankers_by_name(train, tmp_path):
    code, out, _ = train("--model", "adarank-map", "--trainer-setting", "both_directions=false", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["loss"], told["scorer"]) == (None, "linear")
    loaded = luce.load(tmp_path / "model.luce")
    trainer = loaded.parts_.trainer
    assert (trainer.name, trainer.metric, trainer.both_directions) == ("adarank", "map", False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "rankbost"), "Did you mean 'rankboost'?"),
        (("--model", "rankboost", "--trainer-setting", "thresholds=999"), "from 1 to 254"),
        (("--model", "adarank", "--metric", "dcg"), "between -1 and 1"),
        (("--model", "coordinate_ascent", "--checkpoint", "folder"), "no checkpoints"),
        (("--model", "linear-regression", "--l2", "-1"), "l2 is -1.0"),
    ],
)
def test_bad_base_rankers(train, tmp_path, arguments, message):
    code, _, err = train(*arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "model.luce").exists()
