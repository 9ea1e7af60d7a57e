"""The options of `luce leaderboard`, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from luce.errors import SettingError


@dataclass(frozen=True)
class Columns:
    """How results are read from the file: names of its columns, and what draws and teams are."""

    a: Annotated[str | None, typer.Option(help="Column of the first side.")] = None
    b: Annotated[str | None, typer.Option(help="Column of the second side.")] = None
    outcome: Annotated[str | None, typer.Option(help="Column of the outcome.")] = None
    race: Annotated[str | None, typer.Option(help="Column of the race.")] = None
    competitor: Annotated[str | None, typer.Option(help="Column of the competitor.")] = None
    place: Annotated[str | None, typer.Option(help="Column of the place, 1 best.")] = None
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None
    count: Annotated[str | None, typer.Option(help="Column: battles that a row stands for.")] = None
    group: Annotated[
        str | None,
        typer.Option(help="Column of the judge; errors and bootstrap go by judge."),
    ] = None
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="A covariate: its column, a minus b, or name=column of a,column of b."),
    ] = None
    side: Annotated[bool, typer.Option("--side", help="Estimate the advantage of being a.")] = False
    neutral: Annotated[str | None, typer.Option(help="Column: true on neutral ground.")] = None
    teams: Annotated[str | None, typer.Option(help="Sides are teams, with this separator.")] = None
    time: Annotated[str | None, typer.Option(help="Column of the time: strengths then move.")] = None
    by: Annotated[str | None, typer.Option(help="Column of a category: one board each.")] = None
    id: Annotated[str | None, typer.Option(help="Column that tells battles apart, for --save and --update.")] = None
    both_bad: Annotated[str, typer.Option(help="What 'tie (bothbad)' is: tie or drop.")] = "tie"
    draws: Annotated[str | None, typer.Option(help="model, half or drop.")] = None
    names: Annotated[Path | None, typer.Option(help="Table of two columns: id, name to show.")] = None

    def settings(self) -> dict[str, Any]:
        """As `luce.leaderboard` takes them."""
        from luce.aggregate.board.export import read_names

        settings = dict(vars(self))
        settings["covariates"] = _covariates(settings.pop("covariate") or ())
        settings["team_separator"] = settings.pop("teams")
        settings["names"] = None if self.names is None else read_names(self.names)
        return settings


def _covariates(given: Sequence[str]) -> Any:
    """Names of columns, or a mapping where they are given as name=a,b."""
    pairs = {}
    for text in given:
        name, sign, columns = text.partition("=")
        parts = tuple(column.strip() for column in columns.split(","))
        if sign and len(parts) != 2:
            raise SettingError(f"--covariate was given {text!r}; it takes a column, or name=column of a,column of b.")
        pairs[name] = parts if sign else None
    if all(pair is None for pair in pairs.values()):
        return tuple(given)
    if any(pair is None for pair in pairs.values()):
        raise SettingError("Give all covariates as columns, or all as name=column of a,column of b.")
    return pairs


@dataclass(frozen=True)
class Estimation:
    """How strengths are estimated and shown."""

    prior: Annotated[
        float | None,
        typer.Option(help="Precision of a normal prior; default: only where needed."),
    ] = None
    errors: Annotated[str, typer.Option(help="sandwich or curvature.")] = "sandwich"
    bootstrap: Annotated[int, typer.Option(help="Bootstrap samples; 0 for none.")] = 0
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95
    drift: Annotated[
        float | None, typer.Option(help="With --time: standard deviation of a walk in a year; default: fitted.")
    ] = None
    pool: Annotated[bool, typer.Option(help="With --by: shrink boards of categories towards that of all.")] = True
    scale: Annotated[str, typer.Option(help="log or elo.")] = "log"
    anchor: Annotated[str | None, typer.Option(help="Item with a fixed strength.")] = None
    anchor_at: Annotated[float | None, typer.Option(help="Strength of the anchor.")] = None


@dataclass(frozen=True)
class Outputs:
    """What is printed and written."""

    against: Annotated[str | None, typer.Option(help="Print differences from this item with their errors.")] = None
    quasi: Annotated[bool, typer.Option("--quasi", help="Print quasi-variances.")] = False
    top: Annotated[int | None, typer.Option(min=1, help="Print only so many rows.")] = None
    page: Annotated[Path | None, typer.Option(help="Write a page to look at: .html")] = None
    save: Annotated[Path | None, typer.Option(help="Keep the board for updates: a .luce file.")] = None
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the table: .csv .json .parquet")] = None
    plot: Annotated[Path | None, typer.Option(help="Picture of the strengths: .png .svg .pdf")] = None
    win_matrix: Annotated[
        Path | None,
        typer.Option(help="P(row beats column): .csv, or a picture .png .svg .pdf"),
    ] = None

    def check(self) -> None:
        """Refuse files that cannot be written before any work."""
        from luce.aggregate.board import export

        pictures = export.PICTURES
        for path, kinds in (
            (self.out, export.TABLES),
            (self.save, (".luce",)),
            (self.page, (".html",)),
            (self.plot, pictures),
            (self.win_matrix, (".csv", *pictures)),
        ):
            if path is not None:
                export.check(path, kinds)
