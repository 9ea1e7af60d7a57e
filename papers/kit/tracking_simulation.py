"""Simulated targets among random sources: error against clutter (Figure 5.8), noise of a step, engines side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from luce.track import follow, simulate
from luce.track.plots import plot_track

from .tracking_tools import markdown, mean_step, save, say, squared_error

__all__ = ["clutter_figure", "engine_table", "engines", "sigma", "sigma_table", "simulation", "simulation_table"]

ENGINES = ("exact", "unranked", "labelled")


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


def engines(quick: bool, folder: Path) -> dict[str, Any]:
    """Belief propagation beside the exact sum, and the baseline as printed beside the one that counts once."""
    seeds, rates, steps = (range(1), (1,), 15) if quick else (range(4), (1, 4, 8), 100)
    rows = []
    for path in ("straight", "spiral"):
        for rate in rates:
            for seed in seeds:
                world = simulate(path, steps=steps, clutter_rate=float(rate), random_state=seed)
                sd = 3 * mean_step(world.truth)
                for engine in ("exact", "bethe", "unranked", "unranked_literal"):
                    track = follow(
                        world.signals, world.sources, start=world.start, dynamics=sd, engine=engine, check=False,
                        particles=200 if quick else 1000, trajectories=300, random_state=seed, **world.settings,
                    )  # fmt: skip
                    mse, _ = squared_error(track, world.truth)
                    rows.append({"path": path, "rate": rate, "seed": seed, "engine": engine, "mse": mse,
                                 "agreement": track.agreement(), "log_likelihood": track.log_likelihood})  # fmt: skip
            say(f"engines {path}, lambda {rate}")
    return {"settings": {"steps": steps, "particles": 1000}, "rows": rows}


def engine_table(rows: list[dict[str, Any]]) -> str:
    result = []
    for path in ("straight", "spiral"):
        for rate in sorted({row["rate"] for row in rows}):
            by = {
                engine: [r for r in rows if (r["path"], r["rate"], r["engine"]) == (path, rate, engine)]
                for engine in ("exact", "bethe", "unranked", "unranked_literal")
            }
            medians = [float(np.median([r["mse"] for r in part])) for part in by.values()]
            gap = np.mean([b["log_likelihood"] - e["log_likelihood"] for b, e in zip(by["bethe"], by["exact"])])  # noqa: B905
            result.append([path, rate, *medians, f"{gap:.1f}"])
    return markdown(
        ["path", "clutter rate", "exact", "bethe", "unranked", "unranked, literal", "log-likelihood, bethe - exact"],
        result,
    )
