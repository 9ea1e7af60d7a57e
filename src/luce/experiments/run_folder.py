"""A run on disk: everything about a comparison, tidy, in one folder.

| file | content |
|---|---|
| `results.json` | version, settings, leaderboard, statistics, folds, failures, data cards |
| `rows.parquet` | model, fold, query, metric, value |
| `scores.parquet` | model, fold, query, document, grade, score: the test rows in the order of the data |
| `curves.parquet` | model, fold, part, measure, round, value: learning curves of the chosen models |
| `models/FOLD/MODEL.luce` | the chosen models |
| `state/` | finished work, from which an interrupted run goes on |
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from luce.errors import DataError
from luce.experiments.comparison import ModelComparison, Outcome
from luce.experiments.state import safe_name
from luce.experiments.work import results_are_whole
from luce.metrics.evaluate import mean_of
from luce.ranker import Ranker
from luce.storage import atomic_write, make_folder, write_container
from luce.types import IntArray

_WRITERS = 8


def write_run(comparison: ModelComparison, folder: str | Path, *, baseline: str | None = None) -> list[Path]:
    """Write a comparison to a folder; `results.json` comes last, so that where it is, the rest is too."""
    folder = make_folder(Path(folder))
    places = {(o.fold, o.model): _model_path(o.fold, o.model) for o in comparison.outcomes if o.content is not None}
    for place in places.values():
        make_folder((folder / place).parent)
    tables = {"rows": rows_table(comparison), "scores": scores_table(comparison), "curves": curves_table(comparison)}
    # Every file waits for the disk; together they wait once.
    with ThreadPoolExecutor(_WRITERS) as writers:
        jobs = [writers.submit(_write_table, folder / f"{name}.parquet", table) for name, table in tables.items()]
        for (fold, model), content in {(o.fold, o.model): o.content for o in comparison.outcomes}.items():
            if content is not None:
                jobs.append(writers.submit(write_container, folder / places[fold, model], "ranker", *content))
        for job in jobs:
            job.result()
    with atomic_write(folder / "results.json", "w") as stream:
        json.dump(finite(record(comparison, places, baseline)), stream, indent=1, allow_nan=False, default=str)
    return [folder / name for name in ("results.json", *(f"{name}.parquet" for name in tables))]


def _write_table(path: Path, table: Any) -> None:
    # A dictionary pays where values repeat; scores do not.
    coded = [name for name in table.column_names if name not in ("value", "score", "round")]
    with atomic_write(path) as stream:
        pq.write_table(table, stream, use_dictionary=coded)


def _model_path(fold: str, model: str) -> str:
    return f"models/{safe_name(fold)}/{safe_name(model)}.luce"


def record(comparison: ModelComparison, places: dict[tuple[str, str], str], baseline: str | None) -> dict[str, Any]:
    """What `results.json` holds; a number that is not finite is null there."""
    from luce import __version__

    ranked = comparison.ranked()
    return {
        "luce": __version__,
        "settings": comparison.settings,
        "leaderboard": comparison.leaderboard(),
        "statistics": comparison.statistics() if ranked else [],
        "baseline": None
        if baseline not in ranked
        else {"model": baseline, "statistics": comparison.statistics(baseline)},
        "folds": [_fold_record(o, places.get((o.fold, o.model))) for o in comparison.outcomes],
        "failures": [
            {"model": f.model, "fold": f.fold, "settings": f.settings, "error": f.error} for f in comparison.failures
        ],
        "failed_models": comparison.failed,
        "data": comparison.cards,
    }


def _fold_record(outcome: Outcome, place: str | None) -> dict[str, Any]:
    return {
        "model": outcome.model,
        "fold": outcome.fold,
        "chosen": outcome.chosen,
        "validation": outcome.validation,
        "seconds": round(outcome.seconds, 4),
        "means": {metric: mean_of(values) for metric, values in outcome.values.items()},
        "best_round": outcome.history.get("best_iteration"),
        "converged": outcome.history.get("converged"),
        "model_file": place,
    }


def finite(value: Any) -> Any:
    """A JSON-able value with None for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def _repeated(names: Sequence[str], counts: Sequence[int] | IntArray) -> Any:
    """A text column: every name as often as its count says."""
    codes = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string())).dictionary_decode()


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """The table of columns; a list holds the pieces of one."""
    whole = {
        name: pa.chunked_array(column, schema.field(name).type) if isinstance(column, list) else column
        for name, column in columns.items()
    }
    return pa.table(whole, schema=schema)


def _schema(texts: Sequence[str], wholes: Sequence[str], numbers: Sequence[str]) -> pa.Schema:
    kinds = ((texts, pa.string()), (wholes, pa.int64()), (numbers, pa.float64()))
    return pa.schema([(name, kind) for names, kind in kinds for name in names])


_ROWS = _schema(["model", "fold", "query", "metric"], [], ["value"])
_SCORES = _schema(["model", "fold", "query", "document"], [], ["grade", "score"])
_CURVES = _schema(["model", "fold", "part", "measure"], ["round"], ["value"])


def rows_table(comparison: ModelComparison) -> Any:
    """(model, fold, query, metric, value); a query that a metric skips is NaN."""
    names = {o.fold: o.query_ids for o in comparison.outcomes}
    queries = {fold: pa.array(ids, pa.string()) for fold, ids in names.items()}
    pieces = [(o, metric) for o in comparison.outcomes for metric in o.values]
    counts = [len(queries[o.fold]) for o, _ in pieces]
    columns = {
        "model": _repeated([o.model for o, _ in pieces], counts),
        "fold": _repeated([o.fold for o, _ in pieces], counts),
        "query": [queries[o.fold] for o, _ in pieces],
        "metric": _repeated([metric for _, metric in pieces], counts),
        "value": [pa.array(o.values[metric]) for o, metric in pieces],
    }
    return _table(columns, _ROWS)


def scores_table(comparison: ModelComparison) -> Any:
    """(model, fold, query, document, grade, score)."""
    queries = {fold: _repeated(rows.query_ids, np.diff(rows.offsets)) for fold, rows in comparison.tests.items()}
    documents = {fold: pa.array(rows.documents.tolist(), pa.string()) for fold, rows in comparison.tests.items()}
    grades = {fold: pa.array(rows.grades) for fold, rows in comparison.tests.items()}
    outcomes = comparison.outcomes
    counts = [len(o.scores) for o in outcomes]
    columns = {
        "model": _repeated([o.model for o in outcomes], counts),
        "fold": _repeated([o.fold for o in outcomes], counts),
        "query": [queries[o.fold] for o in outcomes],
        "document": [documents[o.fold] for o in outcomes],
        "grade": [grades[o.fold] for o in outcomes],
        "score": [pa.array(o.scores) for o in outcomes],
    }
    return _table(columns, _SCORES)


def curves_table(comparison: ModelComparison) -> Any:
    """(model, fold, part, measure, round, value): the objective on train, the tuning metric on valid.

    Where the start is validated, too, it is round 0. The metric on valid is the one by which the trainer stops early,
    by luce's own conventions.
    """
    metric = comparison.settings["tune_on"]
    pieces: list[tuple[Outcome, str, str, list[float], int]] = []
    for o in comparison.outcomes:
        objective, validation = o.history.get("objective", []), o.history.get("validation", [])
        pieces.append((o, "train", "objective", objective, 1))
        pieces.append((o, "valid", metric, validation, 1 - (len(validation) > len(objective))))
    counts = [len(values) for _, _, _, values, _ in pieces]
    columns = {
        "model": _repeated([piece[0].model for piece in pieces], counts),
        "fold": _repeated([piece[0].fold for piece in pieces], counts),
        "part": _repeated([piece[1] for piece in pieces], counts),
        "measure": _repeated([piece[2] for piece in pieces], counts),
        "round": [pa.array(np.arange(first, first + len(values))) for *_, values, first in pieces],
        "value": [pa.array(values, pa.float64()) for *_, values, _ in pieces],
    }
    return _table(columns, _CURVES)


@dataclass(frozen=True)
class RunFolder:
    """A run folder that was read; tables and models are read when they are asked for."""

    folder: Path
    results: dict[str, Any]
    """What `results.json` holds."""

    @property
    def settings(self) -> dict[str, Any]:
        """Data, folds, models with their grids, metrics, seed, conventions."""
        return dict(self.results["settings"])

    @property
    def metrics(self) -> list[str]:
        """Metrics, the leading one first."""
        return list(self.settings["metrics"])

    @property
    def models(self) -> list[str]:
        """Models of the leaderboard, best first."""
        return [row["model"] for row in self.results["leaderboard"]]

    @property
    def folds(self) -> list[str]:
        """Names of the folds."""
        return list(self.settings["folds"])

    @cached_property
    def rows(self) -> Any:
        """(model, fold, query, metric, value), a pyarrow table."""
        return self.table("rows")

    @cached_property
    def scores(self) -> Any:
        """(model, fold, query, document, grade, score), a pyarrow table."""
        return self.table("scores")

    @cached_property
    def curves(self) -> Any:
        """(model, fold, part, measure, round, value), a pyarrow table."""
        return self.table("curves")

    def model_path(self, model: str, fold: str) -> Path | None:
        """The file of the model that was chosen on a fold, or None where none was kept."""
        for row in self.results["folds"]:
            if (row["model"], row["fold"]) == (model, fold) and row.get("model_file"):
                return self.folder / str(row["model_file"])
        return None

    def model(self, model: str, fold: str) -> Ranker | None:
        """The model that was chosen on a fold, or None where none was kept."""
        from luce.model_file import load

        path = self.model_path(model, fold)
        return None if path is None else load(path)

    def table(self, name: str, coded: Sequence[str] = ()) -> Any:
        """A table by its name, with the columns `coded` as dictionaries, which read faster where texts repeat."""
        path = self.folder / f"{name}.parquet"
        try:
            return pq.read_table(path, read_dictionary=list(coded))
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{path} is missing or damaged; run `luce compare` again with --out {self.folder}."
            ) from error


def read_run(folder: str | Path) -> RunFolder:
    """Read what `luce compare ... --out folder` wrote."""
    folder = Path(folder)
    path = folder / "results.json"
    if not path.is_file():
        begun = (folder / "state").is_dir()
        what = "an unfinished run; give the same `luce compare` again to finish it" if begun else "no results.json"
        hint = "" if begun else "; give a folder that `luce compare ... --out` wrote"
        raise DataError(f"{folder} holds {what}{hint}.")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON, or it is damaged; run `luce compare` again.") from error
    if not results_are_whole(results):
        raise DataError(f"{path} is not of a run of `luce compare`; give a folder that it wrote.")
    return RunFolder(folder, results)


_COLUMNS = ("low", "high", "p", "p_holm", "seconds")


def write_results(comparison: ModelComparison, folder: str | Path, *, baseline: str | None = None) -> list[Path]:
    """Write leaderboard.csv and the run folder; returns the paths."""
    folder = make_folder(Path(folder))
    with atomic_write(folder / "leaderboard.csv", "w") as stream:
        names = ["model", *comparison.metrics, *_COLUMNS]
        rows = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        rows.writerows(comparison.leaderboard())
    return [folder / "leaderboard.csv", *write_run(comparison, folder, baseline=baseline)]
