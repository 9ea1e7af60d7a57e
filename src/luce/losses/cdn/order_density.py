r"""Densities and draws of a cumulative distribution network on small graphs, by derivative-sum-product.

The network gives $F(z) = \prod_k \phi_k$, a cdf of the preferences $z_e$ of the edges. Its density is the mixed
derivative, [StructRank] (2): every edge is differentiated in exactly one of the functions that it enters. The sum over
these choices goes function by function, with a message for each set of edges that has been differentiated so far.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import generator, whole
from luce.errors import SettingError
from luce.losses.cdn.functions import Sigmoid
from luce.losses.cdn.loss import CDN
from luce.losses.cdn.order_probabilities import _network, _pairs
from luce.types import FloatArray

MOST_EDGES = 10
"""Edges of a graph: 1,024 messages, and all preferences of five documents."""
_HALVINGS = 60


def order_density(loss: CDN, edges: Sequence[tuple[int, int]], z: ArrayLike) -> float:
    """The density of the network over these edges (better, worse) at z, a value an edge.

    >>> one = order_density(CDN(w1=1.0, w2=1.0, topology="disconnected"), [(0, 1)], [0.0])
    >>> round(one, 12)
    0.25
    """
    functions = _functions(loss, edges)
    at = np.asarray(z, dtype=np.float64)
    if at.shape != (len(edges),) or np.isnan(at).any():
        raise SettingError(f"z has the shape {at.shape}; give one number for each of the {len(edges)} edges.")
    return _derivative(functions, at, len(edges))


def sample_preferences(
    loss: CDN, edges: Sequence[tuple[int, int]], n: int, random_state: int | np.random.Generator | None = 0
) -> FloatArray:
    """Draw n times the preferences of all edges, (n, edges): each by its cdf given those before it, inverted."""
    functions, rng = _functions(loss, edges), generator(random_state)
    found = np.empty((whole("n", n, 1), len(edges)))
    for row in found:
        z = np.full(len(edges), np.inf)
        for e in range(len(edges)):
            # The cdf of this edge given the earlier ones, the later ones summed out, rises from 0 to `total`.
            wanted = rng.random() * _derivative(functions, z, e)
            low, high = -1.0, 1.0
            for _ in range(_HALVINGS):  # until the bracket holds it
                z[e] = low
                if _derivative(functions, z, e) <= wanted:
                    break
                low *= 2.0
            for _ in range(_HALVINGS):
                z[e] = high
                if _derivative(functions, z, e) >= wanted:
                    break
                high *= 2.0
            for _ in range(_HALVINGS):
                z[e] = 0.5 * (low + high)
                low, high = (z[e], high) if _derivative(functions, z, e) < wanted else (low, z[e])
        row[:] = z
    return found


Function = tuple[int, int, float, float]
"""Two edges, the same one for a function of one of them, and the weights of the sigmoid."""


def _functions(loss: CDN, edges: Sequence[tuple[int, int]]) -> list[Function]:
    network = _network(loss)
    if network.topology == "list" or not isinstance(network._family, Sigmoid):
        raise SettingError("Only networks of bivariate sigmoids have densities; leave family out, and topology 'list'.")
    if not 1 <= len(edges) <= MOST_EDGES or len(set(edges)) != len(edges):
        raise SettingError(f"{len(edges)} edges were given; 1 to {MOST_EDGES} different ones are needed.")
    if network.topology == "disconnected":
        return [(e, e, w1, 0.0) for e, (w1, _) in itertools.product(range(len(edges)), network._weights.tolist())]
    one, other = _pairs(network.topology, list(edges))
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return [(a, b, w1, w2) for (a, b), (w1, w2) in itertools.product(pairs, network._weights.tolist())]


def _derivative(functions: Sequence[Function], z: FloatArray, first: int) -> float:
    """The cdf at z, differentiated once by each of the first so many edges."""
    messages, masks = np.zeros(1 << first), np.arange(1 << first)
    messages[0] = 1.0
    for one, other, w1, w2 in functions:
        value, by_one, by_other, by_both = _sigmoid(z[one], z[other], w1, w2)
        parts = [(0, value)]
        if one == other:
            parts += [(1 << one, by_one + by_other)] if one < first else []
        else:
            parts += [(1 << one, by_one)] if one < first else []
            parts += [(1 << other, by_other)] if other < first else []
            parts += [((1 << one) | (1 << other), by_both)] if max(one, other) < first else []
        new = np.zeros_like(messages)
        for taken, factor in parts:
            free = masks[(masks & taken) == 0]
            new[free | taken] += factor * messages[free]
        messages = new
    return float(messages[-1])


def _sigmoid(r1: float, r2: float, w1: float, w2: float) -> tuple[float, float, float, float]:
    """1 / (1 + exp(-w1 r1) + exp(-w2 r2)), [StructRank] (9), and its derivatives; w2 = 0 leaves the second out."""
    a = np.exp(-np.clip(w1 * r1, -700.0, 700.0)) if np.isfinite(r1) else 0.0
    b = np.exp(-np.clip(w2 * r2, -700.0, 700.0)) if w2 and np.isfinite(r2) else 0.0
    c = 1.0 / (1.0 + a + b)
    return float(c), float(w1 * a * c * c), float(w2 * b * c * c), float(2.0 * w1 * w2 * (a * c) * (b * c) * c)
