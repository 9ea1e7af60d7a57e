"""`Ranker` as a scikit-learn estimator and as a learner."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, SettingError, UnknownNameError
from luce.systems import ranker_names
from tests.thorough import THOROUGH

RANKERS = [luce.Ranker(), luce.Ranker(scorer="trees", max_iter=5)]
RARE = [luce.Ranker(scorer="second_order"), luce.Ranker(trainer="adarank"), luce.Ranker(trainer="linear_regression")]


@parametrize_with_checks([*RANKERS, luce.Ranker(trainer="rankboost"), *(RARE if THOROUGH else [])])
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=120, features=10, seed=1)


def test_grid_search_with_query_ids(data):
    with config_context(enable_metadata_routing=True):
        ranker = luce.Ranker().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"l2": [1e-3, 10.0]}, cv=GroupKFold(3))
        search.fit(data.X, data.y, qid=data.qid, groups=data.qid)
    assert search.best_params_["l2"] in (1e-3, 10.0)
    assert 0 < search.best_score_ < 1


def test_pipeline_with_query_ids(data):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), luce.Ranker(tol=1e-12, max_iter=500).set_fit_request(qid=True))
        pipeline.fit(data.X, data.y, qid=data.qid)
        scores = pipeline.predict(data.X)
    direct = luce.Ranker(tol=1e-12, max_iter=500).fit(data).predict(data)
    np.testing.assert_allclose(scores, direct, atol=1e-3)


def test_rows_in_any_order(data):
    model = luce.Ranker(tol=1e-10, max_iter=500).fit(data)
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    shuffled = luce.Ranker(tol=1e-10, max_iter=500).fit(data.X[shuffle], data.y[shuffle], qid=data.qid[shuffle])
    np.testing.assert_allclose(model.predict(data.X)[shuffle], model.predict(data.X[shuffle]), rtol=1e-12)
    np.testing.assert_allclose(shuffled.predict(data.X), model.predict(data.X), atol=1e-3)


@pytest.mark.parametrize("loss", luce.losses.names())
def test_every_loss_beats_chance(data, loss):
    model = luce.Ranker(loss=loss, random_state=0).fit(data)
    random = luce.evaluate(np.random.default_rng(0).normal(size=data.n_rows), data, ["ndcg@10"]).means["ndcg@10"]
    assert model.score(data) > random + 0.05


def test_objective_is_at_its_minimum(data):
    """The gradient of mean loss a query plus l2/2 ||w||^2 on standardised features vanishes at the fit."""
    model = luce.Ranker(loss="pmop", l2=0.05, tol=1e-13, max_iter=1000).fit(data)
    deviation = data.X.std(axis=0, dtype=float)
    Z = (data.X - data.X.mean(axis=0, dtype=float)) / np.where(deviation > 0, deviation, 1)
    w = model.scorer_.importance()
    np.testing.assert_allclose(Z @ w, model.predict(data), atol=1e-4)
    _, d_scores = luce.losses.get("pmop").value_and_grad(Z @ w, data.y, data.offsets)
    gradient = Z.T @ d_scores / data.n_queries + 0.05 * w
    assert np.abs(gradient).max() < 1e-5


def test_query_weights_are_repeats(data):
    weight = np.where(np.arange(data.n_queries) % 3 == 0, 2.0, 1.0)
    repeated = data.take(np.repeat(np.arange(data.n_queries), weight.astype(int)))
    settings = {"tol": 1e-13, "max_iter": 1000, "l2": 0.1, "query_norm": "zscore"}
    weighted = luce.Ranker(**settings).fit(data, query_weight=weight).predict(data)
    again = luce.Ranker(**settings).fit(repeated).predict(data)
    # Standardisation sees repeated rows, so the penalty differs a little; the ranking functions must agree closely.
    assert np.corrcoef(weighted, again)[0, 1] > 0.999


def test_early_stopping_keeps_the_best_iterate(data):
    train, valid = data.take(np.arange(60)), data.take(np.arange(60, 120))
    model = luce.Ranker(l2=0, early_stopping=5, tol=1e-12, max_iter=200).fit(train, valid=valid)
    curve = model.history_["validation"]
    assert model.history_["best_iteration"] == int(np.argmax(curve))
    assert model.score(valid) == pytest.approx(max(curve), abs=1e-12)
    as_tuple = luce.Ranker(l2=0, early_stopping=5, tol=1e-12, max_iter=200).fit(
        train.X, train.y, qid=train.qid, valid=(valid.X, valid.y, valid.qid)
    )
    np.testing.assert_array_equal(as_tuple.predict(valid.X), model.predict(valid.X))


def test_warm_start_continues(data):
    model = luce.Ranker(max_iter=5, tol=1e-14, warm_start=True).fit(data)
    first = model.history_["objective"][-1]
    model.fit(data)
    assert model.history_["objective"][0] <= first


def test_partial_fit_learns_a_stream():
    data = simulate(queries=800, features=8, seed=3)
    test = data.take(np.arange(600, 800))
    stream = luce.Ranker(random_state=0)
    for first in range(0, 600, 50):
        stream.partial_fit(data.take(np.arange(first, first + 50)))
    full = luce.Ranker().fit(data.take(np.arange(600)))
    assert stream.score(test) > full.score(test) - 0.03
    assert luce.Ranker(max_iter=0).fit(data).score(test) < full.score(test) - 0.05


@pytest.mark.parametrize("kind", ["minmax", "zscore"])
def test_normalisation_within_queries(data, kind):
    model = luce.Ranker(query_norm=kind).fit(data)
    factor = np.repeat(np.random.default_rng(0).uniform(1, 9, data.n_queries), data.sizes)[:, None].astype(np.float32)
    scores = model.predict(data.X, qid=data.qid)
    np.testing.assert_allclose(model.predict(data.X * factor, qid=data.qid), scores, atol=1e-3)
    np.testing.assert_allclose(model.predict(data), scores)
    with pytest.raises(DataError, match="qid"):
        model.predict(data.X)


def test_resumed_fit_reaches_the_same_optimum(data, tmp_path):
    settings = {"tol": 1e-13, "l2": 0.1}
    whole = luce.Ranker(max_iter=500, **settings).fit(data)
    luce.Ranker(max_iter=7, checkpoint=tmp_path, **settings).fit(data)
    resumed = luce.Ranker(max_iter=500, checkpoint=tmp_path, **settings).fit(data)
    assert len(resumed.history_["objective"]) > 7
    assert resumed.history_["objective"][-1] == pytest.approx(whole.history_["objective"][-1], rel=1e-6)
    with pytest.raises(SettingError, match="another training"):
        luce.Ranker(max_iter=500, checkpoint=tmp_path, tol=1e-13, l2=0.2).fit(data)


def test_torn_checkpoint_falls_back(data, tmp_path, monkeypatch):
    monkeypatch.setattr("luce.training.run.SAVE_SECONDS", 0.0)
    luce.Ranker(max_iter=9, tol=1e-13, checkpoint=tmp_path).fit(data)
    newest = sorted(tmp_path.glob("*.luce"))[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    with pytest.warns(LuceWarning, match="cut off. The checkpoint before it is used"):
        resumed = luce.Ranker(max_iter=20, tol=1e-13, checkpoint=tmp_path).fit(data)
    assert len(resumed.history_["objective"]) > 8
    assert resumed.history_["objective"][-1] <= luce.Ranker(max_iter=9, tol=1e-13).fit(data).history_["objective"][-1]


def test_threads_give_the_same_model():
    data = simulate(queries=3000, features=40, seed=0)
    models = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            models.append(luce.Ranker().fit(data).scorer_.weights)
        finally:
            luce.set_threads(None)
    assert np.array_equal(*models)


def test_constant_features_get_no_weight(data):
    X = np.column_stack([data.X, np.full(data.n_rows, 1e6, dtype=np.float32)])
    model = luce.Ranker().fit(X, data.y, qid=data.qid)
    assert model.scorer_.weights[-1] == 0


def test_clone_params_names(data):
    import pandas as pd

    frame = pd.DataFrame(data.X, columns=[f"bm{i}" for i in range(data.n_features)])
    model = luce.Ranker(loss="ranknet", l2=0.3).fit(frame, data.y, qid=data.qid)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == data.n_features
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(frame)


def test_errors_say_what_is_wrong(data):
    with pytest.raises(UnknownNameError, match="Did you mean 'pmop'"):
        luce.Ranker(loss="pmap").fit(data)
    with pytest.raises(UnknownNameError, match="Available"):
        luce.Ranker(metric="ndgc@10").fit(data, valid=data)
    with pytest.raises(SettingError, match="l2"):
        luce.Ranker(l2=-1).fit(data)
    model = luce.Ranker().fit(data)
    with pytest.raises(DataError, match="features"):
        model.predict(simulate(queries=5, features=3, seed=0))
    with pytest.raises(DataError, match="give none of y, qid and group"):
        model.fit(data, data.y)
    broken = data.X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, data.y)


@pytest.mark.parametrize("name", ranker_names())
def test_every_system_fits(data, name):
    assert luce.model(name, random_state=0).fit(data).score(data) > 0.3


def test_aggregators_are_systems_too():
    rng = np.random.default_rng(0)
    ranks = np.argsort(rng.normal(size=(30, 4)), axis=0).astype(float)
    data = luce.from_arrays(ranks, rng.integers(0, 2, 30), group=[10, 10, 10])
    for name in ("borda-agg", "cps-agg"):
        assert luce.model(name).fit(data).predict(data).shape == (30,)
