"""Order and size: the sum of its terms, what it learns of them, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import luce
from luce.errors import SettingError
from tests.conformance.cases import problem


def reference(order, weight, slope, noise, scores, sizes, labels, offsets):
    """Query after query, by the formula: residuals of a normal regression with a level of every query."""
    total = order.value_and_grad(scores, labels, offsets)[0]
    for a, b in pairwise(offsets):
        f, y = scores[a:b] - scores[a:b].mean(), sizes[a:b] - sizes[a:b].mean()
        total += weight * (((y - slope * f) ** 2).sum() / (2 * noise**2) + (b - a - 1) * np.log(noise))
    return total


@pytest.mark.parametrize(("tier_gain", "order"), [(None, "plackett_luce"), (2.0, "pmop"), (3.0, "plackett_luce")])
def test_value_is_the_sum_of_both_terms(tier_gain, order):
    scores, labels, offsets = problem(0)
    loss = luce.losses.get("order_and_size", order=order, weight=0.7, tier_gain=tier_gain, slope=None)
    loss = loss.with_parameters(np.log([1.7, 0.4]))
    fixed = luce.losses.get("order_and_size", order=order, weight=0.7 / 0.4**2, tier_gain=tier_gain, slope=1.7)
    own = luce.losses.get(order, **({} if tier_gain is None else {"tier_gain": tier_gain}))
    sizes = labels if tier_gain is None else tier_gain**labels - 1
    expected = reference(own, 0.7, 1.7, 0.4, scores, sizes, labels, offsets)
    assert loss.value_and_grad(scores, labels, offsets)[0] == pytest.approx(expected, rel=1e-12)
    without_noise = expected - 0.7 * (np.diff(offsets) - 1).sum() * np.log(0.4)
    assert fixed.value_and_grad(scores, labels, offsets)[0] == pytest.approx(without_noise, rel=1e-12)
    assert len(fixed.parameters) == len(own.parameters)


def test_weight_zero_is_the_order():
    scores, labels, offsets = problem(1)
    found = luce.losses.get("order_and_size", weight=0, slope=None).value_grad_curvature(scores, labels, offsets)
    alone = luce.losses.get("plackett_luce").value_grad_curvature(scores, labels, offsets)
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_curvature_of_the_sizes_is_exact():
    scores, labels, offsets = problem(2)
    both = luce.losses.get("order_and_size", weight=2.0).value_grad_curvature(scores, labels, offsets)[2]
    order = luce.losses.get("plackett_luce").value_grad_curvature(scores, labels, offsets)[2]
    counts = np.repeat(np.diff(offsets), np.diff(offsets))
    np.testing.assert_allclose(both - order, 2.0 * (1 - 1 / counts), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_slope_and_noise_are_learned(scorer):
    """At the scores that were found, slope and noise are those of a least-squares line through all queries."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(1200, 2)).astype(np.float32), np.repeat(np.arange(60), 20)
    y = 3.0 + 2.0 * X[:, 0] + 0.5 * rng.normal(size=1200) + np.repeat(rng.normal(size=60), 20)
    settings = {"l2": 1e-8, "tol": 1e-13, "max_iter": 2000} if scorer == "linear" else {"scorer__reestimate": 1}
    model = luce.Ranker(loss="order_and_size", loss__slope=None, scorer=scorer, random_state=0, **settings)
    model.fit(X, y, qid=qid)
    scores = model.predict(X)
    f, centred = (v - np.repeat(v.reshape(60, 20).mean(axis=1), 20) for v in (scores, y))
    slope = (f @ centred) / (f @ f)
    noise = np.sqrt(((centred - slope * f) ** 2).sum() / (1200 - 60))
    exact = 1e-3 if scorer == "linear" else 2e-2
    np.testing.assert_allclose(np.exp(model.loss_.parameters), [slope, noise], rtol=exact)
    if scorer == "linear":
        assert noise == pytest.approx(0.5, rel=0.1)


def test_chances_are_those_of_the_order(tmp_path):
    X, qid = np.random.default_rng(0).normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = np.clip(np.round(X[:, 0] + 1), 0, 3)
    for order in ("plackett_luce", "pmop"):
        learned = luce.Ranker(loss="order_and_size", loss__order=order, loss__slope=None, random_state=0)
        learned.fit(X, y, qid=qid).save(tmp_path / "m")
        model = luce.load(tmp_path / "m")
        assert (model.sizes_ is not None) == (order == "pmop")
        data = luce.from_arrays(X, y, qid=qid)
        before = model.pairs(data)[0].before
        f = model.predict(data)[:10]
        if order == "plackett_luce":
            expected = 1 / (1 + np.exp(f[None, :] - f[:, None]))
            np.fill_diagonal(expected, 0)
            np.testing.assert_allclose(before, expected, rtol=1e-9)
        assert len(model.loss_.parameters) == 2


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"order": "ranksvm"}, "name of a likelihood of lists"),
        ({"order": "pmop_gibbs"}, "gradient is exact"),
        ({"order": "order_and_size"}, "name of a likelihood of lists"),
        ({"order": "plackett"}, "Unknown loss 'plackett'"),
        ({"weight": -1}, "weight is -1; it must be a number of at least 0"),
        ({"order": "hom_gg", "tier_gain": 2}, "tier_gain"),
        ({"tier_gain": 1}, "tier_gain"),
        ({"slope": 0}, "slope is 0; it must be a number above 0"),
    ],
)
def test_refused(settings, why):
    with pytest.raises(SettingError, match=why):
        luce.losses.get("order_and_size", **settings)


def test_comparisons_are_refused():
    stated = luce.Comparisons.from_orders([[1, 0]], top=True)
    with pytest.raises(SettingError, match="'order_and_size' needs grades"):
        luce.losses.get("order_and_size").value_and_grad([0.0, 1.0], stated)
