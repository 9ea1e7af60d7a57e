"""How `luce leaderboard` shows boards that move in time and boards of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luce.cli.common import Report, table

if TYPE_CHECKING:
    from luce.aggregate import CategoryBoards, History
    from luce.cli.leaderboard_options import Outputs


def show_history(report: Report, board: History, outputs: Outputs) -> None:
    """The board of now, and how fast strengths move."""
    from luce.aggregate.board import export
    from luce.aggregate.board.result import decimals

    machine = board.as_dict()
    if outputs.out is not None:
        export.write_table(board, outputs.out)
    rows = [list(row.values()) for row in machine["table"][: outputs.top]]
    title = f"{board.model.name}, {machine['battles']:,.0f} results up to {machine['now']}, {board.level:.0%} intervals"
    places = decimals([row["se"] for row in machine["table"]])
    report.result(table(title, list(machine["table"][0]), rows, places), machine)
    unit = "a year" if board.dates else "a unit of time"
    said = f"drift {board.drift:.4g} {unit}, newcomers {board.start:.4g}, tie parameter {board.tie:.4f}"
    report.say(f"{said}{f', side {board.side:.4f}' if board.side else ''}")


def show_categories(report: Report, board: CategoryBoards, outputs: Outputs) -> None:
    """Ranks in every category beside the rank over all."""
    from luce.aggregate.board import export

    machine = board.as_dict()
    if outputs.out is not None:
        export.write_rows(_rows(board), machine, outputs.out)
    if outputs.plot is not None:
        board.plot(outputs.plot, top=outputs.top)
    ranks = {c: dict(zip(b.names, b.rank.tolist(), strict=True)) for c, b in board.boards.items()}
    overall = board.overall
    rows = [
        [name, int(overall.rank[i]), *(ranks[c].get(name, "-") for c in ranks)]
        for i, name in enumerate(overall.names[: outputs.top])
    ]
    report.result(table(f"ranks by {board.by}", ["name", "all", *ranks], rows), machine)


def _rows(board: CategoryBoards) -> list[dict[str, Any]]:
    return [{board.by: category, **row} for category, one in board.boards.items() for row in one.as_dict()["table"]]
