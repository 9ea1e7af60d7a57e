"""`luce compare`: several models on one data set, tuned and tested alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import Report, table
from luce.cli.data_options import FoldReading
from luce.cli.experiment_options import Running, tell_folds
from luce.errors import LuceError, SettingError

if TYPE_CHECKING:
    from luce.experiments import Candidate, ModelComparison


def compare(
    *,
    data: Annotated[Path, typer.Argument(help="A folder with Fold1..5 or train/vali/test files, or one file.")],
    models: Annotated[
        str,
        typer.Option(
            help="Names of models, comma-separated (`luce info --models` lists them), or FILE.py:NAME of your own."
        ),
    ],
    metrics: Annotated[str, typer.Option(help="Metrics to report, the first one leads.")] = "ndcg@10,ndcg@1,map",
    tune_on: Annotated[str, typer.Option(help="Metric on validation data that chooses the settings.")] = "ndcg@10",
    baseline: Annotated[
        str | None, typer.Option(help="A model of the list to test all others against, beside the best one.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds, for a single file.")] = 5,
    running: Running,
    read: FoldReading,
    report: Report,
) -> None:
    """Compare models over folds, each tuned on validation data by its grid."""
    from luce.experiments import compare as run
    from luce.experiments import find_folds
    from luce.experiments.results import write_results

    candidates = [_candidate(name) for name in _listed(models)]
    jobs, out = running.jobs, running.out
    if jobs is None and any(not isinstance(c.system or c.name, str) for c in candidates):
        jobs = 1  # an object of a file of the user's own need not reach other processes
    if baseline is not None and baseline not in [candidate.name for candidate in candidates]:
        raise SettingError(f"The baseline {baseline!r} is not among the models; give one of {models}.")
    conventions, reading = running.conventions(), read.given()
    found = find_folds(data, folds=folds, seed=running.seed, **reading)
    tell_folds(report, found)
    with running.watched(report, f"Comparing on {data.name}") as watch:
        result = run(
            found,
            candidates,
            _listed(metrics),
            tune_on=tune_on,
            seed=running.seed,
            jobs=jobs,
            out=out,
            watch=watch,
            notes={"data": str(data.resolve()), "reading": reading},
            **conventions,
        )
    if out is not None:
        for path in write_results(result, out, baseline=baseline):
            report.say(f"Wrote {path}.")
    _show(report, result, baseline)


def _candidate(name: str) -> Candidate:
    """A model by name, or FILE.py:NAME, an estimator of a file of the user's own."""
    from luce.experiments.estimators import from_file
    from luce.experiments.models import candidate_of

    return candidate_of(*from_file(name)) if ".py:" in name else candidate_of(name, name)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show(report: Report, result: ModelComparison, baseline: str | None) -> None:
    from luce.experiments.run_folder import finite

    failed = result.failed
    if not result.models:
        first = next(iter(failed.items()))
        raise LuceError(f"No model could be fitted on all folds; the first one, {first[0]}, failed with: {first[1]}")
    if baseline in failed:
        report.say(f"Note: the baseline {baseline} failed, so that nothing is tested against it.")
        baseline = None
    board = result.leaderboard()
    statistics = result.statistics()
    machine = {
        "leaderboard": board,
        "statistics": statistics,
        "baseline": None if baseline is None else result.statistics(baseline),
        "failures": [vars(failure) for failure in result.failures],
        "settings": result.settings,
    }
    report.result(show_board(board, result.metrics, failed), finite(machine))
    if not report.as_json:
        for rows in (statistics, result.statistics(baseline) if baseline else []):
            if rows:
                report.result(show_statistics(rows), {})
    if failed:
        report.say(f"{len(failed)} of {len(failed) + len(board)} models failed; the others are compared without them.")
    partly = {failure.model for failure in result.failures} - set(failed)
    for name in sorted(partly):
        report.say(f"Note: some settings of {name} failed; the best of the others was taken.")


def show_board(board: list[dict[str, Any]], metrics: list[str], failed: dict[str, str] | None = None) -> Any:
    """The leaderboard as a table for the terminal, with the errors of those that failed below."""
    rows: list[list[Any]] = []
    for row in board:
        p = "best" if row["p_holm"] is None else f"{row['p_holm']:.3f}"
        interval = f"{row['low']:.4f} to {row['high']:.4f}"
        rows.append([row["model"], *[row[m] for m in metrics], interval, p, f"{row['seconds']:.2f}"])
    shown = table("Leaderboard", ["model", *metrics, f"95% interval of {metrics[0]}", "p (Holm)", "fit, s"], rows)
    for name, error in (failed or {}).items():
        shown.add_row(name, *["-"] * len(metrics), f"failed: {error}", "", "")
    return shown


def show_statistics(rows: list[dict[str, Any]]) -> Any:
    """Every model against one, on every metric."""
    header = ["metric", "model", "difference", "95% interval", "p", "p (Holm)", "better", "equal", "worse"]
    shown = [
        [
            row["metric"],
            row["model"],
            f"{row['difference']:+.4f}",
            f"{row['low']:+.4f} to {row['high']:+.4f}",
            f"{row['p']:.4f}",
            f"{row['p_holm']:.4f}",
            row["wins"],
            row["ties"],
            row["losses"],
        ]
        for row in rows
    ]
    return table(f"Against {rows[0]['against']}, query by query", header, shown)
