"""What a model file holds of a scorer, checked: anything out of place raises `ModelFormatError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from luce.checks import is_whole
from luce.errors import ModelFormatError


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
    raise ModelFormatError(f"The scorer {scorer!r} needs finite numbers of shape {expected} as {name!r}.")


def feature_count(scorer: str, settings: Mapping[str, Any]) -> int:
    """The number of features that a row must have."""
    count = settings.get("n_features")
    if not is_whole(count, 1, 2**31 - 1):
        raise ModelFormatError(f"The scorer {scorer!r} needs a number of features; the file has {count!r}.")
    return count


def below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a scorer inside another one, by their own names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
