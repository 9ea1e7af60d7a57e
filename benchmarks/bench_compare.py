"""What `luce compare` costs beside the fits themselves, and what workers gain."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from harness import Line

import luce
from luce.data.simulate import simulate
from luce.experiments import Candidate, compare, find_folds
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


def whole(folder: Path, names: tuple[str, ...], out: Path, jobs: int) -> tuple[float, float, Comparison]:
    """Seconds from the files to the results on disk, those of the fits in them, and the comparison."""
    fits = Fits()
    start = time.perf_counter()
    candidates = [Candidate.named(name) for name in names]
    result = compare(find_folds(folder), candidates, METRICS, jobs=jobs, out=out, watch=fits)
    write_results(result, out, "benchmark")
    return time.perf_counter() - start, fits.seconds, result


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
        for kind, names in (("linear", LINEAR), ("linear and trees", (*LINEAR, *TREES))):
            seconds, fits, result = whole(folder / "data", names, folder / kind, 1)
            share = 100.0 * (seconds - fits) / fits
            what = f"luce compare, {len(names)} {kind} models x {FOLDS} folds ({fits:.1f} s of fits): all else"
            lines.append(Line(what, share, "% of the fits", goal="under 5 %", met=share < 5.0))
        two, _, _ = whole(folder / "data", (*LINEAR, *TREES), folder / "two", 2)
        what = "the same with 2 workers, their start included"
        lines.append(Line(what, two, "s", peer="1 job", theirs=seconds))
        again, _, _ = whole(folder / "data", (*LINEAR, *TREES), folder / "linear and trees", 1)
        lines.append(Line("the same again, all work kept", again, "s", peer="1 job", theirs=seconds))
    return [*lines, *_statistics(result)]


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
