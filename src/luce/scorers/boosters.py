"""Trees of LightGBM and XGBoost, in memory or in their files, as a fitted scorer `trees`, and trees for LightGBM.

Texts and JSON are read here and not by the libraries, whose readers abort or crash on damaged ones; what they hold is
checked as the trees of a model file are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import MissingExtraError, ModelFormatError, SettingError
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, Forest, trees_of_text
from luce.scorers.trees import FittedTrees
from luce.storage import restoring

_LIGHTGBM, _XGBOOST = "LightGBM", "XGBoost"


@dataclass(frozen=True, eq=False)
class ForeignTrees:
    """The trees of a model of another library; scores are those before any link."""

    library: str
    scorer: FittedTrees
    feature_names: tuple[str, ...]
    """Empty where the library made them up."""


def library_of(given: Any) -> str | None:
    """The library of a model in memory: LightGBM, XGBoost or None; neither is imported.

    >>> library_of("a text") is None
    True
    """
    homes = {kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    return _LIGHTGBM if "lightgbm" in homes else _XGBOOST if "xgboost" in homes else None


def library_of_file(path: str | Path) -> str | None:
    """The library that wrote a file, by its first bytes; None for any other file."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as stream:
        head = stream.read(64)
    if head.startswith((b"tree\n", b"tree\r\n")):
        return _LIGHTGBM
    return _XGBOOST if head.startswith(b"{") and b"learner" in head else None


def trees_in_memory(given: Any) -> ForeignTrees:
    """The trees of a booster, or of a fitted estimator around one."""
    kind = type(given).__name__
    if library_of(given) == _LIGHTGBM:
        booster = getattr(given, "booster_", None) if hasattr(given, "fit") else given
        if booster is None:
            raise _not_fitted(kind)
        if not hasattr(booster, "model_to_string"):
            raise SettingError(f"The model of LightGBM is a {kind}; give a Booster or a fitted LGBMRanker.")
        return _lightgbm(booster.model_to_string(num_iteration=booster.best_iteration))  # as its predict does
    estimator = hasattr(given, "get_booster")
    if not estimator and not hasattr(given, "save_raw"):
        raise SettingError(f"The model of XGBoost is a {kind}; give a Booster or a fitted XGBRanker.")
    if estimator and not given.__sklearn_is_fitted__():
        raise _not_fitted(kind)
    missing = given.missing if estimator else math.nan
    if missing is not None and not math.isnan(missing):
        raise SettingError(f"The {kind} takes {missing:g} for missing, and luce takes NaN; train it with missing=nan.")
    booster = given.get_booster() if estimator else given
    return _xgboost(json.loads(bytes(booster.save_raw("json"))), estimator)


def trees_of_file(path: str | Path) -> ForeignTrees:
    """The trees of a file that LightGBM or XGBoost wrote; `ModelFormatError` for whatever is wrong in it."""
    content = Path(path).read_bytes()
    try:
        with restoring(path):
            if library_of_file(path) == _LIGHTGBM:
                return _lightgbm(content.decode())
            model = json.loads(content) if content[1:].lstrip().startswith(b'"') else None
            if model is not None:
                return _xgboost(model)
    except ModelFormatError as error:
        if isinstance(error.__cause__, SettingError):  # a sound model of a kind that luce does not take
            raise SettingError(f"{path}: {error.__cause__}") from error
        raise
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError(f"{path}, a model of XGBoost in binary form,", "xgboost") from error
    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(content))
    except xgboost.core.XGBoostError as error:
        raise ModelFormatError(f"{path} is no model that XGBoost can read, or it is damaged.") from error
    return _xgboost(json.loads(bytes(booster.save_raw("json"))))


def _not_fitted(kind: str) -> SettingError:
    return SettingError(f"The {kind} is not fitted, and luce does not fit models of others; fit it first.")


def _checked(library: str, forest: Forest, n_features: int, names: list[str]) -> ForeignTrees:
    if forest.n_trees == 0:
        raise SettingError(f"The model of {library} has no trees; train it first.")
    scorer = FittedTrees(Forest.from_arrays(forest.arrays(), n_features), n_features)
    return ForeignTrees(library, scorer, tuple(names))


def _lightgbm(text: str) -> ForeignTrees:
    head, _, rest = text.replace("\r\n", "\n").partition("\nTree=0\n")
    fields = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    if fields["num_tree_per_iteration"] != "1":
        raise SettingError("The model of LightGBM has several scores a row, one a class; give one of a ranking.")
    if "pandas_categorical:" in rest and rest.rpartition("pandas_categorical:")[2].strip() not in ("null", "[]"):
        raise SettingError(
            "The model of LightGBM was trained on categories of pandas, which have other codes in luce; train it on "
            "numbers."
        )
    if rest and "\nend of trees" not in rest:
        raise ModelFormatError("The text of LightGBM is cut off before the end of its trees.")
    forest, names = Forest.joined(trees_of_text(text.replace("\r\n", "\n"))), fields["feature_names"].split(" ")
    if "average_output" in head.splitlines():
        forest = forest.scaled(1.0 / forest.n_trees)
    n_features = int(fields["max_feature_idx"]) + 1
    made_up = names == [f"Column_{i}" for i in range(n_features)]
    return _checked(_LIGHTGBM, forest, n_features, [] if made_up else names)


_LINKS: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror"), float),
    **dict.fromkeys(("rank:ndcg", "rank:pairwise", "rank:map"), float),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), lambda p: math.log(p / (1.0 - p))),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), math.log),
}
"""From `base_score`, which a file has on the scale of predictions, to scores."""


def _xgboost(model: Mapping[str, Any], stops_at_best: bool = False) -> ForeignTrees:
    """Trees of XGBoost's JSON; an estimator predicts by its best iteration, a bare booster by all."""
    learner = model["learner"]
    booster, shape, attributes = learner["gradient_booster"], learner["learner_model_param"], learner["attributes"]
    objective = learner["objective"]["name"]
    if booster["name"] not in ("gbtree", "dart"):
        raise SettingError(f"The model of XGBoost is a {booster['name']}; give one of trees, gbtree or dart.")
    if objective not in _LINKS:
        raise SettingError(f"The objective of the model of XGBoost is {objective}; luce takes {', '.join(_LINKS)}.")
    if int(shape["num_class"]) > 1 or int(shape.get("num_target", 1)) > 1:
        raise SettingError("The model of XGBoost has several scores a row; give one of a ranking.")
    inner = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    trees = [_tree(tree) for tree in inner["trees"]]
    if booster["name"] == "dart":
        trees = [tree.scaled(float(weight)) for tree, weight in zip(trees, booster["weight_drop"], strict=True)]
    if "best_iteration" in attributes and (stops_at_best or "scikit_learn" in attributes):
        side_by_side = max(int(inner["gbtree_model_param"]["num_parallel_tree"]), 1)
        trees = trees[: (int(attributes["best_iteration"]) + 1) * side_by_side]
    start = _LINKS[objective](float(shape["base_score"].strip("[]")))
    forest = Forest.joined([Forest.constant(start), *trees]) if trees else Forest.empty()
    return _checked(_XGBOOST, forest, int(shape["num_feature"]), list(learner["feature_names"]))


def _tree(tree: Mapping[str, Any]) -> Forest:
    """A tree whose nodes are numbered anew, parents first; XGBoost asks `x < c` of numbers of 32 bits."""
    if any(tree["split_type"]):
        raise SettingError("The model of XGBoost splits categories, which luce does not take; train it on numbers.")
    left, right, conditions = tree["left_children"], tree["right_children"], tree["split_conditions"]
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if len(order) > len(left):
            raise ModelFormatError("A tree of XGBoost has a loop.")
        if left[node] >= 0:
            waiting += [right[node], left[node]]
    inner, leaves = [n for n in order if left[n] >= 0], [n for n in order if left[n] < 0]
    if not inner:
        return Forest.constant(float(conditions[0]))
    place = {n: i for i, n in enumerate(inner)} | {n: -i - 1 for i, n in enumerate(leaves)}
    below = np.nextafter(np.array([conditions[n] for n in inner], np.float32), np.float32(-np.inf))
    asked = [MISSING_NAN | (DEFAULT_LEFT if tree["default_left"][n] else 0) for n in inner]
    return Forest.tree(
        leaves=[0, len(leaves)],
        feature=[tree["split_indices"][n] for n in inner],
        threshold=np.nan_to_num(below.astype(np.float64)),
        left=[place[left[n]] for n in inner],
        right=[place[right[n]] for n in inner],
        kind=asked,
        gain=[tree["loss_changes"][n] for n in inner],
        value=np.array([conditions[n] for n in leaves], np.float32),
    )


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
        lines += [f"Tree={tree}", *_tree_text(forest, tree), "", ""]
    lines += ["end of trees", "", "parameters:", "end of parameters", "", "pandas_categorical:null", ""]
    return "\n".join(lines)


def _tree_text(forest: Forest, tree: int) -> list[str]:
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
