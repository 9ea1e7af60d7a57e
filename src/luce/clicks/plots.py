"""A picture of a log: how click rates and examination fall from the top, with their error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from luce.display import check_picture, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from luce.clicks.examination import Examination


def plot_examination(examined: Examination, path: str | Path | None = None) -> Figure:
    """Click rates and examination by position on two logarithmic axes, with 95% bands; a line for each last click."""
    check_picture(path)
    figure = new_figure(6.0, 4.0)
    axis = figure.subplots()
    low, high = examined.interval()
    for last in sorted(set(examined.after.tolist())):
        at = examined.after == last
        name = f"last click at {last}" if last else "no click above" if examined.after.any() else "examination"
        axis.fill_between(examined.position[at], low[at], high[at], alpha=0.25, lw=0)
        axis.plot(examined.position[at], examined.theta[at], "o-", ms=3, lw=1.2, label=name)
    of_position = examined.counts.by_position()
    shown = np.bincount(of_position.position, of_position.shown)
    rate = np.bincount(of_position.position, of_position.clicked) / np.maximum(shown, 1.0)
    here = np.flatnonzero(rate > 0)
    axis.plot(here, rate[here] / rate[here[0]], "--", lw=0.9, color="#777777", label="click rate, first 1")
    if examined.trust is not None:
        axis.plot(examined.position[:-1], examined.trust[:-1], ":", lw=1.2, color="#aa3333", label="trust")
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = examined.position[examined.after == 0]
    axis.set_xticks(ticks, [str(k) for k in ticks], fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel("position", fontsize=9)
    axis.set_ylabel("examination, first position 1 (95% bands)", fontsize=9)
    axis.set_title(f"{examined.method} choice, {examined.counts.clicked.sum():,.0f} clicks", fontsize=9)
    axis.legend(fontsize=7)
    axis.grid(lw=0.4)
    return finished(figure, path)
