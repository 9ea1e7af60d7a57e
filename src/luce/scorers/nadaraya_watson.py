"""The Nadaraya-Watson scorer: the average grade of training documents nearby, with a learned metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError
from luce.numerics.blas import one_blas_thread
from luce.numerics.segments import Chunk, map_chunks, query_index
from luce.scorers.kernel_average import PRECISIONS, TILE, KernelBlock, Nearness, References
from luce.scorers.saved import finite
from luce.spec import Spec, option
from luce.types import FloatArray, IntArray

LEAVE_OUT = ("query", "document", "nothing")
_BLOCK_ENTRIES = 1 << 19
"""Kernel entries of a block, in double precision 4 MB: what bounds the memory, whatever the number of documents."""
_KEPT_ENTRIES = 1 << 22
"""Kernel entries of a chunk of queries up to which they are kept from the scores to the gradient, 32 MB a thread."""


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
    nonnegative: ClassVar[bool] = True
    """Parameters are lengths, which a projected trainer keeps at 0 or above; the kernel knows their squares only."""

    def bind(self, data: Groups) -> BoundNadarayaWatson:
        """Take the training documents and their grades."""
        if data.n_rows > 1 and data.y.min() == data.y.max():
            raise DataError(
                "nadaraya_watson averages grades, and those of the data are all equal; take scorer 'linear'."
            )
        if self.leave_out == "query" and data.n_queries == 1 and data.n_rows > 1:
            raise DataError(
                "nadaraya_watson scores a query by the others, and there is only one; give more queries, "
                "or leave_out='document'."
            )
        bad = ~np.isfinite(data.X).all(axis=0)
        if bad.any():
            raise DataError(
                f"Feature {int(np.flatnonzero(bad)[0]) + 1} has NaN or infinite values; training needs finite "
                "ones: fill them in first."
            )
        rows = np.arange(data.n_rows)
        if self.references is not None and self.references < data.n_rows:
            drawn = np.random.default_rng(self.seed).choice(data.n_rows, self.references, replace=False)
            rows = np.sort(drawn)
        place = rows.astype(np.int64), query_index(data.offsets)[rows]
        found = References.of(data.X[rows], data.y[rows], *place, self.precision)
        return BoundNadarayaWatson(found, self.leave_out, data.offsets, None)


@dataclass(frozen=True, eq=False)
class BoundNadarayaWatson:
    """The scorer on its training set; rows at hand are training queries from `first_query` on, or (None) others."""

    references: References
    leave_out: str
    offsets: IntArray
    first_query: int | None
    kept: dict[Chunk, KernelBlock] | None = None
    """Blocks of the last scores, by rows, for the gradient that follows."""

    name = "nadaraya_watson"
    nonnegative: ClassVar[bool] = True

    @property
    def precision(self) -> str:
        """Of the kernel."""
        return "single" if self.references.X.dtype == np.float32 else "double"

    @property
    def n_parameters(self) -> int:
        """One a feature."""
        return int(self.references.X.shape[1])

    def of_queries(self, first: int) -> BoundNadarayaWatson:
        """The same scorer for a block of training queries that starts with this one."""
        return replace(self, first_query=first, kept={})

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk of training queries whose kernel can be kept."""
        return max(1, _KEPT_ENTRIES // len(self.references.y))

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Uniform in [0, 1], as [StructRank] starts."""
        return rng.uniform(0.0, 1.0, self.n_parameters)

    def _hidden(self, first: int, last: int) -> IntArray:
        """Columns that each row of a block does not see: the first, and one past the last."""
        if self.first_query is None or self.leave_out == "nothing":
            return np.empty((0, 2), dtype=np.int64)
        rows = np.arange(first, last) + self.offsets[self.first_query]
        if self.leave_out == "document":
            starts, ends = (np.searchsorted(self.references.row, rows, side=side) for side in ("left", "right"))
        else:
            query = np.searchsorted(self.offsets, rows, side="right") - 1
            starts, ends = (np.searchsorted(self.references.query, query, side=side) for side in ("left", "right"))
        # With nothing left to see, a row sees everything: all such rows are of the only query there is.
        ends = np.where(ends - starts == len(self.references.y), starts, ends)
        return np.column_stack([starts, ends]).astype(np.int64)

    def forward(self, parameters: FloatArray, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """Scores of a block of rows."""
        scores = np.empty(len(X))
        keep = self.kept if len(X) <= self.chunk_rows else None
        nearness = Nearness(parameters, self.references)

        def score(_: int, rows: Chunk) -> None:
            block = nearness.block(X[rows[0] : rows[1]], self._hidden(*rows))
            scores[rows[0] : rows[1]] = block.scores
            if keep is not None:
                keep[rows] = block

        # Lengths that overflow give scores that are no numbers, which trainers and predictions refuse.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            map_chunks(score, _blocks(len(X), len(self.references.y)))
        return scores

    def backward(
        self, parameters: FloatArray, X: NDArray[np.float32], offsets: IntArray, d_scores: FloatArray
    ) -> FloatArray:
        """Gradient in the parameters; a kernel that was too large to keep is computed again."""
        kept = self.kept or {}
        nearness = None if kept else Nearness(parameters, self.references)

        def gradient(_: int, rows: Chunk) -> FloatArray:
            block = nearness.block(X[rows[0] : rows[1]], self._hidden(*rows)) if nearness else kept.pop(rows)
            return block.backward(d_scores[rows[0] : rows[1]])

        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            parts = map_chunks(gradient, _blocks(len(X), len(self.references.y)))
        result: FloatArray = np.sum([np.zeros(self.n_parameters), *parts], axis=0)
        return result

    def fitted(self, parameters: FloatArray) -> FittedNadarayaWatson:
        """With the references, since they are the model."""
        grades = self.references.y.astype(np.float64)
        return FittedNadarayaWatson(np.abs(parameters), self.references.original(), grades, self.precision)

    def parameters_of(self, fitted: FittedNadarayaWatson) -> FloatArray:
        """Its lengths, for a warm start."""
        return fitted.a.copy()


@dataclass(frozen=True, eq=False)
class FittedNadarayaWatson:
    """The average grade of the references, weighed by how near they are."""

    a: FloatArray
    X: NDArray[np.float32]
    y: FloatArray
    precision: str = "double"

    name = "nadaraya_watson"
    needs_queries = False

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """One score a row, between the least and the greatest grade."""
        nothing = np.empty(0, dtype=np.int64)
        references = References.of(self.X, self.y, nothing, nothing, self.precision)
        return BoundNadarayaWatson(references, "nothing", nothing, None).forward(self.a, X, offsets)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file."""
        chosen = {} if self.precision == "double" else {"precision": self.precision}
        return chosen, {"a": self.a, "references": self.X, "grades": self.y}

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedNadarayaWatson:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        a = finite(cls.name, arrays, "a", (None,))
        X = finite(cls.name, arrays, "references", (None, len(a)), np.float32)
        y = finite(cls.name, arrays, "grades", (len(X),))
        if np.any(a < 0):
            raise ModelFormatError("A nadaraya_watson scorer needs weights of at least 0; the file has negative ones.")
        if not len(y):
            raise ModelFormatError("A nadaraya_watson scorer needs at least one reference.")
        precision = settings.get("precision", "double")
        if precision not in list(PRECISIONS):
            raise ModelFormatError(f"A nadaraya_watson scorer has no precision {precision!r}.")
        return cls(a, X, y, precision)

    @property
    def n_features(self) -> int:
        """Features that a row must have."""
        return len(self.a)

    def importance(self) -> FloatArray:
        """How fast nearness falls along each feature: a_l."""
        return self.a.copy()
