r"""Races: item i arrives at an exponential time of rate $r_i$, and the first to arrive is ranked first. Three chances.

**A tier before all others** (`chance_of_tier`, `dead_heats`). With 1 the rate at which the first of the others arrives,
all of a tier of m arrive before them with probability

$$P = \int_0^\infty e^{-t} \prod_{i=1}^m (1 - e^{-r_i t})\, dt.$$

One racer: $P = r/(1 + r)$; two: $P = \frac{r_1}{1 + r_1}\frac{r_2}{1 + r_2}\big(1 + \frac{1}{1 + r_1 + r_2}\big)$. More
take the trapezoid rule. In $x = \log t$, with $z_i = r_i e^x$, the log-integrand
$L(x) = x - e^x + \sum_i \log(1 - e^{-z_i})$ is concave: with $a(z) = z/(e^z - 1)$ and $b(z) = a (a + z - 1) \ge 0$

$$L' = 1 - e^x + \sum_i a(z_i), \qquad L'' = -e^x - \sum_i b(z_i),$$

so that its mode lies in $[0, \log(m + 1)]$. Since $1 - e^{-z} = z / (a + z)$, a node costs one exponential and one
division a racer, and logarithms are taken of products of eight. The Hessian of $\log P$ comes from the same nodes: with
weights w it is $\mathrm{Cov}_w(a) - \mathrm{diag}(E_w b)$.

**The first s of all are of one tier** (`chance_of_seats`), of more racers than there are seats:

$$P = \int_0^\infty e^{-t}\, P(N_t \ge s)\, dt$$

with $N_t$ the number of the tier that have arrived, Poisson-binomial with chances $1 - e^{-r_i t}$: sums of positive
numbers, so that P is right to its last digits however small it is (in logarithms, where plain numbers end).

**One item among the first k of all** (`chances_in_top`):

$$P(i \in \text{top } k) = \int_0^\infty r_i e^{-r_i t}\; G_i(t)\,dt,
  \qquad G_i(t) = P(\text{fewer than } k \text{ others by } t),$$

a Poisson-binomial again. The falling curve $G_i$ is nearly that of a gamma variable, $H(t) = Q(m, \mu t)$, with $m$ and
$\mu$ from mean and variance of the number that has arrived, and with $H$ in the place of $G_i$ the integral is
$1 - (1 + r_i/\mu)^{-m}$. What is left to integrate is $r_i e^{-r_i t}(G_i - H)$, which lives only where the k-th item
arrives: in $\log t$ it is analytic and falls off on both sides, so that the trapezoid rule is right to about 6e-15 with
30 to 80 nodes.

The time of the k-th arrival is spread over about $1/\sqrt{k}$ in $\log t$: the step of the last two rules is 0.2 up to
k = 8, and falls as $1/\sqrt{k}$ beyond.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincc

from luce.numerics.compiled import kernel, part
from luce.numerics.fast_exp import fast_exp, fast_expm1, fast_log, log_add, softplus
from luce.types import FloatArray

_FIRST_NODES, _MOST_NODES = 32, 1024
_STEP, _CENTRE = 0.55, 17
"""Of the first nodes, in standard deviations at the mode, and which of them is there: the left tail is the slow one."""
_LATE = 50.0
"""z beyond which a racer has arrived: a(50) = 1e-20."""
_FEW, _NEAR = 4, 30.0
"""Tiers so small, with log-rates within these, go over their sets, in less than half the time of the integral."""
_EARLY = -38.0
"""log z below which a(z) = 1 to the last bit."""
_KEPT = 8192
"""How many a(z) are kept between the two passes over racers and nodes; those beyond are computed twice."""
_FLUSH = 8
"""Racers of one product: (e^-78)^8 and (50^8) are far from the ends of the numbers."""
_ARRIVAL_STEP = 0.2
_PLAIN = 300.0
"""Sum of the log-rates of the first to arrive, with its sign turned, from which on the program runs on logarithms."""
_DROP = 36.0
"""Nodes whose log-weight is this much below the greatest count no more."""
_FAR = 800.0
"""Nodes end this far from the centre, where logarithms of rates are so extreme that rounding hides the fall."""
_ARRIVED = 4.0
"""log(rate * time) after which an arrival has happened (1 - 1e-23)."""
_NEGLIGIBLE = 1e-17
"""A chance that counts as none."""


@part
def room_for_tiers(longest):  # type: ignore[no-untyped-def]
    """Room for `chance_of_tier`: rows of nodes, rows of racers, what is kept of both, and how many nodes were used."""
    # Rows that were a power of two apart would share the same few places of the cache.
    nodes, kept = np.empty((7, _MOST_NODES + 40)), np.empty(min(longest * _FIRST_NODES, _KEPT))
    return nodes, np.empty((3, longest)), kept, np.empty(1, np.int64)


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
    nodes, racers, kept, used = room
    mode, deviation, skew = _mode(log_rates, racers)
    x, base = nodes[0], nodes[1]
    n, step = np.int64(_FIRST_NODES), _STEP  # not the literal, for which callees would be compiled once more
    for i in range(n):  # bent, so that the slow tail of a skew integrand is covered by as few nodes as the fast one
        s = step * (_place(i, n) - _CENTRE)
        x[i] = mode + deviation * (1.0 - fast_exp(-skew * s)) / skew
        base[i] = -skew * s
    step *= deviation
    log_p, total, second, good = _sums(log_rates, slopes, curvatures, n, nodes, racers, kept)
    used[0] = n
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
    used[0] = n
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


@kernel
def dead_heats(log_rates, starts, values, slopes, blocks):  # type: ignore[no-untyped-def]
    """Log P of every tier, its gradient and, unless `blocks` is empty, its Hessian, the rows of one after the other.

    Tier k holds `log_rates[starts[k]:starts[k + 1]]`.
    """
    longest, cell = np.int64(1), 0
    for k in range(len(values)):
        longest = max(longest, starts[k + 1] - starts[k])
    room, bends = room_for_tiers(longest), np.empty(longest)
    sets = np.empty((1 << _FEW, 1 + _FEW + _FEW * _FEW))
    for k in range(len(values)):
        m = starts[k + 1] - starts[k]
        if m == 1:  # as most are: `_one` without slices
            z = log_rates[starts[k]]
            small = fast_exp(-abs(z))
            loses = (small if z > 0.0 else 1.0) / (1.0 + small)
            values[k], slopes[starts[k]] = min(z, 0.0) - fast_log(1.0 + small), loses
            if len(blocks):
                blocks[cell] = -loses * (1.0 - loses)
                cell += 1
            continue
        rates, slope = log_rates[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]]
        if 2 < m <= _FEW and max(np.max(rates), -np.min(rates)) < _NEAR:
            values[k] = _few(rates, sets, slope, blocks[cell : cell + m * m])
            cell += m * m if len(blocks) else 0
            continue
        values[k], _, _ = chance_of_tier(rates, slope, bends[: m if len(blocks) else 0], room)
        if not len(blocks):
            continue
        block = blocks[cell : cell + m * m].reshape(m, m)
        cell += m * m
        if m > 2:
            n = room[3][0]
            _covariance(rates, slope, room[0][2, :n], room[0][4, :n], block)
            continue
        block[0, 0], block[1, 1] = -bends[0], -bends[1]
        r, s = math.exp(min(rates[0], 300.0)), math.exp(min(rates[1], 300.0))
        block[0, 1] = block[1, 0] = (r / (1.0 + r + s)) * (s / (1.0 + r + s)) - (r / (2.0 + r + s)) * (
            s / (2.0 + r + s)
        )


@part
def _few(log_rates, sets, slopes, block):  # type: ignore[no-untyped-def]
    """Log P of a small tier with its gradient and, unless `block` is empty, its Hessian.

    P of a set is the sum over its last racer of r_i / (1 + sum r) times P of the others: sums of positive terms, and
    derivatives in the log-rates by the same recursion, for all sets of the tier.
    """
    m = len(log_rates)
    sets[0] = 0.0
    sets[0, 0] = 1.0
    cells = 1 + m + (m * m if len(block) else 0)
    for i in range(m):
        slopes[i] = math.exp(log_rates[i])  # the rates, until the end
    for members in range(1, 1 << m):
        row, total = sets[members], 1.0
        row[:cells] = 0.0
        for i in range(m):
            if members >> i & 1:
                rate, before = slopes[i], sets[members ^ (1 << i)]
                total += rate
                for c in range(cells):
                    row[c] += rate * before[c]
                row[1 + i] += rate * before[0]
                if len(block):
                    own = row[1 + m + i * m : 1 + m + i * m + m]
                    for j in range(m):
                        own[j] += rate * before[1 + j]
                        row[1 + m + j * m + i] += rate * before[1 + j]
                    own[i] += rate * before[0]
        row[0] /= total
        for i in range(m):
            rate = slopes[i] if members >> i & 1 else 0.0
            row[1 + i] = (row[1 + i] - rate * row[0]) / total
        for i in range(m if len(block) else 0):
            rate = slopes[i] if members >> i & 1 else 0.0
            for j in range(m):
                other = slopes[j] if members >> j & 1 else 0.0
                cell = 1 + m + i * m + j
                less = rate * row[1 + j] + other * row[1 + i] + (rate * row[0] if i == j else 0.0)
                row[cell] = (row[cell] - less) / total
    whole = sets[(1 << m) - 1]
    for i in range(m):
        slopes[i] = whole[1 + i] / whole[0]
    for i in range(m if len(block) else 0):
        for j in range(m):
            block[i * m + j] = whole[1 + m + i * m + j] / whole[0] - slopes[i] * slopes[j]
    return math.log(whole[0])


@part
def _covariance(log_rates, slopes, t, w, block):  # type: ignore[no-untyped-def]
    """Cov(a) - diag(E b) over nodes at times t with weights w."""
    m, n = len(log_rates), len(t)
    a = np.empty((m, n))
    for i in range(m):
        rate = math.exp(min(log_rates[i], 700.0))
        _hazards(rate, t, n, a[i])
        for j in range(i + 1):
            total = 0.0
            for node in range(n):
                total += w[node] * a[i, node] * a[j, node]
            block[i, j] = block[j, i] = total - slopes[i] * slopes[j]
        for node in range(n):
            block[i, i] -= w[node] * a[i, node] * max(a[i, node] + min(rate * t[node], _LATE) - 1.0, 0.0)


@part
def chance_of_seats(log_rates, seats, logs, slopes, bends):  # type: ignore[no-untyped-def]
    r"""`(log P, sum of slopes, Var t - 1)`; fills slopes and, unless it is empty, the curvatures of -log P.

    `logs` is None for plain numbers and True for logarithms, which rates far below 1 need. Where the rates want the
    other one, log P is NaN. Of None the compiler knows that there are no logarithms, and passes them by.

    With $z_i = r_i t$ and $q_i$ the chance that exactly s - 1 others have arrived, the slopes are
    $\int e^{-t} z_i e^{-z_i} q_i\,dt / P$, and their derivatives have $z_i (1 - z_i)$ in place of $z_i$.
    """
    m = len(log_rates)
    step = _ARRIVAL_STEP * min(1.0, np.sqrt(8.0 / seats))
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
                new[c] = log_add(old[c] + stays[i], old[c - 1] + p[i])
            new[seats] = log_add(new[seats], old[seats] + p[i])
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
                behind[c] = log_add(behind[c] + stays[i], behind[c - 1] + p[i])
            else:
                behind[c] = behind[c] * stays[i] + behind[c - 1] * p[i]
        behind[0] = behind[0] + stays[i] if logs is not None else behind[0] * stays[i]


def chances_in_top(scores: FloatArray, k: int) -> FloatArray:
    """The chance of every item to be among the first k, of log-rates `scores`, for 1 <= k < n.

    >>> chances_in_top(np.log([2.0, 1.0, 1.0]), 1).round(12).tolist()
    [0.5, 0.25, 0.25]
    """
    middle, shape = _arrival(scores, k)
    log_rate = np.log(shape) - middle
    # 1 - (1 + lambda / mu)^-m; where lambda / mu would overflow, nothing is lost by stopping short of it.
    probability = -np.expm1(-shape * np.log1p(np.exp(np.minimum(scores - log_rate, 700.0))))
    step = _ARRIVAL_STEP * min(1.0, np.sqrt(8.0 / k))
    ahead, behind, room = np.empty((len(scores) + 1, k)), np.empty(k), np.empty(len(scores))
    for direction in (1, -1):
        node, done = (0, False) if direction == 1 else (1, False)
        while not done:
            u = middle + direction * node * step
            z = scores + u
            _room(z, k, ahead, behind, room)
            gamma = float(gammaincc(shape, np.exp(min(u + log_rate, 700.0))))
            near = (z > _EARLY) & (z <= _ARRIVED)
            at = z[near]
            probability[near] += step * np.exp(at - np.exp(at)) * (room[near] - gamma)
            # Both curves fall from 1 to 0: once both are at their end, nothing is beyond. Their sums round near 1.
            if direction == 1:
                done = max(gamma, room[near].max(initial=0.0)) < _NEGLIGIBLE
            else:
                done = 1.0 - min(gamma, room[near].min(initial=1.0)) < 1e3 * _NEGLIGIBLE
            node += 1
    return np.asarray(np.clip(probability, 0.0, 1.0))


def _arrival(scores: FloatArray, k: int) -> tuple[float, float]:
    """When k - 1/2 documents are expected to have arrived, as log t, and the shape of the gamma variable that fits."""
    low, high = -float(scores.max()) - 40.0, -float(np.partition(scores, -k)[-k]) + 6.0
    while high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        middle = 0.5 * (low + high)
        arrived = -np.expm1(-np.exp(np.minimum(scores + middle, _ARRIVED)))
        low, high = (low, middle) if arrived.sum() > k - 0.5 else (middle, high)
    rate = np.exp(np.minimum(scores + high, _ARRIVED))
    late = np.exp(-rate)
    slope, variance = float(np.sum(rate * late)), float(np.sum(late * (1.0 - late)))
    return high, max(1.0, slope**2 / variance)


@kernel(reorder=True)
def _room(z, k, ahead, behind, room):  # type: ignore[no-untyped-def]
    """`room[i]` becomes the chance that fewer than k of the others have arrived, at z = log(rate * time) of each.

    `ahead[a, c]` is the chance that c of the first a undecided documents have arrived, `behind[c]` that at most c of
    the last ones have; those that are sure to have arrived only take seats.
    """
    undecided, sure = 0, 0
    active, arrived = np.empty(len(z), dtype=np.int64), np.empty(len(z))
    for i in range(len(z)):
        room[i] = 0.0
        if z[i] > _ARRIVED:
            sure += 1
        elif z[i] > _EARLY:
            active[undecided] = i
            arrived[undecided] = -np.expm1(-np.exp(z[i]))
            undecided += 1
    seats = k - sure
    if seats < 1:
        return
    ahead[0, :seats] = 0.0
    ahead[0, 0] = 1.0
    for a in range(undecided):
        p = arrived[a]
        old, new = ahead[a], ahead[a + 1]
        new[0] = old[0] * (1.0 - p)
        for c in range(1, seats):
            new[c] = old[c] * (1.0 - p) + old[c - 1] * p
    behind[:seats] = 1.0
    for a in range(undecided - 1, -1, -1):
        total = 0.0
        for c in range(seats):
            total += ahead[a, c] * behind[seats - 1 - c]
        room[active[a]] = total
        p = arrived[a]
        for c in range(seats - 1, 0, -1):
            behind[c] = behind[c] * (1.0 - p) + behind[c - 1] * p
        behind[0] *= 1.0 - p
