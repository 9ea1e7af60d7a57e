"""`pmop_exact` against enumeration of all subsets, beside what the conformance tests hold for every loss."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import luce
from luce.losses.tier_sizes import SizeModel
from tests.conformance.cases import problem
from tests.numerics.by_kernels import log_sums


def log_z(scores: np.ndarray) -> float:
    n = len(scores)
    means = [scores[list(s)].mean() for m in range(1, n + 1) for s in itertools.combinations(range(n), m)]
    return float(np.logaddexp.reduce(means))


def by_enumeration(scores: np.ndarray, labels: np.ndarray) -> float:
    """Eq. 4, 5 and 16 as they are written."""
    value, left = 0.0, np.arange(len(scores))
    for grade in np.unique(labels)[::-1]:
        tier = left[labels[left] == grade]
        value += log_z(scores[left]) - scores[tier].mean()
        left = left[labels[left] != grade]
    return value


@pytest.mark.parametrize("scale", [1.0, 40.0, 1e4])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_value_against_enumeration(n, scale):
    rng = np.random.default_rng(n)
    scores, labels = rng.normal(0, scale, n), rng.integers(0, 3, n).astype(float)
    value, _ = luce.losses.get("pmop_exact").value_and_grad(scores, labels)
    assert value == pytest.approx(by_enumeration(scores, labels), rel=1e-12, abs=1e-12 * scale)


def test_untied_and_all_tied():
    loss, scores = luce.losses.get("pmop_exact"), np.array([0.3, -1.0, 2.0])
    value, _ = loss.value_and_grad(scores, [2, 1, 3])
    expected = log_z(scores) + log_z(scores[:2]) + log_z(scores[1:2]) - scores.sum()
    assert value == pytest.approx(expected, rel=1e-13)
    value, grad = loss.value_and_grad(scores, [1, 1, 1])
    assert value == pytest.approx(log_z(scores) - scores.mean(), rel=1e-13)
    assert grad.sum() == pytest.approx(0, abs=1e-15)


def test_curvature_is_exact_with_one_stage():
    loss, scores = luce.losses.get("pmop_exact"), np.random.default_rng(0).normal(0, 2, 7)
    labels = np.ones(7)
    _, _, curvature = loss.value_grad_curvature(scores, labels)
    step = 1e-4
    numeric = [
        (loss.value_and_grad(scores + e, labels)[1] - loss.value_and_grad(scores - e, labels)[1])[i] / (2 * step)
        for i, e in enumerate(step * np.eye(7))
    ]
    np.testing.assert_allclose(curvature, numeric, atol=1e-7)


def test_long_and_short_queries_run_the_same_program():
    # 32 documents keep their programs in memory, 33 run them twice; one hopeless document must not matter.
    scores, labels, _ = problem(0, sizes=(32,))
    loss = luce.losses.get("pmop_exact")
    for n in (32, 33, 40):
        f = np.random.default_rng(n).normal(0, 1, n)
        y = np.random.default_rng(n).integers(0, 3, n).astype(float)
        value, grad = loss.value_and_grad(f, y)
        direction = np.random.default_rng(1).normal(size=n)
        h = 1e-4
        slope = (loss.value_and_grad(f + h * direction, y)[0] - loss.value_and_grad(f - h * direction, y)[0]) / (2 * h)
        assert grad @ direction == pytest.approx(slope, rel=1e-6, abs=1e-7)
        assert value == pytest.approx(-loss.log_prob(f, y), rel=1e-13)
    assert np.isfinite(loss.value_and_grad(scores, labels)[0])


def test_given_sizes_against_enumeration():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(0, 2, 8), rng.integers(0, 3, 8).astype(float)
    expected, left = 0.0, np.arange(8)
    for grade in np.unique(labels)[::-1]:
        tier = left[labels[left] == grade]
        means = [scores[list(s)].mean() for s in itertools.combinations(left, len(tier))]
        expected += np.logaddexp.reduce(means) - scores[tier].mean()
        left = left[labels[left] != grade]
    assert luce.losses.get("pmop_exact", sizes="given").value_and_grad(scores, labels)[0] == pytest.approx(expected)


def test_fitted_sizes_are_the_likelihood_of_given_sizes():
    # Training on given sizes and fitting sizes apart maximise one likelihood: they differ by no score.
    sizes = SizeModel(np.array([[-1.0, -0.5, -0.3, 1.0]]))
    loss, labels = luce.losses.get("pmop_exact", sizes="given"), np.array([2.0, 0, 1, 1, 0])
    rng = np.random.default_rng(1)
    draws = [rng.normal(0, 2, 5) for _ in range(4)]
    gaps = [loss.value_and_grad(f, labels)[0] + loss.log_prob(f, labels, sizes) for f in draws]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)


@pytest.mark.parametrize("bad", ["fitted", ""])
def test_bad_sizes(bad):
    with pytest.raises(luce.errors.SettingError, match="model, given, printed"):
        luce.losses.get("pmop_exact", sizes=bad)


def test_convex_along_a_line():
    loss = luce.losses.get("pmop_exact")
    scores, labels, offsets = problem(3)
    direction = np.random.default_rng(2).normal(size=len(scores))
    values = [loss.value_and_grad(scores + t * direction, labels, offsets)[0] for t in np.linspace(-2, 2, 9)]
    assert (np.diff(values, 2) > 0).all()


def log_z_as_printed(scores: np.ndarray) -> float:
    """Sum over all subsets of Phi(S) over the number of subsets of the same size."""
    n = len(scores)
    logs = [
        scores[list(s)].mean() - np.log(math.comb(n, m))
        for m in range(1, n + 1)
        for s in itertools.combinations(range(n), m)
    ]
    return float(np.logaddexp.reduce(logs))


@pytest.mark.parametrize("scale", [1.0, 40.0, 1e4])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_printed_model_against_enumeration(n, scale):
    """What the printed Metropolis-Hastings ratio leaves stationary: Phi(S) / C(N, |S|)."""
    rng = np.random.default_rng(n)
    scores, labels = rng.normal(0, scale, n), rng.integers(0, 3, n).astype(float)
    expected, left = 0.0, np.arange(n)
    for grade in np.unique(labels)[::-1]:
        tier = left[labels[left] == grade]
        expected += log_z_as_printed(scores[left]) - scores[tier].mean() + np.log(math.comb(len(left), len(tier)))
        left = left[labels[left] != grade]
    loss = luce.losses.get("pmop_exact", sizes="printed")
    assert loss.value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-12, abs=1e-12 * scale)
    assert luce.losses.get("pmop_mh", paper_rule=True).log_prob(scores, labels) == pytest.approx(-expected, rel=1e-12)


@pytest.mark.parametrize("sizes", ["model", "printed"])
def test_long_queries_leave_out_nothing_that_counts(sizes):
    """Beyond 32 documents sizes whose share is negligible are skipped; sums over prefixes of all sizes say how much."""
    scores = np.random.default_rng(3).normal(0, 3, 60)
    log_e = log_sums(scores)
    n = len(scores)
    choices = np.array([math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1) for m in range(1, n + 1)])
    log_z = np.logaddexp.reduce(log_e - (choices if sizes == "printed" else 0))
    value = luce.losses.get("pmop_exact", sizes=sizes).value_and_grad(scores, np.ones(n))[0]
    assert value == pytest.approx(log_z - scores.mean(), rel=1e-13)


@pytest.mark.parametrize("name", ["pmop", "pmop_exact", "pmop_gibbs", "pmop_mh"])
def test_random_cuts(name):
    """The pieces of a query are queries of their own."""
    scores, labels, offsets = problem(3, sizes=(30, 9, 25))
    loss = luce.losses.get(name, cut=12, seed=4)
    pieces = loss.prepare(labels, offsets)
    assert np.diff(pieces.starts[pieces.races]).tolist() == [10, 10, 10, 9, 9, 8, 8]
    value = loss.value_and_grad(scores, labels, offsets)[0]
    expected = 0.0
    for a, b in itertools.pairwise(pieces.races):
        rows = pieces.order[pieces.starts[a] : pieces.starts[b]]
        expected += luce.losses.get(name).value_and_grad(scores[rows], labels[rows])[0]
    assert value == pytest.approx(expected, rel=1e-12)
    assert loss.log_prob(scores[:30], labels[:30]) == luce.losses.get(name).log_prob(scores[:30], labels[:30])
    assert repr(luce.losses.get(name, **loss.settings)) == repr(loss)
    with pytest.raises(luce.errors.SettingError, match="at least 2"):
        luce.losses.get(name, cut=1)


STAGEWISE = [
    ("plackett_luce", {}),
    ("pmop", {}),
    ("pmop", {"direction": "backward"}),
    ("pmop", {"stage_weights": [1.0, 0.5]}),
    ("pmop_exact", {}),
    ("pmop_exact", {"sizes": "given"}),
    ("pmop_exact", {"sizes": "printed"}),
    ("pmop_gibbs", {}),
    ("pmop_mh", {"value": "surrogate"}),
]


@pytest.mark.parametrize(("name", "settings"), STAGEWISE)
@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_weights_of_tiers(name, settings, spread):
    """A stage counts by the difference of gains, here with base 3; it is the value less that of what follows it."""
    plain, weighed = luce.losses.get(name, **settings), luce.losses.get(name, tier_gain=3, **settings)
    rng = np.random.default_rng(5)
    scores, labels = spread * rng.normal(size=9), np.array([4.0, 4, 2, 2, 2, 1, 1, 0, 0])
    down = settings.get("direction") != "backward"
    differences = np.abs(np.diff(3.0 ** np.array([4, 2, 1, 0]))) if down else np.array([2.0, 6.0, 72.0])
    kept = [labels <= y for y in (4, 2, 1, 0)] if down else [labels >= y for y in (0, 1, 2, 4)]
    if name in ("pmop_gibbs", "pmop_mh") or "stage_weights" in settings:
        # Draws and powers belong to the number of a stage, so that what follows a stage cannot stand by itself.
        ones = luce.losses.get(name, **settings)
        pieces = ones.prepare(labels, np.array([0, 9]))._replace(weights=np.ones(4))
        found = ones.evaluate(pieces, scores, (0, 1), np.empty(9))[0]
        assert found == pytest.approx(plain.value_and_grad(scores, labels)[0], rel=1e-12)
    else:
        values = [plain.value_and_grad(scores[k], labels[k])[0] for k in kept]
        expected = float(differences @ -np.diff(values))
        assert weighed.value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-9)
    if spread == 1.0 and not weighed.stochastic:
        value, grad, curvature = weighed.value_grad_curvature(scores, labels)
        steps = 1e-5 * np.eye(9)
        sides = [[weighed.value_and_grad(scores + s * e, labels)[:2] for s in (1, -1)] for e in steps]
        np.testing.assert_allclose(grad, [(a[0] - b[0]) / 2e-5 for a, b in sides], atol=1e-6)
        bent = np.array([(a[1][i] - b[1][i]) / 2e-5 for i, (a, b) in enumerate(sides)])
        if name != "pmop":  # whose curvature leaves out the concave part, and is held by the conformance tests
            assert np.all(curvature >= bent - 1e-6)
        assert value > 0
    two = luce.losses.get(name, tier_gain=2, **settings)
    offsets = np.array([0, 4, 9])
    np.testing.assert_array_equal(two.value_and_grad(scores, np.ones(9), offsets)[1], 0)
    assert two.skipped(np.ones(9), offsets) == 2
    assert not two.ordinal
    assert repr(luce.losses.get(name, **two.settings)) == repr(two)
    with pytest.raises(luce.errors.SettingError, match="no probability; leave tier_gain out"):
        two.log_prob(scores, labels)
    with pytest.raises(luce.errors.SettingError, match="a number above 1"):
        luce.losses.get(name, tier_gain=1, **settings)
    with pytest.raises(luce.errors.DataError, match="too high for gains"):
        two.value_and_grad(scores, labels * 1e3)


@pytest.mark.parametrize("name", ["pmop_gibbs", "pmop_mh"])
def test_drawn_stages_are_weighed(name):
    """With two tiers of which the second counts nothing, the estimate is the weight times that of the first stage."""
    scores, labels = np.array([0.3, -0.4, 1.0, 0.2]), np.array([3.0, 3, 0, 0])
    plain, weighed = (luce.losses.get(name, value="surrogate", tier_gain=base) for base in (2, 4))
    one, other = plain.value_and_grad(scores, labels), weighed.value_and_grad(scores, labels)
    assert other[0] == pytest.approx(one[0] * 63 / 7)
    np.testing.assert_allclose(other[1], one[1] * 63 / 7)
