"""What must hold for every loss. A loss joins by being registered."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from tests.conformance.cases import all_losses, problem
from tests.thorough import SEEDS

LOSSES = all_losses()
pytestmark = [
    pytest.mark.parametrize("loss", LOSSES, ids=repr),
    # Queries without a single pair are part of the tests here; pairwise losses say so where that is all there is.
    pytest.mark.filterwarnings("ignore:The target has:luce.errors.LuceWarning"),
]


def skip_estimates(loss) -> None:
    """A gradient by sampling is not that of the value, and its draws depend on the place of a query."""
    if loss.stochastic:
        pytest.skip("the gradient is an estimate; tests/losses/test_pmop_sampled.py holds it to its expectation")


def draws_at_random(loss) -> bool:
    """Whether an order of ties or the pieces of a query are drawn, once for a data set as a whole."""
    return getattr(loss, "ties", None) == "random" or getattr(loss, "cut", None) is not None


def numeric_gradient(function, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences with Richardson extrapolation, error of order step^4."""

    def central(h: float) -> np.ndarray:
        return np.array([(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))])

    return (4 * central(step) - central(2 * step)) / 3


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_that_of_the_value(loss, seed):
    skip_estimates(loss)
    scores, labels, offsets = problem(seed)
    _, grad = loss.value_and_grad(scores, labels, offsets)
    # Between its kinks a loss that is not smooth is nearly straight: a short step stays clear of them.
    step = 1e-4 if loss.smooth else 1e-7
    numeric = numeric_gradient(lambda s: loss.value_and_grad(s, labels, offsets)[0], scores, step)
    np.testing.assert_allclose(grad, numeric, rtol=1e-6, atol=1e-6 * np.abs(grad).max())


def test_gradient_in_own_parameters(loss):
    scores, labels, offsets = problem(5)
    value, _grad, d_parameters = loss.value_and_grads(scores, labels, offsets)
    assert value == loss.value_and_grad(scores, labels, offsets)[0]
    assert d_parameters.shape == loss.parameters.shape
    if len(loss.parameters):
        numeric = numeric_gradient(
            lambda v: loss.with_parameters(v).value_and_grad(scores, labels, offsets)[0], loss.parameters, 1e-4
        )
        np.testing.assert_allclose(d_parameters, numeric, rtol=1e-6, atol=1e-7)


def test_queries_add_up(loss):
    skip_estimates(loss)
    scores, labels, offsets = problem(1)
    value, grad = loss.value_and_grad(scores, labels, offsets)
    parts = [loss.value_and_grad(scores[a:b], labels[a:b], [0, b - a]) for a, b in itertools.pairwise(offsets)]
    if draws_at_random(loss):
        pytest.skip("what is drawn depends on the data set as a whole")
    assert value == pytest.approx(sum(v for v, _ in parts), rel=1e-12)
    np.testing.assert_allclose(grad, np.concatenate([g for _, g in parts]), rtol=1e-12, atol=1e-14)


def test_order_of_documents_does_not_matter(loss):
    skip_estimates(loss)
    if getattr(loss, "cut", None) is not None:
        pytest.skip("the pieces of a query are drawn by place")
    # A loss that was told to break ties by the order of the file is held to this on untied labels.
    scores, labels, offsets = problem(2, untied=not loss.permutation_invariant)
    value, grad = loss.value_and_grad(scores, labels, offsets)
    rng = np.random.default_rng(0)
    shuffle = np.concatenate([a + rng.permutation(b - a) for a, b in itertools.pairwise(offsets)])
    shuffled_value, shuffled_grad = loss.value_and_grad(scores[shuffle], labels[shuffle], offsets)
    assert shuffled_value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(shuffled_grad, grad[shuffle], rtol=1e-8, atol=1e-10)


def test_shift_of_a_query(loss):
    if not loss.shift_invariant:
        pytest.skip("not shift invariant by design")
    scores, labels, offsets = problem(3)
    value, grad = loss.value_and_grad(scores, labels, offsets)
    shift = np.repeat(np.random.default_rng(1).normal(0, 5, len(offsets) - 1), np.diff(offsets))
    shifted_value, shifted_grad = loss.value_and_grad(scores + shift, labels, offsets)
    assert shifted_value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(shifted_grad, grad, rtol=1e-7, atol=1e-9)
    sums = np.add.reduceat(grad, offsets[:-1])
    np.testing.assert_allclose(sums, 0, atol=1e-9)


def test_one_document(loss):
    value, grad, curvature = loss.value_grad_curvature([0.7], [3.0], [0, 1])
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert np.isfinite(curvature).all()
    if loss.shift_invariant:
        assert grad[0] == pytest.approx(0, abs=1e-15)


def test_all_tied(loss):
    scores = np.array([0.5, -1.0, 2.0, 0.0])
    value, grad, curvature = loss.value_grad_curvature(scores, np.full(4, 2.0), [0, 4])
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert (curvature >= 0).all()
    informative = loss.skipped(np.full(4, 2.0), [0, 4]) == 0
    if loss.permutation_invariant and not loss.stochastic:
        assert grad.any() == informative
    assert loss.skipped(np.array([1.0, 1, 0, 2, 3, 3]), [0, 2, 4, 6]) == (0 if informative else 2)


def test_gaps_in_the_grades(loss):
    if not loss.ordinal:
        pytest.skip("it uses the grades as numbers")
    scores, labels, offsets = problem(4)
    value, grad = loss.value_and_grad(scores, labels, offsets)
    same_value, same_grad = loss.value_and_grad(scores, 10 * labels - 3, offsets)
    assert same_value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(same_grad, grad, rtol=1e-12, atol=1e-14)


def test_weights_scale_queries(loss):
    skip_estimates(loss)
    scores, labels, offsets = problem(6)
    if draws_at_random(loss):
        pytest.skip("what is drawn depends on the data set as a whole")
    weight = np.array([1.0, 0.0, 2.0, 0.5, 3.0, 1.0])
    value, grad = loss.value_and_grad(scores, labels, offsets, query_weight=weight)
    parts = [loss.value_and_grad(scores[a:b], labels[a:b], [0, b - a]) for a, b in itertools.pairwise(offsets)]
    assert value == pytest.approx(sum(w * v for w, (v, _) in zip(weight, parts, strict=True)), rel=1e-12)
    expected = np.concatenate([w * g for w, (_, g) in zip(weight, parts, strict=True)])
    np.testing.assert_allclose(grad, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("pattern", ["ordered", "reversed", "random"])
def test_scores_of_ten_thousand(loss, pattern):
    labels = np.array([3.0, 3, 2, 1, 1, 0, 0, 0])
    scores = {
        "ordered": np.array([1e4, 9e3, 1e3, 0, -10, -1e3, -9e3, -1e4]),
        "reversed": -np.array([1e4, 9e3, 1e3, 0, -10, -1e3, -9e3, -1e4]),
        "random": np.random.default_rng(0).uniform(-1e4, 1e4, 8),
    }[pattern]
    value, grad, curvature = loss.value_grad_curvature(scores, labels, [0, 8])
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert np.isfinite(curvature).all()
    skip_estimates(loss)
    # Along a line the value must change as the gradient says, also out here.
    direction = np.random.default_rng(1).normal(size=8)
    step = 1e-3
    up = loss.value_and_grad(scores + step * direction, labels, [0, 8])[0]
    down = loss.value_and_grad(scores - step * direction, labels, [0, 8])[0]
    scale = max(abs(value), 1.0)
    assert (up - down) / (2 * step) == pytest.approx(grad @ direction, rel=1e-4, abs=1e-9 * scale / step)


def test_threads_do_not_change_bits(loss):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 2500)
    scores, labels, offsets = problem(7, tuple(sizes))
    results = []
    for threads in (1, 2):
        luce.set_threads(threads)
        try:
            results.append(loss.value_grad_curvature(scores, labels, offsets))
        finally:
            luce.set_threads(None)
    (value, grad, curvature), (value2, grad2, curvature2) = results
    assert value == value2
    assert np.array_equal(grad, grad2)
    assert np.array_equal(curvature, curvature2)


def test_curvature_majorises(loss):
    """The diagonal of the Hessian by finite differences lies at or below the curvature, where it is exact or above."""
    skip_estimates(loss)
    scores, labels, offsets = problem(8, sizes=(6, 4))
    _, _, curvature = loss.value_grad_curvature(scores, labels, offsets)
    step = 1e-5
    diagonal = np.array(
        [
            (
                loss.value_and_grad(scores + step * e, labels, offsets)[1][i]
                - loss.value_and_grad(scores - step * e, labels, offsets)[1][i]
            )
            / (2 * step)
            for i, e in enumerate(np.eye(len(scores)))
        ]
    )
    assert (curvature >= diagonal - 1e-7 - 1e-6 * np.abs(diagonal)).all()
    assert (curvature >= 0).all()


def test_bad_scores_are_refused(loss):
    with pytest.raises(luce.errors.DataError, match="finite"):
        loss.value_and_grad([0.0, np.nan], [1, 0])
    with pytest.raises(luce.errors.DataError, match="labels"):
        loss.value_and_grad([0.0, 1.0], [1, 0, 2])
    with pytest.raises(luce.errors.DataError, match="offsets"):
        loss.value_and_grad([0.0, 1.0], [1, 0], [0, 1])
    for weight in (np.nan, np.inf, -1.0):
        with pytest.raises(luce.errors.DataError, match="weight of query 0"):
            loss.value_and_grad([0.0, 1.0], [1, 0], query_weight=[weight])
