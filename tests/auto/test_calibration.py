"""Probabilities of a blend: of pairs, ties and the top k, as often as they say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import luce
from luce.auto.weights import calibrate
from luce.data.simulate import simulate


def drawn(seed, queries=150, size=12):
    """Scores, and pairs of them that win, lose and tie as Davidson's model says."""
    rng = np.random.default_rng(seed)
    return luce.from_arrays(rng.normal(size=(queries * size, 1)), qid=np.repeat(np.arange(queries), size)), rng


def test_the_scale_of_a_race_is_found_again():
    data, rng = drawn(0)
    scores = data.X[:, 0].astype(float)
    y = np.empty(data.n_rows)
    for a, b in pairwise(data.offsets):
        y[a:b] = luce.losses.get("plackett_luce").sample(3.0 * scores[a:b], rng)
    scale, loss = calibrate(scores, luce.from_arrays(data.X, y, qid=data.qid), rng)
    assert np.isclose(scale * loss.race_scale, 3.0, rtol=0.1)


def test_chances_of_pairs_are_those_of_the_link_where_ties_have_no_level():
    scores = np.array([0.3, -1.0, 0.7])
    for loss in (luce.losses.get("davidson", nu=0.7), luce.losses.get("davidson", ties=False)):
        tie, before, after = loss.chances(scores[:, None], scores[None, :])
        difference = scores[:, None] - scores[None, :]
        np.testing.assert_allclose(tie + before + after, 1.0)
        np.testing.assert_allclose(tie, loss.tie_probability(difference), rtol=1e-12)
        np.testing.assert_allclose(before, loss.pair_probability(difference), rtol=1e-12)


def test_pairs_that_win_lose_and_tie_by_the_model_give_its_parameters_back():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60_000, 2))
    half, level = 0.5 * 2.0 * (scores[:, 0] - scores[:, 1]), 0.5 * 2.0 * scores.sum(axis=1)
    weight = np.exp(np.stack([0.3 - 0.5 * level + 0.1 * level**2, half, -half], axis=1))
    place = (rng.random((len(scores), 1)) * weight.sum(axis=1)[:, None] > np.cumsum(weight, axis=1)).sum(axis=1)
    y = np.stack([place == 1, place == 2], axis=1).astype(float)
    data = luce.from_arrays(np.zeros((y.size, 1)), y.ravel(), qid=np.repeat(np.arange(len(y)), 2))
    scale, loss = calibrate(scores.ravel(), data, rng)
    assert np.isclose(scale, 2.0, rtol=0.05)
    np.testing.assert_allclose(loss.tie_level, [-0.5, 0.1], atol=0.04)
    assert np.isclose(np.log(loss.tie_parameter), 0.3, atol=0.05)


def test_top_k_of_davidson_is_luce_on_a_scale():
    scores = np.array([0.3, -1.0, 0.7, 0.1])
    loss = luce.losses.get("davidson", race_scale=2.0)
    from luce.losses.probabilities import topk_probability

    expected = topk_probability(luce.losses.get("plackett_luce"), 2.0 * scores, 2)
    np.testing.assert_allclose(topk_probability(loss, scores, 2), expected)
    assert loss.settings["race_scale"] == 2.0
    assert "race_scale" not in luce.losses.get("davidson").settings


@pytest.fixture(scope="module")
def judged():
    """A model and queries that it did not see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("luce.auto.plan._FINE", 0.3)
        data = simulate(queries=700, features=8, seed=4)
        data = data.take(data.sizes <= 25)  # so that no query makes most of the pairs
        train, rest = data.take(np.arange(200)), data.take(np.arange(200, data.n_queries))
        return luce.model("auto", members=["luce-linear", "regression"], random_state=0).fit(train), rest


def bins(chance, happened, edges=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)):
    place = np.digitize(chance, edges[1:-1])
    return [
        (chance[place == i].mean(), happened[place == i].mean())
        for i in range(len(edges) - 1)
        if np.sum(place == i) > 1000
    ]


def test_pairs_and_ties_happen_as_often_as_said(judged):
    model, rest = judged
    better, tied, won, equal = [], [], [], []
    for pairs, (a, b) in zip(model.pairs(rest), pairwise(rest.offsets), strict=True):
        upper = np.triu_indices(b - a, 1)
        y = rest.y[a:b]
        better.append(pairs.before[upper])
        tied.append(pairs.tie[upper])
        won.append((y[:, None] > y[None, :])[upper])
        equal.append((y[:, None] == y[None, :])[upper])
    for said, happened in (
        (np.concatenate(better), np.concatenate(won)),
        (np.concatenate(tied), np.concatenate(equal)),
    ):
        found = bins(said, happened)
        assert len(found) > 2
        assert max(abs(expected - often) for expected, often in found) < 0.1


def test_top_k_happens_as_often_as_said(judged):
    model, rest = judged
    said = model.topk_probability(rest, 5)
    rng, happened = np.random.default_rng(0), np.empty(rest.n_rows)
    for a, b in pairwise(rest.offsets):
        order = np.lexsort((rng.random(b - a), -rest.y[a:b]))
        happened[a:b] = np.isin(np.arange(b - a), order[:5])
    long = np.repeat(rest.sizes > 5, rest.sizes)
    for expected, found in bins(said[long], happened[long], (0.0, 0.25, 0.5, 0.75, 1.0)):
        assert abs(expected - found) < 0.1
