"""What is heard and from where: sources, receivers and signals."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luce.errors import DataError, LuceWarning, SettingError
from luce.registry import canonical, unknown_name
from luce.track.geometry import Geometry, Plane
from luce.types import FloatArray, IntArray


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
        columns = {
            "offsets": _column(offsets, s, 0.0, "Emission offsets"),
            "start": _column(start, s, -np.inf, "Start times of sources", infinite=True),
            "stop": _column(stop, s, np.inf, "Stop times of sources", infinite=True),
            "drift": _column(drift, s, 0.0, "Clock drifts of sources"),
        }
        vars(self).update(columns, positions=points, names=names, geometry=geometry)
        self._check_apart()

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
    array = np.array(np.full(s, values) if np.ndim(values) == 0 else values, dtype=np.float64)
    if array.shape != (s,):
        raise DataError(f"{what} must be one number a source, {s} in all; got shape {array.shape}.")
    if np.any(np.isnan(array)) or (not infinite and np.any(np.isinf(array))):
        raise DataError(f"{what} must be finite numbers.")
    return array


CLUTTER = -1
UNKNOWN = -2
KEEP_RULES = ("earliest", "strongest", "all")


@dataclass(frozen=True, eq=False)
class Signals:
    """Unlabelled arrivals of every step, earliest first.

    Parameters
    ----------
    times
        One time a step, increasing; days since 1970-01-01 UTC where `dated`.
    arrivals, offsets
        Step k kept `arrivals[offsets[k]:offsets[k + 1]]`, seconds since the start of its cycle, in increasing order.
    confidence
        Probability that each signal is genuine, so that its own P_C is 1 minus that; NaN where unknown.
    labels
        Name of the source of each signal where somebody has labelled it by hand, "clutter", or "" for unknown.
    listened
        False for a step at which the receiver was not on: it says nothing, where a step without arrivals says that
        nothing was heard.
    dated
        Whether times are dates.

    >>> signals = Signals.from_lists([0, 1], [[0.1, 0.3], []])
    >>> signals.step(0).tolist(), signals.counts.tolist()
    ([0.1, 0.3], [2, 0])
    """

    times: FloatArray
    arrivals: FloatArray
    offsets: IntArray
    confidence: FloatArray | None = None
    labels: NDArray[Any] | None = None
    listened: NDArray[np.bool_] | None = None
    dated: bool = False

    @classmethod
    def from_lists(
        cls,
        times: ArrayLike,
        arrivals: Sequence[ArrayLike],
        *,
        confidence: Sequence[ArrayLike] | None = None,
        labels: Sequence[Sequence[str | None]] | None = None,
        dated: bool = False,
    ) -> Signals:
        """From one list of arrivals a step; NaN counts as no arrival, as in `from_rows`."""
        at = np.asarray(times, dtype=np.float64)
        if at.ndim != 1 or len(at) != len(arrivals):
            raise DataError(
                f"Give one list of arrivals a time; got {len(arrivals)} lists and times of shape {at.shape}."
            )
        sizes = [np.size(step) for step in arrivals]
        marks = None if confidence is None else _joined(confidence)
        names = None if labels is None else [name or "" for step_labels in labels for name in step_labels]
        rows = np.repeat(at, sizes)
        return cls.from_rows(rows, _joined(arrivals), confidence=marks, labels=names, steps=at, dated=dated)

    @classmethod
    def from_rows(
        cls,
        times: ArrayLike,
        arrivals: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        steps: ArrayLike | None = None,
        dated: bool = False,
    ) -> Signals:
        """From tidy rows: one arrival each; a row whose arrival is NaN is a step at which nothing was heard.

        NaN beside other arrivals of its step counts as no arrival too, and how many there are is said in a warning.
        `steps` may name further times at which nothing was heard. Rows need not be sorted: they are, with a warning.
        """
        at = _vector(times, "Times of signals")
        heard = np.asarray(arrivals, dtype=np.float64).reshape(-1)
        marks = None if confidence is None else np.asarray(confidence, dtype=np.float64).reshape(-1)
        names = None if labels is None else np.array([name or "" for name in labels], dtype=object)
        for what, column in (("arrivals", heard), ("confidences", marks), ("labels", names)):
            if column is not None and len(column) != len(at):
                raise DataError(f"Give one time a signal; got {len(at)} times and {len(column)} {what}.")
        _check_values(heard, marks)
        more = np.zeros(0) if steps is None else _vector(steps, "Times of steps")
        every = np.unique(np.concatenate([at, more]))
        if len(every) == 0:
            raise DataError("There are no signals: give at least one time step.")
        order = np.lexsort((heard, at))
        _say_what_is_odd(at, heard, more)
        order = order[~np.isnan(heard[order])]
        offsets = np.append(np.searchsorted(at[order], every), len(order)).astype(np.int64)
        marks = None if marks is None else marks[order]
        names = None if names is None else names[order]
        return cls(every, heard[order], offsets, marks, names, None, dated)

    def __len__(self) -> int:
        return len(self.times)

    def step(self, k: int) -> FloatArray:
        """Arrivals of step k."""
        return self.arrivals[self.offsets[k] : self.offsets[k + 1]]

    @property
    def counts(self) -> IntArray:
        """Number of arrivals of every step."""
        return np.diff(self.offsets)

    @property
    def period(self) -> float:
        """The usual time between two steps; 1 where there is only one."""
        return float(np.median(np.diff(self.times))) if len(self) > 1 else 1.0

    def was_listening(self, k: int) -> bool:
        """Whether the receiver was on at step k."""
        return self.listened is None or bool(self.listened[k])

    def corrected(self, receiver: Receiver) -> Signals:
        """Arrivals with the receiver's clock error taken out."""
        shift = np.repeat(receiver.clock_offset(self.times), self.counts)
        return replace(self, arrivals=self.arrivals - shift)

    def keep(self, rule: str, r: int | None) -> Signals:
        """What a receiver with room for r signals a step keeps: the earliest, the strongest (confidence) or all."""
        rule = known_name("rule for keeping signals", rule, KEEP_RULES)
        if rule == "all" or r is None or np.all(self.counts <= r):
            return self
        if rule == "strongest" and self.confidence is None:
            raise DataError("The rule 'strongest' needs a confidence for every signal; there are none.")
        step = np.repeat(np.arange(len(self)), self.counts)
        rows = np.arange(len(step))
        if rule == "strongest" and self.confidence is not None:
            rows = np.lexsort((-np.nan_to_num(self.confidence), step))
        rows = np.sort(rows[np.arange(len(step)) - self.offsets[step] < r])
        confidence = None if self.confidence is None else self.confidence[rows]
        labels = None if self.labels is None else self.labels[rows]
        offsets = np.searchsorted(step[rows], np.arange(len(self) + 1)).astype(np.int64)
        return replace(self, arrivals=self.arrivals[rows], offsets=offsets, confidence=confidence, labels=labels)

    def fill_gaps(self, period: float | None = None) -> Signals:
        """Add steps at which the receiver was off, so that a track has a position for every cycle."""
        period = self.period if period is None else period
        if not period > 0:
            raise SettingError(f"The period is {period:g}; it must be above 0.")
        missing = np.maximum(np.rint(np.diff(self.times) / period).astype(np.int64) - 1, 0)
        place = np.arange(len(self)) + np.append(0, np.cumsum(missing))
        every = np.arange(place[-1] + 1)
        before = np.searchsorted(place, every, side="right") - 1
        listened, counts = np.zeros(len(every), dtype=bool), np.zeros(len(every), dtype=np.int64)
        listened[place] = True if self.listened is None else self.listened
        counts[place] = self.counts
        times, offsets = self.times[before] + (every - place[before]) * period, np.append(0, np.cumsum(counts))
        return replace(self, times=times, offsets=offsets, listened=listened)


def known_name(kind: str, name: str, known: Collection[str]) -> str:
    """The registered spelling of a name."""
    if canonical(name) not in known:
        raise unknown_name(kind, name, known)
    return canonical(name)


def label_codes(labels: Sequence[Any] | NDArray[Any], sources: Sources) -> IntArray:
    """Numbers of the named sources; `CLUTTER` and `UNKNOWN` for "clutter" and "".

    >>> label_codes(["2", "clutter", ""], Sources([[0, 0], [1, 1]])).tolist()
    [1, -1, -2]
    """
    known = {name: i for i, name in enumerate(sources.names)} | {"clutter": CLUTTER, "": UNKNOWN}
    codes = np.empty(len(labels), dtype=np.int64)
    for j, label in enumerate(labels):
        name = "" if label is None else str(label)
        if name not in known:
            raise unknown_name("source", name, [*sources.names, "clutter"])
        codes[j] = known[name]
    return codes


def _joined(lists: Sequence[ArrayLike]) -> FloatArray:
    return np.concatenate([np.zeros(0), *(np.asarray(values, dtype=np.float64).reshape(-1) for values in lists)])


def _vector(values: ArrayLike, what: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.all(np.isfinite(array)):
        raise DataError(f"{what} must be finite numbers.")
    return array


def _check_values(arrivals: FloatArray, confidence: FloatArray | None) -> None:
    if np.any(np.isinf(arrivals)):
        raise DataError("An arrival time is infinite; arrival times are finite numbers.")
    if np.any(arrivals < 0):
        raise DataError(
            f"An arrival time is {np.nanmin(arrivals):g}; arrival times count from the start of a cycle and are not "
            "negative."
        )
    if confidence is not None and np.any((confidence < 0) | (confidence > 1)):
        wrong = confidence[(confidence < 0) | (confidence > 1)][0]
        raise DataError(f"A confidence is {wrong:g}; it is the probability that a signal is genuine, between 0 and 1.")


def _say_what_is_odd(times: FloatArray, arrivals: FloatArray, steps: FloatArray) -> None:
    """Say it where rows were sorted, or are left out."""
    said, total = [], len(np.unique(times))
    if np.any(np.diff(times) < 0) or np.any(np.diff(steps) < 0):
        said.append("Signals were not in order of time; they were sorted.")
    wrong = np.unique(times[1:][(np.diff(times) == 0) & (np.diff(arrivals) < 0)])
    if len(wrong):
        said.append(f"Arrivals of {len(wrong)} of {total} steps were out of order; they were sorted.")
    missing = np.isnan(arrivals)
    beside = missing & np.isin(times, times[~missing])
    if np.any(beside):
        said.append(
            f"{np.count_nonzero(beside)} arrivals in {len(np.unique(times[beside]))} of {total} steps are NaN beside "
            "others of their step; they count as not heard."
        )
    for text in said:
        warnings.warn(text, LuceWarning, stacklevel=4)
