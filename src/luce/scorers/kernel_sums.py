r"""Sums of kernels over the other documents of a query, $\sum_{j \ne i} S_k(x_i, x_j)$, one a document and kernel.

The cosine of all pairs is never formed: with rows $\hat x$ of length 1,
$\sum_{j \ne i} \hat x_i \cdot \hat x_j = \hat x_i \cdot \sum_j \hat x_j - \|\hat x_i\|^2$, as cheap as a read of the
features.

A kernel may have parameters of its own, which the reranker learns with their weights: the general g of a product. In
$\prod_{j \ne i} g(x_i, x_j; w, \theta)$ with $g = \exp(w\, S(x_i, x_j; \theta))$, every positive pair function is of
this form. Sums of $S$ are then computed anew whenever $\theta$ moves, at the cost of all pairs of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from luce.data.filling import normalise_within_queries
from luce.data.groups import Groups
from luce.errors import DataError, SettingError
from luce.numerics.segments import Chunk, chunk_queries, map_chunks, query_index
from luce.scorers.linear import FittedLinear, reciprocal
from luce.scorers.saved import Fitted
from luce.types import Features, FloatArray, IntArray

PairFunction = Callable[[FloatArray, FloatArray], tuple[Any, Any]]
_RELATION = "relation:"
_BLOCK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    r"""A pair function $S(x_i, x_j; \theta)$ whose parameters are learned.

    Parameters
    ----------
    name
        How it is called in tables.
    function
        From the rows of a query, (m, F), and the parameters, (P,), to the matrix of its pairs, (m, m), and its
        derivatives, (P, m, m); these are checked against differences once.
    start
        Where the parameters start.

    >>> import luce
    >>> near = LearnedKernel("near", lambda X, t: (_outer(X) + t[0], np.ones((1, len(X), len(X)))), (0.5,))
    >>> near.at(np.ones((2, 1)), np.array([2.0]))[0].tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """

    name: str
    function: PairFunction
    start: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", tuple(float(value) for value in self.start))
        if not self.start:
            raise SettingError(f"The kernel {self.name!r} has no parameters; give a function of the features instead.")
        X, at, step = np.random.default_rng(0).random((4, 3)), np.array(self.start), 1e-5
        slopes = self.at(X, at)[1]
        for k in range(len(at)):
            ahead, behind = at.copy(), at.copy()
            ahead[k] += step
            behind[k] -= step
            numeric = (self.at(X, ahead)[0] - self.at(X, behind)[0]) / (2 * step)
            if not np.allclose(numeric, slopes[k], rtol=1e-4, atol=1e-6):
                raise SettingError(f"The kernel {self.name!r}: derivative {k} is not that of its values.")

    def at(self, X: FloatArray, shape: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and derivatives; other shapes than those of all pairs are refused."""
        pairs, slopes = (np.asarray(part, dtype=np.float64) for part in self.function(X, shape))
        m = len(X)
        if pairs.shape != (m, m) or slopes.shape != (len(shape), m, m):
            raise DataError(
                f"The kernel {self.name!r} gives shapes {pairs.shape} and {slopes.shape}; {m} documents need "
                f"({m}, {m}) and ({len(shape)}, {m}, {m})."
            )
        return pairs, slopes


def _outer(X: FloatArray) -> FloatArray:
    return X @ X.T


def _gaussian(X: FloatArray, shape: FloatArray) -> tuple[Any, Any]:
    """exp(-d^2 / (2 F w^2)) with the log of the width w as its parameter, and F features."""
    products = _outer(X)
    square = np.maximum(np.diag(products)[:, None] + np.diag(products) - 2 * products, 0.0)
    scaled = square / (X.shape[1] * np.exp(2 * shape[0]))
    pairs = np.exp(-0.5 * scaled)
    return pairs, (pairs * scaled)[None]


_GAUSSIAN = LearnedKernel("gaussian", _gaussian, (float(np.log(0.5)),))
Kernel = str | LearnedKernel | Callable[[FloatArray], FloatArray]
"""`cosine`, `gaussian`, `relation:NAME`, `relation:NAME:in`, a function from the rows of a query to the matrix of its
pairs, or one with parameters that are learned."""
NAMES = ("cosine", "gaussian")
Normalisation = Literal["minmax", "zscore"] | None
"""How features are put on one scale within queries before a kernel sees them."""


def check_kernels(name: str, kernels: Any) -> tuple[Kernel, ...]:
    """Kernels as a tuple; a text may list several with commas."""
    alone = callable(kernels) or isinstance(kernels, LearnedKernel)
    listed = kernels.split(",") if isinstance(kernels, str) else [kernels] if alone else list(kernels)
    found = tuple(kernel.strip() if isinstance(kernel, str) else kernel for kernel in listed)
    for kernel in found:
        named = isinstance(kernel, str) and (kernel in NAMES or kernel.removeprefix(_RELATION) not in ("", kernel))
        if not named and not callable(kernel) and not isinstance(kernel, LearnedKernel):
            known = ", ".join(repr(name) for name in NAMES)
            raise SettingError(
                f"The kernel {kernel!r} is not known; a kernel is {known}, 'relation:NAME', 'relation:NAME:in' or a "
                "function."
            )
    if not found:
        raise SettingError(f"No kernel was named in {name}; name at least one, such as 'cosine'.")
    return found


def default_kernels(data: Groups) -> tuple[Kernel, ...]:
    """The cosine and every relation of the data; a directed relation in both directions."""
    found: list[Kernel] = ["cosine"]
    for name, matrix in data.relations.items():
        found.append(_RELATION + name)
        if abs(matrix - matrix.T).max() > 0:
            found.append(f"{_RELATION}{name}:in")
    return tuple(found)


def kernel_name(kernel: Kernel) -> str:
    """How a kernel is called in tables and messages."""
    if isinstance(kernel, LearnedKernel):
        return kernel.name
    return kernel if isinstance(kernel, str) else getattr(kernel, "__name__", type(kernel).__name__)


def refuse_functions(kernels: Sequence[Kernel]) -> None:
    """An error where a kernel is a function, which no model file can hold."""
    for kernel in kernels:
        if not isinstance(kernel, str):
            raise SettingError(
                f"The kernel {kernel_name(kernel)!r} is a function, which a model file cannot hold; give its values "
                "as a relation of the data."
            )


def learned_kernels(kernels: Sequence[Kernel]) -> list[LearnedKernel | None]:
    """Each kernel that has parameters of its own, None for the others."""
    found = [_GAUSSIAN if kernel == "gaussian" else kernel for kernel in kernels]
    return [kernel if isinstance(kernel, LearnedKernel) else None for kernel in found]


def refuse_missing(data: Groups) -> None:
    """NaN among the features has no cosine."""
    if not np.isfinite(data.X.sum(dtype=np.float64)) and np.isnan(data.X).any():
        raise DataError("The features have NaN, which kernels cannot compare; fill them in first.")


def unit_rows(X: Features, offsets: IntArray, normalise: str | None) -> FloatArray:
    """Rows of length 1, of features normalised within queries; a row of zeros stays one, its cosine with all is 0.

    >>> unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32), np.array([0, 2]), None).round(3).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = (X if normalise is None else normalise_within_queries(X, offsets, normalise)).astype(np.float64)
    rows *= reciprocal(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]
    return rows


class FittedLists(Fitted):
    """A scorer that sees the lists of whole queries, with relations between documents."""

    needs_queries = True

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of documents without a base of their own and without relations."""
        bare = Groups(X=X, y=np.zeros(len(X)), offsets=offsets, query_ids=np.arange(len(offsets) - 1))
        return self.score_groups(bare, None)

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Scores of documents, on top of those of a base."""
        raise NotImplementedError


class FittedReranker(FittedLists):
    """One that reorders the list of a base ranker: the one that is given, else its own, else none."""

    @property
    def _own(self) -> FittedLinear | None:
        own: FittedLinear | None = vars(self)["base"]  # a field of the class: it has a default, and others come first
        return own

    def base_scores(self, data: Groups, given: FloatArray | None) -> FloatArray:
        """The scores to stand on."""
        if given is not None:
            return given
        return np.zeros(data.n_rows) if self._own is None else self._own.score(data.X, data.offsets)

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each feature on the base; kernels have `kernel_table`."""
        return np.zeros(self.n_features) if self._own is None else self._own.importance()


def kernel_sums(
    data: Groups, kernels: Sequence[Kernel], normalise: str | None = "minmax", shapes: FloatArray | None = None
) -> FloatArray:
    """The inner sums of [Pareek] (2.21), a column a kernel and a row a document.

    `shapes` are the parameters of learned kernels, one after the other; None: where they start. NaN raises an error
    that names the kernel, the query and the document.

    >>> import luce
    >>> data = luce.from_arrays([[1, 0], [1, 0], [0, 1], [0, 0]])
    >>> kernel_sums(data, ["cosine"], None)[:, 0].tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    learned = learned_kernels(kernels)
    if shapes is None:
        shapes = np.array([value for kernel in learned if kernel is not None for value in kernel.start])
    columns, at = [], 0
    for kernel, own in zip(kernels, learned, strict=True):
        width = 0 if own is None else len(own.start)
        if own is None and isinstance(kernel, str):
            columns.append(_cosine(data, normalise) if kernel == "cosine" else _related(data, kernel))
        else:
            columns.append(pair_sums(data, own or kernel, normalise, shapes[at : at + width])[0])
        at += width
    sums = np.column_stack(columns)
    if not np.isfinite(sums).all():
        from luce.data.groups import document_names

        row, k = np.argwhere(~np.isfinite(sums))[0]
        query, document, name = str(data.qid[row]), str(document_names(data)[row]), kernel_name(kernels[k])
        raise DataError(
            f"The kernel {name!r} gives {sums[row, k]} for document {document!r} of query {query!r}; "
            "its values must be finite numbers."
        )
    return sums


def pair_sums(data: Groups, kernel: Any, normalise: str | None, shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of a function of pairs at these values of its parameters, and their derivatives, a column a parameter."""
    X = data.X if normalise is None else normalise_within_queries(data.X, data.offsets, normalise)
    sums, slopes = np.empty(data.n_rows), np.zeros((data.n_rows, len(shape)))
    for q, (a, b) in enumerate(pairwise(data.offsets.tolist())):
        rows = X[a:b].astype(np.float64)
        if isinstance(kernel, LearnedKernel):
            pairs, derivatives = kernel.at(rows, shape)
            slopes[a:b] = (derivatives.sum(axis=2) - np.diagonal(derivatives, axis1=1, axis2=2)).T
        else:
            pairs = np.asarray(kernel(rows), dtype=np.float64)
        if pairs.shape != (b - a, b - a):
            raise DataError(
                f"The kernel {kernel_name(kernel)!r} gives shape {pairs.shape} for query {str(data.query_ids[q])!r}; "
                f"its {b - a} documents need a matrix of all pairs."
            )
        sums[a:b] = pairs.sum(axis=1) - np.diag(pairs)
    return sums, slopes


def relation_of(data: Groups, name: str) -> Any:
    """A relation that is needed."""
    if name not in data.relations:
        known = ", ".join(data.relations) or "none"
        raise DataError(f"The model needs the relation {name!r}; the data have {known}: add it to them.")
    return data.relations[name]


def _related(data: Groups, kernel: str) -> FloatArray:
    name, inwards = kernel.removeprefix(_RELATION), False
    if name not in data.relations and name.endswith(":in"):
        name, inwards = name.removesuffix(":in"), True
    matrix = relation_of(data, name)
    sums = np.asarray(matrix.sum(axis=0 if inwards else 1), dtype=np.float64).ravel()
    return np.asarray(sums - matrix.diagonal())


def _cosine(data: Groups, normalise: str | None) -> FloatArray:
    sums = np.empty(data.n_rows)

    def block(_: int, chunk: Chunk) -> None:
        offsets = data.offsets[chunk[0] : chunk[1] + 1]
        rows, local = slice(offsets[0], offsets[-1]), offsets - offsets[0]
        unit = unit_rows(data.X[rows], local, normalise)
        total = np.add.reduceat(unit, local[:-1])
        sums[rows] = np.einsum("ij,ij->i", unit, total[query_index(local)]) - np.einsum("ij,ij->i", unit, unit)

    map_chunks(block, chunk_queries(data.offsets, _BLOCK_ROWS))
    return sums
