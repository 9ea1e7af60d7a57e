"""A run on disk: everything about a comparison, tidy, in one folder.

| file | content |
|---|---|
| `results.json` | version, settings, leaderboard, statistics, folds, failures, data cards, metrics that are to be low |
| `rows.parquet` | model, fold, query, metric, value |
| `scores.parquet` | model, fold, query, document, grade, score: the test rows in the order of the data |
| `curves.parquet` | model, fold, part, measure, round, value: learning curves of the chosen models |
| `models/FOLD/MODEL.luce` | the chosen models |
| `state/` | finished work, from which an interrupted run goes on |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from luce.data.text_files import write_csv
from luce.errors import DataError
from luce.experiments.comparison import ModelComparison
from luce.experiments.desk import safe_name
from luce.metrics.catalog import get
from luce.metrics.evaluate import mean_of
from luce.numerics.segments import query_index
from luce.ranker import Ranker
from luce.result import json_text
from luce.storage import atomic_write, make_folder, write_container

_WRITERS = 8


def write_run(comparison: ModelComparison, folder: str | Path, *, baseline: str | None = None) -> list[Path]:
    """Write a comparison to a folder; `results.json` comes last, so that where it is, the rest is too."""
    folder = make_folder(Path(folder))
    kept = {(o.fold, o.model): o.content for o in comparison.outcomes if o.content is not None}
    places = {place: model_place(folder, *place) for place in kept}
    tables = {"rows": rows_table(comparison), "scores": scores_table(comparison), "curves": curves_table(comparison)}
    # Every file waits for the disk; together they wait once.
    with ThreadPoolExecutor(_WRITERS) as writers:
        jobs = [writers.submit(_write_table, folder / f"{name}.parquet", table) for name, table in tables.items()]
        for place, content in kept.items():
            jobs.append(writers.submit(write_container, folder / places[place], "ranker", *content))
        for job in jobs:
            job.result()
    written = write_record(folder, record(comparison, places, baseline))
    return [written, *(folder / f"{name}.parquet" for name in tables)]


def model_place(folder: Path, *names: str) -> str:
    """Where the model of these names stands in a folder, whose own folder is there."""
    place = Path("models", *map(safe_name, names))
    make_folder((folder / place).parent)
    return f"{place.as_posix()}.luce"


def write_record(folder: Path, content: Mapping[str, Any]) -> Path:
    """Write `results.json`, with the version of luce; a number that is not finite is null there."""
    from luce import __version__

    with atomic_write(folder / "results.json", "w") as stream:
        stream.write(json_text({"luce": __version__, **content}, indent=1))
    return folder / "results.json"


def _write_table(path: Path, table: Any) -> None:
    # A dictionary pays where values repeat; scores do not.
    coded = [name for name in table.column_names if name not in ("value", "score", "round")]
    with atomic_write(path) as stream:
        pq.write_table(table, stream, use_dictionary=coded)


def record(comparison: ModelComparison, places: dict[tuple[str, str], str], baseline: str | None) -> dict[str, Any]:
    """What `results.json` holds."""
    ranked = comparison.ranked()
    tested = None if baseline not in ranked else {"model": baseline, "statistics": comparison.statistics(baseline)}
    return {
        **comparison.as_dict(),
        "baseline": tested,
        "folds": [
            {
                "model": outcome.model,
                "fold": outcome.fold,
                "chosen": outcome.chosen,
                "validation": outcome.validation,
                "seconds": round(outcome.seconds, 4),
                "means": {metric: mean_of(values) for metric, values in outcome.values.items()},
                "best_round": outcome.history.get("best_iteration"),
                "converged": outcome.history.get("converged"),
                "model_file": places.get((outcome.fold, outcome.model)),
            }
            for outcome in comparison.outcomes
        ],
        "failed_models": comparison.failed,
        "data": comparison.cards,
        # Kept with the values: who reads them need not have a metric of a user's own.
        "lower_is_better": [name for name in comparison.metrics if not get(name).greater_is_better],
    }


def _stacked(kinds: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows of all pieces, one below the other; a text of a piece stands in each of its rows."""
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for piece in pieces:
        rows = max(len(column) for column in piece.values() if not isinstance(column, str))
        for name, kind in kinds.items():
            given = piece[name]
            columns[name].append(pa.repeat(given, rows) if isinstance(given, str) else pa.array(given, kind))
    return pa.table({name: pa.chunked_array(columns[name], kind) for name, kind in kinds.items()})


_PLACE = {"model": pa.string(), "fold": pa.string()}
_ROWS = {**_PLACE, "query": pa.string(), "metric": pa.string(), "value": pa.float64()}
_SCORES = {**_PLACE, "query": pa.string(), "document": pa.string(), "grade": pa.float64(), "score": pa.float64()}
_CURVES = {**_PLACE, "part": pa.string(), "measure": pa.string(), "round": pa.int64(), "value": pa.float64()}


def rows_table(comparison: ModelComparison) -> Any:
    """(model, fold, query, metric, value); a query that a metric skips is NaN."""
    queries = {o.fold: pa.array(o.query_ids, pa.string()) for o in comparison.outcomes}
    return _stacked(
        _ROWS,
        (
            {"model": o.model, "fold": o.fold, "query": queries[o.fold], "metric": metric, "value": values}
            for o in comparison.outcomes
            for metric, values in o.values.items()
        ),
    )


def scores_table(comparison: ModelComparison) -> Any:
    """(model, fold, query, document, grade, score)."""
    tests = {
        fold: {
            "query": pa.array(rows.query_ids, pa.string()).take(pa.array(query_index(rows.offsets))),
            "document": pa.array(rows.documents.tolist(), pa.string()),
            "grade": pa.array(rows.grades),
        }
        for fold, rows in comparison.tests.items()
    }
    pieces = ({"model": o.model, "fold": o.fold, **tests[o.fold], "score": o.scores} for o in comparison.outcomes)
    return _stacked(_SCORES, pieces)


def curves_table(comparison: ModelComparison) -> Any:
    """(model, fold, part, measure, round, value): the objective on train, the tuning metric on valid.

    Where the start is validated, too, it is round 0. The metric on valid is the one by which the trainer stops early,
    by luce's own conventions.
    """
    pieces = []
    for o in comparison.outcomes:
        objective, validation = o.history.get("objective", []), o.history.get("validation", [])
        started = len(validation) > len(objective)
        named = ("train", "objective", objective, 1), ("valid", comparison.settings["tune_on"], validation, 1 - started)
        for part, measure, values, first in named:
            rounds = np.arange(first, first + len(values))
            place = {"model": o.model, "fold": o.fold, "part": part, "measure": measure}
            pieces.append({**place, "round": rounds, "value": values})
    return _stacked(_CURVES, pieces)


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
    def lower_is_better(self) -> list[str]:
        """Those of the metrics that are to be low, by the record; a run of old has none and metrics of luce alone."""
        kept = self.results.get("lower_is_better")
        return [
            name for name in self.metrics if (name in kept if kept is not None else not get(name).greater_is_better)
        ]

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


def _is_whole(results: Any) -> bool:
    """Whether the content of `results.json` has what a reader of a run looks for, in its form.

    >>> _is_whole({"settings": {"metrics": ["map"], "folds": []}, "leaderboard": [], "folds": [], "data": {}})
    True
    """
    if not isinstance(results, dict) or not isinstance(results.get("data"), dict):
        return False
    settings, board, folds = results.get("settings"), results.get("leaderboard"), results.get("folds")
    return (
        isinstance(settings, dict)
        and all(_listed(settings.get(name), lambda text: isinstance(text, str)) for name in ("metrics", "folds"))
        and _listed(board, lambda row: isinstance(row, dict) and isinstance(row.get("model"), str))
        and _listed(folds, lambda row: isinstance(row, dict) and {"model", "fold"} <= set(row))
        and _listed(results.get("lower_is_better", []), lambda text: isinstance(text, str))
    )


def _listed(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(of, value))


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
    if not _is_whole(results):
        raise DataError(f"{path} is not of a run of `luce compare`; give a folder that it wrote.")
    return RunFolder(folder, results)


_COLUMNS = ("low", "high", "p", "p_holm", "seconds")


def write_results(comparison: ModelComparison, folder: str | Path, *, baseline: str | None = None) -> list[Path]:
    """Write leaderboard.csv and the run folder; returns the paths."""
    folder, names = make_folder(Path(folder)), ["model", *comparison.metrics, *_COLUMNS]
    board = folder / "leaderboard.csv"
    write_csv(board, names, ([row[name] for name in names] for row in comparison.leaderboard()))
    return [board, *write_run(comparison, folder, baseline=baseline)]
