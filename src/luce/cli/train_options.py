"""The options of `luce train`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from luce.cli.common import settings_from
from luce.errors import SettingError


@dataclass(frozen=True)
class What:
    """What is trained: loss and scorer, or a complete system."""

    loss: Annotated[
        str | None, typer.Option(help="Name of the loss (default: pmop); `luce info --losses` lists them.")
    ] = None
    scorer: Annotated[
        str | None, typer.Option(help="Name of the scorer (default: linear); `luce info --scorers` lists them.")
    ] = None
    model: Annotated[
        str | None,
        typer.Option(help="A complete system by name, instead of loss and scorer; see `luce info --models`."),
    ] = None


@dataclass(frozen=True)
class Validation:
    """Queries for early stopping."""

    valid: Annotated[Path | None, typer.Option(help="Judged documents for early stopping.")] = None
    valid_orders: Annotated[
        list[Path] | None,
        typer.Option(help="Lists of documents of --valid, or else of DATA, to stop early by; repeatable."),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(help="Without --valid: fit on so many folds of the queries, each held out once; the mean of all."),
    ] = None
    hold_out: Annotated[
        float | None, typer.Option(help="Without --valid: share of the queries to hold out for it, such as 0.2.")
    ] = None


@dataclass(frozen=True)
class Fitting:
    """Settings of the parts of a ranker, each None where the part's own holds; one that no part takes is refused."""

    l2: Annotated[float | None, typer.Option(help="Strength of the L2 penalty.")] = None
    max_iter: Annotated[int | None, typer.Option(help="Iterations or trees at most.")] = None
    tol: Annotated[float | None, typer.Option(help="Relative decrease at which L-BFGS ends.")] = None
    metric: Annotated[str | None, typer.Option(help="Metric on the validation data (default: ndcg@10).")] = None
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Iterations without a better validation metric before training ends; 0: never."),
    ] = None
    trainer: Annotated[
        str | None, typer.Option(help="Name of the trainer (default: auto); `luce info --trainers` lists them.")
    ] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Step of descent, or shrinkage of trees."),
    ] = None
    schedule: Annotated[str | None, typer.Option(help="Steps of descent: constant, sqrt or inverse.")] = None
    batch_queries: Annotated[int | None, typer.Option(help="Queries of a step of descent.")] = None
    max_epochs: Annotated[int | None, typer.Option(help="Passes over the queries in descent.")] = None
    budget: Annotated[
        str | None, typer.Option(help="Of --model auto: fast, best, or seconds such as 120 (default: fast).")
    ] = None


@dataclass(frozen=True)
class Stated:
    """What is stated of the documents beside their grades."""

    comparisons: Annotated[
        list[Path] | None,
        typer.Option(help="CSV or Parquet with query, better, worse or query, tied_a, tied_b; may be repeated."),
    ] = None
    orders: Annotated[
        list[Path] | None,
        typer.Option(help="Top lists, best first: lines `query: d7 > {d2 d9} > rest`, or a TREC run; repeatable."),
    ] = None
    clicks: Annotated[
        Path | None,
        typer.Option(help="A click log (session, query, document, position, clicked), or counts of `luce clicks`."),
    ] = None
    comparison_weight: Annotated[float, typer.Option(help="Weight of the comparisons or lists beside the grades.")] = (
        1.0
    )

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that were given."""
        files = {"comparisons": self.comparisons, "orders": self.orders, "clicks": self.clicks}
        return [name for name, given in files.items() if given]

    @property
    def files(self) -> list[Path | None]:
        """All files that were given."""
        return [*(self.comparisons or []), *(self.orders or []), self.clicks]

    def check(self, held: Validation) -> None:
        """Refuse options that exclude each other, and a share that is none."""
        kinds = self.kinds
        if held.hold_out is not None and not 0.0 < held.hold_out < 1.0:
            raise SettingError(f"The share to hold out is {held.hold_out}; it must lie between 0 and 1, as in 0.2.")
        if held.hold_out is not None and (held.valid is not None or held.valid_orders or kinds):
            other = "valid" if held.valid is not None else "valid-orders" if held.valid_orders else kinds[0]
            raise SettingError(f"--hold-out and --{other} were given; give one of them.")
        judged = {"valid": held.valid, "valid-orders": held.valid_orders, "hold-out": held.hold_out}
        beside = [*(name for name, value in judged.items() if value is not None), *kinds]
        if held.folds is not None and beside:
            raise SettingError(f"--folds and --{beside[0]} were given; give one of them.")
        if len(kinds) > 1:
            raise SettingError(f"--{kinds[0]} and --{kinds[1]} were given; give one of them.")
        if self.comparison_weight != 1.0 and not (self.comparisons or self.orders):
            raise SettingError(
                "--comparison-weight goes with --comparisons or --orders; for clicks there is --clicks-weight."
            )


@dataclass(frozen=True)
class Details:
    """Parameters of the parts of a ranker, and what it goes on from."""

    query_norm: Annotated[str | None, typer.Option(help="Normalise features within queries: minmax or zscore.")] = None
    loss_setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the loss, as name=value; may be repeated.")
    ] = None
    scorer_setting: Annotated[
        list[str] | None, typer.Option(help="A parameter of the scorer, as name=value; may be repeated.")
    ] = None
    trainer_setting: Annotated[
        list[str] | None,
        typer.Option(help="A parameter of the trainer, as name=value; may be repeated."),
    ] = None
    base: Annotated[
        str | None, typer.Option(help="What trees are added to: a model file, or column:NAME for a feature.")
    ] = None
    base_folds: Annotated[
        int | None,
        typer.Option(help="Fit the base again on so many folds: each query is scored by a copy that did not see it."),
    ] = None
    update: Annotated[
        Path | None, typer.Option(help="A model file to go on from: more trees, or a warm start, on these data.")
    ] = None
    checkpoint: Annotated[Path | None, typer.Option(help="Folder for checkpoints, to go on from.")] = None
    sign: Annotated[
        Path | None, typer.Option(help="A private key (Ed25519, PEM or OpenSSH) to sign the model with.")
    ] = None

    def settings(self, fitting: Fitting) -> dict[str, Any]:
        """The settings of the ranker that were given, those of `fitting` among them."""
        settings = {
            **vars(fitting),
            "budget": None if fitting.budget is None else settings_from([f"budget={fitting.budget}"])["budget"],
            "query_norm": self.query_norm,
            "base": self.base,
            "base_folds": self.base_folds,
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
        }
        settings = {name: value for name, value in settings.items() if value is not None}
        from luce.ranker.parts import inner

        for part in ("loss", "scorer", "trainer"):
            settings |= inner(part, settings_from(getattr(self, f"{part}_setting")))
        return settings
