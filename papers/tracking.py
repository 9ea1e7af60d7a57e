"""Makes docs/papers/tracking.md, its figures and its numbers: chapter 5 of the dissertation, again.

    python papers/tracking.py [--quick] [--page] [--only simulation|sigma|floats|two|boat|engines|sensitivity|...]

The parts after `boat` are in `kit/tracking_checks.py`. Numbers go to papers/results/tracking.json with their settings
and seeds; the page and the figures are made from them and from one run each. `--quick` is the same with few seeds and
steps, into a temporary folder. The parts about floats and the boat need the real data (LUCE_DATA, else ../shared/data
beside the project) and keep their last numbers without.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from kit import ROOT, data_folder

from luce.storage import atomic_write
from luce.track import (
    WGS84,
    OrnsteinUhlenbeck,
    Receiver,
    Reception,
    Signals,
    Sources,
    Track,
    draw_signals,
    drift_path,
    follow,
    simulate,
)  # fmt: skip
from luce.track.plots import plot_arrivals, plot_track
from luce.track.simulated_worlds import earshot

ENGINES = ("exact", "unranked", "labelled")
EPOCH = 13947 - 14536
"""Day 14536 of the floats' table is 2008-03-09, day 13947 since 1970."""


def mean_step(truth: np.ndarray) -> float:
    return float(np.mean(np.linalg.norm(np.diff(truth, axis=0), axis=1)))


def squared_error(track: Track, truth: np.ndarray) -> tuple[float, float]:
    """Smoothed and filtered mean squared error."""
    filtered = ((track.filtered_positions - truth) ** 2).sum(axis=1)
    return float(np.mean(track.errors(truth) ** 2)), float(np.mean(filtered))


# --- simulation: Figure 5.8 -------------------------------------------------------------------------------------------


def simulation(quick: bool, folder: Path) -> dict[str, Any]:
    """MSE against clutter, three engines, two paths; the step's noise is three true steps an axis."""
    seeds, rates, steps = (range(2), (1, 4), 30) if quick else (range(20), (1, 2, 4, 6, 8), 100)
    particles = 300 if quick else 1000
    rows = []
    for path in ("straight", "spiral"):
        for rate in rates:
            for seed in seeds:
                world = simulate(path, steps=steps, clutter_rate=float(rate), random_state=seed)
                sd = 3 * mean_step(world.truth)
                for engine in ENGINES:
                    track = follow(
                        world.signals, world.sources, start=world.start, dynamics=sd, engine=engine,
                        particles=particles, trajectories=300, random_state=seed, check=False, **world.settings,
                    )  # fmt: skip
                    mse, filtered = squared_error(track, world.truth)
                    rows.append(
                        {"path": path, "rate": rate, "seed": seed, "engine": engine, "mse": mse, "filtered": filtered,
                         "agreement": track.agreement(), "lost": int(track.lost.sum())}
                    )  # fmt: skip
            say(f"simulation {path}, lambda {rate}")
    for path in ("straight", "spiral"):
        world = simulate(path, steps=steps, clutter_rate=4.0, random_state=1)
        sd = 3 * mean_step(world.truth)
        settings = {"start": world.start, "dynamics": sd, "particles": particles, "check": False} | world.settings
        track = follow(world.signals, world.sources, **settings)
        plain = follow(world.signals, world.sources, engine="unranked", **settings)
        figure = plot_track(track, truth=world.truth, others={"unranked": plain.positions}, title=f"{path}, lambda = 4")
        save(figure, folder / f"{path}.png")
    return {"settings": {"steps": steps, "particles": particles, "sd": "3 mean steps an axis"}, "rows": rows}


def sigma(quick: bool, folder: Path) -> dict[str, Any]:
    """How the step's noise changes the result: multiples of the true step, lambda = 4, straight line."""
    seeds, factors, steps = (range(2), (1, 3), 30) if quick else (range(20), (1, 2, 3, 5, 8), 100)
    rows = []
    for factor in factors:
        for seed in seeds:
            world = simulate("straight", steps=steps, clutter_rate=4.0, random_state=seed)
            for engine in ("exact", "unranked"):
                track = follow(
                    world.signals, world.sources, start=world.start, dynamics=factor * mean_step(world.truth),
                    engine=engine, particles=300 if quick else 1000, trajectories=300, random_state=seed,
                    check=False, **world.settings,
                )  # fmt: skip
                mse, filtered = squared_error(track, world.truth)
                rows.append(
                    {"factor": factor, "seed": seed, "engine": engine, "mse": mse, "filtered": filtered,
                     "lost": int(track.lost.sum()), "log_likelihood": track.log_likelihood}
                )  # fmt: skip
        say(f"sigma {factor}")
    return {"settings": {"steps": steps, "rate": 4.0, "path": "straight"}, "rows": rows}


# --- floats: Figures 5.1, 5.9, 5.10, 5.12 -----------------------------------------------------------------------------


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


# --- a boat among hydrophones: real sound -----------------------------------------------------------------------------


def boat_data() -> dict[str, Any]:
    """Travel times of every ping to every hydrophone, GPS at the pings, and the reference track."""
    folder = data_folder() / "acoustic"
    meta = json.loads((folder / "ssu1_yaps_meta.json").read_text())
    origin = np.array([meta["inp_params"]["Hx0"][0], meta["inp_params"]["Hy0"][0]])
    table = lambda name: np.genfromtxt(folder / name, delimiter=",", skip_header=1)  # noqa: E731
    hydrophones, reference, gps = (
        table("ssu1_toa_hydros_local.csv"),
        table("ssu1_yaps_track.csv"),
        table("ssu1_gps.csv"),
    )
    emission = reference[:, 0]
    travel = table("ssu1_toa_matrix.csv")[:, 1:] - (emission - meta["inp_params"]["T0"][0])[:, None]
    travel[travel < 0] = np.nan  # heard before it was sent: an error of the reference
    truth = np.column_stack([np.interp(emission, gps[:, 0], gps[:, a]) for a in (1, 2)]) - origin
    # A ping that few hydrophones heard has no emission time to speak of.
    usable = (reference[:, 4] < 0.001) & (np.isfinite(travel).sum(axis=1) > 0)
    covered = (emission >= gps[0, 0]) & (emission <= gps[-1, 0])
    return {
        "sources": Sources(hydrophones[:, 1:3]), "time": emission - emission[0], "travel": travel, "truth": truth,
        "usable": usable, "covered": covered, "reference": reference[:, 1:3] - origin,
        "speed": float(np.mean(meta["pl_scalar"]["ss"])),
    }  # fmt: skip


BOAT = {"sigma": 0.002, "detection": 0.985, "clutter_rate": 0.1, "window": (0.0, 0.3)}
BOAT_MOTION = OrnsteinUhlenbeck(0.5, 60.0)


def boat(quick: bool, folder: Path) -> dict[str, Any]:
    """The r earliest travel times of each ping, their hydrophones withheld, against GPS."""
    data = boat_data()
    chosen = np.flatnonzero(data["usable"])[: 20 if quick else None]
    arrivals, labels = [], []
    for k in chosen:
        order = np.argsort(data["travel"][k])[: np.isfinite(data["travel"][k]).sum()]
        arrivals.append(data["travel"][k][order])
        labels.append([str(i + 1) for i in order])
    signals = Signals.from_lists(data["time"][chosen], arrivals, labels=labels)
    judged = data["covered"][chosen]
    rows = [boat_row("reference (all arrivals, labelled)", None, data["reference"], data["truth"], data["covered"])]
    for r in (3, 4, 6):
        for engine in ("exact", "unranked", "labelled"):
            track = follow(
                signals, data["sources"], start=data["reference"][chosen[0]], start_sd=20.0, dynamics=BOAT_MOTION,
                engine=engine, r=r, speed=data["speed"], particles=500 if quick else 5000, trajectories=300,
                check=False, **BOAT,
            )  # fmt: skip
            row = boat_row(engine, r, track.positions, data["truth"][chosen], judged)
            rows.append(row | {"agreement": track.agreement(), "log_likelihood": track.log_likelihood})
            if r == 6 and engine == "exact":
                title = "boat among hydrophones, 6 earliest arrivals"
                save(plot_track(track, truth=data["truth"][chosen], title=title), folder / "boat.png")
            say(f"boat r = {r}, {engine}")
    motion = f"Ornstein-Uhlenbeck velocity, {BOAT_MOTION.speed_sd} m/s, {BOAT_MOTION.timescale:g} s"
    return {"settings": BOAT | {"speed": data["speed"], "motion": motion, "pings": len(chosen)}, "rows": rows}


def boat_row(engine: str, r: int | None, found: np.ndarray, truth: np.ndarray, judged: np.ndarray) -> dict[str, Any]:
    error = np.linalg.norm(found - truth, axis=1)[judged]
    return {"engine": engine, "r": r, "median_m": float(np.median(error)), "p90_m": float(np.quantile(error, 0.9))}


# --- page -------------------------------------------------------------------------------------------------------------


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=80)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def markdown(header: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows])


def clutter_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Figure 5.8: mean squared error against clutter."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    names = {"exact": "ranked", "unranked": "unranked", "labelled": "true labels"}
    for a, kind in enumerate(("straight", "spiral")):
        axes = figure.add_subplot(1, 2, a + 1)
        for engine, name in names.items():
            rates = sorted({row["rate"] for row in rows})
            values = [
                [r["mse"] for r in rows if (r["path"], r["rate"], r["engine"]) == (kind, x, engine)] for x in rates
            ]
            middle = [np.mean(v) for v in values]
            error = [np.std(v) / np.sqrt(len(v)) for v in values]
            axes.errorbar(rates, middle, error, marker="o", ms=4, capsize=2, label=name)
        axes.set_yscale("log")
        axes.set_xlabel("clutter rate")
        axes.set_ylabel("mean squared error")
        axes.set_title(kind, loc="left", fontsize=11)
        axes.grid(True, lw=0.3, alpha=0.5)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=80)


def simulation_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for kind in ("straight", "spiral"):
        for rate in sorted({row["rate"] for row in rows}):
            mine = [row for row in rows if row["path"] == kind and row["rate"] == rate]
            by = {e: np.array([r["mse"] for r in mine if r["engine"] == e]) for e in ENGINES}
            filtered = float(np.mean([r["filtered"] for r in mine if r["engine"] == "exact"]))
            wins = f"{int(np.sum(by['exact'] < by['unranked']))} of {len(by['exact'])}"
            agree = float(np.mean([r["agreement"] for r in mine if r["engine"] == "exact"]))
            means = [float(by[e].mean()) for e in ENGINES]
            result.append(
                [kind, rate, means[0], float(np.median(by["exact"])), filtered, *means[1:], wins, f"{agree:.0%}"]
            )
    header = [
        "path",
        "clutter rate",
        "ranked",
        "ranked, median",
        "ranked, filter only",
        "unranked",
        "true labels",
        "ranked better",
        "labels right",
    ]
    return markdown(header, result)


def sigma_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for factor in sorted({row["factor"] for row in rows}):
        by = {e: [r for r in rows if r["factor"] == factor and r["engine"] == e] for e in ("exact", "unranked")}
        mse = {e: np.array([r["mse"] for r in part]) for e, part in by.items()}
        bad = int(np.sum(mse["exact"] > 0.01))
        evidence = float(np.mean([r["log_likelihood"] for r in by["exact"]]))
        result.append(
            [
                factor,
                *(float(np.mean(m)) for m in mse.values()),
                float(np.median(mse["exact"])),
                f"{bad} of {len(mse['exact'])}",
                f"{evidence:.0f}",
            ]
        )
    return markdown(
        ["noise (true steps)", "ranked", "unranked", "ranked, median", "ranked, MSE above 0.01", "log-likelihood"],
        result,
    )


def page(results: dict[str, Any]) -> str:
    parts = {name: results[name]["rows"] for name in results}
    text = PAGE
    text = text.replace("{simulation}", simulation_table(parts["simulation"]))
    text = text.replace("{sigma}", sigma_table(parts["sigma"]))
    if "floats" in parts:
        rows = [
            [r["float"], r["engine"], r["days"], r["median_km"], r["p90_km"], f"{r['agreement']:.1%}"]
            for r in parts["floats"]
        ]
        text = text.replace(
            "{floats}", markdown(["float", "engine", "days", "median error (km)", "90% (km)", "labels right"], rows)
        )
    if "two" in parts:
        rows = [
            [r["engine"], r["seed"], r["median_km"], r["median_km_two"], r["sd_km"], r["sd_km_two"]]
            for r in parts["two"]
        ]
        header = [
            "engine",
            "run",
            "median error (km)",
            "same, two sources",
            "standard deviation (km)",
            "same, two sources",
        ]
        text = text.replace("{two}", markdown(header, rows))
    if "boat" in parts:
        rows = [
            [
                r["engine"],
                r["r"],
                r["median_m"],
                r["p90_m"],
                None if r.get("agreement") is None else f"{r['agreement']:.0%}",
            ]
            for r in parts["boat"]
        ]
        text = text.replace("{boat}", markdown(["engine", "r", "median error (m)", "90% (m)", "labels right"], rows))
    for name, table in checks().TABLES.items():
        if name in parts:
            text = text.replace(f"{{{name}}}", table(parts[name]))
    return text


def checks() -> Any:
    """The parts of the other file, which takes from this one: imported when it is there."""
    return import_module("kit.tracking_checks")


PAGE = (Path(__file__).parent / "tracking.md.in").read_text()
PARTS: dict[str, Callable[[bool, Path], dict[str, Any]]] = {
    "simulation": simulation, "sigma": sigma, "floats": floats, "two": two, "boat": boat,
} | {
    name: lambda quick, folder, name=name: getattr(checks(), name)(quick, folder)
    for name in ("engines", "sensitivity", "runs", "trust", "speed")
}  # fmt: skip
NEEDS = {
    "floats": "dimes",
    "two": "dimes",
    "boat": "acoustic",
    "sensitivity": "dimes",
    "runs": "dimes",
    "speed": "dimes",
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few seeds and steps, into a temporary folder")
    parser.add_argument(
        "--only", choices=sorted(PARTS), action="append", help="only this part; the others keep their numbers"
    )
    parser.add_argument("--page", action="store_true", help="only the page again, from the stored numbers")
    parser.add_argument("--out", type=Path, help="folder in place of the project's (with --quick)")
    chosen = parser.parse_args(arguments)
    root = chosen.out or (Path(tempfile.mkdtemp()) if chosen.quick else ROOT)
    numbers, figures = root / "papers" / "results" / "tracking.json", root / "docs" / "papers" / "tracking"
    for folder in (numbers.parent, figures):
        folder.mkdir(parents=True, exist_ok=True)
    results = json.loads(numbers.read_text()) if numbers.exists() else {}
    for name, part in PARTS.items():
        if chosen.page or (chosen.only and name not in chosen.only):
            continue
        if name in NEEDS and not (data_folder() / NEEDS[name]).exists():
            say(f"{name}: the real data are not here; its last numbers stay")
            continue
        results[name] = part(chosen.quick, figures)
        with atomic_write(numbers, "w") as stream:
            json.dump(results, stream, indent=1)
    if {"simulation", "sigma"} <= set(results):
        clutter_figure(results["simulation"]["rows"], figures / "clutter.png")
        with atomic_write(figures.parent / "tracking.md", "w") as stream:
            stream.write(page(results))
    print(f"Wrote the page under {root}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
