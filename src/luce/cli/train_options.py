"""The options of `luce train`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luce.cli.common import refuse_two, settings_from
from luce.cli.options import flag
from luce.errors import SettingError


@dataclass(frozen=True)
class What:
    """What is trained: loss and scorer, or a complete system."""

    loss: str | None = flag(None, "Name of the loss (default: pmop); `luce info --losses` lists them.")
    scorer: str | None = flag(None, "Name of the scorer (default: linear); `luce info --scorers` lists them.")
    model: str | None = flag(None, "A complete system by name, instead of loss and scorer; see `luce info --models`.")


@dataclass(frozen=True)
class Validation:
    """Queries for early stopping."""

    valid: Path | None = flag(None, "Judged documents for early stopping.")
    valid_orders: list[Path] | None = flag(
        None, "Lists of documents of --valid, or else of DATA, to stop early by; repeatable."
    )
    valid_comparisons: list[Path] | None = flag(
        None, "Preferences between documents of --valid, or else of DATA, to stop early by; repeatable."
    )
    folds: int | None = flag(
        None, "Without --valid: fit on so many folds of the queries, each held out once; the mean of all."
    )
    hold_out: float | None = flag(None, "Without --valid: share of the queries to hold out for it, such as 0.2.")

    @property
    def given(self) -> dict[str, Any]:
        """What was given of those that judge, by name."""
        names = ("valid", "valid_orders", "valid_comparisons", "hold_out")
        return {name.replace("_", "-"): getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class Fitting:
    """How it is fitted; each is None where the part's own setting holds, and one that no part takes is refused."""

    l2: float | None = flag(None, "Strength of the L2 penalty.")
    max_iter: int | None = flag(None, "Iterations or trees at most.")
    tol: float | None = flag(None, "Relative decrease at which L-BFGS ends.")
    metric: str | None = flag(None, "Metric on the validation data (default: ndcg@10).")
    early_stopping: int | None = flag(
        None, "Iterations without a better validation metric before training ends; 0: never."
    )
    trainer: str | None = flag(None, "Name of the trainer (default: auto); `luce info --trainers` lists them.")
    learning_rate: float | None = flag(None, "Step of descent, or shrinkage of trees.")
    schedule: str | None = flag(None, "Steps of descent: constant, sqrt or inverse.")
    batch_queries: int | None = flag(None, "Queries of a step of descent.")
    max_epochs: int | None = flag(None, "Passes over the queries in descent.")
    budget: str | None = flag(None, "Of --model auto: fast, best, or seconds such as 120 (default: fast).")


@dataclass(frozen=True)
class Stated:
    """Lists, comparisons and clicks: what is stated of the documents beside their grades."""

    comparisons: list[Path] | None = flag(
        None, "CSV or Parquet with query, better, worse or query, tied_a, tied_b (and judge, weight); repeatable."
    )
    orders: list[Path] | None = flag(
        None, "Top lists: lines `query: d7 > {d2 d9} > rest`, a TREC run, or a table query, document, rank; repeatable."
    )
    clicks: Path | None = flag(
        None, "A click log (session, query, document, position, clicked), or counts of `luce clicks`."
    )
    comparison_weight: float = flag(1.0, "Weight of the comparisons or lists beside the grades.")

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
        if held.hold_out is not None and not 0.0 < held.hold_out < 1.0:
            raise SettingError(f"The share to hold out is {held.hold_out}; it must lie between 0 and 1, as in 0.2.")
        judged = held.given
        share = judged.pop("hold-out", None)
        refuse_two("hold-out", share, judged)
        refuse_two("valid-orders", held.valid_orders, {"valid-comparisons": held.valid_comparisons})
        refuse_two("folds", held.folds, judged | {"hold-out": share, "clicks": self.clicks})
        for name in self.kinds[:1]:
            refuse_two(name, True, dict.fromkeys(self.kinds[1:], True))
        if self.comparison_weight != 1.0 and not (self.comparisons or self.orders):
            raise SettingError(
                "--comparison-weight goes with --comparisons or --orders; for clicks there is --clicks-weight."
            )


@dataclass(frozen=True)
class Details:
    """Parts, bases and updates: their parameters, and what a training goes on from."""

    query_norm: str | None = flag(None, "Normalise features within queries: minmax or zscore.")
    loss_setting: list[str] | None = flag(None, "A parameter of the loss, as name=value; may be repeated.")
    scorer_setting: list[str] | None = flag(None, "A parameter of the scorer, as name=value; may be repeated.")
    trainer_setting: list[str] | None = flag(None, "A parameter of the trainer, as name=value; may be repeated.")
    base: str | None = flag(
        None, "What trees are added to: a model file, also of LightGBM or XGBoost, or column:NAME for a feature."
    )
    base_folds: int | None = flag(
        None, "Fit the base again on so many folds: each query is scored by a copy that did not see it."
    )
    update: Path | None = flag(None, "A model file to go on from: more trees, or a warm start, on these data.")
    checkpoint: Path | None = flag(None, "Folder for checkpoints, to go on from.")
    sign: Path | None = flag(None, "A private key (Ed25519, PEM or OpenSSH) to sign the model with.")

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
