"""The kernel between a block of documents and the references whose grades are averaged, and its way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.numerics.compiled import kernel
from luce.numerics.fast_exp import fast_exp, fast_exp_single
from luce.types import FloatArray, IntArray

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}
TILE = 16
_CUT, _CUT_SINGLE, _NOTHING = -700.0, np.float32(-40.0), np.float32(0.0)
"""Where the exponentials are 0: beyond what they compute, and far below the precision of a sum that has a 1 in it."""


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
    def of(
        cls, X: NDArray[np.float32], y: FloatArray, row: IntArray, query: IntArray, precision: str = "double"
    ) -> References:
        """From features as they are; products are taken in this precision."""
        centre = X.mean(axis=0, dtype=np.float64)
        number = PRECISIONS[precision]
        return cls((X - centre).astype(number), y.astype(number), row, query, centre)

    def original(self) -> NDArray[np.float32]:
        """The features as they were."""
        return np.ascontiguousarray(self.X + self.centre, dtype=np.float32)


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

    def block(self, x: NDArray[np.float32], hidden: NDArray[np.int64]) -> KernelBlock:
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
