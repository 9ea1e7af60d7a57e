"""A live table of a long experiment; plain lines where nobody looks at a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from luce.cli.common import Report
from luce.display import duration

if TYPE_CHECKING:
    from rich.table import Table

    from luce.experiments.progress import Tally, Watch


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
        from rich.table import Table

        tally, now = self.tally, duration(time.monotonic() - self.since)
        if tally is None:
            return Table(title=f"{self.title}: reading the data, {now}", title_justify="left")
        left = tally.seconds_left()
        ending = "" if left is None else f", about {duration(left)} left"
        title = f"{self.title}: {tally.total - tally.left} of {tally.total} fits, {now}{ending}"
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        for name in ("model", "fold", "fits", f"best {tally.metric} so far", "time left"):
            table.add_column(name, justify="left" if name in ("model", "fold") else "right")
        for name, row in tally.models.items():
            best = "" if row.best is None else f"{row.best:.4f}"
            left = tally.seconds_left(name)
            ending = "done" if row.left == 0 else "" if left is None else duration(left)
            if row.failed:
                ending += f" ({row.failed} failed: {_short(row.error)})"
            table.add_row(name, row.fold, f"{row.total - row.left}/{row.total}", best, ending)
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
