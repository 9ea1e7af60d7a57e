"""Floats of the Southern Ocean (Figures 5.1, 5.9, 5.10, 5.12): real sources and launches, simulated journeys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from luce.track import WGS84, Receiver, Reception, Signals, Sources, Track, draw_signals, drift_path, follow
from luce.track.plots import plot_arrivals, plot_track
from luce.track.simulated_worlds import earshot

from . import data_folder
from .tracking_tools import markdown, save, say

__all__ = [
    "FLOAT",
    "FLOAT_SD",
    "float_table",
    "float_world",
    "floats",
    "follow_float",
    "ocean",
    "two",
    "two_sources",
    "two_table",
]

EPOCH = 13947 - 14536
"""Day 14536 of the floats' table is 2008-03-09, day 13947 since 1970."""


def ocean() -> tuple[Sources, dict[str, list[float]]]:
    """The twelve sources and the floats' launches and recoveries."""
    table = json.loads((data_folder() / "dimes" / "dimes_weddell_sources_floats.json").read_text())
    names = [name for name, place in table["SOSO_coord"].items() if place[2] == "DIMES"]
    days = [np.datetime64(table["SOSO_drift"][name][1], "D").astype(int) for name in names]
    places = [table["SOSO_coord"][name][:2] for name in names]
    offsets = [table["SOSO_drift"][name][2] for name in names]
    return Sources(places, offsets, names, start=days, geometry=WGS84()), table["float_info"]


FLOAT = {"sigma": 5.0, "speed": 1500.0, "clutter_rate": 1.0, "window": (3600.0, 9000.0), "r": 4}
FLOAT_SD = 7000.0


def float_world(
    name: str,
    sources: Sources,
    info: dict[str, list[float]],
    rng: np.random.Generator,
    detection: Any,
    days: int | None,
) -> dict[str, Any]:
    """A simulated journey from a float's launch to its recovery, with its clock."""
    lat, lon, launch, end_lat, end_lon, recovery, ahead, ahead_later = info[name]
    steps = int(recovery - launch)
    path = drift_path([lat, lon], [end_lat, end_lon], steps, FLOAT_SD, rng)[: (days or steps) + 1]
    times = launch + EPOCH + np.arange(1, len(path))
    reception = Reception(detection=detection, **FLOAT)
    signals = draw_signals(path[1:], sources, reception, rng, times=times, dated=True)
    receiver = Receiver(ahead, ahead_later, launch=launch + EPOCH, recovery=recovery + EPOCH)
    late = signals.arrivals + np.repeat(receiver.clock_offset(signals.times), signals.counts)
    heard = Signals(signals.times, late, signals.offsets, None, signals.labels, None, True)
    return {"signals": heard, "path": path, "receiver": receiver, "launch": launch + EPOCH}


def follow_float(world: dict[str, Any], sources: Sources, detection: Any, engine: str, seed: int, **more: Any) -> Track:
    more = {"check": False} | more
    return follow(
        world["signals"], sources, start=world["path"][0], start_time=world["launch"], dynamics=FLOAT_SD,
        receiver=world["receiver"], engine=engine, detection=detection, random_state=seed, **FLOAT, **more,
    )  # fmt: skip


def floats(quick: bool, folder: Path) -> dict[str, Any]:
    """Floats 767 and 811: ranked signals without labels beside the labels."""
    sources, info = ocean()
    rows, detection = [], earshot(1.8e6, 1e5)
    for name in ("767", "811"):
        world = float_world(name, sources, info, np.random.default_rng(int(name)), detection, 25 if quick else None)
        truth = world["path"][1:]
        tracks = {}
        for engine in ("exact", "labelled", "unranked"):
            track = follow_float(world, sources, detection, engine, 0, particles=300 if quick else 3000)
            tracks[engine] = track
            error = track.errors(truth)
            rows.append(float_row(name, engine, track, error))
        end = follow_float(
            world, sources, detection, "exact", 0, particles=300 if quick else 3000, end=truth[-1], smooth=True
        )
        rows.append(float_row(name, "exact, known end", end, end.errors(truth)))
        by_hand = {"from true labels": tracks["labelled"].positions}
        save(
            plot_track(tracks["exact"], truth=truth, others=by_hand, title=f"float {name} (simulated)"),
            folder / f"float{name}.png",
        )
        save(
            plot_arrivals(tracks["exact"].signals, tracks["exact"], title=f"float {name} (simulated)"),
            folder / f"arrivals{name}.png",
        )
        say(f"float {name}")
    settings = FLOAT | {"detection": "0.9 within 1,800 km", "step_sd": FLOAT_SD, "particles": 3000}
    return {"settings": settings, "rows": rows}


def float_row(name: str, engine: str, track: Track, error: np.ndarray) -> dict[str, Any]:
    return {
        "float": name, "engine": engine, "days": len(error), "median_km": float(np.median(error)) / 1000,
        "p90_km": float(np.quantile(error, 0.9)) / 1000, "agreement": track.agreement(), "lost": int(track.lost.sum()),
    }  # fmt: skip


def two_sources(days: int | None) -> tuple[Sources, tuple[float, float], dict[str, Any]]:
    """The sources, all but two of them silent for a hundred days, when that is, and the journey of float 759."""
    sources, info = ocean()
    launch = info["759"][2] + EPOCH
    quiet = (launch + 80, launch + 180)
    stop = [np.inf if name in ("US1-1", "US1-3") else quiet[0] for name in sources.names]
    again = [name for name in sources.names if name not in ("US1-1", "US1-3")]
    rows = [sources.names.index(name) for name in again]
    both = Sources(
        np.vstack([sources.positions, sources.positions[rows]]),
        np.concatenate([sources.offsets, sources.offsets[rows]]),
        [*sources.names, *(f"{name}'" for name in again)],
        start=np.concatenate([sources.start, np.maximum(sources.start[rows], quiet[1])]),
        stop=np.concatenate([stop, np.full(len(rows), np.inf)]),
        geometry=WGS84(),
    )
    return both, quiet, float_world("759", both, info, np.random.default_rng(759), earshot(1.8e6, 1e5), days)


def two(quick: bool, folder: Path) -> dict[str, Any]:
    """Float 759 with only two sources at work for a hundred days: what different runs give (Figure 5.12)."""
    both, quiet, world = two_sources(30 if quick else None)
    detection = earshot(1.8e6, 1e5)
    truth = world["path"][1:]
    numbers, paths = [], {}
    for engine in ("labelled", "exact"):
        for seed in range(2 if quick else 4):
            track = follow_float(world, both, detection, engine, seed, particles=300 if quick else 2000)
            error = track.errors(truth) / 1000
            inside = (track.times > quiet[0]) & (track.times <= quiet[1])
            spread = np.sqrt(np.trace(track.covariances, axis1=1, axis2=2)) / 1000
            numbers.append(
                {"engine": engine, "seed": seed, "median_km": float(np.median(error[~inside])),
                 "median_km_two": float(np.median(error[inside])) if np.any(inside) else None,
                 "sd_km": float(np.median(spread[~inside])),
                 "sd_km_two": float(np.median(spread[inside])) if np.any(inside) else None}
            )  # fmt: skip
            paths[f"{'labels' if engine == 'labelled' else 'ranked'}, run {seed + 1}"] = track.positions
    paths.popitem()  # the last run is the track itself
    save(
        plot_track(
            track, truth=truth, others=paths, zoom=True, title="float 759 (simulated), two sources for 100 days"
        ),
        folder / "float759.png",
    )
    say("float 759")
    return {"settings": FLOAT | {"step_sd": FLOAT_SD, "two_sources_days": [80, 180]}, "rows": numbers}


def float_table(rows: list[dict[str, Any]]) -> str:
    shown = [[r["float"], r["engine"], r["days"], r["median_km"], r["p90_km"], f"{r['agreement']:.1%}"] for r in rows]
    return markdown(["float", "engine", "days", "median error (km)", "90% (km)", "labels right"], shown)


def two_table(rows: list[dict[str, Any]]) -> str:
    keys = ("engine", "seed", "median_km", "median_km_two", "sd_km", "sd_km_two")
    heads = ["median error (km)", "same, two sources", "standard deviation (km)", "same, two sources"]
    return markdown(["engine", "run", *heads], [[row[key] for key in keys] for row in rows])
