"""Signed sums of products over the other documents of a query, in a form that always has a best fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from luce.checks import whole
from luce.scorers.own_scorer import Scorer
from luce.types import FloatArray, IntArray

_STEEPEST = 30.0
"""Exponents are held below this, so that no step of a line search overflows."""


@dataclass(frozen=True)
class ListTerms(Scorer):
    r"""Scores $f_i = w^\top z_i + \sum_t a_t \exp(\frac1{n-1} \sum_{j \ne i} u_t^\top z_j + v_t^\top z_i)$.

    A sum of products over the other documents, [Pareek] (2.8), with signs in $a_t$ and bases $e^{u^\top z}$. The mean
    in place of the sum makes lists of all lengths alike, and a penalty on all parameters, without which a best sum of
    products need not exist, makes the fit well-posed. Linear in the number of documents.

    Parameters
    ----------
    terms
        How many products are added up.
    """

    terms: int = 2

    name: ClassVar[str] = "list_terms"

    def __post_init__(self) -> None:
        whole("terms", self.terms, 1, 1000)

    def size(self, n_features: int) -> int:
        """w, and a, u and v of every term."""
        return n_features + self.terms * (2 * n_features + 1)

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Small random numbers: at 0 no term would ever move."""
        start = rng.normal(0.0, 0.1, self.n_parameters)
        start[: len(self.scale.mean)] = 0.0
        return start

    def scores(self, parameters: FloatArray, Z: FloatArray, offsets: IntArray) -> FloatArray:
        """One score a row."""
        w, a, _, _ = self._split(parameters, Z.shape[1])
        result: FloatArray = Z @ w + np.exp(self._exponents(parameters, Z, offsets)) @ a
        return result

    def gradient(self, parameters: FloatArray, Z: FloatArray, offsets: IntArray, d_scores: FloatArray) -> FloatArray:
        """In w, a, u and v, given that in the scores."""
        _, a, _, _ = self._split(parameters, Z.shape[1])
        exponents = self._exponents(parameters, Z, offsets)
        powers = np.exp(exponents)
        own = d_scores[:, None] * a * powers * (exponents < _STEEPEST)
        parts = (d_scores @ Z, d_scores @ powers, Z.T @ _others(own, offsets), Z.T @ own)
        return np.concatenate([part.ravel() for part in parts])

    def _exponents(self, parameters: FloatArray, Z: FloatArray, offsets: IntArray) -> FloatArray:
        _, _, u, v = self._split(parameters, Z.shape[1])
        return np.minimum(_others(Z @ u, offsets) + Z @ v, _STEEPEST)

    def _split(self, parameters: FloatArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        w, a, u, v = np.split(parameters, np.cumsum([n, self.terms, n * self.terms]))
        return w, a, u.reshape(n, self.terms), v.reshape(n, self.terms)


def _others(values: FloatArray, offsets: IntArray) -> FloatArray:
    """For every row the mean over the other rows of its query; 0 where there is none."""
    sizes = np.diff(offsets)
    result = np.zeros_like(values)
    filled = sizes > 0
    totals = np.add.reduceat(values, offsets[:-1][filled], axis=0) if filled.any() else values[:0]
    rest = np.repeat(totals, sizes[filled], axis=0) - values
    np.divide(rest, np.repeat(sizes - 1, sizes)[:, None], out=result, where=np.repeat(sizes > 1, sizes)[:, None])
    return result
