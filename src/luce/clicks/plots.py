"""A picture of a log: how click rates and examination fall from the top, with their error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from luce.errors import MissingExtraError, SettingError
from luce.storage import atomic_write, check_output

if TYPE_CHECKING:
    from luce.clicks.examination import Examination

__all__ = ["plot_examination"]

_FORMATS = ("png", "svg", "pdf")


def plot_examination(examined: Examination, path: str | Path) -> None:
    """Click rates and examination by position on two logarithmic axes, with 95% bands; a line for each last click."""
    out = Path(path)
    kind = out.suffix.lower().lstrip(".")
    if kind not in _FORMATS:
        raise SettingError(f"A picture is written as {', '.join(_FORMATS)}; the path given is {out.name!r}.")
    check_output(out)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("A picture", "plot") from error
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
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
    with atomic_write(out) as stream:
        metadata = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
