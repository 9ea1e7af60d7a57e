"""Engines against enumeration, quadrature and one another."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.polynomial import chebyshev
from reference import likelihood, matchings, posteriors, weights
from scipy.special import erfcx, ndtr
from scipy.stats import norm

import luce
from luce.errors import DataError, LuceWarning, SettingError, UnknownNameError
from luce.numerics import normal
from luce.numerics.compiled import kernel
from luce.track import best_labels, engine_names, label_posteriors, log_likelihood, tables
from luce.track.tables import half_erfc

log_cdf = kernel(normal.log_cdf)  # only kernels call it in the library

PAPER = {"sigma": 0.1, "speed": 1.0, "detection": 0.7, "clutter_rate": 2.0, "window": (0.0, 3.0)}


def case(s, n, seed, **settings):
    rng = np.random.default_rng(seed)
    sources = rng.random((s, 2)) + 0.5
    times = np.sort(rng.uniform(0.2, 1.8, n))
    return times, rng.random((7, 2)), sources, PAPER | settings


def test_there_are_8501_matchings():
    assert sum(1 for _ in matchings(10, 4)) == 8501


@pytest.mark.parametrize(("s", "n"), [(1, 1), (2, 0), (2, 3), (4, 4), (6, 4)])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"r": 6},
        {"clutter_rate": 0.0, "detection": 1.0},
        {"clutter_rate": 1e-9},
        {"early": "lost", "sigma": 0.5},
        {"sigma": lambda d: 0.05 + 0.1 * d, "detection": lambda d: np.exp(-d)},
    ],
    ids=["paper", "not-full", "sure", "rare-clutter", "early-lost", "of-range"],
)
def test_exact_equals_enumeration(s, n, settings):
    times, positions, sources, settings = case(s, n, 10 * s + n, **settings)
    ours = log_likelihood(times, positions, sources, engine="exact", **settings)
    with np.errstate(divide="ignore"):
        expected = [np.log(likelihood(times, x, sources, **settings)) for x in positions]
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_exact_equals_enumeration_of_the_papers_size():
    times, positions, sources, settings = case(10, 4, 3)
    expected = np.log(likelihood(times, positions[0], sources, **settings))
    assert log_likelihood(times, positions[0], sources, **settings)[0] == pytest.approx(expected, abs=1e-12)


def test_per_source_settings_offsets_and_confidence():
    times, positions, points, settings = case(4, 3, 8)
    settings |= {"sigma": np.array([0.1, 0.2, 0.3, 0.1]), "detection": np.array([0.5, 1.0, 0.9, 0.0]), "r": 3}
    offsets, confidence = np.array([0.0, 0.5, 0.1, 0.2]), np.array([0.0, 0.3, 1.0])
    sources = luce.track.Sources(points, offsets)
    ours = log_likelihood(times, positions, sources, confidence=confidence, **settings)
    expected = [likelihood(times, x, points, offsets=offsets, confidence=confidence, **settings) for x in positions]
    np.testing.assert_allclose(ours, np.log(expected), rtol=1e-12)
    even = log_likelihood(times, positions, sources, confidence=np.full(3, 1 / 3), **settings)
    np.testing.assert_allclose(even, log_likelihood(times, positions, sources, **settings), rtol=1e-12)


def test_far_positions_keep_their_true_value():
    """Without clutter and misses the likelihood far away is below the smallest double, its logarithm is not."""
    times, sources = np.array([1.0, 1.1]), np.array([[0.0, 0.0], [1.0, 0.0]])
    far = np.array([[40.0, 0.0]])
    ours = log_likelihood(times, far, sources, sigma=0.01)[0]
    z = (times[:, None] - np.array([40.0, 39.0])) / 0.01
    a, b = norm.logpdf(z[0, 0]) + norm.logpdf(z[1, 1]), norm.logpdf(z[0, 1]) + norm.logpdf(z[1, 0])
    assert ours == pytest.approx(np.logaddexp(a, b) - 2 * np.log(0.01), rel=1e-12)
    shares = label_posteriors(times, far, sources, sigma=0.01)[0]
    assert shares[0, 0] == pytest.approx(np.exp(a - np.logaddexp(a, b)))
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_impossible_arrivals_are_minus_infinity_and_never_nan():
    """Three signals, two sources, no clutter."""
    for engine in ("exact", "unranked"):
        value = log_likelihood([1.0, 1.1, 1.2], [[0.5, 0.5]], [[0, 0], [1, 0]], sigma=0.1, detection=0.9, engine=engine)
        assert value[0] == -np.inf
    shares = label_posteriors([1.0, 1.1, 1.2], [[0.5, 0.5]], [[0, 0], [1, 0]], sigma=0.1)
    assert np.all(np.isfinite(shares))


@pytest.mark.parametrize("settings", [{"clutter_rate": 0.0}, {"clutter_rate": 1.5}, {"early": "lost", "sigma": 0.3}])
def test_density_integrates_to_one(settings):
    """Quadrature over n = 0, 1, 2 arrivals of s = 2 sources, r = 2."""
    settings = PAPER | {"detection": 0.8, "clutter_rate": 1.0, "r": 2} | settings
    sources, x = np.array([[0.0, 0.0], [2.0, 0.3]]), np.array([[0.9, 0.2]])
    nodes, mass = np.polynomial.legendre.leggauss(160)
    times, mass = 1.5 * (nodes + 1), 1.5 * mass
    total = np.exp(log_likelihood([], x, sources, **settings)[0])
    for t, m in zip(times, mass, strict=True):
        total += m * np.exp(log_likelihood([t], x, sources, **settings)[0])
        # The second arrival runs from t to the end; its nodes are moved there, since the density is cut off at t.
        second, weight = t + (3 - t) / 3 * times, (3 - t) / 3 * mass
        for t2, m2 in zip(second[::1], weight, strict=True):
            total += m * m2 * np.exp(_two(t, t2, x[0], sources, settings))
    assert total == pytest.approx(1, abs=1e-6)


def _two(t, t2, x, sources, settings):
    """Log p(t, t2) by the four matchings of two sources, at quadrature speed; equal to `exact` on a sample."""
    distance = np.sqrt(((sources - x) ** 2).sum(axis=1))
    sigma, p_d, rate = settings["sigma"], settings["detection"], settings["clutter_rate"]
    p = np.exp(-0.5 * ((np.array([[t], [t2]]) - distance) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    u = 1 - p_d + p_d * (1 - ndtr((t2 - distance) / sigma))
    if settings.get("early") == "lost":
        u = u + p_d * ndtr(-distance / sigma)
    c = rate / 3
    value = c * c * u[0] * u[1] + p_d**2 * (p[0, 0] * p[1, 1] + p[0, 1] * p[1, 0])
    value += c * p_d * sum(p[j, i] * u[1 - i] for i in range(2) for j in range(2))
    return np.log(value) - rate * t2 / 3


def test_quadrature_density_is_the_exact_one():
    sources, x = np.array([[0.0, 0.0], [2.0, 0.3]]), np.array([0.9, 0.2])
    settings = PAPER | {"r": 2, "early": "lost"}
    for t, t2 in [(0.9, 1.1), (0.1, 2.5)]:
        assert log_likelihood([t, t2], x, sources, **settings)[0] == pytest.approx(_two(t, t2, x, sources, settings))


def test_min_factor_is_exact_for_one_signal():
    times, positions, sources, _ = case(5, 1, 4)
    for settings in ({"sigma": 0.2}, {"sigma": 0.2, "detection": 0.6}, {"sigma": 0.2, "window": (0, 3), "r": 1}):
        ours = log_likelihood(times, positions, sources, engine="min_factor", **settings)
        np.testing.assert_allclose(ours, log_likelihood(times, positions, sources, **settings), rtol=1e-12)
    nothing = {"sigma": 0.2, "detection": 0.6, "window": (0, 1.0), "r": 1}
    ours = log_likelihood([], positions, sources, engine="min_factor", **nothing)
    np.testing.assert_allclose(ours, log_likelihood([], positions, sources, **nothing), rtol=1e-12)


def test_min_factor_is_a_product_of_rank_densities():
    """Each factor by its definition (Eq. 5.6); with clutter, the sum over all patterns (Eq. 5.69)."""
    import itertools

    times, positions, sources, _ = case(4, 3, 5)
    for x in positions[:3]:
        d = np.sqrt(((sources - x) ** 2).sum(axis=1))

        def rank(j, t, d=d):
            total = 0.0
            for k in range(4):
                rest = [i for i in range(4) if i != k]
                for before in itertools.combinations(rest, j):
                    after = [i for i in rest if i not in before]
                    total += (
                        norm.pdf(t, d[k], 0.2)
                        * norm.cdf(t, d[list(before)], 0.2).prod()
                        * norm.sf(t, d[after], 0.2).prod()
                    )
            return total

        plain = sum(np.log(rank(j, t)) for j, t in enumerate(times))
        ours = log_likelihood(times, x, sources, sigma=0.2, engine="min_factor")[0]
        assert ours == pytest.approx(plain, rel=1e-10)
        rate = 1.5
        cluttered = 0.0
        for pattern in itertools.product([0, 1], repeat=3):
            value, genuine = np.exp(-rate * times[-1] / 3), 0
            for t, junk in zip(times, pattern, strict=True):
                value *= rate / 3 if junk else rank(genuine, t)
                genuine += 1 - junk
            cluttered += value
        ours = log_likelihood(times, x, sources, sigma=0.2, clutter_rate=rate, window=(0, 3), engine="min_factor")[0]
        assert ours == pytest.approx(np.log(cluttered), rel=1e-10)


@pytest.mark.parametrize("rate", [0.0, 0.5, 4.0])
def test_bethe_never_exceeds_exact(rate):
    for seed in range(5):
        times, positions, sources, settings = case(6, 4, seed, clutter_rate=rate)
        exact = log_likelihood(times, positions, sources, engine="exact", **settings)
        bethe = log_likelihood(times, positions, sources, engine="bethe", **settings)
        assert np.all(bethe <= exact + 1e-9)
        assert np.all(bethe > exact - 2)


def test_bethe_is_exact_on_a_tree():
    """One source or one signal: no loops."""
    for s, n in [(1, 3), (5, 1)]:
        times, positions, sources, settings = case(s, n, 6)
        ours = log_likelihood(times, positions, sources, engine="bethe", **settings)
        np.testing.assert_allclose(ours, log_likelihood(times, positions, sources, **settings), rtol=1e-10)
        np.testing.assert_allclose(
            label_posteriors(times, positions, sources, engine="bethe", **settings),
            label_posteriors(times, positions, sources, engine="exact", **settings),
            atol=1e-8,
        )


def test_auto_is_exact_up_to_eight_signals():
    times, positions, sources, settings = case(10, 8, 1)
    assert np.array_equal(
        log_likelihood(times, positions, sources, **settings),
        log_likelihood(times, positions, sources, engine="exact", **settings),
    )
    times, positions, sources, settings = case(10, 9, 1)
    assert np.array_equal(
        log_likelihood(times, positions, sources, **settings),
        log_likelihood(times, positions, sources, engine="bethe", **settings),
    )
    with pytest.raises(SettingError, match="bethe"):
        log_likelihood(np.linspace(0.1, 2, 17), positions, sources, engine="exact", **settings)


def test_unranked_drops_the_late_factor():
    times, positions, sources, settings = case(5, 3, 11)
    ours = log_likelihood(times, positions, sources, engine="unranked", **settings)
    expected = [likelihood(times, x, sources, ranked=False, **settings) for x in positions]
    np.testing.assert_allclose(ours, np.log(expected), rtol=1e-12)


def test_label_posteriors_equal_enumeration():
    for settings in ({}, {"clutter_rate": 0.0, "detection": 1.0}, {"r": 6}):
        times, positions, sources, settings = case(5, 4, 12, **settings)
        ours = label_posteriors(times, positions, sources, **settings)
        np.testing.assert_allclose(ours.sum(axis=2), 1, rtol=1e-12)
        for k, x in enumerate(positions):
            np.testing.assert_allclose(ours[k], posteriors(times, x, sources, **settings), atol=1e-12)


def test_best_labels_are_the_heaviest_matching():
    times, positions, sources, settings = case(5, 4, 13)
    labels, weight = best_labels(times, positions, sources, **settings)
    for k, x in enumerate(positions):
        table = weights(times, x, sources, **settings)
        heaviest = max(table, key=table.__getitem__)
        assert tuple(labels[k]) == heaviest
        assert weight[k] == pytest.approx(np.log(table[heaviest]), rel=1e-12)


def test_fixed_labels_leave_the_matchings_that_agree():
    times, positions, sources, settings = case(4, 3, 14)
    ours = log_likelihood(times, positions, sources, labels=["2", None, "clutter"], engine="exact", **settings)
    for value, x in zip(ours, positions, strict=True):
        table = weights(times, x, sources, **settings)
        agree = sum(weight for labels, weight in table.items() if labels[0] == 1 and labels[2] == -1)
        assert value == pytest.approx(np.log(agree), rel=1e-12)


def test_labelled_is_the_product_of_densities():
    """Eq. 5.73, up to a constant."""
    times, positions, sources, settings = case(4, 3, 15)
    labels = ["3", "clutter", "1"]
    for detection in (0.7, 1.0):
        ours = log_likelihood(
            times, positions, sources, labels=labels, engine="labelled", **settings | {"detection": detection}
        )
        d = np.sqrt(((positions[:, None] - sources) ** 2).sum(axis=2))
        expected = norm.logpdf(times[0], d[:, 2], 0.1) + norm.logpdf(times[2], d[:, 0], 0.1)
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-9)


def test_expected_ratio_is_one_for_the_ranked_model_only():
    """E over T ~ p(.|X) of p(T|X') / p(T|X) is 1 for a density, draws of fewer than r arrivals kept."""
    rng = np.random.default_rng(5)
    sources = rng.random((6, 2))
    settings = {"sigma": 0.05, "detection": 0.7, "clutter_rate": 2.0, "window": (0.0, 2.0), "r": 3, "early": "lost"}
    simulate = luce.track.draw_arrivals
    x = np.array([[0.5, 0.4], [0.56, 0.45]])
    ratios = {"exact": [], "unranked": []}
    for _ in range(2500):
        arrivals, _ = simulate(x[0], luce.track.Sources(sources), luce.track.Reception(**settings), rng)
        for engine, values in ratios.items():
            here, there = log_likelihood(arrivals, x, sources, engine=engine, **settings)
            values.append(np.exp(there - here))
    mean, error = np.mean(ratios["exact"]), np.std(ratios["exact"]) / np.sqrt(2500)
    assert error < 0.06
    assert abs(mean - 1) < 4 * error
    baseline, spread = np.mean(ratios["unranked"]), np.std(ratios["unranked"]) / np.sqrt(2500)
    assert abs(baseline - 1) > 3 * spread


def test_threads_do_not_change_a_bit():
    times, _, sources, settings = case(8, 4, 16)
    positions = np.random.default_rng(0).random((5000, 2))
    values = []
    for threads in (1, 3):
        luce.set_threads(threads)
        values.append(log_likelihood(times, positions, sources, **settings))
    luce.set_threads(None)
    assert np.array_equal(*values)


@njit(fastmath={"contract"})
def _tails(z, result):
    for a in range(len(z)):
        result[a] = half_erfc(z[a] * np.sqrt(0.5))


def test_the_numbers_of_the_tail_interpolate_it():
    def tail(y):
        x = tables._K * (1.0 + y) / (1.0 - y)
        return (1.0 + 2.0 * x) * erfcx(x)

    found = chebyshev.cheb2poly(chebyshev.chebinterpolate(tail, 20))
    np.testing.assert_allclose(tables._TAIL, found, atol=1e-7)


def test_tails():
    z = np.concatenate([np.linspace(-40, 36, 2001), [0.0, -1e308, -np.inf, 1e308, np.inf]])
    tail = np.empty_like(z)
    _tails(z, tail)
    np.testing.assert_allclose(tail, norm.sf(z), rtol=1e-12, atol=1e-290)
    for value in (-30.0, 0.0, 5.9, 6.1, 40.0, 1e4):
        assert log_cdf(-value) == pytest.approx(norm.logsf(value), rel=1e-13)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"arrivals": [0.5, -0.1]}, DataError, "negative"),
        ({"arrivals": [0.5, np.inf]}, DataError, "finite"),
        ({"arrivals": [0.5, 9.0]}, DataError, "end of the window"),
        ({"detection": 1.2}, SettingError, "between 0 and 1"),
        ({"detection": [0.5, np.nan]}, SettingError, "between 0 and 1"),
        ({"confidence": [1.5, 0.1]}, DataError, "between 0 and 1"),
        ({"sigma": 0.0}, SettingError, "above 0"),
        ({"sigma": [0.1, 0.1, 0.1]}, SettingError, "one a source"),
        ({"speed": -1}, SettingError, "above 0"),
        ({"clutter_rate": -1}, SettingError, "at least 0"),
        ({"window": (2, 1)}, SettingError, "before its end"),
        ({"window": None}, SettingError, "window"),
        ({"window": None, "clutter_rate": 0.0, "r": 4}, SettingError, "window"),
        ({"engine": "exactt"}, UnknownNameError, "Did you mean 'exact'"),
        ({"engine": "labelled"}, SettingError, "needs labels"),
        ({"engine": "unranked", "detection": 1.0, "sources": [[0, 0], [1, 1], [2, 2]]}, SettingError, "below 1"),
        ({"engine": "min_factor", "labels": ["1", None]}, SettingError, "cannot bind"),
        ({"labels": ["1", "7"]}, UnknownNameError, "Unknown source '7'"),
        ({"sources": [[0, 0], [0, 0]]}, DataError, "at one place"),
        ({"positions": [[0, 0, 0]]}, DataError, "2 columns"),
        ({"positions": [[0, np.nan]]}, DataError, "finite"),
        ({"keep": "loudest"}, UnknownNameError, "earliest"),
        ({"early": "late"}, UnknownNameError, "lost"),
        ({"r": 0}, SettingError, "at least 1"),
        ({"r": np.nan}, SettingError, "whole number"),
        ({"time": np.nan}, SettingError, "finite"),
    ],
)
def test_mistakes_are_told(change, error, words):
    given = {"arrivals": [0.4, 0.9], "positions": [[0.1, 0.2]], "sources": [[0, 0], [1, 0]]} | PAPER | change
    args = [given.pop(name) for name in ("arrivals", "positions", "sources")]
    with pytest.raises(error, match=words):
        log_likelihood(*args, **given)


def test_arrivals_out_of_order_are_sorted_with_a_warning():
    times, positions, sources, settings = case(4, 3, 17)
    with pytest.warns(LuceWarning, match="out of order"):
        ours = log_likelihood(times[::-1], positions, sources, **settings)
    assert np.array_equal(ours, log_likelihood(times, positions, sources, **settings))


def test_more_signals_than_room_are_cut_to_the_earliest():
    times, positions, sources, settings = case(4, 4, 18, r=2)
    assert np.array_equal(
        log_likelihood(times, positions, sources, **settings), log_likelihood(times[:2], positions, sources, **settings)
    )


@pytest.mark.parametrize("settings", [{}, {"clutter_rate": 1e-9}, {"r": 6}])
def test_literal_baseline_counts_a_source_that_was_not_heard_twice(settings):
    """[Pareek] (5.72) sums 1 - P_D over late and over missing: 2 (1 - P_D) for each source without a signal."""
    times, positions, sources, settings = case(5, 3, 4, **settings)
    ours = log_likelihood(times, positions, sources, engine="unranked_literal", **settings)
    shares = label_posteriors(times, positions, sources, engine="unranked_literal", **settings)
    for k, x in enumerate(positions):
        table = weights(times, x, sources, ranked=False, **settings)
        twice = {labels: w * 2.0 ** (5 - sum(i >= 0 for i in labels)) for labels, w in table.items()}
        total = sum(twice.values())
        assert ours[k] == pytest.approx(np.log(total), rel=1e-12)
        clutter = [sum(w for labels, w in twice.items() if labels[j] < 0) / total for j in range(3)]
        np.testing.assert_allclose(shares[k, :, -1], clutter, rtol=1e-9)


def test_names_of_engines():
    assert engine_names() == ["auto", "bethe", "exact", "labelled", "min_factor", "unranked", "unranked_literal"]
