"""What the reader of each format makes of an export, and how far that is from the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.errors import needing
from luce.types import FloatArray, IntArray

_PYTHON_ROWS = 5000
_Rows = NDArray[np.float32]


class ExportDifference(NamedTuple):
    """How far the scores of an export are from those of the model."""

    rows: int
    largest: float
    """The largest absolute difference."""
    lowest: float
    """The lowest score that the export gives."""
    highest: float
    reordered: int
    """Queries in which two documents of different score have changed places."""


def compared(target: str, models: Sequence[str | bytes], X: _Rows, names: Sequence[str], scores: FloatArray,
             offsets: IntArray) -> ExportDifference:  # fmt: skip
    """Evaluate models that add up on rows whose scores by the model (offset included) are known.

    A Python file is evaluated on the first 5000 rows, everything else on all.
    """
    rows = min(len(X), _PYTHON_ROWS) if target == "python" else len(X)
    found: FloatArray = np.sum(
        [_EVALUATORS[target](model, X[:rows], list(names)) for model in models], axis=0, dtype=np.float64
    )
    largest = float(np.max(np.abs(found - scores[:rows])))
    reordered = 0
    for a, b in pairwise(np.minimum(offsets, rows).tolist()):
        by_model = found[a:b][np.lexsort((found[a:b], scores[a:b]))]
        reordered += bool(np.any(by_model[1:] < by_model[:-1]))
    return ExportDifference(rows, largest, float(found.min()), float(found.max()), reordered)


def _elasticsearch(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    model = json.loads(content)["model"]["model"]
    definition = json.loads(model["definition"])
    if model["type"] == "model/xgboost+json":
        return _tree_sum(definition["splits"], X, names)
    norms = {name: tuple(norm["standard"].values()) for name, norm in model.get("feature_normalizers", {}).items()}
    return _weighted_sum(X, names, definition, norms)


def _weighted_sum(X: _Rows, names: list[str], weights: Mapping[str, float], norms: Mapping[str, Any]) -> _Rows:
    """A linear model over features that are moved and divided by (mean, deviation), in float32."""
    total = np.zeros(len(X), np.float32)
    for name, weight in weights.items():
        mean, deviation = norms.get(name, (0.0, 1.0))
        column = np.nan_to_num(X[:, names.index(name)], nan=0.0)
        total += np.float32(weight) * ((column - np.float32(mean)) / np.float32(deviation))
    return total


def _walk(root: Any, X: _Rows, ask: Callable[[Any, _Rows], tuple[Any, Any, NDArray[np.bool_]] | float]) -> _Rows:
    """The leaf of every row: `ask(node, X)` gives a leaf, or the children and who goes to the first."""
    values = np.empty(len(X), np.float32)
    waiting = [(root, np.arange(len(X)))]
    while waiting:
        node, rows = waiting.pop()
        answer = ask(node, X[rows])
        if isinstance(answer, tuple):
            waiting += [(answer[0], rows[answer[2]]), (answer[1], rows[~answer[2]])]
        else:
            values[rows] = np.float32(answer)
    return values


def _tree_sum(trees: list[Any], X: _Rows, names: list[str]) -> _Rows:
    """Trees as XGBoost dumps them."""
    place = {name: i for i, name in enumerate(names)}

    def ask(node: Any, rows: _Rows) -> tuple[Any, Any, NDArray[np.bool_]] | float:
        if "leaf" in node:
            return float(node["leaf"])
        x = rows[:, place[node["split"]]]
        to_yes = np.where(np.isnan(x), node["missing"] == node["yes"], x < np.float32(node["split_condition"]))
        return node["children"][0], node["children"][1], to_yes

    return _added(_walk(tree, X, ask) for tree in trees)


def _added(columns: Any) -> _Rows:
    total = np.float32(0)
    for column in columns:
        total = total + column
    return np.asarray(total, np.float32)


def _solr(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    model = json.loads(content)
    params, kind = model["params"], model["class"].rpartition(".")[2]
    if kind == "NeuralNetworkModel":
        return _layers(params["layers"], X[:, [names.index(feature["name"]) for feature in model["features"]]])
    if kind == "MultipleAdditiveTreesModel":
        return _solr_trees(params, X, names)
    norms = {f["name"]: tuple(f["norm"]["params"].values()) for f in model["features"] if "norm" in f}
    return _weighted_sum(X, names, {f["name"]: params["weights"][f["name"]] for f in model["features"]}, norms)


def _solr_trees(params: Any, X: _Rows, names: list[str]) -> _Rows:
    place = {name: i for i, name in enumerate(names)}
    own_missing = params.get("isNullSameAsZero") is False

    def ask(node: Any, rows: _Rows) -> tuple[Any, Any, NDArray[np.bool_]] | float:
        if "feature" not in node:
            return float(node["value"])
        x = rows[:, place[node["feature"]]]
        plain = np.nan_to_num(x, nan=0.0) <= np.float32(node["threshold"]) + np.float32(1e-6)
        to_left = np.where(np.isnan(x), node["missing"] == "left", plain) if own_missing else plain
        return node["left"], node["right"], to_left

    return _added(np.float32(tree["weight"]) * _walk(tree["root"], X, ask) for tree in params["trees"])


_SOLR_ACTIVATIONS: dict[str, Callable[[_Rows], _Rows]] = {
    "identity": lambda v: v,
    "relu": lambda v: np.maximum(v, np.float32(0)),
    "leakyrelu": lambda v: np.where(v < 0, np.float32(0.01) * v, v),
    "sigmoid": lambda v: (1 / (1 + np.exp(-v.astype(np.float64)))).astype(np.float32),
    "tanh": lambda v: np.tanh(v.astype(np.float64)).astype(np.float32),
}


def _layers(layers: list[Any], X: _Rows) -> _Rows:
    for layer in layers:
        total = np.tile(np.array(layer["bias"], np.float32), (len(X), 1))
        for j, column in enumerate(np.array(layer["matrix"], np.float32).T):
            total += column[None] * X[:, j : j + 1]
        X = _SOLR_ACTIVATIONS[layer["activation"]](total)
    return X[:, 0]


def _ranklib(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    filled = np.nan_to_num(X, nan=0.0)
    lines = [line for line in content.splitlines() if line and not line.startswith("##")]
    if not lines[0].startswith("<"):
        bias, *weights = (float(pair.partition(":")[2]) for pair in lines[0].split())
        return bias + filled.astype(np.float64) @ np.array(weights)
    from xml.etree import ElementTree

    root = ElementTree.fromstring("".join(lines))

    def ask(node: Any, rows: _Rows) -> tuple[Any, Any, NDArray[np.bool_]] | float:
        if node[0].tag == "output":
            return float(node[0].text)
        x = rows[:, int(node[0].text) - 1]
        return node[2], node[3], x <= np.float32(node[1].text)

    return _added(_walk(tree[0], filled, ask) * np.float32(tree.get("weight")) for tree in root)


def _lightgbm(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    import lightgbm

    return np.asarray(lightgbm.Booster(model_str=content).predict(X, num_threads=1))


def _xgboost(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    with needing("A check of XGBoost's model", "xgboost"):
        import xgboost
    booster = xgboost.Booster(params={"nthread": 1})
    booster.load_model(bytearray(content.encode()))
    return np.asarray(booster.predict(xgboost.DMatrix(X, feature_names=names, nthread=1)))


def _onnx(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    with needing("A check of an ONNX model", "onnx"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"features": X})[0])[:, 0]


def _python(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    namespace: dict[str, Any] = {}
    exec(compile(content, "exported.py", "exec"), namespace)  # the text that luce has just written
    return np.array([namespace["score"](row) for row in X.tolist()])


_EVALUATORS: dict[str, Callable[[Any, _Rows, list[str]], NDArray[Any]]] = {
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "solr": _solr,
    "ranklib": _ranklib,
    "lightgbm": _lightgbm,
    "xgboost_json": _xgboost,
    "xgboost_dump": lambda content, X, names: _tree_sum(json.loads(content), X, names),
    "onnx": _onnx,
    "python": _python,
}
