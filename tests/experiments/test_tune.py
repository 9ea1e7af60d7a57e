"""Searches: drawn from the model's space, the same under a seed, resumable, and reproduced by a command line."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pyarrow.parquet as pq
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceError, SettingError
from luce.experiments import spaces
from luce.experiments.folds import find_splits
from luce.experiments.search import rungs, train_command, tune, write_tuning
from luce.experiments.spaces import Choice, Range, draw, space_of
from luce.spec import tuned
from luce.systems import model as complete
from luce.systems import ranker_names, settings_grid


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("collection")
    data = simulate(queries=120, features=6, seed=5)
    luce.write_letor(data.take(np.arange(90)), path / "train.txt")
    luce.write_letor(data.take(np.arange(90, 120)), path / "vali.txt")
    luce.write_letor(data.take(np.arange(90)), path / "alone.dat")
    return path


@pytest.mark.parametrize("name", ranker_names())
def test_every_setting_that_a_space_draws_is_accepted(name):
    space = space_of(name)
    assert space
    for number in range(8):
        drawn = draw(space, seed=1, number=number)
        made = complete(name, **drawn).get_params()
        heard = {key for key, value in drawn.items() if value in (made.get(key), made.get(f"trainer__{key}"))}
        assert heard == set(drawn)


@pytest.mark.parametrize("name", ["plackett-luce", "ranknet", "pairties-d", "pmop-exact", "rank-regress", "hom-oo"])
def test_linear_systems_choose_from_the_same_penalties(name):
    assert settings_grid(name) == settings_grid("pmop-fd")
    offered = [setting["l2"] for setting in settings_grid(name)]
    assert space_of(name)["l2"].high == offered[-1] == 10_000
    assert len(settings_grid("pmop-gibbs")) == len(offered)
    assert settings_grid("plackett-luce-trees") == settings_grid("pmop-trees")


def test_tables_name_parts_that_exist():
    found = {name: tuned(luce.scorers.get(name)) for name in luce.scorers.names()}
    assert {name for name, own in found.items() if own} >= {"trees", "mlp", "second_order", "single_stump"}
    assert set(spaces.LOSSES) <= set(luce.losses.names())


def test_draws():
    rng = np.random.default_rng(0)
    values = np.array([Range(1e-4, 1.0).draw(rng) for _ in range(4000)])
    assert values.min() >= 1e-4
    assert values.max() <= 1.0
    # Log-uniform: each decade has a quarter.
    assert np.histogram(np.log10(values), 4, (-4, 0))[0] == pytest.approx(1000, abs=5 * np.sqrt(750))
    wholes = [Range(2, 5, log=False, whole=True).draw(rng) for _ in range(200)]
    assert set(wholes) == {2, 3, 4, 5}
    assert {type(value) for value in wholes} == {int}
    learned = [Range(1.0, 2.0, learned=True).draw(rng) for _ in range(200)]
    assert 60 < learned.count(None) < 140
    assert {Choice(("a", "b")).draw(rng) for _ in range(50)} == {"a", "b"}
    space = {"l2": Range(1e-4, 1.0), "loss__k": Range(1, 9, whole=True)}
    assert draw(space, 0, 3) == draw(space, 0, 3) != draw(space, 1, 3)
    assert draw(space, 0, 3).keys() == {"l2", "loss__k"}


def test_rungs():
    assert rungs(1, 3, 1000) == [(1, 1.0)]
    assert rungs(10, 2, 10**6) == [(10, 0.125), (5, 0.25), (3, 0.5), (2, 1.0)]
    assert rungs(100, 3, 20) == [(100, 1.0)]  # too few queries to take parts of


def test_random_search(folder, tmp_path):
    folds = find_splits(folder)
    result = tune(folds, "pmop-fd", trials=6, seed=2, out=tmp_path)
    assert [a.number for a in result.attempts] == list(range(6))
    assert result.attempts[0].settings == {}
    assert result.best.validation == max(a.validation for a in result.attempts)
    again = tune(folds, "pmop-fd", trials=6, seed=2)
    assert [(a.settings, a.validation) for a in again.attempts] == [(a.settings, a.validation) for a in result.attempts]
    # More trials contain fewer, and those that are done are not done again.
    kept = []
    more = tune(
        folds,
        "pmop-fd",
        trials=8,
        seed=2,
        out=tmp_path,
        watch=lambda tally, name, *_: kept.append(tally.models[name].kept),
    )
    assert [a.settings for a in more.attempts[:6]] == [a.settings for a in result.attempts]
    assert kept[-1] == 6
    with pytest.raises(SettingError, match="differs in model"):
        tune(folds, "listnet", trials=2, seed=2, out=tmp_path)


def test_distances_are_minimised(folder):
    result = tune(find_splits(folder), "pmop-fd", trials=4, metric="spearman_footrule")
    assert result.best.validation == min(a.validation for a in result.attempts)


def test_halving(folder, tmp_path):
    result = tune(find_splits(folder), "pmop-fd", trials=9, search="halving", eta=3, seed=1, out=tmp_path)
    counts = [sum(a.rung == rung for a in result.attempts) for rung in range(2)]
    assert counts == [9, 3]
    first, last = ([a for a in result.attempts if a.rung == rung] for rung in range(2))
    assert {a.share for a in first} == {1 / 3}
    assert {a.share for a in last} == {1.0}
    ahead = sorted(first, key=lambda a: (-a.validation, a.number))[:3]
    assert {a.number for a in last} == {a.number for a in ahead}
    assert result.best == max(last, key=lambda a: (a.validation, -a.number))
    # What went on was fitted on all training queries: the model is that of a plain fit.
    train, valid, _ = find_splits(folder)[0].load()
    plain = complete("pmop-fd", random_state=1, **result.best.settings).fit(train, valid=valid)
    (trial,) = result.trials.values()
    np.testing.assert_array_equal(luce.model_file.unpacked(trial.model).predict(valid), plain.predict(valid))


@pytest.mark.parametrize(
    ("name", "source"),
    [("pairties-rk", "."), ("lambdamart", "."), ("hom-gg", "alone.dat"), ("rankboost", "."), ("auto", ".")],
)
def test_the_command_line_gives_the_same_model(folder, tmp_path, monkeypatch, name, source):
    from luce.cli.app import main

    (fold,) = find_splits(folder / source, seed=4)
    fixed = {"members": "luce-linear,regression", "plan": "luce-linear"} if name == "auto" else {"max_iter": 12}
    result = tune([fold], name, trials=3, seed=4, fixed=fixed)
    out = tmp_path / "again.luce"
    command = train_command(result, fold, out)
    monkeypatch.setattr("sys.argv", shlex.split(command))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    files = write_tuning(result, tmp_path / "run", command)
    best = next(path for path in files if path.suffix == ".luce")
    data = luce.read(folder / "vali.txt")
    np.testing.assert_array_equal(luce.load(out).predict(data), luce.load(best).predict(data))
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    assert record["command"] == command
    trials = pq.read_table(tmp_path / "run" / "trials.parquet")
    assert trials.num_rows == 3
    assert {"trial", "share", "fold", "validation", *fixed} <= set(trials.column_names)


def test_settings_that_fail_are_left_out(folder):
    space = {"l2": Choice((-1.0, 0.5))}
    result = tune(find_splits(folder), "pmop-fd", trials=8, space=space)
    failed = [a for a in result.attempts if a.error]
    assert failed
    assert all(a.settings == {"l2": -1.0} for a in failed)
    assert result.best.settings in ({}, {"l2": 0.5})
    with pytest.raises(LuceError, match="No setting of pmop-fd could be fitted"):
        tune(find_splits(folder), "pmop-fd", trials=2, space=space, fixed={"tol": -1.0})


def test_bad_requests(folder):
    with pytest.raises(SettingError, match="random, halving"):
        tune(find_splits(folder), "pmop-fd", search="grid")
    with pytest.raises(SettingError, match="only rankers can be tuned"):
        space_of("borda-agg")
    with pytest.raises(DataError, match="does not exist"):
        find_splits(folder / "nothing")
    with pytest.raises(DataError, match="does not exist"):
        find_splits(folder / "train.txt", valid=folder / "nothing")
    with pytest.raises(SettingError, match="leave --valid out"):
        find_splits(folder, valid=folder / "vali.txt")
    with pytest.raises(DataError, match="must not share queries"):
        find_splits(folder / "train.txt", valid=folder / "alone.dat")[0].load()
