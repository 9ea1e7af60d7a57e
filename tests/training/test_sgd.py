"""Stochastic gradient descent: reaches the optimum, repeats itself, resumes bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError


@pytest.fixture(scope="module")
def data():
    return simulate(queries=40, features=4, seed=3)


def test_reaches_the_optimum_of_lbfgs(data):
    settings = {"loss": "pmop", "l2": 0.1}
    exact = luce.Ranker(max_iter=500, tol=1e-12, **settings).fit(data)
    descent = luce.Ranker(trainer="sgd", learning_rate=0.2, max_iter=600, **settings).fit(data)
    assert descent.history_["objective"][-1] == pytest.approx(exact.history_["objective"][-1], rel=1e-4)
    batches = luce.Ranker(trainer="sgd", schedule="sqrt", batch_queries=7, max_iter=600, **settings).fit(data)
    np.testing.assert_allclose(batches.scorer_.importance(), exact.scorer_.importance(), atol=0.15)


def test_long_chains_reach_the_exact_model(data):
    """Gradients by Gibbs sampling lead to where the exact likelihood leads."""
    exact = luce.Ranker(loss="pmop_exact", l2=0.5, tol=1e-10, max_iter=300).fit(data)
    sampled = luce.Ranker(
        loss="pmop_gibbs",
        loss__steps=4,
        loss__samples=4,
        loss__value="surrogate",
        l2=0.5,
        schedule="sqrt",
        learning_rate=0.3,
        max_iter=400,
        random_state=0,
    ).fit(data)
    np.testing.assert_allclose(sampled.scorer_.importance(), exact.scorer_.importance(), atol=0.06)


@pytest.mark.parametrize("loss", ["pmop_gibbs", "pmop_mh"])
def test_repeats_itself_bit_for_bit(data, loss):
    settings = {"loss": loss, "loss__value": "surrogate", "batch_queries": 9, "random_state": 5}
    whole = luce.Ranker(max_iter=30, **settings).fit(data)
    again = luce.Ranker(max_iter=30, **settings).fit(data)
    assert np.array_equal(whole.scorer_.weights, again.scorer_.weights)


def test_batches_pass_over_all_queries(data):
    from luce.training.descent import _batch

    seen = [_batch(40, 9, 0, t) for t in range(5)]
    assert sorted(q for first, last in seen for q in range(first, last)) == list(range(40))
    assert _batch(40, None, 0, 3) == (0, 40)


def test_epochs_are_passes_over_all_queries(data):
    model = luce.Ranker(trainer="sgd", batch_queries=9, max_epochs=3).fit(data)
    assert len(model.history_["objective"]) == 3 * 5


def test_bad_settings(data):
    for settings, message in (
        ({"schedule": "fast"}, "schedule"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"batch_queries": 0}, "batch_queries"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"trainer": "adam"}, "trainer"),
    ):
        with pytest.raises(SettingError, match=message):
            luce.Ranker(**{"trainer": "sgd", **settings}).fit(data)
    with pytest.raises(SettingError, match="sampled"):
        luce.Ranker(loss="pmop_gibbs", trainer="lbfgs").fit(data)
