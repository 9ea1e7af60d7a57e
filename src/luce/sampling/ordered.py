"""Exact draws of ordered partitions: stage by stage a size, then a tier of that size.

Both kernels fill `tier[s, i]`, the number of the tier of item i in draw s, 0 for the best. `cumulative[k, r, m]` is the
chance that stage k (the last entry serves all later ones) takes at most m of r items.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.numerics.symmetric import even_out, forward, prefix_log_sums, walk_back
from luce.sampling.streams import below, stream, uniform


@kernel
def draw_additive(seed, scores, stage_weights, cumulative, tier):  # type: ignore[no-untyped-def]
    r"""Draws with $\Phi_k(S) \propto \sum_{i \in S} e^{w_k f_i}$ given the size.

    Each item of a tier of size m leads it in equally many tiers: a leader in proportion to $e^{w f}$, the others
    evenly.
    """
    n = len(scores)
    for s in range(len(tier)):
        random = stream(seed, s)
        left = np.arange(n)
        weight = np.empty(n)
        remaining, k = n, 0
        while remaining:
            size = _draw_size(random, cumulative[min(k, len(cumulative) - 1), remaining], remaining)
            leader = _draw_leader(
                random, scores, stage_weights[min(k, len(stage_weights) - 1)], left[:remaining], weight
            )
            left[leader], left[remaining - 1] = left[remaining - 1], left[leader]
            tier[s, left[remaining - 1]] = k
            for taken in range(1, size):
                j = below(random, remaining - taken)
                last = remaining - 1 - taken
                left[j], left[last] = left[last], left[j]
                tier[s, left[last]] = k
            remaining -= size
            k += 1


@kernel
def draw_exponential(seed, scores, cumulative, evened, tier):  # type: ignore[no-untyped-def]
    r"""Draws with $\Phi(S) = \exp\{\frac{1}{|S|}\sum_{i \in S} f_i\}$ given the size.

    With an empty `cumulative` the size follows the model too: in proportion to the sum of $\Phi$ over its subsets, or
    to its mean over them (`evened`).
    """
    n = len(scores)
    first = np.empty(0)  # the sizes of the first stage, the same for all draws
    if len(cumulative) == 0:
        first = _size_distribution(scores, evened)
    log_e, ratio, stay = np.empty(n), np.empty(n + 1), np.empty((n, n + 1))
    member, uniforms = np.empty(n, dtype=np.bool_), np.empty(n)
    for s in range(len(tier)):
        random = stream(seed, s)
        left = np.arange(n)
        k = 0
        while len(left):
            f, remaining = scores[left], len(left)
            if len(cumulative):
                sizes = cumulative[min(k, len(cumulative) - 1), remaining]
            else:
                sizes = first if k == 0 else _size_distribution(f, evened)
            size = _draw_size(random, sizes, remaining)
            if size == remaining:
                for item in left:
                    tier[s, item] = k
                break
            forward(f, size, remaining, log_e, ratio[: size + 1], stay, True)
            for i in range(remaining):
                uniforms[i] = uniform(random)
            walk_back(stay, size, remaining, uniforms, member)
            for i in range(remaining):
                if member[i]:
                    tier[s, left[i]] = k
            left = left[~member[:remaining]]
            k += 1


@part
def _size_distribution(scores, evened):  # type: ignore[no-untyped-def]
    n = len(scores)
    log_e = np.empty((1, n + 1))
    prefix_log_sums(scores, np.array([n]), np.full(n + 1, n), log_e, np.empty((1, 1, n + 1)))
    if evened:
        even_out(log_e[0], n)
    weight = np.exp(log_e[0] - log_e[0].max())
    return np.cumsum(weight / weight.sum())


@part
def _draw_size(random, cumulative, n):  # type: ignore[no-untyped-def]
    # Scaled by the last entry, so that rounding in the sum leaves no gap at the top.
    point = uniform(random) * cumulative[n]
    size = 1
    while size < n and cumulative[size] <= point:
        size += 1
    return size


@part
def _draw_leader(random, scores, power, left, weight):  # type: ignore[no-untyped-def]
    n = len(left)
    top = -np.inf
    for i in range(n):
        top = max(top, power * scores[left[i]])
    total = 0.0
    for i in range(n):
        total += np.exp(power * scores[left[i]] - top)
        weight[i] = total
    point = uniform(random) * total
    leader = 0
    while leader < n - 1 and weight[leader] <= point:
        leader += 1
    return leader
