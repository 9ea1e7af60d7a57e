"""Sums of steps in single features as trees: one balanced tree a feature."""

from __future__ import annotations

import numpy as np

from luce.scorers.forest import DEFAULT_LEFT, MISSING_NAN, Forest
from luce.scorers.stumps import FittedStumps
from luce.types import FloatArray

_BELOW_ALL = -np.finfo(np.float64).max


def forest_of_steps(stumps: FittedStumps) -> Forest:
    """Trees that score every row as the steps do, missing values included.

    >>> steps = FittedStumps.of([0, 0], [1.0, 2.0], [10.0, 5.0], [3.0, 4.0], 1)
    >>> forest_of_steps(steps).score(np.array([[1.0], [1.5], [3.0], [np.nan]], dtype=np.float32)).tolist()
    [0.0, 10.0, 15.0, 7.0]
    """
    trees = []
    for feature in np.unique(stumps.feature):
        chosen = stumps.feature == feature
        values = np.concatenate([[0.0], np.cumsum(stumps.weight[chosen])])
        trees.append(_tree(int(feature), stumps.threshold[chosen], values, float(stumps.missing[chosen].sum())))
    return Forest.joined(trees) if trees else Forest.constant(0.0)


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
    return Forest(
        nodes=np.array([0, n]),
        leaves=np.array([0, n + 1]),
        feature=np.full(n, feature, np.int32),
        threshold=threshold_values.astype(np.float64),
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        kind=np.full(n, kind, np.uint8),
        gain=np.zeros(n),
        value=values.astype(np.float64),
        sets=np.zeros(1, np.int64),
        bits=np.zeros(0, np.uint32),
    )


def _search_tree(n: int) -> tuple[list[int], list[int], list[int]]:
    """Children and threshold of every node of a balanced tree over thresholds 0 to n - 1 and leaves 0 to n."""
    left, right, threshold = [0] * n, [0] * n, [0] * n
    waiting, used = [(0, 0, n)], 1
    while waiting:
        node, low, high = waiting.pop()
        middle = (low + high) // 2
        threshold[node] = middle
        for side, (a, b) in ((left, (low, middle)), (right, (middle + 1, high))):
            if a == b:
                side[node] = -a - 1
            else:
                side[node] = used
                waiting.append((used, a, b))
                used += 1
    return left, right, threshold
