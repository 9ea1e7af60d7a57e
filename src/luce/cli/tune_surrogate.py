"""`luce tune --surrogate`: the weights of convex functions that make the best loss for a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from luce.cli.common import Report, table
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.experiments.folds import Fold
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
