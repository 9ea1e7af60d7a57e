"""Reads one NetCDF file in a process of its own and prints its arrays; run as a script, it needs nothing of luce.

The library behind it hangs, crashes or takes all memory on some damaged files, inside C where nothing can stop it.
"""

from __future__ import annotations

import io
import sys
from typing import Any

NOT_NETCDF, NO_TRAJECTORY = "not NetCDF", "no trajectory"


def main(path: str, most_bytes: int) -> None:
    """Print the arrays of a contiguous ragged trajectory as `npz`, or why there are none to standard error."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # no such limits on this system
        pass
    import netCDF4
    import numpy as np

    try:
        dataset = netCDF4.Dataset(path)
    except OSError:
        sys.exit(NOT_NETCDF)
    found: dict[str, Any] = dataset.variables
    axes = ("lat", "lon") if "lat" in found else tuple(axis for axis in "xyz" if axis in found)
    missing = [name for name in ("trajectory", "rowSize", "time", *axes) if name not in found]
    if missing or not axes or str(getattr(dataset, "featureType", "")).lower() != "trajectory":
        sys.exit(NO_TRAJECTORY)
    arrays = {
        "names": np.array([str(name) for name in np.atleast_1d(found["trajectory"][:])], dtype=np.str_),
        "sizes": np.asarray(found["rowSize"][:], dtype=np.int64),
        "times": np.asarray(found["time"][:], dtype=np.float64),
        "positions": np.column_stack([np.asarray(found[axis][:], dtype=np.float64) for axis in axes]),
    }
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]  # its `allow_pickle` is a keyword too
    sys.stdout.buffer.write(stream.getvalue())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
