r"""Random streams for compiled code, exact draws of ordered partitions, and Markov chains over subsets.

NumPy generators cannot be made inside a kernel, and one that is shared makes the numbers of a query depend on which
thread came first. A stream is named by (seed, index) instead, one 64-bit word of state, so that the draws of query q
are the same for 1 and N threads. The generator is SplitMix64 (Steele, Lea and Flood, 2014).

Draws of ordered partitions go stage by stage: a size, then a tier of that size. They fill `tier[s, i]`, the number of
the tier of item i in draw s, 0 for the best. `cumulative[k, r, m]` is the chance that stage k (the last entry serves
all later ones) takes at most m of r items.

Chains run over the non-empty subsets of a set, with stationary weight $\Phi(S) = \exp\{\frac1{|S|}\sum_S f\}$. A state
is a vector of membership; each chain is a pure function, `step(stream, scores, member) -> member`.
"""

from __future__ import annotations

import numpy as np

from luce.numerics.compiled import kernel, part
from luce.numerics.symmetric import even_out, forward, log_choices, prefix_log_sums, walk_back

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
GIBBS, METROPOLIS, METROPOLIS_AS_PRINTED = None, 1, 2
"""Which chain `step` runs. Of None the compiler knows which it is, and passes the other by."""


def seed_from(rng: np.random.Generator) -> np.uint64:
    """A seed for streams, drawn from a NumPy generator."""
    return np.uint64(rng.integers(2**64, dtype=np.uint64))


@part
def mixed(word):  # type: ignore[no-untyped-def]
    """Scramble a 64-bit word, one to one."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@part
def stream(seed, index):  # type: ignore[no-untyped-def]
    """The stream of that name; `seed` is a uint64, `index` any integer."""
    state = np.empty(1, dtype=np.uint64)
    state[0] = mixed(mixed(np.uint64(seed) + _STEP) + np.uint64(index) * _STEP)
    return state


@part
def uniform(state):  # type: ignore[no-untyped-def]
    """A number in [0, 1)."""
    state[0] += _STEP
    return (mixed(state[0]) >> _11) * (1.0 / 9007199254740992.0)


@part
def below(state, n):  # type: ignore[no-untyped-def]
    """A whole number from 0 to n - 1."""
    return min(int(uniform(state) * n), n - 1)


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
        weight = np.empty(n + 1)
        remaining, k = n, 0
        while remaining:
            size = _draw_place(random, cumulative[min(k, len(cumulative) - 1), remaining], remaining)
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
            size = _draw_place(random, sizes, remaining)
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
def _draw_place(random, cumulative, n):  # type: ignore[no-untyped-def]
    """A place from 1 to n, by the weights that are summed up in `cumulative`."""
    # Scaled by the last entry, so that rounding in the sum leaves no gap at the top.
    point = uniform(random) * cumulative[n]
    place = 1
    while place < n and cumulative[place] <= point:
        place += 1
    return place


@part
def _draw_leader(random, scores, power, left, weight):  # type: ignore[no-untyped-def]
    n = len(left)
    top = -np.inf
    for i in range(n):
        top = max(top, power * scores[left[i]])
    total = 0.0
    for i in range(n):
        total += np.exp(power * scores[left[i]] - top)
        weight[i + 1] = total
    return _draw_place(random, weight, n) - 1


@part
def step(chain, stream, scores, member):  # type: ignore[no-untyped-def]
    """One step of the chain of that number."""
    if chain is None:
        return gibbs_step(stream, scores, member)
    return metropolis_step(stream, scores, member, chain == METROPOLIS_AS_PRINTED)


@part
def gibbs_step(stream, scores, member):  # type: ignore[no-untyped-def]
    r"""One sweep: every item in turn is in with probability $\Phi(S+x) / (\Phi(S+x) + \Phi(S-x))$, [PMOP] Algorithm 1.

    $\Phi(\emptyset) = 0$: an item that is alone stays. That is decided item by item; to redraw or reject a whole sweep
    that ends empty would bias the chain.
    """
    member = member.copy()
    size, total = 0, 0.0
    for i in range(len(scores)):
        if member[i]:
            size += 1
            total += scores[i]
    for i in range(len(scores)):
        if member[i]:
            size -= 1
            total -= scores[i]
        if size == 0:
            member[i] = True
            total = 0.0  # what is left of it is rounding
        else:
            gain = (total + scores[i]) / (size + 1) - total / size
            member[i] = uniform(stream) < 1.0 / (1.0 + np.exp(-gain))
        if member[i]:
            size += 1
            total += scores[i]
    return member


@part
def metropolis_step(stream, scores, member, as_printed):  # type: ignore[no-untyped-def]
    r"""Propose m uniform on 1..n and m items evenly, accept or stay, [PMOP] Algorithm 1.

    A subset of size m is proposed with probability $1/(n\binom nm)$, so the ratio that leaves $\Phi$ stationary is
    $\Phi(S')\binom{n}{|S'|} / \Phi(S)\binom{n}{|S|}$. [PMOP] prints $\Phi(S')/\Phi(S)$ (`as_printed`), under which
    $\Phi(S)/\binom{n}{|S|}$ is stationary.
    """
    n = len(scores)
    size, total = 0, 0.0
    for i in range(n):
        if member[i]:
            size += 1
            total += scores[i]
    proposed_size, proposed_total = 1 + below(stream, n), 0.0
    order, proposed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    for i in range(n):
        order[i], proposed[i] = i, False
    for i in range(proposed_size):
        j = i + below(stream, n - i)
        order[i], order[j] = order[j], order[i]
        proposed[order[i]] = True
        proposed_total += scores[order[i]]
    gain = proposed_total / proposed_size - total / size
    if not as_printed:
        gain += log_choices(n, proposed_size) - log_choices(n, size)
    if np.log(1.0 - uniform(stream)) < gain:
        return proposed
    return member
