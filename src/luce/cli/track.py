"""`luce track`: follow a target from its ranked signals."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luce.cli.common import Report, SeedOption, number_from
from luce.cli.options import Group, flag
from luce.display import check_picture, finished
from luce.errors import LuceWarning, SettingError
from luce.result import check_ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luce.track import Signals, Sources, Track


ENGINES = "auto, exact, bethe, min_factor, unranked, unranked_literal or labelled."


class TrackOptions(Group):
    """What was heard, from where, and how the target moves and listens."""

    sources: Path = flag(MISSING, "Sources: source, lat, lon (or x, y)[, offset, start, stop].")
    signals: Path = flag(MISSING, "Signals: time, arrival[, confidence, label].")
    start: str = flag(MISSING, "First position, and its time if known: lat,lon,date or x,y,time.")
    sigma: float = flag(MISSING, "Standard deviation of an arrival time, seconds.")
    step_sd: str = flag("auto", "Noise of a step (m per square root of a day on the earth), or auto.")
    speed: str = flag(
        "1500", "Speed of the signals (m/s on the earth), auto, or a file: lat, lon, speed[, month or day]."
    )
    detection: float = flag(0.9, "P_D, probability of hearing a source.")
    clutter_rate: float | None = flag(None, "Mean number of clutter signals a step (1 if not given).")
    clutter_probability: float | None = flag(None, "P_C in place of the rate: rate / (1 + rate).")
    window: str | None = flag(None, "Listening window a,b; from the first to the last arrival if not given.")
    r: int | None = flag(None, "Signals that the receiver keeps a step; the most seen.")
    keep: str = flag("earliest", "Which it keeps: earliest, strongest or all.")
    emission_sd: float = flag(0.0, "Seconds by which all emissions of a step may be shifted, unknown: its sd.")
    engine: str = flag("auto", ENGINES)
    end: str | None = flag(None, "Known last position, as --start.")
    clock: str | None = flag(None, "Seconds the receiver's clock is ahead at the start and at the end: a,b.")
    timescale: float | None = flag(None, "Ornstein-Uhlenbeck velocity that forgets itself in this time.")


class Filtering(Group):
    """How the filter works."""

    particles: int = flag(5000, "Number of particles.")
    smooth: bool = flag(True, "Smooth after filtering.")
    check: bool = flag(True, "Look whether the result is to be trusted (a second run).")
    fix_labels: bool = flag(False, "Labels of the signals' file bind.")
    fill_gaps: bool = flag(False, "A position also where a step is missing.")


class Outputs(Group):
    """What is written, and the true path to compare with."""

    truth: Path | None = flag(None, "True path, to report the error against it.")
    out: Path | None = flag(None, "Track: .csv, .parquet or .nc (CF trajectory).", "--out", "-o")
    map_out: Path | None = flag(None, "Picture of the track over the sources.", "--map")
    arrivals_out: Path | None = flag(None, "Picture of the arrivals by label.", "--arrivals")

    def check(self) -> None:
        """Refuse files that cannot be written before any work."""
        check_ending(self.out, (".csv", ".parquet", ".nc"))
        for picture in (self.map_out, self.arrivals_out):
            check_picture(picture)


def track(
    *,
    problem: TrackOptions,
    filtering: Filtering,
    outputs: Outputs,
    checkpoint: str | None = typer.Option(
        None,
        "--checkpoint",
        help="Save the filter every 50 steps: a file, or a folder/ that the same command goes on from.",
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on from the checkpoint's file."),
    seed: SeedOption = 0,
    report: Report,
) -> None:
    """Follow a target that hears unlabelled signals from known sources, earliest first."""
    from luce.track import follow, read_signals, read_sources
    from luce.track.checkpoint import checkpoint_file
    from luce.track.plots import plot_arrivals, plot_track

    outputs.check()
    if checkpoint is not None:
        checkpoint_file(checkpoint, resume)
    with _remarks_of(report):
        places, heard = read_sources(problem.sources), read_signals(problem.signals)
        true_path = _true_path(outputs.truth, heard, places)
        if filtering.fill_gaps:
            heard = heard.fill_gaps()
        settings = _settings(report, heard, problem)
        settings |= _ends(places, heard, problem)
        settings |= {"engine": problem.engine, "fix_labels": filtering.fix_labels}
        settings |= _tuned(report, heard, places, settings, problem, seed)
        settings |= {name: getattr(filtering, name) for name in ("particles", "smooth", "check")}
        settings["random_state"] = seed
        with report.progress("track") as progress:
            found = follow(heard, places, progress=progress, checkpoint=checkpoint, resume=resume, **settings)
    for remark in found.remarks:
        report.say(remark)
    if outputs.out is not None:
        found.save(outputs.out)
    if outputs.map_out is not None:
        finished(plot_track(found, truth=None if true_path is None else true_path[1]), outputs.map_out)
    if outputs.arrivals_out is not None:
        finished(plot_arrivals(found.signals, found), outputs.arrivals_out)
    _tell(report, found, true_path, outputs.out)


@contextmanager
def _remarks_of(report: Report) -> Iterator[None]:
    """Warnings for the user become remarks; others pass."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LuceWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, LuceWarning):
            report.say(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _numbers(text: str, name: str, least: int, most: int) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not least <= len(parts) <= most or not all(parts):
        many = f"{least}" if least == most else f"{least} to {most}"
        raise SettingError(f"{name} is {text!r}; give {many} values with commas between them.")
    return parts


def _place(text: str, name: str, dimensions: int) -> tuple[list[float], float | None]:
    from luce.data.column import parse_time

    parts = _numbers(text, name, dimensions, dimensions + 1)
    when = parse_time(parts[dimensions]) if len(parts) > dimensions else None
    if len(parts) > dimensions and when is None:
        what = "neither a number nor a date such as 2009-01-23 or 2009-01-23T12:00:00+02:00"
        raise SettingError(f"{name}: the time {parts[dimensions]!r} is {what}.")
    return [number_from(name, part) for part in parts[:dimensions]], None if when is None else when[0]


def _settings(report: Report, heard: Signals, problem: TrackOptions) -> dict[str, Any]:
    """The observation model; what was not given comes from the data, and is said."""
    rate, probability = problem.clutter_rate, problem.clutter_probability
    if probability is not None:
        if rate is not None:
            raise SettingError("Give --clutter-rate or --clutter-probability, not both.")
        if not 0 <= probability < 1:
            raise SettingError(f"--clutter-probability is {probability:g}; it must be at least 0 and below 1.")
        rate = probability / (1 - probability)
    window = _window(report, heard, problem.window)
    if problem.r is None and problem.keep != "all":
        report.say(f"The receiver's room was not given; the most signals of a step are {heard.counts.max(initial=0)}.")
    known = {name: getattr(problem, name) for name in ("sigma", "detection", "r", "keep", "emission_sd")}
    return known | {"clutter_rate": 1.0 if rate is None else rate, "window": window}


def _window(report: Report, heard: Signals, given: str | None) -> tuple[float, float]:
    """The listening window; without one, what the arrivals span."""
    if given is not None:
        low, high = (number_from("--window", part) for part in _numbers(given, "--window", 2, 2))
        return low, high
    if len(heard.arrivals) == 0:
        raise SettingError("There are no arrivals to take the window from; give --window a,b.")
    low, high = float(heard.arrivals.min()), float(heard.arrivals.max())
    low = low if low < high else high - 1.0
    report.say(f"The window was not given; the arrivals span {low:g} to {high:g}.")
    return low, high


def _ends(places: Sources, heard: Signals, problem: TrackOptions) -> dict[str, Any]:
    """Start, end and clock, as far as they are known."""
    dimensions = places.positions.shape[1]
    first, when = _place(problem.start, "--start", dimensions)
    result: dict[str, Any] = {"start": first, "start_time": when}
    if problem.end is not None:
        result["end"], result["end_time"] = _place(problem.end, "--end", dimensions)
    if problem.clock is not None:
        from luce.track import Receiver

        ahead, ahead_later = (number_from("--clock", part) for part in _numbers(problem.clock, "--clock", 2, 2))
        launch = float(heard.times[0]) if when is None else when
        recovery = result.get("end_time") or float(heard.times[-1])
        result["receiver"] = Receiver(ahead, ahead_later, launch=launch, recovery=max(recovery, launch + 1e-9))
    return result


def _tuned(
    report: Report, heard: Signals, places: Sources, settings: dict[str, Any], problem: TrackOptions, seed: int
) -> dict[str, Any]:
    """Dynamics and speed; `auto` tries a grid and takes the highest marginal likelihood."""
    import numpy as np

    from luce.track import OrnsteinUhlenbeck, RandomWalk, tune
    from luce.track.follow import step_grid

    step_sd, speed, timescale = problem.step_sd, problem.speed, problem.timescale
    grid: dict[str, Any] = {}
    if step_sd == "auto":
        grid["sd"] = step_grid(places)
    if speed == "auto":
        grid["speed"] = np.linspace(1440, 1540, 11) if places.geometry.unit else np.geomspace(0.5, 2, 9)
    chosen: dict[str, Any] = {}
    if step_sd != "auto":
        sd = number_from("--step-sd", step_sd)
        chosen["dynamics"] = RandomWalk(sd) if timescale is None else OrnsteinUhlenbeck(sd, timescale)
    elif timescale is not None:
        raise SettingError("--step-sd auto tunes a random walk; give the number with --timescale.")
    if speed != "auto":
        chosen["speed"] = _speed(report, speed, places)
    if not grid:
        return chosen
    with report.progress("tune") as progress:
        found = tune(heard, places, grid, random_state=seed, progress=progress, **settings, **chosen)
    report.say("By marginal likelihood: " + ", ".join(f"{name} {value:.4g}" for name, value in found.best.items()))
    for note in found.notes:
        report.say(note)
    if "sd" in found.best:
        chosen["dynamics"] = RandomWalk(found.best["sd"])
    if "speed" in found.best:
        chosen["speed"] = found.best["speed"]
    return chosen


def _speed(report: Report, text: str, places: Sources) -> Any:
    """A number, or the grid in a file; sources outside of the grid are said."""
    from luce.track import read_speed

    try:
        return float(text)
    except ValueError:
        if not Path(text).exists():
            message = f"--speed is {text!r}; give a number, auto, or the file of a grid (lat, lon, speed[, month])."
            raise SettingError(message) from None
    grid = read_speed(text)
    if beyond := grid.outside(places.positions):
        report.say(f"{beyond} of {len(places)} sources lie outside of the grid of speeds; its edge counts there.")
    return grid


def _true_path(truth: Path | None, heard: Signals, places: Sources) -> Any:
    """The true path, if there is one; refused before any work where it cannot be compared with."""
    if truth is None:
        return None
    import numpy as np

    from luce.track import read_track

    found = read_track(truth)
    if not np.isin(heard.times, found[0]).any():
        raise SettingError(f"{truth} has no time in common with the signals, so that no error can be measured.")
    if found[1].shape[1] != places.positions.shape[1]:
        axes = places.positions.shape[1]
        raise SettingError(f"{truth} has {found[1].shape[1]} coordinates a position, and the sources have {axes}.")
    return found


def _tell(report: Report, found: Track, true_path: Any, out: Path | None) -> None:
    lines, machine = found.lines, found.as_dict()
    if true_path is not None:
        errors = found.against(*true_path)
        machine |= errors
        lines.append(
            f"error against the truth: median {errors['median_error']:.4g}, rms {errors['rms_error']:.4g} "
            f"{found.geometry.unit or 'units'}; 90% ellipses hold it at {errors['coverage']:.0%} of the steps"
        )
    if out is not None:
        lines.append(f"written to {out}")
    report.result("\n".join(lines), machine)
