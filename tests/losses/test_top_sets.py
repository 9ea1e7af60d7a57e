"""Sets of k documents by importance sampling, against all sets, and the race of long queries, against a plain sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import luce
from luce.errors import LuceWarning
from luce.losses.probabilities import pair_probabilities, topk_chances
from luce.losses.top_sets import draw_sets, indicators, log_between, mean_slopes, weighed_sets
from luce.numerics.races import chances_in_top

NAMES = ["hom_oo", "hom_og"]
SPREADS = [0.0, 1.0, 6.0]


def scores_of(spread: float, n: int = 12) -> np.ndarray:
    return spread * np.random.default_rng(3).normal(size=n)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spread", SPREADS)
def test_weights_of_sets_are_those_of_enumeration(name, spread):
    loss, f = luce.losses.get(name), scores_of(spread)
    members, logs = loss.subsets(f, 4)
    np.testing.assert_allclose(log_between(loss.kind, f, indicators(members, len(f))), logs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spread", [*SPREADS, 400.0])
def test_mean_slopes_over_all_sets_are_those_of_the_log_of_their_sum(name, spread):
    """With scores 400 times as far apart some sets leave nothing outside that a sum of exponentials could hold."""
    loss, f, step = luce.losses.get(name), scores_of(spread, 7), 1e-6
    members, logs = loss.subsets(f, 3)
    inside = np.zeros((len(members), len(f)))
    np.put_along_axis(inside, members, 1.0, axis=1)
    moved = [[logsumexp(loss.subsets(f + sign * step * unit, 3)[1]) for sign in (1, -1)] for unit in np.eye(len(f))]
    slopes = np.array([(up - down) / (2 * step) for up, down in moved])
    np.testing.assert_allclose(mean_slopes(loss.kind, f, inside, softmax(logs)), slopes, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spread", SPREADS)
def test_estimates_have_the_errors_that_they_state(name, spread):
    """Over 40 seeds, differences in units of the stated error have a mean square near 1; less where nothing varies."""
    loss, f, k = luce.losses.get(name), scores_of(spread), 4
    members, logs = loss.subsets(f, k)
    p = np.bincount(members.ravel(), np.repeat(softmax(logs), k), len(f))
    found = [weighed_sets(loss.kind, f, k, np.random.default_rng(seed), 1000) for seed in range(40)]
    chances = [sets.inclusion() for sets in found]
    for chance, _ in chances:
        assert chance.sum() == pytest.approx(k, abs=1e-9)
    moved = np.array([(chance - p) / error for chance, error in chances])
    assert np.mean(moved**2) < 1.5
    log_z = [(sets.log_normaliser[0] - logsumexp(logs)) / max(sets.log_normaliser[1], 1e-9) for sets in found]
    assert np.mean(np.square(log_z)) < 2.0
    if spread == 1.0:
        assert np.mean(moved[:, (p > 0.05) & (p < 0.95)] ** 2) > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_draws_of_sets_have_the_exact_marginals(name):
    loss, f, k, count = luce.losses.get(name), scores_of(2.0), 4, 8000
    members, logs = loss.subsets(f, k)
    p = np.bincount(members.ravel(), np.repeat(softmax(logs), k), len(f))
    drawn = draw_sets(loss.kind, f, k, np.random.default_rng(0), count)
    seen = np.bincount(drawn.ravel(), minlength=len(f)) / count
    assert np.all(np.abs(seen - p) < 4 * np.sqrt(p * (1 - p) / count) + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_documents(name):
    """Beyond enumeration: chances, pairs and draws agree with each other within their errors."""
    loss = luce.losses.get(name, k=10)
    f = np.random.default_rng(5).normal(0, 1.5, 100)
    chances = topk_chances(loss, f, 10, rng=1)
    assert chances.draws == 4000
    assert chances.probability.sum() == pytest.approx(10, abs=1e-8)
    assert chances.error.max() < 0.01
    labels = loss.sample_many(f, np.random.default_rng(2), 2000)
    assert np.all((labels > 0).sum(axis=1) == 10)
    seen, p = (labels > 0).mean(axis=0), chances.probability
    assert np.all(np.abs(seen - p) < 4.5 * np.sqrt(p * (1 - p) / 2000 + chances.error**2) + 1e-3)
    pairs = pair_probabilities(loss, f, np.random.default_rng(3))
    np.testing.assert_allclose(pairs.tie + pairs.before + pairs.before.T, 1.0, atol=1e-9)
    above = labels[:, :, None] > labels[:, None, :20]
    difference = np.abs(above.mean(axis=0) - pairs.before[:, :20])
    assert np.all(difference < 6 * np.sqrt(pairs.before_error[:, :20] ** 2 + 0.25 / 2000))


def test_few_effective_draws_are_said():
    """Half of a hundred documents, with scores of heavy tails: the sum over F has one term that may be in or out."""
    f = 2 * np.random.default_rng(1).standard_cauchy(100).clip(-20, 20)
    with pytest.warns(LuceWarning, match="are effective"):
        weighed_sets(luce.losses.get("hom_og").kind, f, 50, np.random.default_rng(0), 1000)


def race(f: np.ndarray, k: int, step: float = 0.04) -> np.ndarray:
    """The integral as it stands: a fine sum over log t, and for each document the others by convolution."""
    result = np.zeros(len(f))
    for u in np.arange(-f.max() - 40, -np.sort(f)[0] + 5, step):
        p = -np.expm1(-np.exp(f + u))
        for i in range(len(f)):
            count = np.ones(1)
            for other in np.delete(p, i):
                count = np.convolve(count, [1 - other, other])
            result[i] += step * math.exp(f[i] + u - math.exp(f[i] + u)) * count[:k].sum()
    return result


@pytest.mark.parametrize(("n", "k", "spread"), [(6, 3, 1.0), (5, 4, 4.0), (6, 1, 2.0), (4, 2, 30.0), (4, 3, 15.0)])
def test_the_race_is_its_integral(n, k, spread):
    f = scores_of(spread, n)
    np.testing.assert_allclose(chances_in_top(f, k), race(f, k), atol=2e-14)


@pytest.mark.parametrize(("n", "k"), [(300, 40), (800, 400), (800, 799)])
@pytest.mark.parametrize("spread", [0.0, 0.5, 5.0, 100.0])
def test_the_race_of_long_queries(n, k, spread):
    """The chances sum to k, are k / n for equal scores, rise with the score, and do not depend on a shift."""
    f = np.sort(spread * np.random.default_rng(n).normal(size=n))
    p = chances_in_top(f, k)
    assert p.sum() == pytest.approx(k, abs=1e-10)
    assert np.all(np.diff(p) > -1e-13)
    np.testing.assert_allclose(chances_in_top(f + 1000.0, k), p, atol=1e-11)
    if spread == 0:
        np.testing.assert_allclose(p, k / n, atol=1e-13)
