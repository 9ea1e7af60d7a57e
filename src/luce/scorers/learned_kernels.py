r"""Kernels with parameters of their own, which the reranker learns with their weights: the general g of a product.

In $\prod_{j \ne i} g(x_i, x_j; w, \theta)$ with $g = \exp(w\, S(x_i, x_j; \theta))$, every positive pair function is of
this form. Sums of $S$ are then computed anew whenever $\theta$ moves, at the cost of all pairs of a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, SettingError
from luce.types import FloatArray

PairFunction = Callable[[FloatArray, FloatArray], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    r"""A pair function $S(x_i, x_j; \theta)$ whose parameters are learned.

    Parameters
    ----------
    name
        How it is called in tables, and in model files where it is registered.
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

    def at(self, X: FloatArray, shape: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and derivatives; other shapes than those of all pairs are refused."""
        pairs, slopes = (np.asarray(part, dtype=np.float64) for part in self.function(X, shape))
        m = len(X)
        if pairs.shape != (m, m) or slopes.shape != (len(shape), m, m):
            raise DataError(
                f"The kernel {self.name!r} gives shapes {pairs.shape} and {slopes.shape}; {m} documents need "
                f"({m}, {m}) and ({len(shape)}, {m}, {m})."
            )
        return pairs, slopes


def _outer(X: FloatArray) -> NDArray[np.float64]:
    result: NDArray[np.float64] = X @ X.T
    return result


def _gaussian(X: FloatArray, shape: FloatArray) -> tuple[Any, Any]:
    """exp(-d^2 / (2 F w^2)) with the log of the width w as its parameter, and F features."""
    products = _outer(X)
    square = np.maximum(np.diag(products)[:, None] + np.diag(products) - 2 * products, 0.0)
    scaled = square / (X.shape[1] * np.exp(2 * shape[0]))
    pairs = np.exp(-0.5 * scaled)
    return pairs, (pairs * scaled)[None]


GAUSSIAN = LearnedKernel("gaussian", _gaussian, (float(np.log(0.5)),))
