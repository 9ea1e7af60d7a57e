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
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.data.readers.border import as_parse_error, reader
from luce.data.text_files import write_csv
from luce.data.text_tables import TextTable, text_table
from luce.errors import DataError, LuceWarning, ParseError
from luce.storage import atomic_write, check_output
from luce.track.geometry import WGS84, Geometry, Plane
from luce.track.signals import Signals, Sources
from luce.types import FloatArray

if TYPE_CHECKING:
    from luce.track.result import Track


_OR_EMPTY = "a finite number, or empty where there is none"


def _times(table: TextTable, name: str, default: float | None = None) -> tuple[FloatArray, bool]:
    """A column of times, and whether they are dates; one column holds only one kind."""
    result, dated = np.full(len(table), np.nan if default is None else default), None
    for row, cell in enumerate(table.texts(name)):
        if not cell:
            if default is None:
                raise table.error(row, f"the column {name!r} is empty.")
            continue
        try:
            result[row], is_date = parse_time(cell)
        except DataError as error:
            raise table.error(row, str(error)) from None
        if dated is not None and is_date != dated:
            raise table.error(row, f"{name} mixes dates and numbers.")
        dated = is_date
    return result, bool(dated)


def parse_time(value: Any) -> tuple[float, bool]:
    """A number as it is, or a date as days since 1970-01-01 UTC; and whether it was a date.

    >>> parse_time("1970-01-02T01:00:00+01:00"), parse_time("3.5")
    ((1.0, True), (3.5, False))
    """
    if isinstance(value, int | float | np.number):
        return float(value), False
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        text = value.isoformat() if hasattr(value, "isoformat") else str(value).strip()
        try:
            return float(text), False
        except ValueError:
            pass
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            message = (
                f"the time {text!r} is neither a number nor a date such as 2009-01-23 or 2009-01-23T12:00:00+02:00."
            )
            raise DataError(message) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86400, True


def date_text(day: float) -> str:
    """Days since 1970-01-01 as a date, without the time of day at midnight.

    >>> date_text(14610.0), date_text(0.5)
    ('2010-01-01', '1970-01-01T12:00:00Z')
    """
    moment = datetime.fromtimestamp(round(day * 86400), tz=UTC)
    return moment.strftime("%Y-%m-%d" if moment.time() == datetime.min.time() else "%Y-%m-%dT%H:%M:%SZ")


_AXES = (("lat", "lon"), ("x", "y", "z"), ("x", "y"))


def _geometry_of(table: TextTable) -> tuple[Geometry, FloatArray]:
    """The geometry that the columns tell, and the positions."""
    axes = next(axes for axes in _AXES if set(axes) <= set(table.columns))
    geometry: Geometry = WGS84() if "lat" in axes else Plane(len(axes))
    return geometry, np.column_stack([table.numbers(axis) for axis in axes])


@reader
def read_sources(path: str | Path) -> Sources:
    """Sources from a table: CSV, Parquet or JSON lines."""
    optional = ("source", "offset", "start", "stop", "drift")
    table = text_table(path, _AXES, optional, gaps=optional)
    if not len(table):
        raise ParseError(path, "there are no sources.")
    table.say_unused(["lat", "lon", "x", "y", "z", *optional])
    has = table.columns
    for name in ("offset", "drift"):
        if name in has and 0 < has[name].null_count < len(table):
            message = f"{path}: {has[name].null_count} of {len(table)} sources have no {name}; it counts as 0."
            warnings.warn(message, LuceWarning, stacklevel=2)
    geometry, positions = _geometry_of(table)
    with as_parse_error(path):
        return Sources(
            positions,
            table.numbers("offset", default=0.0) if "offset" in has else None,
            table.texts("source") if "source" in has else None,
            start=_times(table, "start", -np.inf)[0] if "start" in has else None,
            stop=_times(table, "stop", np.inf)[0] if "stop" in has else None,
            drift=table.numbers("drift", default=0.0) if "drift" in has else None,
            geometry=geometry,
        )


@reader
def read_signals(path: str | Path) -> Signals:
    """Signals from a table (CSV, Parquet or JSON lines): one row an arrival."""
    optional = ("confidence", "label")
    table = text_table(path, [("time", "arrival")], optional, gaps=("time", "arrival", *optional))
    table.say_unused(["time", "arrival", *optional])
    times, dated = _times(table, "time")
    with as_parse_error(path):
        return Signals.from_rows(
            times,
            table.numbers("arrival", _OR_EMPTY, default=np.nan),
            confidence=table.numbers("confidence", _OR_EMPTY, default=np.nan)
            if "confidence" in table.columns
            else None,
            labels=table.texts("label") if "label" in table.columns else None,
            dated=dated,
        )


def write_rows(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns as CSV or, by the file's ending, Parquet."""
    path = check_output(path)
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        with atomic_write(path) as stream:
            parquet.write_table(pa.table({name: pa.array(list(values)) for name, values in columns.items()}), stream)
        return
    write_csv(path, columns, zip(*([_cell(v) for v in values] for values in columns.values()), strict=True))


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    return int(value) if isinstance(value, bool | np.bool_) else value


def _time_column(times: FloatArray, dated: bool) -> list[Any]:
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
    names = signals.labels if labels and signals.labels is not None else None
    rows: list[tuple[Any, ...]] = []
    stamps = _time_column(signals.times, signals.dated)
    for k, stamp in enumerate(stamps):
        if not signals.was_listening(k):
            continue
        span = range(signals.offsets[k], signals.offsets[k + 1])
        for j in span:
            mark = np.nan if signals.confidence is None else signals.confidence[j]
            rows.append((stamp, float(signals.arrivals[j]), float(mark), "" if names is None else names[j]))
        if not len(span):
            rows.append((stamp, float("nan"), float("nan"), ""))
    time, arrival, confidence, label = (list(column) for column in zip(*rows, strict=True))
    columns: dict[str, Sequence[Any]] = {"time": time, "arrival": arrival}
    if signals.confidence is not None:
        columns["confidence"] = confidence
    if names is not None:
        columns["label"] = label
    write_rows(path, columns)


def write_track(track: Track, path: str | Path, name: str = "1") -> None:
    """A track as CSV, Parquet or CF trajectory, by the file's ending."""
    path = Path(path)
    if path.suffix == ".nc":
        from luce.track.netcdf import write_netcdf

        write_netcdf(path, {name: track})
        return
    columns = track.columns()
    columns["time"] = _time_column(track.times, track.signals.dated)
    write_rows(path, columns)


@reader
def read_track(path: str | Path) -> tuple[FloatArray, FloatArray]:
    """Times and positions of a track: CSV, Parquet, or the first trajectory of a CF file."""
    path = Path(path)
    if path.suffix == ".nc":
        from luce.track.netcdf import read_netcdf

        return next(iter(read_netcdf(path).values()))
    table = text_table(path, [("time", *axes) for axes in _AXES], gaps=["time"])
    times, _ = _times(table, "time")
    geometry, positions = _geometry_of(table)
    with as_parse_error(path):
        return times, geometry.check(positions, "Positions of the track")
