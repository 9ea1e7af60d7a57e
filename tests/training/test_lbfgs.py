"""L-BFGS beside SciPy's, its Hessian beside the formula written out, and the passes over the data that it saves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as by_scipy

import luce
from luce.data.simulate import simulate
from luce.numerics.threads import set_threads
from luce.training import hessian
from luce.training.gradients import LBFGS
from luce.training.hessian import draw_queries, preconditioner_of, rows_of_hessian
from luce.training.lbfgs import Feasible, LBFGSSearch, lbfgs
from luce.training.objective import Objective
from luce.training.run import History, TrainingRun


def minimise(objective: Objective, start: np.ndarray, run: TrainingRun, **how) -> tuple[np.ndarray, History]:
    lbfgs(objective, start, run.validate is not None, **how).opened(run).follow()
    return run.result, run.history


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=60, features=5, seed=3)


def objective_of(data, loss="pmop", scorer="linear", l2=1e-2, **settings) -> Objective:
    made = luce.losses.get(loss) if isinstance(loss, str) else loss
    return Objective(data, luce.scorers.get(scorer).bind(data), made, l2, **settings)


def start_of(objective: Objective) -> np.ndarray:
    return np.concatenate([np.zeros(objective.scorer.n_parameters), objective.loss.parameters])


def reference(objective: Objective) -> float:
    options = {"maxiter": 5000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    shared = {"jac": True, "method": "L-BFGS-B", "bounds": objective.bounds, "options": options}
    return float(by_scipy(objective.value_and_grad, start_of(objective), **shared).fun)


@pytest.mark.parametrize("scorer", ["linear", "second_order"])
@pytest.mark.parametrize("loss", ["pmop", "ranknet"])
def test_hessian_is_the_formula(data, scorer, loss):
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 2.0, data.n_queries)
    objective = objective_of(data, loss, scorer, query_weight=weight)
    share = np.where(rng.random(data.n_queries) < 0.6, 2.0 * weight, 0.0)
    vector = rng.normal(0, 0.3, objective.n_parameters)
    mean, sd = data.X.mean(axis=0, dtype=float), data.X.std(axis=0, dtype=float)
    Z = (data.X - mean) / sd
    if scorer == "second_order":
        kept = objective.scorer.selection
        Z = np.hstack([Z, Z[:, kept.left] * Z[:, kept.right] / kept.deviation])
    scores = Z @ vector
    curvature = objective.loss.value_grad_curvature(scores, data.y, data.offsets)[2]
    expected = objective.l2 * np.eye(len(vector))
    for q, (first, last) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        c, rows = curvature[first:last], Z[first:last]
        if c.sum() > 0:
            inner = rows.T @ np.diag(c) @ rows - np.outer(rows.T @ c, rows.T @ c) / c.sum()
            expected += share[q] * inner / weight.sum()
    np.testing.assert_allclose(objective.hessian(vector, share), expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_queries_are_drawn_by_their_reach(data, monkeypatch):
    objective = objective_of(data)
    np.testing.assert_array_equal(draw_queries(objective), np.ones(data.n_queries))
    X = data.X.copy()
    X[data.offsets[7], 2] = 1e5  # one row makes almost all of the spread of a column
    heavy = objective_of(luce.Groups(X=X, y=data.y, offsets=data.offsets, query_ids=data.query_ids))
    monkeypatch.setattr(hessian, "ROWS_A_PARAMETER", 100)
    monkeypatch.setattr(hessian, "CHEAP", 0)
    share, sizes = draw_queries(heavy), data.sizes
    assert share.sum() == pytest.approx(data.n_queries)
    assert share[7] > 0
    assert sizes[share > 0].sum() == pytest.approx(rows_of_hessian(5, data.n_rows), rel=0.35)
    assert (share > 0).sum() < data.n_queries
    np.testing.assert_array_equal(share, draw_queries(heavy))


@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("loss", ["pmop", "listnet", "ranknet", "rao_kupper", "davidson", "cdn"])
def test_minimum_is_that_of_another_solver(data, loss, l2):
    """Losses with parameters of their own and without, bounds, weights of queries, with a penalty and without."""
    weight = np.linspace(0.2, 2.0, data.n_queries)
    objective = objective_of(data, loss, l2=l2, query_weight=weight)
    assert preconditioner_of(objective) is not None
    best = reference(objective)
    for precondition in (True, False):
        vector, history = minimise(
            objective, start_of(objective), TrainingRun(500), tol=1e-13, precondition=precondition
        )
        assert history.converged
        assert objective.value_and_grad(vector)[0] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_kept_and_bind(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(12, 8))
    H, b = A.T @ A + 0.01 * np.eye(8), rng.normal(0, 3, 8)
    bounds = [(-0.1, 0.2)] * 5 + [(-np.inf, np.inf)] * 3
    seen = []

    def function(x):
        seen.append(x.copy())
        return 0.5 * x @ H @ x - b @ x, H @ x - b

    search = LBFGSSearch(function, np.zeros(8), tol=1e-16, feasible=Feasible.box(bounds))
    found = search.opened(TrainingRun(500)).follow().run.result
    best = by_scipy(function, np.zeros(8), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-16}).x
    np.testing.assert_allclose(found, best, atol=1e-5)
    assert (np.abs(found[:5] - np.clip(found[:5], -0.1, 0.2)) == 0).all()
    assert np.isin(found[:5], [-0.1, 0.2]).any()
    assert all((x[:5] >= -0.1).all() and (x[:5] <= 0.2).all() for x in seen)


def test_wide_data_and_other_scorers_go_without_a_hessian():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5000), dtype=np.float32)
    wide = luce.from_arrays(X, rng.integers(0, 3, 80), qid=np.arange(80) // 8)
    objective = objective_of(wide, l2=1e-2)
    assert preconditioner_of(objective) is None
    vector, history = minimise(objective, np.zeros(5000), TrainingRun(300), tol=1e-9)
    assert history.converged
    assert objective.value_and_grad(vector)[0] == pytest.approx(reference(objective), rel=1e-6)
    assert preconditioner_of(objective_of(wide.take(np.arange(5)), scorer="mlp")) is None
    assert preconditioner_of(objective_of(wide, luce.losses.get("pmop_gibbs"))) is None
    # A Hessian of all rows would cost more than the passes it saves, and one of a few rows be of no use.
    assert rows_of_hessian(519, 48_000) < hessian.TOO_FEW * 519


@pytest.mark.parametrize("broken", ["indefinite", "nan", "zero"])
def test_a_hessian_without_a_factor_is_done_without(data, broken, monkeypatch):
    wrong = {"indefinite": -1.0, "nan": np.nan, "zero": 0.0}[broken]
    objective = objective_of(data)
    monkeypatch.setattr(objective, "hessian", lambda vector, share: wrong * np.eye(5))
    vector, _ = minimise(objective, np.zeros(5), TrainingRun(300), tol=1e-13)
    assert objective.value_and_grad(vector)[0] == pytest.approx(reference(objective), rel=1e-7)


@pytest.mark.parametrize("loss", ["pmop", "davidson"])
def test_bits_do_not_depend_on_threads(loss, monkeypatch):
    many = simulate(queries=3000, features=30, seed=4)
    monkeypatch.setattr(hessian, "CHEAP", 0)
    found = []
    for threads in (1, 3):
        set_threads(threads)
        objective = objective_of(many, loss)
        assert 0 < (draw_queries(objective) == 0).sum() < many.n_queries
        found.append(minimise(objective, start_of(objective), TrainingRun(12), tol=1e-12)[0])
    set_threads(None)
    np.testing.assert_array_equal(*found)


def passes_to(objective: Objective, goal: float, **how) -> float:
    """Values and gradients until the objective is below a goal; a Hessian counts by the share of the data it reads."""
    seen, count, n = [], [0.0], objective.scorer.n_parameters
    evaluate, hessian = objective.value_and_grad, objective.hessian

    def counted(vector):
        value, grad = evaluate(vector)
        count[0] += 1
        seen.append((value, count[0]))
        return value, grad

    def counted_hessian(vector, share):
        count[0] += objective.data.sizes[share > 0].sum() / objective.data.n_rows * (1 + n / 26)
        return hessian(vector, share)

    objective.value_and_grad, objective.hessian = counted, counted_hessian
    minimise(objective, start_of(objective), TrainingRun(400), tol=1e-13, **how)
    objective.value_and_grad, objective.hessian = evaluate, hessian
    return next(at for value, at in seen if value <= goal)


@pytest.mark.parametrize("loss", ["pmop", "plackett_luce"])
@pytest.mark.parametrize("name", ["MQ2008", "OHSUMED"])
def test_four_times_fewer_passes_on_real_data(real_data, name, loss):
    train = luce.read(real_data(f"{name}/Fold1/train.txt.gz"))
    objective = objective_of(train, loss, l2=1e-3)
    best = reference(objective)
    goal = best + 1e-4 * abs(best)
    plain = passes_to(objective, goal, precondition=False, memory=10)
    assert passes_to(objective, goal) <= plain / 4


def test_validation_keeps_the_plain_way(data, monkeypatch):
    objective = objective_of(data)
    monkeypatch.setattr(objective, "hessian", lambda *_: pytest.fail("a Hessian was taken"))
    _, history = minimise(objective, np.zeros(5), TrainingRun(3, validate=lambda vector: 0.0))
    assert len(history.objective) == 3
    with pytest.raises(pytest.fail.Exception, match="a Hessian was taken"):  # which it is without validation
        minimise(objective, np.zeros(5), TrainingRun(3))


@pytest.mark.parametrize(("setting", "match"), [({"memory": 0}, "memory is 0"), ({"precondition": 1}, "True, False")])
def test_bad_settings(setting, match, data):
    with pytest.raises(luce.errors.SettingError, match=match):
        luce.Ranker(**{f"trainer__{name}": value for name, value in setting.items()}).fit(data)


def test_settings_stand_in_their_order():
    assert LBFGS(1000.0, 5, 7).settings["l2"] == 1000.0
    assert list(LBFGS().settings)[:4] == ["l2", "early_stopping", "max_iter", "tol"]
