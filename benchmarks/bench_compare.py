"""What `luce compare` costs beside the fits themselves, and what workers gain.

Overhead is the CPU time of all that is neither a call of `Ranker.fit` nor the reading of data files, as a share of the
CPU time of the fits: surveying the data, validation, choice, the test queries' metrics, records of finished work,
statistics, tables and files. CPU time, since other work on the machine would count in wall time; everything in one
process. It is measured alone, in runs in which every fit is there already. What reading, and the start of the command
with its imports, add is told in lines of their own.

With `LUCE_DATA` set, the data are the five folds of MQ2008 in that folder; else simulated ones of that size.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from harness import Line

import luce
from luce.data.simulate import simulate
from luce.experiments import Candidate, Fold, compare, find_folds
from luce.experiments.comparison import ModelComparison
from luce.experiments.run_folder import write_results
from luce.metrics import bootstrap_interval, randomisation_test
from luce.metrics.significance import Column, against, board

LINEAR = ("pmop-fd", "ranknet", "listnet", "listmle", "rank-regress")
TREES = ("lambdamart",)
METRICS = ("ndcg@10", "ndcg@1", "map")
QUERIES, FEATURES, FOLDS = 785, 46, 5
REPEATS = 7


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


class Fits:
    """Does every fit once and gives it again in later runs, which are then the comparison's own work alone."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self.seconds, self.turn = 0.0, 0
        self._fit = luce.Ranker.fit

    def __call__(self, ranker: luce.Ranker, *given: Any, **named: Any) -> luce.Ranker:
        if self.turn == len(self.done):
            start = time.process_time()
            self._fit(ranker, *given, **named)
            self.seconds += time.process_time() - start
            self.done.append(dict(vars(ranker)))
        vars(ranker).update(self.done[self.turn])
        self.turn += 1
        return ranker


class Measured(NamedTuple):
    """CPU seconds of reading the folds, of the fits, and of all the rest; wall time of all three."""

    reading: float
    fits: float
    own: float
    wall: float
    result: ModelComparison


def whole(folds: list[Fold], names: tuple[str, ...], out: Path, jobs: int = 1) -> ModelComparison:
    """From the folds to the results on disk."""
    result = compare(folds, [Candidate.named(name) for name in names], METRICS, jobs=jobs, out=out)
    write_results(result, out)
    result.leaderboard()
    return result


def measure(folder: Path, names: tuple[str, ...], scratch: Path) -> Measured:
    """Fits as they are, then the least of several runs in which they take no time."""
    wall, start = time.perf_counter(), time.process_time()
    read = [(fold.name, fold.load()) for fold in find_folds(folder)]
    reading = time.process_time() - start
    folds = [Fold(name, partial(_same, parts)) for name, parts in read]
    fits, own = Fits(), []
    with patch.object(luce.Ranker, "fit", lambda ranker, *given, **named: fits(ranker, *given, **named)):
        result = whole(folds, names, scratch / "first")
        wall = time.perf_counter() - wall
        for i in range(REPEATS):
            fits.turn, start = 0, time.process_time()
            whole(folds, names, scratch / f"again{i}")
            own.append(time.process_time() - start)
    return Measured(reading, fits.seconds, min(own), wall, result)


def _same(parts: Any) -> Any:
    return parts


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
    lines = [Line("load of the machine at the start", os.getloadavg()[0], "")]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        kind, folder = data_folder(scratch)
        _warm_up(folder)
        for names in (LINEAR, (*LINEAR, *TREES)):
            with_trees = "" if names == LINEAR else f" and {len(TREES)} tree"
            place = scratch / str(len(names))
            one = measure(folder, names, place)
            share, unit = 100.0 * one.own / one.fits, f"% of {one.fits:.2f} s"
            what = f"{len(LINEAR)} linear{with_trees} models x {FOLDS} folds, {kind}: overhead"
            lines.append(Line(what, share, unit, goal="under 5 %", met=share < 5.0))
            lines.append(Line("  with reading", 100.0 * (one.own + one.reading) / one.fits, unit))
            if names == LINEAR:
                spent = _command(folder, names, place / "command")
                lines.append(Line("  the whole command, its start included", 100.0 * (spent / one.fits - 1.0), unit))
        start = time.perf_counter()
        whole(find_folds(folder), names, scratch / "two", jobs=2)
        wall = time.perf_counter() - start
        lines.append(Line("the last with 2 workers, their start included", wall, "s", "1 job", one.wall))
        start = time.perf_counter()
        whole(find_folds(folder), names, scratch / "two")
        wall = time.perf_counter() - start
        lines.append(Line("the same again, all fits kept", wall, "s", "1 job", one.wall))
    return [*lines, *_statistics(one.result)]


def _statistics(result: ModelComparison) -> list[Line]:
    """All tests and intervals of a leaderboard together, beside one after the other."""
    best, *others = result.ranked()
    columns = [
        Column(metric, name, result.per_query(name, metric), result.per_query(best, metric))
        for metric in METRICS
        for name in others
    ]
    start = time.perf_counter()
    against(columns, 0)
    board([], {(c.metric, c.model): c.values for c in columns}, 0)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for column in columns:
        randomisation_test(column.values, column.reference)
        bootstrap_interval(column.values, column.reference)
        bootstrap_interval(column.values)
    theirs = time.perf_counter() - start
    return [Line(f"{len(columns)} tests and intervals at once", ours, "s", peer="one by one", theirs=theirs)]
