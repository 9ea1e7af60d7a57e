r"""Rerankers that are algorithms, as they predict: greedy choices, latent structured ranking, random fields.

**Greedy.** Documents are placed one after the other, each judged beside those already placed.

$$t_i(P) = a\,b_i + \sum_k \Bigl(w_k \sum_{j \in P} S_k(x_i, x_j) + w'_k \max_{j \in P} S_k(x_i, x_j)\Bigr)$$

is the utility of document i after the documents P; the next one is drawn by Luce's choice axiom with these utilities in
training, and is the best one in prediction. Scores of a whole list at once must give equal documents equal scores;
this order need not. Maximal marginal relevance is $a = \lambda$, $w = 0$, $w' = -(1 - \lambda)$ with the cosine.

The cosine enters with some of its powers, $S = \max(0, \cos)^p$ for p above 1: how much alike two documents must be to
repeat each other is learned, where MMR takes redundancy to be linear in the cosine.

**Latent structured ranking** (Weston and Blitzer, 2012): documents beside each other count by a low-rank product.

A list $d_1, d_2, \dots$ is worth
$\sum_i \omega_i\, v \cdot d_i + \sum_{i,j} \omega_i \omega_j\, (A d_i) \cdot (A d_j)$ with position weights
$\omega_i = 1 / \log_2(1 + i)$ ([Pareek] (2.25), where the query enters by the features). With
$S = \sum_i \omega_i A d_i$ the second sum is $\|S\|^2$, which is convex in the list: given S, sorting by
$v \cdot d + 2 (A d) \cdot S$ never makes the list worse, and repeating it ends at a local maximum. It is begun from
several lists, and the best end is taken.

**Continuous conditional random fields** of documents (Qin et al., 2008): the rival of the listwise reranker.

The relevances of a query are jointly Gaussian, near the features and tied to each other by a relation. Their mean is

- pseudo relevance feedback: $\hat y = (\alpha'e\, I + \beta D - \beta S)^{-1} X \alpha$ with similarities $S$ and
  their row sums $D$, [Pareek] (2.22). Cosines are $S = U U'$ off the diagonal, so that the matrix is a diagonal one
  minus $\beta U U'$: where a query has more documents than features, it is solved by a system in the features;
- topic distillation: $\hat y = (2 X \alpha + \beta (D_r - D_c) e) / (2 \alpha'e)$ with row and column sums of a
  directed relation, parent to child ([Pareek] (2.23) prints twice that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy import sparse

from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.data.trec import ranks
from luce.errors import DataError, ModelFormatError, SettingError
from luce.numerics.segments import query_index
from luce.scorers.kernel_sums import (
    FittedLists,
    FittedReranker,
    Normalisation,
    check_kernels,
    refuse_missing,
    relation_of,
    unit_rows,
)
from luce.scorers.linear import FittedLinear, reciprocal
from luce.scorers.saved import Fitted, array, counted_features, standing_on
from luce.spec import option
from luce.types import BoolArray, Features, FloatArray, IntArray

_MOST_SORTS = 50
_LARGEST = 1e150
"""Squares of what is larger overflow."""


def best_left(utility: FloatArray, left: BoolArray, offsets: IntArray) -> IntArray:
    """The row of the greatest utility among those left, for every query that has one; the first of equals."""
    query = query_index(offsets)
    value = np.where(left, utility, -np.inf)
    top = np.maximum.reduceat(value, offsets[:-1])
    rows = np.flatnonzero(left & (value == top[query]))
    return rows[np.unique(query[rows], return_index=True)[1]]


def places_of_rest(utility: FloatArray, left: BoolArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """The rows that are left, and their places after those that are not, by falling utility.

    >>> rows, places = places_of_rest(np.array([1.0, 5, 2]), np.array([True, False, True]), np.array([0, 3]))
    >>> rows.tolist(), places.tolist()
    ([2, 0], [1, 2])
    """
    query, rest = query_index(offsets), np.flatnonzero(left)
    rows = rest[np.lexsort((-utility[rest], query[rest]))]
    starts = np.searchsorted(query[rows], np.arange(len(offsets) - 1))
    before = np.bincount(query[~left], minlength=len(offsets) - 1)
    return rows, (before - starts)[query[rows]] + np.arange(len(rows))


def checked_kernels(name: str, kernels: Any) -> tuple[str, ...]:
    """Kernels of a greedy reranker as a tuple."""
    checked = check_kernels(name, kernels)
    if not all(isinstance(kernel, str) and not kernel.endswith(":in") for kernel in checked):
        raise SettingError("The greedy reranker takes the kernels 'cosine' and 'relation:NAME' only.")
    return tuple(str(kernel) for kernel in checked)


def checked_powers(name: str, powers: Any) -> tuple[int, ...]:
    """Powers of the cosine as a tuple."""
    given = (powers,) if isinstance(powers, int | np.integer) else powers
    counted = isinstance(given, Sequence) and all(isinstance(p, int | np.integer) for p in given)
    if not counted or not len(given) or given[0] != 1 or any(a >= b for a, b in pairwise(given)):
        raise SettingError(f"{name} is {powers!r}; it must list rising whole numbers, the first of them 1.")
    return tuple(int(p) for p in given)


def powered(kernels: Sequence[str], powers: Sequence[int]) -> list[tuple[str, int]]:
    """The similarities of a model: every kernel, and the cosine in each of its powers."""
    return [(kernel, p) for kernel in kernels for p in (powers if kernel == "cosine" else (1,))]


class Placing:
    """The state of all queries at once while documents are placed: one a query and step."""

    def __init__(
        self,
        data: Groups,
        base: FloatArray,
        kernels: Sequence[str],
        normalise: str | None,
        powers: Sequence[int] = (1,),
    ) -> None:
        self.offsets, self.query = data.offsets, query_index(data.offsets)
        self.unit = unit_rows(data.X, data.offsets, normalise) if "cosine" in kernels else np.empty((0, 0))
        self.similarities = powered(kernels, powers)
        related = {k: relation_of(data, k.removeprefix("relation:")) for k in kernels if k != "cosine"}
        self.columns = {kernel: sparse.csr_array(matrix.T) for kernel, matrix in related.items()}
        self.left = np.ones(data.n_rows, dtype=bool)
        # A column for the base, on [0, 1] within every query, as maximal marginal relevance wants it, then the sum and
        # the largest of every similarity with the documents placed.
        self.features = np.zeros((data.n_rows, 1 + 2 * len(self.similarities)))
        low, high = (f.reduceat(base, data.offsets[:-1]) for f in (np.minimum, np.maximum))
        self.features[:, 0] = (base - low[self.query]) * reciprocal(high - low)[self.query]

    def best(self, utility: FloatArray, among: BoolArray | None = None) -> IntArray:
        """The row of the greatest utility among the documents left, for every query that has one; first of equals."""
        return best_left(utility, self.left if among is None else self.left & among, self.offsets)

    def place(self, rows: IntArray) -> None:
        """Place one document of some queries and add it to what the documents left are compared with."""
        self.left[rows] = False
        chosen = np.full(len(self.offsets) - 1, -1, dtype=np.int64)
        chosen[self.query[rows]] = rows
        found: dict[str, FloatArray] = {}
        for k, (kernel, power) in enumerate(self.similarities):
            if kernel not in found:
                found[kernel] = self._to(kernel, chosen, rows)
            similarity = found[kernel] if power == 1 else np.maximum(found[kernel], 0.0) ** power
            self.features[:, 1 + 2 * k] += similarity
            np.maximum(self.features[:, 2 + 2 * k], similarity, out=self.features[:, 2 + 2 * k])

    def _to(self, kernel: str, chosen: IntArray, rows: IntArray) -> FloatArray:
        """The kernel of every document with the one that its query has placed, 0 where it has placed none."""
        if kernel == "cosine":
            partner = self.unit[chosen[self.query]]
            cosine: FloatArray = np.einsum("ij,ij->i", self.unit, partner)
            return np.where(chosen[self.query] >= 0, cosine, 0.0)
        found = self.columns[kernel][rows].tocoo()
        result = np.zeros(len(self.left))
        result[found.col] = found.data
        return result


class FittedGreedy(FittedReranker):
    """`weights`: of the base, then of the sum and of the largest value of every similarity."""

    weights: FloatArray = array("any")
    kernels: tuple[str, ...] = option(convert=checked_kernels)
    normalise: Normalisation
    depth: int = option(least=1)
    n_features: int = counted_features()
    l2: float = 0.0
    base: FittedLinear | None = standing_on()
    """The base ranker where none was given: linear, trained on `listnet`."""
    powers: tuple[int, ...] = option(default=(1,), convert=checked_powers)

    name = "greedy"

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Minus the position of every document: 0 is the first, -1 the second."""
        state = Placing(data, self.base_scores(data, base), self.kernels, self.normalise, self.powers)
        scores = np.zeros(data.n_rows)
        for position in range(min(self.depth, int(data.sizes.max()))):
            rows = state.best(state.features @ self.weights)
            scores[rows] = -position
            state.place(rows)
        last, places = places_of_rest(state.features @ self.weights, state.left, data.offsets)
        scores[last] = -places
        return scores

    def kernel_table(self) -> list[dict[str, Any]]:
        """The weights by name."""
        shown = [k if p == 1 else f"{k}^{p}" for k, p in powered(self.kernels, self.powers)]
        names = ["base", *(f"{what} of {name}" for name in shown for what in ("sum", "largest"))]
        return [dict(zip(names, map(float, self.weights), strict=True))]

    def _check(self) -> None:
        wanted = 1 + 2 * len(powered(self.kernels, self.powers))
        if len(self.weights) != wanted:
            raise ModelFormatError(f"A greedy scorer of these kernels needs {wanted} weights.")


def position_weight(position: int) -> float:
    """The weight of a position, from 0."""
    return float(1.0 / np.log2(position + 2.0))


@dataclass(frozen=True, eq=False)
class _Lists:
    """Lists of all queries at once, as the place of every document, and what they are worth."""

    own: FloatArray
    latent: FloatArray
    offsets: IntArray
    depth: int

    @cached_property
    def query(self) -> IntArray:
        return query_index(self.offsets)

    @cached_property
    def position_weights(self) -> FloatArray:
        longest = int(np.diff(self.offsets).max())
        return np.array([position_weight(i) if i < self.depth else 0.0 for i in range(longest)])

    def places(self, values: FloatArray) -> IntArray:
        """The place of every document by falling value; equal values in the order of the rows."""
        return ranks(values, self.offsets) - 1

    def sums(self, places: IntArray) -> FloatArray:
        """S of every query."""
        weighted = self.position_weights[places][:, None] * self.latent
        return np.add.reduceat(weighted, self.offsets[:-1])

    def worth(self, places: IntArray) -> FloatArray:
        """Of every query's list."""
        alone = np.add.reduceat(self.position_weights[places] * self.own, self.offsets[:-1])
        return np.asarray(alone + np.sum(self.sums(places) ** 2, axis=1))

    def improved(self, places: IntArray) -> IntArray:
        """Sorted by what S says until nothing changes."""
        for _ in range(_MOST_SORTS):
            again = self.places(self.own + 2 * np.einsum("ij,ij->i", self.latent, self.sums(places)[self.query]))
            # A change that is worth nothing could go back and forth.
            better = (self.worth(again) > self.worth(places))[self.query]
            if not better.any():
                break
            places = np.where(better, again, places)
        return places

    def greedy(self) -> IntArray:
        """At every position the document with the most to add."""
        square = np.einsum("ij,ij->i", self.latent, self.latent)
        left = np.ones(len(self.own), dtype=bool)
        placed = np.zeros((len(self.offsets) - 1, self.latent.shape[1]))
        places = np.zeros(len(self.own), dtype=np.int64)
        utility = self.own
        for position, weight in enumerate(self.position_weights[: self.depth].tolist()):
            utility = self.own + 2 * np.einsum("ij,ij->i", self.latent, placed[self.query]) + weight * square
            rows = best_left(utility, left, self.offsets)
            places[rows], left[rows] = position, False
            placed[self.query[rows]] += weight * self.latent[rows]
        rest, after = places_of_rest(utility, left, self.offsets)
        places[rest] = after
        return places


class FittedLatent(Fitted):
    """`weights` v and `factors` A, (rank, features), on standardised features."""

    weights: FloatArray = array("features")
    factors: FloatArray = array("any", "features")
    mean: FloatArray = array("features")
    inverse_sd: FloatArray = array("features")
    depth: int = option(least=1, most=2**31)

    name = "latent"
    needs_queries = True

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """Minus the position of every document, 0 the first: the best list found for [Pareek] (2.26)."""
        Z = (X - self.mean) * self.inverse_sd
        lists = _Lists(Z @ self.weights, Z @ self.factors.T, offsets, self.depth)
        good = (np.abs(lists.own) < _LARGEST) & (np.abs(lists.latent) < _LARGEST).all(axis=1)
        if not good.all():
            return np.where(good, 0.0, np.nan)  # there is no order of what is not known; who asked says which rows
        best = lists.improved(lists.greedy())
        worth = lists.worth(best)
        # Along a principal direction of the latent space, either way, the second sum is far from 0.
        along = lists.latent @ np.linalg.svd(lists.latent, full_matrices=False)[2].T
        for values in (lists.own, *along.T, *-along.T):
            found = lists.improved(lists.places(values))
            better = (there := lists.worth(found)) > worth
            best, worth = np.where(better[lists.query], found, best), np.maximum(worth, there)
        return -best.astype(np.float64)

    def importance(self) -> FloatArray:
        """Weight of each standardised feature by itself."""
        return self.weights

    def _check(self) -> None:
        if not len(self.weights):
            raise ModelFormatError("Latent structured ranking needs at least one feature.")


def similarities(data: Groups, relation: str) -> Iterator[FloatArray]:
    """The symmetric matrix of similarities of each query in turn, at least 0, with a diagonal of 0."""
    cosine = relation == "cosine"
    whole: Any = unit_rows(data.X, data.offsets, "minmax") if cosine else relation_of(data, relation)
    for q, (a, b) in enumerate(pairwise(data.offsets)):
        matrix = whole[a:b] @ whole[a:b].T if cosine else whole[a:b][:, a:b].toarray()
        matrix = 0.5 * (matrix + matrix.T)
        np.fill_diagonal(matrix, 0.0)
        if not (matrix >= -1e-12).all():
            raise DataError(
                f"The relation {relation!r} of query {str(data.query_ids[q])!r} has values below 0; similarities must "
                "be at least 0."
            )
        yield matrix


def dense_mean(S: FloatArray, pull: FloatArray, total: float, beta: float) -> FloatArray:
    r"""$(c I + \beta D - \beta S)^{-1} p$ with $c$ = `total` and $p$ = `pull`, [Pareek] (2.22), by an m x m system."""
    return np.asarray(np.linalg.solve(np.diag(total + beta * S.sum(axis=1)) - beta * S, pull), dtype=np.float64)


def cosine_mean(unit: FloatArray, pull: FloatArray, total: float, beta: float) -> FloatArray:
    r"""`dense_mean` with cosines of the m rows of $U$ = `unit`, by a system in its F columns where m > F.

    The squared lengths on the diagonal of $U U'$ are in $D$ and in $S$ alike and cancel, so that the matrix is
    $\Lambda - \beta U U'$ with $\Lambda = c I + \beta\, \mathrm{diag}(U U' e)$, and by the Woodbury identity

    $$\hat y = \Lambda^{-1} (p + \beta U (I - \beta U' \Lambda^{-1} U)^{-1} U' \Lambda^{-1} p).$$
    """
    if len(unit) <= unit.shape[1]:
        S = unit @ unit.T
        np.fill_diagonal(S, 0.0)
        return dense_mean(S, pull, total, beta)
    diagonal = total + beta * (unit @ unit.sum(axis=0))
    scaled = unit / diagonal[:, None]
    inner = np.eye(unit.shape[1]) - beta * (unit.T @ scaled)
    return np.asarray((pull + beta * (unit @ np.linalg.solve(inner, scaled.T @ pull))) / diagonal)


def net_degrees(data: Groups, relation: str | None) -> FloatArray:
    """Row sum minus column sum of a relation for every document: how much more it is parent than child."""
    if relation is None:
        return np.zeros(data.n_rows)
    matrix = relation_of(data, relation)
    return np.asarray(matrix.sum(axis=1) - matrix.sum(axis=0), dtype=np.float64).ravel()


class FittedCCRF(FittedLists):
    """`alpha` has a weight above 0 for every feature, normalised within queries; `beta` is that of the relation."""

    alpha: FloatArray = array("features")
    beta: float
    form: Literal["feedback", "distillation"]
    relation: str | None = option()

    name = "ccrf"

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """The mean of the field; feedback solves a system of equations for every query.

        Cubic in its documents, or with cosines in the fewer of documents and features.
        """
        refuse_missing(data)
        pull = normalise_within_queries(data.X, data.offsets, "minmax") @ self.alpha
        total = float(self.alpha.sum())
        if self.form == "distillation":
            return (2 * pull + self.beta * net_degrees(data, self.relation)) / (2 * total)
        assert self.relation is not None
        cosine = self.relation == "cosine"
        related: Any = unit_rows(data.X, data.offsets, "minmax") if cosine else similarities(data, self.relation)
        scores = np.empty(data.n_rows)
        try:
            for a, b in pairwise(data.offsets):
                if cosine:
                    scores[a:b] = cosine_mean(related[a:b], pull[a:b], total, self.beta)
                else:
                    scores[a:b] = dense_mean(next(related), pull[a:b], total, self.beta)
        except np.linalg.LinAlgError as error:
            raise DataError(f"The random field of this model has no mean for these documents: {error}.") from error
        return scores

    def importance(self) -> FloatArray:
        """The share of each feature."""
        return np.asarray(self.alpha / self.alpha.sum())

    def _check(self) -> None:
        if not len(self.alpha) or not (self.alpha > 0).all():
            raise ModelFormatError("A random field needs weights above 0.")
        if self.form == "feedback" and self.beta < 0:
            raise ModelFormatError(f"A random field for feedback needs a beta of at least 0; the file has {self.beta}.")
        if self.form == "feedback" and self.relation is None:
            raise ModelFormatError("A random field for feedback needs a relation.")
