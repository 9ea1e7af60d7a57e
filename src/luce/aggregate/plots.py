"""Pictures of a profile and of rules: majority graph, margin heat map, bump chart. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.aggregate.ballots import Ballots
from luce.aggregate.board.plots import heat_map, in_per_cent
from luce.aggregate.positional import support
from luce.aggregate.result import Consensus
from luce.display import new_figure
from luce.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
                _arrow(axes, place[x], place[y], lead, _ACCENT if rank[x] < rank[y] else _AGAINST)
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


def _arrow(axes: Any, start: Any, end: Any, lead: float, colour: str) -> None:
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": colour,
            "alpha": 0.25 + 0.75 * min(1.0, 2 * lead),
            "linewidth": 0.6 + 4.0 * lead,
            "shrinkA": 8,
            "shrinkB": 8,
        },
    )


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
    places = [_mean_places(answer) for answer in answers]
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


def _mean_places(answer: Consensus) -> dict[str, float]:
    sizes = {name: len(tier) for tier in answer.tiers for name in tier}
    return {name: rank + (sizes[name] - 1) / 2 for name, rank in answer.ranks.items()}


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
