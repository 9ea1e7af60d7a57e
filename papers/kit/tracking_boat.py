"""Real sound: a boat with an acoustic tag among hydrophones, followed from its earliest arrivals without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from luce.track import OrnsteinUhlenbeck, Signals, Sources, follow
from luce.track.plots import plot_track

from . import data_folder
from .tracking_tools import markdown, save, say

__all__ = ["boat", "boat_table"]


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


def boat_table(rows: list[dict[str, Any]]) -> str:
    shown = [
        [r["engine"], r["r"], r["median_m"], r["p90_m"],
         None if r.get("agreement") is None else f"{r['agreement']:.0%}"]
        for r in rows
    ]  # fmt: skip
    return markdown(["engine", "r", "median error (m)", "90% (m)", "labels right"], shown)
