"""The scorer `blend`: a sum of trees and a linear score, one function of one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.filling import Filling
from luce.errors import DataError, ModelFormatError
from luce.scorers.forest import Forest
from luce.scorers.linear import FittedLinear
from luce.scorers.saved import feature_count
from luce.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FittedBlend:
    """Trees on the features as they are, and a linear score on what stands for gaps and categories."""

    forest: Forest
    linear: FittedLinear | None
    filling: Filling | None
    """How gaps and categories become numbers for the linear score; None where the features are numbers already."""
    n_features: int
    linear_share: float
    """The weight of linear members, by which their effects count beside the gains of trees."""

    name = "blend"
    needs_queries = False
    importance_is = "share of the gain of trees and of the effects of linear members"

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        scores = np.zeros(len(X))
        if self.linear is not None:
            scores += self.linear.score(self._filled(X), offsets)
        self.forest.add_scores(X, scores)
        return scores

    def _filled(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """The columns of the linear score; no copy where they are the features and there is no gap."""
        if self.filling is None or (self.filling.is_plain and not np.isnan(X).any()):
            return X
        return self.filling.matrix(X)

    def importance(self) -> FloatArray:
        """Shares of the features: gains of trees and effects of linear members, each kind by its weight."""
        gain = np.bincount(self.forest.feature, self.forest.gain, self.n_features).astype(np.float64)
        found = (1.0 - self.linear_share) * _shares(gain)
        if self.linear is not None:
            found += self.linear_share * _shares(self._effects(self.linear))
        return found

    def _effects(self, linear: FittedLinear) -> FloatArray:
        """Effects of the features, those of what stands for one summed."""
        effects = np.abs(linear.importance())
        if self.filling is None:
            return effects
        return np.bincount(self.filling.owners, effects, self.n_features).astype(np.float64)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        settings: dict[str, Any] = {"n_features": self.n_features, "linear_share": self.linear_share}
        arrays = self.forest.arrays()
        if self.linear is not None:
            settings["linear"], found = self.linear.state()
            arrays |= {f"linear.{name}": array for name, array in found.items()}
        if self.filling is not None:
            settings["filling"] = self.filling.to_dict()
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedBlend:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        width, share = feature_count(cls.name, settings), settings.get("linear_share")
        if type(share) is not float or not 0.0 <= share <= 1.0:
            raise ModelFormatError(f"A blend needs the share of its linear members; the file has {share!r}.")
        filling = _filling(settings.get("filling"), width)
        linear = FittedLinear.under(cls.name, settings, arrays, width if filling is None else filling.width)
        return cls(Forest.from_arrays(arrays, width), linear, filling, width, share)


def _shares(values: FloatArray) -> FloatArray:
    total = float(values.sum())
    return values / total if total > 0 else np.zeros_like(values, dtype=np.float64)


def _filling(kept: Any, width: int) -> Filling | None:
    if kept is None:
        return None
    try:
        filling = Filling.from_dict(kept)
    except DataError as error:
        raise ModelFormatError(f"In a blend, {error}.") from error
    if len(filling.medians) != width or len(filling.categories) != width:
        raise ModelFormatError("What stands for gaps and categories in a blend does not fit the features.")
    return filling
