r"""The chance that the first to arrive in a race are all of one tier, of more racers than there are seats.

Racer i of the tier arrives at an exponential time of rate $r_i$, the first of the others at rate 1, so that the first
$s$ arrivals are all of the tier with probability

$$P = \int_0^\infty e^{-t}\, P(N_t \ge s)\, dt$$

with $N_t$ the number of the tier that have arrived, Poisson-binomial with chances $1 - e^{-r_i t}$: sums of positive
numbers, so that P is right to its last digits however small it is (in logarithms, where plain numbers end). The
trapezoid rule in $\log t$ takes steps as `luce.losses.topk_probability` does, for the arrival of the s-th is spread
over about $1/\sqrt{s}$.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import part

_STEP = 0.2
_PLAIN = 300.0
"""Sum of the log-rates of the first to arrive, with its sign turned, from which on the program runs on logarithms."""
_DROP = 36.0
"""Nodes whose log-weight is this much below the greatest count no more."""
_FAR = 800.0
"""Nodes end this far from the centre, where logarithms of rates are so extreme that rounding hides the fall."""


@part
def chance_of_seats(log_rates, seats, logs, slopes, bends):  # type: ignore[no-untyped-def]
    r"""`(log P, sum of slopes, Var t - 1)`; fills slopes and, unless it is empty, the curvatures of -log P.

    `logs` is None for plain numbers and True for logarithms, which rates far below 1 need. Where the rates want the
    other one, log P is NaN. Of None the compiler knows that there are no logarithms, and passes them by.

    With $z_i = r_i t$ and $q_i$ the chance that exactly s - 1 others have arrived, the slopes are
    $\int e^{-t} z_i e^{-z_i} q_i\,dt / P$, and their derivatives have $z_i (1 - z_i)$ in place of $z_i$.
    """
    m = len(log_rates)
    step = _STEP * min(1.0, np.sqrt(8.0 / seats))
    chances = np.empty((3, m)), np.empty((m + 1, seats + 1)), np.empty(seats)
    late, sum_late = _latest(log_rates, chances[2])
    if (sum_late > _PLAIN) != (logs is not None):
        return np.nan, 0.0, 0.0
    for i in range(m):
        slopes[i] = 0.0
        if len(bends):
            bends[i] = 0.0
    # The s-th arrival or the first of the others, whichever is earlier, is near the mode; go outwards from there.
    centre = max(min(late, 3.0), 0.0)
    scale, mass, mean, square = -np.inf, 0.0, 0.0, 0.0
    for side in (-1, 1):
        node, before = 0 if side < 0 else 1, -np.inf
        while True:
            x = centre + side * node * step
            log_w = x - np.exp(x) + _arrivals(log_rates, x, seats, logs, chances)
            if log_w > scale:  # all that was summed so far is put on the new scale
                shrink = np.exp(scale - log_w)
                mass, mean, square = mass * shrink, mean * shrink, square * shrink
                for i in range(m):
                    slopes[i] *= shrink
                    if len(bends):
                        bends[i] *= shrink
                scale = log_w
            if (log_w < scale - _DROP and log_w <= before) or abs(x - centre) > _FAR or np.isnan(log_w):
                break
            before = log_w
            w, t = np.exp(log_w - scale), np.exp(x)
            mass, mean, square = mass + w, mean + w * t, square + w * t * t
            _add_slopes(seats, w, logs, chances, slopes, bends)
            node += 1
    total = 0.0
    for i in range(m):
        slopes[i] /= mass
        total += slopes[i]
        if len(bends):
            bends[i] = max(slopes[i] * slopes[i] - bends[i] / mass, 0.0)
    mean /= mass
    return scale + np.log(mass * step), total, square / mass - mean * mean - 1.0


@part
def _latest(log_rates, first):  # type: ignore[no-untyped-def]
    """-log r of the slowest of as many of the fastest as `first` has room for, and the sum of those above 0."""
    n = 0
    for log_rate in log_rates:
        place = n if n < len(first) else n - 1
        if n == len(first) and not -log_rate < first[place]:
            continue
        n = min(n + 1, len(first))
        while place > 0 and first[place - 1] > -log_rate:
            first[place] = first[place - 1]
            place -= 1
        first[place] = -log_rate
    total = 0.0
    for i in range(n):
        total += max(first[i], 0.0)
    return first[n - 1], total


@part
def _arrivals(log_rates, x, seats, logs, chances):  # type: ignore[no-untyped-def]
    """Log of P(N >= seats); `ahead[i, c]` becomes P(c of the first i have arrived), or its log.

    Column `seats` stands for that many or more.
    """
    z, p, stays = chances[0]
    ahead = chances[1]
    m = len(log_rates)
    for i in range(m):
        log_z = log_rates[i] + x
        z[i] = np.exp(min(log_z, 6.5))
        p[i], stays[i] = -np.expm1(-z[i]), np.exp(-z[i])
        if logs is not None:
            p[i], stays[i] = np.log(p[i]) if log_z > -30.0 else log_z, -z[i]
    for c in range(seats + 1):
        ahead[0, c] = -np.inf if logs is not None else 0.0
    ahead[0, 0] = 0.0 if logs is not None else 1.0
    for i in range(m):
        old, new = ahead[i], ahead[i + 1]
        if logs is not None:
            new[0] = old[0] + stays[i]
            for c in range(1, seats + 1):
                new[c] = _log_add(old[c] + stays[i], old[c - 1] + p[i])
            new[seats] = _log_add(new[seats], old[seats] + p[i])
        else:
            new[0] = old[0] * stays[i]
            for c in range(1, seats + 1):
                new[c] = old[c] * stays[i] + old[c - 1] * p[i]
            new[seats] += old[seats] * p[i]
    reached = ahead[m, seats]
    return reached if logs is not None else np.log(reached)


@part
def _add_slopes(seats, w, logs, chances, slopes, bends):  # type: ignore[no-untyped-def]
    """Add w z e^-z q / P(N >= seats) of every racer, q the chance that exactly seats - 1 others have arrived."""
    z, p, stays = chances[0]
    ahead, behind = chances[1], chances[2]
    m = len(slopes)
    reached = ahead[m, seats]
    for c in range(seats):
        behind[c] = -np.inf if logs is not None else 0.0
    behind[0] = 0.0 if logs is not None else 1.0
    for i in range(m - 1, -1, -1):
        q = 0.0
        for c in range(seats):
            both = ahead[i, c] + behind[seats - 1 - c] - reached if logs is not None else 0.0
            # In logs p stands for z: where they differ, z e^-z / (1 - e^-z) is the missing factor.
            q += np.exp(both + p[i]) if logs is not None else ahead[i, c] * behind[seats - 1 - c]
        if logs is not None:
            slope = w * q * (z[i] / np.expm1(z[i]) if z[i] > 1e-12 else 1.0)
        else:
            slope = w * z[i] * stays[i] * q / reached
        slopes[i] += slope
        if len(bends):
            bends[i] += slope * (1.0 - z[i])
        for c in range(seats - 1, 0, -1):
            if logs is not None:
                behind[c] = _log_add(behind[c] + stays[i], behind[c - 1] + p[i])
            else:
                behind[c] = behind[c] * stays[i] + behind[c - 1] * p[i]
        behind[0] = behind[0] + stays[i] if logs is not None else behind[0] * stays[i]


@part(forceinline=True)
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high)) if low > -np.inf else high
