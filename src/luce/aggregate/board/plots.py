"""Pictures of a leaderboard: strengths with intervals, win probabilities, and strengths by category."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.data.text_files import write_csv
from luce.display import check_picture, finished, new_figure
from luce.result import check_ending
from luce.types import FloatArray

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
        ranks = [f"{board.rank[i]}: {board.rank_lower[i]}-{board.rank_upper[i]}" for i in rows]
        axis.set_yticks(y, [f"{board.names[i]}  ({rank})" for i, rank in zip(rows, ranks, strict=True)], fontsize=8)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.grid(axis="x", lw=0.4)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(f"strength, {board.level:.0%} intervals (rank and its interval in brackets)", fontsize=8)
    axes[0].set_title(f"{board.model.name}, {board.n_battles:,.0f} results", fontsize=9)
    return finished(figure, path)


def heat_map(
    shown: FloatArray, cells: Any, rows: Sequence[str], columns: Sequence[str], reach: tuple[float, float]
) -> tuple[Figure, Any]:
    """Numbers as colours between two ends, with texts in the cells where given; and the axes, with a bar beside it."""
    figure = new_figure(2.6 + 0.45 * len(columns), 1.8 + 0.3 * len(rows))
    axis = figure.subplots()
    image = axis.imshow(shown, cmap="RdBu", vmin=reach[0], vmax=reach[1], aspect="auto")
    axis.set_xticks(np.arange(len(columns)), columns, rotation=45, ha="right", fontsize=7)
    axis.set_yticks(np.arange(len(rows)), rows, fontsize=7)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    middle, strong = 0.5 * (reach[0] + reach[1]), 0.3 * (reach[1] - reach[0])
    for i, j in np.argwhere(np.isfinite(shown)) if cells is not None else ():
        colour = "white" if abs(shown[i, j] - middle) > strong else "black"
        axis.text(j, i, cells[i, j], ha="center", va="center", fontsize=6, color=colour)
    return figure, figure.colorbar(image, ax=axis, shrink=0.7)


def in_per_cent(shares: FloatArray) -> NDArray[Any]:
    """Shares as texts."""
    return np.array([[f"{100 * share:.0f}" for share in row] for row in shares], dtype=object)


def plot_win_matrix(board: Board, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """P(row beats column) as a heat map; cells carry numbers up to 20 items."""
    check_picture(path)
    matrix = board.win_matrix()[:top, :top]
    names = board.names[: len(matrix)]
    figure, bar = heat_map(matrix, in_per_cent(matrix) if len(names) <= 20 else None, names, names, (0.0, 1.0))
    bar.set_label("P(row beats column)", fontsize=8)
    figure.axes[0].set_title(board.model.name, fontsize=9)
    return finished(figure, path)


def write_win_matrix(board: Board, path: Path, top: int | None = None) -> None:
    """P(row beats column), as a CSV with names, or as a picture."""
    check_ending(path, (".csv", ".png", ".svg", ".pdf"))
    if path.suffix.lower() != ".csv":
        plot_win_matrix(board, path, top=top)
        return
    names = board.names[:top]
    matrix = board.win_matrix()[:top, :top]
    rows = [[name, *(None if v != v else f"{v:.6f}" for v in row)] for name, row in zip(names, matrix, strict=True)]
    write_csv(path, ["name", *names], rows)


def plot_categories(boards: CategoryBoards, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """Strengths by category as a heat map: the number is the strength, the colour how it differs from that over all."""
    from luce.aggregate.board.result import decimals

    check_picture(path)
    overall, matrix = boards.overall, boards.matrix()[:top]
    first = overall.strength[: len(matrix), None]
    gap = np.hstack([np.zeros_like(first), matrix - first])
    reach, places = float(np.nanmax(np.abs(gap), initial=0.0)) or 1.0, decimals(overall.se.tolist())
    cells = np.array([[f"{value:.{places}f}" for value in row] for row in np.hstack([first, matrix])], dtype=object)
    columns = ["all", *boards.boards]
    shown = cells if gap.size <= 1200 else None
    figure, bar = heat_map(gap, shown, overall.names[: len(matrix)], columns, (-reach, reach))
    bar.set_label("less the strength over all", fontsize=8)
    figure.axes[0].set_title(f"{overall.model.name}, strengths by {boards.by}", fontsize=9)
    return finished(figure, path)
