"""Estimators of others, and rankers of one's own, as models of a comparison: how each wants its queries."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass, signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from luce.data.groups import Groups
from luce.errors import DataError, SettingError, of_user
from luce.ranker import Ranker
from luce.types import FloatArray


def check_estimator_like(name: str, estimator: Any) -> Any:
    """Refuse what has no fit and predict."""
    if isclass(estimator):
        raise SettingError(f"The model {name!r} is the class {estimator.__name__}; give an object of it.")
    if not (callable(getattr(estimator, "fit", None)) and callable(getattr(estimator, "predict", None))):
        raise SettingError(f"The model {name!r} is {estimator!r}; give a name or an object with fit and predict.")
    return estimator


def fit_estimator(estimator: Any, train: Groups, valid: Groups) -> Any:
    """A fitted copy: rankers of luce see the validation queries; others get X and y, with their queries if they want.

    Estimators of others get copies, which they may change.
    """
    copy = clone(estimator, safe=False)
    if isinstance(copy, Ranker):
        return copy.fit(train, valid=valid)
    with of_user(f"{type(copy).__name__}.fit"):
        copy.fit(np.array(train.X), np.array(train.y), **_queries(copy, train))
    return copy


def _queries(estimator: Any, data: Groups) -> dict[str, Any]:
    """The keyword by which an estimator takes the queries, with its values: also where it is the last of a pipeline."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": values for key, values in _queries(last, data).items()}
    wanted = signature(estimator.fit).parameters
    inner = getattr(estimator, "estimator", None)
    if inner is not None and hasattr(inner, "fit") and any(p.kind is p.VAR_KEYWORD for p in wanted.values()):
        return _queries(inner, data)  # a search, which passes on what it is given
    by_row = np.repeat(np.arange(data.n_queries), data.sizes)
    known = {"qid": by_row, "group": data.sizes, "group_id": by_row}
    return next(({key: values} for key, values in known.items() if key in wanted), {})


def predict_scores(fitted: Any, data: Groups) -> FloatArray:
    """One finite score a row."""
    if isinstance(fitted, Ranker):
        return fitted.predict(data)
    how: dict[str, Any] = {}
    if "qid" in signature(fitted.predict).parameters:
        how["qid"] = np.repeat(np.arange(data.n_queries), data.sizes)
    with of_user(f"{type(fitted).__name__}.predict"):
        scores = np.asarray(fitted.predict(np.array(data.X), **how), dtype=np.float64)
    if scores.shape != (data.n_rows,) or not np.isfinite(scores).all():
        raise DataError(
            f"{type(fitted).__name__}.predict gave shape {scores.shape} or NaN or infinity; one finite score "
            f"for each of {data.n_rows} documents is needed."
        )
    return scores


OWN_FILES: dict[str, str] = {}
"""The files of users that were run, by the name of their module: workers run them, too, before they are given work."""


def run_file(name: str, path: str) -> None:
    """Run a file of a user as the module of that name."""
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path} is no file of Python; its name must end in .py.")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        with of_user(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    OWN_FILES[name] = path


def from_file(place: str) -> tuple[str, Any]:
    """The estimator that `FILE.py:NAME` names: an object, or a class that is made without arguments."""
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise DataError(f"{path} does not exist; name a model, or FILE.py:NAME of a file of your own.")
    whole = str(Path(path).resolve())
    own = next((own for own, file in OWN_FILES.items() if file == whole), None)
    if own is None:
        own = Path(path).stem
        while own in sys.modules or own in OWN_FILES:  # a file may be called as a library is
            own += "_"
        run_file(own, whole)
    module = sys.modules[own]
    if not hasattr(module, name):
        raise SettingError(f"{path} has no {name!r}; name a class or an estimator that it defines.")
    found = getattr(module, name)
    with of_user(f"{name}() of {path}"):
        made = found() if isclass(found) else found
    return name, check_estimator_like(name, made)
