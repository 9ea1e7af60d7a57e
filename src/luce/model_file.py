"""Model files: a fitted ranker as one container, versioned, with nothing executable in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from luce import losses, metrics, scorers, training
from luce.base import Base, ColumnBase, RankerBase
from luce.checks import path_of
from luce.data.describe import Profile
from luce.data.filling import Filling
from luce.data.schema import Schema
from luce.errors import DataError, LuceError, ModelFormatError, SettingError, UnknownNameError
from luce.losses.tier_sizes import SizeModel
from luce.ranker import Ranker
from luce.ranker.parts import PARTS, SHORT
from luce.registry import settings_of
from luce.storage import read_container, restoring, write_container

Packed = tuple[dict[str, Any], dict[str, Any]]
"""A fitted ranker as a model file holds it: JSON-able settings and arrays."""

_DEEPEST = 16
_KEPT = (*SHORT, "query_norm")
_REGISTRIES = {
    "loss": losses.registry,
    "scorer": scorers.registry,
    "trainer": training.registry,
    "metric": metrics.catalog.METRICS,
}


def save(ranker: Ranker, path: str | Path, *, sign: str | Path | None = None) -> None:
    """Write a fitted ranker, signed by the private key of the file `sign` where one is given."""
    path, signer = path_of("Where the model is to be saved", path), None
    if sign is not None:
        from luce.signing import signer_of

        signer = signer_of(sign)
    write_container(path, "ranker", *packed(ranker), sign=signer)


def packed(ranker: Ranker) -> Packed:
    """What a model file of a fitted ranker holds, for those who keep it elsewhere."""
    from sklearn.utils.validation import check_is_fitted

    from luce import __version__

    check_is_fitted(ranker, "scorer_")
    scorer_settings, arrays = _scorer_state(ranker.scorer_)
    loss = ranker.loss_
    settings = {
        "luce": __version__,
        "parts": {part: _given(part, getattr(ranker, part)) for part in PARTS},
        "loss": None if loss is None else _named("loss", loss),
        "scorer": {"name": ranker.scorer_.name, "settings": scorer_settings},
        "ranker": {name: _plain(name, getattr(ranker, name)) for name in _KEPT},
        "feature_names": list(ranker.feature_names_),
        "named_features": hasattr(ranker, "feature_names_in_"),
        "history": getattr(ranker, "history_", {}),
        "max_grade": ranker.max_grade_,
        **({"one_query": True} if ranker.one_query_ else {}),
    }
    for key, kept in (("schema", ranker.schema_), ("filling", ranker.filling_)):
        if kept is not None:
            settings[key] = kept.to_dict()
    arrays = {**arrays, "loss.parameters": np.empty(0) if loss is None else loss.parameters}
    if ranker.sizes_ is not None:
        settings["sizes"], found = ranker.sizes_.state()
        arrays |= {f"sizes.{name}": array for name, array in found.items()}
    if ranker.profile_ is not None:
        settings["profile"] = ranker.profile_.documents
        arrays |= {f"profile.{name}": array for name, array in ranker.profile_.arrays().items()}
    settings["on_scores"] = ranker.on_scores_
    if isinstance(ranker.base_, ColumnBase):
        settings["base"] = {"column": ranker.base_.name}
    elif isinstance(ranker.base_, RankerBase):
        settings["base"], found = packed(ranker.base_.ranker)
        arrays |= {f"base.{name}": array for name, array in found.items()}
    return settings, arrays


def unpacked(content: Packed) -> Ranker:
    """The ranker of what `packed` gave."""
    settings, arrays = content
    return _restore(settings, dict(arrays))


def _scorer_state(fitted: Any) -> Packed:
    """Settings and arrays of a fitted scorer, which must be of a kind that load can make again."""
    name = getattr(fitted, "name", type(fitted).__name__)
    if not callable(getattr(fitted, "state", None)):
        raise SettingError(
            f"The fitted scorer {name!r} has no method state that gives its settings and arrays, so that no file can "
            "hold it; write one, and from_state that reads them, or keep the model by pickle."
        )
    try:
        scorers.fitted_class(name)
    except UnknownNameError:
        raise _unregistered("scorer", name) from None
    return fitted.state()


def _unregistered(part: str, name: str) -> SettingError:
    plural = {"loss": "losses", "trainer": "training"}.get(part, f"{part}s")
    return SettingError(
        f"The {part} {name!r} is not registered, so that no saved model could bring it back; register its class or "
        f"function with luce.{plural}.register first."
    )


def _given(part: str, value: Any) -> Any:
    """A part as it was given: nothing, a name, or name and settings of an object that load can make again."""
    if value is None or isinstance(value, str):
        return value
    of = {"loss": losses.of, "metric": metrics.of}.get(part)
    return _named(part, value if of is None else of(value))


def _named(part: str, value: Any) -> dict[str, Any]:
    """Name and settings of an object, which must be those of a registered part."""
    name = getattr(value, "name", type(value).__name__)
    if part == "metric" and isinstance(value, metrics.Metric):
        known = value.formula.function is None or name in _REGISTRIES[part]
    else:
        known = _REGISTRIES[part].made(value)
    if not known:
        raise _unregistered(part, name)
    kept = {"name": name, "settings": {key: _plain(key, inner) for key, inner in settings_of(value).items()}}
    try:
        _made(part, kept)
    except LuceError as error:
        raise SettingError(f"No saved model could bring the {part} {name!r} back: {error}") from error
    return kept


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


def load(path: str | Path, *, trusted: str | Path | Sequence[str | Path] | None = None) -> Ranker:
    """Read a model file; `luce.errors.DataError` where there is none, `ModelFormatError` for whatever is wrong in it.

    With `trusted`, one or more files of public keys, a model is refused that none of them signed.

    >>> load("no-such-model.luce")
    Traceback (most recent call last):
        ...
    luce.errors.DataError: no-such-model.luce does not exist; give the path of a model that luce saved.
    """
    path = path_of("The model file", path)
    if trusted is None:
        return _load(path)
    from luce.signing import public_keys

    return load_signed(path, public_keys([trusted] if isinstance(trusted, str | Path) else trusted))[0]


def load_signed(path: str | Path, keys: Sequence[bytes] | None = None) -> tuple[Ranker, bytes | None]:
    """A model and the public key that signed it, None where it is not signed; it must be one of `keys`, if given."""
    from luce.signing import checked_by, fingerprint

    found: list[bytes | None] = []

    def check(message: bytes, signature: str | None) -> None:
        try:
            public = checked_by(message, signature)
        except ModelFormatError as error:
            raise ModelFormatError(f"{path} is not to be trusted: {error}") from error
        if keys is not None and public not in keys:
            by = "It is not signed" if public is None else f"It is signed by {fingerprint(public)}"
            known = ", ".join(map(fingerprint, keys)) or "none"
            raise ModelFormatError(f"{path} is not to be trusted: {by}, and the keys that are trusted are {known}.")
        found.append(public)

    ranker = _load(path, check)
    return ranker, found[0]


def _load(path: str | Path, check: Callable[[bytes, str | None], None] | None = None) -> Ranker:
    if not Path(path).is_file():
        what = "is a folder" if Path(path).is_dir() else "does not exist"
        raise DataError(f"{path} {what}; give the path of a model that luce saved.")
    settings, arrays = read_container(path, "ranker", check=check)[1:]
    with restoring(path):
        return _restore(settings, arrays)


def _restore(settings: dict[str, Any], arrays: dict[str, Any], depth: int = 0) -> Ranker:
    below = {name.removeprefix("base."): arrays.pop(name) for name in list(arrays) if name.startswith("base.")}
    parameters = arrays.pop("loss.parameters", None)
    sizes = {name.removeprefix("sizes."): arrays.pop(name) for name in list(arrays) if name.startswith("sizes.")}
    profile = {name.removeprefix("profile."): arrays.pop(name) for name in list(arrays) if name.startswith("profile.")}
    options = _typed(settings, "ranker", dict)
    scorer, given = _typed(settings, "scorer", dict), _typed(settings, "parts", dict)
    names = _typed(settings, "feature_names", list)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ModelFormatError("The feature names must be different texts.")
    unknown = set(options) - set(_KEPT)
    if unknown:
        raise ModelFormatError(f"The model has unknown settings {sorted(unknown)}.")
    ranker = Ranker(**{part: _made(part, given.get(part)) for part in PARTS}, **options)
    ranker.parts_ = ranker.parts()
    ranker._unsaid = ranker.parts_.settings("trainer")
    fitted = scorers.fitted_class(_typed(scorer, "name", str))
    ranker.scorer_ = fitted.from_state(_typed(scorer, "settings", dict), arrays)
    ranker.schema_ = Schema.from_dict(settings["schema"]) if "schema" in settings else None
    ranker.text = None if ranker.schema_ is None else ranker.schema_.text
    ranker.filling_ = Filling.from_dict(settings["filling"]) if "filling" in settings else None
    _check_columns(ranker, names)
    if (
        parameters is None
        or parameters.dtype != np.float64
        or parameters.ndim != 1
        or not np.isfinite(parameters).all()
    ):
        raise ModelFormatError("The parameters of the loss must be a vector of finite numbers.")
    loss = None if settings.get("loss") is None else _made("loss", _typed(settings, "loss", dict))
    ranker.loss_ = None if loss is None else loss.with_parameters(parameters)
    ranker.sizes_ = SizeModel.from_state(_typed(settings, "sizes", dict), sizes) if "sizes" in settings else None
    ranker.profile_ = (
        Profile.from_arrays(profile, settings["profile"], len(names) + 1) if "profile" in settings else None
    )
    ranker.n_features_in_ = len(names)
    ranker.feature_names_ = tuple(names)
    if _typed(settings, "named_features", bool):
        ranker.feature_names_in_ = np.array(names, dtype=object)
    ranker.history_ = _typed(settings, "history", dict)
    known = settings.get("max_grade", 0) is not None  # a model of another library does not say
    ranker.max_grade_ = float(_typed(settings, "max_grade", float)) if known else None
    ranker.on_scores_ = _typed(settings, "on_scores", bool)
    ranker.one_query_ = settings.get("one_query") is True
    ranker.base_ = _restore_base(settings, below, depth, tuple(names))
    ranker.base = None if ranker.base_ is None else ranker.base_.given
    return ranker


def _check_columns(ranker: Ranker, names: list[str]) -> None:
    """Schema, what stands for gaps and categories, and scorer fit the features."""
    schema, filling, width = ranker.schema_, ranker.filling_, len(names)
    known = {} if schema is None else schema.categories
    if schema is not None and [column.name for column in schema.features] != names:
        raise ModelFormatError("The schema of the columns has other features than the model.")
    if filling is not None:
        counts = {j: count for j, count in enumerate(filling.categories) if count}
        if len(filling.medians) != width or any(len(known.get(j, ())) != count for j, count in counts.items()):
            raise ModelFormatError("What stands for gaps and categories does not fit the features.")
        width = filling.width
    if ranker.scorer_.n_features != width:
        raise ModelFormatError(f"The scorer has {ranker.scorer_.n_features} features and the file {width} names.")


def _made(part: str, kept: Any) -> Any:
    """A part of a model file; only registered names are looked up, and nothing is imported that a file names."""
    if kept is None or isinstance(kept, str):
        return kept
    if not isinstance(kept, dict):
        raise ModelFormatError(f"The {part} must be a name, or a name with settings.")
    name, settings = _typed(kept, "name", str), _typed(kept, "settings", dict)
    module: Any = {"loss": losses, "scorer": scorers, "trainer": training, "metric": metrics}[part]
    return module.get(name, **settings)


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
