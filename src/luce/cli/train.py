"""`luce train`: fit a ranker and write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.cluster import DaskOption, on_cluster, one_file
from luce.cli.common import JsonFlag, QuietFlag, Report, settings_from
from luce.cli.data_options import (
    AbsentOption,
    AllowNanFlag,
    FeaturesOption,
    JudgementsOption,
    MissingOption,
    QueryFileOption,
    given,
)
from luce.errors import DataError, SettingError

if TYPE_CHECKING:
    from luce.data.comparisons import Comparisons
    from luce.data.groups import Groups
    from luce.ranker import Ranker
    from luce.types import FloatArray, IntArray

__all__ = ["train"]


def train(
    data: Annotated[
        list[str], typer.Argument(help="Judged documents to learn from; with --dask files, folders or patterns.")
    ],
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    loss: Annotated[
        str | None, typer.Option(help="Name of the loss (default: pmop); `luce info --losses` lists them.")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="Name of the scorer (default: linear); `luce info --scorers` lists them.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A complete system by name, instead of loss and scorer; see `luce info --models`."),
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Judged documents for early stopping.")] = None,
    hold_out: Annotated[
        float | None, typer.Option(help="Without --valid: share of the queries to hold out for it, such as 0.2.")
    ] = None,
    l2: Annotated[float | None, typer.Option(help="Strength of the L2 penalty (default: 0.01).")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Iterations, trees or passes at most (default: 100).")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative decrease at which training ends (default: 1e-5).")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric on the validation data (default: ndcg@10).")] = None,
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Iterations without a better validation metric before training ends (default: 20)."),
    ] = None,
    trainer: Annotated[
        str | None, typer.Option(help="auto (default), lbfgs, sgd, projected or projected_lbfgs.")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Step of stochastic gradient descent (default: 0.1; projected: one that fits the data)."),
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="Steps of descent: constant (default), sqrt or inverse.")] = None,
    batch_queries: Annotated[int | None, typer.Option(help="Queries of a step of descent (default: all).")] = None,
    max_epochs: Annotated[
        int | None, typer.Option(help="Passes over the queries in descent, instead of --max-iter.")
    ] = None,
    comparisons: Annotated[
        list[Path] | None,
        typer.Option(help="CSV or Parquet with query, better, worse or query, tied_a, tied_b; may be repeated."),
    ] = None,
    orders: Annotated[
        Path | None,
        typer.Option(help="Top lists, best first: lines `query: d7 > d2 > d9`, or a TREC run."),
    ] = None,
    clicks: Annotated[
        Path | None, typer.Option(help="A click log: query, impression, position, document, clicked.")
    ] = None,
    comparison_weight: Annotated[
        float, typer.Option(help="Weight of the comparisons or lists beside the grades.")
    ] = 1.0,
    query_norm: Annotated[str | None, typer.Option(help="Normalise features within queries: minmax or zscore.")] = None,
    loss_setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the loss, as name=value; may be repeated.")
    ] = None,
    scorer_setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the scorer, as name=value; may be repeated.")
    ] = None,
    trainer_setting: Annotated[
        list[str] | None,
        typer.Option(help="A parameter of a projected trainer, as name=value (radius, starts, keep); may be repeated."),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="What trees are added to: a model file, or column:NAME for a feature.")
    ] = None,
    update: Annotated[
        Path | None, typer.Option(help="A model file to go on from: more trees, or a warm start, on these data.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder for checkpoints, to go on from.")] = None,
    dask: DaskOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    absent: AbsentOption = None,
    allow_nan: AllowNanFlag = False,
    n_features: FeaturesOption = None,
    query_file: QueryFileOption = None,
    missing: MissingOption = None,
    judgements: JudgementsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train a ranker on judged documents and write it to a file."""
    report = Report(as_json=json, quiet=quiet)
    kinds = [name for name, files in (("comparisons", comparisons), ("orders", orders), ("clicks", clicks)) if files]
    if hold_out is not None and (valid is not None or kinds):
        raise SettingError(
            f"--hold-out and --{'valid' if valid is not None else kinds[0]} were given; give one of them."
        )
    if len(kinds) > 1:
        raise SettingError(f"--{kinds[0]} and --{kinds[1]} were given; give one of them.")
    options = given(
        absent=absent,
        allow_nan=allow_nan,
        n_features=n_features,
        query_file=query_file,
        missing=missing,
        judgements=judgements,
    )
    settings = {
        "l2": l2,
        "max_iter": max_iter,
        "tol": tol,
        "metric": metric,
        "early_stopping": early_stopping,
        "trainer": trainer,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "batch_queries": batch_queries,
        "max_epochs": max_epochs,
        "query_norm": query_norm,
        "loss_params": settings_from(loss_setting) or None,
        "scorer_params": settings_from(scorer_setting) or None,
        "trainer_params": settings_from(trainer_setting) or None,
        "base": base,
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    chosen = {**{k: v for k, v in settings.items() if v is not None}, "random_state": seed}
    ranker = _ranker(model, loss, scorer, chosen) if update is None else _updated(update, model, loss, scorer, chosen)
    if max_iter is not None and max_epochs is None and ranker.trainer == "projected":
        ranker.set_params(max_epochs=max_iter)

    from luce import metrics
    from luce.storage import check_output

    check_output(out)
    metrics.get(ranker.metric)
    if dask is None:
        stated = {"comparisons": comparisons, "orders": orders, "clicks": clicks}
        held = None if hold_out is None else (seed, hold_out)
        _fit_here(
            ranker, one_file(data), valid, held, stated, comparison_weight, options, update is not None, report, model
        )
    else:
        if kinds or hold_out is not None:
            option = kinds[0] if kinds else "hold-out"
            raise SettingError(f"--{option} goes with one machine; leave it or --dask out.")
        _fit_there(ranker, dask, data, valid, options, update is not None, report, model)
    ranker.save(out)
    _tell(report, ranker, out)


def _fit_here(
    ranker: Ranker,
    data: Path,
    valid: Path | None,
    held: tuple[int, float] | None,
    statements: dict[str, Any],
    comparison_weight: float,
    options: dict[str, Any],
    goes_on: bool,
    report: Report,
    model: str | None,
) -> None:
    from luce.cli.matching import read_matching
    from luce.data.readers.detect import read

    report.say(f"Reading {data} ...")
    groups = read_matching(data, ranker.feature_names_, options) if goes_on else read(data, **options)
    report.say(f"{groups.n_queries:,} queries, {groups.n_rows:,} documents, {groups.n_features:,} features.")
    checked = None if valid is None else read_matching(valid, groups.feature_names, options)
    if held is not None:
        from luce.experiments.folds import hold_out

        groups, checked = hold_out(groups, *held)
        report.say(f"{checked.n_queries:,} of the queries are held out for early stopping.")
    stated = _stated(groups, **statements, report=report)
    if stated is None:
        _check_preferences(str(data), groups.y, groups.offsets)
    with report.progress(f"Training {model or ranker.loss} (the first use compiles)") as progress:
        ranker.fit(groups, valid=checked, comparisons=stated, comparison_weight=comparison_weight, progress=progress)
    _tell_skipped(report, ranker, groups, stated)


def _fit_there(
    ranker: Ranker,
    address: str,
    data: list[str],
    valid: Path | None,
    options: dict[str, Any],
    goes_on: bool,
    report: Report,
    model: str | None,
) -> None:
    """Train on a Dask cluster; the validation data are read here."""
    from luce.cli.matching import read_matching
    from luce.distributed.fit import check_fit

    check_fit(ranker)
    with on_cluster(address, data, options, ranker.feature_names_ if goes_on else None, report) as dataset:
        from luce.distributed import fit

        outline = dataset.layout.outline
        checked = None if valid is None else read_matching(valid, outline.feature_names, options)
        _check_preferences(data[0], outline.y, outline.offsets)
        with report.progress(f"Training {model or ranker.loss} (the first use compiles)") as progress:
            fit(ranker, dataset, checked, progress)


def _stated(
    groups: Groups, comparisons: list[Path] | None, orders: Path | None, clicks: Path | None, report: Report
) -> Comparisons | None:
    """What is stated of the documents beside their grades, from the one kind of file that was given."""
    if orders is not None:
        from luce.data.order_files import read_orders

        stated = read_orders(orders, groups)
        report.say(f"{stated.n_orders:,} ordered lists of {len(stated.order_rows):,} documents.")
        return stated
    if clicks is not None:
        from luce.data.clicks import comparisons_from_clicks

        stated = comparisons_from_clicks(clicks, groups)
    elif comparisons:
        from luce.data.comparison_files import read_comparisons

        stated = read_comparisons(comparisons, groups)
    else:
        return None
    report.say(f"{len(stated.wins):,} preferences and {len(stated.ties):,} ties.")
    return stated


def _has_preferences(y: FloatArray, offsets: IntArray) -> bool:
    import numpy as np

    starts = offsets[:-1]
    return bool(np.any(np.maximum.reduceat(y, starts) > np.minimum.reduceat(y, starts)))


def _check_preferences(name: str, y: FloatArray, offsets: IntArray) -> None:
    if not _has_preferences(y, offsets):
        raise DataError(
            f"{name}: all labels of every query are equal; grades that differ, or --comparisons, are needed."
        )


def _ranker(model: str | None, loss: str | None, scorer: str | None, settings: dict[str, Any]) -> Ranker:
    if model is not None:
        if loss is not None or scorer is not None:
            raise SettingError("--model names a complete system; give it, or --loss and --scorer, not both.")
        from luce import losses, scorers
        from luce.systems import model as complete
        from luce.systems import search_space

        search_space(model)
        ranker: Ranker = complete(model, **settings)
        losses.get(str(ranker.loss), **(ranker.loss_params or {}))
        scorers.get(ranker.scorer, **(ranker.scorer_params or {}))
        ranker._check_settings()
        return ranker
    from luce import losses, scorers
    from luce.ranker import Ranker

    ranker = Ranker(loss=loss or "pmop", scorer=scorer or "linear", **settings)
    losses.get(loss or "pmop", **(ranker.loss_params or {}))
    scorers.get(scorer or "linear", **(ranker.scorer_params or {}))
    ranker._check_settings()
    return ranker


def _updated(path: Path, model: str | None, loss: str | None, scorer: str | None, settings: dict[str, Any]) -> Ranker:
    """A saved ranker that will go on from where it is."""
    fixed = {"--model": model, "--loss": loss, "--scorer": scorer}
    fixed |= {f"--{name.replace('_', '-')}": settings.get(name) for name in ("query_norm", "base", "loss_params")}
    for option, value in fixed.items():
        if value is not None:
            option = option.replace("loss-params", "loss-setting")
            raise SettingError(f"--update goes on with the model as it is; leave {option} out.")
    from luce.model_file import load

    ranker = load(path)
    if ranker.on_scores_:
        raise SettingError(f"{path} was trained on top of base_scores, which files do not carry; update it in Python.")
    own = {**(ranker.scorer_params or {}), **settings.pop("scorer_params", {})}
    ranker.set_params(**settings, scorer_params=own or None, warm_start=True)
    ranker._check_settings()
    return ranker


def _tell_skipped(report: Report, ranker: Ranker, groups: Groups, stated: Comparisons | None) -> None:
    """How many order graphs had no edge, where the loss can tell."""
    from luce.scorers import has_own_criterion

    if has_own_criterion(ranker.scorer) or not hasattr(ranker.loss_, "skipped"):
        return
    graded = stated is None or _has_preferences(groups.y, groups.offsets)
    skipped = ranker.loss_.skipped(groups.y if graded else stated, groups.offsets)
    if skipped:
        report.say(f"{skipped:,} of {groups.n_queries:,} queries have no preference and were skipped.")


def _tell(report: Report, ranker: Ranker, out: Path) -> None:
    from luce.scorers import has_own_criterion
    from luce.training.run import best_validation

    history = ranker.history_
    objective = history["objective"][-1] if history["objective"] else None
    own = has_own_criterion(ranker.scorer)
    machine = {
        "model": str(out),
        "loss": None if own else ranker.loss_.name,
        "scorer": ranker.scorer_.name,
        "iterations": len(history["objective"]),
        "converged": history["converged"],
        "objective": objective,
        "validation": best_validation(history, ranker.metric),
    }
    what = f"{ranker.scorer} as {machine['scorer']}" if own else f"{machine['loss']} on {machine['scorer']}"
    text = f"Wrote {out}: {what}, {machine['iterations']} iterations"
    if hasattr(ranker.scorer_, "table"):
        machine["products"] = len(ranker.scorer_.table())
        text += f", {machine['products']:,} products of features"
    if objective is not None:
        text += f", objective {objective:.6g}"
    if machine["validation"] is not None:
        text += f", best validation {ranker.metric} {machine['validation']:.4f}"
    if not history["converged"] and not history["validation"]:
        text += " (not converged: raise --max-iter)"
    report.result(text + ".", machine)
