"""`python benchmarks/quality/coverage.py [--draws 12] [set ...]`: whether what auto says holds on queries it never saw.

A random half of the queries is learned from, by two members. What the blend expects of itself is compared with what it
is worth on the other half, and its chances (of the better of two, of a tie, of the first five) with what happened
there. Simulated families are drawn anew for every half. Every draw is kept in `results/quality` as soon as it is there,
and a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import inspect
import json
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from run import RESULTS, slug
from sets import SETS

import luce
from luce.data.groups import Groups

MEMBERS = ["luce-linear", "regression"]
METRIC, TOP, BINS = "ndcg@10", 5, 10
NAMES = (
    "few queries, many noise features",
    "linear with ties",
    "interactions, long lists",
    "lambdarank-example",
    "TTI-2017",
    "MQ2008",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("sets", nargs="*", help="names of sets; default: three simulated families and three real sets")
    parser.add_argument("--draws", type=int, default=12)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.sets or NAMES:
        path = RESULTS / f"coverage.{slug(name)}.json"
        rows = json.loads(path.read_text()) if path.exists() else []
        for draw in range(len(rows), given.draws):
            rows.append({"set": name, **one(_drawn(name, draw), draw)})
            path.write_text(json.dumps(rows, indent=1) + "\n")
            print(rows[-1], flush=True)


def _drawn(name: str, draw: int) -> Groups:
    """A real set, or a new one of its family."""
    make = SETS[name]
    return make(seed=1000 + draw) if "seed" in inspect.signature(make).parameters else make()  # type: ignore[call-arg]


def one(data: Groups, draw: int) -> dict[str, Any]:
    """What is expected, and what comes, of one half."""
    half = np.random.default_rng([draw, 5]).permutation(data.n_queries) % 2 == 0
    model = luce.model("auto", members=MEMBERS, random_state=draw).fit(data.take(half))
    rest = data.take(~half)
    values = luce.evaluate(model, rest, [METRIC]).values[METRIC]
    values = values[~np.isnan(values)]
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    found = {**model.history_["blend"]["estimate"], "worth": float(values.mean()), "error": error}
    return {**found, "chances": {what: _off(*pair) for what, pair in _chances(model, rest, draw).items()}}


def _chances(model: Any, rest: Groups, draw: int) -> dict[str, tuple[Any, Any]]:
    """What was said and what happened, of pairs, ties and places; those that are tied at the last place are drawn."""
    said: dict[str, list[Any]] = {"better": [], "tie": [], "top 5": []}
    happened: dict[str, list[Any]] = {"better": [], "tie": [], "top 5": []}
    top, rng = model.topk_probability(rest, TOP), np.random.default_rng([draw, 6])
    for pairs, (a, b) in zip(model.pairs(rest), pairwise(rest.offsets), strict=True):
        upper, y = np.triu_indices(b - a, 1), rest.y[a:b]
        said["better"].append(pairs.before[upper])
        happened["better"].append((y[:, None] > y[None, :])[upper])
        said["tie"].append(pairs.tie[upper])
        happened["tie"].append((y[:, None] == y[None, :])[upper])
        if b - a > TOP:
            said["top 5"].append(top[a:b])
            happened["top 5"].append(np.isin(np.arange(b - a), np.lexsort((rng.random(b - a), -y))[:TOP]))
    return {what: (np.concatenate(said[what]), np.concatenate(happened[what])) for what in said}


def _off(said: Any, happened: Any) -> float:
    """How far chances are from how often it happened: the mean over tenths of the chances, each as often as it is."""
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    parts = [place == i for i in range(BINS)]
    return float(sum(abs(said[p].mean() - happened[p].mean()) * p.mean() for p in parts if p.any()))


if __name__ == "__main__":
    main()
