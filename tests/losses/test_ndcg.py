"""Losses consistent with NDCG: targets by enumeration, conjugates by maximisation, consistency on distributions."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, SettingError
from luce.losses.conjugate import Brackets
from luce.losses.gains import DISCOUNTS, GainRule

MIXTURES = [(30.0, 0.2, 1.0), (1.0, 1.0, 1.0), (0.0, 1.0, 0.5), (50.0, 1.0, 0.0), (50.0, 0.0, 1.0)]
NO_GRADES = {"empty": "keep", "offset": 0.0}
"""With grades that are all 0 the target is 0 and the value is psi* alone."""


def psi(name: str, x: np.ndarray, beta: float = 0.01, q: float | None = None, alpha=(1.0, 1.0, 1.0)) -> float:
    q = np.log(len(x)) + 2 if q is None else q
    safe = np.maximum(x, 1e-300)
    parts = {
        "ndcg_cross_entropy": beta * np.sum(x * np.log(safe) - x),
        "ndcg_square": np.sum(x**2),
        "ndcg_qnorm": np.sum(np.abs(x) ** q) ** (2 / q),
    }
    return float(np.dot(alpha, list(parts.values()))) if name == "ndcg_mix" else float(parts[name])


def by_maximising(name: str, s: np.ndarray, positive: bool, **settings) -> float:
    """Supremum over x of <x, s> - psi(x), from several starts."""
    best = -np.inf
    for start in (0.1, 1.0, 3.0):
        begin = np.full(len(s), np.log(start)) if positive else start * np.sign(s)

        def goal(z):
            x = np.exp(z) if positive else z
            return psi(name, x, **settings) - x @ s

        found = minimize(goal, begin, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000})
        best = max(best, -found.fun)
    return best


@pytest.mark.parametrize(
    ("name", "settings", "positive"),
    [
        ("ndcg_cross_entropy", {"beta": 0.5}, True),
        ("ndcg_square", {}, False),
        ("ndcg_qnorm", {}, False),
        ("ndcg_qnorm", {"q": 3.0}, False),
        *(("ndcg_mix", {"alpha": alpha}, alpha[0] > 0) for alpha in MIXTURES),
    ],
)
def test_conjugate_is_the_supremum(name, settings, positive):
    s = np.random.default_rng(3).normal(0, 0.8, 6)
    value, _ = luce.losses.get(name, **settings, **NO_GRADES).value_and_grad(s, np.zeros(6))
    assert value == pytest.approx(by_maximising(name, s, positive, **settings), rel=1e-6)


@pytest.mark.parametrize("alpha", MIXTURES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_mixture_solves_its_equation(alpha, scale):
    s = np.random.default_rng(0).normal(0, scale, 40)
    _, x = luce.losses.get("ndcg_mix", alpha=alpha, **NO_GRADES).value_and_grad(s, np.zeros(40))
    q = np.log(40) + 2
    norm = np.sum(np.abs(x) ** q) ** (1 / q)
    slope = 2 * alpha[1] * x + 2 * alpha[2] * norm ** (2 - q) * np.sign(x) * np.abs(x) ** (q - 1)
    shown = x > 1e-200  # where x underflows, its logarithm is lost
    if alpha[0] > 0:
        assert (x >= 0).all()
        slope = slope[shown] + alpha[0] * 0.01 * np.log(x[shown])
        s = s[shown]
    np.testing.assert_allclose(slope, s, atol=1e-9 * scale + 1e-10)


@pytest.mark.parametrize("alpha", [*MIXTURES, (1.0, 0.0, 1.0), (1e-4, 1.0, 1.0), (0.0, 1.0, 20.0), (500.0, 1.0, 1.0)])
@pytest.mark.parametrize("scale", [1e-6, 0.05, 3.0, 1e4])
def test_both_ways_to_the_root_agree(alpha, scale):
    """Queries of many sizes, all scores alike, zeros, and none above 0: by Newton's method and by brackets."""
    rng = np.random.default_rng(5)
    sizes = [1, 2, 5, 8, 9, 40, 300, 700, 3, 4, 6]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores, labels = rng.normal(0, scale, offsets[-1]), rng.integers(0, 3, offsets[-1])
    scores[offsets[2] : offsets[3]] = scale
    scores[offsets[3] : offsets[4]] *= -np.sign(scores[offsets[3] : offsets[4]])
    scores[offsets[5] : offsets[5] + 20] = 0.0
    loss = luce.losses.get("ndcg_mix", alpha=alpha, empty="keep", offset=0.0)
    _, together, _ = loss.value_grad_curvature(scores, labels, offsets)
    prepared = loss.prepare(labels.astype(float), offsets)
    safe = Brackets(loss.functions, loss.alpha, 0.0, offsets).solve(scores)[0] - prepared.target
    np.testing.assert_allclose(together, safe, rtol=1e-9, atol=1e-10 * max(1.0, scale))
    for a, b in itertools.pairwise(offsets):
        np.testing.assert_array_equal(together[a:b], loss.value_and_grad(scores[a:b], labels[a:b])[1])


@pytest.mark.parametrize(
    ("alpha", "name"),
    [((1, 0, 0), "ndcg_cross_entropy"), ((0, 1, 0), "ndcg_square"), ((0, 0, 1), "ndcg_qnorm")],
)
def test_mixture_of_one_is_that_one(alpha, name):
    rng = np.random.default_rng(0)
    scores, labels, offsets = rng.normal(0, 0.3, 30), rng.integers(0, 3, 30), [0, 12, 30]
    mixed = luce.losses.get("ndcg_mix", alpha=alpha).value_grad_curvature(scores, labels, offsets)
    alone = luce.losses.get(name).value_grad_curvature(scores, labels, offsets)
    assert mixed[0] == alone[0]
    np.testing.assert_array_equal(mixed[1], alone[1])
    np.testing.assert_array_equal(mixed[2], alone[2])
    # Another function of little weight changes little; with the entropy x is positive, and so must be s.
    near, small = np.array(alpha) + 1e-8, 0.05 * np.abs(scores) + 1e-3
    value, grad = luce.losses.get("ndcg_mix", alpha=near).value_and_grad(small, labels, offsets)
    wanted = luce.losses.get(name).value_and_grad(small, labels, offsets)
    assert value == pytest.approx(wanted[0], abs=1e-4)
    np.testing.assert_allclose(grad, wanted[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("alpha", [*MIXTURES, (2.0, 0.0, 0.0), (0.0, 0.0, 2.0)])
def test_dictionary_of_the_same_functions_gives_the_same(alpha):
    rng = np.random.default_rng(2)
    scores, labels, offsets = rng.normal(0, 0.1, 30), rng.integers(0, 3, 30), [0, 1, 12, 30]
    order = ("qnorm", "cross_entropy", "square")
    moved = (alpha[2], alpha[0], alpha[1])
    kernel = luce.losses.get("ndcg_mix", alpha=alpha).value_grad_curvature(scores, labels, offsets)
    arrays = luce.losses.get("ndcg_mix", alpha=moved, dictionary=order).value_grad_curvature(scores, labels, offsets)
    assert arrays[0] == pytest.approx(kernel[0], rel=1e-9)
    np.testing.assert_allclose(arrays[1], kernel[1], atol=1e-8)
    if alpha[:2] != (0.0, 0.0):  # the q-norm alone takes a floor there
        np.testing.assert_allclose(arrays[2], kernel[2], rtol=1e-5)


def fourth(x):
    return x**2 + x**4, 2 * x + 4 * x**3, 2 + 12 * x**2


def test_psi_of_ones_own(tmp_path):
    loss = luce.losses.get("ndcg_mix", alpha=(1.0, 2.0), dictionary=("square", fourth), **NO_GRADES)
    s = np.array([-3.0, 0.2, 5.0])
    _, x = loss.value_and_grad(s, np.zeros(3))
    np.testing.assert_allclose(6 * x + 8 * x**3, s, atol=1e-10)
    assert loss.names == ["square", "fourth"]
    assert loss.settings["dictionary"] == ("square", fourth)
    data = simulate(queries=30, features=4, seed=0)
    alone = luce.Ranker("ndcg_mix", loss__alpha=(1.0,), loss__dictionary=(fourth,), max_iter=2).fit(data)
    with pytest.raises(SettingError, match="dictionary holds an object, which no model file can keep"):
        alone.save(tmp_path / "other.luce")
    assert not (tmp_path / "other.luce").exists()


def test_psi_on_positive_numbers_only():
    def inverse(x):
        return 1 / x + x, 1 - 1 / x**2, 2 / x**3

    inverse.positive = True
    loss = luce.losses.get("ndcg_mix", alpha=(1.0,), dictionary=inverse, **NO_GRADES)
    s = np.array([-3.0, 0.2, 0.9])
    np.testing.assert_allclose(loss.value_and_grad(s, np.zeros(3))[1], 1 / np.sqrt(1 - s), rtol=1e-10)


@pytest.mark.parametrize("name", ["ndcg_cross_entropy", "ndcg_mix", "cosine"])
def test_losses_go_to_other_processes(name):
    loss = pickle.loads(pickle.dumps(luce.losses.get(name)))
    scores, grades = [0.1, 0.2, 0.0], [1, 0, 2]
    assert loss.value_and_grad(scores, grades)[0] == luce.losses.get(name).value_and_grad(scores, grades)[0]


def test_streams_learn_offset_and_weights():
    data = simulate(queries=120, features=4, seed=0)
    for name, nearness in (("ndcg_square", 0.8), ("ndcg_cross_entropy", 0.0)):
        model = luce.Ranker(name)
        for first in range(0, 1200, 60):
            model.partial_fit(data.take(np.arange(first, first + 60) % 120))
        whole = luce.Ranker(name).fit(data)
        assert model.loss_.offset * whole.loss_.offset > 0
        assert np.corrcoef(model.predict(data), whole.predict(data))[0, 1] > nearness


def test_psi_that_is_none():
    def bad(function, said):
        with pytest.raises(SettingError, match=said):
            luce.losses.get("ndcg_mix", alpha=(1,), dictionary=(function,))

    bad(lambda x: (x**2, 3 * x, np.full_like(x, 3.0)), "slope is not the derivative of value")
    bad(lambda x: (-(x**2), -2 * x, np.full_like(x, -2.0)), "not strictly convex")
    bad(lambda x: (x**2, np.where(x > 1, np.nan, 2 * x), np.full_like(x, 2.0)), "not a number at x")
    bad(lambda x: (x**2, 2 * x), "must give p, p' and p''")
    bad("fith", "Unknown psi 'fith'")

    def square(x):
        return x**2, 2 * x, np.full_like(x, 2.0)

    with pytest.raises(SettingError, match="each name once"):
        luce.losses.get("ndcg_mix", alpha=(1, 1), dictionary=("square", square))


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("ndcg_mix", {"alpha": "x"}, "3 weights"),
        ("ndcg_mix", {"alpha": (1, [2], 3)}, "3 weights"),
        ("ndcg_square", {"offset": []}, "finite number"),
        ("ndcg_square", {"gain": ["a"]}, "numbers of at least 0"),
    ],
)
def test_settings_of_a_wrong_type_are_refused(name, settings, match):
    with pytest.raises(SettingError, match=match):
        luce.losses.get(name, **settings)


def test_tail_of_the_exponential_is_smooth():
    loss = luce.losses.get("ndcg_cross_entropy", beta=0.01, **NO_GRADES)
    at, step = 0.5, 1e-9
    (low, g_low, c_low), (high, g_high, c_high) = (
        loss.value_grad_curvature([s], [0.0]) for s in (at - step, at + step)
    )
    assert high == pytest.approx(low, rel=1e-6)
    assert g_high[0] == pytest.approx(g_low[0], rel=1e-6)
    assert c_high[0] == pytest.approx(c_low[0], rel=1e-6)
    beyond = 7.0
    expected = 0.01 * np.exp(50) * (1 + beyond + beyond**2 / 2)
    assert loss.value_and_grad([0.5 + 0.01 * beyond], [0.0])[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("gain", ["exponential", "linear", (0.0, 1.0, 5.0)])
@pytest.mark.parametrize("discount", [*DISCOUNTS, (3.0, 2.0, 1.0, 0.5)])
@pytest.mark.parametrize("k", [None, 2])
def test_targets_are_gains_over_the_ideal(gain, discount, k):
    labels = np.array([0.0, 2, 1, 1, 2])
    by_grade = {"exponential": 2**labels - 1, "linear": labels}.get(str(gain))
    gains = np.array(gain)[labels.astype(int)] if by_grade is None else by_grade
    positions = np.arange(1.0, 6.0)
    weights = DISCOUNTS[discount](positions) if isinstance(discount, str) else np.append(discount, 0.0)
    weights = weights * (positions <= (k or 5))
    ideal = max(gains[list(order)] @ weights for order in itertools.permutations(range(5)))
    found = GainRule(gain=gain, discount=discount, k=k).normalised(labels, np.array([0, 5]))
    np.testing.assert_allclose(found.target, gains / ideal, rtol=1e-12)


def test_grades_beyond_any_power_of_two():
    found = GainRule().normalised(np.array([4000.0, 3999.0, 0.0]), np.array([0, 3]))
    np.testing.assert_allclose(found.target[0], 2 * found.target[1], rtol=1e-12)
    assert np.isfinite(found.target).all()


def distributions(n: int, m: int = 4, vectors: int = 3):
    """Label vectors of one query and their probabilities."""
    rng = np.random.default_rng(7)
    for _ in range(n):
        yield rng.integers(0, 4, (vectors, m)).astype(float), rng.dirichlet(np.ones(vectors))


def expected_ndcg(order: np.ndarray, labels: np.ndarray, p: np.ndarray, k: int) -> float:
    weights = np.where(np.arange(len(order)) < k, 1 / np.log2(np.arange(len(order)) + 2), 0.0)
    gains = 2**labels - 1
    ideal = np.sort(gains, axis=1)[:, ::-1] @ weights
    return float(p @ np.where(ideal > 0, gains[:, order] @ weights / np.where(ideal > 0, ideal, 1), 0.0))


def expected_gradient(loss, s: np.ndarray, labels: np.ndarray, p: np.ndarray) -> tuple[float, np.ndarray]:
    n, m = labels.shape
    value, grad = loss.value_and_grad(np.tile(s, n), labels.ravel(), np.arange(0, n * m + 1, m), query_weight=p)
    return value, grad.reshape(n, m).sum(axis=0)


def failures(loss, k: int = 4, n: int = 400) -> int:
    """Label distributions for which the minimiser of the expected loss is not the best order.

    At scores of 0 the gradient is a constant minus the target; the minimiser sorts by the expectation of the target.
    """
    count = 0
    orders = [np.array(order) for order in itertools.permutations(range(4))]
    for labels, p in distributions(n):
        _, grad = expected_gradient(loss, np.zeros(4), labels, p)
        reached = expected_ndcg(np.argsort(grad, kind="stable"), labels, p, k)
        count += reached < max(expected_ndcg(order, labels, p, k) for order in orders) - 1e-9
    return count


CONSISTENT = [
    ("ndcg_cross_entropy", {}),
    ("ndcg_square", {}),
    ("ndcg_qnorm", {}),
    ("ndcg_mix", {}),
    ("cosine", {"consistent": True}),
]


@pytest.mark.parametrize(("name", "settings"), CONSISTENT)
def test_consistent_with_ndcg(name, settings):
    assert failures(luce.losses.get(name, **settings)) == 0


def test_consistent_with_ndcg_at_k():
    assert failures(luce.losses.get("ndcg_square", k=2), k=2) == 0
    assert failures(luce.losses.get("ndcg_square"), k=2) > 0


@pytest.mark.parametrize("name", ["listnet", "cosine"])
def test_losses_that_are_not_consistent(name):
    assert failures(luce.losses.get(name)) >= 10


@pytest.mark.parametrize(
    ("name", "settings"), [*CONSISTENT[1:3], ("ndcg_cross_entropy", {"beta": 0.3}), ("ndcg_mix", {"alpha": (30, 1, 1)})]
)
def test_minimiser_sorts_by_the_expected_target(name, settings):
    """The step from the gradient at 0 to the minimiser itself, on a few distributions."""
    loss = luce.losses.get(name, empty="keep", **settings)
    for labels, p in distributions(6):
        begin = np.random.default_rng(0).normal(0, 0.01, 4)
        found = minimize(lambda s, *a: expected_gradient(loss, s, *a), begin, (labels, p), jac=True, method="BFGS")
        target = -expected_gradient(luce.losses.get("ndcg_square", empty="keep"), np.zeros(4), labels, p)[1]
        gaps = np.subtract.outer(target, target)
        moves = np.subtract.outer(found.x, found.x)
        assert (moves[gaps > 1e-4] > 0).all()


def test_queries_without_a_relevant_document():
    scores, labels, offsets = np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.0, 0, 1, 0]), [0, 2, 4]
    for name in ("ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm", "ndcg_mix"):
        skipped = luce.losses.get(name, offset=0.0).value_grad_curvature(scores, labels, offsets)
        kept = luce.losses.get(name, offset=0.0, empty="keep").value_grad_curvature(scores, labels, offsets)
        assert (skipped[1][:2] == 0).all()
        assert (skipped[2][:2] == 0).all()
        assert (kept[1][:2] != 0).all()
        np.testing.assert_array_equal(skipped[1][2:], kept[1][2:])


@pytest.mark.parametrize("name", ["ndcg_cross_entropy", "ndcg_square", "ndcg_qnorm", "ndcg_mix", "cosine"])
@pytest.mark.parametrize("scorer", ["linear", "second_order", "trees", "single_feature", "single_stump"])
def test_every_scorer_learns(name, scorer):
    data = simulate(queries=60, features=6, seed=1)
    model = luce.Ranker(name, scorer, max_iter=15, random_state=0).fit(data)
    chance = luce.evaluate(np.random.default_rng(0).normal(size=data.n_rows), data, ["ndcg@10"]).means["ndcg@10"]
    assert luce.evaluate(model, data, ["ndcg@10"]).means["ndcg@10"] > chance + 0.05


def test_offset_follows_the_level_of_the_target():
    """Poisson regression: at the optimum the mean of exp((s + offset) / beta) is that of the target."""
    data = simulate(queries=80, features=5, seed=2)
    model = luce.Ranker("ndcg_cross_entropy", l2=0.0, tol=1e-9, max_iter=500).fit(data)
    loss = model.loss_
    assert loss.learns_offset
    assert loss.offset < 0
    target = loss.prepare(data.y, data.offsets)
    counted = np.repeat(target.counted, data.sizes)
    fitted = np.exp((model.predict(data) + loss.offset) / loss.beta)
    assert fitted[counted].mean() == pytest.approx(target.target[counted].mean(), rel=1e-2)


def test_gradient_of_the_objective_vanishes_in_units_of_the_scores():
    """The unit in which training steps changes neither the penalty nor where the optimum is."""
    data = simulate(queries=60, features=4, seed=3)
    l2 = 0.05
    model = luce.Ranker("ndcg_cross_entropy", l2=l2, tol=1e-10, max_iter=1000).fit(data)
    scale = model.scorer_.inverse_sd
    z = (data.X - data.X.mean(axis=0, dtype=np.float64)) * scale
    _, d = model.loss_.value_and_grad(model.predict(data), data.y, data.offsets)
    weights = model.scorer_.weights / scale
    np.testing.assert_allclose(z.T @ d / data.n_queries + l2 * weights, 0, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ndcg_mix", {"alpha": (0, 0, 0)}, "all zero"),
        ("ndcg_mix", {"alpha": (1, -1, 0)}, "at least 0"),
        ("ndcg_mix", {"alpha": (1, np.nan, 0)}, "finite"),
        ("ndcg_mix", {"alpha": (1, 1)}, "must hold 3 weights"),
        ("ndcg_mix", {"q": 1.5}, "at least 2"),
        ("ndcg_mix", {"evaluations": 0}, "evaluations is 0"),
        ("ndcg_cross_entropy", {"beta": 0}, "beta is 0"),
        ("ndcg_qnorm", {"q": 1}, "q is 1"),
        ("ndcg_square", {"gain": "log"}, "gain is 'log'"),
        ("ndcg_square", {"gain": (0, 2, 1)}, "must not fall"),
        ("ndcg_square", {"discount": (1, 2)}, "must not rise"),
        ("ndcg_square", {"k": 0}, "k is 0"),
        ("ndcg_square", {"empty": "drop"}, "empty is 'drop'"),
        ("ndcg_square", {"offset": np.inf}, "offset is inf"),
        ("ndcg_square", {"beta": 1}, "does not take these parameters"),
        ("cosine", {"discount": "log"}, "discount is 'log'"),
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(SettingError, match=message):
        luce.losses.get(name, **settings)


def test_grades_that_no_gain_is_given_for():
    with pytest.raises(DataError, match="row 1 is 2"):
        luce.losses.get("ndcg_square", gain=(0, 1)).value_and_grad([0.0, 0.0], [1, 2])
