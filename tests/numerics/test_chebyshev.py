"""Panel sums of any smooth function against the double sum."""

from __future__ import annotations

import numpy as np
import pytest

from luce.numerics.chebyshev import NODES, cross_sum, grow_tree, meetings, n_levels

WIDTH = 4.0


def tables_of(functions, span: float) -> np.ndarray:
    tables = np.full((n_levels(span, WIDTH), 7, 4, NODES, NODES), np.nan)  # NaN: a table that nobody filled shows
    for level, offset, gaps in meetings(span, WIDTH):
        tables[level, offset + 3] = [f(gaps) for f in functions]
    return tables


# h, h', h'' and a fourth function: far from polynomial near 0, and smooth at a distance
ASINH = (
    np.arcsinh,
    lambda d: 1 / np.sqrt(1 + d**2),
    lambda d: -d / (1 + d**2) ** 1.5,
    lambda d: np.log1p(d**2 / 9),
)
SCALED = tuple((lambda d, f=f: f(d / 3)) for f in ASINH)


@pytest.mark.parametrize("scale", [0.01, 2.0, 30.0, 4000.0])
@pytest.mark.parametrize("with_curvature", [True, False])
def test_two_sets(scale, with_curvature):
    rng = np.random.default_rng(0)
    f = np.concatenate([rng.normal(0, scale, 60), rng.choice([-scale, scale], 40)])
    weight = rng.uniform(0.5, 2, 100)
    a, b = (0, 45), (45, 100)
    grad, curvature = np.zeros(100), np.zeros(100 if with_curvature else 0)
    tables = tables_of(SCALED, float(np.ptp(f)))
    value, by_parameter = cross_sum(tables, grow_tree(f, WIDTH), a, b, weight, False, grad, curvature)
    d = f[:45, None] - f[None, 45:]
    h, first, second, fourth = (weight[:45, None] * g(d) for g in SCALED)
    assert value == pytest.approx(h.sum(), abs=1e-9 * np.abs(h).sum())
    assert by_parameter == pytest.approx(fourth.sum(), abs=1e-9 * np.abs(fourth).sum())
    expected = np.concatenate([first.sum(axis=1), -first.sum(axis=0)])
    np.testing.assert_allclose(grad, expected, atol=1e-9 * np.abs(expected).max())
    if with_curvature:
        expected = np.concatenate([second.sum(axis=1), second.sum(axis=0)])
        np.testing.assert_allclose(curvature, expected, atol=1e-8 * np.abs(second).sum())


def test_one_set_with_itself():
    rng = np.random.default_rng(1)
    f, weight = rng.normal(0, 9, 80), np.full(80, 0.7)
    even = (lambda d: np.log1p(d**2 / 25), lambda d: 2 * d / (25 + d**2), lambda d: 1.0 / (25 + d**2), np.ones_like)
    grad, curvature = np.zeros(80), np.zeros(80)
    tables = tables_of(even, float(np.ptp(f)))
    value, count = cross_sum(tables, grow_tree(f, WIDTH), (10, 80), (10, 80), weight, True, grad, curvature)
    d = f[10:, None] - f[None, 10:]
    assert value == pytest.approx(0.7 * even[0](d).sum(), rel=1e-9)
    assert count == pytest.approx(0.7 * 70 * 70, rel=1e-12)
    np.testing.assert_allclose(grad[10:], 0.7 * even[1](d).sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(curvature[10:], 0.7 * even[2](d).sum(axis=1), rtol=1e-8)
    assert not grad[:10].any()


def test_a_score_far_away_makes_few_panels():
    f = np.append(np.linspace(0, 3, 50), 1e9)
    tree = grow_tree(f, WIDTH)
    assert tree.starts[1] == 2
    assert len(tree.ids) <= 2 * (len(tree.starts) - 1)
    assert np.abs(tree.place).max() <= 1
