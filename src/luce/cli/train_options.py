"""The options of `luce train`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luce.cli.common import refuse_two, settings_from
from luce.cli.data_options import Statements
from luce.cli.options import Given, Shown, flag
from luce.errors import SettingError
from luce.settings import Budget, Choosing, PartNames, ShortForms, Splits, Surroundings
from luce.spec import accepted, described


class What(PartNames):
    """What is trained: loss and scorer, or a complete system.

    Parameters
    ----------
    model
        A complete system by name, instead of loss and scorer; see `luce info --models`.
    """

    model: str | None = None


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
    hold_out: float | None = flag(None, described(Splits)["hold_out"])

    @property
    def given(self) -> dict[str, Any]:
        """What was given of those that judge, by name."""
        names = ("valid", "valid_orders", "valid_comparisons", "hold_out")
        return {name.replace("_", "-"): getattr(self, name) for name in names if getattr(self, name) is not None}


def typed_value(text: str) -> Any:
    """A value as a setting has it: a number, true, false, none, numbers with commas between, or else a text."""
    return settings_from([f"value={text}"])["value"]


class Fitting(Given):
    """How it is fitted; what is not given leaves the setting of the part, and what no part takes is refused."""

    of = (ShortForms, Choosing, Budget)
    shown = Shown(
        typed={"early_stopping": (int, lambda steps: steps or None), "budget": (str, typed_value)},
    )


@dataclass(frozen=True)
class Stated(Statements):
    """Lists, comparisons and clicks: what is stated of the documents beside their grades."""

    comparison_weight: float = flag(1.0, "Weight of the comparisons or lists beside the grades.")

    def check(self, held: Validation) -> None:
        """Refuse options that exclude each other, and a share that is none."""
        if held.hold_out is not None:
            accepted(Splits, {"hold_out": held.hold_out})
        judged = held.given
        share = judged.pop("hold-out", None)
        refuse_two("hold-out", share, judged)
        refuse_two("valid-orders", held.valid_orders, {"valid-comparisons": held.valid_comparisons})
        refuse_two("folds", held.folds, judged | {"hold-out": share, "clicks": self.clicks})
        self.check_kinds()
        if self.comparison_weight != 1.0 and not (self.comparisons or self.orders):
            raise SettingError(
                "--comparison-weight goes with --comparisons or --orders; for clicks there is --clicks-weight."
            )


@dataclass(frozen=True)
class Details(Given):
    """Parts, bases and updates: their parameters, and what a training goes on from."""

    of = (Surroundings,)
    shown = Shown(typed={"base": (str, str), "checkpoint": (Path, str)}, hidden=("warm_start",))

    loss_setting: list[str] | None = flag(None, "A parameter of the loss, as name=value; may be repeated.")
    scorer_setting: list[str] | None = flag(None, "A parameter of the scorer, as name=value; may be repeated.")
    trainer_setting: list[str] | None = flag(None, "A parameter of the trainer, as name=value; may be repeated.")
    update: Path | None = flag(None, "A model file to go on from: more trees, or a warm start, on these data.")
    sign: Path | None = flag(None, "A private key (Ed25519, PEM or OpenSSH) to sign the model with.")

    def of_ranker(self, fitting: Fitting) -> dict[str, Any]:
        """The settings of the ranker that were given, those of `fitting` among them."""
        from luce.ranker.parts import inner

        settings = {**fitting.settings, **self.settings}
        for part in ("loss", "scorer", "trainer"):
            settings |= inner(part, settings_from(getattr(self, f"{part}_setting")))
        return settings
