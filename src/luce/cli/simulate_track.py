"""`luce simulate track`: a target with ranked signals, to try the tracker on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import Report, SeedOption, check_unused


@dataclass(frozen=True)
class _World:
    """What is simulated."""

    path: Annotated[str, typer.Option("--path", help="straight, spiral, walk or ocean.")] = "straight"
    steps: Annotated[int, typer.Option("--steps", help="Number of steps (days for ocean).")] = 100
    sources: Annotated[int, typer.Option("--sources", help="Number of sources (ocean has twelve).")] = 10
    r: Annotated[int, typer.Option("--r", help="Signals that the receiver keeps a step, the earliest.")] = 4
    sigma: Annotated[float | None, typer.Option("--sigma", help="Standard deviation of an arrival time.")] = None
    detection: Annotated[float | None, typer.Option("--detection", help="P_D, probability of hearing a source.")] = None
    clutter_rate: Annotated[float, typer.Option("--clutter-rate", help="Mean number of clutter signals a step.")] = 1.0
    step_sd: Annotated[float | None, typer.Option("--step-sd", help="Noise of a step of walk and ocean.")] = None


def simulate_track(
    *,
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for sources.csv, signals.csv and truth.csv.")],
    world: _World,
    labels: Annotated[bool, typer.Option("--labels", help="Write the true labels into signals.csv.")] = False,
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
