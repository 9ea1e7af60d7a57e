"""Tidy files: sources, signals and tracks as CSV or Parquet; tracks also as CF trajectories (see `netcdf`).

Sources: `source`, then `lat`, `lon` (WGS84) or `x`, `y`[, `z`] (plane), and optionally `offset`, `start`, `stop`,
`drift`. Signals: `time`, `arrival`, and optionally `confidence`, `label`; an empty arrival is a step at which nothing
was heard. Times are numbers, or dates in ISO 8601 (with a time zone, or UTC), which become days since 1970-01-01 UTC.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.late import pa, pq
from luce.data.table import Rows, Table
from luce.data.text_files import reader, write_csv
from luce.errors import LuceWarning, ParseError
from luce.storage import atomic_write, check_output
from luce.track.geometry import WGS84, Geometry, Plane
from luce.track.signals import Signals, Sources
from luce.types import FloatArray

_OR_EMPTY = "a finite number, or empty where there is none"


def date_text(day: float) -> str:
    """Days since 1970-01-01 as a date, without the time of day at midnight.

    >>> date_text(14610.0), date_text(0.5)
    ('2010-01-01', '1970-01-01T12:00:00Z')
    """
    moment = datetime.fromtimestamp(round(day * 86400), tz=UTC)
    return moment.strftime("%Y-%m-%d" if moment.time() == datetime.min.time() else "%Y-%m-%dT%H:%M:%SZ")


_AXES = (("lat", "lon"), ("x", "y", "z"), ("x", "y"))


def _geometry_of(table: Rows) -> tuple[Geometry, FloatArray]:
    """The geometry that the columns tell, and the positions."""
    axes = next(axes for axes in _AXES if set(axes) <= set(table.names))
    geometry: Geometry = WGS84() if "lat" in axes else Plane(len(axes))
    return geometry, np.column_stack([table[axis].number() for axis in axes])


@reader
def read_sources(path: str | Path) -> Sources:
    """Sources from a table: CSV, Parquet or JSON lines."""
    optional = ("source", "offset", "start", "stop", "drift")
    file = Table.open(path)
    table = file.choose(_AXES, optional, gaps=optional)
    if not len(table):
        raise ParseError(path, "there are no sources.")
    file.say_unused(["lat", "lon", "x", "y", "z", *optional])
    for name in ("offset", "drift"):
        if name in table and 0 < (gaps := table[name].texts().null_count) < len(table):
            message = f"{path}: {gaps} of {len(table)} sources have no {name}; it counts as 0."
            warnings.warn(message, LuceWarning, stacklevel=2)
    geometry, positions = _geometry_of(table)
    return Sources(
        positions,
        table["offset"].number(default=0.0) if "offset" in table else None,
        table["source"].text() if "source" in table else None,
        start=table["start"].times(-np.inf)[0] if "start" in table else None,
        stop=table["stop"].times(np.inf)[0] if "stop" in table else None,
        drift=table["drift"].number(default=0.0) if "drift" in table else None,
        geometry=geometry,
    )


@reader
def read_signals(path: str | Path) -> Signals:
    """Signals from a table (CSV, Parquet or JSON lines): one row an arrival."""
    optional = ("confidence", "label")
    file = Table.open(path)
    table = file.choose([("time", "arrival")], optional, gaps=("arrival", *optional))
    file.say_unused(["time", "arrival", *optional])
    times, dated = table["time"].times()
    return Signals.from_rows(
        times,
        table["arrival"].number(_OR_EMPTY, default=np.nan),
        confidence=table["confidence"].number(_OR_EMPTY, default=np.nan) if "confidence" in table else None,
        labels=table["label"].text() if "label" in table else None,
        dated=dated,
    )


def write_rows(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns as CSV or, by the file's ending, Parquet."""
    path = check_output(path)
    if path.suffix.lower() == ".parquet":
        with atomic_write(path) as stream:
            pq.write_table(pa.table({name: pa.array(list(values)) for name, values in columns.items()}), stream)
        return
    write_csv(path, columns, zip(*([_cell(v) for v in values] for values in columns.values()), strict=True))


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return int(value) if isinstance(value, bool | np.bool_) else value


def time_column(times: FloatArray, dated: bool) -> list[Any]:
    """Times as dates, or as the numbers that they are."""
    return [date_text(t) for t in times] if dated else [float(t) for t in times]


def write_sources(sources: Sources, path: str | Path, *, dated: bool = True) -> None:
    """Sources as CSV or Parquet; their dates of work only where they have any."""
    columns: dict[str, Sequence[Any]] = {"source": list(sources.names)}
    columns |= {axis: sources.positions[:, a].tolist() for a, axis in enumerate(sources.geometry.axes)}
    columns["offset"] = sources.offsets.tolist()
    if np.any(np.isfinite(sources.start)) or np.any(np.isfinite(sources.stop)):
        for name, values in (("start", sources.start), ("stop", sources.stop)):
            columns[name] = ["" if np.isinf(t) else date_text(t) if dated else repr(float(t)) for t in values]
    if np.any(sources.drift):
        columns["drift"] = sources.drift.tolist()
    write_rows(path, columns)


def write_signals(signals: Signals, path: str | Path, *, labels: bool = True) -> None:
    """Signals as CSV or Parquet; a step without arrivals is a row with an empty one."""
    heard = np.array([signals.was_listening(k) for k in range(len(signals))])
    rows = np.where(heard, np.maximum(signals.counts, 1), 0)
    stamps = np.array(time_column(signals.times, signals.dated), dtype=object)
    full = np.repeat(signals.counts > 0, rows)
    columns: dict[str, Any] = {"time": np.repeat(stamps, rows).tolist()}
    marks = signals.labels if labels else None
    for name, values, empty in (
        ("arrival", signals.arrivals, np.nan),
        ("confidence", signals.confidence, np.nan),
        ("label", marks, ""),
    ):
        if values is not None:
            columns[name] = np.full(rows.sum(), empty, dtype=values.dtype)
            columns[name][full] = values
    write_rows(path, columns)


@reader
def read_track(path: str | Path) -> tuple[FloatArray, FloatArray]:
    """Times and positions of a track: CSV, Parquet, or the first trajectory of a CF file."""
    path = Path(path)
    if path.suffix.lower() == ".nc":
        from luce.track.netcdf import read_netcdf

        return next(iter(read_netcdf(path).values()))
    table = Table.open(path).choose([("time", *axes) for axes in _AXES])
    times, _ = table["time"].times()
    geometry, positions = _geometry_of(table)
    return times, geometry.check(positions, "Positions of the track")
