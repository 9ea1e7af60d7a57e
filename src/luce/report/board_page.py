"""A leaderboard as one page that needs nothing else: sortable, searchable, with intervals, tiers and probabilities."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from luce.aggregate import Board, CategoryBoards, History, ScoreBoard
from luce.aggregate.board.result import decimals
from luce.storage import atomic_write, check_output

_MOST = 300
"""Rows of the win matrix, and lines of history: a page stays below 5 MB."""
_POINTS = 120

AnyBoard = Board | CategoryBoards | History | ScoreBoard


def write_board_page(board: AnyBoard, path: str | Path, title: str = "Leaderboard") -> None:
    """Write the page of a board of any kind."""
    check_output(path)
    shown = board.overall if isinstance(board, CategoryBoards) else board
    page = _common(shown, title) | _more(board)
    # A name may hold "</script>", which would end the data.
    text = json.dumps(page, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    template = (files("luce.report") / "assets" / "board.html").read_text(encoding="utf-8")
    with atomic_write(path, "w") as stream:
        stream.write(template.replace("__DATA__", text))


def _common(board: Board | History | ScoreBoard, title: str) -> dict[str, Any]:
    record = board.as_dict()
    tier = {name: k for k, names in enumerate(record["tiers"]) for name in names}
    rows = []
    for place, row in enumerate(record["table"]):
        half = None if row["se"] is None else 1.96 * row["se"]
        ends = (
            {"lower": None, "upper": None}
            if half is None
            else {"lower": row["strength"] - half, "upper": row["strength"] + half}
        )
        rows.append(ends | row | {"place": place, "tier": tier[row["name"]]})
    games = next(key for key in ("games", "tasks") if key in record["table"][0])
    labels = (("rank", "rank"), ("name", "name"), ("strength", "strength"), ("bar", "interval"))
    more = (("rank_lower", "ranks"), ("se", "error"), (games, games))
    roomy = ("bar", "se", games)
    return {
        "title": title,
        "lead": f"{len(rows)} items, {record['model']}, intervals and rank sets at {board.level:.0%}; "
        f"{len(board.may_be_best)} may be best. Bands are tiers that do not overlap.",
        "rows": rows,
        "columns": [{"key": k, "label": v, "roomy": k in roomy} for k, v in (*labels, *more)],
        "digits": decimals([row["se"] for row in rows]),
        "methods": _methods(board, record),
        "card": [*_card(record), *record["notes"]],
    }


def _methods(board: Board | History | ScoreBoard, record: dict[str, Any]) -> list[str]:
    said = [
        f"Model: {record['model']}. Strengths are differences from the mean weighted by information.",
        "Ranks: from 1 + the number surely better to n - the number surely worse, for all items at once.",
    ]
    if isinstance(board, History):
        said.append(f"Strengths are random walks with a drift of {board.drift:.3g}; the board is of {record['now']}.")
    if isinstance(board, Board):
        said.append(f"Errors: {board.errors}. Log-likelihood {board.log_likelihood:.2f}.")
    if isinstance(board, ScoreBoard):
        said.append(f"Tasks are resampled; {len(board.tasks)} tasks.")
    return said


def _card(record: dict[str, Any]) -> list[str]:
    battles = record.get("battles")
    return [f"{battles:,.0f} results."] if battles else [f"Tasks: {', '.join(record.get('tasks', []))}."]


def _more(board: AnyBoard) -> dict[str, Any]:
    """Probabilities, categories and history, for the boards that have them."""
    if isinstance(board, CategoryBoards):
        values = [[None if v != v else round(v, 3) for v in line] for line in board.matrix().tolist()]
        return _more(board.overall) | {"kinds": {"names": list(board.boards), "values": values}}
    if isinstance(board, Board) and board.model.family != "hodge":
        return {"wins": _mille(board.win_matrix()), "draws": _mille(board.draw_matrix())}
    if isinstance(board, History) and board.mode is not None:
        return {"history": [_line(board, name) for name in board.names[:_MOST]], "dates": board.dates}
    return {}


def _mille(chances: np.ndarray) -> list[list[int | None]]:
    return [[None if v != v else round(1000 * v) for v in line] for line in chances[:_MOST, :_MOST].tolist()]


def _line(board: History, name: str) -> dict[str, Any]:
    line = board.history(name)
    pick = np.unique(np.linspace(0, len(line.time) - 1, min(_POINTS, len(line.time))).astype(int))
    return {"name": name, "time": line.time[pick].round(3).tolist(), "strength": line.strength[pick].round(3).tolist()}
