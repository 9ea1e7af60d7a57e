"""What must hold for every loss that is a likelihood: it sums to one, and its samples follow it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.conformance.cases import likelihoods, outcomes

pytestmark = pytest.mark.parametrize("loss", likelihoods(), ids=repr)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_probabilities_of_all_outcomes_sum_to_one(loss, n):
    scores = np.random.default_rng(n).normal(0, 1.3, n)
    total = sum(np.exp(loss.log_prob(scores, labels)) for labels in outcomes(loss, n))
    assert total == pytest.approx(1, abs=1e-10)


def test_value_is_log_probability_up_to_a_constant(loss):
    if loss.composite:
        pytest.skip("its normaliser depends on the scores; tests/losses/test_topk.py checks it by enumeration")
    labels = np.array([2.0, 0, 1, 3, 0]) if loss.outcome == "partition" else np.array([2.0, 0, 1, 4, 3])
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(5):
        scores = rng.normal(0, 2, 5)
        gaps.append(loss.value_and_grad(scores, labels)[0] + loss.log_prob(scores, labels))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-10)


def test_samples_follow_the_probabilities(loss):
    n, draws = 4, 6000
    scores = np.array([0.8, -0.4, 0.1, -1.0])
    rng = np.random.default_rng(3)
    known = {tuple(stats.rankdata(o, "dense")): i for i, o in enumerate(outcomes(loss, n))}
    counts = np.zeros(len(known))
    for _ in range(draws):
        counts[known[tuple(stats.rankdata(loss.sample(scores, rng), "dense"))]] += 1
    expected = draws * np.exp([loss.log_prob(scores, o) for o in outcomes(loss, n)])
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] == 0:
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-3
