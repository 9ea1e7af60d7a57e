"""Compare models over folds: tune on validation, evaluate on test, keep every query's value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luce.data.trec import document_names
from luce.errors import DataError, SettingError
from luce.experiments.comparison import Failure, JudgedRows, ModelComparison, Outcome
from luce.experiments.folds import Fold, card, data_fingerprint, together
from luce.experiments.pool import make_pool
from luce.experiments.state import State
from luce.experiments.work import SCORES_ONLY, Bench, Failed, Fit, Judge, Setup, Tally, Trial, Verdict, Watch, is_better
from luce.metrics.catalog import get
from luce.storage import make_folder
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
    def named(cls, name: str) -> Candidate:
        """A complete system with its own grid."""
        return cls(name, settings_grid(name))

    def choices(self) -> list[dict[str, Any]]:
        """All settings of the grid, in a fixed order."""
        if not isinstance(self.grid, Mapping):
            return [dict(setting) for setting in self.grid]
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    def fit(self, fold: int, choice: Mapping[str, Any]) -> Fit:
        """The piece of work of one setting on one fold."""
        return Fit(fold, self.system or self.name, {**self.settings, **choice})


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
        "folds": [fold.name for fold in folds],
        "notes": sorted({fold.note for fold in folds if fold.note}),
        "metrics": wanted,
        "tune_on": setup.tune_on,
        "seed": seed,
        "conventions": conventions,
        "models": [c.name for c in candidates],
        "grids": {c.name: c.choices() for c in candidates},
        "fixed": {c.name: dict(c.settings) for c in candidates},
        **(notes or {}),
    }
    state = State(None if out is None else make_folder(Path(out)) / "state", _problem(settings, prints))
    contest = _Contest(setup, candidates, tests, state, Tally(setup.tune_on), report, watch)
    contest.run(bench, jobs)
    return ModelComparison(contest.outcomes(), wanted, settings, contest.failures(), cards, tests)


def _spelled(system: Any) -> str:
    """What tells one system from another in the state of a comparison."""
    return system if isinstance(system, str) else f"{type(system).__module__}.{system!r}"


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


def _problem(settings: Mapping[str, Any], prints: list[list[str]]) -> dict[str, Any]:
    """What all finished work depends on; models and metrics may be added later."""
    from luce import __version__

    shared = {name: settings[name] for name in ("folds", "tune_on", "seed", "conventions")}
    return {"luce": __version__, **shared, "data": prints}


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
        tests[fold.name] = JudgedRows(parts[2].offsets, ids, document_names(parts[2]), parts[2].y)
        prints.append([data_fingerprint(part) for part in parts])
    counted = list(cards["folds"].values())
    if len(counted) == 1:
        cards["overall"] = {"covers": "train, valid and test", **together(list(counted[0].values()))}
    else:
        cards["overall"] = {
            "covers": f"the test parts of {len(counted)} folds",
            **together([parts["test"] for parts in counted]),
        }
    return cards, tests, prints


Place = tuple[int, int]
"""Number of a fold and of a candidate."""


@dataclass
class _Entry:
    """One candidate on one fold, while its settings are tried."""

    open: int
    best: Trial | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    rank: int = 0
    seconds: list[float] = field(default_factory=list)
    verdict: Verdict | None = None

    def consider(self, trial: Trial, rank: int, choice: dict[str, Any], metric: str) -> None:
        """Keep the better one; of equals, the one that comes first in the grid, whichever ends first."""
        if self.best is None or is_better(trial.validation, self.best.validation, metric):
            better = True
        else:
            better = rank < self.rank and not is_better(self.best.validation, trial.validation, metric)
        if better:
            self.best, self.rank, self.chosen = trial, rank, choice
        self.seconds.append(trial.seconds)


class _Contest:
    """All candidates on all folds: what is done, what is to be done."""

    def __init__(
        self,
        setup: Setup,
        candidates: Sequence[Candidate],
        tests: Mapping[str, JudgedRows],
        state: State,
        tally: Tally,
        report: Report | None,
        watch: Watch | None,
    ) -> None:
        self.setup, self.candidates, self.tests, self.state, self.tally = setup, candidates, tests, state, tally
        self.report, self.watch = report, watch
        self.choices = [candidate.choices() for candidate in candidates]
        self.failed: list[tuple[Place, int, Failure]] = []
        self.entries: dict[Place, _Entry] = {}

    def run(self, bench: Bench, jobs: int | None) -> None:
        """Do what is not done yet."""
        with make_pool(bench, jobs) as self.pool:
            for place in itertools.product(range(len(self.setup.folds)), range(len(self.candidates))):
                fits = len(self._choices(place))
                self.tally.expect(self._candidate(place).name, fits)
                self.entries[place] = _Entry(open=fits)
                for rank in range(fits):
                    self._plan(place, rank)
            for (place, rank), result in self.pool.results(self._started):
                self._take(place, rank, result)

    def _candidate(self, place: Place) -> Candidate:
        return self.candidates[place[1]]

    def _choices(self, place: Place) -> list[dict[str, Any]]:
        return self.choices[place[1]]

    def _fold(self, place: Place) -> str:
        return self.setup.folds[place[0]].name

    def _label(self, place: Place) -> str:
        return f"{self._fold(place)}.{self._candidate(place).name}"

    def _identity(self, place: Place, rank: int | None) -> str:
        """Of the trial of a setting; without one, of the verdict on the chosen setting."""
        candidate, entry = self._candidate(place), self.entries[place]
        chosen = entry.chosen if rank is None else self._choices(place)[rank]
        fit = candidate.fit(place[0], chosen)
        facts = [self._fold(place), _spelled(fit.system), dict(fit.settings), fit.share]
        return self.state.identity(facts if rank is not None else [*facts, list(self.setup.metrics)])

    def _plan(self, place: Place, rank: int) -> None:
        kept = self.state.get(Trial, self._label(place), self._identity(place, rank))
        if kept is not None:
            self._note(place, rank, kept, kept=True)
        else:
            self.pool.submit((place, rank), self._candidate(place).fit(place[0], self._choices(place)[rank]))

    def _started(self, key: tuple[Place, int | None]) -> None:
        place, rank = key
        if rank is None:
            return
        name, fold = self._candidate(place).name, self._fold(place)
        self.tally.models[name].fold, self.tally.jobs = fold, self.pool.jobs
        if self.report and rank == 0:
            self.report(fold, name, f"{len(self._choices(place))} settings")
        if self.watch:
            self.watch(self.tally, name, fold, None)

    def _take(self, place: Place, rank: int | None, result: Trial | Verdict | Failed) -> None:
        if isinstance(result, Verdict):
            self.state.put(self._label(place), self._identity(place, None), result)
            self._settle(place, result)
        elif rank is None:
            assert isinstance(result, Failed)
            self._fail(place, None, result)
        else:
            if isinstance(result, Trial):
                self.state.put(self._label(place), self._identity(place, rank), result)
            self._note(place, rank, result)

    def _note(self, place: Place, rank: int, result: Trial | Failed, *, kept: bool = False) -> None:
        entry, candidate = self.entries[place], self._candidate(place)
        choice = self._choices(place)[rank]
        entry.open -= 1
        self.tally.note(candidate.name, self._fold(place), result, kept=kept)
        if isinstance(result, Failed):
            self._fail(place, rank, result)
        else:
            entry.consider(result, rank, choice, self.setup.tune_on)
            if self.watch:
                self.watch(self.tally, candidate.name, self._fold(place), result)
        if entry.open == 0 and entry.best is not None:
            verdict = self._kept_verdict(place)
            if verdict is not None:
                self._settle(place, verdict)
            else:
                self.pool.submit((place, None), Judge(place[0], entry.best.model), first=True)

    def _kept_verdict(self, place: Place) -> Verdict | None:
        """The verdict of an earlier run, if it is about these test queries and metrics."""
        label, identity = self._label(place), self._identity(place, None)
        verdict = self.state.get(Verdict, label, identity)
        if verdict is not None:
            rows = self.tests[self._fold(place)]
            found = (set(verdict.values), len(verdict.scores), *{len(values) for values in verdict.values.values()})
            if found != (set(self.setup.metrics), len(rows.grades), len(rows.query_ids)):
                raise self.state.wrong(label, identity, "it is about other test queries or metrics")
        return verdict

    def _fail(self, place: Place, rank: int | None, result: Failed) -> None:
        name, fold, choices = self._candidate(place).name, self._fold(place), self._choices(place)
        settings = self.entries[place].chosen if rank is None else choices[rank]
        order = len(choices) if rank is None else rank
        self.failed.append((place, order, Failure(fold, name, settings, result.error)))
        if self.watch:
            self.watch(self.tally, name, fold, result)

    def _settle(self, place: Place, verdict: Verdict) -> None:
        self.entries[place].verdict = verdict
        if self.watch:
            self.watch(self.tally, self._candidate(place).name, self._fold(place), self._outcome(place, []))

    def _outcome(self, place: Place, query_ids: list[str]) -> Outcome:
        entry = self.entries[place]
        assert entry.best is not None
        assert entry.verdict is not None
        return Outcome(
            self._fold(place),
            self._candidate(place).name,
            entry.chosen,
            entry.best.validation,
            float(np.median(entry.seconds)),
            query_ids,
            entry.verdict.values,
            entry.verdict.scores,
            entry.best.history,
            None if SCORES_ONLY in entry.best.model[0] else entry.best.model,
        )

    def outcomes(self) -> list[Outcome]:
        """Fold by fold, the candidates in their order."""
        return [
            self._outcome(place, self.tests[self._fold(place)].query_ids)
            for place, entry in self.entries.items()
            if entry.verdict is not None
        ]

    def failures(self) -> list[Failure]:
        """In the order of the plan, whichever came first."""
        return [failure for _, _, failure in sorted(self.failed, key=lambda entry: entry[:2])]
