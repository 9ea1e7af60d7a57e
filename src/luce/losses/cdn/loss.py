"""`cdn`: the likelihood of a partial order under a cumulative distribution network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import heard, whole
from luce.data.comparisons import Comparisons
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.losses.cdn.functions import (
    INFINITE,
    EdgeFunction,
    Felt,
    Gaussian,
    OwnFunction,
    Sigmoid,
    all_pairs,
    each_alone,
    family_of,
    listed_pairs,
)
from luce.losses.cdn.order_graph import (
    Edges,
    Hubs,
    Pairs,
    by_document,
    by_query,
    compared_edges,
    draw_graded,
    draw_listed,
    graded_edges,
    line,
)
from luce.losses.cdn.sigmoids import AUTO, graded, meet_in_groups, tables_for
from luce.losses.chances import PairProbabilities, exact_pairs
from luce.losses.pair_sums import count_pairs
from luce.losses.pairwise import RankNet
from luce.numerics.chebyshev import grow_tree
from luce.numerics.differences import (
    gather_differences,
    moments_to_nodes,
    node_positions,
    potentials_of_nodes,
    spread_differences,
)
from luce.numerics.segments import Tiers, check_offsets, chunk_queries, log_sums, query_index, tiers
from luce.types import FloatArray, IntArray

TOPOLOGIES = ("full", "disconnected", "random", "line", "star", "list")
WEIGHTINGS = ("all", "pairs")
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e3
MOST_FUNCTIONS = 64
_ONE_ARGUMENT = ("disconnected", "list")
_NODE_POINTS = 64
"""Points that the nodes of a narrow query come to: fewer edges than these meet one by one."""
_EDGES_AT_ONCE = 1 << 13
"""Listed edges of a run of queries: few enough for arrays of them to stay in the cache."""
_USUAL: dict[str, Any] = {
    "functions": 1,
    "pairs": None,
    "networks": 5,
    "seed": 0,
    "closure": False,
    "acyclic": False,
    "weighting": "all",
    "exact": False,
}
"""Options whose default value is left out of the settings."""


class Network(NamedTuple):
    """Order graphs of all queries and what connects their edges; what a topology does not need is None."""

    offsets: IntArray
    scale: FloatArray
    """Factor of every query: 1, or one through its number of terms."""
    n_edges: FloatArray
    tiers: Tiers | None = None
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

    def __init__(
        self,
        topology: str = "full",
        w1: float | Sequence[float] | None = None,
        w2: float | Sequence[float] | None = None,
        *,
        family: Any = "sigmoid",
        rho: float | None = None,
        functions: int = 1,
        pairs: int | None = None,
        networks: int = 5,
        seed: int = 0,
        closure: bool = False,
        acyclic: bool = False,
        weighting: str = "all",
        exact: bool = False,
    ) -> None:
        self.topology = _one_of("topology", topology, TOPOLOGIES)
        self.weighting = _one_of("weighting", weighting, WEIGHTINGS)
        self.functions = whole("functions", functions, 1, MOST_FUNCTIONS)
        self.networks = whole("networks", networks, 1)
        self.pairs = None if pairs is None else whole("pairs", pairs, 1)
        self.seed = whole("seed", seed, 0)
        self.closure, self.acyclic, self.exact = closure, acyclic, exact
        self._given = (_checked_weights("w1", w1, self.functions), _checked_weights("w2", w2, self.functions))
        start = 2.0 ** (np.arange(self.functions) - (self.functions - 1) / 2)
        self._weights = np.column_stack([start if given is None else given for given in self._given])
        self._family: EdgeFunction = family_of(family, rho)
        self._given_rho = rho
        self.permutation_invariant = self.topology not in ("random", "line")
        drawn = {name: (getattr(self, name), _USUAL[name]) for name in ("pairs", "networks", "seed")}
        heard(self.name, drawn, self.topology == "random", "topology='random'")
        if self.topology == "list" and not isinstance(self._family, Sigmoid):
            raise SettingError("topology='list' has one sigmoid of many arguments; leave family out.")

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this loss; of the options only what differs from the defaults."""
        chosen: dict[str, Any] = {"topology": self.topology}
        for name, given in zip(("w1", "w2"), self._given, strict=True):
            if given is not None:
                chosen[name] = given[0] if self.functions == 1 else list(given)
        if isinstance(self._family, Gaussian):
            chosen["family"] = "gaussian"
        elif isinstance(self._family, OwnFunction):
            chosen["family"] = self._family.function
        if self._given_rho is not None:
            chosen["rho"] = self._given_rho
        return chosen | {name: getattr(self, name) for name, usual in _USUAL.items() if getattr(self, name) != usual}

    @property
    def weights(self) -> FloatArray:
        """(functions, 2): w1 and w2, given, learned, or where learning starts."""
        return self._weights.copy()

    @property
    def rho(self) -> float | None:
        """The correlation of the Gaussian family."""
        return self._family.rho if isinstance(self._family, Gaussian) else None

    @property
    def _learned(self) -> Any:
        """Mask of the weights that are learned."""
        mask = np.array([given is None for given in self._given])
        if self.topology in _ONE_ARGUMENT:
            mask[1] = False
        return np.broadcast_to(mask, (self.functions, 2))

    @property
    def _learns_rho(self) -> bool:
        plain = self.topology in _ONE_ARGUMENT
        return isinstance(self._family, Gaussian) and self._given_rho is None and not plain

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

    def skipped(self, target: Target, offsets: ArrayLike) -> int:
        """Number of queries without an edge, which say nothing and are passed over.

        >>> CDN().skipped([1, 0, 2, 2], [0, 2, 4])
        1
        """
        checked = np.asarray(offsets, dtype=np.int64)
        return int(np.sum(self.prepare(target, check_offsets(checked, int(checked[-1]))).n_edges == 0))

    def log_marginals(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logarithms of phi(r, infinity) and phi(infinity, r), multiplied over the functions."""
        first, second = np.zeros(len(r)), np.zeros(len(r))
        far = np.full(len(r), INFINITE)
        for w1, w2 in self._weights:
            first += self._family.terms(w1 * r, far).log
            second += self._family.terms(far, w2 * r).log
        return first, second

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """Normalised over the two orders of a pair, without ties."""
        from luce.losses.cdn.order_probabilities import before_each_other

        return exact_pairs(np.eye(len(scores)), before_each_other(self, scores))

    def prepare(self, target: Target, offsets: IntArray) -> Network:
        """Order graphs, and the edges that functions connect."""
        network = self._compared(target, offsets) if isinstance(target, Comparisons) else self._graded(target, offsets)
        if not network.n_edges.any() and np.diff(offsets).max(initial=0) > 1:
            what = "The target has no preference (all its pairs are tied): 'cdn' has nothing to learn from."
            warnings.warn(what, LuceWarning, stacklevel=2)
        return network

    def _graded(self, target: Any, offsets: IntArray) -> Network:
        try:
            labels = as_labels(self, target, offsets)
        except (TypeError, ValueError) as error:
            if isinstance(error, DataError | SettingError):
                raise
            raise DataError("Labels that are no numbers cannot be compared; give grades, higher is better.") from error
        by_grade = tiers(labels, offsets)
        n_edges = count_pairs(by_grade, np.zeros(len(by_grade.starts) - 1))
        found = Network(offsets, np.ones(len(n_edges)), n_edges, tiers=by_grade)
        if self.topology == "disconnected" and isinstance(self._family, Sigmoid):
            return self._scaled(found._replace(pairwise=self._ranknet().prepare(labels, offsets)))
        if self.topology == "random":
            edges, pairs = draw_graded(by_grade, offsets, self.pairs, self.networks, self.seed)
            return self._scaled(found._replace(edges=edges, pairs=pairs))
        if self.topology == "full":
            return self._scaled(found)
        return self._scaled(self._connected(found, graded_edges(by_grade)))

    def _compared(self, target: Comparisons, offsets: IntArray) -> Network:
        edges = compared_edges(target, offsets, closure=self.closure, acyclic=self.acyclic)
        totals = np.concatenate([[0.0], np.cumsum(edges.weight)])[edges.queries]
        found = Network(offsets, np.ones(len(offsets) - 1), np.diff(totals), edges=edges)
        if self.topology == "random":
            drawn, pairs = draw_listed(edges, offsets, self.pairs, self.networks, self.seed)
            return self._scaled(found._replace(edges=drawn, pairs=pairs))
        return self._scaled(self._connected(found, edges))

    def _connected(self, found: Network, edges: Edges) -> Network:
        if self.topology == "line":
            return found._replace(edges=edges, pairs=line(edges))
        if self.topology == "star":
            return found._replace(edges=edges, hubs=by_document(edges, found.offsets))
        if self.topology == "full":
            return found._replace(edges=edges, hubs=by_query(edges))
        if self.topology == "list":
            by_better = np.argsort(edges.better, kind="stable")
            parts = (edges.better[by_better], edges.worse[by_better], edges.weight[by_better])
            return found._replace(edges=Edges(*parts, edges.queries))
        if isinstance(self._family, Sigmoid) and len(edges.better):
            wins = Comparisons(wins=np.column_stack(edges[:2]), win_weight=edges.weight)
            return found._replace(edges=edges, pairwise=self._ranknet().prepare(wins, found.offsets))
        return found._replace(edges=edges)

    def _ranknet(self) -> RankNet:
        return RankNet(exact=self.exact)

    def _scaled(self, network: Network) -> Network:
        if self.weighting == "all":
            return network
        terms = _count_terms(self.topology, network)
        return network._replace(scale=1.0 / np.where(terms > 0, terms, 1.0))

    def fill(self, prepared: Network, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian of a convex majoriser."""
        chunk, values, grad, curvature, d_parameters = out
        rows = slice(prepared.offsets[chunk[0]], prepared.offsets[chunk[1]])
        grad[rows] = 0.0
        if len(curvature):
            curvature[rows] = 0.0
            self._family.bend(np.zeros(1))  # an error where it has none
        if prepared.pairwise is not None:
            felt = self._disconnected(prepared, scores, out)
        elif prepared.edges is not None:
            felt = Felt.nothing(len(values), self.functions, 0, False)
            for first, last in chunk_queries(prepared.edges.queries[chunk[0] : chunk[1] + 1], _EDGES_AT_ONCE):
                run = out._replace(chunk=(chunk[0] + first, chunk[0] + last), values=values[first:last])
                found = self._on_edges(prepared, prepared.edges, scores, run)
                felt.values[first:last], felt.d_weights[first:last] = found.values, found.d_weights
                felt.d_rho[first:last] = found.d_rho
        elif isinstance(self._family, Sigmoid) and not self.exact:
            assert prepared.tiers is not None
            felt = Felt.nothing(len(values), self.functions, 0, False)
            reach = 2.0 * float(np.ptp(scores[rows])) * float(self._weights.max()) + 1.0
            common = (self._weights, tables_for(2.0 * reach), moments_to_nodes(), AUTO, chunk)
            graded(prepared.tiers, scores, *common, felt.values, grad, curvature, felt.d_weights)
        else:
            felt = self._on_grades(prepared, scores, out)
        scale = prepared.scale[chunk[0] : chunk[1]]
        if self.weighting != "all":
            by_row = np.repeat(scale, np.diff(prepared.offsets[chunk[0] : chunk[1] + 1]))
            grad[rows] *= by_row
            if len(curvature):
                curvature[rows] *= by_row
        if d_parameters.size:
            n = int(self._learned.sum())
            d_parameters[:, :n] = felt.d_weights[:, self._learned] * scale[:, None]
            if self._learns_rho:
                d_parameters[:, n] = felt.d_rho * scale
        values[:] = felt.values * scale

    def _disconnected(self, network: Network, scores: FloatArray, out: Outputs) -> Felt:
        """Each edge by itself: the pairwise loss at w f, which for w = 1 is the same call."""
        rows, firsts, _ = out.spans(network.offsets)
        felt = Felt.nothing(len(out.values), self.functions, 0, False)
        grad, curvature, scaled = np.empty_like(out.grad), np.empty_like(out.curvature), np.zeros_like(scores)
        for k, w in enumerate(self._weights[:, 0]):
            scaled[rows] = w * scores[rows]  # other rows may not be scored yet
            felt.values[:] += self._ranknet().evaluate(network.pairwise, scaled, out.chunk, grad, curvature)
            out.grad[rows] += w * grad[rows]
            if len(curvature):
                out.curvature[rows] += w * w * curvature[rows]
            felt.d_weights[:, k, 0] = np.add.reduceat(scores[rows] * grad[rows], firsts)
        return felt

    def _on_edges(self, network: Network, edges: Edges, scores: FloatArray, out: Outputs) -> Felt:
        """Networks over listed edges: pairs of them, hubs where all meet, lists, or each by itself."""
        first, last = edges.queries[list(out.chunk)]
        better, worse, m = edges.better[first:last], edges.worse[first:last], edges.weight[first:last]
        query, r = query_index(edges.queries[out.chunk[0] : out.chunk[1] + 1]), scores[better] - scores[worse]
        felt = Felt.nothing(len(out.values), self.functions, len(r), len(out.curvature) > 0)
        if network.pairs is not None:
            one, other, weight, bounds = network.pairs
            here = slice(*bounds[list(out.chunk)])
            of = query_index(bounds[out.chunk[0] : out.chunk[1] + 1])
            listed_pairs(
                self._family, self._weights, r, (one[here] - first, other[here] - first, weight[here]), of, felt
            )
        elif network.hubs is not None:
            self._at_hubs(network.hubs, r, m, int(first), out, felt)
        elif self.topology == "list":
            _lists(self._weights[:, 0], better, r, m, query, felt)
        else:
            each_alone(self._family, self._weights, r, m, query, felt)
        rows, _, _ = out.spans(network.offsets)
        _to_documents(felt, better, worse, rows, out)
        return felt

    def _at_hubs(self, hubs: Hubs, r: FloatArray, m: FloatArray, first: int, out: Outputs, felt: Felt) -> None:
        """At every hub of some queries, each of its edges with each."""
        begin, end = hubs.queries[list(out.chunk)]
        starts = hubs.starts[begin : end + 1]
        members, starts = hubs.edges[starts[0] : starts[-1]] - first, starts - starts[0]
        query = query_index(hubs.queries[out.chunk[0] : out.chunk[1] + 1])
        if self.exact or not isinstance(self._family, Sigmoid):
            for hub in np.flatnonzero(np.diff(starts)):
                here = members[starts[hub] : starts[hub + 1]]
                found = all_pairs(self._family, self._weights, r[here], m[here], len(felt.bend) > 0)
                found.slope[:] *= m[here]
                found.bend[:] *= m[here[: len(found.bend)]]
                felt.add(int(query[hub]), here, found)
            return
        n, weight = len(starts) - 1, m[members]
        values, d_weights, slope, bend = np.empty(n), np.zeros((n, self.functions, 2)), *np.empty((2, len(members)))
        tables = tables_for(4.0 * float(np.abs(r).max(initial=0.0)) * float(self._weights.max()) + 2.0)
        meet_in_groups(r[members], weight, starts, self._weights, tables, values, slope, bend, d_weights)
        felt.values[:] += np.bincount(query, values, len(felt.values))
        np.add.at(felt.d_weights, query, d_weights)
        felt.slope[:] += np.bincount(members, weight * slope, len(r))
        if len(felt.bend):
            felt.bend[:] += np.bincount(members, weight * bend, len(r))

    def _on_grades(self, network: Network, scores: FloatArray, out: Outputs) -> Felt:
        """All edges that grades imply, all with all, by way of nodes where that costs less: for any function."""
        assert network.tiers is not None
        total = Felt.nothing(len(out.values), self.functions, 0, False)
        order, starts, queries = network.tiers
        for place, q in enumerate(range(*out.chunk)):
            cuts = starts[queries[q] : queries[q + 1] + 1]
            rows, cuts = order[cuts[0] : cuts[-1]], cuts - cuts[0]
            if not network.n_edges[q]:
                continue
            felt = None if self.exact else self._on_nodes(rows, cuts, network.n_edges[q], scores, out)
            if felt is None:
                edges = graded_edges(Tiers(rows, cuts, np.array([0, len(cuts) - 1])))
                r = scores[edges.better] - scores[edges.worse]
                felt = all_pairs(self._family, self._weights, r, edges.weight, len(out.curvature) > 0)
                own = slice(network.offsets[q], network.offsets[q + 1])
                _to_documents(felt, edges.better, edges.worse, own, out)
            nothing = np.empty(0, dtype=np.int64)
            total.add(place, nothing, felt._replace(slope=np.empty(0), bend=np.empty(0)))
        return total

    def _on_nodes(
        self, rows: IntArray, cuts: IntArray, n_edges: float, scores: FloatArray, out: Outputs
    ) -> Felt | None:
        """One query through nodes of its differences; None where the edges cost less, or there is no such way."""
        f, width = scores[rows], self._family.width
        reach, greatest = float(np.ptp(f)), float(self._weights.max())
        if width is None or not (reach > 0 and greatest > 0):
            return None
        width = min(width / greatest, reach * (1.0 + 1e-9))
        if _NODE_POINTS * (int(reach / width) + 1) >= n_edges:
            return None
        matrix, tree = moments_to_nodes(), grow_tree(f, width)
        m, used = spread_differences(tree, cuts, matrix)
        at = node_positions(int(tree.ids[tree.starts[1] - 1]), width)
        kept = np.repeat(np.append(used, False) | np.append(False, used), at.shape[1])
        felt = all_pairs(self._family, self._weights, at.ravel()[kept], m.ravel()[kept], len(out.curvature) > 0)
        for values, sides, result in ((felt.slope, (-1.0, 1.0), out.grad), (felt.bend, (1.0, 1.0), out.curvature)):
            if len(result):
                at_nodes, felt_by = np.zeros(at.size), np.zeros(len(rows))
                at_nodes[kept] = values
                potentials = potentials_of_nodes(at_nodes.reshape(at.shape), used, matrix)
                gather_differences(tree, cuts, potentials, *sides, felt_by)
                result[rows] += felt_by
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


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise SettingError(f"{name}={value!r} is not known; choose one of {', '.join(known)}.")
    return str(value)


def _checked_weights(name: str, given: Any, functions: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    wrong = f"{name} is {given!r}; it must be a finite number of at least 0, or one for each of {functions} functions."
    try:
        values = np.broadcast_to(np.asarray(given, dtype=np.float64), np.shape(given) or (functions,))
    except (TypeError, ValueError):
        raise SettingError(wrong) from None
    if values.shape != (functions,) or not np.isfinite(values).all() or np.any(values < 0):
        raise SettingError(wrong)
    return tuple(values.tolist())


def _count_terms(topology: str, network: Network) -> FloatArray:
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
