"""How an experiment runs and is judged: the options that `compare` and `tune` share, and what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import ConventionOption, Report, SeedOption, settings_from
from luce.cli.data_options import say_columns
from luce.cli.interruption import INTERRUPTED
from luce.cli.options import flag
from luce.cli.watching import watching

if TYPE_CHECKING:
    from luce.experiments.folds import Fold
    from luce.experiments.progress import Watch


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
