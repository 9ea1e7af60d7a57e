"""`cdn`: the likelihood of a partial order under a cumulative distribution network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import heard, whole
from luce.data.comparisons import Comparisons
from luce.errors import DataError, LuceWarning, SettingError
from luce.losses.base import Loss, Outputs, Target, as_labels
from luce.losses.cdn import query_chunks as runs
from luce.losses.cdn.edge_functions import INFINITE, SIGMOID, BivariateCdf, EdgeFunction, Gaussian, function_named
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
from luce.losses.cdn.point_sums import AUTO, DIRECT
from luce.losses.pair_sums import count_pairs
from luce.losses.pairwise import RankNet
from luce.numerics.segments import Tiers, check_offsets, tiers
from luce.registry import canonical
from luce.types import FloatArray, IntArray

TOPOLOGIES = ("full", "disconnected", "random", "line", "star", "list")
WEIGHTINGS = ("all", "pairs")
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e3
MOST_FUNCTIONS = 64
_ONE_ARGUMENT = ("disconnected", "list")
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
        `luce.losses.BivariateCdf`.
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
        family: str | EdgeFunction = SIGMOID,
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
        self._family = _family(family, rho)
        self._given_rho = rho
        self.permutation_invariant = self.topology not in ("random", "line")
        drawn = {name: (getattr(self, name), _USUAL[name]) for name in ("pairs", "networks", "seed")}
        heard(self.name, drawn, self.topology == "random", "topology='random'")
        if self.topology == "list" and self._family is not None:
            raise SettingError("topology='list' has one sigmoid of many arguments; leave family out.")

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this loss; of the options only what differs from the defaults."""
        chosen: dict[str, Any] = {"topology": self.topology}
        for name, given in zip(("w1", "w2"), self._given, strict=True):
            if given is not None:
                chosen[name] = given[0] if self.functions == 1 else list(given)
        if self._family is not None:
            chosen["family"] = self._family.name
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

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with these values of its learned weights and correlation."""
        values = np.asarray(values, dtype=np.float64)
        if len(values) != len(self.parameters):
            raise SettingError(f"{self!r} has {len(self.parameters)} parameters of its own; got {len(values)}.")
        other = copy.copy(self)
        n = int(self._learned.sum())
        if np.any(values[:n] < 0) or not np.isfinite(values).all():
            raise SettingError(f"The weights of a network must be at least 0 and finite; got {values[:n].tolist()}.")
        other._weights = self._weights.copy()
        other._weights[self._learned] = values[:n]
        if self._learns_rho:
            other._family = Gaussian(float(values[n]))
        return other

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
        for w1, w2 in self._weights:
            if self._family is None:
                first, second = first - np.logaddexp(0.0, -w1 * r), second - np.logaddexp(0.0, -w2 * r)
            else:
                far = np.full(len(r), INFINITE)
                first += self._family.terms(w1 * r, far).log
                second += self._family.terms(far, w2 * r).log
        return first, second

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
        if self.topology == "disconnected" and self._family is None:
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
        return found._replace(edges=edges)

    def _ranknet(self) -> RankNet:
        return RankNet(exact=self.exact)

    def _scaled(self, network: Network) -> Network:
        if self.weighting == "all":
            return network
        terms = runs.count_terms(self.topology, network)
        return network._replace(scale=1.0 / np.where(terms > 0, terms, 1.0))

    def fill(self, prepared: Network, scores: FloatArray, out: Outputs) -> None:
        """One value a query; curvature is the diagonal of the Hessian of a convex majoriser."""
        chunk, _, grad, curvature, d_parameters = out
        rows = slice(prepared.offsets[chunk[0]], prepared.offsets[chunk[1]])
        grad[rows] = 0.0
        if len(curvature):
            curvature[rows] = 0.0
            if self._family is not None and self._family.bend is None:
                raise SettingError(
                    f"The function {self._family.name!r} has no bend, so that no curvature is known; give it one."
                )
        outputs = runs.Results.of(chunk, grad, curvature, self.functions)
        how = DIRECT if self.exact else AUTO
        if self._family is not None:
            runs.general(self.topology, self._family, prepared, scores, self._weights, how, chunk, outputs)
        elif prepared.pairwise is not None:
            runs.disconnected(self._ranknet(), prepared, scores, self._weights, chunk, outputs)
        else:
            runs.sigmoid(self.topology, prepared, scores, self._weights, how, chunk, outputs)
        scale = prepared.scale[chunk[0] : chunk[1]]
        if self.weighting != "all":
            by_row = np.repeat(scale, np.diff(prepared.offsets[chunk[0] : chunk[1] + 1]))
            grad[rows] *= by_row
            if len(curvature):
                curvature[rows] *= by_row
        if d_parameters.size:
            n = int(self._learned.sum())
            d_parameters[:, :n] = outputs.d_weights[:, self._learned] * scale[:, None]
            if self._learns_rho:
                d_parameters[:, n] = outputs.d_rho * scale
        out.values[:] = outputs.values * scale


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


def _family(family: Any, rho: float | None) -> EdgeFunction | None:
    if rho is not None and not isinstance(rho, int | float | np.number):
        raise SettingError(f"rho is {rho!r}; it must be a number, or None to be learned.")
    if isinstance(family, str) and canonical(family) == "gaussian":
        return Gaussian(0.0 if rho is None else float(rho))
    if rho is not None:
        raise SettingError("rho is the correlation of family='gaussian'; leave it out, or take that family.")
    if isinstance(family, str):
        return None if canonical(family) == SIGMOID else function_named(family)
    if not isinstance(family, BivariateCdf):
        raise SettingError(f"family must be a name or a luce.losses.BivariateCdf; got {type(family).__name__}.")
    return family
