"""Weights of a blend, and what it is said to be worth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import luce
from luce.auto.weights import Valued, _equal, _lattice, estimate, learned, spread, value_blends
from luce.data.simulate import simulate
from luce.metrics import get


def made(values, shares):
    return Valued(np.asarray(shares, dtype=float), np.asarray(values, dtype=float), np.empty(0), None, get("ndcg@10"))


def test_the_lattice_is_all_blends_of_up_to_four_parts():
    found = {tuple(row) for row in _lattice(3).round(12)}
    counts = [c for c in product(range(5), repeat=3) if 1 <= sum(c) <= 4]
    assert found == {tuple(np.round(np.array(c) / sum(c), 12)) for c in counts}
    np.testing.assert_array_equal(_lattice(3)[:3], np.eye(3))


def test_spread_is_the_deviation_within_queries():
    data = luce.from_arrays([[0.0]] * 5, [0, 1, 0, 1, 2], qid=[1, 1, 2, 2, 2])
    scores = np.array([1.0, 3.0, 10.0, 10.0, 13.0])
    assert np.isclose(spread(scores, data), np.sqrt((1 + 1 + 1 + 1 + 4) / 5))


def test_values_are_those_of_the_metric():
    data, rng = simulate(queries=12, features=3, seed=0), np.random.default_rng(0)
    scores = rng.normal(size=(2, data.n_rows))
    valued = value_blends(scores, data, get("ndcg@10"), rng)
    for row, values in zip(valued.shares, valued.values, strict=True):
        np.testing.assert_allclose(values, luce.evaluate(row @ scores, data, ["ndcg@10"]).values["ndcg@10"])


def test_many_queries_trust_the_metric_and_few_trust_all_members():
    """Member 0 is always better by 0.01, too little to leave the other out of the equal weights."""
    for n, share in ((10, 10 / 110), (900, 0.9)):
        noise = np.random.default_rng(0).normal(size=n)
        values = np.stack([noise + 0.01, noise + 0.3 * np.resize([1.0, -1.0], n)])
        found = learned(made(values, np.eye(2)), np.arange(n), np.random.default_rng(1)).weights
        halves = learned(made(np.tile(values, 10**4 // n), np.eye(2)), np.arange(n), np.random.default_rng(1)).weights
        assert halves.shape == (2,)
        assert np.isclose(found.sum(), 1.0)
        assert found.min() >= (1 - share) / 2 - 1e-12


def test_a_member_that_is_clearly_worse_has_no_part_in_equal_weights():
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=(2, 50)), rng.normal(size=(1, 50)) - 5.0
    np.testing.assert_allclose(_equal(np.concatenate([good, bad])), [0.5, 0.5, 0.0])


def test_skipped_queries_do_not_count():
    values = np.array([[0.5, np.nan, 0.4, 0.3], [0.1, np.nan, 0.2, 0.1]])
    found = learned(made(values, np.eye(2)), np.arange(4), np.random.default_rng(0)).weights
    again = learned(made(values[:, [0, 2, 3]], np.eye(2)), np.arange(3), np.random.default_rng(0)).weights
    np.testing.assert_array_equal(found, again)


def _noise(data, rng):
    return luce.evaluate(rng.normal(size=data.n_rows), data, ["ndcg@10"]).means["ndcg@10"]


def test_weights_on_noise_do_not_make_the_estimate_optimistic():
    """Members without any skill: the best of all blends looks good on its own queries, and the estimate does not."""
    errors, flattered = [], []
    for seed in range(12):
        data, rng = simulate(queries=40, features=2, seed=seed), np.random.default_rng(seed)
        scores = rng.normal(size=(4, data.n_rows))
        valued = value_blends(scores, data, get("ndcg@10"), rng)
        truth = np.mean([_noise(data, rng) for _ in range(60)])
        errors.append(estimate(valued, rng).value - truth)
        flattered.append(np.nanmean(valued.values, axis=1).max() - truth)
    error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert np.mean(errors) < 2.5 * error
    assert np.mean(flattered) > 2.5 * error


@pytest.mark.slow
def test_the_interval_covers_what_the_blend_is_worth():
    covered, errors = [], []
    for seed in range(20):
        data = simulate(queries=400, features=6, seed=seed)
        train, rest = data.take(np.arange(60)), data.take(np.arange(60, 400))
        model = luce.model("auto", members=["luce-linear", "regression"], random_state=seed).fit(train)
        worth = luce.evaluate(model, rest, ["ndcg@10"]).means["ndcg@10"]
        found = model.history_["blend"]["estimate"]
        covered.append(found["low"] <= worth <= found["high"])
        errors.append(found["value"] - worth)
    assert np.mean(covered) >= 0.8
    assert np.mean(errors) < 2.5 * np.std(errors, ddof=1) / np.sqrt(len(errors))
