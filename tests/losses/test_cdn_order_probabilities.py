"""Probabilities of a network, by adding up products of its functions over all orderings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.losses.cdn.loss import CDN
from luce.losses.cdn.order_probabilities import before_all, before_each_other, order_probabilities
from luce.losses.probabilities import pair_probabilities

SCORES = np.array([0.7, -0.2, 0.1, 1.5, -1.0])


def phi(a: float, b: float, w1: float, w2: float) -> float:
    return 1 / (1 + np.exp(-w1 * a) + np.exp(-w2 * b))


def joint(order, w1: float, w2: float) -> tuple[float, float]:
    """F of a complete order, and the product of the marginals of its edges."""
    r = [SCORES[a] - SCORES[b] for a, b in itertools.combinations(order, 2)]
    together = np.prod([phi(a, b, w1, w2) for a in r for b in r])
    apart = 1.0
    for a in r:
        apart *= phi(a, a, w1, w2) * (phi(a, np.inf, w1, w2) * phi(np.inf, a, w1, w2)) ** (len(r) - 1)
    return float(together), float(apart)


@pytest.mark.parametrize("items", [(0, 1), (3, 0, 2), (4, 1, 0, 2)])
def test_first_of_several_by_enumeration(items):
    w1, w2 = 0.8, 1.7
    weights = {order: joint(order, w1, w2) for order in itertools.permutations(items)}
    total = np.sum(list(weights.values()), axis=0)
    ahead = np.sum([weight for order, weight in weights.items() if order[0] == items[0]], axis=0)
    found = before_all(CDN(w1=w1, w2=w2), SCORES, items[0], items[1:])
    np.testing.assert_allclose(found, ahead / total, rtol=1e-10)


def test_preferences_hang_together():
    """phi(a, b) is at least phi(a, inf) phi(inf, b): the joint is above the product of marginals for every order."""
    for order in itertools.permutations(range(4)):
        together, apart = joint(order, 1.0, 0.5)
        assert together > apart


def test_dependence_is_nothing_where_edges_are_apart():
    found = before_all(CDN("disconnected", w1=1.3), SCORES, 0, [1, 2])
    assert found.probability == pytest.approx(found.independent, rel=1e-12)
    assert found.dependence == pytest.approx(0.0, abs=1e-10)
    assert before_all(CDN(), SCORES, 0, [1, 2]).dependence != pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("topology", ["full", "disconnected", "line", "star", "list"])
def test_orders_sum_to_one_and_the_best_first_is_most_probable(topology):
    orders = order_probabilities(CDN(topology), SCORES, [0, 1, 3])
    assert orders.probability.sum() == pytest.approx(1.0)
    assert orders.independent.sum() == pytest.approx(1.0)
    assert orders.items[orders.probability.argmax()].tolist() == [3, 0, 1]


@pytest.mark.parametrize("topology", ["full", "disconnected", "line", "star", "list"])
def test_one_edge_depends_on_nothing(topology):
    orders = order_probabilities(
        CDN(topology, w1=0.7, w2=None if topology in ("disconnected", "list") else 1.9), [0.3, -0.5]
    )
    np.testing.assert_allclose(orders.independent, orders.probability, rtol=1e-12)


def test_list_network_is_plackett_luce():
    orders = order_probabilities(CDN("list", w1=1.0), SCORES[:3])
    for items, p in zip(orders.items, orders.probability, strict=True):
        labels = np.empty(3)
        labels[items] = [3, 2, 1]
        assert np.log(p) == pytest.approx(luce.losses.get("listmle").log_prob(SCORES[:3], labels), rel=1e-12)


def test_gaussian_marginals():
    loss = CDN(family="gaussian", rho=0.0, w1=1.0, w2=1.0)
    found = before_all(loss, SCORES, 0, [1, 2])
    assert found.probability == pytest.approx(found.independent, rel=1e-10)
    assert before_all(CDN(family="gaussian", rho=0.6), SCORES, 0, [1, 2]).dependence != pytest.approx(0, abs=1e-4)


def test_pairs_are_both_ways_one():
    before = before_each_other(CDN(w1=2.0, w2=0.5, weighting="pairs"), SCORES)
    np.testing.assert_allclose(before + before.T, 1 - np.eye(5), atol=1e-14)
    assert before[3, 4] == pytest.approx(
        phi(2.5, 2.5, 2.0, 0.5) / (phi(2.5, 2.5, 2.0, 0.5) + phi(-2.5, -2.5, 2.0, 0.5)), rel=1e-12
    )
    same = pair_probabilities(CDN(w1=2.0, w2=0.5), SCORES, np.random.default_rng(0))
    np.testing.assert_array_equal(same.before, before)


def test_rankers_give_them():
    data = simulate(queries=8, features=4, seed=0)
    model = luce.Ranker("cdn", loss__w1=1.0, loss__w2=1.0, loss__weighting="pairs").fit(data)
    before = model.pair_probability(data)
    assert len(before) == 8
    np.testing.assert_allclose(before[0] + before[0].T, 1 - np.eye(len(before[0])), atol=1e-12)


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(SettingError, match="name 2 to 8"):
        order_probabilities(CDN(), np.zeros(20))
    with pytest.raises(SettingError, match="different places"):
        order_probabilities(CDN(), SCORES, [0, 0])
    with pytest.raises(SettingError, match="others"):
        before_all(CDN(), SCORES, 0, [0, 1])
    with pytest.raises(SettingError, match="random"):
        before_each_other(CDN("random"), SCORES)
