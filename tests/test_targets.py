"""Every loss with every kind of target: the page says what works, and losses of grades learn from lists."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

import luce
from luce.errors import SettingError
from luce.losses.grades_and_statements import OnLists

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_of_targets_is_what_happens():
    spec = importlib.util.spec_from_file_location("targets", ROOT / "docs/targets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == (ROOT / "docs/targets.md").read_text()


@pytest.mark.parametrize("name", ["pmop", "pmop_exact", "listnet", "ndcg_square", "order_and_size"])
def test_a_loss_of_grades_on_lists_is_its_sum_over_them(name):
    """Each list by itself, graded by position, times its weight; two lists of a query may name the same documents."""
    loss, offsets = luce.losses.get(name), np.array([0, 4, 5, 9])
    scores = np.random.default_rng(0).normal(size=9)
    lists = luce.Comparisons.from_orders(
        [[1, 0], [[2, 0], 3], [8, 5, 6]], top=[True, False, True], weights=[2.0, 1.0, 0.5]
    )
    graded = [([0, 1, 2, 3], [1, 2, 0, 0], 2.0), ([0, 2, 3], [2, 2, 1], 1.0), ([5, 6, 7, 8], [2, 1, 0, 3], 0.5)]
    value, grad = 0.0, np.zeros(9)
    for rows, labels, weight in graded:
        found, slopes = loss.value_and_grad(scores[rows], labels)
        value += weight * found
        grad[rows] += weight * slopes
    ours = OnLists(loss).value_grad_curvature(scores, lists, offsets)
    assert ours[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(ours[1], grad, rtol=1e-10, atol=1e-13)
    step = 1e-6 * np.eye(9)
    numeric = [
        np.subtract(*(OnLists(loss).value_and_grad(scores + s * e, lists, offsets)[0] for s in (1, -1))) for e in step
    ]
    np.testing.assert_allclose(ours[1], np.array(numeric) / 2e-6, rtol=1e-5, atol=1e-7)
    with pytest.raises(SettingError, match="learns from rankings; the comparisons hold pairs"):
        OnLists(loss).value_and_grad(scores, luce.Comparisons(wins=[(0, 1)]), offsets)


@pytest.mark.parametrize("name", ["ranknet", "davidson", "thurstone_mosteller", "ranksvm", "rank_regress"])
def test_pairwise_losses_on_lists_are_sums_over_their_pairs(name):
    """Open and closed lists with tiers and weights, against every implied preference taken one by one."""
    loss, rng = luce.losses.get(name), np.random.default_rng(1)
    offsets, scores = np.array([0, 7, 15]), 2.0 * rng.normal(size=15)
    orders, top, weights = (
        [[3, [0, 5], 1], [6, 2], [9, 14, [8, 10]], [[7, 12]]],
        [True, False, True, True],
        [1, 2, 0.5, 3],
    )
    value, grad = 0.0, np.zeros(15)
    for order, is_top, weight in zip(orders, top, weights, strict=True):
        tiers = [tier if isinstance(tier, list) else [tier] for tier in order]
        named = {row for tier in tiers for row in tier}
        query = range(7) if tiers[0][0] < 7 else range(7, 15)
        tiers += [[row for row in query if row not in named]] if is_top else []
        for above, below in itertools.combinations(tiers, 2):
            for i, j in itertools.product(above, below):
                one, slope, *_ = weight * loss.terms(np.array([scores[i] - scores[j]]), False)[:, 0]
                value, grad[i], grad[j] = value + one, grad[i] + slope, grad[j] - slope
    ours = loss.value_and_grad(scores, luce.Comparisons.from_orders(orders, top=top, weights=weights), offsets)
    assert ours[0] == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(ours[1], grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("topology", ["full", "disconnected", "random", "line", "star", "list"])
def test_networks_are_summed_over_observations(topology):
    """Ten judges of one mind count ten times, a list that weighs two twice; two judges are two graphs."""
    loss, scores = luce.losses.get("cdn", topology=topology), np.array([0.3, -0.1, 0.5, 0.0, 0.2])
    one, ten = (luce.Comparisons.from_orders([[0, 1, [2, 3]]] * n, top=True) for n in (1, 10))
    twice = luce.Comparisons.from_orders([[0, 1, [2, 3]]], top=True, weights=[2.0])
    value, grad = loss.value_and_grad(scores, one)
    for target, times in ((ten, 10), (twice, 2)):
        found, slopes = loss.value_and_grad(scores, target)
        assert found == pytest.approx(times * value, rel=1e-12)
        np.testing.assert_allclose(slopes, times * grad, rtol=1e-10, atol=1e-12)
    wins = [(0, 1), (2, 3)]
    apart = luce.Comparisons(wins=wins, win_judge=[0, 1])
    alone = [loss.value_and_grad(scores, luce.Comparisons(wins=[win]))[0] for win in wins]
    assert loss.value_and_grad(scores, apart)[0] == pytest.approx(sum(alone), rel=1e-12)
    if topology in ("full", "line"):
        together = luce.Comparisons(wins=wins, win_judge=[0, 0])
        assert loss.value_and_grad(scores, together)[0] != pytest.approx(sum(alone), rel=1e-3)
