r"""The listwise scorer: reranks the scores of a base ranker by what the other documents of the query are like.

$$f_i(x) = b(x_i) \sum_t \exp\Bigl(v_t + \sum_k w_{tk} \sum_{j \ne i} S_k(x_i, x_j)\Bigr)$$

Each term is a product over the other documents, [Pareek] (2.1). $b = \exp(\text{base score} / \tau)$ with $\tau$ the
standard deviation of the base scores in training: positive and in the order of the base. Scores are $\tau \log f$, so
that $w = 0$ gives those of the base, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from luce.checks import whole
from luce.data.groups import Groups
from luce.errors import DataError, ModelFormatError, SettingError
from luce.scorers.kernel_sums import (
    Kernel,
    centred,
    check_kernels,
    check_normalisation,
    kernel_name,
    kernel_sums,
)
from luce.scorers.linear import FittedLinear
from luce.types import FloatArray, IntArray

__all__ = ["L2_GRID", "SCALES", "FittedListwise", "ListwiseScorer", "checked_grid"]

SCALES = ("auto", "log", "product")
L2_GRID = (0.0, 1e-5, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3)


class ListwiseScorer:
    """Settings of the reranker.

    Parameters
    ----------
    kernels
        Kernels, a list or a text with commas: `cosine` of the features; `relation:NAME`, a relation of the data, from a
        document to others, and `relation:NAME:in` from others to it; or a function that takes the features of the
        documents of a query, (m, F), and gives the matrix of all pairs, (m, m), or its name where it was registered
        (`luce.scorers.register_kernel`). None: the cosine and all relations.
    normalise
        Features within queries before a kernel sees them: "minmax", "zscore" or None.
    terms
        Terms of the sum at the most; each is fitted on top of those before it.
    scale
        What the loss sees: the "log" of f, or f itself, the "product"; each to a power and times a constant that are
        learned. "auto" takes the log for losses that only see differences of scores and for `ndcg_cross_entropy`,
        whose scores are logs of gains, and the product for others.
    l2_grid
        Penalties among which validation data choose; without such data, `l2` of the trainer is taken.
    """

    name = "listwise"
    trainer = "reranking"

    def __init__(
        self,
        kernels: Any = None,
        normalise: str | None = "minmax",
        terms: int = 1,
        scale: str = "auto",
        l2_grid: Any = L2_GRID,
    ) -> None:
        self.kernels = check_kernels(kernels)
        self.normalise = check_normalisation(normalise)
        self.terms = whole("terms", terms, 1)
        if scale not in SCALES:
            raise SettingError(f"scale is {scale!r}; it must be one of {', '.join(SCALES)}.")
        self.scale = scale
        self.l2_grid = checked_grid(l2_grid)


def checked_grid(penalties: Any) -> tuple[float, ...]:
    """Penalties among which validation data choose."""
    given = tuple(penalties) if isinstance(penalties, Iterable) and not isinstance(penalties, str) else ()
    if not given or not all(isinstance(value, int | float) and 0 <= value < np.inf for value in given):
        raise SettingError(f"l2_grid is {penalties!r}; it must list numbers of at least 0.")
    return tuple(float(value) for value in given)


@dataclass(frozen=True, eq=False)
class FittedListwise:
    """`weights` has a row a term and a column a kernel, `constants` an entry a term, `tau` is the unit of the base."""

    weights: NDArray[np.float64]
    constants: FloatArray
    tau: float
    kernels: tuple[Kernel, ...]
    normalise: str | None
    n_features: int
    l2: float
    base: FittedLinear | None = None
    """The base ranker where none was given: linear, trained on `listnet`."""

    name = "listwise"
    needs_queries = True

    def score(self, X: NDArray[np.float32], offsets: IntArray) -> FloatArray:
        """Scores of documents without a base of their own and without relations."""
        data = Groups(X=X, y=np.zeros(len(X)), offsets=offsets, query_ids=np.arange(len(offsets) - 1))
        return self.score_groups(data, None)

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Tau times the log of [Pareek] (2.20), summed over terms; the kernel sums are centred within queries."""
        if base is None:
            base = np.zeros(data.n_rows) if self.base is None else self.base.score(data.X, data.offsets)
        if not self.weights.any():
            return base
        sums = centred(kernel_sums(data, self.kernels, self.normalise), data.offsets)
        result: FloatArray = base + self.tau * logsumexp(sums @ self.weights.T + self.constants, axis=1)
        return result

    def importance(self) -> FloatArray:
        """Effect of one standard deviation of each feature on the base; kernels have `kernel_table`."""
        return np.zeros(self.n_features) if self.base is None else self.base.importance()

    def kernel_table(self) -> list[dict[str, Any]]:
        """A row a term: its constant and the weight of every kernel."""
        names = [kernel_name(kernel) for kernel in self.kernels]
        return [
            {"constant": float(v), **dict(zip(names, map(float, w), strict=True))}
            for v, w in zip(self.constants, self.weights, strict=True)
        ]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file; a function as a kernel cannot be kept."""
        own = [kernel for kernel in self.kernels if not isinstance(kernel, str)]
        if own:
            raise SettingError(
                f"The kernel {kernel_name(own[0])!r} is a function, which a model file cannot hold; give it a name by "
                "luce.scorers.register_kernel, or its values as a relation of the data."
            )
        settings: dict[str, Any] = {
            "kernels": list(self.kernels),
            "normalise": self.normalise,
            "n_features": self.n_features,
            "tau": self.tau,
            "l2": self.l2,
        }
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights, "constants": self.constants}
        if self.base is not None:
            settings["linear"], found = self.base.state()
            arrays |= {f"linear.{name}": array for name, array in found.items()}
        return settings, arrays

    @classmethod
    def from_state(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedListwise:
        """The scorer of a model file; anything out of place raises `ModelFormatError`."""
        kernels, n_features = settings.get("kernels"), settings.get("n_features")
        if not isinstance(kernels, list) or not all(isinstance(kernel, str) for kernel in kernels):
            raise ModelFormatError("A listwise scorer needs a list of kernels.")
        if not isinstance(n_features, int) or n_features < 1:
            raise ModelFormatError(f"A listwise scorer needs a number of features; the file has {n_features!r}.")
        weights, constants = (_finite(arrays, name) for name in ("weights", "constants"))
        if constants.ndim != 1 or weights.shape != (len(constants), len(kernels)) or not len(constants):
            raise ModelFormatError("A listwise scorer needs a weight for every term and kernel.")
        for name in ("tau", "l2"):
            value = settings.get(name)
            if not isinstance(value, int | float) or not np.isfinite(value) or value < 0:
                raise ModelFormatError(f"A listwise scorer needs {name!r} as a number of at least 0.")
        try:
            checked = check_kernels(kernels) or ()
            normalise = check_normalisation(settings.get("normalise"))
        except (SettingError, TypeError) as error:
            raise ModelFormatError(f"A listwise scorer has settings that are not allowed: {error}") from error
        linear = None
        if "linear" in settings:
            found = {n.removeprefix("linear."): a for n, a in arrays.items() if n.startswith("linear.")}
            linear = FittedLinear.from_state(dict(settings["linear"]), found)
            if linear.n_features != n_features:
                raise ModelFormatError("The linear base of a listwise scorer has another number of features.")
        unit, l2 = float(settings["tau"]), float(settings["l2"])
        return cls(weights, constants, unit, checked, normalise, n_features, l2, linear)


def _finite(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.float64]:
    array = arrays.get(name)
    if array is None or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ModelFormatError(f"A listwise scorer needs finite numbers as {name!r}.")
    return array


def refuse_missing(data: Groups) -> None:
    """NaN among the features has no cosine."""
    if not np.isfinite(data.X.sum(dtype=np.float64)) and np.isnan(data.X).any():
        raise DataError("The features have NaN, which kernels cannot compare; fill them in first.")
