"""The likelihood of a step's arrivals at given positions, by engine name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import SettingError
from luce.numerics.segments import Chunk, map_chunks
from luce.registry import canonical, unknown_name
from luce.track.approximations import bethe_kernel, bethe_labels_kernel, min_factor_kernel, min_factor_labels_kernel
from luce.track.engines import best_matching, exact_kernel, exact_labels_kernel
from luce.track.geometry import Geometry
from luce.track.motion import shifted_steps
from luce.track.reception import OfRange, Reception, StepModel
from luce.track.signals import UNKNOWN, Signals, Sources, label_codes
from luce.track.sound_speed import SpeedGrid
from luce.types import FloatArray, IntArray

MAX_EXACT = 8
"""Beyond that many signals `auto` takes `bethe`."""
_EXACT_LIMIT = 16
_CHUNK = 1024


class Engine(NamedTuple):
    """How a likelihood is computed: its kernels, and what of the model it uses.

    Not `ranked`, a source that was not heard says nothing: [Pareek] (5.72). With labels by hand it is [Pareek] (5.73).
    `unheard` is how often 1 - P_D counts for such a source: read literally, [Pareek] (5.72) counts it twice.
    """

    name: str
    kernel: Callable[..., None]
    labels_kernel: Callable[..., None]
    ranked: bool = True
    takes_labels: bool = True
    needs_labels: bool = False
    unheard: float = 1.0


EXACT = Engine("exact", exact_kernel, exact_labels_kernel)
BETHE = Engine("bethe", bethe_kernel, bethe_labels_kernel)
MIN_FACTOR = Engine("min_factor", min_factor_kernel, min_factor_labels_kernel, takes_labels=False)
UNRANKED = Engine("unranked", exact_kernel, exact_labels_kernel, ranked=False)
UNRANKED_LITERAL = Engine("unranked_literal", exact_kernel, exact_labels_kernel, ranked=False, unheard=2.0)
LABELLED = Engine("labelled", exact_kernel, exact_labels_kernel, ranked=False, needs_labels=True)

_ENGINES = {engine.name: engine for engine in (EXACT, BETHE, MIN_FACTOR, UNRANKED, UNRANKED_LITERAL, LABELLED)}
_ENGINES["auto"] = EXACT


def engine_names() -> list[str]:
    """Names of the engines; `auto` is `exact` up to 8 signals and `bethe` beyond."""
    return sorted(_ENGINES)


def engine_for(name: str, n: int) -> Engine:
    """The engine of that name for n signals a step."""
    known = canonical(name)
    if known not in _ENGINES:
        raise unknown_name("engine", name, _ENGINES)
    engine = _ENGINES[known]
    if known == "auto" and n > MAX_EXACT:
        return BETHE
    if engine.kernel is exact_kernel and n > _EXACT_LIMIT:
        raise SettingError(
            f"The engine {known!r} sums over 2^{n} subsets of {n} signals; it takes up to {_EXACT_LIMIT}, use 'bethe'."
        )
    return engine


def log_likelihood(
    arrivals: ArrayLike,
    positions: ArrayLike,
    sources: Sources | ArrayLike,
    *,
    sigma: OfRange,
    speed: float | SpeedGrid = 1.0,
    detection: OfRange = 1.0,
    clutter_rate: float = 0.0,
    window: tuple[float, float] | None = None,
    engine: str = "auto",
    r: int | None = None,
    keep: str = "earliest",
    early: str = "kept",
    emission_sd: float = 0.0,
    confidence: ArrayLike | None = None,
    labels: Sequence[str | None] | None = None,
    time: float | None = None,
    geometry: Geometry | None = None,
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
    reception = Reception(sigma, speed, detection, clutter_rate, window, r, keep, early, emission_sd)
    case = _Case(arrivals, positions, sources, reception, engine, confidence, labels, time, geometry)
    if emission_sd > 0:
        return step_likelihood(case.engine, case.step, case.distances())
    result = np.empty(len(case.positions))

    def work(_: int, chunk: Chunk) -> None:
        # Distances and kernel in one go on each thread: a second round of threads would cost as much as the distances.
        part = case.step.ranges(case.geometry, case.positions[slice(*chunk)], case.points)
        case.engine.kernel(case.step.tables(part), part, result[slice(*chunk)])

    map_chunks(work, _chunks(len(result)))
    return result + case.step.constant


def label_posteriors(
    arrivals: ArrayLike, positions: ArrayLike, sources: Sources | ArrayLike, *, engine: str = "auto", **settings: Any
) -> FloatArray:
    """P(R_j = i | T, X): one block a position, one row a signal, one column a source and the last for clutter.

    Exact (forward-backward over the same program as the likelihood), or beliefs with `engine="bethe"` and
    `engine="min_factor"`. Settings as in `log_likelihood`.

    >>> label_posteriors([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1).round(6)
    array([[[1., 0., 0.]]])
    """
    case = _Case.of(arrivals, positions, sources, engine, settings)
    s, n = len(case.sources), len(case.step.times)
    result = np.zeros((len(case.positions), n, s + 1))
    columns = np.append(case.step.columns, s)
    distances = case.distances()
    shifts = _weighed_shifts(case.engine, case.step, distances, np.ones(len(distances)))

    def work(_: int, chunk: Chunk) -> None:
        here = distances[slice(*chunk)]
        part = np.zeros((len(here), n, len(columns)))
        for step, weight in shifts:
            case.engine.labels_kernel(step.tables(here), here, weight[slice(*chunk)], part)
        result[slice(*chunk)][:, :, columns] = part

    map_chunks(work, _chunks(len(distances)))
    return result


def best_labels(
    arrivals: ArrayLike, positions: ArrayLike, sources: Sources | ArrayLike, *, engine: str = "exact", **settings: Any
) -> tuple[IntArray, FloatArray]:
    """The most probable matching at each position, as source numbers (-1: clutter), and its log-weight.

    >>> best_labels([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1)[0]
    array([[0]])
    """
    case = _Case.of(arrivals, positions, sources, engine, settings)
    case.step.check_known_emission("best_labels")
    distances = case.distances()
    codes = np.empty((len(distances), len(case.step.times)), dtype=np.int64)
    weight = np.empty(len(distances))
    best_matching(case.step.tables(distances), distances, codes, weight)
    return np.append(case.step.columns, -1)[codes], weight + case.step.constant


def all_ranges(step: StepModel, geometry: Geometry, positions: FloatArray, points: FloatArray) -> FloatArray:
    """Ranges from every position to every source at work, on threads."""
    result = np.empty((len(positions), len(points)))

    def work(_: int, chunk: Chunk) -> None:
        result[slice(*chunk)] = step.ranges(geometry, positions[slice(*chunk)], points)

    map_chunks(work, _chunks(len(positions)))
    return result


def step_likelihood(engine: Engine, step: StepModel, distances: FloatArray) -> FloatArray:
    """Log-likelihoods of many positions, on threads; -inf where the arrivals are impossible, never NaN."""
    total = np.full(len(distances), -np.inf)
    for log_share, shifted in shifted_steps(step, distances):
        total = np.logaddexp(total, log_share + _likelihood(engine, shifted, distances))
    return total


def _likelihood(engine: Engine, step: StepModel, distances: FloatArray) -> FloatArray:
    """The same where the emission times are known."""
    result = np.empty(len(distances))

    def work(_: int, chunk: Chunk) -> None:
        part = distances[slice(*chunk)]
        engine.kernel(step.tables(part), part, result[slice(*chunk)])

    map_chunks(work, _chunks(len(distances)))
    return result + step.constant


def expected_labels(engine: Engine, step: StepModel, distances: FloatArray, weight: FloatArray) -> FloatArray:
    """Label posteriors averaged over weighted positions: a row a signal, a column a source at work, then clutter."""
    shape = (1, len(step.times), distances.shape[1] + 1)
    shifts = _weighed_shifts(engine, step, distances, weight)

    def work(_: int, chunk: Chunk) -> FloatArray:
        part, result = distances[slice(*chunk)], np.zeros(shape)
        for shifted, share in shifts:
            engine.labels_kernel(shifted.tables(part), part, share[slice(*chunk)], result)
        labels: FloatArray = result[0]
        return labels

    total: FloatArray = np.sum(map_chunks(work, _chunks(len(distances))), axis=0)
    return total


def _weighed_shifts(
    engine: Engine, step: StepModel, distances: FloatArray, weight: FloatArray
) -> list[tuple[StepModel, FloatArray]]:
    """The step at every shift of its emissions, and the weight of each position times P(shift | arrivals, position)."""
    shifts = shifted_steps(step, distances)
    if len(shifts) == 1:
        return [(step, weight)]
    joint = np.array([log_share + _likelihood(engine, shifted, distances) for log_share, shifted in shifts])
    top = joint.max(axis=0)
    share = np.exp(joint - np.where(top > -np.inf, top, 0.0))
    share *= weight / np.maximum(share.sum(axis=0), np.finfo(float).tiny)
    return [(shifted, part) for (_, shifted), part in zip(shifts, share, strict=True)]


def _chunks(n: int) -> list[Chunk]:
    return [(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK)]


class _Case:
    """One call's arguments, checked."""

    def __init__(
        self,
        arrivals: ArrayLike,
        positions: ArrayLike,
        sources: Sources | ArrayLike,
        reception: Reception,
        engine: str,
        confidence: ArrayLike | None,
        labels: Sequence[str | None] | None,
        time: float | None,
        geometry: Geometry | None,
    ) -> None:
        if time is not None and not math.isfinite(time):
            raise SettingError(f"time is {time!r}; it must be a finite number.")
        self.sources = Sources.of(sources, geometry)
        self.geometry = self.sources.geometry
        if isinstance(reception.speed, SpeedGrid):
            reception.speed.check(self.geometry, dated=time is not None)
        self.positions = self.geometry.check(positions, "Positions")
        times = np.asarray(arrivals, dtype=np.float64).reshape(-1)
        marks = None if confidence is None else [confidence]
        signals = Signals.from_lists([0.0], [times], confidence=marks, labels=None if labels is None else [labels])
        signals = signals.keep(reception.keep, reception.r)
        self.engine = engine_for(engine, len(signals.arrivals))
        self.points, self.step = step_for(signals, 0, self.sources, reception, self.engine, time=time, fixed=True)

    def distances(self) -> FloatArray:
        """From every position to every source at work."""
        return all_ranges(self.step, self.geometry, self.positions, self.points)

    @classmethod
    def of(
        cls, arrivals: ArrayLike, positions: ArrayLike, sources: Any, engine: str, settings: dict[str, Any]
    ) -> _Case:
        extra = {name: settings.pop(name, None) for name in ("confidence", "labels", "time", "geometry")}
        return cls(arrivals, positions, sources, Reception.of(settings), engine, **extra)


def step_of(
    arrivals: ArrayLike, position: ArrayLike, sources: Any, settings: dict[str, Any]
) -> tuple[StepModel, FloatArray]:
    """The model of one step that is given by itself, and the distances from one position to its sources at work."""
    case = _Case.of(arrivals, position, sources, "min_factor", dict(settings))
    case.step.check_known_emission("min_messages")
    return case.step, case.distances()[:1]


def step_for(
    signals: Signals,
    k: int,
    sources: Sources,
    reception: Reception,
    engine: Engine,
    *,
    time: float | None,
    fixed: bool,
) -> tuple[FloatArray, StepModel]:
    """Places of the sources at work at step k, and the step's model; hand labels bind where `fixed`."""
    rows = slice(signals.offsets[k], signals.offsets[k + 1])
    columns = np.flatnonzero(sources.active(time)).astype(np.int64)
    codes = None
    if signals.labels is not None and fixed:
        codes = label_codes(signals.labels[rows], sources)
    bound = codes is not None and bool(np.any(codes != UNKNOWN))
    if engine.needs_labels and signals.labels is None:
        raise SettingError(f"The engine {engine.name!r} needs labels by hand, and there are none.")
    if bound and not engine.takes_labels:
        raise SettingError(f"The engine {engine.name!r} cannot bind labels; use 'exact' or 'labelled'.")
    step = reception.step(
        signals.arrivals[rows],
        np.ascontiguousarray(sources.emission(time)[columns]),
        confidence=None if signals.confidence is None else signals.confidence[rows],
        labels=codes,
        ranked=engine.ranked,
        unheard=engine.unheard,
        columns=columns,
        n_sources=len(sources),
        time=time,
    )
    if not engine.ranked and not bound and not callable(reception.detection):
        sure = np.asarray(reception.detection, dtype=np.float64) == 1
        if np.count_nonzero(np.broadcast_to(sure, (len(sources),))[columns]) > len(step.times):
            raise SettingError(
                f"The engine {engine.name!r} needs detection below 1: it has no late signals, and "
                f"{len(columns)} sources cannot all be among {len(step.times)} signals."
            )
    return np.ascontiguousarray(sources.positions[columns]), step
