"""`luce simulate track`: a target with ranked signals, to try the tracker on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import Report, SeedOption, check_unused


def simulate_track(
    *,
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for sources.csv, signals.csv and truth.csv.")],
    path: Annotated[str, typer.Option("--path", help="straight, spiral, walk or ocean.")] = "straight",
    steps: Annotated[int, typer.Option("--steps", help="Number of steps (days for ocean).")] = 100,
    sources: Annotated[int, typer.Option("--sources", help="Number of sources (ocean has twelve).")] = 10,
    r: Annotated[int, typer.Option("--r", help="Signals that the receiver keeps a step, the earliest.")] = 4,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Standard deviation of an arrival time.")] = None,
    detection: Annotated[
        float | None, typer.Option("--detection", help="P_D, probability of hearing a source.")
    ] = None,
    clutter_rate: Annotated[float, typer.Option("--clutter-rate", help="Mean number of clutter signals a step.")] = 1.0,
    step_sd: Annotated[float | None, typer.Option("--step-sd", help="Noise of a step of walk and ocean.")] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Write the true labels into signals.csv.")] = False,
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Simulate a target among sources, with misses and clutter, and write what its receiver kept."""
    from luce.storage import make_folder
    from luce.track import simulate, write_signals, write_sources
    from luce.track.files import date_text, write_rows

    if path == "ocean":
        check_unused(context, ["sources"], "has no use for the path ocean, which has twelve sources")
    elif path in ("straight", "spiral"):
        check_unused(context, ["step_sd"], f"is the noise of walk and ocean, and the path is {path}")
    world = simulate(
        path, steps=steps, sources=sources, r=r, sigma=sigma, detection=detection, clutter_rate=clutter_rate,
        step_sd=step_sd, random_state=seed,
    )  # fmt: skip
    make_folder(out)
    write_sources(world.sources, out / "sources.csv")
    write_signals(world.signals, out / "signals.csv", labels=labels)
    dated = world.signals.dated
    times = [date_text(t) if dated else repr(float(t)) for t in world.signals.times]
    axes = world.sources.geometry.axes
    write_rows(
        out / "truth.csv",
        {"time": times} | {axis: [repr(float(value)) for value in world.truth[:, a]] for a, axis in enumerate(axes)},
    )
    start = ",".join(f"{value:.6g}" for value in world.start)
    low, high = world.settings["window"]
    fixed = world.settings["detection"]
    p_d = 0.9 if callable(fixed) else fixed
    # The walk of the model has the noise of its own steps; a line needs room for its steps, three times over.
    hint = (
        f"luce track --sources {out / 'sources.csv'} --signals {out / 'signals.csv'} --start={start} "
        f"--sigma {world.settings['sigma']:g} --speed {world.settings['speed']:g} --detection {p_d:g} "
        f"--clutter-rate {clutter_rate:g} --window {low:g},{high:g} --r {r} --step-sd auto --out track.csv"
    )
    report.result(
        f"{steps} steps, {len(world.signals.arrivals)} signals of {len(world.sources)} sources in {out}\ntry: {hint}",
        {
            "steps": steps,
            "signals": len(world.signals.arrivals),
            "sources": len(world.sources),
            "start": [float(value) for value in world.start],
            "files": [str(out / name) for name in ("sources.csv", "signals.csv", "truth.csv")],
        },
    )
