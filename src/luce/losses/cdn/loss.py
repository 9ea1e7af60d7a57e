"""`cdn`: the likelihood of a partial order under a cumulative distribution network."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.data.comparisons import Comparisons
from luce.data.statements import Statements
from luce.errors import LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, statements
from luce.losses.cdn.functions import Felt, Gaussian, Sigmoid, all_pairs, each_alone, family_of, listed_pairs
from luce.losses.cdn.order_graph import (
    Edges,
    Hubs,
    Pairs,
    by_document,
    draw,
    edge_counts,
    edges_of,
    line,
    order_graphs,
)
from luce.losses.cdn.sigmoids import meet_in_groups, tables_for, tiered
from luce.losses.chances import PairProbabilities, exact_pairs
from luce.losses.pairwise import RankNet
from luce.numerics.chebyshev import grow_tree
from luce.numerics.differences import gather_differences, moments_to_nodes, node_positions, spread_differences
from luce.numerics.segments import Chunk, check_offsets, chunk_queries, log_sums, query_index
from luce.spec import option
from luce.types import FloatArray, IntArray

LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e3
_ONE_ARGUMENT = ("disconnected", "list")
_NODE_POINTS = 64
"""Points that the nodes of a narrow query come to: fewer edges than these meet one by one."""
_EDGES_AT_ONCE = 1 << 13
"""Listed edges of a run of queries: few enough for arrays of them to stay in the cache."""
_RANDOM = (lambda loss: loss.topology == "random", "topology='random'")


def _checked_weights(name: str, given: Any) -> float | tuple[float, ...]:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.ndim > 1 or not np.isfinite(values).all() or np.any(values < 0):
        raise SettingError(f"{name} is {given!r}; it must be a finite number of at least 0, or one for each function.")
    return tuple(values.tolist()) if values.ndim else float(values)


class Network(NamedTuple):
    """Order graphs, one an observation, and what connects their edges; what a topology does not need is None."""

    said: Statements
    """Closed chains."""
    scale: FloatArray
    """Factor of every query: 1, or one through its number of terms."""
    n_edges: FloatArray
    """The number (weight) of edges of every query."""
    edges: Edges | None = None
    pairs: Pairs | None = None
    hubs: Hubs | None = None
    pairwise: Any = None


class CDN(Loss):
    r"""-log of the joint cdf of the preferences of a query, a product over pairs of edges of its order graph.

    An edge $e = (i \to j)$ says that i is preferred to j, and $r_e = f_i - f_j$, [StructRank] (3). The joint cdf of all
    edges at $r$ is [StructRank] (4), minus its logarithm [StructRank] (5). The fully connected network [StructRank] (8)
    of bivariate sigmoids is

    $$-\log F = \sum_{e, e'} \log\left(1 + e^{-w_1 r_e} + e^{-w_2 r_{e'}}\right)$$

    over all ordered pairs of edges, $e = e'$ included. It is computed in linear time in the number of documents
    (`luce.numerics.differences`), whatever the number of edges.

    Parameters
    ----------
    topology
        "full": every edge with every one. "disconnected": each edge by itself, $1/(1 + e^{-w_1 r_e})$; with $w_1 = 1$
        that is `ranknet`. "random": the average of `networks` networks of `pairs` random pairs of edges each (None: ten
        a document), drawn from `seed`. "line": each edge with the next. "star": edges that share a document, all with
        all. "list": one sigmoid of many arguments a document, over all edges that leave it,
        $1/(1 + \sum_j e^{-w_1 (f_i - f_j)})$; on a complete order that is `listmle`.
    w1, w2
        The weights, at least 0: a number, or one for each of `functions`; None learns them, from 1.
    family
        "sigmoid"; "gaussian", the normal cdf of two arguments with correlation `rho` (None: learned, from 0); or a
        function of your own, from two arrays to log phi and its two derivatives. It may have attributes `width`, over
        which 32 Chebyshev nodes resolve it, and `bend`, a bound of the Hessian of -log phi for boosted trees.
    functions
        Number K of pairs (w1, w2), whose functions are multiplied. Learned ones start a factor 2 apart.
    closure, acyclic
        For explicit preferences: add those that they imply; refuse those that run in a circle.
    weighting
        "all": every term counts 1, so that a query counts by the square of its edges. "pairs": a query is divided by
        its number of terms.
    exact
        Take every pair of edges by itself, also where nodes cost less.

    Examples
    --------
    >>> value, grad = CDN().value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])  # two edges, four pairs
    >>> round(float(np.exp(-value / 4)), 12), grad.round(12).tolist()
    (0.333333333333, [-2.666666666667, 1.333333333333, 1.333333333333])
    """

    name = "cdn"
    takes_comparisons: ClassVar[bool] = True

    topology: Literal["full", "disconnected", "random", "line", "star", "list"] = "full"
    w1: float | tuple[float, ...] | None = option(default=None, convert=_checked_weights)
    w2: float | tuple[float, ...] | None = option(default=None, convert=_checked_weights)
    _: KW_ONLY
    family: Any = "sigmoid"
    rho: float | None = option(default=None, learned=True)
    functions: int = option(default=1, least=1, most=64)
    pairs: int | None = option(default=None, least=1, needs=_RANDOM)
    networks: int = option(default=5, least=1, needs=_RANDOM)
    seed: int = option(default=0, least=0, needs=_RANDOM)
    closure: bool = False
    acyclic: bool = False
    weighting: Literal["all", "pairs"] = "all"
    exact: bool = False

    def _check(self) -> None:
        start = 2.0 ** (np.arange(self.functions) - (self.functions - 1) / 2)
        self._weights = np.empty((self.functions, 2))
        for side, (name, given) in enumerate((("w1", self.w1), ("w2", self.w2))):
            if given is not None and np.size(given) != self.functions and np.ndim(given):
                raise SettingError(f"{name} is {given!r}; it must be a number, or one for each of {self.functions}.")
            self._weights[:, side] = start if given is None else given
        self._family = family_of(self.family, self.rho)
        vars(self)["rho"] = getattr(self._family, "rho", None)
        self.permutation_invariant = self.topology not in ("random", "line")
        if self.topology == "list" and not isinstance(self._family, Sigmoid):
            raise SettingError("topology='list' has one sigmoid of many arguments; leave family out.")

    @property
    def weights(self) -> FloatArray:
        """(functions, 2): w1 and w2, given, learned, or where learning starts."""
        return self._weights.copy()

    @property
    def _learned(self) -> Any:
        """Mask of the weights that are learned."""
        mask = np.array([self.w1 is None, self.w2 is None])
        if self.topology in _ONE_ARGUMENT:
            mask[1] = False
        return np.broadcast_to(mask, (self.functions, 2))

    @property
    def _learns_rho(self) -> bool:
        plain = self.topology in _ONE_ARGUMENT
        return isinstance(self._family, Gaussian) and "rho" in self.learns and not plain

    @property
    def parameters(self) -> FloatArray:
        """The learned weights, function by function, and the correlation where it is learned."""
        return np.append(self._weights[self._learned], [self.rho] if self._learns_rho else []).astype(np.float64)

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """A weight of 0 would say nothing of any edge, and is not left again."""
        return [(LEAST_WEIGHT, MOST_WEIGHT)] * int(self._learned.sum()) + [(-0.95, 0.95)] * self._learns_rho

    def take(self, values: FloatArray) -> None:
        """The learned weights, and the correlation where it is learned."""
        n = int(self._learned.sum())
        if np.any(values[:n] < 0) or not np.isfinite(values).all():
            raise SettingError(f"The weights of a network must be at least 0 and finite; got {values[:n].tolist()}.")
        self._weights = self._weights.copy()
        self._weights[self._learned] = values[:n]
        if self._learns_rho:
            self._family = Gaussian(float(values[n]))
            vars(self)["rho"] = self._family.rho

    def skipped(self, target: Target, offsets: ArrayLike) -> int:
        """Number of queries without an edge, which say nothing and are passed over.

        >>> CDN().skipped([1, 0, 2, 2], [0, 2, 4])
        1
        """
        checked = np.asarray(offsets, dtype=np.int64)
        return int(np.sum(self.prepare(target, check_offsets(checked, int(checked[-1]))).n_edges == 0))

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """Normalised over the two orders of a pair, without ties."""
        from luce.losses.cdn.order_probabilities import before_each_other

        return exact_pairs(np.eye(len(scores)), before_each_other(self, scores))

    def prepare(self, target: Target, offsets: IntArray) -> Network:
        """Order graphs, and the edges that functions connect."""
        said = statements(self, target, offsets).closed()
        if isinstance(target, Comparisons):
            said = order_graphs(said, closure=self.closure, acyclic=self.acyclic)
        bounds = said.by_query
        n_edges = np.bincount(query_index(bounds), edge_counts(said) * said.times, len(bounds) - 1).astype(np.float64)
        if not n_edges.any() and np.diff(offsets).max(initial=0) > 1:
            what = "The target has no preference (all its pairs are tied): 'cdn' has nothing to learn from."
            warnings.warn(what, LuceWarning, stacklevel=2)
        network = self._connected(Network(said, np.ones(len(n_edges)), n_edges))
        if self.weighting == "all":
            return network
        terms = _count_terms(self.topology, network)
        return network._replace(scale=1.0 / np.where(terms > 0, terms, 1.0))

    def _connected(self, found: Network) -> Network:
        """The edges that the topology couples, listed where it cannot do without."""
        said = found.said
        if self.topology == "disconnected" and isinstance(self._family, Sigmoid):
            return found._replace(pairwise=RankNet(exact=self.exact).prepared(said))
        if self.topology == "random":
            edges, pairs = draw(said, self.pairs, self.networks, self.seed)
            return found._replace(edges=edges, pairs=pairs)
        if self.topology == "full" and len(said.chains) == len(said.observations):
            return found
        edges = edges_of(said)
        if self.topology == "line":
            return found._replace(edges=edges, pairs=line(edges))
        if self.topology == "star":
            return found._replace(edges=edges, hubs=by_document(edges, said))
        if self.topology == "full":
            graphs = Hubs(np.arange(len(edges.better)), edges.graphs, np.arange(len(edges.graphs)))
            return found._replace(edges=edges, hubs=graphs)
        if self.topology == "list":
            by_better = np.lexsort((edges.better, query_index(edges.graphs)))
            parts = (edges.better[by_better], edges.worse[by_better], edges.weight[by_better])
            return found._replace(edges=Edges(*parts, edges.graphs))
        return found._replace(edges=edges)

    def fill(self, prepared: Network, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian of a convex majoriser."""
        chunk, values, grad, curvature, d_parameters = out
        rows = slice(*prepared.said.offsets[list(chunk)])
        grad[rows] = 0.0
        if len(curvature):
            curvature[rows] = 0.0
            self._family.bend(np.zeros(1))  # an error where it has none
        if prepared.pairwise is not None:
            felt = self._disconnected(prepared, scores, out)
        else:
            felt = self._on_graphs(prepared, scores, out)
        scale = prepared.scale[chunk[0] : chunk[1]]
        if self.weighting != "all":
            by_row = np.repeat(scale, np.diff(prepared.said.offsets[chunk[0] : chunk[1] + 1]))
            grad[rows] *= by_row
            if len(curvature):
                curvature[rows] *= by_row
        if d_parameters.size:
            n = int(self._learned.sum())
            d_parameters[:, :n] = felt.d_weights[:, self._learned] * scale[:, None]
            if self._learns_rho:
                d_parameters[:, n] = felt.d_rho * scale
        values[:] = felt.values * scale

    def _on_graphs(self, network: Network, scores: FloatArray, out: Outputs) -> Felt:
        """Every graph counts as often as it was observed, [StructRank] (5)."""
        graphs = network.said.queries[out.chunk[0] : out.chunk[1] + 1]
        first, last = int(graphs[0]), int(graphs[-1])
        felt = Felt.nothing(last - first, self.functions, 0, False)
        if network.edges is None:
            self._on_tiers(network, scores, (first, last), out, felt)
        else:
            for a, b in chunk_queries(network.edges.graphs[first : last + 1], _EDGES_AT_ONCE):
                found = self._on_edges(network, network.edges, scores, (first + a, first + b), out)
                felt.by_query[a:b] = found.by_query
        owner, count = query_index(graphs - first), network.said.made[first:last]
        total = Felt.nothing(len(out.values), self.functions, 0, False)
        np.add.at(total.by_query, owner, count[:, None] * felt.by_query)
        return total

    def _disconnected(self, network: Network, scores: FloatArray, out: Outputs) -> Felt:
        """Each edge by itself: the pairwise loss at w f, which for w = 1 is the same call."""
        own = network.said.offsets[out.chunk[0] : out.chunk[1] + 1]
        rows, firsts = slice(own[0], own[-1]), own[:-1] - own[0]
        felt = Felt.nothing(len(out.values), self.functions, 0, False)
        grad, curvature, scaled = np.empty_like(out.grad), np.empty_like(out.curvature), np.zeros_like(scores)
        for k, w in enumerate(self._weights[:, 0]):
            scaled[rows] = w * scores[rows]  # other rows may not be scored yet
            felt.values[:] += RankNet(exact=self.exact).evaluate(network.pairwise, scaled, out.chunk, grad, curvature)
            out.grad[rows] += w * grad[rows]
            if len(curvature):
                out.curvature[rows] += w * w * curvature[rows]
            felt.d_weights[:, k, 0] = np.add.reduceat(scores[rows] * grad[rows], firsts)
        return felt

    def _on_edges(self, network: Network, edges: Edges, scores: FloatArray, graphs: Chunk, out: Outputs) -> Felt:
        """Networks over listed edges of some graphs: pairs of them, hubs where all meet, lists, or each by itself."""
        first, last = edges.graphs[list(graphs)]
        better, worse, m = edges.better[first:last], edges.worse[first:last], edges.weight[first:last]
        graph, r = query_index(edges.graphs[graphs[0] : graphs[1] + 1]), scores[better] - scores[worse]
        felt = Felt.nothing(graphs[1] - graphs[0], self.functions, len(r), len(out.curvature) > 0)
        if network.pairs is not None:
            one, other, weight, bounds = network.pairs
            here = slice(*bounds[list(graphs)])
            of = query_index(bounds[graphs[0] : graphs[1] + 1])
            listed_pairs(
                self._family, self._weights, r, (one[here] - first, other[here] - first, weight[here]), of, felt
            )
        elif network.hubs is not None:
            self._at_hubs(network.hubs, r, m, int(first), graphs, felt)
        elif self.topology == "list":
            _lists(self._weights[:, 0], better, r, m, graph, felt)
        else:
            each_alone(self._family, self._weights, r, m, graph, felt)
        said, made = network.said, network.said.made[graphs[0] : graphs[1]]
        own = (
            np.searchsorted(said.queries, [graphs[0], graphs[1] - 1], side="right") - 1
        )  # the first query and the last
        rows = slice(said.offsets[own[0]], said.offsets[own[1] + 1])
        if np.any(made != 1.0):
            felt.slope[:] *= made[graph]
            felt.bend[:] *= made[graph[: len(felt.bend)]]
        _to_documents(felt, better, worse, rows, out)
        return felt

    def _at_hubs(self, hubs: Hubs, r: FloatArray, m: FloatArray, first: int, graphs: Chunk, felt: Felt) -> None:
        """At every hub of some graphs, each of its edges with each."""
        begin, end = hubs.graphs[list(graphs)]
        starts = hubs.starts[begin : end + 1]
        members, starts = hubs.edges[starts[0] : starts[-1]] - first, starts - starts[0]
        graph = query_index(hubs.graphs[graphs[0] : graphs[1] + 1])
        if self.exact or not isinstance(self._family, Sigmoid):
            for hub in np.flatnonzero(np.diff(starts)):
                here = members[starts[hub] : starts[hub + 1]]
                found = all_pairs(self._family, self._weights, r[here], m[here], len(felt.bend) > 0)
                found.slope[:] *= m[here]
                found.bend[:] *= m[here[: len(found.bend)]]
                felt.by_query[graph[hub]] += found.by_query[0]
                felt.slope[here] += found.slope
                felt.bend[here[: len(felt.bend)]] += found.bend
            return
        n, weight = len(starts) - 1, m[members]
        values, d_weights, slope, bend = np.empty(n), np.zeros((n, self.functions, 2)), *np.empty((2, len(members)))
        tables = tables_for(4.0 * float(np.abs(r).max(initial=0.0)) * float(self._weights.max()) + 2.0)
        law = self._weights, tables, moments_to_nodes()
        meet_in_groups(r[members], weight, starts, law, values, (slope, bend), d_weights)
        felt.values[:] += np.bincount(graph, values, len(felt.values))
        np.add.at(felt.d_weights, graph, d_weights)
        felt.slope[:] += np.bincount(members, weight * slope, len(r))
        if len(felt.bend):
            felt.bend[:] += np.bincount(members, weight * bend, len(r))

    def _on_tiers(self, network: Network, scores: FloatArray, graphs: Chunk, out: Outputs, felt: Felt) -> None:
        """Graphs of one chain each, every edge with every one; edges are listed only where nodes cost more."""
        said = network.said
        first, last = said.chains[graphs[0]], said.chains[graphs[1]]
        begin, end = said.tiers[first], said.tiers[last]
        rows, starts = said.rows[begin:end], said.tiers[first : last + 1] - begin
        f, chains = scores[rows], said.chains[graphs[0] : graphs[1] + 1] - first
        grad, curvature = np.zeros(len(rows)), np.zeros(len(rows) if len(out.curvature) else 0)
        if isinstance(self._family, Sigmoid) and not self.exact:
            reach = 2.0 * float(np.ptp(f)) * float(self._weights.max()) + 1.0 if len(f) else 1.0
            law = self._weights, tables_for(2.0 * reach), moments_to_nodes()
            tiered(f, (starts, chains), law, felt.values, grad, curvature, felt.d_weights)
        else:
            for chain in np.flatnonzero(np.diff(chains) > 1).tolist():
                cuts = starts[chains[chain] : chains[chain + 1] + 1]
                here = slice(cuts[0], cuts[-1])
                found = self._one_chain(f[here], cuts - cuts[0], grad[here], curvature[here])
                felt.by_query[chain] = found.by_query[0]
        # Every edge weighs as much as its chain, so that a pair of them weighs the square.
        square = said.weight[graphs[0] : graphs[1]] ** 2
        felt.by_query[:] *= square[:, None]
        times = np.repeat(square * said.made[graphs[0] : graphs[1]], np.diff(starts[chains]))
        own = slice(*said.offsets[list(out.chunk)])
        for by_row, result in ((grad, out.grad), (curvature, out.curvature)):
            if len(result):
                result[own] += np.bincount(rows - own.start, times * by_row, own.stop - own.start)

    def _one_chain(self, f: FloatArray, cuts: IntArray, grad: FloatArray, curvature: FloatArray) -> Felt:
        """All edges between the tiers of one chain, all with all, by nodes of differences where that costs less."""
        n_edges = 0.5 * float(len(f) ** 2 - (np.diff(cuts) ** 2).sum())
        reach, greatest, resolved = float(np.ptp(f)), float(self._weights.max()), self._family.width
        width = 0.0
        if not self.exact and resolved is not None and reach > 0 and greatest > 0:
            width = min(resolved / greatest, reach * (1.0 + 1e-9))
        curved, rows = len(curvature) > 0, slice(0, len(f))
        if width == 0.0 or _NODE_POINTS * (int(reach / width) + 1) >= n_edges:
            tier = query_index(cuts)
            better, worse = np.nonzero(tier[:, None] < tier[None, :])
            felt = all_pairs(self._family, self._weights, f[better] - f[worse], np.ones(len(better)), curved)
            _to_documents(felt, better, worse, rows, Outputs((0, 1), felt.values, grad, curvature, grad))
            return felt
        matrix, tree = moments_to_nodes(), grow_tree(f, width)
        m, used = spread_differences(tree, cuts, matrix)
        at = node_positions(int(tree.ids[tree.starts[1] - 1]), width)
        kept = np.repeat(np.append(used, False) | np.append(False, used), at.shape[1])
        felt = all_pairs(self._family, self._weights, at.ravel()[kept], m.ravel()[kept], curved)
        for values, sides, result in ((felt.slope, (-1.0, 1.0), grad), (felt.bend, (1.0, 1.0), curvature)):
            if len(result):
                at_nodes = np.zeros(at.size)
                at_nodes[kept] = values
                gather_differences(tree, cuts, at_nodes.reshape(at.shape), used, matrix, *sides, result)
        return felt


def _to_documents(felt: Felt, better: IntArray, worse: IntArray, rows: slice, out: Outputs) -> None:
    """Add to the documents, which are these rows, what their edges feel."""
    n, better, worse = rows.stop - rows.start, better - rows.start, worse - rows.start
    out.grad[rows] += np.bincount(worse, felt.slope, n) - np.bincount(better, felt.slope, n)
    if len(out.curvature):
        out.curvature[rows] += np.bincount(worse, felt.bend, n) + np.bincount(better, felt.bend, n)


def _lists(weights: FloatArray, better: IntArray, r: FloatArray, m: FloatArray, query: IntArray, felt: Felt) -> None:
    """One sigmoid of many arguments for each document that edges leave; edges are sorted by it."""
    firsts = np.flatnonzero(np.append(True, np.diff(better) != 0)[: len(better)])
    sizes = np.diff(np.append(firsts, len(better)))
    for k, w in enumerate(weights):
        logs = np.logaddexp(0.0, log_sums(np.log(m) - w * r, firsts, sizes)) if len(r) else np.empty(0)
        p = np.exp(np.log(m) - w * r - np.repeat(logs, sizes))
        felt.values[:] += np.bincount(query[firsts], logs, len(felt.values))
        felt.d_weights[:, k, 0] -= np.bincount(query, r * p, len(felt.values))
        felt.slope[:] += w * p
        if len(felt.bend):
            # Repeated edges to one document would add up inside p: p covers them, p (1 - p) might not.
            felt.bend[:] += w * w * p


def _count_terms(topology: str, network: Network) -> FloatArray:
    """Number (weight) of the terms of every query."""
    said, graphs = network.said, None
    if network.pairs is not None:
        totals = np.concatenate([[0.0], np.cumsum(network.pairs.weight)])
        graphs = np.diff(totals[network.pairs.graphs])
    elif network.hubs is not None and network.edges is not None:
        totals = np.concatenate([[0.0], np.cumsum(network.edges.weight[network.hubs.edges])])
        by_hub = np.concatenate([[0.0], np.cumsum(np.diff(totals[network.hubs.starts]) ** 2)])
        graphs = np.diff(by_hub[network.hubs.graphs])
    elif topology == "full":
        graphs = (edge_counts(said) * said.weight) ** 2
    if graphs is None:
        return network.n_edges
    return np.bincount(query_index(said.queries), said.made * graphs, len(network.n_edges)).astype(np.float64)
