"""Where things are: the plane (any number of dimensions) and the WGS84 ellipsoid.

A geometry measures distances from positions to sources, and moves positions by small displacements. A displacement is
`wrap(to - from) * scale(from)`, so that the pair (move, displacement) is exact both ways and kernels need two small
arrays only: the scale of a position and the period of a coordinate (360 degrees of longitude, 0 for none).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from luce.errors import DataError
from luce.numerics.compiled import kernel, part
from luce.types import FloatArray

_A = 6378137.0
_F = 1 / 298.257223563
_B = _A * (1 - _F)
_E2 = _F * (2 - _F)
_EP2 = (_A**2 - _B**2) / _B**2
_POLE = math.cos(math.radians(89.99))


class Geometry:
    """What a track needs to know of space; flat unless a class says otherwise."""

    unit = ""
    """Of distances and displacements; empty where it is the user's own."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        raise NotImplementedError

    @property
    def period(self) -> FloatArray:
        """Period of each coordinate, 0 for none."""
        return np.zeros(len(self.axes))

    def check(self, positions: Any, what: str) -> FloatArray:
        """Positions as a float matrix, one row each, or a `DataError` that names `what`."""
        try:
            array = np.ascontiguousarray(positions, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{what} must be numbers, one row a position; got {type(positions).__name__}.") from error
        if array.ndim == 1 and array.size:
            array = array[None, :]
        if array.ndim != 2 or array.shape[1] == 0 or array.shape[1] != len(self.axes):
            raise DataError(
                f"{what} must have one row a position and {len(self.axes)} columns; got shape {np.shape(positions)}."
            )
        if not np.all(np.isfinite(array)):
            raise DataError(f"{what} must be finite; got a missing or infinite coordinate.")
        return array

    def distances(self, positions: FloatArray, points: FloatArray) -> FloatArray:
        """Distances, one row a position and one column a point."""
        return np.asarray(cdist(positions, points))

    def scale(self, positions: FloatArray) -> FloatArray:
        """Length of one unit of each coordinate at each position."""
        return np.ones_like(positions)

    def displacement(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Small displacements that lead from `start` to `end`, the short way round where a coordinate is periodic."""
        difference = end - start
        for axis in np.flatnonzero(self.period):
            difference[..., axis] = _wrap(difference[..., axis], self.period[axis])
        return difference * self.scale(np.atleast_2d(start)).reshape(start.shape)

    def move(self, positions: FloatArray, displacement: FloatArray) -> FloatArray:
        """Positions after a displacement."""
        return positions + displacement / self.scale(positions)


@dataclass(frozen=True)
class Plane(Geometry):
    """Flat space of `dimensions` dimensions, in whatever unit the user has.

    >>> Plane().distances(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([[5.]])
    """

    dimensions: int = 2

    @property
    def axes(self) -> tuple[str, ...]:
        """x, y, z, then x3, x4, ..."""
        return tuple("xyz"[i] if i < 3 else f"x{i}" for i in range(self.dimensions))


@dataclass(frozen=True)
class WGS84(Geometry):
    """The earth: positions are (latitude, longitude) in degrees, distances and displacements (north, east) in metres.

    Distances are geodesics by Vincenty's inverse formula with two fixed corrections of the longitude difference,
    which err by less than 0.2 m up to 5,000 km and 1 m up to 15,000 km; haversine errs by kilometres. Nearly antipodal
    points, where the formula does not converge, are not meant.

    >>> flinders, buninyong = np.array([[-37.951033417, 144.424867889]]), np.array([[-37.652821139, 143.926495528]])
    >>> WGS84().distances(flinders, buninyong).round(2)
    array([[54972.27]])
    """

    unit = "m"

    @property
    def axes(self) -> tuple[str, ...]:
        """Latitude first, as oceanographers write positions."""
        return ("lat", "lon")

    @property
    def period(self) -> FloatArray:
        """Longitude comes round after 360 degrees."""
        return np.array([0.0, 360.0])

    def check(self, positions: Any, what: str) -> FloatArray:
        """Latitudes within 90 degrees; longitudes brought into [-180, 180)."""
        array = super().check(positions, what)
        if np.any(np.abs(array[:, 0]) > 90):
            worst = array[np.argmax(np.abs(array[:, 0])), 0]
            raise DataError(f"{what} have latitude {worst:g}; latitudes lie in [-90, 90] and come before longitudes.")
        if np.any(np.abs(array[:, 1]) > 360):
            worst = array[np.argmax(np.abs(array[:, 1])), 1]
            raise DataError(f"{what} have longitude {worst:g}; longitudes lie in [-180, 360].")
        return np.column_stack([array[:, 0], _wrap(array[:, 1])])

    def distances(self, positions: FloatArray, points: FloatArray) -> FloatArray:
        """Geodesic distances in metres."""
        result = np.empty((len(positions), len(points)))
        _wgs84_distances(np.radians(positions), np.radians(points), result)
        return result

    def scale(self, positions: FloatArray) -> FloatArray:
        """Metres in one degree of latitude and of longitude: the radii of curvature of the ellipsoid."""
        latitude = np.radians(positions[:, 0])
        w = np.sqrt(1 - _E2 * np.sin(latitude) ** 2)
        north = _A * (1 - _E2) / w**3
        east = _A / w * np.maximum(np.cos(latitude), _POLE)
        return np.radians(np.column_stack([north, east]))

    def move(self, positions: FloatArray, displacement: FloatArray) -> FloatArray:
        """Positions after (north, east) metres; over a pole the latitude turns back and the longitude jumps by 180."""
        moved = super().move(positions, displacement)
        beyond = np.abs(moved[:, 0]) > 90
        if np.any(beyond):
            moved[beyond, 0] = np.copysign(180, moved[beyond, 0]) - moved[beyond, 0]
            moved[beyond, 1] += 180
        moved[:, 1] = _wrap(moved[:, 1])
        return moved


def _wrap(values: FloatArray, period: float = 360.0) -> FloatArray:
    return np.asarray(values - period * np.floor((values + period / 2) / period))


@kernel
def _wgs84_distances(positions: FloatArray, points: FloatArray, result: FloatArray) -> None:
    """Vincenty (1975), with sines and cosines of the longitude difference turned on by small angles."""
    s = points.shape[0]
    table = np.empty((s, 4))
    for i in range(s):
        reduced = math.atan((1 - _F) * math.tan(points[i, 0]))
        table[i, 0], table[i, 1] = math.sin(reduced), math.cos(reduced)
        table[i, 2], table[i, 3] = math.sin(points[i, 1]), math.cos(points[i, 1])
    for k in range(positions.shape[0]):
        reduced = math.atan((1 - _F) * math.tan(positions[k, 0]))
        sin1, cos1 = math.sin(reduced), math.cos(reduced)
        sin_lon, cos_lon = math.sin(positions[k, 1]), math.cos(positions[k, 1])
        for i in range(s):
            sin2, cos2 = table[i, 0], table[i, 1]
            sin_l = table[i, 2] * cos_lon - table[i, 3] * sin_lon
            cos_l = table[i, 3] * cos_lon + table[i, 2] * sin_lon
            result[k, i] = _vincenty(sin1, cos1, sin2, cos2, sin_l, cos_l)


@part
def _vincenty(sin1: float, cos1: float, sin2: float, cos2: float, sin_l: float, cos_l: float) -> float:
    sin_x, cos_x, shift = sin_l, cos_l, 0.0
    sin_s = cos_s = sigma = cos2_alpha = cos_2m = 0.0
    for step in range(3):
        a = cos2 * sin_x
        b = cos1 * sin2 - sin1 * cos2 * cos_x
        sin_s = math.sqrt(a * a + b * b)
        if sin_s < 1e-15:
            return 0.0
        cos_s = sin1 * sin2 + cos1 * cos2 * cos_x
        sigma = math.atan2(sin_s, cos_s)
        sin_alpha = cos1 * cos2 * sin_x / sin_s
        cos2_alpha = 1 - sin_alpha * sin_alpha
        cos_2m = cos_s - 2 * sin1 * sin2 / cos2_alpha if cos2_alpha > 1e-12 else 0.0
        if step == 2:
            break
        c = _F / 16 * cos2_alpha * (4 + _F * (4 - 3 * cos2_alpha))
        bracket = cos_2m + c * cos_s * (-1 + 2 * cos_2m * cos_2m)
        shift = (1 - c) * _F * sin_alpha * (sigma + c * sin_s * bracket)
        # |shift| stays below 0.011, so four terms of its sine and cosine are good to 1e-12.
        q = shift * shift
        sin_d, cos_d = shift * (1 - q / 6 * (1 - q / 20)), 1 - q / 2 * (1 - q / 12 * (1 - q / 30))
        sin_x, cos_x = sin_l * cos_d + cos_l * sin_d, cos_l * cos_d - sin_l * sin_d
    u2 = cos2_alpha * _EP2
    big_a = 1 + u2 / 16384 * (4096 + u2 * (-768 + u2 * (320 - 175 * u2)))
    big_b = u2 / 1024 * (256 + u2 * (-128 + u2 * (74 - 47 * u2)))
    inner = cos_s * (-1 + 2 * cos_2m * cos_2m)
    inner -= big_b / 6 * cos_2m * (-3 + 4 * sin_s * sin_s) * (-3 + 4 * cos_2m * cos_2m)
    return _B * big_a * (sigma - big_b * sin_s * (cos_2m + big_b / 4 * inner))
