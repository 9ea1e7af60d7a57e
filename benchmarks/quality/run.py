"""`python benchmarks/quality/run.py [--folds 3] [--repeats 1] [set ...]`: how good every method is on every set.

Repeated cross-validation by query; every result is kept in `results/quality` as soon as it is there, and a run that was
ended goes on. `official` runs auto on the five given folds of MQ2008. `page.py` makes the page of what is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from methods import METHODS, NOT_HERE, fit
from sets import SETS, folds_of_mq2008

import luce
from luce.data.groups import Groups

RESULTS = Path(__file__).resolve().parents[1] / "results" / "quality"
METRICS = ("ndcg@10", "map")
OFFICIAL = ("map", "mean_ndcg")


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("sets", nargs="*", help="names of sets, or 'official'; default: all")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--methods", default=",".join(METHODS), help="names with commas between")
    chosen = parser.parse_args(given)
    names, methods = chosen.sets or ["official", *SETS], chosen.methods.split(",")
    unknown = [name for name in [*names, *methods] if name not in SETS and name not in METHODS and name != "official"]
    if unknown:
        print(f"Unknown: {', '.join(unknown)}; there are {', '.join([*SETS, *METHODS])}.", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for repeat in range(chosen.repeats):
        for name in names:
            official() if name == "official" else one_set(name, methods, chosen.folds, repeat)
    if NOT_HERE:
        print(f"Not installed, and left out: {', '.join(sorted(NOT_HERE))}.")
    return 0


def one_set(name: str, methods: list[str], folds: int, repeat: int) -> None:
    """All methods on the folds of one draw; the values of every query are kept method by method."""
    data: Groups | None = None
    for method in methods:
        path = RESULTS / f"{slug(name)}.{slug(method)}.{folds}.{repeat}.json"
        if path.exists():
            continue
        data = SETS[name]() if data is None else data
        fold = np.random.default_rng([repeat, 7]).permutation(data.n_queries) % folds
        values, begun = {metric: np.full(data.n_queries, np.nan) for metric in METRICS}, time.process_time()
        for k in range(folds):
            predict = fit(method, data.take(fold != k), repeat)
            if predict is None:
                break
            test = data.take(fold == k)
            found = luce.evaluate(np.asarray(predict(test), dtype=float), test, list(METRICS)).values
            for metric in METRICS:
                values[metric][fold == k] = found[metric]
        if method in NOT_HERE:
            continue
        keep(path, name, method, folds, repeat, values, time.process_time() - begun)


def keep(path: Path, name: str, method: str, folds: int, repeat: int, values: dict, seconds: float) -> None:
    record = {"set": name, "method": method, "folds": folds, "repeat": repeat, "seconds": round(seconds, 1)}
    # Four digits: a millionth of a mean, and a quarter of the file.
    record["values"] = {m: [None if np.isnan(v) else round(float(v), 4) for v in found] for m, found in values.items()}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record) + "\n")
    part.rename(path)
    means = ", ".join(f"{metric} {np.nanmean(found):.4f}" for metric, found in values.items())
    print(f"{name}: {method}: {means} ({seconds:.0f} s)", flush=True)


def official() -> None:
    """Auto on the given folds of MQ2008 by the official rule, in all ways that the page shows."""
    path = RESULTS / "official.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    ways: dict[str, dict[str, Any]] = {
        "auto": {},
        'auto, budget="best"': {"budget": "best"},
        "auto, metric MeanNDCG": {"metric": luce.metrics.get("mean_ndcg", preset="letor4")},
    }
    for way, settings in ways.items():
        rows = found.setdefault(way, [])
        for train, test in folds_of_mq2008()[len(rows) :]:
            begun = time.process_time()
            model = luce.model("auto", random_state=0, **settings).fit(train)
            seconds = round(time.process_time() - begun, 1)
            rows.append({**luce.evaluate(model, test, list(OFFICIAL), preset="letor4").means, "seconds": seconds})
            path.write_text(json.dumps(found, indent=1) + "\n")
            print("MQ2008, official rule:", way, rows[-1], flush=True)


def slug(name: str) -> str:
    """A name that can be part of a file's.

    >>> slug("few queries, many noise features")
    'few-queries-many-noise-features'
    """
    return "-".join("".join(c if c.isalnum() or c in "._-" else " " for c in name).split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
