"""What boards of every kind share, and `Board`: strengths with intervals, ranks, probabilities of wins and draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from luce.aggregate import plots
from luce.aggregate.board.battles import Battles
from luce.aggregate.board.hodge import HodgeParts
from luce.aggregate.board.likelihood import Draws, Model
from luce.aggregate.board.next_battles import NextBattles, next_battles
from luce.aggregate.board.posterior import Posterior, QuasiVariances
from luce.checks import fits_in_memory, number
from luce.errors import DataError, SettingError
from luce.result import Result, Sheet, plain, records
from luce.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Side: TypeAlias = str | Sequence[str]
"""An item, or the members of a team."""
Given: TypeAlias = Mapping[str, float] | None
"""Covariates by name."""


class Effect(NamedTuple):
    """A coefficient or tie parameter with its interval."""

    value: float
    se: float
    lower: float
    upper: float


def of_posterior(name: str) -> Any:
    """What the posterior of a board says."""
    return property(attrgetter(f"posterior.{name}"))


RANKS = ("rank", "rank_lower", "rank_upper", "rank_each_lower", "rank_each_upper")


class Ranked(Result):
    """Items with strengths, errors and rank sets: what boards of battles, of scores and in time have in common."""

    posterior: Posterior
    build: Callable[[dict[str, Any]], Any]
    log_likelihood: float
    level: Any
    title: Any
    shown: ClassVar[tuple[str, ...]] = ("strength", "se", "lower", "upper", *RANKS)
    """The columns of the table behind the names."""

    names: tuple[str, ...] = of_posterior("names")
    """In order of component and strength, best first."""
    strength: FloatArray = of_posterior("strength")
    se: FloatArray = of_posterior("se")
    lower: FloatArray = of_posterior("lower")
    upper: FloatArray = of_posterior("upper")
    rank: IntArray = of_posterior("rank")
    rank_lower: IntArray = of_posterior("sets.lower")
    """The best rank that an item may have, for all items at once; `rank_upper` is the worst."""
    rank_upper: IntArray = of_posterior("sets.upper")
    rank_each_lower: IntArray = of_posterior("sets.each_lower")
    """The best rank that an item may have, for that item by itself and not for all at once; and the worst."""
    rank_each_upper: IntArray = of_posterior("sets.each_upper")
    surely_better: NDArray[np.bool_] = of_posterior("sets.surely_better")
    """(i, j): item j is better than item i beyond doubt, for all pairs at once."""
    component: IntArray = of_posterior("component")
    """Strengths of different components cannot be compared; ranks are within a component."""
    components: list[list[str]] = of_posterior("components")
    """Items that can be compared with each other, the largest component first."""
    covariance: FloatArray = of_posterior("covariance")
    """Of the strengths, in the order of `names` and on the scale of `strength`."""
    tiers: list[list[str]] = of_posterior("tiers")
    """Items cut, within each component, where everything above is surely better than everything below."""
    quasi_variances: QuasiVariances | None = of_posterior("quasi_variances")
    """One variance an item that stands for the errors of all differences; None where there is no such table."""

    @property
    def may_be_best(self) -> list[str]:
        """Items that no other is surely better than."""
        return [name for i, name in enumerate(self.names) if not self.surely_better[i].any()]

    def columns(self) -> dict[str, list[Any]]:
        """One row an item, best first; a list a column."""
        return {"name": list(self.names), **{column: getattr(self, column).tolist() for column in self.shown}}

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants, without NaN: what cannot be told is None."""
        return {
            "table": records(self.columns()),
            "may_be_best": self.may_be_best,
            "tiers": self.tiers,
            "log_likelihood": plain(self.log_likelihood),
            "level": self.level,
            "notes": list(self.notes),
        }

    @cached_property
    def table(self) -> Any:
        """One row an item, as a data frame of the same kind as the input (an Arrow table for a file)."""
        return self.build(self.columns())

    def sheets(self) -> list[Sheet]:
        """The table, with as many decimals as the errors allow."""
        return [Sheet(self.title, self.columns(), decimals([plain(float(se)) for se in self.se]), intervals=True)]

    def differences(self, anchor: str) -> list[dict[str, Any]]:
        """The strength of every item less that of an anchor, with the error of that difference."""
        return self.posterior.differences(anchor)

    def differences_sheet(self, anchor: str) -> Sheet:
        """`differences` as a table."""
        rows = self.differences(anchor)
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        return Sheet(f"less {anchor}", columns, decimals([plain(se) for se in columns["se"]]), intervals=True)

    def quasi_sheet(self) -> Sheet | None:
        """`quasi_variances` as a table, if there are any."""
        quasi = self.quasi_variances
        if quasi is None:
            return None
        title = f"quasi-variances; errors of differences are right to {quasi.worst:.1%}"
        return Sheet(title, {"name": list(self.names), "quasi-variance": [float(q) for q in quasi.values]})


class Battled(Ranked):
    """What boards of battles have in common, whether strengths stay or move: probabilities of wins and draws."""

    model: Model
    effects: Any
    played: Any
    """How many battles every item has, in the order of `names`."""
    outcomes: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    """P(a wins) and P(draw) at differences that are known."""
    _chances: Callable[[Side, Side, float], tuple[float, float]]
    """The same of two sides, with what is added to their difference."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model.name}, {len(self.names)} items, best {self.names[0]!r})"

    def columns(self) -> dict[str, list[Any]]:
        """One row an item, best first; a list a column."""
        whole = bool(np.all(self.played == np.round(self.played)))
        return super().columns() | {"games": (self.played.astype(np.int64) if whole else self.played).tolist()}

    def win_probability(self, a: Side, b: Side, *, side: float = 0.0, covariates: Given = None) -> float:
        """P(a beats b); a and b are names, or lists of the members of teams.

        `side=1` gives a the advantage of its position, `side=-1` gives it to b.
        """
        return self._chances(a, b, self._effect(side, covariates))[0]

    def draw_probability(self, a: Side, b: Side, *, side: float = 0.0, covariates: Given = None) -> float:
        """P(a and b draw); 0 for models without draws."""
        return self._chances(a, b, self._effect(side, covariates))[1]

    def next(self, n: int = 50) -> NextBattles:
        """The n battles that are expected to shorten the rank sets most, with what is expected of them."""
        chances = None if self.model.family == "hodge" else self.outcomes
        return next_battles(self.posterior, self.played, chances, n)

    def _effect(self, side: float, covariates: Given) -> float:
        """What the position and covariates add to the difference of two sides."""
        given = dict(covariates or {}) | ({"side": side} if number("side", side, -math.inf) else {})
        total = 0.0
        for name, value in given.items():
            if name not in self.effects:
                raise SettingError(f"This leaderboard has no effect {name!r}; it has {sorted(self.effects) or 'none'}.")
            effect = self.effects[name]
            total += number(name, value, -math.inf) * (effect.value if isinstance(effect, Effect) else effect)
        return total


@dataclass(frozen=True, eq=False, repr=False)
class Board(Battled):
    """What `luce.aggregate.leaderboard` returns. Items are in order of component and strength, best first.

    Attributes
    ----------
    names, strength, se, lower, upper, rank, rank_lower, rank_upper, rank_each_lower, rank_each_upper, games
        The columns of `table`, as arrays; on the scale that was asked for.
    effects
        Side effect and covariates by name, on the scale of the linear predictor.
    tie
        The tie parameter (theta, nu or epsilon), or None where draws are not modelled.
    weights
        How much every item weighs in the mean of its component that the strengths are centred at.
    separated
        Items without a finite estimate, and where they stand against the others: "below", "above" or "apart".
    draws
        (draws, items) bootstrap estimates, or None.
    hodge
        Shares of strengths and cycles, for the model `hodge`.
    notes
        What the user should know: a prior that was needed, components, draws that were left out.
    """

    model: Model
    posterior: Posterior
    games: FloatArray
    logits: FloatArray
    """Strengths on the scale of the linear predictor, not shifted by an anchor."""
    weights: FloatArray
    log_likelihood: float
    n_parameters: int
    n_battles: float
    treatment: Draws
    separated: Mapping[str, str] = field(default_factory=dict)
    t: float = 0.0
    """The tie parameter on its unconstrained scale."""
    tie: Effect | None = None
    effects: Mapping[str, Effect] = field(default_factory=dict)
    draws: FloatArray | None = None
    hodge: HodgeParts | None = None
    prior: float = 0.0
    errors: str = "sandwich"
    iterations: int = 0
    converged: bool = True
    notes: tuple[str, ...] = ()
    kept: Battles | None = field(default=None, repr=False)
    """The battles, where a file of the board can be updated."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings that an update takes over."""
    build: Callable[[dict[str, Any]], Any] = field(default=dict, repr=False)
    level = of_posterior("level")
    played = property(attrgetter("games"))

    @property
    def title(self) -> str:
        """Model, results and intervals."""
        likelihood = "" if self.model.family == "hodge" else f", log-likelihood {self.log_likelihood:.4f}"
        level = f"{self.level:.0%} intervals ({self.errors})"
        return f"{self.model.name}, {self.n_battles:,.0f} results{likelihood}, {level}"

    def sheets(self) -> list[Sheet]:
        """The table; with the number of the component where there are several."""
        (sheet,) = super().sheets()
        if self.component.max() == 0:
            return [sheet]
        return [sheet._replace(columns={"component": (self.component + 1).tolist(), **sheet.columns})]

    @property
    def lines(self) -> list[str]:
        """Effects, the tie parameter, and how much is cyclic."""
        beside = dict(self.effects) | ({} if self.tie is None else {self._tie_name: self.tie})
        said = [f"{n} {e.value:.4f} (se {e.se:.4f}, {e.lower:.4f} to {e.upper:.4f})" for n, e in beside.items()]
        if self.hodge is not None:
            cycles = "" if self.hodge.curl is None else f" (three-cycles {self.hodge.curl:.1%})"
            said.append(
                f"Explained by the strengths: {self.hodge.gradient:.1%}; cyclic: {self.hodge.cyclic:.1%}{cycles}"
            )
        return said

    @property
    def aic(self) -> float:
        """Akaike's criterion, smaller is better."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    def _side(self, side: Side) -> tuple[float, int]:
        members = [self.posterior.index(m) for m in ([side] if isinstance(side, str) else side)]
        if not members:
            raise DataError("A side without members was given; it needs at least one.")
        if len({int(self.component[m]) for m in members}) > 1:
            raise DataError("The members of a side are of different components, so their strengths cannot be added.")
        return float(np.sum(self.logits[members])), int(self.component[members[0]])

    def _chances(self, a: Side, b: Side, effect: float) -> tuple[float, float]:
        (of_a, component_a), (of_b, component_b) = self._side(a), self._side(b)
        if component_a != component_b:
            raise DataError(f"{a!r} and {b!r} are not linked by any chain of battles, so no probability can be given.")
        win, draw = self.outcomes(np.array([of_a - of_b + effect]))
        return float(win[0]), float(draw[0])

    def outcomes(self, d: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(a wins) and P(draw) at a difference that is known."""
        return self.model.chances(d, self.t, self.treatment == "model")

    def win_matrix(self) -> FloatArray:
        """P(row beats column), in the order of `names`; NaN on the diagonal and between components."""
        return self._matrix(0)

    def draw_matrix(self) -> FloatArray:
        """P(row and column draw), in the order of `names`; NaN on the diagonal and between components."""
        return self._matrix(1)

    def _matrix(self, outcome: int) -> FloatArray:
        n = len(self.logits)
        fits_in_memory(24.0 * n**2, f"A matrix of {n:,} items", "ask for pairs of items by name")
        d = self.logits[:, None] - self.logits[None, :]
        result = self.outcomes(d.ravel())[outcome].reshape(d.shape)
        result[self.component[:, None] != self.component[None, :]] = np.nan
        np.fill_diagonal(result, np.nan)
        return result

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants."""
        return super().as_dict() | {
            "model": self.model.name,
            "tie": None if self.tie is None else {"name": self._tie_name, **plain(self.tie._asdict())},
            "effects": {name: plain(effect._asdict()) for name, effect in self.effects.items()},
            "components": self.components,
            "separated": dict(self.separated),
            "aic": plain(self.aic),
            "battles": plain(self.n_battles),
            "prior": self.prior,
            "errors": self.errors,
            "iterations": self.iterations,
            "converged": self.converged,
            "hodge": None if self.hodge is None else vars(self.hodge) | {"triangles": self.triangles},
        }

    @property
    def _tie_name(self) -> str:
        return "" if self.model.link is None else self.model.link.parameter

    @property
    def triangles(self) -> list[tuple[str, str, str, float]]:
        """The most cyclic triples of the model `hodge`: each does better than it should against the next."""
        found = () if self.hodge is None else self.hodge.triangles
        return [(self.names[i], self.names[j], self.names[k], curl) for i, j, k, curl in found]

    def plot(self, path: str | Path | None = None, *, top: int | None = None) -> Figure:
        """Strengths with their intervals as a figure; written where a path is given, its ending says how."""
        return plots.plot_board(self, path, top=top)

    def plot_win_matrix(self, path: str | Path | None = None, *, top: int | None = None) -> Figure:
        """P(row beats column) as a heat map; written where a path is given, its ending says how."""
        return plots.plot_win_matrix(self, path, top=top)


def decimals(errors: Sequence[float | None]) -> int:
    """Decimals that say something: the first one or two of a typical standard error; none for Elo points.

    >>> decimals([14.2, 13.1, None]), decimals([1.9]), decimals([0.08]), decimals([0.3])
    (0, 1, 3, 2)
    """
    known = [se for se in errors if se is not None and 0.0 < se < np.inf]
    typical = float(np.median(known)) if known else 0.1
    return min(4, max(0, 1 + math.ceil(-math.log10(max(typical, 1e-4)))))
