r"""Markov chains over the non-empty subsets of a set, with stationary weight $\Phi(S) = \exp\{\frac1{|S|}\sum_S f\}$.

A state is a vector of membership. Each chain is a pure function, `step(stream, scores, member) -> member`.
"""

from __future__ import annotations

import math

import numpy as np

from luce.numerics.compiled import part
from luce.sampling.streams import below, uniform

GIBBS, METROPOLIS, METROPOLIS_AS_PRINTED = None, 1, 2
"""Which chain `step` runs. Of None the compiler knows which it is, and passes the other by."""


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
        gain += _log_choices(n, proposed_size) - _log_choices(n, size)
    if np.log(1.0 - uniform(stream)) < gain:
        return proposed
    return member


@part
def _log_choices(n, m):  # type: ignore[no-untyped-def]
    return math.lgamma(n + 1.0) - math.lgamma(m + 1.0) - math.lgamma(n - m + 1.0)
