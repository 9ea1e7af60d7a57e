"""Pictures of a profile, of rules and of boards; they need the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from luce.aggregate.ballots import Ballots
from luce.aggregate.positional import support
from luce.aggregate.result import Consensus
from luce.data.text_files import write_csv
from luce.display import check_picture, finished, new_figure
from luce.errors import SettingError
from luce.result import check_ending
from luce.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from luce.aggregate.board.categories import CategoryBoards
    from luce.aggregate.board.result import Board

_INK = "#333333"
_ACCENT = "#1f5fa8"
_AGAINST = "#c0504d"


def _short(name: str, length: int = 18) -> str:
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def majority_graph(ballots: Ballots, answer: Consensus | None = None, *, unranked: str = "last") -> Figure:
    """An arrow from each item to those that a majority puts below it; width and shade grow with the majority.

    Items stand on a circle in the order of the consensus, clockwise from the top; majorities against that order are
    red.
    """
    shares = support(ballots, unranked)
    order = _order(ballots, answer)
    n = len(order)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    place = np.empty((n, 2))
    place[order] = np.column_stack([np.cos(angle), np.sin(angle)])
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    figure = new_figure(7.6, 5.6)
    axes: Any = figure.subplots()
    for x in range(n):
        for y in range(n):
            lead = shares[x, y] - 0.5
            if lead > 1e-12:
                style = {"arrowstyle": "-|>", "color": _ACCENT if rank[x] < rank[y] else _AGAINST}
                style |= {"alpha": 0.25 + 0.75 * min(1.0, 2 * lead), "linewidth": 0.6 + 4.0 * lead}
                axes.annotate("", place[y], place[x], arrowprops={**style, "shrinkA": 8, "shrinkB": 8})
    for i, name in enumerate(ballots.items):
        axes.scatter(*place[i], s=130, color="white", edgecolor=_INK, zorder=3)
        axes.annotate(str(rank[i] + 1), place[i], ha="center", va="center", fontsize=8, color=_INK, zorder=4)
        side = "left" if place[i, 0] > 0.05 else "right" if place[i, 0] < -0.05 else "center"
        axes.text(*(1.13 * place[i]), _short(name), ha=side, va="center", fontsize=9, color=_INK)
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.25, 1.25), aspect="equal")
    axes.set_axis_off()
    title = "Majorities" + (f"; order of {answer.rule}, red: overruled" if answer else "")
    axes.set_title(title, fontsize=11, color=_INK)
    return figure


def margin_heat_map(ballots: Ballots, answer: Consensus | None = None, *, unranked: str = "last") -> Figure:
    """P(row before column) for all pairs, rows and columns in the order of the consensus."""
    order = _order(ballots, answer)
    grid = support(ballots, unranked)[np.ix_(order, order)]
    np.fill_diagonal(grid, np.nan)
    names = [_short(ballots.items[i]) for i in order]
    figure, bar = heat_map(grid, in_per_cent(grid) if len(names) <= 15 else None, names, names, (0.0, 1.0))
    bar.set_label("share that puts the row before the column")
    title = "Pairwise shares, in per cent" + (f"; order of {answer.rule}" if answer else "")
    figure.axes[0].set_title(title, fontsize=11, color=_INK)
    return figure


def _order(ballots: Ballots, answer: Consensus | None) -> list[int]:
    """The items in the order of an answer, or as they stand."""
    return [ballots.items.index(name) for name in answer.order] if answer else list(range(ballots.n_items))


def bump_chart(answers: Sequence[Consensus]) -> Figure:
    """The rank of every item under several rules; tied items share the mean of their ranks."""
    if not answers:
        raise SettingError("A bump chart needs at least one consensus.")
    names = answers[0].order
    if any(set(answer.order) != set(names) for answer in answers):
        raise SettingError("A bump chart compares answers over the same items.")
    figure = new_figure(2.6 + 1.25 * len(answers), 1.2 + 0.42 * len(names))
    axes: Any = figure.subplots()
    import matplotlib

    colours = matplotlib.colormaps["tab10" if len(names) <= 10 else "tab20"]
    places = []
    for ranks, tiers in ((answer.ranks, answer.tiers) for answer in answers):
        places.append({name: ranks[name] + (len(tier) - 1) / 2 for tier in tiers for name in tier})
    drop = _spread(places)
    for k, name in enumerate(names):
        ys = [place[name] + shift[name] for place, shift in zip(places, drop, strict=True)]
        axes.plot(range(len(answers)), ys, "-o", color=colours(k % colours.N), linewidth=2, markersize=6, label=name)
        axes.text(-0.12, ys[0], _short(name), ha="right", va="center", fontsize=9, color=_INK)
        axes.text(len(answers) - 0.88, ys[-1], _short(name), ha="left", va="center", fontsize=9, color=_INK)
    axes.set_xticks(range(len(answers)), [answer.rule for answer in answers], fontsize=9)
    axes.set_yticks(range(1, len(names) + 1))
    axes.invert_yaxis()
    axes.set_ylabel("rank")
    axes.set_xlim(-1.1, len(answers) + 0.1)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    return figure


def _spread(places: list[dict[str, float]]) -> list[dict[str, float]]:
    """Tied items a little apart, so that each keeps a visible line and label."""
    shifts = []
    for place in places:
        groups: dict[float, list[str]] = {}
        for name, value in place.items():
            groups.setdefault(value, []).append(name)
        shifts.append(
            {name: 0.28 * (i - (len(group) - 1) / 2) for group in groups.values() for i, name in enumerate(group)}
        )
    return shifts


def plot_board(board: Board, path: str | Path | None = None, *, top: int | None = None) -> Figure:
    """Strengths with their intervals, best on top, one panel a component; written where a path is given."""
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
    """P(row beats column) as a heat map, with numbers up to 20 items; written where a path is given."""
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
