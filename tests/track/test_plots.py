"""Pictures: what is drawn, not how it looks."""

from __future__ import annotations

import io

import numpy as np
import pytest

from luce.track import WGS84, Reception, Sources, draw_signals, follow, simulate

pytest.importorskip("matplotlib")

from luce.track.plots import plot_arrivals, plot_track


def small(world, **changes):
    settings = {"start": world.start, "dynamics": 0.03, "particles": 200, "trajectories": 100} | world.settings
    return follow(world.signals, world.sources, **settings | changes)


def test_track_picture_has_its_parts():
    world = simulate("straight", steps=20, random_state=0)
    track = small(world)
    figure = plot_track(track, truth=world.truth, others={"by hand": world.truth + 0.01}, ellipses=10, title="a title")
    axes = figure.axes[0]
    assert {text.get_text() for text in axes.get_legend().get_texts()} >= {"source", "truth", "by hand", "track"}
    assert len(axes.patches) == sum(len(modes) for modes in track.modes[::2])
    assert len(axes.texts) == len(world.sources)
    ellipse, covariance = axes.patches[0], track.modes[0][0].covariance
    assert ellipse.width * ellipse.height == pytest.approx(16 * np.sqrt(np.linalg.det(covariance)))
    assert axes.get_title(loc="left") == "a title"
    figure.savefig(io.BytesIO(), format="png")


def test_longitudes_are_unwrapped_at_the_antimeridian():
    earth = WGS84()
    sources = Sources([[-50.0, 178.0], [-52.0, -178.0], [-48.0, 179.0]], [0, 300, 600], geometry=earth)
    path = earth.check(np.column_stack([np.full(20, -50.5), np.linspace(179.5, 180.5, 20)]), "path")
    settings = {"sigma": 5.0, "speed": 1500.0, "detection": 0.9, "clutter_rate": 0.5, "window": (0.0, 3000.0), "r": 3}
    signals = draw_signals(path, sources, Reception(**settings), np.random.default_rng(0))
    track = follow(signals, sources, start=path[0], dynamics=8000.0, particles=500, trajectories=200, **settings)
    assert np.median(track.errors(path)) < 15_000
    figure = plot_track(track, truth=path)
    line = next(line for line in figure.axes[0].lines if line.get_label() == "track")
    assert np.max(np.abs(np.diff(line.get_xdata()))) < 1
    figure.savefig(io.BytesIO(), format="png")


def test_arrival_picture_has_a_point_a_signal():
    world = simulate("ocean", steps=10, random_state=0)
    track = small(world, dynamics=8000.0)
    for figure in (
        plot_arrivals(world.signals, track),
        plot_arrivals(world.signals, sources=world.sources),
        plot_arrivals(world.signals),
    ):
        points = sum(len(part.get_offsets()) for part in figure.axes[0].collections)
        assert points == len(world.signals.arrivals)
        figure.savefig(io.BytesIO(), format="png")
