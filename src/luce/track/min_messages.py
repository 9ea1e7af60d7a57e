"""Messages of the j-th-minimum factors to sources and to clutter indicators, written as [Pareek] writes them.

Signal k is T_k. Of source l the factor hears a_l = P(t_l < T_k), b_l = 1 - a_l (missed sources among them) and the
density p_l(T_k). With the sums over (A, B) as coefficients of a product ([Pareek] section 5.2.2), the message of the
factor of rank j to source i, [Pareek] (5.14), is made of

    h_1 = [x^(j-1)] prod_{l != i} (b_l + a_l x),                                                      (5.15)
    h_2 = [x^(j-2)] sum_{m != i} p_m prod_{l != i, m} (b_l + a_l x),                                  (5.17)
    h_3 = [x^(j-1)] sum_{m != i} p_m prod_{l != i, m} (b_l + a_l x),                                  (5.19)

where the sum over the source m that arrives at T_k is missing in print. With clutter, [Pareek] (5.70), the rank is one
more than the number of genuine signals before k, whose distribution replaces the sum over 2^k patterns, and a signal
that is clutter says nothing of any source: p_N(T_k) whether t_i is before or after.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.track.approximations import NOBODY, rank_densities
from luce.track.likelihood import step_of
from luce.track.tables import Step
from luce.types import FloatArray


class MinMessages(NamedTuple):
    """What each signal says, by the factor of its rank, of the arrival of every source and of every clutter indicator.

    `at`, `before` and `after` are h_1, h_2 and h_3, a row a signal and a column a source at work: the weights of
    t_i = T_k, t_i < T_k and t_i > T_k (a missed source is after). `genuine[k, l]` and `clutter[k, l]`, l <= k, are the
    message of signal k to the indicator of signal l, [Pareek] (5.71); 0 for l > k.
    """

    at: FloatArray
    before: FloatArray
    after: FloatArray
    genuine: FloatArray
    clutter: FloatArray


def min_messages(arrivals: ArrayLike, position: ArrayLike, sources: Any, **settings: Any) -> MinMessages:
    """Messages of the first round at one position: what comes in is what the position says of every source.

    Settings as in `log_likelihood`. The incoming messages are the arrival densities at the position and, for the
    indicators, P_C or one minus a signal's confidence.

    >>> says = min_messages([1.0], [1.0, 0.0], [[0.0, 0.0], [3.0, 4.0]], sigma=0.1)
    >>> says.at.round(6).tolist(), says.before.round(6).tolist(), says.after.round(6).tolist()
    ([[1.0, 0.5]], [[0.0, 0.0]], [[0.0, 3.989423]])
    """
    step, at_position = step_of(arrivals, position, sources, "min_factor", settings)
    step.check_known_emission("min_messages")
    distances = step.all_ranges(at_position[:1])
    table, s, n = step.tables(distances), len(step.columns), len(step.times)
    clutter = step.reception.clutter_density(step.times)
    p_clutter = 1 - np.exp(step.log_gain[0]) / (1 + step.reception.clutter_rate)
    at, h2, h3 = np.zeros((n, s)), np.zeros((n, s)), np.zeros((n, s))
    genuine, junk = np.zeros((n, n)), np.zeros((n, n))
    for k in range(n):
        ranks = _count_of_genuine(p_clutter[:k])
        every = _expand(table, distances[0], step.times[k], NOBODY, n)[1]
        for i in range(s):
            none, one = _expand(table, distances[0], step.times[k], i, n)
            at[k, i] = (1 - p_clutter[k]) * ranks @ none[: k + 1]
            # Where t_i is before T_k, it is one of those before: the others make one less.
            h2[k, i] = p_clutter[k] * clutter[k] + (1 - p_clutter[k]) * ranks[1:] @ one[:k]
            h3[k, i] = p_clutter[k] * clutter[k] + (1 - p_clutter[k]) * ranks @ one[: k + 1]
        genuine[k, k], junk[k, k] = ranks @ every[: k + 1], clutter[k]
        for other in range(k):
            rest = _count_of_genuine(np.delete(p_clutter[:k], other))
            known = p_clutter[k] * clutter[k]
            genuine[k, other] = known + (1 - p_clutter[k]) * rest @ every[1 : k + 1]
            junk[k, other] = known + (1 - p_clutter[k]) * rest @ every[:k]
    return MinMessages(at, h2, h3, genuine, junk)


def _count_of_genuine(p_clutter: FloatArray) -> FloatArray:
    """Probabilities of 0, 1, ... genuine signals among some."""
    counts = np.ones(1)
    for p in p_clutter:
        counts = np.convolve(counts, [p, 1 - p])
    return counts


def _expand(table: Step, distance: FloatArray, time: float, but: int, top: int) -> tuple[FloatArray, FloatArray]:
    """Coefficients up to x^top of prod (b + a x), and of the sum over the source that arrives now, [Pareek] (5.6)."""
    none, one = np.zeros(top + 1), np.zeros(top + 1)
    scale = rank_densities(table, distance, 0, time, but, none, one)
    return none, one * np.exp(scale)
