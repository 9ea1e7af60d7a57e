"""`luce leaderboard --scores`: ranks from a table of models x tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luce.cli.common import Report, table
from luce.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from luce.aggregate import ScoreBoard


@dataclass(frozen=True)
class Scores:
    """How a table of scores is read."""

    scores: Annotated[bool, typer.Option("--scores", help="The file holds scores of models on tasks.")] = False
    item: Annotated[str | None, typer.Option(help="Scores: column of the model.")] = None
    task: Annotated[str | None, typer.Option(help="Scores: column of the task, in a long table.")] = None
    score: Annotated[str | None, typer.Option(help="Scores: column of the score, in a long table.")] = None
    score_se: Annotated[str | None, typer.Option(help="Scores: column of a score's standard error.")] = None
    where: Annotated[list[str] | None, typer.Option(help="Scores: keep rows with column=value.")] = None
    drop: Annotated[list[str] | None, typer.Option(help="Scores: leave this task or column out.")] = None
    lower: Annotated[list[str] | None, typer.Option(help="Scores: a task where lower is better.")] = None
    tolerance: Annotated[float, typer.Option(help="Scores: differences up to this are ties.")] = 0.0
    task_weight: Annotated[list[str] | None, typer.Option(help="Scores: task=weight; may be repeated.")] = None
    resamples: Annotated[int, typer.Option(help="Scores: resamples of the tasks.")] = 1000

    def settings(self) -> dict[str, Any]:
        """As `luce.aggregate.score_board` takes them."""
        weights = {key: _number(value) for key, value in _pairs("--task-weight", self.task_weight)}
        return {
            "name": self.item,
            "task": self.task,
            "score": self.score,
            "score_se": self.score_se,
            "where": dict(_pairs("--where", self.where)),
            "drop": tuple(self.drop or ()),
            "lower": tuple(self.lower or ()),
            "tolerance": self.tolerance,
            "task_weights": weights,
            "resamples": self.resamples,
        }


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    pairs = [tuple(text.split("=", 1)) for text in given or ()]
    for text, pair in zip(given or (), pairs, strict=True):
        if len(pair) != 2:
            raise SettingError(f"{option} was given {text!r}; it takes name=value.")
    return pairs  # type: ignore[return-value]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"--task-weight was given {text!r} as a weight; it must be a number.") from None


def run_scores(file: Path, model: str | None, scores: Scores, level: float, seed: int) -> ScoreBoard:
    """Fit the board."""
    from luce.aggregate.scores.score_board import score_board

    return score_board(file, model or "plackett_luce", level=level, random_state=seed, **scores.settings())


def show_scores(report: Report, board: ScoreBoard, top: int | None) -> None:
    """The table of a score board, its tiers, and which tasks move it."""
    from luce.aggregate.board.result import decimals
    from luce.aggregate.scores.score_board import COLUMNS

    machine = board.as_dict()
    rows = [["-" if cell is None else cell for cell in row.values()] for row in machine["table"][:top]]
    title = f"{board.model}, {len(board.tasks)} tasks, rank sets at {board.level:.0%} for all models at once"
    places = decimals([row["se"] for row in machine["table"]])
    report.result(table(title, list(COLUMNS), rows, places), machine)
    best = board.may_be_best
    report.say(f"May be best: {', '.join(best[:10])}{f' and {len(best) - 10} more' if len(best) > 10 else ''}")
    report.say(f"Tiers that do not overlap: {', '.join(str(len(tier)) for tier in board.tiers)} models")
    for row in board.influence[:3]:
        shift = f"{row.shift:.1f} standard errors" if math.isfinite(row.shift) else "an unknown amount"
        report.say(f"Without {row.task}: {row.moved} ranks change, a strength by up to {shift}; first is {row.best}")
    for note in board.notes:
        report.say(f"Note: {note}")
