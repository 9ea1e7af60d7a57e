"""Shapley values by their definition, for models of a few features."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np

import luce


def shapley_by_enumeration(model: Any, one: Any, two: Any) -> Any:
    """Mean effect of each feature over all orders in which `one`'s features replace those of `two`."""
    n = len(one)
    subsets = [frozenset(chosen) for size in range(n + 1) for chosen in combinations(range(n), size)]
    rows = np.array([[one[i] if i in chosen else two[i] for i in range(n)] for chosen in subsets], dtype=np.float32)
    named = luce.from_arrays(rows, feature_names=model.feature_names_, allow_nan=True)
    value = dict(zip(subsets, model.predict(named), strict=True))
    return np.array(
        [
            sum(
                factorial(len(chosen))
                * factorial(n - len(chosen) - 1)
                / factorial(n)
                * (value[chosen | {i}] - value[chosen])
                for chosen in subsets
                if i not in chosen
            )
            for i in range(n)
        ]
    )
