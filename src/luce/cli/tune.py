"""`luce tune`: the best settings of one model, as a command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import Report, settings_from, table
from luce.cli.data_options import FoldReading
from luce.cli.experiment_options import Running, tell_folds
from luce.cli.tune_surrogate import tune_surrogate
from luce.cli.watching import setting_text
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.experiments.search import Tuning


@dataclass(frozen=True)
class _Searching:
    """How settings are sought."""

    trials: Annotated[int, typer.Option(min=1, help="Settings to try; the first one is the model as it is.")] = 30
    search: Annotated[str, typer.Option(help="random, or halving: bad settings leave on small parts.")] = "random"
    eta: Annotated[int, typer.Option(min=2, help="Halving: one of so many settings goes on.")] = 3
    fix: Annotated[
        list[str] | None,
        typer.Option(help="A setting to hold: max_iter=200, scorer.num_leaves=8 or loss.k=5; may be repeated."),
    ] = None
    metric: Annotated[str, typer.Option(help="Metric on validation data.")] = "ndcg@10"


def tune(
    *,
    data: Annotated[Path, typer.Argument(help="A training file, or a folder with train and vali files or Fold1..5.")],
    model: Annotated[
        str | None, typer.Option(help="Name of the model; `luce info --models` lists them.", show_default=False)
    ] = None,
    surrogate: Annotated[
        bool, typer.Option("--surrogate", help="Instead: the weights of `ndcg_mix`, the best surrogate of NDCG.")
    ] = False,
    valid: Annotated[Path | None, typer.Option(help="Validation data, for a single training file.")] = None,
    searching: _Searching,
    running: Running,
    read: FoldReading,
    report: Report,
) -> None:
    """Search a model's own space of settings and print the best ones as a command line."""
    from luce.experiments.folds import find_splits
    from luce.experiments.search import tune as run
    from luce.experiments.spaces import space_of, without
    from luce.experiments.tuning_results import train_command, write_tuning
    from luce.systems import model as complete

    if surrogate == (model is not None):
        raise SettingError("Give --model NAME for its settings, or --surrogate for the best surrogate, one of the two.")
    fixed = _nested(settings_from(searching.fix))
    space = {} if model is None else without(space_of(model), fixed)
    if model is not None:
        complete(model, **fixed).parts()  # what the model does not take is refused before any fit
    conventions, reading, out, seed = running.conventions(), read.given(), running.out, running.seed
    found = find_splits(data, valid=valid, seed=seed, **reading)
    tell_folds(report, found)
    if model is None:
        if conventions:
            raise SettingError("--surrogate judges by luce's own conventions; leave --preset and --convention out.")
        tune_surrogate(
            report, found, out, evaluations=searching.trials, metric=searching.metric, seed=seed, fixed=fixed
        )
        return
    settings: dict[str, Any] = vars(searching) | {"seed": seed, "space": space, "fixed": fixed}
    del settings["fix"]
    with running.watched(report, f"Tuning {model} on {data.name}") as watch:
        notes = {"data": str(data.resolve()), "reading": reading}
        result = run(found, model, **settings, jobs=running.jobs, out=out, watch=watch, notes=notes, **conventions)
    command = train_command(result, found[0])
    if out is not None:
        for path in write_tuning(result, out, command):
            report.say(f"Wrote {path}.")
    _show(report, result, command)


def _nested(settings: dict[str, Any]) -> dict[str, Any]:
    """`scorer.NAME` as `scorer__NAME`, and so for the other parts."""
    return {place.replace(".", "__", 1): value for place, value in settings.items()}


def _show(report: Report, result: Tuning, command: str) -> None:
    from luce.experiments.run_folder import finite

    best, metric = result.best, result.settings["metric"]
    machine = {
        "model": result.model,
        "best": best.settings,
        "validation": best.validation,
        "by_fold": best.by_fold,
        "command": command,
        "failed": sum(bool(attempt.error) for attempt in result.attempts),
        "trials": len({attempt.number for attempt in result.attempts}),
        "settings": result.settings,
    }
    if report.as_json:
        report.result("", finite(machine))
        return
    rows = [[a.number, a.validation, setting_text(a.settings), f"{a.seconds:.2f}"] for a in result.ranked[:10]]
    report.result(table("Best settings", ["setting", metric, "settings", "fits, s"], rows), machine)
    if machine["failed"]:
        error = next(attempt.error for attempt in result.attempts if attempt.error)
        report.say(f"Note: {machine['failed']} fits failed and were left out; the first one: {error}")
    many = len(result.settings["folds"])
    report.say("The best model again:" if many == 1 else f"The best settings, trained on the first of {many} folds:")
    report.result(command, machine)
