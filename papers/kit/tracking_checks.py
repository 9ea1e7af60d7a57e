"""What the tracking page checks: sensitivity, runs of a plain filter, trust, and what is not known of the signals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from luce.track import Reception, Signals, SpeedGrid, Track, draw_signals, follow, simulate
from luce.track.plots import plot_track
from luce.track.simulated_worlds import earshot

from . import ROOT, kept
from .tracking_floats import FLOAT, FLOAT_SD, float_world, follow_float, ocean, two_sources
from .tracking_tools import markdown, mean_step, save, say

__all__ = [
    "emission",
    "emission_table",
    "fresh",
    "fresh_table",
    "runs",
    "runs_table",
    "sensitivity",
    "sensitivity_table",
    "speed",
    "speed_table",
    "trust",
    "trust_table",
]


SETTINGS = {
    "P_C": [0.1, 0.25, 0.5, 0.75, 0.9],
    "P_D": [0.5, 0.7, 0.9, 0.99],
    "sigma / true": [0.2, 0.5, 1.0, 2.0, 4.0],
}


LINES = 6


def sensitivity(quick: bool, folder: Path) -> dict[str, Any]:
    """One setting at a time away from the truth, on a float and on the straight line."""
    sources, info = ocean()
    rows, days = [], 15 if quick else 80
    world = float_world("811", sources, info, np.random.default_rng(811), earshot(1.8e6, 1e5), days)
    truth = world["path"][1:]
    for name, values in SETTINGS.items():
        for value in values[:2] if quick else values:
            given = FLOAT | {"detection": earshot(1.8e6, 1e5)}
            if name == "P_C":
                given["clutter_rate"] = value / (1 - value)
            elif name == "P_D":
                given["detection"] = earshot(1.8e6, 1e5, value)
            else:
                given["sigma"] = 5.0 * value
            track = follow(
                world["signals"], sources, start=world["path"][0], start_time=world["launch"], dynamics=FLOAT_SD,
                receiver=world["receiver"], particles=300 if quick else 1000, trajectories=300, check=False, **given,
            )  # fmt: skip
            error = track.errors(truth) / 1000
            rows.append({"what": "float 811", "setting": name, "value": value, "error": float(np.median(error)),
                         "cover": float(track.covers(truth).mean()), "agreement": track.agreement()})  # fmt: skip
            rows.append(_on_a_line(name, value, range(1) if quick else range(LINES)))
        say(f"sensitivity {name}")
    return {"settings": {"float": "811", "days": days, "line": f"straight, lambda = 1, {LINES} seeds"}, "rows": rows}


def _on_a_line(name: str, value: float, seeds: range) -> dict[str, Any]:
    errors, covers, agreements = [], [], []
    for seed in seeds:
        world = simulate("straight", steps=60, clutter_rate=1.0, detection=0.9, random_state=seed)
        given = dict(world.settings)
        if name == "P_C":
            given["clutter_rate"] = value / (1 - value)
        elif name == "P_D":
            given["detection"] = value
        else:
            given["sigma"] = 0.02 * value
        track = follow(
            world.signals, world.sources, start=world.start, dynamics=3 * mean_step(world.truth), particles=800,
            trajectories=300, check=False, random_state=seed, **given,
        )  # fmt: skip
        errors.append(np.median(track.errors(world.truth)))
        covers.append(track.covers(world.truth).mean())
        agreements.append(track.agreement())
    return {"what": "line", "setting": name, "value": value, "error": float(np.median(errors)),
            "cover": float(np.mean(covers)), "agreement": float(np.mean(agreements))}  # fmt: skip


def sensitivity_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for name in SETTINGS:
        for value in SETTINGS[name]:
            by = {r["what"]: r for r in rows if (r["setting"], r["value"]) == (name, value)}
            if len(by) == 2:
                a, b = by["float 811"], by["line"]
                shares = [f"{a['cover']:.0%}", f"{a['agreement']:.1%}", b["error"], f"{b['cover']:.0%}"]
                result.append([name, value, a["error"], *shares, f"{b['agreement']:.0%}"])
    return markdown(
        ["setting", "value", "float: error (km)", "90% ellipses hold", "labels right", "line: error",
         "90% ellipses hold", "labels right"],
        result,
    )  # fmt: skip


def runs(quick: bool, folder: Path) -> dict[str, Any]:
    """Float 759 by Algorithm 2 alone: few particles, resampled at every step, not smoothed (Figure 5.12)."""
    both, quiet, world = two_sources(30 if quick else None)
    truth = world["path"][1:]
    inside = (world["signals"].times > quiet[0]) & (world["signals"].times <= quiet[1])
    rows, paths = [], {}
    for engine in ("labelled", "exact"):
        for particles, plain in ((50, True), (200, True), (2000, False)):
            found: list[Track] = [
                follow_float(
                    world, both, earshot(1.8e6, 1e5), engine, seed, particles=particles, smooth=not plain,
                    threshold=1.0 if plain else 0.5, trajectories=300, check=False,
                )
                for seed in range(2 if quick else 5)
            ]  # fmt: skip
            apart = _apart(found)
            if particles == 50:
                paths |= {f"{engine}, run {k + 1}": track.positions for k, track in enumerate(found[:3])}
            several = np.array([len(modes) > 1 for modes in found[0].modes])
            rows.append({"engine": engine, "particles": particles, "smoothed": not plain,
                         "apart": float(np.median(apart[~inside])), "worst": float(np.max(apart[~inside])),
                         "apart_two": float(np.median(apart[inside])) if inside.any() else None,
                         "worst_two": float(np.max(apart[inside])) if inside.any() else None,
                         "modes_two": float(several[inside].mean()) if inside.any() else None})  # fmt: skip
            say(f"runs {engine} {particles}")
    picture = plot_track(
        found[0], truth=truth, others=paths, zoom=True, title="float 759 (simulated), 50 particles, not smoothed"
    )
    save(picture, folder / "float759runs.png")
    return {"settings": {"two_sources_days": [80, 180], "runs": 5}, "rows": rows}


def _apart(tracks: list[Track]) -> np.ndarray:
    """The largest distance between two runs at every step, km."""
    result = np.zeros(len(tracks[0].times))
    for i, one in enumerate(tracks):
        for two in tracks[:i]:
            result = np.maximum(result, one.errors(two.positions) / 1000)
    return result


def runs_table(rows: list[dict[str, Any]]) -> str:
    header = ["engine", "particles", "smoothed", "runs apart, median (km)", "worst", "same, two sources", "worst",
              "steps of several modes, two sources"]  # fmt: skip
    table = [
        [r["engine"], r["particles"], "yes" if r["smoothed"] else "no", r["apart"], r["worst"], r["apart_two"],
         r["worst_two"], None if r["modes_two"] is None else f"{r['modes_two']:.0%}"]
        for r in rows
    ]  # fmt: skip
    return markdown(header, table)


CASES: dict[str, dict[str, Any]] = {
    "as simulated": {},
    "80 particles": {"particles": 80},
    "step a third": {"dynamics": 0.01},
    "step three times": {"dynamics": 0.09},
    "sigma half": {"sigma": 0.01},
    "sigma twice": {"sigma": 0.04},
    "P_D .95 for .7": {"detection": 0.95},
    "P_D .4 for .7": {"detection": 0.4},
    "clutter a third": {"clutter": 1 / 3},
    "clutter three times": {"clutter": 3.0},
}


WRONG_SEEDS = 10


def trust(quick: bool, folder: Path) -> dict[str, Any]:
    """Walks of the model followed with the true and with wrong settings: coverage, and what the checks say.

    Walks that are in the results already are not followed again.
    """
    found = [] if quick else kept(ROOT / "papers" / "results" / "tracking.json").get("trust", {"rows": []})["rows"]
    rows, known = [], {(row["case"], row["seed"]): row for row in found}
    for name, change in CASES.items():
        for seed in range(1 if quick else 20 if not change else WRONG_SEEDS):
            rows.append(known.get((name, seed)) or _walk(name, seed, quick))
        say(f"trust {name}")
    return {"settings": {"steps": 80, "particles": 800, "seeds": "200 on"}, "rows": rows}


def fresh(quick: bool, folder: Path) -> dict[str, Any]:
    """The clutter rate alone, on walks that nobody looked at before its check was there."""
    seeds = range(40, 41 if quick else 52)
    rows = [_walk(name, seed, quick) for name in ("as simulated", "clutter three times") for seed in seeds]
    return {"settings": {"steps": 80, "particles": 800, "seeds": "240 on"}, "rows": rows}


def fresh_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for name in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == name]
        bad = [row for row in mine if row["cover"] < 0.6]
        by_rate = [row["fewer_clutter"] > 10 for row in mine]
        cover = f"{np.mean([row['cover'] for row in mine]):.0%}"
        told_of = f"{sum(map(told, bad))} of {len(bad)}"
        result.append([name, len(mine), cover, sum(by_rate), sum(map(told, mine)), told_of])
    header = ["followed with", "walks", "ellipses of the modes hold", "told by the clutter rate", "told by any check",
              "told, of those below 60%"]  # fmt: skip
    return markdown(header, result)


def _walk(name: str, seed: int, quick: bool) -> dict[str, Any]:
    """One walk followed as a case says; every other one has three times the clutter."""
    rate = (1.0, 3.0)[seed % 2]
    world = simulate("walk", steps=20 if quick else 80, step_sd=0.03, clutter_rate=rate, random_state=200 + seed)
    given = {"start": world.start, "dynamics": 0.03, "particles": 200 if quick else 800} | world.settings | CASES[name]
    given["clutter_rate"] = rate * given.pop("clutter", 1.0)
    track = follow(world.signals, world.sources, trajectories=300, **given)
    assert track.trust is not None
    gap = world.truth - track.positions
    single = np.einsum("ki,kij,kj->k", gap, np.linalg.pinv(track.covariances), gap) <= -2 * np.log(0.1)
    return {"case": name, "seed": seed, "rate": rate, "cover": float(track.covers(world.truth).mean()),
            "cover_one": float(single.mean()), "doubts": len(track.trust.doubts), "lost": int(track.lost.sum()),
            "surprise": track.trust.surprise, "steps": track.trust.steps,
            "apart": float(np.mean(track.trust.disagreement > 1)), "gain": track.trust.gain,
            "fewer_clutter": track.trust.fewer_clutter,
            "several": float(np.mean([len(m) > 1 for m in track.modes]))}  # fmt: skip


def told(row: dict[str, Any]) -> bool:
    return bool(row["doubts"] or row["lost"])


def trust_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for name in CASES:
        mine = [r for r in rows if r["case"] == name]
        bad, good = [r for r in mine if r["cover"] < 0.6], [r for r in mine if r["cover"] >= 0.8]
        result.append(
            [name, len(mine), f"{np.mean([r['cover_one'] for r in mine]):.0%}",
             f"{np.mean([r['cover'] for r in mine]):.0%}", f"{min(r['cover'] for r in mine):.0%}",
             f"{sum(map(told, bad))} of {len(bad)}", f"{sum(map(told, good))} of {len(good)}"]
        )  # fmt: skip
    bad, good = [r for r in rows if r["cover"] < 0.6], [r for r in rows if r["cover"] >= 0.8]
    result.append(["all", len(rows), "", "", "", f"{sum(map(told, bad))} of {len(bad)}",
                   f"{sum(map(told, good))} of {len(good)}"])  # fmt: skip
    header = ["followed with", "walks", "one ellipse holds", "ellipses of the modes hold", "worst walk",
              "told, of those below 60%", "told, of those from 80%"]  # fmt: skip
    return markdown(header, result)


def waters() -> SpeedGrid:
    """1,450 m/s at 66 S to 1,500 m/s at 50 S, 10 m/s up and down within the year."""
    lat, lon, seasons = np.linspace(-66, -50, 17), np.linspace(-125, -45, 21), (np.arange(12) + 0.5) / 12
    place = 1450 + 50 * (lat[:, None] + 66) / 16 + 0 * lon
    return SpeedGrid(lat, lon, place + (10 * np.cos(2 * np.pi * seasons))[:, None, None], seasons=seasons)


def speed(quick: bool, folder: Path) -> dict[str, Any]:
    """Float 811 in waters whose speed of sound changes with latitude and season."""
    sources, info = ocean()
    detection, grid = earshot(1.8e6, 1e5), waters()
    world = float_world("811", sources, info, np.random.default_rng(812), detection, 15 if quick else 200)
    path, receiver = world["path"], world["receiver"]
    given = {name: value for name, value in FLOAT.items() if name != "speed"} | {"detection": detection}
    heard = draw_signals(
        path[1:], sources, Reception(speed=grid, **given), np.random.default_rng(813), times=world["signals"].times,
        dated=True,
    )  # fmt: skip
    late = heard.arrivals + np.repeat(receiver.clock_offset(heard.times), heard.counts)
    signals = Signals(heard.times, late, heard.offsets, None, heard.labels, None, True)
    rows = []
    for name, value in (("grid", grid), ("mean of the grid", grid.reference), ("1,500 m/s", 1500.0)):
        track = follow(
            signals, sources, start=path[0], start_time=world["launch"], dynamics=FLOAT_SD, receiver=receiver,
            particles=300 if quick else 1500, trajectories=300, speed=value, **given,
        )  # fmt: skip
        error = track.errors(path[1:]) / 1000
        assert track.trust is not None
        rows.append({"speed": name, "median_km": float(np.median(error)), "p90_km": float(np.quantile(error, 0.9)),
                     "cover": float(track.covers(path[1:]).mean()), "agreement": track.agreement(),
                     "log_likelihood": track.log_likelihood, "told": bool(track.trust.doubts)})  # fmt: skip
        say(f"speed {name}")
    return {"settings": {"days": 200, "grid": "1,450 to 1,500 m/s, +-10 m/s within the year"}, "rows": rows}


def speed_table(rows: list[dict[str, Any]]) -> str:
    header = ["speed", "median error (km)", "90% (km)", "90% ellipses hold", "labels right", "log-likelihood", "told"]
    table = [
        [r["speed"], r["median_km"], r["p90_km"], f"{r['cover']:.0%}", f"{r['agreement']:.1%}",
         f"{r['log_likelihood']:.0f}", "yes" if r["told"] else "no"]
        for r in rows
    ]  # fmt: skip
    return markdown(header, table)


SHIFT = 15.0
"""Standard deviation of the receiver's clock from day to day, in seconds: 22.5 km of range."""


def emission(quick: bool, folder: Path) -> dict[str, Any]:
    """Float 811 whose clock is off by another amount every day: ignored, taken for noise, summed out."""
    sources, info = ocean()
    detection = earshot(1.8e6, 1e5)
    world = float_world("811", sources, info, np.random.default_rng(814), detection, 8 if quick else 60)
    given = FLOAT | {"detection": detection}
    shifted = draw_signals(
        world["path"][1:], sources, Reception(**given, emission_sd=SHIFT), np.random.default_rng(815),
        times=world["signals"].times, dated=True,
    )  # fmt: skip
    plain = draw_signals(
        world["path"][1:], sources, Reception(**given), np.random.default_rng(815), times=shifted.times, dated=True
    )
    cases: dict[str, tuple[Signals, dict[str, Any]]] = {
        "no shift": (plain, {}),
        "ignored": (shifted, {}),
        "taken for noise of single signals": (shifted, {"sigma": float(np.hypot(FLOAT["sigma"], SHIFT))}),
        "summed out": (shifted, {"emission_sd": SHIFT}),
        "no shift, and summed out all the same": (plain, {"emission_sd": SHIFT}),
    }
    rows = []
    for name, (signals, change) in cases.items():
        track = follow(
            signals, sources, start=world["path"][0], start_time=world["launch"], dynamics=FLOAT_SD,
            particles=100 if quick else 800, trajectories=300, check=False, **given | change,
        )  # fmt: skip
        error = track.errors(world["path"][1:]) / 1000
        rows.append({"shift": name, "median_km": float(np.median(error)), "p90_km": float(np.quantile(error, 0.9)),
                     "cover": float(track.covers(world["path"][1:]).mean()), "agreement": track.agreement(),
                     "log_likelihood": track.log_likelihood})  # fmt: skip
        say(f"emission {name}")
    return {"settings": {"days": 60, "shift": SHIFT, "particles": 800}, "rows": rows}


def emission_table(rows: list[dict[str, Any]]) -> str:
    header = ["shift", "median error (km)", "90% (km)", "90% ellipses hold", "labels right", "log-likelihood"]
    table = [
        [r["shift"], r["median_km"], r["p90_km"], f"{r['cover']:.0%}", f"{r['agreement']:.1%}",
         f"{r['log_likelihood']:.0f}"]
        for r in rows
    ]  # fmt: skip
    return markdown(header, table)
