"""`luce leaderboard`: strengths with intervals from battles with draws or races with ties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, table
from luce.errors import SettingError

if TYPE_CHECKING:
    from luce.aggregate import Board

__all__ = ["leaderboard"]


def leaderboard(
    file: Annotated[
        Path, typer.Argument(help="Battles (a, b, outcome; or LMSYS) or races; .csv .json .jsonl .parquet")
    ],
    model: Annotated[
        str,
        typer.Option(help="bradley_terry, rao_kupper, davidson, thurstone_mosteller, plackett_luce, pmop or hodge."),
    ] = "davidson",
    a: Annotated[str | None, typer.Option(help="Column of the first side.")] = None,
    b: Annotated[str | None, typer.Option(help="Column of the second side.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Column of the outcome.")] = None,
    race: Annotated[str | None, typer.Option(help="Column of the race.")] = None,
    competitor: Annotated[str | None, typer.Option(help="Column of the competitor.")] = None,
    place: Annotated[str | None, typer.Option(help="Column of the place, 1 best.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights.")] = None,
    count: Annotated[str | None, typer.Option(help="Column: battles that a row stands for.")] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column of the judge; errors and bootstrap go by judge."),
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="Column of a covariate, a minus b; may be repeated."),
    ] = None,
    side: Annotated[bool, typer.Option("--side", help="Estimate the advantage of being a.")] = False,
    neutral: Annotated[str | None, typer.Option(help="Column: true on neutral ground.")] = None,
    teams: Annotated[str | None, typer.Option(help="Sides are teams, with this separator.")] = None,
    both_bad: Annotated[str, typer.Option(help="What 'tie (bothbad)' is: tie or drop.")] = "tie",
    draws: Annotated[str | None, typer.Option(help="model, half or drop.")] = None,
    names: Annotated[Path | None, typer.Option(help="Table of two columns: id, name to show.")] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="Precision of a normal prior; default: only where needed."),
    ] = None,
    errors: Annotated[str, typer.Option(help="sandwich or curvature.")] = "sandwich",
    bootstrap: Annotated[int, typer.Option(help="Bootstrap samples; 0 for none.")] = 0,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    scale: Annotated[str, typer.Option(help="log or elo.")] = "log",
    anchor: Annotated[str | None, typer.Option(help="Item with a fixed strength.")] = None,
    anchor_at: Annotated[float | None, typer.Option(help="Strength of the anchor.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Print only so many rows.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table: .csv .json .parquet")] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the strengths: .png .svg .pdf")] = None,
    win_matrix: Annotated[
        Path | None,
        typer.Option(help="P(row beats column): .csv, or a picture .png .svg .pdf"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of bootstrap and rank intervals.")] = 0,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Strengths, intervals and ranks from battles with draws (or races with ties)."""
    from luce.aggregate.board import export
    from luce.aggregate.board.fit import leaderboard as fit

    report = Report(as_json=as_json, quiet=quiet)
    for path, kinds in ((out, export.TABLES), (plot, export.PICTURES), (win_matrix, (".csv", *export.PICTURES))):
        if path is not None:
            export.check(path, kinds)
    if top is not None and top < 1:
        raise SettingError(f"top is {top}; it must be at least 1.")
    with report.progress("bootstrap") as progress:
        board = fit(
            file,
            model,
            a=a,
            b=b,
            outcome=outcome,
            race=race,
            competitor=competitor,
            place=place,
            weight=weight,
            count=count,
            group=group,
            side=side,
            neutral=neutral,
            covariates=covariate or (),
            team_separator=teams,
            both_bad=both_bad,  # type: ignore[arg-type]
            draws=draws,
            names=None if names is None else export.read_names(names),
            prior=prior,
            errors=errors,  # type: ignore[arg-type]
            bootstrap=bootstrap,
            level=level,
            scale=scale,  # type: ignore[arg-type]
            anchor=anchor,
            anchor_at=anchor_at,
            random_state=seed,
            progress=progress if bootstrap else None,
        )
    if out is not None:
        export.write_table(board, out)
    if plot is not None:
        board.plot(plot, top=top)
    if win_matrix is not None:
        export.write_win_matrix(board, win_matrix, top)
    _show(report, board, top)
    for note in board.notes:
        report.say(f"Note: {note}")


def _show(report: Report, board: Board, top: int | None) -> None:
    from luce.aggregate.board.result import COLUMNS

    machine = board.as_dict()
    header, rows = list(COLUMNS), [list(row.values()) for row in machine["table"]]
    if len(machine["components"]) > 1:
        header, rows = ["component", *header], [[int(c) + 1, *r] for c, r in zip(board.component, rows, strict=True)]
    shown = rows[:top]
    report.result(table(_title(board), header, [[_cell(cell) for cell in row] for row in shown]), machine)
    beside = dict(board.effects) | ({} if board.tie is None else {machine["tie"]["name"]: board.tie})
    for name, effect in beside.items():
        report.say(f"{name} {effect.value:.4f} (se {effect.se:.4f}, {effect.lower:.4f} to {effect.upper:.4f})")
    if board.hodge is not None:
        report.say(
            f"Explained by the strengths: {board.hodge.gradient:.1%}; cyclic: {board.hodge.cyclic:.1%}"
            + ("" if board.hodge.curl is None else f" (three-cycles {board.hodge.curl:.1%})")
        )
    if top is not None and top < len(rows):
        report.say(f"{len(rows) - top} more items are not shown.")


def _title(board: Board) -> str:
    likelihood = "" if board.model.family == "hodge" else f", log-likelihood {board.log_likelihood:.4f}"
    return (
        f"{board.model.name}, {board.n_battles:,.0f} results{likelihood}, {board.level:.0%} intervals ({board.errors})"
    )


def _cell(value: Any) -> Any:
    return "-" if value is None else value
