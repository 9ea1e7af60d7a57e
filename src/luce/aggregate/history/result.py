"""`History`: strengths that move, with their past, their present, what they foretell, and a file for updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import roots_hermitenorm

from luce.aggregate.board.battles import YEAR, Battles, find_columns, read_battles
from luce.aggregate.board.fitting_problem import Request
from luce.aggregate.board.ids import NO_IDS, Ids, leave_out_seen
from luce.aggregate.board.likelihood import Model, get_model
from luce.aggregate.board.next_battles import NextBattles, next_battles
from luce.aggregate.board.options import (
    Columns,
    Inference,
    Scale,
    Treatment,
    check_together,
    kept_options,
    sort_options,
)
from luce.aggregate.board.posterior import Posterior, centre, centre_covariance, mean_weights, normal_ends
from luce.aggregate.board.result import Ranked
from luce.aggregate.board.separation import linked
from luce.aggregate.history.walks import Games, Mode, Parameters, Present, filtered, fit_parameters, most_probable
from luce.checks import number
from luce.data.names import one_form
from luce.data.names import plain as as_name
from luce.data.table import Table
from luce.errors import DataError, ModelFormatError, SettingError
from luce.result import plain, records
from luce.storage import read_container, restoring, write_container
from luce.types import FloatArray

_KIND = "history"
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

    def next(self, n: int = 50) -> NextBattles:
        """The n battles that are expected to shorten the rank sets of now most."""
        link, t, games = self.model.link, self.parameters.t, self.games[self.posterior.order]
        assert link is not None
        return next_battles(
            self.posterior, games, lambda d: (np.exp(link.win(d, t).value), np.exp(link.tie(d, t).value)), n
        )

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


def fit_history(asked: Request) -> History:
    """The most probable history of all battles; the drift is fitted unless it is given."""
    if asked.scale != Scale():
        raise SettingError("Strengths that move have the scale 'log' and no anchor; leave scale and anchor out.")
    source, columns, treatment, model, how = asked.source, asked.columns, asked.treatment, asked.model, asked.how
    _check_settings(model, columns, treatment, how)
    battles = asked.battles()
    dates = _are_dates(source, columns)
    names, games, notes = _games(battles, (), dates=dates)
    notes += _say(games)
    link = model.link
    assert link is not None
    if not np.any(games.games[:, 2] == 2) or np.all(games.games[:, 2] == 2):
        raise DataError("Strengths that move need wins and draws; without draws leave time out, or add draws.")
    step = None if how.drift is None else max(how.drift, 1e-9) ** 2
    fitted = fit_parameters(games, link, {"step": step, "start": None, "t": None, "home": None}, treatment.side)
    mode = most_probable(games, link, fitted)
    played = np.bincount(games.games[:, :2].ravel(), minlength=len(names)).astype(np.float64)
    return History(
        model=model,
        players=names,
        parameters=fitted,
        present=mode.present,
        games=played,
        now=float(games.times[-1]),
        level=how.level,
        mode=mode,
        dates=dates,
        log_likelihood=mode.log_marginal,
        notes=notes,
        seed=int(asked.rng.integers(2**31)),
        build=source.build,
        read_ids=Ids(source=source, given=columns.id),
    )


def _check_settings(model: Model, columns: Columns, treatment: Treatment, how: Inference) -> None:
    if model.link is None or model.draws != "model":
        raise SettingError(
            f"Strengths that move need a model with draws; {model.name!r} has none: use 'davidson', 'rao_kupper' or "
            "'thurstone_mosteller'."
        )
    _check_columns(columns, treatment)
    usual = Inference()
    for name in ("prior", "errors", "bootstrap", "pool"):
        if getattr(how, name) != getattr(usual, name):
            raise SettingError(f"{name} does nothing for strengths that move; leave it or time out.")


def _check_columns(columns: Columns, treatment: Treatment) -> None:
    given: dict[str, Any] = {"weight": columns.weight, "count": columns.count, "group": columns.group, "by": columns.by}
    given |= {"team_separator": treatment.team_separator, "covariates": columns.covariates or None}
    given |= {"strong": None if treatment.strong == 1.0 else treatment.strong}
    used = [name for name, value in given.items() if value is not None]
    if used:
        raise SettingError(f"{used[0]} does nothing for strengths that move; leave it or time out.")


def _say(games: Games) -> tuple[str, ...]:
    """What a prior decides, because the battles cannot."""
    notes = []
    if games.times[0] == games.times[-1]:
        notes.append("All battles are at one time, so that nothing tells how fast strengths move.")
    groups = int(linked(games.players, games.games[:, 0], games.games[:, 1]).max()) + 1
    if groups > 1:
        notes.append(
            f"The battles fall into {groups} components without a link; between them strengths are compared by the "
            "prior of newcomers alone."
        )
    return tuple(notes)


def _are_dates(source: Table, columns: Columns) -> bool:
    assert columns.time is not None
    return source.read([columns.time])[columns.time].times()[1]


def _games(battles: Battles, known: tuple[str, ...], *, dates: bool) -> tuple[tuple[str, ...], Games, tuple[str, ...]]:
    """Battles in order of time, with players numbered by their first game after those that are known."""
    assert battles.time is not None
    if battles.share is not None or np.any(battles.a == battles.b):
        raise SettingError(
            "Strengths that move need battles of two sides that were won or tied; leave time out where outcomes are "
            "parts of a win, and use self_battles='drop'."
        )
    order = np.argsort(battles.time, kind="stable")
    notes = list(battles.notes)
    if np.any(np.diff(battles.time) < 0):
        notes.append("The rows were not in order of time; they were sorted.")
    today = datetime.now(UTC).timestamp() / (86_400.0 * YEAR)
    future = int(np.sum(battles.time > today + 1.0 / YEAR)) if dates else 0
    if future:
        notes.append(f"{future} battles lie in the future.")
    shown, said = one_form((*known, *battles.names))
    number = {shown[name]: i for i, name in enumerate(known)}
    if len(number) < len(known):
        raise DataError("The board has two forms of one name; fit all battles instead of an update.")
    for i in np.column_stack([battles.a, battles.b])[order].ravel():
        number.setdefault(shown[battles.names[i]], len(number))
    code = np.array([number.get(shown[name], -1) for name in battles.names])
    rows = np.column_stack([code[battles.a], code[battles.b], battles.outcome])[order]
    sides = np.zeros(len(order)) if battles.side is None else battles.side[order]
    games = Games(len(number), np.ascontiguousarray(rows), sides, battles.time[order])
    return tuple(number), games, tuple(dict.fromkeys((*notes, *said)))


def stored_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON holds them: the keys of the names are texts."""
    stored = dict(options)
    if "names" in stored:
        stored["names"] = {str(as_name(key)): str(name) for key, name in stored["names"].items()}
    return stored


def save_history(board: History, path: str | Path) -> None:
    """Keep what an update needs: the distribution of now, the parameters, and how often each has played."""
    settings = {
        "model": board.model.name,
        "players": list(board.players),
        "parameters": list(board.parameters),
        "now": board.now,
        "level": board.level,
        "dates": board.dates,
        "options": stored_options(board.options),
    }
    arrays = {"mean": board.present.mean, "covariance": board.present.covariance, "last": board.present.last}
    write_container(path, _KIND, settings, arrays | {"games": board.games, "ids": board.read_ids()})


def read_history(path: str | Path) -> History:
    """A board that `save_history` wrote."""
    kept = read_container(path, _KIND)
    with restoring(path):
        settings, arrays = kept.settings, kept.arrays
        n = len(settings.get("players", ()))
        shapes = {"mean": (n,), "covariance": (n, n), "last": (n,), "games": (n,)}
        if n < 2 or any(arrays.get(k, np.empty(0)).shape != shape for k, shape in shapes.items()):
            raise ModelFormatError(f"{path}: the arrays of this board do not fit its names; write it anew.")
        return History(
            model=get_model(settings["model"]),
            players=tuple(settings["players"]),
            parameters=Parameters(*settings["parameters"]),
            present=Present(arrays["mean"].copy(), arrays["covariance"].copy(), arrays["last"].copy()),
            games=arrays["games"].copy(),
            now=float(settings["now"]),
            level=float(settings["level"]),
            mode=None,
            dates=bool(settings["dates"]),
            options=dict(settings.get("options", {})),
            build=pa.table,
            read_ids=Ids(arrays.get("ids", NO_IDS).copy()),
        )


def update_history(board: History, data: Any, **options: Any) -> History:
    """The board after new battles, which are read with the same options as the old ones.

    A filter passes over the new battles only. Battles that are older than what their players have played count as if
    they were played at that time, which the notes say.
    """
    names = {name: board.options[name] for name in ("names", "both_bad", "self_battles") if name in board.options}
    columns, treatment = sort_options("leaderboard", options | kept_options(options, names), Columns, Treatment)
    check_together(columns, treatment)
    _check_columns(columns, treatment)
    if columns.time is None:
        raise SettingError("An update needs the column of the time; give time (--time).")
    if treatment.side != bool(board.side):
        raise SettingError(f"The board has {'a' if board.side else 'no'} side effect; give side (--side) as it was.")
    source = Table.open(data)
    if board.dates != _are_dates(source, columns):
        raise DataError("The board and the update measure time in different units: dates here, numbers there.")
    found, unseen = find_columns(source, columns), leave_out_seen(source, columns.id, board.read_ids())
    board = replace(board, read_ids=Ids(unseen.ids), notes=(unseen.note,))
    if unseen.source is None:
        return board
    battles = read_battles(unseen.source, found, treatment)
    players, games, notes = _games(battles, board.players, dates=board.dates)
    late = games.times < board.now
    if late.any():
        notes = (
            *notes,
            f"{int(late.sum())} of {len(late)} battles are older than the last one of the board.",
        )
    return board.after(players, games, (unseen.note, *notes))
