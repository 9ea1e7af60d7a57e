"""A link given by the user: as good as the built-in ones, and checked when it is given."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import luce
from luce.data.simulate import simulate
from luce.losses.pairwise import Paired


def hyperbolic_secant(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log F of F(x) = 2/pi arctan(e^{pi x / 2}) and its slope, in a form that does not underflow."""
    e = np.exp(-np.abs(x) * np.pi / 2)
    small = np.log(2 / np.pi) - np.abs(x) * np.pi / 2 + np.log(np.arctan(e) / np.maximum(e, 1e-300))
    tail = np.where(e > 1e-8, small, np.log(2 / np.pi) - np.abs(x) * np.pi / 2)
    log_cdf = np.where(x > 0, np.log1p(-2 / np.pi * np.arctan(e)), tail)
    log_density = -np.abs(x) * np.pi / 2 - np.log1p(np.exp(-np.abs(x) * np.pi))
    return log_cdf, np.exp(log_density - log_cdf)


def logistic(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return -np.logaddexp(0, -x), special.expit(-x)


def test_logistic_is_bradley_terry():
    rng = np.random.default_rng(0)
    offsets = [0, 3, 40, 400]
    scores, labels = rng.normal(0, 3, 400), rng.integers(0, 4, 400)
    for options in ({"epsilon": 0.7}, {"ties": False}):
        ours = luce.losses.get("paired", link=logistic, **options).value_grad_curvature(scores, labels, offsets)
        theirs = luce.losses.get("bradley_terry", **options).value_grad_curvature(scores, labels, offsets)
        assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
        assert np.linalg.norm(ours[1] - theirs[1]) <= 1e-8 * np.linalg.norm(theirs[1])
        assert np.linalg.norm(ours[2] - theirs[2]) <= 1e-7 * np.linalg.norm(theirs[2])  # second derivative is numeric


def test_a_link_that_luce_does_not_have():
    loss = luce.losses.get("paired", link=hyperbolic_secant, epsilon=0.5)
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
    assert loss.pair_probability(1.3).item() == pytest.approx(cdf(0.8), rel=1e-12)
    assert loss.tie_probability(1.3).item() == pytest.approx(cdf(1.8) - cdf(0.8), rel=1e-12)
    h = 1e-5
    for k in range(0, 60, 7):
        step = h * np.eye(60)[k]
        numeric = (loss.value_and_grad(scores + step, labels)[0] - loss.value_and_grad(scores - step, labels)[0]) / (
            2 * h
        )
        assert grad[k] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_a_cdf_that_underflows_is_named():
    def normal(x):
        return np.log(special.ndtr(x)), np.exp(-x * x / 2) / np.sqrt(2 * np.pi) / special.ndtr(x)

    scores, labels = np.array([0.3, -0.5, 1.2, 0.0]), np.array([2, 1, 1, 0])
    ours = luce.losses.get("paired", link=normal, epsilon=0.4).value_and_grad(scores, labels)
    theirs = luce.losses.get("thurstone_mosteller", epsilon=0.4).value_and_grad(scores, labels)
    assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-8)
    with pytest.raises(luce.errors.SettingError, match="not finite"), np.errstate(divide="ignore", invalid="ignore"):
        luce.losses.get("paired", link=normal, epsilon=0.4).value_and_grad(100 * scores, labels)


def test_a_loss_of_ones_own_keeps_a_link_in_a_model_file(tmp_path, monkeypatch):
    data = simulate(queries=20, features=4, seed=0)
    model = luce.Ranker("paired", loss__link=logistic, max_iter=3).fit(data)
    with pytest.raises(luce.errors.SettingError, match="link holds an object"):
        model.save(tmp_path / "m.luce")

    class Secant(Paired):
        name = "secant"

        def __init__(self, epsilon: float | None = None) -> None:
            super().__init__(hyperbolic_secant, epsilon=epsilon)

        @property
        def settings(self):
            return {"epsilon": super().settings.get("epsilon")}

    for table in ("_table", "_spelling"):
        monkeypatch.setattr(luce.losses.registry, table, dict(getattr(luce.losses.registry, table)))
    luce.losses.register(Secant)
    model = luce.Ranker("secant", max_iter=3).fit(data)
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(data), model.predict(data))


def test_a_link_is_checked():
    def bad(function, said):
        with pytest.raises(luce.errors.SettingError, match=said):
            luce.losses.get("paired", link=function)

    bad(lambda x: (-np.exp(-x), np.exp(-x)), "not symmetric")
    bad(lambda x: (logistic(x)[0], special.expit(x)), "derivative")
    bad(lambda x: (-0.5, x), "arrays")
    bad(lambda x: (logistic(x)[0],), "arrays")
    bad(
        lambda x: (
            np.where(x < 0, x - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(x)))),
            np.where(x < 0, 1.0, 0.5 * np.exp(-np.abs(x)) / (1 - 0.5 * np.exp(-np.abs(x)))),
        ),
        "panels",
    )
