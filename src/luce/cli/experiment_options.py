"""What `luce compare` and `luce tune` share: options of a run, and how it is watched."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import INTERRUPTED, ConventionOption, Report, SeedOption, settings_from
from luce.cli.data_options import say_columns
from luce.cli.options import flag
from luce.display import duration

if TYPE_CHECKING:
    from rich.table import Table

    from luce.experiments.desk import Tally, Watch
    from luce.experiments.folds import Fold


@contextmanager
def watching(report: Report, title: str) -> Iterator[Watch | None]:
    """What an experiment tells of its progress is shown while the block runs."""
    if report.quiet:
        yield None
    elif report.stderr.is_terminal:
        from rich.live import Live

        view = _LiveTable(title)
        with Live(get_renderable=view.table, console=report.stderr, refresh_per_second=4, transient=True):
            yield view.note
    else:
        yield _Lines(report).note


class _LiveTable:
    """A row a model: where it is, its best validation value so far, the time that is left."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.tally: Tally | None = None
        self.since = time.monotonic()

    def note(self, tally: Tally, model: str, fold: str, result: Any) -> None:
        self.tally = tally

    def table(self) -> Table:
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        from luce.result import seen

        tally, now = self.tally, duration(time.monotonic() - self.since)
        if tally is None:
            return Table(title=f"{escape(seen(self.title))}: reading the data, {now}", title_justify="left")
        left = tally.seconds_left()
        ending = "" if left is None else f", about {duration(left)} left"
        title = f"{escape(seen(self.title))}: {tally.total - tally.left} of {tally.total} fits, {now}{ending}"
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        for name in ("model", "fold", "fits", f"best {tally.metric} so far", "time left"):
            table.add_column(name, justify="left" if name in ("model", "fold") else "right")
        for name, row in tally.models.items():
            best = "" if row.best is None else f"{row.best:.4f}"
            left = tally.seconds_left(name)
            ending = "done" if row.left == 0 else "" if left is None else duration(left)
            if row.failed:
                ending += f" ({row.failed} failed: {_short(row.error)})"
            cells = (name, row.fold, f"{row.total - row.left}/{row.total}", best, ending)
            table.add_row(*(escape(seen(cell)) for cell in cells))
        return table


class _Lines:
    """A line when a model has ended on a fold, or failed."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.failed: set[tuple[str, str, str]] = set()

    def note(self, tally: Tally, model: str, fold: str, result: Any) -> None:
        from luce.experiments.comparison import Outcome
        from luce.experiments.search import Attempt
        from luce.experiments.work import Failed

        if isinstance(result, Attempt):
            if not result.error:
                what = f"{tally.metric} {result.validation:.4f} on validation"
                self.report.say(f"{model}: setting {result.number}, {what}, {setting_text(result.settings)}")
        elif isinstance(result, Failed):
            if (fold, model, result.error) not in self.failed:  # once, not for every setting
                self.report.say(f"{fold}: {model} failed: {result.error}")
            self.failed.add((fold, model, result.error))
        elif isinstance(result, Outcome):
            left = tally.seconds_left()
            ending = "" if not left else f"; about {duration(left)} left"
            chosen = setting_text(result.chosen)
            what = f"{tally.metric} {result.validation:.4f} on validation with {chosen}"
            self.report.say(f"{fold}: {model}, {what}{ending}")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def setting_text(settings: dict[str, Any]) -> str:
    """Settings as a person would say them.

    >>> setting_text({"l2": 0.1, "scorer__num_leaves": 10})
    'l2=0.1, num_leaves=10'
    >>> setting_text({})
    'the model as it is'
    """
    named = (f"{place.rpartition('__')[2]}={value}" for place, value in settings.items())
    return ", ".join(named) or "the model as it is"


@dataclass(frozen=True)
class Running:
    """Where results go, the conventions of the metrics, how many fits run at a time, and the seed."""

    out: Path | None = flag(None, "Folder for the results; the same call again goes on there.", "--out", "-o")
    preset: str | None = flag(None, "Conventions of another tool, such as letor4.")
    convention: ConventionOption = None
    jobs: int | None = flag(None, "Fits at a time, each in a process of its own; default: as many as pay.", min=1)
    seed: SeedOption = 0

    def conventions(self) -> dict[str, Any]:
        """As they were given; a folder that cannot be written is refused with them, before any work."""
        from luce.storage import make_folder

        found = {**({"preset": self.preset} if self.preset else {}), **settings_from(self.convention)}
        if self.out is not None:
            make_folder(self.out)
        return found

    @contextmanager
    def watched(self, report: Report, title: str) -> Iterator[Watch | None]:
        """Show how far the work is; who presses Ctrl-C is told how to go on."""
        try:
            with watching(report, title) as watch:
                yield watch
        except KeyboardInterrupt:
            report.say(
                "Interrupted. Nothing was kept: with --out FOLDER, the same command goes on from where it was."
                if self.out is None
                else f"Interrupted. What was finished is kept in {self.out / 'state'}: the same command goes on from "
                "there."
            )
            raise typer.Exit(INTERRUPTED) from None


def tell_folds(report: Report, found: Sequence[Fold]) -> None:
    """What is to be known of the data of an experiment."""
    for note in sorted({fold.note for fold in found if fold.note}):
        report.say(f"Note: {note}.")
    say_columns(report, found[0].load)
