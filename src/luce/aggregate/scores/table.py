"""`ScoreTable`: scores of models on tasks, from a wide or a long table, checked once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from luce.aggregate.board.options import Treatment
from luce.aggregate.board.races import Races
from luce.checks import number
from luce.data.column import Column
from luce.data.names import one_code, plain
from luce.data.outline import check_memory
from luce.data.table import Rows, Table
from luce.data.text_files import number as number_of
from luce.errors import DataError, SettingError
from luce.registry import unknown_name
from luce.types import FloatArray, IntArray


def races_of(table: ScoreTable, level: float) -> Races:
    """One race a task, its rows best first.

    A place is led by its best score; a score shares it if it is lower by no more than the tolerance of the task, or,
    where standard errors are known, by no more than their difference allows at this level.
    """
    z, items, places = float(ndtri(0.5 + level / 2)), [], []
    for t, score in enumerate(table.scores.T):
        order = np.argsort(-score, kind="stable")[: np.isfinite(score).sum()]
        reach = np.zeros(len(order)) if table.errors is None else z * np.nan_to_num(table.errors[order, t])
        items.append(order)
        places.append(_places(score[order].tolist(), float(table.tolerance[t]), reach.tolist()))
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in items])]).astype(np.int64)
    rows = np.concatenate(items), np.concatenate(places)
    return Races(table.names, *rows, offsets, table.weights, table.weights**2)


def _places(score: list[float], tolerance: float, reach: list[float]) -> FloatArray:
    lead, places = 0, []
    for i, value in enumerate(score):
        if score[lead] - value > max(tolerance, math.hypot(reach[lead], reach[i])):
            lead = i
        places.append(1.0 + lead)
    return np.array(places)


_NAMES = ("model", "name", "system", "item", "player", "competitor")
_TASKS = ("task", "dataset", "benchmark", "test")
_SCORES = ("score", "value", "result")
# fmt: off
_NO_TASKS = {
    "rank", "place", "position", "average", "avg", "mean", "median", "sum", "total", "overall", "id", "index",
    "number", "seed", "date", "day", "month", "year", "time", "timestamp", "created", "updated", "released",
    "release", "version", "size", "params", "parameters", "layers", "epoch", "epochs", "step", "steps", "tokens",
    "context", "cost", "price", "fold", "run", "trial", "batch", "count",
}
# fmt: on
"""Words in the names of columns that are seldom scores."""
_MISSING = {"", "nan", "na", "n/a", "none", "null", "-"}
_TEXTS = ("string", "categorical", "mixed")
"""Kinds of an index of names, as pandas calls them."""
_FEW = 3
"""So few scores may stand in the order of the rows by chance."""
_LARGEST = 1e100
"""Beyond it squares of differences overflow."""


@dataclass(frozen=True)
class ScoreColumns:
    """Which columns hold what, where they are not the usual ones, and how scores are to be read."""

    item: str | None = None
    """The column of the models."""
    task: str | None = None
    score: str | None = None
    score_se: str | None = None
    """Long tables: the standard error of a score."""
    where: Mapping[str, str] | None = None
    """Keep the rows with these values in these columns."""
    drop: Sequence[str] = ()
    """Columns of a wide table that are not tasks, or tasks of a long one to leave out."""
    lower: Sequence[str] = ()
    """Tasks where lower scores are better."""
    tolerance: float | Mapping[str, float] = 0.0
    """Scores that differ by no more are tied: one number, or one a task."""
    task_weights: Mapping[str, float] | None = None
    short_rows: str = "error"
    """What a row of CSV with too few cells is: error, drop (left out), or fill (the last cells are missing)."""

    def __post_init__(self) -> None:
        for name in ("drop", "lower"):
            if isinstance(getattr(self, name), str):
                raise SettingError(f"{name} is {getattr(self, name)!r}; it must be a list: [{getattr(self, name)!r}].")
        for name in ("where", "task_weights"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise SettingError(f"{name} is {getattr(self, name)!r}; it must map names to values.")
        Treatment(short_rows=self.short_rows)  # type: ignore[arg-type]  # refuses what is no policy
        tolerances = self.tolerance if isinstance(self.tolerance, Mapping) else {"": self.tolerance}
        for task, value in tolerances.items():
            number(f"tolerance of {task!r}" if task else "tolerance", value)
        for task, value in (self.task_weights or {}).items():
            number(f"the weight of the task {task!r}", value)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores with higher = better, NaN where there is none."""

    names: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: FloatArray
    """(models, tasks)."""
    errors: FloatArray | None
    """(models, tasks) standard errors of the scores; NaN where unknown."""
    tolerance: FloatArray
    weights: FloatArray
    """One a task, with mean 1."""
    notes: tuple[str, ...] = ()


_Read = tuple[tuple[str, ...], tuple[str, ...], FloatArray, FloatArray | None, list[str]]
"""What a table says, before anything is left out: names, tasks, scores, their errors, and what there is to say."""


def open_scores(data: Any, name: str | None) -> Table:
    """The table of scores; where no column names the models, texts in the index of a pandas frame do.

    An index of numbers is the number of a row, and no name.
    """
    import narwhals as nw

    source = Table.open(data)
    frame = nw.from_native(data, pass_through=True)
    levels: Any = nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None
    if levels is None or _models(source, name) is not None:
        return source
    texts = [k for k in range(levels.nlevels) if levels.get_level_values(k).inferred_type in _TEXTS]
    named: dict[str, Any] = {}
    for k in texts:
        values, given = levels.get_level_values(k), levels.names[k]
        title = _NAMES[0] if given is None or (len(texts) == 1 and given not in (name, *_TASKS)) else str(given)
        named[title] = [None if empty else value for value, empty in zip(values, values.isna(), strict=True)]
    return Table(data, named) if named and not {*named} & {*source.names} else source


def read_scores(source: Table, columns: ScoreColumns) -> ScoreTable:
    """Read a long table where it has columns of a task and a score, and a wide one otherwise."""
    task = columns.task or next((c for c in _TASKS if c in source.names), None)
    score = columns.score or next((c for c in _SCORES if c in source.names), None)
    for given, role in ((columns.item, "name"), (columns.task, "task"), (columns.score, "score")):
        if given is not None:
            source.name(given, role=role)
    if task is not None and score is not None:
        names, tasks, scores, errors, notes = _long(source, columns, task, score)
    elif columns.task is None and columns.score is None and columns.score_se is None:
        names, tasks, scores, errors, notes = _wide(source, columns)
    else:
        raise DataError(
            f"{source.label} needs a column of the task and one of the score; its columns are "
            f"{', '.join(source.names)}."
        )
    weight_of, tolerance = columns.task_weights or {}, columns.tolerance
    by_task = [tolerance.get(t, 0.0) if isinstance(tolerance, Mapping) else tolerance for t in tasks]
    for named in (*columns.lower, *weight_of, *(tolerance if isinstance(tolerance, Mapping) else ())):
        if named not in tasks:
            raise unknown_name("task", named, tasks)
    keep = np.array([t not in columns.drop and weight_of.get(t, 1.0) != 0.0 for t in tasks])
    if columns.lower:
        scores = scores * np.where(np.isin(tasks, list(columns.lower)), -1.0, 1.0)
    there = np.isfinite(scores)
    empty, models = keep & (there.sum(axis=0) == 0), there[:, keep].any(axis=1)
    for which, what in ((np.array(tasks)[empty], "tasks"), (np.array(names)[~models], "models")):
        if len(which):
            notes.append(f"{len(which)} {what} have no scores and are left out: {', '.join(which[:5])}.")
    keep &= ~empty
    if models.sum() < 2 or not keep.any():
        raise DataError(
            f"{source.label} has scores of {models.sum()} models on {keep.sum()} tasks; a board needs two models."
        )
    weights = np.array([weight_of.get(t, 1.0) for t in tasks])[keep]
    part = np.ix_(models, keep)
    return ScoreTable(
        names=tuple(np.array(names)[models].tolist()),
        tasks=tuple(np.array(tasks)[keep].tolist()),
        scores=scores[part],
        errors=None if errors is None else errors[part],
        tolerance=np.array(by_task)[keep],
        weights=weights / weights.mean(),
        notes=tuple(notes),
    )


def _name_column(source: Table, columns: ScoreColumns) -> tuple[str, list[str]]:
    """The column of the models and, where it was guessed, a word on it."""
    found = columns.item or _models(source, None)
    if found is None:
        raise DataError(
            f"{source.label} has no column of models: none is named {', '.join(_NAMES)}, and the first one holds no "
            f"names; name it (name=, --item). The columns are {', '.join(source.names) or '(none)'}."
        )
    guessed = columns.item is None and found not in _NAMES
    return found, [f"The models are those of the column {found!r}, the first one."] if guessed else []


def _models(source: Table, name: str | None) -> str | None:
    """The column of the models: the one that is named, else one with a usual name, else the first if it has names."""
    if name is not None:
        return name if name in source.names else None
    first = next((c for c in source.names if not _is_index(c)), None)
    found = next((c for c in _NAMES if c in source.names), first)
    return None if found is None or (found not in _NAMES and source.read([found])[found].is_number) else found


def _is_index(column: str) -> bool:
    """A column without a name, as data frames write the numbers of their rows."""
    return not column.strip() or bool(re.fullmatch(r"Unnamed: \d+|__index_level_\d+__", column))


def _keep(rows: Rows, source: Table, where: Mapping[str, str] | None) -> Rows:
    for column, value in (where or {}).items():
        wanted = str(plain(value)).strip()
        rows = rows.filter(np.array([text == wanted for text in rows[column].text()], dtype=bool))
    if not len(rows):
        picked = " with " + ", ".join(f"{c} = {v!r}" for c, v in where.items()) if where else ""
        raise DataError(f"{source.label} has no rows{picked}; at least two models are needed.")
    return rows


def _long(source: Table, columns: ScoreColumns, task: str, score: str) -> _Read:
    name, notes = _name_column(source, columns)
    wanted = [name, task, score, *([columns.score_se] if columns.score_se else []), *(columns.where or {})]
    for column in wanted:
        source.name(column, role="score board")
    table = _keep(source.read(list(dict.fromkeys(wanted)), [name, task]), source, columns.where)
    item, names, same_name = one_code(table[name])
    of, tasks, same_task = one_code(table[task])
    for left_out in columns.drop:
        if left_out not in tasks:
            raise unknown_name("task", left_out, tasks)
    value, percent = _scores(table[score])
    _one_unit(value, percent, of, tasks, source.label)
    shape = (len(names), len(tasks))
    check_memory(*shape, ("models", "tasks"), 32, "leave tasks out (drop)")
    cell = item * shape[1] + of
    there = np.isfinite(value)
    count = np.bincount(cell[there], minlength=shape[0] * shape[1])
    total = np.bincount(cell[there], value[there], shape[0] * shape[1])
    with np.errstate(invalid="ignore"):
        scores = (total / count).reshape(shape)
    twice = int(np.sum(count > 1))
    notes = [*notes, *dict.fromkeys((*same_name, *same_task))]
    unused = [column for column in source.names if column not in wanted and not _is_index(column)]
    notes += [f"Columns that are not used: {', '.join(unused)}."] if unused else []
    notes += [f"{twice} cells were given more than once; their mean is taken."] if twice else []
    errors = None
    if columns.score_se is not None:
        if twice:
            raise DataError(
                f"{source.label}: {twice} cells were given more than once, and the error of their mean is not known; "
                "give one row a cell, or leave score_se out."
            )
        errors = np.full(shape, np.nan)
        known, _ = _scores(table[columns.score_se])
        if np.any(known < 0):
            row = int(np.flatnonzero(known < 0)[0])
            raise table.error(row, f"the standard error is {known[row]:g}; it cannot be below 0.")
        errors.ravel()[cell[there]] = known[there]
    return names, tasks, scores, errors, notes


def _wide(source: Table, columns: ScoreColumns) -> _Read:
    name, notes = _name_column(source, columns)
    index = [c for c in source.names if _is_index(c) and c not in (name, *columns.drop)]
    notes += [f"The column {c!r} has no name of its own and is left out, as the number of a row." for c in index]
    left_out = {name, *columns.drop, *(columns.where or {}), *index}
    for column in left_out:
        source.name(column, role="score board")
    tasks = tuple(c for c in source.names if c not in left_out)
    if not tasks:
        raise DataError(f"{source.label} has no task: besides the names it needs a column of scores.")
    table = _keep(source.read(None, [name]), source, columns.where)
    item, names, same = one_code(table[name])
    if len(names) < len(item):
        again = names[int(np.argmax(np.bincount(item)))]
        raise DataError(f"{source.label} has {again!r} in two rows; a model has one row of scores.")
    scores = np.empty((len(item), len(tasks)))
    for k, task in enumerate(tasks):
        scores[:, k], percent = _scores(table[task])
        _one_unit(scores[:, k], percent, np.zeros(len(item), dtype=np.int64), [task], source.label)
        if table[task].is_flag or _is_no_task(task, scores[:, k]):
            notes.append(f"The column {task!r} is a task like any other; leave it out with drop if it is none.")
    return tuple(names[i] for i in item), tasks, scores, None, [*notes, *same]


def _is_no_task(name: str, values: FloatArray) -> bool:
    """Whether a column looks like something about the models, not a score: by its name, or the number of the row."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    counted = len(values) > _FEW and bool((np.diff(values) == 1).all())
    return counted or bool(words & _NO_TASKS)


def _scores(column: Column) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Numbers with NaN for empty cells and for the words that mean a missing value, and which have a percent sign."""
    percent = np.zeros(len(column), dtype=bool)
    if column.is_number or column.is_flag:
        values = column.floats()
    else:
        texts = column.text()
        percent = np.array([text.endswith("%") for text in texts], dtype=bool)
        values = np.array([_number(text, row, column) for row, text in enumerate(texts)], dtype=np.float64)
    large = np.abs(values) > _LARGEST
    if large.any():
        row = int(np.flatnonzero(large)[0])
        raise column.error(row, f"is the score {values[row]:g}; scores must lie within {_LARGEST:g} of 0.")
    return values, percent


def _number(text: str, row: int, column: Column) -> float:
    if text.lower() in _MISSING:
        return math.nan
    value = number_of(text.removesuffix("%").rstrip())
    if math.isnan(value):
        hint = (
            "write a decimal point, not a comma"
            if re.fullmatch(r"[-+]?\d+,\d+%?", text)
            else "leave a column out with drop"
        )
        raise column.error(row, f"is {text!r}; scores are numbers ({hint}).")
    return value


def _one_unit(values: FloatArray, percent: NDArray[np.bool_], task: IntArray, tasks: Sequence[str], label: str) -> None:
    """Refuse a task with scores in percent beside scores without a sign: 70% and 0.7 may be one."""
    there = np.isfinite(values)
    some = np.bincount(task, percent & there, len(tasks)) > 0
    mixed = some & (np.bincount(task, ~percent & there, len(tasks)) > 0)
    if mixed.any():
        which = tasks[int(np.flatnonzero(mixed)[0])]
        raise DataError(
            f"{label}: some scores of {which!r} have a percent sign and some have none; write all in one way."
        )
