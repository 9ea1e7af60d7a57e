"""Studies of Optuna and runs of MLflow, with the real libraries."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate, split
from luce.errors import SettingError
from luce.experiments.spaces import space_of
from luce.integrations import mlflow_load, mlflow_log, optuna_objective


@pytest.fixture(scope="module")
def parts():
    return split(simulate(queries=60, features=5, seed=0), [0.5, 0.25, 0.25])


def test_a_study_draws_from_the_space_of_a_model_and_prunes_by_round(parts):
    optuna = pytest.importorskip("optuna", reason="the extra optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    train, valid, _ = parts
    pruner = optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=1)
    study = optuna.create_study(direction="maximize", pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(optuna_objective("pairties-d", train, valid, max_iter=20), n_trials=5)
    kept = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    assert 0 < len(kept) < 5
    assert {name.removesuffix(" learned") for trial in kept for name in trial.params} <= set(space_of("pairties-d"))
    for trial in kept:  # what a study is told is what the model of those settings has
        asked = {name: value for name, value in trial.params.items() if not name.endswith(" learned")}
        again = luce.model("pairties-d", max_iter=20, metric="ndcg@10", **asked).fit(train, valid=valid)
        assert trial.value == max(again.history_["validation"])
        assert list(trial.intermediate_values)[-1] == len(again.history_["objective"])
    wrong = optuna.create_study(direction="minimize")
    with pytest.raises(SettingError, match="direction='maximize'"):
        wrong.optimize(optuna_objective("pairties-d", train, valid), n_trials=1)
    with pytest.raises(SettingError, match="does not take these parameters: bogus"):
        optuna_objective("pairties-d", train, valid, bogus=1)


@pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports
def test_a_run_keeps_settings_metrics_and_a_model_that_loads(parts, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    train, valid, test = parts
    model = luce.Ranker("davidson", l2=0.5).fit(train, valid=valid)
    found = luce.evaluate(model, test, ["ndcg@10", "map"])
    with mlflow.start_run() as run:
        address = mlflow_log(model, found)
    data = mlflow.get_run(run.info.run_id).data
    assert data.params["loss"] == "davidson"
    assert data.params["trainer.l2"] == "0.5"
    assert data.metrics["ndcg_at_10"] == pytest.approx(found["ndcg@10"])
    assert data.metrics["objective"] == pytest.approx(model.history_["objective"][-1])
    np.testing.assert_array_equal(mlflow_load(address).predict(test), model.predict(test))
    served = mlflow.pyfunc.load_model(address)
    np.testing.assert_array_equal(served.predict(pandas.DataFrame(test.X)), model.predict(test))
