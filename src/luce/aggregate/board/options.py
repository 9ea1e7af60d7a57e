"""The settings of a leaderboard, in four small objects: which columns, what they mean, how to infer, what to show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Literal, TypeVar

import numpy as np

from luce.checks import is_whole, number
from luce.errors import SettingError
from luce.registry import unknown_name

BothBad = Literal["tie", "drop"]
Errors = Literal["sandwich", "curvature"]

Part = TypeVar("Part")


@dataclass(frozen=True)
class Columns:
    """Names of columns, where they are not the usual ones."""

    a: str | None = None
    b: str | None = None
    outcome: str | tuple[str, str] | None = None
    """Who won; or two columns of goals, points or votes, of a and of b."""
    race: str | None = None
    competitor: str | None = None
    place: str | None = None
    weight: str | None = None
    """How much each battle of a row counts."""
    count: str | None = None
    """How many battles a row stands for."""
    group: str | None = None
    """Who judged: rows of one group are resampled together, and errors allow for their dependence."""
    neutral: str | None = None
    """True where side a has no advantage of its position."""
    time: str | None = None
    """When a battle was: strengths are then random walks."""
    by: str | None = None
    """A category; every one gets a board of its own."""
    id: str | None = None
    """What tells battles apart, for updates; by default a column named id, battle_id or question_id."""
    covariates: Sequence[str] | Mapping[str, Any] = ()
    """Numbers, a minus b (for races: of the competitor); or name -> (column of a, column of b): the difference in units
    of its standard deviation."""

    def __post_init__(self) -> None:
        if isinstance(self.covariates, str):
            raise SettingError(
                f"covariates is {self.covariates!r}; it must be a list of columns: [{self.covariates!r}]."
            )
        goals = isinstance(self.outcome, tuple | list) and len(self.outcome) == 2
        for name, value in vars(self).items():
            if name == "covariates" or value is None or isinstance(value, str) or (name == "outcome" and goals):
                continue
            raise SettingError(f"{name} is {value!r}; it must be the name of a column.")


@dataclass(frozen=True)
class Treatment:
    """What rows mean: sides, teams, draws, names."""

    side: bool = False
    team_separator: str | None = None
    both_bad: BothBad = "tie"
    draws: str | None = None
    names: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _yes_or_no("side", self.side)
        if self.names is not None and not isinstance(self.names, Mapping):
            raise SettingError(f"names is {self.names!r}; it must map the ids of the data to other names.")
        if self.both_bad not in ("tie", "drop"):
            raise SettingError(
                f"both_bad is {self.both_bad!r}; it must be 'tie' (a tie as any other) or 'drop' (left out)."
            )


@dataclass(frozen=True)
class Inference:
    """Prior, standard errors, bootstrap and the level of intervals."""

    prior: float | None = None
    errors: Errors = "sandwich"
    bootstrap: int = 0
    level: float = 0.95
    drift: float | None = None
    """With time: the standard deviation of a walk in a unit of time; None fits it."""
    pool: bool = True
    """With by: boards of categories are shrunk towards the board of all."""

    def __post_init__(self) -> None:
        _yes_or_no("pool", self.pool)
        for name in ("prior", "drift"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name))
        if self.errors not in ("sandwich", "curvature"):
            raise SettingError(f"errors is {self.errors!r}; it must be 'sandwich' or 'curvature'.")
        if not (is_whole(self.bootstrap, 20) or (is_whole(self.bootstrap) and self.bootstrap == 0)):
            raise SettingError(f"bootstrap is {self.bootstrap!r}; use 0 (normal intervals) or at least 20 samples.")
        check_level(self.level)


@dataclass(frozen=True)
class Scale:
    """Units and zero of the strengths."""

    scale: Literal["log", "elo"] = "log"
    anchor: str | None = None
    anchor_at: float | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("log", "elo"):
            raise SettingError(f"scale is {self.scale!r}; it must be 'log' or 'elo'.")
        if self.anchor is None and self.anchor_at is not None:
            raise SettingError("anchor_at was given without an anchor; name the anchor item too.")
        if self.anchor_at is not None:
            number("anchor_at", self.anchor_at, -math.inf)

    def factor(self, elo: float | None, model: str) -> float:
        """Points of the scale in one unit of strength."""
        if self.scale == "log":
            return 1.0
        if elo is None:
            raise SettingError(f"The model {model!r} has no odds, so there is no Elo scale; use scale='log'.")
        return elo

    @property
    def zero(self) -> float:
        """Strength of the mean, or of the anchor where no value is given."""
        return 1000.0 if self.scale == "elo" else 0.0


def _yes_or_no(name: str, value: Any) -> None:
    """Refuse a switch that is neither True nor False: any text would be true."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name} is {value!r}; it must be True or False.")


def check_level(level: Any) -> None:
    """Refuse a level of intervals that is no share."""
    if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
        raise SettingError(f"level is {level!r}; it must lie between 0 and 1, such as 0.95.")


def check_together(columns: Columns, treatment: Treatment, how: Inference | None = None) -> None:
    """Refuse settings that do nothing without another one."""
    if columns.neutral is not None and not treatment.side:
        raise SettingError("neutral does nothing without side; give side (--side) too, or leave it out.")
    if how is not None and how.drift is not None and columns.time is None:
        raise SettingError("drift was given without time; name the column of the time too.")
    if how is not None and not how.pool and columns.by is None:
        raise SettingError("pool does nothing without by; name the column of the category too, or leave it out.")


_KEPT = ("draws", "both_bad", "names", "prior", "errors", "bootstrap", "level", "scale", "anchor", "anchor_at")


def kept_options(options: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Settings that an update takes over from its board: those from `before`, where no other ones are given.

    >>> kept_options({"scale": "log", "level": 0.9, "a": "home"}, {"scale": "elo"})
    {'scale': 'elo', 'level': 0.9}
    """
    usual = {f.name: f.default for part in (Treatment, Inference, Scale) for f in fields(part)}
    given = {name: options[name] for name in _KEPT if name in options and options[name] != usual[name]}
    return {**(before or {}), **given}


def sort_options(what: str, options: Mapping[str, Any], *parts: type) -> list[Any]:
    """One object of each of the `parts`, each with the options that are its fields; others are refused.

    >>> sort_options("leaderboard", {"scale": "elo", "a": "home"}, Columns, Scale)[1].scale
    'elo'
    """
    known = {field.name for part in parts for field in fields(part)}
    for name in options:
        if name not in known:
            raise unknown_name(f"setting of a {what}", name, sorted(known))
    return [part(**{f.name: options[f.name] for f in fields(part) if f.name in options}) for part in parts]
