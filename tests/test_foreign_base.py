"""Models of LightGBM and XGBoost as what a ranker stands on: their own scores, kept in its file."""

from __future__ import annotations

import json
import sys

import lightgbm
import numpy as np
import pytest

import luce
from luce.base import make_base
from luce.data.simulate import simulate
from luce.errors import DataError, LuceError, MissingExtraError, ModelFormatError, SettingError

QUIET = {"verbose": -1, "min_child_samples": 5, "num_leaves": 6}
TOUCHED = 1e-5
"""XGBoost adds up in 32 bits."""


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    made = simulate(queries=40, features=6, seed=0)
    X = made.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return luce.from_arrays(X, made.y, group=made.sizes, allow_nan=True)


@pytest.fixture(scope="module")
def forest(data) -> lightgbm.LGBMRanker:
    return lightgbm.LGBMRanker(n_estimators=15, **QUIET).fit(data.X, data.y, group=data.sizes)


@pytest.fixture(scope="module")
def xgboost():
    return pytest.importorskip("xgboost")


def rows(data: luce.Groups) -> np.ndarray:
    return np.repeat(np.arange(data.n_queries), data.sizes)


@pytest.fixture(scope="module")
def boosted(data, xgboost):
    return xgboost.XGBRanker(n_estimators=15, max_depth=4, random_state=0).fit(data.X, data.y, qid=rows(data))


def check_kept(base, own, data, tmp_path, tolerance) -> None:
    """Trees on the base: its scores are the library's, and a file keeps all of it."""
    np.testing.assert_allclose(make_base(base).scores(data), own, rtol=0, atol=tolerance)
    model = luce.Ranker("pmop", "trees", max_iter=5, base=base, random_state=0).fit(data)
    np.testing.assert_allclose(model.predict(data) - model.scorer_.score(data.X, data.offsets), own, atol=tolerance)
    model.save(tmp_path / "model.luce")
    again = luce.load(tmp_path / "model.luce")
    np.testing.assert_allclose(again.predict(data), model.predict(data), rtol=0, atol=1e-9)
    again.save(tmp_path / "again.luce")
    assert (tmp_path / "again.luce").read_bytes() == (tmp_path / "model.luce").read_bytes()


@pytest.mark.parametrize("kind", ["estimator", "booster", "file"])
def test_lightgbm(forest, data, tmp_path, kind):
    forest.booster_.save_model(tmp_path / "model.txt")
    base = {"estimator": forest, "booster": forest.booster_, "file": str(tmp_path / "model.txt")}[kind]
    check_kept(base, forest.predict(data.X), data, tmp_path, 1e-9)


@pytest.mark.parametrize("kind", ["estimator", "booster", "json", "ubj"])
def test_xgboost(boosted, data, tmp_path, kind):
    path = tmp_path / f"model.{kind}"
    if kind in ("json", "ubj"):
        boosted.save_model(path)
    base = {"estimator": boosted, "booster": boosted.get_booster()}.get(kind, path)
    check_kept(base, boosted.predict(data.X), data, tmp_path, TOUCHED)


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "binary"},
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        {"objective": "regression", "boosting": "dart"},
        {"objective": "regression", "zero_as_missing": True},
        {"objective": "regression", "cat_smooth": 1},
    ],
)
def test_raw_scores_of_lightgbm(data, settings):
    X = data.X.copy()
    X[:, 0] = np.abs(np.nan_to_num(X[:, 0]) * 3).astype(int)
    whole = luce.from_arrays(X, data.y, group=data.sizes, allow_nan=True)
    categories = [0] if "cat_smooth" in settings else "auto"
    booster = lightgbm.train({**QUIET, **settings}, lightgbm.Dataset(X, data.y > 1, categorical_feature=categories), 8)
    own = booster.predict(X, raw_score=settings.get("boosting") != "rf")  # of which raw is the sum, and not the mean
    np.testing.assert_allclose(make_base(booster).scores(whole), own, atol=1e-9)


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
@pytest.mark.parametrize(
    "objective",
    ["binary:logistic", "reg:logistic", "count:poisson", "reg:tweedie", "reg:gamma",
     "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror"],
)  # fmt: skip
def test_margins_of_xgboost(data, xgboost, objective, booster):
    target = (data.y > 1) * 0.5 + 0.25 if "gamma" in objective else (data.y > 1).astype(float)
    matrix = xgboost.DMatrix(data.X, target)
    told = {"objective": objective, "booster": booster, "rate_drop": 0.5, "max_depth": 3, "num_parallel_tree": 2}
    told |= {"quantile_alpha": 0.6} if "quantile" in objective else {}
    fitted = xgboost.train(
        told if booster == "dart" else {k: v for k, v in told.items() if k != "rate_drop"}, matrix, 6
    )
    own = fitted.predict(matrix, output_margin=True)
    assert np.ptp(own) > 0
    np.testing.assert_allclose(make_base(fitted).scores(data), own, atol=TOUCHED)


def test_the_best_iteration_is_taken_as_their_predict_does(data, xgboost, tmp_path):
    some, rest = data.take(np.arange(20)), data.take(np.arange(20, 40))
    known = lightgbm.Dataset(some.X, some.y)
    stopped = lightgbm.train(
        {**QUIET, "objective": "regression", "learning_rate": 0.5}, known, 200,
        valid_sets=[lightgbm.Dataset(rest.X, rest.y, reference=known)],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )  # fmt: skip
    assert 0 < stopped.best_iteration < stopped.current_iteration()
    np.testing.assert_allclose(make_base(stopped).scores(data), stopped.predict(data.X), atol=1e-9)
    early = xgboost.XGBRanker(n_estimators=200, learning_rate=0.5, early_stopping_rounds=3, num_parallel_tree=2)
    early.fit(some.X, some.y, qid=rows(some), eval_set=[(rest.X, rest.y)], eval_qid=[rows(rest)], verbose=False)
    booster = early.get_booster()
    every = booster.predict(xgboost.DMatrix(data.X))
    assert np.abs(every - early.predict(data.X)).max() > 0.01
    early.save_model(tmp_path / "early.json")
    for base, own in (
        (early, early.predict(data.X)),
        (tmp_path / "early.json", early.predict(data.X)),
        (booster, every),
    ):
        np.testing.assert_allclose(make_base(base).scores(data), own, atol=TOUCHED)


def test_names_of_features_and_their_number(data, forest):
    with pytest.raises(DataError, match="have 5 features and the model was trained on 6"):
        luce.Ranker(scorer="trees", base=forest).fit(data.X[:, :5], data.y, qid=rows(data))
    names = list("abcdef")
    named = lightgbm.train(
        {**QUIET, "objective": "regression"}, lightgbm.Dataset(data.X, data.y, feature_name=names), 3
    )
    with pytest.raises(DataError, match="a feature '1' where the model was trained on 'a'"):
        make_base(named).scores(data)
    known = luce.from_arrays(data.X, data.y, group=data.sizes, feature_names=names, allow_nan=True)
    np.testing.assert_allclose(make_base(named).scores(known), named.predict(data.X), atol=1e-9)


def test_what_cannot_be_a_base(data, forest, xgboost):
    matrix = xgboost.DMatrix(data.X, data.y)
    classes = lightgbm.LGBMClassifier(n_estimators=2, **QUIET).fit(data.X, data.y)
    for base, said in (
        (lightgbm.LGBMRanker(), "LGBMRanker is not fitted"),
        (xgboost.XGBRanker(), "XGBRanker is not fitted"),
        (lightgbm.Booster({"verbose": -1}, lightgbm.Dataset(data.X, data.y)), "no trees"),
        (xgboost.Booster({}, [matrix]), "no trees"),
        (lightgbm.Dataset(data.X), "is a Dataset"),
        (matrix, "is a DMatrix"),
        (classes, "several scores a row"),
        (xgboost.train({"booster": "gblinear"}, matrix, 2), "gblinear"),
        (xgboost.train({"objective": "multi:softprob", "num_class": 5}, matrix, 2), "multi:softprob"),
        (xgboost.XGBRegressor(n_estimators=2, missing=-1.0).fit(data.X, data.y), "takes -1 for missing"),
        (object(), "base is a object"),
    ):
        with pytest.raises(SettingError, match=said):
            luce.Ranker(scorer="trees", base=base).fit(data)
    with pytest.raises(SettingError, match="a model of LightGBM, which luce cannot fit again"):
        luce.Ranker(scorer="trees", base=forest, base_folds=3).fit(data)


def test_categories_are_refused(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Categorical(np.where(data.y > 1, "x", "z")), "b": data.X[:, 1]})
    fitted = lightgbm.LGBMRegressor(n_estimators=2, **QUIET).fit(frame, data.y)
    with pytest.raises(SettingError, match="categories of pandas"):
        make_base(fitted)
    numbers = lightgbm.LGBMRegressor(n_estimators=2, **QUIET).fit(frame.assign(a=data.X[:, 0]), data.y)
    groups = luce.from_frame(frame.astype({"a": str}).assign(qid=rows(data), label=data.y))
    with pytest.raises(DataError, match="'a' has categories"):
        make_base(numbers).scores(groups)


def test_a_clone_keeps_the_fitted_base(forest):
    from sklearn.base import clone

    assert clone(luce.Ranker(scorer="trees", base=forest)).base is forest


def test_without_xgboost_json_is_read_and_binary_refused(boosted, data, tmp_path, monkeypatch):
    for ending in ("json", "ubj"):
        boosted.save_model(tmp_path / f"model.{ending}")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    own = make_base(tmp_path / "model.json").scores(data)
    assert np.ptp(own) > 0
    with pytest.raises(MissingExtraError, match=r"model\.ubj.*luce\[xgboost\]"):
        make_base(tmp_path / "model.ubj")


def test_damaged_files_are_refused(forest, boosted, tmp_path):
    """Cut or changed anywhere, a file gives an error of luce, or other trees that are sound."""
    rng, path = np.random.default_rng(0), tmp_path / "model"
    text = forest.booster_.model_to_string().encode()
    boosted.save_model(tmp_path / "model.json")
    for content in (text, (tmp_path / "model.json").read_bytes()):
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(ModelFormatError, match="model"):
            make_base(path)
        refused = 0
        for place in rng.integers(70, len(content), 60):
            path.write_bytes(content[:place] + b"-" + content[place + 1 :])
            try:
                make_base(path)
            except LuceError:
                refused += 1
        assert refused > 0
    loop = json.loads(content)
    loop["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"][1] = 0
    path.write_text(json.dumps(loop, separators=(",", ":")))
    with pytest.raises(ModelFormatError, match="loop"):
        make_base(path)
