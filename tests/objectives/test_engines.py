"""Losses and metrics inside LightGBM, XGBoost and PyTorch."""

from __future__ import annotations

import pickle
import sys

import lightgbm
import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import DataError, MissingExtraError, SettingError, UnknownNameError
from luce.ranker.parts import inner

PARAMETERS = {"verbosity": -1, "num_leaves": 10, "min_data_in_leaf": 5, "learning_rate": 0.1, "num_threads": 1}


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=60, features=6, seed=1)


@pytest.fixture(scope="module")
def reference(data) -> np.ndarray:
    """The scores of our own trees, from the same settings."""
    settings = {"num_leaves": 10, "min_data_in_leaf": 5}
    return luce.Ranker(scorer="trees", max_iter=10, **inner("scorer", settings)).fit(data).predict(data)


def test_lightgbm_train(data, reference):
    dataset = lightgbm.Dataset(data.X, data.y, group=data.sizes, free_raw_data=False)
    parameters = {**PARAMETERS, "objective": luce.objectives.lightgbm("pmop"), "metric": "none"}
    parameters |= {"feature_pre_filter": False}
    curves: dict = {}
    booster = lightgbm.train(
        parameters,
        dataset,
        10,
        valid_sets=[dataset],
        valid_names=["train"],
        feval=luce.objectives.lightgbm_metric("ndcg@10"),
        callbacks=[lightgbm.record_evaluation(curves)],
    )
    scores = booster.predict(data.X)
    np.testing.assert_allclose(scores, reference, rtol=1e-5, atol=1e-8)
    expected = luce.evaluate(scores, data, ["ndcg@10"]).means["ndcg@10"]
    assert curves["train"]["ndcg@10"][-1] == pytest.approx(expected, abs=1e-12)


def test_lightgbm_estimator(data, reference):
    ranker = lightgbm.LGBMRanker(
        objective=luce.objectives.lightgbm("pmop"),
        n_estimators=10,
        num_leaves=10,
        min_child_samples=5,
        verbosity=-1,
        feature_pre_filter=False,
        n_jobs=1,
    )
    metric = luce.objectives.lightgbm_metric("map")
    ranker.fit(
        data.X, data.y, group=data.sizes, eval_X=data.X, eval_y=data.y, eval_group=[data.sizes], eval_metric=metric
    )
    scores = ranker.booster_.predict(data.X)
    np.testing.assert_allclose(scores, reference, rtol=1e-5, atol=1e-8)
    expected = luce.evaluate(scores, data, ["map"]).means["map"]
    assert next(iter(ranker.evals_result_.values()))["map"][-1] == pytest.approx(expected, abs=1e-12)


def test_objective_travels_to_workers(data):
    objective = luce.objectives.lightgbm(luce.losses.get("davidson", nu=0.4))
    arguments = (data.y, np.zeros(data.n_rows), None, data.sizes)
    first = [array.copy() for array in objective(*arguments)]
    again = pickle.loads(pickle.dumps(objective))
    for mine, theirs in zip(first, again(*arguments), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_weights_are_those_of_queries(data):
    objective = luce.objectives.lightgbm("pmop")
    weight = np.where(np.arange(data.n_queries) % 2 == 0, 2.0, 0.5)
    rows = np.repeat(weight, data.sizes)
    grad, _ = objective(data.y, np.zeros(data.n_rows), rows, data.sizes)
    _, expected = luce.losses.get("pmop").value_and_grad(np.zeros(data.n_rows), data.y, data.offsets, weight)
    np.testing.assert_allclose(grad / grad[0], expected / expected[0], rtol=1e-4, atol=1e-6)
    rows[0] += 1
    with pytest.raises(DataError, match="within a query"):
        objective(data.y, np.zeros(data.n_rows), rows, data.sizes)


def test_another_data_set_is_noticed(data):
    """One objective on two data sets in turn gives what two objectives give."""
    half = data.take(np.arange(30))
    objective = luce.objectives.lightgbm("ranknet")
    for part in (data, half, data):
        grad, _ = objective(part.y, np.zeros(part.n_rows), None, part.sizes)
        fresh, _ = luce.objectives.lightgbm("ranknet")(part.y, np.zeros(part.n_rows), None, part.sizes)
        np.testing.assert_array_equal(grad, fresh)


def test_mismatched_groups_are_refused(data):
    objective, metric = luce.objectives.lightgbm("pmop"), luce.objectives.lightgbm_metric("ndcg@5")
    for f in (objective, metric):
        with pytest.raises(DataError, match="no query groups"):
            f(data.y, np.zeros(data.n_rows), None, None)
        with pytest.raises(DataError, match="must agree"):
            f(data.y, np.zeros(data.n_rows), None, data.sizes[:-1])
        with pytest.raises(DataError, match="without documents"):
            f(data.y, np.zeros(data.n_rows), None, [data.n_rows, 0])
    with pytest.raises(DataError, match="weights"):
        objective(data.y, np.zeros(data.n_rows), np.ones(7), data.sizes)
    dataset = lightgbm.Dataset(data.X, data.y)
    with pytest.raises(DataError, match="no query groups"):
        lightgbm.train({**PARAMETERS, "objective": objective}, dataset, 1)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_ties_integrated_out_inside_other_trees(engine, data):
    """Their first step is down the gradient of the loss, and ten of them raise the likelihood of the tiers."""
    loss = luce.losses.get("plackett_luce")
    start, gradient = loss.value_and_grad(np.zeros(data.n_rows), data.y, data.offsets)
    if engine == "lightgbm":
        objective = luce.objectives.lightgbm("plackett_luce")
        first = objective(data.y, np.zeros(data.n_rows), None, data.sizes)[0].copy()
        dataset = lightgbm.Dataset(data.X, data.y, group=data.sizes)
        booster = lightgbm.train({**PARAMETERS, "objective": objective}, dataset, 10)
        scores = booster.predict(data.X)
    else:
        xgboost = pytest.importorskip("xgboost")
        matrix = xgboost.DMatrix(data.X, data.y, qid=np.repeat(np.arange(data.n_queries), data.sizes))
        objective = luce.objectives.xgboost("plackett_luce")
        first = np.ravel(objective(np.zeros(data.n_rows), matrix)[0]).copy()
        booster = xgboost.train(
            {"max_leaves": 10, "eta": 0.1, "base_score": 0.0, "nthread": 1}, matrix, 10, obj=objective
        )
        scores = booster.predict(matrix, output_margin=True)
    np.testing.assert_allclose(first / first[0], gradient / gradient[0], rtol=1e-4, atol=1e-5)  # up to one scale
    assert first[0] * gradient[0] > 0
    assert loss.value_and_grad(scores.astype(np.float64), data.y, data.offsets)[0] < start


def test_names_and_settings_are_checked():
    with pytest.raises(UnknownNameError, match="pmop"):
        luce.objectives.lightgbm("pmap")
    with pytest.raises(SettingError, match="curvature"):
        luce.objectives.lightgbm("pmop", curvature="none")
    with pytest.raises(SettingError, match="needs a model"):
        luce.objectives.lightgbm_metric("log_likelihood")


def test_xgboost_train(data):
    xgboost = pytest.importorskip("xgboost")
    matrix = xgboost.DMatrix(data.X, data.y, qid=np.repeat(np.arange(data.n_queries), data.sizes))
    curves: dict = {}
    booster = xgboost.train(
        {"max_leaves": 10, "eta": 0.1, "base_score": 0.0, "disable_default_eval_metric": 1, "nthread": 1},
        matrix,
        10,
        obj=luce.objectives.xgboost("pmop"),
        custom_metric=luce.objectives.xgboost_metric("ndcg@10"),
        evals=[(matrix, "train")],
        evals_result=curves,
        verbose_eval=False,
    )
    scores = booster.predict(matrix)
    values = [luce.losses.get("pmop").value_and_grad(s, data.y, data.offsets)[0] for s in (0 * scores, scores)]
    assert values[1] < 0.95 * values[0]
    expected = luce.evaluate(scores, data, ["ndcg@10"]).means["ndcg@10"]
    assert curves["train"]["ndcg@10"][-1] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(DataError, match="no query groups"):
        luce.objectives.xgboost("pmop")(scores, xgboost.DMatrix(data.X, data.y))
    with pytest.raises(DataError, match="must agree"):
        luce.objectives.xgboost("pmop")(scores[1:], matrix)


def test_missing_engines_name_the_install_command(monkeypatch):
    for engine in ("xgboost", "torch"):
        monkeypatch.setitem(sys.modules, engine, None)
        with pytest.raises(MissingExtraError, match=rf"luce\[{engine}\]"):
            getattr(luce.objectives, engine)("pmop")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch_gradients_are_those_of_the_loss(torch, data):
    rng = np.random.default_rng(0)
    for name in ("pmop", "plackett_luce", "rao_kupper"):
        loss = luce.losses.get(name)
        scores = rng.normal(size=data.n_rows)
        tensor = torch.tensor(scores, requires_grad=True)
        objective = luce.objectives.torch(name, reduction="sum")
        own = objective.initial_parameters().requires_grad_()
        value = objective(tensor, data.y, data.offsets, own)
        value.backward()
        expected, grad, slopes = loss.value_and_grads(scores, data.y, data.offsets)
        assert value.item() == pytest.approx(expected)
        np.testing.assert_allclose(tensor.grad.numpy(), grad)
        np.testing.assert_allclose(own.grad.numpy() if len(slopes) else slopes, slopes)


def test_torch_weighs_queries(torch, data):
    """One value a query; autograd's own finite differences agree, whatever is made of the values."""
    few = data.take(np.arange(4))
    objective = luce.objectives.torch("pmop", reduction="none")
    scores = torch.tensor(np.random.default_rng(0).normal(size=few.n_rows), requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: objective(s, few.y, few.offsets), (scores,))
    single = torch.tensor(scores.detach().numpy(), dtype=torch.float32, requires_grad=True)
    assert objective(single, torch.tensor(few.y), torch.tensor(few.offsets)).dtype == torch.float32


def test_torch_checks_its_input(torch):
    objective = luce.objectives.torch("pmop")
    with pytest.raises(DataError, match="vector"):
        objective(torch.zeros(2, 2), [1, 0])
    with pytest.raises(DataError, match="offsets"):
        objective(torch.zeros(2), [1, 0], [0, 3])
    with pytest.raises(SettingError, match="reduction"):
        luce.objectives.torch("pmop", reduction="max")
