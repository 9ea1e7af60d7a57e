"""Grades as the target of NDCG: gains divided by the ideal DCG of their query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import numpy as np

from luce.errors import DataError, SettingError
from luce.numerics.segments import tiers
from luce.spec import Spec, option
from luce.types import BoolArray, FloatArray, IntArray

DISCOUNTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log2": lambda position: 1.0 / np.log2(position + 1.0),
    "letor": lambda position: np.where(position <= 2, 1.0, 1.0 / np.log2(np.maximum(position, 2.0))),
    "reciprocal": lambda position: 1.0 / position,
}
"""What a gain at each position, from 1 on, is multiplied by: 1 / D of the chapter."""
_PLAIN_POWER = 500.0
"""Powers of two up to this grade are taken as they are; beyond it, relative to the highest of the query."""


def named_or_numbers(*known: str) -> Callable[[str, Any], str | tuple[float, ...]]:
    """The check of a setting that is one of these names, or numbers of at least 0."""

    def convert(name: str, given: Any) -> str | tuple[float, ...]:
        if isinstance(given, str) and given in known:
            return given
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values < 0).any():
            raise SettingError(f"{name} is {given!r}; it must be {', '.join(known)}, or numbers of at least 0.")
        return tuple(values.tolist())

    return convert


class NormalisedGains(NamedTuple):
    """The target of every row, and which queries count."""

    target: FloatArray
    offsets: IntArray
    counted: BoolArray


class GainRule(Spec):
    r"""How grades become a target: $\tilde r = G(r) / \|G(r)\|_D$ with the norm [Pareek] (3.2).

    $\|G(r)\|_D$ is the largest $\sum_j G(r_j) / D(\pi(j))$ over all orders $\pi$, the ideal DCG; with `k`, over the
    first k positions. A query whose grades all gain 0 has $\tilde r = 0$.

    Parameters
    ----------
    gain
        "exponential" $2^r - 1$, "linear" $r$ (negative grades gain 0), or the gains of the grades 0, 1, 2, ....
    discount
        "log2" $1 / \log_2(1 + i)$, "letor" (1 at positions 1 and 2, then $1 / \log_2 i$), "reciprocal" $1 / i$, or the
        weights of positions 1, 2, ...; later positions count 0.
    k
        Positions that count; None is all of them.
    empty
        "skip" or "keep" queries without a document that gains anything.
    """

    _: KW_ONLY
    gain: str | tuple[float, ...] = option(default="exponential", convert=named_or_numbers("exponential", "linear"))
    discount: str | tuple[float, ...] = option(default="log2", convert=named_or_numbers(*DISCOUNTS))
    k: int | None = option(default=None, least=1)
    empty: Literal["skip", "keep"] = "skip"

    def _check(self) -> None:
        if not isinstance(self.gain, str) and np.any(np.diff(self.gain) < 0):
            raise SettingError("gain as numbers must not fall from one grade to the next.")
        if not isinstance(self.discount, str) and (self.discount[0] == 0 or np.any(np.diff(self.discount) > 0)):
            raise SettingError("discount as numbers must start above 0 and must not rise with the position.")

    def normalised(self, labels: FloatArray, offsets: IntArray) -> NormalisedGains:
        """The targets of these queries.

        >>> GainRule().normalised(np.array([1.0, 2.0, 0.0]), np.array([0, 3])).target.round(4).tolist()
        [0.2754, 0.8262, 0.0]
        """
        ideal_order = tiers(labels, offsets).order
        sizes = np.diff(offsets)
        gains = self._gains(labels, offsets)
        position = np.arange(len(labels)) - np.repeat(offsets[:-1], sizes) + 1
        weights = np.zeros(0) if len(labels) == 0 else self._weights(int(sizes.max()))
        ideal = np.add.reduceat(gains[ideal_order] * weights[position - 1], offsets[:-1])
        counted = ideal > 0
        target = gains / np.repeat(np.where(counted, ideal, 1.0), sizes)
        return NormalisedGains(target, offsets, counted if self.empty == "skip" else np.ones_like(counted))

    def _gains(self, labels: FloatArray, offsets: IntArray) -> FloatArray:
        if not isinstance(self.gain, str):
            gains, grade = np.asarray(self.gain), labels.astype(np.int64)
            bad = (grade != labels) | (grade < 0) | (grade >= len(gains))
            if bad.any():
                row = int(np.argmax(bad))
                raise DataError(
                    f"The grade of row {row} is {labels[row]:g}; with gains given by grade it must be a whole number "
                    f"from 0 to {len(gains) - 1}."
                )
            return gains[grade]
        positive = np.maximum(labels, 0.0)
        if self.gain == "linear":
            return positive
        top = np.repeat(np.maximum.reduceat(positive, offsets[:-1]), np.diff(offsets))
        plain = np.expm1(np.minimum(positive, _PLAIN_POWER) * np.log(2.0))
        # Only ratios within a query matter, so that grades beyond any power of two keep theirs.
        return np.where(top <= _PLAIN_POWER, plain, np.where(positive > 0, np.exp2(positive - top), 0.0))

    def _weights(self, longest: int) -> FloatArray:
        if isinstance(self.discount, str):
            weights = DISCOUNTS[self.discount](np.arange(1, longest + 1, dtype=np.float64))
        else:
            weights = np.zeros(longest)
            given = np.asarray(self.discount)[:longest]
            weights[: len(given)] = given
        if self.k is not None:
            weights[self.k :] = 0.0
        return weights
