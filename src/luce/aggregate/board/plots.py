"""Pictures of a leaderboard: strengths with intervals, win probabilities, and strengths by category."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from luce.display import check_picture, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from luce.aggregate.board.categories import CategoryBoards
    from luce.aggregate.board.result import Board


def plot_board(board: Board, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """Strengths with their intervals, best on top, one panel a component of the graph of games."""
    check_picture(path)
    shown = [np.flatnonzero(board.component == c)[:top] for c in range(int(board.component.max()) + 1)]
    shown = [rows for rows in shown if len(rows) > 1] or shown[:1]
    figure = new_figure(7.0, 1.0 + sum(0.24 * len(rows) + 0.5 for rows in shown))
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=[len(rows) + 1 for rows in shown])[:, 0]
    for axis, rows in zip(axes, shown, strict=True):
        y = np.arange(len(rows))
        # A bootstrap interval need not hold the estimate, and an error bar must not be negative.
        below = np.nan_to_num(np.maximum(board.strength[rows] - board.lower[rows], 0.0))
        above = np.nan_to_num(np.maximum(board.upper[rows] - board.strength[rows], 0.0))
        axis.errorbar(board.strength[rows], y, xerr=[below, above], fmt="o", ms=4, lw=1.2, color="#1f4e79")
        axis.set_yticks(y, [f"{board.names[i]}  ({_ranks(board, i)})" for i in rows], fontsize=8)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.grid(axis="x", lw=0.4)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(f"strength, {board.level:.0%} intervals (rank and its interval in brackets)", fontsize=8)
    axes[0].set_title(f"{board.model.name}, {board.n_battles:,.0f} results", fontsize=9)
    return finished(figure, path)


def _ranks(board: Board, i: int) -> str:
    return f"{board.rank[i]}: {board.rank_lower[i]}-{board.rank_upper[i]}"


def plot_win_matrix(board: Board, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """P(row beats column) as a heat map; cells carry numbers up to 20 items."""
    check_picture(path)
    matrix = board.win_matrix()[:top, :top]
    n = len(matrix)
    side = 2.2 + 0.32 * n
    figure = new_figure(side + 0.8, side)
    axis = figure.subplots()
    image = axis.imshow(matrix, cmap="RdBu", vmin=0.0, vmax=1.0)
    axis.set_xticks(np.arange(n), board.names[:n], rotation=90, fontsize=7)
    axis.set_yticks(np.arange(n), board.names[:n], fontsize=7)
    if n <= 20:
        for i, j in np.argwhere(np.isfinite(matrix)):
            colour = "white" if abs(matrix[i, j] - 0.5) > 0.3 else "black"
            axis.text(j, i, f"{100 * matrix[i, j]:.0f}", ha="center", va="center", fontsize=6, color=colour)
    figure.colorbar(image, ax=axis, shrink=0.7).set_label("P(row beats column)", fontsize=8)
    axis.set_title(board.model.name, fontsize=9)
    return finished(figure, path)


def plot_categories(boards: CategoryBoards, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """Strengths by category as a heat map: the number is the strength, the colour how it differs from that over all."""
    from luce.aggregate.board.result import decimals

    check_picture(path)
    overall, matrix = boards.overall, boards.matrix()[:top]
    n, kinds = matrix.shape
    figure = new_figure(3.0 + 0.6 * (kinds + 1), 1.6 + 0.26 * n)
    axis = figure.subplots()
    gap = matrix - overall.strength[:n, None]
    reach = float(np.nanmax(np.abs(gap), initial=0.0)) or 1.0
    shown = np.column_stack([np.zeros(n), gap])
    image = axis.imshow(shown, cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
    axis.set_xticks(np.arange(kinds + 1), ["all", *boards.boards], rotation=45, ha="right", fontsize=7)
    axis.set_yticks(np.arange(n), overall.names[:n], fontsize=7)
    values, places = np.column_stack([overall.strength[:n], matrix]), decimals(overall.se.tolist())
    if n * (kinds + 1) <= 1200:
        for i, j in np.argwhere(np.isfinite(values)):
            colour = "white" if abs(shown[i, j]) > 0.7 * reach else "black"
            text = f"{values[i, j]:.{places}f}"
            axis.text(j, i, text, ha="center", va="center", fontsize=6, color=colour)
    figure.colorbar(image, ax=axis, shrink=0.7).set_label("less the strength over all", fontsize=8)
    axis.set_title(f"{overall.model.name}, strengths by {boards.by}", fontsize=9)
    return finished(figure, path)
