"""Linear parts of a model, and steps that are sums of trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.errors import SettingError
from luce.export.form import Form, Linear, SecondOrder
from luce.scorers.forest import DEFAULT_LEFT, MISSING_NAN, Forest
from luce.scorers.stumps import FittedStumps
from luce.types import FloatArray

_SMALLEST = 1e-30
"""Deviations beyond this, or its reciprocal, are no good float32 numbers; 1 does as well."""


class Weighted(NamedTuple):
    """`sum of weight (x - mean) / deviation` over the features with a weight; plain weights have no normalizers."""

    weights: dict[str, float]
    normalizers: dict[str, tuple[float, float]]
    """Mean and deviation."""
    remarks: list[str]


class Terms(NamedTuple):
    """A linear model over features, some of which are products that an engine must be given as features."""

    names: list[str]
    linear: Linear
    products: dict[str, tuple[str, str]]


def extra_name(left: str, right: str) -> str:
    """The name of the feature that is a product of two."""
    return f"{left}_x_{right}"


def linear_terms(form: Form) -> Terms | None:
    """A linear model as it is; a second-order one with its products as extra features; None for anything else."""
    part = form.single
    if isinstance(part, Linear):
        return Terms(list(form.names), part, {})
    if not isinstance(part, SecondOrder):
        return None
    weights, pairs, intercept = part.expanded()
    couples = [(form.names[i], form.names[j]) for i, j in zip(part.products.left, part.products.right, strict=True)]
    products = {extra_name(*couple): couple for couple in couples}
    names = [*form.names, *products]
    if len(set(names)) < len(form.names) + len(couples):
        raise SettingError("A product of features would have the name of another feature; rename the features.")
    linear = Linear(np.concatenate([weights, pairs]), intercept, np.zeros(len(names)))
    return Terms(names, linear, products)


def weighted(terms: Terms, folded: bool, place: str, how: str) -> Weighted:
    """Weights and normalizers for a search engine; products are features of `place`, and made as `how` says.

    `folded` gives plain weights and leaves the intercept out.
    """
    remarks = []
    if terms.products:
        first, (left, right) = next(iter(terms.products.items()))
        remarks.append(
            f"The model needs {len(terms.products)} products of features as features of {place}, such as "
            f"{first} = {left} * {right} ({how}; --json lists all)."
        )
    if not folded:
        return normalised(terms.names, terms.linear)._replace(remarks=remarks)
    remarks.append(f"The intercept {terms.linear.intercept:.6g} is left out; the order of documents is the same.")
    return Weighted({n: w for n, w in zip(terms.names, terms.linear.weights.tolist(), strict=True) if w}, {}, remarks)


def normalised(names: list[str], part: Linear) -> Weighted:
    r"""Weights on features moved by equally many deviations each, so that the moves add up to the intercept $b$.

    With $k = b / \sum_i |w_i| \sigma_i$ and $\mu_i = -\operatorname{sign}(w_i) \sigma_i k$,
    $\sum_i w_i \sigma_i (x_i - \mu_i) / \sigma_i = \sum_i w_i x_i + b$. One feature could carry all of b, but then
    $x - \mu$ loses the digits of x in float32.
    """
    used = np.flatnonzero(part.weights)
    if not len(used):
        raise SettingError("The model gives every document the same score, so that there is nothing to rank by.")
    weights = part.weights[used]
    spread = part.deviation[used]
    deviation = np.where((spread > _SMALLEST) & (spread < 1 / _SMALLEST), spread, 1.0)
    steps = part.intercept / float(np.abs(weights) @ deviation)
    mean = -np.sign(weights) * deviation * steps + 0.0
    known = [names[i] for i in used]
    moves = zip(mean.tolist(), deviation.tolist(), strict=True)
    return Weighted(
        dict(zip(known, (weights * deviation).tolist(), strict=True)), dict(zip(known, moves, strict=True)), []
    )


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
