"""Hierarchical orderings of any two layers against the losses and against enumeration; riffled independence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import luce
from luce.errors import DataError, SettingError
from luce.losses.hierarchy import FIRST_LAYERS, HierarchicalOrdering, LuceOrder, MallowsOrder, riffle

LOSSES = {"group_to_group": "hom_gg", "one_to_one": "hom_oo", "one_to_group": "hom_og"}
SCORES = np.array([1.3, -0.2, 0.4, 0.0, -1.1])


def labels_of(top: tuple[int, ...], n: int) -> np.ndarray:
    labels = np.zeros(n)
    labels[list(top)] = np.arange(len(top), 0, -1)
    return labels


@pytest.mark.parametrize("first", FIRST_LAYERS)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_with_luce_inside_they_are_the_losses(first, k):
    model, loss = HierarchicalOrdering(k, first), luce.losses.get(LOSSES[first], k=k)
    for top in model.tops(5)[:20]:
        assert model.log_prob(SCORES, top) == pytest.approx(loss.log_prob(SCORES, labels_of(top, 5)), abs=1e-12)


@pytest.mark.parametrize("second", [LuceOrder(), MallowsOrder(0.3), MallowsOrder(1.0)])
@pytest.mark.parametrize("first", [*FIRST_LAYERS, lambda f, inside: inside @ f**2])
@pytest.mark.parametrize("scores", [SCORES, np.array([0.5, 0.5, 0.5, 0.0, -1.0])])
def test_any_two_layers_make_a_distribution(first, second, scores):
    model = HierarchicalOrdering(3, first, second)
    chances = np.array([math.exp(model.log_prob(scores, top)) for top in model.tops(5)])
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    included = sum(chance * (labels_of(top, 5) > 0) for chance, top in zip(chances, model.tops(5), strict=True))
    np.testing.assert_allclose(model.inclusion(scores), included, atol=1e-12)


def test_mallows_inside_is_its_definition():
    spread, scores = 0.4, np.array([0.9, 0.1, -0.5])
    orders = list(itertools.permutations(range(3)))
    against = [sum(scores[a] < scores[b] for a, b in itertools.combinations(order, 2)) for order in orders]
    total = sum(spread**d for d in against)
    for order, d in zip(orders, against, strict=True):
        assert math.exp(MallowsOrder(spread).log_prob(scores[list(order)])) == pytest.approx(spread**d / total)


def test_draws_follow_the_probabilities():
    model = HierarchicalOrdering(2, "one_to_one", MallowsOrder(0.3))
    drawn = model.sample(SCORES, np.random.default_rng(0), 20_000)
    for top in model.tops(5):
        chance, seen = math.exp(model.log_prob(SCORES, top)), (drawn == top).all(axis=1).mean()
        assert abs(seen - chance) < 5 * math.sqrt(chance * (1 - chance) / 20_000) + 1e-9


def luce_orders(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    orders = np.array(list(itertools.permutations(range(len(scores)))))
    return orders, np.exp([LuceOrder().log_prob(scores[order]) for order in orders])


def test_a_riffle_is_found_and_luce_is_none():
    """Interleaving, orders of A and of B drawn apart have divergence 0; Luce's model with unlike scores has not."""
    rng = np.random.default_rng(0)
    orders, luce_chances = luce_orders(np.array([2.0, 0.5, -0.3, 0.0, -2.0]))
    group = [0, 3, 4]
    interleaved = dict(zip(itertools.combinations(range(5), 3), rng.dirichlet(np.ones(10)), strict=True))
    first = dict(zip(itertools.permutations(group), rng.dirichlet(np.ones(6)), strict=True))
    second = dict(zip(itertools.permutations([1, 2]), rng.dirichlet(np.ones(2)), strict=True))
    chances = []
    for order in orders:
        inside = np.isin(order, group)
        places = tuple(np.flatnonzero(inside).tolist())
        parts = interleaved[places], first[tuple(order[inside].tolist())], second[tuple(order[~inside].tolist())]
        chances.append(math.prod(parts))
    found = riffle(orders, np.array(chances), group)
    assert found.divergence == pytest.approx(0.0, abs=1e-12)
    for order, chance in first.items():
        assert found.first[order] == pytest.approx(chance)
    for places, chance in interleaved.items():
        assert found.interleaving[tuple(place in places for place in range(5))] == pytest.approx(chance)
    assert riffle(orders, luce_chances, group).divergence > 1e-3


def test_given_the_top_it_is_riffle_independent_of_the_rest():
    """Footnote 1 of the paper: with the others in any order, p = m f g on the orders that have T on top."""
    model, group = HierarchicalOrdering(2, "one_to_one"), (0, 2)
    orders = np.array(
        [[*top, *rest] for top in itertools.permutations(group) for rest in itertools.permutations([1, 3])]
    )
    chances = np.array([math.exp(model.log_prob(SCORES[:4], tuple(order[:2].tolist()))) / 2 for order in orders])
    found = riffle(orders, chances / chances.sum(), group)
    assert found.divergence == pytest.approx(0.0, abs=1e-12)
    for top in itertools.permutations(group):
        assert found.first[top] == pytest.approx(math.exp(LuceOrder().log_prob(SCORES[list(top)])))
    staged = np.exp([LuceOrder().log_prob(SCORES[order]) for order in orders])  # Luce's stages, given the same T
    assert riffle(orders, staged / staged.sum(), group).divergence == pytest.approx(0.0, abs=1e-12)


def test_mistakes_are_refused():
    with pytest.raises(SettingError, match="one_to_one"):
        HierarchicalOrdering(2, "one-to-one")
    with pytest.raises(SettingError, match="spread"):
        MallowsOrder(0.0)
    with pytest.raises(SettingError, match="one log-weight a set"):
        HierarchicalOrdering(2, lambda f, inside: np.zeros(3)).inclusion(SCORES)
    with pytest.raises(SettingError, match="gone through"):
        HierarchicalOrdering(20).inclusion(np.zeros(60))
    with pytest.raises(DataError, match="2 different documents"):
        HierarchicalOrdering(2).log_prob(SCORES, [1, 1])
    with pytest.raises(DataError, match="sum to 1"):
        riffle([[0, 1], [1, 0]], [0.5, 0.6], [0])
