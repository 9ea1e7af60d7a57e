"""Travel times through a grid of speeds: dense sums along the path, the season, files, and what a track gains."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from luce.errors import DataError, ParseError, SettingError
from luce.track import (
    WGS84,
    Reception,
    Signals,
    Sources,
    SpeedGrid,
    draw_signals,
    drift_path,
    follow,
    log_likelihood,
    read_speed,
)
from luce.track.simulated_worlds import ocean_sources


def ocean_grid(seasons=None):
    """1,450 m/s in the south to 1,500 in the north, and 10 m/s up and down within the year."""
    lat, lon = np.linspace(-66, -50, 9), np.linspace(-120, -60, 13)
    place = 1450 + 50 * (lat[:, None] + 66) / 16 + 0 * lon
    if seasons is None:
        return SpeedGrid(lat, lon, place)
    shift = 10 * np.cos(2 * np.pi * np.asarray(seasons))
    return SpeedGrid(lat, lon, place + shift[:, None, None], seasons=seasons)


def test_one_speed_everywhere_is_that_speed():
    grid = SpeedGrid([-60.0, -50.0], [-110.0, -60.0], np.full((2, 2), 1500.0))
    sources = ocean_sources()
    x = np.array([[-57.0, -100.0], [-58.0, -80.0]])
    settings = {"sigma": 5.0, "detection": 0.9, "clutter_rate": 1.0, "window": (3600.0, 9600.0)}
    arrivals = [4000.0, 5000.0, 5600.0]
    ours = log_likelihood(arrivals, x, sources, speed=grid, **settings)
    np.testing.assert_allclose(ours, log_likelihood(arrivals, x, sources, speed=1500.0, **settings), rtol=1e-9)


def test_slowness_is_the_mean_along_a_great_circle():
    """A dense sum over points of the great circle, by vectors, and NumPy's interpolation in one coordinate."""
    grid = ocean_grid()
    a, b = np.array([-64.0, -112.0]), np.array([-52.0, -70.0])

    def unit(p):
        lat, lon = np.radians(p)
        return np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    angle = np.arccos(unit(a) @ unit(b))
    t = (np.arange(4000) + 0.5) / 4000
    way = (np.sin((1 - t) * angle)[:, None] * unit(a) + np.sin(t * angle)[:, None] * unit(b)) / np.sin(angle)
    slowness = np.interp(np.degrees(np.arcsin(way[:, 2])), grid.first, 1 / (1450 + 50 * (grid.first + 66) / 16))
    ours = grid.slowness(a[None], b[None], None)[0, 0]
    assert ours == pytest.approx(slowness.mean(), rel=2e-6)
    assert grid.slowness(b[None], a[None], None)[0, 0] == pytest.approx(ours, rel=1e-12)


def test_plane_and_edges():
    grid = SpeedGrid([0.0, 1.0], [0.0, 1.0], [[1.0, 1.0], [2.0, 2.0]], earth=False)
    x, b = np.array([[0.0, 0.3]]), np.array([[1.0, 0.3], [0.0, 5.0], [3.0, 0.5]])
    one, edge, beyond = grid.slowness(x, b, None)[0]
    assert one == pytest.approx(0.75)  # slowness falls linearly from 1 to 1/2
    assert edge == pytest.approx(1.0)  # beyond the grid its edge counts
    assert beyond == pytest.approx((0.75 + 2 * 0.5) / 3, abs=5e-3)
    assert grid.outside(b) == 2


def test_a_grid_round_the_earth_has_no_seam():
    lon = np.arange(-180.0, 180.0, 30.0)
    grid = SpeedGrid([-60.0, 60.0], lon, np.tile(1500 + 20 * np.cos(np.radians(lon)), (2, 1)))
    west, east = np.array([[0.0, 179.9]]), np.array([[0.0, -179.9]])
    here = grid.slowness(west, west, None)[0, 0]
    assert grid.slowness(west, east, None)[0, 0] == pytest.approx(here, rel=1e-4)
    assert grid.slowness(np.array([[0.0, 165.0]]), np.array([[0.0, 165.0]]), None)[0, 0] == pytest.approx(
        0.5 * (1 / (1500 - 20) + 1 / (1500 + 20 * np.cos(np.radians(150)))), rel=1e-9
    )
    assert grid.outside(np.array([[0.0, 165.0], [70.0, 0.0]])) == 1


def test_seasons_are_interpolated_round_the_year():
    months = (np.arange(12) + 0.5) / 12
    grid = ocean_grid(months)
    middle_of_january, new_year = 14610 + 365 / 24, 14610.0  # 2010
    here = np.array([[-58.0, -90.0]])
    base = 1450 + 50 * 8 / 16
    january, december = (1 / (base + 10 * np.cos(2 * np.pi * months[m])) for m in (0, 11))
    assert grid.slowness(here, here, middle_of_january)[0, 0] == pytest.approx(january, rel=1e-12)
    assert grid.slowness(here, here, new_year)[0, 0] == pytest.approx(0.5 * (january + december), rel=1e-12)
    with pytest.raises(SettingError, match="time of the step"):
        grid.slowness(here, here, None)


def test_a_track_through_known_waters_beats_one_speed():
    """Signals drawn through the grid; the same float followed with the grid and with 1.5 km/s."""
    grid = ocean_grid((np.arange(12) + 0.5) / 12)
    rng = np.random.default_rng(3)
    sources = ocean_sources()
    path = drift_path([-57.0, -104.0], [-59.0, -98.0], 40, 7000.0, rng)
    settings = {"sigma": 5.0, "detection": 0.9, "clutter_rate": 0.5, "window": (3600.0, 9600.0), "r": 4}
    days = 14700.0 + np.arange(1, 41)
    signals = draw_signals(path[1:], sources, Reception(speed=grid, **settings), rng, times=days, dated=True)
    given = {"start": path[0], "dynamics": 7000.0, "particles": 800, "trajectories": 200} | settings
    known = np.median(follow(signals, sources, speed=grid, **given).errors(path[1:]))
    constant = np.median(follow(signals, sources, speed=1500.0, **given).errors(path[1:]))
    assert known < 8000
    assert known < 0.6 * constant


def rows(*lines, header="lat,lon,speed"):
    return "\n".join([header, *lines]) + "\n"


def test_files(tmp_path):
    text = rows("-60,10,1450", "-50,10,1480", "-60,20,1455", "-50,20,1490")
    plain, packed = tmp_path / "speed.csv", tmp_path / "speed.csv.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    grid = read_speed(packed)
    assert repr(grid) == repr(read_speed(plain))
    np.testing.assert_allclose(1 / grid.at(None), [[1450, 1455], [1480, 1490]])
    (tmp_path / "x.csv").write_text(rows("0,0,1,1", "0,0,2,7", header="x,y,speed,month"))
    seasonal = read_speed(tmp_path / "x.csv")
    assert not seasonal.earth
    assert seasonal.seasons.tolist() == pytest.approx([0.5 / 12, 6.5 / 12])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (rows("-60,10,1450", "-50,20,1480"), "not whole: 2 of 4"),
        (rows("-60,10,1450", "-60,10,1480"), "twice"),
        (rows("-60,10,0"), "above 0"),
        (rows("-60,10,fast"), "speed is 'fast'"),
        (rows("-95,10,1500"), "latitude -95"),
        (rows("-60,10,1500,13", header="lat,lon,speed,month"), "of at least 1 and at most 12"),
        (rows("-60,10,1500,1,3", header="lat,lon,speed,month,day"), "not both"),
        ("lat,speed\n1,2\n", "needed are lat, lon, speed"),
        (rows("-60,nan,1500"), "lon is 'nan'"),
    ],
)
def test_bad_files(tmp_path, text, words):
    (tmp_path / "grid.csv").write_text(text)
    with pytest.raises(ParseError, match=words):
        read_speed(tmp_path / "grid.csv")


def test_a_grid_belongs_to_its_positions_and_dates():
    plane, earth = SpeedGrid([0, 1], [0, 1], np.ones((2, 2)), earth=False), ocean_grid([0.1, 0.6])
    signals = Signals.from_lists([1.0, 2.0], [[4000.0], [4100.0]])
    there = {"start": [-57, -100], "dynamics": 1.0, "sigma": 5.0, "window": (0.0, 9000.0)}
    with pytest.raises(SettingError, match="over x, y"):
        follow(signals, Sources([[-57, -100]], geometry=WGS84()), speed=plane, **there)
    with pytest.raises(SettingError, match="dates"):
        follow(signals, Sources([[-57, -100]], geometry=WGS84()), speed=earth, **there)
    with pytest.raises(DataError, match="increasing"):
        SpeedGrid([1, 0], [0, 1], np.ones((2, 2)))
    with pytest.raises(DataError, match="shape"):
        SpeedGrid([0, 1], [0, 1], np.ones((2, 3)))
