"""A link given by the user: as good as the built-in ones, and checked when it is given."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import special

import luce
from luce.losses import SymmetricCdf, symmetric_cdf


def hyperbolic_secant(x: np.ndarray) -> np.ndarray:
    """Log F of F(x) = 2/pi arctan(e^{pi x / 2}), in a form that does not underflow."""
    e = np.exp(-np.abs(x) * np.pi / 2)
    small = np.log(2 / np.pi) - np.abs(x) * np.pi / 2 + np.log(np.arctan(e) / np.maximum(e, 1e-300))
    tail = np.where(e > 1e-8, small, np.log(2 / np.pi) - np.abs(x) * np.pi / 2)
    return np.where(x > 0, np.log1p(-2 / np.pi * np.arctan(e)), tail)


def hyperbolic_secant_slope(x: np.ndarray) -> np.ndarray:
    log_density = -np.abs(x) * np.pi / 2 - np.log1p(np.exp(-np.abs(x) * np.pi))
    return np.exp(log_density - hyperbolic_secant(x))


def test_logistic_is_bradley_terry():
    rng = np.random.default_rng(0)
    link = SymmetricCdf("mine", lambda x: -np.logaddexp(0, -x), lambda x: special.expit(-x))
    offsets = [0, 3, 40, 400]
    scores, labels = rng.normal(0, 3, 400), rng.integers(0, 4, 400)
    for options in ({"epsilon": 0.7}, {"ties": False}):
        ours = luce.losses.get("paired", link=link, **options).value_grad_curvature(scores, labels, offsets)
        theirs = luce.losses.get("bradley_terry", **options).value_grad_curvature(scores, labels, offsets)
        assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
        assert np.linalg.norm(ours[1] - theirs[1]) <= 1e-8 * np.linalg.norm(theirs[1])
        assert np.linalg.norm(ours[2] - theirs[2]) <= 1e-7 * np.linalg.norm(theirs[2])  # second derivative is numeric


def test_a_link_that_luce_does_not_have():
    link = SymmetricCdf("hyperbolic secant", hyperbolic_secant, hyperbolic_secant_slope, panel_width=2.0)
    loss = luce.losses.get("paired", link=link, epsilon=0.5)
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(0, 2, 60), rng.integers(0, 3, 60)
    value, grad = loss.value_and_grad(scores, labels)

    def cdf(x: float) -> float:
        return 2 / np.pi * np.arctan(np.exp(np.pi * x / 2))

    expected = 0.0
    for i in range(60):
        for j in range(60):
            d = scores[i] - scores[j]
            if labels[i] > labels[j]:
                expected -= np.log(cdf(d - 0.5))
            elif labels[i] == labels[j] and i < j:
                expected -= np.log(cdf(-abs(d) + 0.5) - cdf(-abs(d) - 0.5))
    assert value == pytest.approx(expected, rel=1e-9)
    h = 1e-5
    for k in range(0, 60, 7):
        step = h * np.eye(60)[k]
        numeric = (loss.value_and_grad(scores + step, labels)[0] - loss.value_and_grad(scores - step, labels)[0]) / (
            2 * h
        )
        assert grad[k] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_a_cdf_and_its_density_will_do():
    link = SymmetricCdf.from_cdf("normal", special.ndtr, lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi))
    scores, labels = np.array([0.3, -0.5, 1.2, 0.0]), np.array([2, 1, 1, 0])
    ours = luce.losses.get("paired", link=link, epsilon=0.4).value_and_grad(scores, labels)
    theirs = luce.losses.get("thurstone_mosteller", epsilon=0.4).value_and_grad(scores, labels)
    assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-8)
    with pytest.raises(luce.errors.SettingError, match="not finite"), np.errstate(divide="ignore", invalid="ignore"):
        luce.losses.get("paired", link=link, epsilon=0.4).value_and_grad(100 * scores, labels)


def test_a_link_of_ones_own_by_name(monkeypatch):
    monkeypatch.setattr(symmetric_cdf, "_KNOWN", copy.deepcopy(symmetric_cdf._KNOWN))
    link = SymmetricCdf("My-Link", lambda x: -np.logaddexp(0, -x), lambda x: special.expit(-x))
    with pytest.raises(luce.errors.UnknownNameError, match="register"):
        luce.losses.get("paired", link="my_link")
    loss = luce.losses.get("paired", link=link.register())
    again = luce.losses.get(loss.name, **loss.settings)
    assert again.link is link
    with pytest.raises(luce.errors.SettingError, match="another name"):
        SymmetricCdf("Normal", link.log_cdf, link.d_log_cdf).register()


def test_a_link_is_checked():
    with pytest.raises(luce.errors.SettingError, match="not symmetric"):
        SymmetricCdf("gumbel", lambda x: -np.exp(-x), lambda x: np.exp(-x))
    with pytest.raises(luce.errors.SettingError, match="derivative"):
        SymmetricCdf("wrong", lambda x: -np.logaddexp(0, -x), special.expit)
    with pytest.raises(luce.errors.SettingError, match="panel_width"):
        SymmetricCdf(
            "laplace",
            lambda x: np.where(x < 0, x - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(x)))),
            lambda x: np.where(x < 0, 1.0, 0.5 * np.exp(-np.abs(x)) / (1 - 0.5 * np.exp(-np.abs(x)))),
        )
    with pytest.raises(luce.errors.SettingError, match="arrays"):
        SymmetricCdf("scalar", lambda x: -0.5, lambda x: x)
