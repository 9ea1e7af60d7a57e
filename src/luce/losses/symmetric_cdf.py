"""Paired comparisons with ties under any symmetric cdf, given by the user."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from luce.errors import SettingError, UnknownNameError
from luce.losses.base import NOT_WANTED
from luce.losses.pair_sums import SmoothPairs
from luce.numerics.chebyshev import interpolation_error
from luce.registry import Registry, unknown_name
from luce.types import FloatArray

Function = Callable[[FloatArray], FloatArray]
Terms = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class SymmetricCdf:
    """A cdf F with F(x) = 1 - F(-x), as functions of arrays.

    Parameters
    ----------
    name
        For messages and model files.
    log_cdf, d_log_cdf
        log F and its derivative; finite wherever scores may differ, also deep in the lower tail.
    dd_log_cdf
        Second derivative of log F, used as curvature by boosted trees; None differentiates `d_log_cdf` numerically.
    panel_width
        Width over which log F is resolved by 32 Chebyshev nodes; less where log F bends faster.

    >>> link = SymmetricCdf("mine", lambda x: -np.logaddexp(0, -x), lambda x: 1 / (1 + np.exp(x)))
    >>> float(link.second(np.zeros(1))[0].round(6))
    -0.25
    """

    name: str
    log_cdf: Function
    d_log_cdf: Function
    dd_log_cdf: Function | None = None
    panel_width: float = 4.0

    @classmethod
    def from_cdf(cls, name: str, cdf: Function, pdf: Function, panel_width: float = 4.0) -> SymmetricCdf:
        """From F and its density; good as far down as F does not underflow.

        >>> SymmetricCdf.from_cdf("normal", special.ndtr, lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi)).name
        'normal'
        """
        return cls(name, lambda x: np.log(cdf(x)), lambda x: pdf(x) / cdf(x), None, panel_width)

    def __post_init__(self) -> None:
        x = np.linspace(0.0, 6.0, 25)
        with np.errstate(all="ignore"):
            above, below = self._at(self.log_cdf, x), self._at(self.log_cdf, -x)
            if not np.allclose(np.exp(above) + np.exp(below), 1.0, atol=1e-7):
                raise SettingError(f"The link {self.name!r} is not symmetric: F(x) + F(-x) must be 1 for every x.")
            slope = (self._at(self.log_cdf, x - 3 + 1e-5) - self._at(self.log_cdf, x - 3 - 1e-5)) / 2e-5
            if not np.allclose(slope, self._at(self.d_log_cdf, x - 3), rtol=1e-4, atol=1e-6):
                raise SettingError(f"The link {self.name!r} has a d_log_cdf that is not the derivative of its log_cdf.")
            error = max(interpolation_error(f, self.panel_width) for f in (self.log_cdf, self.d_log_cdf))
        if not error < 1e-9:
            raise SettingError(
                f"The link {self.name!r} is not resolved by panels of width {self.panel_width:g} (error {error:.1e}, "
                "at most 1e-9 is allowed); give a smaller panel_width, or a smooth cdf."
            )

    def register(self) -> Self:
        """Make the link known by its name, in this process: a model file keeps the name only.

        >>> slope = lambda x: 2 * special.expit(-2 * x)
        >>> steep = SymmetricCdf("steep", lambda x: -np.logaddexp(0, -2 * x), slope, panel_width=3.0)
        >>> SymmetricCdfLoss(steep.register().name).link is steep
        True
        """
        _KNOWN.keep(self)
        return self

    def second(self, x: FloatArray) -> FloatArray:
        """Second derivative of log F."""
        if self.dd_log_cdf is not None:
            return self._at(self.dd_log_cdf, x)
        h = 1e-3
        near = self.d_log_cdf(x + h) - self.d_log_cdf(x - h)
        far = self.d_log_cdf(x + 2 * h) - self.d_log_cdf(x - 2 * h)
        return (8.0 * near - far) / (12.0 * h)

    def first(self, x: FloatArray) -> FloatArray:
        """Derivative of log F."""
        return self._at(self.d_log_cdf, x)

    def log(self, x: FloatArray) -> FloatArray:
        """Log F."""
        return self._at(self.log_cdf, x)

    def _at(self, function: Function, x: FloatArray) -> FloatArray:
        values = np.asarray(function(x), dtype=np.float64)
        if values.shape != x.shape:
            raise SettingError(
                f"The link {self.name!r} returned shape {values.shape} for {x.shape}; it must work on arrays."
            )
        if not np.isfinite(values).all():
            where = x[~np.isfinite(values)].flat[0]
            raise SettingError(
                f"The link {self.name!r} is not finite at {where:g}, as far as scores differ; give log_cdf in a form "
                "that does not underflow there."
            )
        return values

    def win(self, d: FloatArray, epsilon: float) -> Terms:
        """-log F(d - epsilon): value, first and second derivative in d, derivative in log epsilon."""
        z = d - epsilon
        first = self.first(z)
        return -self.log(z), -first, -self.second(z), first * epsilon

    def tie(self, d: FloatArray, epsilon: float) -> Terms:
        """-log(F(d + epsilon) - F(d - epsilon)), evaluated at -|d|, with the same derivatives.

        With r = F(a) / F(b) everything is that of log F(b) plus terms in r / (1 - r).
        """
        a, b = -np.abs(d) - epsilon, -np.abs(d) + epsilon
        log_a, log_b = self.log(a), self.log(b)
        at_a, at_b, bend_a, bend_b = self.first(a), self.first(b), self.second(a), self.second(b)
        log_rest = np.log(-np.expm1(log_a - log_b))
        odds = np.exp(log_a - log_b - log_rest)
        gap = at_b - at_a
        first = at_b + odds * gap
        second = bend_b + odds * (bend_b + at_b**2 - bend_a - at_a**2 - 2 * at_b * gap) - (odds * gap) ** 2
        by_epsilon = at_b * (1 + odds) + at_a * odds
        return -(log_b + log_rest), np.where(d > 0, first, -first), -second, -by_epsilon * epsilon


def _logistic(x: FloatArray) -> FloatArray:
    return -np.logaddexp(0.0, -x)


def _normal_slope(x: FloatArray) -> FloatArray:
    result: FloatArray = np.exp(-0.5 * x**2 - 0.5 * math.log(2 * math.pi) - special.log_ndtr(x))
    return result


def _logistic_link() -> SymmetricCdf:
    def bend(x: FloatArray) -> FloatArray:
        result: FloatArray = -special.expit(x) * special.expit(-x)
        return result

    return SymmetricCdf("logistic", _logistic, lambda x: special.expit(-x), bend, 6.0)


def _normal_link() -> SymmetricCdf:
    return SymmetricCdf("normal", special.log_ndtr, _normal_slope, None, 5.0)


_KNOWN = Registry(
    "link",
    {
        "logistic": "luce.losses.symmetric_cdf:_logistic_link",
        "normal": "luce.losses.symmetric_cdf:_normal_link",
    },
    "luce.links",
)


class SymmetricCdfLoss(SmoothPairs):
    r"""Paired comparisons with ties under any symmetric cdf F: [Ties] (2) and [Ties] (3).

    $$P(i \succ j) = F(f_i - f_j - \epsilon), \quad P(i \approx j) = F(f_i - f_j + \epsilon) - F(f_i - f_j - \epsilon)$$

    `link` is a `SymmetricCdf`, or the name "logistic" or "normal". F is called on the differences between Chebyshev
    nodes only, some thousand numbers whatever the data, so a Python function is fast enough. `epsilon=None` learns
    $\log\epsilon$ with the scores, from $\epsilon = 0.5$; `ties=False` is $\epsilon = 0$ without tied pairs.

    >>> labels, scores = [2, 1, 1, 0], [0.4, 0.1, 0.3, -1.0]
    >>> from luce.losses.pairwise import BradleyTerry
    >>> a = SymmetricCdfLoss("logistic", epsilon=0.7).value_and_grad(scores, labels)[0]
    >>> b = BradleyTerry(epsilon=0.7).value_and_grad(scores, labels)[0]
    >>> abs(a - b) < 1e-9 * b
    True
    """

    name = "paired"
    bounds = (-7.0, 5.0)
    """Of log epsilon while it is learned."""

    def __init__(
        self,
        link: str | SymmetricCdf = "logistic",
        *,
        epsilon: float | None = None,
        ties: bool = True,
        tie_grades: Sequence[float] | None = None,
        weighting: str = "all",
        position_weight: str | Sequence[float] | None = None,
    ) -> None:
        super().__init__(weighting=weighting, position_weight=position_weight)
        if isinstance(link, str):
            if link not in _KNOWN:
                raise UnknownNameError(
                    f"{unknown_name('link', link, _KNOWN.names())} A link of your own is known after its register()."
                )
            known = _KNOWN.get(link)
            link = known if isinstance(known, SymmetricCdf) else known()
        if not isinstance(link, SymmetricCdf):
            raise SettingError(f"link must be a luce.losses.SymmetricCdf or a name; got {type(link).__name__}.")
        if epsilon is not None and not (np.isfinite(epsilon) and epsilon > 0):
            raise SettingError(f"paired(epsilon={epsilon}): epsilon must be finite and above 0; or use ties=False.")
        if epsilon is not None and not ties:
            raise SettingError("epsilon was given with ties=False; leave one of them out.")
        if tie_grades is not None and not ties:
            raise SettingError("tie_grades was given with ties=False; leave one of them out.")
        self.link, self.panel_width = link, link.panel_width
        self.ties = ties
        self.uses_ties = ties
        self.tie_grades = None if tie_grades is None else tuple(map(float, tie_grades))
        self._learned = ties and epsilon is None
        self._log_epsilon = math.log(0.5 if epsilon is None else epsilon)

    @property
    def settings(self) -> dict[str, Any]:
        """The name of the link, and what differs from the defaults."""
        chosen: dict[str, Any] = {"link": self.link.name}
        chosen |= {"epsilon": None if self._learned else self.epsilon} if self.ties else {"ties": False}
        return chosen | super().settings

    @property
    def epsilon(self) -> float:
        """Half-width of the band of ties: given, learned, or the start value; 0 without ties."""
        return math.exp(self._log_epsilon) if self.ties else 0.0

    @property
    def parameters(self) -> FloatArray:
        """Log epsilon, where it is learned."""
        return np.array([self._log_epsilon]) if self._learned else NOT_WANTED

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Data without ties drive epsilon to its lower bound."""
        return [self.bounds] if self._learned else []

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with this value of log epsilon."""
        if len(values) != len(self.parameters):
            raise SettingError(f"{self!r} has {len(self.parameters)} parameters of its own; got {len(values)}.")
        if not self._learned:
            return self
        other = copy.copy(self)
        other._log_epsilon = float(values[0])
        return other

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """-log P of wins or ties, and its derivatives."""
        return np.stack((self.link.tie if tied else self.link.win)(d, self.epsilon))
