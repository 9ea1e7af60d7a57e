r"""The chance that some racers arrive before all others, whatever their order: one integral, its slopes and curvatures.

Racer i arrives at an exponential time of rate $r_i$, the first of the others at rate 1, so that all of a tier of m
arrive before them with probability

$$P = \int_0^\infty e^{-t} \prod_{i=1}^m (1 - e^{-r_i t})\, dt.$$

One racer: $P = r/(1 + r)$; two: $P = \frac{r_1}{1 + r_1}\frac{r_2}{1 + r_2}\big(1 + \frac{1}{1 + r_1 + r_2}\big)$. More
take the trapezoid rule. In $x = \log t$, with $z_i = r_i e^x$, the log-integrand
$L(x) = x - e^x + \sum_i \log(1 - e^{-z_i})$ is concave: with $a(z) = z/(e^z - 1)$ and $b(z) = a (a + z - 1) \ge 0$

$$L' = 1 - e^x + \sum_i a(z_i), \qquad L'' = -e^x - \sum_i b(z_i),$$

so that its mode lies in $[0, \log(m + 1)]$. Since $1 - e^{-z} = z / (a + z)$, a node costs one exponential and one
division a racer, and logarithms are taken of products of eight.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import part
from luce.numerics.fast_exp import fast_exp, fast_expm1, fast_log
from luce.numerics.softplus import softplus

_FIRST_NODES, _MOST_NODES = 32, 1024
_STEP, _CENTRE = 0.55, 17
"""Of the first nodes, in standard deviations at the mode, and which of them is there: the left tail is the slow one."""
_LATE = 50.0
"""z beyond which a racer has arrived: a(50) = 1e-20."""
_EARLY = -38.0
"""log z below which a(z) = 1 to the last bit."""
_KEPT = 8192
"""How many a(z) are kept between the two passes over racers and nodes; those beyond are computed twice."""
_FLUSH = 8
"""Racers of one product: (e^-78)^8 and (50^8) are far from the ends of the numbers."""


@part
def room_for_tiers(longest):  # type: ignore[no-untyped-def]
    """Room for `chance_of_tier`: rows of nodes, rows of racers, and what is kept of both."""
    # Rows that were a power of two apart would share the same few places of the cache.
    return np.empty((7, _MOST_NODES + 40)), np.empty((3, longest)), np.empty(min(longest * _FIRST_NODES, _KEPT))


@part
def chance_of_tier(log_rates, slopes, curvatures, room):  # type: ignore[no-untyped-def]
    r"""`(log P, sum of slopes, second)` of a tier with rates $r_i = e^{l_i}$ against 1.

    Fills `slopes`, $g_i = \partial \log P / \partial l_i = E[a(z_i)]$, means over the integrand's own distribution of
    t, and, unless it is empty, `curvatures`, the second derivatives of $-\log P$: $E[z_i a(z_i)] - g_i (1 - g_i)$ in
    the tier. With $\pi_j$ the share of one of the others in their rate, that in its log-rate is
    $\pi_j \sum g - \pi_j^2$ second, second $= \operatorname{Var} t - 1$; it is 0 where no curvature is asked for.

    A surrogate that lies above (Jensen's inequality over t: $E[b(z_i)]$ and $\pi_j (1 + \sum g)$) was rejected: beyond
    the tier it is four times as large, and boosted trees were worse by it on held-out training queries.
    """
    m = len(log_rates)
    if m == 1:
        return _one(log_rates[0], slopes, curvatures)
    if m == 2:
        return _two(log_rates, slopes, curvatures)
    nodes, racers, kept = room
    mode, deviation, skew = _mode(log_rates, racers)
    x, base = nodes[0], nodes[1]
    n, step = np.int64(_FIRST_NODES), _STEP  # not the literal, for which callees would be compiled once more
    for i in range(n):  # bent, so that the slow tail of a skew integrand is covered by as few nodes as the fast one
        s = step * (_place(i, n) - _CENTRE)
        x[i] = mode + deviation * (1.0 - fast_exp(-skew * s)) / skew
        base[i] = -skew * s
    step *= deviation
    log_p, total, second, good = _sums(log_rates, slopes, curvatures, n, nodes, racers, kept)
    if good:
        return log_p + math.log(step), total, second
    # Tiers far apart: plateaus with sharp edges, for which even steps are best, halved until nothing moves.
    left, right = _end(log_rates, mode, -4.0 * deviation), _end(log_rates, mode, 3.0 * deviation)
    while n < _MOST_NODES and not good:
        n *= 2
        step = (right - left) / (n - 1)
        for i in range(n):
            x[i] = left + step * _place(i, n)
            base[i] = 0.0
        log_p, total, second, good = _sums(log_rates, slopes, curvatures, n, nodes, racers, kept)
    return log_p + math.log(step), total, second


@part
def _place(i, n):  # type: ignore[no-untyped-def]
    """Even nodes are kept before odd ones."""
    return 2 * i if i < n // 2 else 2 * i - n + 1


@part
def _one(log_rate, slopes, curvatures):  # type: ignore[no-untyped-def]
    loses = math.exp(-softplus(log_rate))
    slopes[0] = loses
    if len(curvatures):
        curvatures[0] = loses * (1.0 - loses)
    return -softplus(-log_rate), loses, loses * loses


@part
def _two(log_rates, slopes, curvatures):  # type: ignore[no-untyped-def]
    r, s = math.exp(min(log_rates[0], 300.0)), math.exp(min(log_rates[1], 300.0))
    once, twice = 1.0 / (1.0 + r + s), 1.0 / (2.0 + r + s)
    log_p = math.log1p(once) - softplus(-log_rates[0]) - softplus(-log_rates[1])
    share_r, share_s = r * once, s * once
    slopes[0] = 1.0 / (1.0 + r) - share_r * twice
    slopes[1] = 1.0 / (1.0 + s) - share_s * twice
    total, second = slopes[0] + slopes[1], 0.0
    if len(curvatures):
        bent = (once + twice) * (twice / once)
        h_r = r / (1.0 + r) / (1.0 + r) + share_r * twice - share_r * share_r * bent
        h_s = s / (1.0 + s) / (1.0 + s) + share_s * twice - share_s * share_s * bent
        curvatures[0], curvatures[1] = max(h_r, 0.0), max(h_s, 0.0)
        second = total - h_r - h_s + 2.0 * share_r * share_s * bent
    return log_p, total, second


@part
def _mode(log_rates, racers):  # type: ignore[no-untyped-def]
    """Where L is greatest, about; its standard deviation there, and by how much steps to the left grow."""
    m, low, high = len(log_rates), 0.0, math.log(len(log_rates) + 1.0)
    x = 0.5 * (low + high)
    z, a = racers[0], racers[1]
    while True:
        for i in range(m):
            z[i] = fast_exp(min(max(log_rates[i] + x, -80.0), 3.9))
            a[i] = z[i] / fast_expm1(z[i])
        t = math.exp(x)
        first, second, third = 1.0 - t, t, -t
        for i in range(m):
            b = a[i] * (a[i] + z[i] - 1.0)
            first += a[i]
            second += b
            third += b * (2.0 * a[i] + z[i] - 1.0) - a[i] * z[i]
        if first * first < 0.02 * second:
            break
        if first > 0.0:
            low = x
        else:
            high = x
        x += first / second
        if not low < x < high:
            x = 0.5 * (low + high)
    deviation = 1.0 / math.sqrt(second)
    skew = min(max(-0.25 * third * deviation**3, -0.25), 0.25)
    return x, deviation, skew if abs(skew) > 1e-6 else 1e-6


@part
def _end(log_rates, mode, step):  # type: ignore[no-untyped-def]
    """Where L has fallen by 34 beside its mode, or by somewhat more; `step` is negative to the left."""
    top = _log_integrand(log_rates, mode)
    while _log_integrand(log_rates, mode + step) > top - 34.0:
        step *= 1.25
    return mode + step


@part
def _log_integrand(log_rates, x):  # type: ignore[no-untyped-def]
    total = x - math.exp(x)
    for log_rate in log_rates:
        log_z = log_rate + x
        total += math.log(-math.expm1(-math.exp(min(log_z, 4.0)))) if log_z > _EARLY else log_z
    return total


@part
def _weigh(log_rates, n, nodes, racers, kept):  # type: ignore[no-untyped-def]
    """Log-weights of the nodes into `nodes[3]`; returns the sum of the log-rates of those slow at all of them.

    Slow racers (a = 1 throughout) and those that have always arrived (a = 0) are set apart by `racers[2]`.
    """
    x, t, log_w, product, divisor, spare = nodes[0], nodes[2], nodes[3], nodes[4], nodes[5], nodes[6]
    rates, kind = racers[0], racers[2]
    low, high = x[0], x[0]
    for i in range(n):
        low, high = min(low, x[i]), max(high, x[i])
    slow, slow_sum = 0, 0.0
    for i in range(len(log_rates)):
        kind[i] = 1.0
        if log_rates[i] + high < _EARLY:
            slow += 1
            slow_sum += log_rates[i]
            kind[i] = 0.0
        elif log_rates[i] + low > 3.92:
            kind[i] = 2.0
    for i in range(n):
        t[i] = fast_exp(x[i])
        log_w[i] = nodes[1, i] + (1.0 + slow) * x[i] - t[i]
        product[i], divisor[i] = 1.0, 1.0
    active, waiting = 0, 0
    for i in range(len(log_rates)):
        if kind[i] != 1.0:
            continue
        rates[i] = fast_exp(log_rates[i])
        row = kept[active * n :] if active * n + n <= len(kept) else spare
        _hazards(rates[i], t, n, row)
        for j in range(n):
            z = min(rates[i] * t[j], _LATE)
            product[j] *= z
            divisor[j] *= row[j] + z
        active, waiting = active + 1, waiting + 1
        if waiting == _FLUSH:
            _flush(log_w, n, product, divisor)
            waiting = 0
    if waiting:
        _flush(log_w, n, product, divisor)
    return slow_sum


@part
def _hazards(rate, t, n, a):  # type: ignore[no-untyped-def]
    for j in range(n):
        z = min(rate * t[j], _LATE)
        a[j] = z / fast_expm1(z)


@part
def _flush(log_w, n, product, divisor):  # type: ignore[no-untyped-def]
    for j in range(n):
        log_w[j] += fast_log(product[j] / divisor[j])
        product[j], divisor[j] = 1.0, 1.0


@part(reorder=True)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@part
def _sums(log_rates, slopes, curvatures, n, nodes, racers, kept):  # type: ignore[no-untyped-def]
    """What `chance_of_tier` returns, but for the log of the step, and whether the nodes were enough.

    Three tests. Even and odd nodes alone must agree to a few 1e-6, in P and in every slope: the rule converges so fast
    that the error of both together is the square of theirs. The mean of L' must be 0, that is sum g = E[t] - 1. And
    nothing may be left beyond the ends.
    """
    slow_sum = _weigh(log_rates, n, nodes, racers, kept)
    t, log_w, w, wt, row = nodes[2], nodes[3], nodes[4], nodes[5], nodes[6]
    top = log_w[0]
    for j in range(n):
        top = max(top, log_w[j])
    even, odd, half = 0.0, 0.0, n // 2
    for j in range(n):
        w[j] = fast_exp(log_w[j] - top)
    for j in range(half):
        even += w[j]
        odd += w[half + j]
    mean = 0.0
    for j in range(n):
        w[j] /= even + odd
        wt[j] = w[j] * t[j]
        mean += wt[j]
    good = abs(even - odd) < 1e-5 * (even + odd)
    total, active = 0.0, 0
    for i in range(len(log_rates)):
        kind = racers[2, i]
        slopes[i] = 1.0 - 0.5 * kind
        if kind == 1.0:
            if active * n + n <= len(kept):
                row = kept[active * n :]
            else:
                row = nodes[6]
                _hazards(racers[0, i], t, n, row)
            by_even, slopes[i] = _dot(w, row, half), _dot(w, row, n)
            good &= (2.0 * by_even - slopes[i]) ** 2 < 1e-11 * slopes[i] + 1e-24
            active += 1
        if len(curvatures):
            curvatures[i] = 0.0
            if kind == 1.0:
                curvatures[i] = max(racers[0, i] * _dot(wt, row, n) - slopes[i] * (1.0 - slopes[i]), 0.0)
        total += slopes[i]
    good &= abs(1.0 + total - mean) < 3e-12 * (1.0 + mean)
    good &= log_w[0] < top - 24.0 and log_w[n - 1] < top - 24.0
    log_p = top + math.log(even + odd) + slow_sum
    second = _dot(wt, t, n) - mean * mean - 1.0 if len(curvatures) else 0.0
    return log_p, total, second, good
