"""`luce leaderboard`: strengths with intervals from battles with draws or races with ties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import JsonFlag, QuietFlag, Report, SeedOption, table
from luce.cli.leaderboard_options import Columns, Estimation, Outputs

if TYPE_CHECKING:
    from luce.aggregate import Board

__all__ = ["leaderboard"]


def leaderboard(
    *,
    file: Annotated[
        Path, typer.Argument(help="Battles (a, b, outcome; or LMSYS) or races; .csv .json .jsonl .parquet")
    ],
    model: Annotated[
        str,
        typer.Option(help="bradley_terry, rao_kupper, davidson, thurstone_mosteller, plackett_luce, pmop or hodge."),
    ] = "davidson",
    columns: Columns,
    estimation: Estimation,
    outputs: Outputs,
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Strengths, intervals and ranks from battles with draws (or races with ties)."""
    from luce.aggregate.board.fit import leaderboard as fit

    report = Report(as_json=as_json, quiet=quiet)
    outputs.check()
    with report.progress("bootstrap") as progress:
        board = fit(
            file,
            model,
            **columns.settings(),
            **vars(estimation),
            random_state=seed,
            progress=progress if estimation.bootstrap else None,
        )
    _write(board, outputs)
    _show(report, board, outputs)
    for note in board.notes:
        report.say(f"Note: {note}")


def _machine(board: Board, outputs: Outputs) -> dict[str, Any]:
    """The board for machines, with what the options ask for beside it."""
    machine = board.as_dict()
    if outputs.against is not None:
        machine["differences"] = board.differences(outputs.against)
    if outputs.quasi:
        quasi = board.quasi_variances
        machine["quasi_variances"] = None if quasi is None else dict(zip(board.names, quasi.values, strict=True))
        machine["quasi_worst"] = None if quasi is None else quasi.worst
    return machine


def _show_more(report: Report, machine: dict[str, Any], outputs: Outputs) -> None:
    """Differences and quasi-variances, for a person."""
    if outputs.against is not None:
        rows = [[_cell(cell) for cell in row.values()] for row in machine["differences"][: outputs.top]]
        report.result(table(f"less {outputs.against}", ["name", "difference", "se", "lower", "upper"], rows), {})
    if outputs.quasi and machine["quasi_variances"] is None:
        report.say("No quasi-variances: there are too few items, several components, or no positive solution.")
    elif outputs.quasi:
        title = f"quasi-variances; errors of differences are right to {machine['quasi_worst']:.1%}"
        rows = [[name, float(q)] for name, q in machine["quasi_variances"].items()]
        report.result(table(title, ["name", "quasi-variance"], rows[: outputs.top]), {})


def _write(board: Board, outputs: Outputs) -> None:
    from luce.aggregate.board import export

    if outputs.out is not None:
        export.write_table(board, outputs.out)
    if outputs.plot is not None:
        board.plot(outputs.plot, top=outputs.top)
    if outputs.win_matrix is not None:
        export.write_win_matrix(board, outputs.win_matrix, outputs.top)


def _show(report: Report, board: Board, outputs: Outputs) -> None:
    from luce.aggregate.board.result import COLUMNS

    machine, top = _machine(board, outputs), outputs.top
    header, rows = list(COLUMNS), [list(row.values()) for row in machine["table"]]
    if len(machine["components"]) > 1:
        header, rows = ["component", *header], [[int(c) + 1, *r] for c, r in zip(board.component, rows, strict=True)]
    shown = rows[:top]
    report.result(table(_title(board), header, [[_cell(cell) for cell in row] for row in shown]), machine)
    if not report.as_json:
        _show_more(report, machine, outputs)
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
