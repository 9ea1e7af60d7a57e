"""The guard takes what is better on queries of the log that no learner saw, and says by how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import luce
from luce.clicks import Clicks, examination, given_examination, guarded
from luce.clicks.guard import explained, shown_often
from luce.clicks.simulation import Users, production, simulate_counts, weak_rankers
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError


def world(queries, seed=0, sessions=50_000, features=8):
    rng = np.random.default_rng(seed)
    drawn = simulate(queries=queries, features=features, seed=seed)
    docs = luce.from_arrays(drawn.X, drawn.y, qid=drawn.qid, document_ids=np.arange(drawn.n_rows))
    counts = simulate_counts(docs, production(docs, weak_rankers(docs, rng), swap=0.2), rng, sessions=sessions)
    return docs, examination(counts, docs)


def misleading(seed):
    """Shown by one feature alone, to users who hardly look down: click rates learn that feature."""
    rng = np.random.default_rng(seed)
    drawn = simulate(queries=60, features=8, seed=seed)
    docs = luce.from_arrays(drawn.X, drawn.y, qid=drawn.qid, document_ids=np.arange(drawn.n_rows))
    order = rng.permutation(docs.n_rows) + 3.0 * docs.n_rows * docs.X[:, -1]
    users = Users("position", 2.0)
    counts = simulate_counts(docs, production(docs, [order], swap=0.3), rng, sessions=100_000, users=users)
    return docs, examination(counts, docs)


def test_takes_debiased_where_that_is_better():
    docs, seen = misleading(2)
    found = guarded(luce.Ranker(loss="click_choice"), docs, seen)
    assert found.chosen.startswith("debiased")
    rows = {row["learner"]: row for row in found.table}
    best = max((name for name in rows if name.startswith("naive")), key=lambda name: rows[name]["value"])
    assert rows[best]["difference"] == 0
    assert rows[found.chosen]["difference"] > 2 * rows[found.chosen]["standard_error"] > 0
    assert found.model.history_["guard"]["chosen"] == found.chosen
    again = luce.Ranker(loss="click_choice", l2=float(found.chosen.partition("l2=")[2])).fit(
        docs, clicks=seen.target(docs)
    )
    np.testing.assert_array_equal(found.model.predict(docs), again.predict(docs))


def test_naive_is_debiased_where_every_position_is_looked_at():
    docs, seen = world(40, sessions=20_000, features=5)
    naive = shown_often(seen, docs)
    assert naive.clicks.sum() == seen.counts.clicked.sum()
    assert naive.exposure.sum() == seen.counts.shown.sum()
    always = given_examination(seen.counts, dict.fromkeys(map(int, seen.position), 1.0))
    values = {row["learner"]: row["value"] for row in guarded(luce.Ranker(loss="click_choice"), docs, always).table}
    for l2 in ("0.01", "0.1", "1", "10"):
        assert values[f"naive, l2={l2}"] == values[f"debiased, linear, l2={l2}"]


def test_trees_of_few_queries_give_way_to_a_linear_scorer():
    rng = np.random.default_rng(3)
    n, features = 20 * 20, 20
    X = rng.normal(size=(n, features))
    grades = np.digitize(X @ np.ones(features) / features**0.5, [0.5, 1.5]).astype(float)
    docs = luce.from_arrays(X, grades, qid=np.repeat(np.arange(20), 20), document_ids=np.arange(n))
    counts = simulate_counts(docs, production(docs, [rng.random(n), rng.random(n)], swap=0.2), rng, sessions=20_000)
    trees = luce.Ranker(loss="click_choice", scorer="trees", max_iter=20, random_state=0)
    found = guarded(trees, docs, examination(counts, docs), folds=3)
    values = {row["learner"]: row["value"] for row in found.table}
    assert next(iter(values)) == "debiased"
    assert len(values) == 10
    assert found.chosen == max(values, key=values.get) != "debiased"
    assert max(value for name, value in values.items() if "linear" in name) > values["debiased"]


def test_the_mean_of_trees_and_the_best_linear_learner_is_one_model(tmp_path):
    rng, n = np.random.default_rng(3), 60 * 20
    X = rng.normal(size=(n, 6))
    worth = X @ [1.0, 1.0, 0.5, 0.0, 0.0, 0.0] + 1.5 * (X[:, 3] > 0) + rng.normal(0, 0.5, n)  # a line and a step
    grades = np.digitize(worth, [0.75, 2.5]).astype(float)
    docs = luce.from_arrays(X, grades, qid=np.repeat(np.arange(60), 20), document_ids=np.arange(n))
    counts = simulate_counts(docs, production(docs, [rng.random(n), rng.random(n)], swap=0.2), rng, sessions=3_000)
    seen = examination(counts, docs)
    trees = luce.Ranker(loss="click_choice", scorer="trees", max_iter=20, random_state=0)
    found = guarded(trees, docs, seen)
    values = {row["learner"]: row["value"] for row in found.table}
    linear = max((name for name in values if name.startswith("debiased, linear")), key=values.get)
    assert found.chosen == linear.replace("linear", "mean with linear")
    clicks = seen.target(docs)
    other = luce.Ranker(loss="click_choice", l2=float(linear.partition("l2=")[2])).fit(docs, clicks=clicks)
    expected = 0.5 * (trees.fit(docs, clicks=clicks).predict(docs) + other.predict(docs))
    np.testing.assert_allclose(found.model.predict(docs), expected, rtol=1e-6, atol=1e-6)
    found.model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(docs), found.model.predict(docs))
    assert found.model.history_["guard"]["chosen"] == found.chosen


def test_the_mean_is_for_trees_that_can_be_joined_with_a_linear_score():
    docs, seen = world(30, sessions=5_000, features=4)
    for settings in ({}, {"scorer": "trees", "max_iter": 3, "query_norm": "zscore"}):
        ranker = luce.Ranker(loss="click_choice", random_state=0, **settings)
        assert not any("mean" in row["learner"] for row in guarded(ranker, docs, seen, folds=2).table)


def test_few_queries_of_noise_take_the_greatest_penalty():
    rng = np.random.default_rng(1)
    n = 15 * 20
    docs = luce.from_arrays(rng.normal(size=(n, 30)), np.zeros(n), qid=np.repeat(np.arange(15), 20))
    docs = replace(docs, document_ids=np.arange(n).astype(object), y=rng.integers(3, size=n).astype(float))
    counts = simulate_counts(docs, production(docs, [rng.random(n), rng.random(n)], swap=0.2), rng, sessions=20_000)
    found = guarded(luce.Ranker(loss="click_choice", l2=0.01), docs, examination(counts, docs))
    values = {row["learner"]: row["value"] for row in found.table}
    assert values["debiased"] == pytest.approx(values["debiased, linear, l2=0.01"], rel=1e-6)
    assert found.chosen.endswith("l2=10")
    assert values["debiased"] < 0  # worse than saying nothing


def test_same_seed_same_choice_and_order_of_queries():
    docs, seen = world(40)
    one, two = (guarded(luce.Ranker(loss="click_choice"), docs, seen, random_state=5) for _ in range(2))
    assert one.table == two.table


def test_what_is_explained_is_the_held_out_loss_less_that_of_equal_scores():
    clicks = Clicks(np.array([3.0, 0.0, 1.0, 0.0, 0.0]), np.array([4.0, 2.0, 0.5, 3.0, 1.0]))
    scores, offsets = np.array([1.0, -0.5, 0.3, 2.0, 0.0]), np.array([0, 3, 5])
    loss = luce.Ranker(loss="click_choice", loss__temper=0.5, loss__prior=0.0).parts().loss
    h = clicks.exposure[:3] ** -0.5
    chosen, looked = h * clicks.clicks[:3], h * clicks.exposure[:3]

    def likelihood(f):
        return (chosen * np.log(np.exp(f) / (looked @ np.exp(f)))).sum()

    expected = (likelihood(scores[:3]) - likelihood(np.zeros(3))) / chosen.sum()
    np.testing.assert_allclose(explained(loss, scores, clicks, offsets), [expected])


def test_mistakes_are_told():
    docs, seen = world(12, sessions=2_000)
    with pytest.raises(SettingError, match="click_choice"):
        guarded(luce.Ranker(loss="davidson"), docs, seen)
    with pytest.raises(DataError, match="fewer folds"):
        guarded(luce.Ranker(loss="click_choice"), docs, seen, folds=10)
    with pytest.raises(SettingError, match="folds"):
        guarded(luce.Ranker(loss="click_choice"), docs, seen, folds=1)
