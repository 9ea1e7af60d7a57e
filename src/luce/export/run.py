"""`export_model`: a fitted ranker as the file of a target, checked on data where they are given."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, MissingExtraError, SettingError
from luce.export.form import Form, SecondOrder, Trees, auto_offset, form_of, renamed
from luce.registry import Registry, canonical
from luce.storage import atomic_write
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.data.groups import Groups
    from luce.ranker import Ranker


@dataclass(frozen=True)
class Request:
    """A form and how it is to be written."""

    form: Form
    name: str = "luce"
    store: str = ""
    """Feature set (Elasticsearch, OpenSearch) or feature store (Solr)."""
    folded: bool = False
    """Linear models: plain weights instead of normalizers, the intercept left out."""
    ignore_missing: bool = False
    """Write trees also where the target would send a missing value another way."""


@dataclass
class Written:
    """The content of the file, what its reader must know, and facts for machines."""

    content: str | bytes
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    products: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Features that the target must be given beside the model's own: products of two of them."""


def refuse(form: Form, target: str, able: str) -> NoReturn:
    """The error for a form that a target has no words for."""
    raise SettingError(f"The model is {form.kind}, which {target} cannot express; {able}.")


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


def compared(target: str, content: str | bytes, X: _Rows, names: Sequence[str], scores: FloatArray,
             offsets: IntArray) -> ExportDifference:  # fmt: skip
    """Evaluate an export on rows whose scores by the model (offset included) are known.

    A Python file is evaluated on the first 5000 rows, everything else on all.
    """
    rows = min(len(X), _PYTHON_ROWS) if target == "python" else len(X)
    found = evaluate_export(target, content, X[:rows], names).astype(np.float64)
    largest = float(np.max(np.abs(found - scores[:rows])))
    reordered = 0
    for a, b in pairwise(np.minimum(offsets, rows).tolist()):
        by_model = found[a:b][np.lexsort((found[a:b], scores[a:b]))]
        reordered += bool(np.any(by_model[1:] < by_model[:-1]))
    return ExportDifference(rows, largest, float(found.min()), float(found.max()), reordered)


def evaluate_export(target: str, content: str | bytes, X: _Rows, names: Sequence[str]) -> NDArray[Any]:
    """The scores that the reader of a format would give these rows; `names` are the features as exported."""
    return _EVALUATORS[target](content, X, list(names))


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
        return _layers(params["layers"], X)
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
        result: NDArray[Any] = bias + filled.astype(np.float64) @ np.array(weights)
        return result
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
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError("A check of XGBoost's model", "xgboost") from error
    booster = xgboost.Booster(params={"nthread": 1})
    booster.load_model(bytearray(content.encode()))
    return np.asarray(booster.predict(xgboost.DMatrix(X, feature_names=names, nthread=1)))


def _dump(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    return _tree_sum(json.loads(content), X, names)


def _onnx(content: Any, X: _Rows, names: list[str]) -> NDArray[Any]:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("A check of an ONNX model", "onnx") from error
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
    "xgboost_dump": _dump,
    "onnx": _onnx,
    "python": _python,
}


_TARGETS = Registry(
    "export target",
    {
        "elasticsearch": "luce.export.search_engines:write_elasticsearch",
        "lightgbm": "luce.export.libraries:write_lightgbm",
        "onnx": "luce.export.programs:write_onnx",
        "opensearch": "luce.export.search_engines:opensearch",
        "python": "luce.export.programs:write_python",
        "ranklib": "luce.export.search_engines:write_ranklib",
        "solr": "luce.export.search_engines:write_solr",
        "xgboost-dump": "luce.export.libraries:write_dump",
        "xgboost-json": "luce.export.libraries:write_xgboost",
    },
)
_NEVER_NEGATIVE = ("elasticsearch", "opensearch")


def targets() -> list[str]:
    """All export targets."""
    return _TARGETS.names()


def resolve(target: str) -> str:
    """The registered spelling of a target, or an error that lists them."""
    return _TARGETS.resolve(target)


@dataclass(frozen=True, eq=False)
class Export:
    """An exported model: the content of its file, and what its user must know."""

    target: str
    content: str | bytes
    offset: float
    """What was added to every score."""
    remarks: tuple[str, ...]
    facts: dict[str, Any]
    comparison: ExportDifference | None
    """How it does on the data that were given to check it."""

    def save(self, path: str | Path) -> None:
        """Write the file atomically."""
        data = self.content.encode() if isinstance(self.content, str) else self.content
        with atomic_write(path) as stream:
            stream.write(data)

    def remarks_on(self, path: str | Path) -> list[str]:
        """The remarks with the file in the place of FILE: ready for a shell after @, as a Python string elsewhere."""
        return [_with_file(remark, str(path)) for remark in self.remarks]


def _with_file(remark: str, path: str) -> str:
    """The remark about a file.

    >>> _with_file("curl --data-binary @FILE", "my model.json")
    "curl --data-binary '@my model.json'"
    >>> _with_file("lightgbm.Booster(model_file=FILE)", "model.txt")
    "lightgbm.Booster(model_file='model.txt')"
    """
    command = remark.removesuffix("@FILE")
    if command != remark:
        return command + shlex.quote(f"@{path}")
    return re.sub(r"\bFILE\b", lambda _: repr(path), remark)


def export_model(
    model: Ranker,
    target: str,
    *,
    name: str = "luce",
    store: str = "",
    offset: float | Literal["auto"] = 0.0,
    feature_names: Mapping[str, str] | Sequence[str] | None = None,
    check: Groups | None = None,
    folded: bool = False,
    ignore_missing: bool = False,
) -> Export:
    """Write a fitted ranker in the format of another engine; what that cannot express raises `SettingError`.

    Parameters
    ----------
    target
        One of `targets()`.
    name, store
        Name of the model, and of the feature set (Elasticsearch, OpenSearch) or feature store (Solr).
    offset
        Added to every score. "auto" brings them to 0 or above, which Elasticsearch and OpenSearch demand.
    feature_names
        New names of features, from old to new, or a list of all.
    check
        Judged documents (labels are not used) on which the exported file is evaluated beside the model, and whose
        feature ranges bound a linear model for `offset="auto"`.
    folded
        Linear models in Elasticsearch, OpenSearch and Solr: plain weights, the intercept left out, instead of
        normalizers that carry it.
    ignore_missing
        Write trees for RankLib, which takes a missing value for 0, even where they send it another way.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "scorer_")
    writer, target = _TARGETS.get(target), _TARGETS.resolve(target)
    form = form_of(model)
    codes = _category_codes(model, target)
    scores = None if check is None else _scores(model, check)
    form = replace(form, names=renamed(form.names, feature_names))
    added = auto_offset(form, None if check is None else check.X) if offset == "auto" else _number(offset)
    if folded and added:
        raise SettingError("An offset goes into the normalizers of a linear model; leave folded (--folded) out.")
    request = Request(form.shifted(added), name, store, folded, ignore_missing)
    written = writer(request)
    comparison = None
    if check is not None and scores is not None:
        # Plain weights leave the intercept out.
        shift = added - (_intercept(form) if folded else 0.0)
        X, names = _extended(check.X, form.names, written)
        key = canonical(target)
        comparison = compared(key, written.content, X, names, scores + shift, check.offsets)
    remarks = [
        *_about_sign(target, form, added, offset == "auto", comparison),
        *written.remarks,
        *codes,
        *_about_gaps(model),
    ]
    return Export(target, written.content, added, tuple(remarks), written.facts, comparison)


def _about_gaps(model: Ranker) -> list[str]:
    """What a target makes of a gap, where the model itself would fill it."""
    filling = model.filling_ or getattr(model.scorer_, "filling", None)
    if filling is None or not filling.fills:
        return []
    return ["The model fills a gap with the median of training, and the export does not: give it rows without gaps."]


def _category_codes(model: Ranker, target: str) -> list[str]:
    """The codes of categories, for targets that can split by them; the others know no names."""
    if model.schema_ is None or not model.schema_.categories:
        return []
    if target not in ("lightgbm", "python"):
        name = model.schema_.features[next(iter(model.schema_.categories))].name
        raise SettingError(
            f"The feature {name!r} is a category, whose names {target} cannot hold; export to python or lightgbm, or "
            "train without it."
        )
    return [
        f"Codes of {model.schema_.features[j].name}: " + ", ".join(f"{name} = {i}" for i, name in enumerate(names))
        for j, names in model.schema_.categories.items()
    ]


def _scores(model: Ranker, check: Groups) -> FloatArray:
    scores = model.predict(check)
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(
            f"The model gives row {row} of the check the score {scores[row]}, since it does not take missing "
            "values; check it on rows without them."
        )
    return scores


def _number(offset: Any) -> float:
    if isinstance(offset, bool) or not isinstance(offset, int | float) or not np.isfinite(offset):
        raise SettingError(f"offset is {offset!r}; it must be a finite number or 'auto'.")
    return float(offset)


def _intercept(form: Form) -> float:
    from luce.export.linear_terms import linear_terms

    terms = linear_terms(form)
    return 0.0 if terms is None else terms.linear.intercept


def _extended(
    X: NDArray[np.float32], names: tuple[str, ...], written: Written
) -> tuple[NDArray[np.float32], list[str]]:
    """The rows with the products that the target is to be given as features."""
    place = {name: i for i, name in enumerate(names)}
    columns = [X[:, place[a]] * X[:, place[b]] for a, b in written.products.values()]
    return np.column_stack([X, *columns]) if columns else X, [*names, *written.products]


def _about_sign(target: str, form: Form, added: float, bounded: bool, comparison: ExportDifference | None) -> list[str]:
    trees_only = all(isinstance(part, Trees) for part in form.parts)
    if bounded:
        twice = any(isinstance(part, SecondOrder) for part in form.parts)
        ranges = (
            "while scores range at most twice as far as in the check" if twice else "within the ranges of the check"
        )
        scope = "whatever the document" if trees_only else ranges
        return [f"{added:.6g} is added to every score: none is negative, {scope}."]
    if canonical(target) not in _NEVER_NEGATIVE:
        return []
    if comparison is not None and comparison.lowest < 0:
        return [f"Scores go down to {comparison.lowest:.4g}, and {target} rejects negative ones: give --offset auto."]
    if not trees_only or auto_offset(form, None) > added:
        return [f"Scores may be negative, which {target} rejects: give --offset auto."]
    return []
