"""Weights of pairs by the position of their better document in the ideal order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from luce.errors import SettingError
from luce.numerics.segments import Tiers
from luce.types import FloatArray

DISCOUNTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log2": lambda position: 1.0 / np.log2(position + 1.0),
    "reciprocal": lambda position: 1.0 / position,
}


def checked_weights(weights: str | Sequence[float] | None) -> str | tuple[float, ...] | None:
    """The name of a discount, or the weights of positions 1, 2, ...; an error for anything else."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights not in DISCOUNTS:
            raise SettingError(f"position_weight={weights!r} is not known; choose one of {', '.join(DISCOUNTS)}.")
        return weights
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values < 0).any():
        raise SettingError("position_weight needs finite numbers of at least 0, those of positions 1, 2, ....")
    return tuple(values.tolist())


def weights_of_tiers(weights: str | tuple[float, ...], by_grade: Tiers) -> FloatArray:
    """One weight a tier: the mean over the positions that it fills in the ideal order.

    >>> by_grade = Tiers(np.arange(4), np.array([0, 1, 3, 4]), np.array([0, 3]))
    >>> weights_of_tiers((3.0, 2.0, 1.0), by_grade).tolist()
    [3.0, 1.5, 1.0]
    """
    first = by_grade.starts[by_grade.queries[:-1]]
    rows_before = np.repeat(first, np.diff(by_grade.starts[by_grade.queries]))
    position = (np.arange(by_grade.starts[-1]) - rows_before + 1).astype(np.float64)
    if isinstance(weights, str):
        each = DISCOUNTS[weights](position)
    else:
        each = np.asarray(weights)[np.minimum(position.astype(np.int64), len(weights)) - 1]
    return np.add.reduceat(each, by_grade.starts[:-1]) / np.diff(by_grade.starts)
