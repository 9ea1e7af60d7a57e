"""What features add to scores: exact sums, and the values of slow references."""

import itertools
import math
import sys
import types

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import luce
from luce.cli.app import app
from luce.data.simulate import simulate
from luce.errors import LuceError
from luce.scorers.forest import forest_of
from luce.scorers.forest_paths import tree_contributions


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    n = 600
    x = rng.normal(size=(n, 4))
    brand = rng.choice(["a", "b", "c"], n)
    grade = np.clip(np.round(x[:, 0] * x[:, 1] + x[:, 2] + (brand == "a") + 1), 0, 4)
    price = np.where(rng.random(n) < 0.2, np.nan, x[:, 3])
    columns = {"qid": np.repeat(np.arange(n // 10), 10), "grade": grade, "brand": brand, "price": price}
    return pa.table(columns | {name: x[:, i] for i, name in enumerate("uvw")})


def models():
    linear = luce.Ranker("listnet", max_iter=30)
    return {
        "linear": linear,
        "normalised": luce.Ranker("listnet", query_norm="zscore", max_iter=30),
        "trees": luce.Ranker("pmop", "trees", max_iter=15),
        "second order": luce.Ranker("listnet", "second_order", max_iter=30),
        "steps": luce.Ranker(trainer="rankboost", max_iter=20),
        "blend": luce.Ranker(trainer="blend", trainer__members=["regression", "luce-linear"], trainer__folds=2),
        "on a base": luce.Ranker("pmop", "trees", base=linear, max_iter=10),
    }


@pytest.mark.parametrize("name", list(models()))
def test_what_features_add_is_the_score(name, table):
    model = models()[name].fit(table, "grade", qid="qid")
    found = model.explain(table)
    np.testing.assert_allclose(found.scores, model.predict(table), rtol=0, atol=1e-9)
    assert found.values.shape == (600, 5) == found.data.shape
    assert list(found.feature_names) == list(model.feature_names_)
    pair = model.explain(table, against=3, **({"qid": "qid"} if name == "normalised" else {}))
    np.testing.assert_allclose(pair.scores, found.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(pair.base_values, found.scores[3], rtol=0, atol=1e-9)
    assert not pair.values[3].any()


def test_trees_have_the_values_of_lightgbm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 9, len(X))
    y = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + (X[:, 3] % 3 == 0)
    data = lgb.Dataset(X, y, categorical_feature=[3])
    booster = lgb.train({"num_leaves": 15, "verbose": -1, "min_data_in_leaf": 5}, data, 20)
    values, base = tree_contributions(forest_of(booster), X[:50], None)
    expected = booster.predict(X[:50], pred_contrib=True)
    np.testing.assert_allclose(values, expected[:, :-1], rtol=0, atol=1e-12)
    assert base == pytest.approx(expected[0, -1], abs=1e-12)


@pytest.mark.parametrize("name", ["trees", "second order"])
def test_against_another_document_all_orders_are_averaged(name, table):
    model = models()[name].fit(table.drop_columns(["brand"]), "grade", qid="qid")
    data = luce.from_frame(table.drop_columns(["brand"]), label="grade", qid="qid", allow_nan=True)
    a, b = np.asarray(data.X[7]), np.asarray(data.X[0])
    shares = np.zeros(len(a))
    orders = list(itertools.permutations(range(len(a))))
    mixtures = {}
    for chosen in itertools.product([False, True], repeat=len(a)):
        mixtures[chosen] = np.where(chosen, a, b)
    names = list(data.feature_names)
    keys = list(mixtures)
    rows = np.array([mixtures[key] for key in keys])
    scores = dict(zip(keys, model.predict(pa.table(dict(zip(names, rows.T, strict=True)))), strict=True))
    for order in orders:
        chosen = [False] * len(a)
        for j in order:
            before = scores[tuple(chosen)]
            chosen[j] = True
            shares[j] += scores[tuple(chosen)] - before
    found = model.explain(data, against=0)
    np.testing.assert_allclose(found.values[7], shares / math.factorial(len(a)), rtol=0, atol=1e-9)


def test_a_base_that_is_given_and_one_that_is_a_column(table):
    data = simulate(queries=20, features=4, seed=1)
    scores = np.random.default_rng(0).normal(size=data.n_rows)
    model = luce.Ranker("pmop", "trees", max_iter=5).fit(data, base_scores=scores)
    found = model.explain(data, base_scores=scores)
    np.testing.assert_allclose(found.scores, model.predict(data, base_scores=scores), atol=1e-9)
    assert found.notes
    column = luce.Ranker("pmop", "trees", base="column:u", max_iter=5).fit(table, "grade", qid="qid")
    np.testing.assert_allclose(column.explain(table).scores, column.predict(table), atol=1e-9)


def test_shap_gets_an_object_of_its_own(table, monkeypatch):
    found = luce.Ranker("listnet", max_iter=5).fit(table, "grade", qid="qid").explain(table)
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(LuceError, match="pip install shap"):
        found.to_shap()

    class Theirs(types.SimpleNamespace):
        def __init__(self, values, base_values, data, *, feature_names):
            super().__init__(values=values, base_values=base_values, data=data, feature_names=feature_names)

    monkeypatch.setitem(sys.modules, "shap", types.SimpleNamespace(Explanation=Theirs))
    made = found.to_shap()
    assert made.values is found.values
    assert (made.base_values.shape, made.data.shape) == ((600,), made.values.shape)
    assert made.feature_names == ["brand", "price", "u", "v", "w"]


def test_what_has_no_exact_values_is_refused(table):
    network = luce.Ranker("listnet", "mlp", max_iter=2, random_state=0).fit(table, "grade", qid="qid")
    with pytest.raises(luce.errors.SettingError, match="neural network"):
        network.explain(table)
    with pytest.raises(luce.errors.DataError, match="against is row 600"):
        models()["linear"].fit(table, "grade", qid="qid").explain(table, against=600)


def test_where_users_of_scikit_learn_look(table):
    for name, model in models().items():
        model.fit(table, "grade", qid="qid")
        shares = model.feature_importances_
        assert shares.shape == (5,) == (model.n_features_in_,), name
        assert shares.sum() == pytest.approx(1.0)
        assert list(model.feature_names_in_) == ["brand", "price", "u", "v", "w"]
        assert model.best_iteration_ >= 1
    stopped = luce.Ranker("pmop", "trees", max_iter=30, early_stopping=3)
    train, valid = table.slice(0, 400), table.slice(400)
    stopped.fit(train, "grade", qid="qid", valid=valid)
    assert stopped.best_iteration_ == stopped.history_["best_iteration"]


def test_luce_explain(tmp_path, table):
    import pyarrow.csv as csv

    names = pa.array([f"d{i}" for i in range(table.num_rows)])
    csv.write_csv(table.append_column("doc_id", names), tmp_path / "t.csv")
    model = models()["trees"].fit(table, "grade", qid="qid")
    model.save(tmp_path / "m.luce")
    run = ["explain", str(tmp_path / "t.csv"), "--model", str(tmp_path / "m.luce"), "--doc", "doc_id"]
    shown = CliRunner().invoke(app, [*run, "--query", "3", "--document", "d31", "--against", "d33", "--json"])
    assert shown.exit_code == 0, shown.output
    import json

    found = json.loads(shown.stdout)
    assert found["reference"] + sum(found["adds"].values()) == pytest.approx(found["score"], abs=1e-9)
    assert found["score"] == pytest.approx(model.predict(table)[31], abs=1e-9)
    assert CliRunner().invoke(app, [*run, "--out", str(tmp_path / "all.csv")]).exit_code == 0
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 601
    wrong = CliRunner().invoke(app, [*run, "--document", "nobody"])
    assert isinstance(wrong.exception, luce.errors.LuceError)
