"""`Races`: results of several competitors, with ties, as coded arrays that were checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.board.battles import MOST_WEIGHT, USUAL, Battles, columns_of, parts_of_wins, rename
from luce.aggregate.board.newton import add_up
from luce.aggregate.board.options import Columns
from luce.aggregate.board.outcomes import B_WINS, TIE
from luce.data.names import one_code, one_form
from luce.data.table import Rows, Table
from luce.errors import DataError, SettingError
from luce.numerics.segments import Tiers, query_index, tiers
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

    @cached_property
    def race(self) -> IntArray:
        """The race of every row."""
        return query_index(self.offsets)

    @cached_property
    def tiers(self) -> Tiers:
        """The rows of every race in order of their places, those that share a place together."""
        return tiers(-self.place, self.offsets)

    def alone(self, r: int) -> Races:
        """One race, without judges, covariates and notes."""
        rows, one = slice(*self.offsets[r : r + 2]), slice(r, r + 1)
        cut = {"item": self.item[rows], "place": self.place[rows], "offsets": self.offsets[r : r + 2] - self.offsets[r]}
        return Races(self.names, **cut, count=self.count[one], squares=self.squares[one])

    @property
    def times(self) -> FloatArray:
        """How many races each stands for, whatever their weight: t w and t w^2 give t."""
        return np.where(self.squares > 0, self.count**2 / np.maximum(self.squares, 1e-300), 0.0)


def find_race_columns(source: Table, given: Columns) -> tuple[Columns, tuple[str, ...]] | None:
    """The columns of race results and, where a row is a whole race, those of its places; None for other tables.

    Long: race, competitor, place, one row a competitor. Wide: rank1, rank2, ... (or place1, ...), one row a race.
    """
    unnamed = given.race is given.competitor is given.place is None
    if unnamed and not (given.a is given.b is given.outcome is None):
        return None
    long = {"race", "competitor", "place"} <= set(source.names)
    places = [(int(m[1]), name) for name in source.names if unnamed and (m := _WIDE.fullmatch(name.lower()))]
    wide = dict(places)
    if len(wide) < len(places):
        twice = next(k for i, (k, _) in enumerate(places) if k in dict(places[:i]))
        raise DataError(f"{source.label} has two columns for the place {twice}; leave one of them out.")
    if unnamed and (wide or long) and any({a, b, *columns_of(won)} <= set(source.names) for a, b, won in USUAL):
        raise DataError(
            f"{source.label} has columns of battles and columns of races; name those that count: a, b and outcome, or "
            "race, competitor and place."
        )
    if unnamed and not long:
        if not wide:
            return None
        if given.covariates:
            raise DataError("Covariates need races in long form: one row a competitor, with race and place.")
        return given, tuple(wide[k] for k in sorted(wide))
    parts = {part: getattr(given, part) or part for part in ("race", "competitor", "place")}
    for part, name in parts.items():
        source.name(name, role=part)
    for extra in (given.weight, given.group, *given.covariates):
        if extra is not None:
            source.name(extra, role="weight, group or covariate")
    return replace(given, **parts), ()


def read_races(source: Table, columns: Columns, wide: tuple[str, ...], names: Mapping[str, str] | None = None) -> Races:
    """Read and check the results of a table; `names` gives competitors other names."""
    long = [] if wide else [str(columns.race), str(columns.competitor), str(columns.place)]
    wanted = [*wide, *long, columns.weight, columns.group, *columns.covariates]
    rows = source.read([name for name in wanted if name is not None], long[:2])
    if not len(rows):
        raise DataError(f"{source.label} has no rows; at least one race is needed.")
    row, race, item, found, place, notes = _wide(rows, wide) if wide else _long(rows, *long)
    order = np.argsort(race, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(race))]).astype(np.int64)
    items, place_of = np.unique(np.array(found, dtype=object), return_inverse=True)
    item, row = place_of[item][order], row[order]
    covariates, group, weight = None, None, np.ones(len(offsets) - 1)
    if columns.covariates:
        covariates = np.column_stack([rows[c].number() for c in columns.covariates])[row]
    if columns.weight is not None:
        weight = _of_race(rows[columns.weight].number(least=0.0, most=MOST_WEIGHT)[row], offsets, "weights")
    if columns.group is not None:
        judge, _, same = one_code(rows[columns.group])
        group, notes = _of_race(judge[row], offsets, "groups"), (*notes, *same)
    effects = tuple(columns.covariates)
    races = Races(tuple(items), item, place[order], offsets, weight, weight**2, group, covariates, effects, notes)
    shown, unknown = rename(races.names, names)
    key = np.sort(races.race * len(races.names) + races.item)
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        again, which = divmod(int(key[twice[0]]), len(races.names))
        raise DataError(
            f"{source.label}: race {again + 1} has {races.names[which]!r} twice; a competitor has one place."
        )
    if not np.any((np.diff(offsets) > 1) & (weight > 0)):
        raise DataError(f"{source.label}: no race that counts has two competitors; at least two are needed to compare.")
    alone, nothing = int(np.sum(np.diff(races.offsets) == 1)), int(np.sum(races.count == 0))
    said = [f"{alone:,} races have one competitor and say nothing."] if alone else []
    said += [f"{nothing:,} races have the weight 0 and say nothing."] if nothing else []
    return replace(races, names=shown, notes=(*notes, *unknown, *said))


_Rows = tuple[IntArray, IntArray, IntArray, Sequence[str], FloatArray, tuple[str, ...]]
"""Of every result its row, race, competitor, with their names, and place; and what there is to say."""


def _long(rows: Rows, race: str, competitor: str, place: str) -> _Rows:
    """One row a competitor."""
    item, found, notes = one_code(rows[competitor])
    # A place of 0 or below would be better than the first; tables write it for those who did not finish.
    return np.arange(len(rows)), rows[race].codes()[0], item, found, rows[place].number(least=1.0), notes


def _wide(rows: Rows, columns: tuple[str, ...]) -> _Rows:
    """One row a race; empty cells are no competitors."""
    cells = np.array([rows[name].text() for name in columns], dtype=object).T
    row, position = (index.astype(np.int64) for index in np.nonzero(cells != ""))
    empty = np.flatnonzero(np.bincount(row, minlength=len(rows)) == 0)
    if len(empty):
        raise rows.error(int(empty[0]), "the race names no competitor.")
    shown, notes = one_form(cells[row, position])
    found = list(dict.fromkeys(shown.values()))
    number = {name: i for i, name in enumerate(found)}
    item = np.array([number[shown[name]] for name in cells[row, position]], dtype=np.int64)
    return row, row, item, found, position.astype(np.float64) + 1.0, notes


def _of_race(values: NDArray[Any], offsets: IntArray, what: str) -> NDArray[Any]:
    first = values[offsets[:-1]]
    if np.any(np.repeat(first, np.diff(offsets)) != values):
        raise DataError(f"The rows of one race have different {what}; all rows of a race must agree.")
    return first


def from_battles(battles: Battles) -> Races:
    """Battles as races of two, equal ones joined."""
    if battles.teams is not None or battles.side is not None or battles.covariates is not None:
        raise DataError("Teams, side effects and covariates of battles need a model of two sides, such as 'davidson'.")
    if np.any(battles.a == battles.b):
        raise SettingError("self_battles='tie' needs a model of two sides, such as 'davidson'; use 'drop'.")
    battles = parts_of_wins(battles)
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
