"""The trees of a LightGBM booster of this process as arrays.

The text that is read here was written a moment ago by LightGBM itself, never found in a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.scorers.forest import Forest


def forest_of(booster: Any, first: int = 0) -> Forest:
    """All trees of a booster from number `first` on; numbers are written with 17 digits, so no bit is lost."""
    return Forest.joined(trees_of(booster, first))


def trees_of(booster: Any, first: int = 0) -> list[Forest]:
    """The same, tree by tree."""
    text = booster.model_to_string(start_iteration=first, num_iteration=-1)
    return [_tree(fields) for fields in _trees(text)]


def _trees(text: str) -> Iterator[dict[str, str]]:
    body = text.partition("\nend of trees")[0]
    for part in body.split("\nTree=")[1:]:
        yield dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)


def _tree(fields: dict[str, str]) -> Forest:
    if fields.get("is_linear", "0") != "0":
        raise SettingError("Trees with linear leaves cannot be kept in a model; leave linear_tree out.")

    def vector(name: str, dtype: Any) -> NDArray[Any]:
        return np.array(fields.get(name, "").split(), dtype=dtype)

    kind = vector("decision_type", np.uint8)
    n_nodes = len(kind)
    return Forest(
        nodes=np.array([0, n_nodes]),
        leaves=np.array([0, n_nodes + 1]),
        feature=vector("split_feature", np.int32),
        # A split of what is missing from all else has an infinite threshold; arrays hold finite numbers only.
        threshold=np.nan_to_num(vector("threshold", np.float64)),
        left=vector("left_child", np.int32),
        right=vector("right_child", np.int32),
        kind=kind,
        gain=vector("split_gain", np.float64),
        value=vector("leaf_value", np.float64),
        sets=vector("cat_boundaries", np.int64) if "cat_boundaries" in fields else np.zeros(1, np.int64),
        bits=vector("cat_threshold", np.uint32),
    )
