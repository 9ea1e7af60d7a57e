"""Models for Elasticsearch and OpenSearch, Solr, and RankLib."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.export.form import (
    Form,
    Network,
    Split,
    Trees,
    above,
    at_most,
    check_name,
    check_names,
    check_plain,
    missing_goes_left,
    missing_is_zero,
    nested,
    number,
)
from luce.export.linear_terms import Terms, linear_terms, weighted
from luce.export.run import Request, Written, refuse

_OWN_MISSING = (
    "The trees send missing values another way than 0: a version of the plugin that takes 0 for a feature which does "
    "not match, instead of following `missing`, scores such documents otherwise."
)


def write_elasticsearch(request: Request, target: str = "Elasticsearch") -> Written:
    """A model of type `model/linear` with normalizers, or `model/xgboost+json`."""
    form = request.form
    check_name("model name", request.name)
    feature_set = check_name("feature set", request.store or "FEATURE_SET")
    terms = linear_terms(form)
    if terms is not None:
        model, remarks = _linear(terms, request.folded, target)
    elif isinstance(form.single, Trees):
        check_names(form.names, target)
        definition = {"objective": "rank:ndcg", "splits": tree_list(form.single, form.names, target)}
        model = {"type": "model/xgboost+json", "definition": json.dumps(definition, allow_nan=False)}
        remarks = [] if missing_is_zero(form.single.forest) else [_OWN_MISSING]
    else:
        refuse(form, target, "it takes linear models and trees; networks go to solr, onnx or python")
    body = {"model": {"name": request.name, "model": model}}
    remarks.append(
        f"Upload: curl -X POST 'http://localhost:9200/_ltr/_featureset/{feature_set}/_createmodel' "
        "-H 'Content-Type: application/json' --data-binary @FILE"
    )
    facts = {"type": model["type"]} | ({"extra_features": _expressions(terms)} if terms and terms.products else {})
    return Written(json.dumps(body, allow_nan=False) + "\n", remarks, facts, terms.products if terms else {})


def opensearch(request: Request) -> Written:
    """The same plugin, for OpenSearch."""
    return write_elasticsearch(request, "OpenSearch")


def _linear(terms: Terms, folded: bool, target: str) -> tuple[dict[str, Any], list[str]]:
    check_names(terms.names, target)
    found = weighted(terms, folded, "the set", f"a derived_expression in {target}")
    normalizers = {
        name: {"standard": {"mean": mean, "standard_deviation": deviation}}
        for name, (mean, deviation) in found.normalizers.items()
    }
    model: dict[str, Any] = {"type": "model/linear", "definition": json.dumps(found.weights, allow_nan=False)}
    return model if folded else {**model, "feature_normalizers": normalizers}, found.remarks


def _expressions(terms: Terms) -> list[dict[str, Any]]:
    """The products that the feature set needs; where the names are identifiers, as features that compute them."""
    found: list[dict[str, Any]] = []
    for name, (left, right) in terms.products.items():
        derived = {"template_language": "derived_expression", "template": f"{left} * {right}"}
        found.append(
            {
                "name": name,
                "product": [left, right],
                **(derived if left.isidentifier() and right.isidentifier() else {}),
            }
        )
    return found


def tree_list(part: Trees, names: tuple[str, ...], target: str) -> list[Any]:
    """The trees as XGBoost dumps them: `x < split_condition` goes to `yes`, in float32."""
    forest = part.forest
    check_plain(forest, names, target)
    conditions, features = above(forest.threshold).astype(float).tolist(), forest.feature.tolist()
    to_left = missing_goes_left(forest).tolist()

    def leaf(node: int, value: float) -> dict[str, Any]:
        return {"nodeid": node, "leaf": number(value)}

    def split(s: Split) -> dict[str, Any]:
        return {
            "nodeid": s.node,
            "depth": s.depth,
            "split": names[features[s.position]],
            "split_condition": conditions[s.position],
            "yes": s.left_node,
            "no": s.right_node,
            "missing": s.left_node if to_left[s.position] else s.right_node,
            "children": [s.left, s.right],
        }

    return [nested(forest, tree, split, leaf, target) for tree in range(forest.n_trees)]


_SLACK = np.float32(1e-6)
_CLASS = "org.apache.solr.ltr.model."
_ACTIVATIONS = {"identity": "identity", "relu": "relu", "leaky_relu": "leakyrelu", "sigmoid": "sigmoid", "tanh": "tanh"}


def write_solr(request: Request) -> Written:
    """A `LinearModel` with normalizers, a `MultipleAdditiveTreesModel` or a `NeuralNetworkModel`."""
    form = request.form
    terms = linear_terms(form)
    check_names(form.names if terms is None else terms.names, "Solr")
    if terms is not None:
        model, remarks = _linear_solr(terms, request.folded)
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


def _linear_solr(terms: Terms, folded: bool) -> tuple[dict[str, Any], list[str]]:
    found = weighted(terms, folded, "the store", "a SolrFeature with a function query")
    features: list[dict[str, Any]] = [{"name": name} for name in found.weights]
    for feature, (mean, deviation) in zip(features, found.normalizers.values(), strict=not folded):
        params = {"avg": repr(mean), "std": repr(deviation)}
        feature["norm"] = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
    return {"class": "LinearModel", "features": features, "params": {"weights": found.weights}}, found.remarks


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


def write_ranklib(request: Request) -> Written:
    """`## Linear Regression` with its bias, or `## LambdaMART`; features by their number, from 1."""
    form = request.form
    remarks = ["RankLib knows features by number: feature i of the data (or of the feature set) is the i-th here."]
    terms = linear_terms(form)
    if terms is not None:
        weights = [f"{i}:{w!r}" for i, w in enumerate(terms.linear.weights.tolist(), 1)]
        if terms.products:
            last = len(form.names)
            remarks.append(
                f"Features {last + 1} to {last + len(terms.products)} are products of features, in the order that "
                "--json lists; add them to the data."
            )
        facts = {"extra_features": [f"{a} * {b}" for a, b in terms.products.values()]} if terms.products else {}
        line = " ".join([f"0:{terms.linear.intercept!r}", *weights])
        return Written(f"## Linear Regression\n## Lambda = 1.0E-10\n{line}\n", remarks, facts, terms.products)
    if not isinstance(form.single, Trees):
        refuse(form, "RankLib's text", "it takes linear models and trees; networks go to solr, onnx or python")
    return Written(_ensemble(form.single, form, request.ignore_missing), remarks)


def _ensemble(part: Trees, form: Form, ignore_missing: bool) -> str:
    forest = part.forest
    check_plain(forest, form.names, "RankLib")
    if not ignore_missing and not missing_is_zero(forest):
        raise SettingError(
            "The trees send missing values another way than 0, and RankLib takes a missing value for 0; "
            "export to another target, or give --ignore-missing where no value is missing."
        )
    thresholds, features = at_most(forest.threshold).astype(float).tolist(), forest.feature.tolist()

    def leaf(_: int, value: float) -> str:
        return f"<output> {number(value)!r} </output>\n"

    def split(s: Split) -> str:
        return (
            f"<feature> {features[s.position] + 1} </feature>\n<threshold> {thresholds[s.position]!r} </threshold>\n"
            f'<split pos="left">\n{s.left}</split>\n<split pos="right">\n{s.right}</split>\n'
        )

    trees = [
        f'<tree id="{t + 1}" weight="1.0">\n<split>\n{nested(forest, t, split, leaf, "RankLib")}</split>\n</tree>\n'
        for t in range(forest.n_trees)
    ]
    leaves = int(max(forest.leaves[1:] - forest.leaves[:-1]))
    head = f"## LambdaMART\n## No. of trees = {forest.n_trees}\n## No. of leaves = {leaves}\n\n"
    return head + "<ensemble>\n" + "".join(trees) + "</ensemble>\n"
