"""Files: tidy tables, CF trajectories, and what is said about damaged ones."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from luce import display
from luce.errors import DataError, LuceWarning, MissingExtraError, OutputError, ParseError
from luce.track import (
    WGS84,
    Signals,
    Sources,
    follow,
    netcdf_child,
    read_signals,
    read_sources,
    read_track,
    simulate,
    write_signals,
    write_sources,
)  # fmt: skip
from luce.track.netcdf import read_netcdf, write_netcdf


@pytest.fixture(scope="module")
def ocean():
    world = simulate("ocean", steps=12, random_state=1)
    track = follow(
        world.signals, world.sources, start=world.start, dynamics=8000.0, particles=200, trajectories=100,
        **world.settings,
    )  # fmt: skip
    return world, track


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_round_trip(tmp_path, ocean, ending):
    world, track = ocean
    dates = np.array([14000.0, 14610.5] + [-np.inf] * 10)
    sources = Sources(
        world.sources.positions, world.sources.offsets, world.sources.names, start=dates, stop=dates + 1000,
        drift=np.arange(12) / 10, geometry=WGS84(),
    )  # fmt: skip
    write_sources(sources, tmp_path / f"sources.{ending}")
    again = read_sources(tmp_path / f"sources.{ending}")
    assert again.names == sources.names
    for name in ("positions", "offsets", "start", "drift"):
        np.testing.assert_array_equal(getattr(again, name), getattr(sources, name))
    marks = np.linspace(0, 1, len(world.signals.arrivals))
    signals = Signals(
        np.append(world.signals.times, 14700.25), world.signals.arrivals,
        np.append(world.signals.offsets, len(marks)), marks, world.signals.labels, dated=True,
    )  # fmt: skip
    write_signals(signals, tmp_path / f"signals.{ending}")
    again = read_signals(tmp_path / f"signals.{ending}")
    assert again.dated
    for name in ("times", "arrivals", "offsets", "confidence", "labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(signals, name))
    track.save(tmp_path / f"track.{ending}")
    times, positions = read_track(tmp_path / f"track.{ending}")
    np.testing.assert_array_equal(times, track.times)
    np.testing.assert_allclose(positions, track.positions, rtol=1e-15)


def test_plane_round_trip(tmp_path):
    world = simulate("walk", steps=5, random_state=0)
    write_sources(world.sources, tmp_path / "s.csv")
    write_signals(world.signals, tmp_path / "t.csv", labels=False)
    assert np.array_equal(read_sources(tmp_path / "s.csv").positions, world.sources.positions)
    signals = read_signals(tmp_path / "t.csv")
    assert not signals.dated
    assert signals.labels is None
    assert np.array_equal(signals.arrivals, world.signals.arrivals)


def test_dates_and_time_zones(tmp_path):
    path = tmp_path / "signals.csv"
    path.write_text("time,arrival\n2009-01-23T02:00:00+02:00,10\n2009-01-23T00:00:00Z,20\n2009-01-24,\n")
    signals = read_signals(path)
    assert signals.times.tolist() == [14267, 14268]
    assert signals.counts.tolist() == [2, 0]


def test_cf_trajectory(tmp_path, ocean):
    netCDF4 = pytest.importorskip("netCDF4")
    _, track = ocean
    write_netcdf(tmp_path / "t.nc", {"767": track, "811": track})
    found = read_netcdf(tmp_path / "t.nc")
    assert list(found) == ["767", "811"]
    np.testing.assert_array_equal(found["811"][0], track.times)
    np.testing.assert_array_equal(found["811"][1], track.positions)
    with netCDF4.Dataset(tmp_path / "t.nc") as file:
        assert file.featureType == "trajectory"
        assert file["trajectory"].cf_role == "trajectory_id"
        assert file["rowSize"].sample_dimension == "obs"
        assert file["lat"].standard_name == "latitude"
        assert file["lon"].units == "degrees_east"
        assert netCDF4.num2date(file["time"][0], file["time"].units).isoformat() == "2010-01-02T00:00:00"
        assert file["sd_lat"].coordinates == "time lat lon"
    track.save(tmp_path / "one.nc", "x")
    np.testing.assert_array_equal(read_track(tmp_path / "one.nc")[1], track.positions)
    (tmp_path / "bad.nc").write_text("no")
    with pytest.raises(ParseError, match="not a NetCDF"):
        read_netcdf(tmp_path / "bad.nc")
    with netCDF4.Dataset(tmp_path / "other.nc", "w") as file:
        file.createDimension("x", 1)
    with pytest.raises(ParseError, match="not a CF trajectory"):
        read_netcdf(tmp_path / "other.nc")


@pytest.mark.parametrize(
    ("child", "words"),
    [
        ("import time; time.sleep(60)", r"bad.nc: the NetCDF library did not come to an end with it in 1 s"),
        ("import os; os.abort()", r"bad.nc: the NetCDF library crashed \(signal 6\); the file is damaged"),
        ("raise MemoryError", r"bad.nc: it cannot be read: .*; the file is damaged, copy it again"),
    ],
)
def test_a_library_that_hangs_crashes_or_grows_is_stopped(tmp_path, monkeypatch, child, words):
    pytest.importorskip("netCDF4")
    (tmp_path / "child.py").write_text(child)
    (tmp_path / "bad.nc").write_bytes(b"CDF")
    monkeypatch.setattr(netcdf_child, "__file__", str(tmp_path / "child.py"))
    monkeypatch.setattr("luce.track.netcdf._SECONDS", 1.0)
    with pytest.raises(ParseError, match=words):
        read_netcdf(tmp_path / "bad.nc")


def test_missing_extras_name_the_install_command(tmp_path, ocean, monkeypatch):
    _, track = ocean
    real = importlib.import_module

    def refuse(name, *args):
        if name.startswith("netCDF4"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr("luce.track.netcdf.import_module", refuse)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    display._picture.cache_clear()
    with pytest.raises(MissingExtraError, match=r"luce\[tracking\]"):
        track.save(tmp_path / "t.nc")
    from luce.track.plots import plot_track

    with pytest.raises(MissingExtraError, match=r"luce\[plot\]"):
        plot_track(track)
    assert not (tmp_path / "t.nc").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("time,arr\n1,2\n", "needed are time, arrival"),
        ("time,arrival\n1,2\n1,x\n", "line 3: arrival is 'x'"),
        ("time,arrival\nyesterday,2\n", "line 2: time is 'yesterday'; it must be a date"),
        ("time,arrival\n2009-01-01,2\n5,3\n", "line 3: time mixes"),
        ("time,arrival\n1,2,3\n", "line 2: 3 cells"),
        ("time,arrival\n1,-2\n", "negative"),
        ("time,arrival\n,2\n", "line 2: time is empty"),
        ("time,arrival,confidence\n1,2,1.5\n", "between 0 and 1"),
        ("time,arrival\n", "no signals"),
    ],
)
def test_damaged_signals(tmp_path, text, words):
    path = tmp_path / "signals.csv"
    path.write_text(text)
    with pytest.raises(ParseError, match=words):
        read_signals(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source,lat\na,1\n", "needed are lat, lon"),
        ("source,u,v\na,1,2\n", "needed are lat, lon or x, y, z or x, y"),
        ("source,lat,lon\n", "no sources"),
        ("source,lat,lon\na,95,0\n", "latitude 95"),
        ("source,lat,lon\na,5,0\nb,5,0\n", "at one place"),
        ("source,lat,lon\na,5,\n", "line 2: lon is empty"),
        ("source,lat,lon,start\na,5,1,soon\n", "line 2: start is 'soon'; it must be a date"),
    ],
)
def test_damaged_sources(tmp_path, text, words):
    path = tmp_path / "sources.csv"
    path.write_text(text)
    with pytest.raises(ParseError, match=words):
        read_sources(path)


def test_files_that_are_not(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_signals(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ParseError, match="UTF-8"):
        read_signals(tmp_path / "x.csv")
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(ParseError, match="cannot be read as parquet"):
        read_sources(tmp_path / "x.parquet")
    with pytest.raises(OutputError, match="does not exist"):
        write_sources(Sources([[0, 0]]), tmp_path / "no" / "s.csv")


def test_unsorted_file_is_sorted_with_a_warning(tmp_path):
    path = tmp_path / "signals.csv"
    path.write_text("time,arrival\n2,5\n1,4\n")
    with pytest.warns(LuceWarning, match="sorted"):
        assert read_signals(path).times.tolist() == [1, 2]
