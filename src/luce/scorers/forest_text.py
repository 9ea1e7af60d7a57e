"""Trees as LightGBM writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.scorers.forest import CATEGORICAL, Forest


def lightgbm_text(forest: Forest, names: Sequence[str]) -> str:
    """A model file for `lightgbm.Booster(model_file=...)`."""
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
    return "\n".join(lines)


def _tree(forest: Forest, tree: int) -> list[str]:
    nodes = slice(int(forest.nodes[tree]), int(forest.nodes[tree + 1]))
    own = slice(int(forest.leaves[tree]), int(forest.leaves[tree + 1]))
    kind, threshold = forest.kind[nodes], forest.threshold[nodes].copy()
    categorical = np.flatnonzero(kind & CATEGORICAL)
    sets = threshold[categorical].astype(np.int64)
    threshold[categorical] = np.arange(len(categorical))  # a set of its own for every node of this tree
    fields: dict[str, Any] = {"num_leaves": own.stop - own.start, "num_cat": len(categorical)}
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
        if len(forest.count):
            fields["leaf_count"] = _joined(forest.count[own])
            fields["internal_count"] = " ".join(map(repr, forest.node_counts(tree)))
    fields |= {"leaf_value": _joined(forest.value[own]), "is_linear": 0, "shrinkage": 1}
    return [f"{key}={value}" for key, value in fields.items()]


def _joined(values: NDArray[Any]) -> Any:
    return " ".join(map(repr, values.tolist()))
