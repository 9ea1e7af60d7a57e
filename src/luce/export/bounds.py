"""How low a form can score: a constant that brings every score to 0 or above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.form import Linear, Network, Part, SecondOrder, Term, Trees

_UNIT = 2.0**-24
"""The relative error of one float32 operation."""


def auto_offset(term: Term, X: NDArray[np.float32] | None) -> float:
    """A constant that brings every score of a term to 0 or above, 0 where none is needed, rounding in float32 included.

    Trees: the sum of the smallest leaves bounds every score, whatever the document. A linear model has no bound of its
    own: X says the range of every feature, 0 always in it since an engine takes 0 for a feature that does not match;
    the bound holds for all documents whose features lie within these ranges. Second order: see `_second_order`.
    """
    low, size, count = _range(term.part, None if X is None else term.matrix(X))
    terms = count + 1
    if low >= 0:
        return 0.0
    # Every partial sum is at most |low| + size; adding `terms` of them in float32 loses at most this much.
    slack = 4 * terms * _UNIT * (size - low)
    return float(np.nextafter(np.float32(slack - low), np.float32(np.inf)))


def _range(part: Part, X: NDArray[np.float32] | None) -> tuple[float, float, int]:
    """A lower bound of the scores, one of the sum of all absolute terms, and the number of terms."""
    if isinstance(part, Trees):
        forest = part.forest
        starts = forest.leaves[:-1]
        least, largest = np.minimum.reduceat(forest.value, starts), np.maximum.reduceat(np.abs(forest.value), starts)
        return float(least.sum()), float(largest.sum()), forest.n_trees
    if isinstance(part, Network):
        raise SettingError("How low a neural network can score is not known; give a number as offset.")
    if X is None:
        raise SettingError(
            f"How low {part.kind} can score depends on the features; give --check DATA (check=), which then "
            "gives a bound, or a number as offset."
        )
    if isinstance(part, Linear):
        ends = part.weights * np.stack([np.minimum(np.fmin.reduce(X), 0.0), np.maximum(np.fmax.reduce(X), 0.0)])
        size = float(np.abs(ends).max(axis=0).sum()) + abs(part.intercept)
        return float(ends.min(axis=0).sum()) + part.intercept, size, len(part.weights) + 1
    return _second_order_bounds(part, X)


def _second_order_bounds(part: SecondOrder, X: NDArray[np.float32]) -> tuple[float, float, int]:
    """The lowest score of the rows and of a document that matches nothing, less the range of these scores once more.

    The ranges of products allow for scores far below any that occurs (on OHSUMED twenty times the range of all scores),
    and so large a constant costs the digits that tell documents apart; so this is no bound, but twice what was seen.
    """
    products = part.products
    rows = np.concatenate([X, np.zeros((1, X.shape[1]), np.float32)])
    scores = products.scores(rows, part.weights, part.pair_weights, precise=True) + part.intercept
    weights, pair_weights, intercept = part.expanded()
    reach = np.abs(X).max(axis=0).astype(np.float64)
    pairs = reach[products.left] * reach[products.right]
    size = float(np.abs(weights) @ reach + np.abs(pair_weights) @ pairs) + abs(intercept)
    return float(scores.min() - np.ptp(scores)), size, len(weights) + len(pairs) + 1
