"""What a model file holds of a scorer, declared once and checked: anything out of place raises `ModelFormatError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Self, dataclass_transform, get_args, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from luce.checks import is_whole
from luce.errors import ModelFormatError, SettingError
from luce.spec import Rule, checked, option

_FEATURES = "features"


class _Array(NamedTuple):
    shape: tuple[str, ...]
    dtype: DTypeLike
    key: str | None


def array(*shape: str, dtype: DTypeLike = np.float64, key: str | None = None, default: Any = MISSING) -> Any:
    """A field of finite numbers, under `key` in a file; lengths of one name are equal, and "any" is any length."""
    return field(default=default, metadata={"array": _Array(shape, dtype, key)})


def counted_features() -> Any:
    """A field with the number of features, where no array tells it."""
    return option(convert=_feature_count)


def _feature_count(name: str, count: Any) -> int:
    if not is_whole(count, 1, 2**31 - 1):
        raise SettingError(f"it needs a number of features; the file has {count!r}.")
    return count


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(array, counted_features, option, field))
class Fitted:
    """A scorer for prediction, a frozen dataclass: its fields are what a model file keeps.

    An `array` is checked by its shape, any other field as those of a `luce.spec.Spec`; a fitted scorer below this one
    is kept under the name of its kind. What has `arrays` and `from_arrays` itself, as a forest, says what is wrong.
    """

    name = ""
    needs_queries = False

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        dataclass(frozen=True, eq=False)(cls)

    @cached_property
    def n_features(self) -> int:
        """Features that a row must have."""
        shapes = {each.name: each.metadata["array"].shape for each in fields(self) if "array" in each.metadata}  # type: ignore[arg-type]
        name = next(name for name, shape in shapes.items() if _FEATURES in shape)
        return int(getattr(self, name).shape[shapes[name].index(_FEATURES)])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        settings: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for each in fields(self):  # type: ignore[arg-type]
            value, shape = getattr(self, each.name), each.metadata.get("array")
            if isinstance(value, Fitted):
                settings[value.name], found = value.state()
                arrays |= {f"{value.name}.{name}": array for name, array in found.items()}
            elif hasattr(value, "from_arrays"):
                arrays |= value.arrays()
            elif shape is not None and value is not None:
                arrays[shape.key or each.name] = value
            elif hasattr(value, "to_dict"):
                settings[each.name] = value.to_dict()
            elif shape is None and "below" not in each.metadata:
                settings[each.name] = list(value) if isinstance(value, tuple) else value
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        hints, given = get_type_hints(cls), dict[str, Any]()
        count = settings.get("n_features")
        lengths = {_FEATURES: count} if is_whole(count) else {}
        for each in sorted(fields(cls), key=lambda each: "array" in each.metadata):  # type: ignore[arg-type]
            shape = each.metadata.get("array")
            if "below" in each.metadata:
                (kind,) = (kind for kind in get_args(hints[each.name]) if issubclass(kind, Fitted))
                given[each.name] = kind.under(cls.name, settings, arrays, cls._width_below(given, count or 0))
            elif hasattr(hints[each.name], "from_arrays"):
                given[each.name] = hints[each.name].from_arrays(arrays, feature_count(cls.name, settings))
            elif shape is not None:
                if (shape.key or each.name) in arrays or each.default is MISSING:
                    given[each.name] = _read(cls.name, arrays, shape.key or each.name, shape, lengths)
            elif each.name in settings or each.default is MISSING:
                try:
                    rule = each.metadata.get("rule", Rule())
                    given[each.name] = checked(each.name, settings.get(each.name), hints[each.name], rule)
                except (SettingError, TypeError, AttributeError) as error:
                    raise ModelFormatError(f"The scorer {cls.name!r} of the file is not allowed: {error}") from error
        made = cls(**given)
        made._check()
        return made

    def _check(self) -> None:
        """What does not go together in a file, for scorers that have such."""

    @classmethod
    def _width_below(cls, given: Mapping[str, Any], n_features: int) -> int:
        """Features of a scorer that this one stands on."""
        return n_features

    @classmethod
    def under(
        cls, owner: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
    ) -> Self | None:
        """The scorer of this kind that another one of a model file stands on, None where there is none."""
        if cls.name not in settings:
            return None
        if not isinstance(settings[cls.name], dict):
            raise ModelFormatError(f"The {cls.name} base of the scorer {owner!r} needs settings.")
        found = cls.from_state(settings[cls.name], below(f"{cls.name}.", arrays))
        if found.n_features != n_features:
            raise ModelFormatError(f"The {cls.name} base of the scorer {owner!r} has another number of features.")
        return found


def standing_on() -> Any:
    """A field for a scorer on which this one stands, or None."""
    return field(default=None, metadata={"below": True})


def _read(
    scorer: str, arrays: Mapping[str, NDArray[Any]], name: str, kind: _Array, lengths: dict[str, int]
) -> NDArray[Any]:
    """An array whose lengths go with those that are known; its own are then known."""
    found = finite(scorer, arrays, name, tuple(lengths.get(length) for length in kind.shape), kind.dtype)
    lengths |= {length: size for length, size in zip(kind.shape, found.shape, strict=True) if length != "any"}
    return found


def finite(
    scorer: str,
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int | None, ...],
    dtype: DTypeLike = np.float64,
) -> NDArray[Any]:
    """An array of finite numbers of that shape, in which None stands for any length.

    >>> finite("linear", {"weights": np.ones(3)}, "weights", (2,))
    Traceback (most recent call last):
        ...
    luce.errors.ModelFormatError: The scorer 'linear' needs finite numbers of shape 2 as 'weights'.
    """
    array = arrays.get(name)
    if array is not None and array.dtype == dtype and array.ndim == len(shape) and np.isfinite(array).all():
        misfits = [length for wanted, length in zip(shape, array.shape, strict=True) if wanted not in (None, length)]
        if not misfits:
            return array
    expected = " x ".join("any" if length is None else str(length) for length in shape)
    kind = "finite" if np.dtype(dtype).kind == "f" else "whole"
    raise ModelFormatError(f"The scorer {scorer!r} needs {kind} numbers of shape {expected} as {name!r}.")


def feature_count(scorer: str, settings: Mapping[str, Any]) -> int:
    """The number of features that a row must have."""
    try:
        return _feature_count("n_features", settings.get("n_features"))
    except SettingError as error:
        raise ModelFormatError(f"The scorer {scorer!r} of the file is not allowed: {error}") from error


def below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a scorer inside another one, by their own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
