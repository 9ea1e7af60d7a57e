"""Compare models over folds: tune on validation, evaluate on test, keep every query's value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.groups import document_names
from luce.data.statements import position_grades
from luce.errors import DataError, SettingError
from luce.experiments.comparison import Failure, JudgedRows, ModelComparison, Outcome
from luce.experiments.desk import Asked, Desk, Tally, Watch, open_desk
from luce.experiments.estimators import check_estimator_like
from luce.experiments.folds import Fold, card, data_fingerprint, together
from luce.experiments.work import SCORES_ONLY, Bench, Fit, Judge, Setup, Task, Trial, Verdict, is_better
from luce.metrics.catalog import get
from luce.systems import settings_grid

Report = Callable[[str, str, str], None]
"""Told (fold, model, what happens)."""


@dataclass(frozen=True)
class Candidate:
    """A model and the settings among which validation chooses: every combination of `grid`, or those that it lists."""

    name: str
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: Any = None
    """The complete system behind it, where `name` is another one; or an estimator with fit and predict."""

    @classmethod
    def named(cls, name: str, model: Any = ...) -> Candidate:
        """A complete system with its own grid, by its name or another one; or an estimator as it is."""
        model = name if model is ... else model
        if isinstance(model, str):
            return cls(name, settings_grid(model), system=model)
        return cls(name, {}, system=check_estimator_like(name, model))

    def choices(self) -> list[dict[str, Any]]:
        """All settings of the grid, in a fixed order."""
        if not isinstance(self.grid, Mapping):
            return [dict(setting) for setting in self.grid]
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]


def compare(
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    metrics: Sequence[str] = ("ndcg@10", "ndcg@1", "map"),
    *,
    tune_on: str = "ndcg@10",
    seed: int = 0,
    jobs: int | None = 1,
    out: str | Path | None = None,
    report: Report | None = None,
    watch: Watch | None = None,
    notes: Mapping[str, Any] | None = None,
    **conventions: Any,
) -> ModelComparison:
    """Fit every candidate on every fold with each setting of its grid; validation chooses, test judges.

    Validation and test use the same `conventions` (see `luce.evaluate`). The same seed gives the same numbers,
    whatever the number of `jobs`: more than one work in processes of their own, so that a script that asks for them
    needs the usual `if __name__ == "__main__":`; None takes as many as there are cores, once the work turns out long
    enough. With a folder `out`, finished work is kept in `out/state`, and the same call after an interruption goes on
    from there (`luce.experiments.write_run` writes the results beside it). A setting that fails is noted in `failures`
    and the rest goes on. `notes` are kept in the settings as they are.
    """
    wanted = _checked(candidates, metrics)
    setup = Setup(tuple(folds), tuple(wanted), get(tune_on).name, seed, conventions)
    bench = Bench(setup)
    cards, tests, prints = _survey(bench)
    settings = {
        **setup.facts,
        "notes": setup.notes,
        "metrics": wanted,
        "tune_on": setup.tune_on,
        "models": [c.name for c in candidates],
        "grids": {c.name: c.choices() for c in candidates},
        "fixed": {c.name: dict(c.settings) for c in candidates},
        **(notes or {}),
    }
    # Models and metrics may be added later.
    shared = {**setup.facts, "tune_on": setup.tune_on}
    told = _watched(report, settings["grids"], watch)
    with open_desk(bench, shared, prints, out, jobs, told) as desk:
        contest = _Contest(desk, candidates, tests)
        contest.run()
    return ModelComparison(contest.outcomes(), wanted, settings, contest.failures(), cards, tests)


def _watched(report: Report | None, grids: Mapping[str, Sequence[Any]], watch: Watch | None) -> Watch | None:
    """Tells who reports of the first setting of every model and fold that is begun, and who watches of everything."""
    if report is None:
        return watch
    begun = set()

    def told(tally: Tally, model: str, fold: str, result: Any) -> None:
        if result is None and (fold, model) not in begun:
            begun.add((fold, model))
            report(fold, model, f"{len(grids[model])} settings")
        if watch is not None:
            watch(tally, model, fold, result)

    return told


def _checked(candidates: Sequence[Candidate], metrics: Sequence[str]) -> list[str]:
    """The metrics in their registered spelling."""
    wanted = list(dict.fromkeys(get(name).name for name in metrics))
    for what, named in (("model", candidates), ("metric", wanted)):
        if not named:
            raise SettingError(f"A comparison needs at least one {what}, and none was named; name some.")
    names = [candidate.name for candidate in candidates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"The model {twice!r} was named twice; name every model once.")
    return wanted


def _survey(bench: Bench) -> tuple[dict[str, Any], dict[str, JudgedRows], list[list[str]]]:
    """Look at all folds before any work: cards, test rows, fingerprints; test parts must not share queries."""
    cards: dict[str, Any] = {"folds": {}}
    tests: dict[str, JudgedRows] = {}
    prints = []
    owner: dict[str, str] = {}
    for number, fold in enumerate(bench.setup.folds):
        if fold.name in tests:
            raise DataError(f"Two folds are named {fold.name!r}; give every fold a name of its own.")
        parts = bench.parts(number)
        ids = [str(query) for query in parts[2].query_ids]
        shared = next((query for query in ids if query in owner), None)
        if shared is not None:
            raise DataError(
                f"Query {shared} is a test query of both {owner[shared]} and {fold.name}; the test parts of different "
                "folds must not share queries, or tests of significance would count them twice."
            )
        owner |= dict.fromkeys(ids, fold.name)
        cards["folds"][fold.name] = {
            name: card(part) for name, part in zip(("train", "valid", "test"), parts, strict=True)
        }
        grades = parts[2].y if parts[2].judges is None else position_grades(parts[2].judges, parts[2].offsets)
        tests[fold.name] = JudgedRows(parts[2].offsets, ids, document_names(parts[2]), grades)
        prints.append([data_fingerprint(part) for part in parts])
    counted = list(cards["folds"].values())
    covers, covered = f"the test parts of {len(counted)} folds", [parts["test"] for parts in counted]
    if len(counted) == 1:
        covers, covered = "train, valid and test", list(counted[0].values())
    cards["overall"] = {"covers": covers, **together(covered)}
    return cards, tests, prints


@dataclass
class _Entry:
    """One candidate on one fold: its settings, what each gave, and what was chosen of them."""

    fold: int
    candidate: Candidate
    choices: list[dict[str, Any]]
    trials: dict[int, Trial] = field(default_factory=dict)
    """By the place in the grid."""
    failures: dict[int, Failure] = field(default_factory=dict)
    """The same; the last one is that of the chosen model."""
    best: Trial | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    verdict: Verdict | None = None

    def fit(self, choice: Mapping[str, Any]) -> Fit:
        """The piece of work of one setting."""
        candidate = self.candidate
        return Fit(self.fold, candidate.system or candidate.name, {**candidate.settings, **choice})

    def choose(self, metric: str) -> None:
        """Keep the best trial alone; of equals, the one that comes first in the grid, whichever ended first."""
        for rank, trial in sorted(self.trials.items()):
            if self.best is None or is_better(trial.validation, self.best.validation, metric):
                self.best, self.chosen = trial, self.choices[rank]
        self.seconds = float(np.median([trial.seconds for trial in self.trials.values()]))
        self.trials.clear()

    def outcome(self, fold: str, query_ids: list[str]) -> Outcome:
        """What came of it, once it was judged."""
        assert self.best is not None
        assert self.verdict is not None
        model = None if SCORES_ONLY in self.best.model[0] else self.best.model
        found = (self.chosen, self.best.validation, self.seconds, query_ids, self.verdict.values, self.verdict.scores)
        return Outcome(fold, self.candidate.name, *found, self.best.history, model)


class _Contest:
    """All candidates on all folds."""

    def __init__(self, desk: Desk, candidates: Sequence[Candidate], tests: Mapping[str, JudgedRows]) -> None:
        self.desk, self.tests, self.setup = desk, tests, desk.setup
        grids = [(candidate, candidate.choices()) for candidate in candidates]
        self.entries = [_Entry(fold, *grid) for fold in range(len(self.setup.folds)) for grid in grids]

    def run(self) -> None:
        """Try all settings, and judge the best of each candidate on each fold."""
        for entry in self.entries:
            self.desk.tally.expect(entry.candidate.name, len(entry.choices))
            for rank, choice in enumerate(entry.choices):
                self._ask(entry, rank, entry.fit(choice))
        for (entry, rank), result in self.desk.results():
            if isinstance(result, Verdict):
                self._settle(entry, result)
                continue
            if isinstance(result, Trial):
                entry.trials[rank] = result
            else:
                settings = entry.choices[rank] if rank < len(entry.choices) else entry.chosen
                entry.failures[rank] = Failure(self._fold(entry), entry.candidate.name, settings, result.error)
            if entry.trials and len(entry.trials) + len(entry.failures) == len(entry.choices):
                entry.choose(self.setup.tune_on)
                assert entry.best is not None
                self._ask(entry, len(entry.choices), Judge(entry.fit(entry.chosen), entry.best.model))

    def _ask(self, entry: _Entry, rank: int, task: Task) -> None:
        self.desk.ask(Asked(entry.candidate.name, (entry, rank), self._record(entry), task))

    def _fold(self, entry: _Entry) -> str:
        return self.setup.folds[entry.fold].name

    def _record(self, entry: _Entry) -> str:
        return f"{self._fold(entry)}.{entry.candidate.name}"

    def _settle(self, entry: _Entry, verdict: Verdict) -> None:
        """Take a verdict, which must be about these test queries and metrics where it is that of an earlier run."""
        fold = self._fold(entry)
        rows = self.tests[fold]
        found = (set(verdict.values), len(verdict.scores), *{len(values) for values in verdict.values.values()})
        if found != (set(self.setup.metrics), len(rows.grades), len(rows.query_ids)):
            assert entry.best is not None
            identity = self.desk.identity(Judge(entry.fit(entry.chosen), entry.best.model))
            raise self.desk.state.wrong(self._record(entry), identity, "it is about other test queries or metrics")
        entry.verdict = verdict
        self.desk.tell(entry.candidate.name, fold, entry.outcome(fold, []))

    def outcomes(self) -> list[Outcome]:
        """Fold by fold, the candidates in their order."""
        judged = [(self._fold(entry), entry) for entry in self.entries if entry.verdict is not None]
        return [entry.outcome(fold, self.tests[fold].query_ids) for fold, entry in judged]

    def failures(self) -> list[Failure]:
        """In the order of the plan, whichever came first."""
        return [failure for entry in self.entries for _, failure in sorted(entry.failures.items())]
