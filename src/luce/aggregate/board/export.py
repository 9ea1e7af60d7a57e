"""What leaves a leaderboard: tables, the win matrix, pictures; and the table of names that comes in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from luce.data.table import Table
from luce.errors import DataError, SettingError
from luce.storage import atomic_write, check_output

if TYPE_CHECKING:
    from luce.aggregate.board.result import Board
    from luce.aggregate.board.simulated_battles import SimulatedBattles
    from luce.aggregate.history.result import History
    from luce.aggregate.scores.score_board import ScoreBoard

BATTLES = (".csv", ".jsonl", ".parquet")
TABLES = (".csv", ".json", ".parquet")
PICTURES = (".png", ".svg", ".pdf")


def check(path: Path, kinds: Sequence[str]) -> None:
    """Refuse an output before the work that fills it."""
    if path.suffix.lower() not in kinds:
        raise SettingError(f"Cannot write {path}: its ending must be one of {', '.join(kinds)}.")
    check_output(path)


def read_names(path: Path) -> dict[str, str]:
    """The first two columns of a file: id, and the name to show."""
    table = Table.open(path)
    if len(table.names) < 2:
        raise DataError("A table of names needs two columns: the id in the results, and the name to show.")
    rows = table.read(table.names[:2], table.names[:2])
    return dict(zip(*(rows[name].text() for name in table.names[:2]), strict=True))


def write_table(board: Board | ScoreBoard | History, path: Path) -> None:
    """The table of a leaderboard as CSV, JSON (with everything beside it) or Parquet."""
    record = board.as_dict()
    write_rows(record["table"], record, path)


def write_rows(rows: list[dict[str, Any]], record: dict[str, Any], path: Path) -> None:
    """Rows as CSV or Parquet, or the whole record as JSON."""
    check(path, TABLES)
    with atomic_write(path) as stream:
        if path.suffix.lower() == ".parquet":
            pyarrow.parquet.write_table(pa.Table.from_pylist(rows), stream)
        elif path.suffix.lower() == ".json":
            stream.write((json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
        else:
            stream.write(_csv([list(rows[0]), *(list(row.values()) for row in rows)]))


def write_win_matrix(board: Board, path: Path, top: int | None = None) -> None:
    """P(row beats column), as a CSV with names, or as a picture."""
    check(path, (".csv", *PICTURES))
    if path.suffix.lower() != ".csv":
        board.plot_win_matrix(path, top=top)
        return
    names = board.names[:top]
    matrix = board.win_matrix()[:top, :top]
    rows = [[name, *(None if v != v else f"{v:.6f}" for v in row)] for name, row in zip(names, matrix, strict=True)]
    with atomic_write(path) as stream:
        stream.write(_csv([["name", *names], *rows]))


def write_battles(battles: SimulatedBattles, path: Path, *, lmsys: bool = False) -> None:
    """Simulated battles as CSV, JSON lines or Parquet, with the columns a, b, outcome or those of LMSYS."""
    check(path, BATTLES)
    data = battles.table
    if lmsys:
        sides = pa.compute.replace_substring_regex(data["outcome"], pattern="^([ab])$", replacement="model_\\1")
        data = pa.table({"model_a": data["a"], "model_b": data["b"], "winner": sides})
    with atomic_write(path) as stream:
        if path.suffix.lower() == ".parquet":
            pyarrow.parquet.write_table(data, stream)
        elif path.suffix.lower() == ".csv":
            pyarrow.csv.write_csv(data, stream, pyarrow.csv.WriteOptions(quoting_style="needed"))
        else:
            stream.write("".join(json.dumps(row) + "\n" for row in data.to_pylist()).encode())


def write_truth(battles: SimulatedBattles, path: Path) -> None:
    """The strengths behind simulated battles."""
    check(path, (".csv",))
    rows = [[name, repr(float(s))] for name, s in zip(battles.names, battles.strength, strict=True)]
    with atomic_write(path) as stream:
        stream.write(_csv([["name", "strength"], *rows]))


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
