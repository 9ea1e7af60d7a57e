"""`luce train`: fit a ranker and write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, settings_from
from luce.cli.data_options import AbsentOption, AllowNanFlag, FeaturesOption, MissingOption, QueryFileOption, given
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.ranker import Ranker

__all__ = ["train"]


def train(
    data: Annotated[Path, typer.Argument(help="Judged documents to learn from.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    loss: Annotated[str | None, typer.Option(help="Name of the loss (default: pmop).")] = None,
    scorer: Annotated[str | None, typer.Option(help="Name of the scorer (default: linear).")] = None,
    model: Annotated[str | None, typer.Option(help="A complete system by name, instead of loss and scorer.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Judged documents for early stopping.")] = None,
    l2: Annotated[float | None, typer.Option(help="Strength of the L2 penalty.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Iterations at the most.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative decrease at which training ends.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric on the validation data.")] = None,
    early_stopping: Annotated[
        int | None, typer.Option(help="Iterations without a better validation metric before training ends.")
    ] = None,
    trainer: Annotated[str | None, typer.Option(help="auto, lbfgs or sgd.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Step of stochastic gradient descent.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Steps of descent: constant, sqrt or inverse.")] = None,
    comparisons: Annotated[
        list[Path] | None,
        typer.Option(help="CSV or Parquet with query, better, worse or query, tied_a, tied_b; may be repeated."),
    ] = None,
    orders: Annotated[
        Path | None,
        typer.Option(help="Top lists, best first: lines `query: d7 > d2 > d9`, or a TREC run."),
    ] = None,
    comparison_weight: Annotated[
        float, typer.Option(help="Weight of the comparisons or lists beside the grades.")
    ] = 1.0,
    query_norm: Annotated[str | None, typer.Option(help="Normalise features within queries: minmax or zscore.")] = None,
    loss_setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the loss, as name=value; may be repeated.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder for checkpoints, to go on from.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    absent: AbsentOption = None,
    allow_nan: AllowNanFlag = False,
    n_features: FeaturesOption = None,
    query_file: QueryFileOption = None,
    missing: MissingOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train a ranker on judged documents and write it to a file."""
    report = Report(as_json=json, quiet=quiet)
    if comparisons and orders is not None:
        raise SettingError("--comparisons gives pairs and --orders lists; give one of them.")
    options = given(absent=absent, allow_nan=allow_nan, n_features=n_features, query_file=query_file, missing=missing)
    settings = {
        "l2": l2,
        "max_iter": max_iter,
        "tol": tol,
        "metric": metric,
        "early_stopping": early_stopping,
        "trainer": trainer,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "query_norm": query_norm,
        "loss_params": settings_from(loss_setting) or None,
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    ranker = _ranker(
        model, loss, scorer, {**{k: v for k, v in settings.items() if v is not None}, "random_state": seed}
    )

    from luce import metrics
    from luce.cli.matching import read_matching
    from luce.data.readers.detect import read
    from luce.storage import check_output

    check_output(out)
    metrics.get(ranker.metric)
    report.say(f"Reading {data} ...")
    groups = read(data, **options)
    report.say(f"{groups.n_queries:,} queries, {groups.n_rows:,} documents, {groups.n_features:,} features.")
    checked = None if valid is None else read_matching(valid, groups.feature_names, options)
    stated = None
    if orders is not None:
        from luce.data.order_files import read_orders

        stated = read_orders(orders, groups)
        report.say(f"{stated.n_orders:,} ordered lists of {len(stated.order_rows):,} documents.")
    elif comparisons:
        from luce.data.comparison_files import read_comparisons

        stated = read_comparisons(comparisons, groups)
        report.say(f"{len(stated.wins):,} preferences and {len(stated.ties):,} ties from the comparisons.")
    with report.progress(f"Training {model or ranker.loss} (the first use compiles)") as progress:
        ranker.fit(groups, valid=checked, comparisons=stated, comparison_weight=comparison_weight, progress=progress)
    ranker.save(out)
    _tell(report, ranker, out)


def _ranker(model: str | None, loss: str | None, scorer: str | None, settings: dict[str, Any]) -> Ranker:
    if model is not None:
        if loss is not None or scorer is not None:
            raise SettingError("--model names a complete system; give it, or --loss and --scorer, not both.")
        from luce.systems import model as complete

        return complete(model, **settings)
    from luce import losses, scorers
    from luce.ranker import Ranker

    ranker = Ranker(loss=loss or "pmop", scorer=scorer or "linear", **settings)
    losses.get(loss or "pmop", **(ranker.loss_params or {}))
    scorers.get(scorer or "linear")
    ranker._check_settings()
    return ranker


def _tell(report: Report, ranker: Ranker, out: Path) -> None:
    history = ranker.history_
    objective = history["objective"][-1] if history["objective"] else None
    machine = {
        "model": str(out),
        "loss": ranker.loss_.name,
        "scorer": ranker.scorer_.name,
        "iterations": len(history["objective"]),
        "converged": history["converged"],
        "objective": objective,
        "validation": max(history["validation"]) if history["validation"] else None,
    }
    text = f"Wrote {out}: {machine['loss']} on {machine['scorer']}, {machine['iterations']} iterations"
    if objective is not None:
        text += f", objective {objective:.6g}"
    if machine["validation"] is not None:
        text += f", best validation {ranker.metric} {machine['validation']:.4f}"
    if not history["converged"] and not history["validation"]:
        text += " (not converged: raise --max-iter)"
    report.result(text + ".", machine)
