"""The tied Plackett-Luce likelihood against sums over orders, fine quadrature, and its relatives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import luce
from luce.data.comparisons import Comparisons
from luce.errors import DataError, SettingError
from luce.numerics.compiled import kernel
from luce.numerics.races import chance_of_tier, room_for_tiers
from tests.conformance.cases import problem

compiled_chance = kernel(chance_of_tier)


def probability_of_order(scores: np.ndarray, order) -> float:
    phi = np.exp(scores[list(order)])
    return math.prod(phi[i] / phi[i:].sum() for i in range(len(phi)))


def by_orders(scores: np.ndarray, labels: np.ndarray) -> float:
    """The sum over all orders that agree with the labels."""
    agree = [o for o in itertools.permutations(range(len(scores))) if (np.diff(labels[list(o)]) <= 0).all()]
    return sum(probability_of_order(scores, order) for order in agree)


def fine(log_rates: np.ndarray) -> tuple[float, np.ndarray]:
    """Log P of a tier against rate 1, and its slopes, by even steps of 0.01 in log t over all that could count."""
    x = np.arange(-75.0, 5.0 + np.log(len(log_rates)), 0.01)
    log_z = log_rates[:, None] + x
    z = np.exp(np.minimum(log_z, 6.5))
    log_arrived = np.where(log_z < -30, log_z, np.log(-np.expm1(-np.maximum(z, 1e-300))))
    log_w = x - np.exp(x) + log_arrived.sum(axis=0)
    hazard = np.where(z < 1e-8, 1 - z / 2, z / np.maximum(np.expm1(z), 1e-300))
    w = special.softmax(log_w)
    return float(special.logsumexp(log_w) + np.log(0.01)), hazard @ w


def tier(log_rates: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    slopes, curvatures = np.empty(len(log_rates)), np.empty(len(log_rates))
    log_p, total, _ = compiled_chance(log_rates, slopes, curvatures, room_for_tiers(len(log_rates)))
    assert total == pytest.approx(slopes.sum(), rel=1e-13)
    return log_p, slopes, curvatures


@pytest.mark.parametrize("seed", range(6))
def test_probability_is_the_sum_over_orders(seed):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(0, 2, 6), rng.integers(0, 3, 6).astype(float)
    found = luce.losses.get("plackett_luce").log_prob(scores, labels)
    assert found == pytest.approx(math.log(by_orders(scores, labels)), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 20, 60, 300, 700])
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 30.0])
def test_integral_to_ten_digits(m, spread):
    rng = np.random.default_rng(m)
    for shift in (-5.0, -1.0, 0.5, 3.0, 8.0, 15.0):
        log_rates = rng.normal(0, spread, m) + shift
        log_p, slopes, _ = tier(log_rates)
        expected, expected_slopes = fine(log_rates)
        assert log_p == pytest.approx(expected, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(slopes, expected_slopes, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 40])
def test_equal_rates_have_a_closed_form(m):
    """P = m! r^m / prod (1 + i r): at equal scores n documents, m on top, are one of C(n, m) sets."""
    rest = 9
    log_p, slopes, _ = tier(np.full(m, -math.log(rest)))
    assert log_p == pytest.approx(-math.log(math.comb(m + rest, m)), rel=1e-11)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-12)


@pytest.mark.parametrize("log_rates", [[9e3, -9e3, 0.0, 5.0], [-2e4, -1e4, -1.5e4], [2e4, 1e4, 5e3], [-700.0] * 9])
def test_extreme_rates(log_rates):
    """Racers that never come add their log-rate and a factor k! of their orders; those that are there add nothing."""
    log_rates = np.array(log_rates)
    log_p, slopes, _ = tier(log_rates)
    late, early = log_rates < -500, log_rates > 500
    middle = log_rates[~late & ~early]
    x = np.arange(-75.0, 9.0, 0.01)
    log_w = (1 + late.sum()) * x - np.exp(x)
    log_w += sum(np.log(-np.expm1(-np.exp(rate + x))) for rate in middle)
    expected = log_rates[late].sum() + special.logsumexp(log_w) + math.log(0.01)
    assert log_p == pytest.approx(expected, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(slopes[late], 1, atol=1e-12)
    np.testing.assert_allclose(slopes[early], 0, atol=1e-12)


def test_untied_labels_are_listmle():
    scores, labels, offsets = problem(1, untied=True)
    value, grad, curvature = luce.losses.get("plackett_luce").value_grad_curvature(scores, labels, offsets)
    for other in ("listmle", "pmop"):
        same = luce.losses.get(other).value_grad_curvature(scores, labels, offsets)
        assert value == pytest.approx(same[0], rel=1e-12)
        np.testing.assert_allclose(grad, same[1], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(curvature, same[2], rtol=1e-9, atol=1e-12)


def test_curvature_of_a_tier_is_the_mean_of_its_formula():
    """E[b(z)] - Var a(z) with b = a (a + z - 1), over the integrand's own distribution of t."""
    log_rates = np.array([0.4, -1.0, 2.0, 0.1])
    x = np.arange(-40.0, 4.0, 0.01)
    z = np.exp(log_rates[:, None] + x)
    a = z / np.expm1(z)
    w = special.softmax(x - np.exp(x) + np.log(-np.expm1(-z)).sum(axis=0))
    variance = a**2 @ w - (a @ w) ** 2
    np.testing.assert_allclose(tier(log_rates)[2], (a * (a + z - 1)) @ w - variance, rtol=1e-9)


@pytest.mark.parametrize(
    "labels", [[2.0, 2, 1, 1, 1, 0], [2.0, 1, 1, 0, 0, 0], [1.0, 1, 1, 1, 1, 0], [3.0, 2, 2, 1, 1, 1]]
)
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_curvature_is_the_diagonal_of_the_hessian(labels, spread):
    loss = luce.losses.get("plackett_luce")
    scores = np.random.default_rng(3).normal(0, spread, 6)
    curvature, step = loss.value_grad_curvature(scores, labels)[2], 1e-4 * np.eye(6)
    sides = [[loss.value_and_grad(scores + s * e, labels)[1][i] for s in (1, -1)] for i, e in enumerate(step)]
    np.testing.assert_allclose(curvature, [(up - down) / 2e-4 for up, down in sides], atol=1e-7)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_curvature_of_approximations_is_the_diagonal_of_the_hessian(ties):
    scores, labels, offsets = problem(8, sizes=(9, 14), grades=3)
    loss = luce.losses.get("plackett_luce", ties=ties)
    curvature = loss.value_grad_curvature(scores, labels, offsets)[2]
    step = 1e-4 * np.eye(len(scores))
    up, down = (
        [loss.value_and_grad(scores + s * e, labels, offsets)[1][i] for i, e in enumerate(step)] for s in (1, -1)
    )
    np.testing.assert_allclose(curvature, (np.array(up) - down) / 2e-4, atol=1e-7)


def test_value_is_convex():
    scores, labels, _ = problem(2, sizes=(7,), grades=3)
    loss = luce.losses.get("plackett_luce")
    step = 1e-4 * np.eye(7)
    hessian = [
        (loss.value_and_grad(scores + e, labels)[1] - loss.value_and_grad(scores - e, labels)[1]) / 2e-4 for e in step
    ]
    assert np.linalg.eigvalsh(np.array(hessian)).min() > -1e-8


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_approximations_are_their_formulas(ties):
    scores, labels = np.array([0.5, -0.2, 1.0, 0.3, -1.0]), np.array([2.0, 2, 1, 1, 0])
    phi = np.exp(scores)
    value = 0.0
    for inside, left in (([0, 1], slice(0, 5)), ([2, 3], slice(2, 5))):
        for stage in range(2):
            taken = stage / 2 * phi[inside].sum() if ties == "efron" else 0.0
            value += math.log(phi[left].sum() - taken)
        value -= scores[inside].sum()
    assert luce.losses.get("plackett_luce", ties=ties).value_and_grad(scores, labels)[0] == pytest.approx(value)


def test_broken_ties():
    scores = np.array([0.5, -0.2, 1.0, 0.3])
    labels = np.array([1.0, 0, 1, 0])
    stable = luce.losses.get("listmle", ties="stable")
    expected = -math.log(probability_of_order(scores, [0, 2, 1, 3]))
    assert stable.value_and_grad(scores, labels)[0] == pytest.approx(expected)
    drawn = {luce.losses.get("listmle", ties="random", seed=s).value_and_grad(scores, labels)[0] for s in range(20)}
    orders = [(a, b, c, d) for a, b in ((0, 2), (2, 0)) for c, d in ((1, 3), (3, 1))]
    possible = [-math.log(probability_of_order(scores, order)) for order in orders]
    assert len({round(value, 9) for value in drawn}) == 4
    assert all(min(abs(value - p) for p in possible) < 1e-9 for value in drawn)


def test_weights_of_tiers():
    """Each stage counts by the difference of gains; with one step between grades and base 2 that is 2^(y - 1)."""
    scores, labels = np.array([0.5, -0.2, 1.0, 0.3, -1.0]), np.array([2.0, 2, 1, 1, 0])
    loss = luce.losses.get("plackett_luce", tier_gain=2)
    plain = luce.losses.get("plackett_luce")
    whole = plain.value_and_grad(scores, labels)[0]
    second = plain.value_and_grad(scores[2:], labels[2:])[0]
    assert loss.value_and_grad(scores, labels)[0] == pytest.approx(2 * (whole - second) + second)
    with pytest.raises(SettingError, match="no probability; leave tier_gain out"):
        loss.log_prob(scores, labels)
    with pytest.raises(DataError, match="too high for gains"):
        loss.value_and_grad(scores, labels * 1e4)


def test_random_cuts_keep_all_documents():
    scores, labels, offsets = problem(3, sizes=(30, 9, 25))
    loss = luce.losses.get("plackett_luce", cut=12, seed=4)
    races = loss.prepare(labels, offsets)
    assert sorted(races.order.tolist()) == list(range(64))
    lengths = np.diff(races.starts[races.races])
    assert lengths.tolist() == [10, 10, 10, 9, 9, 8, 8]
    pieces = [races.order[races.starts[a] : races.starts[b]] for a, b in itertools.pairwise(races.races)]
    apart = [luce.losses.get("plackett_luce").value_and_grad(scores[p], labels[p]) for p in pieces]
    value, grad = loss.value_and_grad(scores, labels, offsets)
    assert value == pytest.approx(sum(v for v, _ in apart), rel=1e-12)
    for rows, (_, expected) in zip(pieces, apart, strict=True):
        np.testing.assert_allclose(grad[rows], expected, rtol=1e-12, atol=1e-14)
    assert loss.log_prob(scores[:30], labels[:30]) == luce.losses.get("listmle").log_prob(scores[:30], labels[:30])


@pytest.mark.parametrize("sizes", [[2, 1, 2], [1, 4], [3, 2]])
def test_tiers_of_given_sizes_sum_to_one_and_draws_follow(sizes):
    scores = np.array([0.8, -0.4, 0.1, -1.0, 0.5])
    loss = luce.losses.get("plackett_luce")
    grades = np.repeat(np.arange(len(sizes), 0.0, -1), sizes)
    outcomes = sorted(set(itertools.permutations(grades)))
    chances = np.exp([loss.log_prob(scores, np.array(o)) for o in outcomes])
    assert chances.sum() == pytest.approx(1, abs=1e-11)
    rng, draws = np.random.default_rng(0), 4000
    counts = dict.fromkeys(outcomes, 0)
    for _ in range(draws):
        counts[tuple(loss.sample(scores, rng, sizes=sizes))] += 1
    assert stats.chisquare([counts[o] for o in outcomes], draws * chances, sum_check=False).pvalue > 1e-3


def test_bad_sizes():
    for sizes in ([2, 2], [3, 0], [1.5, 1.5], [[3]]):
        with pytest.raises(SettingError, match="sum to the 3 documents"):
            luce.losses.get("plackett_luce").sample(np.zeros(3), np.random.default_rng(0), sizes=sizes)


def test_lists_are_races():
    """Tiers inside lists, several lists a query, top and open ones, weights."""
    scores = np.random.default_rng(5).normal(size=9)
    offsets = np.array([0, 5, 9])
    lists = Comparisons.from_orders([[3, [0, 1]], [[2, 4], 0], [7, 5]], top=[True, False, True], weights=[1, 2, 1])
    value, grad = luce.losses.get("plackett_luce").value_and_grad(scores, lists, offsets)
    expected = -np.log(by_orders(scores[:5], np.array([1.0, 1, 0, 2, 0])))
    expected -= 2 * np.log(by_orders(scores[[2, 4, 0]], np.array([1.0, 1, 0])))
    expected -= np.log(by_orders(scores[5:], np.array([1.0, 0, 2, 0])))
    assert value == pytest.approx(expected, rel=1e-11)
    step = 1e-5 * np.eye(9)
    loss = luce.losses.get("plackett_luce")
    numeric = [
        (loss.value_and_grad(scores + e, lists, offsets)[0] - loss.value_and_grad(scores - e, lists, offsets)[0]) / 2e-5
        for e in step
    ]
    np.testing.assert_allclose(grad, numeric, atol=1e-8)
    with pytest.raises(SettingError, match="is for grades"):
        luce.losses.get("plackett_luce", cut=3).value_and_grad(scores, lists, offsets)
    with pytest.raises(SettingError, match="lists with tiers take ties='exact'"):
        luce.losses.get("plackett_luce", ties="stable").value_and_grad(scores, lists, offsets)


def test_settings_make_the_loss_again():
    for settings in ({}, {"ties": "random", "seed": 3}, {"tier_gain": 2.0, "cut": 12}):
        loss = luce.losses.get("plackett_luce", **settings)
        assert repr(luce.losses.get("plackett_luce", **loss.settings)) == repr(loss)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ties": "mean"}, "exact, efron, breslow, random, stable"),
        ({"tier_gain": 1.0}, "a number above 1"),
        ({"tier_gain": "two"}, "a number above 1"),
        ({"tier_gain": np.nan}, "a number above 1"),
        ({"cut": 1}, "at least 2"),
        ({"cut": 2.5}, "at least 2"),
        ({"cut": "12"}, "at least 2"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings(settings, says):
    with pytest.raises(SettingError, match=says):
        luce.losses.get("plackett_luce", **settings)
