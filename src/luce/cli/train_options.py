"""The options of `luce train`, in groups; and what a click log becomes for the loss that learns from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, check_unused, refuse_two, settings_from, typed_value
from luce.cli.data_options import Statements
from luce.cli.options import Given, Group, Shown, flag
from luce.errors import SettingError
from luce.registry import canonical
from luce.settings import Budget, Choosing, PartNames, ShortForms, Splits, Surroundings
from luce.spec import accepted, described

if TYPE_CHECKING:
    from luce.clicks import Clicks, Examination
    from luce.data.groups import Groups
    from luce.losses.base import Loss
    from luce.ranker import Ranker
    from luce.types import Progress


class What(PartNames):
    """What is trained: loss and scorer, or a complete system.

    Parameters
    ----------
    model
        A complete system by name, instead of loss and scorer; see `luce info --models`.
    """

    model: str | None = None


class Validation(Group):
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


class Fitting(Given):
    """How it is fitted; what is not given leaves the setting of the part, and what no part takes is refused."""

    of = (ShortForms, Choosing, Budget)
    shown = Shown(typed={"early_stopping": (int, lambda steps: steps or None), "budget": (str, typed_value)})


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


_FEW, _FEW_LINEAR = 500, 200
"""Clicked queries below which linear scorers explained held-out clicks better than trees, or hardly at all."""

_TREES = 50
"""Of `auto`: 100 explained held-out clicks worse on MQ2007 and OHSUMED, with few sessions and with many."""


class LogUse(Group):
    """What a click log says of documents."""

    clicks_users: str = flag(
        "position", "What attention depends on: position, last_click (users who stop) or trust (in what stands high)."
    )
    missing_documents: str = flag("error", "Documents of a log, list or comparison that the data lack: error or skip.")
    clicks_examination: Path | None = flag(
        None, "Examination of the click log that is known: a table with position, propensity."
    )

    def examined(self, log: Path, groups: Groups, report: Report, pairs: bool = False) -> Examination:
        """The examination of a log or of saved counts, or that of a file, with a remark on what it rests on."""
        from luce.clicks import examination, given_examination, read

        users, missing, known = self.clicks_users, self.missing_documents, self.clicks_examination
        if known is not None and users != "position":
            raise SettingError(f"--clicks-users {users} is estimated; leave it or --clicks-examination out.")
        counts = read(log, pairs=pairs)
        if known is not None:
            from luce.cli.clicks import known_examination

            found, how = given_examination(counts, known_examination(known)), f"examination of {known}"
        else:
            found = examination(counts, groups, users=users, missing=missing)
            error = found.standard_error.max()
            how = f"examination by {found.method} choice, errors of its logarithm up to {error:.3f}"
        report.say(f"{counts!r}; {how}.")
        for note in (*counts.notes, *found.notes):
            report.say(f"Note: {note}")
        if missing == "skip":
            lost = counts.rows_in(groups, "skip")[counts.document] < 0
            if lost.any():
                report.say(f"{counts.clicked[lost].sum():,.0f} clicks are on documents that the data lack; left out.")
        return found


class ClickOptions(LogUse):
    """Learning from clicks."""

    ignore_grades: bool = flag(False, "With --clicks, --comparisons or --orders: learn from these alone.")
    clicks_weight: float = flag(1.0, "Weight of the clicks beside the grades.")
    guard: bool = flag(False, "Let held-out queries of the log decide: this model, linear ones, or plain click rates.")

    @classmethod
    def check(cls, context: typer.Context, stated: Stated) -> None:
        """These options go with a log; grades can be ignored for comparisons and lists as well."""
        of_all = "ignore_grades", "missing_documents"
        if not stated.kinds:
            check_unused(context, of_all, "goes with --clicks, --comparisons or --orders, and none was given")
        if stated.clicks is None:
            check_unused(context, [cls], "goes with --clicks LOG, and no log was given", kept=of_all)

    def guarded(self, ranker: Ranker, log: Path, groups: Groups, seed: int, report: Report, told: Progress) -> Ranker:
        """The model that the guard takes, with a remark a learner on what it is worth."""
        from luce.clicks import guarded

        found = self.examined(log, groups, report)
        taken = guarded(ranker, groups, found, missing=self.missing_documents, random_state=seed, progress=told)
        for row in taken.table:
            report.say(
                f"{row['learner']}: explains a click of held-out queries by {row['value']:.4f} nats more than exposure "
                f"alone, {row['difference']:+.4f} +- {row['standard_error']:.4f} from naive."
            )
        report.say(f"Taken: {taken.chosen}.")
        return taken.model

    def advise(self, ranker: Ranker, target: Clicks, groups: Groups, report: Report) -> None:
        """A remark where so few queries were clicked that the guard should choose."""
        import numpy as np

        clicked = int((np.add.reduceat(target.clicks, groups.offsets[:-1]) > 0).sum())
        linear = ranker.parts().scorer.name == "linear"
        if self.ignore_grades and clicked < (_FEW_LINEAR if linear else _FEW):
            report.say(
                f"Note: {clicked:,} queries were clicked, which is few for "
                f"{'a penalty that nobody chose' if linear else 'anything but a linear scorer'}; --guard lets held-out "
                "queries of the log choose."
            )

    def check_guard(self, loss: Loss | None, held: Validation) -> None:
        """The guard compares learners of the choice loss, and holds out queries itself."""
        if not self.guard:
            return
        if not self.ignore_grades or loss is None or loss.name != "click_choice":
            raise SettingError("--guard is for clicks alone: give --ignore-grades and the loss click_choice.")
        for name in ("valid", "hold_out", "folds", "valid_orders"):
            if getattr(held, name):
                raise SettingError(f"--guard holds out queries of its own; leave --{name.replace('_', '-')} out.")

    def graded(self, groups: Groups) -> Groups:
        """The data, without their grades where those are to be ignored."""
        if not self.ignore_grades:
            return groups
        import numpy as np

        return replace(groups, y=np.zeros(groups.n_rows))

    def paired(self, log: Path, groups: Groups, report: Report) -> Groups:
        """The data with the preferences and ties of the log, freed of position, for a loss over pairs."""
        from luce.clicks import pairs

        stated = pairs(self.examined(log, groups, report, True), groups, missing=self.missing_documents)
        report.say(f"{len(stated.wins):,} preferences and {len(stated.ties):,} ties, freed of position.")
        return replace(groups, stated=stated)

    def arguments(self, log: Path, groups: Groups, ranker: Ranker, report: Report) -> dict[str, Any]:
        """What `Ranker.fit` is given for the choice loss."""
        if ranker.parts().loss is None:
            raise SettingError("--clicks needs a loss, such as click_choice; this model has a criterion of its own.")
        target = self.examined(log, groups, report).target(groups, self.missing_documents)
        self.advise(ranker, target, groups, report)
        return {"clicks": target, "clicks_weight": self.clicks_weight}


def with_click_loss(
    what: What, log: Path | None, clicking: ClickOptions, settings: dict[str, Any]
) -> tuple[What, ClickOptions, dict[str, Any]]:
    """What is trained, by the choice loss where a log was given and no loss named; `auto` is the guard, given trees."""
    if log is None:
        return what, clicking, settings
    if what.model is None:
        return (replace(what, loss="click_choice") if what.loss is None else what), clicking, settings
    if canonical(what.model) != "auto":
        return what, clicking, settings
    if not clicking.ignore_grades:
        raise SettingError(
            "--model auto learns from grades or from clicks alone; add --ignore-grades, or name a --loss for both."
        )
    if what.loss is not None or what.scorer is not None:
        raise SettingError("--model auto chooses loss and scorer; leave --loss and --scorer out.")
    what = replace(what, model=None, loss="click_choice", scorer="trees")
    trees = {} if "trainer__max_iter" in settings else {"max_iter": _TREES}
    return what, replace(clicking, guard=True), trees | settings
