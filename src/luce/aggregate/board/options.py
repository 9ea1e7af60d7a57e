"""The settings of a leaderboard, in four small objects: which columns, what they mean, how to infer, what to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

from luce.errors import DataError, SettingError
from luce.registry import unknown_name
from luce.spec import Spec, option
from luce.types import FloatArray


def _column(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise SettingError(f"{name} is {value!r}; it must be the name of a column.")


def _outcome(name: str, value: Any) -> str | tuple[str, ...]:
    several = isinstance(value, tuple | list) and len(value) in (2, 3)
    return tuple(_column(name, each) for each in value) if several else _column(name, value)


def _covariates(name: str, value: Any) -> Sequence[str] | Mapping[str, Any]:
    if isinstance(value, str):
        raise SettingError(f"covariates is {value!r}; it must be a list of columns: [{value!r}].")
    return value


def _samples(name: str, value: Any) -> int:
    if type(value) is int and (value == 0 or value >= 20):
        return value
    raise SettingError(f"bootstrap is {value!r}; use 0 (normal intervals) or at least 20 samples.")


def _names(name: str, value: Any) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return value
    raise SettingError(f"names is {value!r}; it must map the ids of the data to other names.")


class Columns(Spec):
    """Columns of the results, where they have not the usual names.

    Parameters
    ----------
    a, b
        Column of the first or second side.
    outcome
        Column of who won; or two columns of goals, points or votes, of a and of b; or three, of which one is 1: a won,
        b won, a tie.
    race, competitor, place
        Columns of a race, of who runs in it, and of the place, 1 best.
    weight
        Column of how much each battle of a row counts.
    count
        Column of how many battles a row stands for.
    group
        Column of who judged: rows of one judge are resampled together, and errors allow for their dependence.
    neutral
        Column that is true where side a has no advantage of its position.
    time
        Column of when a battle was: strengths are then random walks.
    by
        Column of a category; every one gets a board of its own.
    id
        Column that tells battles apart: a board that is kept remembers it, and an update leaves out what it has seen;
        by default id, battle_id or question_id, where its values differ.
    covariates
        Numbers, a minus b (for races: of the competitor); or name=column of a,column of b: the difference in units of
        its standard deviation.
    """

    a: str | None = option(default=None, convert=_column)
    b: str | None = option(default=None, convert=_column)
    outcome: str | tuple[str, ...] | None = option(default=None, convert=_outcome)
    race: str | None = option(default=None, convert=_column)
    competitor: str | None = option(default=None, convert=_column)
    place: str | None = option(default=None, convert=_column)
    weight: str | None = option(default=None, convert=_column)
    count: str | None = option(default=None, convert=_column)
    group: str | None = option(default=None, convert=_column)
    neutral: str | None = option(default=None, convert=_column)
    time: str | None = option(default=None, convert=_column)
    by: str | None = option(default=None, convert=_column)
    id: str | None = option(default=None, convert=_column)
    covariates: Sequence[str] | Mapping[str, Any] = option(default=(), convert=_covariates)


class Treatment(Spec):
    """What rows mean: sides, teams, draws, names.

    Parameters
    ----------
    side
        Estimate the advantage of being a (first position, home ground), except on neutral ground.
    team_separator
        Sides are teams, whose members stand between this separator (or cells are lists); the strength of a team is the
        sum.
    both_bad
        What 'tie (bothbad)' is: tie, as any other, or drop, left out.
    self_battles
        What a battle of one against itself is: error (refused), drop (left out), or tie, whatever its outcome.
    strong
        How many wins a strong verdict (A>>B, B>>A) counts.
    short_rows
        What a row of CSV with too few cells is: error (refused), drop (left out), or fill (empty cells at its end).
    draws
        What draws are: model (a probability of their own), half (half a win each) or drop; half for bradley_terry.
    names
        Names to show, by the ids of the data; as a file: a table of two columns, id and name.
    """

    side: bool = False
    team_separator: str | None = None
    both_bad: Literal["tie", "drop"] = "tie"
    self_battles: Literal["error", "drop", "tie"] = "error"
    strong: float = option(default=1.0, above=0)
    short_rows: Literal["error", "drop", "fill"] = "error"
    draws: str | None = None
    names: Mapping[str, str] | None = option(default=None, convert=_names)


class Inference(Spec):
    """How strengths are estimated.

    Parameters
    ----------
    prior
        Precision of a normal prior on the strengths; without it maximum likelihood, with 0.1 only where that has no
        finite maximum, for the items at fault, which are named.
    errors
        Standard errors: sandwich (right also where the model is not), or curvature (inverse Hessian).
    bootstrap
        Bootstrap samples; 0 for normal intervals.
    level
        Level of the intervals.
    drift
        With time: the standard deviation of a walk in a unit of time, a year for dates; without it that is fitted.
    pool
        With by: boards of categories are shrunk towards the board of all.
    """

    prior: float | None = option(default=None, least=0)
    errors: Literal["sandwich", "curvature"] = "sandwich"
    bootstrap: int = option(default=0, convert=_samples)
    level: float = option(default=0.95, above=0, below=1)
    drift: float | None = option(default=None, least=0)
    pool: bool = True


class Scale(Spec):
    """Units and zero of the strengths.

    Parameters
    ----------
    scale
        Units: log, or elo (400 points are odds of ten to one, the mean is 1000).
    anchor
        Item with a fixed strength: all are shifted, and no standard error changes; differences have those to it.
    anchor_at
        Strength of the anchor.
    """

    scale: Literal["log", "elo"] = "log"
    anchor: str | None = None
    anchor_at: float | None = None

    def _check(self) -> None:
        if self.anchor is None and self.anchor_at is not None:
            raise SettingError("anchor_at was given without an anchor; name the anchor item too.")

    def factor(self, elo: float | None, model: str) -> float:
        """Points of the scale in one unit of strength."""
        if self.scale == "log":
            return 1.0
        if elo is None:
            raise SettingError(f"The model {model!r} has no odds, so there is no Elo scale; use scale='log'.")
        return elo

    def shift(self, names: Sequence[str], strength: FloatArray) -> float:
        """What is added to strengths of a mean of 0, in points: the zero of the scale, or what the anchor needs.

        The zero is the strength of the mean, or of the anchor where no value is given.
        """
        zero = 1000.0 if self.scale == "elo" else 0.0
        if self.anchor is None:
            return zero
        if self.anchor not in names:
            raise DataError(f"The anchor {self.anchor!r} is not among the {len(names)} items of the data.")
        at = zero if self.anchor_at is None else self.anchor_at
        return at - float(strength[list(names).index(self.anchor)])

    def of(self, names: Sequence[str]) -> tuple[Scale, tuple[str, ...]]:
        """The scale for some of the items: without an anchor that is not among them, which is said."""
        if self.anchor is None or self.anchor in names:
            return self, ()
        return Scale(scale=self.scale), ("The anchor has no battle here; the mean is in its place.",)


def check_together(columns: Columns, treatment: Treatment, how: Inference | None = None) -> None:
    """Refuse settings that do nothing without another one."""
    if columns.neutral is not None and not treatment.side:
        raise SettingError("neutral does nothing without side; give side (--side) too, or leave it out.")
    if how is not None and how.drift is not None and columns.time is None:
        raise SettingError("drift was given without time; name the column of the time too.")
    if how is not None and not how.pool and columns.by is None:
        raise SettingError("pool does nothing without by; name the column of the category too, or leave it out.")


_KEPT = (
    *("draws", "both_bad", "self_battles", "names"),
    *("prior", "errors", "bootstrap", "level", "pool", "scale", "anchor", "anchor_at"),
)


def kept_options(options: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Settings that an update takes over from its board: those from `before`, where no other ones are given.

    >>> kept_options({"scale": "log", "level": 0.9, "a": "home"}, {"scale": "elo"})
    {'scale': 'elo', 'level': 0.9}
    """
    usual = {f.name: f.default for part in (Treatment, Inference, Scale) for f in fields(part)}
    given = {name: options[name] for name in _KEPT if name in options and options[name] != usual[name]}
    return {**(before or {}), **given}


def sort_options(what: str, options: Mapping[str, Any], *parts: Any) -> list[Any]:
    """One object of each of the `parts`, each with the options that are its fields; others are refused.

    >>> sort_options("leaderboard", {"scale": "elo", "a": "home"}, Columns, Scale)[1].scale
    'elo'
    """
    known = {field.name for part in parts for field in fields(part)}
    for name in options:
        if name not in known:
            raise unknown_name(f"setting of a {what}", name, sorted(known))
    return [part(**{f.name: options[f.name] for f in fields(part) if f.name in options}) for part in parts]
