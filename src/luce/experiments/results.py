"""Results on disk: the run folder, and a table for people."""

from __future__ import annotations

import csv
from pathlib import Path

from luce.experiments.comparison import ModelComparison
from luce.experiments.run_folder import write_run
from luce.storage import atomic_write, make_folder

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
