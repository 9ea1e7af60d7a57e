"""`History`: strengths that move, with their past, their present, and what they foretell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import roots_hermitenorm

from luce.aggregate.board.ids import Ids
from luce.aggregate.board.likelihood import Model
from luce.aggregate.board.posterior import Posterior, centre, centre_covariance, mean_weights, normal_ends
from luce.aggregate.board.result import Ranked
from luce.aggregate.history.walks import Games, Mode, Parameters, Present, filtered
from luce.checks import number
from luce.errors import DataError, SettingError
from luce.result import plain, records
from luce.types import FloatArray

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
    read_ids: Ids = field(default=Ids(), repr=False)
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
    def posterior(self) -> Posterior:  # type: ignore[override]
        """The distribution of the strengths of now."""
        wider = self.present.covariance + np.diag(self.parameters.step * (self.now - self.present.last))
        one = np.zeros(len(self.players), dtype=np.int64)
        weights = mean_weights(1.0 / np.diagonal(wider), one)
        mean, covariance = centre(self.present.mean, weights, one), centre_covariance(wider, weights, one)
        return Posterior.of(self.players, mean, covariance, one, self.level, sets=np.random.default_rng(self.seed))

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
        order = self.posterior.order
        last = [self._moment(self.present.last[i]) for i in order]
        return super().columns() | {"games": self.games[order].astype(np.int64).tolist(), "last": last}

    def _moment(self, time: float) -> Any:
        return str(np.datetime64(round(time * 365.25 * 86_400), "s").astype("datetime64[D]")) if self.dates else time

    def history(self, name: str) -> Line:
        """The most probable past of one item; intervals take the other players as known."""
        if self.mode is None:
            raise DataError("An updated board knows the present only; fit all battles for the past.")
        rows = self.mode.player == self.posterior.order[self.posterior.index(name)]
        strength = self.mode.strength[rows]
        ends = normal_ends(strength, np.sqrt(self.mode.variance[rows]), self.level)
        return Line(self.mode.time[rows], strength, *ends)

    def _chances(self, a: str, b: str, side: float) -> tuple[float, float]:
        """P(a wins) and P(draw), over what is not known of the difference."""
        i, j = self.posterior.index(a), self.posterior.index(b)
        if number("side", side, -math.inf) and not self.parameters.home:
            raise SettingError("This leaderboard has no effect 'side'; leave side out.")
        covariance = self.covariance
        d = self.strength[i] - self.strength[j] + side * self.parameters.home
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
