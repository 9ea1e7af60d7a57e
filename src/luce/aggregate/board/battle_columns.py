"""Which columns of a table hold battles: those that are given, or those with a usual name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from luce.aggregate.board.options import Columns
from luce.data.table import Table
from luce.errors import DataError

USUAL = (("a", "b", "outcome"), ("model_a", "model_b", "winner"), ("winner", "loser", None))
"""Names of columns that are known without being given."""


@dataclass(frozen=True)
class BattleColumns:
    """Which column plays which part."""

    a: str
    b: str
    outcome: str | None
    """None where a is the winner of every row that `tie` does not mark."""
    tie: str | None = None
    goals: tuple[str, str] | None = None
    """Where the side with more goals (points, votes) wins: the columns of a and of b."""
    weight: str | None = None
    count: str | None = None
    group: str | None = None
    neutral: str | None = None
    covariates: tuple[str, ...] = ()
    time: str | None = None
    by: str | None = None
    id: str | None = None
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Covariates by name, where they are differences of two columns."""

    @property
    def text(self) -> list[str]:
        """Columns that are names, also where they look like numbers."""
        return [self.a, self.b, *([self.group] if self.group else [])]

    @property
    def all(self) -> list[str]:
        """All columns to read, each once."""
        single = (self.a, self.b, self.outcome, self.tie, self.weight, self.count, self.group, self.neutral)
        named = (*single, *(self.goals or ()), self.time, self.by, *self.covariates)
        return list(dict.fromkeys(name for name in named if name is not None))


def find_columns(source: Table, given: Columns) -> BattleColumns:
    """The given columns, and for the others those with a usual name.

    Usual are a, b, outcome; model_a, model_b, winner; winner, loser. Naming one leaves the usual names of the others.
    """
    a, b, outcome = _sides_and_outcome(source, given)
    goals = _goals(source, outcome)
    tie = None
    if a == "winner" and outcome is None:
        tie = _tie_column(source)
    elif goals is None:
        outcome = source.name(str(outcome or "outcome"), role="outcome")
    roles = {"first side": a, "second side": b, "weights": given.weight, "counts": given.count}
    _different(source.label, {**roles, "outcome": None if goals else outcome})
    roles |= {
        "group": given.group,
        "neutral ground": given.neutral,
        "time": given.time,
        "category": given.by,
        "id": given.id,
    }
    pairs = dict(given.covariates) if isinstance(given.covariates, Mapping) else {}
    wanted = [c for pair in pairs.values() for c in pair] if pairs else list(given.covariates)
    for role, name in (*roles.items(), *(("covariate", c) for c in wanted)):
        if name is not None:
            source.name(name, role=role)
    alike = ("weight", "count", "group", "neutral", "time", "by", "id")
    same = {name: getattr(given, name) for name in alike}
    named = outcome if isinstance(outcome, str) and goals is None else None
    return BattleColumns(a, b, named, tie, goals, covariates=tuple(wanted), pairs=pairs, **same)


def _sides_and_outcome(source: Table, given: Columns) -> tuple[str, str, str | tuple[str, str] | None]:
    """The first usual names that fit what is given and what is there."""
    named = (given.a, given.b, given.outcome)
    for usual in USUAL:
        if usual[2] is None and (given.outcome is not None or given.a not in (None, "winner")):
            continue  # who wins, the two names say
        left = [name for name, other in zip(usual, named, strict=True) if other is None and name is not None]
        if not set(left) & set(named) and set(left) <= set(source.names):
            a, b, outcome = (other if other is not None else name for name, other in zip(usual, named, strict=True))
            return str(a), str(b), outcome
    if named == (None, None, None):
        raise DataError(
            f"{source.label} has the columns {', '.join(source.names) or '(none)'}; battles need a, b, outcome, or "
            "model_a, model_b, winner, or winner, loser (tie); name other columns with a, b and outcome (two columns "
            "of goals or points, of a and of b, are an outcome too)."
        )
    return given.a or "a", given.b or "b", given.outcome


def _goals(source: Table, outcome: str | tuple[str, str] | None) -> tuple[str, str] | None:
    """Two columns, given as such or as "home_score,away_score"."""
    if isinstance(outcome, str) and outcome not in source.names and outcome.count(",") == 1:
        first, second = outcome.split(",")
        outcome = (first.strip(), second.strip())
    if outcome is None or isinstance(outcome, str):
        return None
    return source.name(outcome[0], role="goals of a"), source.name(outcome[1], role="goals of b")


def _tie_column(source: Table) -> str | None:
    """The column that says which rows of winners and losers are draws."""
    found = [name for name in ("tie", "draw") if name in source.names]
    if len(found) > 1:
        raise DataError(f"{source.label} has a column tie and a column draw; leave one of them out.")
    return found[0] if found else None


def _different(label: str, roles: Mapping[str, Any]) -> None:
    """A column plays one part."""
    part: dict[str, str] = {}
    for role, name in roles.items():
        if name in part:
            raise DataError(f"{label}: the column {name!r} cannot be both {part[name]} and {role}; name two columns.")
        if name is not None:
            part[name] = role
