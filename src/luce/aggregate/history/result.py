"""`History`: strengths that move, with their past, their present, and what they foretell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, roots_hermitenorm

from luce.aggregate.board.ids import NO_IDS, KnownIds, ReadIds
from luce.aggregate.board.inference import (
    RankSets,
    centre,
    centre_covariance,
    draw_normal,
    mean_weights,
    rank_sets,
    ranks,
)
from luce.aggregate.board.likelihood import Model
from luce.aggregate.board.result import Ranked
from luce.aggregate.history.walks import Games, Mode, Parameters, Present, filtered
from luce.checks import number
from luce.errors import DataError, SettingError
from luce.result import plain, records
from luce.types import FloatArray, IntArray

COLUMNS = ("name", "strength", "se", "lower", "upper", "rank", "rank_lower", "rank_upper", "games", "last")
_NODES, _WEIGHTS = roots_hermitenorm(15)


class Line(NamedTuple):
    """The strength of one player over time, with an interval."""

    time: FloatArray
    strength: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class History(Ranked):
    """What `luce.aggregate.leaderboard(..., time=)` returns: a board of now, and the way there.

    Strengths are those at the time of the last game of all; who has not played for long has a wider interval. `drift`
    is the standard deviation of a walk after one unit of time (a year for dates), `start` that of a newcomer.
    """

    model: Model
    players: tuple[str, ...]
    """In order of their first game, as in `present` and `mode`."""
    parameters: Parameters
    present: Present
    games: FloatArray
    now: float
    level: float
    mode: Mode | None
    """The most probable history; None after an update."""
    dates: bool = False
    log_likelihood: float = float("nan")
    """Laplace's approximation of the marginal likelihood."""
    notes: tuple[str, ...] = ()
    read_ids: ReadIds = field(default=KnownIds(NO_IDS), repr=False)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings that an update takes over."""
    build: Callable[[dict[str, Any]], Any] = field(default=dict, repr=False)

    def __repr__(self) -> str:
        return f"History({self.model.name}, {len(self.players)} items, best {self.names[0]!r})"

    @property
    def drift(self) -> float:
        """Standard deviation of the change of a strength in one unit of time."""
        return float(np.sqrt(self.parameters.step))

    @property
    def start(self) -> float:
        """Standard deviation of the strength of a newcomer."""
        return float(np.sqrt(self.parameters.start))

    @property
    def tie(self) -> float:
        """The tie parameter."""
        assert self.model.link is not None
        return self.model.link.natural(self.parameters.t)

    @property
    def side(self) -> float:
        """The advantage of being a."""
        return self.parameters.home

    @cached_property
    def _now(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Strengths, covariance and the mean that they are measured from, of now."""
        wider = self.present.covariance + np.diag(self.parameters.step * (self.now - self.present.last))
        one = np.zeros(len(self.players), dtype=np.int64)
        weights = mean_weights(1.0 / np.diagonal(wider), one)
        mean = centre(self.present.mean, weights, one)
        return mean, centre_covariance(wider, weights, one), weights[:, 0]

    @cached_property
    def _order(self) -> IntArray:
        order: IntArray = np.lexsort((np.array(self.players), -self._now[0]))
        return order

    @cached_property
    def _sets(self) -> RankSets:
        strength, covariance, _ = self._now
        one = np.zeros(len(strength), dtype=np.int64)
        drawn = draw_normal(covariance, 999, np.random.default_rng(self.seed))
        return rank_sets(strength, covariance, drawn, one, self.level)

    @property
    def names(self) -> tuple[str, ...]:
        """Best first."""
        return tuple(self.players[i] for i in self._order)

    @property
    def strength(self) -> FloatArray:
        """Of now, in the order of `names`."""
        return self._now[0][self._order]

    @property
    def se(self) -> FloatArray:
        """Standard errors, in the order of `names`."""
        return np.sqrt(np.diagonal(self._now[1]))[self._order]

    @property
    def component(self) -> IntArray:
        """All items are of one component."""
        return np.zeros(len(self.players), dtype=np.int64)

    @property
    def surely_better(self) -> NDArray[np.bool_]:
        """(i, j): item j is better than item i beyond doubt, for all pairs at once, in the order of `names`."""
        return self._sets.surely_better[np.ix_(self._order, self._order)]

    @property
    def title(self) -> str:
        """Model, results and intervals."""
        until = f"{self.games.sum() / 2:,.0f} results up to {self._moment(self.now)}"
        return f"{self.model.name}, {until}, {self.level:.0%} intervals"

    @property
    def lines(self) -> list[str]:
        """How fast strengths move, and the other parameters."""
        unit = "a year" if self.dates else "a unit of time"
        said = f"drift {self.drift:.4g} {unit}, newcomers {self.start:.4g}, tie parameter {self.tie:.4f}"
        return [f"{said}{f', side {self.side:.4f}' if self.side else ''}"]

    def columns(self) -> dict[str, list[Any]]:
        """One row an item, best first; a list a column."""
        half = float(ndtri(0.5 + self.level / 2)) * self.se
        order, one = self._order, np.zeros(len(self.players), dtype=np.int64)
        values = (
            *(self.strength, self.se, self.strength - half, self.strength + half),
            *(ranks(self._now[0], one)[order], self._sets.lower[order], self._sets.upper[order]),
            self.games[order].astype(np.int64),
        )
        last = [self._moment(self.present.last[i]) for i in order]
        return dict(zip(COLUMNS, (list(self.names), *(v.tolist() for v in values), last), strict=True))

    def _moment(self, time: float) -> Any:
        return str(np.datetime64(round(time * 365.25 * 86_400), "s").astype("datetime64[D]")) if self.dates else time

    def history(self, name: str) -> Line:
        """The most probable past of one item; intervals take the other players as known."""
        if self.mode is None:
            raise DataError("An updated board knows the present only; fit all battles for the past.")
        rows = self.mode.player == self._index(name)
        strength = self.mode.strength[rows]
        half = float(ndtri(0.5 + self.level / 2)) * np.sqrt(self.mode.variance[rows])
        return Line(self.mode.time[rows], strength, strength - half, strength + half)

    def _index(self, name: str) -> int:
        if name not in self.players:
            raise DataError(f"{name!r} is not on this leaderboard; it has {len(self.players)} items.")
        return self.players.index(name)

    def _chances(self, a: str, b: str, side: float) -> tuple[float, float]:
        """P(a wins) and P(draw), over what is not known of the difference."""
        i, j = self._index(a), self._index(b)
        if number("side", side, -math.inf) and not self.parameters.home:
            raise SettingError("This leaderboard has no effect 'side'; leave side out.")
        mean, covariance, _ = self._now
        d = mean[i] - mean[j] + side * self.parameters.home
        spread = np.sqrt(max(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j], 0.0))
        link, weights = self.model.link, _WEIGHTS / _WEIGHTS.sum()
        assert link is not None
        at, t = d + spread * _NODES, self.parameters.t
        return float(weights @ np.exp(link.win(at, t).value)), float(weights @ np.exp(link.tie(at, t).value))

    def win_probability(self, a: str, b: str, *, side: float = 0.0) -> float:
        """P(a beats b) now; `side=1` gives a the advantage of its position."""
        return self._chances(a, b, side)[0]

    def draw_probability(self, a: str, b: str, *, side: float = 0.0) -> float:
        """P(a and b draw) now."""
        return self._chances(a, b, side)[1]

    def after(self, names: tuple[str, ...], games: Games, notes: tuple[str, ...]) -> History:
        """The board after more games, by the filter; `names` begins with the players known so far."""
        assert self.model.link is not None
        present, _ = filtered(games, self.model.link, self.parameters, self.present)
        played = np.bincount(games.games[:, :2].ravel(), minlength=len(names)).astype(np.float64)
        played[: len(self.games)] += self.games
        now = max(self.now, float(games.times[-1]))
        return replace(self, players=names, present=present, games=played, now=now, mode=None, notes=notes)

    def as_dict(self) -> dict[str, Any]:
        """Everything a machine wants."""
        return {
            "model": self.model.name,
            "table": records(self.columns()),
            "drift": self.drift,
            "start": self.start,
            "tie": self.tie,
            "side": self.side,
            "now": self._moment(self.now),
            "may_be_best": self.may_be_best,
            "tiers": self.tiers,
            "log_likelihood": plain(self.log_likelihood),
            "battles": float(self.games.sum() / 2),
            "level": self.level,
            "notes": list(self.notes),
        }
