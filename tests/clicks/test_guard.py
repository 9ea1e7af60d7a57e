"""The guard takes what is better on queries of the log that no learner saw, and says by how much."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.clicks import Clicks, examination, guarded
from luce.clicks.guard import attraction, held_out_ndcg, shown_often
from luce.clicks.simulation import production, simulate_counts, weak_rankers
from luce.clicks.users import Users
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
    assert found.chosen == "debiased"
    rows = {row["learner"]: row for row in found.table}
    assert rows["naive"]["difference"] == 0
    assert rows["debiased"]["difference"] > 0
    assert 0 < rows["debiased"]["standard_error"] < 0.1
    assert found.model.history_["guard"]["chosen"] == "debiased"
    again = luce.Ranker(loss="click_choice").fit(docs, clicks=seen.target(docs))
    np.testing.assert_array_equal(found.model.predict(docs), again.predict(docs))


def test_takes_naive_where_that_is_better():
    docs, seen = world(40, sessions=20_000, features=5)
    found = guarded(luce.Ranker(loss="click_choice"), docs, seen)
    rows = {row["learner"]: row["value"] for row in found.table}
    assert rows["naive"] > rows["debiased"]
    assert found.chosen == "naive"
    naive = shown_often(seen, docs)
    assert naive.clicks.sum() == seen.counts.clicked.sum()
    assert naive.exposure.sum() == seen.counts.shown.sum()
    again = luce.Ranker(loss="click_choice").fit(docs, clicks=naive)
    np.testing.assert_array_equal(found.model.predict(docs), again.predict(docs))


def test_trees_of_few_queries_give_way_to_a_linear_scorer():
    docs, seen = world(24, seed=3, features=20)
    trees = luce.Ranker(loss="click_choice", scorer="trees", max_iter=30, random_state=0)
    found = guarded(trees, docs, seen, folds=3)
    values = {row["learner"]: row["value"] for row in found.table}
    assert list(values) == ["debiased", "debiased, linear", "naive"]
    assert found.chosen == max(values, key=values.get)
    assert values["debiased, linear"] > values["debiased"]


def test_same_seed_same_choice_and_order_of_queries():
    docs, seen = world(40)
    one, two = (guarded(luce.Ranker(loss="click_choice"), docs, seen, random_state=5) for _ in range(2))
    assert one.table == two.table


def test_gains_and_ndcg_by_hand():
    clicks = Clicks(np.array([3.0, 0.0, 0.4]), np.array([4.0, 0.0, 0.5]))
    np.testing.assert_allclose(attraction(clicks, np.array([0.9, 0.2, 7.0])), [0.75, 0.2, 1.0])
    data = luce.from_arrays(np.zeros((3, 1)), np.zeros(3), qid=[1, 1, 1])
    gains = np.array([0.75, 0.2, 1.0])
    log2 = np.log2([2, 3, 4])
    expected = (gains / log2).sum() / (np.array([1.0, 0.75, 0.2]) / log2).sum()
    assert held_out_ndcg(np.array([3.0, 2.0, 1.0]), gains, data) == pytest.approx([expected])
    assert held_out_ndcg(np.ones(3), np.zeros(3), data).size == 0


def test_mistakes_are_told():
    docs, seen = world(12, sessions=2_000)
    with pytest.raises(SettingError, match="click_choice"):
        guarded(luce.Ranker(loss="davidson"), docs, seen)
    with pytest.raises(DataError, match="fewer folds"):
        guarded(luce.Ranker(loss="click_choice"), docs, seen, folds=10)
    with pytest.raises(SettingError, match="folds"):
        guarded(luce.Ranker(loss="click_choice"), docs, seen, folds=1)
