"""`luce compare`: several models on one data set, tuned and tested alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, settings_from, table
from luce.cli.data_options import AbsentOption, AllowNanFlag, MissingOption, given

__all__ = ["compare", "show_board"]


def compare(
    data: Annotated[Path, typer.Argument(help="A folder with Fold1..5 or train/vali/test files, or one file.")],
    models: Annotated[str, typer.Option(help="Names of models, comma-separated.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    metrics: Annotated[str, typer.Option(help="Metrics to report, the first one leads.")] = "ndcg@10,ndcg@1,map",
    tune_on: Annotated[str, typer.Option(help="Metric on validation data that chooses the settings.")] = "ndcg@10",
    preset: Annotated[str | None, typer.Option(help="Conventions of another tool, such as letor4.")] = None,
    convention: Annotated[
        list[str] | None, typer.Option("--convention", "-c", help="A convention, as ties=stable; may be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds, for a single file.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    absent: AbsentOption = None,
    allow_nan: AllowNanFlag = False,
    missing: MissingOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Compare models over folds, each tuned on validation data by its grid."""
    report = Report(as_json=json, quiet=quiet)
    from luce import metrics as known
    from luce.experiments import Candidate, find_folds
    from luce.experiments import compare as run
    from luce.experiments.results import write_results

    names = [name.strip() for name in models.split(",") if name.strip()]
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    candidates = [Candidate.named(name) for name in names]
    conventions: dict[str, Any] = {**({"preset": preset} if preset else {}), **settings_from(convention)}
    for name in [*wanted, tune_on]:
        known.get(name)
    found = find_folds(data, folds=folds, seed=seed, **given(absent=absent, allow_nan=allow_nan, missing=missing))
    for note in sorted({fold.note for fold in found if fold.note}):
        report.say(f"Note: {note}.")
    with report.progress("Comparing") as progress:
        done = 0

        def tell(fold: str, model: str, what: str) -> None:
            nonlocal done
            report.say(f"{fold}: {model}, {what} ...")
            progress(done, len(found) * len(candidates), {})
            done += 1

        result = run(found, candidates, wanted, tune_on=tune_on, seed=seed, report=tell, **conventions)
    board = result.leaderboard()
    if out is not None:
        for path in write_results(result, out, f"Models compared on {data.name}"):
            report.say(f"Wrote {path}.")
    report.result(show_board(board, wanted), {"leaderboard": board, "settings": result.settings})


def show_board(board: list[dict[str, Any]], metrics: list[str]) -> Any:
    """The leaderboard as a table for the terminal."""
    rows = []
    for row in board:
        p = "best" if row["p_holm"] is None else f"{row['p_holm']:.3f}"
        interval = f"{row['low']:.4f} to {row['high']:.4f}"
        rows.append([row["model"], *[row[m] for m in metrics], interval, p, f"{row['seconds']:.2f}"])
    return table("Leaderboard", ["model", *metrics, f"95% interval of {metrics[0]}", "p (Holm)", "fit, s"], rows)
