"""Distances on the ellipsoid against an independent integration of the geodesic, and motion across the antimeridian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from luce.errors import DataError
from luce.track import WGS84, Plane, Sources
from luce.track.trust import mean_and_covariance

A, F = 6378137.0, 1 / 298.257223563
E2 = F * (2 - F)


def geodesic(lat, lon, azimuth, length):
    """Where a geodesic ends: dlat = cos(a)/M, dlon = sin(a)/(N cos), da = sin(a) tan/N."""

    def slope(_, y):
        w = np.sqrt(1 - E2 * np.sin(y[0]) ** 2)
        m, n = A * (1 - E2) / w**3, A / w
        return [np.cos(y[2]) / m, np.sin(y[2]) / (n * np.cos(y[0])), np.sin(y[2]) * np.tan(y[0]) / n]

    start = [np.radians(lat), np.radians(lon), np.radians(azimuth)]
    return np.degrees(solve_ivp(slope, (0, length), start, rtol=1e-12, atol=1e-14).y[:2, -1])


@pytest.mark.parametrize(
    ("lat", "lon", "azimuth", "length"),
    [(-58, -105, 80, 1e4), (-58, -105, 120, 3e6), (10, 20, 45, 5e6), (0.1, 179, 91, 2e6), (-40, 170, 200, 4e6)],
)
def test_distance_is_that_of_the_geodesic(lat, lon, azimuth, length):
    end = geodesic(lat, lon, azimuth, length)
    ours = WGS84().distances(np.array([[lat, lon]], float), end[None])[0, 0]
    assert ours == pytest.approx(length, abs=0.3)


def test_distance_special_cases():
    earth = WGS84()
    same = np.array([[-58.0, 179.99]])
    assert earth.distances(same, same)[0, 0] == 0
    across = earth.distances(np.array([[0.0, 179.5]]), np.array([[0.0, -179.5], [0.0, 180.5]]))[0]
    np.testing.assert_allclose(across, np.radians(1) * A, atol=0.01)
    pole = earth.distances(np.array([[90.0, 0.0]]), np.array([[0.0, 50.0]]))[0, 0]
    assert pole == pytest.approx(10001965.729, abs=0.5)  # the quarter meridian of WGS84


def test_move_and_displacement_are_inverse_across_the_antimeridian():
    earth, rng = WGS84(), np.random.default_rng(0)
    start = np.column_stack([rng.uniform(-70, 70, 50), rng.uniform(179.9, 180.1, 50)])
    start = earth.check(start, "start")
    step = rng.normal(0, 3e4, (50, 2))
    end = earth.move(start, step)
    assert np.all(np.abs(end[:, 1]) <= 180)
    np.testing.assert_allclose(earth.displacement(start, end), step, atol=1e-5)
    short = earth.distances(start[:1], end[:1])[0, 0]
    assert short == pytest.approx(np.hypot(*step[0]), rel=0.01)


def test_moving_over_a_pole_turns_round():
    end = WGS84().move(np.array([[89.9, 10.0]]), np.array([[2e4 * 1.1, 0.0]]))
    assert end[0, 0] < 90
    assert end[0, 1] == pytest.approx(-170)


def test_mean_across_the_antimeridian():
    earth = WGS84()
    x = np.array([[-50.0, 179.0], [-50.0, -179.0]])
    mean, covariance = mean_and_covariance(earth, x, np.ones(2))
    assert abs(mean[1]) == pytest.approx(180)
    degree = earth.scale(mean[None])[0, 1]
    assert covariance[1, 1] == pytest.approx(degree**2, rel=1e-6)


def test_plane_has_any_number_of_dimensions():
    assert Plane(4).axes == ("x", "y", "z", "x3")
    assert Plane(3).distances(np.zeros((1, 3)), np.array([[1.0, 2, 2]]))[0, 0] == 3


@pytest.mark.parametrize(
    ("positions", "words"),
    [([[91, 0]], "latitude 91"), ([[0, 400]], "longitude 400"), ([[1, 2, 3]], "2 columns"), ([["a", 1]], "numbers")],
)
def test_bad_positions_on_the_earth(positions, words):
    with pytest.raises(DataError, match=words):
        Sources(positions, geometry=WGS84())
