"""Losses of paired comparisons under a link, with and without ties: a thin class for every name."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from luce.checks import number
from luce.errors import SettingError
from luce.losses.base import NOT_WANTED
from luce.losses.pair_kernels import form_of, pairs_of_queries
from luce.losses.pair_plan import Here, Sums
from luce.losses.pair_sums import SmoothPairs
from luce.losses.pair_tables import NO_TABLE
from luce.numerics import links
from luce.types import FloatArray


class PairOptions(TypedDict, total=False):
    """What every loss with a link takes by keyword."""

    exact: bool
    weighting: str
    position_weight: str | Sequence[float] | None


class TieOptions(PairOptions, total=False):
    """And what those with ties take beside."""

    ties: bool
    tie_grades: Sequence[float] | None


class LinkedLoss(SmoothPairs):
    r"""-log P of wins, [Ties] (9), and ties, [Ties] (10), under a link of `luce.numerics.links`.

    A long query is done by panel sums (`luce.numerics.chebyshev`) with a relative error of value and gradient below
    1e-8, where that costs less; pairs of the normal link are read off a table (1e-12). `exact=True` takes every pair by
    itself whatever the length.

    Parameters
    ----------
    value
        The tie parameter on its natural scale; None learns it together with the scores.
    ties
        False takes the model without ties and leaves tied pairs out.
    tie_grades
        Only documents of these grades are tied; None for all.
    exact
        Never use panel sums.
    """

    link: ClassVar[links.Link]

    def __init__(
        self,
        value: float | None,
        *,
        ties: bool = True,
        tie_grades: Sequence[float] | None = None,
        exact: bool = False,
        weighting: str = "all",
        position_weight: str | Sequence[float] | None = None,
    ) -> None:
        super().__init__(weighting=weighting, position_weight=position_weight)
        self.ties = ties
        self.uses_ties = ties
        self.exact = exact
        if value is not None and not ties:
            raise SettingError(f"{self.link.parameter} was given with ties=False; leave one of them out.")
        self._given = value
        self._learned = ties and value is None
        self._t = self.link.unconstrained(self.link.start if value is None else value)
        self.code = self.link.code if ties else self.link.code_without_ties
        if tie_grades is not None:
            if not ties:
                raise SettingError("tie_grades was given with ties=False; leave one of them out.")
            self.tie_grades = tuple(map(float, tie_grades))

    @property
    def settings(self) -> dict[str, Any]:
        """The tie parameter (None while it is learned) and what differs from the defaults."""
        chosen: dict[str, Any] = {self.link.parameter: self._given}
        if not self.ties:
            chosen = {"ties": False}
        return chosen | ({"exact": True} if self.exact else {}) | super().settings

    @property
    def tie_parameter(self) -> float:
        """The tie parameter on its natural scale: given, learned, or the start value."""
        return self.link.natural(self._t) if self._given is None else self._given

    @property
    def parameters(self) -> FloatArray:
        """The unconstrained tie parameter, where it is learned."""
        return np.array([self._t]) if self._learned else NOT_WANTED

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Data without ties drive a learned tie parameter to its lower bound, data with nothing else to the upper."""
        return [self.link.bounds] if self._learned else []

    def with_parameters(self, values: FloatArray) -> Self:
        """The same loss with this value of its unconstrained tie parameter."""
        if len(values) != len(self.parameters):
            raise SettingError(f"{self!r} has {len(self.parameters)} parameters of its own; got {len(values)}.")
        if not self._learned:
            return self
        other = copy.copy(self)
        other._t = float(values[0])
        return other

    def pair_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that the first of two documents wins, given the difference of their scores."""
        return np.exp(self.link.win(difference, self._t, ties=self.ties).value)

    def tie_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that two documents tie, given the difference of their scores."""
        if not self.ties:
            return np.zeros_like(np.asarray(difference, dtype=np.float64))
        return np.exp(self.link.tie(difference, self._t).value)

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """-log P of wins or ties, and its derivatives."""
        at = self.link.tie(d, self._t) if tied else self.link.win(d, self._t, ties=self.ties)
        return -np.stack([at.value, at.d, at.dd, at.t])

    def _table(self, here: Here, longest: int) -> FloatArray:
        return NO_TABLE if self.link.exponential or self.exact else super()._table(here, longest)

    def _pairs(self, table: FloatArray, here: Here, longest: int, sums: Sums) -> None:
        if self.link.exponential:
            pairs_of_queries(form_of(self.code, self._t), *here, longest, *sums)
        elif self.exact:
            sums.values[:] = np.nan
        else:
            super()._pairs(table, here, longest, sums)


class RankNet(LinkedLoss):
    r"""Sum over pairs $i$ better than $j$ of $\log(1 + e^{-(f_i - f_j)})$; tied pairs are left out.

    >>> value, grad = RankNet().value_and_grad([0.0, 0.0], [1, 0])
    >>> round(value, 6), grad.tolist()
    (0.693147, [-0.5, 0.5])
    """

    name = "ranknet"
    link = links.get("rao_kupper")
    costs = (0.9, 100.0, 5_000.0)

    def __init__(self, **options: Unpack[PairOptions]) -> None:
        super().__init__(None, ties=False, **options)

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {key: value for key, value in super().settings.items() if key != "ties"}


class RaoKupper(LinkedLoss):
    r"""Bradley-Terry with ties after Rao and Kupper: [PMOP] (18), [Ties] (5) and [Ties] (6), their losses [Ties] (11).

    $$P(i \succ j) = \frac{\phi_i}{\phi_i + \theta\phi_j}, \quad
      P(i \approx j) = \frac{(\theta^2 - 1)\,\phi_i\phi_j}{(\phi_i + \theta\phi_j)(\theta\phi_i + \phi_j)}$$

    with $\phi = e^f$ and $\theta = 1 + e^\alpha > 1$. `theta=None` learns $\alpha$ with the scores, from $\theta = 2$.
    `ties=False` is $\theta = 1$ without tied pairs, that is `ranknet`. `tie_grades` takes ties from these grades only.

    >>> loss = RaoKupper(theta=3.0)
    >>> value, _ = loss.value_and_grad([0.0, 0.0, 0.0], [1, 0, 0])  # two wins and a tie: 1/4 * 1/4 * 1/2
    >>> round(float(np.exp(-value)), 12)
    0.03125
    """

    name = "rao_kupper"
    link = links.get("rao_kupper")
    costs = (1.1, 100.0, 5_000.0)

    def __init__(self, theta: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(theta, **options)


class BradleyTerry(LinkedLoss):
    r"""Bradley-Terry with ties, by the half-width of the band of ties: `rao_kupper` with $\theta = e^\epsilon$.

    $$P(i \succ j) = F(f_i - f_j - \epsilon), \quad P(i \approx j) = F(f_i - f_j + \epsilon) - F(f_i - f_j - \epsilon)$$

    with F the logistic cdf in [Ties] (2) and [Ties] (3). `epsilon=None` learns $\alpha$,
    $\epsilon = \log(1 + e^\alpha)$, from $\epsilon = \log 2$; `ties=False` is $\epsilon = 0$ without tied pairs.

    >>> labels, scores = [2, 1, 1, 0], [0.4, 0.1, 0.3, -1.0]
    >>> a = BradleyTerry(epsilon=float(np.log(3))).value_and_grad(scores, labels)[0]
    >>> b = RaoKupper(theta=3).value_and_grad(scores, labels)[0]
    >>> abs(a - b) < 1e-12
    True
    """

    name = "bradley_terry"
    link = links.get("bradley_terry")
    costs = RaoKupper.costs

    def __init__(self, epsilon: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(epsilon, **options)


class Davidson(LinkedLoss):
    r"""Bradley-Terry with ties after Davidson: wins, losses and ties in proportion to $\phi_i$, $\phi_j$ and
    $\nu\sqrt{\phi_i\phi_j}$, [PMOP] (19).

    `nu=None` learns $\beta = \log\nu$ with the scores, from $\nu = 1$; `ties=False` (or `nu=0`) is the model without
    ties, that is `ranknet`. `tie_grades` takes ties from these grades only.

    Two settings make chances of scores that were trained otherwise, and training does not see them. `race_scale` times
    the scores are those of Luce's model of the same documents, which says who is in the top k. Most documents have the
    lowest grade, so that two bad ones are tied more often than two good ones: with `tie_level` = (a, b) the tie
    parameter of a pair is $\nu e^{a m + b m^2}$, m the mean of its scores.

    >>> loss = Davidson(nu=2.0)
    >>> loss.pair_probability(0.0).item(), loss.tie_probability(0.0).item()
    (0.25, 0.5)
    """

    name = "davidson"
    link = links.get("davidson")
    costs = (1.1, 100.0, 5_000.0)

    def __init__(
        self,
        nu: float | None = None,
        *,
        race_scale: float = 1.0,
        tie_level: Sequence[float] = (0.0, 0.0),
        **options: Unpack[TieOptions],
    ) -> None:
        if nu == 0:
            nu, options["ties"] = None, False
        super().__init__(nu, **options)
        self.race_scale = number("race_scale", race_scale, above=True)
        self.tie_level = tuple(map(float, tie_level))
        if len(self.tie_level) != 2 or not np.isfinite(self.tie_level).all():
            raise SettingError(f"tie_level is {tie_level!r}; it must be two finite numbers.")

    @property
    def settings(self) -> dict[str, Any]:
        """Those of all links, and what chances take beside where it is not the usual."""
        more = {} if self.race_scale == 1.0 else {"race_scale": self.race_scale}
        return super().settings | more | ({"tie_level": list(self.tie_level)} if any(self.tie_level) else {})

    def chances(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Chances of a tie, of the first and of the second of two documents with these scores."""
        half, level = 0.5 * (first - second), 0.5 * (first + second)
        if not self.ties:
            return np.zeros_like(half), expit(2.0 * half), expit(-2.0 * half)
        tie = self._t + self.tie_level[0] * level + self.tie_level[1] * level**2
        logs = np.stack([tie, half, -half])
        tied, before, after = np.exp(logs - logsumexp(logs, axis=0))
        return tied, before, after


class ThurstoneMosteller(LinkedLoss):
    r"""Paired comparisons with ties and the normal cdf: [Ties] (7), its losses [Ties] (12) and [Ties] (13).

    $$P(i \succ j) = \Phi(f_i - f_j - \epsilon), \quad
      P(i \approx j) = \Phi(f_i - f_j + \epsilon) - \Phi(f_i - f_j - \epsilon)$$

    `epsilon=None` learns $\log\epsilon$ with the scores, from $\epsilon = 0.5$; `ties=False` is $\epsilon = 0$ without
    tied pairs. `tie_grades` takes ties from these grades only.

    >>> loss = ThurstoneMosteller(epsilon=1.0)
    >>> round(loss.tie_probability(0.0).item(), 6)  # within one standard deviation
    0.682689
    """

    name = "thurstone_mosteller"
    link = links.get("thurstone_mosteller")
    panel_width = 5.0

    def __init__(self, epsilon: float | None = None, **options: Unpack[TieOptions]) -> None:
        super().__init__(epsilon, **options)
