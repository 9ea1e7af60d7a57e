"""CF trajectories: discrete sampling geometries as contiguous ragged arrays (CF conventions, appendix H.4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.errors import DataError, MissingExtraError, ParseError
from luce.storage import atomic_write, check_output
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.track.result import Track

__all__ = ["read_netcdf", "write_netcdf"]

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
        raise MissingExtraError("A NetCDF file", "track") from error


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
    buffer = dataset.close()
    with atomic_write(path) as stream:
        stream.write(buffer)


def _variable(dataset: Any, name: str, parts: list[Any], attributes: Mapping[str, Any]) -> None:
    values = np.concatenate(parts)
    variable = dataset.createVariable(name, values.dtype, ("obs",))
    variable.setncatts(dict(attributes))
    variable[:] = values


def read_netcdf(path: str | Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Times and positions of every trajectory of a contiguous ragged CF file, by its name."""
    netcdf = _library()
    path = Path(path)
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    try:
        dataset = netcdf.Dataset(path)
    except OSError as error:
        raise ParseError(path, "this is not a NetCDF file.") from error
    with dataset:
        found = dataset.variables
        axes = ("lat", "lon") if "lat" in found else tuple(axis for axis in "xyz" if axis in found)
        missing = [name for name in ("trajectory", "rowSize", "time", *axes[:1]) if name not in found]
        if missing or not axes or getattr(dataset, "featureType", "").lower() != "trajectory":
            raise ParseError(path, "this is not a CF trajectory in a contiguous ragged array.")
        names = [str(name) for name in np.atleast_1d(found["trajectory"][:])]
        ends = np.cumsum(np.asarray(found["rowSize"][:], dtype=np.int64))
        times = np.asarray(found["time"][:], dtype=np.float64)
        positions = np.column_stack([np.asarray(found[axis][:], dtype=np.float64) for axis in axes])
    if len(ends) != len(names) or (len(ends) and ends[-1] != len(times)):
        raise ParseError(path, "its row sizes do not add up to its rows.")
    parts = zip(np.split(times, ends[:-1]), np.split(positions, ends[:-1]), strict=True)
    return dict(zip(names, parts, strict=True))
