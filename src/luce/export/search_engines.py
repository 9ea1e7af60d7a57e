"""Models for Elasticsearch and OpenSearch, Solr, and RankLib."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import SettingError
from luce.export import texts, tree_nodes
from luce.export.engine_terms import engine_columns, in_order, weighted
from luce.export.feature_sets import elasticsearch_features, solr_features
from luce.export.request import Request, Written, activation, check_name, check_names, filled_outside, refuse
from luce.export.texts import KEYWORDS, index_settings, solr_schema
from luce.form import Column, Form, Linear, Network, Term, Trees

_OWN_MISSING = (
    "The trees send missing values another way than 0: a version of the plugin that takes 0 for a feature which does "
    "not match, instead of following `missing`, scores such documents otherwise."
)
_DOCUMENTS = 100
"""Of the first stage that the query file reranks."""


def _remarks(form: Form, columns: dict[str, Column], queries: Any) -> list[str]:
    """What the set or store must hold beside stored fields, and where a gap is seen otherwise than by the model."""
    made = [name for name, column in columns.items() if not column.plain]
    found = []
    if made:
        shown = ", ".join(made[:3]) + (", ..." if len(made) > 3 else "")
        found.append(f"{len(made)} features are made of others ({shown}); FILE-features says how.")
    kept = [name for name, column in columns.items() if form.names[column.feature] not in queries]
    filled = [name for name in kept if columns[name].plain and columns[name].fill is not None]
    if filled:
        found.append(
            f"{len(filled)} features fill a gap with the median of training (FILE-features), for trees too where "
            "training had no gaps."
        )
    fields = sum(column.plain and form.names[column.feature] not in queries for column in columns.values())
    if fields:
        said = f"FILE-features takes {fields} features from stored fields of their names"
        found.append(f"{said}; change what comes from elsewhere.")
    return found


def _facts(columns: dict[str, Column]) -> dict[str, Any]:
    made = [name for name, column in columns.items() if not column.plain]
    return {"extra_features": made} if made else {}


def write_elasticsearch(request: Request, target: str = "Elasticsearch") -> Written:
    """Models `model/linear` with normalizers or `model/xgboost+json`, their features, and the query to add them."""
    form = request.form
    check_name("model name", request.name)
    feature_set = check_name("feature set", request.store or "FEATURE_SET")
    columns = engine_columns(form)
    check_names(list(columns), target)
    names = {column: name for name, column in columns.items()}
    models: list[dict[str, Any]] = []
    remarks: list[str] = []
    for i, term in enumerate(form.terms):
        model, said = _elasticsearch(term, [names[c] for c in term.columns], request.folded, target, form)
        name = request.name if i == 0 else f"{request.name}-{i + 1}"
        models.append({"model": {"name": name, "model": model}})
        remarks += said
    remarks += _remarks(form, columns, request.queries)
    host = "http://localhost:9200/_ltr/_featureset/"
    how = "-H 'Content-Type: application/json' --data-binary"
    remarks.append(f"Features: curl -X POST '{host}{feature_set}' {how} @FILE-features")
    remarks += [
        f"Upload: curl -X POST '{host}{feature_set}/_createmodel' {how} @FILE{f'-{i + 1}' if i else ''}"
        for i in range(len(models))
    ]
    features = {"featureset": {"features": elasticsearch_features(form, columns, request.queries)}}
    params = {} if request.text is None else {KEYWORDS: "QUERY", **dict.fromkeys(request.text.of_query, 0)}
    asked = [{"sltr": {"model": model["model"]["name"], "params": params}} for model in models]
    rescore = {"query_weight": 0, "rescore_query_weight": 1, "rescore_query": {"bool": {"should": asked}}}
    query = {"rescore": {"window_size": _DOCUMENTS, "query": rescore}}
    facts = {"type": models[0]["model"]["model"]["type"], **_facts(columns)}
    beside = {"-features": _json(features), "-query": _json(query)}
    if request.text is not None:
        beside["-index"] = _json(index_settings(request.text))
        remarks += texts.remarks(request.text, solr=False)
    return Written([_json(model) for model in models], remarks, facts, columns, beside)


opensearch = partial(write_elasticsearch, target="OpenSearch")


def _json(content: Any) -> str:
    return json.dumps(content, allow_nan=False) + "\n"


def _elasticsearch(
    term: Term, names: list[str], folded: bool, target: str, form: Form
) -> tuple[dict[str, Any], list[str]]:
    part = term.part
    if isinstance(part, Linear):
        found = weighted(names, part, folded)
        normalizers = {
            name: {"standard": {"mean": mean, "standard_deviation": deviation}}
            for name, (mean, deviation) in found.normalizers.items()
        }
        model: dict[str, Any] = {"type": "model/linear", "definition": json.dumps(found.weights, allow_nan=False)}
        return model if folded else {**model, "feature_normalizers": normalizers}, found.remarks
    if not isinstance(part, Trees):
        refuse(form, target, "it takes linear models and trees; networks go to solr, onnx or python")
    definition = {"objective": "rank:ndcg", "splits": tree_list(part, tuple(names), target)}
    model = {"type": "model/xgboost+json", "definition": json.dumps(definition, allow_nan=False)}
    own = not tree_nodes.missing_is_zero(part.forest) and not all(column.never_missing for column in term.columns)
    return model, [_OWN_MISSING] if own else []


def tree_list(part: Trees, names: tuple[str, ...], target: str) -> list[Any]:
    """The trees as XGBoost dumps them: `x < split_condition` goes to `yes`, in float32."""
    forest = part.forest
    tree_nodes.check_plain(forest, names, target)
    conditions, features = tree_nodes.above(forest.threshold).astype(float).tolist(), forest.feature.tolist()
    to_left = tree_nodes.missing_goes_left(forest).tolist()

    def leaf(node: int, value: float) -> dict[str, Any]:
        return {"nodeid": node, "leaf": tree_nodes.number(value)}

    def split(s: tree_nodes.Split) -> dict[str, Any]:
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

    return [tree_nodes.nested(forest, tree, split, leaf, target) for tree in range(forest.n_trees)]


_SLACK = np.float32(1e-6)
_CLASS = "org.apache.solr.ltr.model."
_ACTIVATIONS = {"identity": "identity", "relu": "relu", "leaky_relu": "leakyrelu", "sigmoid": "sigmoid", "tanh": "tanh"}


def write_solr(request: Request) -> Written:
    """A `LinearModel` with normalizers, a `MultipleAdditiveTreesModel` or a `NeuralNetworkModel`, and its features."""
    form = request.form
    if len(form.terms) > 1:
        raise SettingError(
            f"The model is {form.kind}, and Solr reranks by one model; blend trees alone, as by "
            "luce.model('auto', members=['regression', 'lambdarank']) (--trainer-setting "
            "members=regression,lambdarank), or export to elasticsearch, onnx or python."
        )
    columns = engine_columns(form)
    check_names(list(columns), "Solr")
    names = {column: name for name, column in columns.items()}
    (term,) = form.terms
    model, remarks = _solr_model(term, [names[c] for c in term.columns], request.folded, form)
    head = {"class": _CLASS + model.pop("class"), "name": check_name("model name", request.name)}
    if request.store:
        head["store"] = check_name("feature store", request.store)
    remarks += _remarks(form, columns, request.queries)
    host = "http://localhost:8983/solr/COLLECTION/schema/"
    how = "-H 'Content-Type: application/json' --data-binary"
    remarks.append(f"Features: curl -X PUT '{host}feature-store' {how} @FILE-features")
    remarks.append(f"Upload: curl -X PUT '{host}model-store' {how} @FILE")
    passed = () if request.text is None else (KEYWORDS, *request.text.of_query)
    efi = "".join(f" efi.{name}=${{{name}}}" for name in passed)
    query = {"params": {"rq": f"{{!ltr model={request.name} reRankDocs={_DOCUMENTS}{efi}}}", "fl": "id,score"}}
    features = solr_features(form, columns, request.queries, request.store)
    beside = {"-features": _json(features), "-query": _json(query)}
    if request.text is not None:
        beside["-index"] = _json(solr_schema(request.text))
        remarks += texts.remarks(request.text, solr=True)
    return Written([_json(head | model)], remarks, {"class": head["class"], **_facts(columns)}, columns, beside)


def _solr_model(term: Term, names: list[str], folded: bool, form: Form) -> tuple[dict[str, Any], list[str]]:
    if isinstance(term.part, Trees):
        return _trees(term, names)
    if isinstance(term.part, Network):
        return _network(term.part, names, form), []
    assert isinstance(term.part, Linear)
    found = weighted(names, term.part, folded)
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
    wanted = tree_nodes.at_most(threshold)
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


def _trees(term: Term, names: list[str]) -> tuple[dict[str, Any], list[str]]:
    assert isinstance(term.part, Trees)
    forest = term.part.forest
    tree_nodes.check_plain(forest, tuple(names), "Solr")
    features = forest.feature.tolist()
    written = slackened(forest.threshold)
    thresholds, to_left = written.astype(float).tolist(), tree_nodes.missing_goes_left(forest).tolist()
    own_missing = not tree_nodes.missing_is_zero(forest) and not all(column.never_missing for column in term.columns)

    def leaf(_: int, value: float) -> dict[str, Any]:
        return {"value": repr(tree_nodes.number(value))}

    def split(s: tree_nodes.Split) -> dict[str, Any]:
        node: dict[str, Any] = {"feature": names[features[s.position]], "threshold": repr(thresholds[s.position])}
        missing = {"missing": "left" if to_left[s.position] else "right"} if own_missing else {}
        return {**node, **missing, "left": s.left, "right": s.right}

    roots = (tree_nodes.nested(forest, tree, split, leaf, "Solr") for tree in range(forest.n_trees))
    trees = [{"weight": "1", "root": root} for root in roots]
    listed = [{"name": name} for name in names]
    params = {"isNullSameAsZero": False, "trees": trees} if own_missing else {"trees": trees}
    moved = tree_nodes.at_most(forest.threshold).astype(np.float64) - (written + _SLACK)
    remarks = []
    if count := int(np.count_nonzero(moved)):
        remarks.append(
            f"{count} of {len(moved)} thresholds lie so near to zero that Solr's slack of 1e-6 moves them, by at most "
            f"{moved.max():.2g}; --check says whether a document notices."
        )
    if own_missing:
        remarks.append("Missing values have a way of their own: Solr 9.2 or later, features with defaultValue NaN.")
    return {"class": "MultipleAdditiveTreesModel", "features": listed, "params": params}, remarks


def _network(part: Network, names: list[str], form: Form) -> dict[str, Any]:
    layers = [
        {
            "matrix": layer.weights.T.astype(float).tolist(),
            "bias": layer.bias.astype(float).tolist(),
            "activation": activation(layer, _ACTIVATIONS, form, "Solr"),
        }
        for layer in part.layers
    ]
    listed = [{"name": name} for name in names]
    return {"class": "NeuralNetworkModel", "features": listed, "params": {"layers": layers}}


def write_ranklib(request: Request) -> Written:
    """`## Linear Regression` with its bias, or `## LambdaMART`; features by their number, from 1."""
    form = in_order(request.form, "RankLib's text", expand=True)
    (term,) = form.terms
    remarks = ["RankLib knows features by number: feature i of the data (or of the feature set) is the i-th here."]
    columns = engine_columns(form)
    made = len(columns) - len(form.names)
    if made:
        remarks.append(
            f"Features {len(form.names) + 1} to {len(columns)} are made of others, in the order that --json lists; add "
            "them to the data."
        )
    if isinstance(term.part, Linear):
        weights = [f"{i}:{w!r}" for i, w in enumerate(term.part.weights.tolist(), 1)]
        line = " ".join([f"0:{term.part.intercept!r}", *weights])
        text = f"## Linear Regression\n## Lambda = 1.0E-10\n{line}\n"
    else:
        assert isinstance(term.part, Trees)
        text = _ensemble(term.part, tuple(columns), request.ignore_missing)
    return Written([text], [*remarks, *filled_outside(request.form)], _facts(columns), columns)


def _ensemble(part: Trees, names: tuple[str, ...], ignore_missing: bool) -> str:
    forest = part.forest
    tree_nodes.check_plain(forest, names, "RankLib")
    if not ignore_missing and not tree_nodes.missing_is_zero(forest):
        raise SettingError(
            "The trees send missing values another way than 0, and RankLib takes a missing value for 0; "
            "export to another target, or give --ignore-missing where no value is missing."
        )
    thresholds, features = tree_nodes.at_most(forest.threshold).astype(float).tolist(), forest.feature.tolist()

    def leaf(_: int, value: float) -> str:
        return f"<output> {tree_nodes.number(value)!r} </output>\n"

    def split(s: tree_nodes.Split) -> str:
        return (
            f"<feature> {features[s.position] + 1} </feature>\n<threshold> {thresholds[s.position]!r} </threshold>\n"
            f'<split pos="left">\n{s.left}</split>\n<split pos="right">\n{s.right}</split>\n'
        )

    roots = (tree_nodes.nested(forest, t, split, leaf, "RankLib") for t in range(forest.n_trees))
    trees = [f'<tree id="{t}" weight="1.0">\n<split>\n{root}</split>\n</tree>\n' for t, root in enumerate(roots, 1)]
    leaves = int(max(forest.leaves[1:] - forest.leaves[:-1]))
    head = f"## LambdaMART\n## No. of trees = {forest.n_trees}\n## No. of leaves = {leaves}\n\n"
    return head + "<ensemble>\n" + "".join(trees) + "</ensemble>\n"
