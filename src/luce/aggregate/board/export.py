"""What leaves a leaderboard beside its table: the win matrix; and the table of names that comes in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from luce.data.table import Table
from luce.errors import DataError
from luce.result import check_ending, csv_text
from luce.storage import atomic_write

if TYPE_CHECKING:
    from luce.aggregate.board.result import Board


def read_names(path: Path) -> dict[str, str]:
    """The first two columns of a file: id, and the name to show."""
    table = Table.open(path)
    if len(table.names) < 2:
        raise DataError("A table of names needs two columns: the id in the results, and the name to show.")
    rows = table.read(table.names[:2], table.names[:2])
    return dict(zip(*(rows[name].text() for name in table.names[:2]), strict=True))


def write_win_matrix(board: Board, path: Path, top: int | None = None) -> None:
    """P(row beats column), as a CSV with names, or as a picture."""
    check_ending(path, (".csv", ".png", ".svg", ".pdf"))
    if path.suffix.lower() != ".csv":
        board.plot_win_matrix(path, top=top)
        return
    names = board.names[:top]
    matrix = board.win_matrix()[:top, :top]
    rows = [[name, *(None if v != v else f"{v:.6f}" for v in row)] for name, row in zip(names, matrix, strict=True)]
    with atomic_write(path, "w") as stream:
        stream.write(csv_text([["name", *names], *rows]))
