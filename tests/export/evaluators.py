"""The formats by their own rules: one document at a time, in float32, as slow and as plain as can be."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from xml.etree import ElementTree

import numpy as np

f32 = np.float32
parsed = lru_cache(json.loads)
parsed_xml = lru_cache(ElementTree.fromstring)


def elasticsearch(content: str, document: dict[str, np.float32]) -> np.float32:
    """`document` holds the features that match; what does not match is NaN for trees and 0 for linear models."""
    model = parsed(content)["model"]["model"]
    definition = parsed(model["definition"])
    if model["type"] == "model/xgboost+json":
        assert set(definition) == {"objective", "splits"}
        assert definition["objective"] in {"binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear"}
        return _dumped(definition["splits"], document)
    assert model["type"] == "model/linear"
    normalizers = model.get("feature_normalizers", {})
    score = f32(0)
    for name, weight in definition.items():
        x = document.get(name, f32(0))
        x = f32(0) if np.isnan(x) else x
        if name in normalizers:
            ((kind, norm),) = normalizers[name].items()
            assert kind == "standard"
            assert norm["standard_deviation"] > 0
            x = (x - f32(norm["mean"])) / f32(norm["standard_deviation"])
        score = score + f32(weight) * x
    return score


def xgboost_dump(content: str, document: dict[str, np.float32]) -> np.float32:
    return _dumped(parsed(content), document)


def _dumped(trees: list[dict], document: dict[str, np.float32]) -> np.float32:
    score = f32(0)
    for tree in trees:
        node = tree
        while "leaf" not in node:
            assert set(node) == {
                "nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children",
            }  # fmt: skip
            assert [child["nodeid"] for child in node["children"]] == [node["yes"], node["no"]]
            x = document.get(node["split"], f32(math.nan))
            if np.isnan(x):
                wanted = node["missing"]
            else:
                wanted = node["yes"] if x < f32(node["split_condition"]) else node["no"]
            node = next(child for child in node["children"] if child["nodeid"] == wanted)
        assert set(node) == {"nodeid", "leaf"}
        score = score + f32(node["leaf"])
    return score


def solr(content: str, document: dict[str, np.float32]) -> np.float32:
    """A feature that is not there is 0, or NaN where the model keeps null apart from zero."""
    model = parsed(content)
    kind, params = model["class"].removeprefix("org.apache.solr.ltr.model."), model["params"]
    names = [feature["name"] for feature in model["features"]]
    null_is_zero = params.get("isNullSameAsZero", True)
    assert isinstance(null_is_zero, bool)
    values = {name: document[name] for name in names}
    if null_is_zero:
        values = {name: f32(0) if np.isnan(x) else x for name, x in values.items()}
    for feature in model["features"]:
        if "norm" in feature:
            norm = feature["norm"]["params"]
            assert all(isinstance(text, str) for text in norm.values())
            values[feature["name"]] = (values[feature["name"]] - f32(norm["avg"])) / f32(norm["std"])
    if kind == "LinearModel":
        assert set(params["weights"]) == set(names)
        return sum((values[name] * f32(params["weights"][name]) for name in names), f32(0))
    if kind == "NeuralNetworkModel":
        return _layers(params["layers"], [values[name] for name in names])
    assert kind == "MultipleAdditiveTreesModel"
    score = f32(0)
    for tree in params["trees"]:
        node = tree["root"]
        while "feature" in node:
            x = values[node["feature"]]
            assert isinstance(node["threshold"], str)
            if np.isnan(x):
                side = node["missing"]
            else:
                side = "left" if x <= f32(node["threshold"]) + f32(1e-6) else "right"
            node = node[side]
        score = score + f32(tree["weight"]) * f32(node["value"])
    return score


def _layers(layers: list[dict], row: list[np.float32]) -> np.float32:
    activations = {
        "identity": lambda v: v,
        "relu": lambda v: f32(0) if v < 0 else v,
        "leakyrelu": lambda v: f32(0.01) * v if v < 0 else v,
        "sigmoid": lambda v: f32(1 / (1 + math.exp(-float(v)))),
        "tanh": lambda v: f32(math.tanh(float(v))),
    }
    for layer in layers:
        assert all(isinstance(number, float) for line in layer["matrix"] for number in line)
        assert len(layer["matrix"]) == len(layer["bias"])
        out = []
        for weights, bias in zip(layer["matrix"], layer["bias"], strict=True):
            total = f32(bias)
            for weight, x in zip(weights, row, strict=True):
                total = total + f32(weight) * x
            out.append(activations[layer["activation"]](total))
        row = out
    assert len(row) == 1
    return row[0]


def ranklib(content: str, row: list[np.float32]) -> float:
    """A row of numbers, as RankLib knows features; a missing one is 0."""
    row = [f32(0) if np.isnan(x) else x for x in row]
    lines = content.splitlines()
    text = "".join(line.strip() for line in lines if not line.startswith("##"))
    if lines[0] == "## Linear Regression":
        pairs = [pair.split(":") for pair in text.split()]
        assert pairs[0][0] == "0"
        return float(pairs[0][1]) + sum(float(weight) * float(row[int(key) - 1]) for key, weight in pairs[1:])
    assert lines[0] == "## LambdaMART"
    score = f32(0)
    for tree in parsed_xml(text):
        assert tree.tag == "tree"
        node = tree[0]
        while node[0].tag == "feature":
            assert [child.get("pos") for child in node[2:]] == ["left", "right"]
            node = node[2] if row[int(node[0].text) - 1] <= f32(node[1].text) else node[3]
        assert node[0].tag == "output"
        score = score + f32(tree.get("weight")) * f32(node[0].text)
    return float(score)
