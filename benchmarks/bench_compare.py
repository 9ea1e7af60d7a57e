"""What `luce compare` costs beside the fits themselves, and what workers gain."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import Line

import luce
from luce.data.simulate import simulate
from luce.experiments import Candidate, Fold, compare, find_folds
from luce.experiments.comparison import Comparison
from luce.experiments.results import write_results
from luce.experiments.statistics import Column, against, intervals
from luce.metrics import bootstrap_interval, randomisation_test

LINEAR = ("pmop-fd", "ranknet", "listnet")
TREES = ("lambdamart",)
METRICS = ("ndcg@10", "ndcg@1", "map")
QUERIES, FEATURES, FOLDS = 785, 46, 3


def write_folds(folder: Path) -> None:
    """Text files of the size of MQ2008: each query is a test query once."""
    data = simulate(QUERIES, FEATURES, seed=0)
    part = np.arange(QUERIES) % FOLDS
    for k in range(FOLDS):
        place = folder / f"Fold{k + 1}"
        place.mkdir(parents=True)
        test, valid = part == k, part == (k + 1) % FOLDS
        for name, chosen in (("train", ~(test | valid)), ("vali", valid), ("test", test)):
            luce.write_letor(data.take(chosen), place / f"{name}.txt")


class Fits:
    """Adds up the time of the fits alone."""

    seconds = 0.0

    def __call__(self, tally: object, model: str, fold: str, result: object) -> None:
        self.seconds = sum(row.seconds for row in tally.models.values())  # type: ignore[attr-defined]


class Reading:
    """Adds up the time that folds take to read."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load, self.seconds = load, 0.0

    def __call__(self) -> Any:
        start = time.perf_counter()
        parts = self.load()
        self.seconds += time.perf_counter() - start
        return parts


class Measured(NamedTuple):
    """Seconds from the files to the results on disk, and those of reading and fits in them."""

    seconds: float
    reading: float
    fits: float
    result: Comparison

    @property
    def else_(self) -> float:
        """All that is neither reading nor fits: validation, tests, statistics, files."""
        return self.seconds - self.reading - self.fits


def whole(folder: Path, names: tuple[str, ...], out: Path, jobs: int = 1) -> Measured:
    fits = Fits()
    start = time.perf_counter()
    folds = find_folds(folder)
    readers = [Reading(fold.load) for fold in folds]
    if jobs == 1:
        folds = [Fold(fold.name, reader) for fold, reader in zip(folds, readers, strict=True)]
    candidates = [Candidate.named(name) for name in names]
    result = compare(folds, candidates, METRICS, jobs=jobs, out=out, watch=fits)
    write_results(result, out)
    return Measured(time.perf_counter() - start, sum(reader.seconds for reader in readers), fits.seconds, result)


def _warm_up(folder: Path) -> None:
    """Compile every kernel once."""
    candidates = [Candidate(name, {"max_iter": [2]}) for name in (*LINEAR, *TREES)]
    compare(find_folds(folder)[:1], candidates, METRICS).leaderboard()


def run() -> list[Line]:
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folds(folder / "data")
        _warm_up(folder / "data")
        for kind, names in (("linear", LINEAR), ("linear and tree", (*LINEAR, *TREES))):
            one = whole(folder / "data", names, folder / kind)
            what = f"{len(names)} {kind} models x {FOLDS} folds, all but reading ({one.reading:.1f} s) and fits"
            share = 100.0 * one.else_ / (one.reading + one.fits)
            lines.append(Line(what, share, f"% of {one.reading + one.fits:.1f} s", goal="under 5 %", met=share < 5.0))
        two = whole(folder / "data", (*LINEAR, *TREES), folder / "two", jobs=2)
        lines.append(Line("the same with 2 workers, their start included", two.seconds, "s", "1 job", one.seconds))
        again = whole(folder / "data", (*LINEAR, *TREES), folder / "linear and tree")
        lines.append(Line("the same again, all fits kept", again.seconds, "s", "1 job", one.seconds))
    return [*lines, *_statistics(one.result)]


def _statistics(result: Comparison) -> list[Line]:
    """All tests and intervals of a leaderboard together, beside one after the other."""
    best, *others = result.ranked()
    columns = [
        Column(metric, name, result.per_query(name, metric), result.per_query(best, metric))
        for metric in METRICS
        for name in others
    ]
    start = time.perf_counter()
    against(columns, 0)
    intervals({(c.metric, c.model): c.values for c in columns}, 0)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for column in columns:
        randomisation_test(column.values, column.reference)
        bootstrap_interval(column.values, column.reference)
        bootstrap_interval(column.values)
    theirs = time.perf_counter() - start
    return [Line(f"{len(columns)} tests and intervals at once", ours, "s", peer="one by one", theirs=theirs)]
