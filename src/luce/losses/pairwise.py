"""Losses of paired comparisons under a link, with and without ties: a thin class for every name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from luce.errors import SettingError
from luce.losses.base import NOT_WANTED
from luce.losses.chances import PairProbabilities, TopKChances, exact_pairs
from luce.losses.pair_kernels import LONG, REACH, Costs, Form, pair_table, pairs_by_table, pairs_of_queries, panel_sums
from luce.losses.pairs import Here, PairLoss, Sums, grades
from luce.numerics import links
from luce.numerics.chebyshev import interpolation_error
from luce.registry import canonical, unknown_name
from luce.spec import option
from luce.types import FloatArray


class LinkedLoss(PairLoss):
    r"""-log P of wins, [Ties] (9), and ties, [Ties] (10), under a smooth link.

    A long query is done by panel sums (`luce.numerics.chebyshev`) with a relative error of value and gradient below
    1e-8, where that costs less; pairs of the normal link are read off a table (1e-12). `exact=True` takes every pair by
    itself whatever the length.

    Parameters
    ----------
    exact
        Never use panel sums.
    """

    form = Form()
    """The link, where it is one of exponentials."""
    panel_width = 6.0
    """Width of a panel: less where the loss has singularities nearer to the real line."""
    costs: ClassVar[Costs] = (20.0, 100.0, 5_000.0)
    """Nanoseconds a pair, a document in panels, a panel: measured, see benchmarks/bench_pairwise.py."""

    _: KW_ONLY
    exact: bool = False

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """-log P of wins or ties, and its derivatives."""
        return self.form.terms(d, tied)

    def pair_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that the first of two documents wins, given the difference of their scores."""
        return np.asarray(np.exp(-self.terms(np.asarray(difference, dtype=np.float64), False)[0]))

    def tie_probability(self, difference: ArrayLike) -> FloatArray:
        """Probability that two documents tie, given the difference of their scores."""
        d = np.asarray(difference, dtype=np.float64)
        return np.exp(-self.terms(d, True)[0]) if self.ties else np.zeros_like(d)

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """In closed form."""
        difference = scores[:, None] - scores[None, :]
        return exact_pairs(self.tie_probability(difference), self.pair_probability(difference))

    def run_pairs(self, here: Here, sums: Sums) -> None:
        """Short groups pair by pair, long ones by panels where these cost less."""
        sizes = np.diff(here.starts[here.queries])
        longest = int(sizes.max(initial=0)) if self.exact else LONG
        self._pairs(here, longest, sums)

        def alone(part: Here, found: Sums) -> None:
            self._pairs(part, len(part.f), found)
            if np.isnan(found.values[0]):
                self.by_terms(part, found)

        for q in np.flatnonzero(np.isnan(sums.values) | (sizes > longest)):
            edges = here.starts[here.queries[q] : here.queries[q + 1] + 1]
            part, found = here.part(edges, ties=True), sums.part(int(q), slice(edges[0], edges[-1]))
            if sizes[q] <= longest:
                self.by_terms(part, found)
            else:
                panel_sums(part, self.terms, alone, self.panel_width, self.costs, found)

    def _pairs(self, here: Here, longest: int, sums: Sums) -> None:
        """The pairs of queries of at most `longest` documents; NaN where their scores are too far apart."""
        pairs_of_queries(self.form, here, longest, sums)


class TiedLoss(LinkedLoss):
    """A link with ties, whose parameter, on its natural scale, is learned together with the scores where it is None.

    Parameters
    ----------
    ties
        False takes the model without ties and leaves tied pairs out.
    tie_grades
        Only documents of these grades are tied; None for all.
    """

    model = links.get("rao_kupper")
    """The tie parameter: its name, its scales and its bounds."""

    _: KW_ONLY
    ties: bool = True
    tie_grades: tuple[float, ...] | None = option(default=None, convert=grades, needs="ties")

    def _check(self) -> None:
        self.take(np.array([self.model.unconstrained(self.model.start if self._given is None else self._given)]))

    @property
    def _given(self) -> float | None:
        return getattr(self, self.model.parameter, None)

    @property
    def _learned(self) -> bool:
        return self.ties and self._given is None

    @property
    def tie_parameter(self) -> float:
        """The tie parameter on its natural scale: given, learned, or the start value."""
        return self.model.natural(self._t) if self._given is None else self._given

    @property
    def parameters(self) -> FloatArray:
        """The unconstrained tie parameter, where it is learned."""
        return np.array([self._t]) if self._learned else NOT_WANTED

    @property
    def parameter_bounds(self) -> list[tuple[float, float]]:
        """Data without ties drive a learned tie parameter to its lower bound, data with nothing else to the upper."""
        return [self.model.bounds] if self._learned else []

    def take(self, values: FloatArray) -> None:
        """The unconstrained tie parameter."""
        self._t = float(values[0])
        if self.ties:
            self.form = self.form_at(self._t)

    def form_at(self, t: float) -> Form:
        """The link at this unconstrained tie parameter, where it is one of exponentials."""
        return self.form


class TabledLoss(TiedLoss):
    """Losses under links that are no exponentials: pairs are read off a table of polynomials."""

    _kept: tuple[bytes, float, FloatArray] | None = field(default=None, init=False)
    """The last table, with the parameters that it is of and how far it reaches: all chunks of a pass read the same."""

    def _pairs(self, here: Here, longest: int, sums: Sums) -> None:
        if self.exact:
            self.by_terms(here, sums)
        else:
            pairs_by_table(self._table(here, longest), self.panel_width, here, longest, sums)

    def terms(self, d: FloatArray, tied: bool) -> FloatArray:
        """By the functions of the link."""
        at = self.model.tie(d, self._t) if tied else self.model.win(d, self._t, ties=self.ties)
        return -np.stack([at.value, at.d, at.dd, at.t])

    def _table(self, here: Here, longest: int) -> FloatArray:
        """What all pairs of these queries are read off, those of longer queries so far as a table reaches."""
        edges, most = here.starts[here.queries], REACH * self.panel_width
        spans = np.maximum.reduceat(here.f, edges[:-1]) - np.minimum.reduceat(here.f, edges[:-1])
        spans = np.where(np.diff(edges) > longest, np.minimum(spans, most), spans)
        span, key, kept = float(spans[spans <= most].max(initial=0.0)), self.parameters.tobytes(), self._kept
        if kept is None or kept[0] != key or kept[1] < span:
            table = pair_table(self.terms, span, self.panel_width, self.uses_ties)
            vars(self)["_kept"] = kept = (key, span, table)
        return kept[2]


class RankNet(LinkedLoss):
    r"""Sum over pairs $i$ better than $j$ of $\log(1 + e^{-(f_i - f_j)})$; tied pairs are left out.

    >>> value, grad = RankNet().value_and_grad([0.0, 0.0], [1, 0])
    >>> round(value, 6), grad.tolist()
    (0.693147, [-0.5, 0.5])
    """

    name = "ranknet"
    costs = (0.9, 100.0, 5_000.0)


class RaoKupper(TiedLoss):
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
    costs = (1.1, 100.0, 5_000.0)

    theta: float | None = option(default=None, needs="ties")

    def form_at(self, t: float) -> Form:
        """With epsilon = log theta as the width of the band."""
        width, slope = float(np.logaddexp(0.0, t)), float(special.expit(t))
        theta, constant = math.exp(width), math.log(-math.expm1(-2.0 * width))  # of 1 - 1 / theta^2
        by_theta = (theta - 1.0 / theta) * slope
        by_t = (-slope, 0.0, by_theta, slope - 1.0 - float(special.expit(t - math.log(2.0))))
        return Form(1.0, width, (1.0, 0.0), (theta + 1.0 / theta, 1.0), -(constant + width), by_t)


class BradleyTerry(TiedLoss):
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
    model = links.get("bradley_terry")
    costs = RaoKupper.costs
    form_at = RaoKupper.form_at

    epsilon: float | None = option(default=None, needs="ties")


def _two_numbers(name: str, given: Any) -> tuple[float, ...]:
    found = grades(name, given)
    if len(found) != 2 or not np.isfinite(found).all():
        raise SettingError(f"{name} is {given!r}; it must be two finite numbers.")
    return found


class Davidson(TiedLoss):
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
    model = links.get("davidson")
    costs = (1.1, 100.0, 5_000.0)

    nu: float | None = option(default=None, needs="ties")
    _: KW_ONLY
    race_scale: float = option(default=1.0, above=0)
    tie_level: tuple[float, ...] = option(default=(0.0, 0.0), convert=_two_numbers)

    def __post_init__(self) -> None:
        if self.nu == 0:
            vars(self).update(nu=None, ties=False)
        super().__post_init__()

    def form_at(self, t: float) -> Form:
        """Halves of the difference; a tie has the weight nu."""
        nu = math.exp(t)
        return Form(0.5, 0.0, (nu, 1.0), (nu, 1.0), -t, (0.0, nu, nu, -1.0))

    def chances(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Chances of a tie, of the first and of the second of two documents with these scores."""
        half, level = 0.5 * (first - second), 0.5 * (first + second)
        if not self.ties:
            return np.zeros_like(half), special.expit(2.0 * half), special.expit(-2.0 * half)
        tie = self._t + self.tie_level[0] * level + self.tie_level[1] * level**2
        logs = np.stack([tie, half, -half])
        tied, before, after = np.exp(logs - special.logsumexp(logs, axis=0))
        return tied, before, after

    def pair_chances(
        self, scores: FloatArray, rng: np.random.Generator, samples: int, sizes: Any = None
    ) -> PairProbabilities:
        """With ties that may depend on the level of the pair."""
        return exact_pairs(*self.chances(scores[:, None], scores[None, :])[:2])

    def top_chances(self, scores: FloatArray, k: int, rng: np.random.Generator, draws: int) -> TopKChances:
        """Those of a race of scores by `race_scale`."""
        from luce.losses.plackett_luce import race_to_top  # only those who ask for the top need races

        return race_to_top(scores * self.race_scale, k)


class ThurstoneMosteller(TabledLoss):
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
    model = links.get("thurstone_mosteller")
    panel_width = 5.0

    epsilon: float | None = option(default=None, needs="ties")


Function = Callable[[FloatArray], Sequence[FloatArray]]
"""From differences to log F, its derivative and, if it likes, its second derivative."""
_WIDTHS = (6.0, 5.0, 4.0, 3.0, 2.0, 1.5, 1.0, 0.5)
"""Of panels, the widest of which that resolves a link is taken."""


def _logistic(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return -np.logaddexp(0.0, -x), special.expit(-x), -special.expit(x) * special.expit(-x)


def _normal(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    log_cdf = special.log_ndtr(x)
    return log_cdf, np.exp(-0.5 * x**2 - 0.5 * math.log(2 * math.pi) - log_cdf)


_NAMED: dict[str, Function] = {"logistic": _logistic, "normal": _normal}


@dataclass(frozen=True)
class SymmetricLink(links.Link):
    """Wins and ties under any cdf F with F(x) = 1 - F(-x), [Ties] (2) and [Ties] (3), given as a function."""

    function: Function = _logistic
    width: float = 6.0

    @classmethod
    def of(cls, function: Function) -> SymmetricLink:
        """The link of a function, which is checked: symmetry, the derivative, and how wide panels may be."""
        made = cls("paired", -1, -1, "epsilon", 0.0, 0.5, (-7.0, 5.0), function=function)
        x = np.linspace(0.0, 6.0, 25)
        with np.errstate(all="ignore"):
            if not np.allclose(np.exp(made.at(x)[0]) + np.exp(made.at(-x)[0]), 1.0, atol=1e-7):
                raise SettingError(f"{made.said} is not symmetric: F(x) + F(-x) must be 1 for every x.")
            slope = (made.at(x - 3 + 1e-5)[0] - made.at(x - 3 - 1e-5)[0]) / 2e-5
            if not np.allclose(slope, made.at(x - 3)[1], rtol=1e-4, atol=1e-6):
                raise SettingError(f"{made.said} gives as the second what is not the derivative of its log F.")
            for width in _WIDTHS:
                error = max(interpolation_error(lambda d, k=k: made.at(d)[k], width) for k in (0, 1))  # type: ignore[misc]
                if error < 1e-9:
                    return replace(made, width=width)
        raise SettingError(
            f"{made.said} is not resolved by panels of any width (error {error:.1e} at {width:g}, at most 1e-9 is "
            "allowed); give a smooth cdf."
        )

    @property
    def said(self) -> str:
        """How errors call it."""
        return f"The link {getattr(self.function, '__name__', type(self.function).__name__)!r}"

    def at(self, x: FloatArray) -> list[FloatArray]:
        """Log F and its first two derivatives; the last by differences where the function has none."""
        found = self._checked(x)
        if len(found) == 2:
            h = 1e-3
            near, far = (self._checked(x + k * h)[1] - self._checked(x - k * h)[1] for k in (1, 2))
            found.append((8.0 * near - far) / (12.0 * h))
        return found

    def _checked(self, x: FloatArray) -> list[FloatArray]:
        found = [np.asarray(values, dtype=np.float64) for values in self.function(x)]
        if len(found) not in (2, 3) or any(values.shape != x.shape for values in found):
            shapes = [values.shape for values in found]
            raise SettingError(
                f"{self.said} returned shapes {shapes} for {x.shape}; it must work on arrays, and give log F, its "
                "derivative and, if it likes, its second derivative."
            )
        bad = ~np.isfinite(found).all(axis=0)
        if bad.any():
            raise SettingError(
                f"{self.said} is not finite at {x[bad].flat[0]:g}, as far as scores differ; give log F in a form that "
                "does not underflow there."
            )
        return found

    def win(self, d: ArrayLike, t: float = 0.0, *, ties: bool = True) -> links.Terms:
        """Log F(d - epsilon)."""
        epsilon = math.exp(t) if ties else 0.0
        value, first, second = self.at(np.asarray(d, dtype=np.float64) - epsilon)
        by_t = -first * epsilon
        return links.Terms(value, first, second, by_t, second * epsilon**2 + by_t, -second * epsilon)

    def tie(self, d: ArrayLike, t: float) -> links.Terms:
        """Log(F(d + epsilon) - F(d - epsilon)), evaluated at -|d|; second derivatives in t are left out.

        With r = F(a) / F(b) everything is that of log F(b) plus terms in r / (1 - r).
        """
        at, epsilon = np.asarray(d, dtype=np.float64), math.exp(t)
        (log_a, at_a, bend_a), (log_b, at_b, bend_b) = (self.at(-np.abs(at) + side * epsilon) for side in (-1, 1))
        log_rest = np.log(-np.expm1(log_a - log_b))
        odds = np.exp(log_a - log_b - log_rest)
        gap = at_b - at_a
        first = at_b + odds * gap
        second = bend_b + odds * (bend_b + at_b**2 - bend_a - at_a**2 - 2 * at_b * gap) - (odds * gap) ** 2
        by_t, unknown = (at_b * (1 + odds) + at_a * odds) * epsilon, np.full_like(first, np.nan)
        return links.Terms(log_b + log_rest, np.where(at > 0, -first, first), second, by_t, unknown, unknown)


class Paired(TabledLoss):
    r"""Paired comparisons with ties under any symmetric cdf F: [Ties] (2) and [Ties] (3).

    $$P(i \succ j) = F(f_i - f_j - \epsilon), \quad P(i \approx j) = F(f_i - f_j + \epsilon) - F(f_i - f_j - \epsilon)$$

    `link` is "logistic", "normal", or a function of your own from an array to log F, its derivative and, if it likes,
    its second derivative. It is called on the differences between Chebyshev nodes only, some thousand numbers whatever
    the data, so a Python function is fast enough. `epsilon=None` learns $\log\epsilon$ with the scores, from
    $\epsilon = 0.5$; `ties=False` is $\epsilon = 0$ without tied pairs.

    >>> labels, scores = [2, 1, 1, 0], [0.4, 0.1, 0.3, -1.0]
    >>> a = Paired("logistic", epsilon=0.7).value_and_grad(scores, labels)[0]
    >>> b = BradleyTerry(epsilon=0.7).value_and_grad(scores, labels)[0]
    >>> abs(a - b) < 1e-9 * b
    True
    """

    name = "paired"

    link: Any = "logistic"
    _: KW_ONLY
    epsilon: float | None = option(default=None, needs="ties")

    def _check(self) -> None:
        function = _NAMED.get(canonical(self.link)) if isinstance(self.link, str) else self.link
        if function is None:
            raise unknown_name("link", str(self.link), _NAMED)
        if not callable(function):
            raise SettingError(f"link is {self.link!r}; it must be one of {', '.join(_NAMED)}, or a function.")
        self.model = made = SymmetricLink.of(function)
        self.panel_width = made.width
        super()._check()
