"""CF trajectories: discrete sampling geometries as contiguous ragged arrays (CF conventions, appendix H.4.3)."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.text_files import border, open_input, reason
from luce.errors import DataError, MissingExtraError, ParseError
from luce.storage import atomic_write, check_output
from luce.track import netcdf_child
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.track.result import Track

_ATTRIBUTES = {
    "lat": {"standard_name": "latitude", "units": "degrees_north", "axis": "Y"},
    "lon": {"standard_name": "longitude", "units": "degrees_east", "axis": "X"},
    "x": {"long_name": "first coordinate", "axis": "X"},
    "y": {"long_name": "second coordinate", "axis": "Y"},
    "z": {"long_name": "third coordinate", "axis": "Z"},
}


def _library() -> Any:
    try:
        return import_module("netCDF4")
    except ImportError as error:
        raise MissingExtraError("A NetCDF file", "tracking") from error


def write_netcdf(path: str | Path, tracks: Mapping[str, Track]) -> None:
    """Write named tracks of one geometry into one file; a row a step, tracks one after another."""
    netcdf = _library()
    path = check_output(path)
    if not tracks:
        raise DataError("There is no track to write.")
    every = list(tracks.values())
    axes = every[0].geometry.axes
    if any(track.geometry.axes != axes or track.signals.dated != every[0].signals.dated for track in every):
        raise DataError("Tracks in one file must share their coordinates and their kind of time.")
    dataset = netcdf.Dataset(path.name, "w", memory=1 << 16, format="NETCDF4")
    dataset.Conventions, dataset.featureType = "CF-1.11", "trajectory"
    dataset.title = "Tracks inferred from ranked signals"
    dataset.createDimension("obs", sum(len(track.times) for track in every))
    dataset.createDimension("trajectory", len(every))
    names = dataset.createVariable("trajectory", str, ("trajectory",))
    names.cf_role = "trajectory_id"
    names[:] = np.array(list(tracks), dtype=object)
    sizes = dataset.createVariable("rowSize", "i4", ("trajectory",))
    sizes.long_name, sizes.sample_dimension = "number of positions of this trajectory", "obs"
    sizes[:] = [len(track.times) for track in every]
    dated = every[0].signals.dated
    time = {"standard_name": "time", "units": "days since 1970-01-01 00:00:00", "calendar": "standard", "axis": "T"}
    _variable(dataset, "time", [t.times for t in every], time if dated else {"long_name": "time", "units": "1"})
    for a, axis in enumerate(axes):
        _variable(dataset, axis, [t.positions[:, a] for t in every], _ATTRIBUTES.get(axis, {"long_name": axis}))
    where = {"coordinates": " ".join(["time", *axes])}
    unit = {"units": every[0].geometry.unit} if every[0].geometry.unit else {}
    for a, axis in enumerate(axes):
        about = {"long_name": f"standard deviation of the position along {axis}"} | unit | where
        _variable(dataset, f"sd_{axis}", [np.sqrt(t.covariances[:, a, a]) for t in every], about)
    flags: dict[str, Any] = {"flag_values": np.array([0, 1], np.int8), "flag_meanings": "followed lost"}
    flags |= {"long_name": "whether the track counted as lost"} | where
    _variable(dataset, "lost", [t.lost.astype(np.int8) for t in every], flags)
    about = {"long_name": "number of places where the target may be"} | where
    _variable(dataset, "modes", [np.array([len(m) for m in t.modes], np.int8) for t in every], about)
    buffer = dataset.close()
    with atomic_write(path) as stream:
        stream.write(buffer)


def _variable(dataset: Any, name: str, parts: list[Any], attributes: Mapping[str, Any]) -> None:
    values = np.concatenate(parts)
    variable = dataset.createVariable(name, values.dtype, ("obs",))
    variable.setncatts(dict(attributes))
    variable[:] = values


_SECONDS, _BYTES_A_SECOND = 30.0, 5e6
"""What a file may take: so many seconds, and one more for so many bytes."""
_MEMORY = 2 << 30
"""Bytes of memory, beside twenty times the size of the file."""


def read_netcdf(path: str | Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Times and positions of every trajectory of a contiguous ragged CF file, by its name.

    The file is read in a process of its own, with limits of time and memory: a damaged one may hang the library.
    """
    _library()
    path = Path(path)
    with open_input(path) as stream:
        size = os.fstat(stream.fileno()).st_size
    arrays = _arrays(path, _SECONDS + size / _BYTES_A_SECOND, _MEMORY + 20 * size)
    names, sizes, times, positions = (arrays[name] for name in ("names", "sizes", "times", "positions"))
    if sizes.shape != names.shape or times.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(times):
        raise ParseError(path, "its row sizes do not add up to its rows.")
    if len(set(names.tolist())) < len(names):
        raise ParseError(path, "two of its trajectories have the same name.")
    if positions.shape[0] != len(times) or not (np.isfinite(times).all() and np.isfinite(positions).all()):
        raise ParseError(path, "its times and positions must be finite numbers, as many of one as of the other.")
    cuts = np.cumsum(sizes)[:-1]
    parts = zip(np.split(times, cuts), np.split(positions, cuts), strict=True)
    return dict(zip(names.tolist(), parts, strict=True))


def _arrays(path: Path, seconds: float, memory: int) -> dict[str, Any]:
    """What the other process read; how it ended, if it did not end well, is said of the file."""
    command = [sys.executable, "-P", netcdf_child.__file__, str(path), str(memory)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise ParseError(
            path, f"the NetCDF library did not come to an end with it in {seconds:.0f} s; it is damaged, copy it again."
        ) from error
    said = done.stderr.decode(errors="replace").strip().split("\n")[-1]
    if said == netcdf_child.NOT_NETCDF:
        raise ParseError(path, "this is not a NetCDF file, or it is damaged.")
    if said == netcdf_child.NO_TRAJECTORY:
        raise ParseError(path, "this is not a CF trajectory in a contiguous ragged array.")
    if done.returncode != 0:
        how = (
            f"the NetCDF library crashed (signal {-done.returncode})"
            if done.returncode < 0
            else f"it cannot be read: {reason(ValueError(said))}"
        )
        raise ParseError(path, f"{how}; the file is damaged, copy it again.")
    with border(path, "NetCDF"):
        loaded = np.load(io.BytesIO(done.stdout), allow_pickle=False)
        return {name: loaded[name] for name in ("names", "sizes", "times", "positions")}
