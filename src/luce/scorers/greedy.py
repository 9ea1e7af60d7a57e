r"""The greedy scorer: documents are placed one after the other, each judged beside those already placed.

$$t_i(P) = a\,b_i + \sum_k \Bigl(w_k \sum_{j \in P} S_k(x_i, x_j) + w'_k \max_{j \in P} S_k(x_i, x_j)\Bigr)$$

is the utility of document i after the documents P; the next one is drawn by Luce's choice axiom with these utilities in
training, and is the best one in prediction. Scores of a whole list at once must give equal documents equal scores;
this order need not. Maximal marginal relevance is $a = \lambda$, $w = 0$, $w' = -(1 - \lambda)$ with the cosine.

The cosine enters with some of its powers, $S = \max(0, \cos)^p$ for p above 1: how much alike two documents must be to
repeat each other is learned, where MMR takes redundancy to be linear in the cosine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.checks import whole
from luce.data.groups import Groups
from luce.errors import ModelFormatError, SettingError
from luce.numerics.segments import query_index
from luce.scorers.kernel_sums import (
    FittedReranker,
    best_left,
    check_kernels,
    check_normalisation,
    places_of_rest,
    relation_of,
    unit_rows,
)
from luce.scorers.linear import FittedLinear
from luce.scorers.saved import array, counted_features, standing_on
from luce.spec import option
from luce.types import FloatArray, IntArray


def checked_shape(
    kernels: Any, normalise: str | None, depth: int, powers: Any
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Kernels and powers of a greedy reranker as tuples; what is not allowed is named."""
    checked = _checked_kernels("kernels", kernels)
    check_normalisation(normalise)
    whole("depth", depth, 1)
    return checked, _checked_powers("powers", powers)


def _checked_kernels(name: str, kernels: Any) -> tuple[str, ...]:
    checked = check_kernels(kernels) or ("cosine",)
    if not all(isinstance(kernel, str) and not kernel.endswith(":in") for kernel in checked):
        raise SettingError("The greedy reranker takes the kernels 'cosine' and 'relation:NAME' only.")
    return tuple(str(kernel) for kernel in checked)


def _checked_powers(name: str, powers: Any) -> tuple[int, ...]:
    given = (powers,) if isinstance(powers, int | np.integer) else powers
    counted = isinstance(given, Sequence) and all(isinstance(p, int | np.integer) for p in given)
    if not counted or not len(given) or given[0] != 1 or any(a >= b for a, b in itertools.pairwise(given)):
        raise SettingError(f"{name} is {powers!r}; it must list rising whole numbers, the first of them 1.")
    return tuple(int(p) for p in given)


def similarities(kernels: Sequence[str], powers: Sequence[int]) -> list[tuple[str, int]]:
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
        self.similarities = similarities(kernels, powers)
        related = {k: relation_of(data, k.removeprefix("relation:"), k) for k in kernels if k != "cosine"}
        self.columns = {kernel: sparse.csr_array(matrix.T) for kernel, matrix in related.items()}
        self.left = np.ones(data.n_rows, dtype=bool)
        # A column for the base, then the sum and the largest of every similarity with the documents placed.
        self.features = np.zeros((data.n_rows, 1 + 2 * len(self.similarities)))
        self.features[:, 0] = _within_queries(base, data.offsets)

    def best(self, utility: FloatArray, among: NDArray[np.bool_] | None = None) -> IntArray:
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


def _within_queries(base: FloatArray, offsets: IntArray) -> FloatArray:
    """Base scores on [0, 1] within every query, as maximal marginal relevance wants them."""
    low, high = (f.reduceat(base, offsets[:-1]) for f in (np.minimum, np.maximum))
    query, spread = query_index(offsets), high - low
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    result: FloatArray = (base - low[query]) * scale[query]
    return result


class FittedGreedy(FittedReranker):
    """`weights`: of the base, then of the sum and of the largest value of every similarity."""

    weights: FloatArray = array("any")
    kernels: tuple[str, ...] = option(convert=_checked_kernels)
    normalise: str | None = option(convert=lambda _, given: check_normalisation(given))
    depth: int = option(least=1)
    n_features: int = counted_features()
    l2: float = 0.0
    base: FittedLinear | None = standing_on()
    """The base ranker where none was given: linear, trained on `listnet`."""
    powers: tuple[int, ...] = option(default=(1,), convert=_checked_powers)

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
        shown = [k if p == 1 else f"{k}^{p}" for k, p in similarities(self.kernels, self.powers)]
        names = ["base", *(f"{what} of {name}" for name in shown for what in ("sum", "largest"))]
        return [dict(zip(names, map(float, self.weights), strict=True))]

    def _check(self) -> None:
        wanted = 1 + 2 * len(similarities(self.kernels, self.powers))
        if len(self.weights) != wanted:
            raise ModelFormatError(f"A greedy scorer of these kernels needs {wanted} weights.")
