"""What a receiver hears: the settings of the observation model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError, SettingError
from luce.registry import unknown_name
from luce.spec import Spec, option
from luce.track.signals import KEEP_RULES, known_name
from luce.track.sound_speed import SpeedGrid
from luce.types import FloatArray

OfRange = float | ArrayLike | Callable[[FloatArray], FloatArray]
"""A number, one number a source, or a function of the range."""


def check_range(what: str, array: FloatArray) -> FloatArray:
    """Values of `sigma` (above 0) or of `detection` (probabilities)."""
    above_zero = what == "sigma"
    wrong = ~((array > 0) & (array < np.inf)) if above_zero else ~((array >= 0) & (array <= 1))
    if np.any(wrong):
        allowed = "a number above 0" if above_zero else "a probability between 0 and 1"
        raise SettingError(f"{what} is {np.atleast_1d(array)[np.atleast_1d(wrong)][0]:g}; it must be {allowed}.")
    return array


def _of_range(what: str, value: OfRange) -> OfRange:
    if not callable(value):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(f"{what} is {value!r}; give a number, one a source, or a function of range.") from error
        check_range(what, array)
    return value


def _speed(what: str, value: float | SpeedGrid) -> float | SpeedGrid:
    number = isinstance(value, int | float | np.number) and 0 < value < math.inf
    if not (number or isinstance(value, SpeedGrid)):
        raise SettingError(f"The {what} is {value!r}; it must be a number above 0, or a SpeedGrid.")
    return value


def _window(what: str, value: tuple[float, float]) -> tuple[float, float]:
    a, b = (float(end) for end in value)
    if not -math.inf < a < b < math.inf:
        raise SettingError(f"The {what} is ({a:g}, {b:g}); its start must come before its end, both finite.")
    return a, b


def _rule(name: str, value: str) -> str:
    what, known = ("keeping signals", KEEP_RULES) if name == "keep" else ("early arrivals", ("kept", "lost"))
    return known_name(f"rule for {what}", value, known)


class Reception(Spec):
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

    sigma: OfRange = option(convert=_of_range)
    speed: float | SpeedGrid = option(default=1.0, convert=_speed)
    detection: OfRange = option(default=1.0, convert=_of_range)
    clutter_rate: float = option(default=0.0, least=0)
    window: tuple[float, float] | None = option(default=None, convert=_window)
    r: int | None = option(default=None, least=1)
    keep: str = option(default="earliest", convert=_rule)
    early: str = option(default="kept", convert=_rule)
    emission_sd: float = option(default=0.0, least=0)

    def _check(self) -> None:
        if self.window is None and (self.clutter_rate > 0 or self.early == "lost"):
            raise SettingError("A window (a, b) is needed with clutter or lost early arrivals; give window=(a, b).")

    @property
    def mean_speed(self) -> float:
        """The speed, or the mean of the grid's."""
        return self.speed.reference if isinstance(self.speed, SpeedGrid) else float(self.speed)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Reception:
        """From keyword arguments; a name that is not a setting is an error that lists the settings."""
        known = list(cls.__dataclass_fields__)
        for name in settings:
            if name not in known:
                raise unknown_name("setting", name, known)
        if "sigma" not in settings:
            raise SettingError("sigma, the standard deviation of an arrival time, is needed.")
        return cls(**settings)

    def is_full(self, n: int) -> bool:
        """Whether the receiver has no room beside n signals."""
        return self.keep != "all" and n > 0 and (self.r is None or n >= self.r)

    def threshold(self, arrivals: FloatArray) -> float:
        """tau: when listening ended, which is at the last arrival for a receiver that is full of the earliest."""
        n, b = len(arrivals), math.inf if self.window is None else self.window[1]
        if n and arrivals[-1] > b:
            raise DataError(
                f"An arrival at {arrivals[-1]:g} lies after the end of the window, {b:g}; widen the window."
            )
        if n and self.window is not None and self.early == "lost" and arrivals[0] < self.window[0]:
            a = self.window[0]
            raise DataError(f"An arrival at {arrivals[0]:g} lies before the start of the window, {a:g}.")
        if self.is_full(n):
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

    def clutter_share(self, tau: float) -> float:
        """F_N: the share of the clutter that comes before tau."""
        if self.window is None:
            return 0.0
        a, b = self.window
        return min(max((tau - a) / (b - a), 0.0), 1.0)
