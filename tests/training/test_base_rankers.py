"""Rankers with a criterion of their own, each against its definition written out slowly."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import luce
from luce.data.comparisons import Comparisons
from luce.errors import LuceWarning, SettingError
from luce.experiments import find_folds
from luce.numerics.segments import tiers
from luce.ranker.parts import inner
from luce.scorers.forest import Forest
from luce.systems import fixed_settings, settings_grid
from luce.training.pair_boosting import all_pairs, best_addition, fidelity, pair_weights, potentials, step_weight
from luce.training.regression import forest_of
from luce.training.weak import MISSING, StumpSum, best_stump, cut

OWN = ["adarank", "coordinate_ascent", "frank", "linear_regression", "random_forest", "rankboost"]
SYSTEMS = ["adarank", "adarank-map", "adarank-ndcg", *OWN[1:]]
QUICK = {
    "coordinate_ascent": {"trainer__restarts": 1, "max_iter": 6},
    "frank": {"max_iter": 60},
    "random_forest": {"trainer__trees": 20},
}


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    """Grades by a noisy linear function with weights of both signs, cut at 0 and 1.5; a constant scale a feature."""
    rng = np.random.default_rng(4)
    qid = np.repeat(np.arange(80), rng.integers(5, 25, 80))
    X = rng.normal(size=(len(qid), 7)) * [1, 5, 1, 1, 0.1, 1, 1]
    utility = X @ [1, -0.2, 0.5, 0, 5, -0.3, 0] + rng.normal(0, 0.5, len(qid))
    return luce.from_arrays(X, np.searchsorted([0.0, 1.5], utility), qid=qid)


@pytest.fixture(scope="module")
def small() -> luce.Groups:
    """Few values, ties and a query without preferences: small enough to list all pairs and steps."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 4, (30, 3)).astype(np.float32)
    y = rng.integers(0, 3, 30).astype(float)
    y[:5] = 1.0
    return luce.from_arrays(X, y, qid=np.repeat(np.arange(6), 5), query_weight=[1, 2, 1, 1, 3, 1])


def pairs_of(data):
    """All (better, worse, query)."""
    for q, (a, b) in enumerate(itertools.pairwise(data.offsets)):
        for i, j in itertools.product(range(a, b), repeat=2):
            if data.y[i] > data.y[j]:
                yield i, j, q


def fit(name, train, valid=None, **settings):
    return luce.model(name, **{**QUICK.get(name, {}), "random_state": 0, **settings}).fit(train, valid=valid)


# What holds for all of them


def test_the_list_of_systems_is_whole():
    assert OWN == ["adarank", "coordinate_ascent", "frank", "linear_regression", "random_forest", "rankboost"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_learns_is_saved_and_comes_back(name, data, tmp_path):
    train, test = data.take(np.arange(60)), data.take(np.arange(60, 80))
    model = fit(name, train)
    chance = luce.evaluate(np.random.default_rng(0).normal(size=test.n_rows), test, ["ndcg@10"]).means["ndcg@10"]
    assert model.score(test) > chance + 0.1
    model.save(tmp_path / "model.luce")
    loaded = luce.load(tmp_path / "model.luce")
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert loaded.parts_.trainer == model.parts_.trainer
    np.testing.assert_array_equal(loaded.scorer_.importance(), model.scorer_.importance())
    np.testing.assert_array_equal(loaded.set_params(random_state=0).fit(train).predict(test), model.predict(test))


@pytest.mark.parametrize("name", SYSTEMS)
def test_validation_keeps_the_best_round(name, data):
    train, valid = data.take(np.arange(50)), data.take(np.arange(50, 80))
    model = fit(name, train, valid)
    curve = model.history_["validation"]
    assert model.score(valid) == pytest.approx(max(curve), abs=1e-9)
    assert len(model.history_["objective"]) >= 1


@pytest.mark.parametrize("name", ["adarank", "frank", "rankboost"])
def test_patience_ends_training(name, data):
    train, valid = data.take(np.arange(50)), data.take(np.arange(50, 80))
    history = fit(name, train, valid, early_stopping=3, max_iter=300).history_
    assert len(history["objective"]) <= history["best_iteration"] + 3
    assert len(fit(name, train, max_iter=4).history_["objective"]) == 4


@pytest.mark.parametrize("name", SYSTEMS)
def test_data_without_anything_to_learn(name):
    one = luce.from_arrays(np.ones((1, 2)), [1.0])
    assert np.isfinite(fit(name, one).predict(one)).all()
    equal = luce.from_arrays(np.random.default_rng(0).normal(size=(6, 2)), [1.0] * 6, qid=[1, 1, 1, 2, 2, 2])
    with pytest.warns(LuceWarning, match="All labels are equal"):
        assert np.ptp(fit(name, equal).predict(equal)) < 1e-9
    constant = luce.from_arrays(np.ones((4, 2)), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    assert np.ptp(fit(name, constant).predict(constant)) < 1e-9


@pytest.mark.parametrize("name", OWN)
def test_what_needs_a_loss_is_refused(name, data, tmp_path):
    if name not in ("adarank", "frank", "rankboost"):
        with pytest.raises(SettingError, match="no checkpoints"):
            fit(name, data, checkpoint=tmp_path)
    with pytest.raises(SettingError, match="stands alone"):
        fit(name, data, base="column:1")
    with pytest.raises(SettingError, match="grades only"):
        luce.Ranker(trainer=name).fit(data, comparisons=Comparisons.from_pairs([(0, 1)]))
    with pytest.raises(SettingError, match="a loss of its own, so that the loss 'ranknet' would not be used"):
        luce.Ranker("ranknet", trainer=name).fit(data)
    with pytest.raises(SettingError, match="a scorer of its own, so that the scorer 'trees' would not be used"):
        luce.Ranker(scorer="trees", trainer=name).fit(data)
    with pytest.raises(SettingError, match=f"{name!r} is no scorer but an algorithm"):
        luce.Ranker("listnet", name).fit(data)
    model = fit(name, data, warm_start=True)
    with pytest.raises(SettingError, match="warm_start"):
        model.fit(data)
    for probability in (model.pair_probability, model.log_likelihood, model.sample_rankings):
        with pytest.raises(SettingError, match="no probabilities"):
            probability(data)


@pytest.mark.parametrize("name", SYSTEMS)
def test_settings_grid_can_be_fitted(name, data):
    some = data.take(np.arange(10))
    fixed = {key: value for key, value in fixed_settings(name).items() if "__" in key}
    rounds = {"max_iter": 1} if "max_iter" in luce.model(name).parts().settings("trainer") else {}
    for settings in settings_grid(name):
        model = luce.model(name, **rounds, random_state=0, **settings).fit(some)
        assert fixed.items() <= model.get_params().items()


@pytest.mark.parametrize(
    ("trainer", "settings"),
    [
        ("rankboost", {"thresholds": 0}),
        ("rankboost", {"thresholds": 255}),
        ("rankboost", {"weighting": "documents"}),
        ("frank", {"shortlist": True}),
        ("frank", {"depth": 2}),
        ("coordinate_ascent", {"restarts": -1}),
        ("random_forest", {"max_features": 0}),
        ("random_forest", {"trees": 1.5}),
        ("adarank", {"metric": "dcg"}),
        ("adarank", {"metric": "spearman_footrule"}),
        ("coordinate_ascent", {"metric": "log_likelihood"}),
    ],
)
def test_bad_settings(trainer, settings, data):
    with pytest.raises(SettingError, match=re.escape(next(iter(settings)))):
        luce.Ranker(trainer=trainer, **inner("trainer", settings)).fit(data)


@pytest.mark.parametrize("name", OWN)
def test_missing_values(name, data):
    X = data.X.copy()
    X[::3, 1] = np.nan
    holes = luce.from_arrays(X, data.y, qid=data.qid, allow_nan=True)
    if name in ("rankboost", "frank"):
        assert fit(name, holes, max_iter=20).score(holes) > fit(name, holes, max_iter=0).score(holes) + 0.1
    else:
        model = fit(name, holes)  # gaps are filled with medians, which the model keeps
        assert np.isfinite(model.predict(holes)).all()


# Thresholds


def test_cuts_lie_between_values_and_at_quantiles():
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    X = np.stack([values, np.round(values), np.where(values > 1, np.nan, values)], axis=1)
    bins = cut(X, 20)
    assert len(bins.thresholds[0]) == 20
    assert np.bincount(bins.above[0]).min() > 25
    assert bins.thresholds[1].tolist() == [m + 0.5 for m in range(int(np.nanmin(X[:, 1])), int(np.nanmax(X[:, 1])))]
    np.testing.assert_array_equal(bins.above[2] == MISSING, np.isnan(X[:, 2]))
    for k in range(2):
        for b, threshold in enumerate(bins.thresholds[k]):
            np.testing.assert_array_equal(bins.above[k] > b, X[:, k] > threshold)


# RankBoost


@pytest.mark.parametrize("weighting", ["pairs", "queries"])
def test_potentials_are_sums_over_pairs(small, weighting):
    scores = np.random.default_rng(1).normal(size=small.n_rows)
    parts = tiers(small.y, small.offsets)
    count = np.bincount([q for *_, q in pairs_of(small)], minlength=small.n_queries)
    c = small.query_weight / (np.maximum(count, 1) if weighting == "queries" else 1.0)
    total = sum(c[q] for *_, q in pairs_of(small))
    expected, value = np.zeros(small.n_rows), 0.0
    for i, j, q in pairs_of(small):
        d = c[q] / total * np.exp(scores[j] - scores[i])
        expected[i] += d
        expected[j] -= d
        value += d
    found, potential = potentials(scores, parts, pair_weights(parts, small.query_weight, weighting))
    assert found == pytest.approx(value)
    np.testing.assert_allclose(potential, expected, atol=1e-12)


def test_the_step_has_the_largest_edge_of_all(small):
    X = small.X.copy()
    X[::4, 2] = np.nan
    rng = np.random.default_rng(2)
    bins = cut(X, 254)
    for _ in range(20):
        potential = rng.normal(size=len(X))
        potential /= np.abs(potential).sum()
        h = StumpSum(bins).take(best_stump(bins, potential))
        edges = [
            potential @ np.where(np.isnan(X[:, k]), missing, X[:, k] > threshold)
            for k in range(3)
            for threshold in bins.thresholds[k]
            for missing in (0, 1)
        ]
        edge = potential @ h
        assert abs(edge) == pytest.approx(np.abs(edges).max())
        assert step_weight(edge) == pytest.approx(0.5 * np.log((1 + edge) / (1 - edge)))


def test_exponential_loss_falls_by_its_bound(data):
    bins, parts = cut(data.X, 30), tiers(data.y, data.offsets)
    weight = pair_weights(parts, None, "pairs")
    scores, values = np.zeros(data.n_rows), []
    value, potential = potentials(scores, parts, weight)
    for _ in range(30):
        h = StumpSum(bins).take(best_stump(bins, potential / value))
        edge = potential / value @ h
        scores += step_weight(edge) * h
        before, (value, potential) = value, potentials(scores, parts, weight)
        assert value <= before * np.sqrt(1 - edge**2) * (1 + 1e-12)
        values.append(value)
    model = luce.Ranker(trainer="rankboost", max_iter=30, trainer__thresholds=30).fit(data)
    np.testing.assert_allclose(model.history_["objective"], values)
    np.testing.assert_allclose(model.predict(data), scores, atol=1e-9)


def test_separable_data_end_early():
    X = np.arange(12, dtype=np.float32)[:, None]
    model = luce.Ranker(trainer="rankboost", max_iter=500).fit(X, X[:, 0] > 5)
    assert len(model.history_["objective"]) < 20
    assert model.score(X, X[:, 0] > 5) == 1.0


@pytest.mark.parametrize("name", ["rankboost", "frank"])
def test_thresholds_between_neighbouring_numbers(name):
    """The curve on validation data is that of the saved scorer, even where a threshold fits between no two floats."""
    values = [np.float32(1)]
    for _ in range(7):
        values.append(np.nextafter(values[-1], np.float32(2)))
    some = luce.from_arrays(np.array(values)[:, None], [0, 0, 0, 1, 1, 2, 2, 2])
    model = luce.Ranker(trainer=name, max_iter=9).fit(some, valid=some)
    assert max(model.history_["validation"]) == model.score(some) == 1.0


# FRank


def test_fidelity_by_definition(small):
    scores = np.random.default_rng(3).normal(0, 3, small.n_rows)
    pairs = all_pairs(small)
    count = np.bincount([q for *_, q in pairs_of(small)], minlength=small.n_queries)
    v = small.query_weight * (count > 0)
    v = v / v.sum()
    expected = 0.0
    for i, j, q in pairs_of(small):
        expected += v[q] / count[q] * (1 - np.sqrt(1 / (1 + np.exp(scores[j] - scores[i]))))
    value, slopes = fidelity(pairs, scores)
    assert value == pytest.approx(expected)
    h = np.random.default_rng(4).integers(0, 2, small.n_rows)
    eps = 1e-6
    numeric = (fidelity(pairs, scores + eps * h)[0] - fidelity(pairs, scores - eps * h)[0]) / (2 * eps)
    assert -0.5 * slopes @ (h[pairs.better] - h[pairs.worse]) == pytest.approx(numeric, rel=1e-5)


def test_steps_of_frank_by_formula(small):
    scores = np.random.default_rng(6).normal(0, 0.5, small.n_rows)
    pairs, bins = all_pairs(small), cut(small.X, 254)
    value, slopes = fidelity(pairs, scores)
    found = best_addition(bins, pairs, scores, shortlist=3)
    smooth = slopes.mean()
    best = {}
    for k in range(3):
        for place, threshold in enumerate(bins.thresholds[k]):
            h = (small.X[:, k] > threshold).astype(int)
            told = h[pairs.better] - h[pairs.worse]
            right, wrong = (slopes[told == side].sum() + smooth for side in (1, -1))
            gain = (np.sqrt(right) - np.sqrt(wrong)) ** 2
            if k not in best or gain > best[k][0]:
                alpha = 0.5 * np.log(right / wrong)
                best[k] = (gain, place, alpha, fidelity(pairs, scores + alpha * h)[0])
    k = min(best, key=lambda k: best[k][3])
    assert (found.feature, found.place) == (k, best[k][1])
    assert found.alpha == pytest.approx(best[k][2])
    assert found.loss == pytest.approx(best[k][3])
    assert found.loss < value


def test_fidelity_loss_falls_every_round(data):
    curve = luce.Ranker(trainer="frank", max_iter=60).fit(data).history_["objective"]
    assert len(curve) > 10
    assert (np.diff([1 - np.sqrt(0.5), *curve]) < 0).all()


# AdaRank


@pytest.mark.parametrize("metric", ["map", "ndcg@5"])
def test_adarank_by_formula(data, metric):
    """Three rounds written out; equal weights of queries at first, exp(-E) afterwards."""
    Z = (data.X - data.X.mean(axis=0, dtype=float)) / data.X.std(axis=0, dtype=float)
    starts = data.offsets[:-1]
    told = np.maximum.reduceat(data.y, starts) > np.minimum.reduceat(data.y, starts)

    def E(scores):
        return luce.evaluate(scores, data, [metric]).values[metric][told]

    columns = [*Z.T, *-Z.T]
    weights, P = np.zeros(data.n_features), np.full(told.sum(), 1 / told.sum())
    aside, highest = set(), -1.0
    for t in range(1, 4):
        quality = [-np.inf if k in aside else P @ E(column) for k, column in enumerate(columns)]
        k = int(np.argmax(quality))
        alpha = 0.5 * np.log((P @ (1 + E(columns[k]))) / (P @ (1 - E(columns[k]))))
        weights[k % data.n_features] += alpha if k < data.n_features else -alpha
        now = E(Z @ weights)
        P = np.exp(-now) / np.exp(-now).sum()
        rises = now.mean() > highest + 1e-6
        aside = set() if rises else {*aside, k}
        highest = max(now.mean(), highest)
        history = luce.Ranker(trainer="adarank", trainer__metric=metric, max_iter=t).fit(data)
        assert history.history_["objective"][-1] == pytest.approx(1 - now.mean(), abs=1e-6)
        if rises:
            np.testing.assert_allclose(history.scorer_.importance(), weights, atol=1e-6)


def test_adarank_ends_when_nothing_helps(data):
    model = luce.Ranker(trainer="adarank", max_iter=5000).fit(data)
    assert len(model.history_["objective"]) < 5000
    one_way = luce.Ranker(trainer="adarank", max_iter=500, trainer__both_directions=False).fit(data)
    assert (one_way.scorer_.importance() >= 0).all()
    assert (model.scorer_.importance() < 0).any()


# Coordinate ascent


def test_coordinate_ascent_climbs(data):
    settings = {"trainer": "coordinate_ascent", "metric": "map", "l2": 0.0, "random_state": 3}
    one = luce.Ranker(**settings, max_iter=30, trainer__restarts=0).fit(data)
    curve = np.array(one.history_["objective"])
    assert (np.diff(curve) <= 1e-9).all()
    assert np.abs(one.scorer_.importance()).sum() == pytest.approx(1.0, abs=1e-5)
    starts = data.offsets[:-1]
    told = np.maximum.reduceat(data.y, starts) > np.minimum.reduceat(data.y, starts)
    values = luce.evaluate(one, data, ["map"]).values["map"][told]
    assert 1 - values.mean() == pytest.approx(curve[-1], abs=1e-3)
    more = luce.Ranker(**settings, max_iter=90, trainer__restarts=3).fit(data)
    assert min(more.history_["objective"]) <= curve[-1]
    again = luce.Ranker(**settings, max_iter=90, trainer__restarts=3).fit(data)
    np.testing.assert_array_equal(again.predict(data), more.predict(data))


def test_the_penalty_spreads_the_weights(data):
    spread = [
        np.square(
            luce.Ranker(trainer="coordinate_ascent", l2=l2, max_iter=6, random_state=0).fit(data).scorer_.importance()
        )
        for l2 in (0.0, 100.0)
    ]
    assert spread[1].sum() == pytest.approx(1 / data.n_features, rel=0.05)
    assert spread[0].sum() > 1.2 * spread[1].sum()


# Least squares and forests


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_linear_regression_is_least_squares(data, l2):
    weight = np.random.default_rng(0).uniform(0.5, 2, data.n_queries)
    model = luce.Ranker(trainer="linear_regression", l2=l2).fit(data, query_weight=weight)
    Z = (data.X - data.X.mean(axis=0, dtype=float)) / data.X.std(axis=0, dtype=float)
    v = np.repeat(weight, data.sizes) / np.repeat(weight, data.sizes).sum()
    A = np.column_stack([Z, np.ones(data.n_rows)]) * np.sqrt(v)[:, None]
    penalty = np.sqrt(l2) * np.eye(data.n_features + 1)[:-1]
    target = np.concatenate([data.y * np.sqrt(v), np.zeros(data.n_features)])
    w = np.linalg.lstsq(np.vstack([A, penalty]), target, rcond=None)[0]
    np.testing.assert_allclose(model.predict(data), Z @ w[:-1] + w[-1], atol=1e-6)
    objective = 0.5 * v @ (data.y - model.predict(data)) ** 2 + 0.5 * l2 * w[:-1] @ w[:-1]
    assert model.history_["objective"] == [pytest.approx(objective, rel=1e-6)]


def test_dependent_features_do_not_matter(data):
    twice = luce.from_arrays(np.hstack([data.X, data.X, np.ones((data.n_rows, 1))]), data.y, qid=data.qid)
    once, doubled = (luce.Ranker(trainer="linear_regression", l2=0.0).fit(d).predict(d) for d in (data, twice))
    np.testing.assert_allclose(doubled, once, atol=1e-6)


def test_forest_scores_as_scikit_learn(data):
    grower = RandomForestRegressor(15, min_samples_leaf=3, random_state=1).fit(data.X, data.y)
    forest = Forest.joined([forest_of(tree.tree_, 15) for tree in grower.estimators_])
    checked = Forest.from_arrays(forest.arrays(), data.n_features)
    np.testing.assert_allclose(checked.score(data.X), grower.predict(data.X), atol=1e-12)
    gains = np.bincount(checked.feature, checked.gain, data.n_features)
    np.testing.assert_allclose(gains / gains.sum(), grower.feature_importances_, atol=0.02)


# Real data


@pytest.mark.real
@pytest.mark.parametrize("name", ["adarank-ndcg", *OWN[1:]])
def test_mq2008_is_learned(name, real_data):
    train, valid, test = find_folds(real_data("MQ2008"))[0].load()
    model = fit(name, train, valid)
    rng = np.random.default_rng(0)
    chance = [
        luce.evaluate(rng.normal(size=test.n_rows), test, ["ndcg@10"], empty=0).means["ndcg@10"] for _ in range(9)
    ]
    assert luce.evaluate(model, test, ["ndcg@10"], empty=0).means["ndcg@10"] > np.mean(chance) + 0.1
