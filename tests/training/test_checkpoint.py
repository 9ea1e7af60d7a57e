"""Checkpoints against what can happen to them: kill -9 at any moment, torn and flipped bytes, other data."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import LuceWarning, OutputError, SettingError
from luce.training.run import Checkpoints

SETTINGS = {
    "sgd": {"loss": "pmop_gibbs", "batch_queries": 7, "learning_rate": 0.05, "max_iter": 150},
    "trees": {
        "loss": "bradley_terry",
        "scorer": "trees",
        "scorer__bagging_fraction": 0.7,
        "scorer__feature_fraction": 0.6,
        "scorer__reestimate": 3,
        "max_iter": 120,
    },
    "lbfgs": {"loss": "rao_kupper", "scorer": "mlp", "tol": 1e-15, "max_iter": 150},
}
ROOT = Path(__file__).parents[2]
DATA = {"queries": 40, "features": 6}
CHILD = """
import sys, time
import luce
from luce.data.simulate import simulate
from luce.training import run
from tests.training.test_checkpoint import DATA, SETTINGS

run.SAVE_SECONDS = 0.0
train, valid = (simulate(**DATA, seed=seed) for seed in (1, 2))

def slow(step, total, info):
    print(step, flush=True)
    time.sleep(0.01)

model = luce.Ranker(**SETTINGS[sys.argv[1]], random_state=0, early_stopping=60, checkpoint=sys.argv[2])
model.fit(train, valid=valid, progress=slow).save(sys.argv[3])
"""


def kill_once(kind: str, folder: Path, out: Path, delay: float) -> int:
    """Start a training, kill it `delay` seconds after its first step, and say how far it came."""
    command = [sys.executable, "-c", CHILD, kind, str(folder), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        return int([first, *child.stdout.readlines()][-1].split()[0] or 0)


@pytest.mark.parametrize("kind", list(SETTINGS))
def test_killed_at_any_moment(kind: str, tmp_path: Path):
    train, valid = (simulate(**DATA, seed=seed) for seed in (1, 2))
    settings = {**SETTINGS[kind], "random_state": 0, "early_stopping": 60}
    whole = luce.Ranker(**settings).fit(train, valid=valid)
    moments = random.Random(kind)
    reached = [kill_once(kind, tmp_path / "kept", tmp_path / "m", moments.uniform(0, 0.5)) for _ in range(2)]
    assert not (tmp_path / "m").exists()
    assert reached[0] >= 1
    done = luce.Ranker(**settings, checkpoint=tmp_path / "kept").fit(train, valid=valid)
    assert done.history_ == whole.history_
    np.testing.assert_array_equal(done.predict(valid), whole.predict(valid))
    np.testing.assert_array_equal(done.loss_.parameters, whole.loss_.parameters)
    assert not list((tmp_path / "kept").glob("*.part"))


RESUMED = {
    "linear": {"loss": "pmop"},
    "drawn": {"loss": "ranknet"},
    "tie parameter": {"loss": "rao_kupper"},
    "second order": {"loss": "pmop", "scorer": "second_order", "scorer__count": 4},
    "mlp": {"loss": "pmop", "scorer": "mlp", "scorer__hidden": (5,)},
    "kernel": {"loss": "cdn", "scorer": "nadaraya_watson"},
    "ball": {"loss": "cdn", "trainer": "projected_lbfgs", "trainer__radius": 1.5, "trainer__starts": 2},
    "sgd": {"loss": "pmop", "trainer": "sgd", "batch_queries": 7},
    "projected": {"loss": "cdn", "trainer": "projected"},
    "sampled": {"loss": "pmop_gibbs", "loss__value": "surrogate", "batch_queries": 9},
    "sampled by steps": {"loss": "pmop_mh", "loss__value": "surrogate"},
    "shrinking": {"loss": "cdn", "trainer": "projected", "trainer__radius": 4.0, "trainer__inside": "shrinking"},
    "trees": {"loss": "bradley_terry", "scorer": "trees", "scorer__bagging_fraction": 0.7, "scorer__members": 2},
    "trees with a tie parameter": {"loss": "davidson", "scorer": "trees", "scorer__reestimate": 4},
    "trees that draw features": {"loss": "pmop", "scorer": "trees", "scorer__feature_fraction": 0.5},
    "trees on a sampled loss": {"loss": "pmop_gibbs", "scorer": "trees"},
    "trees of an engine": {"scorer": "trees", "scorer__objective": "lambdarank", "scorer__feature_fraction": 0.5},
    "regression trees": {"scorer": "trees", "scorer__objective": "regression"},
    "features": {"loss": "davidson", "scorer": "single_feature"},
    "features of grades": {"loss": "ndcg_cross_entropy", "scorer": "single_feature"},
    "stumps with a tie parameter": {"loss": "davidson", "scorer": "single_stump"},
    "gradient trees with a tie parameter": {"loss": "davidson", "scorer": "gradient_trees"},
    "stumps": {"loss": "ndcg_square", "scorer": "single_stump", "trainer__tol": 1e-9},
    "gradient trees": {"loss": "pmop_gibbs", "scorer": "gradient_trees"},
    "lists": {"loss": "ndcg_cross_entropy", "scorer": "list_functions"},
    "adarank": {"trainer": "adarank"},
    "cps": {"trainer": "cps"},
    "frank": {"trainer": "frank"},
    "rankboost": {"trainer": "rankboost"},
}


EXACT = ("linear", "drawn", "tie parameter", "second order", "mlp", "kernel", "ball", "cps")
"""Searches that are not to end by themselves."""


class Killed(Exception):
    """Stands for the end of a process in the middle of a training."""


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with validation"])
@pytest.mark.parametrize("kind", list(RESUMED))
def test_every_trainer_goes_on_to_the_same_bits(kind: str, watched: bool, tmp_path: Path, monkeypatch):
    """Killed after a few steps, again after one more, then prolonged: what is learned is what a whole one learns."""
    monkeypatch.setattr("luce.training.run.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("luce.training.additive.Additive.every", 1)
    monkeypatch.setattr("luce.training.hessian.TURNS", (0, 2, 5))
    if kind == "drawn":
        monkeypatch.setattr("luce.training.hessian.ROWS_A_PARAMETER", 30)
        monkeypatch.setattr("luce.training.hessian.CHEAP", 0)
    train, valid = (simulate(**DATA, seed=seed) for seed in (1, 2))
    ends = {"max_epochs": 12} if kind in ("projected", "shrinking") else {"max_iter": 14}
    exact = {"tol": 1e-14} if kind in EXACT else {}
    settings = {"random_state": 0, **ends, **exact, **RESUMED[kind]}
    shared = {"valid": valid} if watched else {}
    whole = luce.Ranker(**settings).fit(train, **shared)
    for steps in (2, 1):
        left = iter(range(steps))

        def killed(step: int, total: int | None, info: object, left=left) -> None:
            if next(left, None) is None:
                raise Killed

        with pytest.raises(Killed):
            luce.Ranker(**settings, checkpoint=tmp_path).fit(train, **shared, progress=killed)
    shorter = {**settings, **dict.fromkeys(ends, 8)}
    luce.Ranker(**shorter, checkpoint=tmp_path).fit(train, **shared)
    done = luce.Ranker(**settings, checkpoint=tmp_path).fit(train, **shared)
    assert done.history_ == whole.history_
    np.testing.assert_array_equal(done.predict(valid), whole.predict(valid))
    if whole.loss_ is not None:
        np.testing.assert_array_equal(done.loss_.parameters, whole.loss_.parameters)


def test_every_trainer_with_checkpoints_is_resumed_above(tmp_path: Path):
    """A trainer either keeps checkpoints and is resumed above, or refuses to."""
    data = simulate(**DATA, seed=1)
    resumed = {luce.Ranker(**settings).parts().trainer.name for settings in RESUMED.values()}
    for name in sorted(set(luce.training.names()) - resumed - {"blend"}):
        own = {"closed_form": {"loss": "ndcg_square"}, "reranking": {"scorer": "listwise"}}.get(name, {})
        with pytest.raises(SettingError, match="no checkpoints"):
            luce.Ranker(trainer=name, checkpoint=tmp_path, **own).fit(data)


def test_a_finished_search_does_not_go_on(tmp_path: Path, monkeypatch):
    """Where a search ended by its tolerance, starting it again changes nothing."""
    monkeypatch.setattr("luce.training.run.SAVE_SECONDS", 0.0)
    data = simulate(**DATA, seed=1)
    settings = {"loss": "davidson", "tol": 1e-4, "max_iter": 90, "checkpoint": tmp_path, "random_state": 0}
    first, again = (luce.Ranker(**settings).fit(data) for _ in range(2))
    assert first.history_["converged"]
    assert again.history_ == first.history_
    np.testing.assert_array_equal(again.predict(data), first.predict(data))


def test_damage_anywhere_is_noticed(tmp_path: Path):
    """One flipped bit, or a cut, at places all over the file: the checkpoint before it is used, never other numbers."""
    arrays = {"last": np.linspace(0, 1, 40), "tree": np.arange(7, dtype=np.int32)}
    kept = Checkpoints(tmp_path, {"data": "x"})
    kept.save(1, {"best": 0.5}, {name: array * 2 for name, array in arrays.items()})
    kept.save(2, {"best": 0.25}, arrays)
    newest = tmp_path / "step-000000002.luce"
    sound = newest.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(sound), 300, replace=False).tolist():
        torn = bytearray(sound)
        torn[place] ^= 1 << int(rng.integers(8))
        newest.write_bytes(sound[:place] if place % 3 == 0 else bytes(torn))
        with pytest.warns(LuceWarning, match="damaged|not a file|format version|holds"):
            found = kept.load()
        assert found is not None
        assert found.step == 1
        np.testing.assert_array_equal(found.arrays["last"], 2 * arrays["last"])
    (tmp_path / "step-000000001.luce").write_bytes(b"")
    with pytest.warns(LuceWarning):
        assert kept.load() is None


def test_the_newest_two_are_kept(tmp_path: Path):
    kept = Checkpoints(tmp_path, {})
    for step in range(1, 6):
        kept.save(step, {}, {"at": np.array([float(step)])})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000004.luce", "step-000000005.luce"]
    found = kept.load()
    assert found is not None
    assert (found.step, found.arrays["at"].tolist()) == (5, [5.0])


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.2},
        {"schedule": "sqrt"},
        {"batch_queries": 5},
        {"random_state": 1},
        {"metric": "map"},
        {"l2": 0.5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_settings_are_refused(tmp_path: Path, change: dict[str, object]):
    data = simulate(**DATA, seed=1)
    settings = {"trainer": "sgd", "batch_queries": 7, "random_state": 0, "checkpoint": tmp_path, "max_iter": 3}
    luce.Ranker(**settings).fit(data, valid=data)
    luce.Ranker(**{**settings, "max_iter": 4}).fit(data, valid=data)
    with pytest.raises(SettingError, match="another training"):
        luce.Ranker(**{**settings, **change}).fit(data, valid=data)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_other_data_are_refused(tmp_path: Path, scorer: str):
    data, valid = (simulate(**DATA, seed=seed) for seed in (1, 2))
    model = luce.Ranker(scorer=scorer, random_state=0, checkpoint=tmp_path, max_iter=10)
    model.fit(data, valid=valid)
    X = data.X.copy()
    X[17, 3] += 1e-3
    for others in (
        {"X": luce.from_arrays(X, data.y, qid=data.qid), "valid": valid},
        {"X": data, "valid": data},
        {"X": data, "valid": None},
        {"X": data, "valid": valid, "query_weight": np.arange(1, data.n_queries + 1)},
    ):
        with pytest.raises(SettingError, match="another training"):
            model.fit(**others)


def test_other_comparisons_are_refused(tmp_path: Path):
    data = simulate(**DATA, seed=1)
    model = luce.Ranker(loss="ranknet", checkpoint=tmp_path, max_iter=5)
    model.fit(data, comparisons=luce.Comparisons(wins=np.array([[0, 1]])))
    with pytest.raises(SettingError, match="another training"):
        model.fit(data, comparisons=luce.Comparisons(wins=np.array([[1, 0]])))


def test_rounds_without_a_split_are_counted_through_a_checkpoint(tmp_path: Path):
    """A training that ended because nothing could be split does not go on when it is started again."""
    data = luce.from_arrays(np.ones((20, 2), dtype=np.float32), np.arange(20) % 2, qid=np.arange(20) // 5)
    settings = {"scorer": "trees", "scorer__bagging_fraction": 0.8, "random_state": 0, "max_iter": 60}
    with pytest.warns(LuceWarning, match="no split"):
        whole = luce.Ranker(**settings).fit(data)
    assert whole.scorer_.forest.n_trees == 20
    with pytest.warns(LuceWarning, match="no split"):
        luce.Ranker(**settings, checkpoint=tmp_path).fit(data)
    assert luce.Ranker(**settings, checkpoint=tmp_path).fit(data).scorer_.forest.n_trees == 20


def test_folder_that_is_a_file(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="it is a file"):
        Checkpoints(tmp_path / "file", {})
