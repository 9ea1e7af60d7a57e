"""A search on disk, and its best setting as a command line."""

from __future__ import annotations

import json
import shlex
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from luce.data.readers.detect import data_format
from luce.errors import SettingError
from luce.experiments.folds import FileParts, Fold
from luce.experiments.run_folder import finite
from luce.experiments.search import Attempt, Tuning
from luce.experiments.state import safe_name
from luce.ranker import Ranker
from luce.storage import atomic_write, make_folder, write_container


def train_command(tuning: Tuning, fold: Fold, out: str | Path = "model.luce") -> str:
    """The `luce train` that gives the best model of the search on a fold that was read from files."""
    parts = fold.load
    if not isinstance(parts, FileParts):
        raise SettingError(f"The fold {fold.name!r} was not read from files; no command line can name its data.")
    words = ["luce", "train", str(parts.train)]
    if parts.valid is not None:
        words += ["--valid", str(parts.valid)]
        if data_format(parts.valid) == "letor":
            words += ["--n-features", str(tuning.cards[fold.name]["train"]["features"])]
    else:
        words += ["--hold-out", "0.2"]
    words += ["--model", tuning.model, "--metric", tuning.settings["metric"]]
    own = signature(Ranker).parameters
    for place, value in tuning.best.settings.items():
        if place in own:
            words += [f"--{place.replace('_', '-')}", str(value)]
        else:
            part, _, setting = place.rpartition("__")
            words += [f"--{part or 'trainer'}-setting", f"{setting}={value}"]
    words += ["--seed", str(tuning.settings["seed"]), *_reading(parts.options), "--out", str(out)]
    return shlex.join(words)


def _reading(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, dict):
            words += [option, ",".join(f"{key}={item:g}" for key, item in value.items())]
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [option, str(item)]
    return words


def write_tuning(tuning: Tuning, folder: str | Path, command: str | None) -> list[Path]:
    """Write trials.parquet, the best models and, last, results.json."""
    from luce import __version__

    folder = make_folder(Path(folder))
    models = {}
    for fold, trial in tuning.trials.items():
        models[fold] = f"models/{safe_name(fold)}/{safe_name(tuning.model)}.luce"
        make_folder((folder / models[fold]).parent)
        write_container(folder / models[fold], "ranker", *trial.model)
    with atomic_write(folder / "trials.parquet") as stream:
        pq.write_table(trials_table(tuning), stream)
    record = {
        "luce": __version__,
        "settings": tuning.settings,
        "best": _attempt(tuning.best),
        "command": command,
        "models": models,
        "trials": [_attempt(attempt) for attempt in tuning.attempts],
        "data": tuning.cards,
    }
    with atomic_write(folder / "results.json", "w") as stream:
        json.dump(finite(record), stream, indent=1, allow_nan=False, default=str)
    return [folder / "results.json", folder / "trials.parquet", *(folder / path for path in models.values())]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "trial": attempt.number,
        "rung": attempt.rung,
        "share": attempt.share,
        "settings": attempt.settings,
        "validation": attempt.validation,
        "by_fold": attempt.by_fold,
        "seconds": round(attempt.seconds, 4),
        "error": attempt.error,
    }


def trials_table(tuning: Tuning) -> Any:
    """A row a setting, rung and fold; what was drawn has a column each, as text where its values differ in kind."""
    rows = [
        {
            "trial": attempt.number,
            "rung": attempt.rung,
            "share": attempt.share,
            "fold": fold,
            "validation": value,
            "error": attempt.error,
            **attempt.settings,
        }
        for attempt in tuning.attempts
        for fold, value in attempt.by_fold.items()
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1 or not kinds <= {int, float, bool, str}:
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)
