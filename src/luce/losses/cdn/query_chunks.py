"""A chunk of queries of a cumulative distribution network: which kernel does it, and what it fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luce.losses.cdn import array_sums as general_sums
from luce.losses.cdn import sigmoid_kernels as kernels
from luce.losses.cdn.array_sums import Felt
from luce.losses.cdn.edge_functions import EdgeFunction
from luce.losses.cdn.point_sums import DIRECT, tables_for
from luce.losses.pairwise import RankNet
from luce.numerics.compiled import kernel
from luce.numerics.differences import moments_to_nodes
from luce.numerics.segments import Chunk
from luce.numerics.softplus import softplus
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from luce.losses.cdn.loss import Network

_NODE_POINTS = 64
"""Points that the nodes of a narrow query come to: fewer edges than these meet one by one."""


class Results(NamedTuple):
    """What a run fills: values and derivatives in the weights and in rho by query, gradient and curvature by row."""

    values: FloatArray
    d_weights: FloatArray
    d_rho: FloatArray
    grad: FloatArray
    curvature: FloatArray

    @classmethod
    def of(cls, chunk: Chunk, grad: FloatArray, curvature: FloatArray, functions: int) -> Results:
        """Nothing filled yet."""
        n = chunk[1] - chunk[0]
        return cls(np.zeros(n), np.zeros((n, functions, 2)), np.zeros(n), grad, curvature)


def count_terms(topology: str, network: Network) -> FloatArray:
    """Number (weight) of the terms of every query."""
    if network.edges is None and topology == "full":
        return network.n_edges**2
    if network.pairs is not None:
        totals = np.concatenate([[0.0], np.cumsum(network.pairs.weight)])
        counts: FloatArray = np.diff(totals[network.pairs.queries])
        return counts
    if network.hubs is not None and network.edges is not None:
        totals = np.concatenate([[0.0], np.cumsum(network.edges.weight[network.hubs.edges])])
        by_hub = np.concatenate([[0.0], np.cumsum(np.diff(totals[network.hubs.starts]) ** 2)])
        squares: FloatArray = np.diff(by_hub[network.hubs.queries])
        return squares
    return network.n_edges


def disconnected(
    ranknet: RankNet, network: Network, scores: FloatArray, weights: FloatArray, chunk: Chunk, out: Results
) -> None:
    """Each edge by itself: the pairwise loss at w f, which for w = 1 is the same call."""
    rows = slice(network.offsets[chunk[0]], network.offsets[chunk[1]])
    starts = network.offsets[chunk[0] : chunk[1]] - network.offsets[chunk[0]]
    grad, curvature, scaled = np.empty_like(out.grad), np.empty_like(out.curvature), np.zeros_like(scores)
    for k, w in enumerate(weights[:, 0]):
        scaled[rows] = w * scores[rows]  # other rows may not be scored yet
        out.values[:] += ranknet.evaluate(network.pairwise, scaled, chunk, grad, curvature)
        out.grad[rows] += w * grad[rows]
        if len(curvature):
            out.curvature[rows] += w * w * curvature[rows]
        out.d_weights[:, k, 0] = np.add.reduceat(scores[rows] * grad[rows], starts)


def sigmoid(
    topology: str, network: Network, scores: FloatArray, weights: FloatArray, how: int, chunk: Chunk, out: Results
) -> None:
    """Networks of sigmoids, compiled."""
    rows = slice(network.offsets[chunk[0]], network.offsets[chunk[1]])
    shared = (chunk, out.values, out.grad, out.curvature, out.d_weights)
    reach = 2.0 * float(np.ptp(scores[rows])) * float(weights.max()) + 1.0
    if network.edges is None:
        assert network.tiers is not None
        tables = tables_for(2.0 * reach)
        nodes = how == kernels.NODES_ONLY or kernels.nodes_are_worth_it(network.n_edges, len(weights))
        matrix = moments_to_nodes() if nodes else None
        kernels.graded(network.tiers, scores, weights, tables, matrix, how, *shared)
    elif network.pairs is not None:
        kernels.paired(network.edges, network.pairs, scores, weights, *shared)
    elif network.hubs is not None:
        kernels.at_hubs(network.edges, network.hubs, scores, weights, tables_for(2.0 * reach), how, *shared)
    else:
        each = _by_document if topology == "list" else _one_by_one
        each(network.edges, scores, weights, *shared)


@kernel
def _one_by_one(edges, scores, weights, chunk, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    better, worse, m, bounds = edges
    for q in range(chunk[0], chunk[1]):
        for e in range(bounds[q], bounds[q + 1]):
            r = scores[better[e]] - scores[worse[e]]
            for k in range(len(weights)):
                w = weights[k, 0]
                term = softplus(-w * r)
                p = np.exp(-w * r - term)
                values[q - chunk[0]] += m[e] * term
                d_weights[q - chunk[0], k, 0] -= m[e] * r * p
                grad[better[e]] -= m[e] * w * p
                grad[worse[e]] += m[e] * w * p
                if len(curvature):
                    curvature[better[e]] += m[e] * w * w * p * (1.0 - p)
                    curvature[worse[e]] += m[e] * w * w * p * (1.0 - p)


@kernel
def _by_document(edges, scores, weights, chunk, values, grad, curvature, d_weights):  # type: ignore[no-untyped-def]
    """One sigmoid of many arguments for each document that edges leave; edges are sorted by it."""
    better, worse, m, bounds = edges
    for q in range(chunk[0], chunk[1]):
        first = bounds[q]
        while first < bounds[q + 1]:
            top, last = better[first], first
            while last < bounds[q + 1] and better[last] == top:
                last += 1
            for k in range(len(weights)):
                w = weights[k, 0]
                greatest = 0.0
                for e in range(first, last):
                    greatest = max(greatest, w * (scores[worse[e]] - scores[top]))
                total = np.exp(-greatest)
                for e in range(first, last):
                    total += m[e] * np.exp(w * (scores[worse[e]] - scores[top]) - greatest)
                all_of_them = 0.0
                values[q - chunk[0]] += greatest + np.log(total)
                for e in range(first, last):
                    gap = scores[worse[e]] - scores[top]
                    p = m[e] * np.exp(w * gap - greatest) / total
                    all_of_them += p
                    d_weights[q - chunk[0], k, 0] += gap * p
                    grad[worse[e]] += w * p
                    grad[top] -= w * p
                    if len(curvature):
                        # Repeated edges to one document would add up inside p: p covers them, p (1 - p) might not.
                        curvature[worse[e]] += w * w * p
                if len(curvature):
                    curvature[top] += w * w * all_of_them
            first = last


class _Case(NamedTuple):
    """Networks of one function of any kind, at some scores, and where their derivatives go."""

    topology: str
    function: EdgeFunction
    network: Network
    scores: FloatArray
    weights: FloatArray
    how: int
    out: Results


def general(
    topology: str,
    function: EdgeFunction,
    network: Network,
    scores: FloatArray,
    weights: FloatArray,
    how: int,
    chunk: Chunk,
    out: Results,
) -> None:
    """Networks of any function, query by query."""
    case = _Case(topology, function, network, scores, weights, how, out)
    for q in range(*chunk):
        if network.n_edges[q] > 0:
            felt = _one_query(case, q)
            out.values[q - chunk[0]] = felt.value
            out.d_weights[q - chunk[0]] = felt.d_weights
            out.d_rho[q - chunk[0]] = felt.d_rho


def _one_query(case: _Case, q: int) -> Felt:
    network = case.network
    if network.hubs is not None:
        return _at_hubs(case, q)
    if network.pairs is not None:
        return _in_pairs(case, q)
    if network.edges is None:
        return _on_nodes(case, q) or _meet(case, *_edges_of_grades(network, q))
    here = slice(network.edges.queries[q], network.edges.queries[q + 1])
    return _meet(case, network.edges.better[here], network.edges.worse[here], network.edges.weight[here])


def _meet(case: _Case, better: IntArray, worse: IntArray, m: FloatArray) -> Felt:
    """Each of these edges by itself, or all with all, as the topology has it."""
    sums = general_sums.alone if case.topology == "disconnected" else general_sums.all_pairs
    felt = sums(case.function, case.weights, case.scores[better] - case.scores[worse], m)
    _back(felt, m, better, worse, case.out)
    return felt


def _at_hubs(case: _Case, q: int) -> Felt:
    """Hub by hub, its edges all with all."""
    edges, hubs = case.network.edges, case.network.hubs
    assert edges is not None
    assert hubs is not None
    total = Felt.nothing(0, len(case.weights))
    for hub in range(hubs.queries[q], hubs.queries[q + 1]):
        here = hubs.edges[hubs.starts[hub] : hubs.starts[hub + 1]]
        if len(here):
            felt = _meet(case, edges.better[here], edges.worse[here], edges.weight[here])
            total.value += felt.value
            total.d_weights += felt.d_weights
            total.d_rho += felt.d_rho
    return total


def _in_pairs(case: _Case, q: int) -> Felt:
    edges, pairs = case.network.edges, case.network.pairs
    assert edges is not None
    assert pairs is not None
    here, drawn = slice(edges.queries[q], edges.queries[q + 1]), slice(pairs.queries[q], pairs.queries[q + 1])
    better, worse = edges.better[here], edges.worse[here]
    r = case.scores[better] - case.scores[worse]
    one, other = pairs.one[drawn] - here.start, pairs.other[drawn] - here.start
    felt = general_sums.listed_pairs(case.function, case.weights, r, one, other, pairs.weight[drawn])
    _back(felt, np.ones(len(r)), better, worse, case.out)
    return felt


def _rows_by_grade(network: Network, q: int) -> tuple[IntArray, IntArray]:
    """Rows of a query, best grade first, and where its grades begin among them."""
    assert network.tiers is not None
    order, starts, queries = network.tiers
    cuts = starts[queries[q] : queries[q + 1] + 1]
    return order[cuts[0] : cuts[-1]], cuts - cuts[0]


def _edges_of_grades(network: Network, q: int) -> tuple[IntArray, IntArray, FloatArray]:
    rows, cuts = _rows_by_grade(network, q)
    above = np.repeat(cuts[:-1], np.diff(cuts))
    worse = np.repeat(np.arange(len(rows)), above)
    better = np.concatenate([np.arange(n) for n in above])
    return rows[better], rows[worse], np.ones(len(better))


def _on_nodes(case: _Case, q: int) -> Felt | None:
    """All edges with all by way of nodes; None where the edges themselves cost less, or there is no such way."""
    if case.topology != "full" or case.how == DIRECT or case.function.width is None:
        return None
    rows, cuts = _rows_by_grade(case.network, q)
    f, out = case.scores[rows], case.out
    reach, greatest = float(np.ptp(f)), float(case.weights.max())
    if not (reach > 0 and greatest > 0):
        return None
    width = min(case.function.width / greatest, reach * (1.0 + 1e-9))
    if _NODE_POINTS * (int(reach / width) + 1) >= case.network.n_edges[q]:
        return None
    grad = np.zeros(len(rows))
    curvature = np.zeros(len(rows) if len(out.curvature) else 0)
    felt = general_sums.on_nodes(case.function, case.weights, f, cuts, width, grad, curvature)
    out.grad[rows] += grad
    if len(curvature):
        out.curvature[rows] += curvature
    return felt


def _back(felt: Felt, m: FloatArray, better: IntArray, worse: IntArray, out: Results) -> None:
    np.add.at(out.grad, better, -m * felt.slope)
    np.add.at(out.grad, worse, m * felt.slope)
    if len(out.curvature):
        np.add.at(out.curvature, better, m * felt.bend)
        np.add.at(out.curvature, worse, m * felt.bend)
