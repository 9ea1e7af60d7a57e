"""The choice loss: derivatives, its limit in free scores, clicks beside grades, training on every scorer."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import luce
from luce.clicks import Clicks
from luce.errors import DataError, SettingError
from luce.losses.listwise import ClickChoice

OFFSETS = np.array([0, 4, 5, 9])


def target(seed: int = 0) -> Clicks:
    rng = np.random.default_rng(seed)
    exposure = rng.gamma(2.0, 5.0, 9)
    exposure[2] = 0.0
    return Clicks(np.where(exposure > 0, rng.poisson(exposure * 0.4), 0), exposure)


@pytest.mark.parametrize("temper", [0.0, 0.5, 1.0])
def test_gradient_and_curvature(temper):
    loss, clicks = ClickChoice(temper=temper), target()
    scores = np.random.default_rng(1).normal(size=9)
    value, grad, curvature = loss.value_grad_curvature(scores, clicks, OFFSETS)
    for i, e in enumerate(np.eye(9) * 1e-5):
        (up, g_up), (down, g_down) = (loss.value_and_grad(scores + s * e, clicks, OFFSETS) for s in (1, -1))
        assert (up - down) / 2e-5 == pytest.approx(grad[i], rel=1e-6, abs=1e-7)
        assert (g_up[i] - g_down[i]) / 2e-5 == pytest.approx(curvature[i], rel=1e-6, abs=1e-7)
    assert np.isfinite(value)
    assert grad[2] == curvature[2] == 0  # never shown: says nothing


@pytest.mark.parametrize("temper", [0.0, 0.3, 1.0])
def test_the_limit_in_free_scores_is_log_attraction(temper):
    exposure = np.array([3.0, 10.0, 1.0, 7.0])
    gamma = np.array([0.9, 0.2, 0.5, 0.7])
    loss = ClickChoice(temper=temper, prior=0.0)
    _, grad = loss.value_and_grad(np.log(gamma) + 3, Clicks(exposure * gamma, exposure))
    np.testing.assert_allclose(grad, 0, atol=1e-12)


def test_maximum_likelihood_is_a_multinomial():
    clicks = target()
    scores = np.random.default_rng(1).normal(size=9)
    value, _ = ClickChoice(temper=0.0, prior=0.0).value_and_grad(scores, clicks, OFFSETS)
    expected = 0.0
    for a, b in itertools.pairwise(OFFSETS):
        weight = clicks.exposure[a:b] * np.exp(scores[a:b])
        expected -= sum(c * np.log(w / weight.sum()) for c, w in zip(clicks.clicks[a:b], weight, strict=True) if c)
    # The multinomial holds log exposure of what was chosen as well, a constant in the scores.
    constant = sum(c * np.log(e) for c, e in zip(clicks.clicks, clicks.exposure, strict=True) if c)
    assert value == pytest.approx(expected + constant, rel=1e-12)


def test_bad_targets_and_settings():
    for clicks, exposure, message in (
        ([1.0, -1], [1.0, 1], "at least 0"),
        ([1.0], [1.0, 1], "one a row"),
        ([1.0, 1], [1.0, 0], "Row 1 was clicked and never looked at"),
        ([0.0, 0], [1.0, 1], "No row was clicked"),
        ([np.nan, 0], [1.0, 1], "finite"),
    ):
        with pytest.raises(DataError, match=message):
            Clicks(clicks, exposure)
    with pytest.raises(DataError, match="as many clicks"):
        ClickChoice().value_and_grad([0.0, 0, 0], Clicks([1.0, 0], [1.0, 1]))
    with pytest.raises(DataError, match="at least 0"):
        ClickChoice().value_and_grad([0.0, 0], [-1.0, 1])
    with pytest.raises(SettingError, match="cannot use comparisons"):
        ClickChoice().value_and_grad([0.0, 0], luce.Comparisons.from_pairs(wins=[(0, 1)]))
    for options in ({"temper": 1.5}, {"prior": -1}):
        with pytest.raises(SettingError, match=next(iter(options))):
            ClickChoice(**options)


@pytest.fixture(scope="module")
def clicked() -> tuple[luce.Groups, Clicks]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    gamma = np.exp(X @ [1.0, -0.5, 0.0] - 3)
    exposure = rng.gamma(1.0, 60.0, 400)
    data = luce.from_arrays(X, gamma > np.median(gamma), qid=np.repeat(range(40), 10))
    return data, Clicks(rng.poisson(exposure * gamma), exposure)


@pytest.mark.parametrize("scorer", ["linear", "trees", "mlp"])
def test_any_scorer_learns_attraction(clicked, scorer):
    data, clicks = clicked
    blank = replace(data, y=np.zeros(data.n_rows))
    model = luce.Ranker(loss="click_choice", scorer=scorer, max_iter=30, random_state=0).fit(blank, clicks=clicks)
    assert luce.evaluate(model, data, ["ndcg@10"]).means["ndcg@10"] > 0.9
    assert model.loss_.name == "click_choice"


def test_linear_weights_are_those_of_the_truth(clicked):
    data, clicks = clicked
    blank = replace(data, y=np.zeros(data.n_rows))
    model = luce.Ranker(loss="click_choice", l2=0.0, max_iter=200, tol=1e-9).fit(blank, clicks=clicks)
    np.testing.assert_allclose(model.scorer_.weights, [1.0, -0.5, 0.0], atol=0.1)


def test_clicks_are_joined_with_grades_by_weight(clicked):
    data, clicks = clicked

    def weights(**options) -> np.ndarray:
        return luce.Ranker(loss="ranknet", max_iter=200, tol=1e-9).fit(data, **options).scorer_.weights

    alone = weights()
    light = weights(clicks=clicks, clicks_weight=1e-6)
    np.testing.assert_allclose(light, alone, rtol=1e-3, atol=1e-3)
    assert np.abs(weights(clicks=clicks, clicks_weight=100.0) - alone).max() > 0.1


def test_rows_in_any_order(clicked):
    data, clicks = clicked
    mixed = np.random.default_rng(1).permutation(data.n_rows)
    moved = Clicks(clicks.clicks[mixed], clicks.exposure[mixed])
    options = {"loss": "click_choice", "max_iter": 50}
    one = luce.Ranker(**options).fit(data.X, np.zeros(data.n_rows), qid=data.qid, clicks=clicks)
    other = luce.Ranker(**options).fit(data.X[mixed], np.zeros(data.n_rows), qid=data.qid[mixed], clicks=moved)
    np.testing.assert_allclose(one.predict(data), other.predict(data), rtol=1e-4, atol=1e-4)


def test_what_fit_refuses(clicked):
    data, clicks = clicked
    with pytest.raises(SettingError, match="clicks_weight is 0"):
        luce.Ranker(loss="click_choice").fit(data, clicks=clicks, clicks_weight=0)
    with pytest.raises(SettingError, match="'pmop' learns from grades"):
        luce.Ranker(loss="pmop").fit(replace(data, y=np.zeros(data.n_rows)), clicks=clicks)
    with pytest.raises(DataError, match="the clicks 2"):
        luce.Ranker(loss="click_choice").fit(data, clicks=Clicks([1.0, 0], [1.0, 1]))
    with pytest.raises(SettingError, match="both given"):
        luce.Ranker(loss="ranknet").fit(data, clicks=clicks, comparisons=luce.Comparisons.from_pairs(wins=[(0, 1)]))
