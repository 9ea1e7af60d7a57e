"""`Battles`: comparisons of two sides, as coded arrays that were checked once, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from luce.aggregate.board.ids import Ids
from luce.aggregate.board.options import Columns, Treatment
from luce.aggregate.board.outcomes import A_WINS, B_WINS, BOTH_BAD, TIE, Outcomes, read_outcomes
from luce.data.column import Column
from luce.data.names import one_code, one_form, plain
from luce.data.table import Rows, Table
from luce.errors import DataError, SettingError
from luce.numerics.segments import map_chunks
from luce.types import FloatArray, IntArray

USUAL: tuple[tuple[str, str, str | tuple[str, ...] | None], ...] = (
    ("a", "b", "outcome"),
    ("model_a", "model_b", "winner"),
    ("model_a", "model_b", ("winner_model_a", "winner_model_b", "winner_tie")),
    ("generator_1", "generator_2", "preference"),
    ("winner", "loser", None),
)
"""Names of columns that are known without being given: of a, of b, and of who won."""


def columns_of(name: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns that an outcome stands in: none, one, two of goals, or three of which one is 1."""
    return () if name is None else (name,) if isinstance(name, str) else name


def find_columns(source: Table, given: Columns) -> Columns:
    """The given columns, and for the others those with a usual name.

    Usual are the names of `USUAL`. Naming one leaves the usual names of the others. The outcome is None where a is the
    winner of every row that is not marked as a tie.
    """
    a, b, outcome = _sides_and_outcome(source, given)
    several = _several(source, outcome)
    if a == "winner" and outcome is None:
        _tie_column(source)
    elif several is None:
        outcome = source.name(str(outcome or "outcome"), role="outcome")
    roles = {"first side": a, "second side": b, "weights": given.weight, "counts": given.count}
    _different(source.label, {**roles, "outcome": None if several else outcome})
    roles |= {
        "group": given.group,
        "neutral ground": given.neutral,
        "time": given.time,
        "category": given.by,
        "id": given.id,
    }
    for role, name in (*roles.items(), *(("covariate", c) for c in _covariates(given))):
        if name is not None:
            source.name(name, role=role)
    return replace(given, a=a, b=b, outcome=several or outcome)


def _covariates(columns: Columns) -> list[str]:
    """The columns of the covariates; of pairs, that of a and that of b in turn."""
    given = columns.covariates
    return [c for pair in given.values() for c in pair] if isinstance(given, Mapping) else list(given)


def _sides_and_outcome(source: Table, given: Columns) -> tuple[str, str, str | tuple[str, ...] | None]:
    """The first usual names that fit what is given and what is there; those of one kind of file before a mixture."""
    named = (given.a, given.b, given.outcome)
    outcomes = [usual[2] for usual in USUAL if usual[2] is not None]
    mixed = [(a, b, outcome) for a, b, other in USUAL if other is not None for outcome in outcomes]
    for usual in (*USUAL, *mixed):
        if usual[2] is None and (given.outcome is not None or given.a not in (None, "winner")):
            continue  # who wins, the two names say
        left = [c for name, other in zip(usual, named, strict=True) if other is None for c in columns_of(name)]
        if not set(left) & {given.a, given.b, *columns_of(given.outcome)} and set(left) <= set(source.names):
            return given.a or usual[0], given.b or usual[1], given.outcome or usual[2]
    if named == (None, None, None):
        raise DataError(
            f"{source.label} has the columns {', '.join(source.names) or '(none)'}; battles need a, b, outcome, or "
            "model_a, model_b, winner (or winner_model_a, winner_model_b, winner_tie), or generator_1, generator_2, "
            "preference, or winner, loser (tie); name other columns with a, b and outcome (two columns of goals or "
            "points, of a and of b, are an outcome too)."
        )
    return given.a or "a", given.b or "b", given.outcome


def _several(source: Table, outcome: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Two or three columns, given as such or as "home_score,away_score"."""
    if isinstance(outcome, str) and outcome not in source.names and outcome.count(",") in (1, 2):
        outcome = tuple(name.strip() for name in outcome.split(","))
    if outcome is None or isinstance(outcome, str):
        return None
    roles = ("goals of a", "goals of b") if len(outcome) == 2 else ("wins of a", "wins of b", "ties")
    found = tuple(source.name(name, role=role) for name, role in zip(outcome, roles, strict=True))
    _different(source.label, dict(zip(roles, found, strict=True)))
    return found


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


MOST_WEIGHT = 1e12
"""Beyond it the others would drown in rounding."""
YEAR = 365.25
"""Days of a year: dates become years since 1970."""


@dataclass(frozen=True, eq=False)
class Battles:
    """One row a battle (or a count of equal ones): side a, side b, and who won.

    `a` and `b` number the sides; a side is an item, or a team where `teams` is given.
    """

    names: tuple[str, ...]
    a: IntArray
    b: IntArray
    outcome: NDArray[np.int64]
    share: FloatArray | None = None
    """Of a win, the part that goes to a, where outcomes are graded; `outcome` says nothing then."""
    count: FloatArray | None = None
    """How many battles a row stands for; None means 1."""
    weight: FloatArray | None = None
    """How much each battle of a row counts; None means 1."""
    group: IntArray | None = None
    """Who judged: rows of one group are resampled together."""
    group_names: tuple[str, ...] = ()
    side: FloatArray | None = None
    """1 where side a has the advantage of its position, 0 on neutral ground; None: no such effect."""
    covariates: FloatArray | None = None
    """(rows, covariates): values of a minus those of b."""
    covariate_names: tuple[str, ...] = ()
    teams: sparse.csr_array | None = None
    """(sides, items): 1 for the members of every side."""
    time: FloatArray | None = None
    """When: years since 1970 for dates, otherwise the unit of the column."""
    dated: bool = False
    category: IntArray | None = None
    category_names: tuple[str, ...] = ()
    both_bad: float = 0.0
    """How many battles were ties of the kind "both are bad"."""
    read_ids: Ids = field(default_factory=Ids)
    notes: tuple[str, ...] = ()
    """What there is to say of the names."""

    @property
    def n_sides(self) -> int:
        """Items, or different teams."""
        return len(self.names) if self.teams is None else self.teams.shape[0]

    @property
    def has_draws(self) -> bool:
        """Whether any battle is a draw, and no part of a win."""
        return self.share is None and bool(np.any(self.outcome == TIE))

    @property
    def n_battles(self) -> float:
        """Battles, with their counts."""
        return float(len(self.a) if self.count is None else self.count.sum())


def read_battles(source: Table, given: Columns, treatment: Treatment) -> Battles:
    """Find, read and check the battles of a table."""
    columns = find_columns(source, given)
    pair, won = [str(columns.a), str(columns.b)], columns.outcome
    tie = _tie_column(source) if won is None else None
    others = (columns.weight, columns.count, columns.group, columns.neutral, columns.time, columns.by)
    wanted = dict.fromkeys((*pair, *columns_of(won), tie, *others, *_covariates(columns)))
    rows = source.read([name for name in wanted if name is not None], [*pair, *filter(None, [columns.group])])
    if not len(rows):
        raise DataError(f"{source.label} has no rows; at least one battle is needed.")
    items, a, b, teams, notes = _sides(rows, pair, treatment)
    found = _outcomes(rows, won, tie, a, b, () if teams is not None else items)
    names, unknown = rename(items, treatment.names)
    count = None if columns.count is None else rows[columns.count].number(least=0.0, most=MOST_WEIGHT)
    weight = None if columns.weight is None else rows[columns.weight].number(least=0.0, most=MOST_WEIGHT)
    neutral = np.zeros(len(rows)) if columns.neutral is None else rows[columns.neutral].flags()
    covariates = None
    if columns.covariates:
        covariates = np.column_stack([rows[name].number() for name in _covariates(columns)])
        if isinstance(columns.covariates, Mapping):
            covariates = _differences(covariates, columns.covariates)
    if count is not None and np.any(count != np.round(count)):
        row = int(np.flatnonzero(count != np.round(count))[0])
        raise rows.error(row, f"the count is {count[row]:g}; counts must be whole numbers (use weight for others).")
    if count is not None and found.share is not None:
        raise DataError(
            f"{source.label}: the column {won!r} holds parts of a win, and a count does not say how they differ from "
            "battle to battle; give one row a battle, or weight for how much it counts."
        )
    time, dated = (None, False) if columns.time is None else rows[columns.time].times()
    strong, weight = _weigh_strong(found.strong, weight, treatment.strong, source.label)
    category, kinds, same_kind = _coded(rows, columns.by)
    group, judges, same_judge = _coded(rows, columns.group)
    battles = Battles(
        names=names,
        a=a,
        b=b,
        outcome=found.won,
        share=found.share,
        count=count,
        weight=weight,
        group=group,
        group_names=judges,
        side=np.where(neutral, 0.0, 1.0) if treatment.side else None,
        covariates=covariates,
        covariate_names=tuple(columns.covariates),
        teams=teams,
        time=time / YEAR if dated and time is not None else time,
        dated=dated,
        category=category,
        category_names=kinds,
        read_ids=Ids(source=source, given=columns.id),
        notes=tuple(dict.fromkeys((*notes, *unknown, *found.notes, *strong, *same_kind, *same_judge))),
    )
    return _settle(battles, treatment, source.label)


def _weigh_strong(
    strong: NDArray[np.bool_] | None, weight: FloatArray | None, times: float, label: str
) -> tuple[tuple[str, ...], FloatArray | None]:
    """A word on strong verdicts, and the weights with them."""
    if strong is None:
        if times != 1.0:
            raise SettingError(f"strong is {times:g}, and {label} has no verdicts A>>B or B>>A; leave it out.")
        return (), weight
    said = "like any other win (strong says otherwise)" if times == 1.0 else f"{times:g} times a win"
    note = f"{int(strong.sum()):,} battles have a strong verdict (A>>B or B>>A), which counts {said}."
    return (note,), weight if times == 1.0 else np.where(strong, times, 1.0) * (1.0 if weight is None else weight)


def _coded(rows: Rows, name: str | None) -> tuple[IntArray | None, tuple[str, ...], tuple[str, ...]]:
    return (None, (), ()) if name is None else one_code(rows[name])


def _differences(values: FloatArray, names: Iterable[str]) -> FloatArray:
    """Side a less side b, in units of the standard deviation of the difference."""
    result = values[:, 0::2] - values[:, 1::2]
    for name, spread in zip(names, result.std(axis=0), strict=True):
        if spread == 0.0:
            raise DataError(f"The covariate {name!r} never differs between the sides; leave it out.")
    return np.asarray(result / result.std(axis=0))


def rename(items: tuple[str, ...], names: Mapping[str, str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Other names for some items, which must stay different, and a word on names for items that are not there."""
    if not names:
        return items, ()
    shown = {str(plain(key)): str(name) for key, name in names.items()}
    renamed = tuple(shown.get(item, item) for item in items)
    if len(set(renamed)) != len(renamed):
        raise DataError("Two items get the same name; names must differ.")
    absent = sorted(set(shown) - set(items))
    if not absent:
        return renamed, ()
    listed = ", ".join(map(repr, absent[:3])) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
    return renamed, (f"{len(absent)} of {len(shown)} names are for items that are not in the data: {listed}.",)


def read_names(path: Path) -> dict[str, str]:
    """The first two columns of a file: id, and the name to show."""
    table = Table.open(path)
    if len(table.names) < 2:
        raise DataError("A table of names needs two columns: the id in the results, and the name to show.")
    rows = table.read(table.names[:2], table.names[:2])
    return dict(zip(*(rows[name].text() for name in table.names[:2]), strict=True))


def _sides(
    rows: Rows, names: list[str], treatment: Treatment
) -> tuple[tuple[str, ...], IntArray, IntArray, sparse.csr_array | None, tuple[str, ...]]:
    pair, separator = [rows[name] for name in names], treatment.team_separator
    lists = any(column.is_list for column in pair)
    # Two columns on two threads: coding the names is most of the work of a large table.
    coded = map_chunks(lambda k, _: _encode_side(pair[k]), [(0, 1), (1, 2)])
    written = {side: _members(side, separator) for _, found in coded for side in found}
    shown, notes = one_form(member for members in written.values() for member in members)
    team_of = {side: _members(tuple(shown[m] for m in members), None) for side, members in written.items()}
    sides = sorted(set(team_of.values()))
    where = {side: i for i, side in enumerate(sides)}
    a, b = (np.array([where[team_of[s]] for s in found], dtype=np.int64)[codes] for codes, found in coded)
    if treatment.self_battles == "error" and np.any(a == b):
        row = int(np.flatnonzero(a == b)[0])
        raise rows.error(
            row,
            f"{_show(sides[a[row]])} is set against itself; a battle needs two sides. Leave such rows out with "
            "self_battles='drop' (--self-battles drop), or count them as ties with 'tie'.",
        )
    if separator is None and not lists:
        return tuple(side[0] for side in sides), a, b, None, notes
    items = tuple(sorted({m for side in sides for m in side}))
    number = {name: i for i, name in enumerate(items)}
    starts = np.concatenate([[0], np.cumsum([len(side) for side in sides])]).astype(np.int64)
    members = np.array([number[m] for side in sides for m in side], dtype=np.int64)
    for i, j in np.unique(np.column_stack([a, b]), axis=0):
        shared = set(sides[i]) & set(sides[j])
        if shared and i != j:
            row = int(np.flatnonzero((a == i) & (b == j))[0])
            raise rows.error(row, f"{min(shared)!r} plays on both sides of a battle; a member has one side.")
    teams = sparse.csr_array((np.ones(len(members)), members, starts), shape=(len(sides), len(items)))
    return items, a, b, teams, notes


def _show(side: tuple[str, ...]) -> str:
    return repr(side[0]) if len(side) == 1 else repr(list(side))


def _encode_side(column: Column) -> tuple[IntArray, list[tuple[str, ...]]]:
    if not column.is_list:
        codes, found = column.codes()
        return codes, [(value,) for value in found]
    sizes, inside = column.lists()
    if np.any(sizes == 0):
        raise column.error(int(np.flatnonzero(sizes == 0)[0]), "is a team without members; name one at least.")
    member, names = inside.codes()
    teams = np.split(member, np.cumsum(sizes)[:-1])
    number: dict[tuple[str, ...], int] = {}
    codes = np.array([number.setdefault(tuple(sorted(names[m] for m in team)), len(number)) for team in teams])
    return codes, list(number)


def _members(side: tuple[str, ...], separator: str | None) -> tuple[str, ...]:
    if separator is None or len(side) > 1:
        team = side
    else:
        team = tuple(member.strip() for member in side[0].split(separator))
    if not all(team) or len(set(team)) != len(team):
        raise DataError(f"The team {_show(side)} names a member twice or not at all; members must differ.")
    return team


def _outcomes(
    rows: Rows, column: str | tuple[str, ...] | None, tie: str | None, a: IntArray, b: IntArray, items: tuple[str, ...]
) -> Outcomes:
    if isinstance(column, str):
        return read_outcomes(rows[column], a, b, items)
    if column is None:
        drawn = np.zeros(len(rows), dtype=bool) if tie is None else rows[tie].flags()
        return Outcomes(np.where(drawn, TIE, A_WINS).astype(np.int64))
    if len(column) == 3:
        marks = np.column_stack([rows[name].flags() for name in column])
        wrong = np.flatnonzero(marks.sum(axis=1) != 1)
        if len(wrong):
            raise rows.error(
                int(wrong[0]),
                f"{marks[wrong[0]].sum()} of {', '.join(column)} are 1; one of them says who won, so just one must be.",
            )
        return Outcomes(np.argmax(marks, axis=1).astype(np.int64))
    # The side with more goals (points, votes) wins.
    ahead = np.subtract(*(rows[name].number() for name in column))
    return Outcomes(np.where(ahead > 0, A_WINS, np.where(ahead < 0, B_WINS, TIE)).astype(np.int64))


def _settle(battles: Battles, treatment: Treatment, label: str) -> Battles:
    """Apply the policies for ties that were bad on both sides and for battles of one against itself.

    Battles that count nothing are left out.
    """
    own, drop = battles.a == battles.b, treatment.self_battles == "drop"
    if own.all():
        raise DataError(f"{label}: every battle sets one against itself; at least one of two sides is needed.")
    if own.any():
        count = float(own.sum() if battles.count is None else battles.count[own].sum())
        done = "are left out" if drop else "count as ties, whatever their outcome"
        noted = (*battles.notes, f"{count:,g} battles set one against itself; they {done}.")
        share = None if battles.share is None else np.where(own, 0.5, battles.share)
        battles = replace(battles, notes=noted, outcome=np.where(own, TIE, battles.outcome), share=share)
        battles = select(battles, ~own) if drop else battles
    bad = battles.outcome == BOTH_BAD
    count = float(bad.sum() if battles.count is None else battles.count[bad].sum())
    keep = ~bad if treatment.both_bad == "drop" else np.ones(len(bad), dtype=bool)
    for factor in (battles.count, battles.weight):
        if factor is not None:
            keep &= factor > 0
    if not keep.any():
        raise DataError(
            f"{label}: nothing is left after battles that count 0 and, with both_bad='drop', those bad on both "
            "sides; at least one battle is needed."
        )
    nothing = int(np.sum(~keep & ~bad))
    notes = (*battles.notes, *([f"{nothing:,} battles count 0 and are left out."] if nothing else []))
    outcome = np.where(bad, TIE, battles.outcome)
    settled = replace(battles, outcome=outcome, both_bad=count, notes=notes)
    return settled if keep.all() else select(settled, keep)


def parts_of_wins(battles: Battles) -> Battles:
    """Graded outcomes as parts of wins: one of a that counts its share, and one of b that counts the rest.

    The parts of a battle belong together, in errors and in resampling: where nobody judged, `group` numbers the
    battles.
    """
    share = battles.share
    if share is None:
        return battles
    of_a, of_b = np.flatnonzero(share > 0.0), np.flatnonzero(share < 1.0)
    group = np.arange(len(share)) if battles.group is None else battles.group
    parts = select(replace(battles, group=group), np.concatenate([of_a, of_b]))
    won = np.repeat([A_WINS, B_WINS], [len(of_a), len(of_b)])
    return replace(parts, outcome=won, share=None, count=np.concatenate([share[of_a], 1.0 - share[of_b]]))


def by_category(battles: Battles) -> dict[str, Battles]:
    """The battles of every category by its name, each with the items that play there and without a category."""
    assert battles.category is not None
    kinds = len(battles.category_names)
    # Sorted once and cut: a mask a category would pass over all battles again and again. Short numbers sort by radix.
    short = battles.category.astype(np.uint16) if kinds <= 2**16 else battles.category
    ordered = select(battles, np.argsort(short, kind="stable"))
    ends = np.cumsum(np.bincount(battles.category, minlength=kinds)).tolist()
    cuts = [slice(low, high) for low, high in zip([0, *ends], ends, strict=False)]
    ordered = replace(ordered, category=None, category_names=())
    return {name: _present(select(ordered, cut)) for name, cut in zip(battles.category_names, cuts, strict=True)}


def _present(battles: Battles) -> Battles:
    """Without the names of items that have no battle here; teams stay as they are."""
    if battles.teams is not None:
        return battles
    n = len(battles.names)
    used = np.flatnonzero(np.bincount(battles.a, minlength=n) + np.bincount(battles.b, minlength=n))
    code = np.full(len(battles.names), -1)
    code[used] = np.arange(len(used))
    names = tuple(battles.names[i] for i in used)
    return replace(battles, names=names, a=code[battles.a], b=code[battles.b])


def select(battles: Battles, keep: NDArray[Any] | slice) -> Battles:
    """Some of the battles, by a mask, by number or as a slice, with all names."""
    by_row = ("a", "b", "outcome", "share", "count", "weight", "group", "side", "covariates", "time", "category")
    given = {name: getattr(battles, name) for name in by_row}
    return replace(battles, **{name: values[keep] for name, values in given.items() if values is not None})
