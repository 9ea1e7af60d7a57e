"""Sets of k documents, summed or drawn, against all sets, and the race of long queries, against a plain sum."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import luce
from luce.errors import LuceWarning
from luce.losses.one_one import OneOneLaw
from luce.losses.probabilities import pair_probabilities, topk_chances
from luce.losses.top_sets import AllSets, all_sets, draw_sets, log_between, mean_slopes, weighed_sets
from luce.numerics.races import chances_in_top

NAMES = ["hom_oo", "hom_og"]
SPREADS = [0.0, 1.0, 6.0]


def scores_of(spread: float, n: int = 12) -> np.ndarray:
    return spread * np.random.default_rng(3).normal(size=n)


@pytest.mark.parametrize("spread", [*SPREADS, 0.3, 15.0])
@pytest.mark.parametrize(("n", "k"), [(8, 1), (9, 4), (12, 3), (12, 6), (15, 13), (18, 2)])
def test_one_against_one_is_its_enumeration(n, k, spread):
    """The normaliser, its slopes and all chances, without any draw."""
    f = spread * np.random.default_rng(n * k).normal(size=n)
    law, truth = OneOneLaw(f, k), AllSets(luce.losses.get("hom_oo").kind, f, k)
    assert law.log_total == pytest.approx(truth.log_total, abs=2e-4)
    np.testing.assert_allclose(law.slopes, truth.slopes, atol=2e-4)
    np.testing.assert_allclose(law.chance, truth.chance, atol=2e-5)


def test_one_against_one_where_a_gap_parts_the_top_from_all_others():
    """Nobody is left in doubt: the law is that of one set."""
    f = np.array([300.0, 250.0, 0.0, -20.0, -400.0])
    law, truth = OneOneLaw(f, 2), AllSets(luce.losses.get("hom_oo").kind, f, 2)
    assert law.log_total == pytest.approx(truth.log_total, abs=1e-9)
    np.testing.assert_allclose(law.chance, [1, 1, 0, 0, 0], atol=1e-9)


def test_one_against_one_of_equal_scores_and_a_shift():
    law = OneOneLaw(np.zeros(50), 7)
    assert law.log_total == pytest.approx(math.log(math.comb(50, 7)) - 7 * 43 * math.log(2.0), abs=1e-9)
    np.testing.assert_allclose(law.chance, 7 / 50, atol=1e-12)
    np.testing.assert_allclose(law.slopes, 0.0, atol=1e-9)
    f = np.random.default_rng(0).normal(size=80)
    here, there = OneOneLaw(f, 9), OneOneLaw(f + 1000.0, 9)
    assert here.log_total == pytest.approx(there.log_total, abs=1e-8)
    np.testing.assert_allclose(here.slopes, there.slopes, atol=1e-7)
    assert here.slopes.sum() == pytest.approx(0.0, abs=1e-4)
    assert here.chance.sum() == pytest.approx(9.0, abs=1e-9)


@pytest.mark.parametrize(("n", "k", "spread"), [(40, 6, 0.5), (40, 6, 3.0), (120, 30, 1.0)])
def test_slopes_of_the_normaliser_are_those_of_differences(n, k, spread):
    f, step = spread * np.random.default_rng(n).normal(size=n), 1e-4
    for i in (0, 7, n - 1):
        unit = step * np.eye(n)[i]
        slope = (OneOneLaw(f + unit, k).log_total - OneOneLaw(f - unit, k).log_total) / (2 * step)
        assert OneOneLaw(f, k).slopes[i] == pytest.approx(slope, abs=2e-3)


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_draws_of_one_against_one_have_its_chances(spread):
    """Sets that are drawn exactly: a chi-square over all sets of 7 documents, and the chances of 60."""
    f = spread * np.random.default_rng(2).normal(size=7)
    law, truth = OneOneLaw(f, 3), AllSets(luce.losses.get("hom_oo").kind, f, 3)
    drawn = np.sort(law.draw(20_000, np.random.default_rng(1)), axis=1)
    names = [tuple(one) for one in truth.members.tolist()]
    seen = np.array([np.sum((drawn == one).all(axis=1)) for one in names])
    expected = 20_000 * truth.probability
    often = expected > 5
    assert np.sum((seen - expected)[often] ** 2 / expected[often]) < often.sum() + 4 * np.sqrt(2 * often.sum())
    f = spread * np.random.default_rng(3).normal(size=60)
    law = OneOneLaw(f, 10)
    share = np.bincount(law.draw(8000, np.random.default_rng(4)).ravel(), minlength=60) / 8000
    assert np.all(np.abs(share - law.chance) < 4.5 * np.sqrt(law.chance * (1 - law.chance) / 8000) + 1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spread", [*SPREADS, 400.0])
def test_mean_slopes_over_all_sets_are_those_of_the_log_of_their_sum(name, spread):
    """With scores 400 times as far apart some sets leave nothing outside that a sum of exponentials could hold."""
    kind, f, step = luce.losses.get(name).kind, scores_of(spread, 7), 1e-6
    members, logs = all_sets(partial(log_between, kind), f, 3)
    inside = np.zeros((len(members), len(f)))
    np.put_along_axis(inside, members, 1.0, axis=1)
    moved = [
        [logsumexp(all_sets(partial(log_between, kind), f + sign * step * unit, 3)[1]) for sign in (1, -1)]
        for unit in np.eye(len(f))
    ]
    slopes = np.array([(up - down) / (2 * step) for up, down in moved])
    np.testing.assert_allclose(mean_slopes(kind, f, inside, softmax(logs)), slopes, atol=1e-6)


@pytest.mark.parametrize("spread", SPREADS)
def test_estimates_have_the_errors_that_they_state(spread):
    """Over 40 seeds, differences in units of the stated error have a mean square near 1; less where nothing varies."""
    f, k = scores_of(spread), 4
    _, logs = all_sets(partial(log_between, luce.losses.get("hom_og").kind), f, k)
    p = AllSets(luce.losses.get("hom_og").kind, f, k).chance
    found = [weighed_sets(f, k, np.random.default_rng(seed), 1000) for seed in range(40)]
    chances = [sets.inclusion() for sets in found]
    for chance, _ in chances:
        assert chance.sum() == pytest.approx(k, abs=1e-9)
    moved = np.array([(chance - p) / error for chance, error in chances])
    assert np.mean(moved**2) < 1.5
    log_z = [(sets.log_normaliser[0] - logsumexp(logs)) / max(sets.log_normaliser[1], 1e-9) for sets in found]
    assert np.mean(np.square(log_z)) < 2.0
    if spread == 1.0:
        assert np.mean(moved[:, (p > 0.05) & (p < 0.95)] ** 2) > 0.5


def test_draws_of_sets_have_the_exact_marginals():
    f, k, count = scores_of(2.0), 4, 8000
    p = AllSets(luce.losses.get("hom_og").kind, f, k).chance
    drawn = draw_sets(f, k, np.random.default_rng(0), count)
    seen = np.bincount(drawn.ravel(), minlength=len(f)) / count
    assert np.all(np.abs(seen - p) < 4 * np.sqrt(p * (1 - p) / count) + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_documents(name):
    """Beyond enumeration: chances, pairs and draws agree with each other within their errors."""
    loss = luce.losses.get(name, k=10)
    f = np.random.default_rng(5).normal(0, 1.5, 100)
    chances = topk_chances(loss, f, 10, rng=1)
    assert chances.draws == (0 if name == "hom_oo" else 4000)
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
        weighed_sets(f, 50, np.random.default_rng(0), 1000)


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
