r"""Tied Plackett-Luce with its whole Hessian: the races of a board of scores.

For a tier X and what comes after it, R, with $z_i = f_i - \log \sum_{j \in R} e^{f_j}$ and $r_i = e^{z_i}$,

$$F(z) = \log \int_0^\infty e^{-t} \prod_{i \in X} (1 - e^{-r_i t})\, dt$$

is the log-probability that all of X come in before all of R. The loss `plackett_luce` has its value and gradient;
Newton's method and the resampling of tasks need second derivatives, which come from the same nodes: with $a_i$ the
derivative of $\log(1 - e^{-r_i t})$ in $\log t$, $-b_i$ that of $a_i$, and weights w of the nodes, the Hessian of F is
$\mathrm{Cov}_w(a) - \mathrm{diag}(E_w b)$. All tiers of all tasks are done at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from luce.types import FloatArray, IntArray

_NODES = 96
_DEPTH = 36.0


class Heats(NamedTuple):
    """F of every tier, its gradient in z, and its Hessian: the rows of one matrix after the other."""

    value: FloatArray
    gradient: FloatArray
    blocks: FloatArray


def dead_heats(z: FloatArray, starts: IntArray) -> Heats:
    """F of every tier; tier k holds `z[starts[k]:starts[k + 1]]`.

    >>> heats = dead_heats(np.zeros(2), np.array([0, 2]))  # two against one of the same strength
    >>> bool(abs(heats.value[0] - np.log(1 / 3)) < 1e-12)
    True
    """
    size = np.diff(starts)
    cells = np.concatenate([[0], np.cumsum(size**2)])
    result = Heats(np.empty(len(size)), np.empty(len(z)), np.empty(cells[-1]))
    two, more = np.flatnonzero(size == 2), np.flatnonzero(size != 2)
    for tiers, solve in ((two, _pairs), (more, _integrals)):
        if len(tiers):
            part = solve(z[_ranges(starts[tiers], size[tiers])], np.concatenate([[0], np.cumsum(size[tiers])]))
            result.value[tiers] = part.value
            result.gradient[_ranges(starts[tiers], size[tiers])] = part.gradient
            result.blocks[_ranges(cells[tiers], size[tiers] ** 2)] = part.blocks
    return result


def _ranges(first: IntArray, size: IntArray) -> IntArray:
    """The numbers first[k], ..., first[k] + size[k] - 1 of every k, end to end."""
    shift: IntArray = np.repeat(first - (np.cumsum(size) - size), size)
    return shift + np.arange(len(shift))


def _pairs(z: FloatArray, starts: IntArray) -> Heats:
    r"""Tiers of two, in closed form: $e^F = a b (2 + a + b) / ((1 + a)(1 + b)(1 + a + b))$, a and b the two r."""
    both = z.reshape(-1, 2)
    total = np.logaddexp(both[:, 0], both[:, 1])[:, None]
    one, all_, more = np.logaddexp(0.0, both), np.logaddexp(0.0, total), np.logaddexp(np.log(2.0), total)
    p, q, s = np.exp(both - one), np.exp(both - all_), np.exp(both - more)
    blocks = np.empty((len(both), 2, 2))
    blocks[:, 0, 1] = blocks[:, 1, 0] = q[:, 0] * q[:, 1] - s[:, 0] * s[:, 1]
    blocks[:, [0, 1], [0, 1]] = s * (1.0 - s) - p * (1.0 - p) - q * (1.0 - q)
    value = both.sum(axis=1) + more[:, 0] - one.sum(axis=1) - all_[:, 0]
    return Heats(value, (1.0 + s - p - q).ravel(), blocks.ravel())


def _integrals(z: FloatArray, starts: IntArray) -> Heats:
    """Any tiers, by the trapezoidal rule on a logarithmic scale."""
    firsts, tier = starts[:-1], np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    low, high = _range(z, firsts, tier)
    x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _NODES)
    a, b, log_term = _terms(z[:, None] + x[tier])
    log_weight = x - np.exp(x) + np.add.reduceat(log_term, firsts)
    top = log_weight.max(axis=1)
    weight = np.exp(log_weight - top[:, None])
    step = (high - low) / (_NODES - 1)
    total = weight.sum(axis=1)
    weight /= total[:, None]
    values = top + np.log(total * step)
    gradient = np.sum(a * weight[tier], axis=1)
    curve = np.sum(b * weight[tier], axis=1)
    blocks = []
    for k, (i, j) in enumerate(zip(firsts, starts[1:], strict=True)):
        hessian = (a[i:j] * weight[k]) @ a[i:j].T - np.outer(gradient[i:j], gradient[i:j])
        hessian[np.arange(j - i), np.arange(j - i)] -= curve[i:j]
        blocks.append(hessian.ravel())
    return Heats(values, gradient, np.concatenate(blocks))


def _terms(log_s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of s = r t: a = s / (e^s - 1), b = a (s e^s / (e^s - 1) - 1), and log(1 - e^-s)."""
    s = np.exp(np.minimum(log_s, 700.0))
    tiny = s < 1e-5
    safe = np.where(tiny, 1.0, s)
    shrink = -np.expm1(-safe)
    a = np.where(tiny, 1.0 - 0.5 * s, safe * np.exp(-safe) / shrink)
    b = np.where(tiny, 0.5 * s, a * (safe / shrink - 1.0))
    return a, b, np.where(tiny, log_s - 0.5 * s, np.log(shrink))


def _slope(z: FloatArray, x: FloatArray, firsts: IntArray, tier: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The log-integrand and its first two derivatives in x = log t."""
    a, b, term = _terms(z + x[tier])
    add = np.add.reduceat
    return x - np.exp(x) + add(term, firsts), 1.0 - np.exp(x) + add(a, firsts), -np.exp(x) - add(b, firsts)


def _range(z: FloatArray, firsts: IntArray, tier: IntArray) -> tuple[FloatArray, FloatArray]:
    """Where the concave log-integrand is within 36 of its greatest value, and little more.

    Its mode lies between 0 and log(1 + size), because every a is between 0 and 1.
    """
    size = np.bincount(tier)
    most = np.log1p(size)
    x = 0.5 * most
    for _ in range(25):
        _, first, second = _slope(z, x, firsts, tier)
        x = np.clip(x - first / second, 0.0, most)
    at, _, second = _slope(z, x, firsts, tier)
    ends = []
    for sign in (-1.0, 1.0):
        far = x + sign * np.sqrt(2.0 * _DEPTH / -second)
        near = x.copy()
        # The Gaussian end may lie too near (a long tail on the left); double until it is beyond, then halve back.
        while np.any(short := _slope(z, far, firsts, tier)[0] > at - _DEPTH):
            near, far = np.where(short, far, near), np.where(short, x + 2.0 * (far - x), far)
        for _ in range(6):
            middle = 0.5 * (near + far)
            beyond = _slope(z, middle, firsts, tier)[0] < at - _DEPTH
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        ends.append(far)
    return ends[0], ends[1]
