"""Checkpoints of a long filter run: two files are kept, so that a torn one costs a few steps and no more."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from luce.errors import LuceWarning, ModelFormatError
from luce.storage import check_output, make_folder, read_container, write_container
from luce.track.filter import Filter, State, TrackingProblem

_BLOCKS = [block.name for block in fields(State) if block.name not in ("labels", "step")]


_PLAIN = ("speed", "clutter_rate", "window", "r", "keep", "early", "emission_sd")


def fingerprint(problem: TrackingProblem) -> str:
    """A digest of signals, sources and settings: a run is resumed with what it was begun with."""
    digest = hashlib.sha256()
    signals, sources = problem.signals, problem.sources
    arrays = [getattr(signals, name) for name in ("times", "arrivals", "offsets", "confidence")]
    arrays += [getattr(sources, name) for name in ("positions", "offsets", "start", "stop", "drift")]
    for array in (*arrays, problem.start, problem.end):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    labels = [] if signals.labels is None else [str(label) for label in signals.labels]
    reception = problem.reception
    settings = [
        labels,
        type(sources.geometry).__name__,
        *(_text(v) for v in (reception.sigma, reception.detection)),
        *(getattr(reception, name) for name in _PLAIN),
        repr(problem.dynamics),
        *(getattr(problem, name) for name in ("engine", "start_time", "start_sd", "end_time", "end_sd")),
        *(problem.particles, problem.threshold, problem.widen, problem.fix_labels),
    ]
    digest.update(json.dumps(settings, default=str).encode())
    return digest.hexdigest()


def _text(value: Any) -> str:
    return getattr(value, "__qualname__", "function") if callable(value) else repr(np.asarray(value).tolist())


def checkpoint_file(given: str | Path, resume: bool) -> tuple[Path, bool]:
    """Where the filter is kept, and whether to go on from there.

    A file is gone on from where `resume` says so. A folder (one that exists, or a name that ends in /) holds the
    checkpoints of one run: it is made where it is missing, and the same command goes on from what is in it.
    """
    path = Path(given)
    if not (path.is_dir() or str(given).endswith("/")):
        return check_output(path), resume
    file = check_output(make_folder(path) / "track.luce")
    for torn in path.glob(".track.luce.*.part"):
        torn.unlink(missing_ok=True)  # what a process was writing when it was killed
    return file, file.exists() or _previous(file).exists()


def save_checkpoint(path: Path, run: Filter) -> None:
    """Write the filter's state and its random numbers' state; the file before becomes `path`.previous."""
    state, done = run.state, run.state.step
    arrays = {name: getattr(state, name)[:done] for name in _BLOCKS}
    sizes = [len(shares) for shares in state.labels]
    columns = len(run.problem.sources) + 1
    arrays["labels"] = np.concatenate([np.zeros((0, columns)), *state.labels])
    arrays["label_sizes"] = np.array(sizes, dtype=np.int64)
    settings = {
        "what": "track",
        "step": done,
        "fingerprint": fingerprint(run.problem),
        "generator": run.rng.bit_generator.state,
    }
    if path.exists():
        os.replace(path, _previous(path))
    write_container(path, "checkpoint", settings, arrays)


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def load_checkpoint(path: Path, problem: TrackingProblem, rng: np.random.Generator) -> Filter:
    """The filter where the newest readable checkpoint left it; a damaged one is told and the one before is used."""
    found = [candidate for candidate in (path, _previous(path)) if candidate.exists()]
    if not found:
        raise ModelFormatError(f"There is no checkpoint {path}; start without resume.")
    trouble: ModelFormatError | None = None
    for candidate in found:
        try:
            run = _read(candidate, problem, rng)
        except ModelFormatError as error:
            trouble = error
            continue
        if trouble is not None:
            warnings.warn(f"{trouble} The checkpoint before it, {candidate}, is used.", LuceWarning, stacklevel=3)
        return run
    assert trouble is not None
    raise trouble


def _read(path: Path, problem: TrackingProblem, rng: np.random.Generator) -> Filter:
    content = read_container(path, "checkpoint")
    settings, arrays = content.settings, content.arrays
    wanted = {*_BLOCKS, "labels", "label_sizes"}
    if settings.get("what") != "track" or set(arrays) != wanted:
        raise ModelFormatError(f"{path} is a checkpoint, but not of a track.")
    if settings.get("fingerprint") != fingerprint(problem):
        raise ModelFormatError(
            f"{path} was made with other signals, sources or settings; resume with the same or start anew."
        )
    state, done = State.empty(problem), settings.get("step")
    if type(done) is not int or not 0 <= done <= len(problem.signals) or len(arrays["label_sizes"]) != done:
        raise ModelFormatError(f"{path} has an impossible step, {done!r}.")
    for name in _BLOCKS:
        block = getattr(state, name)
        if arrays[name].shape != block[:done].shape or arrays[name].dtype != block.dtype:
            raise ModelFormatError(f"{path}: the array {name!r} has shape {arrays[name].shape}.")
        block[:done] = arrays[name]
    ends = np.cumsum(arrays["label_sizes"])
    if np.any(arrays["label_sizes"] != problem.signals.counts[:done]) or len(arrays["labels"]) != sum(ends[-1:]):
        raise ModelFormatError(f"{path}: its labels do not belong to these signals.")
    state.labels = [part.copy() for part in np.split(arrays["labels"], ends[:-1])] if done else []
    state.step = done
    try:
        rng.bit_generator.state = settings["generator"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{path} has no usable state of the random numbers.") from error
    return Filter(problem, rng, state)
