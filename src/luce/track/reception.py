"""What a receiver hears: the settings of the observation model, and the tables of one step made from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import is_whole
from luce.errors import DataError, SettingError
from luce.registry import canonical, unknown_name
from luce.track.geometry import Geometry
from luce.track.signals import CLUTTER, UNKNOWN, check_rule
from luce.track.sound_speed import SpeedGrid
from luce.track.tables import Step
from luce.types import FloatArray, IntArray

OfRange = float | ArrayLike | Callable[[FloatArray], FloatArray]
"""A number, one number a source, or a function of the range."""

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class Reception:
    """The observation model of [Pareek] section 5.4.

    Parameters
    ----------
    sigma
        Standard deviation of an arrival time: a number, one a source, or a function of the range that takes an array.
    speed
        Speed of the signals, in units of distance per second: a number, or a `SpeedGrid` over places and seasons. With
        a grid, functions of the range get travel time times the grid's mean speed.
    detection
        P_D, the probability that a source is heard; the same three forms.
    clutter_rate
        lambda, the mean number of clutter signals in the window; P_C = lambda / (1 + lambda), [Pareek] (5.27).
    window
        (a, b): clutter is uniform between them and listening ends at b. Needed with clutter, and where fewer than r
        signals can be kept.
    r
        Room of the receiver: how many signals it keeps. None: as many as were kept, so that it was full.
    keep
        Which signals it keeps: the "earliest" (the model of [Pareek]), the "strongest", or "all" in the window. What
        was not kept says nothing about the target where the strongest were kept and the receiver was full.
    early
        "kept" or "lost": whether arrivals before a were recorded; where they are lost, a source that was not heard may
        have been too early.
    emission_sd
        Standard deviation of a shift that all emissions of a step have in common and that is not known: of the clock of
        the receiver, or of an animal's tag. 0: emission times are known.
    """

    sigma: OfRange
    speed: float | SpeedGrid = 1.0
    detection: OfRange = 1.0
    clutter_rate: float = 0.0
    window: tuple[float, float] | None = None
    r: int | None = None
    keep: str = "earliest"
    early: str = "kept"
    emission_sd: float = 0.0

    def __post_init__(self) -> None:
        number = isinstance(self.speed, int | float | np.number) and 0 < self.speed < math.inf
        if not (number or isinstance(self.speed, SpeedGrid)):
            raise SettingError(f"The speed is {self.speed!r}; it must be a number above 0, or a SpeedGrid.")
        if not 0 <= self.clutter_rate < math.inf:
            raise SettingError(f"The clutter rate is {self.clutter_rate!r}; it must be a number of at least 0.")
        if not (isinstance(self.emission_sd, int | float | np.number) and 0 <= self.emission_sd < math.inf):
            raise SettingError(f"emission_sd is {self.emission_sd!r}; it must be a number of at least 0.")
        if self.r is not None and not is_whole(self.r, least=1):
            raise SettingError(f"r is {self.r}; a receiver keeps a whole number of signals, at least 1.")
        object.__setattr__(self, "keep", check_rule(self.keep))
        object.__setattr__(self, "early", canonical(self.early))
        if self.early not in ("kept", "lost"):
            raise unknown_name("rule for early arrivals", self.early, ["kept", "lost"])
        if self.window is not None:
            a, b = (float(end) for end in self.window)
            if not -math.inf < a < b < math.inf:
                raise SettingError(f"The window is ({a:g}, {b:g}); its start must come before its end, both finite.")
            object.__setattr__(self, "window", (a, b))
        elif self.clutter_rate > 0 or self.early == "lost":
            raise SettingError("A window (a, b) is needed with clutter or lost early arrivals; give window=(a, b).")
        _check_number(self.sigma, "sigma", above_zero=True)
        _check_number(self.detection, "detection", above_zero=False)

    @property
    def mean_speed(self) -> float:
        """The speed, or the mean of the grid's."""
        return self.speed.reference if isinstance(self.speed, SpeedGrid) else float(self.speed)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Reception:
        """From keyword arguments; a name that is not a setting is an error that lists the settings."""
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise unknown_name("setting", name, known)
        if "sigma" not in settings:
            raise SettingError("sigma, the standard deviation of an arrival time, is needed.")
        return cls(**settings)

    def step(
        self,
        arrivals: FloatArray,
        offsets: FloatArray,
        *,
        confidence: FloatArray | None = None,
        labels: IntArray | None = None,
        ranked: bool = True,
        unheard: float = 1.0,
        columns: IntArray,
        n_sources: int,
        time: float | None = None,
    ) -> StepModel:
        """The model of one step: sorted arrivals, and emission offsets of the sources at work (numbers `columns`)."""
        n = len(arrivals)
        full = self.keep != "all" and n > 0 and (self.r is None or n >= self.r)
        tau = self._threshold(arrivals, full)
        rate = self.clutter_rate
        p_clutter = np.full(n, rate / (1 + rate))
        if confidence is not None:
            p_clutter = np.where(np.isnan(confidence), p_clutter, 1 - confidence)
        with np.errstate(divide="ignore"):
            log_clutter = np.log(p_clutter * self.clutter_density(arrivals)) + math.log1p(rate)
            gain = np.log1p(-p_clutter) + math.log1p(rate)
        log_gain = np.repeat(gain[None, :], len(offsets), axis=0)
        if labels is not None:
            _fix_labels(labels, columns, log_gain, log_clutter)
        constant = -rate * self._clutter_share(tau)
        uninformative = self.keep == "strongest" and full
        bound = labels is not None and bool(np.any(labels != UNKNOWN))
        return StepModel(
            self,
            arrivals,
            offsets,
            log_gain,
            log_clutter,
            tau,
            full,
            ranked,
            unheard,
            uninformative,
            bound,
            constant,
            columns,
            n_sources,
            time,
        )

    def _threshold(self, arrivals: FloatArray, full: bool) -> float:
        n, b = len(arrivals), math.inf if self.window is None else self.window[1]
        if n and arrivals[-1] > b:
            raise DataError(
                f"An arrival at {arrivals[-1]:g} lies after the end of the window, {b:g}; widen the window."
            )
        if n and self.window is not None and self.early == "lost" and arrivals[0] < self.window[0]:
            a = self.window[0]
            raise DataError(f"An arrival at {arrivals[0]:g} lies before the start of the window, {a:g}.")
        if full:
            return b if self.keep == "strongest" else float(arrivals[-1])
        if self.window is None:
            room = "all signals of its window" if self.r is None else f"{self.r} signals"
            raise SettingError(
                f"The receiver has room for {room} and kept {n}, so the end of its window matters; give window=(a, b)."
            )
        return b

    def clutter_density(self, times: FloatArray) -> FloatArray:
        """p_N: uniform on the window."""
        if self.window is None:
            return np.zeros(len(times))
        a, b = self.window
        return np.where((times >= a) & (times <= b), 1 / (b - a), 0.0)

    def _clutter_share(self, tau: float) -> float:
        if self.window is None:
            return 0.0
        a, b = self.window
        return min(max((tau - a) / (b - a), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class StepModel:
    """One step, ready for positions: `tables(distances)` is what the kernels take, `constant` adds to their result."""

    reception: Reception
    times: FloatArray
    offsets: FloatArray
    log_gain: FloatArray
    log_clutter: FloatArray
    tau: float
    full: bool
    ranked: bool
    unheard: float
    uninformative: bool
    bound: bool
    constant: float
    columns: IntArray
    n_sources: int
    time: float | None = None

    def ranges(self, geometry: Geometry, positions: FloatArray, points: FloatArray) -> FloatArray:
        """Distances from positions to sources at work; with a grid of speeds, travel times times its mean speed."""
        distances, speed = geometry.distances(positions, points), self.reception.speed
        if isinstance(speed, SpeedGrid):
            distances *= speed.reference * speed.slowness(positions, points, self.time)
        return distances

    def check_known_emission(self, what: str) -> None:
        """Refuse what has one answer for each shift of the emissions."""
        if self.reception.emission_sd > 0:
            raise SettingError(f"{what} needs known emission times; emission_sd is {self.reception.emission_sd:g}.")

    def tables(self, distances: FloatArray) -> Step:
        """The step's arrays; one row where nothing depends on the range, else one a position."""
        if callable(self.reception.sigma) or callable(self.reception.detection):
            return self._tables(distances)
        return self._shared

    @cached_property
    def _shared(self) -> Step:
        return self._tables(np.zeros((1, len(self.offsets))))

    def _tables(self, distances: FloatArray) -> Step:
        s = len(self.offsets)
        sigma = self._of_range(self.reception.sigma, distances, "sigma")
        detection = self._of_range(self.reception.detection, distances, "detection")
        rows = max(len(sigma), len(detection))
        sigma, detection = (np.ascontiguousarray(np.broadcast_to(x, (rows, s))) for x in (sigma, detection))
        absent = self.unheard * (1 - detection)
        if not self.ranked and self.bound:
            # With labels by hand and no late factor, sure detection must not forbid the sources that were not heard.
            absent = np.where(absent > 0, absent, 1.0)
        if self.uninformative:
            absent = np.ones_like(absent)
        with np.errstate(divide="ignore"):
            log_norm = np.log(detection) - np.log(sigma) - _HALF_LOG_TWO_PI
            log_absent = np.log(absent)
        early = self.reception.window[0] if self.reception.early == "lost" and self.reception.window else -math.inf
        return Step(
            1 / self.reception.mean_speed,
            self.offsets,
            1 / sigma,
            log_norm,
            detection,
            absent,
            log_absent,
            self.times,
            self.log_gain,
            self.log_clutter,
            self.tau,
            early,
            self.ranked and not self.uninformative,
            self.full,
        )

    def _of_range(self, value: OfRange, distances: FloatArray, what: str) -> FloatArray:
        if callable(value):
            result = np.asarray(value(distances), dtype=np.float64)
            result = np.ascontiguousarray(np.broadcast_to(result, distances.shape))
            _check_range(result, what, above_zero=what == "sigma")
            return result
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0:
            return np.full((1, len(self.columns)), float(array))
        if array.shape != (self.n_sources,):
            raise SettingError(
                f"{what} has shape {array.shape}; give one number, one a source ({self.n_sources}), or a function."
            )
        return array[None, self.columns]


def _fix_labels(labels: IntArray, columns: IntArray, log_gain: FloatArray, log_clutter: FloatArray) -> None:
    """Forbid what contradicts a label by hand."""
    for j, label in enumerate(labels):
        if label == UNKNOWN:
            continue
        if label == CLUTTER:
            log_gain[:, j] = -np.inf
            # A signal that is clutter for certain is clutter also where the model has none.
            log_clutter[j] = max(log_clutter[j], 0.0) if log_clutter[j] == -np.inf else log_clutter[j]
            continue
        if label not in columns:
            raise DataError("A signal is labelled with a source that was not at work at that time.")
        log_gain[columns != label, j] = -np.inf
        log_clutter[j] = -np.inf


def _check_number(value: OfRange, what: str, *, above_zero: bool) -> None:
    if not callable(value):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(f"{what} is {value!r}; give a number, one a source, or a function of range.") from error
        _check_range(array, what, above_zero=above_zero)


def _check_range(array: FloatArray, what: str, *, above_zero: bool) -> None:
    wrong = ~((array > 0) & (array < np.inf)) if above_zero else ~((array >= 0) & (array <= 1))
    if np.any(wrong):
        allowed = "a number above 0" if above_zero else "a probability between 0 and 1"
        raise SettingError(f"{what} is {np.atleast_1d(array)[np.atleast_1d(wrong)][0]:g}; it must be {allowed}.")
