"""Estimators of others, and rankers of one's own, as models of a comparison: how each wants its queries."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass, signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from luce.data.groups import Groups
from luce.errors import DataError, SettingError
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
    """A fitted copy: rankers of luce see the validation queries; others get X and y, with qid or group if they want."""
    copy = clone(estimator, safe=False)
    if isinstance(copy, Ranker):
        return copy.fit(train, valid=valid)
    wanted = signature(copy.fit).parameters
    how: dict[str, Any] = {}
    if "qid" in wanted:
        how["qid"] = np.repeat(np.arange(train.n_queries), train.sizes)
    elif "group" in wanted:
        how["group"] = train.sizes
    try:
        copy.fit(train.X, train.y, **how)
    except (ValueError, TypeError, RuntimeError) as error:  # what an estimator of others says of data or settings
        raise DataError(f"{type(copy).__name__}.fit failed: {' '.join(str(error).split())}") from error
    return copy


def predict_scores(fitted: Any, data: Groups) -> FloatArray:
    """One finite score a row."""
    if isinstance(fitted, Ranker):
        return fitted.predict(data)
    how: dict[str, Any] = {}
    if "qid" in signature(fitted.predict).parameters:
        how["qid"] = np.repeat(np.arange(data.n_queries), data.sizes)
    scores = np.asarray(fitted.predict(data.X, **how), dtype=np.float64)
    if scores.shape != (data.n_rows,) or not np.isfinite(scores).all():
        raise DataError(
            f"{type(fitted).__name__}.predict gave shape {scores.shape} or NaN or infinity; one finite score "
            f"for each of {data.n_rows} documents is needed."
        )
    return scores


def from_file(place: str) -> tuple[str, Any]:
    """The estimator that `FILE.py:NAME` names: an object, or a class that is made without arguments."""
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise DataError(f"{path} does not exist; name a model, or FILE.py:NAME of a file of your own.")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise SettingError(f"{path} has no {name!r}; name a class or an estimator that it defines.")
    found = getattr(module, name)
    return name, check_estimator_like(name, found() if isclass(found) else found)
