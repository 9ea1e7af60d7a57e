r"""Positive combinations of convex functions: the losses among which the best surrogate is sought."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from luce.checks import heard, number, one_of, whole
from luce.errors import SettingError
from luce.losses.base import Outputs
from luce.losses.convex_functions import Psi, by_names, conjugates
from luce.losses.gains import NormalisedGains
from luce.losses.mix_kernel import mixtures, one_by_one
from luce.losses.ndcg import BETA, NDCGLoss, cross_entropies, q_norms, squares
from luce.types import FloatArray

DICTIONARY = ("cross_entropy", "square", "qnorm")
"""The chapter's functions, in the order of `alpha`."""
SEARCHES, FITS = ("pattern", "grid"), ("converged", "stopped")
_NEGLIGIBLE = 1e-10
"""Weights below this share of the largest count as 0."""

_FEW = 1 << 14
"""Documents up to which queries are solved one by one: many at once take two thirds of the time, and six seconds more
to compile."""


class NDCGMix(NDCGLoss):
    r"""$\psi = \sum_i \alpha_i \psi_i$ with $\alpha \ge 0$: entropy, square and q-norm, or functions of your own.

    The conjugate of a sum is not the sum of the conjugates: $\nabla\psi^*(s)$ is the x with
    $\sum_i \alpha_i \nabla\psi_i(x) = s$, found for every query by Newton's method. With one weight above 0 the loss is
    that of the function alone (Section 3.5).

    Parameters
    ----------
    alpha
        One weight a function, not all 0. None lets training choose them (`luce.model("best-surrogate")`): it fits for
        one alpha after the other and takes the one that is best in the metric of the ranker on other queries. Outside
        training None means equal weights.
    beta, q
        Those of `ndcg_cross_entropy` and `ndcg_qnorm`; q at least 2.
    dictionary
        The functions: None for cross_entropy, square, qnorm; else a sequence of these names and of `luce.losses.Psi`
        objects, or of the names under which those were registered.
    evaluations
        How many fits the choice of alpha may take.
    search
        How alpha is chosen: "pattern", a pattern search from several starts, or "grid", the finest even grid that has
        no more points than `evaluations`.
    fits
        "converged" fits every alpha to the end, [Pareek] (3.26), so that the queries that judge alpha serve for nothing
        else. "stopped" ends fits early, by a fifth of the training queries that is set apart.
    gain, discount, k, empty, offset, link
        As for `ndcg_cross_entropy`.

    >>> from luce.losses.ndcg import NDCGSquare
    >>> scores, grades = [0.3, -0.2, 0.1], [2, 0, 1]
    >>> mixed, alone = NDCGMix((0, 1, 0)), NDCGSquare()
    >>> mixed.value_and_grad(scores, grades)[0] == alone.value_and_grad(scores, grades)[0]
    True
    """

    name = "ndcg_mix"

    def __init__(
        self,
        alpha: Sequence[float] | None = (1.0, 1.0, 1.0),
        beta: float = BETA,
        q: float | None = None,
        dictionary: Sequence[str | Psi] | None = None,
        evaluations: int = 60,
        search: str = "pattern",
        fits: str = "converged",
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.beta = number("beta", beta, above=True)
        self.q = None if q is None else number("q", q, 2.0)
        self.functions = by_names(DICTIONARY if dictionary is None else dictionary, self.beta)
        self.standard = tuple(psi.name for psi in self.functions) == DICTIONARY
        self.evaluations = whole("evaluations", evaluations, 1)
        self.search, self.fits = one_of("search", search, SEARCHES), one_of("fits", fits, FITS)
        self.chooses_alpha = alpha is None
        choice = {"evaluations": (evaluations, 60), "search": (search, "pattern"), "fits": (fits, "converged")}
        heard(self.name, choice, alpha is None, "alpha=None, which they choose")
        self.alpha = _checked(np.ones(len(self.functions)) if alpha is None else alpha, self.names)

    @property
    def names(self) -> list[str]:
        """The functions by name."""
        return [psi.name for psi in self.functions]

    @property
    def own_settings(self) -> dict[str, Any]:
        """Weights and functions."""
        open_: dict[str, Any] = {"alpha": None, "evaluations": self.evaluations, "search": self.search}
        open_["fits"] = self.fits
        chosen = {"alpha": tuple(self.alpha.tolist())}
        more = {} if self.standard else {"dictionary": tuple(self.names)}
        return {**(open_ if self.chooses_alpha else chosen), "beta": self.beta, "q": self.q, **more}

    @property
    def score_unit(self) -> float:
        """The slope of psi where x is about 1."""
        return float(sum(a * psi.unit for a, psi in zip(self.alpha, self.functions, strict=True)))

    def with_alpha(self, alpha: Sequence[float] | FloatArray) -> Self:
        """The same loss with these weights."""
        other = copy(self)
        other.alpha, other.chooses_alpha = _checked(alpha, self.names), False
        return other

    def run(self, prepared: NormalisedGains, scores: FloatArray, out: Outputs) -> None:
        """By the kernel of the one function that counts, or by that of the mixture."""
        q = 0.0 if self.q is None else self.q
        if not self.standard:
            conjugates(self.functions, self.alpha, q, scores + self.offset, prepared, *out.arrays)
            return
        entropy, square, norm = self.alpha
        common = (scores, *prepared, self.offset)
        if square == 0 and norm == 0:
            cross_entropies(scores, prepared, self.offset, entropy * self.beta, out)
        elif entropy == 0 and norm == 0:
            squares(*common, square, *out.arrays)
        elif entropy == 0 and square == 0:
            q_norms(*common, q, norm, *out.arrays)
        else:
            weights = np.array([entropy * self.beta, 2 * square, 2 * norm])
            out.values[:] = np.nan
            if len(scores) > _FEW:
                mixtures(*common, weights, q, *out.arrays)
            if np.isnan(out.values).any():
                one_by_one(*common, weights, q, *out.arrays)


def _checked(alpha: Any, names: list[str]) -> FloatArray:
    shown = ", ".join(names)
    try:
        weights = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"alpha is {alpha!r}; it must hold {len(names)} weights, of {shown}.") from None
    if weights.shape != (len(names),):
        raise SettingError(f"alpha has shape {weights.shape}; it must hold {len(names)} weights, of {shown}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise SettingError(f"alpha is {weights.tolist()}; weights must be finite and at least 0 ({shown}).")
    if not weights.any():
        raise SettingError(f"alpha is all zero; at least one of {shown} needs a weight above 0.")
    return np.where(weights < _NEGLIGIBLE * weights.max(), 0.0, weights)
