"""Simulated targets: straight line, spiral, model walk, and a float that drifts past moored sources."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import generator, whole
from luce.track.geometry import WGS84
from luce.track.likelihood import EXACT, StepModel
from luce.track.reception import Reception
from luce.track.signals import CLUTTER, Signals, Sources, known_name
from luce.types import FloatArray, IntArray

_SILENCE = Signals(np.zeros(1), np.zeros(0), np.zeros(2, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class World:
    """A simulated target with its sources and signals; hand labels of the signals are the true ones."""

    signals: Signals
    sources: Sources
    truth: FloatArray
    start: FloatArray
    settings: dict[str, Any]
    """Settings of the observation model, ready for `follow(..., **world.settings)`."""


def draw_arrivals(
    position: ArrayLike, sources: Sources, reception: Reception, rng: np.random.Generator, time: float | None = None
) -> tuple[FloatArray, IntArray]:
    """Arrivals that a receiver at `position` keeps, earliest first, and their labels (source numbers, -1 clutter)."""
    x = sources.geometry.check(position, "The position")
    step = StepModel.of(_SILENCE, 0, sources, reception, EXACT, time=time)
    numbers, distances = step.columns, step.ranges(x)
    tables = step.tables(distances)
    arrivals = tables.offsets + distances[0] * tables.inverse_speed
    arrivals = arrivals + rng.standard_normal(len(numbers)) / tables.inverse_sigma[0]
    if reception.emission_sd > 0:
        arrivals = arrivals + reception.emission_sd * rng.standard_normal()
    heard = rng.random(len(numbers)) < tables.detection[0]
    a, b = reception.window if reception.window is not None else (0.0, math.inf)
    heard &= (arrivals <= b) & (arrivals >= (a if reception.early == "lost" else 0.0))
    junk = np.zeros(0) if reception.window is None else rng.uniform(a, b, rng.poisson(reception.clutter_rate))
    times = np.concatenate([arrivals[heard], junk])
    labels = np.concatenate([numbers[heard], np.full(len(junk), CLUTTER)])
    order = np.argsort(times, kind="stable")
    if reception.keep == "earliest" and reception.r is not None:
        order = order[: reception.r]
    return times[order], labels[order]


def draw_signals(
    path: FloatArray,
    sources: Sources,
    reception: Reception,
    rng: np.random.Generator,
    *,
    times: ArrayLike | None = None,
    dated: bool = False,
) -> Signals:
    """Signals along a path, with the true labels as labels by hand."""
    at = np.arange(1.0, len(path) + 1) if times is None else np.asarray(times, dtype=np.float64)
    names = [*sources.names, "clutter"]
    arrivals, labels = [], []
    for x, t in zip(path, at, strict=True):
        heard, codes = draw_arrivals(x, sources, reception, rng, float(t))
        arrivals.append(heard)
        labels.append([names[code] for code in codes])
    return Signals.from_lists(at, arrivals, labels=labels, dated=dated)


def _spiral(steps: int, step_sd: float, rng: np.random.Generator) -> FloatArray:
    """Two turns outwards from the middle, at constant speed."""
    angle = 4 * np.pi * np.sqrt(np.linspace(0.01, 1, steps + 1))
    radius = 0.38 * angle / (4 * np.pi)
    return np.asarray(0.5 + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]))


def _walk(steps: int, step_sd: float, rng: np.random.Generator) -> FloatArray:
    """The model's own random walk [Pareek] (5.1), kept in the unit square by reflection."""
    raw = 0.5 + np.vstack([np.zeros(2), np.cumsum(step_sd * rng.standard_normal((steps, 2)), axis=0)])
    folded = np.mod(raw, 2)
    return np.where(folded > 1, 2 - folded, folded)


_PATHS: dict[str, Callable[[int, float, np.random.Generator], FloatArray]] = {
    # From one corner region to the other.
    "straight": lambda steps, step_sd, rng: np.linspace([0.15, 0.2], [0.85, 0.75], steps + 1),
    "spiral": _spiral,
    "walk": _walk,
    # Eastwards at the pace of 26 degrees a year.
    "ocean": lambda steps, step_sd, rng: drift_path(
        [-57.0, -105.0], [-59.0, -105.0 + 26.0 * min(steps / 365, 1)], steps, step_sd, rng
    ),
}


def simulate(
    path: str = "straight",
    *,
    steps: int = 100,
    sources: int = 10,
    r: int = 4,
    sigma: float | None = None,
    detection: float | None = None,
    clutter_rate: float = 1.0,
    step_sd: float | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> World:
    """A target with ranked signals, as in [Pareek] section 5.5.

    `straight`, `spiral` and `walk` live in the unit square among sources placed at random, signals of speed 1 and
    sigma = 0.02, P_D = 0.7. `ocean` is a float on the earth that drifts eastwards past twelve moored sources with
    staggered emissions, and so from one set of sources to another (1.5 km/s, sigma = 5 s, P_D = 0.9 within earshot).

    >>> world = simulate("spiral", steps=5, random_state=0)
    >>> world.truth.shape, int(world.signals.counts.max())
    ((5, 2), 4)
    """
    name = known_name("path", path, sorted(_PATHS))
    for what, value in (("steps", steps), ("sources", sources), ("r", r)):
        whole(what, value, 1)
    rng, ocean = generator(random_state), name == "ocean"
    usual: tuple[Any, ...] = (5.0, earshot(), 8000.0) if ocean else (0.02, 0.7, 0.02)
    given = (sigma, detection, step_sd)
    sd, heard, noise = (known if value is None else value for value, known in zip(given, usual, strict=True))
    settings: dict[str, Any] = {
        "sigma": sd,
        "speed": 1500.0 if ocean else 1.0,
        "detection": heard,
        "clutter_rate": clutter_rate,
        "window": (3600.0, 9600.0) if ocean else (0.0, 1.5),
        "r": r,
    }
    places = ocean_sources() if ocean else Sources(rng.random((sources, 2)))
    line = _PATHS[name](steps, noise, rng)
    times = np.arange(1, steps + 1) + (14610.0 if ocean else 0.0)  # days from 2010-01-01 on
    signals = draw_signals(line[1:], places, Reception(**settings), rng, times=times, dated=ocean)
    return World(signals, places, line[1:], line[0], settings)


def ocean_sources() -> Sources:
    """Twelve moored sources along a channel that send at five times of an hour, ten minutes apart.

    A layout of the kind used in the Southern Ocean: with an earshot of 1,300 km a float that drifts 1,500 km loses the
    sources it began with and finds others.
    """
    grid = [(-60, -110), (-56, -110), (-58, -104), (-60, -98), (-56, -98), (-58, -92)]
    grid += [(-60, -86), (-56, -86), (-58, -80), (-60, -74), (-56, -74), (-58, -68)]
    offsets = [3900, 4500, 5100, 5700, 6300, 3900, 4500, 5100, 5700, 6300, 3900, 4500]
    names = [f"S{i + 1:02d}" for i in range(12)]
    return Sources(np.array(grid, dtype=float), offsets, names, geometry=WGS84())


def earshot(limit: float = 1.3e6, width: float = 1e5, most: float = 0.9) -> Callable[[FloatArray], FloatArray]:
    """P_D that falls from `most` to nothing around a range of `limit` metres."""

    def detection(distance: FloatArray) -> FloatArray:
        return np.asarray(most / (1 + np.exp(np.clip((distance - limit) / width, -50, 50))))

    return detection


def drift_path(start: ArrayLike, end: ArrayLike, steps: int, step_sd: float, rng: np.random.Generator) -> FloatArray:
    """A float's path from launch to recovery: a random walk on the earth conditioned on both, `steps` + 1 positions."""
    geometry = WGS84()
    first, last = geometry.check(start, "The start"), geometry.check(end, "The end")
    path = [first]
    for k in range(steps):
        left = steps - k
        pull = geometry.displacement(path[-1], last) / left
        noise = step_sd * math.sqrt((left - 1) / left) * rng.standard_normal((1, 2))
        path.append(geometry.move(path[-1], pull + noise))
    return np.concatenate(path)
