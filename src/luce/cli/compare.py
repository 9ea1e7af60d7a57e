"""`luce compare`: several models on one data set, tuned and tested alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from luce.cli.common import Report
from luce.cli.data_options import FoldReading
from luce.cli.experiment_options import Running, tell_folds
from luce.errors import LuceError, SettingError

if TYPE_CHECKING:
    from luce.experiments import Candidate, ModelComparison


def compare(
    *,
    data: Path = typer.Argument(..., help="A folder with Fold1..5 or train/vali/test files, or one file."),
    models: str = typer.Option(
        ..., help="Names of models, comma-separated (`luce info --models` lists them), or FILE.py:NAME of your own."
    ),
    metrics: str = typer.Option("ndcg@10,ndcg@1,map", help="Metrics to report, the first one leads."),
    tune_on: str = typer.Option("ndcg@10", help="Metric on validation data that chooses the settings."),
    baseline: str | None = typer.Option(
        None, help="A model of the list to test all others against, beside the best one."
    ),
    folds: int = typer.Option(5, help="Number of folds, for a single file."),
    running: Running,
    read: FoldReading,
    report: Report,
) -> None:
    """Compare models over folds, each tuned on validation data by its grid."""
    from luce.experiments import compare as run
    from luce.experiments import find_folds
    from luce.experiments.run_folder import write_results

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
    from luce.experiments.comparison import statistics_sheet

    failed = result.failed
    if not result.models:
        first = next(iter(failed.items()))
        raise LuceError(f"No model could be fitted on all folds; the first one, {first[0]}, failed with: {first[1]}")
    if baseline in failed:
        report.say(f"Note: the baseline {baseline} failed, so that nothing is tested against it.")
        baseline = None
    against = [] if baseline is None else result.statistics(baseline)
    report.show(result, result.as_dict(baseline), more=[statistics_sheet(against)] if against else [])
