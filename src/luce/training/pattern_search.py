"""Derivative-free search over weights of at least 0: a pattern search from several starts, and an even grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from luce.types import FloatArray

_FINEST = 1e-3


def starts(n: int, rng: np.random.Generator) -> list[FloatArray]:
    """Near zeros, ones, and each unit vector, as in Section 3.6 of the chapter.

    >>> [start.round(2).tolist() for start in starts(2, np.random.default_rng(0))][1:]
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    near_zero = rng.uniform(0.005, 0.015, n)
    return [near_zero, np.ones(n), *np.eye(n)]


def even_grid(n: int, most: int, directions: bool) -> list[FloatArray]:
    """The finest even grid on [0, 1]^n, without 0, of at most so many points; with `directions`, each once.

    >>> [point.tolist() for point in even_grid(2, 5, True)]
    [[0.0, 1.0], [0.5, 1.0], [1.0, 0.0], [1.0, 0.5], [1.0, 1.0]]
    """
    found: list[tuple[float, ...]] = []
    for cells in range(1, most + 1):
        whole = [np.array(point) for point in product(range(cells + 1), repeat=n) if any(point)]
        lengths = [int(point.max()) if directions else cells for point in whole]
        points = sorted({tuple((point / length).tolist()) for point, length in zip(whole, lengths, strict=True)})
        if found and len(points) > most:
            break
        found = points
        if len(points) > most:  # not even the corners: those first that stand for one function alone
            found = sorted(points, key=lambda point: (np.count_nonzero(point), point))[:most]
            break
    return [np.array(point) for point in found]


def pattern_search(
    value: Callable[[FloatArray], float | None], begin: Sequence[FloatArray], unit: FloatArray
) -> FloatArray:
    """The weights of the largest value that were met.

    From every start in turn, neighbours up and down each axis are tried, and the first better one becomes the centre
    with twice the mesh; where none is better the mesh is halved. A step along axis i is the mesh times the sum of
    `start * unit`, over `unit[i]`: weights change by what matters to the sum of the weighted functions, whatever their
    scales. `value` answers None where it takes no more questions from this start.
    """
    best, highest = begin[0], -np.inf
    for start in begin:
        step = float(start @ unit) / unit
        centre, mesh, at = start, 1.0, value(start)
        while at is not None and mesh >= _FINEST:
            found = _better(value, centre, mesh * step, at)
            if found is None:
                mesh *= 0.5
                continue
            moved, level = found
            if level is None:
                break
            centre, at, mesh = moved, level, 2.0 * mesh
        if at is not None and at > highest:
            best, highest = centre, at
    return best


def _better(
    value: Callable[[FloatArray], float | None], centre: FloatArray, steps: FloatArray, at: float
) -> tuple[FloatArray, float | None] | None:
    """The first neighbour that is better; None where none is, and a value of None where no more is answered."""
    for axis in range(len(centre)):
        for sign in (1.0, -1.0):
            point = centre.copy()
            point[axis] = max(point[axis] + sign * steps[axis], 0.0)
            if point[axis] == centre[axis] or not point.any():
                continue
            there = value(point)
            if there is None or there > at:
                return point, there
    return None
