"""Conditional and joint choice together: against the slow form, and by how often what is left unknown is right."""

from __future__ import annotations

import numpy as np
import pytest

from luce.clicks.choice import combined

K = np.arange(1.0, 8.0)
X = np.log(K)[1:]
ASTRAY = np.minimum.outer(X, X)


def noise(seed: int, scale: float = 0.1) -> np.ndarray:
    """A covariance of both estimates, correlated, those of joint choice smaller; the first place is certain."""
    rng = np.random.default_rng(seed)
    n = len(K)
    mixed = rng.normal(size=(2 * n, 3 * n)) / np.sqrt(3 * n)
    root = np.repeat([scale, scale / 4], n)[:, None] * mixed
    root[[0, n]] = 0.0
    return root @ root.T


def slow(conditional, joint, covariance):
    """By dense inverses, sigma by sigma; without the first place."""
    n = len(K)
    one, two = np.arange(1, n), np.arange(n + 1, 2 * n)
    cc, jj, cj = covariance[np.ix_(one, one)], covariance[np.ix_(two, two)], covariance[np.ix_(one, two)]
    d, found = (joint - conditional)[1:], []
    for sigma in np.linspace(0, 1, 101):
        inverse = np.linalg.inv(cc + jj - cj - cj.T + sigma**2 * ASTRAY)
        likelihood = np.exp(-0.5 * d @ inverse @ d) * np.sqrt(np.linalg.det(inverse))
        gain = (cc - cj) @ inverse
        found.append((likelihood, gain, cc - gain @ (cc - cj).T))
    weight = np.array([part[0] for part in found]) / sum(part[0] for part in found)
    gain = sum(w * part[1] for w, part in zip(weight, found, strict=True))
    left = sum(
        w * (part[2] + np.outer((part[1] - gain) @ d, (part[1] - gain) @ d))
        for w, part in zip(weight, found, strict=True)
    )
    return gain, left


def test_is_the_slow_form():
    rng = np.random.default_rng(0)
    both = rng.normal(0, 0.1, (2, len(K)))
    both[:, 0] = 0.0
    gain, left = combined(K, *both, noise(1))
    expected = slow(*both, noise(1))
    np.testing.assert_allclose(gain[1:, 1:], expected[0], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(left[1:, 1:], expected[1], rtol=1e-7, atol=1e-12)
    for certain in (gain[0], gain[:, 0], left[0]):
        assert not certain.any()


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.5])
def test_what_is_left_unknown_is_as_large_as_errors_are(scale):
    """Bias drawn as the model has it: squared errors in units of the covariance have mean 1, place by place."""
    rng, squares = np.random.default_rng(2), []
    covariance = noise(3, scale)
    root, bias = np.linalg.cholesky(covariance + 1e-14 * np.eye(2 * len(K))), np.linalg.cholesky(ASTRAY)
    for _ in range(600):
        c, j = (root @ rng.normal(size=2 * len(K))).reshape(2, -1)
        c[0] = j[0] = 0.0
        j[1:] += rng.choice(np.linspace(0, 1, 101)) * bias @ rng.normal(size=len(X))
        gain, left = combined(K, c, j, covariance)
        squares.append((c + gain @ (j - c))[1:] ** 2 / np.diag(left)[1:])
    assert np.mean(squares) == pytest.approx(1.0, abs=0.15)


def test_joint_choice_that_is_far_astray_moves_nothing():
    covariance = noise(4, 0.002)
    astray = 0.5 * np.append(0.0, X)
    gain, left = combined(K, np.zeros(len(K)), astray, covariance)
    assert np.abs(gain @ astray).max() < 0.002
    np.testing.assert_allclose(left, covariance[: len(K), : len(K)], rtol=0.05, atol=1e-7)
