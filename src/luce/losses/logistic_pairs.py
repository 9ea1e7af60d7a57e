r"""Pairs under the logistic link from one exponential a document.

With $e_i = \exp(f_i - \max f)$, $x = \theta e_j / e_i$ and $y = \theta e_i / e_j$, the loss of a win is $\log(1 + x)$
and that of a tie $\log(1 + x) + \log(1 + y) - \log(\theta^2 - 1)$ (Eq. 11 of the boosted-ties paper). A pair costs one
division instead of exponentials and logarithms, and loops over pairs use vector instructions. Logarithms are taken of
products: $\prod (1 + x) - 1$ is accumulated as $s \leftarrow s + x (1 + s)$, so that $\log(1 + s)$ has the
relative precision of a sum of $\log(1 + x)$, and is flushed before it can overflow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from luce.numerics.links import LOGISTIC, RAO_KUPPER

__all__ = ["exponentials", "logistic_rectangle"]

_ROOM = 340.0
"""Logarithm that a product of factors may reach; two of them are multiplied without overflow."""
_FULL = 1e145
_LOOSE = {"reassoc", "contract", "nsz"}
"""Sums may be taken in another order, which vector instructions need; NaN and infinity stay what they are."""


@njit(nogil=True, cache=True, error_model="numpy")
def exponentials(code, shape, f):  # type: ignore[no-untyped-def]
    """Rows e_i, 1 / e_i, room for products, and theta and how many factors fit into a product.

    Without columns where the link is another one, or scores are too far apart.
    """
    if (code != LOGISTIC and code != RAO_KUPPER) or len(f) == 0:
        return np.empty((4, 0))
    top = f.max()
    greatest = top - f.min() + 2.0 * shape[1] + 1.4  # of log (1 + x) (1 + y)
    if not greatest <= _ROOM:
        return np.empty((4, 0))
    e = np.zeros((4, max(len(f), 2)))
    e[3, 0], e[3, 1] = np.exp(shape[1]), _ROOM // greatest
    for i in range(len(f)):
        e[0, i] = np.exp(f[i] - top)
        e[1, i] = 1.0 / e[0, i]
    return e


@njit(nogil=True, cache=True, error_model="numpy")
def logistic_rectangle(tied, shape, e, weight, rows, columns, grad, curvature):  # type: ignore[no-untyped-def]
    """As `pair_kernels.rectangle`: value and derivative in the tie parameter of all pairs of two ranges."""
    if rows[0] == rows[1] or columns[0] == columns[1]:
        return 0.0, 0.0
    theta, in_turn = e[3, 0], int(e[3, 1])
    total, shares = 0.0, 0.0
    for start in range(rows[0], rows[1], in_turn):
        end = min(start + in_turn, rows[1])
        first = start
        while first < end:  # rows of one weight
            last = first + 1
            while last < end and weight[last] == weight[first]:
                last += 1
            for i in range(first, last):
                if tied:
                    shares += _tied_row(theta, e, i, weight[i], columns[1], grad, curvature)
                else:
                    shares += _won_row(theta, e, i, weight[i], columns[0], columns[1], grad, curvature)
            total += weight[first] * _flush(e[2], first + 1 if tied else columns[0], columns[1])
            first = last
    if tied:
        pairs = 0.0
        for i in range(rows[0], rows[1]):
            pairs += weight[i] * (rows[1] - i - 1)
        total -= pairs * (shape[4] + 2.0 * shape[1])
        return total, shares * shape[2] - pairs * (shape[5] + 2.0 * shape[2])
    return total, shares * shape[2]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_LOOSE)
def _won_row(theta, e, i, weight, first, last, grad, curvature):  # type: ignore[no-untyped-def]
    """Document i is better than those of a range; returns the weighted sum of the chances that it is not."""
    scale = theta * e[1, i]
    other, product = e[0, first:last], e[2, first:last]
    below, bends = grad[first:last], curvature[first:last] if len(curvature) else curvature[:0]
    slope, bend = 0.0, 0.0
    if len(curvature):
        for j in range(len(other)):
            x = scale * other[j]
            won = 1.0 / (1.0 + x)
            lost = x * won
            product[j] += x * (1.0 + product[j])
            below[j] += weight * lost
            bends[j] += weight * lost * won
            slope += lost
            bend += lost * won
        curvature[i] += weight * bend
    else:
        for j in range(len(other)):
            x = scale * other[j]
            lost = x / (1.0 + x)
            product[j] += x * (1.0 + product[j])
            below[j] += weight * lost
            slope += lost
    grad[i] -= weight * slope
    return weight * slope


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_LOOSE)
def _tied_row(theta, e, i, weight, last, grad, curvature):  # type: ignore[no-untyped-def]
    """Document i ties with those after it; returns the weighted sum of what its pairs give for the tie parameter."""
    first = i + 1
    up, down, square = theta * e[0, i], theta * e[1, i], theta * theta
    other, inverse, product = e[0, first:last], e[1, first:last], e[2, first:last]
    below, bends = grad[first:last], curvature[first:last] if len(curvature) else curvature[:0]
    slope, bend, shares = 0.0, 0.0, 0.0
    for j in range(len(other)):
        x, y = down * other[j], up * inverse[j]
        both = x + y + square  # (1 + x) (1 + y) - 1
        part = 1.0 / (1.0 + both)
        product[j] += both * (1.0 + product[j])
        pull = (y - x) * part
        below[j] -= weight * pull
        slope += pull
        shares += part * (both + square)
        if len(bends):
            won, lost = (1.0 + y) * part, (1.0 + x) * part
            both_bend = x * won * won + y * lost * lost
            bends[j] += weight * both_bend
            bend += both_bend
    grad[i] += weight * slope
    if len(curvature):
        curvature[i] += weight * bend
    return weight * shares


@njit(nogil=True, cache=True, error_model="numpy")
def _flush(product, first, last):  # type: ignore[no-untyped-def]
    """The sum of log(1 + product) over a range, which is set to 0."""
    total, whole = 0.0, 0.0
    for j in range(first, last):
        if whole > _FULL:
            total += np.log1p(whole)
            whole = 0.0
        whole += product[j] * (1.0 + whole)
        product[j] = 0.0
    return total + np.log1p(whole)
