"""`Races`: results of several competitors, with ties, as coded arrays that were checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.board.battles import B_WINS, MOST_WEIGHT, TIE, USUAL, Battles, rename
from luce.aggregate.board.newton import add_up
from luce.aggregate.board.options import Columns
from luce.data.names import one_code, one_form
from luce.data.table import Table
from luce.errors import DataError
from luce.types import FloatArray, IntArray

_WIDE = re.compile(r"(?:rank|place|position)[ _]?(\d+)")


@dataclass(frozen=True, eq=False)
class Races:
    """Results laid end to end: race r holds the rows `offsets[r]:offsets[r + 1]`, in any order within it."""

    names: tuple[str, ...]
    item: IntArray
    place: FloatArray
    """1 is best; equal places are ties."""
    offsets: IntArray
    count: FloatArray
    """How many races (or how much weight) each stands for."""
    squares: FloatArray
    """Sum of squared weights."""
    group: IntArray | None = None
    covariates: FloatArray | None = None
    covariate_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What there is to say of the names."""

    @property
    def times(self) -> FloatArray:
        """How many races each stands for, whatever their weight: t w and t w^2 give t."""
        return np.where(self.squares > 0, self.count**2 / np.maximum(self.squares, 1e-300), 0.0)


@dataclass(frozen=True)
class RaceColumns:
    """Which column plays which part; `wide` lists the columns of places where a row is a whole race."""

    race: str = "race"
    competitor: str = "competitor"
    place: str = "place"
    weight: str | None = None
    group: str | None = None
    covariates: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()


def find_race_columns(source: Table, given: Columns) -> RaceColumns | None:
    """The columns of race results, or None where the table holds something else.

    Long: race, competitor, place, one row a competitor. Wide: rank1, rank2, ... (or place1, ...), one row a race.
    """
    race, competitor, place = given.race, given.competitor, given.place
    weight, group, covariates = given.weight, given.group, tuple(given.covariates)
    unnamed = race is None and competitor is None and place is None
    if unnamed and not (given.a is given.b is given.outcome is None):
        return None
    wide, long = _wide_columns(source) if unnamed else {}, {"race", "competitor", "place"} <= set(source.names)
    if unnamed and (wide or long) and any(set(source.names).issuperset(filter(None, names)) for names in USUAL):
        raise DataError(
            f"{source.label} has columns of battles and columns of races; name those that count: a, b and outcome, or "
            "race, competitor and place."
        )
    if unnamed and not long:
        if not wide:
            return None
        if covariates:
            raise DataError("Covariates need races in long form: one row a competitor, with race and place.")
        return RaceColumns(weight=weight, group=group, wide=tuple(wide[k] for k in sorted(wide)))
    columns = RaceColumns(race or "race", competitor or "competitor", place or "place", weight, group, covariates)
    for name, role in ((columns.race, "race"), (columns.competitor, "competitor"), (columns.place, "place")):
        source.name(name, role=role)
    for extra in (weight, group, *covariates):
        if extra is not None:
            source.name(extra, role="weight, group or covariate")
    return columns


def _wide_columns(source: Table) -> dict[int, str]:
    """The columns of a table with one race a row, by place."""
    found = [(int(m[1]), name) for name in source.names if (m := _WIDE.fullmatch(name.lower()))]
    wide = dict(found)
    if len(wide) < len(found):
        twice = next(k for i, (k, _) in enumerate(found) if k in dict(found[:i]))
        raise DataError(f"{source.label} has two columns for the place {twice}; leave one of them out.")
    return wide


def read_races(source: Table, columns: RaceColumns, names: Mapping[str, str] | None = None) -> Races:
    """Read and check the results of a table; `names` gives competitors other names."""
    races = _read_wide(source, columns) if columns.wide else _read_long(source, columns)
    shown, unknown = rename(races.names, names)
    _check(races, source.label)
    return replace(races, names=shown, notes=(*races.notes, *unknown, *_say_nothing(races)))


def _say_nothing(races: Races) -> list[str]:
    """A word on races that decide nothing."""
    alone, nothing = int(np.sum(np.diff(races.offsets) == 1)), int(np.sum(races.count == 0))
    notes = [f"{alone:,} races have one competitor and say nothing."] if alone else []
    return notes + ([f"{nothing:,} races have the weight 0 and say nothing."] if nothing else [])


def _read_long(source: Table, columns: RaceColumns) -> Races:
    wanted = [columns.race, columns.competitor, columns.place, columns.weight, columns.group, *columns.covariates]
    rows = source.read([c for c in wanted if c is not None], [columns.race, columns.competitor])
    if not len(rows):
        raise DataError(f"{source.label} has no rows; at least one race is needed.")
    race, _ = rows[columns.race].codes()
    item, found, notes = one_code(rows[columns.competitor])
    order = np.argsort(race, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(race))]).astype(np.int64)
    names = tuple(sorted(found))
    number = {name: i for i, name in enumerate(names)}
    item = np.array([number[name] for name in found], dtype=np.int64)[item]
    covariates = None
    if columns.covariates:
        covariates = np.column_stack([rows[c].number() for c in columns.covariates])[order]
    weight = np.ones(len(offsets) - 1)
    if columns.weight is not None:
        weight = _of_race(rows[columns.weight].number(least=0.0, most=MOST_WEIGHT)[order], offsets, "weights")
    group = None
    if columns.group is not None:
        judge, _, same = one_code(rows[columns.group])
        group, notes = _of_race(judge[order], offsets, "groups"), (*notes, *same)
    # A place of 0 or below would be better than the first; tables write it for those who did not finish.
    place = rows[columns.place].number(least=1.0)[order]
    return Races(names, item[order], place, offsets, weight, weight**2, group, covariates, columns.covariates, notes)


def _of_race(values: NDArray[Any], offsets: IntArray, what: str) -> NDArray[Any]:
    first = values[offsets[:-1]]
    if np.any(np.repeat(first, np.diff(offsets)) != values):
        raise DataError(f"The rows of one race have different {what}; all rows of a race must agree.")
    return first


def _read_wide(source: Table, columns: RaceColumns) -> Races:
    extra = [c for c in (columns.weight, columns.group) if c is not None]
    table = source.read([*columns.wide, *extra], [])
    rows = len(table)
    parts: list[tuple[int, str, int]] = []
    if rows == 0:
        raise DataError(f"{source.label} has no rows; at least one race is needed.")
    for position, name in enumerate(columns.wide):
        there = enumerate(table[name].text())
        parts.extend((row, competitor, position + 1) for row, competitor in there if competitor != "")
    race = np.array([p[0] for p in parts], dtype=np.int64)
    shown, notes = one_form(p[1] for p in parts)
    names = tuple(sorted(set(shown.values())))
    number = {name: i for i, name in enumerate(names)}
    item = np.array([number[shown[p[1]]] for p in parts], dtype=np.int64)
    order = np.argsort(race, kind="stable")
    sizes = np.bincount(race, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if np.any(sizes == 0):
        raise table.error(int(np.flatnonzero(sizes == 0)[0]), "the race names no competitor.")
    place = np.array([p[2] for p in parts], dtype=np.float64)[order]
    weight = np.ones(rows)
    if columns.weight is not None:
        weight = table[columns.weight].number(least=0.0, most=MOST_WEIGHT)
    group = None if columns.group is None else table[columns.group].codes()[0]
    return Races(names, item[order], place, offsets, weight, weight**2, group, notes=notes)


def _check(races: Races, label: str) -> None:
    race = np.repeat(np.arange(len(races.offsets) - 1), np.diff(races.offsets))
    key = np.sort(race * len(races.names) + races.item)
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        again = int(key[twice[0]])
        which = races.names[again % len(races.names)]
        raise DataError(
            f"{label}: race {again // len(races.names) + 1} has {which!r} twice; a competitor has one place."
        )
    if not np.any((np.diff(races.offsets) > 1) & (races.count > 0)):
        raise DataError(f"{label}: no race that counts has two competitors; at least two are needed to compare.")


def split(races: Races, label: IntArray) -> Races:
    """Every race cut, in the order of its places, where the label of the competitors changes."""
    race = np.repeat(np.arange(len(races.count)), np.diff(races.offsets))
    order = np.lexsort((races.place, race))
    race, of = race[order], label[races.item[order]]
    starts = np.flatnonzero(np.concatenate([[True], (race[1:] != race[:-1]) | (of[1:] != of[:-1])]))
    part = race[starts]
    return replace(
        races,
        item=races.item[order],
        place=races.place[order],
        offsets=np.append(starts, len(order)).astype(np.int64),
        count=races.count[part],
        squares=races.squares[part],
        group=None if races.group is None else races.group[part],
        covariates=None if races.covariates is None else races.covariates[order],
    )


def from_battles(battles: Battles) -> Races:
    """Battles as races of two, equal ones joined."""
    if battles.teams is not None or battles.side is not None or battles.covariates is not None:
        raise DataError("Teams, side effects and covariates of battles need a model of two sides, such as 'davidson'.")
    n, tied = len(battles.names), battles.outcome == TIE
    swap = (battles.outcome == B_WINS) | (tied & (battles.a > battles.b))
    better, worse = np.where(swap, battles.b, battles.a), np.where(swap, battles.a, battles.b)
    keys, row = np.unique((better * n + worse) * 2 + tied, return_inverse=True)
    group = battles.group
    count = np.ones(len(row)) if battles.count is None else battles.count
    weight = np.ones(len(row)) if battles.weight is None else battles.weight
    if group is None:
        total, squares = (add_up(row, count * w, len(keys)) for w in (weight, weight**2))
    else:
        keys, total, squares = keys[row], count * weight, count * weight**2
    pair = keys // 2
    place = np.column_stack([np.ones(len(keys)), 2.0 - keys % 2])
    return Races(
        names=battles.names,
        item=np.column_stack([pair // n, pair % n]).ravel(),
        place=place.ravel(),
        offsets=np.arange(0, 2 * len(keys) + 1, 2, dtype=np.int64),
        count=total,
        squares=squares,
        group=group,
    )
