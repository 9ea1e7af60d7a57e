"""What a report is made of: a run folder, and the data of the run where they are still there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luce.errors import DataError, LuceError
from luce.experiments.folds import find_folds
from luce.experiments.run_folder import RunFolder, read_run
from luce.ranker import Ranker
from luce.report.pool import Pool, pool_queries


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run as the panels need it."""

    run: RunFolder
    pool: Pool

    @property
    def seed(self) -> int:
        """Seed of the run, which also seeds what a report draws."""
        return int(self.run.settings.get("seed") or 0)

    @property
    def data_name(self) -> str:
        """What the data are called."""
        return Path(str(self.run.settings.get("data") or self.run.folder)).resolve().name

    @cached_property
    def rankers(self) -> dict[int, dict[int, Ranker]]:
        """The chosen models by number, best first, each by fold; without those that are gone or damaged."""
        found: dict[int, dict[int, Ranker]] = {}
        for m, model in enumerate(self.pool.models):
            for f, fold in enumerate(self.pool.folds):
                try:
                    ranker = self.run.model(model, fold)
                except LuceError:
                    continue
                if ranker is not None:
                    found.setdefault(m, {})[f] = ranker
        return found

    @property
    def models_gone(self) -> int:
        """How many chosen models are not there."""
        return len(self.pool.models) * len(self.pool.folds) - sum(map(len, self.rankers.values()))


def read_reported_run(folder: str | Path) -> ReportedRun:
    """Read a run folder."""
    run = read_run(folder)
    scores = run.table("scores", ["model", "fold", "query"])
    rows = run.table("rows", ["model", "fold", "query", "metric"])
    return ReportedRun(run, pool_queries(run.models, run.folds, run.metrics, scores, rows))


def judged_features(source: ReportedRun, data: str | Path | None) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The features of the test documents, in the order of the pool, and their names.

    `data` is where the data are now; without it they are looked for where the run read them.
    """
    settings, pool = source.run.settings, source.pool
    given = settings.get("data") if data is None else data
    if given is None:
        raise DataError("the run does not say where its data are; give them with --data.")
    folds = find_folds(given, folds=len(pool.folds), seed=source.seed, **settings.get("reading", {}))
    by_name = {fold.name: fold for fold in folds}
    cards: dict[str, Any] = source.run.results["data"].get("folds", {})
    X: list[NDArray[np.float32]] = []
    names: tuple[str, ...] = ()
    for f, fold in enumerate(pool.folds):
        if fold not in by_name:
            raise DataError(f"{given} has no fold {fold}, which the run has; give the data of the run.")
        test = by_name[fold].read_test(cards.get(fold, {}).get("train", {}).get("features"))
        if not np.array_equal(test.y, pool.grades[pool.fold_rows(f)]):
            raise DataError(f"{given} has other test documents on {fold} than the run; give the data of the run.")
        names = names or test.feature_names
        X.append(test.X)
    return X[0] if len(X) == 1 else np.concatenate(X), names
