"""What the arrivals of a step say of positions: its model, by one of the engines, and the likelihood by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.errors import DataError, SettingError
from luce.numerics.segments import Chunk, map_chunks
from luce.track.engines import best_matching, bethe_kernel, exact_kernel
from luce.track.min_factor import MinMessages, min_factor
from luce.track.reception import OfRange, Reception, check_range
from luce.track.signals import CLUTTER, UNKNOWN, Signals, Sources, known_name, label_codes
from luce.track.sound_speed import SpeedGrid
from luce.track.tables import HALF_LOG_TWO_PI, Step
from luce.types import FloatArray, IntArray

MAX_EXACT = 8
"""Beyond that many signals `auto` takes `bethe`."""
_EXACT_LIMIT = 16
_CHUNK = 1024
_REACH = 6.0
_MOST = 2000
"""Points at most; so many runs of an engine are a mistake in the units rather than a wish."""


class Engine(NamedTuple):
    """How a likelihood is computed: its kernel (see `engines`), and what of the model it uses.

    Not `ranked`, a source that was not heard says nothing: [Pareek] (5.72). With labels by hand it is [Pareek] (5.73).
    `unheard` is how often 1 - P_D counts for such a source: read literally, [Pareek] (5.72) counts it twice.
    """

    name: str
    kernel: Callable[..., None]
    ranked: bool = True
    takes_labels: bool = True
    needs_labels: bool = False
    unheard: float = 1.0


EXACT = Engine("exact", exact_kernel)
BETHE = Engine("bethe", bethe_kernel)

_ENGINES = {
    engine.name: engine
    for engine in (
        EXACT,
        BETHE,
        Engine("min_factor", min_factor, takes_labels=False),
        Engine("unranked", exact_kernel, ranked=False),
        Engine("unranked_literal", exact_kernel, ranked=False, unheard=2.0),
        Engine("labelled", exact_kernel, ranked=False, needs_labels=True),
    )
}
_ENGINES["auto"] = EXACT


def engine_names() -> list[str]:
    """Names of the engines; `auto` is `exact` up to 8 signals and `bethe` beyond."""
    return sorted(_ENGINES)


def engine_for(name: str, n: int) -> Engine:
    """The engine of that name for n signals a step."""
    known = known_name("engine", name, _ENGINES)
    engine = _ENGINES[known]
    if known == "auto" and n > MAX_EXACT:
        return BETHE
    if engine.kernel is exact_kernel and n > _EXACT_LIMIT:
        raise SettingError(
            f"The engine {known!r} sums over 2^{n} subsets of {n} signals; it takes up to {_EXACT_LIMIT}, use 'bethe'."
        )
    return engine


def _over(positions: FloatArray, work: Callable[..., Any], *beside: FloatArray) -> list[Any]:
    """Work on some positions (and what is given beside them) after others, on threads."""

    def part(_: int, chunk: Chunk) -> Any:
        rows = slice(*chunk)
        return work(positions[rows], *(array[rows] for array in beside))

    n = max(len(positions), 1)
    return map_chunks(part, [(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK)])


@dataclass(frozen=True, eq=False)
class StepModel:
    """One step, ready for positions: sorted arrivals `times`, and the sources at work, whose numbers are `columns`."""

    engine: Engine
    reception: Reception
    sources: Sources
    time: float | None
    columns: IntArray
    offsets: FloatArray
    times: FloatArray
    log_gain: FloatArray
    log_clutter: FloatArray
    tau: float
    bound: bool
    """Whether a label by hand binds."""

    @classmethod
    def of(
        cls,
        signals: Signals,
        k: int,
        sources: Sources,
        reception: Reception,
        engine: Engine,
        *,
        time: float | None,
        fixed: bool = True,
    ) -> StepModel:
        """The model of step k of the signals; labels by hand bind where `fixed`."""
        rows = slice(signals.offsets[k], signals.offsets[k + 1])
        arrivals = signals.arrivals[rows]
        n, rate, tau = len(arrivals), reception.clutter_rate, reception.threshold(arrivals)
        columns = np.flatnonzero(sources.active(time)).astype(np.int64)
        confidence = None if signals.confidence is None else signals.confidence[rows]
        p_clutter = np.full(n, rate / (1 + rate))
        if confidence is not None:
            p_clutter = np.where(np.isnan(confidence), p_clutter, 1 - confidence)
        with np.errstate(divide="ignore"):
            log_clutter = np.log(p_clutter * reception.clutter_density(arrivals)) + math.log1p(rate)
            gain = np.log1p(-p_clutter) + math.log1p(rate)
        log_gain = np.repeat(gain[None, :], len(columns), axis=0)
        labels = signals.labels[rows] if signals.labels is not None and fixed else None
        codes = np.full(n, UNKNOWN) if labels is None else label_codes(labels, sources)
        bound = bool(np.any(codes != UNKNOWN))
        if engine.needs_labels and signals.labels is None:
            raise SettingError(f"The engine {engine.name!r} needs labels by hand, and there are none.")
        if bound and not engine.takes_labels:
            raise SettingError(f"The engine {engine.name!r} cannot bind labels; use 'exact' or 'labelled'.")
        _fix_labels(codes, columns, log_gain, log_clutter)
        if not engine.ranked and not bound and not callable(reception.detection):
            sure = np.asarray(reception.detection, dtype=np.float64) == 1
            if np.count_nonzero(np.broadcast_to(sure, (len(sources),))[columns]) > n:
                raise SettingError(
                    f"The engine {engine.name!r} needs detection below 1: it has no late signals, and "
                    f"{len(columns)} sources cannot all be among {n} signals."
                )
        offsets = np.ascontiguousarray(sources.emission(time)[columns])
        return cls(engine, reception, sources, time, columns, offsets, arrivals, log_gain, log_clutter, tau, bound)

    @property
    def constant(self) -> float:
        """What adds to the result of a kernel: minus the number of clutter signals expected before tau."""
        return -self.reception.clutter_rate * self.reception.clutter_share(self.tau)

    def ranges(self, positions: FloatArray) -> FloatArray:
        """Distances from positions to sources at work; with a grid of speeds, travel times times its mean speed."""
        points, speed = np.ascontiguousarray(self.sources.positions[self.columns]), self.reception.speed
        distances = self.sources.geometry.distances(positions, points)
        if isinstance(speed, SpeedGrid):
            distances *= speed.reference * speed.slowness(positions, points, self.time)
        return distances

    def all_ranges(self, positions: FloatArray) -> FloatArray:
        """The same on threads."""
        return np.concatenate(_over(positions, self.ranges))

    def likelihood(self, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-likelihoods of positions, -inf where the arrivals are impossible and never NaN; and their ranges."""
        if self.reception.emission_sd > 0:
            distances = self.all_ranges(positions)
            shifts = self.shifted(distances)
            return np.logaddexp.reduce([log_share + step.at_ranges(distances) for log_share, step in shifts]), distances

        def work(some: FloatArray) -> tuple[FloatArray, FloatArray]:
            # Distances and kernel in one go: a second round of threads would cost as much as the distances.
            distances = self.ranges(some)
            return self._log_z(distances), distances

        result, distances = (np.concatenate(parts) for parts in zip(*_over(positions, work), strict=True))
        return result + self.constant, distances

    def at_ranges(self, distances: FloatArray) -> FloatArray:
        """Log-likelihoods by ranges, where the emission times are known."""
        return np.concatenate(_over(distances, self._log_z)) + self.constant

    def _log_z(self, distances: FloatArray) -> FloatArray:
        result = np.empty(len(distances))
        self.engine.kernel(self.tables(distances), distances, np.empty(0), result, np.empty((0, 0, 0)))
        return result

    def labels(self, distances: FloatArray, weight: FloatArray, *, apart: bool = False) -> FloatArray:
        """P(R_j = i) by ranges: a row a signal, a column a source, the last for clutter; weighted positions are added.

        `apart` leaves them apart, a block each.
        """
        n, every = len(self.times), np.append(self.columns, len(self.sources))
        shifts = self._weighed_shifts(distances, weight)

        def work(here: FloatArray, *shares: FloatArray) -> FloatArray:
            part = np.zeros((len(here) if apart else 1, n, len(every)))
            for (step, _), share in zip(shifts, shares, strict=True):
                self.engine.kernel(step.tables(here), here, share, np.empty(len(here)), part)
            return part

        parts = _over(distances, work, *(share for _, share in shifts))
        joint = np.concatenate(parts) if apart else np.sum(parts, axis=0)
        result = np.zeros((len(joint), n, len(self.sources) + 1))
        result[:, :, every] = joint
        return result if apart else np.asarray(result[0])

    def _weighed_shifts(self, distances: FloatArray, weight: FloatArray) -> list[tuple[StepModel, FloatArray]]:
        """The step at every shift of its emissions, and weights of positions times P(shift | arrivals, position)."""
        if self.reception.emission_sd == 0:
            return [(self, weight)]
        shifts = self.shifted(distances)
        joint = np.array([log_share + shifted.at_ranges(distances) for log_share, shifted in shifts])
        top = joint.max(axis=0)
        share = np.exp(joint - np.where(top > -np.inf, top, 0.0))
        share *= weight / np.maximum(share.sum(axis=0), np.finfo(float).tiny)
        return [(shifted, part) for (_, shifted), part in zip(shifts, share, strict=True)]

    def shifted(self, distances: FloatArray) -> list[tuple[float, StepModel]]:
        """The step with its emissions shifted to each point of the rule, and the logarithm of the point's weight."""
        sd = self.reception.emission_sd
        narrowest = 1 / float(np.max(self.tables(distances).inverse_sigma)) if distances.size else sd
        each_side = math.ceil(_REACH * sd * math.sqrt(max(len(self.times), 1)) / narrowest)
        if 2 * each_side + 1 > _MOST:
            raise SettingError(
                f"emission_sd is {sd:g}, {sd / narrowest:.3g} times sigma, so that {2 * each_side + 1} shifts would be "
                f"tried a step, of {_MOST} at most; give a smaller one, or subtract what is known of the emission "
                "times."
            )
        z = _REACH * np.arange(-each_side, each_side + 1) / each_side
        weight = np.exp(-0.5 * z**2)
        log_weight = np.log(weight / weight.sum())
        moved = [replace(self, offsets=self.offsets + sd * float(at)) for at in z]
        return list(zip(log_weight.tolist(), moved, strict=True))

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
        full = self.reception.is_full(len(self.times))
        uninformative = self.reception.keep == "strongest" and full
        absent = self.engine.unheard * (1 - detection)
        if not self.engine.ranked and self.bound:
            # With labels by hand and no late factor, sure detection must not forbid the sources that were not heard.
            absent = np.where(absent > 0, absent, 1.0)
        if uninformative:
            absent = np.ones_like(absent)
        with np.errstate(divide="ignore"):
            log_norm = np.log(detection) - np.log(sigma) - HALF_LOG_TWO_PI
        early = self.reception.window[0] if self.reception.early == "lost" and self.reception.window else -math.inf
        return Step(
            1 / self.reception.mean_speed,
            self.offsets,
            1 / sigma,
            log_norm,
            detection,
            absent,
            self.times,
            self.log_gain,
            self.log_clutter,
            self.tau,
            early,
            self.engine.ranked and not uninformative,
            full,
        )

    def _of_range(self, value: OfRange, distances: FloatArray, what: str) -> FloatArray:
        if callable(value):
            result = np.asarray(value(distances), dtype=np.float64)
            return check_range(what, np.ascontiguousarray(np.broadcast_to(result, distances.shape)))
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0:
            return np.full((1, len(self.columns)), float(array))
        if array.shape != (len(self.sources),):
            raise SettingError(
                f"{what} has shape {array.shape}; give one number, one a source ({len(self.sources)}), or a function."
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
    step, at = step_of(arrivals, positions, sources, engine, settings, one_answer="best_labels")
    distances = step.all_ranges(at)
    codes, weight = np.empty((len(at), len(step.times)), dtype=np.int64), np.empty(len(at))
    best_matching(step.tables(distances), distances, codes, weight)
    return np.append(step.columns, -1)[codes], weight + step.constant


def min_messages(arrivals: ArrayLike, position: ArrayLike, sources: Any, **settings: Any) -> MinMessages:
    """Messages of the first round at one position: what comes in is what the position says of every source.

    Settings as in `log_likelihood`. The incoming messages are the arrival densities at the position and, for the
    indicators, P_C or one minus a signal's confidence.

    >>> says = min_messages([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1)
    >>> says.at.round(6).tolist(), says.before.round(6).tolist(), says.after.round(6).tolist()
    ([[1.0, 0.5]], [[0.0, 0.0]], [[0.0, 3.989423]])
    """
    step, at = step_of(arrivals, position, sources, "min_factor", settings, one_answer="min_messages")
    distances = step.all_ranges(at[:1])
    p_clutter = 1 - np.exp(step.log_gain[0]) / (1 + step.reception.clutter_rate)
    return MinMessages.of(step.tables(distances), distances, step.reception.clutter_density(step.times), p_clutter)


def step_of(
    arrivals: ArrayLike, positions: ArrayLike, sources: Any, engine: str, settings: dict[str, Any], one_answer: str = ""
) -> tuple[StepModel, FloatArray]:
    """The model of one step that is given by itself, and the positions, checked; settings as in `log_likelihood`.

    `one_answer` names what would have one for each shift of the emissions, where these are not known.
    """
    settings = dict(settings)
    confidence, labels, time, geometry = (
        settings.pop(name, None) for name in ("confidence", "labels", "time", "geometry")
    )
    reception = Reception.of(settings)
    if one_answer and reception.emission_sd > 0:
        raise SettingError(f"{one_answer} needs known emission times; emission_sd is {reception.emission_sd:g}.")
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
