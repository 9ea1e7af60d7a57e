"""Grades and comparisons together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.losses.grades_and_statements import BothTargets, GradesAndComparisons


@pytest.fixture(scope="module")
def problem():
    data = simulate(queries=30, features=5, seed=0)
    rng = np.random.default_rng(0)
    wins, ties = [], []
    for a, b in itertools.pairwise(data.offsets):
        for i, j in itertools.islice(itertools.combinations(range(a, b), 2), 4):
            (ties if rng.random() < 0.3 else wins).append((i, j))
    return data, luce.Comparisons.from_pairs(wins=wins, ties=ties)


@pytest.mark.parametrize("name", ["ranknet", "davidson", "rao_kupper"])
def test_is_the_weighted_sum_of_both(problem, name):
    data, comparisons = problem
    loss = luce.losses.get(name)
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    joined = GradesAndComparisons(loss, 2.5)
    value, grad, own = joined.value_and_grads(scores, BothTargets(data.y, comparisons), data.offsets)
    _, _, curvature = joined.value_grad_curvature(scores, BothTargets(data.y, comparisons), data.offsets)
    graded = loss.value_and_grads(scores, data.y, data.offsets)
    compared = loss.value_and_grads(scores, comparisons, data.offsets)
    assert value == pytest.approx(graded[0] + 2.5 * compared[0], rel=1e-12)
    np.testing.assert_allclose(grad, graded[1] + 2.5 * compared[1], atol=1e-10)
    np.testing.assert_allclose(own, graded[2] + 2.5 * compared[2], atol=1e-10)
    parts = [loss.value_grad_curvature(scores, t, data.offsets)[2] for t in (data.y, comparisons)]
    np.testing.assert_allclose(curvature, parts[0] + 2.5 * parts[1], atol=1e-10)


def test_equal_grades_say_nothing(problem):
    data, comparisons = problem
    loss = luce.losses.get("davidson", nu=0.5)
    scores = np.random.default_rng(1).normal(size=data.n_rows)
    value, grad = GradesAndComparisons(loss, 1.0).value_and_grad(
        scores, BothTargets(np.zeros(data.n_rows), comparisons), data.offsets
    )
    alone = loss.value_and_grad(scores, comparisons, data.offsets)
    assert value == pytest.approx(alone[0], rel=1e-12)
    np.testing.assert_allclose(grad, alone[1], atol=1e-12)


def test_ranker_learns_from_comparisons_alone(problem):
    """Preferences that follow one feature teach that feature, whatever the order of the rows."""
    data, _ = problem
    wins = []
    for a, b in itertools.pairwise(data.offsets):
        order = a + np.argsort(-data.X[a:b, 1])
        wins += list(itertools.pairwise(order))
    model = luce.Ranker(loss="ranknet", l2=0.01).fit(
        luce.from_arrays(data.X, group=data.sizes), comparisons=luce.Comparisons.from_pairs(wins=wins)
    )
    assert int(np.argmax(np.abs(model.scorer_.importance()))) == 1
    shuffle = np.random.default_rng(0).permutation(data.n_rows)
    place = np.argsort(shuffle)
    moved = luce.Comparisons.from_pairs(wins=place[np.array(wins)])
    again = luce.Ranker(loss="ranknet", l2=0.01).fit(
        data.X[shuffle], np.zeros(data.n_rows), qid=data.qid[shuffle], comparisons=moved
    )
    np.testing.assert_allclose(again.scorer_.importance(), model.scorer_.importance(), atol=1e-3)


def test_bad_settings(problem):
    data, comparisons = problem
    with pytest.raises(SettingError, match="learns from rankings; the comparisons hold pairs"):
        luce.Ranker(loss="pmop").fit(data, comparisons=comparisons)
    with pytest.raises(SettingError, match="comparison_weight"):
        luce.Ranker(loss="ranknet").fit(data, comparisons=comparisons, comparison_weight=0)
    far = luce.Comparisons.from_pairs(wins=[(0, 10**6)])
    with pytest.raises(DataError, match="row"):
        luce.Ranker(loss="ranknet").fit(data, comparisons=far)
