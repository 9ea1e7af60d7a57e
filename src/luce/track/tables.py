"""What one step says about positions, as numbers: the factors of the bipartite model.

Every engine sees the same three tables ([Pareek] (5.66) and [Pareek] (5.67), missing and late merged): `w[i, j]`,
source i made signal j; `u[i]`, source i made none of them; `c[j]`, signal j is clutter. `Step` holds what is common to
all positions; `fill_tables` turns it and the distances of a block of positions (lanes, the last axis) into the tables.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import part
from luce.numerics.fast_exp import fast_exp
from luce.numerics.normal import log_cdf
from luce.types import FloatArray

_SQRT_HALF = math.sqrt(0.5)
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_K = 3.75
_TAIL = (
    1.2375126308378264,
    -0.14024059858550575,
    0.0035854154857627857,
    0.08227673848704045,
    -0.10880393015433062,
    0.09230432122771155,
    -0.05869339838397541,
    0.02836227674782648,
    -0.009746581262494456,
    0.0017556295487634313,
    0.0002937218341919264,
    -0.00029016639136143893,
    5.162479200942778e-05,
    2.241015775977701e-05,
    -1.1397625287921655e-05,
    -1.0084713725546233e-06,
    1.6939254478276176e-06,
    -2.7685663849700945e-08,
    -2.1321360409864602e-07,
    8.512559451761331e-09,
    1.7312209083118933e-08,
)
"""(1 + 2x) exp(x^2) erfc(x) as a polynomial in y = (x - K) / (x + K): interpolated in the 21 Chebyshev points."""


@part(forceinline=True)
def half_erfc(z):  # type: ignore[no-untyped-def]
    """erfc(z) / 2 = P(Z > z sqrt 2) for a standard normal Z, to about 1e-14. Callers must not let sums be reordered.

    >>> bool(abs(half_erfc(1.0) - 0.5 * math.erfc(1.0)) < 1e-15), float(half_erfc(-1e300))
    (True, 1.0)
    """
    x = min(abs(z), 1e6)
    y = (x - _K) / (x + _K)
    y2, even, odd = y * y, _TAIL[20], _TAIL[19]
    for k in range(9, 0, -1):
        even, odd = even * y2 + _TAIL[2 * k], odd * y2 + _TAIL[2 * k - 1]
    even = even * y2 + _TAIL[0]
    p = even + odd * y
    tail = 0.5 * p * fast_exp(-x * x) / (1.0 + 2.0 * x)
    return tail if z > 0.0 else 1.0 - tail


BoolArray: TypeAlias = NDArray[np.bool_]
_NEGLIGIBLE = 42.0
_NEVER_LATE = 9.0 * _SQRT_HALF
"""Nine standard deviations: P_D times the tail beyond is below 1e-16 of a probability of absence of 0.01."""


class Step(NamedTuple):
    """One step's signals and settings; arrays of shape (1 or positions, sources) may depend on the range.

    `log_gain[i, j]` is log((1 + lambda)(1 - P_C)), -inf where a label forbids the pair; `log_clutter[j]` is
    log((1 + lambda) P_C p_N(T_j)). `tau` is the late threshold, `early` the start of the window where earlier arrivals
    are lost (else -inf). Without `ranked` a source that was not heard counts `absent` only; `full` says that the
    receiver kept as many signals as it can.
    """

    inverse_speed: float
    offsets: FloatArray
    inverse_sigma: FloatArray
    log_norm: FloatArray
    detection: FloatArray
    absent: FloatArray
    times: FloatArray
    log_gain: FloatArray
    log_clutter: FloatArray
    tau: float
    early: float
    ranked: bool
    full: bool


class Tables(NamedTuple):
    """Room for the tables of a block of positions; the last axis of every array but `active` and `edge` is the lanes.

    From `mean` on, what the sources' weights are made of: expected arrivals, 1 / (sigma sqrt 2), log-norms, and the
    probabilities to be absent and to be detected. `edge[i]` bounds them over the lanes: smallest 1 / (sigma sqrt 2),
    largest log-norm, smallest probability to be absent, earliest and latest expected arrival.
    """

    w: FloatArray
    u: FloatArray
    c: FloatArray
    scale: FloatArray
    active: BoolArray
    mean: FloatArray
    steepness: FloatArray
    norm: FloatArray
    absent: FloatArray
    detection: FloatArray
    edge: FloatArray


@part
def new_tables(s: int, n: int, lanes: int) -> Tables:
    """Room for s sources and n signals."""
    return Tables(
        np.empty((s, n, lanes)),
        np.empty((s, lanes)),
        np.empty((n, lanes)),
        np.empty(lanes),
        np.empty((s, n), np.bool_),
        np.empty((s, lanes)),
        np.empty((s, lanes)),
        np.empty((s, lanes)),
        np.empty((s, lanes)),
        np.empty((s, lanes)),
        np.empty((s, 5)),
    )


@part(fastmath={"contract"})
def fill_tables(step: Step, distances: FloatArray, first: int, tables: Tables, log: bool) -> None:
    """Tables of the positions from `first` on, as logarithms or with columns scaled to a largest entry of 1.

    `scale` is the logarithm of what all columns were divided by. Every entry is then at most 1, so a sum of matchings
    well above the smallest double has lost nothing to underflow; where it is not, logarithms are needed. Lanes beyond
    the last position repeat it. Blocks come in order: settings that do not depend on the range stay from the first one.

    `active[i, j]` is False, and the weight zero, where in all lanes the pair weighs less than e^-42 of "j is clutter
    and i was not heard": every matching with the pair then has one without it that is heavier by more than a double
    can tell.
    """
    if log or first == 0 or step.detection.shape[0] > 1:
        _gather_settings(step, first, tables)
    _fill_means(step, distances, first, tables)
    _find_active(step, tables)
    _fill_weights(step, tables)
    if log:
        _fill_log_unheard(step, tables)
        tables.scale[:] = 0.0
        for j in range(step.times.shape[0]):
            tables.c[j] = step.log_clutter[j]
    else:
        _fill_unheard(step, tables)
        _divide(step, tables)


# Every one of these takes a whole block: a call for each source would spend as long on its many arguments as on work.


@part
def _gather_settings(step: Step, first: int, tables: Tables) -> None:
    """Settings by source and lane; the last row, which may be the only one, is repeated."""
    s, lanes = tables.u.shape
    last = step.detection.shape[0] - 1
    for i in range(s):
        for a in range(lanes):
            q = min(first + a, last)
            tables.steepness[i, a] = step.inverse_sigma[q, i] * _SQRT_HALF
            tables.norm[i, a], tables.absent[i, a] = step.log_norm[q, i], step.absent[q, i]
            tables.detection[i, a] = step.detection[q, i]
        edge = tables.edge[i]
        edge[0], edge[1], edge[2] = tables.steepness[i].min(), tables.norm[i].max(), tables.absent[i].min()


@part(fastmath={"contract", "nnan", "nsz"})
def _fill_means(step: Step, distances: FloatArray, first: int, tables: Tables) -> None:
    """Expected arrivals, and the earliest and latest of each source."""
    mean, edge = tables.mean, tables.edge
    s, lanes = mean.shape
    filled = min(distances.shape[0] - first, lanes)
    for i in range(s):
        offset = step.offsets[i]
        for a in range(filled):
            mean[i, a] = offset + distances[first + a, i] * step.inverse_speed
        mean[i, filled:] = mean[i, filled - 1]
        low, high = np.inf, -np.inf
        for a in range(lanes):
            value = mean[i, a]
            low = value if value < low else low
            high = value if value > high else high
        edge[i, 3], edge[i, 4] = low, high


@part
def _find_active(step: Step, tables: Tables) -> None:
    """Which signals a source may have made, by a bound on the weight of the pair."""
    for i in range(tables.w.shape[0]):
        steepness, norm, absent, low, high = tables.edge[i]
        floor = math.log(absent) - _NEGLIGIBLE
        for j in range(step.times.shape[0]):
            y = max(low - step.times[j], step.times[j] - high, 0.0) * steepness
            tables.active[i, j] = step.log_gain[i, j] + norm - y * y > step.log_clutter[j] + floor


@part(fastmath={"contract", "nsz"})
def _fill_weights(step: Step, tables: Tables) -> None:
    """Log-weights w, arrivals [Pareek] (5.2) in [Pareek] (5.66), and the largest one of every signal, left in c."""
    w, c, mean, steepness, norm = tables.w, tables.c, tables.mean, tables.steepness, tables.norm
    s, n, lanes = w.shape
    for j in range(n):
        # -1e300 where nothing explains a signal.
        c[j] = max(step.log_clutter[j], -1e300)
    for i in range(s):
        for j in range(n):
            if not tables.active[i, j]:
                w[i, j] = -np.inf
                continue
            time, gain = step.times[j], step.log_gain[i, j]
            for a in range(lanes):
                y = (time - mean[i, a]) * steepness[i, a]
                value = gain + norm[i, a] - y * y
                w[i, j, a] = value
                c[j, a] = value if value > c[j, a] else c[j, a]


@part(fastmath={"contract"})
def _divide(step: Step, tables: Tables) -> None:
    """Weights w and c, [Pareek] (5.67), from their logarithms, over the largest one of each signal."""
    w, c, scale = tables.w, tables.c, tables.scale
    s, n, lanes = w.shape
    for i in range(s):
        for j in range(n):
            if not tables.active[i, j]:
                w[i, j] = 0.0
                continue
            for a in range(lanes):
                w[i, j, a] = fast_exp(w[i, j, a] - c[j, a])
    scale[:] = 0.0
    for j in range(n):
        clutter = step.log_clutter[j]
        for a in range(lanes):
            scale[a] += c[j, a]
            c[j, a] = fast_exp(clutter - c[j, a])


@part(fastmath={"contract"})
def _fill_unheard(step: Step, tables: Tables) -> None:
    """Fill u, the cases M and L of [Pareek] (5.66): absent, late or too early.

    Where even the latest expected arrival is long before tau, being late adds less than a double can tell.
    """
    u, mean, steepness, detection = tables.u, tables.mean, tables.steepness, tables.detection
    s, lanes = u.shape
    for i in range(s):
        u[i] = tables.absent[i]
        late = (step.tau - tables.edge[i, 4]) * tables.edge[i, 0] < _NEVER_LATE or tables.edge[i, 2] < 0.01
        if step.ranked and late:
            for a in range(lanes):
                u[i, a] += detection[i, a] * half_erfc((step.tau - mean[i, a]) * steepness[i, a])
        if step.ranked and step.early > -np.inf:
            for a in range(lanes):
                u[i, a] += detection[i, a] * half_erfc((mean[i, a] - step.early) * steepness[i, a])


@part(fastmath={"contract"})
def _fill_log_unheard(step: Step, tables: Tables) -> None:
    """The same as logarithms."""
    s, lanes = tables.u.shape
    for i in range(s):
        for a in range(lanes):
            value, detection = math.log(tables.absent[i, a]), tables.detection[i, a]
            if step.ranked and detection > 0:
                mean, inverse = tables.mean[i, a], tables.steepness[i, a] / _SQRT_HALF
                value = np.logaddexp(value, math.log(detection) + log_cdf((mean - step.tau) * inverse))
                if step.early > -np.inf:
                    value = np.logaddexp(value, math.log(detection) + log_cdf((step.early - mean) * inverse))
            tables.u[i, a] = min(value, 0.0) if step.ranked else value
