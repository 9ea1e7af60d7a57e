"""Damaged NetCDF files, which the library behind them does not always survive."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.fuzz.mutations import damaged_bytes

__all__ = ["AVAILABLE", "attack", "use"]

AVAILABLE = find_spec("netCDF4") is not None


@cache
def _clean() -> bytes:
    import netCDF4

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.nc"
        with netCDF4.Dataset(path, "w") as dataset:
            dataset.featureType = "trajectory"
            dataset.createDimension("obs", 4)
            dataset.createDimension("trajectory", 2)
            dataset.createVariable("trajectory", str, ("trajectory",))[:] = np.array(["a", "b"], dtype=object)
            dataset.createVariable("rowSize", "i4", ("trajectory",))[:] = [3, 1]
            for name in ("time", "lat", "lon"):
                dataset.createVariable(name, "f8", ("obs",))[:] = np.arange(4.0)
        return path.read_bytes()


def attack(rng: random.Random, path: Path) -> None:
    """A damaged file."""
    path.write_bytes(damaged_bytes(_clean(), rng, most=4))


def use(path: Path) -> None:
    """Read it."""
    from luce.track.netcdf import read_netcdf

    read_netcdf(path)
