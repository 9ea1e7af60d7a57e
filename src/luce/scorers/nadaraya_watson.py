"""The Nadaraya-Watson scorer: the average grade of training documents nearby, with a learned metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError
from luce.numerics.compiled import kernel
from luce.numerics.fast_exp import fast_exp, fast_exp_single
from luce.numerics.segments import Chunk, map_chunks, query_index
from luce.numerics.threads import one_blas_thread
from luce.scorers.linear import refuse_gaps
from luce.scorers.saved import Fitted, array
from luce.spec import Spec, option
from luce.types import Features, FloatArray, IntArray

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}
TILE = 16
_CUT, _CUT_SINGLE, _NOTHING = -700.0, np.float32(-40.0), np.float32(0.0)
"""Where the exponentials are 0: beyond what they compute, and far below the precision of a sum that has a 1 in it."""
_BLOCK_ENTRIES = 1 << 19
"""Kernel entries of a block, in double precision 4 MB: what bounds the memory, whatever the number of documents."""
_KEPT_ENTRIES = 1 << 22
"""Kernel entries of a chunk of queries up to which they are kept from the scores to the gradient, 32 MB a thread."""


@dataclass(frozen=True, eq=False)
class References:
    """Training documents whose grades are averaged, and the rows and queries that they are.

    Features are centred, since squared distances by way of squares lose the digits that all documents share.
    """

    X: NDArray[np.floating[Any]]
    y: NDArray[np.floating[Any]]
    row: IntArray
    query: IntArray
    centre: FloatArray

    @classmethod
    def of(cls, X: Features, y: FloatArray, row: IntArray, query: IntArray, precision: str = "double") -> References:
        """From features as they are; products are taken in this precision."""
        centre = X.mean(axis=0, dtype=np.float64)
        number = PRECISIONS[precision]
        return cls((X - centre).astype(number), y.astype(number), row, query, centre)

    def original(self) -> Features:
        """The features as they were."""
        return np.ascontiguousarray(self.X + self.centre, dtype=np.float32)


NO_REFERENCES = References(np.empty((0, 0)), *(np.empty(0),) * 4)  # type: ignore[arg-type]  # none yet


class Nearness:
    r"""The references under one vector of lengths a: what every block of documents is multiplied with.

    The exponent of the kernel is $x'Ax_n - \frac12 x_n'Ax_n$ up to a term of the row, one product with the column
    $-\frac12 x_n'Ax_n$ beside the features. Features of length 0 do not count, and have no slope either: they are
    left out.
    """

    def __init__(self, a: FloatArray, references: References) -> None:
        self.references = references
        self.active = np.flatnonzero(a)
        self.a = a[self.active]
        X = references.X
        self.X: NDArray[np.floating[Any]] = X if len(self.a) == len(a) else np.ascontiguousarray(X[:, self.active])
        self.factors = np.empty((len(X), len(self.a) + 1), dtype=X.dtype)
        scaled = np.multiply(self.X, self.a.astype(X.dtype), out=self.factors[:, :-1])
        self.factors[:, -1] = -0.5 * np.einsum("ij,ij->i", scaled, scaled)

    def block(self, x: Features, hidden: NDArray[np.int64]) -> KernelBlock:
        """The kernel of some documents; `hidden` has the first reference that each does not see and one past the last.

        Whole tiles of rows: BLAS sums those of a cut tile in another order, and equal documents must score equally.
        """
        rows = -(-len(x) // TILE) * TILE
        centred = np.zeros((rows, len(self.active)))
        centred[: len(x)] = x[:, self.active] - self.references.centre[self.active]
        sided = np.column_stack([centred * self.a, np.ones(rows)]).astype(self.X.dtype)
        kernel = sided @ self.factors.T
        _exponentiate(kernel, hidden)
        return KernelBlock(self, centred[: len(x)], kernel)


class KernelBlock:
    """The kernel of a block of documents, and their scores."""

    def __init__(self, nearness: Nearness, x: FloatArray, kernel: NDArray[np.floating[Any]]) -> None:
        self.nearness, self.x, self.kernel = nearness, x, kernel
        ones = np.ones(kernel.shape[1], dtype=kernel.dtype)
        self.total = (kernel @ ones)[: len(x)].astype(np.float64)
        self.scores: FloatArray = (kernel @ nearness.references.y)[: len(x)] / self.total

    def backward(self, d_scores: FloatArray) -> FloatArray:
        r"""$-a_l \sum_{in} G_{in} (x_{il} - x_{nl})^2$, G = d_i P_in (y_n - rho_i); the rows of G sum to 0.

        The kernel is used up.
        """
        near, number = self.nearness, self.kernel.dtype
        _weigh(self.kernel, near.references.y, self.scores.astype(number))
        share = np.zeros(len(self.kernel), dtype=number)
        share[: len(self.x)] = d_scores / self.total
        cross = np.einsum("i,ij,ij->j", d_scores / self.total, self.x, (self.kernel @ near.X)[: len(self.x)])
        squares = (share @ self.kernel) @ (near.X * near.X)
        result = np.zeros(near.references.X.shape[1])
        result[near.active] = -near.a * (squares - 2.0 * cross)
        return result


def _exponentiate(exponent: NDArray[np.floating[Any]], hidden: NDArray[np.int64]) -> None:
    """Exponentials in place, each row divided by its greatest, so that the nearest reference always has weight.

    |x|^2 is the same for a whole row, and so goes with its maximum. A hidden reference is infinitely far; where all of
    them are, the gap is no number, and the weight 0 as well.
    """
    for i, (first, last) in enumerate(hidden.tolist()):
        exponent[i, first:last] = -np.inf
    greatest = exponent.max(axis=1)
    (_exponentials_single if exponent.dtype == np.float32 else _exponentials)(exponent, greatest)


@kernel
def _exponentials(exponent, greatest):  # type: ignore[no-untyped-def]
    for i in range(len(exponent)):
        row, top = exponent[i], greatest[i]
        for n in range(len(row)):
            gap = row[n] - top
            row[n] = fast_exp(gap) if gap > _CUT else 0.0


@kernel
def _exponentials_single(exponent, greatest):  # type: ignore[no-untyped-def]
    for i in range(len(exponent)):
        row, top = exponent[i], greatest[i]
        for n in range(len(row)):
            gap = row[n] - top
            row[n] = fast_exp_single(gap) if gap > _CUT_SINGLE else _NOTHING


@kernel
def _weigh(kernel, y, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        row, score = kernel[i], scores[i]
        for n in range(len(y)):
            row[n] *= y[n] - score


def _blocks(n_rows: int, n_references: int) -> list[Chunk]:
    size = max(1, _BLOCK_ENTRIES // (TILE * max(n_references, 1))) * TILE
    return [(first, min(first + size, n_rows)) for first in range(0, n_rows, size)]


class NadarayaWatsonScorer(Spec):
    r"""$\rho(x) = \sum_n y_n K(x, x_n) / \sum_n K(x, x_n)$, $K = e^{-\frac12 \sum_l a_l^2 (x_l - x_{nl})^2}$.

    That is [StructRank] (7).

    The sums run over the training documents; the parameters are $a_1 \dots a_L \ge 0$. When training documents are
    scored, those of the same query are left out: with them in, the fit would be a memory of the labels. Features
    are taken as they are, so they should be on one scale: normalise them within queries.

    Parameters
    ----------
    leave_out
        What a training document does not see: "query", all documents of its query; "document", itself; "nothing".
    references
        Number of training documents that are averaged, drawn at random; None takes all.
    seed
        Of that draw.
    precision
        Of the kernel, in training and prediction: "double"; or "single", in about half the time, with scores to about
        four digits as long as no length times the range of its feature is above 50.
    """

    leave_out: Literal["query", "document", "nothing"] = "query"
    references: int | None = option(default=None, least=2)
    seed: int = option(default=0, least=0, needs=(lambda own: own.references is not None, "references, which it draws"))
    precision: Literal["double", "single"] = "double"

    name = "nadaraya_watson"
    documents: ClassVar[References] = NO_REFERENCES
    """The training documents that are averaged, once it is bound to them."""
    offsets: ClassVar[IntArray] = np.empty(0, dtype=np.int64)
    first_query: ClassVar[int | None] = None
    """Rows at hand are training queries from this one on, or (None) others."""
    kept: ClassVar[dict[Chunk, KernelBlock] | None] = None
    """Blocks of the last scores, by rows, for the gradient that follows."""
    nonnegative: ClassVar[bool] = True
    """Parameters are lengths, which a projected trainer keeps at 0 or above; the kernel knows their squares only."""

    def bind(self, data: Groups) -> NadarayaWatsonScorer:
        """Take the training documents and their grades."""
        if data.n_rows > 1 and data.y.min() == data.y.max():
            raise DataError("nadaraya_watson averages grades, and those of the data are equal; take scorer 'linear'.")
        if self.leave_out == "query" and data.n_queries == 1 and data.n_rows > 1:
            raise DataError(
                "nadaraya_watson scores a query by the others, and there is only one; give more queries, "
                "or leave_out='document'."
            )
        refuse_gaps(~np.isfinite(data.X).all(axis=0))
        rows = np.arange(data.n_rows)
        if self.references is not None and self.references < data.n_rows:
            drawn = np.random.default_rng(self.seed).choice(data.n_rows, self.references, replace=False)
            rows = np.sort(drawn)
        place = rows.astype(np.int64), query_index(data.offsets)[rows]
        found = References.of(data.X[rows], data.y[rows], *place, self.precision)
        return self._changed(documents=found, offsets=data.offsets)

    @property
    def n_parameters(self) -> int:
        """One a feature."""
        return int(self.documents.X.shape[1])

    def of_queries(self, first: int) -> NadarayaWatsonScorer:
        """The same scorer for a block of training queries that starts with this one."""
        return self._changed(first_query=first, kept={})

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk of training queries whose kernel can be kept."""
        return max(1, _KEPT_ENTRIES // len(self.documents.y))

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Uniform in [0, 1], as [StructRank] starts."""
        return rng.uniform(0.0, 1.0, self.n_parameters)

    def _hidden(self, first: int, last: int) -> IntArray:
        """Columns that each row of a block does not see: the first, and one past the last."""
        if self.first_query is None or self.leave_out == "nothing":
            return np.empty((0, 2), dtype=np.int64)
        own, known = np.arange(first, last) + self.offsets[self.first_query], self.documents.row
        if self.leave_out == "query":
            own, known = np.searchsorted(self.offsets, own, side="right") - 1, self.documents.query
        starts, ends = (np.searchsorted(known, own, side=side) for side in ("left", "right"))
        # With nothing left to see, a row sees everything: all such rows are of the only query there is.
        ends = np.where(ends - starts == len(self.documents.y), starts, ends)
        return np.column_stack([starts, ends]).astype(np.int64)

    def forward(self, parameters: FloatArray, X: Features, offsets: IntArray) -> FloatArray:
        """Scores of a block of rows."""
        scores = np.empty(len(X))
        keep = self.kept if len(X) <= self.chunk_rows else None
        nearness = Nearness(parameters, self.documents)

        def score(_: int, rows: Chunk) -> None:
            block = nearness.block(X[rows[0] : rows[1]], self._hidden(*rows))
            scores[rows[0] : rows[1]] = block.scores
            if keep is not None:
                keep[rows] = block

        # Lengths that overflow give scores that are no numbers, which trainers and predictions refuse.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            map_chunks(score, _blocks(len(X), len(self.documents.y)))
        return scores

    def backward(self, parameters: FloatArray, X: Features, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """Gradient in the parameters; a kernel that was too large to keep is computed again."""
        kept = self.kept or {}
        nearness = None if kept else Nearness(parameters, self.documents)

        def gradient(_: int, rows: Chunk) -> FloatArray:
            block = nearness.block(X[rows[0] : rows[1]], self._hidden(*rows)) if nearness else kept.pop(rows)
            return block.backward(d_scores[rows[0] : rows[1]])

        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            parts = map_chunks(gradient, _blocks(len(X), len(self.documents.y)))
        return np.asarray(np.sum([np.zeros(self.n_parameters), *parts], axis=0))

    def fitted(self, parameters: FloatArray) -> FittedNadarayaWatson:
        """With the references, since they are the model."""
        grades = self.documents.y.astype(np.float64)
        return FittedNadarayaWatson(np.abs(parameters), self.documents.original(), grades, self.precision)

    def parameters_of(self, fitted: FittedNadarayaWatson) -> FloatArray:
        """Its lengths, for a warm start."""
        return fitted.a.copy()


class FittedNadarayaWatson(Fitted):
    """The average grade of the references, weighed by how near they are."""

    a: FloatArray = array("features")
    X: Features = array("documents", "features", dtype=np.float32, key="references")
    y: FloatArray = array("documents", key="grades")
    precision: Literal["double", "single"] = "double"

    name = "nadaraya_watson"

    def score(self, X: Features, offsets: IntArray) -> FloatArray:
        """One score a row, between the least and the greatest grade."""
        nothing = np.empty(0, dtype=np.int64)
        documents = References.of(self.X, self.y, nothing, nothing, self.precision)
        return NadarayaWatsonScorer()._changed(documents=documents).forward(self.a, X, offsets)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file, which says a precision where it is not the usual one."""
        settings, arrays = super().state()
        return {} if self.precision == "double" else settings, arrays

    def _check(self) -> None:
        if np.any(self.a < 0):
            raise ModelFormatError("A nadaraya_watson scorer needs weights of at least 0; the file has negative ones.")
        if not len(self.y):
            raise ModelFormatError("A nadaraya_watson scorer needs at least one reference.")

    def importance(self) -> FloatArray:
        """How fast nearness falls along each feature: a_l."""
        return self.a.copy()
