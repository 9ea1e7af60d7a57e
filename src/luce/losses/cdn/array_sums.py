"""Networks of any function of two arguments, as array code: for families without kernels of their own.

Edges are points with a weight; a point at r gives the function the arguments w1 r and w2 r. Every sum here adds to a
`Felt`: what each point feels, and the derivatives in the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from luce.losses.cdn.edge_functions import EdgeFunction, single
from luce.numerics.chebyshev import grow_tree
from luce.numerics.differences import (
    gather_differences,
    moments_to_nodes,
    node_positions,
    potentials_of_nodes,
    spread_differences,
)
from luce.types import FloatArray, IntArray

_BLOCK = 1 << 18


@dataclass
class Felt:
    """Value, minus the derivative at every point, and the derivatives in (w1, w2) of each function and in rho."""

    value: float
    slope: FloatArray
    bend: FloatArray
    d_weights: FloatArray
    d_rho: float

    @classmethod
    def nothing(cls, points: int, functions: int) -> Felt:
        """Nothing felt yet."""
        return cls(0.0, np.zeros(points), np.zeros(points), np.zeros((functions, 2)), 0.0)


def all_pairs(function: EdgeFunction, weights: FloatArray, r: FloatArray, m: FloatArray) -> Felt:
    """Every point with every one, itself included; slopes are per unit of m."""
    felt = Felt.nothing(len(r), len(weights))
    rows = max(1, _BLOCK // max(len(r), 1))
    for k, (w1, w2) in enumerate(weights):
        first, second = np.zeros(len(r)), np.zeros(len(r))
        for start in range(0, len(r), rows):
            here = slice(start, start + rows)
            a, b = np.broadcast_arrays(w1 * r[here, None], w2 * r[None, :])
            log, by_first, by_second, by_parameter = function.terms(a, b)
            felt.value -= float(m[here] @ log @ m)
            first[here] = by_first @ m
            second += m[here] @ by_second
            if by_parameter is not None:
                felt.d_rho -= float(m[here] @ by_parameter @ m)
        felt.slope += w1 * first + w2 * second
        felt.d_weights[k] = -(m * r) @ first, -(m * r) @ second
        felt.bend += (function.bend or 0.0) * (w1**2 + w2**2) * m.sum()
    return felt


def listed_pairs(
    function: EdgeFunction, weights: FloatArray, r: FloatArray, one: IntArray, other: IntArray, weight: FloatArray
) -> Felt:
    """The listed pairs of points only; slopes are those of the whole sum."""
    felt = Felt.nothing(len(r), len(weights))
    for k, (w1, w2) in enumerate(weights):
        log, by_first, by_second, by_parameter = function.terms(w1 * r[one], w2 * r[other])
        felt.value -= float(weight @ log)
        np.add.at(felt.slope, one, weight * w1 * by_first)
        np.add.at(felt.slope, other, weight * w2 * by_second)
        np.add.at(felt.bend, one, weight * (function.bend or 0.0) * w1**2)
        np.add.at(felt.bend, other, weight * (function.bend or 0.0) * w2**2)
        felt.d_weights[k] = -(weight * by_first) @ r[one], -(weight * by_second) @ r[other]
        if by_parameter is not None:
            felt.d_rho -= float(weight @ by_parameter)
    return felt


def alone(function: EdgeFunction, weights: FloatArray, r: FloatArray, m: FloatArray) -> Felt:
    """Every point by itself, the second argument at infinity; slopes are per unit of m."""
    felt = Felt.nothing(len(r), len(weights))
    for k, (w1, _) in enumerate(weights):
        log, by_first = single(function, w1 * r)
        felt.value -= float(m @ log)
        felt.slope += w1 * by_first
        felt.bend += (function.bend or 0.0) * w1**2
        felt.d_weights[k, 0] = -(m * r) @ by_first
    return felt


def on_nodes(
    function: EdgeFunction,
    weights: FloatArray,
    f: FloatArray,
    starts: IntArray,
    width: float,
    grad: FloatArray,
    curvature: FloatArray,
) -> Felt:
    """All edges that tiers imply, all with all, through nodes of their differences; adds to `grad`."""
    matrix = moments_to_nodes()
    tree = grow_tree(f, width)
    m, used = spread_differences(tree, starts, matrix)
    at = node_positions(int(tree.ids[tree.starts[1] - 1]), width)
    kept = np.repeat(np.append(used, False) | np.append(False, used), at.shape[1])
    felt = all_pairs(function, weights, at.ravel()[kept], m.ravel()[kept])
    for values, sides, out in ((felt.slope, (-1.0, 1.0), grad), (felt.bend, (1.0, 1.0), curvature)):
        if len(out):
            at_nodes = np.zeros(at.size)
            at_nodes[kept] = values
            potentials = potentials_of_nodes(at_nodes.reshape(at.shape), used, matrix)
            gather_differences(tree, starts, potentials, *sides, out)
    return felt
