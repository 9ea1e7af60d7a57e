"""Python: one file without any dependency, with a function `score(features)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from luce.export.base import Request, Written, refuse
from luce.export.form import Form, Linear, Part, SecondOrder, Trees
from luce.scorers.forest import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, MISSING_ZERO, Forest

_ZERO = float(np.float32(1e-35))
"""What LightGBM takes for zero, and so does `Forest`."""
_ACTIVATIONS = {
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

FEATURES = {names}
MISSING_ALLOWED = {missing}


def score(features):
    """Score one document: a sequence of numbers in the order of FEATURES, or a dict from names to numbers.

    None and NaN mean missing, and so does a name that a dict leaves out.
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
    row = array("f", [math.nan if x is None else x for x in features])  # the model was trained on float32
    for name, x in zip(FEATURES, row):
        if math.isinf(x):
            raise ValueError("feature %s is infinite" % name)
        if x != x and not MISSING_ALLOWED:
            raise ValueError("feature %s is missing, which this model does not allow" % name)
    return row
'''

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


def write(request: Request) -> Written:
    """Every form, sums of parts and categories included; numbers in float64, features rounded to float32."""
    form = request.form
    functions: dict[str, str] = {}
    data, calls = [], []
    for i, part in enumerate(form.parts):
        function, code, arguments = _part(part, form)
        functions[function] = code
        data.append(f"_PART{i} = {arguments}\n")
        calls.append(f"lambda row: {function}(*_PART{i}, row)")
    missing = all(isinstance(part, Trees) for part in form.parts)
    head = _HEAD.replace("{missing}", str(missing)).replace("{names}", _tuple(form.names))  # names may hold braces
    content = head + "".join(functions.values()) + "\n\n" + "".join(data) + f"PARTS = ({', '.join(calls)},)\n"
    return Written(content, ["Use: score([...]) or score({name: value, ...}) of FILE"])


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
    return "_network", _NETWORK, f"([{', '.join(_layer(layer, form) for layer in part.layers)}],)"


def _layer(layer: Any, form: Form) -> str:
    if layer.activation not in _ACTIVATIONS:
        refuse(form, "the Python file", f"it has no activation {layer.activation!r}, only {', '.join(_ACTIVATIONS)}")
    return f"({layer.weights.T.tolist()!r}, {layer.bias.tolist()!r}, {_ACTIVATIONS[layer.activation]})"


def _tree(forest: Forest, tree: int) -> str:
    first, last = int(forest.nodes[tree]), int(forest.nodes[tree + 1])
    leaves = forest.value[forest.leaves[tree] : forest.leaves[tree + 1]].tolist()
    nodes = ", ".join(_node(forest, i) for i in range(first, last))
    return f"(({nodes}{',' if last > first else ''}), {leaves!r})"


def _node(forest: Forest, i: int) -> str:
    kind = int(forest.kind[i])
    threshold = repr(float(forest.threshold[i]))
    if kind & CATEGORICAL:
        s = int(forest.threshold[i])
        words = forest.bits[forest.sets[s] : forest.sets[s + 1]]
        inside = np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))
        threshold = f"frozenset({inside.tolist()!r})"
    missing = _missing(kind)
    return f"({int(forest.feature[i])}, {threshold}, {int(forest.left[i])}, {int(forest.right[i])}, {missing})"


def _missing(kind: int) -> int:
    """The way of a missing value in the code of the file."""
    left = int(kind & DEFAULT_LEFT > 0)
    if kind & MISSING_ZERO:
        return 3 + left
    return left if kind & MISSING_NAN else 2


def _tuple(names: tuple[str, ...]) -> str:
    return "(" + "".join(f"{name!r}, " for name in names).rstrip() + ")"
