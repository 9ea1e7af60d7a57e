"""Listwise boosting: the weak learner of Eq. 3.18, the step of Eq. 3.19, edges, resumed trainings, starts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.losses.base import Risk
from luce.ranker.parts import inner
from luce.training.listwise_boosting import ListwiseBoosting
from luce.training.task import Task
from luce.training.weak_learning import weak_learning

SCORERS = ["single_feature", "single_stump", "gradient_trees"]


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=90, features=6, seed=1)


@pytest.fixture(scope="module")
def parts(data) -> tuple[luce.Groups, luce.Groups]:
    return data.take(np.arange(60)), data.take(np.arange(60, 90))


def boosted(scorer: str, **settings) -> luce.Ranker:
    return luce.Ranker(**{"loss": "ndcg_square", "scorer": scorer, "max_iter": 12, "random_state": 0, **settings})


def gradient(loss, data, scores) -> np.ndarray:
    return loss.value_and_grad(scores, data.y, data.offsets)[1] / data.n_queries


@pytest.mark.parametrize("standardise", [True, False])
def test_one_round_takes_the_feature_nearest_to_the_gradient(data, standardise):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    model = boosted("single_feature", loss=loss, max_iter=1, scorer__standardise=standardise).fit(data)
    X = data.X.astype(np.float64)
    H = (X - X.mean(axis=0)) / X.std(axis=0) if standardise else X
    d = gradient(loss, data, np.zeros(data.n_rows))
    margins = np.abs(d @ H) / np.linalg.norm(H, axis=0)
    best = int(np.argmax(margins))
    assert np.flatnonzero(model.scorer_.weights).tolist() == [best]
    h = H[:, best]
    # Curvature is 1/2 throughout (of counted queries), so that the first trial of the line search is the minimum.
    counted = np.repeat(loss.prepare(data.y, data.offsets).counted, data.sizes)
    step = -(d @ h) / (0.5 * (h * h * counted).sum() / data.n_queries)
    scores = model.predict(data)
    np.testing.assert_allclose(scores, step * h, rtol=1e-5, atol=1e-7)
    edge = abs(d @ h) / (np.abs(d).sum() * np.abs(h).max())
    assert model.history_["edges"] == pytest.approx([edge], rel=1e-5)
    assert 0 < edge <= 1


def test_one_round_takes_the_best_stump(data):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    model = boosted("single_stump", loss=loss, max_iter=1).fit(data)
    d = gradient(loss, data, np.zeros(data.n_rows))
    best = 0.0
    for column in data.X.T:
        for threshold in np.unique(column)[:-1]:
            h = column > threshold
            best = max(best, abs(d @ h) / np.sqrt(h.sum()))
    stump = model.scorer_
    h = data.X[:, stump.feature[0]] > stump.threshold[0]
    # Features have more values than the 254 thresholds, so that the very best cut may lie between two of them.
    assert abs(d @ h) / np.sqrt(h.sum()) >= 0.98 * best


def test_one_round_fits_a_tree_to_the_gradient(data):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    settings = {"max_depth": 2, "bagging_fraction": 1.0, "feature_fraction": 1.0, "min_data_in_leaf": 30}
    model = boosted("gradient_trees", loss=loss, max_iter=1, **inner("scorer", {**settings, "learning_rate": 1.0})).fit(
        data
    )
    d = gradient(loss, data, np.zeros(data.n_rows))
    reference = DecisionTreeRegressor(max_depth=2, min_samples_leaf=30).fit(data.X, -d).predict(data.X)
    found = model.predict(data)
    # Bins are coarser than all cuts: nearly the same tree, up to the length of the step.
    assert np.corrcoef(found, reference)[0, 1] > 0.97


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("loss", ["ndcg_cross_entropy", "ndcg_qnorm", "ndcg_mix", "pmop", "rao_kupper"])
def test_the_risk_falls_with_every_round(data, scorer, loss):
    model = boosted(scorer, loss=loss).fit(data)
    values = np.array(model.history_["objective"])
    assert len(values) == len(model.history_["edges"]) == 12
    assert (np.diff(values) <= 1e-12).all()
    chosen = luce.losses.get(loss)
    value, _, _ = Risk(model.loss_, data.y, data.offsets, None)(model.predict(data))
    assert value == pytest.approx(values[-1], rel=1e-5)
    assert (np.array(model.history_["edges"]) <= 1).all()
    if len(chosen.parameters):
        assert not np.array_equal(model.loss_.parameters, chosen.parameters)


def test_many_rounds_of_single_features_reach_the_linear_optimum(data):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    linear = luce.Ranker(loss, "linear", l2=0.0, tol=1e-12, max_iter=500).fit(data)
    model = boosted("single_feature", loss=loss, max_iter=400).fit(data)
    assert model.history_["objective"][-1] == pytest.approx(linear.history_["objective"][-1], abs=1e-6)
    np.testing.assert_allclose(model.predict(data), linear.predict(data), atol=5e-3)


def test_the_constant_is_a_weak_learner_where_it_is_asked_for(data):
    settings = {"standardise": False, "constant": True}
    loss = luce.losses.get("ndcg_cross_entropy", offset=0.0)
    model = boosted("single_feature", loss=loss, max_iter=1, **inner("scorer", settings)).fit(data)
    assert model.scorer_.intercept < 0
    assert not model.scorer_.weights.any()


@pytest.mark.parametrize("scorer", SCORERS)
def test_query_weights_are_repetitions(data, scorer):
    few = data.take(np.arange(20))
    twice = few.take(np.repeat(np.arange(20), np.where(np.arange(20) < 5, 2, 1)))
    loss = luce.losses.get("ndcg_square", offset=0.0)
    settings = {} if scorer != "gradient_trees" else {"bagging_fraction": 1.0, "feature_fraction": 1.0, "max_depth": 1}
    d = [
        Risk(loss, g.y, g.offsets, w)(np.zeros(g.n_rows))[:2]
        for g, w in ((twice, None), (few, np.where(np.arange(20) < 5, 2.0, 1.0)))
    ]
    assert d[0][0] == pytest.approx(d[1][0])
    weighted = boosted(scorer, loss=loss, **inner("scorer", settings), max_iter=3)
    weighted.fit(few, query_weight=np.where(np.arange(20) < 5, 2.0, 1.0))
    assert np.isfinite(weighted.predict(few)).all()


@pytest.mark.parametrize("scorer", SCORERS)
def test_checkpoint_of_another_training_is_refused(parts, scorer, tmp_path):
    train, valid = parts
    loss = "ndcg_cross_entropy"
    boosted(scorer, loss=loss, max_iter=10, checkpoint=tmp_path).fit(train, valid=valid)
    with pytest.raises(SettingError, match="another training"):
        boosted(scorer, loss="ndcg_qnorm", checkpoint=tmp_path).fit(train, valid=valid)
    with pytest.raises(SettingError, match="another training"):
        boosted(scorer, loss=loss, checkpoint=tmp_path).fit(train, valid=valid.take(np.arange(10)))


@pytest.mark.parametrize("changed", ["target", "base", "valid_base"])
def test_checkpoint_of_another_target_or_base_is_refused(parts, changed, tmp_path):
    train, valid = parts
    given = {"target": train.y, "base": np.zeros(train.n_rows), "valid_base": np.zeros(valid.n_rows)}

    def fitted(target, **base):
        parts = (luce.scorers.get("single_feature"), luce.losses.get("ndcg_square"))
        return ListwiseBoosting(max_iter=10).train(Task(train, *parts, valid, target, checkpoint=tmp_path, **base))

    fitted(**given)
    fitted(**given)
    with pytest.raises(SettingError, match="another training"):
        fitted(**{**given, changed: given[changed] + 1.0})


@pytest.mark.parametrize("scorer", SCORERS)
def test_shrinkage_takes_that_share_of_the_step(data, scorer):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    whole, part = (
        boosted(scorer, loss=loss, max_iter=1, scorer__learning_rate=rate).fit(data).predict(data)
        for rate in (1.0, 0.25)
    )
    assert np.ptp(whole) > 0
    np.testing.assert_allclose(part, 0.25 * whole, rtol=1e-9)


@pytest.mark.parametrize("scorer", SCORERS)
def test_early_stopping_keeps_the_best_round(parts, scorer):
    train, valid = parts
    model = boosted(scorer, max_iter=60, early_stopping=15).fit(train, valid=valid)
    history = model.history_
    assert len(history["objective"]) <= history["best_iteration"] + 15
    kept = luce.evaluate(model, valid, ["ndcg@10"]).means["ndcg@10"]
    assert kept == pytest.approx(max(history["validation"]), abs=1e-6)


@pytest.mark.parametrize("scorer", SCORERS)
def test_warm_start_goes_on(data, scorer):
    loss = luce.losses.get("ndcg_square", offset=0.0)
    model = boosted(scorer, loss=loss, max_iter=6, warm_start=True).fit(data)
    value = model.history_["objective"][-1]
    model.fit(data)
    assert model.history_["objective"][0] < value
    assert Risk(loss, data.y, data.offsets, None)(model.predict(data))[0] == pytest.approx(
        model.history_["objective"][-1], rel=1e-5
    )


@pytest.mark.parametrize("scorer", SCORERS)
def test_base_scores_are_where_it_starts(data, scorer):
    base = np.random.default_rng(0).normal(0, 0.3, data.n_rows)
    loss = luce.losses.get("ndcg_square", offset=0.0)
    model = boosted(scorer, loss=loss).fit(data, base_scores=base)
    value = Risk(loss, data.y, data.offsets, None)(model.predict(data, base_scores=base))[0]
    assert value == pytest.approx(model.history_["objective"][-1], rel=1e-5)


@pytest.mark.parametrize("scorer", SCORERS)
def test_model_file_keeps_scorer_and_edges(data, scorer, tmp_path):
    model = boosted(scorer).fit(data)
    model.save(tmp_path / "model.luce")
    loaded = luce.load(tmp_path / "model.luce")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    assert loaded.scorer == scorer
    assert loaded.history_["edges"] == model.history_["edges"]


def test_missing_values_go_to_a_side(data):
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    broken = luce.from_arrays(X, data.y, qid=data.qid, allow_nan=True)
    for scorer in ("single_stump", "gradient_trees"):
        model = boosted(scorer, loss=luce.losses.get("ndcg_square", offset=0.0)).fit(broken)
        value = Risk(model.loss_, data.y, data.offsets, None)(model.predict(broken))[0]
        assert value == pytest.approx(model.history_["objective"][-1], rel=1e-5)
    assert np.isfinite(boosted("single_feature").fit(broken).predict(broken)).all()  # gaps are filled


@pytest.mark.parametrize("scorer", ["single_feature", "single_stump"])
def test_nothing_to_learn_ends_at_once(scorer):
    flat = luce.from_arrays(np.ones((6, 2)), [0, 1, 2, 0, 1, 2], qid=[1, 1, 1, 2, 2, 2])
    model = boosted(scorer, loss=luce.losses.get("ndcg_square", offset=0.0)).fit(flat)
    assert model.history_["objective"] == []
    assert (model.predict(flat) == 0).all()


def test_threads_give_the_same_bits(data):
    results = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            results.append([boosted(scorer, loss="ndcg_mix").fit(data).predict(data) for scorer in SCORERS])
        finally:
            luce.set_threads(None)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_rounds_one_by_one(data):
    task = Task(data, luce.scorers.get("single_feature"), luce.losses.get("ndcg_square"))
    step = ListwiseBoosting(max_iter=3).rounds(task)
    assert step()


@pytest.mark.parametrize(
    ("scorer", "settings", "message"),
    [
        ("single_feature", {"learning_rate": 0}, "learning_rate is 0"),
        ("single_stump", {"thresholds": 300}, "thresholds is 300"),
        ("gradient_trees", {"max_depth": 0}, "max_depth is 0"),
        ("gradient_trees", {"feature_fraction": 2.0}, "feature_fraction is 2.0"),
    ],
)
def test_bad_settings(data, scorer, settings, message):
    with pytest.raises(SettingError, match=message):
        boosted(scorer, **inner("scorer", settings)).fit(data)


def test_other_trainers_are_refused(data):
    with pytest.raises(SettingError, match="leave trainer at 'auto'"):
        boosted("single_feature", trainer="sgd").fit(data)


@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
def test_the_bound_by_edges_covers_the_risk_in_a_hundred_simulations(learning_rate):
    """What is left above the optimum shrinks by 1 - gamma^2 / N a round at the least; the optimum is that of scores."""
    for seed in range(100):
        simulated = simulate(queries=8, features=4, seed=seed)
        model = luce.model(
            "ndcg-boost-linear", loss="ndcg_square", max_iter=15, scorer__learning_rate=learning_rate, random_state=seed
        )
        found = weak_learning(model.fit(simulated), simulated)
        assert (found.risk <= found.bound + 1e-12).all()
        assert (found.optimum <= found.risk).all()
        assert found.least_edge > 0
        assert len(found.bound) == len(found.edges) == len(found.risk)


def test_the_optimum_of_the_bound_is_that_of_any_scores(data):
    model = luce.model("ndcg-boost-linear", loss="ndcg_square", max_iter=3).fit(data)
    found = weak_learning(model, data)
    drawn = np.random.default_rng(0).normal(size=(20, data.n_rows))
    risk = Risk(model.loss_, data.y, data.offsets)
    assert all(risk(scores)[0] > found.optimum for scores in drawn)
    assert "was met" in found.lines[0]
    assert found.columns()["round"] == [1, 2, 3]


def test_a_bound_needs_edges_of_the_square(data):
    with pytest.raises(SettingError, match="ndcg_square"):
        weak_learning(luce.model("ndcg-boost-linear", max_iter=2).fit(data), data)
