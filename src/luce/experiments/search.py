"""Search a model's own space: random search, or successive halving on growing parts of the training queries."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from luce.data.readers.detect import data_format
from luce.data.text.transformer import Text
from luce.errors import LuceError, SettingError
from luce.experiments.desk import Asked, Desk, Watch, open_desk
from luce.experiments.folds import FileParts, Fold, card, data_fingerprint
from luce.experiments.run_folder import model_place, write_record
from luce.experiments.spaces import Space, draw, space_of
from luce.experiments.work import Bench, Failed, Fit, Setup, Trial, Verdict
from luce.metrics.catalog import get
from luce.ranker import Ranker
from luce.result import Result, Sheet, setting_text, sheet_of
from luce.settings import Searching
from luce.spec import accepted
from luce.storage import atomic_write, make_folder, write_container

_FEWEST_QUERIES = 30
"""The first rung of halving trains on no fewer queries than this, where there are so many."""


@dataclass(frozen=True)
class Attempt:
    """One setting at one rung: its metric on validation, fold by fold (None where it failed) and in the mean."""

    number: int
    settings: dict[str, Any]
    rung: int
    share: float
    by_fold: dict[str, float | None]
    seconds: float
    error: str = ""

    @property
    def validation(self) -> float:
        """Mean over folds; NaN where it failed on one."""
        values = list(self.by_fold.values())
        return math.nan if self.error or None in values else float(np.mean([v for v in values if v is not None]))


@dataclass(frozen=True)
class Tuning(Result):
    """What a search gave; `attempts` in the order of rungs and numbers."""

    model: str
    attempts: list[Attempt]
    best: Attempt
    trials: dict[str, Trial]
    """The fit of the best setting on every fold."""
    settings: dict[str, Any]
    cards: dict[str, Any] = field(default_factory=dict)

    @property
    def ranked(self) -> list[Attempt]:
        """Settings that were tried on all training queries, best first."""
        whole = [attempt for attempt in self.attempts if attempt.share >= 1.0 and not attempt.error]
        return _ranked(whole, self.settings["metric"])

    def sheets(self) -> list[Sheet]:
        """The ten best settings."""
        header = ["setting", self.settings["metric"], "settings", "fits, s"]
        rows = [[a.number, a.validation, setting_text(a.settings), f"{a.seconds:.2f}"] for a in self.ranked[:10]]
        return [sheet_of("Best settings", header, rows)]

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """How many fits failed, and why the first did."""
        errors = [attempt.error for attempt in self.attempts if attempt.error]
        return [f"{len(errors)} fits failed and were left out; the first one: {errors[0]}"] if errors else []

    def as_dict(self, command: str | None = None) -> dict[str, Any]:
        """The best settings, and the command that trains with them."""
        return {
            "model": self.model,
            "best": self.best.settings,
            "validation": self.best.validation,
            "by_fold": self.best.by_fold,
            "command": command,
            "failed": sum(bool(attempt.error) for attempt in self.attempts),
            "trials": len({attempt.number for attempt in self.attempts}),
            "settings": self.settings,
        }


def tune(
    folds: Sequence[Fold],
    model: str,
    *,
    trials: int = Searching.trials,
    search: str = Searching.search,
    eta: int = Searching.eta,
    metric: str = "ndcg@10",
    seed: int = 0,
    jobs: int | None = 1,
    out: str | Path | None = None,
    watch: Watch | None = None,
    space: Space | None = None,
    fixed: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
    **conventions: Any,
) -> Tuning:
    """Try `trials` settings of a model and keep the one of the best mean of `metric` on validation over the folds.

    The first setting is the model as it is; the others are drawn from `space` (the model's own), number by number, so
    that more trials with the same seed contain fewer. `search="halving"` gives all settings a small part of the
    training queries, the best of each `eta` of them `eta` times as many, and so on to the last, which get all;
    validation data are the same throughout. `jobs` and `out` are as in `compare`.
    """
    how = accepted(Searching, {"trials": trials, "search": search, "eta": eta})
    setup = Setup(tuple(folds), (), get(metric).name, seed, conventions)
    chosen_space = space_of(model) if space is None else dict(space)
    bench = Bench(setup)
    cards: dict[str, dict[str, Any]] = {}
    for number, fold in enumerate(folds):
        parts = zip(("train", "valid"), bench.parts(number)[:2], strict=True)
        cards[fold.name] = {name: {**card(part), "digest": data_fingerprint(part)} for name, part in parts}
    shared = {**setup.facts, "model": model, "metric": setup.tune_on}
    settings = {
        **shared,
        "notes": setup.notes,
        "space": {name: str(dimension) for name, dimension in chosen_space.items()},
        "fixed": dict(fixed or {}),
        **how,
        **(notes or {}),
    }
    data = [[part["digest"] for part in parts.values()] for parts in cards.values()]
    fewest = min(parts["train"]["queries"] for parts in cards.values())
    plan = rungs(trials, eta, fewest) if search == "halving" else [(trials, 1.0)]
    drawn = [{**(fixed or {}), **draw(chosen_space, seed, number)} for number in range(trials)]
    with open_desk(bench, shared, data, out, jobs, watch) as desk:
        found = _Search(desk, model, drawn).run(plan)
    return Tuning(model, *found, settings, cards)


def rungs(trials: int, eta: int, queries: int) -> list[tuple[int, float]]:
    """How many settings get which share of the training queries, rung by rung.

    >>> rungs(27, 3, 1000)
    [(27, 0.037037037037037035), (9, 0.1111111111111111), (3, 0.3333333333333333), (1, 1.0)]
    >>> rungs(27, 3, 300)
    [(27, 0.1111111111111111), (9, 0.3333333333333333), (3, 1.0)]
    """
    most, steps = max(1.0, queries / _FEWEST_QUERIES), 0
    while eta ** (steps + 1) <= min(trials, most):
        steps += 1
    return [(math.ceil(trials / eta**step), float(eta) ** (step - steps)) for step in range(steps + 1)]


def _ranked(attempts: Sequence[Attempt], metric: str) -> list[Attempt]:
    sign = -1.0 if get(metric).greater_is_better else 1.0
    return sorted(attempts, key=lambda a: (math.isnan(a.validation), sign * a.validation, a.number))


class _Search:
    """Rung after rung of fits."""

    def __init__(self, desk: Desk, model: str, drawn: list[dict[str, Any]]) -> None:
        self.desk, self.model, self.drawn, self.folds = desk, model, drawn, desk.setup.folds
        self.results: dict[tuple[int, int], Trial | Failed] = {}

    def run(self, plan: Sequence[tuple[int, float]]) -> tuple[list[Attempt], Attempt, dict[str, Trial]]:
        """All attempts, the best one, and its fits."""
        numbers: list[int] = list(range(len(self.drawn)))
        attempts: list[Attempt] = []
        for rung, (count, share) in enumerate(plan):
            label = self.model if len(plan) == 1 else f"{self.model}, rung {rung + 1} of {len(plan)}"
            tried = self._rung(numbers[:count], rung, share, label)
            attempts += tried
            numbers = [a.number for a in _ranked([a for a in tried if not a.error], self.desk.setup.tune_on)]
            if not numbers:
                raise LuceError(f"No setting of {self.model} could be fitted; the first one failed: {tried[0].error}")
        best = next(a for a in tried if a.number == numbers[0])
        kept = {f.name: self.results[best.number, i] for i, f in enumerate(self.folds)}
        return attempts, best, {fold: trial for fold, trial in kept.items() if isinstance(trial, Trial)}

    def _rung(self, numbers: list[int], rung: int, share: float, label: str) -> list[Attempt]:
        self.results.clear()
        self.desk.tally.expect(label, len(numbers) * len(self.folds))
        for number in numbers:
            for i, fold in enumerate(self.folds):
                fit = Fit(i, self.model, self.drawn[number], share)
                self.desk.ask(Asked(label, (number, i), f"{fold.name}.{self.model}", fit))
        for (number, i), result in self.desk.results():
            assert not isinstance(result, Verdict)
            self.results[number, i] = result
            if all((number, other) in self.results for other in range(len(self.folds))):
                self.desk.tell(label, self.folds[i].name, self._attempt(number, rung, share))
        return [self._attempt(number, rung, share) for number in numbers]

    def _attempt(self, number: int, rung: int, share: float) -> Attempt:
        results = {f.name: self.results[number, i] for i, f in enumerate(self.folds)}
        by_fold = {fold: r.validation if isinstance(r, Trial) else None for fold, r in results.items()}
        seconds = sum(r.seconds for r in results.values() if isinstance(r, Trial))
        error = next((r.error for r in results.values() if isinstance(r, Failed)), "")
        return Attempt(number, self.drawn[number], rung, share, by_fold, seconds, error)


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
        words += ["--ignore-grades"] if name == "clicks" else []
        if isinstance(value, Text):
            words += ["--query-text", value.query, "--text", ",".join(value.fields)]
            words += ["--text-features", value.features] if value.features != "engine" else []
            words += [] if value.query_features else ["--no-query-features"]
            words += [] if value.corpus is None else ["--corpus", str(value.corpus)]
        elif value is True:
            words.append(option)
        elif isinstance(value, dict):
            words += [option, ",".join(f"{key}={item:g}" for key, item in value.items())]
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [option, str(item)]
    return words


def write_tuning(tuning: Tuning, folder: str | Path, command: str | None) -> list[Path]:
    """Write trials.parquet, the best models and, last, results.json."""
    folder = make_folder(Path(folder))
    models = {fold: model_place(folder, fold, tuning.model) for fold in tuning.trials}
    for fold, trial in tuning.trials.items():
        write_container(folder / models[fold], "ranker", *trial.model)
    with atomic_write(folder / "trials.parquet") as stream:
        pq.write_table(trials_table(tuning), stream)
    record = {
        "settings": tuning.settings,
        "best": _attempt(tuning.best),
        "command": command,
        "models": models,
        "trials": [_attempt(attempt) for attempt in tuning.attempts],
        "data": tuning.cards,
    }
    return [write_record(folder, record), folder / "trials.parquet", *(folder / path for path in models.values())]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    found = {**vars(attempt), "validation": attempt.validation, "seconds": round(attempt.seconds, 4)}
    return {"trial": found.pop("number"), **found}


def trials_table(tuning: Tuning) -> Any:
    """A row a setting, rung and fold; what was drawn has a column each, as text where its values differ in kind."""
    rows = [
        {"trial": a.number, "rung": a.rung, "share": a.share, "fold": fold, "validation": value, "error": a.error}
        | a.settings
        for a in tuning.attempts
        for fold, value in a.by_fold.items()
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
