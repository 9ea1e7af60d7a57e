"""Factors of the j-th-minimum: the product of rank densities as a likelihood, and messages as [Pareek] writes them.

Signal k is T_k. Of source l its factor hears a_l = P(t_l < T_k), b_l = 1 - a_l (missed sources among them) and the
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

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from luce.track.tables import Step
from luce.types import FloatArray


class _Odds(NamedTuple):
    """Of every source at some times, (times, positions, sources): P(before), P(after or missed), and its density.

    Densities are over the largest one at that time, whose logarithm is `log_top`.
    """

    before: FloatArray
    after: FloatArray
    density: FloatArray
    log_top: FloatArray

    @classmethod
    def at(cls, times: FloatArray, step: Step, distances: FloatArray) -> _Odds:
        """By the step's settings."""
        mean = step.offsets + distances * step.inverse_speed
        z = (times[:, None, None] - mean) * step.inverse_sigma
        lost = ndtr((step.early - mean) * step.inverse_sigma)
        log_density = step.log_norm - 0.5 * z * z
        log_top = log_density.max(axis=2, initial=-np.inf)
        density = np.exp(log_density - np.where(log_top > -np.inf, log_top, 0.0)[:, :, None])
        missed = step.absent + step.detection * (ndtr(-z) + lost)
        return cls(step.detection * (ndtr(z) - lost), missed, density, log_top)

    def ranks(self, most: int, but: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Coefficients up to x^most of prod (b + a x), and of the sum over the source that arrives now, [Pareek] (5.6).

        The first are P(m sources before), the second the density of one source after m others. Source `but` is left
        out, as in a message to it.
        """
        both = np.zeros((2, most + 1, *self.log_top.shape))
        both[0, 0] = 1.0
        for i in range(self.before.shape[2]):
            if i != but:
                rest = both
                both = rest * self.after[:, :, i]
                both[:, 1:] += rest[:, :-1] * self.before[:, :, i]
                both[1] += rest[0] * self.density[:, :, i]
        return both[0], both[1]


def min_factor(step: Step, distances: FloatArray, weight: FloatArray, log_z: FloatArray, labels: FloatArray) -> None:
    """Log of the product of rank densities, clutter summed out, [Pareek] (5.69), as a kernel of `engines`."""
    n, s = len(step.times), distances.shape[1]
    odds = _Odds.at(step.times, step, distances)
    _, one = odds.ranks(n)
    log_signal, log_clutter = odds.log_top + step.log_gain[:1].max(axis=0)[:, None], step.log_clutter[:, None]
    top = np.maximum(log_signal, log_clutter)
    base = np.where(top > -np.inf, top, 0.0)
    signal, clutter = np.exp(log_signal - base), np.exp(log_clutter - base)
    # genuine[j, m]: weight of the first j signals, m of them genuine.
    genuine = np.zeros((n + 1, n + 1, len(distances)))
    genuine[0, 0] = 1.0
    for j in range(n):
        genuine[j + 1] = genuine[j] * clutter[j]
        genuine[j + 1, 1:] += genuine[j, :-1] * signal[j] * one[:-1, j]
    # later[m]: weight of what follows after m genuine signals; at the end, that no more sources came in the window.
    later = np.ones((n + 1, len(distances)))
    if not step.full:
        later = np.cumsum(_Odds.at(np.array([step.tau]), step, distances).ranks(n)[0][:, 0], axis=0)
    with np.errstate(divide="ignore"):
        log_z[:] = top.sum(axis=0) + np.log((genuine[n] * later).sum(axis=0))
    if not len(labels):
        return
    others = [odds.ranks(n, i)[0] for i in range(s)]
    share = np.empty((n, s + 1, len(distances)))
    for j in range(n - 1, -1, -1):
        share[j, s] = clutter[j] * (genuine[j] * later).sum(axis=0)
        for i in range(s):
            at = signal[j] * odds.density[j, :, i]
            share[j, i] = at * (genuine[j, :-1] * others[i][:-1, j] * later[1:]).sum(axis=0)
        followed = signal[j] * one[:-1, j] * later[1:]
        later = clutter[j] * later
        later[:-1] += followed
    total = share.sum(axis=1, keepdims=True)
    share = weight * (share / np.where(total > 0, total, 1.0))
    labels += share.transpose(2, 0, 1) if len(labels) > 1 else share.sum(axis=2)


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

    @classmethod
    def of(cls, step: Step, distances: FloatArray, clutter: FloatArray, p_clutter: FloatArray) -> MinMessages:
        """Messages at one position, from the density and the probability of clutter of every signal."""
        n, s = len(step.times), distances.shape[1]
        odds = _Odds.at(step.times, step, distances)
        says = cls(np.zeros((n, s)), np.zeros((n, s)), np.zeros((n, s)), np.zeros((n, n)), np.zeros((n, n)))
        largest = np.exp(odds.log_top[:, 0])
        every = odds.ranks(n)[1][:, :, 0] * largest
        others = np.array([odds.ranks(n, i) for i in range(s)]).reshape(s, 2, n + 1, n)
        none, one = others[:, 0], others[:, 1] * largest
        for k in range(n):
            count, p = _count_of_genuine(p_clutter[:k]), 1 - p_clutter[k]
            known = p_clutter[k] * clutter[k]
            says.at[k] = p * none[:, : k + 1, k] @ count
            # Where t_i is before T_k, it is one of those before: the others make one less.
            says.before[k] = known + p * one[:, :k, k] @ count[1:]
            says.after[k] = known + p * one[:, : k + 1, k] @ count
            says.genuine[k, k], says.clutter[k, k] = count @ every[: k + 1, k], clutter[k]
            for other in range(k):
                rest = _count_of_genuine(np.delete(p_clutter[:k], other))
                says.genuine[k, other] = known + p * rest @ every[1 : k + 1, k]
                says.clutter[k, other] = known + p * rest @ every[:k, k]
        return says


def _count_of_genuine(p_clutter: FloatArray) -> FloatArray:
    """Probabilities of 0, 1, ... genuine signals among some."""
    counts = np.ones(1)
    for p in p_clutter:
        counts = np.convolve(counts, [p, 1 - p])
    return counts
