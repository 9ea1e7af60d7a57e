"""Monotone retargeting: targets against a quadratic program and scikit-learn, the algorithm against the loss."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.losses.retargeting import levels_of, nearest_targets

OFFSETS = np.array([0, 6, 7, 12])


def test_targets_are_the_nearest_in_order():
    """Against the program itself: min ||s - t||^2 with t_i >= t_j + margin (levels) where y_i > y_j."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        s, y = rng.normal(0, 2, 12), rng.choice([0, 2, 5], 12).astype(float)
        found = nearest_targets(s, levels_of(y, OFFSETS), 0.7)
        for a, b in pairwise(OFFSETS):
            part, grade = s[a:b], np.searchsorted(np.unique(y[a:b]), y[a:b])
            above = [(i, j) for i in range(b - a) for j in range(b - a) if grade[i] == grade[j] + 1]
            rules = [{"type": "ineq", "fun": lambda t, i=i, j=j: t[i] - t[j] - 0.7} for i, j in above]
            start = 3.0 * grade.astype(float)
            best = minimize(lambda t, part=part: np.sum((t - part) ** 2), start, constraints=rules, method="SLSQP",
                            options={"ftol": 1e-12, "maxiter": 500}).x  # fmt: skip
            np.testing.assert_allclose(found[a:b], best, atol=2e-5)


def test_distinct_grades_are_an_isotonic_regression():
    rng = np.random.default_rng(1)
    s, y = rng.normal(size=40), rng.permutation(40).astype(float)
    found = nearest_targets(s, levels_of(y, np.array([0, 40])), 0.1)
    by_peer = IsotonicRegression().fit_transform(y, s - 0.1 * y) + 0.1 * y
    np.testing.assert_allclose(found, by_peer, atol=1e-12)


def test_gradient_and_order_alone():
    rng = np.random.default_rng(2)
    loss = luce.losses.get("monotone_retargeting", margin=0.6)
    s, y = rng.normal(size=12), rng.integers(0, 3, 12).astype(float)
    value, grad = loss.value_and_grad(s, y, OFFSETS)
    for i, e in enumerate(np.eye(12)):
        ahead, behind = (loss.value_and_grad(s + h * e, y, OFFSETS)[0] for h in (1e-6, -1e-6))
        assert grad[i] == pytest.approx((ahead - behind) / 2e-6, abs=1e-6)
    assert loss.value_and_grad(s, np.expm1(3 * y), OFFSETS)[0] == pytest.approx(value)
    in_order = 0.6 * levels_of(y, OFFSETS).level + 1e-9
    assert loss.value_and_grad(in_order, y, OFFSETS)[0] == pytest.approx(0.0, abs=1e-25)


def test_taking_turns_minimises_the_loss():
    """Targets and weights in turn come to the minimum of the loss; penalties are a row there and a query here."""
    data = simulate(queries=30, features=4, seed=3)
    rows = data.n_rows / data.n_queries
    turns = luce.Ranker(trainer="retargeting", trainer__regressor="linear_regression", l2=0.01, max_iter=800, tol=1e-9)
    turns.fit(data)
    direct = luce.Ranker("monotone_retargeting", l2=0.01 * rows, tol=1e-14, max_iter=3000).fit(data)
    one, other = turns.predict(data), direct.predict(data)
    np.testing.assert_allclose(one - one.mean(), other - other.mean(), atol=2e-3)
    # Each turn lowers what it minimises, the distance with the penalty; with this little of it, the distance alone.
    assert turns.history_["objective"][-1] < turns.history_["objective"][0]


@pytest.mark.parametrize("regressor", ["linear_regression", "random_forest", "mart"])
def test_any_regression(regressor, tmp_path):
    data = simulate(queries=40, features=4, seed=4)
    train, valid = data.take(np.arange(25)), data.take(np.arange(25, 40))
    model = luce.Ranker(trainer="retargeting", trainer__regressor=regressor, max_iter=2, random_state=0)
    model.fit(train, valid=valid)
    history = model.history_
    assert luce.evaluate(model, valid, "ndcg@10").means["ndcg@10"] == pytest.approx(max(history["validation"]))
    model.save(tmp_path / "m.luce")
    np.testing.assert_array_equal(luce.load(tmp_path / "m.luce").predict(valid), model.predict(valid))


@pytest.mark.parametrize("scorer", ["linear", "trees", "mlp", "single_feature", "list_functions"])
def test_works_with_every_scorer(scorer):
    data = simulate(queries=40, features=4, seed=5)
    model = luce.Ranker("monotone_retargeting", scorer, max_iter=15, random_state=0).fit(data)
    chance = luce.evaluate(np.zeros(data.n_rows), data, "ndcg@10").means["ndcg@10"]
    assert luce.evaluate(model, data, "ndcg@10").means["ndcg@10"] > chance + 0.1


def test_mistakes():
    for settings, said in (({"regressor": "mlp"}, "regressor is 'mlp'"), ({"margin": 0}, "margin is 0")):
        with pytest.raises(SettingError, match=said):
            luce.Ranker(trainer="retargeting", **{f"trainer__{name}": value for name, value in settings.items()})
    with pytest.raises(SettingError, match="margin is -1"):
        luce.losses.get("monotone_retargeting", margin=-1)
