"""Sound sources and the receiver's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError
from luce.track.geometry import Geometry, Plane
from luce.types import FloatArray


@dataclass(frozen=True, eq=False)
class Sources:
    """Sources at known places, each with the time at which it sends in a cycle.

    A signal of source i reaches X at `offsets[i] + drift[i] (t - start[i]) + |X - b_i| / speed`.

    Parameters
    ----------
    positions
        One row a source, in the coordinates of `geometry`.
    offsets
        Emission time within a cycle, seconds; zero where not given.
    names
        Labels; "1", "2", ... where not given.
    start, stop
        When a source works, in the unit of the signals' times (days since 1970-01-01 UTC for dates).
    drift
        Drift of the source's clock in seconds per unit of time since `start`.
    geometry
        `Plane` of as many dimensions as positions have, unless given.

    >>> Sources([[0, 0], [1, 0]], names=["a", "b"]).names
    ('a', 'b')
    """

    positions: FloatArray
    offsets: FloatArray
    names: tuple[str, ...]
    start: FloatArray
    stop: FloatArray
    drift: FloatArray
    geometry: Geometry

    def __init__(
        self,
        positions: ArrayLike,
        offsets: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        *,
        start: ArrayLike | None = None,
        stop: ArrayLike | None = None,
        drift: ArrayLike | None = None,
        geometry: Geometry | None = None,
    ) -> None:
        if geometry is None:
            shape = np.shape(positions)
            geometry = Plane(shape[1] if len(shape) == 2 else 2)
        points = geometry.check(positions, "Positions of sources")
        s = len(points)
        names = tuple(str(i + 1) for i in range(s)) if names is None else tuple(str(name) for name in names)
        if len(names) != s or len(set(names)) != s or "clutter" in names or "" in names:
            raise DataError(
                f"Sources need {s} different names, none of them empty or 'clutter'; got {', '.join(map(repr, names))}."
            )
        self._set("geometry", geometry)
        self._set("positions", points)
        self._set("names", names)
        self._set("offsets", _column(offsets, s, 0.0, "Emission offsets"))
        self._set("start", _column(start, s, -np.inf, "Start times of sources", infinite=True))
        self._set("stop", _column(stop, s, np.inf, "Stop times of sources", infinite=True))
        self._set("drift", _column(drift, s, 0.0, "Clock drifts of sources"))
        self._check_apart()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_apart(self) -> None:
        """Two sources at one place that send at one time cannot be told apart by anything."""
        if len(set(map(tuple, np.column_stack([self.positions, self.offsets]).tolist()))) == len(self):
            return
        for i in range(len(self)):
            same = np.all(self.positions[:i] == self.positions[i], axis=1) & (self.offsets[:i] == self.offsets[i])
            same &= (self.start[:i] <= self.stop[i]) & (self.start[i] <= self.stop[:i])
            if np.any(same):
                other = self.names[int(np.argmax(same))]
                raise DataError(
                    f"Sources {other!r} and {self.names[i]!r} are at one place and send at the same time, so their "
                    "signals cannot be told apart; remove one or give them different offsets."
                )

    def __len__(self) -> int:
        return len(self.positions)

    @classmethod
    def of(cls, value: Any, geometry: Geometry | None = None) -> Sources:
        """Sources as they are, or made from a matrix of positions."""
        return value if isinstance(value, Sources) else cls(value, geometry=geometry)

    def active(self, time: float | None) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which sources work at a time; all of them where no time is given."""
        if time is None:
            return np.ones(len(self), dtype=bool)
        return (self.start <= time) & (time <= self.stop)

    def emission(self, time: float | None) -> FloatArray:
        """Emission times within the cycle, the clocks' drift included."""
        if time is None or not np.any(self.drift):
            return self.offsets
        since = np.where(np.isfinite(self.start), time - self.start, 0.0)
        return self.offsets + self.drift * since


@dataclass(frozen=True)
class Receiver:
    """A clock that is `launch_offset` seconds ahead at `launch` and `recovery_offset` at `recovery`, linear between.

    >>> Receiver(0.0, 2.0, launch=100, recovery=200).clock_offset(np.array([150.0]))
    array([1.])
    """

    launch_offset: float = 0.0
    recovery_offset: float = 0.0
    launch: float = 0.0
    recovery: float = 1.0

    def __post_init__(self) -> None:
        if not np.all(np.isfinite([self.launch_offset, self.recovery_offset, self.launch, self.recovery])):
            raise DataError(f"A receiver's clock offsets and dates must be finite numbers; got {self}.")
        if not self.recovery > self.launch:
            raise DataError(f"A receiver is recovered after its launch; got {self.launch:g} and {self.recovery:g}.")

    def clock_offset(self, times: FloatArray) -> FloatArray:
        """Seconds by which the clock is ahead; arrivals are corrected by subtracting them."""
        share = (np.asarray(times, dtype=np.float64) - self.launch) / (self.recovery - self.launch)
        return self.launch_offset + share * (self.recovery_offset - self.launch_offset)


def _column(values: ArrayLike | None, s: int, default: float, what: str, *, infinite: bool = False) -> FloatArray:
    if values is None:
        return np.full(s, default)
    array = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (s,)) if np.ndim(values) == 0 else values)
    array = array.astype(np.float64)
    if array.shape != (s,):
        raise DataError(f"{what} must be one number a source, {s} in all; got shape {array.shape}.")
    if np.any(np.isnan(array)) or (not infinite and np.any(np.isinf(array))):
        raise DataError(f"{what} must be finite numbers.")
    return array
