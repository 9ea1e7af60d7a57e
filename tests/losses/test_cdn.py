"""Cumulative distribution networks against the double loop over edges, and against the losses that they generalise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import luce
from luce.data.comparisons import Comparisons
from luce.losses.cdn.functions import Gaussian, Sigmoid, all_pairs
from luce.losses.cdn.loss import CDN
from luce.losses.cdn.sigmoids import PANEL, _meet_by_panels, _on_nodes, tables_for
from luce.numerics.chebyshev import grow_tree
from luce.numerics.compiled import kernel
from luce.numerics.differences import moments_to_nodes

# What only kernels call, compiled for a call from here.
_meet_by_panels, _on_nodes = (kernel(_meet_by_panels), kernel(_on_nodes))


def edges_of(labels) -> list[tuple[int, int]]:
    n = len(labels)
    return [(i, j) for i in range(n) for j in range(n) if labels[i] > labels[j]]


def neg_log_phi(r1: float, r2: float, w1: float = 1.0, w2: float = 1.0) -> float:
    return float(np.logaddexp(np.logaddexp(0.0, -w1 * r1), -w2 * r2))


def full_reference(scores, edges, w1=1.0, w2=1.0) -> float:
    r = [scores[i] - scores[j] for i, j in edges]
    return sum(neg_log_phi(a, b, w1, w2) for a in r for b in r)


def one_query(seed: int, n: int, spread: float = 1.0, grades: int = 3):
    rng = np.random.default_rng(seed)
    return rng.normal(0, spread, n), rng.integers(0, grades, n).astype(float)


def test_full_network_is_the_double_sum():
    scores, labels = one_query(0, 9)
    value, _ = CDN(w1=1.7, w2=0.3).value_and_grad(scores, labels)
    assert value == pytest.approx(full_reference(scores, edges_of(labels), 1.7, 0.3), rel=1e-13)


@pytest.mark.parametrize("spread", [1e-3, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize(("n", "grades"), [(40, 3), (60, 2), (50, 1000)])
def test_linear_time_gives_the_same_as_every_pair(n, grades, spread):
    scores, labels = one_query(n, n, spread, grades)
    order = np.argsort(-labels, kind="stable")
    f = scores[order]
    starts = np.append(np.flatnonzero(np.append(True, np.diff(labels[order]) != 0)), n).astype(np.int64)
    weights = np.array([[1.3, 0.6], [0.2, 2.0]])
    tables = tables_for(4 * np.ptp(f) * weights.max() + 2)
    ways = []
    for exact in (True, False):
        loss = CDN(functions=2, exact=exact).with_parameters(weights.ravel())
        _, grad, curvature = loss.value_grad_curvature(f, labels[order])
        value, _, by_weight = loss.value_and_grads(f, labels[order])
        ways.append((np.array(value), grad, curvature, by_weight.reshape(2, 2)))
    width = min(PANEL / weights.max(), np.ptp(f) * (1.0 + 1e-9))
    grad, curvature, d_weights = np.zeros(n), np.zeros(n), np.zeros((2, 2))
    law = (weights, tables, moments_to_nodes())
    value = _on_nodes(grow_tree(f, width), starts, width, law, grad, curvature, d_weights)
    for way in (ways[1], (np.array(value), grad, curvature, d_weights)):
        for direct, other in zip(ways[0], way, strict=True):
            np.testing.assert_allclose(other, direct, rtol=1e-10, atol=1e-10 * np.abs(direct).max())


def test_points_meet_by_panels_over_any_range():
    rng = np.random.default_rng(0)
    r = np.concatenate([rng.normal(0, s, 60) for s in (0.1, 3.0, 300.0, 1e4)])
    m = rng.uniform(0.2, 1.0, len(r))
    tables = tables_for(8 * np.abs(r).max())
    first, second = np.empty(len(r)), np.empty(len(r))
    value = _meet_by_panels(r, m, 1.5, 0.4, tables, first, second)
    exact = all_pairs(Sigmoid(), np.array([[1.5, 0.4]]), r, m, curved=True)
    assert value == pytest.approx(exact.values[0], rel=1e-12)
    slope, bend = 1.5 * first + 0.4 * second, 1.5**2 * first + 0.4**2 * second
    np.testing.assert_allclose(slope, exact.slope, rtol=1e-10, atol=1e-11 * exact.slope.max())
    np.testing.assert_allclose(bend, exact.bend, rtol=1e-10, atol=1e-11 * exact.bend.max())


@pytest.mark.parametrize("pattern", ["agrees", "against", "mixed"])
def test_ten_thousand_apart_is_piecewise_linear(pattern):
    """Where every difference is far from 0 and from any other, -log phi is max(0, -w1 r, -w2 r')."""
    n = 60
    rng = np.random.default_rng(3)
    labels = np.repeat([2.0, 1.0, 0.0], n // 3)
    places = np.linspace(1e4, -1e4, n)
    scores = {"agrees": places, "against": -places, "mixed": rng.permutation(places)}[pattern]
    value, grad = CDN(w1=1.0, w2=1.0).value_and_grad(scores, labels)
    exact_value, exact_grad = CDN(w1=1.0, w2=1.0, exact=True).value_and_grad(scores, labels)
    assert value == pytest.approx(exact_value, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(grad, exact_grad, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(exact_grad).max()))
    r = np.array([scores[i] - scores[j] for i, j in edges_of(labels)])
    below = np.maximum(-r, 0.0)
    kinked = np.maximum(below[:, None], below[None, :]).sum()
    assert kinked - 1e-9 <= value <= kinked + np.log(3) * len(r) ** 2


def test_disconnected_network_is_ranknet():
    scores, labels = one_query(1, 90, 2.0)
    ours = CDN("disconnected", w1=1.0).value_grad_curvature(scores, labels)
    theirs = luce.losses.get("ranknet").value_grad_curvature(scores, labels)
    assert ours[0] == theirs[0]
    np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_array_equal(ours[2], theirs[2])
    pairs = Comparisons(wins=[(0, 3), (5, 2), (2, 0)], win_weight=[1.0, 2.0, 0.5])
    ours_listed = CDN("disconnected", w1=1.0).value_and_grad(scores, pairs)
    theirs_listed = luce.losses.get("ranknet").value_and_grad(scores, pairs)
    assert ours_listed[0] == pytest.approx(theirs_listed[0], rel=1e-14)
    np.testing.assert_allclose(ours_listed[1], theirs_listed[1], rtol=1e-13, atol=1e-16)


def test_default_weights_start_at_one_and_are_learned():
    loss = CDN("disconnected")
    assert loss.parameters.tolist() == [1.0]
    assert CDN().parameters.tolist() == [1.0, 1.0]
    assert CDN(w2=0.5).parameters.tolist() == [1.0]
    assert CDN(functions=3).parameters.reshape(3, 2)[:, 0].tolist() == [0.5, 1.0, 2.0]


def test_list_network_of_a_complete_order_is_listmle():
    scores = np.random.default_rng(4).normal(size=12)
    labels = np.random.default_rng(5).permutation(12).astype(float)
    ours = CDN("list", w1=1.0).value_and_grad(scores, labels)
    theirs = luce.losses.get("listmle").value_and_grad(scores, labels)
    assert ours[0] == pytest.approx(theirs[0], rel=1e-13)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-13)


def test_plackett_luce_probabilities_are_products_of_sigmoids_and_sum_to_one():
    scores = np.array([0.3, -1.0, 0.8, 0.1])
    loss = CDN("list", w1=1.0)
    total = 0.0
    for order in itertools.permutations(range(4)):
        labels = np.empty(4)
        labels[list(order)] = np.arange(4, 0, -1)
        total += np.exp(-loss.value_and_grad(scores, labels)[0])
    assert total == pytest.approx(1.0, rel=1e-13)


def test_listnet_is_the_expected_list_network_of_stars():
    """Top-one probabilities are sigmoids of N - 1 arguments, one order graph i -> all others each."""
    scores, labels = np.array([0.2, -0.4, 1.0, 0.0]), np.array([1.0, 0.0, 2.0, 1.0])
    target = np.exp(labels) / np.exp(labels).sum()
    loss = CDN("list", w1=1.0)
    value = 0.0
    for i in range(4):
        star = Comparisons(wins=[(i, j) for j in range(4) if j != i])
        value += target[i] * loss.value_and_grad(scores, star)[0]
    assert value == pytest.approx(luce.losses.get("listnet").value_and_grad(scores, labels)[0], rel=1e-12)


@pytest.mark.parametrize("topology", ["full", "disconnected", "line", "star", "list"])
def test_grades_and_the_edges_they_imply_are_the_same(topology):
    scores, _ = one_query(7, 8)
    labels = np.random.default_rng(1).permutation(8).astype(float)
    best_first = np.argsort(-labels)
    wins = [(best_first[a], best_first[b]) for b in range(8) for a in range(b)]
    loss = CDN(topology, w1=0.8, w2=1.4)
    by_grades = loss.value_and_grad(scores, labels)
    by_edges = loss.value_and_grad(scores, Comparisons(wins=wins))
    assert by_edges[0] == pytest.approx(by_grades[0], rel=1e-12)
    np.testing.assert_allclose(by_edges[1], by_grades[1], rtol=1e-10, atol=1e-12)


def test_many_listed_edges_take_the_same_sum():
    scores, labels = one_query(8, 60)
    pairs = Comparisons(wins=edges_of(labels))
    loss = CDN(w1=1.2, w2=0.7)
    value, grad = loss.value_and_grad(scores, pairs)
    expected, expected_grad = CDN(w1=1.2, w2=0.7, exact=True).value_and_grad(scores, labels)
    assert value == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-9, atol=1e-9 * np.abs(grad).max())


def test_a_weighted_edge_is_a_repeated_edge():
    scores = np.array([0.4, -0.2, 1.0])
    weighted = Comparisons(wins=[(0, 1), (2, 1)], win_weight=[2.0, 1.0])
    repeated = Comparisons(wins=[(0, 1), (0, 1), (2, 1)])
    for topology in ("full", "star", "disconnected", "list"):
        loss = CDN(topology)
        a, b = (loss.value_and_grads(scores, target) for target in (weighted, repeated))
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13)


def test_star_joins_edges_that_share_a_document():
    scores, labels = one_query(9, 7)
    edges = edges_of(labels)
    expected = 0.0
    for hub in range(7):
        at_hub = [edge for edge in edges if hub in edge]
        expected += full_reference(scores, at_hub, 1.1, 0.9)
    assert CDN("star", w1=1.1, w2=0.9).value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-12)


def test_line_joins_neighbours_and_leaves_no_edge_out():
    scores = np.array([1.0, 0.5, -0.3])
    one = Comparisons(wins=[(0, 1)])
    assert CDN("line").value_and_grad(scores, one)[0] == pytest.approx(neg_log_phi(0.5, 0.5), rel=1e-14)
    three = Comparisons(wins=[(0, 1), (1, 2), (0, 2)])
    expected = neg_log_phi(0.5, 0.8) + neg_log_phi(0.8, 1.3)
    assert CDN("line").value_and_grad(scores, three)[0] == pytest.approx(expected, rel=1e-14)


def test_random_networks_average_to_the_full_one():
    scores, labels = one_query(10, 15)
    edges = len(edges_of(labels))
    full = CDN(weighting="pairs").value_and_grad(scores, labels)
    many = CDN("random", pairs=40_000, networks=5, weighting="pairs").value_and_grad(scores, labels)
    assert many[0] == pytest.approx(full[0], abs=5 * 1.0 / np.sqrt(200_000))
    np.testing.assert_allclose(many[1], full[1], atol=5 / np.sqrt(200_000))
    assert edges < 40_000
    drawn = [CDN("random", pairs=50, seed=seed).value_and_grad(scores, labels)[0] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_drawn_edge_is_an_edge():
    from luce.data.statements import Statements
    from luce.losses.cdn.order_graph import draw

    labels = np.array([2.0, 0, 1, 1, 0, 0, 3, 0, 3])
    offsets = np.array([0, 4, 6, 9])
    edges, pairs = draw(Statements.of_grades(labels, offsets), 400, 1, 0)
    assert (labels[edges.better] > labels[edges.worse]).all()
    assert pairs.graphs.tolist() == [0, 400, 400, 800]
    seen = set(zip(edges.better.tolist(), edges.worse.tolist(), strict=True))
    expected = {(a, b) for a, b in edges_of(labels) if (a < 4) == (b < 4) and (a >= 6) == (b >= 6)}
    assert seen == expected


def test_weighting_divides_by_the_number_of_terms():
    scores, labels = np.zeros(6), np.array([2.0, 1, 1, 0, 0, 0])
    for topology in ("full", "line", "star", "random"):
        assert CDN(topology, weighting="pairs").value_and_grad(scores, labels)[0] == pytest.approx(np.log(3))
    assert CDN("disconnected", weighting="pairs").value_and_grad(scores, labels)[0] == pytest.approx(np.log(2))


def test_the_closure_adds_what_preferences_imply():
    scores = np.array([0.1, 0.5, -0.2, 0.9])
    chain = Comparisons(wins=[(0, 1), (1, 2), (2, 3)])
    whole = Comparisons(wins=[(a, b) for a in range(4) for b in range(a + 1, 4)])
    assert CDN(closure=True).value_and_grad(scores, chain)[0] == pytest.approx(
        CDN().value_and_grad(scores, whole)[0], rel=1e-13
    )


def test_bad_graphs_and_settings_are_refused():
    circle = Comparisons(wins=[(0, 1), (1, 2), (2, 0)])
    with pytest.raises(luce.errors.DataError, match="circle through rows 0, 1, 2"):
        CDN(acyclic=True).value_and_grad(np.zeros(3), circle)
    assert np.isfinite(CDN().value_and_grad(np.zeros(3), circle)[0])
    # Of several circles through a row the shortest is named, in its own order.
    crossed = Comparisons(wins=[(3, 4), (4, 5), (5, 6), (6, 3), (5, 3), (0, 1)])
    with pytest.raises(luce.errors.DataError, match=r"^Query 1 \(counted from 0\): .* circle through rows 3, 4, 5 \("):
        CDN(acyclic=True).value_and_grad(np.zeros(7), crossed, [0, 3, 7])
    with pytest.raises(luce.errors.DataError, match="compared"):
        CDN().value_and_grad([0.0, 1.0], ["good", "bad"])
    with pytest.raises(luce.errors.SettingError, match="at least 0"):
        CDN().with_parameters(np.array([1.0, -0.5]))
    for settings, match in (
        ({"w1": -1.0}, "at least 0"),
        ({"w1": "x"}, "at least 0"),
        ({"seed": "x"}, "whole number"),
        ({"functions": 10**12}, "from 1 to 64"),
        ({"family": "gaussian", "rho": "x"}, "must be a finite number"),
        ({"topology": "ring"}, "one of full"),
        ({"functions": 0}, "whole number"),
        ({"functions": 2, "w1": [1.0, 2.0, 3.0]}, "each of 2"),
        ({"rho": 0.3}, "gaussian"),
        ({"family": "gaussian", "rho": 1.0}, "correlation"),
        ({"family": "cauchy"}, "Unknown family"),
    ):
        with pytest.raises(luce.errors.SettingError, match=match):
            CDN(**settings)


def test_queries_without_edges_are_skipped_and_counted():
    labels, offsets = [1, 0, 2, 2, 5], [0, 2, 4, 5]
    loss = CDN()
    assert loss.skipped(labels, offsets) == 2
    value, grad = loss.value_and_grad([0.3, 0.1, 5.0, -2.0, 1.0], labels, offsets)
    assert value == pytest.approx(neg_log_phi(0.2, 0.2))
    assert grad[2:].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rho", [-0.9, -0.4, 0.0, 0.5, 0.95])
def test_gaussian_cdf_of_two_arguments(rho):
    """Against a plain integral, and far out against limits that hold there."""
    from scipy import integrate, special

    at = [(0.5, 1.0), (-1.0, 0.3), (-2.0, -2.5), (2.0, -3.0), (3.0, 2.0), (0.0, 0.0)]
    a, b = np.array(at).T
    found = Gaussian(rho).terms(a, b)
    s = np.sqrt(1 - rho**2)
    for n, (h, k) in enumerate(at):
        density = lambda t, k=k: np.exp(-t * t / 2) / np.sqrt(2 * np.pi) * special.ndtr((k - rho * t) / s)  # noqa: E731
        exact, _ = integrate.quad(
            density, -12, h, points=[max(min(k / rho, h), -12)] if rho else None, epsrel=1e-11, epsabs=0.0, limit=400
        )
        assert found.log[n] == pytest.approx(np.log(exact), rel=1e-8, abs=1e-10)
    step = 1e-5
    for slope, move in ((found.by_first, (step, 0)), (found.by_second, (0, step))):
        up = Gaussian(rho).terms(a + move[0], b + move[1]).log
        down = Gaussian(rho).terms(a - move[0], b - move[1]).log
        np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-6, atol=1e-9)
    far = Gaussian(rho).terms(np.array([-1e4, -1e4, 1e4]), np.array([-1e4, 1e4, 1e4]))
    assert far.log[1] == pytest.approx(special.log_ndtr(-1e4), rel=1e-12)
    # On the diagonal -log Phi_2 grows as the quadratic form of the inverse covariance.
    assert -far.log[0] / (1e8 / (1 + rho)) == pytest.approx(1.0, rel=1e-4)
    assert far.log[2] == 0.0


def test_gaussian_network_through_nodes_and_in_its_correlation():
    scores, labels = one_query(11, 24)
    loss = CDN(family="gaussian", w1=1.0, w2=0.8, rho=0.5)
    fast, exact = loss, CDN(family="gaussian", w1=1.0, w2=0.8, rho=0.5, exact=True)
    value, grad, curvature = fast.value_grad_curvature(scores, labels)
    expected, expected_grad, expected_curvature = exact.value_grad_curvature(scores, labels)
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-7, atol=1e-7 * np.abs(grad).max())
    np.testing.assert_allclose(curvature, expected_curvature, rtol=1e-7)
    learned = CDN(family="gaussian")
    assert learned.parameters.tolist() == [1.0, 1.0, 0.0]
    at = np.array([0.9, 1.2, 0.3])
    small = slice(0, 6)
    value, _, d_own = learned.with_parameters(at).value_and_grads(scores[small], labels[small])
    step = 1e-5
    for n in range(3):
        move = step * np.eye(3)[n]
        up, down = (
            learned.with_parameters(at + sign * move).value_and_grad(scores[small], labels[small])[0]
            for sign in (1, -1)
        )
        assert d_own[n] == pytest.approx((up - down) / (2 * step), rel=1e-6)


def test_gaussian_without_correlation_is_independent():
    scores, labels = one_query(12, 10)
    from scipy import special

    r = np.array([scores[i] - scores[j] for i, j in edges_of(labels)])
    expected = -2 * len(r) * special.log_ndtr(r).sum()
    assert CDN(family="gaussian", rho=0.0).value_and_grad(scores, labels)[0] == pytest.approx(expected, rel=1e-11)


def independent(a, b):
    return -np.logaddexp(0, -a) - np.logaddexp(0, -b), 1 / (1 + np.exp(a)), 1 / (1 + np.exp(b))


independent.width, independent.bend = 5.0, 0.25


def test_functions_of_the_users_own():
    scores, labels = one_query(13, 40)
    own = CDN(family=independent)
    r = np.array([scores[i] - scores[j] for i, j in edges_of(labels)])
    value, grad = own.value_and_grad(scores, labels)
    assert value == pytest.approx(2 * len(r) * np.logaddexp(0, -r).sum(), rel=1e-10)
    ranknet = luce.losses.get("ranknet").value_and_grad(scores, labels)[1]
    np.testing.assert_allclose(grad, 2 * len(r) * ranknet, rtol=1e-8, atol=1e-8 * np.abs(grad).max())
    curvature = own.value_grad_curvature(scores, labels)[2]
    np.testing.assert_allclose(curvature, CDN(family=independent, exact=True).value_grad_curvature(scores, labels)[2])
    assert own.settings["family"] is independent
    with pytest.raises(luce.errors.SettingError, match="no cdf"):
        CDN(family=lambda a, b: (-np.abs(a), -np.sign(a), 0 * b))
    with pytest.raises(luce.errors.SettingError, match="derivatives"):
        CDN(family=lambda a, b: (independent(a, b)[0], 0 * a, 0 * b))
    with pytest.raises(luce.errors.SettingError, match="no bend"):
        CDN(family=lambda a, b: independent(a, b)).value_grad_curvature(scores, labels)
    with pytest.raises(luce.errors.SettingError, match="function of two arrays"):
        CDN(family=3)


@pytest.mark.parametrize("topology", ["full", "star", "line", "random", "disconnected"])
def test_sums_as_array_code_are_those_of_the_kernels(topology):
    """The sigmoid as a function of one's own, against its own ways, with listed edges and with grades."""

    def sigmoid(a, b):
        return Sigmoid().terms(a, b)[:3]

    sigmoid.bend = 1.0
    scores, labels = one_query(14, 12)
    weighted = Comparisons(wins=[(0, 1), (2, 1), (1, 5), (7, 3)], win_weight=[2.0, 1.0, 0.5, 3.0])
    for target in (labels, weighted):
        ours, theirs = (CDN(topology, w1=1.2, w2=0.7, family=f) for f in ("sigmoid", sigmoid))
        for a, b in zip(ours.value_and_grad(scores, target), theirs.value_and_grad(scores, target), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    learned, other = CDN(topology), CDN(topology, family=sigmoid)
    np.testing.assert_allclose(learned.value_and_grads(scores, labels)[2], other.value_and_grads(scores, labels)[2])


def test_settings_make_the_same_loss():
    for loss in (
        CDN("random", w1=0.5, pairs=7, seed=3),
        CDN(functions=2, w1=[1.0, 2.0], weighting="pairs"),
        CDN("star", family="gaussian", rho=0.2),
        CDN(closure=True, acyclic=True, exact=True),
    ):
        again = luce.losses.get("cdn", **loss.settings)
        assert again.settings == loss.settings
        assert again.parameters.tolist() == loss.parameters.tolist()


def test_a_real_query_in_linear_time(real_data):
    """A query of OHSUMED: thousands of edges, tens of millions of pairs of edges, the same to 1e-8."""
    data = luce.read_letor(real_data("OHSUMED") / "Fold1" / "vali.txt.gz")
    query = int(np.argmax(data.sizes <= 130))
    rows = slice(data.offsets[query], data.offsets[query + 1])
    scores, labels = 3.0 * data.X[rows].astype(float) @ np.linspace(-1, 1, data.n_features), data.y[rows]
    value, grad, d_weights = CDN().value_and_grads(scores, labels)
    expected, expected_grad, expected_weights = CDN(exact=True).value_and_grads(scores, labels)
    assert len(edges_of(labels)) > 500
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-8, atol=1e-10 * np.abs(grad).max())
    np.testing.assert_allclose(d_weights, expected_weights, rtol=1e-8)
