r"""Elementary symmetric polynomials of scores: exact sums over all subsets, size by size.

The sum over the subsets of size $m$ of $\exp\{\frac1m\sum_{i \in S} f_i\}$ is $e_m(x)$ with $x_i = e^{f_i/m}$. The
textbook program $E_{i,j} = E_{i-1,j} + x_i E_{i-1,j-1}$ overflows; here it runs on the ratios
$r_{i,j} = E_{i,j} / E_{i,j-1}$ instead,

$$s_{i,j} = \frac{r_{i-1,j}}{r_{i-1,j} + x_i}, \qquad r_{i,j} = (r_{i-1,j} + x_i)\, s_{i,j-1},$$

where $s_{i,j}$ is the probability that item $i$ stays out of a subset that has $j$ members among the first $i$ items.
No scale has to be carried along, no logarithm is taken in the inner loop, and rounding errors do not grow:
$\log r_{i,j}$ depends on $\log r_{i-1,j}$ and $\log r_{i-1,j-1}$ with weights that sum to at most one (Newton's
inequality). Also

* $\log E_{n,m} = \sum_{i \le m} \log x_i - \sum_{m < i \le n} \log s_{i,m}$, for every prefix $n$ in one sweep;
* the chance $s$ walked back from $(n, m)$ gives marginals, that is gradients, and exact samples;
* a cell $(i, j)$ is needed only if $m - (n - i) \le j \le \min(i, m)$: all sizes cost about $n^3/6$ cells.

Ratios have the range of $e^{f/m}$. Where that leaves float64 (scores further apart than 600 m) the same program
runs on logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import kernel, part

WIDEST = 600.0
"""The range of f/m up to which ratios are plain numbers: chances go down to exp(-range), floats to exp(-708)."""
NEGLIGIBLE = 1e-17
"""A size whose share of the whole sum is below this, divided by the number of items, is left out."""
SHORT = 32
"""Up to this many items all sizes are computed: finding out which to leave out would cost as much."""


@kernel
def forward(scores, m, n, log_e, ratio, stay, keep):  # type: ignore[no-untyped-def]
    """Run the program for size m over the first n scores.

    `log_e[i]` becomes log e_m of the first i + 1 scores, where that many are at least m. With `keep`, row i of `stay`
    holds the chances of item i to stay out; else row 0 serves all items.
    """
    high, low = scores[0], scores[0]
    for i in range(n):
        high, low = max(high, scores[i]), min(low, scores[i])
    centre = low + 0.5 * (high - low)
    plain = high - low <= WIDEST * m
    for j in range(m + 1):
        ratio[j] = 0.0 if plain else -np.inf
    total = centre
    for i in range(n):
        row = stay[i] if keep else stay[0]
        first, last = max(1, m - (n - 1 - i)), min(i + 1, m)
        y = (scores[i] - centre) / m
        log_stay = _add(np.exp(y), first, last, ratio, row) if plain else _add_log(y, first, last, ratio, row)
        total += y if i < m else -log_stay
        log_e[i] = total


@part
def _add(x, first, last, ratio, stay):  # type: ignore[no-untyped-def]
    """Bring one item in: cells `first` to `last`; returns the log of the last chance to stay out."""
    stay[0] = 1.0
    # Views that start at the first cell: loops from 0 carry no test for negative indices and are vectorised.
    start = max(first - 1, 1)
    old, chance = ratio[start : last + 1], stay[start : last + 1]
    for j in range(last + 1 - start):
        chance[j] = old[j] / (old[j] + x)
    new, below = ratio[first : last + 1], stay[first - 1 : last]
    for j in range(last + 1 - first):
        new[j] = (new[j] + x) * below[j]
    return np.log(stay[last])


@part
def _add_log(y, first, last, ratio, stay):  # type: ignore[no-untyped-def]
    """As `_add`, with `ratio` and the item as logarithms."""
    stay[0] = 1.0
    log_stay = 0.0  # of cell j - 1
    for j in range(max(first - 1, 1), last + 1):
        high, low = max(ratio[j], y), min(ratio[j], y)
        both = high + np.log1p(np.exp(low - high))
        here = ratio[j] - both
        if j >= first:
            ratio[j] = both + log_stay
        stay[j] = np.exp(here)
        log_stay = here
    return log_stay


@kernel(reorder=True)
def pull_back(stay, m, n, ends, weight, mass, out):  # type: ignore[no-untyped-def]
    """Add to `out` the marginals of size m, summed over prefixes `ends` (increasing, up to n) with `weight`.

    `mass[j]` is the weight of the subsets that have j members among the items not yet walked over. The prefixes
    share one walk: each lets its weight in where it ends.
    """
    for j in range(m + 1):
        mass[j] = 0.0
    k = len(ends) - 1
    for i in range(n - 1, -1, -1):
        if k >= 0 and ends[k] == i + 1:
            mass[m] += weight[k]
            k -= 1
        first, last = max(1, m - (n - 1 - i)), min(i + 1, m)
        here, chance = mass[first - 1 : last + 1], stay[i, first - 1 : last + 1]
        taken, cells = 0.0, last - first + 1
        for j in range(cells):
            up = here[j + 1] * (1.0 - chance[j + 1])
            taken += up
            here[j] = here[j] * chance[j] + up
        here[cells] *= chance[cells]
        out[i] += taken


@kernel
def walk_back(stay, m, n, uniform, member):  # type: ignore[no-untyped-def]
    """Draw a subset of size m of the first n items with n uniform numbers."""
    j = m
    for i in range(n - 1, -1, -1):
        member[i] = j > 0 and uniform[i] >= stay[i, j]
        if member[i]:
            j -= 1


@kernel
def prefix_log_sums(scores, ends, reach, out, stay):  # type: ignore[no-untyped-def]
    """`out[k, m]` = log e_m over the first `ends[k]` scores; -inf where there is none, or `reach[m]` ends before.

    `stay[m]` keeps the chances of size m, where `stay` has room for every size; else `stay[0, 0]` is scratch.
    """
    n, keep = ends[-1], len(stay) > 1
    log_e, ratio = np.empty(n), np.empty(n + 1)
    for m in range(n + 1):
        for k in range(len(ends)):
            out[k, m] = -np.inf
        if m == 0 or reach[m] < m:
            continue
        forward(scores, m, reach[m], log_e, ratio, stay[m if keep else 0], keep)
        for k in range(len(ends)):
            if m <= ends[k] <= reach[m]:
                out[k, m] = log_e[ends[k] - 1]


@part
def log_choices(n, m):  # type: ignore[no-untyped-def]
    """Log of the number of subsets of m of n items."""
    return math.lgamma(n + 1.0) - math.lgamma(m + 1.0) - math.lgamma(n - m + 1.0)


@part
def even_out(log_e, n):  # type: ignore[no-untyped-def]
    """Take the log of the number of subsets of m of n items from every `log_e[m]`."""
    for m in range(1, n + 1):
        log_e[m] -= log_choices(n, m)


@part
def _needed(scores, ends, reach, evened):  # type: ignore[no-untyped-def]
    """For every size the longest prefix in whose sum over all sizes it counts; 0 where it counts nowhere.

    With C the binomial coefficient, a bound above is log e_m <= log C(n, m) + m log mean(e^{f/m}) (Maclaurin), bounds
    below for the sum over sizes are log C(n, n/2) + mean(f) (Jensen) and the sum over subsets of one item. `evened`
    sums leave C out: of the first bound, and of the others, where one size alone stands for all.
    """
    n = ends[-1]
    for m in range(n + 1):
        reach[m] = n if n <= SHORT else 0
    if n <= SHORT:
        return
    log_factorial, floor = np.empty(n + 1), np.empty(len(ends))
    log_factorial[0], log_factorial[1] = 0.0, 0.0
    for i in range(2, n + 1):
        log_factorial[i] = log_factorial[i - 1] + math.log(i)
    for m in range(1, n + 1):
        top, total, plain, k = -np.inf, 0.0, 0.0, 0
        for i in range(n):
            y = scores[i] / m
            plain += scores[i]
            if y > top:
                total, top = total * np.exp(top - y) + 1.0, y
            else:
                total += np.exp(y - top)
            if ends[k] != i + 1:
                continue
            size, log_total = ends[k], top + np.log(total)
            if m == 1:
                choices = log_factorial[size] - log_factorial[size // 2] - log_factorial[size - size // 2]
                singles = log_total - math.log(size) if evened else log_total
                floor[k] = max(singles, (0.0 if evened else choices) + plain / size) + math.log(NEGLIGIBLE / size)
            if m <= size:
                choices = 0.0 if evened else log_factorial[size] - log_factorial[m] - log_factorial[size - m]
                if choices + m * (log_total - math.log(size)) > floor[k]:
                    reach[m] = size
            k += 1


@part
def partition_functions(scores, ends, importance, evened, log_z, out, out_square):  # type: ignore[no-untyped-def]
    """`log_z[k]` = log of the sum of exp(mean score) over all non-empty subsets of the first `ends[k]` scores.

    `evened` divides by the number of subsets of the same size, so that it is the sum over sizes of means.

    Unless it is empty, `out` becomes the gradient of the sum over k, weighed by `importance`, which is the expectation
    of 1[i in S]/|S|, and `out_square`, unless it is empty, the expectation of 1[i in S]/|S|^2, both summed likewise.
    `ends` increases.
    """
    n, prefixes = ends[-1], len(ends)
    reach = np.empty(n + 1, dtype=np.int64)
    _needed(scores, ends, reach, evened)
    log_e = np.empty((prefixes, n + 1))
    # A short query keeps the programs of all sizes for the way back; a long one, with n^3 numbers, runs them twice.
    keep = n <= SHORT and len(out) > 0
    stay = np.empty((n + 1 if keep else 1, n, n + 1))
    prefix_log_sums(scores, ends, reach, log_e, stay)
    for k in range(prefixes):
        if evened:
            even_out(log_e[k], ends[k])
        top, total = -np.inf, 0.0
        for m in range(1, ends[k] + 1):
            top = max(top, log_e[k, m])
        for m in range(1, ends[k] + 1):
            total += np.exp(log_e[k, m] - top)
        log_z[k] = top + np.log(total)
    if len(out) == 0:
        return
    for i in range(n):
        out[i] = 0.0
        if len(out_square):
            out_square[i] = 0.0
    scratch, ratio, mass, inside = np.empty(n), np.empty(n + 1), np.empty(n + 2), np.empty(n)
    weight = np.empty(prefixes)
    for m in range(1, n + 1):
        last = -1
        for k in range(prefixes):
            weight[k] = np.exp(log_e[k, m] - log_z[k])
            if weight[k] > NEGLIGIBLE / n:
                last = k
            weight[k] *= importance[k]
        if last < 0:
            continue
        size = ends[last]
        if keep:
            size = reach[m]
        else:
            forward(scores, m, size, scratch, ratio, stay[0], not keep)  # no literal: it would be compiled once more
        for i in range(size):
            inside[i] = 0.0
        pull_back(stay[m if keep else 0], m, size, ends[: last + 1], weight, mass, inside)
        for i in range(size):
            out[i] += inside[i] / m
            if len(out_square):
                out_square[i] += inside[i] / (m * m)
