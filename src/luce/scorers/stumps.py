"""Sums of steps in single features: what boosted threshold rankers leave behind."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import ModelFormatError
from luce.scorers.forest import DEFAULT_LEFT, MISSING_NAN, Forest
from luce.scorers.saved import Fitted, array, counted_features
from luce.types import Features, FloatArray, IntArray


class FittedStumps(Fitted):
    r"""Scores $f(x) = \sum_s w_s [x_{k(s)} > \theta_s]$; a missing $x_{k(s)}$ adds $m_s$ instead.

    The steps are sorted by feature and threshold, and no two have both in common.
    """

    feature: IntArray = array("steps", dtype=np.int64)
    threshold: FloatArray = array("steps")
    weight: FloatArray = array("steps")
    missing: FloatArray = array("steps")
    n_features: int = counted_features()

    name = "stumps"
    importance_is = "range of the score over the feature"

    @classmethod
    def of(
        cls, feature: ArrayLike, threshold: ArrayLike, weight: ArrayLike, missing: ArrayLike, n_features: int
    ) -> FittedStumps:
        """The sum of these steps, in any order; steps at the same place become one.

        >>> FittedStumps.of([1, 0, 1], [0.5, 0.5, 0.5], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 2).weight.tolist()
        [2.0, 4.0]
        """
        places = np.empty(np.size(feature), dtype=[("feature", np.int64), ("threshold", np.float64)])
        places["feature"], places["threshold"] = feature, threshold
        unique, index = np.unique(places, return_inverse=True)
        weights, missed = (
            np.bincount(index, np.asarray(values, dtype=np.float64), minlength=len(unique)).astype(np.float64)
            for values in (weight, missing)
        )
        at, above = (np.ascontiguousarray(unique[name]) for name in ("feature", "threshold"))
        return cls(at, above, weights, missed, n_features)

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row; each depends on its own row only."""
        return self.forest.score(X)

    @cached_property
    def forest(self) -> Forest:
        """Trees that score every row as the steps do, missing values included.

        >>> steps = FittedStumps.of([0, 0], [1.0, 2.0], [10.0, 5.0], [3.0, 4.0], 1)
        >>> steps.forest.score(np.array([[1.0], [1.5], [3.0], [np.nan]], dtype=np.float32)).tolist()
        [0.0, 10.0, 15.0, 7.0]
        """
        trees = []
        for feature in np.unique(self.feature):
            chosen = self.feature == feature
            values = np.concatenate([[0.0], np.cumsum(self.weight[chosen])])
            trees.append(_tree(int(feature), self.threshold[chosen], values, float(self.missing[chosen].sum())))
        return Forest.joined(trees) if trees else Forest.constant(0.0)

    def importance(self) -> FloatArray:
        """For every feature, by how much it can move the score: the range of its sum of steps."""
        result = np.zeros(self.n_features)
        for feature in np.unique(self.feature):
            path = np.cumsum(self.weight[self.feature == feature])
            result[feature] = max(path.max(), 0.0) - min(path.min(), 0.0)
        return result

    def _check(self) -> None:
        feature, threshold = self.feature, self.threshold
        if np.any(feature < 0) or np.any(feature >= self.n_features):
            raise ModelFormatError(f"The features of stumps must be from 0 to {self.n_features - 1}.")
        same = feature[1:] == feature[:-1]
        if not np.all((feature[1:] > feature[:-1]) | (same & (threshold[1:] > threshold[:-1]))):
            raise ModelFormatError("Stumps must be sorted by feature and threshold, each place once.")


_BELOW_ALL = -np.finfo(np.float64).max


def _tree(feature: int, thresholds: FloatArray, values: FloatArray, missing: float) -> Forest:
    """A search tree over rising thresholds; a missing value goes to a leaf that fits it, or to one of its own."""
    left, right, threshold = _search_tree(len(thresholds))
    threshold_values = thresholds[threshold]
    kind = MISSING_NAN | (DEFAULT_LEFT if missing == values[0] else 0)
    if missing not in (values[0], values[-1]):
        # A root that no number passes to the left: everything below moves down by one node and up by one leaf.
        left, right = ([c + 1 if c >= 0 else c - 1 for c in side] for side in (left, right))
        left, right = [-1, *left], [1, *right]
        threshold_values = np.concatenate([[_BELOW_ALL], threshold_values])
        values, kind = np.concatenate([[missing], values]), MISSING_NAN | DEFAULT_LEFT
    n = len(left)
    same = {"feature": np.full(n, feature), "kind": np.full(n, kind)}
    return Forest.tree(threshold=threshold_values, left=left, right=right, value=values, **same)


def _search_tree(n: int) -> tuple[list[int], list[int], list[int]]:
    """Children and threshold of every node of a balanced tree over thresholds 0 to n - 1 and leaves 0 to n."""
    nodes: list[tuple[int, int, int]] = []

    def grow(low: int, high: int) -> int:
        if low == high:
            return -low - 1
        middle, node = (low + high) // 2, len(nodes)
        nodes.append((0, 0, middle))  # a parent comes before its children
        nodes[node] = (grow(low, middle), grow(middle + 1, high), middle)
        return node

    grow(0, n)
    left, right, threshold = map(list, zip(*nodes, strict=True))
    return left, right, threshold
