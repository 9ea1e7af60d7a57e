"""What a report is made of: a run folder, and the data of the run where they are still there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from luce.errors import DataError
from luce.experiments.folds import find_folds
from luce.report.pool import Pool, pool_queries

__all__ = ["Source", "read_source", "test_features"]


@dataclass(frozen=True, eq=False)
class Source:
    """A run as the panels need it."""

    folder: Path
    results: dict[str, Any]
    curves: pa.Table
    pool: Pool

    @property
    def settings(self) -> dict[str, Any]:
        return self.results["settings"]

    @property
    def leaderboard(self) -> list[dict[str, Any]]:
        return self.results["leaderboard"]

    @property
    def failures(self) -> list[dict[str, Any]]:
        return self.results.get("failures", [])

    @property
    def card(self) -> dict[str, Any]:
        return self.results.get("card", {})

    @property
    def conventions(self) -> dict[str, Any]:
        return self.settings.get("conventions", {})

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))

    @property
    def data_name(self) -> str:
        return Path(str(self.settings.get("data", self.folder))).name

    def load_model(self, model: str, fold: str) -> Any:
        from luce.model_file import load

        return load(self.folder / "models" / fold / f"{model}.luce")


def read_source(folder: str | Path) -> Source:
    """Read a run folder."""
    folder = Path(folder)
    results = json.loads((folder / "results.json").read_text())
    settings = results["settings"]
    names = ["model", "fold", "query", "document"]
    scores = pq.read_table(folder / "scores.parquet", read_dictionary=names)
    rows = pq.read_table(folder / "rows.parquet", read_dictionary=["model", "fold", "query", "metric"])
    models = [row["model"] for row in results["leaderboard"]]
    pool = pool_queries(models, settings["folds"], settings["metrics"], scores, rows)
    return Source(folder, results, pq.read_table(folder / "curves.parquet"), pool)


def test_features(source: Source, data: str | Path | None) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The features of the test documents, in the order of the pool, and their names."""
    settings = source.settings
    given = data or settings.get("data")
    if given is None:
        raise DataError("the run does not say where its data are; give them with --data.")
    parts = {}
    for fold in find_folds(given, folds=len(settings["folds"]), seed=source.seed, **settings.get("options", {})):
        parts[fold.name] = fold.load()[2]
    pool = source.pool
    X = []
    for f in np.unique(pool.fold).tolist():
        test, rows = parts.get(pool.folds[f]), pool.fold_rows(f)
        if test is None or not np.array_equal(test.y, pool.grades[rows]):
            raise DataError(f"{given} holds other test documents than the run has on {pool.folds[f]}.")
        X.append(test.X)
    return np.concatenate(X), test.feature_names
