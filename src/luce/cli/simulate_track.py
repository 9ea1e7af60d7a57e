"""`luce simulate track`: a target with ranked signals, to try the tracker on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from luce.cli.common import Report, SeedOption, check_unused
from luce.cli.options import flag


@dataclass(frozen=True)
class _World:
    """What is simulated."""

    path: str = flag("straight", "straight, spiral, walk or ocean.", "--path")
    steps: int = flag(100, "Number of steps (days for ocean).", "--steps")
    sources: int = flag(10, "Number of sources (ocean has twelve).", "--sources")
    r: int = flag(4, "Signals that the receiver keeps a step, the earliest.", "--r")
    sigma: float | None = flag(None, "Standard deviation of an arrival time.", "--sigma")
    detection: float | None = flag(None, "P_D, probability of hearing a source.", "--detection")
    clutter_rate: float = flag(1.0, "Mean number of clutter signals a step.", "--clutter-rate")
    step_sd: float | None = flag(None, "Noise of a step of walk and ocean.", "--step-sd")


def simulate_track(
    *,
    context: typer.Context,
    out: Path = typer.Option(..., "--out", "-o", help="Folder for sources.csv, signals.csv and truth.csv."),
    world: _World,
    labels: bool = typer.Option(False, "--labels", help="Write the true labels into signals.csv."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Simulate a target among sources, with misses and clutter, and write what its receiver kept."""
    from luce.storage import make_folder
    from luce.track import simulate, write_signals, write_sources
    from luce.track.files import date_text, write_rows

    if world.path == "ocean":
        check_unused(context, ["sources"], "has no use for the path ocean, which has twelve sources")
    elif world.path in ("straight", "spiral"):
        check_unused(context, ["step_sd"], f"is the noise of walk and ocean, and the path is {world.path}")
    drawn = simulate(**vars(world), random_state=seed)
    make_folder(out)
    write_sources(drawn.sources, out / "sources.csv")
    write_signals(drawn.signals, out / "signals.csv", labels=labels)
    dated = drawn.signals.dated
    times = [date_text(t) if dated else repr(float(t)) for t in drawn.signals.times]
    axes = drawn.sources.geometry.axes
    write_rows(
        out / "truth.csv",
        {"time": times} | {axis: [repr(float(value)) for value in drawn.truth[:, a]] for a, axis in enumerate(axes)},
    )
    start = ",".join(f"{value:.6g}" for value in drawn.start)
    low, high = drawn.settings["window"]
    fixed = drawn.settings["detection"]
    p_d = 0.9 if callable(fixed) else fixed
    # The walk of the model has the noise of its own steps; a line needs room for its steps, three times over.
    hint = (
        f"luce track --sources {out / 'sources.csv'} --signals {out / 'signals.csv'} --start={start} "
        f"--sigma {drawn.settings['sigma']:g} --speed {drawn.settings['speed']:g} --detection {p_d:g} "
        f"--clutter-rate {world.clutter_rate:g} --window {low:g},{high:g} --r {world.r} --step-sd auto --out track.csv"
    )
    report.result(
        f"{world.steps} steps, {len(drawn.signals.arrivals)} signals of {len(drawn.sources)} sources in {out}\n"
        f"try: {hint}",
        {
            "steps": world.steps,
            "signals": len(drawn.signals.arrivals),
            "sources": len(drawn.sources),
            "start": [float(value) for value in drawn.start],
            "files": [str(out / name) for name in ("sources.csv", "signals.csv", "truth.csv")],
        },
    )
