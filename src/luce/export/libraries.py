"""Models for LightGBM and XGBoost."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.export.engine_terms import in_order
from luce.export.request import Request, Written, check_names, filled_outside, refuse
from luce.export.search_engines import tree_list
from luce.export.tree_nodes import above, check_plain, missing_goes_left
from luce.form import Form, Linear, Trees
from luce.scorers.boosters import lightgbm_text
from luce.scorers.forest import Forest

_ALLOWED = re.compile(r'[^\s",:\[\]{}]*')


def write_lightgbm(request: Request) -> Written:
    """A model file for `lightgbm.Booster(model_file=...)`."""
    form = in_order(request.form, "LightGBM's text")
    names, part = form.names, form.parts[0]
    if not isinstance(part, Trees):
        refuse(form, "LightGBM's text", "it takes trees; the rest goes to onnx or python")
    check_names(names, "LightGBM", _ALLOWED, 'blanks and ",:[]{} are not allowed')
    remarks = [*filled_outside(request.form), "Load: lightgbm.Booster(model_file=FILE).predict(X)"]
    return Written([lightgbm_text(part.forest, names)], remarks)


_VERSION = (2, 1, 0)
_NO_PARENT = 2**31 - 1
_ALLOWED_XGBOOST = re.compile(r"[^\[\]<]*")


def write_xgboost(request: Request) -> Written:
    """A model file for `xgboost.Booster(model_file=...)`: `gbtree` for trees, `gblinear` for linear models."""
    form = in_order(request.form, "XGBoost")
    check_names(form.names, "XGBoost", _ALLOWED_XGBOOST, "'[', ']' and '<' are not allowed")
    part = form.parts[0]
    if isinstance(part, Trees):
        check_plain(part.forest, form.names, "XGBoost JSON")
        booster = _gbtree(part.forest, len(form.names))
    else:
        assert isinstance(part, Linear)
        weights = [*part.weights.astype(np.float32).astype(float).tolist(), float(np.float32(part.intercept))]
        booster = {"model": {"weights": weights}, "name": "gblinear"}
    remark = "Load: xgboost.Booster(model_file=FILE).predict(xgboost.DMatrix(X, feature_names=NAMES))"
    content = json.dumps(_learner(form, booster), allow_nan=False) + "\n"
    return Written([content], [*filled_outside(request.form), remark])


def write_dump(request: Request) -> Written:
    """The trees as `get_dump(dump_format="json")` lists them: the `definition` of Elasticsearch's xgboost+json."""
    form = in_order(request.form, "XGBoost's dump of trees")
    part = form.parts[0]
    if not isinstance(part, Trees):
        refuse(form, "XGBoost's dump of trees", "linear models go to xgboost-json, networks to onnx")
    trees = tree_list(part, form.names, "XGBoost's dump")
    return Written([json.dumps(trees, allow_nan=False) + "\n"], filled_outside(request.form))


def _learner(form: Form, booster: dict[str, Any]) -> dict[str, Any]:
    return {
        "learner": {
            "attributes": {},
            "feature_names": list(form.names),
            "feature_types": ["float"] * len(form.names),
            "gradient_booster": booster,
            "learner_model_param": {
                "base_score": "0E0",
                "boost_from_average": "0",
                "num_class": "0",
                "num_feature": str(len(form.names)),
                "num_target": "1",
            },
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": list(_VERSION),
    }


def _gbtree(forest: Forest, n_features: int) -> dict[str, Any]:
    conditions, to_left = above(forest.threshold), missing_goes_left(forest)
    trees = [_tree_xgboost(forest, tree, conditions, to_left, n_features) for tree in range(forest.n_trees)]
    count = {"num_parallel_tree": "1", "num_trees": str(forest.n_trees)}
    ends = list(range(forest.n_trees + 1))
    model = {"gbtree_model_param": count, "iteration_indptr": ends, "tree_info": [0] * forest.n_trees, "trees": trees}
    return {"model": model, "name": "gbtree"}


def _tree_xgboost(
    forest: Forest, tree: int, conditions: NDArray[np.float32], to_left: NDArray[np.bool_], n_features: int
) -> dict[str, Any]:
    nodes = slice(int(forest.nodes[tree]), int(forest.nodes[tree + 1]))
    leaves = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]].astype(np.float32)
    left, right = forest.left[nodes].tolist(), forest.right[nodes].tolist()
    count, size = len(left), len(left) + len(leaves)
    place, parents = _numbered(left, right)
    inner, ends = place[:count], place[count:]

    def spread(of_nodes: ArrayLike, of_leaves: ArrayLike, dtype: Any = np.int64) -> list[Any]:
        values = np.empty(size, dtype)
        values[inner], values[ends] = of_nodes, of_leaves
        return values.tolist()

    children = [[place[c if c >= 0 else count - c - 1] for c in side] for side in (left, right)]
    zeros = [0.0] * size
    return {
        "base_weights": zeros,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": spread(to_left[nodes], 0),
        "id": tree,
        "left_children": spread(children[0], -1),
        "loss_changes": spread(forest.gain[nodes], 0.0, np.float64),
        "parents": parents,
        "right_children": spread(children[1], -1),
        "split_conditions": spread(conditions[nodes], leaves, np.float64),
        "split_indices": spread(forest.feature[nodes], 0),
        "split_type": [0] * size,
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(size),
            "size_leaf_vector": "1",
        },
    }


def _numbered(left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
    """XGBoost's numbers of the nodes and then of the leaves, and the parent of every number.

    XGBoost finds the right child beside the left one, so that siblings get numbers side by side.

    >>> _numbered([1, -1], [-3, -2])
    ([0, 1, 3, 4, 2], [2147483647, 0, 0, 1, 1])
    """
    count = len(left)
    place, parents = [0] * (2 * count + 1), [_NO_PARENT]
    for i in range(count):  # parents come before their children
        for child in (left[i], right[i]):
            place[child if child >= 0 else count - child - 1] = len(parents)
            parents.append(place[i])
    return place, parents
