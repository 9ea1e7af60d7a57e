"""The likelihood of a step's arrivals at given positions, by engine name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.track.engines import best_matching
from luce.track.reception import Reception
from luce.track.signals import Signals, Sources
from luce.track.sound_speed import SpeedGrid
from luce.track.steps import StepModel, engine_for
from luce.types import FloatArray, IntArray


def log_likelihood(
    arrivals: ArrayLike, positions: ArrayLike, sources: Sources | ArrayLike, *, engine: str = "auto", **settings: Any
) -> FloatArray:
    """Log-density of the arrivals that a receiver kept, one value a position.

        p(T_1..T_n | X) = e^{-lambda F_N(tau)} sum over matchings of
                          prod_clutter lambda p_N(T_j)  prod_received P_D p_i(T_j | X)  prod_others u_i,

    u_i = 1 - P_D + P_D P(t_i > tau): what was not heard before tau says where the target is not ([Pareek] (5.26)). tau
    is the last arrival of a full receiver, else the end of the window.

    Parameters
    ----------
    arrivals
        Times of one step, in any order (sorted, with a warning).
    positions
        (n, d), or one position.
    sources
        `Sources`, or a matrix of positions that all send at time 0.
    engine
        `exact`, `bethe`, `min_factor`, `unranked`, `unranked_literal`, `labelled`, or `auto`.
    confidence, labels
        One a signal: the probability that it is genuine; the name of its source, "clutter" or None. Labels bind.
    time
        When the step was, for sources that do not always work.
    sigma, speed, detection, clutter_rate, window, r, keep, early, emission_sd
        See `Reception`.

    >>> sources = [[0.0, 0.0], [3.0, 4.0]]
    >>> log_likelihood([1.0], [[1.0, 0.0], [2.0, 4.0]], sources, sigma=0.1).round(3)
    array([1.384, 1.384])
    """
    step, at = step_of(arrivals, positions, sources, engine, settings)
    return step.likelihood(at)[0]


def label_posteriors(
    arrivals: ArrayLike, positions: ArrayLike, sources: Sources | ArrayLike, *, engine: str = "auto", **settings: Any
) -> FloatArray:
    """P(R_j = i | T, X): one block a position, one row a signal, one column a source and the last for clutter.

    Exact (forward-backward over the same program as the likelihood), or beliefs with `engine="bethe"` and
    `engine="min_factor"`. Settings as in `log_likelihood`.

    >>> label_posteriors([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1).round(6)
    array([[[1., 0., 0.]]])
    """
    step, at = step_of(arrivals, positions, sources, engine, settings)
    return step.labels(step.all_ranges(at), np.ones(len(at)), apart=True)


def best_labels(
    arrivals: ArrayLike, positions: ArrayLike, sources: Sources | ArrayLike, *, engine: str = "exact", **settings: Any
) -> tuple[IntArray, FloatArray]:
    """The most probable matching at each position, as source numbers (-1: clutter), and its log-weight.

    >>> best_labels([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1)[0]
    array([[0]])
    """
    step, at = step_of(arrivals, positions, sources, engine, settings)
    step.check_known_emission("best_labels")
    distances = step.all_ranges(at)
    codes, weight = np.empty((len(at), len(step.times)), dtype=np.int64), np.empty(len(at))
    best_matching(step.tables(distances), distances, codes, weight)
    return np.append(step.columns, -1)[codes], weight + step.constant


def step_of(
    arrivals: ArrayLike, positions: ArrayLike, sources: Any, engine: str, settings: dict[str, Any]
) -> tuple[StepModel, FloatArray]:
    """The model of one step that is given by itself, and the positions, checked; settings as in `log_likelihood`."""
    settings = dict(settings)
    confidence, labels, time, geometry = (
        settings.pop(name, None) for name in ("confidence", "labels", "time", "geometry")
    )
    reception = Reception.of(settings)
    if time is not None and not math.isfinite(time):
        raise SettingError(f"time is {time!r}; it must be a finite number.")
    places = Sources.of(sources, geometry)
    if isinstance(reception.speed, SpeedGrid):
        reception.speed.check(places.geometry, dated=time is not None)
    at = places.geometry.check(positions, "Positions")
    times = np.asarray(arrivals, dtype=np.float64).reshape(-1)
    marks = None if confidence is None else [confidence]
    signals = Signals.from_lists([0.0], [times], confidence=marks, labels=None if labels is None else [labels])
    signals = signals.keep(reception.keep, reception.r)
    return StepModel.of(signals, 0, places, reception, engine_for(engine, len(signals.arrivals)), time=time), at
