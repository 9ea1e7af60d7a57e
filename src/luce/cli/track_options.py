"""The options of `luce track`, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from luce.cli.common import check_ending, check_outputs

ENGINES = "auto, exact, bethe, min_factor, unranked, unranked_literal or labelled."


@dataclass(frozen=True)
class TrackOptions:
    """What was heard, from where, and how the target moves and listens."""

    sources: Annotated[
        Path, typer.Option("--sources", help="Sources: source, lat, lon (or x, y)[, offset, start, stop].")
    ]
    signals: Annotated[Path, typer.Option("--signals", help="Signals: time, arrival[, confidence, label].")]
    start: Annotated[
        str, typer.Option("--start", help="First position, and its time if known: lat,lon,date or x,y,time.")
    ]
    sigma: Annotated[float, typer.Option("--sigma", help="Standard deviation of an arrival time, seconds.")]
    step_sd: Annotated[
        str, typer.Option("--step-sd", help="Noise of a step (m per square root of a day on the earth), or auto.")
    ] = "auto"
    speed: Annotated[
        str,
        typer.Option(
            "--speed", help="Speed of the signals (m/s on the earth), auto, or a file: lat, lon, speed[, month or day]."
        ),
    ] = "1500"
    detection: Annotated[float, typer.Option("--detection", help="P_D, probability of hearing a source.")] = 0.9
    clutter_rate: Annotated[
        float | None, typer.Option("--clutter-rate", help="Mean number of clutter signals a step (1 if not given).")
    ] = None
    clutter_probability: Annotated[
        float | None, typer.Option("--clutter-probability", help="P_C in place of the rate: rate / (1 + rate).")
    ] = None
    window: Annotated[
        str | None,
        typer.Option("--window", help="Listening window a,b; from the first to the last arrival if not given."),
    ] = None
    r: Annotated[int | None, typer.Option("--r", help="Signals that the receiver keeps a step; the most seen.")] = None
    keep: Annotated[str, typer.Option("--keep", help="Which it keeps: earliest, strongest or all.")] = "earliest"
    emission_sd: Annotated[
        float,
        typer.Option("--emission-sd", help="Seconds by which all emissions of a step may be shifted, unknown: its sd."),
    ] = 0.0
    engine: Annotated[str, typer.Option("--engine", help=ENGINES)] = "auto"
    end: Annotated[str | None, typer.Option("--end", help="Known last position, as --start.")] = None
    clock: Annotated[
        str | None,
        typer.Option("--clock", help="Seconds the receiver's clock is ahead at the start and at the end: a,b."),
    ] = None
    timescale: Annotated[
        float | None, typer.Option("--timescale", help="Ornstein-Uhlenbeck velocity that forgets itself in this time.")
    ] = None


@dataclass(frozen=True)
class Filtering:
    """How the filter works."""

    particles: Annotated[int, typer.Option("--particles", help="Number of particles.")] = 5000
    smooth: Annotated[bool, typer.Option("--smooth/--no-smooth", help="Smooth after filtering.")] = True
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Look whether the result is to be trusted (a second run).")
    ] = True
    fix_labels: Annotated[bool, typer.Option("--fix-labels", help="Labels of the signals' file bind.")] = False
    fill_gaps: Annotated[bool, typer.Option("--fill-gaps", help="A position also where a step is missing.")] = False


@dataclass(frozen=True)
class Outputs:
    """What is written, and the true path to compare with."""

    truth: Annotated[Path | None, typer.Option("--truth", help="True path, to report the error against it.")] = None
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Track: .csv, .parquet or .nc (CF trajectory).")] = (
        None
    )
    map_out: Annotated[Path | None, typer.Option("--map", help="Picture of the track over the sources.")] = None
    arrivals_out: Annotated[Path | None, typer.Option("--arrivals", help="Picture of the arrivals by label.")] = None

    def check(self) -> None:
        """Refuse files that cannot be written before any work."""
        check_ending(self.out, (".csv", ".parquet", ".nc"))
        for picture in (self.map_out, self.arrivals_out):
            check_ending(picture, (".png", ".svg", ".pdf"))
        check_outputs(self.out, self.map_out, self.arrivals_out)
