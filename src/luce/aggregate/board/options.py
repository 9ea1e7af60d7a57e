"""The settings of a leaderboard, in four small objects: which columns, what they mean, how to infer, what to show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from luce.errors import SettingError
from luce.registry import unknown_name

__all__ = ["BothBad", "Columns", "Errors", "Inference", "Scale", "Treatment", "sort_options"]

BothBad = Literal["tie", "drop"]
Errors = Literal["sandwich", "curvature"]

Part = TypeVar("Part")


@dataclass(frozen=True)
class Columns:
    """Names of columns, where they are not the usual ones."""

    a: str | None = None
    b: str | None = None
    outcome: str | None = None
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


@dataclass(frozen=True)
class Treatment:
    """What rows mean: sides, teams, draws, names."""

    side: bool = False
    team_separator: str | None = None
    both_bad: BothBad = "tie"
    draws: str | None = None
    names: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
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
        if self.prior is not None and not (math.isfinite(self.prior) and self.prior >= 0):
            raise SettingError(f"prior is {self.prior}; it must be a finite number of at least 0.")
        if self.drift is not None and not (math.isfinite(self.drift) and self.drift >= 0):
            raise SettingError(f"drift is {self.drift}; it must be a finite number of at least 0.")
        if self.errors not in ("sandwich", "curvature"):
            raise SettingError(f"errors is {self.errors!r}; it must be 'sandwich' or 'curvature'.")
        if self.bootstrap != 0 and self.bootstrap < 20:
            raise SettingError(f"bootstrap is {self.bootstrap}; use 0 (normal intervals) or at least 20 samples.")
        if not 0.0 < self.level < 1.0:
            raise SettingError(f"level is {self.level}; it must lie between 0 and 1, such as 0.95.")


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
