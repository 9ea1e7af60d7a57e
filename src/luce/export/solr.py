"""Apache Solr, learning-to-rank module: a model for `schema/model-store`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.export.base import Request, Written, refuse
from luce.export.form import Form, Network, Trees
from luce.export.linear_terms import linear_terms, normalised
from luce.export.names import check_name, check_names
from luce.export.splits import Split, at_most, check_plain, missing_goes_left, missing_is_zero, nested, number

_SLACK = np.float32(1e-6)
_CLASS = "org.apache.solr.ltr.model."
_ACTIVATIONS = {"identity": "identity", "relu": "relu", "leaky_relu": "leakyrelu", "sigmoid": "sigmoid", "tanh": "tanh"}


def write(request: Request) -> Written:
    """A `LinearModel` with normalizers, a `MultipleAdditiveTreesModel` or a `NeuralNetworkModel`."""
    form = request.form
    terms = linear_terms(form)
    check_names(form.names if terms is None else terms.names, "Solr")
    if terms is not None:
        model, remarks = _linear(terms.names, terms.linear, request.folded)
        if terms.products:
            first, (left, right) = next(iter(terms.products.items()))
            remarks.append(
                f"The model needs {len(terms.products)} products of features as features of the store, such as "
                f"{first} = {left} * {right} (a SolrFeature with a function query; --json lists all)."
            )
    elif isinstance(form.single, Trees):
        model, remarks = _trees(form.single, form)
    elif isinstance(form.single, Network):
        model, remarks = _network(form.single, form), []
    else:
        refuse(form, "Solr", "it takes linear models, trees and networks")
    head = {"class": _CLASS + model.pop("class"), "name": check_name("model name", request.name)}
    if request.store:
        head["store"] = check_name("feature store", request.store)
    remarks.append(
        "Upload: curl -X PUT 'http://localhost:8983/solr/COLLECTION/schema/model-store' "
        "-H 'Content-Type: application/json' --data-binary @FILE"
    )
    facts: dict[str, Any] = {"class": head["class"]}
    if terms is not None and terms.products:
        facts["extra_features"] = {name: f"{a} * {b}" for name, (a, b) in terms.products.items()}
    products = {} if terms is None else terms.products
    return Written(json.dumps(head | model, allow_nan=False) + "\n", remarks, facts, products)


def _linear(names: list[str], part: Any, folded: bool) -> tuple[dict[str, Any], list[str]]:
    features: list[dict[str, Any]]
    if folded:
        used = {name: w for name, w in zip(names, part.weights.tolist(), strict=True) if w}
        features = [{"name": name} for name in used]
        remark = f"The intercept {part.intercept:.6g} is left out; the order of documents is the same."
        return {"class": "LinearModel", "features": features, "params": {"weights": used}}, [remark]
    parts = normalised(names, part)
    norm = "org.apache.solr.ltr.norm.StandardNormalizer"
    features = [
        {"name": name, "norm": {"class": norm, "params": {"avg": repr(mean), "std": repr(deviation)}}}
        for name, mean, deviation in zip(parts.names, parts.mean.tolist(), parts.deviation.tolist(), strict=True)
    ]
    weights = dict(zip(parts.names, parts.weight.tolist(), strict=True))
    return {"class": "LinearModel", "features": features, "params": {"weights": weights}}, []


def slackened(threshold: NDArray[Any]) -> NDArray[np.float32]:
    r"""What Solr must read to ask `x <= t`: it adds 1e-6 in float32 and asks `x <= s + 1e-6`.

    Of the float32 around t - 1e-6 the one whose sum is the largest that is not above t. Nearer to 0 than about 1e-6
    the sums are some 1e-13 apart, and x between such a sum and t goes the other way.

    >>> float(slackened(np.array([0.5]))[0] + np.float32(1e-6))
    0.5
    """
    wanted = at_most(threshold)
    best = np.full(len(wanted), np.float32(np.finfo(np.float32).min))
    tried = (wanted.astype(np.float64) - float(_SLACK)).astype(np.float32)
    with np.errstate(over="ignore"):
        for _ in range(3):
            tried = np.nextafter(tried, np.float32(-np.inf))
        for _ in range(7):
            better = (tried + _SLACK <= wanted) & (tried + _SLACK >= best + _SLACK)
            best = np.where(better, tried, best)
            tried = np.nextafter(tried, np.float32(np.inf))
    return best


def _trees(part: Trees, form: Form) -> tuple[dict[str, Any], list[str]]:
    forest = part.forest
    check_plain(forest, form.names, "Solr")
    features = forest.feature.tolist()
    written = slackened(forest.threshold)
    thresholds, to_left = written.astype(float).tolist(), missing_goes_left(forest).tolist()
    own_missing = not missing_is_zero(forest)

    def leaf(_: int, value: float) -> dict[str, Any]:
        return {"value": repr(number(value))}

    def split(s: Split) -> dict[str, Any]:
        node: dict[str, Any] = {"feature": form.names[features[s.position]], "threshold": repr(thresholds[s.position])}
        missing = {"missing": "left" if to_left[s.position] else "right"} if own_missing else {}
        return {**node, **missing, "left": s.left, "right": s.right}

    trees = [{"weight": "1", "root": nested(forest, tree, split, leaf, "Solr")} for tree in range(forest.n_trees)]
    used = sorted(set(features))
    names = [{"name": form.names[i]} for i in used] or [{"name": form.names[0]}]
    params = {"isNullSameAsZero": False, "trees": trees} if own_missing else {"trees": trees}
    remarks = _about_slack(at_most(forest.threshold), written + _SLACK)
    if own_missing:
        remarks.append("Missing values have a way of their own: Solr 9.2 or later, features with defaultValue NaN.")
    return {"class": "MultipleAdditiveTreesModel", "features": names, "params": params}, remarks


def _about_slack(wanted: NDArray[np.float32], asked: NDArray[np.float32]) -> list[str]:
    moved = wanted.astype(np.float64) - asked
    count = int(np.count_nonzero(moved))
    if not count:
        return []
    return [
        f"{count} of {len(wanted)} thresholds lie so near to zero that Solr's slack of 1e-6 moves them, by at most "
        f"{moved.max():.2g}; --check says whether a document notices."
    ]


def _network(part: Network, form: Form) -> dict[str, Any]:
    for layer in part.layers:
        if layer.activation not in _ACTIVATIONS:
            refuse(form, "Solr", f"it has no activation {layer.activation!r}, only {', '.join(_ACTIVATIONS)}")
    layers = [
        {
            "matrix": layer.weights.T.astype(float).tolist(),
            "bias": layer.bias.astype(float).tolist(),
            "activation": _ACTIVATIONS[layer.activation],
        }
        for layer in part.layers
    ]
    names = [{"name": name} for name in form.names]
    return {"class": "NeuralNetworkModel", "features": names, "params": {"layers": layers}}
