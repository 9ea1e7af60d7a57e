"""Tie and pair probabilities against enumeration of all ordered partitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.losses.probabilities import log_likelihoods, pair_probabilities, sample_rankings
from luce.losses.tier_sizes import SizeModel
from luce.metrics.calibration import reliability
from tests.conformance.cases import ordered_partitions, permutations, problem

SIZES = SizeModel(np.array([[-1.0, -0.5, -0.3, 1.0], [1.0, 0.0, 0.0, 0.5]]))
SCORES = np.array([1.0, -0.6, 0.2, 0.9, -1.4])


def enumerated(loss, scores, sizes, outcomes) -> tuple[np.ndarray, np.ndarray]:
    n = len(scores)
    tie, before = np.zeros((n, n)), np.zeros((n, n))
    for labels in outcomes:
        p = np.exp(loss.log_prob(scores, labels) if sizes is None else loss.log_prob(scores, labels, sizes))
        tie += p * (labels[:, None] == labels)
        before += p * (labels[:, None] > labels)
    return tie, before


@pytest.mark.parametrize("sizes", [None, SIZES], ids=["model", "fitted"])
@pytest.mark.parametrize("name", ["pmop", "pmop_exact"])
def test_pairs_against_enumeration(name, sizes):
    loss = luce.losses.get(name)
    tie, before = enumerated(loss, SCORES, sizes, ordered_partitions(5))
    found = pair_probabilities(loss, SCORES, np.random.default_rng(0), 40_000, sizes)
    apart = ~np.eye(5, dtype=bool)
    assert np.abs((found.tie - tie) / found.tie_error)[apart].max() < 4.5
    assert np.abs((found.before - before) / found.before_error)[apart].max() < 4.5
    np.testing.assert_allclose(found.tie + found.before + found.before.T, 1, atol=1e-12)


def test_orders_without_ties():
    loss = luce.losses.get("listmle")
    tie, before = enumerated(loss, SCORES, None, permutations(5))
    found = pair_probabilities(loss, SCORES, np.random.default_rng(0), 5000)
    assert np.array_equal(found.tie, np.eye(5))
    np.testing.assert_allclose(found.before, before, atol=1e-12)
    assert not found.before_error.any()
    assert np.array_equal(tie, np.eye(5) * tie[0, 0])


def test_standard_errors_are_those_of_repeated_estimates():
    loss = luce.losses.get("pmop")
    repeats = [pair_probabilities(loss, SCORES, np.random.default_rng(s), 200, SIZES) for s in range(200)]
    observed = np.std([r.tie[0, 1] for r in repeats], ddof=1)
    assert observed == pytest.approx(np.mean([r.tie_error[0, 1] for r in repeats]), rel=0.2)


def test_draws_repeat_with_the_generator():
    loss = luce.losses.get("pmop_exact")
    first, second = (sample_rankings(loss, SCORES, np.random.default_rng(2), 5, SIZES) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == (5, 5)


@pytest.mark.parametrize("name", ["pmop", "pmop_exact", "listmle"])
def test_log_likelihoods_by_query(name):
    loss = luce.losses.get(name)
    scores, labels, offsets = problem(0, untied=name == "listmle")
    found = log_likelihoods(loss, scores, labels, offsets)
    expected = [loss.log_prob(scores[a:b], labels[a:b]) for a, b in itertools.pairwise(offsets)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["pmop", "pmop_exact"])
def test_fitted_sizes_calibrate_and_model_sizes_do_not(name):
    """Outcomes drawn with known scores and sizes: only the sizes have to be learned."""
    loss, rng = luce.losses.get(name), np.random.default_rng(0)
    queries = [rng.normal(0, 2, n) for n in rng.integers(3, 16, 400)]
    outcomes = [loss.sample(scores, rng, SIZES) for scores in queries]
    offsets = np.concatenate([[0], np.cumsum([len(f) for f in queries])])
    fitted = loss.fit_sizes(np.concatenate(outcomes), offsets)
    error = {}
    for what, sizes in (("model", None), ("fitted", fitted)):
        predicted, tied = [], []
        for scores, labels in zip(queries, outcomes, strict=True):
            pairs = np.triu_indices(len(scores), 1)
            predicted.append(pair_probabilities(loss, scores, rng, 200, sizes).tie[pairs])
            tied.append((labels[:, None] == labels)[pairs])
        error[what] = reliability(np.concatenate(predicted), np.concatenate(tied)).error
    assert error["fitted"] < 0.04
    assert error["model"] > 0.15


def test_losses_without_probabilities_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(luce.errors.SettingError, match="not a likelihood"):
        pair_probabilities(luce.losses.get("ranksvm"), SCORES, rng)
    with pytest.raises(luce.errors.SettingError, match="no tiers"):
        log_likelihoods(luce.losses.get("listmle"), SCORES, np.arange(5), sizes=SIZES)
    with pytest.raises(luce.errors.SettingError, match="at least 1"):
        sample_rankings(luce.losses.get("pmop"), SCORES, rng, 0)
