"""Examination that leans on its neighbours: nothing where there is no noise, and nearer to the truth where there is."""

from __future__ import annotations

import numpy as np
import pytest

from luce.clicks.choice import smoothed

K = np.arange(1.0, 11.0)
SHAPES = {
    "power": -np.log(K),
    "exponential": -0.3 * (K - 1),
    "fold": np.log([1, 0.9, 0.8, 0.5, 0.45, 0.4, 0.2, 0.18, 0.16, 0.1]),
}


def noise(size: float) -> np.ndarray:
    """Errors that grow down the list and go together, as those of the first position do in all others."""
    covariance = size**2 * (np.diag(np.linspace(0.5, 2.0, 10)) + 0.3)
    covariance[0] = covariance[:, 0] = 0.0
    return covariance


def test_it_is_the_posterior_mean_of_a_line_and_a_path() -> None:
    """By brute force: a Wiener process of many small steps, conditioned on noisy values of it."""
    x = np.log(K)
    covariance, z = noise(0.1), SHAPES["fold"]
    lean, left = smoothed(K, z, covariance)
    grid = np.linspace(0.0, x[-1], 4001)
    step = grid[1] - grid[0]
    paths = (x[1:, None] > grid[None, :]) * np.sqrt(step)
    path = paths @ paths.T
    weights, means, spreads = [], [], []
    for tau in np.linspace(0.0, 1.0, 401):
        prior = 100.0 * np.outer(x[1:], x[1:]) + tau**2 * path
        total = covariance[1:, 1:] + prior
        weights.append(np.exp(-0.5 * (np.linalg.slogdet(total)[1] + z[1:] @ np.linalg.solve(total, z[1:]))))
        means.append(prior @ np.linalg.solve(total, z[1:]))
        spreads.append(prior - prior @ np.linalg.solve(total, prior))
    weights = np.array(weights) / np.sum(weights)
    expected = weights @ np.array(means)
    np.testing.assert_allclose((lean @ z)[1:], expected, atol=2e-3)
    between = (np.array(means) - expected) * np.sqrt(weights)[:, None]
    variance = np.tensordot(weights, np.array(spreads), axes=1) + between.T @ between
    np.testing.assert_allclose(left[1:, 1:], variance, rtol=0.02, atol=1e-5)
    assert (lean @ z)[0] == 0.0


@pytest.mark.parametrize("shape", SHAPES)
def test_less_noise_and_intervals_that_hold(shape) -> None:
    rng, truth, covariance = np.random.default_rng(0), SHAPES[shape], noise(0.1)
    before, after, held = [], [], []
    for _ in range(200):
        z = truth + np.append(0.0, rng.multivariate_normal(np.zeros(9), covariance[1:, 1:]))
        lean, left = smoothed(K, z, covariance)
        error = (lean @ z - truth)[1:]
        before.append(np.mean((z - truth)[1:] ** 2))
        after.append(np.mean(error**2))
        np.testing.assert_allclose(left, left.T, atol=1e-12)
        held.append(np.mean(np.abs(error) < 1.96 * np.sqrt(np.diagonal(left)[1:])))
    assert np.mean(after) < {"power": 0.5, "exponential": 0.9, "fold": 1.05}[shape] * np.mean(before)
    assert np.mean(held) > 0.92


def test_without_noise_nothing_changes() -> None:
    for truth in SHAPES.values():
        np.testing.assert_allclose(smoothed(K, truth, noise(1e-5))[0] @ truth, truth, atol=1e-4)
