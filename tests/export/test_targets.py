"""Every export beside `predict`: real rows, missing values, and values exactly at thresholds, to float32 rounding."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import luce
from luce.errors import SettingError
from luce.export import export_model
from luce.export.tree_nodes import at_most
from luce.form import Form, Linear, SecondOrder, Trees, form_of
from tests.export import evaluators

pytestmark = pytest.mark.real

UNIT = 2.0**-24
NETWORKS = ("mlp", "mlp relu", "mlp sigmoid")
LINEAR = ("linear", "linear on OHSUMED", "adarank", "linear regression")
TREES = ("trees", "trees on OHSUMED", "trees with gaps", "rankboost", "frank", "random forest", "trees on trees")
ENGINES = ("elasticsearch", "solr", "ranklib", "xgboost-dump")


def rows_at_thresholds(form: Form, X: np.ndarray) -> np.ndarray:
    """Rows of X with one value put to a threshold, to the float32 below it and to the one above it."""
    (part,) = form.parts
    if not isinstance(part, Trees):
        return X[:0]
    usable = np.abs(part.forest.threshold) < 1e30  # a split of what is missing from all else has none
    at, features = at_most(part.forest.threshold[usable]), part.forest.feature[usable]
    values = np.concatenate([at, np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf))])
    feature = np.tile(features, 3)
    pick = np.linspace(0, len(feature) - 1, 90).astype(int) if len(feature) > 90 else np.arange(len(feature))
    rows = X[np.arange(len(pick)) % len(X)].copy()
    rows[np.arange(len(pick)), feature[pick]] = values[pick]
    return rows


def score_size(form: Form, X: np.ndarray) -> tuple[np.ndarray, int]:
    """The sum of the absolute terms of every row, and how many there are: what float32 rounding is relative to."""
    total, terms, filled = np.zeros(len(X)), 4, np.abs(np.nan_to_num(X)).astype(float)
    for part in form.parts:
        if isinstance(part, Trees):
            starts = part.forest.leaves[:-1]
            total += np.maximum.reduceat(np.abs(part.forest.value), starts).sum()
            terms += part.forest.n_trees
        elif isinstance(part, Linear):
            total += filled @ np.abs(part.weights) + 3 * abs(part.intercept)
            terms += len(part.weights)
        elif isinstance(part, SecondOrder):
            weights, pairs, intercept = part.expanded()
            i, j = part.products.left, part.products.right
            total += filled @ np.abs(weights) + (filled[:, i] * filled[:, j]) @ np.abs(pairs) + 3 * abs(intercept)
            mean, scale = np.abs(part.products.mean), part.products.inverse_sd
            z = (filled + mean) * scale
            total += z @ np.abs(part.weights) + (z[:, i] * z[:, j]) @ np.abs(part.pair_weights)
            terms += len(weights) + len(pairs)
        else:  # no activation is steeper than 1, so that an error of a layer grows by the weights after it at most
            reach = filled
            for layer in part.layers:
                reach = reach @ np.abs(layer.weights) + np.abs(layer.bias)
                terms += len(layer.weights)
            total += reach[:, 0] * len(part.layers)
    return total, terms


def checked_rows(case) -> tuple[Form, np.ndarray, np.ndarray]:
    """Form, rows, and what the model says of them."""
    form = form_of(case.model)
    X = case.rows.X[:: max(1, len(case.rows.X) // 40)]
    X = np.concatenate([X, rows_at_thresholds(form, case.rows.X)]) if len(form.parts) == 1 else X
    rows = luce.from_arrays(X, allow_nan=True)
    return form, X, case.model.predict(rows)


def evaluated(target: str, content: str, names: tuple[str, ...], X: np.ndarray) -> np.ndarray:
    if target == "ranklib":
        return np.array([evaluators.ranklib(content, list(row)) for row in X])
    evaluate = {"xgboost-dump": evaluators.xgboost_dump, "solr": evaluators.solr}.get(target, evaluators.elasticsearch)
    return np.array([evaluate(content, dict(zip(names, row, strict=True))) for row in X])


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("name", LINEAR + TREES + NETWORKS)
def test_an_engine_scores_as_the_model_does(cases, name, target):
    form, X, expected = checked_rows(cases[name])
    if (target == "xgboost-dump" and name in LINEAR) or (target != "solr" and name in NETWORKS):
        with pytest.raises(SettingError, match=form.kind):
            export_model(cases[name].model, target)
        return
    made = export_model(cases[name].model, target, ignore_missing=True)
    if target == "ranklib" and name in ("trees with gaps", "rankboost"):
        X, expected = _without_gaps(cases[name].model, X)
    found = evaluated(target, made.content, form.names, X)
    size, terms = score_size(form, X)
    near_zero = _noticed_by_slack(form, X) if target == "solr" else np.zeros(len(X), bool)
    assert np.all((np.abs(found - expected) <= 2 * terms * UNIT * size) | near_zero)
    assert near_zero.mean() < 0.25


def _without_gaps(model, X):
    filled = np.nan_to_num(X, nan=0.25)
    return filled, model.predict(luce.from_arrays(filled))


def _noticed_by_slack(form: Form, X: np.ndarray) -> np.ndarray:
    """Rows with a value within 1e-12 of a threshold that Solr's slack cannot express: they may change leaf."""
    from luce.export.search_engines import slackened

    (part,) = form.parts
    if not isinstance(part, Trees):
        return np.zeros(len(X), bool)
    wanted = at_most(part.forest.threshold)
    asked = slackened(part.forest.threshold) + np.float32(1e-6)
    noticed = np.zeros(len(X), bool)
    for feature, low, high in zip(part.forest.feature, asked, wanted, strict=True):
        noticed |= (X[:, feature] > low) & (X[:, feature] <= high)
    return noticed


@pytest.mark.parametrize("target", ["elasticsearch", "solr"])
def test_products_are_features_that_the_engine_is_told_of(cases, target):
    case = cases["second order"]
    made = export_model(case.model, target)
    assert {made: target}[made] == target
    form, X, expected = checked_rows(case)
    pairs = case.model.scorer_.products
    assert len(made.facts["extra_features"]) == len(pairs.left)
    documents = []
    for row in X:
        document = dict(zip(form.names, row, strict=True))
        for i, j in zip(pairs.left, pairs.right, strict=True):
            document[f"{form.names[i]}_x_{form.names[j]}"] = row[i] * row[j]
        documents.append(document)
    evaluate = getattr(evaluators, target)
    found = np.array([evaluate(made.content, document) for document in documents])
    size, terms = score_size(form, X)
    assert np.all(np.abs(found - expected) <= 2 * terms * UNIT * size)


@pytest.mark.parametrize("name", TREES)
def test_lightgbm_reads_its_text_back(cases, name):
    import lightgbm

    _, X, expected = checked_rows(cases[name])
    booster = lightgbm.Booster(model_str=export_model(cases[name].model, "lightgbm").content)
    np.testing.assert_allclose(booster.predict(X.astype(np.float64)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LINEAR + TREES)
def test_xgboost_reads_its_json_back(cases, name, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    form, X, expected = checked_rows(cases[name])
    made = export_model(cases[name].model, "xgboost-json")
    made.save(tmp_path / "model.json")
    booster = xgboost.Booster(model_file=tmp_path / "model.json")
    found = booster.predict(xgboost.DMatrix(X, feature_names=list(form.names)))
    size, terms = score_size(form, X)
    assert np.all(np.abs(found - expected) <= 2 * terms * UNIT * size)


@pytest.mark.parametrize("name", [*LINEAR, *TREES, *NETWORKS, "second order", "trees on linear"])
def test_onnxruntime_scores_as_the_model_does(cases, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    form, X, expected = checked_rows(cases[name])
    made = export_model(cases[name].model, "onnx")
    session = onnxruntime.InferenceSession(made.content, providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["feature_names"].split("\n") == list(form.names)
    (found,) = session.run(None, {"features": X})
    size, terms = score_size(form, X)
    assert np.all(np.abs(found[:, 0] - expected) <= 2 * terms * UNIT * size)


@pytest.mark.parametrize("name", [*LINEAR, *TREES, *NETWORKS, "second order", "trees on linear"])
def test_the_python_file_scores_as_the_model_does(cases, name):
    form, X, expected = checked_rows(cases[name])
    namespace: dict = {}
    exec(export_model(cases[name].model, "python").content, namespace)
    found = [namespace["score"](row) for row in X.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    by_name = {n: float(x) for n, x in zip(form.names, X[0], strict=True) if not np.isnan(x)}
    assert namespace["score"](by_name) == pytest.approx(expected[0], rel=1e-12)


def test_the_python_file_needs_nothing_but_python(cases, tmp_path):
    export_model(cases["trees"].model, "python").save(tmp_path / "ranker.py")
    code = "import sys, ranker; print(ranker.score([0.0] * 46)); sys.exit('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = cases["trees"].model.predict(np.zeros((1, 46), np.float32))[0]
    assert float(done.stdout) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("target", luce.export.targets())
@pytest.mark.parametrize("name", ["linear", "trees with gaps", "rankboost", "second order", "trees on linear", "mlp"])
def test_the_check_of_the_package_agrees(cases, name, target):
    case = cases[name]
    try:
        offset = 10.0 if name == "mlp" else "auto"
        made = export_model(case.model, target, check=case.rows, offset=offset, ignore_missing=True)
    except SettingError:
        assert (name, target) in REFUSED
        return
    assert (name, target) not in REFUSED
    if (name, target) not in (("trees with gaps", "ranklib"), ("rankboost", "ranklib")):
        assert made.comparison.largest < 1e-4
        assert made.comparison.reordered == 0
        assert made.comparison.lowest >= 0
    assert made.comparison.rows == case.rows.n_rows


REFUSED = {("linear", "lightgbm"), ("linear", "xgboost-dump")}
REFUSED |= {("mlp", target) for target in luce.export.targets() if target not in ("python", "onnx", "solr")}
REFUSED |= {("second order", target) for target in ("lightgbm", "xgboost-dump", "xgboost-json")}
REFUSED |= {("trees on linear", target) for target in ("solr", "ranklib", "lightgbm", "xgboost-json", "xgboost-dump")}
