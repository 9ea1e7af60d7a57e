"""`luce tune`: the best settings of one model, as a command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, settings_from, table
from luce.cli.data_options import FoldReading
from luce.cli.experiment_options import Running, setting_text, tell_folds
from luce.cli.options import flag
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.experiments.folds import Fold
    from luce.experiments.search import Tuning
    from luce.experiments.surrogate import Surrogate


def tune_surrogate(
    report: Report,
    folds: list[Fold],
    out: Path | None,
    *,
    evaluations: int,
    metric: str,
    seed: int,
    fixed: dict[str, Any],
) -> None:
    """Search on every fold, show the weights and the best of what was visited, and write all of it.

    `fixed` holds settings of the ranker, those of its parts as `loss__NAME` and `scorer__NAME`.
    """
    _check_fixed(fixed)
    from luce.experiments.state import safe_name
    from luce.experiments.surrogate import best_surrogate, write_surrogates

    found: dict[str, Surrogate] = {}
    for fold in folds:
        train, valid, _ = fold.load()
        keep = None if out is None else out / "search" / safe_name(fold.name)
        with report.progress(f"Best surrogate, {fold.name}") as progress:
            found[fold.name] = best_surrogate(
                train,
                valid,
                evaluations=evaluations,
                metric=metric,
                random_state=seed,
                checkpoint=keep,
                progress=progress,
                **fixed,
            )
    if out is not None:
        for path in write_surrogates(found, out):
            report.say(f"Wrote {path}.")
    _show(report, found, metric)


def _check_fixed(fixed: dict[str, Any]) -> None:
    from luce.ranker import Ranker

    open_ = {"loss", "metric", "random_state", "checkpoint"}
    known = set(Ranker().get_params(deep=False)) - open_
    for name in fixed:
        if name not in known and "__" not in name:
            raise SettingError(f"--fix {name}: --surrogate can hold {', '.join(sorted(known))}.")


def _show(report: Report, found: dict[str, Surrogate], metric: str) -> None:
    machine: dict[str, Any] = {
        name: {"alpha": dict(s.alpha), metric: s.value, "iterations": s.iterations, "surface": list(s.surface)}
        for name, s in found.items()
    }
    names = list(next(iter(found.values())).alpha)
    chosen = [[name, *s.alpha.values(), s.value, s.iterations] for name, s in found.items()]
    report.result(table("Best surrogate", ["data", *names, metric, "rounds"], chosen), machine)
    if report.as_json or len(found) > 1:
        return
    surface = next(iter(found.values())).surface
    from luce.metrics import get

    best = sorted(surface, key=lambda visit: visit["value"], reverse=get(metric).greater_is_better)[:10]
    rows = [[*visit["alpha"], visit["value"], visit["iterations"]] for visit in best]
    report.result(table(f"The best of {len(surface)} visited", [*names, metric, "rounds"], rows), machine)


@dataclass(frozen=True)
class _Searching:
    """How settings are sought."""

    trials: int = flag(30, "Settings to try; the first one is the model as it is.", min=1)
    search: str = flag("random", "random, or halving: bad settings leave on small parts.")
    eta: int = flag(3, "Halving: one of so many settings goes on.", min=2)
    fix: list[str] | None = flag(
        None, "A setting to hold: max_iter=200, scorer.num_leaves=8 or loss.k=5; may be repeated."
    )
    metric: str = flag("ndcg@10", "Metric on validation data.")


def tune(
    *,
    data: Path = typer.Argument(..., help="A training file, or a folder with train and vali files or Fold1..5."),
    model: str | None = typer.Option(
        None, help="Name of the model; `luce info --models` lists them.", show_default=False
    ),
    surrogate: bool = typer.Option(
        False, "--surrogate", help="Instead: the weights of `ndcg_mix`, the best surrogate of NDCG."
    ),
    valid: Path | None = typer.Option(None, help="Validation data, for a single training file."),
    searching: _Searching,
    running: Running,
    read: FoldReading,
    report: Report,
) -> None:
    """Search a model's own space of settings and print the best ones as a command line."""
    from luce.experiments.folds import find_splits
    from luce.experiments.search import train_command, write_tuning
    from luce.experiments.search import tune as run
    from luce.experiments.spaces import space_of, without
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
    _show_tune(report, result, command)


def _nested(settings: dict[str, Any]) -> dict[str, Any]:
    """`scorer.NAME` as `scorer__NAME`, and so for the other parts."""
    return {place.replace(".", "__", 1): value for place, value in settings.items()}


def _show_tune(report: Report, result: Tuning, command: str) -> None:
    from luce.result import plain as finite

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
