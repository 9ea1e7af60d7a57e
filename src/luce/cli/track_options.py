"""The options of `luce track`, in groups."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from luce.cli.common import check_ending, check_outputs
from luce.cli.options import flag

ENGINES = "auto, exact, bethe, min_factor, unranked, unranked_literal or labelled."


@dataclass(frozen=True)
class TrackOptions:
    """What was heard, from where, and how the target moves and listens."""

    sources: Path = flag(MISSING, "Sources: source, lat, lon (or x, y)[, offset, start, stop].", "--sources")
    signals: Path = flag(MISSING, "Signals: time, arrival[, confidence, label].", "--signals")
    start: str = flag(MISSING, "First position, and its time if known: lat,lon,date or x,y,time.", "--start")
    sigma: float = flag(MISSING, "Standard deviation of an arrival time, seconds.", "--sigma")
    step_sd: str = flag("auto", "Noise of a step (m per square root of a day on the earth), or auto.", "--step-sd")
    speed: str = flag(
        "1500", "Speed of the signals (m/s on the earth), auto, or a file: lat, lon, speed[, month or day].", "--speed"
    )
    detection: float = flag(0.9, "P_D, probability of hearing a source.", "--detection")
    clutter_rate: float | None = flag(None, "Mean number of clutter signals a step (1 if not given).", "--clutter-rate")
    clutter_probability: float | None = flag(
        None, "P_C in place of the rate: rate / (1 + rate).", "--clutter-probability"
    )
    window: str | None = flag(
        None, "Listening window a,b; from the first to the last arrival if not given.", "--window"
    )
    r: int | None = flag(None, "Signals that the receiver keeps a step; the most seen.", "--r")
    keep: str = flag("earliest", "Which it keeps: earliest, strongest or all.", "--keep")
    emission_sd: float = flag(
        0.0, "Seconds by which all emissions of a step may be shifted, unknown: its sd.", "--emission-sd"
    )
    engine: str = flag("auto", ENGINES, "--engine")
    end: str | None = flag(None, "Known last position, as --start.", "--end")
    clock: str | None = flag(None, "Seconds the receiver's clock is ahead at the start and at the end: a,b.", "--clock")
    timescale: float | None = flag(None, "Ornstein-Uhlenbeck velocity that forgets itself in this time.", "--timescale")


@dataclass(frozen=True)
class Filtering:
    """How the filter works."""

    particles: int = flag(5000, "Number of particles.", "--particles")
    smooth: bool = flag(True, "Smooth after filtering.", "--smooth/--no-smooth")
    check: bool = flag(True, "Look whether the result is to be trusted (a second run).", "--check/--no-check")
    fix_labels: bool = flag(False, "Labels of the signals' file bind.", "--fix-labels")
    fill_gaps: bool = flag(False, "A position also where a step is missing.", "--fill-gaps")


@dataclass(frozen=True)
class Outputs:
    """What is written, and the true path to compare with."""

    truth: Path | None = flag(None, "True path, to report the error against it.", "--truth")
    out: Path | None = flag(None, "Track: .csv, .parquet or .nc (CF trajectory).", "--out", "-o")
    map_out: Path | None = flag(None, "Picture of the track over the sources.", "--map")
    arrivals_out: Path | None = flag(None, "Picture of the arrivals by label.", "--arrivals")

    def check(self) -> None:
        """Refuse files that cannot be written before any work."""
        check_ending(self.out, (".csv", ".parquet", ".nc"))
        for picture in (self.map_out, self.arrivals_out):
            check_ending(picture, (".png", ".svg", ".pdf"))
        check_outputs(self.out, self.map_out, self.arrivals_out)
