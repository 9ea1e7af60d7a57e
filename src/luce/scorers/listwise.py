r"""The listwise scorer: reranks the scores of a base ranker by what the other documents of the query are like.

$$f_i(x) = \sum_t b(x_i; v_t) \exp\Bigl(\sum_k w_{tk} \sum_{j \ne i} S_k(x_i, x_j; \theta_t)\Bigr)$$

Each term is a product over the other documents, [Pareek] (2.1) and [Pareek] (2.8), with a base of its own:
$b(x; v_t) = \exp(v_{t0} + p_t\, \text{base} / \tau + v_t \cdot x)$, where the first term has the base as it is, and
$\tau$ is the standard deviation of the base scores in training. Scores are $\tau \log f$, up to a number a query, so
that $w = 0$ gives those of the base, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from luce.data.groups import Groups
from luce.errors import ModelFormatError, SettingError
from luce.numerics.segments import centred
from luce.scorers.kernel_sums import (
    FittedReranker,
    Kernel,
    Normalisation,
    check_kernels,
    kernel_name,
    kernel_sums,
    learned_kernels,
    refuse_functions,
)
from luce.scorers.linear import FittedLinear
from luce.scorers.saved import array, counted_features, standing_on
from luce.spec import Spec, option
from luce.types import FloatArray

L2_GRID = (0.0, 1e-5, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3)


def checked_grid(name: str, penalties: Any) -> tuple[float, ...]:
    """Penalties among which validation data choose."""
    given = tuple(penalties) if isinstance(penalties, Iterable) and not isinstance(penalties, str) else ()
    if not given or not all(isinstance(value, int | float) and 0 <= value < np.inf for value in given):
        raise SettingError(f"{name} is {penalties!r}; it must list numbers of at least 0.")
    return tuple(float(value) for value in given)


class ListwiseScorer(Spec):
    """Settings of the reranker.

    Parameters
    ----------
    kernels
        Kernels, a list or a text with commas: `cosine` of the features; `relation:NAME`, a relation of the data, from a
        document to others, and `relation:NAME:in` from others to it; or a function that takes the features of the
        documents of a query, (m, F), and gives the matrix of all pairs, (m, m). `gaussian`, and a
        `luce.scorers.LearnedKernel` of your own, have parameters that are learned for each term. None: the cosine and
        all relations.
    normalise
        Features within queries before a kernel sees them: "minmax", "zscore" or None.
    terms
        Terms of the sum at the most; each is fitted on top of those before it.
    term_base
        The base of terms after the first: "linear", the base to a power that is learned, times the exponential of a
        linear function of the features that is fitted for the term; "power", without the latter; "same", the base.
    scale
        What the loss sees: the "log" of f, or f itself, the "product"; each to a power and times a constant that are
        learned. "auto" takes the log for losses that only see differences of scores and for `ndcg_cross_entropy`,
        whose scores are logs of gains, and the product for others.
    l2_grid
        Penalties among which validation data choose; without such data, `l2` of the trainer is taken.
    """

    kernels: tuple[Kernel, ...] | None = option(default=None, convert=check_kernels)
    normalise: Normalisation = "minmax"
    terms: int = option(default=1, least=1)
    scale: Literal["auto", "log", "product"] = "auto"
    l2_grid: Any = option(default=L2_GRID, convert=checked_grid)
    term_base: Literal["linear", "power", "same"] = option(
        default="linear", needs=(lambda own: own.terms > 1, "terms above 1")
    )

    name = "listwise"
    trainer = "reranking"


class FittedListwise(FittedReranker):
    """`weights` has a row a term and a column a kernel, `constants` an entry a term, `tau` is the unit of the base."""

    weights: FloatArray = array("terms", "kernels")
    constants: FloatArray = array("terms")
    tau: float = option(least=0)
    kernels: tuple[Kernel, ...] = option(convert=check_kernels)
    normalise: Normalisation
    n_features: int = counted_features()
    l2: float = option(least=0)
    base: FittedLinear | None = standing_on()
    """The base ranker where none was given: linear, trained on `listnet`."""
    powers: FloatArray | None = array("terms", default=None)
    """The power of the base in every term; None: 1."""
    slopes: FloatArray | None = array("terms", "features", default=None)
    """The linear function of the features in the base of every term, a row each; None: none."""
    shapes: FloatArray | None = array("terms", "any", default=None)
    """The parameters of learned kernels, a row a term; None: there are none."""

    name = "listwise"

    def score_groups(self, data: Groups, base: FloatArray | None) -> FloatArray:
        """Tau times the log of [Pareek] (2.20), summed over terms, [Pareek] (2.8).

        All f of a query are divided by the geometric mean of f / b there. That changes no ranking, and for one term it
        is to centre the kernel sums. To centre those of several terms would divide each by another number.
        """
        base = self.base_scores(data, base)
        again = self.powers is not None and bool((self.powers != 1.0).any())
        if not (self.weights.any() or again or (self.slopes is not None and self.slopes.any())):
            return base  # as it is to the bit: no document is moved
        logs = np.column_stack([self._log_term(t, data, base) for t in range(len(self.constants))])
        return base + self.tau * centred(logsumexp(logs, axis=1), data.offsets)

    def _log_term(self, t: int, data: Groups, base: FloatArray) -> FloatArray:
        """The log of a term over that of the base."""
        sums = kernel_sums(data, self.kernels, self.normalise, None if self.shapes is None else self.shapes[t])
        total = sums @ self.weights[t] + self.constants[t]
        if self.powers is not None and self.powers[t] != 1.0:
            total = total + (self.powers[t] - 1.0) / self.tau * base
        if self.slopes is not None and self.slopes[t].any():
            total = total + data.X @ self.slopes[t]
        return np.asarray(total)

    def kernel_table(self) -> list[dict[str, Any]]:
        """A row a term: its constant and the weight of every kernel; the power of the base and learned parameters."""
        names = [kernel_name(kernel) for kernel in self.kernels]
        rows = []
        for t, (v, w) in enumerate(zip(self.constants, self.weights, strict=True)):
            row = {"constant": float(v), **dict(zip(names, map(float, w), strict=True))}
            if self.powers is not None:
                row["power"] = float(self.powers[t])
            learned = [k for k in learned_kernels(self.kernels) if k is not None]
            labels = [f"{k.name}[{i}]" for k in learned for i in range(len(k.start))]
            rows.append(
                row | dict(zip(labels, [] if self.shapes is None else map(float, self.shapes[t]), strict=False))
            )
        return rows

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays for a model file; a function as a kernel cannot be kept."""
        refuse_functions(self.kernels)
        return super().state()

    def _check(self) -> None:
        if not len(self.constants):
            raise ModelFormatError("A listwise scorer needs at least one term.")
        if self.weights.shape[1] != len(self.kernels):
            raise ModelFormatError(f"A listwise scorer needs a weight for each of its {len(self.kernels)} kernels.")
        width = sum(len(kernel.start) for kernel in learned_kernels(self.kernels) if kernel is not None)
        if width != (0 if self.shapes is None else self.shapes.shape[1]):
            raise ModelFormatError("A listwise scorer with learned kernels needs their 'shapes'.")
