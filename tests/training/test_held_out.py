"""Validation by lists and by likelihood, validation that cannot judge, and trainings that never leave their start."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import luce
from luce.data.order_files import judged_lists
from luce.errors import DataError, LuceWarning, SettingError


def queries(n: int, sign: float = 1.0, seed: int = 0) -> luce.Groups:
    """Ten documents a query whose grade follows the first feature, or, with sign -1, runs against it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * n, 3)).astype(np.float32)
    y = np.digitize(sign * X[:, 0] + rng.normal(0, 0.3, 10 * n), [0.0, 1.0]).astype(float)
    return luce.from_arrays(X, y, group=[10] * n)


def tops(data: luce.Groups, k: int = 2) -> luce.Comparisons:
    return luce.Comparisons.from_orders(
        [a + np.argsort(-data.X[a : a + 10, 0])[:k] for a in data.offsets[:-1].tolist()], top=True
    )


@pytest.fixture(scope="module")
def bare() -> luce.Groups:
    data = queries(12)
    return luce.from_arrays(data.X, qid=data.qid)


def test_lists_stop_a_training_early(bare):
    """The values on record are the metric of the lists, and the iterate that is kept has the best of them."""
    lists = tops(bare)
    model = luce.Ranker("topk_listmle", loss__k=None, metric="kappa_ndcg@2", random_state=0)
    model.fit(bare, comparisons=lists, valid=bare, valid_comparisons=lists)
    found = luce.evaluate(model, bare, "kappa_ndcg@2", comparisons=lists).means["kappa_ndcg@2"]
    assert found == pytest.approx(max(model.history_["validation"]))
    alone = luce.Ranker("topk_listmle", loss__k=None, metric="kappa_ndcg@2", random_state=0)
    alone.fit(bare, comparisons=lists, valid_comparisons=lists)  # lists of rows of the training data
    np.testing.assert_array_equal(alone.predict(bare), model.predict(bare))


@pytest.mark.parametrize("name", ["topk_listmle", "hom_gg"])
def test_held_out_likelihood(bare, name):
    lists = tops(bare)
    model = luce.Ranker(name, loss__k=None, metric="log_likelihood", random_state=0)
    model.fit(bare, comparisons=lists, valid_comparisons=lists)
    best = max(model.history_["validation"])
    assert best == pytest.approx(model.log_likelihood(bare, comparisons=lists).mean(), rel=1e-9)


def test_held_out_likelihood_of_grades():
    data = queries(8)
    model = luce.Ranker("pmop", metric="log_likelihood", random_state=0).fit(data, valid=data)
    best = max(model.history_["validation"])
    assert best == pytest.approx(model.log_likelihood(data, sizes="model").mean(), rel=1e-9)
    with pytest.raises(SettingError, match="needs a loss that is a likelihood, and 'ranknet' is none"):
        luce.Ranker("ranknet", metric="log_likelihood").fit(data, valid=data)


def test_validation_without_labels_is_refused(bare):
    data = queries(4)
    for valid in (bare, (bare.X, np.ones(bare.n_rows), bare.qid)):
        with pytest.raises(DataError, match=r"All labels of every query of the validation data are equal .*query '0'"):
            luce.Ranker("pmop").fit(data, valid=valid)


def test_bad_validation_lists(bare):
    data = queries(4)
    silent = luce.Comparisons.from_orders([[[0, 1]]])
    with pytest.raises(DataError, match="Query '0': a list has documents 'd1' and 'd2' in one tier and nothing below"):
        luce.Ranker("pmop").fit(data, valid=bare, valid_comparisons=silent)
    with pytest.raises(DataError, match="hold neither a list nor a pair"):
        luce.Ranker("pmop").fit(data, valid_comparisons=luce.Comparisons())


@pytest.mark.parametrize(
    ("system", "settings"),
    [
        ("pmop", {}),
        ("davidson", {}),
        ("davidson", {"metric": "log_likelihood"}),
        ("lambdamart", {"max_iter": 5, "early_stopping": 2}),
    ],
)
def test_pairs_judge_iterates(system, settings):
    data, pairs = queries(6), luce.Comparisons.from_pairs([(0, 1), (4, 5), (3, 2)], ties=[(1, 2)])
    make = luce.model if system == "lambdamart" else luce.Ranker
    model = make(system, random_state=0, **settings).fit(data, valid_comparisons=pairs)
    judged = luce.evaluate(model, data, [settings.get("metric", "pairwise_accuracy")], comparisons=pairs)
    assert np.isfinite(list(judged.means.values())).all()
    if "metric" not in settings:  # the model is the best iterate, each preference judged by itself
        scores, (better, worse) = model.predict(data), pairs.wins.T
        right = np.where(scores[better] == scores[worse], 0.5, scores[better] > scores[worse])
        assert max(model.history_["validation"]) == pytest.approx(right.mean())
    with pytest.warns(LuceWarning, match="map judges rankings; the validation pairs are judged by pairwise_accuracy"):
        make(system, metric="map", max_iter=2).fit(data, valid_comparisons=pairs)


def test_lists_follow_rows_that_were_moved(bare):
    """Rows of a matrix are named as they stand in it, also where queries are apart."""
    data = queries(6)
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    place = np.argsort(shuffle)
    lists = tops(data)
    moved = luce.Comparisons.from_orders(place[lists.order_rows].reshape(-1, 2), top=True)
    one = luce.Ranker("pmop", metric="kappa_ndcg@2", random_state=0).fit(data, valid=data, valid_comparisons=lists)
    two = luce.Ranker("pmop", metric="kappa_ndcg@2", random_state=0).fit(
        data, valid=(data.X[shuffle], data.y[shuffle], data.qid[shuffle]), valid_comparisons=moved
    )
    np.testing.assert_allclose(one.history_["validation"], two.history_["validation"], rtol=1e-12)


def test_positions_are_grades_where_a_scorer_needs_them(bare):
    lists = tops(bare, 3)
    model = luce.model("structrank", trainer__max_iter=5, trainer__starts=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LuceWarning)
        model.fit(bare, comparisons=lists)
    assert sorted(set(model.scorer_.y.tolist())) == [0, 1, 2, 3]
    judged = judged_lists(bare, lists)
    assert luce.evaluate(model.predict(bare), bare, "kendall_tau", comparisons=lists).means["kendall_tau"] > 0.3
    assert judged.y.max() == 3


TRAININGS = {
    "lbfgs": {"loss": "pmop"},
    "sgd": {"loss": "pmop", "trainer": "sgd", "max_iter": 5},
    "projected": {"loss": "pmop", "trainer": "projected", "max_epochs": 3},
    "projected_lbfgs": {"loss": "pmop", "trainer": "projected_lbfgs", "max_iter": 5},
    "trees": {"loss": "pmop", "scorer": "trees", "max_iter": 5},
    "single_feature": {"loss": "ndcg_square", "scorer": "single_feature", "max_iter": 3},
    "rankboost": {"trainer": "rankboost", "max_iter": 3},
    "frank": {"trainer": "frank", "max_iter": 3},
    "second_order": {"loss": "pmop", "scorer": "second_order", "max_iter": 5},
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_model_that_is_its_start_says_so(name):
    """Validation data that run against the training data: every step makes it worse than equal scores."""
    ranker = luce.Ranker(**TRAININGS[name], random_state=0)
    with pytest.warns(LuceWarning, match=r"No iterate is better on the validation data than the start \(ndcg@10 0\."):
        ranker.fit(queries(20), valid=queries(20, sign=-1.0, seed=1))
    assert ranker.history_["best_iteration"] == 0


def test_a_model_that_went_on_from_another_says_so():
    train, against = queries(20), queries(20, sign=-1.0, seed=1)
    ranker = luce.Ranker("pmop", warm_start=True, max_iter=30, random_state=0).fit(against)
    with pytest.warns(LuceWarning, match="the model is the one that it went on from"):
        ranker.fit(train, valid=against)


def test_a_model_that_learns_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", LuceWarning)
        ranker = luce.Ranker("pmop", random_state=0).fit(queries(20), valid=queries(20, seed=1))
    assert ranker.history_["best_iteration"] > 0
