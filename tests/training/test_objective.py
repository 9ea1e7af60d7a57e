"""The objective: its gradient, and the fused pass beside the general one."""

from __future__ import annotations

import numpy as np
import pytest

import luce
from luce.data.simulate import simulate
from luce.scorers.linear import LinearScorer
from luce.training.objective import LEAST_VALUES, Objective, fuses


@pytest.fixture(scope="module")
def data():
    return simulate(queries=150, features=7, seed=5)


def objective(data, loss, weight=None, n_values=None):
    return Objective(data, LinearScorer().bind(data), loss, 0.3, query_weight=weight, n_values=n_values)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["pmop", "listmle"])
@pytest.mark.parametrize("scale", [0.1, 3000.0])
def test_fused_pass_equals_the_general_one(data, name, weighted, scale):
    """Also where scores are so far apart that the kernel goes by logarithms."""
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 2, data.n_queries) if weighted else None
    vector = scale * rng.normal(size=data.n_features)
    loss = luce.losses.get(name)
    both = [objective(data, loss, weight, n_values) for n_values in (LEAST_VALUES, LEAST_VALUES - 1)]
    assert [each._fused is None for each in both] == [False, True]
    (value, grad), (general_value, general_grad) = (each.value_and_grad(vector) for each in both)
    assert value == pytest.approx(general_value, rel=1e-10)
    # The eight rows that are joined in float32 fall differently into blocks.
    np.testing.assert_allclose(grad, general_grad, rtol=1e-5, atol=1e-6 * np.abs(general_grad).max())


@pytest.mark.parametrize("name", ["pmop", "davidson", "ranknet"])
def test_gradient_by_finite_differences(data, name):
    loss = luce.losses.get(name)
    target = objective(data, loss, np.linspace(0.5, 1.5, data.n_queries))
    vector = np.concatenate([np.random.default_rng(1).normal(0, 0.3, data.n_features), loss.parameters])
    _, grad = target.value_and_grad(vector)
    step = 1e-4
    numeric = [
        (target.value_and_grad(vector + step * e)[0] - target.value_and_grad(vector - step * e)[0]) / (2 * step)
        for e in np.eye(len(vector))
    ]
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-5 * np.abs(grad).max())


def test_backward_pmop_does_not_take_the_fused_pass():
    assert not fuses(LinearScorer(), luce.losses.get("pmop", direction="backward"))
    assert not fuses(LinearScorer(), luce.losses.get("pmop", stage_weights=(1, 0.5)))
