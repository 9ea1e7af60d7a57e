"""Links against high-precision references, finite differences and the rule that probabilities sum to one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import luce
from luce.numerics import links
from luce.numerics.links import LINKS

ALL = pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
DIFFERENCES = np.concatenate([np.linspace(-30, 30, 121), [-1e4, -999.5, -41.0, 41.0, 999.5, 1e4]])


def parameters(link) -> list[float]:
    return [-9.0, -3.0, -0.5, 0.0, 0.7, 2.0]


@ALL
def test_win_loss_and_tie_sum_to_one(link):
    for t in parameters(link):
        total = sum(
            np.exp(x.value) for x in (link.win(DIFFERENCES, t), link.win(-DIFFERENCES, t), link.tie(DIFFERENCES, t))
        )
        np.testing.assert_allclose(total, 1, atol=2e-14)
    without = np.exp(link.win(DIFFERENCES, ties=False).value) + np.exp(link.win(-DIFFERENCES, ties=False).value)
    np.testing.assert_allclose(without, 1, atol=1e-14)


def rational_exp(x: Fraction) -> Fraction:
    """e^x to 60 digits and more, by the Taylor series of e^{x / 2^k}."""
    halvings = 0
    while abs(x) > Fraction(1, 8):
        x, halvings = x / 2, halvings + 1
    total, term = Fraction(1), Fraction(1)
    for k in range(1, 45):
        term = term * x / k
        total += term
    for _ in range(halvings):
        total = Fraction(round(total * total * 10**90), 10**90) if total < 10**6 else total * total
    return total


@pytest.mark.parametrize("d", [-3.0, -0.75, 0.0, 0.5, 4.0])
@pytest.mark.parametrize("t", [-6.0, -0.5, 1.5])
def test_probabilities_in_rational_arithmetic(d, t):
    ratio, root, e = (rational_exp(Fraction(x)) for x in (d, d / 2, t))
    theta = 1 + e
    rao_kupper = links.get("rao_kupper")
    expected = {
        "win": ratio / (ratio + theta),
        "tie": (theta**2 - 1) * ratio / ((ratio + theta) * (theta * ratio + 1)),
    }
    assert np.exp(rao_kupper.win(d, t).value) == pytest.approx(float(expected["win"]), rel=2e-15)
    assert np.exp(rao_kupper.tie(d, t).value) == pytest.approx(float(expected["tie"]), rel=2e-14)
    total = ratio + 1 + e * root
    davidson = links.get("davidson")
    assert np.exp(davidson.win(d, t).value) == pytest.approx(float(ratio / total), rel=2e-15)
    assert np.exp(davidson.tie(d, t).value) == pytest.approx(float(e * root / total), rel=2e-15)


def test_bradley_terry_is_rao_kupper_by_another_parameter():
    rao_kupper, bradley_terry = links.get("rao_kupper"), links.get("bradley_terry")
    for theta in (1.001, 2.0, 50.0):
        assert bradley_terry.unconstrained(np.log(theta)) == pytest.approx(rao_kupper.unconstrained(theta), abs=1e-11)
        assert bradley_terry.natural(rao_kupper.unconstrained(theta)) == pytest.approx(np.log(theta), rel=1e-11)


def test_normal_win_against_scipy():
    link = links.get("thurstone_mosteller")
    z = np.concatenate([DIFFERENCES, np.linspace(-6, -4, 41)])
    terms = link.win(z, ties=False)
    np.testing.assert_allclose(terms.value, special.log_ndtr(z), rtol=5e-14)
    hazard = np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2))
    np.testing.assert_allclose(terms.d, hazard, rtol=3e-13, atol=1e-300)
    near = z > -30
    np.testing.assert_allclose(terms.dd[near], -(hazard * (hazard + z))[near], rtol=1e-12, atol=1e-300)
    # far out: lambda (lambda + z) = 1 - 1/z^2 + 6/z^4 - 50/z^6 + ...
    far = z < -300
    np.testing.assert_allclose(terms.dd[far], -(1 - z[far] ** -2 + 6 * z[far] ** -4), rtol=1e-12)


@pytest.mark.parametrize("width", [1e-5, 1e-3, 0.3, 1.0, 1.999, 2.001, 7.0, 40.0])
def test_normal_tie_against_quadrature(width):
    """Moments of a cut normal by a fine Gauss-Legendre rule in longdouble on where its mass is."""
    link = links.get("thurstone_mosteller")
    x, w = np.polynomial.legendre.leggauss(400)
    for d in (0.0, -0.4, -2.0, -7.5, -35.0, -900.0, -1e4):
        # relative to the upper end b the density is exp(-b s - s^2/2), s = Z - b in [-2 width, 0]
        b = np.longdouble(d) + np.longdouble(width)
        depth = min(2 * width, 90.0 if b > -1 else 45.0 / float(-b))
        s = np.longdouble(depth / 2) * (x.astype(np.longdouble) - 1)
        top = max(np.longdouble(0), min(b, np.longdouble(depth))) if b > 0 else np.longdouble(0)
        peak = -b * -top - top**2 / 2 if b > 0 else np.longdouble(0)
        density = w * np.exp(-b * s - s**2 / 2 - peak)
        mass = density.sum()
        mean = (density * s).sum() / mass
        variance = (density * (s - mean) ** 2).sum() / mass
        value = -(b**2) / 2 + peak + np.log(mass * depth / 2) - np.log(2 * np.pi) / 2
        terms = link.tie(d, np.log(width))
        assert float(terms.value) == pytest.approx(float(value), rel=1e-12, abs=1e-13)
        assert float(terms.d) == pytest.approx(float(-(b + mean)), rel=1e-11, abs=1e-12)
        assert float(terms.dd) == pytest.approx(float(variance - 1), rel=1e-9, abs=1e-11)


@ALL
@pytest.mark.parametrize("kind", ["win", "tie"])
def test_derivatives_by_finite_differences(link, kind):
    evaluate = getattr(link, kind)
    d = np.array([-60.0, -9.3, -4.9, -1.1, -0.2, 0.0, 0.4, 3.0, 8.0, 50.0])
    h = 1e-4
    for t in (-4.0, -0.8, 0.3, 0.68, 1.2):
        terms = evaluate(d, t)
        for name, first, up, down in (
            ("d", terms.d, evaluate(d + h, t).value, evaluate(d - h, t).value),
            ("dd", terms.dd, evaluate(d + h, t).d, evaluate(d - h, t).d),
            ("t", terms.t, evaluate(d, t + h).value, evaluate(d, t - h).value),
            ("tt", terms.tt, evaluate(d, t + h).t, evaluate(d, t - h).t),
            ("dt", terms.dt, evaluate(d, t + h).d, evaluate(d, t - h).d),
        ):
            np.testing.assert_allclose(first, (up - down) / (2 * h), rtol=2e-6, atol=2e-6, err_msg=f"{name} at t={t}")


@ALL
def test_ten_thousand_apart(link):
    """At d = +-1e4 every quantity is finite, and values change as their derivatives say."""
    for t in parameters(link):
        for kind in (link.win, link.tie):
            for d in (-1e4, 1e4):
                terms = kind(np.array([d - 0.5, d, d + 0.5]), t)
                assert np.isfinite(terms).all()
                assert (terms.dd <= 1e-12).all()
                np.testing.assert_allclose(terms.value[2] - terms.value[0], terms.d[1], rtol=1e-9, atol=1e-7)
                np.testing.assert_allclose(terms.d[2] - terms.d[0], terms.dd[1], rtol=1e-9, atol=1e-11)


@ALL
def test_ties_are_symmetric(link):
    left, right = link.tie(-DIFFERENCES, 0.3), link.tie(DIFFERENCES, 0.3)
    assert np.array_equal(left.value, right.value)
    np.testing.assert_allclose(left.d, -right.d, atol=1e-14)
    np.testing.assert_allclose(left.dt, -right.dt, atol=1e-14)
    assert np.array_equal(left.dd, right.dd)


@ALL
def test_natural_and_unconstrained_scale(link):
    for t in (-11.0, -1.0, 0.0, 3.0):
        assert link.unconstrained(link.natural(t)) == pytest.approx(t, abs=1e-9)
    assert link.bounds[0] < link.unconstrained(link.start) < link.bounds[1]
    for bad in (link.least, link.least - 1, np.nan, np.inf):
        with pytest.raises(luce.errors.SettingError, match=link.parameter):
            link.unconstrained(bad)


def test_unknown_link_lists_the_names():
    assert links.get("Rao-Kupper") is LINKS["rao_kupper"]
    with pytest.raises(luce.errors.UnknownNameError, match="davidson"):
        links.get("davidsen")
