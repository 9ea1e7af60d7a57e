"""Regression trees as weak learners of listwise boosting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.scorers.forest import Forest
from luce.scorers.from_lightgbm import forest_of
from luce.scorers.trees import FittedTrees
from luce.scorers.weak_learners import GradientTrees
from luce.training.boosting import make_boosters
from luce.types import FittedScorer, FloatArray


class TreeSum:
    """Trees fitted to the gradient by least squares: LightGBM with a curvature of 1 everywhere.

    The engine grows a tree and forgets it again; what is added, and with which weight, is kept here.
    """

    def __init__(self, scorer: GradientTrees, data: Groups, start: FittedScorer | None) -> None:
        self.data, self.settings = data, scorer.engine()
        self.booster = make_boosters(self.settings, data, None)[0]
        self.start = start.forest if isinstance(start, FittedTrees) else Forest.empty()
        self.trees: list[Forest] = []
        self._chosen = Forest.empty()
        self.unit: float | None = None
        """What the tree chosen last has to be multiplied by to be like -d."""

    def choose(self, d: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """A tree on drawn documents and features."""
        rows, columns = self.data.X.shape
        self.unit = float(np.abs(d).max())
        gradient, curvature = (d / (self.unit or 1.0)).astype(np.float32), np.ones(rows, dtype=np.float32)
        if self.settings.bagging_fraction < 1:
            left_out = rng.random(rows) >= self.settings.bagging_fraction
            gradient[left_out] = curvature[left_out] = 0.0
        if self.settings.feature_fraction < 1:
            kept = np.zeros(columns)
            count = max(1, round(columns * self.settings.feature_fraction))
            kept[rng.choice(columns, count, replace=False)] = 1.0
            self.booster.reset_parameter({"feature_contri": [float(share) for share in kept]})
        self.booster.update(fobj=lambda scores, _: (gradient, curvature))
        if self.booster.current_iteration() == 0:
            return None
        self._chosen = forest_of(self.booster)
        self.booster.rollback_one_iter()
        values = self._chosen.score(self.data.X)
        return values if len(self._chosen.feature) else None

    def values(self, X: NDArray[np.float32]) -> FloatArray:
        """Leaves of these rows."""
        return self._chosen.score(X)

    def add(self, alpha: float) -> None:
        """The tree, its leaves times alpha."""
        self.trees.append(replace(self._chosen, value=alpha * self._chosen.value))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All trees."""
        self.trees = [Forest.joined(self.trees)]
        return {f"tree.{name}": array for name, array in self.trees[0].arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """All trees."""
        own = {name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")}
        self.trees = [Forest.from_arrays(own, self.data.n_features)]

    def fitted(self, rounds: int | None = None) -> FittedTrees:
        """A forest."""
        grown = Forest.joined(self.trees)
        kept = grown if rounds is None else grown.first(rounds)
        return FittedTrees(Forest.joined([self.start, kept]), self.data.n_features)
