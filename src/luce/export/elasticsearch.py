"""Elasticsearch and OpenSearch, learning-to-rank plugin: the body of `_createmodel`."""

from __future__ import annotations

import json
from typing import Any

from luce.export.base import Request, Written, refuse
from luce.export.form import Trees
from luce.export.linear_terms import Terms, linear_terms, normalised
from luce.export.names import check_name, check_names
from luce.export.splits import Split, above, check_plain, missing_goes_left, missing_is_zero, nested, number

_OWN_MISSING = (
    "The trees send missing values another way than 0: a version of the plugin that takes 0 for a feature which does "
    "not match, instead of following `missing`, scores such documents otherwise."
)


def write(request: Request, target: str = "Elasticsearch") -> Written:
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
    return write(request, "OpenSearch")


def _linear(terms: Terms, folded: bool, target: str) -> tuple[dict[str, Any], list[str]]:
    check_names(terms.names, target)
    remarks = _about_products(terms, target)
    if folded:
        weights = {name: w for name, w in zip(terms.names, terms.linear.weights.tolist(), strict=True) if w}
        remarks.append(f"The intercept {terms.linear.intercept:.6g} is left out; the order of documents is the same.")
        return {"type": "model/linear", "definition": json.dumps(weights, allow_nan=False)}, remarks
    parts = normalised(terms.names, terms.linear)
    weights = dict(zip(parts.names, parts.weight.tolist(), strict=True))
    normalizers = {
        name: {"standard": {"mean": mean, "standard_deviation": deviation}}
        for name, mean, deviation in zip(parts.names, parts.mean.tolist(), parts.deviation.tolist(), strict=True)
    }
    model = {"type": "model/linear", "definition": json.dumps(weights, allow_nan=False)}
    return {**model, "feature_normalizers": normalizers}, remarks


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


def _about_products(terms: Terms, target: str) -> list[str]:
    if not terms.products:
        return []
    first, (left, right) = next(iter(terms.products.items()))
    return [
        f"The model needs {len(terms.products)} products of features as features of the set, such as "
        f"{first} = {left} * {right} (a derived_expression in {target}; --json lists all)."
    ]


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
