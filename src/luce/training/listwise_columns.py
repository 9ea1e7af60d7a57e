"""What a term of the listwise reranker is made of: kernel sums, and what its base differs by, each in its own unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luce.data.groups import Groups
from luce.scorers.kernel_sums import Kernel, centred, kernel_sums, learned_kernels, learned_sums
from luce.scorers.linear import standardise
from luce.scorers.listwise import ListwiseScorer
from luce.types import FloatArray

Bends = list[tuple[int, FloatArray]]
"""Of every parameter of learned kernels: the column that it changes, and by how much a document."""


class Term(NamedTuple):
    """One term in the units of the fit: what its base differs by, weights of kernels, parameters of learned ones."""

    constant: float
    power: float
    slopes: FloatArray
    weights: FloatArray
    shapes: FloatArray


class Columns:
    """The columns of a term; some of them may follow `shapes`, the parameters of learned kernels."""

    def __init__(
        self,
        plain: NDArray[np.float64],
        shapes: FloatArray | None = None,
        moved: Callable[[NDArray[np.float64], FloatArray], tuple[NDArray[np.float64], Bends]] | None = None,
    ) -> None:
        self.plain, self.width = plain, plain.shape[1]
        self.shapes = np.empty(0) if shapes is None else shapes
        self._moved = moved

    def at(self, shapes: FloatArray) -> tuple[NDArray[np.float64], Bends]:
        """The matrix, and its derivatives in the shapes."""
        return (self.plain, []) if self._moved is None else self._moved(self.plain, shapes)


class Units:
    """Units of all columns, by which penalties are fair; and the way back to those of the documents.

    Kernel sums are measured by their standard deviation within queries, about their mean in the training data: a number
    for all documents, which the constants of terms take up, so that the sums of [Pareek] (2.8) stay what they are.
    """

    def __init__(
        self, data: Groups, kernels: Sequence[Kernel], scorer: ListwiseScorer, z: FloatArray, base: float
    ) -> None:
        self.data, self.normalise, self.z, self.base = data, scorer.normalise, z, base
        self._learned = learned_kernels(kernels)
        starts = [value for kernel in self._learned if kernel is not None for value in kernel.start]
        sums = kernel_sums(data, kernels, scorer.normalise)
        spread = centred(sums, data.offsets).std(axis=0)
        self.mean = sums.mean(axis=0)
        self.per_spread = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12)
        self._base_of_terms = scorer.term_base
        self.scale = standardise(data.X) if scorer.terms > 1 and scorer.term_base == "linear" else None
        self._sums = (sums - self.mean) * self.per_spread
        self.kernels = Columns(self._sums, np.array(starts), self._moved if starts else None)

    def _moved(self, plain: NDArray[np.float64], shapes: FloatArray) -> tuple[NDArray[np.float64], Bends]:
        """Columns with the sums of learned kernels at these shapes."""
        first, at, bends = plain.shape[1] - len(self._learned), 0, []
        columns = plain.copy()
        for k, kernel in enumerate(self._learned):
            if kernel is None:
                continue
            width = len(kernel.start)
            sums, slopes = learned_sums(self.data, kernel, self.normalise, shapes[at : at + width])
            columns[:, first + k] = (sums - self.mean[k]) * self.per_spread[k]
            bends += [(first + k, slopes[:, i] * self.per_spread[k]) for i in range(width)]
            at += width
        return columns, bends

    @cached_property
    def further(self) -> Columns:
        """The columns of terms after the first: constant, power of the base, features, and the kernel sums."""
        parts: list[NDArray[np.float64]] = [np.ones((len(self.z), 1))]
        if self._base_of_terms != "same":
            parts.append(self.z[:, None])
        if self.scale is not None:
            parts.append((self.data.X - self.scale.mean) * self.scale.inverse_sd)
        joined = np.hstack([*parts, self._sums])
        return Columns(joined, self.kernels.shapes, self._moved if len(self.kernels.shapes) else None)

    def term(self, u: FloatArray, shapes: FloatArray, further: bool) -> Term:
        """The term of a vector."""
        n = self.data.n_features
        if not further:
            return Term(0.0, 0.0, np.zeros(n), u, shapes)
        power = 0.0 if self._base_of_terms == "same" else float(u[1])
        slopes = np.zeros(n) if self.scale is None else u[2 : 2 + n]
        return Term(float(u[0]), power, slopes, u[len(u) - len(self._learned) :], shapes)

    def log_sum(self, terms: Sequence[Term]) -> FloatArray | None:
        """The log of the sum of terms, over the base; None where there are none."""
        if not terms:
            return None
        return np.asarray(np.logaddexp.reduce([self._log(term) for term in terms], axis=0))

    def _log(self, term: Term) -> FloatArray:
        sums = self.kernels.at(term.shapes)[0]
        total = term.constant + term.power * self.z + sums @ term.weights
        if self.scale is not None and term.slopes.any():
            total = total + ((self.data.X - self.scale.mean) * self.scale.inverse_sd) @ term.slopes
        result: FloatArray = total
        return result

    def of_documents(self, terms: Sequence[Term]) -> dict[str, Any]:
        """The terms in the units of the documents, as `FittedListwise` wants them; the first constant is 0."""
        weights = np.array([term.weights * self.per_spread for term in terms])
        powers = np.array([1.0 + term.power for term in terms])
        slopes, shift = np.zeros((len(terms), self.data.n_features)), np.zeros(len(terms))
        if self.scale is not None:
            slopes = np.array([term.slopes * self.scale.inverse_sd for term in terms])
            shift = slopes @ self.scale.mean
        constants = np.array([term.constant for term in terms]) - weights @ self.mean - shift
        constants -= (powers - 1.0) * self.base
        several = len(terms) > 1
        return {
            "weights": weights,
            "constants": constants - constants[0],
            "powers": powers if several else None,
            "slopes": slopes if several and slopes.any() else None,
            "shapes": np.array([term.shapes for term in terms]) if len(self.kernels.shapes) else None,
        }
