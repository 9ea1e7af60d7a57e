"""Models as ONNX graphs and as plain Python files."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import needing
from luce.export.engine_terms import without_sets
from luce.export.request import Request, Written, activation
from luce.export.texts import python_program
from luce.export.tree_nodes import at_most, check_plain, missing_goes_left
from luce.form import Column, Form, Linear, Network, Part, SecondOrder, Trees, raw_columns
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, Forest

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_ACTIVATIONS = {"relu": "Relu", "leaky_relu": "LeakyRelu", "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "Elu"}


def write_onnx(request: Request) -> Written:
    """A model file with the input `features` and the output `scores`; a sum of parts is added up in the graph."""
    with needing("Export to ONNX", "onnx"):
        from onnx import TensorProto, checker, helper
    form = request.form
    graph = _Graph(helper)
    matrices: dict[tuple[Column, ...], str] = {raw_columns(len(form.names)): "features"}
    outputs = []
    for i, term in enumerate(map(without_sets, form.terms)):
        if term.columns not in matrices:
            matrices[term.columns] = _columns(graph, term.columns, f"columns{i}")
        graph.sees = matrices[term.columns]
        outputs.append(_add(graph, term.part, form, f"part{i}"))
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
    told = {"feature_names": "\n".join(form.names)}
    if form.categories:
        told["categories"] = json.dumps({form.names[j]: names for j, names in form.categories.items()})
    helper.set_model_props(model, told)
    checker.check_model(model)
    remark = "Run: onnxruntime.InferenceSession(FILE).run(None, {'features': X})[0][:, 0], X float32"
    return Written([model.SerializeToString()], [remark])


class _Graph:
    """Nodes and constants as they come."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self.sees = "features"
        """The matrix that the part sees which is being added."""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self._helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, name: str, values: ArrayLike, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name


def _columns(graph: _Graph, columns: tuple[Column, ...], name: str) -> str:
    """What stands for gaps and categories, beside each other; columns of one kind are made at once."""
    from onnx import TensorProto

    pieces = []
    for i, (kind, run) in enumerate(groupby(columns, lambda c: (c.gap, c.feature if c.codes is not None else -1))):
        listed, here = list(run), f"{name}.{i}"
        places = graph.constant(f"{here}.at", [c.feature for c in listed][: 1 if kind[1] >= 0 else None], np.int64)
        x = graph.node("Gather", ["features", places], f"{here}.x", axis=1)
        missing = graph.node("IsNaN", [x], f"{here}.missing")
        if kind[1] >= 0:
            pieces.append(_members(graph, [c.codes or frozenset() for c in listed], x, missing, here))
        elif kind[0]:
            pieces.append(graph.node("Cast", [missing], f"{here}.gap", to=TensorProto.FLOAT))
        else:
            fills = graph.constant(f"{here}.fill", [np.nan if c.fill is None else c.fill for c in listed])
            pieces.append(graph.node("Where", [missing, fills, x], f"{here}.filled"))
    return graph.node("Concat", pieces, name, axis=1)


def _members(graph: _Graph, sets: list[frozenset[int]], x: str, missing: str, here: str) -> str:
    """Whether a code is in each of these sets, by a table with a row a code, one before the first and one after all."""
    from onnx import TensorProto

    most = max((max(codes, default=0) for codes in sets), default=0) + 1
    table = np.zeros((most + 2, len(sets)))
    for k, codes in enumerate(sets):
        table[[code + 1 for code in codes], k] = 1
    known = graph.node("Where", [missing, graph.constant(f"{here}.none", -1.0), x], f"{here}.known")
    ends = [graph.constant(f"{here}.low", -1.0), graph.constant(f"{here}.high", float(most))]
    cut = graph.node("Clip", [known, *ends], f"{here}.cut")
    whole = graph.node("Cast", [cut], f"{here}.code", to=TensorProto.INT64)
    place = graph.node("Add", [whole, graph.constant(f"{here}.one", [1], np.int64)], f"{here}.row")
    flat = graph.node("Squeeze", [place, graph.constant(f"{here}.axis", [1], np.int64)], f"{here}.flat")
    return graph.node("Gather", [graph.constant(f"{here}.table", table), flat], f"{here}.in", axis=0)


def _add(graph: _Graph, part: Part, form: Form, name: str) -> str:
    if isinstance(part, Linear):
        product = graph.node("MatMul", [graph.sees, graph.constant(f"{name}.w", part.weights[:, None])], f"{name}.xw")
        graph.node("Add", [product, graph.constant(f"{name}.b", [part.intercept])], name)
    elif isinstance(part, SecondOrder):
        _second_order(graph, part, name)
    elif isinstance(part, Trees):
        check_plain(part.forest, form.names, "ONNX")
        _trees(graph, part.forest, name)
    else:
        _network(graph, part, form, name)
    return name


def _second_order(graph: _Graph, part: SecondOrder, name: str) -> None:
    products = part.products
    centred = graph.node("Sub", [graph.sees, graph.constant(f"{name}.mean", products.mean)], f"{name}.centred")
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
    value = graph.sees
    for i, layer in enumerate(part.layers):
        here = f"{name}.{i}"
        weights, bias = graph.constant(f"{here}.w", layer.weights), graph.constant(f"{here}.b", layer.bias)
        value = graph.node("Gemm", [value, weights, bias], f"{here}.sum")
        if layer.activation != "identity":
            value = graph.node(activation(layer, _ACTIVATIONS, form, "ONNX"), [value], f"{here}.out")
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
        return np.concatenate([of_nodes, of_leaves])[order].tolist()

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
        "TreeEnsembleRegressor", [graph.sees], name, domain="ai.onnx.ml", n_targets=1, aggregate_function="SUM",
        post_transform="NONE", **attributes,
    )  # fmt: skip


_ZERO = float(np.float32(1e-35))
"""What LightGBM takes for zero, and so does `Forest`."""
_ACTIVATIONS_PYTHON = {
    "identity": "lambda v: v",
    "relu": "lambda v: v if v > 0.0 or v != v else 0.0",
    "leaky_relu": "lambda v: v if v > 0.0 or v != v else 0.01 * v",
    "sigmoid": "lambda v: 1.0 / (1.0 + math.exp(-v)) if v >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(v))",
    "tanh": "math.tanh",
    "elu": "lambda v: v if v > 0.0 or v != v else math.expm1(v)",
}

_HEAD = '''"""A ranking model: score(features) is one number a document, higher is better. Plain Python 3."""

import math
from array import array

{constants}


def score(features):
    """Score one document: a sequence of values in the order of FEATURES, or a dict from names to values.

    None and NaN mean missing, and so does a name that a dict leaves out. A category is given by its name, as in
    CATEGORIES, or by its number there.
    """
    row = _row(features)
    return sum(part(row) for part in PARTS)


def _row(features):
    if hasattr(features, "keys"):
        unknown = set(features.keys()) - set(FEATURES)
        if unknown:
            raise ValueError("unknown features: " + ", ".join(sorted(map(str, unknown))))
        features = [features.get(name) for name in FEATURES]
    if len(features) != len(FEATURES):
        raise ValueError("%d features are needed, and %d were given" % (len(FEATURES), len(features)))
    numbers = [_number(i, x) for i, x in enumerate(features)]
    row = array("f", numbers)  # the model was trained on float32
    for name, x in zip(FEATURES, row):
        if math.isinf(x):
            raise ValueError("feature %s is infinite" % name)
        if x != x and not MISSING_ALLOWED:
            raise ValueError("feature %s is missing, which this model does not allow" % name)
    return row


def _number(i, x):
    if x is None:
        return math.nan
    if isinstance(x, str):
        names = CATEGORIES.get(FEATURES[i])
        if names is None:
            raise ValueError("feature %s is a text and must be a number" % FEATURES[i])
        return names.index(x) if x in names else len(names)  # one that training did not see
    return x
'''

_COLUMNS = """

# A column is (feature, what stands for a gap), or (feature, None) for a gap itself as 0 or 1, or (feature, a set): 1
# where it is one of these categories, else 0.


def _columns(columns, row):
    return [_column(row[feature], what) for feature, what in columns]


def _column(x, what):
    if what is None:
        return 1.0 if x != x else 0.0
    if isinstance(what, frozenset):
        return 1.0 if x > -1.0 and int(x) in what else 0.0
    return what if x != x else x
"""

_TREES = """

# A tree is a list of nodes (feature, threshold, left, right, missing); a child below 0 is leaf -child - 1.
# missing: 0 right, 1 left, 2 as zero, 3 right and zero too, 4 left and zero too.
# A threshold that is a set holds the categories that go left.


def _tree(nodes, leaves, row):
    node = 0 if nodes else -1
    while node >= 0:
        feature, threshold, left, right, missing = nodes[node]
        x = row[feature]
        if isinstance(threshold, frozenset):
            to_left = x > -1.0 and int(x) in threshold
        elif x != x and missing != 2:
            to_left = missing in (1, 4)
        else:
            x = 0.0 if x != x else x
            to_left = missing == 4 if missing > 2 and abs(x) <= {zero!r} else x <= threshold
        node = left if to_left else right
    return leaves[-node - 1]


def _trees(trees, row):
    total = 0.0
    for nodes, leaves in trees:
        total += _tree(nodes, leaves, row)
    return total
"""

_LINEAR = """

def _linear(weights, intercept, row):
    return intercept + sum(w * x for w, x in zip(weights, row))
"""

_SECOND_ORDER = """

def _second_order(mean, scale, weights, pairs, intercept, row):
    z = [(x - m) * s for x, m, s in zip(row, mean, scale)]
    return intercept + sum(w * v for w, v in zip(weights, z)) + sum(w * z[i] * z[j] for i, j, w in pairs)
"""

_NETWORK = """

def _network(layers, row):
    for weights, bias, activation in layers:  # weights: a row an output
        row = [activation(b + sum(w * x for w, x in zip(column, row))) for column, b in zip(weights, bias)]
    return row[0]
"""


def write_python(request: Request) -> Written:
    """Every form, sums of parts and categories included; numbers in float64, features rounded to float32."""
    form = request.form
    functions: dict[str, str] = {}
    data, calls = [], []
    for i, term in enumerate(form.terms):
        function, code, arguments = _part(term.part, form)
        functions[function] = code
        data.append(f"_PART{i} = {arguments}\n")
        row = "row"
        if term.columns != raw_columns(len(form.names)):
            functions["_columns"] = _COLUMNS
            data.append(f"_COLUMNS{i} = [{', '.join(map(_column, term.columns))}]\n")
            row = f"_columns(_COLUMNS{i}, row)"
        calls.append(f"lambda row: {function}(*_PART{i}, {row})")
    names = {form.names[j]: list(named) for j, named in form.categories.items()}
    constants = f"FEATURES = {_tuple(form.names)}\nCATEGORIES = {names!r}\nMISSING_ALLOWED = {form.takes_gaps}"
    head = _HEAD.replace("{constants}", constants)
    content = head + "".join(functions.values()) + "\n\n" + "".join(data) + f"PARTS = ({', '.join(calls)},)\n"
    if request.text is None or request.text.features != "engine":
        return Written([content], ["Use: score([...]) or score({name: value, ...}) of FILE"])
    content = content.replace("import math\n", "import math\nimport re\nimport unicodedata\n", 1)
    content = content.replace(
        "from array import array\n", "from array import array\nfrom functools import lru_cache\n", 1
    )
    fields = ", ".join(f"{name}: text" for name in request.text.fields)
    return Written(
        [content + python_program(request.text)], [f"Use: score_text(query, {{{fields}}}, other features) of FILE"]
    )


def _part(part: Part, form: Form) -> tuple[str, str, str]:
    """The name of the function that scores a part, its code, and its arguments but the last."""
    if isinstance(part, Linear):
        return "_linear", _LINEAR, f"({part.weights.tolist()!r}, {float(part.intercept)!r})"
    if isinstance(part, Trees):
        trees = ",\n".join(_tree(part.forest, t) for t in range(part.forest.n_trees))
        return "_trees", _TREES.replace("{zero!r}", repr(_ZERO)), f"([\n{trees},\n],)"
    if isinstance(part, SecondOrder):
        products = part.products
        pairs = list(zip(products.left.tolist(), products.right.tolist(), part.pair_weights.tolist(), strict=True))
        vectors = [products.mean.tolist(), products.inverse_sd.tolist(), part.weights.tolist(), pairs]
        return "_second_order", _SECOND_ORDER, f"({', '.join(map(repr, vectors))}, {float(part.intercept)!r})"
    layers = []
    for layer in part.layers:
        function = activation(layer, _ACTIVATIONS_PYTHON, form, "the Python file")
        layers.append(f"({layer.weights.T.tolist()!r}, {layer.bias.tolist()!r}, {function})")
    return "_network", _NETWORK, f"([{', '.join(layers)}],)"


def _column(column: Column) -> str:
    if column.codes is not None:
        return f"({column.feature}, frozenset({sorted(column.codes)!r}))"
    fill = "math.nan" if column.fill is None else repr(column.fill)
    return f"({column.feature}, {'None' if column.gap else fill})"


def _tree(forest: Forest, tree: int) -> str:
    first, last = int(forest.nodes[tree]), int(forest.nodes[tree + 1])
    leaves = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]].tolist()
    nodes = ", ".join(_node(forest, i) for i in range(first, last))
    return f"(({nodes}{',' if last > first else ''}), {leaves!r})"


def _node(forest: Forest, i: int) -> str:
    kind = int(forest.kind[i])
    threshold = repr(float(forest.threshold[i]))
    if kind & CATEGORICAL:
        threshold = f"frozenset({forest.codes(i)!r})"
    left = int(kind & DEFAULT_LEFT > 0)
    missing = 3 + left if kind & MISSING_ZERO else left if kind & MISSING_NAN else 2
    return f"({int(forest.feature[i])}, {threshold}, {int(forest.left[i])}, {int(forest.right[i])}, {missing})"


def _tuple(names: tuple[str, ...]) -> str:
    return "(" + "".join(f"{name!r}, " for name in names).rstrip() + ")"
