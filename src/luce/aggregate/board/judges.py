"""Judges: how well each agrees with the board of the others, and who is odd."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from luce.aggregate.board.battles import Battles, read_battles
from luce.aggregate.board.options import Columns, Inference, Treatment, check_together, sort_options
from luce.aggregate.board.outcomes import TIE
from luce.aggregate.board.result import Board
from luce.data.table import Table
from luce.errors import SettingError
from luce.types import FloatArray


class Judge(NamedTuple):
    """One judge."""

    name: str
    battles: int
    agreement: float
    """Share of decided battles in which the judge chose the stronger side."""
    surprise: float
    """Mean of -log P of the judge's outcomes, less what the model expects of them, in standard errors."""
    odd: bool
    """The surprise is beyond what any of that many judges should reach."""


def judge_agreement(board: Board, data: Any, *, level: float = 0.95, **options: Any) -> list[Judge]:
    """Compare every judge (column `group`) with a board that was fitted to the same battles, the most surprising first.

    A judge whose outcomes are improbable beyond the level, corrected for the number of judges (Bonferroni), is odd: one
    who answers at random, or has the sides mixed up.
    """
    columns, treatment = sort_options("leaderboard", options, Columns, Treatment)
    Inference(level=level)  # refuses what is no level
    check_together(columns, treatment)
    if columns.group is None:
        raise SettingError("Judges need the column of the judge; give group.")
    for name in ("weight", "count", "time", "by"):
        if getattr(columns, name) is not None:
            raise SettingError(f"{name} does nothing for the agreement of judges; leave it out.")
    if board.model.link is None:
        raise SettingError(f"The model {board.model.name!r} has no probabilities of battles; use 'davidson' instead.")
    source = Table.open(data)
    battles = read_battles(source, columns, treatment)
    names = battles.group_names
    assert battles.group is not None
    if battles.share is not None or treatment.strong != 1.0 or np.any(battles.a == battles.b):
        raise SettingError(
            "The agreement of judges needs battles of two sides that were won or tied, all counting alike; leave parts "
            "of wins, strong and self_battles='tie' out."
        )
    d = _predictor(board, battles)
    if board.treatment != "model" and np.any(battles.outcome == TIE):
        raise SettingError("The board gives draws no probability; fit it with draws='model', or leave draws out.")
    win, draw = board.outcomes(d)
    chances = np.column_stack([win, board.outcomes(-d)[0], draw])
    logs = -np.log(np.maximum(chances, 1e-12))
    expected = np.sum(chances * logs, axis=1)
    variance = np.sum(chances * logs**2, axis=1) - expected**2
    excess = logs[np.arange(len(d)), battles.outcome] - expected
    size = np.bincount(battles.group)
    total = np.bincount(battles.group, excess)
    spread = np.sqrt(np.maximum(np.bincount(battles.group, variance), 1e-12))
    decided = battles.outcome < TIE
    right = np.where(battles.outcome == 0, d > 0, d < 0)[decided]
    agreed = np.bincount(battles.group[decided], right, len(size)) / np.maximum(
        np.bincount(battles.group[decided], minlength=len(size)), 1
    )
    limit = float(ndtri(1.0 - (1.0 - level) / max(len(size), 1)))
    surprise = (total / spread).tolist()
    rows = [
        Judge(str(names[g]), int(size[g]), float(agreed[g]), surprise[g], surprise[g] > limit)
        for g in range(len(size))
        if size[g]
    ]
    return sorted(rows, key=lambda row: -row.surprise)


def _predictor(board: Board, battles: Battles) -> FloatArray:
    """The difference of the sides of every battle, with the side effect and covariates of the board."""
    if battles.teams is not None:
        raise SettingError(
            "Teams have no strength of their own on the board; the agreement of judges needs single items."
        )
    logits = np.array([board.logits[board.posterior.index(name)] for name in battles.names])
    d: FloatArray = logits[battles.a] - logits[battles.b]
    columns = {} if battles.side is None else {"side": battles.side}
    if battles.covariates is not None:
        columns |= dict(zip(battles.covariate_names, battles.covariates.T, strict=True))
    if set(columns) != set(board.effects):
        raise SettingError(
            f"The board has the effects {sorted(board.effects) or 'none'}, and {sorted(columns) or 'none'} were given; "
            "give side and covariates as to the board."
        )
    for name, values in columns.items():
        d = d + board.effects[name].value * values
    return d
