"""What `luce compare` costs beside the fits themselves, and what workers gain.

Overhead is the CPU time of all that is neither a call of `Ranker.fit` nor the reading of data files, as a share of the
CPU time of the fits: surveying the data, validation, choice, the test queries' metrics, records of finished work,
statistics, tables and files. CPU time, since other work on the machine would count in wall time; everything in one
process. What reading, and the start of the command with its imports, add is told in lines of their own.

With `LUCE_DATA` set, the data are the five folds of MQ2008 in that folder; else simulated ones of that size.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from harness import Line

import luce
from luce.data.simulate import simulate
from luce.experiments import Candidate, Fold, compare, find_folds
from luce.experiments.comparison import Comparison
from luce.experiments.results import write_results
from luce.experiments.statistics import Column, against, intervals
from luce.metrics import bootstrap_interval, randomisation_test

LINEAR = ("pmop-fd", "ranknet", "listnet", "listmle", "rank-regress")
TREES = ("lambdamart",)
METRICS = ("ndcg@10", "ndcg@1", "map")
QUERIES, FEATURES, FOLDS = 785, 46, 5


def data_folder(scratch: Path) -> tuple[str, Path]:
    """MQ2008 where it is at hand, else text files of its size: each query is a test query once."""
    real = Path(os.environ.get("LUCE_DATA", "")) / "MQ2008"
    if os.environ.get("LUCE_DATA") and real.is_dir():
        return "MQ2008", real
    data = simulate(QUERIES, FEATURES, seed=0)
    part = np.arange(QUERIES) % FOLDS
    for k in range(FOLDS):
        place = scratch / "data" / f"Fold{k + 1}"
        place.mkdir(parents=True)
        test, valid = part == k, part == (k + 1) % FOLDS
        for name, chosen in (("train", ~(test | valid)), ("vali", valid), ("test", test)):
            luce.write_letor(data.take(chosen), place / f"{name}.txt")
    return "simulated", scratch / "data"


class Timed:
    """Adds up the CPU time of the calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *given: Any, **named: Any) -> Any:
        start = time.process_time()
        result = self.function(*given, **named)
        self.seconds += time.process_time() - start
        return result


class Measured(NamedTuple):
    """CPU seconds from the files to the results on disk, those of reading and fits in them, and wall time."""

    cpu: float
    reading: float
    fits: float
    wall: float
    result: Comparison

    @property
    def own(self) -> float:
        """All that is neither reading nor fits."""
        return self.cpu - self.reading - self.fits


def whole(folder: Path, names: tuple[str, ...], out: Path, jobs: int = 1) -> Measured:
    fit = Timed(luce.Ranker.fit)
    start, cpu = time.perf_counter(), time.process_time()
    folds = find_folds(folder)
    readers = [Timed(fold.load) for fold in folds]
    if jobs == 1:
        folds = [Fold(fold.name, reader) for fold, reader in zip(folds, readers, strict=True)]
    candidates = [Candidate.named(name) for name in names]
    with patch.object(luce.Ranker, "fit", lambda self, *given, **named: fit(self, *given, **named)):
        result = compare(folds, candidates, METRICS, jobs=jobs, out=out)
    write_results(result, out)
    result.leaderboard()
    spent = time.process_time() - cpu
    reading = sum(reader.seconds for reader in readers)
    return Measured(spent, reading, fit.seconds, time.perf_counter() - start, result)


def quietest(folder: Path, names: tuple[str, ...], out: Path, repeats: int) -> Measured:
    """Of several runs the one that took least CPU time."""
    runs = [whole(folder, names, out / str(i)) for i in range(repeats)]
    return min(runs, key=lambda run: run.cpu)


def _warm_up(folder: Path) -> None:
    """Compile every kernel once."""
    candidates = [Candidate(name, {"max_iter": [2]}) for name in (*LINEAR, *TREES)]
    compare(find_folds(folder)[:1], candidates, METRICS).leaderboard()


def _command(folder: Path, names: tuple[str, ...], out: Path) -> float:
    """CPU seconds of the whole command, its start and imports included."""
    call = "from luce.cli.app import main; main()"
    given = ["compare", str(folder), "--models", ",".join(names), "--out", str(out), "--jobs", "1", "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", call, *given], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run() -> list[Line]:
    lines = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        kind, folder = data_folder(scratch)
        _warm_up(folder)
        for names, repeats in ((LINEAR, 5), ((*LINEAR, *TREES), 2)):
            what = (
                f"{len(LINEAR)} linear{'' if names == LINEAR else f' and {len(TREES)} tree'} models x 5 folds, {kind}"
            )
            one = quietest(folder, names, scratch / str(len(names)), repeats)
            share = 100.0 * one.own / one.fits
            unit = f"% of {one.fits:.2f} s"
            lines.append(Line(f"{what}: overhead", share, unit, goal="under 5 %", met=share < 5.0))
            lines.append(Line("  with reading", 100.0 * (one.own + one.reading) / one.fits, unit))
            spent = _command(folder, names, scratch / f"command{len(names)}")
            lines.append(
                Line("  with reading and the start of the command", 100.0 * (spent - one.fits) / one.fits, unit)
            )
        two = whole(folder, names, scratch / "two", jobs=2)
        lines.append(Line("the last with 2 workers, their start included", two.wall, "s", "1 job", one.wall))
        again = whole(folder, names, scratch / "two")
        lines.append(Line("the same again, all fits kept", again.wall, "s", "1 job", one.wall))
        lines.append(Line("load of the machine at the start", load, ""))
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
