"""Pictures of tracks and arrivals; every function returns a matplotlib Figure, and nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from luce.display import new_figure
from luce.track.geometry import WGS84, Geometry
from luce.track.signals import Signals, Sources
from luce.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from luce.track.result import Track

_COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
    "#e377c2", "#bcbd22", "#17becf", "#aa6f00", "#005f73", "#6a040f",
)  # fmt: skip
_CLUTTER = "#c4c4c4"


def plot_track(
    track: Track,
    *,
    truth: FloatArray | None = None,
    others: Mapping[str, FloatArray] | None = None,
    ellipses: int = 20,
    zoom: bool = False,
    title: str = "",
) -> Figure:
    """The track over its sources, with ellipses of two standard deviations, one a mode (as Figures 5.6, 5.9 and 5.12).

    `truth` is the true path; `others` are further paths by name, such as the track from labels by hand. `ellipses` says
    about how many steps carry one. `zoom` leaves out what is far from the paths.
    """
    flat = _Flat(track.geometry, track.positions)
    for path in [*([] if truth is None else [truth]), *(others or {}).values()]:
        flat.also(path)
    if not zoom:
        flat.also(track.sources.positions)
    figure = new_figure(7.5, float(np.clip(1.2 + 6.5 * flat.shape, 2.8, 7.5)))
    axes = figure.add_subplot()
    places = flat(track.sources.positions)
    axes.scatter(places[:, 0], places[:, 1], marker="^", s=42, color="#333333", zorder=3, label="source")
    for name, place in zip(track.sources.names, places, strict=True):
        text = axes.annotate(name, place, xytext=(4, 4), textcoords="offset points", fontsize=7, color="#333333")
        text.set_annotation_clip(True)
    if truth is not None:
        axes.plot(*flat(truth).T, color="black", lw=1.4, label="truth")
    for i, (name, path) in enumerate((others or {}).items()):
        axes.plot(*flat(path).T, color=_COLOURS[(i + 1) % len(_COLOURS)], lw=1.1, ls="--", label=name)
    line = flat(track.positions)
    axes.plot(*line.T, color=_COLOURS[0], lw=1.6, label="track")
    every = max(1, round(len(line) / max(ellipses, 1)))
    for k in range(0, len(line), every if ellipses else len(line) + 1):
        for mode in track.modes[k]:
            axes.add_patch(_ellipse(flat(mode.position)[0], flat.covariance(mode.position, mode.covariance)))
    if np.any(track.lost):
        axes.plot(*line[track.lost].T, ls="", marker="x", ms=5, color="#d62728", label="lost")
    _name_axes(axes, track.geometry, flat)
    if zoom:
        low, high = flat.limits.min(axis=0), flat.limits.max(axis=0)
        pad = 0.15 * np.max(high - low)
        axes.set_xlim(low[0] - pad, high[0] + pad)
        axes.set_ylim(low[1] - pad, high[1] + pad)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    axes.legend(loc="best", fontsize=8, frameon=True, framealpha=0.9)
    return figure


def plot_arrivals(
    signals: Signals, track: Track | None = None, *, sources: Sources | None = None, title: str = ""
) -> Figure:
    """Arrival times over time, coloured by the most probable source and the fainter the less sure (Figure 5.1).

    Without a track the colours are those of the labels by hand, if there are any and `sources` is given.
    """
    figure = new_figure(8.0, 4.2)
    axes = figure.add_subplot()
    times = np.repeat(signals.times, signals.counts)
    x: Any = np.round(times * 86400).astype("datetime64[s]") if signals.dated else times
    names: list[str] = []
    codes = np.full(len(times), -1)
    sure = np.ones(len(times))
    if track is not None:
        shares = np.concatenate([np.zeros((0, len(track.sources) + 1)), *track.label_posteriors])
        codes, names = track.labels, list(track.sources.names)
        sure = shares.max(axis=1, initial=0.0)
    elif sources is not None and signals.labels is not None:
        names = list(sources.names)
        codes = np.array([names.index(label) if label in names else -1 for label in signals.labels])
    clutter = codes < 0
    grey = "#555555" if not names else _CLUTTER
    axes.scatter(x[clutter], signals.arrivals[clutter], s=5, color=grey, lw=0, label="clutter" if names else "signal")
    for i, name in enumerate(names):
        mine = codes == i
        if np.any(mine):
            opacity = np.clip(sure[mine], 0.15, 1)
            colour = _COLOURS[i % len(_COLOURS)]
            axes.scatter(x[mine], signals.arrivals[mine], s=9, color=colour, alpha=opacity, lw=0)
            axes.scatter([], [], s=9, color=colour, lw=0, label=name)
    axes.set_xlabel("date" if signals.dated else "time")
    axes.set_ylabel("arrival (s)")
    if signals.dated:
        figure.autofmt_xdate(rotation=30)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False, markerscale=2)
    return figure


class _Flat:
    """Coordinates for drawing: x to the right, y upwards, longitudes unwrapped around the first path's middle."""

    def __init__(self, geometry: Geometry, path: FloatArray) -> None:
        self.geometry = geometry
        self.earth = isinstance(geometry, WGS84)
        self.middle = path[len(path) // 2]
        self.limits = self(path)

    def __call__(self, positions: FloatArray) -> FloatArray:
        positions = np.atleast_2d(positions)
        if not self.earth:
            return positions[:, :2]
        gap = positions[:, 1] - self.middle[1]
        return np.column_stack([self.middle[1] + gap - 360 * np.round(gap / 360), positions[:, 0]])

    def also(self, path: FloatArray) -> None:
        self.limits = np.vstack([self.limits, self(path)])

    @property
    def stretch(self) -> float:
        """How much longer a degree of latitude is drawn than one of longitude."""
        return 1 / max(float(np.cos(np.radians(np.mean(self.limits[:, 1])))), 0.05) if self.earth else 1.0

    @property
    def shape(self) -> float:
        """Height of what is drawn over its width."""
        width, height = np.ptp(self.limits, axis=0)[:2] if self.limits.shape[1] > 1 else (1.0, 0.0)
        return float(height * self.stretch / width) if width > 0 else 1.0

    def covariance(self, position: FloatArray, covariance: FloatArray) -> FloatArray:
        scale = self.geometry.scale(position[None])[0]
        inner = covariance[:2, :2] / np.outer(scale[:2], scale[:2])
        return inner[::-1, ::-1] if self.earth else inner


def _ellipse(centre: FloatArray, covariance: FloatArray) -> Any:
    patches = import_module("matplotlib.patches")
    size, axes = np.linalg.eigh(covariance)
    width, height = 2 * 2 * np.sqrt(np.maximum(size, 0))
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    return patches.Ellipse(centre, width, height, angle=angle, fill=True, fc=_COLOURS[0], ec="none", alpha=0.18)


def _name_axes(axes: Axes, geometry: Geometry, flat: _Flat) -> None:
    if flat.earth:
        ticker = import_module("matplotlib.ticker")
        axes.set_xlabel("longitude")
        axes.set_ylabel("latitude")
        axes.set_aspect(flat.stretch, adjustable="datalim")
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: _degrees((v + 180) % 360 - 180, "E", "W")))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: _degrees(v, "N", "S")))
    else:
        axes.set_xlabel(geometry.axes[0])
        axes.set_ylabel(geometry.axes[1] if len(geometry.axes) > 1 else "")
        axes.set_aspect("equal", adjustable="datalim")
    axes.grid(True, lw=0.3, alpha=0.5)


def _degrees(value: float, positive: str, negative: str) -> str:
    return f"{abs(value):g}°{positive if value > 0 else negative if value < 0 else ''}"
