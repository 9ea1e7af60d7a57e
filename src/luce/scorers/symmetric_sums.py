"""Signed sums of products: of symmetric functions of several arguments, and over the other documents of a query."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from luce.checks import number, whole
from luce.errors import DataError
from luce.result import Result, Sheet
from luce.scorers.own_scorer import Scorer
from luce.types import FloatArray, IntArray

_MOST = 4000
"""Different cells of a table at most: so many equations are solved for as many terms."""
_STEEPEST = 30.0
"""Exponents are held below this, so that no step of a line search overflows."""


@dataclass(frozen=True)
class SymmetricSum(Result):
    """Terms of a decomposition: their signs and sizes, their functions, and what they leave over."""

    coefficients: FloatArray
    """One a term."""
    functions: FloatArray
    """Values by terms: what a term's function is at each value of an argument, of Euclidean norm 1."""
    arguments: int
    error: float
    """The largest difference from the table, relative to its largest entry."""

    @property
    def rank(self) -> int:
        """Terms; the least possible number where it is at most that of the values, else no more than a bound."""
        return len(self.coefficients)

    def sheets(self) -> list[Sheet]:
        """A line a term: its coefficient, and its function at every value."""
        values = {f"g({value + 1})": row.tolist() for value, row in enumerate(self.functions)}
        return [Sheet("Terms", {"coefficient": self.coefficients.tolist(), **values})]

    def table(self) -> FloatArray:
        """The function that the terms add up to, an axis an argument."""
        d = len(self.functions)
        result: FloatArray = np.zeros((d,) * self.arguments)
        for coefficient, g in zip(self.coefficients, self.functions.T, strict=True):
            product = np.full((), coefficient)
            for _ in range(self.arguments):
                product = np.multiply.outer(product, g)
            result += product
        return result


def decompose(table: ArrayLike, *, tol: float = 1e-9, seed: int = 0) -> SymmetricSum:
    r"""A symmetric function of m arguments with d values each, given as a table with m axes, as a sum of products.

    Over the reals [Pareek] (2.10) needs signs $\lambda_t$: a sum of squares is never negative. Where the rank is at
    most d, two random slices $A = G D_1 G^\top$ and $B = G D_2 G^\top$ of the table have its functions as their common
    generalised eigenvectors, and least squares give $\lambda$. Any other table is a sum of the powers of
    $\binom{d + m - 1}{m}$ generic functions. A partially symmetric function, [Pareek] (2.12), is one table for each
    value of its first argument.

    >>> found = decompose([[1.0, 0.0], [0.0, -1.0]])
    >>> found.rank, sorted(found.coefficients.tolist())
    (2, [-1.0, 1.0])
    """
    h = np.asarray(table, dtype=np.float64)
    number("tol", tol, above=True)
    d, m = _checked(h)
    cells = np.array(list(combinations_with_replacement(range(d), m)), dtype=np.int64)
    values, scale, rng = h[tuple(cells.T)], float(np.abs(h).max()), np.random.default_rng(seed)
    if scale == 0.0:
        return SymmetricSum(np.empty(0), np.empty((d, 0)), m, 0.0)
    functions = _common_eigenvectors(h, rng)
    found = _with_coefficients(functions, cells, values, m, scale)
    if found is None or found.error > tol:
        generic = rng.normal(size=(d, len(cells)))
        found = _with_coefficients(generic / np.linalg.norm(generic, axis=0), cells, values, m, scale)
        assert found is not None
    return found


def _checked(h: FloatArray) -> tuple[int, int]:
    m, d = h.ndim, h.shape[0] if h.ndim else 0
    if m < 1 or d < 1 or h.shape != (d,) * m or not np.isfinite(h).all():
        raise DataError(f"The table has the shape {h.shape}; give finite numbers, an axis of one length an argument.")
    if comb(d + m - 1, m) > _MOST:
        cells = comb(d + m - 1, m)
        raise DataError(f"{m} arguments of {d} values have {cells:,} different cells; {_MOST:,} are allowed.")
    largest = max(float(np.abs(h).max()), np.finfo(float).tiny)
    for axis in range(1, m):
        if np.abs(h - np.swapaxes(h, 0, axis)).max() > 1e-9 * largest:
            raise DataError(
                f"The table changes when arguments 1 and {axis + 1} change places; give a symmetric one, or decompose "
                "a partially symmetric one by the values of its first argument."
            )
    return d, m


def _common_eigenvectors(h: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The functions of a table whose rank is at most the number of values; none that are real, an empty array."""
    d, m = h.shape[0], h.ndim
    if m == 1:
        return h[:, None] / np.linalg.norm(h)
    slices = []
    for _ in range(2):
        part = h
        while part.ndim > 2:
            part = part @ rng.normal(size=d)
        slices.append(part)
    size, basis = np.linalg.eigh(slices[1])
    large = np.abs(size) > 1e-10 * max(np.abs(size).max(), np.finfo(float).tiny)
    if m == 2:
        return basis[:, large]
    basis = basis[:, large]
    inner = np.linalg.solve(basis.T @ slices[1] @ basis, basis.T @ slices[0] @ basis).T
    roots, vectors = np.linalg.eig(inner)
    if np.abs(roots.imag).max(initial=0.0) > 1e-8 * np.abs(roots).max(initial=1.0):
        return np.empty((d, 0))
    functions = basis @ vectors.real
    return np.asarray(functions / np.linalg.norm(functions, axis=0))


def _with_coefficients(
    functions: FloatArray, cells: IntArray, values: FloatArray, m: int, scale: float
) -> SymmetricSum | None:
    """Least squares for the coefficients of given functions; terms of coefficient 0 are left out."""
    if not functions.shape[1]:
        return None
    products = np.prod(functions[cells], axis=1)
    coefficients = np.linalg.lstsq(products, values, rcond=1e-14)[0]
    error = float(np.abs(products @ coefficients - values).max() / scale)
    used = np.abs(coefficients) > 1e-12 * np.abs(coefficients).max(initial=0.0)
    return SymmetricSum(coefficients[used], functions[:, used], m, error)


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
        return Z @ w + np.exp(self._exponents(parameters, Z, offsets)) @ a

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
