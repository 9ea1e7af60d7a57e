r"""Sums of the bivariate sigmoid over all ordered pairs of weighted points.

$$L = \sum_{ij} m_i m_j \log\left(1 + e^{-w_1 r_i} + e^{-w_2 r_j}\right)$$

Points are edges of an order graph, or nodes that stand for very many edges (`luce.numerics.differences`). A few points
meet one by one. For many, $c_i = \log(1 + e^{-w_1 r_i})$ and $v_j = -w_2 r_j$ turn the logarithm into
$c_i + \log(1 + e^{v_j - c_i})$: a sum over differences on a line, which panels do in linear time for any range of
scores.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from luce.numerics.chebyshev import NODES, grow_tree, meetings, n_levels, weighted_cross_sum
from luce.numerics.compiled import part
from luce.numerics.softplus import softplus
from luce.types import FloatArray

AUTO, DIRECT, TREE = range(3)
"""How points meet: whichever costs less, one by one, by panels."""
WIDTH = 6.0
_FAST_RANGE = 300.0
"""Beyond this exponentials are not taken by themselves, since they might overflow."""
_PAIR, _STABLE_PAIR, _POINT, _TREE = 7.5, 24.0, 250.0, 25_000.0
"""Nanoseconds of a pair, of one in the form for wide ranges, and of a point and all else in panels: measured."""
Tables = FloatArray
"""(levels, 7, 2, NODES, NODES): log(1 + exp(-d)) and its derivative between two panels, by level and offset + 3."""


def tables_for(span: float) -> Tables:
    """Tables for points whose c and v lie within a range of `span`."""
    return _tables(n_levels(1.01 * span + 1.0, WIDTH))


@lru_cache(maxsize=8)
def _tables(levels: int) -> Tables:
    tables = np.zeros((levels, 7, 2, NODES, NODES))
    for level, offset, gaps in meetings(WIDTH * (2.0 ** (levels + 1) - 1.0), WIDTH):
        if level < levels:
            tables[level, offset + 3, 0] = np.logaddexp(0.0, -gaps)
            tables[level, offset + 3, 1] = -np.exp(-np.logaddexp(0.0, gaps))
    tables.flags.writeable = False
    return tables


@part
def logistic(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)) for any x."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@part
def pair_terms(r1, r2, w1, w2):  # type: ignore[no-untyped-def]
    """-log phi(r1, r2), [StructRank] (9), and the two weights in the softmax of (0, -w1 r1, -w2 r2)."""
    c, v = softplus(-w1 * r1), -w2 * r2
    second = logistic(v - c)
    return c + softplus(v - c), logistic(-w1 * r1) * logistic(c - v), second


@part
def meet(r, m, w1, w2, tables, how, first, second):  # type: ignore[no-untyped-def]
    """The sum [StructRank] (8) over ordered pairs; fills what each point feels in the first and the second argument.

    `first[i]` is the sum over j of m_j p1(r_i, r_j) and `second[j]` that over i of m_i p2(r_i, r_j), with p1 and p2 the
    softmax weights: the derivative of the sum in r_i is -m_i (w1 first[i] + w2 second[i]).
    """
    n = len(r)
    reach = 0.0
    for i in range(n):
        reach = max(reach, max(w1, w2) * abs(r[i]))
    fast = reach <= _FAST_RANGE
    if how == DIRECT or (how == AUTO and (_PAIR if fast else _STABLE_PAIR) * n * n < _POINT * n + _TREE):
        return _meet_fast(r, m, w1, w2, first, second) if fast else _meet_stable(r, m, w1, w2, first, second)
    return _meet_by_panels(r, m, w1, w2, tables, first, second)


@part
def _meet_fast(r, m, w1, w2, first, second):  # type: ignore[no-untyped-def]
    n = len(r)
    y = np.empty(n)
    for j in range(n):
        y[j] = math.exp(-w2 * r[j])
        second[j] = 0.0
    value = 0.0
    for i in range(n):
        x = math.exp(-w1 * r[i])
        row, felt = 0.0, 0.0
        for j in range(n):
            total = 1.0 + x + y[j]
            part = 1.0 / total
            row += m[j] * math.log(total)
            felt += m[j] * part
            second[j] += m[i] * part
        value += m[i] * row
        first[i] = x * felt
    for j in range(n):
        second[j] *= y[j]
    return value


@part
def _meet_stable(r, m, w1, w2, first, second):  # type: ignore[no-untyped-def]
    n = len(r)
    for j in range(n):
        second[j] = 0.0
    value = 0.0
    for i in range(n):
        row, felt = 0.0, 0.0
        for j in range(n):
            term, one, other = pair_terms(r[i], r[j], w1, w2)
            row += m[j] * term
            felt += m[j] * one
            second[j] += m[i] * other
        value += m[i] * row
        first[i] = felt
    return value


@part
def _meet_by_panels(r, m, w1, w2, tables, first, second):  # type: ignore[no-untyped-def]
    n = len(r)
    line, weight, felt = np.empty(2 * n), np.empty(2 * n), np.zeros(2 * n)
    total, value = 0.0, 0.0
    for i in range(n):
        line[i], line[n + i] = softplus(-w1 * r[i]), -w2 * r[i]
        weight[i] = weight[n + i] = m[i]
        total += m[i]
        value += m[i] * line[i]
    tree = grow_tree(line, WIDTH)
    value = total * value + weighted_cross_sum(tables, tree, (0, n), (n, 2 * n), weight, felt)
    for i in range(n):
        first[i] = logistic(-w1 * r[i]) * (total + felt[i])
        second[i] = -felt[n + i]
    return value
