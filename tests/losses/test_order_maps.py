"""Order-preserving maps in the losses consistent with NDCG: their Jacobians, gradients and minimisers."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

import luce
from luce.data.simulate import simulate
from luce.errors import SettingError
from luce.losses.order_maps import map_of

MAPS = ["arcsinh", "softplus", "stretch"]
OFFSETS = np.array([0, 4, 5, 11])


def jacobian(link, s: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    h = 1e-6
    columns = [(link.values(s + h * e, offsets) - link.values(s - h * e, offsets)) / (2 * h) for e in np.eye(len(s))]
    return np.array(columns).T


@pytest.mark.parametrize("name", MAPS)
def test_jacobian_against_differences(name):
    rng, link = np.random.default_rng(0), map_of(name)
    s, v, c = rng.normal(0, 2, 11), rng.normal(size=11), rng.random(11)
    J = jacobian(link, s, OFFSETS)
    np.testing.assert_allclose(link.pulled(s, OFFSETS, v), J.T @ v, atol=1e-7)
    h = 1e-4
    bend = [(jacobian(link, s + h * e, OFFSETS) - jacobian(link, s - h * e, OFFSETS))[:, j] @ v / (2 * h)
            for j, e in enumerate(np.eye(11))]  # fmt: skip
    expected = np.einsum("ij,i,ij->j", J, c, J) + np.maximum(bend, 0.0)
    np.testing.assert_allclose(link.bent(s, OFFSETS, v, c), expected, atol=1e-5)
    for a, b in itertools.pairwise(OFFSETS):
        assert np.argsort(link.values(s, OFFSETS)[a:b]).tolist() == np.argsort(s[a:b]).tolist()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("loss", ["ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm", "ndcg_mix"])
def test_gradient_is_pulled_back(name, loss):
    """Eq. 3.10: value by differences, gradient as J' (grad psi*(g(s)) - r~)."""
    rng = np.random.default_rng(1)
    settings = {"beta": 1.0} if loss in ("ndcg_cross_entropy", "ndcg_mix") else {}
    linked, plain = (luce.losses.get(loss, offset=-0.3, link=link, **settings) for link in (name, None))
    s, y = rng.normal(0, 1, 11), rng.integers(0, 3, 11).astype(float)
    link = map_of(name)
    value, grad = linked.value_and_grad(s, y, OFFSETS)
    inside, slopes = plain.value_and_grad(link.values(s, OFFSETS), y, OFFSETS)
    assert value == pytest.approx(inside)
    np.testing.assert_allclose(grad, jacobian(link, s, OFFSETS).T @ slopes, atol=1e-6)
    for i in range(11):
        step = 1e-6 * np.eye(11)[i]
        numeric = (
            linked.value_and_grad(s + step, y, OFFSETS)[0] - linked.value_and_grad(s - step, y, OFFSETS)[0]
        ) / 2e-6
        assert grad[i] == pytest.approx(numeric, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", MAPS)
def test_learned_offset_is_added_after_the_map(name):
    rng = np.random.default_rng(2)
    s, y = rng.normal(size=11), rng.integers(0, 3, 11).astype(float)
    loss = luce.losses.get("ndcg_square", link=name).with_parameters(np.array([0.4]))
    slope = loss.value_and_grads(s, y, OFFSETS)[2]
    ahead, behind = (loss.with_parameters(np.array([0.4 + h])).value_and_grad(s, y, OFFSETS)[0] for h in (1e-6, -1e-6))
    assert slope[0] == pytest.approx((ahead - behind) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("name", ["arcsinh", "stretch"])
def test_minimisers_stay_consistent(name):
    """Maps onto all scores move the minimiser and not its order, which is that of the largest expected NDCG."""
    rng = np.random.default_rng(3)
    loss = luce.losses.get("ndcg_square", offset=0.0, link=name)
    weights = 1.0 / np.log2(np.arange(2, 6))
    for _ in range(25):
        labels, p = rng.integers(0, 3, (3, 4)).astype(float), rng.dirichlet(np.ones(3))
        targets = np.array([loss.prepare(y, np.array([0, 4])).target for y in labels])

        def risk(s, labels=labels, p=p):
            found = [loss.value_and_grad(s, y) for y in labels]
            return sum(w * f[0] for w, f in zip(p, found, strict=True)), sum(
                w * f[1] for w, f in zip(p, found, strict=True)
            )

        best = minimize(risk, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10}).x
        expected = p @ targets
        attained = expected[np.argsort(-best)] @ weights
        assert attained == pytest.approx(np.sort(expected)[::-1] @ weights, abs=1e-6)


def test_trains_saves_and_travels(tmp_path):
    data = simulate(queries=30, features=5, seed=0)
    for scorer in ("linear", "single_feature", "trees"):
        model = luce.Ranker("ndcg_square", scorer, loss__link="stretch", max_iter=5, random_state=0).fit(data)
        model.save(tmp_path / "m.luce")
        again = luce.load(tmp_path / "m.luce")
        assert again.loss_.settings["link"] == "stretch"
        np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert pickle.loads(pickle.dumps(model.loss_)).settings["link"] == "stretch"


def test_own_maps():
    def cube(s):
        return s + s**3, 1 + 3 * s**2

    loss = luce.losses.get("ndcg_square", link=cube)
    assert loss.settings["link"] is cube
    assert loss.value_and_grad([0.0, 0.0], [1, 0])[1].tolist() == [-1.0, 0.0]
    assert luce.losses.get("ndcg_square", link=loss.link).link is loss.link
    for function, said in (
        (lambda s: (-s, -np.ones_like(s)), "does not rise"),
        (lambda s: (s, 2 * np.ones_like(s)), "not the derivative"),
        (lambda s: (s[:3], s), "gives shape"),
        (lambda s: (np.log(np.maximum(s, 0.0)), s), "not finite"),
    ):
        with pytest.raises(SettingError, match=said), np.errstate(all="ignore"):
            luce.losses.get("ndcg_square", link=function)
    with pytest.raises(SettingError, match="link is 3"):
        luce.losses.get("ndcg_square", link=3)
    with pytest.raises(luce.errors.UnknownNameError, match="order-preserving map"):
        luce.losses.get("ndcg_square", link="sine")


@pytest.mark.parametrize("settings", [{}, {"offset": 0.0}, {"offset": -0.2, "k": 3}])
@pytest.mark.parametrize("mixed", [False, True])
def test_closed_form_of_the_square(settings, mixed):
    data = simulate(queries=40, features=6, seed=1)
    weight = np.random.default_rng(0).random(40)
    name = "ndcg_mix" if mixed else "ndcg_square"
    loss = luce.losses.get(name, **settings, **({"alpha": (0, 2.5, 0)} if mixed else {}))
    exact = luce.Ranker(loss, trainer="closed_form", l2=0.05).fit(data, query_weight=weight)
    searched = luce.Ranker(loss, l2=0.05, tol=1e-13, max_iter=2000).fit(data, query_weight=weight)
    np.testing.assert_allclose(exact.predict(data), searched.predict(data), atol=2e-5)
    assert exact.loss_.offset == pytest.approx(searched.loss_.offset, abs=1e-5)
    assert exact.history_["objective"][-1] == pytest.approx(searched.history_["objective"][-1], abs=1e-9)
    assert exact.history_["objective"][-1] <= searched.history_["objective"][-1] + 1e-12


def test_what_has_no_closed_form_is_refused():
    for loss, scorer in (("listnet", "linear"), ("ndcg_square", "mlp"), ("ndcg_mix", "linear")):
        with pytest.raises(SettingError, match="closed_form"):
            luce.Ranker(loss, scorer, trainer="closed_form").parts()
    with pytest.raises(SettingError, match=r"without\s+a link"):
        luce.Ranker("ndcg_square", trainer="closed_form", loss__link="stretch").parts()
    data = simulate(queries=5, features=3, seed=0)
    with pytest.raises(SettingError, match="stands alone"):
        luce.Ranker("ndcg_square", trainer="closed_form").fit(data, base_scores=np.zeros(data.n_rows))
