"""A picture of examination: how attention falls from the top, with its error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from luce.display import check_picture, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from luce.clicks.examination import Examination

__all__ = ["plot_examination"]


def plot_examination(examined: Examination, path: str | Path | None = None) -> Figure:
    """Examination by position on two logarithmic axes, with 95% bands; one line for each last click above."""
    check_picture(path)
    figure = new_figure(6.0, 4.0)
    axis = figure.subplots()
    low, high = examined.interval()
    for last in sorted(set(examined.after.tolist())):
        at = examined.after == last
        name = "no click above" if last == 0 else f"last click at {last}"
        axis.fill_between(examined.position[at], low[at], high[at], alpha=0.25, lw=0)
        axis.plot(examined.position[at], examined.theta[at], "o-", ms=3, lw=1.2, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = examined.position[examined.after == 0]
    axis.set_xticks(ticks, [str(k) for k in ticks], fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel("position", fontsize=9)
    axis.set_ylabel("examination, first position 1 (95% bands)", fontsize=9)
    axis.set_title(f"{examined.method} choice, {examined.counts.clicked.sum():,.0f} clicks", fontsize=9)
    if examined.after.any():
        axis.legend(fontsize=7)
    axis.grid(lw=0.4)
    return finished(figure, path)
