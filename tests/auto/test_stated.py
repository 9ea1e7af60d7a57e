"""Lists and preferences in place of grades: they go with their queries into folds, searches and blends."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import luce
from luce.auto.weights import race_likelihood
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.experiments import Candidate, compare, grouped_folds
from luce.experiments.search import tune
from luce.metrics.evaluate import evaluate_rows


def stated(kind: str, queries: int = 60) -> luce.Groups:
    """Documents without grades, and noisy statements by a utility that a linear score cannot reach."""
    rng, data = np.random.default_rng(0), simulate(queries=queries, features=6, seed=0)
    utility = data.X @ rng.normal(size=6) + 2.0 * np.abs(data.X[:, 0])
    wins, orders = [], []
    for a, b in pairwise(data.offsets.tolist()):
        orders.append((a + np.argsort(-utility[a:b] - rng.gumbel(size=b - a))[:4]).tolist())
        for i, j in rng.permutation(np.arange(a, b))[:12].reshape(-1, 2) if b - a >= 12 else ():
            wins.append((i, j) if utility[i] - utility[j] + rng.logistic() > 0 else (j, i))
    said = luce.Comparisons.from_pairs(wins) if kind == "pairs" else luce.Comparisons.from_orders(orders, top=True)
    names = [f"d{row}" for row in range(data.n_rows)]
    bare = luce.from_arrays(data.X, qid=[f"q{q}" for q in data.qid], document_ids=names)
    return replace(bare, stated=said)


def test_what_is_stated_goes_with_its_queries():
    """Every statement of every kind, with weight and judge, is found again by the documents that it names."""
    names = np.array(list("abcdefgh"))
    data = luce.from_arrays(np.zeros((8, 1)), group=[3, 1, 4], document_ids=names)
    said = luce.Comparisons(
        wins=[(0, 1), (7, 4)], ties=[(5, 6)], win_weight=[1, 2], tie_weight=[3], win_judge=[0, 1], tie_judge=[1],
        order_rows=[2, 1, 6, 4, 5], order_offsets=[0, 2, 5], order_is_top=[True, False],
        order_tied=[False, False, False, False, True], order_weight=[4, 5],
    )  # fmt: skip
    part = replace(data, stated=said).take([2, 1])
    found, ids = part.stated, part.document_ids
    assert ids[found.wins].tolist() == [["h", "e"]]
    assert ids[found.ties].tolist() == [["f", "g"]]
    assert ids[found.order_rows].tolist() == ["g", "e", "f"]
    assert (found.win_weight, found.tie_weight, found.order_weight) == ([2], [3], [5])
    assert (found.win_judge, found.tie_judge) == ([1], [1])
    assert (found.order_is_top.tolist(), found.order_tied.tolist()) == ([False], [False, False, True])
    with pytest.raises(DataError, match="different queries"):
        replace(data, stated=luce.Comparisons(wins=[(0, 3)]))


@pytest.mark.parametrize("kind", ["pairs", "lists"])
def test_data_that_hold_statements_are_learned_from_and_judged_by_them(kind):
    data, loss = stated(kind, 20), "davidson" if kind == "pairs" else "plackett_luce"
    bare = replace(data, stated=None)
    one, other = luce.Ranker(loss).fit(data), luce.Ranker(loss).fit(bare, comparisons=data.stated)
    np.testing.assert_array_equal(one.predict(bare), other.predict(bare))
    metric = "pairwise_accuracy" if kind == "pairs" else "kappa_ndcg@10"
    assert (
        luce.evaluate(one, data, [metric])[metric]
        == luce.evaluate(one, bare, [metric], comparisons=data.stated)[metric]
    )


def test_the_likelihood_that_chooses_is_that_of_luces_model():
    """A list and a preference against the product of their stages."""
    scores = np.array([0.3, -0.2, 1.0, 0.5])
    data = luce.from_arrays(np.zeros((4, 1)), [2, 0, 1, 0], group=[4])
    found = evaluate_rows(scores, data, [race_likelihood()]).values["log_likelihood"]
    power = np.exp(scores)
    expected = np.log(power[0] / power.sum()) + np.log(power[2] / (power.sum() - power[0]))
    assert found == pytest.approx([expected], rel=1e-12)


@pytest.mark.parametrize("kind", ["pairs", "lists"])
def test_auto_learns_from_what_is_stated(kind):
    """Better than the linear model on queries that it did not see, honest about what it is worth, and saved."""
    data = stated(kind, 150)
    train, test = data.take(np.arange(100)), data.take(np.arange(100, 150))
    model = luce.model("auto", random_state=0).fit(train)
    linear = luce.Ranker("davidson" if kind == "pairs" else "plackett_luce", l2=1e-3).fit(train)
    worth, rival = (luce.evaluate(one, test, ["log_likelihood"])["log_likelihood"] for one in (model, linear))
    record = model.history_["blend"]
    assert record["metric"] == "log_likelihood"
    assert worth > rival
    assert abs(record["estimate"]["value"] - worth) < 3 * (record["estimate"]["high"] - record["estimate"]["low"])
    assert model.loss_.name == ("davidson" if kind == "pairs" else "plackett_luce")
    with pytest.raises(SettingError, match="does not learn from"):
        luce.model("auto", members=["lambdarank"]).fit(train)
    with pytest.raises(SettingError, match="comparison_weight goes with a loss"):
        luce.model("auto").fit(train, comparison_weight=2.0)


@pytest.mark.parametrize("kind", ["pairs", "lists"])
def test_searches_choose_by_the_likelihood_of_what_was_held_out(kind):
    data, name = stated(kind), "pairties-d" if kind == "pairs" else "plackett-luce"
    metric = "pairwise_accuracy" if kind == "pairs" else "kappa_ndcg@10"
    folds = grouped_folds(data, 3)
    result = compare(folds, [Candidate(name, {"l2": [1e-3, 1e4]})], [metric], tune_on="log_likelihood")
    assert all(outcome.chosen == {"l2": 1e-3} for outcome in result.outcomes)
    for fold, outcome in zip(folds, result.outcomes, strict=True):
        test = fold.load()[2]
        assert len(outcome.values[metric]) == test.n_queries
        expected = evaluate_rows(outcome.scores, test, [metric]).values[metric]
        assert np.nanmean(outcome.values[metric]) == pytest.approx(np.nanmean(expected))
    found = tune(folds[:1], name, trials=2, metric="log_likelihood", space={}, fixed={"l2": 1e-3})
    assert found.best.validation < 0
