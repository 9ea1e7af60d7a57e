"""Optuna and MLflow, by one call each: a study over what a model has to tune, and a run that keeps a fitted ranker.

Both are extras, `pip install 'luce[optuna]'` and `pip install 'luce[mlflow]'`, imported when they are asked for.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from luce.data.groups import Groups
from luce.errors import SettingError, needing
from luce.experiments.spaces import space_of, without
from luce.metrics.catalog import get
from luce.metrics.evaluate import Evaluation
from luce.model_file import load
from luce.ranker import Ranker
from luce.registry import settings_of
from luce.spec import Choice, Dimension
from luce.systems import model as complete
from luce.training.run import best_validation

_FILE = "model.luce"


def _library(name: str) -> Any:
    with needing(f"luce with {name}", name.partition(".")[0]):
        found = import_module(name)
    return found


def optuna_objective(
    model: str, train: Groups, valid: Groups, *, metric: str = "ndcg@10", **fixed: Any
) -> Callable[[Any], float]:
    """What an Optuna study optimises: the metric of a model on validation data, by the settings that `luce.tune` draws.

    After every round the trial is told the metric, and a pruner may end it. `fixed` holds settings, as `max_iter=200`
    or `scorer__num_leaves=8`. The direction of the study must be that of the metric.

        study = optuna.create_study(direction="maximize")
        study.optimize(luce.integrations.optuna_objective("pmop-trees", train, valid), n_trials=30)
    """
    optuna, space, judge = _library("optuna"), without(space_of(model), fixed), get(metric)
    wanted = "MAXIMIZE" if judge.greater_is_better else "MINIMIZE"
    complete(model, metric=metric, **fixed).parts()  # what the model does not take is refused before any trial

    def objective(trial: Any) -> float:
        if trial.study.direction.name != wanted:
            raise SettingError(f"The study has another direction than {metric}; give direction={wanted.lower()!r}.")

        def tell(step: int, total: int | None, info: Mapping[str, float]) -> bool:
            if "validation" in info and math.isfinite(info["validation"]):
                trial.report(info["validation"], step)
                return bool(trial.should_prune())
            return False

        drawn = {name: _suggested(trial, name, dimension) for name, dimension in space.items()}
        ranker = complete(model, metric=metric, **fixed, **drawn)
        ranker.fit(train, valid=valid, callbacks=[tell])
        if trial.should_prune():
            raise optuna.TrialPruned
        found = best_validation(ranker.history_, judge)
        return float("nan") if found is None else float(found)

    return objective


def _suggested(trial: Any, name: str, dimension: Dimension) -> Any:
    """A value of one setting, as Optuna suggests it."""
    if isinstance(dimension, Choice):
        return trial.suggest_categorical(name, list(dimension.values))
    if dimension.learned and trial.suggest_categorical(f"{name} learned", [True, False]):
        return None
    if dimension.whole:
        return trial.suggest_int(name, round(dimension.low), round(dimension.high), log=dimension.log)
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)


def mlflow_log(ranker: Ranker, evaluation: Evaluation | None = None, *, name: str = "model") -> str:
    """Log a fitted ranker to the active run of MLflow, or to a new one; gives the address of the model.

    Parameters are the settings of the ranker, metrics its objective and validation by round and the means of an
    evaluation. The model is an artifact that `mlflow.pyfunc.load_model` and `mlflow_load` read; it holds nothing
    executable.
    """
    mlflow, models = _library("mlflow"), _library("mlflow.models")
    run = mlflow.active_run() or mlflow.start_run()
    parts, history = ranker.parts_, ranker.history_
    chosen = {"loss": ranker.loss_, "scorer": parts.scorer, "trainer": parts.trainer, "metric": parts.metric}
    for kind, part in chosen.items():
        if part is not None:
            mlflow.log_params({kind: part.name} | {f"{kind}.{key}": value for key, value in settings_of(part).items()})
    for key in ("objective", "validation"):
        for step, value in enumerate(history.get(key) or []):
            mlflow.log_metric(key, float(value), step=step)
    if evaluation is not None:
        mlflow.log_metrics({key.replace("@", "_at_"): float(value) for key, value in evaluation.means.items()})
    with TemporaryDirectory(prefix="luce-") as folder:
        ranker.save(Path(folder) / _FILE)
        kept = models.Model(run_id=run.info.run_id, artifact_path=name)
        kept.add_flavor("python_function", loader_module=__name__, data=_FILE, python_version=platform.python_version())
        kept.add_flavor("luce", file=_FILE)
        kept.save(str(Path(folder) / "MLmodel"))
        mlflow.log_artifacts(folder, artifact_path=name)
    return f"runs:/{run.info.run_id}/{name}"


def mlflow_load(address: str) -> Ranker:
    """The ranker that `mlflow_log` kept at an address such as `runs:/.../model`."""
    folder = _library("mlflow.artifacts").download_artifacts(artifact_uri=address)
    return load(Path(folder) / _FILE)


class _Served:
    """A ranker as MLflow asks for one."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def predict(self, X: Any, params: Mapping[str, Any] | None = None) -> Any:
        """One score a row; `params` may name the column of the query ids, as {"qid": "search"}."""
        return self.ranker.predict(X, qid=(params or {}).get("qid"))


def _load_pyfunc(path: str) -> _Served:
    return _Served(load(path))
