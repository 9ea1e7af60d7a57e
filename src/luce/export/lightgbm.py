"""LightGBM's text: the trees as they are, categories and missing values included, in float64."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.export.base import Request, Written, refuse
from luce.export.form import Trees
from luce.scorers.forest import CATEGORICAL, Forest

_FORBIDDEN = re.compile(r'[\s",:\[\]{}]')


def write(request: Request) -> Written:
    """A model file for `lightgbm.Booster(model_file=...)`."""
    form = request.form
    if not isinstance(form.single, Trees):
        refuse(form, "LightGBM's text", "it takes trees; the rest goes to onnx or python")
    names = form.names
    bad = next((name for name in names if _FORBIDDEN.search(name)), None)
    if bad is not None:
        raise SettingError(
            f'The feature name {bad!r} cannot be used in LightGBM: blanks and ",:[]{{}} are not allowed; '
            "give --feature-names (feature_names=) a file or mapping with other names."
        )
    forest = form.single.forest
    head = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(names) - 1,
        "objective": "custom",
        "feature_names": " ".join(names),
        "feature_infos": " ".join(["[-inf:inf]"] * len(names)),
    }
    lines = ["tree", *(f"{key}={value}" for key, value in head.items()), ""]
    for tree in range(forest.n_trees):
        lines += [f"Tree={tree}", *_tree(forest, tree), "", ""]
    lines += ["end of trees", "", "parameters:", "end of parameters", "", "pandas_categorical:null", ""]
    return Written("\n".join(lines), ["Load: lightgbm.Booster(model_file=FILE).predict(X)"])


def _tree(forest: Forest, tree: int) -> list[str]:
    nodes = slice(int(forest.nodes[tree]), int(forest.nodes[tree + 1]))
    leaves = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]]
    kind, threshold = forest.kind[nodes], forest.threshold[nodes].copy()
    categorical = np.flatnonzero(kind & CATEGORICAL)
    sets = threshold[categorical].astype(np.int64)
    threshold[categorical] = np.arange(len(categorical))  # a set of its own for every node of this tree
    fields = {"num_leaves": len(leaves), "num_cat": len(categorical)}
    if len(kind):
        bits = [forest.bits[forest.sets[s] : forest.sets[s + 1]] for s in sets]
        fields |= {
            "split_feature": _joined(forest.feature[nodes]),
            "split_gain": _joined(forest.gain[nodes]),
            "threshold": _joined(threshold),
            "decision_type": _joined(kind),
            "left_child": _joined(forest.left[nodes]),
            "right_child": _joined(forest.right[nodes]),
        }
        if bits:
            fields["cat_boundaries"] = _joined(np.cumsum([0, *map(len, bits)]))
            fields["cat_threshold"] = _joined(np.concatenate(bits))
    fields |= {"leaf_value": _joined(leaves), "is_linear": 0, "shrinkage": 1}
    return [f"{key}={value}" for key, value in fields.items()]


def _joined(values: NDArray[Any]) -> Any:
    return " ".join(map(repr, values.tolist()))
