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

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from luce.errors import DataError
from luce.experiments.comparison import Comparison, Outcome
from luce.experiments.state import make_folder, safe_name
from luce.metrics.evaluate import mean_of
from luce.ranker import Ranker
from luce.storage import atomic_write, write_container

__all__ = ["Run", "finite", "read_run", "write_run"]


def write_run(comparison: Comparison, folder: str | Path, *, baseline: str | None = None) -> list[Path]:
    """Write a comparison to a folder; `results.json` comes last, so that where it is, the rest is too."""
    folder = make_folder(Path(folder))
    places = {(o.fold, o.model): _model_path(o.fold, o.model) for o in comparison.outcomes if o.content is not None}
    for outcome in comparison.outcomes:
        if outcome.content is not None:
            path = folder / places[outcome.fold, outcome.model]
            make_folder(path.parent)
            write_container(path, "ranker", *outcome.content)
    tables = {"rows": rows_table(comparison), "scores": scores_table(comparison), "curves": curves_table(comparison)}
    for name, content in tables.items():
        with atomic_write(folder / f"{name}.parquet") as stream:
            pq.write_table(content, stream)
    with atomic_write(folder / "results.json", "w") as stream:
        json.dump(finite(record(comparison, places, baseline)), stream, indent=1, allow_nan=False, default=str)
    return [folder / name for name in ("results.json", *(f"{name}.parquet" for name in tables))]


def _model_path(fold: str, model: str) -> str:
    return f"models/{safe_name(fold)}/{safe_name(model)}.luce"


def record(comparison: Comparison, places: dict[tuple[str, str], str], baseline: str | None) -> dict[str, Any]:
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


def _texts(names: Sequence[str], index: Any) -> Any:
    """A text column that repeats a few names."""
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(names, pa.string())).dictionary_decode()


def _stacked(parts: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    tables = [pa.table(part, schema=schema) for part in parts]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _schema(texts: Sequence[str], wholes: Sequence[str], numbers: Sequence[str]) -> pa.Schema:
    kinds = ((texts, pa.string()), (wholes, pa.int64()), (numbers, pa.float64()))
    return pa.schema([(name, kind) for names, kind in kinds for name in names])


_ROWS = _schema(["model", "fold", "query", "metric"], [], ["value"])
_SCORES = _schema(["model", "fold", "query", "document"], [], ["grade", "score"])
_CURVES = _schema(["model", "fold", "part", "measure"], ["round"], ["value"])


def rows_table(comparison: Comparison) -> Any:
    """(model, fold, query, metric, value); a query that a metric skips is NaN."""

    def part(o: Outcome, metric: str) -> dict[str, Any]:
        same = np.zeros(len(o.query_ids), dtype=np.int32)
        named = {"model": _texts([o.model], same), "fold": _texts([o.fold], same), "metric": _texts([metric], same)}
        return {**named, "query": o.query_ids, "value": o.values[metric]}

    return _stacked((part(o, metric) for o in comparison.outcomes for metric in o.values), _ROWS)


def scores_table(comparison: Comparison) -> Any:
    """(model, fold, query, document, grade, score)."""
    shared: dict[str, dict[str, Any]] = {}
    for fold, rows in comparison.tests.items():
        query = np.repeat(np.arange(len(rows.query_ids)), np.diff(rows.offsets))
        documents = pa.array(rows.documents.tolist(), pa.string())
        shared[fold] = {"query": _texts(rows.query_ids, query), "document": documents, "grade": rows.grades}

    def part(o: Outcome) -> dict[str, Any]:
        same = np.zeros(len(o.scores), dtype=np.int32)
        return {"model": _texts([o.model], same), "fold": _texts([o.fold], same), **shared[o.fold], "score": o.scores}

    return _stacked((part(o) for o in comparison.outcomes), _SCORES)


def curves_table(comparison: Comparison) -> Any:
    """(model, fold, part, measure, round, value): the objective on train, the tuning metric on valid.

    Where the start is validated, too, it is round 0. The metric on valid is the one by which the trainer stops early,
    by luce's own conventions.
    """
    metric = comparison.settings["tune_on"]

    def part(o: Outcome, what: tuple[str, str], values: list[float], first: int) -> dict[str, Any]:
        same = np.zeros(len(values), dtype=np.int32)
        named = {"model": _texts([o.model], same), "fold": _texts([o.fold], same)}
        named |= {"part": _texts([what[0]], same), "measure": _texts([what[1]], same)}
        return {**named, "round": np.arange(first, first + len(values)), "value": values}

    parts = []
    for o in comparison.outcomes:
        objective, validation = o.history.get("objective", []), o.history.get("validation", [])
        parts.append(part(o, ("train", "objective"), objective, 1))
        parts.append(part(o, ("valid", metric), validation, 1 - (len(validation) > len(objective))))
    return _stacked(parts, _CURVES)


@dataclass(frozen=True)
class Run:
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
                return self.folder / row["model_file"]
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


def read_run(folder: str | Path) -> Run:
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
    if not isinstance(results, dict) or not {"settings", "leaderboard", "folds", "data"} <= set(results):
        raise DataError(f"{path} is not of a run of `luce compare`; give a folder that it wrote.")
    return Run(folder, results)
