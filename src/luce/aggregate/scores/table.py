"""`ScoreTable`: scores of models on tasks, from a wide or a long table, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from luce.aggregate.board.intake import Source, encode
from luce.errors import DataError, SettingError
from luce.registry import unknown_name
from luce.types import FloatArray

__all__ = ["ScoreColumns", "ScoreTable", "read_scores"]

_NAMES = ("model", "name", "system", "item", "player", "competitor")
_TASKS = ("task", "dataset", "benchmark", "test")
_SCORES = ("score", "value", "result")


@dataclass(frozen=True)
class ScoreColumns:
    """Which columns hold what, where they are not the usual ones, and how scores are to be read."""

    name: str | None = None
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


def read_scores(source: Source, columns: ScoreColumns) -> ScoreTable:
    """Read a long table where it has columns of a task and a score, and a wide one otherwise."""
    task = columns.task or next((c for c in _TASKS if c in source.columns), None)
    score = columns.score or next((c for c in _SCORES if c in source.columns), None)
    for given, role in ((columns.name, "name"), (columns.task, "task"), (columns.score, "score")):
        if given is not None:
            source.require(given, role)
    if task is not None and score is not None:
        names, tasks, scores, errors, notes = _long(source, columns, task, score)
    elif columns.task is not None or columns.score is not None or columns.score_se is not None:
        raise DataError(
            f"{source.label} needs a column of the task and one of the score; its columns are "
            f"{', '.join(source.columns)}."
        )
    else:
        names, tasks, scores, notes = _wide(source, columns)
        errors = None
    return _settle(source.label, columns, names, tasks, scores, errors, notes)


def _name_column(source: Source, columns: ScoreColumns) -> str:
    found = columns.name or next((c for c in _NAMES if c in source.columns), None)
    return found or source.columns[0]


def _keep(table: pa.Table, source: Source, where: Mapping[str, str] | None) -> pa.Table:
    for column, value in (where or {}).items():
        mask = pa.compute.equal(pa.compute.cast(table[column], pa.string()), value)
        table = table.filter(mask)
    if table.num_rows == 0:
        picked = " with " + ", ".join(f"{c} = {v!r}" for c, v in where.items()) if where else ""
        raise DataError(f"{source.label} has no rows{picked}; at least two models are needed.")
    return table


def _long(
    source: Source, columns: ScoreColumns, task: str, score: str
) -> tuple[tuple[str, ...], tuple[str, ...], FloatArray, FloatArray | None, list[str]]:
    name = _name_column(source, columns)
    wanted = [name, task, score, *([columns.score_se] if columns.score_se else []), *(columns.where or {})]
    for column in wanted:
        source.require(column, "score board")
    table = _keep(source.read(list(dict.fromkeys(wanted)), [name, task]), source, columns.where)
    item, names = encode(table[name], name, source.label)
    of, tasks = encode(table[task], task, source.label)
    value = _scores(table[score], score, source.label)
    shape = (len(names), len(tasks))
    cell = item * shape[1] + of
    there = np.isfinite(value)
    count = np.bincount(cell[there], minlength=shape[0] * shape[1])
    total = np.bincount(cell[there], value[there], shape[0] * shape[1])
    with np.errstate(invalid="ignore"):
        scores = (total / count).reshape(shape)
    twice = int(np.sum(count > 1))
    notes = [f"{twice} cells were given more than once; their mean is taken."] if twice else []
    errors = None
    if columns.score_se is not None:
        errors = np.full(shape, np.nan)
        errors.ravel()[cell] = _scores(table[columns.score_se], columns.score_se, source.label)
    return tuple(map(str, names)), tuple(map(str, tasks)), scores, errors, notes


def _wide(source: Source, columns: ScoreColumns) -> tuple[tuple[str, ...], tuple[str, ...], FloatArray, list[str]]:
    name = _name_column(source, columns)
    left_out = {name, *columns.drop, *(columns.where or {})}
    for column in left_out:
        source.require(column, "score board")
    tasks = tuple(c for c in source.columns if c not in left_out)
    if not tasks:
        raise DataError(f"{source.label} has no task: besides the names it needs a column of scores.")
    table = _keep(source.read(list(source.columns), [name]), source, columns.where)
    item, names = encode(table[name], name, source.label)
    if len(names) < len(item):
        again = names[int(np.argmax(np.bincount(item)))]
        raise DataError(f"{source.label} has {again!r} in two rows; a model has one row of scores.")
    scores = np.column_stack([_scores(table[task], task, source.label) for task in tasks])
    return tuple(str(names[i]) for i in item), tasks, scores, []


def _scores(column: pa.ChunkedArray, name: str, label: str) -> FloatArray:
    """Numbers with NaN for empty cells and for the words that mean a missing value."""
    if pa.types.is_boolean(column.type) or pa.types.is_dictionary(column.type):
        column = column.cast(pa.string() if pa.types.is_dictionary(column.type) else pa.int8())
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        values: FloatArray = column.cast(pa.float64()).to_numpy().astype(np.float64)
    else:
        values = np.array([_number(v, row, name, label) for row, v in enumerate(column.to_pylist())])
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError(f"{label}: row {row + 1} has an infinite score in {name!r}; scores must be finite.")
    return values


def _number(value: Any, row: int, name: str, label: str) -> float:
    text = "" if value is None else str(value).strip()
    if text.lower() in ("", "nan", "na", "n/a", "none", "null", "-"):
        return math.nan
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        raise DataError(
            f"{label}: row {row + 1} has {text!r} in the column {name!r}; scores are numbers (leave a column out with "
            "drop)."
        ) from None


def _settle(
    label: str,
    columns: ScoreColumns,
    names: tuple[str, ...],
    tasks: tuple[str, ...],
    scores: FloatArray,
    errors: FloatArray | None,
    notes: list[str],
) -> ScoreTable:
    for given in (columns.lower, columns.task_weights or (), columns.tolerance):
        for task in given if not isinstance(given, int | float) else ():
            if task not in tasks:
                raise unknown_name("task", task, tasks)
    given_weights = columns.task_weights or {}
    keep = np.array([task not in columns.drop and given_weights.get(task, 1.0) != 0.0 for task in tasks])
    if columns.lower:
        scores = scores * np.where(np.isin(tasks, list(columns.lower)), -1.0, 1.0)
    there = np.isfinite(scores)
    empty, models = keep & (there.sum(axis=0) == 0), there[:, keep].any(axis=1)
    for which, what in ((np.array(tasks)[empty], "tasks"), (np.array(names)[~models], "models")):
        if len(which):
            notes.append(f"{len(which)} {what} have no scores and are left out: {', '.join(which[:5])}.")
    keep &= ~empty
    if models.sum() < 2 or not keep.any():
        raise DataError(f"{label} has scores of {models.sum()} models on {keep.sum()} tasks; a board needs two models.")
    tolerance = columns.tolerance
    by_task = [tolerance.get(t, 0.0) if isinstance(tolerance, Mapping) else tolerance for t in tasks]
    weights = np.array([given_weights.get(t, 1.0) for t in tasks])[keep]
    if not (np.all(np.isfinite(weights)) and np.all(weights > 0)):
        raise SettingError("task_weights must be finite numbers of at least 0.")
    if not (np.all(np.isfinite(by_task)) and np.min(by_task) >= 0):
        raise SettingError(f"tolerance is {tolerance!r}; it must be finite and at least 0.")
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
