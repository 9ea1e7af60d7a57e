"""Densities of small networks against differences of their cdf, and draws against the cdf."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from luce.errors import SettingError
from luce.losses.cdn.loss import CDN
from luce.losses.cdn.order_density import _derivative, _functions, order_density, sample_preferences
from luce.losses.cdn.order_probabilities import _values, before_each_other, order_probabilities

EDGES = [(0, 1), (0, 2), (1, 2)]


def network(topology, functions=1):
    weights = {"w1": 1.3, "w2": 0.7} if functions == 1 else {"w1": [1.3, 0.4], "w2": [0.7, 1.1]}
    return CDN(**weights, functions=functions, topology=topology, weighting="all")


@pytest.mark.parametrize("topology", ["full", "disconnected", "line", "star"])
@pytest.mark.parametrize("functions", [1, 2])
def test_undifferentiated_it_is_the_network(topology, functions):
    scores = np.array([0.8, 0.1, -0.5])
    loss = network(topology, functions)
    z = np.array([scores[i] - scores[j] for i, j in EDGES])
    expected = np.exp(-_values(loss, scores, np.array([3.0, 2.0, 1.0]), 3)[0])
    assert _derivative(_functions(loss, EDGES), z, 0) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("topology", ["full", "disconnected", "line", "star"])
def test_the_density_is_the_mixed_difference_of_the_cdf(topology):
    loss, z, h = network(topology), np.array([0.4, -0.2, 0.9]), 2e-3
    functions = _functions(loss, EDGES)
    total = 0.0
    for signs in itertools.product((-1.0, 1.0), repeat=3):
        total += np.prod(signs) * _derivative(functions, z + h * np.array(signs), 0)
    assert order_density(loss, EDGES, z) == pytest.approx(total / (2 * h) ** 3, rel=1e-4)


def test_the_density_of_two_edges_integrates_to_one():
    loss = network("full")
    grid = np.linspace(-20, 20, 81)
    values = [[order_density(loss, EDGES[:2], [a, b]) for a in grid] for b in grid]
    assert np.sum(values) * (grid[1] - grid[0]) ** 2 == pytest.approx(1.0, abs=2e-3)


def test_draws_fall_below_a_point_as_often_as_the_cdf_says():
    loss = network("full")
    drawn = sample_preferences(loss, EDGES, 80, random_state=3)
    functions = _functions(loss, EDGES)
    for z in ([1.0, 2.0, 1.5], [3.0, 0.5, 2.0]):
        chance = _derivative(functions, np.array(z), 0)
        share = np.mean((drawn <= z).all(axis=1))
        assert abs(share - chance) < 4 * np.sqrt(chance * (1 - chance) / len(drawn))
    np.testing.assert_array_equal(drawn[:2], sample_preferences(loss, EDGES, 2, random_state=3))


def test_pairs_are_not_those_of_the_orders():
    """The share of orders with the worse document first is smaller than its probability against the other alone."""
    loss, scores = CDN(w1=1.0, w2=1.0), np.array([2.0, 1.0, 0.0, -1.0, -2.0])
    orders = order_probabilities(loss, scores)
    place = np.argsort(orders.items, axis=1)
    reversed_share = orders.probability[place[:, 4] < place[:, 0]].sum()
    assert reversed_share < 0.1 * before_each_other(loss, scores)[4, 0]


@pytest.mark.parametrize(
    ("loss", "edges", "words"),
    [
        (CDN(family="gaussian"), EDGES, "sigmoids"),
        (CDN(), [], "0 edges"),
        (CDN(), [(0, 1), (0, 1)], "different"),
        (CDN(topology="random"), EDGES, "random"),
    ],
)
def test_what_has_no_density_is_refused(loss, edges, words):
    with pytest.raises(SettingError, match=words):
        order_density(loss, edges, np.zeros(len(edges)))


def test_a_point_needs_a_number_an_edge():
    with pytest.raises(SettingError, match="3 edges"):
        order_density(CDN(), EDGES, [0.0])


@pytest.mark.parametrize("w1", [0.0, 1e4])
def test_draws_end_where_the_cdf_has_no_inverse(w1):
    with np.errstate(all="ignore"):
        found = sample_preferences(CDN(w1=w1, w2=1.0, topology="disconnected"), [(0, 1), (1, 2)], 5)
    assert np.isfinite(found).all()
