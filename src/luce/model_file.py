"""Model files: a fitted ranker as one container, versioned, with nothing executable in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from luce import losses, metrics, scorers
from luce.base import Base, ColumnBase, RankerBase
from luce.errors import DataError, LuceError, ModelFormatError, SettingError
from luce.losses.base import Loss
from luce.losses.tier_sizes import SizeModel
from luce.ranker import Ranker
from luce.storage import read_container, write_container

__all__ = ["Packed", "load", "packed", "save", "unpacked"]

Packed = tuple[dict[str, Any], dict[str, Any]]
"""A fitted ranker as a model file holds it: JSON-able settings and arrays."""

_DEEPEST = 16
_KEPT = (
    "l2",
    "max_iter",
    "tol",
    "metric",
    "early_stopping",
    "trainer",
    "learning_rate",
    "schedule",
    "batch_queries",
    "max_epochs",
    "query_norm",
    "loss_params",
    "scorer_params",
    "trainer_params",
)


def save(ranker: Ranker, path: str | Path) -> None:
    """Write a fitted ranker."""
    write_container(path, "ranker", *packed(ranker))


def packed(ranker: Ranker) -> Packed:
    """What a model file of a fitted ranker holds, for those who keep it elsewhere."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(ranker, "scorer_")
    return _content(ranker)


def unpacked(content: Packed) -> Ranker:
    """The ranker of what `packed` gave."""
    settings, arrays = content
    return _restore(settings, dict(arrays))


def _content(ranker: Ranker) -> Packed:
    from luce import __version__

    scorer_settings, arrays = ranker.scorer_.state()
    loss = ranker.loss_
    settings = {
        "luce": __version__,
        "loss": {"name": loss.name, "settings": loss.settings, "registered": not isinstance(ranker.loss, Loss)},
        "scorer": {"name": ranker.scorer_.name, "settings": scorer_settings, "trained_as": ranker.scorer},
        "ranker": {name: _plain(name, getattr(ranker, name)) for name in _KEPT},
        "feature_names": list(ranker.feature_names_),
        "named_features": hasattr(ranker, "feature_names_in_"),
        "history": getattr(ranker, "history_", {}),
        "max_grade": ranker.max_grade_,
    }
    arrays = {**arrays, "loss.parameters": loss.parameters}
    if ranker.sizes_ is not None:
        settings["sizes"], found = ranker.sizes_.state()
        arrays |= {f"sizes.{name}": array for name, array in found.items()}
    settings["on_scores"] = ranker.on_scores_
    if isinstance(ranker.base_, ColumnBase):
        settings["base"] = {"column": ranker.base_.name}
    elif isinstance(ranker.base_, RankerBase):
        settings["base"], found = _content(ranker.base_.ranker)
        arrays |= {f"base.{name}": array for name, array in found.items()}
    return settings, arrays


def _plain(name: str, value: Any) -> Any:
    """A setting that JSON can hold, or an error."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    try:
        json.dumps(value)
    except TypeError:
        raise SettingError(
            f"{name} holds an object, which no model file can keep; register it and give its name, or make a loss of "
            "it and give that as the loss."
        ) from None
    return value


def load(path: str | Path) -> Ranker:
    """Read a model file; `luce.errors.DataError` where there is none, `ModelFormatError` for whatever is wrong in it.

    >>> load("no-such-model.luce")
    Traceback (most recent call last):
        ...
    luce.errors.DataError: no-such-model.luce does not exist; give the path of a model that luce saved.
    """
    if not Path(path).is_file():
        what = "is a folder" if Path(path).is_dir() else "does not exist"
        raise DataError(f"{path} {what}; give the path of a model that luce saved.")
    settings, arrays = read_container(path, "ranker")[1:]
    try:
        return _restore(settings, arrays)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from error
    except (LuceError, TypeError, ValueError, KeyError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ModelFormatError(f"{path} holds a model that this luce cannot rebuild: {reason}.") from error


def _restore(settings: dict[str, Any], arrays: dict[str, Any], depth: int = 0) -> Ranker:
    below = {name.removeprefix("base."): arrays.pop(name) for name in list(arrays) if name.startswith("base.")}
    parameters = arrays.pop("loss.parameters", None)
    sizes = {name.removeprefix("sizes."): arrays.pop(name) for name in list(arrays) if name.startswith("sizes.")}
    options = _typed(settings, "ranker", dict)
    loss, scorer = _typed(settings, "loss", dict), _typed(settings, "scorer", dict)
    names = _typed(settings, "feature_names", list)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ModelFormatError("The feature names must be different texts.")
    unknown = set(options) - set(_KEPT)
    if unknown:
        raise ModelFormatError(f"The model has unknown settings {sorted(unknown)}.")
    loss_name = _typed(loss, "name", str)
    kind = _typed(scorer, "name", str)
    ranker = Ranker(loss=loss_name, scorer=_trained_as(scorer, kind), **options)
    ranker._check_settings()
    metrics.get(_typed(options, "metric", str))
    fitted = scorers.fitted_class(kind)
    ranker.scorer_ = fitted.from_state(_typed(scorer, "settings", dict), arrays)
    if ranker.scorer_.n_features != len(names):
        raise ModelFormatError(f"The scorer has {ranker.scorer_.n_features} features and the file {len(names)} names.")
    if (
        parameters is None
        or parameters.dtype != np.float64
        or parameters.ndim != 1
        or not np.isfinite(parameters).all()
    ):
        raise ModelFormatError("The parameters of the loss must be a vector of finite numbers.")
    ranker.loss_ = losses.get(loss_name, **_typed(loss, "settings", dict)).with_parameters(parameters)
    ranker.sizes_ = SizeModel.from_state(_typed(settings, "sizes", dict), sizes) if "sizes" in settings else None
    ranker.n_features_in_ = len(names)
    ranker.feature_names_ = tuple(names)
    if _typed(settings, "named_features", bool):
        ranker.feature_names_in_ = np.array(names, dtype=object)
    ranker.history_ = _typed(settings, "history", dict)
    ranker.max_grade_ = float(_typed(settings, "max_grade", float))
    ranker.on_scores_ = _typed(settings, "on_scores", bool)
    ranker.base_ = _restore_base(settings, below, depth, tuple(names))
    ranker.base = None if ranker.base_ is None else ranker.base_.given
    return ranker


def _trained_as(scorer: dict[str, Any], kind: str) -> str:
    """The scorer as it was named for training: several algorithms leave a scorer of the same kind."""
    name = scorer.get("trained_as", kind)
    if not isinstance(name, str) or not scorers.is_known(name):
        raise ModelFormatError(f"The scorer was trained as {name!r}, which this luce does not know.")
    return name


def _restore_base(settings: dict[str, Any], arrays: dict[str, Any], depth: int, names: tuple[str, ...]) -> Base | None:
    if "base" not in settings:
        return None
    base = _typed(settings, "base", dict)
    if "column" in base:
        if base["column"] not in names:
            raise ModelFormatError(f"The base is the feature {base['column']!r}, which the model does not have.")
        return ColumnBase(base["column"])
    if depth == _DEEPEST:
        raise ModelFormatError(f"A model may stand on {_DEEPEST} others at the most.")
    ranker = _restore(base, arrays, depth + 1)
    if ranker.on_scores_ or ranker.n_features_in_ != len(names):
        raise ModelFormatError("The base of the model does not fit its features.")
    return RankerBase(ranker)


def _typed(settings: dict[str, Any], key: str, kind: type) -> Any:
    value = settings.get(key)
    if not isinstance(value, kind):
        raise ModelFormatError(f"The model needs {key!r} as {kind.__name__}.")
    return value
