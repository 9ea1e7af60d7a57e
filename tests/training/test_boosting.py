"""Boosting: the trees of the paper, resumed trainings, bases and warm starts."""

from __future__ import annotations

import warnings
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from sklearn.base import clone

import luce
from luce.data.describe import Profile
from luce.data.simulate import simulate
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import NOT_WANTED
from luce.losses.listwise import ListNet
from luce.ranker.parts import inner
from luce.scorers.trees import TreesScorer
from luce.training.boosting import Boosting
from luce.training.derivatives import Derivatives
from luce.training.task import Task


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=90, features=6, seed=1)


@pytest.fixture(scope="module")
def parts(data) -> tuple[luce.Groups, luce.Groups]:
    return data.take(np.arange(60)), data.take(np.arange(60, 90))


def trees(**settings) -> luce.Ranker:
    return luce.Ranker(**{"scorer": "trees", "max_iter": 8, "random_state": 0, **settings})


def occurrences(loss, data, scores):
    """Every pair occurrence of a document as a row of its own: (document, gradient of that pair in its score)."""
    rows, grads = [], []
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        for i in range(a, b):
            for j in range(i + 1, b):
                _, grad = loss.value_and_grad(scores[[i, j]], data.y[[i, j]])
                rows += [i, j]
                grads += grad.tolist()
    return np.array(rows), np.array(grads)


@pytest.mark.parametrize("reading", ["pairs", "risk", "documents"])
def test_the_tree_of_the_paper_in_its_three_readings(reading):
    """A tree on every pair occurrence, of the gradient of that pair or of the whole risk, equals one on documents.

    In the third reading every document of a pair occurs once, with the gradient of the whole risk.
    """
    small = simulate(queries=12, features=4, seed=3)
    loss = luce.losses.get("bradley_terry", epsilon=0.5)
    rows, grads = occurrences(loss, small, np.zeros(small.n_rows))
    if reading == "risk":
        grads = np.bincount(rows, grads)[rows]
    elif reading == "documents":
        rows, grads = np.unique(rows), np.bincount(rows, grads)[np.unique(rows)]
    settings = {"num_leaves": 6, "learning_rate": 1.0, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    common = {"verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "feature_pre_filter": False, "max_bin": 10_000}
    replicated = lightgbm.train(
        {**settings, **common, "objective": "regression", "boost_from_average": False},
        lightgbm.Dataset(small.X[rows], -grads),
        1,
    ).predict(small.X)
    model = luce.Ranker(
        loss=loss, scorer="trees", max_iter=1, **inner("scorer", {**settings, "curvature": reading, "max_bin": 10_000})
    ).fit(small)
    assert len(np.unique(replicated)) == 6
    np.testing.assert_allclose(model.predict(small), replicated, rtol=1e-5)
    with pytest.raises(SettingError, match=f"curvature='{reading}'"):
        trees(loss="pmop", scorer__curvature=reading).fit(small)


def test_pairs_are_counted_in_comparisons_and_beside_grades():
    """Comparisons that state the pairs of the grades give the tree of the grades; both together count both."""
    small = simulate(queries=12, features=4, seed=3)
    wins, ties = [], []
    for a, b in zip(small.offsets[:-1], small.offsets[1:], strict=True):
        for i in range(a, b):
            for j in range(i + 1, b):
                better, worse = (i, j) if small.y[i] >= small.y[j] else (j, i)
                (ties if small.y[i] == small.y[j] else wins).append((better, worse))
    pairs = luce.Comparisons.from_pairs(wins=wins, ties=ties)
    settings = {"loss": "bradley_terry", "loss__epsilon": 0.5, "scorer__curvature": "pairs", "max_iter": 3}
    graded = trees(**settings).fit(small).predict(small)
    blank = replace(small, y=np.zeros(small.n_rows))
    np.testing.assert_allclose(trees(**settings).fit(blank, comparisons=pairs).predict(small), graded, rtol=1e-5)
    both = trees(**settings).fit(small, comparisons=pairs, comparison_weight=2.0)
    np.testing.assert_allclose(both.predict(small), graded, rtol=1e-5)  # three times all in gradients and counts


def test_derivatives_have_mean_one_and_a_floor(data):
    loss = luce.losses.get("pmop")
    scores = np.random.default_rng(0).normal(0, 4, data.n_rows)
    value, grad, curvature = Derivatives(loss, data.y, data.offsets, floor=0.05)(scores)
    expected, plain_grad, plain = loss.value_grad_curvature(scores, data.y, data.offsets)
    assert value == pytest.approx(expected / data.n_queries)
    np.testing.assert_allclose(grad, plain_grad / plain.mean(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curvature, np.maximum(plain / plain.mean(), 0.05), rtol=1e-5)
    assert (plain / plain.mean() < 0.05).any()


def test_scaling_gradient_and_curvature_together_changes_nothing(data):
    """The leaves are -sum g / sum h: a constant in both cancels, here one of weights."""
    model = trees().fit(data)
    weighted = trees().fit(data, query_weight=np.full(data.n_queries, 7.0))
    np.testing.assert_allclose(weighted.predict(data), model.predict(data), rtol=1e-6)


def test_query_weights_are_repeats(data):
    weight = np.where(np.arange(data.n_queries) % 3 == 0, 2.0, 1.0)
    repeated = data.take(np.repeat(np.arange(data.n_queries), weight.astype(int)))
    own = {"min_data_in_leaf": 1, "max_bin": 5000, "engine": {"min_data_in_bin": 1}}
    settings = {"loss": "ranknet", "max_iter": 2, **inner("scorer", own)}
    weighted = trees(**settings).fit(data, query_weight=weight)
    np.testing.assert_allclose(weighted.predict(data), trees(**settings).fit(repeated).predict(data), rtol=1e-4)


@pytest.mark.parametrize("loss", luce.losses.names())
def test_every_loss_grows_trees(data, loss):
    model = trees(loss=loss, max_iter=15).fit(data)
    assert model.score(data) > 0.6


def test_objective_falls_and_is_that_of_the_model(data):
    model = trees(loss="pmop", max_iter=30).fit(data)
    curve = model.history_["objective"]
    assert len(curve) == 30 == model.scorer_.forest.n_trees
    assert np.all(np.diff(curve) < 0)
    longer = trees(loss="pmop", max_iter=31).fit(data)
    value, _ = luce.losses.get("pmop").value_and_grad(model.predict(data), data.y, data.offsets)
    assert longer.history_["objective"][-1] == pytest.approx(value / data.n_queries, rel=1e-12)


def test_early_stopping_keeps_the_best_round(parts):
    train, valid = parts
    model = trees(max_iter=200, early_stopping=5, metric="map").fit(train, valid=valid)
    curve, best = model.history_["validation"], model.history_["best_iteration"]
    assert best == int(np.argmax(curve)) == model.scorer_.forest.n_trees
    assert len(curve) == best + 6
    assert model.score(valid) == pytest.approx(max(curve), abs=1e-12)


@pytest.mark.parametrize(("step", "waited"), [(0.5, 20), (0.1, 50), (0.05, 100)])
def test_short_steps_have_more_patience(parts, step, waited):
    train, valid = parts
    model = trees(max_iter=1000, learning_rate=step).fit(train, valid=valid)
    assert len(model.history_["objective"]) == model.history_["best_iteration"] + waited


def test_the_limit_of_rounds_is_said_where_the_metric_was_rising(parts):
    """On the queries that it learns from, the metric rises from round to round."""
    train, valid = parts
    with pytest.warns(LuceWarning, match=r"was best after (19|20) of at most 20 rounds, and may rise further"):
        trees(max_iter=20, metric="map").fit(train, valid=train)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LuceWarning)
        warnings.filterwarnings("ignore", ".* validation queries are in the training data")
        trees(max_iter=20, metric="map", early_stopping=None).fit(train, valid=train)
        trees(max_iter=1000, metric="map").fit(train, valid=valid)


def test_checkpoint_of_another_training_is_refused(data, tmp_path):
    trees(max_iter=12, checkpoint=tmp_path).fit(data)
    with pytest.raises(SettingError, match="another training"):
        trees(max_iter=12, checkpoint=tmp_path, scorer__num_leaves=4).fit(data)


def test_threads_give_the_same_trees():
    large = simulate(queries=1500, features=32, seed=0)
    assert large.X.size > 2**20
    models = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            models.append(trees(max_iter=5).fit(large).predict(large))
        finally:
            luce.set_threads(None)
    assert np.array_equal(*models)


def test_sampling_sees_a_share(data):
    model = trees(max_iter=1, scorer__feature_fraction=0.2).fit(data)
    assert len(np.unique(model.scorer_.forest.feature)) == 1
    a, b = (trees(random_state=s, scorer__bagging_fraction=0.5).fit(data).predict(data) for s in (0, 1))
    assert not np.array_equal(a, b)


def test_tie_parameter_is_estimated_between_rounds(data):
    """After the last round the parameter is the best one for the scores: its derivative vanishes."""
    model = trees(loss="rao_kupper", max_iter=20, scorer__reestimate=5).fit(data)
    _, _, slope = model.loss_.value_and_grads(model.predict(data), data.y, data.offsets)
    *_, start_slope = luce.losses.get("rao_kupper").value_and_grads(model.predict(data), data.y, data.offsets)
    assert abs(slope[0]) < 1e-3 * abs(start_slope[0])
    fixed = trees(loss="rao_kupper", max_iter=20, scorer__reestimate=None).fit(data)
    assert np.array_equal(fixed.loss_.parameters, luce.losses.get("rao_kupper").parameters)


class Flat(ListNet):
    """A loss that gives no curvature."""

    name = "flat"

    def fill(self, prepared, scores, out):
        super().fill(prepared, scores, out._replace(curvature=NOT_WANTED))


def test_loss_without_curvature_falls_back(data):
    with pytest.warns(LuceWarning, match="gives no curvature"):
        model = trees(loss=Flat()).fit(data)
    assert model.history_["objective"][-1] < model.history_["objective"][0]


def test_fruitless_rounds_warn_once(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trees(scorer__min_data_in_leaf=data.n_rows, scorer__bagging_fraction=0.9, max_iter=4).fit(data)
    assert sum("no split" in str(w.message) for w in caught) == 1


def test_base_is_saved_and_added(data, tmp_path):
    linear = luce.Ranker().fit(data)
    linear.save(tmp_path / "linear.luce")
    scores = linear.predict(data)
    above = trees(base=linear).fit(data)
    np.testing.assert_allclose(above.predict(data), scores + above.scorer_.score(data.X, data.offsets))
    assert above.history_["objective"][-1] < linear.history_["objective"][-1]
    by_path = trees(base=tmp_path / "linear.luce").fit(data)
    np.testing.assert_array_equal(by_path.predict(data), above.predict(data))
    given = trees().fit(data, base_scores=scores)
    np.testing.assert_array_equal(given.predict(data, base_scores=scores), above.predict(data))
    twice = trees(base=above).fit(data)
    twice.save(tmp_path / "twice.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "twice.luce").predict(data), twice.predict(data))
    assert clone(above).fit(data).predict(data) == pytest.approx(above.predict(data))


def test_base_is_a_column(data, tmp_path):
    model = trees(base="column:2").fit(data)
    expected = data.X[:, 1] + model.scorer_.score(data.X, data.offsets)
    model.save(tmp_path / "m.luce")
    np.testing.assert_allclose(luce.load(tmp_path / "m.luce").predict(data), expected)
    with pytest.raises(DataError, match="'bm25'"):
        trees(base="column:bm25").fit(data)


def test_base_scores_follow_their_rows(data):
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    scores = data.X[:, 0].astype(float)
    straight = trees().fit(data, base_scores=scores).predict(data, base_scores=scores)
    shuffled = trees().fit(data.X[shuffle], data.y[shuffle], qid=data.qid[shuffle], base_scores=scores[shuffle])
    np.testing.assert_allclose(shuffled.predict(data.X, base_scores=scores), straight, rtol=1e-4)


def test_bad_bases(data, parts):
    train, valid = parts
    scores = np.zeros(data.n_rows)
    model = trees().fit(data, base_scores=scores)
    with pytest.raises(DataError, match="base_scores"):
        model.predict(data)
    with pytest.raises(DataError, match="base_scores"):
        trees().fit(data).predict(data, base_scores=scores)
    with pytest.raises(DataError, match="base_scores"):
        trees().fit(train, valid=valid, base_scores=scores[: train.n_rows])
    with pytest.raises(DataError, match="finite base_scores"):
        trees().fit(data, base_scores=scores[1:])
    with pytest.raises(SettingError, match="both"):
        trees(base="column:1").fit(data, base_scores=scores)
    with pytest.raises(SettingError, match="base is a list"):
        trees(base=[1, 2]).fit(data)
    with pytest.raises(SettingError, match="trees"):
        luce.Ranker(base="column:1").fit(data)
    holes = data.X.copy()
    holes[3, 0] = np.nan
    with pytest.raises(DataError, match="row 3, whose features are missing"):
        trees(base=luce.Ranker().fit(data)).fit(holes, data.y, qid=data.qid)
    with pytest.raises(SettingError, match="leave trainer at 'auto'"):
        trees(trainer="sgd").fit(data)
    with pytest.raises(DataError, match="does not exist"):
        trees(base="nowhere.luce").fit(data)
    with pytest.raises(SettingError, match="no model can keep"):
        trees(base=model).fit(data)


def test_warm_start_adds_trees(parts, tmp_path):
    train, valid = parts
    model = trees(loss="bradley_terry", max_iter=12, warm_start=True).fit(train)
    before, tie = model.predict(valid), model.loss_.parameters
    first = model.scorer_.forest
    model.set_params(max_iter=5, early_stopping=None).fit(valid)
    assert model.scorer_.forest.n_trees == 17
    np.testing.assert_array_equal(model.scorer_.forest.first(12).score(valid.X), first.score(valid.X))
    start, _ = luce.losses.get("bradley_terry").with_parameters(tie).value_and_grad(before, valid.y, valid.offsets)
    assert model.history_["objective"][0] == pytest.approx(start / valid.n_queries)


@pytest.mark.parametrize("loss", ["pmop", "bradley_terry"])
def test_members_are_the_mean_of_forests_that_draw_for_themselves(parts, loss):
    """The first member draws as a forest alone does; the other one is what is left of twice the mean."""
    train, valid = parts
    drawn = {"feature_fraction": 0.5, "bagging_fraction": 0.7, "reestimate": None}
    alone = trees(loss=loss, **inner("scorer", drawn)).fit(train)
    both = trees(loss=loss, **inner("scorer", {**drawn, "members": 2})).fit(train)
    forest = both.scorer_.forest
    assert forest.n_trees == 2 * alone.scorer_.forest.n_trees
    first = np.zeros(valid.n_rows)
    for tree in range(0, forest.n_trees, 2):
        first += forest.first(tree + 1).score(valid.X) - forest.first(tree).score(valid.X)
    np.testing.assert_allclose(2 * first, alone.predict(valid), rtol=1e-9, atol=1e-12)
    assert np.abs(both.predict(valid) - alone.predict(valid)).max() > 1e-3
    stopped = trees(loss=loss, max_iter=60, early_stopping=5, **inner("scorer", {**drawn, "members": 3}))
    stopped.fit(train, valid=valid)
    assert stopped.scorer_.forest.n_trees == 3 * stopped.history_["best_iteration"]
    assert stopped.score(valid) == pytest.approx(max(stopped.history_["validation"]), abs=1e-12)


def test_members_go_on(parts):
    train, _ = parts
    drawn = {"feature_fraction": 0.5, "bagging_fraction": 0.7, "members": 3}
    settings = {"loss": "bradley_terry", "max_iter": 25, **inner("scorer", drawn)}
    longer = trees(**{**settings, "warm_start": True}).fit(train)
    before = longer.predict(train)
    longer.set_params(max_iter=2).fit(train)
    assert longer.scorer_.forest.n_trees == 3 * 27
    assert 0 < np.abs(longer.predict(train) - before).max() < 1.0


def test_members_need_draws():
    with pytest.raises(SettingError, match="same trees 3 times"):
        luce.scorers.get("trees", members=3)
    with pytest.raises(SettingError, match="members is 0"):
        luce.scorers.get("trees", members=0)
    with pytest.raises(SettingError, match="takes all of them"):
        luce.scorers.get("trees", objective="lambdarank", bagging_fraction=0.5)


@pytest.mark.parametrize("name", ["lambdamart", "mart"])
def test_probabilities_of_a_loss_that_was_only_watched_are_refused(parts, name, tmp_path):
    train, _ = parts
    luce.model(name, max_iter=2).fit(train).save(tmp_path / "model.luce")
    model = luce.load(tmp_path / "model.luce")
    for probability in (model.pair_probability, model.tie_probability, model.log_likelihood, model.topk_probability):
        with pytest.raises(SettingError, match=r"on trees, is not trained on a likelihood.*no probabilities"):
            probability(train)


@pytest.mark.real
def test_real_trees_match_lambdarank(real_data):
    """One fold of MQ2008, one setting for both: a guard against trees that do not learn, not a comparison."""
    folder = real_data("MQ2008") / "Fold1"
    train, valid, test = (luce.read_letor(folder / f"{part}.txt.gz") for part in ("train", "vali", "test"))
    found = {}
    for name, settings in {"pmop": {"loss": "pmop"}, "lambdarank": {}}.items():
        own = {"num_leaves": 10, "learning_rate": 0.1}
        own |= {} if settings else {"objective": "lambdarank"}
        ranker = trees(max_iter=60, early_stopping=15, **inner("scorer", own), **settings)
        found[name] = luce.evaluate(ranker.fit(train, valid=valid), test, ["ndcg@10", "map"]).means
    assert found["pmop"]["ndcg@10"] > found["lambdarank"]["ndcg@10"] - 0.02
    assert found["pmop"]["map"] > 0.40


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "pmop"},
        {"loss": "davidson", "scorer__members": 2, "scorer__feature_fraction": 0.5},
        {"trainer": "boosting", "scorer__objective": "lambdarank"},
    ],
)
def test_the_profile_has_the_scores_of_the_model(data, settings):
    """The trainer hands over LightGBM's own sums, and no row is scored again."""
    model = trees(**settings).fit(data)
    said = Profile.learn(data.X, model.predict(data), {})
    np.testing.assert_allclose(model.profile_.edges, said.edges, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.profile_.shares, said.shares)


def test_the_profile_of_fewer_rounds_has_the_scores_of_those(parts):
    train, valid = parts
    model = trees(loss="pmop", max_iter=40, early_stopping=3).fit(train, valid=valid)
    said = Profile.learn(train.X, model.predict(train), {})
    np.testing.assert_allclose(model.profile_.edges, said.edges, rtol=1e-12, atol=1e-12)


def test_trees_that_are_read_by_strides_are_those_of_single_rounds(data):
    task = Task(data, TreesScorer(bagging_fraction=0.7), luce.losses.get("pmop"), valid=data, seed=3)
    often, seldom = Boosting(max_iter=12).start(task), Boosting(max_iter=12).start(task)
    for _ in range(12):
        often.round()
        seldom.grow()
    np.testing.assert_array_equal(seldom.whole().arrays()["value"], often.whole().arrays()["value"])
    assert seldom.judged(seldom.parameters) == often.run.history.validation[-1]
    np.testing.assert_array_equal(seldom.valid_scores, often.valid_scores)


def test_a_kind_of_trees_of_ones_own_is_boosted():
    class Mine(TreesScorer):
        name = "mine"

    data = simulate(queries=20, features=3, seed=0)
    mine, own = (luce.Ranker("pmop", scorer=kind(), trainer="boosting", max_iter=3) for kind in (Mine, TreesScorer))
    assert np.array_equal(mine.fit(data).predict(data), own.fit(data).predict(data))
