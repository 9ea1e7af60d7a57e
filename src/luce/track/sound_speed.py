"""Speed of sound as a function of place and season, given as a grid.

A signal from b to X takes the integral of 1 / c along its path, a great circle on the earth or a straight line in the
plane: the distance times the mean slowness, here by Gauss's rule with eight points. Between the points of the grid the
slowness is interpolated linearly in both coordinates and, round the year, in the season; outside of the grid it is that
of the nearest edge. [Pareek] section 5.5.2 takes one speed everywhere.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.data.table import Table
from luce.data.text_files import reader
from luce.errors import DataError, ParseError, SettingError
from luce.numerics.compiled import kernel, part
from luce.track.geometry import WGS84, Geometry
from luce.types import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS


class SpeedGrid:
    """Speeds on a grid of places and, if wanted, seasons.

    Parameters
    ----------
    first, second
        Increasing coordinates of the grid: latitudes and longitudes on the earth, x and y in the plane.
    speed
        One a place, (len(first), len(second)), or one a season and place with the seasons first.
    seasons
        Shares of the year in [0, 1), increasing, one a season; month m is (m - 0.5) / 12.
    earth
        Whether coordinates are degrees on the earth.

    >>> grid = SpeedGrid([-60, -50], [-110, -70], [[1460, 1460], [1480, 1480]])
    >>> (1 / grid.slowness(np.array([[-55.0, -90.0]]), np.array([[-55.0, -80.0]]), None)).round(1)
    array([[1469.8]])
    """

    def __init__(
        self,
        first: ArrayLike,
        second: ArrayLike,
        speed: ArrayLike,
        *,
        seasons: ArrayLike | None = None,
        earth: bool = True,
    ) -> None:
        self.first, self.second = _axis(first, "first"), _axis(second, "second")
        self.earth = earth
        self.seasons = None if seasons is None else _axis(seasons, "season")
        values = np.asarray(speed, dtype=np.float64)
        shape = (len(self.first), len(self.second))
        wanted = shape if self.seasons is None else (len(self.seasons), *shape)
        if values.shape != wanted:
            raise DataError(f"Speeds have shape {values.shape}; the coordinates ask for {wanted}.")
        if not np.all((values > 0) & (values < np.inf)):
            wrong = values[~((values > 0) & (values < np.inf))][0]
            raise DataError(f"A speed of the grid is {wrong:g}; speeds are numbers above 0.")
        if self.seasons is not None and not (self.seasons[0] >= 0 and self.seasons[-1] < 1):
            raise DataError("Seasons are shares of the year, at least 0 and below 1.")
        self._slowness = np.ascontiguousarray((1 / values).reshape(-1, *shape))
        if earth:
            self._close()
        self.reference = float(1 / np.mean(self._slowness))

    def _close(self) -> None:
        """A grid right round the earth goes on after its last meridian with the first."""
        if np.any(np.abs(self.first) > 90):
            worst = self.first[np.argmax(np.abs(self.first))]
            raise DataError(f"The grid has latitude {worst:g}; latitudes lie in [-90, 90] and come first.")
        gap = 360 - (self.second[-1] - self.second[0])
        if gap < 0:
            raise DataError("The grid's longitudes go round the earth more than once.")
        if len(self.second) > 1 and 0 < gap <= 1.01 * np.max(np.diff(self.second)):
            self.second = np.append(self.second, self.second[0] + 360)
            self._slowness = np.ascontiguousarray(np.concatenate([self._slowness, self._slowness[:, :, :1]], axis=2))

    def __repr__(self) -> str:
        digest = hashlib.sha256()
        for array in (self.first, self.second, self.seasons, self._slowness):
            digest.update(b"-" if array is None else array.tobytes())
        seasons = "" if self.seasons is None else f", {len(self.seasons)} seasons"
        return f"SpeedGrid({len(self.first)} x {len(self.second)} places{seasons}, {digest.hexdigest()[:16]})"

    def check(self, geometry: Geometry, dated: bool) -> None:
        """Refuse a grid that does not belong to these positions and times."""
        if isinstance(geometry, WGS84) != self.earth or len(geometry.axes) != 2:
            mine = "lat, lon" if self.earth else "x, y"
            raise SettingError(f"The grid of speeds is over {mine}; positions are over {', '.join(geometry.axes)}.")
        if self.seasons is not None and not dated:
            raise SettingError("The grid of speeds has seasons; the signals need dates for their times.")

    def outside(self, positions: FloatArray) -> int:
        """How many positions lie outside of the grid, where the nearest edge counts."""
        second = positions[:, 1]
        if self.earth:
            second = second - 360 * np.floor((second - self._middle + 180) / 360)
        inside = (positions[:, 0] >= self.first[0]) & (positions[:, 0] <= self.first[-1])
        inside &= (second >= self.second[0]) & (second <= self.second[-1])
        return int(np.sum(~inside))

    @property
    def _middle(self) -> float:
        return float(0.5 * (self.second[0] + self.second[-1]))

    def at(self, time: float | None) -> FloatArray:
        """Slowness at the places of the grid on a day since 1970-01-01."""
        if self.seasons is None:
            return np.asarray(self._slowness[0])
        if time is None:
            raise SettingError("The grid of speeds has seasons; give the time of the step, in days since 1970-01-01.")
        share = _share_of_year(time)
        later = int(np.searchsorted(self.seasons, share, side="right"))
        before, after = (later - 1) % len(self.seasons), later % len(self.seasons)
        span = (self.seasons[after] - self.seasons[before]) % 1 or 1.0
        part_of = ((share - self.seasons[before]) % 1) / span
        return np.asarray((1 - part_of) * self._slowness[before] + part_of * self._slowness[after])

    def slowness(self, positions: FloatArray, points: FloatArray, time: float | None) -> FloatArray:
        """Mean slowness between every position and every point."""
        result = np.empty((len(positions), len(points)))
        grid = _Grid(self.first, self.second, np.ascontiguousarray(self.at(time)), self.earth, self._middle)
        _mean_slowness(grid, positions, points, result)
        return result


def _axis(values: ArrayLike, what: str) -> FloatArray:
    array = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    if not len(array) or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise DataError(f"The grid's {what} coordinates must be finite and increasing; got {array.tolist()[:5]}.")
    return array


def _share_of_year(day: float) -> float:
    """Where in its year a day since 1970-01-01 lies.

    >>> _share_of_year(0.0), round(_share_of_year(365.0 + 182.5), 6)
    (0.0, 0.5)
    """
    year = np.datetime64(math.floor(day), "D").astype("datetime64[Y]")
    first, last = (int(y.astype("datetime64[D]").astype(int)) for y in (year, year + 1))
    return (day - first) / (last - first)


@part
def _cell(axis: FloatArray, value: float) -> tuple[int, int, float]:
    """The points of the axis on either side of a value, or nearest to it, and how far it is from the first, 0 to 1."""
    last = axis.shape[0] - 1
    low = min(max(np.searchsorted(axis, value, side="right") - 1, 0), max(last - 1, 0))
    high = min(low + 1, last)
    share = (value - axis[low]) / (axis[high] - axis[low]) if high > low else 0.0
    return low, high, min(max(share, 0.0), 1.0)


class _Grid(NamedTuple):
    """Slowness at one time over the coordinates of the places, and the longitude in the middle of them."""

    first: FloatArray
    second: FloatArray
    table: FloatArray
    earth: bool
    middle: float


@part
def _interpolated(grid: _Grid, x: float, y: float) -> float:
    table = grid.table
    i, below, a = _cell(grid.first, x)
    j, beside, b = _cell(grid.second, y)
    near: float = (1 - b) * table[i, j] + b * table[i, beside]
    far: float = (1 - b) * table[below, j] + b * table[below, beside]
    value: float = (1 - a) * near + a * far
    return value


@kernel
def _mean_slowness(grid: _Grid, positions: FloatArray, points: FloatArray, result: FloatArray) -> None:
    """Quadrature of the slowness along the path of every pair."""
    degree = math.pi / 180
    for k in range(positions.shape[0]):
        x, y = positions[k, 0], positions[k, 1]
        for i in range(points.shape[0]):
            to_x, to_y = points[i, 0], points[i, 1]
            turn = to_y - y
            arc = 0.0
            if grid.earth:
                turn -= 360 * math.floor(turn / 360 + 0.5)
                cosine = math.sin(x * degree) * math.sin(to_x * degree)
                cosine += math.cos(x * degree) * math.cos(to_x * degree) * math.cos(turn * degree)
                arc = math.acos(min(max(cosine, -1.0), 1.0))
            total = 0.0
            for q in range(_NODES.shape[0]):
                at_x, at_y = x + _NODES[q] * (to_x - x), y + _NODES[q] * turn
                if arc > 1e-6:
                    here, there = math.sin((1 - _NODES[q]) * arc), math.sin(_NODES[q] * arc)
                    u = here * math.cos(x * degree) + there * math.cos(to_x * degree) * math.cos(turn * degree)
                    v = there * math.cos(to_x * degree) * math.sin(turn * degree)
                    w = here * math.sin(x * degree) + there * math.sin(to_x * degree)
                    at_x, at_y = math.atan2(w, math.sqrt(u * u + v * v)) / degree, y + math.atan2(v, u) / degree
                if grid.earth:
                    at_y -= 360 * math.floor((at_y - grid.middle + 180) / 360)
                total += _WEIGHTS[q] * _interpolated(grid, at_x, at_y)
            result[k, i] = total


@reader
def read_speed(path: str | Path) -> SpeedGrid:
    """A grid of speeds from a table: `lat`, `lon` (or `x`, `y`), `speed`, and perhaps `month` or `day` of the year."""
    table = Table.open(path).choose([("lat", "lon", "speed"), ("x", "y", "speed")], ("month", "day"))
    earth = "lat" in table
    places = [table[name].number() for name in (("lat", "lon") if earth else ("x", "y"))]
    if "month" in table and "day" in table:
        raise ParseError(path, "give month or day, not both.")
    parts = {"month": 12.0, "day": 366.0}  # shares of the year, from the middle of the month or the day
    season = [(table[n].number("a number", least=1, most=p) - 0.5) / p for n, p in parts.items() if n in table]
    columns = [*season, *places]
    axes, codes = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
    shape = tuple(len(axis) for axis in axes)
    speed, size = table["speed"].number(), math.prod(shape)
    known = len(np.unique(np.ravel_multi_index(codes, shape)))
    if known < len(speed):
        raise ParseError(path, "a place of the grid stands there twice; every place (and season) has one speed.")
    if known < size:
        raise ParseError(path, f"the grid is not whole: {size - known} of {size} places (and seasons) have no speed.")
    values = np.empty(shape)
    values[codes] = speed
    return SpeedGrid(axes[-2], axes[-1], values, earth=earth, seasons=axes[0] if season else None)
