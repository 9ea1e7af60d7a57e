"""Gradients by sampling: right in expectation, repeatable, and those of the model of `pmop_exact`."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from tests.conformance.cases import problem

SCORES = np.array([1.0, -0.5, 0.3, 0.8, -1.2, 0.1])
LABELS = np.array([2.0, 1, 1, 2, 0, 0])


def estimates(loss, draws: int) -> np.ndarray:
    """Many independent estimates of the gradient of one query: the query repeated."""
    scores, labels = np.tile(SCORES, draws), np.tile(LABELS, draws)
    _, grad = loss.value_and_grad(scores, labels, np.arange(0, len(scores) + 1, len(SCORES)))
    return grad.reshape(draws, -1)


def z_scores(sample: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return (sample.mean(axis=0) - expected) / (sample.std(axis=0, ddof=1) / np.sqrt(len(sample)))


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_long_chains_estimate_the_exact_gradient(name):
    _, exact = luce.losses.get("pmop_exact").value_and_grad(SCORES, LABELS)
    z = z_scores(estimates(luce.losses.get(name, steps=60, value="surrogate"), 4000), exact)
    assert np.abs(z).max() < 4.5


def test_short_chains_are_biased_towards_the_data():
    _, exact = luce.losses.get("pmop_exact").value_and_grad(SCORES, LABELS)
    z = z_scores(estimates(luce.losses.get("pmop_gibbs", value="surrogate"), 4000), exact)
    assert np.abs(z).max() > 10


def test_the_printed_rule_misses_the_exact_gradient():
    _, exact = luce.losses.get("pmop_exact").value_and_grad(SCORES, LABELS)
    chain = {"steps": 10, "samples": 20, "value": "surrogate"}
    right, printed = (luce.losses.get("pmop_mh", paper_rule=rule, **chain) for rule in (False, True))
    assert np.abs(z_scores(estimates(printed, 4000), exact)).max() > 15
    assert np.abs(z_scores(estimates(right, 4000), exact)).max() < 4.5


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_more_samples_have_less_variance(name):
    one, many = (estimates(luce.losses.get(name, steps=5, samples=n, value="surrogate"), 800) for n in (1, 12))
    assert (many.var(axis=0) < 0.5 * one.var(axis=0)).all()


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_values_and_probabilities_are_those_of_the_exact_model(name):
    scores, labels, offsets = problem(0)
    loss, exact = luce.losses.get(name), luce.losses.get("pmop_exact")
    assert loss.value_and_grad(scores, labels, offsets)[0] == exact.value_and_grad(scores, labels, offsets)[0]
    assert loss.log_prob(SCORES, LABELS) == exact.log_prob(SCORES, LABELS)
    first, second = (x.sample(SCORES, np.random.default_rng(5)) for x in (loss, exact))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_surrogate_has_the_estimate_as_its_gradient(name):
    # For given samples the surrogate is linear in the scores: value = scores . gradient.
    value, grad = luce.losses.get(name, samples=3, value="surrogate").value_and_grad(SCORES, LABELS)
    assert value == pytest.approx(grad @ SCORES, abs=1e-12)


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_seeds(name):
    loss = luce.losses.get(name, seed=4)
    grads = {
        "same": loss.value_and_grad(SCORES, LABELS)[1],
        "again": loss.value_and_grad(SCORES, LABELS)[1],
        "iteration 1": loss.reseeded(1).value_and_grad(SCORES, LABELS)[1],
        "iteration 2": loss.reseeded(2).value_and_grad(SCORES, LABELS)[1],
        "iteration 2 again": loss.reseeded(2).value_and_grad(SCORES, LABELS)[1],
    }
    assert np.array_equal(grads["same"], grads["again"])
    assert np.array_equal(grads["iteration 2"], grads["iteration 2 again"])
    many = [tuple(loss.reseeded(i).value_and_grad(SCORES, LABELS)[1]) for i in range(20)]
    assert len(set(many)) > 10
    rng = [np.random.default_rng(s) for s in (1, 1)]
    first, second = (loss.value_and_grad(SCORES, LABELS, rng=r)[1] for r in rng)
    assert np.array_equal(first, second)
    drawn = [tuple(loss.value_and_grad(SCORES, LABELS, rng=rng[0])[1]) for _ in range(20)]
    assert len(set(drawn)) > 10


def test_queries_of_a_call_draw_apart():
    assert len(np.unique(estimates(luce.losses.get("pmop_gibbs"), 50), axis=0)) > 25


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"samples": 0}, {"steps": 1.5}, {"value": "none"}, {"seed": -1}, {"seed": 2**64}]
)
@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_bad_settings(name, settings):
    with pytest.raises(luce.errors.SettingError, match=f"{next(iter(settings))} is .*; it must be"):
        luce.losses.get(name, **settings)
