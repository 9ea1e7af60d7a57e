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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.checks import whole
from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError, SettingError
from luce.numerics.segments import query_index
from luce.scorers.kernel_sums import bare_groups, check_kernels, check_normalisation, unit_rows
from luce.scorers.linear import FittedLinear, linear_below
from luce.scorers.saved import feature_count, finite
from luce.types import FloatArray, IntArray


def checked_shape(
    kernels: Any, normalise: str | None, depth: int, powers: Any
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Kernels and powers of a greedy reranker as tuples; what is not allowed is named."""
    checked = check_kernels(kernels) or ("cosine",)
    if not all(isinstance(kernel, str) and not kernel.endswith(":in") for kernel in checked):
        raise SettingError("The greedy reranker takes the kernels 'cosine' and 'relation:NAME' only.")
    check_normalisation(normalise)
    whole("depth", depth, 1)
    return tuple(str(kernel) for kernel in checked), _checked_powers(powers)


def _checked_powers(powers: Any) -> tuple[int, ...]:
    given = (powers,) if isinstance(powers, int | np.integer) else powers
    counted = isinstance(given, Sequence) and all(isinstance(p, int | np.integer) for p in given)
    if not counted or not len(given) or given[0] != 1 or any(a >= b for a, b in itertools.pairwise(given)):
        raise SettingError(f"powers is {powers!r}; it must list rising whole numbers, the first of them 1.")
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
        self.columns = {kernel: _columns(data, kernel) for kernel in kernels if kernel != "cosine"}
        self.left = np.ones(data.n_rows, dtype=bool)
        # A column for the base, then the sum and the largest of every similarity with the documents placed.
        self.features = np.zeros((data.n_rows, 1 + 2 * len(self.similarities)))
        self.features[:, 0] = _within_queries(base, data.offsets)

    def best(self, utility: FloatArray, among: NDArray[np.bool_] | None = None) -> IntArray:
        """The row of the greatest utility among the documents left, for every query that has one; first of equals."""
        open_ = self.left if among is None else self.left & among
        value = np.where(open_, utility, -np.inf)
        top = np.maximum.reduceat(value, self.offsets[:-1])
        rows = np.flatnonzero(open_ & (value == top[self.query]))
        _, first = np.unique(self.query[rows], return_index=True)
        return rows[first]

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


def _columns(data: Groups, kernel: str) -> sparse.csr_array:
    name = kernel.removeprefix("relation:")
    if name not in data.relations:
        known = ", ".join(data.relations) or "none"
        raise DataError(f"The kernel {kernel!r} needs the relation {name!r}; the data have {known}: add it to them.")
    return sparse.csr_array(data.relations[name].T)


def _within_queries(base: FloatArray, offsets: IntArray) -> FloatArray:
    """Base scores on [0, 1] within every query, as maximal marginal relevance wants them."""
    low, high = (f.reduceat(base, offsets[:-1]) for f in (np.minimum, np.maximum))
    query, spread = query_index(offsets), high - low
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    result: FloatArray = (base - low[query]) * scale[query]
    return result


@dataclass(frozen=True, eq=False)
class FittedGreedy:
    """`weights`: of the base, then of the sum and of the largest value of every similarity."""

    weights: FloatArray
    kernels: tuple[str, ...]
    normalise: str | None
    depth: int
    n_features: int
    l2: float = 0.0
    base: FittedLinear | None = None
    """The base ranker where none was given: linear, trained on `listnet`."""
    powers: tuple[int, ...] = (1,)

    name = "greedy"
    needs_queries = True

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """Scores of documents without a base of their own and without relations."""
        return self.score_groups(bare_groups(X, offsets), None)

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Minus the position of every document: 0 is the first, -1 the second."""
        if base is None:
            base = np.zeros(data.n_rows) if self.base is None else self.base.score(data.X, data.offsets)
        state = Placing(data, base, self.kernels, self.normalise, self.powers)
        scores = np.zeros(data.n_rows)
        for position in range(min(self.depth, int(data.sizes.max()))):
            rows = state.best(state.features @ self.weights)
            scores[rows] = -position
            state.place(rows)
        rest = np.flatnonzero(state.left)
        order = np.lexsort((-(state.features @ self.weights)[rest], state.query[rest]))
        last = rest[order]
        counts = np.bincount(state.query[last], minlength=data.n_queries)
        starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
        scores[last] = -(self.depth + np.arange(len(last)) - starts[state.query[last]])
        return scores

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each feature on the base."""
        return np.zeros(self.n_features) if self.base is None else self.base.importance()

    def kernel_table(self) -> list[dict[str, Any]]:
        """The weights by name."""
        shown = [k if p == 1 else f"{k}^{p}" for k, p in similarities(self.kernels, self.powers)]
        names = ["base", *(f"{what} of {name}" for name in shown for what in ("sum", "largest"))]
        return [dict(zip(names, map(float, self.weights), strict=True))]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        settings: dict[str, Any] = {"kernels": list(self.kernels), "normalise": self.normalise, "depth": self.depth}
        settings |= {"n_features": self.n_features, "l2": self.l2, "powers": list(self.powers)}
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights}
        if self.base is not None:
            settings["linear"], found = self.base.state()
            arrays |= {f"linear.{name}": array for name, array in found.items()}
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedGreedy:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        n_features, l2 = feature_count(cls.name, settings), settings.get("l2")
        try:
            normalise, depth = settings["normalise"], settings["depth"]
            kernels, powers = checked_shape(settings["kernels"], normalise, depth, settings["powers"])
        except (SettingError, KeyError, TypeError) as error:
            raise ModelFormatError(f"A greedy scorer has settings that are not allowed: {error}") from error
        if not isinstance(l2, int | float):
            raise ModelFormatError("A greedy scorer needs a penalty.")
        weights = finite(cls.name, arrays, "weights", (1 + 2 * len(similarities(kernels, powers)),))
        linear = linear_below(cls.name, settings, arrays, n_features)
        return cls(weights, kernels, normalise, depth, n_features, float(l2), linear, powers)
