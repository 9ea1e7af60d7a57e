"""The network against PyTorch, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.errors import ModelFormatError, SettingError
from luce.scorers.mlp import FittedMLP, Layer, MLPScorer
from luce.training.objective import Objective


@pytest.fixture(scope="module")
def data() -> luce.Groups:
    return simulate(queries=30, features=6, seed=5)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_value_and_gradient_are_those_of_torch(data, activation):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    scorer = MLPScorer((5, 4), activation).bind(data)
    parameters = scorer.initial(np.random.default_rng(0))
    value, grad = Objective(data, scorer, luce.losses.get("pmop"), 0.0).value_and_grad(parameters)
    kind = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}[activation]
    shapes = ((6, 5), (5, 4), (4, 1))
    modules = [module for shape in shapes for module in (torch.nn.Linear(*shape).double(), kind())][:-1]
    start = 0
    with torch.no_grad():
        for layer in modules[::2]:
            for tensor, shape in ((layer.weight, layer.weight.T.shape), (layer.bias, layer.bias.shape)):
                end = start + tensor.numel()
                tensor.copy_(torch.as_tensor(parameters[start:end].reshape(shape).T.copy()))
                start = end
    Z = (data.X.astype(np.float64) - scorer.scale.mean) * scorer.scale.inverse_sd
    scores = torch.nn.Sequential(*modules)(torch.as_tensor(Z))[:, 0]
    loss = luce.objectives.torch("pmop")(scores, data.y, data.offsets)
    loss.backward()
    expected = np.concatenate([p.ravel() for m in modules[::2] for p in (m.weight.grad.numpy().T, m.bias.grad.numpy())])
    assert value == pytest.approx(loss.item(), rel=1e-9)
    np.testing.assert_allclose(grad, expected, rtol=1e-6, atol=1e-9)


def test_it_learns_what_a_linear_scorer_cannot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    train, test = (
        luce.from_arrays(X[part], y[part], qid=np.arange(2000) // 10) for part in (slice(2000), slice(2000, None))
    )
    found = {}
    for name in ("linear", "mlp"):
        model = luce.Ranker(scorer=name, l2=1e-3, random_state=0, max_iter=200).fit(train)
        found[name] = luce.evaluate(model, test, ["map"]).means["map"]
    assert found["mlp"] > 0.97 > 0.75 > found["linear"]


@pytest.mark.parametrize("loss", ["listmle", "bradley_terry", "ranksvm", "topk_listmle"])
def test_other_losses_reach_below_what_is_linear(data, loss):
    reached = {}
    for scorer in ("linear", "mlp"):
        model = luce.Ranker(loss=loss, scorer=scorer, l2=1e-4, max_iter=60, random_state=0).fit(data)
        reached[scorer] = model.history_["objective"][-1]
    assert reached["mlp"] < 0.99 * reached["linear"]


def test_the_seed_decides(data):
    one, same, other = (
        luce.Ranker(scorer="mlp", random_state=seed, max_iter=5).fit(data).predict(data) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_importance_bounds_every_change_of_the_score(data):
    model = luce.Ranker(scorer="mlp", random_state=0, max_iter=20).fit(data)
    bound = model.scorer_.importance()
    for feature in range(data.n_features):
        moved = data.X.copy()
        moved[:, feature] += np.float32(data.X[:, feature].std())
        change = np.abs(model.predict(moved) - model.predict(data.X)).max()
        assert 0 < change <= bound[feature] * (1 + 1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": ()}, "1 to 8 layers"),
        ({"hidden": "64"}, "1 to 8 layers"),
        ({"hidden": (8, 0)}, "whole number of units"),
        ({"hidden": (2.5,)}, "whole number of units"),
        ({"hidden": (True,)}, "whole number of units"),
        ({"activation": "swish"}, "relu, tanh, sigmoid"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        MLPScorer(**settings)


def test_one_number_is_one_layer():
    assert MLPScorer(8).hidden == (8,)


def test_a_warm_start_needs_the_same_shape(data):
    model = luce.Ranker(scorer="mlp", max_iter=3, warm_start=True, random_state=0).fit(data)
    model.set_params(scorer__hidden=(7,))
    with pytest.raises(SettingError, match=r"\(32,\) tanh units cannot go on"):
        model.fit(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"activation": "none"}, "does not know"), ({"layers": 1}, "2 to 9 layers"), ({"layers": True}, "2 to 9 layers")],
)
def test_states_that_are_no_network_are_refused(change, message):
    layers = (Layer(np.ones((3, 2)), np.zeros(2)), Layer(np.ones((2, 1)), np.zeros(1)))
    settings, arrays = FittedMLP(layers, "relu", np.ones(3)).state()
    with pytest.raises(ModelFormatError, match=message):
        FittedMLP.from_state({**settings, **change}, arrays)
