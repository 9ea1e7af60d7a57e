"""Lists as judgements: grades by position, one query a list, and metrics and likelihoods on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import luce
from luce.data.order_files import judged_lists
from luce.data.statements import position_grades
from luce.errors import DataError, SettingError


@pytest.fixture
def data() -> luce.Groups:
    return luce.from_arrays(np.arange(6.0)[:, None], qid=[1, 1, 1, 1, 2, 2])


LISTS = luce.Comparisons.from_orders([[4, 5], [2, [0, 1]], [3, 0]], top=[True, False, True], weights=[1, 3, 1])


def test_grades_are_positions(data):
    judged = judged_lists(data, LISTS)
    assert judged.offsets.tolist() == [0, 3, 7, 9]
    assert judged.query_ids.tolist() == [1, 1, 2]
    assert judged.rows.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]  # an open list judges what it names
    assert judged.y.tolist() == [1, 1, 2, 1, 0, 0, 2, 2, 1]
    groups = judged.groups(data)
    assert groups.X[:, 0].tolist() == judged.rows.tolist()
    with pytest.raises(DataError, match="hold neither a list nor a pair"):
        judged_lists(data, luce.Comparisons())


def test_pairs_judge(data):
    """Every pair is judged, and a query has the weighted mean over its preferences."""
    pairs = luce.Comparisons(wins=[(1, 0), (0, 2), (4, 5)], ties=[(2, 3)], win_weight=np.array([3.0, 1.0, 1.0]))
    judged = judged_lists(data, pairs)
    assert judged.rows.tolist() == [0, 1, 0, 2, 2, 3, 4, 5]
    assert judged.y.tolist() == [1, 2, 2, 1, 1, 1, 2, 1]
    found = luce.evaluate(np.array([0.0, 1, 1, 2, 5, 5]), data, comparisons=pairs)
    assert found.query_ids.tolist() == [1, 2]
    assert found.values["pairwise_accuracy"].tolist() == [0.75, 0.5]
    model = luce.Ranker("davidson").fit(data, comparisons=pairs)
    chances = model.pairs(data)
    expected = [
        (3 * np.log(chances[0].before[1, 0]) + np.log(chances[0].before[0, 2]) + np.log(chances[0].tie[2, 3])) / 5,
        np.log(chances[1].before[0, 1]),
    ]
    known = luce.evaluate(model, data, ["pairwise_accuracy", "log_likelihood"], comparisons=pairs)
    np.testing.assert_allclose(known.values["log_likelihood"], expected, rtol=1e-12)
    with pytest.raises(SettingError, match="ndcg@10 judges rankings; pairs have pairwise_accuracy"):
        luce.evaluate(model, data, ["ndcg@10"], comparisons=pairs)


def test_grades_for_scorers(data):
    """Weighted means over the lists that grade a row: row 0 has 1 with weight 3 and 1 with weight 1."""
    expected = [1, 3 / 4, 6 / 4, 2, 2, 1]
    np.testing.assert_allclose(position_grades(LISTS, data.offsets), expected)


@pytest.mark.filterwarnings("ignore:top_k=2, the k of the kappa metrics")
def test_metrics_on_lists(data):
    """Scores in the order of the rows, best first: the list 4 > 5 is met, 3 > 0 > rest is not."""
    scores = -np.arange(6.0)
    lists = luce.Comparisons.from_orders([[4, 5], [3, 0]], top=True)
    found = luce.evaluate(scores, data, ["kappa_ndcg@2", "mrr"], top_k=2, comparisons=lists)
    assert found.query_ids.tolist() == [1, 2]
    second = 1 / math.log2(3)
    assert found.values["kappa_ndcg@2"] == pytest.approx([1 / (3 + second), 1.0])
    assert found.values["mrr"] == pytest.approx([1.0, 1.0])
    with pytest.raises(SettingError, match="scores alone have no likelihood"):
        luce.evaluate(scores, data, "log_likelihood", comparisons=lists)


@pytest.mark.parametrize("name", ["topk_listmle", "hom_og"])
def test_likelihood_of_lists(data, name):
    lists = luce.Comparisons.from_orders([[4], [3, 0]], top=True)
    normalised = {"loss__normalised": True} if name == "hom_og" else {}
    model = luce.Ranker(name, loss__k=None, **normalised).fit(data, comparisons=lists)
    scores = model.predict(data)
    found = luce.evaluate(model, data, ["log_likelihood", "kappa_err"], comparisons=lists).values["log_likelihood"]
    loss = luce.losses.get(name, k=None)
    expected = [
        loss.log_prob(scores[:4], luce.Comparisons.from_orders([[3, 0]], top=True)),
        loss.log_prob(scores[4:], luce.Comparisons.from_orders([[0]], top=True)),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    moved = np.array([4, 0, 5, 1, 2, 3])
    again = model.log_likelihood(
        data.X[moved], qid=data.qid[moved], comparisons=luce.Comparisons.from_orders([[0], [5, 1]], top=True)
    )
    np.testing.assert_allclose(again, expected[::-1], rtol=1e-12)


def test_likelihood_of_lists_as_grades(data):
    """`pmop` takes no lists: to it the tiers are grades, and what a top list leaves out is the last tier."""
    model = luce.Ranker("pmop").fit(luce.from_arrays(data.X, [3, 2, 1, 0, 1, 0], qid=data.qid))
    lists = luce.Comparisons.from_orders([[3, [0, 1]]], top=True)
    expected = model.log_likelihood(luce.from_arrays(data.X[:4], [1, 1, 0, 2]))
    np.testing.assert_allclose(model.log_likelihood(data, comparisons=lists), expected)


def test_ties_alone_teach_no_order(data):
    ties = luce.Comparisons.from_pairs(ties=[(0, 1)])
    for name in ("ranknet", "davidson"):
        with pytest.raises(DataError, match="hold ties only, from which no order can be learned"):
            luce.Ranker(name).fit(data, comparisons=ties)
    graded = luce.from_arrays(data.X, [2, 1, 0, 0, 1, 0], qid=data.qid)
    assert luce.Ranker("davidson").fit(graded, comparisons=ties).loss_.tie_parameter > 0
