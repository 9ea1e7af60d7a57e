"""Emission times that are not known exactly, against formulas, quadrature and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from reference import likelihood, posteriors
from scipy.stats import multivariate_normal, norm

from luce.errors import SettingError
from luce.track import Sources, best_labels, follow, label_posteriors, log_likelihood, min_messages, tune
from luce.track.reception import Reception
from luce.track.simulated_worlds import draw_arrivals, draw_signals

SOURCES = np.array([[0.1, 0.9], [0.8, 0.7], [0.6, 0.1], [0.2, 0.3]])
HEARD = {"sigma": 0.03, "detection": 0.7, "clutter_rate": 1.0, "window": (-1.0, 3.0)}


def shifted(of, sd):
    """The integral over shifts of a number or an array, by Gauss's rule on 24 pieces."""
    nodes, weight = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(-6 * sd, 6 * sd, 25)
    half = 0.5 * (edges[1] - edges[0])
    at = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).reshape(-1)
    return sum(w * of(e) for w, e in zip(half * np.tile(weight, 24) * norm.pdf(at, 0, sd), at, strict=True))


def test_one_signal_has_the_variance_of_both():
    """p(T | X) = N(T; |X - b|, sigma^2 + s^2) for one source that is always heard."""
    times, sd = 0.9, 0.2
    ours = log_likelihood([times], [[0.0, 0.0], [0.5, 0.5]], [[0.6, 0.8]], sigma=0.05, emission_sd=sd)
    expected = norm.logpdf(times, [1.0, np.hypot(0.1, 0.3)], np.hypot(0.05, sd))
    np.testing.assert_allclose(ours, expected, atol=1e-8)


def test_labelled_signals_are_jointly_normal():
    """With labels: N(T; travel, sigma^2 I + s^2 11'), each heard with P_D."""
    x, sd, sigma = np.array([0.4, 0.5]), 0.3, 0.03
    travel = np.linalg.norm(SOURCES[:3] - x, axis=1)
    order = np.argsort(travel)
    times = travel[order] + 0.25 + 0.02 * np.array([-1.0, 0.5, 1.0])
    labels = [f"{i + 1}" for i in order]
    ours = log_likelihood(
        times, x, SOURCES[:3], engine="labelled", labels=labels, sigma=sigma, detection=0.7, emission_sd=sd
    )
    covariance = sigma**2 * np.eye(3) + sd**2
    expected = multivariate_normal.logpdf(times, travel[order], covariance) + 3 * np.log(0.7)
    assert ours[0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("room", [{"r": 3}, {"r": 6}, {"r": 3, "early": "lost"}], ids=["full", "room", "early-lost"])
def test_the_sum_over_shifts_is_the_integral_of_enumerated_matchings(n, room):
    rng = np.random.default_rng(n)
    x, sd = rng.random(2), 0.08
    times, settings = np.sort(rng.uniform(0.2, 1.0, n)), HEARD | room
    ours = log_likelihood(times, x, SOURCES, engine="exact", emission_sd=sd, **settings)[0]
    value = shifted(lambda e: likelihood(times, x, SOURCES, offsets=np.full(4, e), **settings), sd)
    assert ours == pytest.approx(np.log(value), abs=1e-6)


def test_labels_are_averaged_over_shifts():
    rng = np.random.default_rng(5)
    x, sd, times = rng.random(2), 0.08, np.array([0.35, 0.6])
    ours = label_posteriors(times, x, SOURCES, engine="exact", emission_sd=sd, r=3, **HEARD)[0]
    total = shifted(lambda e: likelihood(times, x, SOURCES, offsets=np.full(4, e), r=3, **HEARD), sd)

    def part(e):
        given = {"offsets": np.full(4, e), "r": 3, **HEARD}
        return likelihood(times, x, SOURCES, **given) * posteriors(times, x, SOURCES, **given)

    np.testing.assert_allclose(ours, shifted(part, sd) / total, atol=1e-6)
    np.testing.assert_allclose(ours.sum(axis=1), 1.0, atol=1e-12)


def test_shifts_are_drawn_once_a_step():
    """Arrivals of one step have the covariance sigma^2 I + s^2 11'."""
    reception = Reception(0.03, emission_sd=0.2, window=(-9.0, 9.0), early="lost", r=4)
    rng, sources = np.random.default_rng(0), Sources(SOURCES)
    drawn = []
    for _ in range(2000):
        times, labels = draw_arrivals([0.5, 0.5], sources, reception, rng)
        drawn.append(times[np.argsort(labels)])
    covariance = np.cov(np.array(drawn).T)
    # A covariance of n draws has a standard error of about sqrt(2 / n) of the variances.
    np.testing.assert_allclose(covariance, 0.03**2 * np.eye(4) + 0.2**2, atol=4 * np.sqrt(2 / 2000) * 0.2**2)


@pytest.fixture(scope="module")
def drifting():
    rng = np.random.default_rng(3)
    sources = Sources(np.random.default_rng(1).random((8, 2)), np.full(8, 2.0))
    path = np.clip(0.5 + np.cumsum(0.03 * rng.standard_normal((15, 2)), axis=0), 0.05, 0.95)
    settings = {"sigma": 0.02, "detection": 0.8, "clutter_rate": 0.5, "window": (0.0, 5.0), "r": 5}
    signals = draw_signals(path, sources, Reception(**settings, emission_sd=0.1), rng)
    common = {"start": [0.5, 0.5], "dynamics": 0.04, "particles": 300, "trajectories": 100, "check": False}
    return signals, sources, path, settings | common


def test_a_target_is_followed_whose_emission_times_are_shifted(drifting):
    signals, sources, path, settings = drifting
    known = follow(signals, sources, **settings)
    summed = follow(signals, sources, emission_sd=0.1, **settings)
    assert np.median(summed.errors(path)) < 0.5 * np.median(known.errors(path))
    assert summed.agreement() > known.agreement()
    assert summed.log_likelihood > known.log_likelihood + 10


def test_the_size_of_the_shift_is_found_by_marginal_likelihood(drifting):
    signals, sources, _, settings = drifting
    given = {name: value for name, value in settings.items() if name not in ("trajectories", "check", "particles")}
    found = tune(signals, sources, {"emission_sd": [0.0, 0.02, 0.1]}, particles=100, **given)
    assert found.best["emission_sd"] == 0.1


@pytest.mark.parametrize("wrong", [-1.0, np.inf, np.nan, "1", None])
def test_a_shift_that_is_no_size_is_refused(wrong):
    with pytest.raises(SettingError, match="emission_sd is"):
        log_likelihood([1.0], [0.0, 0.0], SOURCES, sigma=0.1, emission_sd=wrong)


def test_a_shift_far_wider_than_the_noise_is_refused():
    with pytest.raises(SettingError, match="shifts would be tried"):
        log_likelihood([1.0], [0.0, 0.0], SOURCES, sigma=1e-6, emission_sd=1.0)


@pytest.mark.parametrize("ask", [best_labels, min_messages])
def test_what_has_one_answer_for_each_shift_is_refused(ask):
    with pytest.raises(SettingError, match="needs known emission times"):
        ask([1.0], [0.0, 0.0], SOURCES, sigma=0.1, emission_sd=0.1)
