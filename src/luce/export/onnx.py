"""ONNX: a graph from features (rows, features) to scores (rows, 1), both float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import MissingExtraError
from luce.export.base import Request, Written, refuse
from luce.export.form import Form, Linear, Network, Part, SecondOrder, Trees
from luce.export.splits import at_most, check_plain, missing_goes_left
from luce.scorers.forest import Forest

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_ACTIVATIONS = {"relu": "Relu", "leaky_relu": "LeakyRelu", "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "Elu"}


def write(request: Request) -> Written:
    """A model file with the input `features` and the output `scores`; a sum of parts is added up in the graph."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingExtraError("Export to ONNX", "onnx") from error
    form = request.form
    graph = _Graph(helper)
    for i, part in enumerate(form.parts):
        _add(graph, part, form, f"part{i}")
    outputs = [f"part{i}" for i in range(len(form.parts))]
    graph.node("Sum", outputs, "scores")
    made = helper.make_graph(
        graph.nodes,
        request.name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", len(form.names)])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["rows", 1])],
        graph.constants,
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(made, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="luce")
    helper.set_model_props(model, {"feature_names": "\n".join(form.names)})
    checker.check_model(model)
    remark = "Run: onnxruntime.InferenceSession(FILE).run(None, {'features': X})[0][:, 0], X float32"
    return Written(model.SerializeToString(), [remark])


class _Graph:
    """Nodes and constants as they come."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self._helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, name: str, values: ArrayLike, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name


def _add(graph: _Graph, part: Part, form: Form, name: str) -> None:
    if isinstance(part, Linear):
        product = graph.node("MatMul", ["features", graph.constant(f"{name}.w", part.weights[:, None])], f"{name}.xw")
        graph.node("Add", [product, graph.constant(f"{name}.b", [part.intercept])], name)
    elif isinstance(part, SecondOrder):
        _second_order(graph, part, name)
    elif isinstance(part, Trees):
        check_plain(part.forest, form.names, "ONNX")
        _trees(graph, part.forest, name)
    else:
        _network(graph, part, form, name)


def _second_order(graph: _Graph, part: SecondOrder, name: str) -> None:
    products = part.products
    centred = graph.node("Sub", ["features", graph.constant(f"{name}.mean", products.mean)], f"{name}.centred")
    z = graph.node("Mul", [centred, graph.constant(f"{name}.scale", products.inverse_sd)], f"{name}.z")
    sides = [
        graph.node("Gather", [z, graph.constant(f"{name}.{side}", getattr(products, side), np.int64)],
                   f"{name}.z_{side}", axis=1)
        for side in ("left", "right")
    ]  # fmt: skip
    pairs = graph.node("Mul", sides, f"{name}.pairs")
    first = graph.node("MatMul", [z, graph.constant(f"{name}.w", part.weights[:, None])], f"{name}.first")
    second = graph.node("MatMul", [pairs, graph.constant(f"{name}.v", part.pair_weights[:, None])], f"{name}.second")
    graph.node("Sum", [first, second, graph.constant(f"{name}.b", [[part.intercept]])], name)


def _network(graph: _Graph, part: Network, form: Form, name: str) -> None:
    value = "features"
    for i, layer in enumerate(part.layers):
        here = f"{name}.{i}"
        weights, bias = graph.constant(f"{here}.w", layer.weights), graph.constant(f"{here}.b", layer.bias)
        value = graph.node("Gemm", [value, weights, bias], f"{here}.sum")
        if layer.activation != "identity":
            if layer.activation not in _ACTIVATIONS:
                refuse(form, "ONNX", f"it has no activation {layer.activation!r} here, only {', '.join(_ACTIVATIONS)}")
            value = graph.node(_ACTIVATIONS[layer.activation], [value], f"{here}.out")
    graph.node("Identity", [value], name)


def _trees(graph: _Graph, forest: Forest, name: str) -> None:
    """All trees as one TreeEnsembleRegressor: `x <= t` in float32, a missing value follows its own flag."""
    counts = np.diff(forest.nodes)
    tree = np.repeat(np.arange(forest.n_trees), counts)
    leaf_tree = np.repeat(np.arange(forest.n_trees), counts + 1)
    n_nodes, n_leaves = len(tree), len(leaf_tree)
    place = np.arange(n_nodes) - forest.nodes[tree]
    leaf_place = counts[leaf_tree] + np.arange(n_leaves) - forest.leaves[leaf_tree]
    ends = np.zeros(n_leaves, np.int64)

    # onnxruntime takes every node whose tree differs from that of the node before for a root: tree after tree, then.
    order = np.argsort(np.concatenate([tree, leaf_tree]), kind="stable")

    def column(of_nodes: Any, of_leaves: Any = ends) -> list[Any]:
        values: list[Any] = np.concatenate([of_nodes, of_leaves])[order].tolist()
        return values

    def child(side: Any) -> list[Any]:
        below = side.astype(np.int64)
        return column(np.where(below >= 0, below, counts[tree] - below - 1))

    attributes: dict[str, Any] = {
        "nodes_treeids": column(tree, leaf_tree),
        "nodes_nodeids": column(place, leaf_place),
        "nodes_featureids": column(forest.feature),
        "nodes_values": column(at_most(forest.threshold).astype(np.float64)),
        "nodes_hitrates": [1.0] * (n_nodes + n_leaves),
        "nodes_modes": column(np.full(n_nodes, "BRANCH_LEQ"), np.full(n_leaves, "LEAF")),
        "nodes_truenodeids": child(forest.left),
        "nodes_falsenodeids": child(forest.right),
        "nodes_missing_value_tracks_true": column(missing_goes_left(forest).astype(np.int64)),
        "target_treeids": leaf_tree.tolist(),
        "target_nodeids": leaf_place.tolist(),
        "target_ids": ends.tolist(),
        "target_weights": forest.value.astype(np.float32).astype(float).tolist(),
    }
    graph.node(
        "TreeEnsembleRegressor", ["features"], name, domain="ai.onnx.ml", n_targets=1, aggregate_function="SUM",
        post_transform="NONE", **attributes,
    )  # fmt: skip
