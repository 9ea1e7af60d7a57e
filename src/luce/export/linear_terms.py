"""Linear models for engines without an intercept: it goes into the means of standard normalizers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.errors import SettingError
from luce.export.form import Form, Linear, SecondOrder
from luce.types import FloatArray

_SMALLEST = 1e-30
"""Deviations beyond this, or its reciprocal, are no good float32 numbers; 1 does as well."""


class Normalised(NamedTuple):
    """`sum of weight (x - mean) / deviation` over the features with a weight."""

    names: list[str]
    weight: FloatArray
    mean: FloatArray
    deviation: FloatArray


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


def normalised(names: list[str], part: Linear) -> Normalised:
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
    mean = -np.sign(weights) * deviation * steps
    return Normalised([names[i] for i in used], weights * deviation, mean + 0.0, deviation)
